"""The composition of the Kubernetes side: who is told what, once and in order; time that is passed over; serials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.kubernetes import router, side, snapshots_store as store
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.router import MACHINES, Machine
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.kubernetes.snapshots_store import ALLOCATOR, LIFECYCLE
from podtide.domain.protocol import executor_stimuli, pod_stimuli
from podtide.domain.protocol.backend_messages import Requested
from podtide.domain.protocol.cluster_config import KubernetesConfig, LifecycleConfig, RollConfig
from podtide.domain.protocol.executor_commands import RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import CreatePod, DeletePods, ListPods, MarkInactive
from podtide.domain.protocol.pods import SPARK_CONTAINER, TERMINATED, ContainerState, PodContainer, PodManifest
from tests.support.engine_play import Answers, AppPlay, S, config, manifest


def started(settings: KubernetesConfig, now: Millis = 0) -> KubernetesState:
    """A side whose start is done and whose targets are 0."""
    step = router.step(side.begin(settings, now), (executor_stimuli.Starting(now),), settings, now)
    assert step.commands == ()
    return step.state


def subscriber(state: KubernetesState, name: str) -> store.Subscriber:
    """A subscriber of the store."""
    found = state.store.subscriber(name)
    assert found is not None
    return found


PLAIN = config(initial=0).kubernetes


# ---------------------------------------------------------------------------------------------------------- serials


def test_machines_have_room_for_their_serials() -> None:
    assert max(Machine) < MACHINES
    assert len({int(machine) for machine in Machine}) == len(Machine)


def test_an_outcome_finds_its_machine() -> None:
    play = AppPlay(
        config(initial=1, poll=True, backend={"decommission_label": "x"}), Answers(silent=(CreatePod, ListPods))
    )
    play.up(1)
    play.until(30 * S)
    (create,), (listing,) = play.all(CreatePod), play.all(ListPods)
    assert (create.serial % MACHINES, listing.serial % MACHINES) == (Machine.ALLOCATOR, Machine.POLLING)
    play.feed(pod_stimuli.Outcome(play.now, create.serial))
    assert play.side.allocator is not None
    assert play.side.allocator.round is None
    assert play.side.polling.list_serial is not None
    play.feed(pod_stimuli.Outcome(play.now, listing.serial, pods=(manifest(1),)))
    assert play.side.polling.due == 60 * S


# ------------------------------------------------------------------------------------------------- rounds and deliveries


def test_a_start_subscribes_the_allocator_before_the_lifecycle_manager() -> None:
    state = started(PLAIN)
    assert [known.name for known in state.store.subscribers] == [ALLOCATOR, LIFECYCLE]
    assert state.starting is None


def test_what_a_subscriber_hears_before_its_delivery_does_not_end_its_round() -> None:
    """An executor is killed by force in the very moment in which a round is due: the allocator hears of it first."""
    settings = config(initial=3, backend={"force_kill_timeout_ms": 10 * S}, failures_max=9)
    play = AppPlay(settings)
    play.up(1, 2, 3)
    play.wait(S)
    play.feed(executor_stimuli.DecommissionRequested(play.now, (ExecutorId("1"),), "bye"))
    assert play.now % S == 0
    play.answers.silent = (CreatePod,)
    play.until(11 * S - 1)
    play.show("Failed", 2)
    play.until(11 * S)
    assert play.removed == {"1": "decommission timeout", "2": "pod failed"}
    assert play.created == [1, 2, 3, 4]
    assert play.side.allocator is not None
    assert play.side.allocator.round is not None
    assert subscriber(play.side, ALLOCATOR).busy is not None, "its call is under way, so its round is not over"
    assert subscriber(play.side, ALLOCATOR).due is None
    play.until(13 * S + 500)
    play.feed(pod_stimuli.Outcome(play.now, play.all(CreatePod)[-1].serial))
    assert subscriber(play.side, ALLOCATOR).busy is None
    assert subscriber(play.side, ALLOCATOR).due == 14 * S + 500, "a fixed delay after the end of the round"


def test_a_round_that_was_notified_during_another_is_made_up_for() -> None:
    play = AppPlay(config(initial=0), Answers(silent=(CreatePod,)))
    play.wait(2 * S)
    play.want(1)
    play.show("Pending", 1)
    play.want(3)
    assert play.created == [1], "the round is open"
    play.answers.silent = ()
    play.feed(pod_stimuli.Outcome(play.now, play.all(CreatePod)[0].serial))
    assert play.created == [1, 2, 3], "no need to wait for the timer"
    assert subscriber(play.side, ALLOCATOR).notifications == 0


def test_a_round_that_threw_long_before_its_last_answer_is_remembered() -> None:
    play = AppPlay(config(initial=0, allocation={"pods_max": 3}), Answers(silent=(CreatePod,)))
    play.want(5)
    assert play.created == [1, 2]
    assert [machine for machine, _ in play.threw()] == ["ExecutorPodsAllocator"]
    assert dict(play.side.thrown) == {ALLOCATOR: "org.apache.spark.SparkException: Exceed the pod creation limit: 3"}
    first, second = play.all(CreatePod)
    play.feed(pod_stimuli.Outcome(play.now, first.serial))
    assert subscriber(play.side, ALLOCATOR).busy is not None
    play.feed(pod_stimuli.Outcome(play.now, second.serial))
    assert play.side.thrown == {}
    assert subscriber(play.side, ALLOCATOR).busy is None
    assert play.all(StopApplication) == [], "a SparkException is logged and forgotten"


def test_patches_hold_the_lifecycle_managers_round_open() -> None:
    settings = config(initial=1, failures_max=9, lifecycle=LifecycleConfig(delete_on_termination=False, failures_max=9))
    play = AppPlay(settings, Answers(silent=(MarkInactive,)))
    play.up(1)
    play.show("Failed", 1)
    play.wait(S)
    (mark,) = play.all(MarkInactive)
    assert lifecycle.busy(play.side.lifecycle)
    assert subscriber(play.side, LIFECYCLE).busy is not None
    play.show("Failed", 2)
    play.wait(10 * S)
    assert len(play.all(MarkInactive)) == 1
    play.answers.silent = ()
    play.feed(pod_stimuli.Outcome(play.now, mark.serial))
    play.wait(S)
    assert [int(command.executor) for command in play.all(MarkInactive)] == [1, 2]


# ---------------------------------------------------------------------------------------------------- what is carried


def test_excess_pods_that_were_deleted_may_not_register() -> None:
    play = AppPlay(config(initial=2))
    play.show("Pending", 1, 2)
    play.wait(61 * S)
    play.want(1)
    play.wait(S)
    assert play.deleted == [(61 * S, (1,), "Pending")]
    assert play.side.backend.is_excluded(ExecutorId("1"))
    play.register(1, 2)
    assert play.accepted == {"1": False, "2": True}
    play.show_all("Running", 2)
    play.wait(S)
    assert not play.side.backend.is_excluded(ExecutorId("1"))


def test_executors_of_other_names_are_none_of_the_allocators_business() -> None:
    play = AppPlay(config(initial=0))
    for name in ("x", "", "007x", "９", "9" * 30):
        play.feed(
            executor_stimuli.RegisterExecutor(play.now, ExecutorId(name), ProfileId(0), "h", f"address of {name}")
        )
    assert play.registered == {"９"}, "what is no Long is turned away before it is taken in"
    assert play.side.allocator is not None
    assert play.side.allocator.fleet.known_numbers() == frozenset()


def test_an_executor_lost_for_lack_of_memory_turns_recovery_mode_on() -> None:
    play = AppPlay(config(initial=1, failures_max=9))
    play.up(1)
    play.feed(pod_stimuli.PodsUpdated(play.now, (_out_of_memory(1),)))
    play.wait(S)
    assert play.removed == {"1": "pod failed"}
    assert [command.single_task for command in play.all(CreatePod)] == [False, False], "its replacement came first"
    play.show("Failed", 2)
    play.wait(S)
    assert play.all(CreatePod)[-1].single_task


def _out_of_memory(number: int) -> PodManifest:
    ended = PodContainer(SPARK_CONTAINER, None, ContainerState(TERMINATED, 52, "OOMKilled"))
    return manifest(number, "Failed")._replace(containers=(ended,))


# --------------------------------------------------------------------------------------------------------------- due


def test_the_next_round_is_on_the_grid_of_the_rounds_that_were_passed_over() -> None:
    state = router.step(started(PLAIN, 300), (executor_stimuli.Wake(300),), PLAIN, 300).state
    later = router.step(state, (pod_stimuli.PodsUpdated(7_777, (manifest(1),)),), PLAIN, 7_777).state
    assert side.due(later, PLAIN) == 8_300
    assert subscriber(state, ALLOCATOR).due == 1_300, "the older state is as it was"


def test_targets_make_a_round_due_at_once() -> None:
    state = router.step(started(PLAIN), (executor_stimuli.Wake(0),), PLAIN, 0).state
    step = router.step(state, (executor_stimuli.TargetsSet(5_432, ((ProfileId(0), 1),)),), PLAIN, 5_432)
    assert [type(command) for command in step.commands] == [Requested, CreatePod]
    assert side.due(step.state, PLAIN) == 6_000, "the timer's run, which finds the round open and counts itself"


def test_the_earliest_of_all_timers_is_due() -> None:
    settings = config(initial=1, poll=True, roll=RollConfig(20 * S)).kubernetes
    play = AppPlay(replace(config(initial=1), kubernetes=settings))
    play.up(1)
    play.wait(2 * S)
    assert side.due(play.side, settings) == 20 * S
    play.wait(19 * S)
    assert side.due(play.side, settings) == 30 * S, "the poll; the plugin waits for its summary"
    play.kill(1)
    assert side.due(play.side, settings) == 21 * S, "the round that is due at this very moment"
    play.until(25 * S)
    assert side.due(play.side, settings) == 26 * S, "the end of its grace period"
    play.until(26 * S)
    assert [command.executors for command in play.all(DeletePods)] == [("1",)]


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_a_set_has_no_rounds_of_its_own(kind: str) -> None:
    settings = config(initial=1, allocator=kind, driver_pod="driver").kubernetes
    assert side.begin(settings, 0).allocator is None
    play = AppPlay(config(initial=1, allocator=kind, driver_pod="driver"))
    assert [known.name for known in play.side.store.subscribers] == [LIFECYCLE]
    play.wait(S)
    assert side.due(play.side, settings) == NEVER


# ------------------------------------------------------------------------------------------------------------ the start


def test_loss_and_registration_in_one_step_keep_their_order() -> None:
    play = AppPlay(config(initial=2, failures_max=9))
    play.up(1, 2)
    play.now += S
    said = play.feed(pod_stimuli.PodsUpdated(play.now, (manifest(1, "Failed"),)), executor_stimuli.Wake(play.now))
    assert [type(command).__name__ for command in said[:3]] == ["CreatePod", "DeletePod", "RemoveExecutor"]
    assert [command.executor for command in play.all(RemoveExecutor)] == ["1"]
