"""The composed engine: what a whole application on Kubernetes does, from targets to pods and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain import engine
from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.kubernetes.side import wants
from podtide.domain.protocol.cluster_config import ResizeConfig, RollConfig
from podtide.domain.protocol.commands import Kill, RequestTotal
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_commands import DecommissionExecutors, StopApplication, StopSource
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, KillRequested, RegisterExecutor, Stopping
from podtide.domain.protocol.pod_commands import (
    AssignExecutorId,
    CreatePod,
    CreateSet,
    DeleteOwned,
    DeletePod,
    DeletePods,
    DeleteSet,
    GetDriverPod,
    ListClaims,
    ListPods,
    MarkPods,
    ResizePod,
    ScaleSet,
)
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    ExecutorsSummarized,
    ExecutorSummary,
    GenerateExecutorId,
    MemoryMeasured,
    MemoryUse,
    Outcome,
)
from podtide.domain.protocol.reasons import Bound, Held
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted, TaskEnd, TaskStart
from tests.support.engine_play import REFUSED, Answers, AppPlay, S, config, serials

DYNAMIC = ScalingConfig(idle_timeout_ms=10 * S, backlog_timeout_ms=S, shuffle_tracking=False, executors_max=20)


def busy(play: AppPlay, tasks: int = 4, stage: int = 0) -> None:
    """A stage of tasks that wait."""
    play.feed(StageSubmitted(play.now, stage, 0, tasks, ProfileId(0)))


def finish(play: AppPlay, tasks: int, *executors: str, stage: int = 0) -> None:
    """Its tasks run and end, on these executors in turn."""
    for index in range(tasks):
        executor = ExecutorId(executors[index % len(executors)])
        play.feed(TaskStart(play.now, stage, 0, index, executor))
        play.feed(TaskEnd(play.now, stage, 0, index, executor))


# ---------------------------------------------------------------------------------------------------------- static


def test_a_static_application_reaches_its_target_batch_by_batch() -> None:
    play = AppPlay(config(initial=45))
    assert play.created == list(range(1, 21))
    play.show("Pending", *range(1, 21))
    play.wait(S)
    assert len(play.created) == 40
    play.wait(5 * S)
    assert len(play.created) == 40, "unacknowledged pods hold the profile back"
    play.up(*range(1, 41))
    play.wait(S)
    assert play.created == list(range(1, 46))
    play.up(*range(41, 46))
    assert len(play.registered) == 45
    said = len(play.said)
    play.wait(600 * S)
    assert len(play.said) == said, "an application at its target asks for nothing"


# --------------------------------------------------------------------------------------------------------- dynamic


def test_dynamic_allocation_asks_and_the_allocator_creates() -> None:
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC))
    assert play.created == []
    busy(play, 4)
    play.wait(S)
    (initial, request) = play.all(RequestTotal)
    assert dict(initial.targets) == {0: 0}
    assert dict(request.targets) == {0: 1}
    assert play.created == [1]
    play.wait(2 * S)
    assert dict(play.all(RequestTotal)[-1].targets) == {0: 4}
    assert play.side.backend.requested == ((0, 4),)


def test_idle_executors_are_killed_and_what_still_runs_is_deleted_after_the_grace_period() -> None:
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC))
    busy(play, 2)
    play.wait(S)
    play.up(1)
    play.wait(2 * S)
    play.up(2)
    finish(play, 2, "1", "2")
    play.wait(11 * S)
    kills = play.all(Kill)
    assert {executor for kill in kills for executor in kill.executors} == {"1", "2"}
    assert play.removed == {"1": "killed by the driver", "2": "killed by the driver"}
    assert play.registered == set()
    killed_at = play.times(Kill)[-1]
    play.wait(6 * S)
    deletes = [command for command in play.all(DeletePods) if command.phase == "Running"]
    assert [command.executors for command in deletes] == [("1", "2")]
    assert all(command.list_first for command in deletes)
    assert play.times(DeletePods) == [killed_at + 5 * S]
    assert play.created == [1, 2], "what was let go is not replaced"


def test_decommissioned_executors_are_told_and_their_pods_labelled() -> None:
    settings = config(
        dynamic=True, scaling=replace(DYNAMIC, decommission=True),
        backend={
            "decommission_label": "spark-state", "decommission_label_value": "leaving", "force_kill_timeout_ms": 30 * S,
        },
    )  # fmt: skip
    play = AppPlay(settings)
    busy(play, 1)
    play.wait(2 * S)
    play.up(1)
    finish(play, 1, "1")
    play.wait(11 * S)
    (told,) = play.all(DecommissionExecutors)
    assert (told.executors, told.notify_executors) == (("1",), True)
    (mark,) = play.all(MarkPods)
    assert (mark.kind, mark.key, mark.value, mark.executors) == ("label", "spark-state", "leaving", ("1",))
    assert play.registered == {"1"}
    play.wait(31 * S)
    assert play.removed == {"1": "decommission timeout"}
    play.wait(6 * S)
    assert play.all(DeletePods)[-1].executors == ("1",)


def test_a_loss_comes_back_to_dynamic_allocation() -> None:
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC, failures_max=10))
    busy(play, 2)
    play.wait(S)
    play.up(1)
    play.wait(2 * S)
    play.up(2)
    roster = play.state.scaling.idleness.roster(ProfileId(0))
    assert roster.count == 2
    play.show("Failed", 1)
    play.wait(S)
    assert play.removed == {"1": "pod failed"}
    assert play.state.scaling.idleness.roster(ProfileId(0)).count == 1
    assert play.created == [1, 2, 3]


def test_dynamic_allocation_hears_no_answer_that_is_somebody_elses() -> None:
    """The application kills executors with the serial that dynamic allocation's very next question will have."""
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC, allocator="statefulset", driver_pod="driver"))
    busy(play, 2)
    play.wait(2 * S)
    play.up(1, 2)
    play.feed(TaskStart(play.now, 0, 0, 0, ExecutorId("1")))
    play.wait(12 * S)  # the second one is idle for too long, and kept by the target
    play.answers.silent = (ScaleSet,)
    play.feed(StageCompleted(play.now, 0, 0))
    play.wait(S)
    awaiting = play.state.scaling.awaiting
    assert awaiting is not None
    play.feed(KillRequested(play.now, (ExecutorId("9"),), serial=awaiting.serial + 1))
    play.answers.silent = ()
    play.feed(Outcome(play.now, play.all(ScaleSet)[-1].serial))
    (kill,) = play.all(Kill)
    assert (kill.serial, kill.executors) == (awaiting.serial + 1, ("2",))
    assert play.removed == {"2": "killed by the driver"}
    assert not [r for r in play.reports if isinstance(r, Held) and r.bound is Bound.REFUSED_KILL]


