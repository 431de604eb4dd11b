"""When executors were asked for: requests answered in order, taken back, made again for a loss, and the log's own word."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.recorded.request_times import OLDEST_MS, Registration, Target, believed, request_times

P = ProfileId(0)


def target(at: Millis, wanted: int, profile: int = 0) -> Target:
    return Target(at, {ProfileId(profile): wanted})


def came(at: Millis, gone: Millis | None = None, *, lost: bool = False, hint: Millis | None = None) -> Registration:
    return Registration(P, at, gone, lost, hint)


def numbered(*lives: tuple[int, Millis]) -> list[Registration]:
    """Executors with these numbers, in the order of their registration."""
    return [came(at)._replace(number=number) for number, at in lives]


def asked(
    targets: list[Target], executors: list[Registration], ready: Millis = 0, *, at_once: bool = False
) -> list[Millis | None]:
    return request_times(targets, executors, ready, at_once=at_once)


def test_the_first_target_is_asked_for_when_the_driver_is_ready() -> None:
    assert asked([target(0, 2)], [came(3_000), came(3_500)], ready=700) == [700, 700]


def test_what_is_there_or_on_its_way_is_not_asked_for_again() -> None:
    targets = [target(1_000, 2), target(9_000, 1), target(10_000, 3)]
    assert asked(targets, [came(4_000), came(5_000), came(12_000)]) == [1_000, 1_000, 10_000]


@pytest.mark.parametrize(("lost", "time"), [(True, 20_000), (False, None)])
def test_only_a_lost_executor_is_asked_for_again(lost: bool, time: Millis | None) -> None:
    assert asked([target(1_000, 1)], [came(4_000, 20_000, lost=lost), came(25_000)]) == [1_000, time]


@pytest.mark.parametrize(("at_once", "time"), [(True, 1_000), (False, 3_000)])
def test_a_request_taken_back_comes_all_the_same_where_executors_start_at_once(at_once: bool, time: Millis) -> None:
    targets = [target(1_000, 2), target(2_000, 1), target(3_000, 2)]
    assert asked(targets, [came(5_000), came(6_000)], at_once=at_once) == [1_000, time]


def test_a_request_taken_back_too_late_is_still_the_reason() -> None:
    assert asked([target(1_000, 2), target(2_000, 0)], [came(2_100), came(2_200), came(2_300)]) == [1_000, 1_000, None]


@pytest.mark.parametrize(
    ("lives", "times"),
    [
        pytest.param([(1, 5_000), (0, 8_000)], [2_000, 1_000], id="the second one overtook the first"),
        pytest.param([(1, 1_500), (0, 8_000)], [1_000, 2_000], id="it came before the second request"),
        pytest.param([(7, 5_000), (9, 8_000)], [1_000, 2_000], id="in their order, with gaps"),
        pytest.param([(10, 5_000), (9, 8_000)], [2_000, 1_000], id="numbers, not texts"),
    ],
)
def test_of_those_under_way_the_lower_number_was_asked_for_first(
    lives: list[tuple[int, Millis]], times: list[Millis]
) -> None:
    assert asked([target(1_000, 1), target(2_000, 2)], numbered(*lives)) == times


def test_without_a_number_of_each_the_first_to_come_was_asked_for_first() -> None:
    first, second = numbered((1, 5_000), (0, 8_000))
    targets = [target(1_000, 1), target(2_000, 2)]
    assert asked(targets, [first, second._replace(number=None)]) == [1_000, 2_000]
    # an executor that nobody asked for has no time, whatever its number is
    assert asked(targets, [*numbered((5, 5_000), (4, 8_000), (3, 9_000))]) == [2_000, 1_000, None]


@given(
    st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 20)), max_size=20),
    st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 30)), max_size=30),
)
def test_numbers_exchange_times_and_nothing_else(moves: list[tuple[int, int]], lives: list[tuple[int, int]]) -> None:
    targets = [target(at, wanted) for at, wanted in sorted(moves)]
    executors = numbered(*((number, at) for at, number in sorted(lives)))
    before = asked(targets, [one._replace(number=None) for one in executors])
    after = asked(targets, executors)
    assert sorted(at for at in before if at is not None) == sorted(at for at in after if at is not None)
    known = [(at, one) for at, one in zip(after, executors, strict=True) if at is not None]
    assert all(at <= one.added_ms for at, one in known)
    for at, one in known:
        for later, other in known:
            if later > at and (one.number or 0) > (other.number or 0):
                assert one.added_ms < later  # it was there before the other was asked for


@pytest.mark.parametrize(
    ("inferred", "hint", "added", "time"),
    [
        (5_000, None, 9_000, 5_000),
        (5_000, 4_700, 9_000, 4_700),  # the exacter one
        (5_000, 1_000, 9_000, 5_000),  # too far off
        (5_000, 9_500, 9_000, 5_000),  # after the registration
        (None, 6_000, 9_000, 6_000),
        (None, 100, 9_000, None),  # before the driver was ready
        (None, 2_000, 2_001 + OLDEST_MS, None),  # too old
        (9_500, None, 9_000, 9_000),  # never after the registration
        (1_000, 800, 9_000, 1_000),  # never before the driver was ready
        (None, None, 9_000, None),
    ],
)
def test_what_the_log_says_is_a_hint(
    inferred: Millis | None, hint: Millis | None, added: Millis, time: Millis | None
) -> None:
    assert believed(inferred, hint, added, ready_ms=1_000) == time


_times = st.integers(0, 50_000)


@given(
    st.lists(st.tuples(_times, st.integers(0, 20)), max_size=30),
    st.lists(st.tuples(_times, st.none() | st.integers(1, 20_000), st.booleans()), max_size=30),
    st.booleans(),
)
def test_nobody_is_asked_for_after_it_came(
    moves: list[tuple[int, int]], lives: list[tuple[int, int | None, bool]], at_once: bool
) -> None:
    targets = [target(at, wanted) for at, wanted in sorted(moves)]
    executors = [came(at, None if stay is None else at + stay, lost=lost) for at, stay, lost in lives]
    times = asked(targets, executors, ready=500, at_once=at_once)
    assert len(times) == len(executors)
    for one, time in zip(executors, times, strict=True):
        assert time is None or time <= one.added_ms
    most = max((wanted for _, wanted in moves), default=0)
    if not any(lost for _, _, lost in lives) and not at_once and len(moves) == 1:
        assert sum(time is not None for time in times) <= most
