"""Time against money: which points are beaten in both, and which are worth a choice.

A ``ParetoPoint`` is a pair of which less is better in both: time and price. One point *dominates* another when it is no
worse in both and better in one; the *frontier* are the points that nobody dominates, of equal points the first. Ordered
by time, the price falls along it: whoever wants to pay less has to wait longer. ``fronts`` peels one frontier after the
other off, which ranks all points. All of it sorts once and walks once (a front each in ``fronts``); nothing compares
every pair.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class ParetoPoint(NamedTuple):
    """What a config takes: ``time`` and ``price``, each in a unit that all points share."""

    time: float
    price: float


def frontier(points: Sequence[ParetoPoint]) -> tuple[int, ...]:
    """The places of the points that nobody dominates, by rising time (and so by falling price); of equal ones the first."""
    found: list[int] = []
    cheapest = float("inf")
    for place in sorted(range(len(points)), key=lambda place: (points[place], place)):
        if points[place].price < cheapest:
            cheapest = points[place].price
            found.append(place)
    return tuple(found)


def fronts(points: Sequence[ParetoPoint]) -> tuple[int, ...]:
    """The rank of each point: 0 on the frontier, 1 on the frontier of the rest, and so on; equal points share a rank.

    In order of time, a point belongs to the first front whose cheapest point so far does not dominate it; the cheapest
    prices never fall from front to front, so that front is found by bisection (n log n in all).
    """
    ranks = [0] * len(points)
    cheapest: list[float] = []  # of each front so far, rising
    before: ParetoPoint | None = None
    rank = 0
    for place in sorted(range(len(points)), key=lambda place: points[place]):
        point = points[place]
        if point != before:
            # A front whose cheapest costs as much or less, and came no later, dominates.
            rank = bisect_right(cheapest, point.price)
            if rank == len(cheapest):
                cheapest.append(point.price)
            else:
                cheapest[rank] = point.price
        ranks[place], before = rank, point
    return tuple(ranks)


def spread(places: Sequence[int], most: int) -> tuple[int, ...]:
    """At most ``most`` of a row, its ends among them, the others evenly between them."""
    if len(places) <= most:
        return tuple(places)
    if most <= 1:
        return tuple(places[:most])
    last = len(places) - 1
    return tuple(places[(step * last * 2 + (most - 1)) // ((most - 1) * 2)] for step in range(most))