def test_the_tick_grid_stays_where_the_application_began() -> None:
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC), now=37)
    play.until(5 * S)
    busy(play, 1)
    assert engine.wake_due(play.state, play.config) == 6_037
    play.until(6_036)
    assert play.created == []
    play.until(6_037)
    assert play.created == [1]


# --------------------------------------------------------------------------------------------------- calls and answers


def test_every_call_has_a_serial_of_its_own() -> None:
    settings = config(
        initial=3, poll=True, driver_pod="driver", failures_max=50,
        backend={"decommission_label": "x"}, roll=RollConfig(60 * S), resize=ResizeConfig(60 * S, 0.9, 0.5),
    )  # fmt: skip
    play = AppPlay(settings)
    play.up(1, 2, 3)
    play.show("Failed", 1)
    play.wait(2 * S)
    play.kill(2)
    play.feed(DecommissionRequested(play.now, (ExecutorId("3"),), "bye"))
    play.wait(61 * S)
    play.feed(MemoryMeasured(play.now, (MemoryUse(ExecutorId("3"), "exec-3", "c", 95, 100),)))
    play.feed(Stopping(play.now))
    said = serials(command for _, command in play.said)
    assert len(said) == len(set(said)) > 15
    kinds = {type(command) for _, command in play.said}
    assert kinds >= {
        GetDriverPod,
        CreatePod,
        DeletePod,
        DeletePods,
        MarkPods,
        ListPods,
        ResizePod,
        StopSource,
        DeleteOwned,
    }


