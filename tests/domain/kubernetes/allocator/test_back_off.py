"""Back-off after start-up failures: when it begins, how it slows down, what ends it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.kubernetes.allocator.back_off import QUIET, Slowdown
from podtide.domain.protocol.allocation_policies import BackOff

POLICY = BackOff(failures=2, window_ms=1_000, first_ms=100, longest_ms=350, probe=1)


def after(*times: int, policy: BackOff = POLICY) -> Slowdown:
    slowdown = QUIET
    for at in times:
        slowdown = slowdown.failed(policy, at)
    return slowdown


@pytest.mark.parametrize(
    ("times", "until"),
    [
        ((), None),
        ((0, 0), None),
        ((0, 0, 0), 100),
        ((0, 500, 999), 1_099),
        ((0, 500, 1_000), None),  # the first has left the window
        ((0, 500, 1_000, 1_400), 1_500),
        ((0, 0, 0, 50), 100),  # what fails later is the next probe's to say
    ],
)
def test_more_failures_than_the_policy_allows_begin_it(times: tuple[int, ...], until: int | None) -> None:
    assert after(*times).until == until


def test_each_probe_doubles_the_wait_up_to_the_longest() -> None:
    slowdown = after(0, 0, 0)
    waits = []
    for _ in range(4):
        assert slowdown.until is not None
        at = slowdown.until + 7
        slowdown = slowdown.tried(POLICY, at)
        assert slowdown.until is not None
        waits.append(slowdown.until - at)
    assert waits == [200, 350, 350, 350]


def test_its_numbers() -> None:
    assert after(0, 0, 0).facts() == {"failures": 3, "until_ms": 100, "delay_ms": 100}


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 400), max_size=60), st.builds(BackOff, st.integers(0, 5), st.integers(1, 2_000)))
def test_it_begins_exactly_when_the_window_holds_too_many(gaps: list[int], policy: BackOff) -> None:
    slowdown, times, now = QUIET, [], 0
    for gap in gaps:
        now += gap
        times.append(now)
        slowdown = slowdown.failed(policy, now)
        assert len(slowdown.failures) <= policy.failures + 1
        if sum(time > now - policy.window_ms for time in times) > policy.failures:
            assert slowdown.until == now + policy.first_ms
            return
        assert slowdown.until is None
