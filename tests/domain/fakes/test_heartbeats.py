"""When an executor sent its last heartbeat."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.fakes.heartbeats import last_heartbeat

S = 1_000


@pytest.mark.parametrize(
    ("since", "until", "share", "last"),
    [
        (0, 0, 0.0, 0),
        (0, 9_999, 0.0, 0),  # the first one comes after an interval, and up to two
        (0, 10 * S, 0.0, 10 * S),
        (0, 15 * S, 0.5, 15 * S),
        (0, 14_999, 0.5, 0),
        (7 * S, 100 * S, 0.5, 92 * S),
        (7 * S, 101_999, 0.5, 92 * S),
        (7 * S, 102 * S, 0.5, 102 * S),
    ],
)
def test_the_last_heartbeat(since: int, until: int, share: float, last: int) -> None:
    assert last_heartbeat(since, until, 10 * S, share) == last


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-5, 10**5), st.floats(0, 1, exclude_max=True))
def test_it_is_not_before_the_first_and_not_longer_ago_than_two_intervals(
    since: int, lasted: int, interval: int, share: float
) -> None:
    last = last_heartbeat(since, since + lasted, interval, share)
    assert since <= last <= since + lasted
    assert since + lasted - last < 2 * max(1, interval)