def test_an_answer_that_never_comes_leaves_the_round_open_and_everything_else_alive() -> None:
    play = AppPlay(config(initial=2), Answers(silent=(CreatePod,)))
    play.wait(60 * S)
    assert play.created == [1, 2]
    play.register(1)
    assert play.accepted == {"1": True}
    play.show("Failed", 1)
    play.wait(2 * S)
    assert play.removed == {"1": "pod failed"}
    first, second = play.all(CreatePod)
    play.feed(Outcome(play.now, second.serial), Outcome(play.now, first.serial))
    play.answers.silent = ()
    play.show("Running", 2)
    play.wait(S)
    assert play.created == [1, 2, 3]


def test_answers_that_come_twice_late_or_for_nobody_are_passed_over() -> None:
    play = AppPlay(config(initial=1), Answers(silent=(CreatePod,)))
    (create,) = play.all(CreatePod)
    play.feed(Outcome(play.now, create.serial))
    before = play.side
    for serial in (create.serial, 0, -1, -8, 5, 6, 7, 2**62, create.serial + 1):
        play.feed(Outcome(play.now, serial, REFUSED))
    assert play.side.allocator == before.allocator
    play.show("Pending", 1)
    play.wait(10 * S)
    assert play.created == [1]


def test_time_passes_over_idle_rounds() -> None:
    play = AppPlay(config(initial=1))
    play.up(1)
    play.wait(2 * S)
    assert engine.wake_due(play.state, play.config) == NEVER
    play.now += 3_600 * S + 250
    play.show("Failed", 1)
    assert engine.wake_due(play.state, play.config) == 3_603 * S
    play.until(3_603 * S)
    assert play.removed == {"1": "pod failed"}
    assert play.created == [1, 2]


# ----------------------------------------------------------------------------------------------------------- endings


def test_a_fatal_round_ends_the_application_when_its_calls_came_back() -> None:
    """The first profile's pods are under way when the listing of claims for the second one throws."""
    settings = config(driver_pod="driver", allocation={"own_claims": True, "reuse_claims": True})
    play = AppPlay(settings, Answers(silent=(CreatePod, ListClaims)))
    play.want(1, 1)
    play.feed(Outcome(play.now, play.all(ListClaims)[0].serial))
    second = play.all(ListClaims)[1]
    bad = CallFailure(None, "bad label", "java.lang.IllegalArgumentException")
    play.feed(Outcome(play.now, second.serial, bad))
    assert play.threw() == [("ExecutorPodsAllocator", "java.lang.IllegalArgumentException: bad label")]
    assert play.all(StopApplication) == [], "in Spark the pods were answered before the listing was asked for"
    play.feed(Outcome(play.now, play.all(CreatePod)[0].serial))
    (stop,) = play.all(StopApplication)
    assert stop.exit_code == 1
    assert "bad label" in str(dict(stop.why.facts)["threw"])


@pytest.mark.parametrize("allocator", ["direct", "statefulset"])
def test_an_application_without_its_driver_pod_does_not_start(allocator: str) -> None:
    answers = Answers(failing=(GetDriverPod,), failure=CallFailure(404, "not found"))
    play = AppPlay(config(initial=2, allocator=allocator, driver_pod="driver"), answers)
    (stop,) = play.all(StopApplication)
    assert (stop.exit_code, stop.why.cause.value) == (1, "started")
    assert "No pod was found named driver" in str(dict(stop.why.facts)["threw"])
    play.wait(60 * S)
    assert play.created == []
    assert len(play.all(StopApplication)) == 1


def test_stop_goes_in_sparks_order() -> None:
    settings = config(initial=1, dynamic=True, scaling=replace(DYNAMIC, executors_initial=1), poll=True)
    play = AppPlay(settings)
    play.up(1)
    busy(play, 50)
    said = play.feed(Stopping(play.now))
    steps = [
        command.what if isinstance(command, StopSource) else
        command.kind if isinstance(command, DeleteOwned) else type(command).__name__
        for command in said
    ]  # fmt: skip
    assert steps == [
        "scheduler", "watch", "services", "persistentvolumeclaims", "DeletePods", "timers", "client",
    ]  # fmt: skip
    assert play.all(DeletePods)[-1].executors is None
    before = len(play.said)
    play.wait(600 * S)
    assert [c for _, c in play.said[before:] if not isinstance(c, StopSource)] == [], "dynamic allocation stops first"
    play.register(7)
    assert "7" not in play.accepted, "a context that is stopped does not answer"


