"""The live loop's environment: what is heard, when timers run, what the sink does. No cluster, no clock but a given one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.commands import Kill
from podtide.domain.protocol.pods import ContainerState, PodContainer, PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.live.command_sinks import ActingSink, ShadowSink
from podtide.entrypoints.live.loop import Inbox, LiveEnvironment
from tests.support.clock import MillisClock

WHY = Why(Cause.BELOW_TARGET)
TARGETS = es.TargetsSet(0, ((ProfileId(0), 3),))


class Pulse:
    """Counts the loop's turns."""

    def __init__(self) -> None:
        self.rests = self.works = 0

    def resting(self) -> None:
        self.rests += 1

    def roused(self) -> None:
        self.works += 1


class Calls:
    """An actuator that remembers."""

    def __init__(self) -> None:
        self.commands: list[Any] = []

    def apply(self, command: Any, _now: Millis = 0) -> None:
        self.commands.append(command)


def pod(number: int, phase: str = "Pending") -> PodManifest:
    state = ContainerState("running") if phase == "Running" else ContainerState("waiting")
    labels = {"spark-exec-id": str(number), "spark-exec-resourceprofile-id": "0"}
    containers = (PodContainer("spark-kubernetes-executor", None, state),)
    return PodManifest(f"p-{number}", labels, phase=phase, containers=containers, restart_policy="Never")


def create(number: int) -> pc.CreatePod:
    return pc.CreatePod(0, number, PodNumber(number), ProfileId(0), WHY)


def environment(clock: MillisClock, *filters: Any, ends_at: Millis = NEVER) -> tuple[LiveEnvironment, Inbox, Calls]:
    inbox, calls = Inbox(), Calls()
    return LiveEnvironment(inbox, clock, calls, Pulse(), filters, ends_at), inbox, calls


def test_what_was_heard_comes_out_in_order_and_at_the_moment_it_is_taken() -> None:
    live, inbox, _ = environment(MillisClock(5_000))
    inbox.hear(TARGETS)
    inbox.hear(ps.PodsUpdated(0, (pod(1),)))
    now, heard = live.wait(NEVER)
    assert now == 5_000
    assert [type(one) for one in heard] == [es.TargetsSet, ps.PodsUpdated]
    assert {one.at for one in heard} == {5_000}


def test_a_timer_that_is_due_runs_though_the_cluster_never_falls_silent() -> None:
    live, inbox, _ = environment(MillisClock(5_000))
    inbox.hear(TARGETS)
    _, heard = live.wait(4_000)
    assert [type(one) for one in heard] == [es.TargetsSet, es.Wake]


@pytest.mark.parametrize("when", ["before", "while waiting"])
def test_the_end_is_at_the_next_turn(when: str) -> None:
    live, inbox, _ = environment(MillisClock(1_000))
    if when == "before":
        live.stop()
    else:
        live.stopping = True
        inbox.hear(TARGETS)
    assert live.wait(NEVER) == (NEVER, ())


def test_a_run_of_a_given_length() -> None:
    clock = MillisClock(1_000)
    live, inbox, _ = environment(clock, ends_at=2_000)
    inbox.hear(TARGETS)
    assert live.wait(NEVER)[0] == 1_000
    clock.at = 2_000
    assert live.wait(NEVER) == (NEVER, ())


def test_the_application_ended_and_goes_on_to_clean_up() -> None:
    live, inbox, calls = environment(MillisClock(1_000))
    live.apply(ec.StopApplication(0, 11, WHY), 0)
    assert live.ended is not None
    assert calls.commands == []
    assert live.wait(NEVER) == (NEVER, ())
    live.go_on()
    inbox.hear(TARGETS)
    assert len(live.wait(NEVER)[1]) == 1


class Ids:
    """A mark of executor ids that is written in blocks of ten, once the server is there."""

    def __init__(self, clock: MillisClock, *, there_at: Millis = 0) -> None:
        self.clock = clock
        self.there_at = there_at
        self.reserved = 0
        self.calls = 0

    def reserve(self, last: int) -> bool:
        self.calls += 1
        if self.clock.at < self.there_at:
            self.clock.at += 5_000
            return False
        self.reserved = max(self.reserved, -(-last // 10) * 10)
        return True


class Acting:
    """Acting hands and what they do."""

    def __init__(self, *, there_at: Millis = 0) -> None:
        self.clock = MillisClock(0)
        self.ids = Ids(self.clock, there_at=there_at)
        self.calls = Calls()
        self.heard: list[Any] = []
        self.listed: list[Any] = []
        self.asked: list[int] = []
        self.sink = ActingSink(
            self.calls, lambda *asked: self.listed.append(asked), self.ids, self.heard.append, self.asked.append,
            lambda _: None,
        )  # fmt: skip

    def create(self, *numbers: int) -> None:
        for number in numbers:
            self.sink.apply(create(number), 0)


def test_no_pod_is_asked_for_before_its_id_is_on_the_cluster() -> None:
    acting = Acting()
    acting.create(1, 2)
    assert acting.calls.commands == []
    acting.sink.turn()
    assert acting.calls.commands == [create(1), create(2)]
    acting.create(*range(3, 12))
    assert acting.asked == list(range(1, 11))
    acting.sink.turn()
    assert acting.asked == list(range(1, 12))
    assert acting.heard == []


def test_a_server_that_comes_back_in_time_costs_nothing() -> None:
    acting = Acting(there_at=30_000)
    acting.create(1, 2)
    acting.sink.turn()
    assert acting.asked == [1, 2]
    assert acting.heard == []


def test_a_server_that_is_away_for_an_hour_is_no_failure_of_an_executor() -> None:
    acting = Acting(there_at=3_600_000)
    acting.create(1, 2)
    acting.sink.turn()
    assert acting.asked == [1, 2]
    assert acting.heard == []


def test_there_are_not_more_ids_than_spark_can_count() -> None:
    acting = Acting()
    acting.create(2**31)
    acting.sink.turn()
    assert acting.asked == []
    assert [(one.serial, one.failure is None) for one in acting.heard] == [(2**31, False)]


def test_an_end_is_not_waited_for() -> None:
    acting = Acting(there_at=10**9)
    acting.create(1)
    acting.sink.stop()
    acting.sink.turn()
    assert acting.ids.calls == 0


def test_the_queue_is_worked_off_by_a_thread_of_its_own() -> None:
    acting = Acting()
    done = threading.Event()
    acting.calls.apply = lambda *_: done.set()  # type: ignore[method-assign]
    acting.sink.start()
    acting.create(1)
    assert done.wait(10)
    acting.sink.stop()


def test_lists_are_the_sensors_and_scaling_is_answered_inside() -> None:
    acting = Acting()
    acting.sink.apply(pc.ListPods(0, 9, WHY, "0"), 0)
    acting.sink.apply(Kill(0, 1, ()), 0)
    assert acting.listed == [(9, "0")]
    assert acting.calls.commands == []


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (create(1), False),
        (pc.DeletePods(0, 1, None, None, WHY), False),
        (pc.ListClaims(0, 1, ProfileId(0), WHY), True),
        (pc.GetDriverPod(0, 1, "driver", WHY), True),
    ],
)
def test_a_shadow_reads_and_never_writes(command: Any, read: bool) -> None:
    calls, heard, listed = Calls(), list[Any](), list[Any]()
    ShadowSink(calls, lambda serial, version: listed.append((serial, version)), heard.append).apply(command, 5)
    assert calls.commands == ([command] if read else [])
    assert heard == ([] if read else [ps.Outcome(5, 1)])
