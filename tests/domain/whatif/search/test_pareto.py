"""Frontiers and fronts against their definitions, by brute force."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podtide.domain.whatif.search.pareto import ParetoPoint, frontier, fronts, spread
from tests.support.search_play import dominates

POINTS = st.lists(st.builds(ParetoPoint, st.integers(0, 9).map(float), st.integers(0, 9).map(float)), max_size=40)


def peeled(points: list[ParetoPoint]) -> list[int]:
    """Ranks by peeling: whoever is dominated by nobody that is left."""
    ranks = [-1] * len(points)
    rank = 0
    while -1 in ranks:
        left = [at for at, known in enumerate(ranks) if known == -1]
        for at in [at for at in left if not any(dominates(points[other], points[at]) for other in left)]:
            ranks[at] = rank
        rank += 1
    return ranks


@pytest.mark.parametrize(
    ("one", "other", "better"),
    [((1, 1), (2, 2), True), ((1, 2), (1, 3), True), ((1, 2), (1, 2), False), ((1, 3), (2, 1), False)],
)
def test_domination(one: tuple[float, float], other: tuple[float, float], better: bool) -> None:
    assert dominates(ParetoPoint(*one), ParetoPoint(*other)) is better
    assert not dominates(ParetoPoint(*other), ParetoPoint(*one))


@given(POINTS)
def test_nobody_dominates_the_frontier_and_it_holds_every_such_point(points: list[ParetoPoint]) -> None:
    found = frontier(points)
    assert {points[at] for at in found} == {one for one in points if not any(dominates(o, one) for o in points)}


@given(POINTS)
def test_time_rises_and_price_falls_along_the_frontier(points: list[ParetoPoint]) -> None:
    row = [points[at] for at in frontier(points)]
    assert all(a.time < b.time and a.price > b.price for a, b in pairwise(row))


@given(POINTS)
def test_fronts_are_what_peeling_gives(points: list[ParetoPoint]) -> None:
    assert list(fronts(points)) == peeled(points)


@given(st.integers(0, 60), st.integers(1, 20))
def test_a_spread_keeps_the_ends_and_the_order(length: int, most: int) -> None:
    chosen = spread(range(length), most)
    assert len(chosen) == min(length, most)
    assert list(chosen) == sorted(set(chosen))
    if length and most > 1:
        assert (chosen[0], chosen[-1]) == (0, length - 1)
