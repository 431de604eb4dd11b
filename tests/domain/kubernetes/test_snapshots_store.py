"""Who is handed which snapshots, and when. Spark's own scenarios carry their ids (E1 to E3, F4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from podtide.domain.base.units import NEVER
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots_store as store
from podtide.domain.kubernetes.snapshots_store import (
    Delivered,
    StopStore,
    StoreCommand,
    StoreConfig,
    StoreInput,
    Subscribe,
)
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import Deliver, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PodManifest
from podtide.domain.protocol.reasons import Cause, Remark, Threw

Batch = list[dict[int, str]]

FATAL = SparkFault("java.lang.LinkageError", "scripted")
OUT_OF_MEMORY = SparkFault("java.lang.OutOfMemoryError", "Java heap space")
NUMBER_FAULT = SparkFault("java.lang.NumberFormatException", 'For input string: "x"')
ARGUMENT_FAULT = SparkFault("java.lang.IllegalArgumentException", "scripted")


def pod(number: object, phase: str | None = "Running", **changes: Any) -> PodManifest:
    return PodManifest(f"exec-{number}", {EXECUTOR_LABEL: str(number)}, phase=phase, **changes)


class Play:
    """A store with its subscribers; deliveries end at once unless they are held."""

    def __init__(self, now: int = 0, *, remarks: bool = False) -> None:
        self.now = now
        self.state = store.start()
        self.config = StoreConfig(remarks=remarks)
        self.deliveries: list[tuple[int, str, int]] = []
        self.batches: dict[str, list[list[Any]]] = {}
        self.held: set[str] = set()
        self.faults: dict[str, SparkFault] = {}
        self.reports: list[Any] = []
        self.exits: list[StopApplication] = []

    def take(self, *happenings: StoreInput) -> None:
        step = store.distribute(self.state, happenings, self.config, self.now)
        self.state = step.state
        self.reports += step.reports
        self.carry_out(step.commands)

    def carry_out(self, commands: Iterable[StoreCommand]) -> None:
        for command in commands:
            if isinstance(command, StopApplication):
                self.exits.append(command)
                continue
            name = command.subscriber
            self.deliveries.append((self.now, name, len(command.snapshots)))
            self.batches.setdefault(name, []).append(list(command.snapshots))
            if name not in self.held:
                self.end(name, self.faults.pop(name, None))

    def end(self, name: str, fault: SparkFault | None = None) -> None:
        self.take(Delivered(self.now, name, fault))

    def until(self, moment: int) -> None:
        """Let time pass."""
        while (at := store.due(self.state)) <= moment:
            self.now = max(self.now, at)
            self.take(Wake(self.now))
        self.now = moment

    def subscribe(self, name: str = "a", interval: int = 1_000) -> None:
        self.take(Subscribe(self.now, name, interval))

    def update(self, *pods: PodManifest) -> None:
        self.take(PodsUpdated(self.now, pods))

    def notify(self) -> None:
        self.take(NotifySubscribers(self.now))
        self.until(self.now)

    def seen(self, name: str) -> list[tuple[int, list[dict[int, str]]]]:
        """What a subscriber was handed, as whole snapshots, with the time of each delivery."""
        times = [at for at, to, _ in self.deliveries if to == name]
        pods: dict[int, str] = {}
        story = []
        for at, batch in zip(times, self.batches[name], strict=True):
            wholes = []
            for snapshot in batch:
                for gone in snapshot.gone:
                    del pods[gone]
                pods |= {p.number: p.state.value for p in snapshot.changed}
                wholes.append(dict(pods))
            story.append((at, wholes))
        return story


def subscribed(*names: str, interval: int = 1_000, **kwargs: Any) -> Play:
    """A store whose subscribers have had their first delivery."""
    play = Play(**kwargs)
    for name in names:
        play.subscribe(name, interval)
    play.until(play.now)
    play.deliveries.clear()
    play.batches.clear()
    return play


def test_e1_two_subscribers_at_their_own_pace() -> None:
    play = Play()
    play.subscribe("first", 1_000)
    play.subscribe("second", 2_000)
    play.until(100)
    play.update(pod(1))
    play.until(2_000)
    play.update(pod(2), pod(3))
    play.until(4_000)
    one, two, three = (dict.fromkeys(range(1, last + 1), "PodRunning") for last in (1, 2, 3))
    assert play.seen("first") == [(0, [{}]), (1_000, [one]), (2_000, []), (3_000, [two, three]), (4_000, [])]
    assert play.seen("second") == [(0, [{}]), (2_000, [one]), (4_000, [two, three])]


def test_e2_without_events_the_empty_snapshot_comes_once_the_pool_runs() -> None:
    play = Play()
    play.subscribe()
    assert play.deliveries == []
    assert store.due(play.state) == 0
    play.until(0)
    assert play.seen("a") == [(0, [{}])]


def test_e3_a_list_replaces_and_carries_its_time() -> None:
    play = subscribed("a")
    play.update(pod(1))
    play.until(100)
    play.take(PodsReplaced(100, (pod(2),)))
    play.until(1_000)
    assert play.seen("a") == [(1_000, [{1: "PodRunning"}, {2: "PodRunning"}])]
    assert [snapshot.full_ts for snapshot in play.batches["a"][0]] == [0, 100]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed"])
def test_f4_every_watch_event_is_an_update(phase: str) -> None:
    play = subscribed("a")
    play.update(pod(1, "Pending"), pod(1, phase))
    play.until(1_000)
    assert play.seen("a") == [(1_000, [{1: "PodPending"}, {1: f"Pod{phase}"}])]


def test_a_name_subscribes_once() -> None:
    play = subscribed("a")
    state = play.state
    play.subscribe("a", 5)
    assert play.state == state


# --------------------------------------------------------------------------------------------------------------- runs


def test_a_fixed_delay_counts_from_the_end_of_the_delivery() -> None:
    play = subscribed("a")
    play.held = {"a"}
    play.until(1_500)
    assert store.due(play.state) == NEVER
    play.end("a")
    assert store.due(play.state) == 2_500


def test_a_timer_that_finds_the_subscriber_busy_counts_and_goes_on() -> None:
    play = subscribed("a")
    play.held = {"a"}
    play.until(200)
    play.notify()
    play.until(2_500)
    (subscriber,) = play.state.subscribers
    assert (subscriber.notifications, subscriber.due) == (3, 3_000)
    play.held = set()
    play.end("a")
    play.until(2_500)
    assert [at for at, _, _ in play.deliveries] == [200, 2_500, 2_500]


def test_one_subscriber_may_be_busy_while_another_is_served() -> None:
    play = subscribed("a", "b")
    play.held = {"a"}
    play.until(1_000)
    play.until(2_000)
    assert [name for _, name, _ in play.deliveries] == ["a", "b", "b"]


def test_a_wake_hands_over_one_delivery_at_a_time() -> None:
    play = subscribed("a", "b")
    step = store.distribute(play.state, (Wake(5_000),), play.config, 5_000)
    assert [command.subscriber for command in step.commands if isinstance(command, Deliver)] == ["a"]
    assert store.due(step.state) <= 5_000


def test_a_late_wake_runs_the_timer_once() -> None:
    play = subscribed("a")
    play.now = 60_000
    play.until(60_000)
    assert play.deliveries == [(60_000, "a", 0)]
    assert store.due(play.state) == 61_000


@pytest.mark.parametrize("name", ["a", "nobody"])
def test_an_end_that_nobody_waits_for_changes_nothing(name: str) -> None:
    play = subscribed("a")
    state = play.state
    play.end(name)
    assert play.state == state


# ------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", [ARGUMENT_FAULT, NUMBER_FAULT], ids=str)
def test_q85_an_illegal_argument_stops_the_application(fault: SparkFault) -> None:
    play = subscribed("a", "b")
    play.faults = {"a": fault}
    play.until(1_000)
    (stop,) = play.exits
    assert (stop.at, stop.exit_code, stop.why.cause) == (1_000, 1, Cause.ILLEGAL_ARGUMENT)
    assert stop.why.facts == {"subscriber": "a", "threw": str(fault)}
    assert play.deliveries == [(1_000, "a", 0), (1_000, "b", 0)]  # the other thread goes on for as long as it can


@pytest.mark.parametrize("fault", [FATAL, OUT_OF_MEMORY], ids=str)
def test_q86_a_fatal_error_ends_the_timer_and_leaves_a_count_behind(fault: SparkFault) -> None:
    play = subscribed("a")
    play.faults = {"a": fault}
    play.until(10_000)
    assert play.deliveries == [(1_000, "a", 0)]
    play.notify()
    play.notify()
    assert play.deliveries[1:] == [(10_000, "a", 0)] * 3  # two, and one more, once


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (pod("x1"), 'java.lang.NumberFormatException: For input string: "x1"'),
        (pod(1, None), "java.lang.NullPointerException: "),
    ],
)
def test_q84_what_cannot_be_read_is_lost(bad: PodManifest, what: str) -> None:
    play = subscribed("a")
    play.update(pod(1), bad, pod(2))
    play.take(PodsReplaced(0, (pod(3), bad)))
    play.until(1_000)
    assert play.seen("a") == [(1_000, [{1: "PodRunning"}, {1: "PodRunning", 2: "PodRunning"}])]
    watch, poll = play.reports
    assert isinstance(watch, Threw)
    assert watch.machine == "ExecutorPodsWatchSnapshotSource"
    assert watch.what.startswith(what)
    assert poll.machine == "ExecutorPodsPollingSnapshotSource"


# --------------------------------------------------------------------------------------------------------------- stop


def test_q88_after_the_stop_updates_queue_and_requests_are_rejected() -> None:
    play = subscribed("a")
    play.take(NotifySubscribers(0), StopStore(0))
    play.update(pod(1))
    play.until(60_000)
    assert play.deliveries == [(0, "a", 1)]  # asked for before
    play.update(pod(2))
    play.notify()
    play.subscribe("late")
    assert [report.what for report in play.reports] == [str(store.REJECTED)] * 2
    late = play.state.subscriber("late")
    assert late is not None
    assert (late.due, len(late.queue)) == (None, 1)
    assert store.due(play.state) == NEVER


def test_a_delivery_that_outlasts_the_stop_ends_quietly() -> None:
    play = subscribed("a")
    play.held = {"a"}
    play.until(1_000)
    play.notify()
    play.take(StopStore(1_000))
    play.end("a")
    assert store.due(play.state) == NEVER


def test_a_timer_that_finds_the_stopped_store_busy_does_not_come_back() -> None:
    play = subscribed("a")
    play.held = {"a"}
    play.until(500)
    play.notify()
    play.take(NotifySubscribers(500), StopStore(500))
    play.until(9_000)
    assert play.deliveries == [(500, "a", 0)]


def test_nobody_to_notify() -> None:
    play = Play()
    play.take(StopStore(0), NotifySubscribers(0))
    assert play.reports == []


# ------------------------------------------------------------------------------------------------------------ remarks


def test_unknown_phases_are_remarked_at_every_reading() -> None:
    play = Play(now=5, remarks=True)
    weird = pod(1, "WEIRD", namespace="jobs")
    play.update(weird, weird, pod(2))
    play.take(PodsReplaced(5, (weird, pod(3), pod(4, "odd"), pod("x"), pod(5, "hidden"))))
    remarks = [report for report in play.reports if isinstance(report, Remark)]
    assert [remark.facts["phase"] for remark in remarks] == ["weird", "weird", "weird", "odd"]
    assert remarks[0] == Remark(
        5, "ExecutorPodsSnapshot", "unknown phase", {"phase": "weird", "pod": "exec-1", "namespace": "jobs"}
    )


def test_without_being_asked_nothing_is_remarked() -> None:
    play = Play()
    play.update(pod(1, "WEIRD"))
    assert play.reports == []


# -------------------------------------------------------------------------------------------------------------- purity
