"""Lanes: a rate of ours, and what the server asks for; in a time that only waiting moves."""

from __future__ import annotations

import threading

import pytest

from podtide.adapters.kubernetes.ratelimit import Backoff, CallTurn, Rate, RateLimiter, Throttle
from podtide.adapters.notices import Level, Topic
from tests.support.fake_kubernetes import Heard, ManualClock

FAR = 1e9


def lane(clock: ManualClock, rate: Rate | None = None, heard: Heard | None = None, jitter: float = 0.0) -> RateLimiter:
    notify = (heard or Heard()).notify
    return RateLimiter(
        "creations", clock, notify, jitter=lambda: jitter, wait=clock.wait, rate=rate or Rate(), throttle=Throttle()
    )


def entered(one: RateLimiter, deadline: float = FAR) -> CallTurn:
    turn = one.enter(deadline)
    assert turn is not None
    return turn


def moments(one: RateLimiter, clock: ManualClock, count: int, *, eased: bool = False) -> list[float]:
    """When so many calls leave, from now."""
    began, left = clock.seconds, []
    for _ in range(count):
        turn = entered(one)
        left.append(round(clock.seconds - began, 6))
        if eased:
            one.eased(turn)
    return left


@pytest.mark.parametrize(
    ("rate", "leave"),
    [
        (Rate(), [0.0] * 5),
        (Rate(2.0), [0.0, 0.5, 1.0, 1.5, 2.0]),
        (Rate(2.0, burst=3), [0.0, 0.0, 0.0, 0.5, 1.0]),
        (Rate(0.1), [0.0, 10.0, 20.0, 30.0, 40.0]),
    ],
)
def test_calls_leave_at_the_rate_after_the_burst(rate: Rate, leave: list[float]) -> None:
    clock = ManualClock()
    assert moments(lane(clock, rate), clock, 5) == leave


def test_a_bucket_fills_while_nothing_is_asked_up_to_the_burst() -> None:
    clock = ManualClock()
    one = lane(clock, Rate(10.0, burst=2))
    moments(one, clock, 5)
    clock.wait(60.0)
    assert moments(one, clock, 3) == [0.0, 0.0, 0.1]


def test_one_refusal_stops_the_lane_as_long_as_asked_and_it_recovers_call_by_call() -> None:
    clock = ManualClock()
    one = lane(clock)
    one.throttled(entered(one), 7.0)
    assert moments(one, clock, 8, eased=True) == [7.0, 8.0, 8.5, 8.75, 8.875, 8.9375, 8.9375, 8.9375]
    assert not one.busy


def test_sixteen_refusals_of_calls_under_way_are_one_and_none_of_their_successes_speeds_it_up() -> None:
    clock, heard = ManualClock(), Heard()
    one = lane(clock, heard=heard)
    turns = [entered(one) for _ in range(16)]
    for turn in turns[:10]:
        one.throttled(turn, None)
    for turn in turns[10:]:
        one.eased(turn)
    assert moments(one, clock, 2) == [0.25, 1.25]  # the first back-off, without jitter: not doubled ten times
    assert len(heard.notices) == 1
    assert one.refusals == 10


def test_without_a_word_the_back_off_doubles_and_is_bounded() -> None:
    clock = ManualClock()
    one = lane(clock, jitter=1.0)
    pauses, turn = [], entered(one)
    for _ in range(8):
        before = clock.seconds
        one.throttled(turn, None)
        turn = entered(one)
        pauses.append(clock.seconds - before)
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0])


@pytest.mark.parametrize(("asked", "waits"), [(0.0, 0.0), (2.0, 2.5), (30.0, 30.5), (100_000.0, 60.5)])
def test_what_is_asked_for_is_waited_with_a_little_jitter_and_a_bound(asked: float, waits: float) -> None:
    clock = ManualClock()
    one = lane(clock, jitter=0.5)
    one.throttled(entered(one), asked)
    assert moments(one, clock, 1) == [waits]


def test_an_episode_is_told_once_at_both_ends() -> None:
    clock, heard = ManualClock(), Heard()
    one = lane(clock, heard=heard)
    for _ in range(3):
        one.throttled(entered(one), 1.0)
    moments(one, clock, 10, eased=True)
    assert [(notice.topic, notice.level) for notice in heard.notices] == [
        (Topic.THROTTLED, Level.WARNING),
        (Topic.THROTTLED, Level.INFO),
    ]
    assert dict(heard.notices[1].facts)["refusals"] == 3
    one.throttled(entered(one), 1.0)
    assert len(heard.notices) == 3


@pytest.mark.parametrize(("deadline_in", "turn"), [(4.9, False), (5.1, True)])
def test_who_cannot_have_a_turn_in_time_does_not_wait_for_it(deadline_in: float, turn: bool) -> None:
    clock = ManualClock()
    one = lane(clock)
    one.throttled(entered(one), 5.0)
    before = clock.seconds
    assert (one.enter(before + deadline_in) is not None) == turn
    assert clock.seconds == before + (5.0 if turn else 0.0)


def test_nobody_waits_on_when_waiting_is_over() -> None:
    clock, over = ManualClock(), threading.Event()
    over.set()
    one = RateLimiter("x", clock, Heard().notify, jitter=lambda: 0.0, wait=over.wait)
    one.throttled(entered(one), 50.0)
    assert one.enter(FAR) is None


@pytest.mark.parametrize(
    ("attempts", "jitter", "seconds"), [(1, 0.0, 0.1), (1, 1.0, 0.2), (3, 1.0, 0.8), (50, 1.0, 5.0), (5_000, 1.0, 5.0)]
)
def test_back_off(attempts: int, jitter: float, seconds: float) -> None:
    assert Backoff(0.2, 5.0).after(attempts, lambda: jitter) == pytest.approx(seconds)
