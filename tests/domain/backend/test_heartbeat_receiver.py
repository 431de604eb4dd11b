"""HeartbeatReceiver: who is missed, when, in which order, and who never is."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from podtide.domain.backend import heartbeat_receiver as receiver
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.backend_messages import HeartbeatTimedOut
from podtide.domain.protocol.cluster_config import HeartbeatConfig
from podtide.domain.protocol.executor_stimuli import Heartbeat, HeartbeatsStopped, Stopping, Wake
from podtide.domain.protocol.reasons import Remark
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved

S = 1_000
EVERY = HeartbeatConfig(every_beat=True)
STOPS = HeartbeatConfig()
"""Spark's defaults: silent for more than 120 s, looked at every 60."""


class Gone(NamedTuple):
    """Who was given up, when, and after how long."""

    at: Millis
    executor: str
    silent_ms: Millis


class Play:
    """A receiver under way, which began at 0."""

    def __init__(self, config: HeartbeatConfig) -> None:
        self.config, self.now = config, 0
        self.state = receiver.begin(0)
        self.gone: list[Gone] = []

    def hear(self, *items: receiver.HeartbeatInput) -> Play:
        step = receiver.listen(self.state, items, self.config, self.now)
        self.state = step.state
        for command in step.commands:
            assert command == HeartbeatTimedOut(self.now, command.executor, command.silent_ms, self.config.timeout_ms)
            self.gone.append(Gone(command.at, command.executor, command.silent_ms))
        return self

    def at(self, now: Millis) -> Play:
        """Let time pass, as the engine does: awake whenever something is due."""
        while (due := receiver.due(self.state, self.config)) <= now:
            self.now = due
            self.hear(Wake(due))
        self.now = now
        return self

    def add(self, *executors: str) -> Play:
        return self.hear(*(ExecutorAdded(self.now, ExecutorId(e), ProfileId(0)) for e in executors))

    def beat(self, *executors: str) -> Play:
        return self.hear(*(Heartbeat(self.now, ExecutorId(e)) for e in executors))

    def stop(self, executor: str, last: Millis) -> Play:
        return self.hear(HeartbeatsStopped(self.now, ExecutorId(executor), last))

    def remove(self, executor: str) -> Play:
        return self.hear(ExecutorRemoved(self.now, ExecutorId(executor)))


@pytest.mark.parametrize(
    ("last", "gone_at"),
    [
        (0, 180 * S),  # at 120 s it is silent for 120 s: not longer than the timeout
        (1, 180 * S),
        (59_999, 180 * S),
        (60 * S, 240 * S),
        (60 * S - 1, 180 * S),
    ],
)
def test_an_executor_goes_at_the_first_look_at_which_it_is_silent_for_longer(last: Millis, gone_at: Millis) -> None:
    play = Play(EVERY).add("1").at(last).beat("1").at(1_000 * S)
    assert play.gone == [Gone(gone_at, "1", gone_at - last)]


def test_one_that_was_never_heard_from_counts_from_when_it_was_added() -> None:
    assert Play(EVERY).at(10 * S).add("1").at(1_000 * S).gone == [Gone(180 * S, "1", 170 * S)]


def test_looks_are_reckoned_from_the_beginning_whatever_happens_between() -> None:
    play = Play(HeartbeatConfig(5 * S, 2 * S, every_beat=True))
    play.at(999).add("1").at(4_500).add("2").at(100 * S)
    assert play.gone == [Gone(6 * S, "1", 5_001), Gone(10 * S, "2", 5_500)]


@pytest.mark.parametrize("check_ms", [0, -1])
def test_without_an_interval_there_are_no_looks(check_ms: int) -> None:
    assert Play(HeartbeatConfig(5 * S, check_ms, every_beat=True)).add("1").at(1_000 * S).gone == []


def test_who_is_heard_from_stays() -> None:
    play = Play(EVERY).add("1", "2")
    for at in range(10 * S, 3_600 * S, 10 * S):
        play.at(at).beat("1")
    assert [gone.executor for gone in play.gone] == ["2"]


