"""A simulation: cluster and driver stepped together, the plugins' summaries, when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.engine import EngineState
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage, Targets, Workload
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.fakes.kubernetes.description import Description, Life
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import DecommissionExecutors, StopApplication
from podtide.domain.protocol.executor_stimuli import RegisterExecutor, TargetsSet
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.common.app_config import app_settings
from podtide.entrypoints.simulate.driver_scripts import WorkloadScript
from podtide.entrypoints.simulate.run import FakeEnvironment, Setup, Simulation
from tests.support.world_play import plain, stage

S = 1_000
K = "spark.kubernetes."
ROLL = {
    "spark.plugins": "org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin",
    f"{K}executor.rollInterval": "60s",
    "spark.decommission.enabled": "true",
}
CALM = plain()


class Watcher:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.steps: list[tuple[Millis, tuple[AnyStimulus, ...], tuple[Command, ...]]] = []

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        self.steps.append((now, tuple(stimuli), taken.commands))

    def heard(self, kind: type[Any]) -> list[Any]:
        return [one for _, stimuli, _ in self.steps for one in stimuli if isinstance(one, kind)]

    def said(self, kind: type[Any]) -> list[Any]:
        return [one for _, _, commands in self.steps for one in commands if isinstance(one, kind)]


def simulation(
    wanted: Workload | None = None, cluster: Description = CALM, *, end: Millis = 3_600 * S, seed: int = 1,
    settle: Millis = 120 * S, patience: Millis = 600 * S, conf: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Simulation, Watcher]:  # fmt: skip
    """A simulation and its watcher; static with two executors unless something is wanted."""
    static = {"spark.executor.instances": "0" if isinstance(wanted, Targets) else "2"}
    given = {"spark.app.id": "app", f"{K}container.image": "x", f"{K}executor.podNamePrefix": "mine", **static, **conf}
    config = app_settings(from_mapping(given, "a test")).config
    script = WorkloadScript(wanted or Targets(), seed, 0, config.scaling.profile_rules)
    watcher = Watcher()
    setup = Setup(config, cluster, seed, 0, end, "app", settle, patience)
    return Simulation(setup, script, [watcher]), watcher


def targets(*steps: tuple[Millis, int]) -> Targets:
    return Targets(tuple((at, ((ProfileId(0), target),)) for at, target in steps))


# ------------------------------------------------------------------------------------------------------ how it ends


def test_it_ends_a_while_after_the_last_target_is_reached() -> None:
    played, watcher = simulation(targets((0, 2), (30 * S, 4)))
    end = played.run()
    last = watcher.heard(RegisterExecutor)[-1].at
    assert last + 120 * S <= end <= last + 130 * S
    assert played.reached()
    assert not played.out_of_patience
    assert end == played.loop.now


def test_a_target_that_cannot_be_reached_is_waited_for_so_long() -> None:
    nowhere = plain(without=("schedule",))
    played, _ = simulation(targets((0, 2)), nowhere, patience=300 * S)
    assert 300 * S <= played.run() <= 310 * S
    assert played.out_of_patience
    assert not played.reached()


def test_a_target_that_takes_its_time_is_waited_for() -> None:
    played, watcher = simulation(targets((0, 40)), settle=5 * S, conf={f"{K}allocation.batch.size": "2"})
    end = played.run()
    last = watcher.heard(RegisterExecutor)[-1].at
    assert last > 20 * S
    assert last + 5 * S <= end <= last + 15 * S
    assert played.reached()


def test_it_ends_where_it_was_told_to_at_the_latest() -> None:
    played, _ = simulation(targets((0, 2), (60 * S, 4)), end=45 * S)
    assert played.run() == 45 * S


def test_it_ends_with_the_application() -> None:
    crash = stage("crash", Life.RUNNING, Life.FAILED, 100, weight=1e9, exits=((1, 1.0),))
    played, watcher = simulation(targets((0, 9)), plain(crash), conf={"spark.executor.maxNumFailures": "3"})
    end = played.run()
    (stop,) = watcher.said(StopApplication)
    assert (stop.exit_code, end) == (11, stop.at)
    assert played.environment.ended == end
    assert watcher.steps[-1][0] == end


def test_a_static_application_is_over_when_its_executors_are_there() -> None:
    played, watcher = simulation()
    end = played.run()
    assert len(watcher.heard(RegisterExecutor)) == 2
    assert end < 150 * S


def test_jobs_are_over_when_they_are() -> None:
    jobs = Jobs((ScriptJob("one", (ScriptStage("s", 4, Constant(20 * S)),)),))
    played, _ = simulation(jobs, conf={"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "0"})
    played.run()
    script = played.environment.script
    assert script.done()
    assert script.summary()["tasks_succeeded"] == 4
    assert [job["ending"] for job in script.summary()["jobs"]] == ["succeeded"]


# -------------------------------------------------------------------------------------------------- what it is made of


@pytest.mark.parametrize("allocator", ["direct", "statefulset", "deployment"])
def test_every_allocator_gets_there(allocator: str) -> None:
    conf = {f"{K}allocation.pods.allocator": allocator, f"{K}driver.pod.name": "driver"}
    played, watcher = simulation(targets((0, 3), (60 * S, 5)), conf=conf)
    played.run()
    assert played.reached()
    assert len(played.loop.state.kubernetes.backend.registry.executors) == 5  # type: ignore[union-attr]
    assert bool(watcher.said(CreatePod)) is (allocator == "direct")


def test_pods_are_named_as_the_configuration_says() -> None:
    played, _ = simulation(targets((0, 1)))
    played.run()
    world = played.environment.world
    assert isinstance(world, KubernetesCluster)
    assert [pod.name for pod in worlds.pods(world)] == ["mine-exec-1"]


def test_what_both_halves_say_at_a_moment_is_heard_in_one_step() -> None:
    """The world lists pods each 30 s; the script sets its target then, and is heard first."""
    played, watcher = simulation(targets((0, 1), (45 * S, 2)))
    played.run()
    at = [(now, stimuli) for now, stimuli, _ in watcher.steps if any(isinstance(s, TargetsSet) for s in stimuli)]
    assert [now for now, _ in at] == [0, 45 * S]
    assert all(isinstance(stimuli[0], TargetsSet) for _, stimuli in at)


class Muted:
    """A script without words."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def due(self) -> Millis:
        return NEVER

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        del now
        return ()

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        del now
        self.told.append(word)

    def done(self) -> bool:
        return True

    def summary(self) -> dict[str, Any]:
        return {}


