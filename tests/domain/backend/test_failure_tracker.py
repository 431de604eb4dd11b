"""The failure tracker: what counts, until when. Facts: ExecutorFailureTracker 4.3.0, quirk 71."""

from __future__ import annotations

import pytest

from podtide.domain.backend.failure_tracker import NO_FAILURES, Failures
from podtide.domain.base.units import NEVER


def failures(*moments: int) -> Failures:
    tracked = NO_FAILURES
    for moment in moments:
        tracked = tracked.registered(moment)
    return tracked


@pytest.mark.parametrize(
    ("moments", "window", "now", "count"),
    [
        ((), 1_000, 0, 0),
        ((0, 0, 0), 1_000, 0, 3),
        ((0, 500), 1_000, 1_000, 2),  # exactly as old as the window: still counts
        ((0, 500), 1_000, 1_001, 1),
        ((0, 500), 1_000, 1_501, 0),
        ((0, 500), None, 10**12, 2),
        ((0, 500), 0, 10**12, 2),  # no window either
        ((0, 500), -1, 10**12, 2),
    ],
)
def test_what_counts(moments: tuple[int, ...], window: int | None, now: int, count: int) -> None:
    assert failures(*moments).within(window, now).count == count


def test_failures_of_one_moment_share_an_entry() -> None:
    tracked = failures(7, 7, 7, 8)
    assert list(tracked.moments) == [(7, 3), (8, 1)]
    assert tracked.registered(8, 5).count == 9


@pytest.mark.parametrize(
    ("moments", "window", "change"), [((), 10, NEVER), ((5, 6), None, NEVER), ((5, 6), 10, 16), ((5,), 0, NEVER)]
)
def test_when_fewer_count(moments: tuple[int, ...], window: int | None, change: int) -> None:
    tracked = failures(*moments)
    assert tracked.next_change(window) == change
    if change != NEVER:
        assert tracked.within(window, change - 1).count == tracked.count
        assert tracked.within(window, change).count < tracked.count
