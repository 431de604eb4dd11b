"""A small application and a small cluster, to play a story on: the fake that the tests of the core share.

``Cluster`` is a scheduler backend that carries nothing out and answers as the test tells it to. ``Play`` holds
the state of one application, feeds it stimuli and the cluster's answers, and keeps what the core said. Its verbs
are what happens to a Spark application: stages come, tasks start and end, executors join and leave, time passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScalingCommand
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import (
    Answer,
    ExecutorAdded,
    ExecutorRemoved,
    ExecutorsInactive,
    ResourceProfileAdded,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    Tick,
)
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.rules import needed_executors

ELSEWHERE = ExecutorId("elsewhere")
"""An executor that the scheduler backend never held for active: its tasks count as load alone."""

CHORE = 10_000
"""A stage that was never submitted: its tasks keep an executor busy and ask for nothing."""


@dataclass
class Cluster:
    """What the scheduler backend answers, from now on; ``silent``: nothing, the test does that."""

    silent: bool = False
    acks: bool = True
    request_throws: str | None = None
    kill_throws: str | None = None
    refuses_all: bool = False
    refused: frozenset[str] = frozenset()

    def answers(self, command: ScalingCommand, now: Millis) -> tuple[Stimulus, ...]:
        """What comes back for a command. An executor that goes is no longer active before the answer is read."""
        if self.silent:
            return ()
        if isinstance(command, RequestTotal):
            return (Answer(now, command.serial, self.acks, self.request_throws),)
        granted = () if self.refuses_all else tuple(e for e in command.executors if e not in self.refused)
        threw = self.kill_throws if isinstance(command, Kill) else None
        return ExecutorsInactive(now, granted), Answer(now, command.serial, granted, threw)


class Play:
    """One application under way. ``now`` is the time at which the next thing happens."""

    def __init__(self, config: ScalingConfig, now: Millis = 0, cluster: Cluster | None = None) -> None:
        self.config = config
        self.now = now
        self.cluster = cluster or Cluster()
        self.commands: list[ScalingCommand] = []
        self.reports: list[Report] = []
        begun = dynamic_allocation.start(config, now)
        self.state: State = begun.state
        self._carry_out(begun.commands)

    # What happens.

    def feed(self, *stimuli: Stimulus) -> None:
        """Take stimuli one by one, and the cluster's answers to what they lead to."""
        for stimulus in stimuli:
            step = dynamic_allocation.step(self.state, stimulus, self.config, self.now)
            self.state = step.state
            self.reports.extend(step.reports)
            self._carry_out(step.commands)

    def _carry_out(self, commands: Sequence[ScalingCommand]) -> None:
        for command in commands:
            self.commands.append(command)
            self.feed(*self.cluster.answers(command, self.now))

    def tick(self, after: Millis = 0) -> list[ScalingCommand]:
        """Let time pass, then the timer fire; returns what was said at that tick."""
        self.now += after
        said = len(self.commands)
        self.feed(Tick(self.now))
        return self.commands[said:]

    def add(self, profile: int = DEFAULT_PROFILE) -> int:
        """Tick when the backlog timer has expired (at once if it is not running); by how much the target moved."""
        before = self.target(profile)
        if self.add_time is not None:
            self.now = max(self.now, self.add_time)
        self.tick()
        return self.target(profile) - before

    def announce(self, profile: int, *, executor: dict[str, float], task: dict[str, float]) -> None:
        """Make a resource profile known."""
        self.feed(ResourceProfileAdded(self.now, ProfileId(profile), tuple(executor.items()), tuple(task.items())))

    def stage(
        self,
        stage: int,
        tasks: int,
        *,
        profile: int = DEFAULT_PROFILE,
        attempt: int = 0,
        locality: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Submit a stage attempt."""
        hosts = None if locality is None else tuple(map(tuple, locality))
        self.feed(StageSubmitted(self.now, stage, attempt, tasks, ProfileId(profile), hosts))

    def complete(self, stage: int, attempt: int = 0) -> None:
        """Complete a stage attempt."""
        self.feed(StageCompleted(self.now, stage, attempt))

    def run(
        self, stage: int, indices: Iterable[int], on: str = ELSEWHERE, *, attempt: int = 0, speculative: bool = False
    ) -> None:
        """Start tasks of a stage."""
        for index in indices:
            self.feed(TaskStart(self.now, stage, attempt, index, ExecutorId(on), speculative))

    def end(
        self,
        stage: int,
        indices: Iterable[int],
        on: str = ELSEWHERE,
        *,
        attempt: int = 0,
        speculative: bool = False,
        outcome: TaskOutcome = TaskOutcome.SUCCESS,
    ) -> None:
        """End tasks of a stage."""
        for index in indices:
            self.feed(TaskEnd(self.now, stage, attempt, index, ExecutorId(on), speculative, outcome))

    def speculate(self, stage: int, indices: Iterable[int], attempt: int = 0) -> None:
        """Submit speculative copies."""
        for index in indices:
            self.feed(SpeculativeTaskSubmitted(self.now, stage, attempt, index))

    def join(self, *executors: object, profile: int = DEFAULT_PROFILE, busy: bool = False) -> None:
        """Register executors, idle or each with a chore."""
        for executor in map(str, executors):
            self.feed(ExecutorAdded(self.now, ExecutorId(executor), ProfileId(profile)))
            if busy:
                self.run(CHORE, [0], executor)

    def leave(self, *executors: object, reason: str = "") -> None:
        """Remove executors."""
        for executor in map(str, executors):
            self.feed(ExecutorRemoved(self.now, ExecutorId(executor), reason))

    def offer(self, *executors: object) -> list[str]:
        """Let busy executors fall idle until they time out, tick, and keep those that stay busy: who was let go."""
        names = [str(executor) for executor in executors]
        for executor in names:
            self.end(CHORE, [0], executor)
        said = self.tick(self.config.idle_timeout_ms)
        gone: list[str] = [e for c in said if isinstance(c, Kill | Decommission) for e in c.executors]
        if self.config.testing:  # no command is given then, the executors are marked all the same
            gone = [e for e in names if e in self.pending_removal or e in self.decommissioning]
        for executor in names:
            if executor not in gone:
                self.run(CHORE, [0], executor)
        return gone

    # What is known.

    def target(self, profile: int = DEFAULT_PROFILE) -> int:
        """numExecutorsTarget of a profile."""
        return self.state.scaling.targets[ProfileId(profile)]

    def increment(self, profile: int = DEFAULT_PROFILE) -> int:
        """numExecutorsToAdd of a profile."""
        return self.state.scaling.to_add[ProfileId(profile)]

    def need(self, profile: int = DEFAULT_PROFILE) -> int:
        """maxNumExecutorsNeeded of a profile."""
        needed = needed_executors(self.state.scaling, self.state.load, self.config, ProfileId(profile))
        assert not isinstance(needed, SparkFault), needed
        return needed

    def running(self, profile: int = DEFAULT_PROFILE) -> int:
        """Running tasks of a profile."""
        return self.state.load.demand(ProfileId(profile)).running

    @property
    def add_time(self) -> Millis | None:
        """When the backlog timer expires; None when it is not running."""
        add_time = self.state.scaling.add_time
        return None if add_time == NEVER else add_time

    @property
    def executors(self) -> int:
        """executorCount: all tracked executors."""
        return self.state.scaling.idleness.total()

    @property
    def listed(self) -> list[str]:
        """The cached list of timed-out executors."""
        return sorted(e for ids in self.state.scaling.idleness.timed_out().values() for e in ids)

    @property
    def pending_removal(self) -> set[str]:
        """Executors that were killed and have not left."""
        return {e for e, t in self.state.scaling.idleness.trackers().items() if t.pending_removal}

    @property
    def decommissioning(self) -> set[str]:
        """Executors that were decommissioned and have not left."""
        return {e for e, t in self.state.scaling.idleness.trackers().items() if t.decommissioning}

    def requests(self) -> list[RequestTotal]:
        """All requests for totals so far."""
        return [command for command in self.commands if isinstance(command, RequestTotal)]

    def kills(self) -> list[tuple[ExecutorId, ...]]:
        """The ids of every kill and decommission so far."""
        return [command.executors for command in self.commands if isinstance(command, Kill | Decommission)]
