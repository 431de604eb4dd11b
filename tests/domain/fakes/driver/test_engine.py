"""The whole of it: a workload asks, the engine decides, pods come after a fixed delay, and go when they are told to."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from podtide.domain import engine
from podtide.domain.base.randomness import Uniform
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.rows import Ending
from podtide.domain.fakes.driver.script import Jobs, Outputs, Profile, ScriptJob as Job, ScriptStage as Stage, Workload
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.cluster_config import AllocationConfig, BackendConfig, KubernetesConfig
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import RegisterExecutor, Wake
from podtide.domain.protocol.pod_stimuli import Outcome, PodsUpdated
from podtide.domain.protocol.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    RUNNING,
    SPARK_CONTAINER,
    TERMINATED,
    ContainerState,
    PodContainer,
    PodManifest,
)
from podtide.domain.protocol.stimuli import TaskEnd, TaskStart
from tests.support.workload_play import S, map_reduce, one_job, secs

APP = "app-1"


def config(most: int = 8, least: int = 0, dynamic: bool = True, **scaling: Any) -> EngineConfig:
    """Dynamic allocation over Kubernetes, quick to let go."""
    return EngineConfig(
        ScalingConfig(
            executors_min=least, executors_max=most, executors_initial=least, idle_timeout_ms=5 * S, **scaling
        ),
        KubernetesConfig(
            allocation=AllocationConfig(dynamic=dynamic), backend=BackendConfig(app_id=APP, executors_initial=least)
        ),
        dynamic,
    )


class Cluster:
    """Every pod that is created runs and registers 3 s later; every call succeeds at once; who is let go ends at once."""

    def __init__(self) -> None:
        self._ahead: list[tuple[Millis, int, AnyStimulus]] = []
        self._serial = count()
        self.pods: dict[str, tuple[ProfileId, str]] = {}
        self.alive: set[str] = set()

    def due(self) -> Millis:
        return self._ahead[0][0] if self._ahead else NEVER

    def hear(self, command: Command, now: Millis) -> None:
        if isinstance(command, RequestTotal | Kill | Decommission):
            return
        serial = getattr(command, "serial", None)
        if serial is not None:
            listed = tuple(map(self._pod, self.pods)) if isinstance(command, pod_commands.ListPods) else ()
            self._later(now, Outcome(now, serial, pods=listed))
        match command:
            case pod_commands.CreatePod():
                name, at = str(command.executor), now + 3 * S
                self._show(name, command.profile, "Pending", now)
                self._later(at, RegisterExecutor(at, ExecutorId(name), command.profile, "host", f"{name}:1"))
            case executor_commands.RemoveExecutor():
                self._end(command.executor, now)
            case executor_commands.DecommissionExecutors():
                for leaving in command.executors:
                    self._end(leaving, now)
            case pod_commands.DeletePods():
                for deleted in command.executors or ():
                    self._delete(str(deleted), now)
            case pod_commands.DeletePod():
                self._delete(str(command.executor), now)
            case _:
                pass

    def take(self, now: Millis) -> list[AnyStimulus]:
        """What is due, first come first."""
        taken: list[AnyStimulus] = []
        while self.due() <= now:
            _, _, stimulus = heappop(self._ahead)
            if isinstance(stimulus, RegisterExecutor):
                if self.pods.get(stimulus.executor, ("", ""))[1] != "Pending":
                    continue  # deleted before it could
                self._show(stimulus.executor, stimulus.profile, "Running", now)
            taken.append(stimulus)
        return taken

    def _show(self, name: str, profile: ProfileId, phase: str, at: Millis) -> None:
        self.pods[name] = profile, phase
        (self.alive.discard if phase == "Succeeded" else self.alive.add)(name)
        self._later(at, PodsUpdated(at, (self._pod(name),)))

    def _end(self, name: str, at: Millis) -> None:
        if name in self.pods and self.pods[name][1] != "Succeeded":
            self._show(name, self.pods[name][0], "Succeeded", at)

    def _delete(self, name: str, at: Millis) -> None:
        if name in self.pods:
            self._later(at, PodsUpdated(at, (self._pod(name)._replace(deleted_at="1970-01-01T00:00:00Z"),)))
            del self.pods[name]
            self.alive.discard(name)

    def _later(self, at: Millis, stimulus: AnyStimulus) -> None:
        heappush(self._ahead, (at, next(self._serial), stimulus))

    def _pod(self, name: str) -> PodManifest:
        profile, phase = self.pods[name]
        ended = phase == "Succeeded"
        state = ContainerState(TERMINATED, exit_code=0) if ended else ContainerState(RUNNING)
        labels = {APP_LABEL: APP, ROLE_LABEL: EXECUTOR_ROLE, EXECUTOR_LABEL: name, PROFILE_LABEL: str(profile)}
        containers = (PodContainer(SPARK_CONTAINER, None, state),)
        return PodManifest(f"exec-{name}", labels, "1970-01-01T00:00:00Z", phase=phase, containers=containers)


class Application:
    """Engine, workload and cluster, from one moment at which something happens to the next."""

    def __init__(self, workload: Workload, settings: EngineConfig, seed: int = 1) -> None:
        self.settings, self.cluster = settings, Cluster()
        self.state = workloads.begin(workload, seed, 0, settings.scaling.profile_rules)
        self.said: list[workloads.WorkloadEvent] = []
        self.commands: list[Command] = []
        self.sizes: list[tuple[Millis, int]] = []
        launched = engine.launch(settings, 0)
        self.engine, self.now = launched.state, 0
        self._hear(launched.commands)

    def run(self, until: Millis) -> None:
        while (
            due := min(workloads.due(self.state), self.cluster.due(), engine.wake_due(self.engine, self.settings))
        ) <= until:
            self.now = max(self.now, due)
            self._turn(self.cluster.take(self.now))
            self.state, said = workloads.advance(self.state, self.now)
            self.said.extend(said)
            self._turn(said)
            if engine.wake_due(self.engine, self.settings) <= self.now:
                self._turn([Wake(self.now)])
            self.sizes.append((self.now, len(self.cluster.alive)))

    def _turn(self, stimuli: Sequence[AnyStimulus]) -> None:
        for stimulus in stimuli:
            if isinstance(stimulus, RegisterExecutor):
                self.state = workloads.hear(self.state, stimulus, self.now)
        if stimuli:
            step = engine.advance(self.engine, stimuli, self.settings, self.now)
            self.engine = step.state
            self._hear(step.commands)

    def _hear(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            self.cluster.hear(command, self.now)
            self.state = workloads.hear(self.state, command, self.now)

    def peak(self) -> int:
        return max(size for _, size in self.sizes)

    def last(self) -> int:
        return self.sizes[-1][1]


@pytest.mark.parametrize(("least", "most", "peak"), [(0, 8, 8), (2, 8, 8), (1, 100, 25)])
def test_executors_go_up_for_a_job_and_down_after_it(least: int, most: int, peak: int) -> None:
    app = Application(map_reduce(25, 5), config(most, least, shuffle_tracking=False))
    app.run(300 * S)
    summary = workloads.summary(app.state)
    assert workloads.done(app.state)
    assert [job.ending for job in summary.jobs] == [Ending.SUCCEEDED]
    assert summary.tasks_succeeded == 30
    assert (app.peak() <= most, app.peak() >= min(peak, most) // 2, app.last()) == (True, True, least)


def test_executors_with_shuffle_data_stay_while_a_job_may_need_it() -> None:
    stages = (Stage("map", 8, secs(2)), Stage("long", 1, secs(60), parents=("map",)))
    settings = config(8, shuffle_timeout_ms=10 * S)
    app = Application(one_job(*stages), settings)
    app.run(500 * S)
    holders = {start.executor for start in app.said if isinstance(start, TaskStart)}
    gone = [
        one.at for one in app.commands if isinstance(one, executor_commands.RemoveExecutor) and one.executor in holders
    ]
    ended = workloads.summary(app.state).jobs[0].ended
    assert ended is not None
    assert gone
    assert min(gone) >= ended
    assert app.last() == 0
    assert workloads.summary(app.state).outputs_lost == 0


def test_a_session_of_jobs_with_think_times() -> None:
    jobs = Jobs(
        (
            Job("load", (Stage("read", 12, Uniform(500, 4 * S), writes_shuffle=True),)),
            Job("query", map_reduce(10, 4).jobs[0].stages, after=("load",), think=secs(20), times=3),
            Job("report", (Stage("sum", 3, secs(1), parents=("load.read",)),), after=("query",), think=secs(30)),
        )
    )
    app = Application(jobs, config(6, 1, shuffle_timeout_ms=8 * S))
    app.run(1_000 * S)
    summary = workloads.summary(app.state)
    assert [job.ending for job in summary.jobs] == [Ending.SUCCEEDED] * 5
    assert app.last() == 1
    assert [job.began for job in summary.jobs[1:]] == [
        (job.ended or 0) + think * S for job, think in zip(summary.jobs, (20, 20, 20, 30), strict=False)
    ]
    starts, ends = (sum(isinstance(one, kind) for one in app.said) for kind in (TaskStart, TaskEnd))
    assert starts + summary.tasks_resubmitted == ends


def test_profiles_get_executors_of_their_own() -> None:
    one = ProfileId(1)
    script = one_job(
        Stage("map", 4, secs(1)),
        Stage("train", 4, secs(4), parents=("map",), profile=one),
        profiles=(Profile(one, (("cores", 2),), (("cpus", 1.0),)),),
    )
    app = Application(script, config(8, shuffle_tracking=False))
    app.run(300 * S)
    created = {command.profile for command in app.commands if isinstance(command, pod_commands.CreatePod)}
    assert created == {ProfileId(0), one}
    assert [job.ending for job in workloads.summary(app.state).jobs] == [Ending.SUCCEEDED]
    assert app.last() == 0


def test_decommissioned_executors_hand_their_output_on() -> None:
    script = one_job(
        Stage("map", 6, secs(2)), Stage("long", 1, secs(40), parents=("map",)), Stage("last", 1, secs(1), ("long", "map")),
        outputs=Outputs.MIGRATED,
    )  # fmt: skip
    app = Application(script, config(6, decommission=True, shuffle_tracking=False))
    app.run(300 * S)
    summary = workloads.summary(app.state)
    assert any(isinstance(command, executor_commands.DecommissionExecutors) for command in app.commands)
    assert (summary.outputs_moved > 0, summary.outputs_lost, summary.fetch_failures) == (True, 0, 0)
    assert [job.ending for job in summary.jobs] == [Ending.SUCCEEDED]
