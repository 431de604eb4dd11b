"""Targets without a driver: registrations made of running pods, and the surplus that is killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.fakes.driver.script import Targets
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import FakeApplication, KubernetesCluster
from podtide.domain.fakes.kubernetes.description import Life, NodeGroup, PodStage
from podtide.domain.live import headless
from podtide.domain.live.headless import HeadlessConfig, HeadlessState
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
)
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, KillRequested, RegisterExecutor, TargetsSet
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import ContainerState, PodContainer, PodManifest
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.common.app_config import app_settings
from podtide.entrypoints.common.app_loop import AppLoop
from podtide.entrypoints.simulate.driver_scripts import WorkloadScript
from podtide.entrypoints.simulate.run import FakeEnvironment
from tests.support.world_play import plain

CONFIG = HeadlessConfig()
S = 1_000
NOW = 5 * S
WHY = Why(Cause.KILLED)


def pod(
    number: object, phase: str = "Running", *, profile: object = 0, deleted: bool = False, container: str | None = None,
    state: str | None = None, name: str | None = None,
) -> PodManifest:  # fmt: skip
    """An executor pod; its Spark container is in the state that goes with the phase unless told."""
    kind = state or {"Running": "running", "Pending": "waiting"}.get(phase, "terminated")
    return PodManifest(
        name=name or f"exec-{number}",
        labels={"spark-exec-id": str(number), "spark-exec-resourceprofile-id": str(profile)},
        deleted_at="2026-11-21T10:00:00Z" if deleted else None,
        phase=phase,
        containers=(PodContainer(container or "spark-kubernetes-executor", None, ContainerState(kind)),),
        node=f"node-{number}",
    )


def updated(*pods: PodManifest) -> PodsUpdated:
    return PodsUpdated(0, pods)


def wanted(*targets: int) -> TargetsSet:
    return TargetsSet(0, tuple((ProfileId(profile), target) for profile, target in enumerate(targets)))


def after(*items: Any) -> tuple[HeadlessState, list[Any]]:
    state = headless.begin()
    said: list[Any] = []
    for item in items:
        step = headless.drive(state, (item,), CONFIG, NOW)
        state = step.state
        said.extend(step.commands)
    return state, said


def ids(*numbers: object) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(str(number)) for number in numbers)


def kills(said: Sequence[Any]) -> list[tuple[ExecutorId, ...]]:
    return [one.executors for one in said if isinstance(one, KillRequested)]


def registered(said: Sequence[Any]) -> list[ExecutorId]:
    return [one.executor for one in said if isinstance(one, RegisterExecutor)]


# ----------------------------------------------------------------------------------------------------------- who is there


@pytest.mark.parametrize(
    "seen",
    [
        pod(1, "Pending"), pod(1, deleted=True), pod(1, state="waiting"), pod(1, state="terminated"), pod(1, "Failed"),
        pod(1, "Succeeded", state="running"), pod(""), PodManifest(labels={"a": "b"}, phase="Running"), PodManifest(),
        pod(1)._replace(containers=()),
        pod(1)._replace(containers=(PodContainer("spark-kubernetes-executor", None, None),)),
        pod(1)._replace(containers=(PodContainer("a"), PodContainer("b"))),
    ],
)  # fmt: skip
def test_what_does_not_run_does_not_register(seen: PodManifest) -> None:
    assert after(updated(seen))[1] == []


@pytest.mark.parametrize(("label", "profile"), [(3, 3), ("", 0), ("x", 0), ("-1", 0), ("99999999999", 0), ("٣", 0)])
def test_a_profile_that_nobody_can_read_is_the_default_one(label: object, profile: int) -> None:
    assert after(updated(pod(1, profile=label)))[1][0].profile == profile


def test_spark_container_by_another_name() -> None:
    assert registered(after(updated(pod(1, container="main")))[1]) == ["1"], "it is the only one"
    two = pod(1)._replace(containers=(PodContainer("proxy", None, ContainerState("waiting")), PodContainer("mine")))
    step = headless.drive(headless.begin(), (updated(two),), HeadlessConfig("mine"), NOW)
    assert registered(step.commands) == ["1"]


def test_lists_that_come_as_outcomes_are_seen_too() -> None:
    assert registered(after(Outcome(0, 9, pods=(pod(1), pod(2))))[1]) == ["1", "2"]


def test_a_pod_without_an_id_asks_for_one_once() -> None:
    nameless = pod("EXECID", name="set-0")
    state, said = after(updated(pod("EXECID", "Pending", name="set-0")), updated(nameless), updated(nameless))
    assert said == [GenerateExecutorId(NOW, "set-0")]
    named, said = after(updated(nameless), updated(pod(4, name="set-0")))
    assert registered(said) == ["4"]
    gone, _ = after(updated(nameless), PodsReplaced(0, ()))
    over, _ = after(updated(nameless), updated(pod("EXECID", name="set-0", deleted=True)))
    assert not named.unnamed()
    assert not gone.unnamed()
    assert not over.unnamed()
    assert state.unnamed()


# ------------------------------------------------------------------------------------------------------------ who has to go


def test_the_newest_go_first_by_number() -> None:
    state, said = after(wanted(12), updated(*(pod(number) for number in (9, 10, 11, 2, 1))), wanted(2))
    assert kills(said) == [ids(11, 10, 9)]
    assert state.registered(ProfileId(0)) == 2
    kill = said[-1]
    assert (kill.adjust_target, kill.count_failures, kill.force, kill.at) == (False, False, True, NOW)


@pytest.mark.parametrize(
    "leaving",
    [
        KillRequested(0, ids(3), force=True),
        RemoveExecutor(0, ExecutorId("3"), ExitReason("ExecutorKilled", ""), WHY),
        DecommissionExecutors(0, ids(3), "", True, WHY),
        AnswerRegistration(0, ExecutorId("3"), False, WHY),
        updated(pod(3, deleted=True)),
    ],
)
def test_who_leaves_anyway_is_no_surplus(leaving: Any) -> None:
    three = updated(pod(1), pod(2), pod(3))
    rest = updated(pod(1), pod(2)) if isinstance(leaving, PodsUpdated) else three
    assert kills(after(three, leaving, wanted(2), rest)[1]) == []
    assert kills(after(three, leaving, wanted(1), rest)[1]) == [ids(2)]


def test_who_was_asked_to_go_neither_comes_back_nor_is_asked_again() -> None:
    three = updated(pod(1), pod(2), pod(3))
    _, said = after(three, wanted(1), three, wanted(1), wanted(5), three, wanted(0), three)
    assert registered(said) == ["1", "2", "3"]
    assert kills(said) == [ids(3, 2), ids(1)]


def test_accepted_registrations_change_nothing() -> None:
    state, _ = after(updated(pod(1)), AnswerRegistration(0, ExecutorId("1"), True, WHY), wanted(1))
    assert state.registered(ProfileId(0)) == 1


# ------------------------------------------------------------------------------------------------------------- the boundary


def happenings() -> st.SearchStrategy[Any]:
    numbers = st.integers(1, 6)
    pods = st.builds(
        pod, numbers, st.sampled_from(["Running", "Running", "Pending", "Failed"]), profile=st.integers(0, 1),
        deleted=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    return st.one_of(
        st.lists(pods, max_size=4).map(lambda seen: updated(*seen)),
        st.lists(pods, max_size=6, unique_by=lambda one: one.name).map(lambda seen: PodsReplaced(0, tuple(seen))),
        st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda targets: wanted(*targets)),
        numbers.map(lambda one: RemoveExecutor(0, ExecutorId(str(one)), ExitReason("x", ""), WHY)),
    )


@pytest.mark.uncounted
@settings(max_examples=200, deadline=None)
@given(st.lists(happenings(), max_size=20))
def test_nobody_is_asked_twice_and_older_states_answer_as_before(items: list[Any]) -> None:
    states, steps = [headless.begin()], []
    there: dict[ExecutorId, bool] = {}  # by what was said: registered, and asked to go or not
    for item in items:
        step = headless.drive(states[-1], (item,), CONFIG, NOW)
        for executor in [executor for executor in there if executor not in step.state.executors()]:
            del there[executor]
        for one in step.commands:
            if isinstance(one, RegisterExecutor):
                assert one.executor not in there
                there[one.executor] = True
            elif isinstance(one, KillRequested):
                for executor in one.executors:
                    assert there.pop(executor), "it is registered, and was not asked before"
                    there[executor] = False
        state = step.state
        for profile, target in state.targets().items():
            assert state.registered(profile) <= target
        states.append(state)
        steps.append(step)
    for state, item, step in zip(states, items, steps, strict=False):
        again = headless.drive(state, (item,), CONFIG, NOW)
        assert again.commands == step.commands
        assert again.state.executors() == step.state.executors()


# ---------------------------------------------------------------------------------------------------- with a cluster beneath


class Headless(FakeEnvironment):
    """The fake cluster without anybody in it who registers: headless sees pods and decisions, and says the rest."""

    state: HeadlessState

    @property
    def cluster(self) -> KubernetesCluster:
        assert isinstance(self.world, KubernetesCluster)
        return self.world

    def begin(self) -> None:
        self.state = headless.begin()
        self.ready: list[AnyStimulus] = []
        self.killed: list[tuple[Millis, tuple[ExecutorId, ...]]] = []

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        if self.ready:
            ready, self.ready = self.ready, []
            return self.world.now, ready
        at, heard = super().wait(until)
        pods: list[Any] = [one for one in heard if not isinstance(one, RegisterExecutor | ExecutorDisconnected)]
        step = headless.drive(self.state, pods, CONFIG, max(at, 0) if at != NEVER else self.world.now)
        self.state = step.state
        self.killed += [(at, one.executors) for one in step.commands if isinstance(one, KillRequested)]
        return at, (*pods, *step.commands)

    def apply(self, command: Command, now: Millis) -> None:
        step = headless.drive(self.state, (command,), CONFIG, now)
        self.state = step.state
        self.ready += step.commands
        if not isinstance(command, RemoveExecutor | DecommissionExecutors):  # there is nobody to tell executors to go
            super().apply(command, now)


def play(*steps: tuple[Millis, int], faults: tuple[PodStage, ...] = ()) -> tuple[AppLoop, Headless, list[int]]:
    """The cluster's running pods before each step and at the end."""
    given_conf = {
        "spark.app.id": "app", "spark.executor.instances": "0", "spark.kubernetes.container.image": "x",
        "spark.kubernetes.executor.podNamePrefix": "mine", "spark.kubernetes.allocation.batch.size": "100",
        "spark.executor.maxNumFailures": "10000",
    }  # fmt: skip
    config = app_settings(from_mapping(given_conf, "a test")).config
    targets = Targets(tuple((at, ((ProfileId(0), target),)) for at, target in steps))
    world = worlds.begin(
        plain(*faults, without=("register",), groups=(NodeGroup("worker", 10),)), 1, 0,
        sources=config.kubernetes.sources, application=FakeApplication("app", "mine", "default"),
    )  # fmt: skip
    environment = Headless(world, WorkloadScript(targets, 1, 0, config.scaling.profile_rules))
    environment.begin()
    loop = AppLoop(config, 0, environment)
    loop.launch()
    counts = []
    for at in [*(at for at, _ in steps[1:]), steps[-1][0] + 180 * S]:
        loop.run(at - 1)
        counts.append(running(environment))
    return loop, environment, counts