def test_the_script_hears_what_is_commanded_and_what_executors_say() -> None:
    world = worlds.begin(CALM, 1, 0)
    script = Muted()
    environment = FakeEnvironment(world, script)
    create = CreatePod(0, 8, PodNumber(1), ProfileId(0), Why(Cause.BELOW_TARGET))
    environment.apply(create, 0)
    while not any(isinstance(word, RegisterExecutor) for word in script.told):
        now, heard = environment.wait(100 * S)
        assert heard
        assert now < 100 * S
    assert script.told[0] is create
    environment.apply(StopApplication(5 * S, 1, Why(Cause.STARTED)), 60 * S)
    assert environment.wait(100 * S) == (NEVER, ())


# --------------------------------------------------------------------------------------------------------- the plugin


def test_the_roll_plugin_is_told_what_executors_did() -> None:
    jobs = Jobs((ScriptJob("one", (ScriptStage("s", 6, Constant(30 * S)),)),))
    played, watcher = simulation(jobs, settle=30 * S, conf={**ROLL, f"{K}executor.rollPolicy": "TOTAL_DURATION"})
    played.run()
    first = watcher.heard(ExecutorsSummarized)[0]
    assert first.at == 60 * S
    assert [summary.executor for summary in first.executors] == ["1", "2"]
    assert all(summary.tasks >= 1 and summary.duration_ms == 30 * S * summary.tasks for summary in first.executors)
    assert all(0 < summary.added_at < 60 * S for summary in first.executors)
    assert len(watcher.said(DecommissionExecutors)) >= 1


def test_the_plugin_rolls_once_an_interval() -> None:
    played, watcher = simulation(end=310 * S, settle=600 * S, conf={**ROLL, f"{K}executor.rollPolicy": "ADD_TIME"})
    played.run()
    times = [command.at for command in watcher.said(DecommissionExecutors)]
    assert times == [60 * S, 120 * S, 180 * S, 240 * S, 300 * S]
    assert [command.executors for command in watcher.said(DecommissionExecutors)][:2] == [("1",), ("2",)]