# ------------------------------------------------------------------------------------------- who makes the pods instead


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_a_set_is_created_and_scaled(kind: str) -> None:
    play = AppPlay(config(initial=3, allocator=kind, driver_pod="driver"))
    (made,) = play.all(CreateSet)
    assert (made.kind, made.replicas, made.name) == (kind, 3, f"spark-{kind[0]}-app-0")
    play.want(5)
    play.want(5)
    assert [command.replicas for command in play.all(ScaleSet)] == [5, 5]
    assert play.created == []
    play.feed(GenerateExecutorId(play.now, "spark-s-app-0-0", "a"))
    (named,) = play.all(AssignExecutorId)
    assert (named.pod, named.executor) == ("spark-s-app-0-0", "1")
    play.register(1)
    assert play.registered == {"1"}
    play.feed(Stopping(play.now))
    assert [command.name for command in play.all(DeleteSet)] == [made.name]


def test_a_scale_that_fails_is_answered_so_and_the_next_one_goes_on() -> None:
    play = AppPlay(config(dynamic=True, scaling=DYNAMIC, allocator="statefulset", driver_pod="driver"))
    play.answers.failing = (ScaleSet,)
    busy(play, 2)
    play.wait(S)
    assert len(play.all(ScaleSet)) >= 1
    assert (
        "StatefulSetPodsAllocator",
        "io.fabric8.kubernetes.client.KubernetesClientException: forbidden",
    ) in play.threw()
    play.answers.failing = ()
    play.wait(3 * S)
    assert play.all(ScaleSet)[-1].replicas == 2


def test_what_is_asked_of_a_set_while_a_call_is_under_way_comes_after_it() -> None:
    play = AppPlay(config(initial=1, allocator="deployment", driver_pod="driver"), Answers(silent=(ScaleSet,)))
    play.want(2)
    play.want(3)
    play.feed(RegisterExecutor(play.now, ExecutorId("1"), ProfileId(0), "h", "a"))
    assert len(play.all(ScaleSet)) == 1
    assert play.accepted == {}, "the backend stands still, as Spark does behind its locks"
    play.answers.silent = ()
    play.feed(Outcome(play.now, play.all(ScaleSet)[0].serial))
    assert [command.replicas for command in play.all(ScaleSet)] == [2, 3]
    assert play.accepted == {"1": True}


# ----------------------------------------------------------------------------------------------------------- plugins


def summary(play: AppPlay, *executors: str) -> ExecutorsSummarized:
    """What the status store says."""
    return ExecutorsSummarized(play.now, tuple(ExecutorSummary(ExecutorId(e), int(e), tasks=1) for e in executors))


def test_the_roll_plugin_wants_a_summary_and_decommissions_one() -> None:
    play = AppPlay(config(initial=2, roll=RollConfig(60 * S, "ADD_TIME")))
    play.up(1, 2)
    side = play.config.kubernetes
    play.until(59_999)
    assert not wants(play.side, side, play.now).summary
    play.until(60 * S)
    assert wants(play.side, side, play.now) == (True, False, False)
    play.wait(5 * S)
    assert play.all(DecommissionExecutors) == []
    play.feed(summary(play, "1", "2"))
    (told,) = play.all(DecommissionExecutors)
    assert told.executors == ("1",)
    assert not wants(play.side, side, play.now).summary
    play.show("Succeeded", 1)
    play.wait(2 * S)
    assert play.created == [1, 2, 3], "the target stays"
    assert engine.wake_due(play.state, play.config) == 120 * S


def test_the_resize_plugin_wants_measurements_and_resizes() -> None:
    play = AppPlay(config(initial=1, resize=ResizeConfig(60 * S, 0.9, 0.5)))
    play.up(1)
    play.until(60 * S)
    assert wants(play.side, play.config.kubernetes, play.now) == (False, True, False)
    play.feed(MemoryMeasured(play.now, (MemoryUse(ExecutorId("1"), "exec-1", "c", 95, 100),)))
    (resize,) = play.all(ResizePod)
    assert (resize.pod, resize.memory_bytes) == ("exec-1", 150)