def running(environment: Headless) -> int:
    seen = worlds.pods(environment.cluster)
    return len([one for one in seen if one.phase == "Running" and one.deleted_at is None])


def test_the_cluster_follows_its_targets_up_and_down() -> None:
    loop, environment, counts = play((0, 10), (120 * S, 50), (300 * S, 5), (480 * S, 0))
    assert counts == [10, 50, 5, 0]
    assert [len(gone) for _, gone in environment.killed] == [45, 5]
    assert environment.killed[0][1] == ids(*range(50, 5, -1)), "the oldest are kept"
    side = loop.state.kubernetes
    assert side is not None
    assert not side.backend.registry.executors
    assert worlds.tally(environment.cluster)["pods.created"] == 50, "nobody was replaced"
    assert not environment.state.executors()
    assert worlds.pods(environment.cluster) == ()


def test_executors_that_die_are_replaced_and_nobody_else_goes() -> None:
    dies = PodStage("dies", Life.RUNNING, Life.FAILED, per_hour=12.0, exits=((1, 1.0),))
    loop, environment, counts = play((0, 8), (900 * S, 3), faults=(dies,))
    created = worlds.tally(environment.cluster)["pods.created"]
    assert created > 12
    assert counts[0] in {7, 8}, "one may just have died"
    assert sum(len(gone) for _, gone in environment.killed) <= 5
    assert running(environment) in {2, 3}
    assert loop.state.kubernetes is not None
    assert len(loop.state.kubernetes.backend.registry.executors) == environment.state.registered(ProfileId(0))


def test_a_target_that_falls_while_pods_come_up_is_reached_all_the_same() -> None:
    _, environment, counts = play((0, 40), (4 * S, 3))
    assert counts[-1] == 3
    assert environment.state.registered(ProfileId(0)) == 3
