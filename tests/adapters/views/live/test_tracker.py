"""A live run as it is told: counts that are the state's own, lines that grow, news that repeats, memory that ends."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as some

from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.views.live import status
from podtide.adapters.views.live.tracker import DECISIONS_KEPT, NOTICES_KEPT, POINTS_MAX, LiveTracker
from podtide.domain.base.tables import Table
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.kubernetes.allocator.executor_index import profile_of
from podtide.domain.protocol.application import AnyStimulus
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, ExecutorDisconnected, Stopping, Wake
from podtide.domain.protocol.pod_commands import CreatePod, MarkPods
from podtide.domain.protocol.pod_stimuli import PodsUpdated
from podtide.domain.protocol.pods import Pod, PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Threw, Why
from tests.support.engine_play import S, config
from tests.support.live_play import ABOUT, START, HandClock, Seen, notice, tracker
from tests.support.pods_play import manifest


def playing(**settings_of: Any) -> tuple[LiveTracker, Seen, HandClock]:
    clock = HandClock()
    told = tracker(clock)
    play = Seen(config(**settings_of), clock, told)
    return told, play, clock


# ------------------------------------------------------------------------------------------------- pods and executors


def test_pods_are_counted_from_asked_for_to_gone() -> None:
    told, play, _ = playing(initial=0)
    play.want(3)
    assert told.snapshot().total.pods == {status.REQUESTED: 3}
    play.show("Pending", 1, 2)
    assert told.snapshot().total.pods == {status.REQUESTED: 1, "pending": 2}
    play.show("Running", 1, 2)
    play.register(1)
    snapshot = told.snapshot()
    assert snapshot.total.pods == {status.REQUESTED: 1, "running": 2}
    assert (snapshot.total.registered, snapshot.total.target) == (1, 3)
    play.show("Failed", 1)
    assert told.snapshot().total.pods == {status.REQUESTED: 1, "running": 1, "failed": 1}
    play.show_all("Running", 2)
    assert told.snapshot().total.pods.get("failed") is None


def test_leaving_is_asked_to_go_or_lost() -> None:
    told, play, _ = playing(initial=3)
    play.up(1, 2, 3)
    play.feed(ExecutorDisconnected(play.now, "a2"))
    assert told.snapshot().total.leaving == 1
    play.feed(DecommissionRequested(play.now, (ExecutorId("3"),)))
    snapshot = told.snapshot()
    assert (snapshot.total.leaving, snapshot.total.registered) == (2, 3)
    play.kill(1)
    play.show("Failed", 3)
    play.wait(5 * S)
    snapshot = told.snapshot()
    assert (snapshot.total.leaving, snapshot.total.registered) == (1, 1)


def test_a_state_that_was_there_before_is_counted_at_the_first_step() -> None:
    _, play, clock = playing(initial=2)
    play.up(1, 2)
    late = tracker(clock)
    late.step(play.now, (), Step(play.state))
    snapshot = late.snapshot()
    assert (snapshot.total.pods, snapshot.total.registered, snapshot.total.target) == ({"running": 2}, 2, 2)


happenings = some.lists(
    some.one_of(
        some.tuples(some.just("want"), some.integers(0, 6), some.integers(0, 4)),
        some.tuples(
            some.sampled_from(["Pending", "Running", "Failed", "Succeeded"]), some.integers(1, 8), some.just(0)
        ),
        some.tuples(some.just("register"), some.integers(1, 8), some.integers(0, 1)),
        some.tuples(some.just("kill"), some.integers(1, 8), some.just(0)),
        some.tuples(some.just("decommission"), some.integers(1, 8), some.just(0)),
        some.tuples(some.just("lost"), some.integers(1, 8), some.just(0)),
        some.tuples(some.just("list"), some.integers(0, 8), some.just(0)),
        some.tuples(some.just("wait"), some.integers(1, 40), some.just(0)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=120)
@given(happenings, some.sampled_from([True, False]))
def test_what_is_counted_is_what_the_state_holds(what: list[tuple[str, int, int]], direct: bool) -> None:
    told, play, _ = playing(initial=0, allocator="direct" if direct else "statefulset")
    seen: set[PodNumber] = set()
    for verb, one, two in what:
        match verb:
            case "want":
                play.want(one, two)
            case "register":
                play.register(one, profile=two)
            case "kill":
                play.kill(one)
            case "decommission":
                play.feed(DecommissionRequested(play.now, (ExecutorId(str(one)),)))
            case "lost":
                play.feed(ExecutorDisconnected(play.now, f"a{one}"))
            case "list":
                play.show_all("Running", *range(1, one + 1))
            case "wait":
                play.wait(one * S)
            case phase:
                play.show(phase, one)
        snapshot, side = told.snapshot(), play.side
        registry = side.backend.registry
        pods = Counter((profile_of(pod) or 0, status.STATES[pod.state]) for pod in side.store.view.pods())
        counted = {
            (one.profile, state): number
            for one in snapshot.profiles
            for state, number in one.pods.items()
            if state != status.REQUESTED
        }
        assert counted == dict(pods)
        assert snapshot.total.registered == len(registry.executors)
        assert snapshot.total.leaving == sum(not registry.active(executor) for executor in registry.executors)
        if side.allocator is not None:
            assert snapshot.total.target == sum(side.allocator.targets.values())
            fleet = side.allocator.fleet
            expected = [*(n for n, _ in fleet.created()), *(n for n, _ in fleet.joined())]
            seen.update(n for n in expected if n in side.store.view)  # one may vanish again before the next round
            assert snapshot.total.pods.get(status.REQUESTED, 0) == sum(n not in seen for n in expected)


# ------------------------------------------------------------------------------------------------------- what was decided


def test_a_ramp_in_many_batches_is_one_line_with_the_newest_reason() -> None:
    told, play, _ = playing(initial=0, allocation={"batch_size": 2})
    play.want(6)
    for first in (1, 3, 5):
        play.show("Running", first, first + 1)
        play.wait(2 * S)
    (line,) = [one for one in told.snapshot().decisions if one.name == "createPod"]
    assert line.what == "create pods 1-6"
    assert line.why == ("2 missing: target 6, 4 counted", "in 3 steps over 3 s")


def test_what_repeats_by_the_clock_is_counted_and_not_told() -> None:
    told, play, _ = playing(initial=1, poll=True)
    play.wait(120 * S)
    snapshot = told.snapshot()
    assert snapshot.counts["listPods", "resynchronize"] >= 3
    assert not [one for one in snapshot.decisions if one.name == "listPods"]


def test_a_bound_in_force_says_since_when_and_how_much() -> None:
    told, play, _ = playing(initial=0, allocation={"batch_size": 2, "pending_max": 3})
    play.want(10)
    began = play.now
    play.show("Pending", 1, 2)
    play.wait(3 * S)
    (hold,) = told.snapshot().held
    assert hold.since > began
    assert (hold.bound, hold.number, hold.keeps, hold.profile) == ("unacknowledged pods", 7, False, 0)
    assert hold.words == ("held 7 back", "by pods asked for and not seen yet", "unacknowledged 1")
    play.show("Pending", 3)
    play.wait(3 * S)
    assert [(one.bound, one.number) for one in told.snapshot().held] == [("pending limit", 7)]
    play.show("Running", 1, 2, 3)
    play.want(2)
    play.wait(3 * S)
    assert told.snapshot().held == ()


def test_bounds_of_executors_are_counted_by_executor() -> None:
    told, play, _ = playing()

    def report(phase: Phase, bound: Bound, *executors: str) -> None:
        held = Held(play.now, phase, bound, ProfileId(0), tuple(map(ExecutorId, executors)))
        told.step(play.now, (), Step(play.state, (), (held,)))

    report(Phase.BEGAN, Bound.CACHED_DATA, "1", "2", "3")
    report(Phase.BEGAN, Bound.SHUFFLE_DATA, "3")
    assert {one.bound: one.number for one in told.snapshot().held} == {"cached data": 2, "shuffle data": 1}
    report(Phase.ENDED, Bound.CACHED_DATA, "1", "2", "9")
    assert {one.bound: one.number for one in told.snapshot().held} == {"shuffle data": 1}


def test_rounds_that_threw_are_counted_by_machine() -> None:
    told, play, _ = playing()
    for machine in ("A", "A", *(f"m{n}" for n in range(50))):
        told.step(play.now, (), Step(play.state, (), (Threw(play.now, machine, "x"),)))
    threw = told.snapshot().threw
    assert threw["A"] == 2
    assert len(threw) <= 21


def test_labels_under_secret_keys_are_hidden() -> None:
    told, play, _ = playing()
    mark = MarkPods(play.now, 1, (ExecutorId("1"),), "label", "my.password", "hunter2", Why(Cause.DECOMMISSIONED))
    told.step(play.now, (), Step(play.state, (mark,)))
    assert "hunter2" not in repr(told.snapshot())


# ------------------------------------------------------------------------------------------------------------- over time


def test_ten_minutes_are_remembered_and_gaps_are_filled() -> None:
    told, play, clock = playing(initial=0)
    play.want(2)
    play.show("Running", 1)
    clock.at += 61_000
    recent = told.snapshot().recent
    assert len(recent) == 31
    assert {(point.target, point.running) for point in recent} == {(2, 1)}
    play.now = clock.at
    play.show("Running", 2)
    assert told.snapshot().recent[-2:] == ((2, 1, 0), (2, 2, 0))
    clock.at += 3_600_000
    assert len(told.snapshot().recent) == POINTS_MAX


def test_steps_take_as_long_as_the_loop_is_roused() -> None:
    clock = HandClock()
    told = tracker(clock)
    play = Seen(config(), clock)
    for took in (2, 3, 700):
        told.roused()
        told.step(clock.at, (), Step(play.state))
        clock.at += took
        told.resting()
        told.roused()
        told.resting()
        clock.at += 5_000
    snapshot = told.snapshot()
    assert snapshot.step_last_s == pytest.approx(0.7)
    assert snapshot.step_seconds.count == 3
    assert snapshot.beat_s == pytest.approx(5.0)


# ------------------------------------------------------------------------------------------------------------------ news


def after(*topics: Topic) -> status.LiveSnapshot:
    clock = HandClock()
    told = tracker(clock, status.About("a", "n", status.ACT, "1", driver=True))
    for topic in topics:
        clock.at += 1_000
        told.notify(Notice(clock.at, Level.INFO, topic, topic.value))
    return told.snapshot()


@pytest.mark.parametrize(
    ("topics", "field", "value"),
    [
        ((Topic.WATCHING,), "watch", status.WatchHealth.ALIVE),
        ((Topic.WATCHING, Topic.WATCH_BROKEN), "watch", status.WatchHealth.BROKEN),
        ((Topic.WATCHING, Topic.WATCH_BROKEN, Topic.WATCH_REPAIRED), "watch", status.WatchHealth.ALIVE),
        ((Topic.WATCH_BROKEN, Topic.WATCH_BROKEN), "watch_since", START + 1_000),
        ((Topic.WATCH_BROKEN, Topic.WATCH_REPAIRED, Topic.WATCH_BROKEN), "watch_breaks", 2),
        ((Topic.LISTED,), "listed", True),
        ((Topic.LEASE_TAKEN,), "lease", status.Lease.HELD),
        ((Topic.LEASE_TAKEN, Topic.LEASE_LOST), "lease", status.Lease.LOST),
        ((Topic.LEASE_LOST, Topic.LEASE_TAKEN), "lease", status.Lease.HELD),
        ((Topic.API_UNREACHABLE, Topic.API_UNREACHABLE), "unreachable_since", START + 1_000),
        ((Topic.API_UNREACHABLE, Topic.API_BACK), "unreachable_since", None),
        ((Topic.DRIVER_UNREACHABLE,), "driver", False),
        ((Topic.DRIVER_UNREACHABLE, Topic.DRIVER_BACK), "driver", True),
        ((Topic.DIFFERENCE, Topic.DIFFERENCE), "differences", 2),
        ((Topic.STOPPING,), "stage", status.RunStage.RUNNING),
        ((Topic.STOPPED,), "stage", status.RunStage.STOPPED),
    ],
)
def test_news_says_how_things_stand(topics: tuple[Topic, ...], field: str, value: object) -> None:
    assert getattr(after(*topics), field) == value


def test_news_that_differs_in_numbers_alone_is_told_once() -> None:
    told = tracker()
    for number in range(500):
        told.notify(notice(text=f"create pod {number}: 403 exceeded quota", at=START + number))
    (one,) = told.snapshot().notices
    assert (one.times, one.text, one.at, one.end) == (500, "create pod 499: 403 exceeded quota", START, START + 499)
    assert told.snapshot().notice_counts == {"call refused": 500}


def test_a_listing_and_a_bookmark_say_that_what_is_known_is_so() -> None:
    clock = HandClock()
    told = tracker(clock)
    assert told.snapshot().seen_ms is None
    told.seen(CallSeen("list", "pods", 200, 0.1, 0, 10))
    clock.at += 4_000
    assert told.snapshot().seen_ms == 4_000
    told.seen(CallSeen("list", "pods", 500, 0.1, 0, 10))
    told.seen(CallSeen("list", "persistentvolumeclaims", 200, 0.1, 0, 10))
    assert told.snapshot().seen_ms == 4_000
    told.ask_when_heard(lambda: 3.0)
    assert told.snapshot().seen_ms == 1_000
    told.ask_when_heard(lambda: None)
    assert told.snapshot().seen_ms == 4_000


# --------------------------------------------------------------------------------------------------------- being healthy


STUCK = "the loop has not turned for 31 s, expected within 30 s"


def healthy(**changed: Any) -> status.LiveSnapshot:
    fields = {
        "listed": True, "watch": status.WatchHealth.ALIVE, "watch_since": START, "lease": status.Lease.HELD, "beat_s": 0.1,
        **changed,
    }  # fmt: skip
    return status.LiveSnapshot(at=START + 100_000, change=0, started=START, about=ABOUT, **fields)


@pytest.mark.parametrize(
    ("changed", "sick", "idle"),
    [
        ({}, (), ()),
        ({"beat_s": None}, (), ()),
        ({"beat_s": 31.0}, (STUCK,), (STUCK,)),
        ({"beat_s": 99.0, "stage": status.RunStage.STOPPING}, (), ("the run is stopping",)),
        ({"listed": False}, (), ("the pods have not been listed yet",)),
        ({"watch": status.WatchHealth.BROKEN, "watch_since": START + 90_000}, (), ()),
        ({"watch": status.WatchHealth.BROKEN, "watch_since": START + 60_000}, (), ("the watch has been broken for 40 s",)),
        ({"lease": status.Lease.NONE}, (), ("the lease is not held yet",)),
        ({"lease": status.Lease.LOST}, (), ("the lease is lost",)),
        ({"lease": status.Lease.NONE, "about": ABOUT._replace(mode="shadow")}, (), ()),
    ],
)  # fmt: skip
def test_health(changed: dict[str, Any], sick: tuple[str, ...], idle: tuple[str, ...]) -> None:
    fields = dict(changed)
    about = fields.pop("about", ABOUT)
    snapshot = healthy(**fields)
    snapshot = status.LiveSnapshot(
        **{**{f: getattr(snapshot, f) for f in snapshot.__dataclass_fields__}, "about": about}
    )
    assert status.unhealthy(snapshot) == sick
    assert status.unready(snapshot) == idle


def test_a_run_that_ends_says_so() -> None:
    told, play, _ = playing(initial=1)
    assert told.snapshot().stage is status.RunStage.RUNNING
    play.feed(Stopping(play.now))
    assert told.snapshot().stage is status.RunStage.STOPPING
    other = tracker()
    other.ending()
    assert other.snapshot().stage is status.RunStage.STOPPING


def test_what_is_wrong_is_said_worst_first() -> None:
    snapshot = healthy(
        lease=status.Lease.LOST, lease_since=START + 95_000, watch=status.WatchHealth.BROKEN, watch_since=START + 98_000
    )
    assert status.alarms(snapshot) == [
        "the lease is lost since 5 s: nothing is written any more", "the watch is broken, for 2 s",
    ]  # fmt: skip
    assert status.alarms(healthy()) == []


# -------------------------------------------------------------------------------------------------------- cost, threads


def test_memory_is_bounded() -> None:
    told, play, clock = playing(initial=0)
    for number in range(3_000):
        clock.at += 20_000
        why = Why(Cause.BELOW_TARGET)
        create = CreatePod(clock.at, number, PodNumber(number), ProfileId(number % 7), why)
        told.step(clock.at, (), Step(play.state, (create,)))
        told.notify(notice(text=f"{'x' * (number % 40)}", at=clock.at))
    snapshot = told.snapshot()
    assert len(snapshot.decisions) == DECISIONS_KEPT
    assert len(snapshot.notices) == NOTICES_KEPT
    assert len(snapshot.recent) <= POINTS_MAX


def test_a_step_looks_at_what_changed_alone() -> None:
    """With ten thousand pods there, a step of one pod reads one pod of the view."""
    told, play, _ = playing(initial=0)
    play.show_all("Running", *range(1, 10_001))
    looked: list[object] = []
    view = play.side.store.view

    class Watched(Table[PodNumber, Pod]):
        def get(self, key: Any, default: Any = None) -> Any:
            looked.append(key)
            return super().get(key, default)

        def values(self) -> Any:
            raise AssertionError("all pods are looked at")

    view._tables.pods = Watched(view._tables.pods)
    view._tables._tie()
    told.step(play.now, (PodsUpdated(play.now, (manifest(7, "Running"),)),), Step(play.state))
    told.step(play.now, (Wake(play.now),), Step(play.state))
    assert looked == [7]
    assert told.snapshot().total.pods == {"running": 10_000}


def test_any_thread_may_tell_and_look() -> None:
    told, play, clock = playing(initial=0)
    problems: list[BaseException] = []

    def busy(number: int) -> None:
        try:
            for turn in range(200):
                told.notify(notice(text=f"{number} {turn}"))
                told.seen(CallSeen("create", "pods", 201, 0.01, 1, 1))
                told.snapshot()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    stimulus: AnyStimulus = Wake(clock.at)
    for _ in range(200):
        told.step(clock.at, (stimulus,), Step(play.state))
    for thread in threads:
        thread.join()
    assert problems == []
    snapshot = told.snapshot()
    assert (snapshot.calls.calls, sum(snapshot.notice_counts.values())) == (800, 800)
