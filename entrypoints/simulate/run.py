"""An application against the fake cluster, in virtual time: the world, the rest of the driver, and the loop between them.

``FakeEnvironment`` joins two fakes that know nothing of each other: the cluster (``domain/world``, or on YARN
``domain/yarn_world``, which is stepped by the same functions) and the driver's other half (a ``Script``: targets over time,
or a workload whose tasks run on the executors that come). Both are values that are stepped to the same moment; what both
have to say there is heard in one step, the driver's first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from podtide.domain.backend.registry import Registered
from podtide.domain.backend.state import BackendState
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.engine import EngineState
from podtide.domain.fakes.kubernetes import cluster as pod_worlds
from podtide.domain.fakes.kubernetes.cluster import FakeApplication, KubernetesCluster
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn import cluster as yarn_worlds
from podtide.domain.fakes.yarn.cluster import YarnCluster
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.kubernetes import side as kubernetes_side
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized, ExecutorSummary
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome, TaskStart
from podtide.domain.protocol.yarn_messages import EndApplication
from podtide.domain.yarn.scheduler_backend import YarnBackendState
from podtide.entrypoints.common.app_loop import AppLoop, Observer

LOOK_EVERY_MS: Final[Millis] = 10_000
"""How often a simulation is asked whether it has come to its end."""


class Script(Protocol):
    """The driver's other half, as a fake: asks for executors, runs tasks on them."""

    def due(self) -> Millis:
        """When it next has something to say."""
        ...

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """Let time pass; what it says up to now."""
        ...

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of what the engine decided, or of what an executor told the driver."""
        ...

    def done(self) -> bool:
        """Whether it has nothing left to do."""
        ...

    def summary(self) -> dict[str, Any]:
        """What it went through, counted by name."""
        ...


AnyWorld: TypeAlias = KubernetesCluster | YarnCluster
AnyDescription: TypeAlias = Description | YarnDescription


def _worlds(world: AnyWorld) -> Any:
    """The functions that step this kind of world."""
    return yarn_worlds if isinstance(world, YarnCluster) else pod_worlds


class FakeEnvironment:
    """The loop's environment, all of them fake. ``ended``: the application was told to stop."""

    def __init__(self, world: AnyWorld, script: Script, status: StatusStore | None = None) -> None:
        self.world = world
        self.script = script
        self.status = status
        self.ended: Millis | None = None
        self._worlds = _worlds(world)

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """Jump to the next moment at which somebody says something, or to ``until``."""
        if self.ended is not None:
            return NEVER, ()
        if self.status is not None and (summary := self.status.take_summary()) is not None:
            return summary.at, (summary,)
        while True:
            at = min(self._worlds.due(self.world), self.script.due())
            if at > until or at == NEVER:
                return until, ()
            at = max(at, self.world.now)
            driver_stimuli = list(self.script.advance(at))
            self.world, cluster_stimuli = self._worlds.advance(self.world, at)
            for stimulus in cluster_stimuli:
                self.script.hear(stimulus, at)
            if driver_stimuli or cluster_stimuli:
                return at, (*driver_stimuli, *cluster_stimuli)

    def apply(self, command: Command, now: Millis) -> None:
        """Hand a command to both halves."""
        self.script.hear(command, now)
        self.world = self._worlds.apply(self.world, command, now)
        if isinstance(command, StopApplication | EndApplication):
            self.ended = now


