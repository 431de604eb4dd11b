"""Checks that the descriptions of all fake clusters share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, assert_never

from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.fakes.windows import Window

NODES_MAX: Final = 100_000
"""More nodes than any cluster has: a bound on what a description can make a cluster hold."""


RATE: Final = "a rate from 0 to 3600000 an hour (one a millisecond)"


class Problems(list[tuple[str, str]]):
    """What cannot be in a description: (the path of its key in a cluster file, what was expected)."""

    def expect(self, holds: bool, where: str, what: str) -> None:
        """Take note where something does not hold."""
        if not holds:
            self.append((where, what))


Expect: TypeAlias = Callable[[bool, str, str], None]
"""``Problems.expect``."""


def refuse(problems: Sequence[tuple[str, str]], shown_max: int | None = None) -> None:
    """Raise ValueError for what has problems."""
    if problems:
        raise ValueError("; ".join(f"{where}: expected {what}" for where, what in problems[:shown_max]))


def check_window(window: Window, where: str, expect: Expect) -> None:
    """What a time must be like."""
    until, every = window.until_ms, window.every_ms
    expect(until is None or until > window.from_ms, f"{where}.until", "later than from")
    expect(every is None or until is not None, f"{where}.every", "with an until")
    if every is not None and until is not None:
        expect(every >= until - window.from_ms > 0, f"{where}.every", "at least as long as from from to until")


def delay_problem(delay: Delay) -> str | None:
    """What was expected of a distribution of durations; None where it is one."""
    match delay:
        case Constant(ms):
            return None if 0 <= ms <= DELAY_MAX else "at most ten years"
        case Uniform(low, high):
            return None if 0 <= low <= high <= DELAY_MAX else "from no longer than to"
        case Exponential(mean):
            return None if 0 <= mean <= DELAY_MAX else "a mean of at most ten years"
        case LogNormal(median, p90):
            return None if 0 < median <= p90 <= DELAY_MAX else "a median of more than 0, and a p90 no shorter"
        case Quantiles(points):
            rising = all(p < q and a <= b for (p, a), (q, b) in pairwise(points))
            fine = bool(points) and rising and all(0 <= p <= 100 and 0 <= ms <= DELAY_MAX for p, ms in points)
            return None if fine else "percents from 0 to 100, and durations that rise with them"
        case _:
            assert_never(delay)


def check_delay(delay: Delay, where: str, expect: Expect) -> None:
    """What a distribution of durations must be like."""
    if isinstance(delay, Quantiles):
        points = delay.points
        rising = all(p < q and a <= b for (p, a), (q, b) in pairwise(points))
        expect(bool(points) and rising, where, "percents, and durations that rise with them")
        expect(all(0 <= p <= 100 and 0 <= ms <= DELAY_MAX for p, ms in points), where, "percents from 0 to 100")
    else:
        problem = delay_problem(delay)
        expect(problem is None, where, problem or "")