def test_one_that_is_removed_or_given_up_is_not_missed_again() -> None:
    play = Play(EVERY).add("1", "2").at(50 * S).remove("1").at(180 * S).beat("1", "2").at(1_000 * S)
    assert [gone.executor for gone in play.gone] == ["2"]
    assert (dict(play.state.last_seen), dict(play.state.expires), dict(play.state.looks)) == ({}, {}, {})


def test_a_heartbeat_of_nobody_who_is_known_changes_nothing() -> None:
    play = Play(EVERY).beat("1").stop("2", 0)
    assert receiver.due(play.state, EVERY) == NEVER


def test_nobody_expires_where_nobody_tells_of_heartbeats() -> None:
    play = Play(STOPS).add(*map(str, range(100))).at(10_000 * S)
    assert (play.gone, receiver.due(play.state, STOPS)) == ([], NEVER)


def test_one_whose_heartbeats_stopped_goes_and_one_that_is_heard_again_stays() -> None:
    play = Play(STOPS).add("1", "2").at(100 * S).stop("1", 95 * S).stop("2", 92 * S).at(200 * S).beat("2").at(1_000 * S)
    assert play.gone == [Gone(240 * S, "1", 145 * S)]


@pytest.mark.parametrize(("last", "silent_ms"), [(0, 130 * S), (50 * S, 130 * S), (900 * S, 140 * S)])
def test_the_last_heartbeat_is_not_before_the_executor_and_not_to_come(last: Millis, silent_ms: Millis) -> None:
    """The executor was added at 50 s, and its heartbeats stop at 100 s, of which the driver is told at once."""
    (gone,) = Play(STOPS).at(50 * S).add("1").at(100 * S).stop("1", last).at(1_000 * S).gone
    assert gone.silent_ms == silent_ms


def test_what_is_told_late_is_looked_at_next() -> None:
    assert Play(STOPS).add("1").at(500 * S).stop("1", 10 * S).at(1_000 * S).gone == [Gone(540 * S, "1", 530 * S)]


def test_overdue_looks_come_before_what_is_heard() -> None:
    play = Play(EVERY).add("1")
    play.now = 200 * S  # nobody woke it at 180 s
    play.beat("1")
    assert play.gone == [Gone(200 * S, "1", 180 * S)]


def test_a_look_that_is_due_now_comes_after_what_is_heard_now() -> None:
    play = Play(EVERY).add("1")
    play.now = 180 * S
    play.beat("1")
    assert play.at(200 * S).gone == []


def test_the_order_is_that_of_scalas_table() -> None:
    """16 buckets: the text of a digit hashes to 48 and more, "10" to 1567, which is in the last one."""
    assert [gone.executor for gone in Play(EVERY).add("1", "2", "10", "9").at(1_000 * S).gone] == ["1", "2", "9", "10"]


def test_an_update_makes_the_table_grow_like_an_entry() -> None:
    """Eleven fit into 16 buckets, where 12 (1569) comes after 1; a heartbeat makes it 32, where it is in bucket 1."""
    eleven = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "12", "13"]
    plain, beaten = Play(EVERY).add(*eleven), Play(EVERY).add(*eleven).beat("1")
    orders = [[gone.executor for gone in play.at(1_000 * S).gone] for play in (plain, beaten)]
    assert [" ".join(order) for order in orders] == ["1 12 2 13 3 4 5 6 7 8 9", "12 13 1 2 3 4 5 6 7 8 9"]
    once_larger = Play(EVERY).add(*eleven, "20").remove("20").at(1_000 * S)
    assert [gone.executor for gone in once_larger.gone] == orders[1], "the table never shrinks"


def test_nothing_happens_after_the_end() -> None:
    play = Play(EVERY).add("1").hear(Stopping(0)).add("2").beat("2").at(1_000 * S)
    assert play.gone == []


def test_the_log_is_told_how_long() -> None:
    config = HeartbeatConfig(every_beat=True, remarks=True)
    play = Play(config).add("1")
    play.now = 180 * S
    step = receiver.listen(play.state, (Wake(play.now),), config, play.now)
    facts = {"executor": "1", "silent_ms": 180 * S, "timeout_ms": 120 * S}
    assert [(one.machine, one.topic, dict(one.facts)) for one in step.reports if isinstance(one, Remark)] == [
        ("HeartbeatReceiver", "heartbeat timed out", facts)
    ]