class StatusStore:
    """What the driver's status store knows of its executors, for ExecutorRollPlugin: an observer of the loop.

    Tasks, failed tasks and their time are those of the script; there is no memory, disk or garbage collection to measure.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config.kubernetes
        self._began: dict[tuple[ExecutorId, int, int, int, bool], Millis] = {}
        self._work: dict[ExecutorId, tuple[int, int, Millis]] = {}  # tasks, failed ones, milliseconds
        self._wanted = False
        self._summary: ExecutorsSummarized | None = None

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """Count tasks, and sum up when the plugin begins to wait for it."""
        for stimulus in stimuli:
            if isinstance(stimulus, TaskStart | TaskEnd):
                self._count(stimulus)
        side = taken.state.kubernetes
        assert side is not None
        wanted = kubernetes_side.wants(side, self._config, now).summary
        if wanted and not self._wanted:
            self._summary = ExecutorsSummarized(now, self._summaries(side.backend.registry.executors))
        self._wanted = wanted

    def take_summary(self) -> ExecutorsSummarized | None:
        """The summary that the plugin waits for, once."""
        summary, self._summary = self._summary, None
        return summary

    def _count(self, task: TaskStart | TaskEnd) -> None:
        key = (task.executor, task.stage, task.attempt, task.task_index, task.speculative)
        if isinstance(task, TaskStart):
            self._began[key] = task.at
            return
        tasks, failed, spent = self._work.get(task.executor, (0, 0, 0))
        spent += task.at - self._began.pop(key, task.at)
        self._work[task.executor] = (tasks + 1, failed + (task.outcome is TaskOutcome.FAILED), spent)

    def _summaries(self, registered: Mapping[ExecutorId, Registered]) -> tuple[ExecutorSummary, ...]:
        found = []
        for executor in sorted(registered):  # the status store's order: ids as strings
            tasks, failed, spent = self._work.get(executor, (0, 0, 0))
            found.append(ExecutorSummary(executor, registered[executor].since, tasks, failed, spent))
        return tuple(found)


@dataclass(frozen=True)
class Setup:
    """What a simulation is made of. ``end``: when it stops at the latest, in virtual time.

    When the script has nothing left to do the simulation goes on for ``settle_ms`` after the last target is reached, and
    waits for that at most ``patience_ms``.
    """

    config: EngineConfig
    description: AnyDescription
    seed: int
    start: Millis
    end: Millis
    app_id: str
    settle_ms: Millis = 120_000
    patience_ms: Millis = 3_600_000


class Simulation:
    """One simulation under way."""

    def __init__(
        self,
        setup: Setup,
        script: Script,
        observers: Sequence[Observer] = (),
        passed: Callable[[Millis], None] = lambda _now: None,
    ) -> None:
        """Nothing happens before ``run``. ``passed``: as of ``AppLoop``."""
        self.setup = setup
        kubernetes = setup.config.kubernetes
        world = begun(setup)
        status = None if kubernetes.roll is None or setup.config.yarn is not None else StatusStore(setup.config)
        self.environment = FakeEnvironment(world, script, status)
        seeing = (*observers, status) if status is not None else tuple(observers)
        self.loop = AppLoop(setup.config, setup.start, self.environment, seeing, passed)
        self.out_of_patience = False

    def run(self) -> Millis:
        """Run to the end: of the script and a while longer, or of time. Returns when that was. Raises Stuck.

        ``out_of_patience`` says afterwards whether it ended without the last targets being reached.
        """
        setup, loop, script = self.setup, self.loop, self.environment.script
        loop.launch()
        done_at: Millis | None = None
        reached_at: Millis | None = None
        while loop.now < setup.end and self.environment.ended is None:
            stop = loop.now + LOOK_EVERY_MS
            if script.done():
                done_at = loop.now if done_at is None else done_at
                reached_at = (loop.now if reached_at is None else reached_at) if self.reached() else None
                ends = done_at + setup.patience_ms if reached_at is None else reached_at + setup.settle_ms
                if loop.now >= ends:
                    self.out_of_patience = reached_at is None
                    break
                stop = min(stop, ends)
            else:
                done_at = reached_at = None
            loop.run(min(setup.end, stop))
        return loop.now if self.environment.ended is None else self.environment.ended

    def reached(self) -> bool:
        """Whether every profile has as many registered executors as are wanted of it."""
        state, config = self.loop.state, self.setup.config
        backend: BackendState | YarnBackendState
        if state.yarn is not None and config.yarn is not None:
            backend, initial = state.yarn.backend, config.yarn.backend.executors_initial
        else:
            assert state.kubernetes is not None
            backend, initial = state.kubernetes.backend, config.kubernetes.backend.executors_initial
        there = Counter(known.profile for known in backend.registry.executors.values())
        wanted = backend.requested or ((DEFAULT_PROFILE, initial),)
        return all(there[profile] >= target for profile, target in wanted)

    @property
    def tally(self) -> dict[str, int]:
        """What the cluster counted."""
        world = self.environment.world
        return dict(_worlds(world).tally(world))


def begun(setup: Setup) -> AnyWorld:
    """The cluster as it is before anything happens."""
    if isinstance(setup.description, YarnDescription):
        yarn = setup.config.yarn
        assert yarn is not None
        beats = yarn.heartbeats.interval_ms
        return yarn_worlds.begin(setup.description, setup.seed, setup.start, heartbeat_ms=beats)
    kubernetes = setup.config.kubernetes
    named = kubernetes.allocation
    beats = kubernetes.heartbeats.interval_ms
    application = FakeApplication(setup.app_id, named.pod_name_prefix, named.namespace, beats)
    return pod_worlds.begin(
        setup.description, setup.seed, setup.start, sources=kubernetes.sources, application=application
    )
