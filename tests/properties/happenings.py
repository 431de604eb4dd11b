"""Whatever may happen to an application, and a run that it happens to.

The universe is small, so that events meet: four executors, three stages of two attempts, a handful of tasks, jobs,
shuffles and RDDs, profiles that are announced, unknown, or cannot run a task. Nothing keeps the events in a
sensible order: tasks end that never began, executors leave twice, answers come late or for nobody.

``Run`` lives through such a story with the timer of ExecutorAllocationManager beside it, either at every 100 ms or
only when ``dynamic_allocation.due`` says so, and writes down the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.commands import Report, ScalingCommand, ScheduleThrew
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ProfileRules, ScalingConfig
from podtide.domain.protocol.stimuli import (
    Answer,
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    ExecutorsActive,
    ExecutorsInactive,
    JobEnd,
    JobStage,
    JobStart,
    KillDisproved,
    RddBlock,
    Reset,
    ResourceProfileAdded,
    ShuffleCleaned,
    ShuffleDataBlock,
    ShuffleRegistered,
    ShuffleUnneeded,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    Stop,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    Tick,
    UnpersistRDD,
    UnschedulableTaskSetAdded,
    UnschedulableTaskSetRemoved,
)
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State
from tests.support.scaling_play import Cluster


class Changed(NamedTuple):
    """The cluster answers otherwise from now on; ``silent``: it keeps its answers to itself until told to speak."""

    cluster: Cluster
    silent: bool


Happening: TypeAlias = tuple[Millis, Stimulus | Changed]
"""So many milliseconds later, this; the stimulus says 0 for its own time."""

Said: TypeAlias = ScalingCommand | Report

executors = st.sampled_from(["1", "2", "10", "driver"]).map(ExecutorId)
several = st.lists(executors, min_size=1, max_size=3, unique=True).map(tuple)
stages = st.integers(0, 2)
attempts = st.sampled_from([0, 0, 0, 1])
indices = st.integers(0, 3)
profiles = st.sampled_from([*[0] * 12, 1, 1, 1, 1, 2, 2, 3, 16, -1]).map(ProfileId)
outcomes = st.sampled_from([TaskOutcome.SUCCESS, TaskOutcome.SUCCESS, TaskOutcome.FAILED, TaskOutcome.KILLED])
jobs = st.integers(0, 2)
shuffles = st.integers(0, 2)
rdds = st.integers(0, 1)
hosts = st.lists(st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple), max_size=3).map(tuple)
now = st.just(0)

blocks = st.one_of(st.none(), st.builds(RddBlock, rdds, st.integers(0, 1)), st.builds(ShuffleDataBlock, shuffles))
job_stages = st.lists(st.builds(JobStage, stages, st.one_of(st.none(), shuffles)), max_size=3).map(tuple)
offers = st.sampled_from(
    [
        ((("cores", 2.0),), (("cpus", 1.0),)),
        ((("cores", 1.0),), (("cpus", 2.0),)),  # no task fits
        ((("cores", 4.0), ("gpu", 1.0)), (("cpus", 1.0), ("gpu", 0.5))),
        ((), (("gpu", 1.0),)),  # no executor has one
        ((("cores", 4.0), ("gpu", 2.0**32)), (("cpus", 1.0), ("gpu", 1.0))),  # overflows to no task at all
        ((("cores", 4.0), ("gpu", 2.0**31)), (("cpus", 1.0), ("gpu", 1.0))),  # overflows to fewer than none
    ]
)

joining = st.builds(ExecutorAdded, now, executors, profiles)
submitting = st.builds(StageSubmitted, now, stages, attempts, st.integers(0, 6), profiles, st.none() | hosts)
starting = st.builds(TaskStart, now, stages, attempts, indices, executors, st.sampled_from([False, False, True]))
ending = st.builds(TaskEnd, now, stages, attempts, indices, executors, st.sampled_from([False, False, True]), outcomes)

common: st.SearchStrategy[Stimulus] = st.one_of(joining, submitting, starting, ending, ending)
uncommon: st.SearchStrategy[Stimulus] = st.one_of(
    st.builds(StageCompleted, now, stages, attempts),
    st.builds(SpeculativeTaskSubmitted, now, stages, attempts, indices),
    st.builds(UnschedulableTaskSetAdded, now, stages, attempts),
    st.builds(UnschedulableTaskSetRemoved, now, stages, attempts),
    st.builds(
        ExecutorRemoved, now, executors, st.sampled_from(["", "Finished decommissioning", "Executor decommission: x"])
    ),
    st.builds(JobStart, now, jobs, job_stages),
    st.builds(JobEnd, now, jobs),
    st.builds(BlockUpdated, now, executors, blocks, st.booleans(), st.booleans()),
    st.builds(UnpersistRDD, now, rdds),
    st.builds(ShuffleCleaned, now, shuffles),
    st.builds(ShuffleRegistered, now, jobs, stages, shuffles),
    st.builds(lambda profile, offer: ResourceProfileAdded(0, profile, *offer), profiles, offers),
)
rare: st.SearchStrategy[Stimulus] = st.one_of(
    st.builds(ExecutorsActive, now, several),
    st.builds(ExecutorsInactive, now, several),
    st.builds(KillDisproved, now, several),
    st.builds(ShuffleUnneeded, now, shuffles),
    st.builds(
        Answer,
        now,
        st.integers(1, 12),
        st.one_of(st.booleans(), several),
        st.sampled_from([None, None, "java.lang.Exception: late"]),
    ),
    st.builds(Reset, now),
    st.builds(Tick, now),
)
changes = st.builds(
    Changed,
    st.builds(
        Cluster,
        acks=st.sampled_from([True, True, False]),
        request_throws=st.sampled_from([None, None, "java.lang.RuntimeException: request"]),
        kill_throws=st.sampled_from([None, None, "java.lang.RuntimeException: kill"]),
        refuses_all=st.sampled_from([False, False, True]),
        refused=st.sampled_from([frozenset(), frozenset({"1", "10"})]),
    ),
    silent=st.sampled_from([False, False, True]),
)
gaps = st.sampled_from([0, 0, 0, 0, 1, 50, 99, 100, 101, 250, 500, 900, 1_000, 1_100, 2_000, 4_000])

_happening: st.SearchStrategy[Happening] = st.tuples(
    gaps, st.one_of(common, common, common, uncommon, uncommon, rare, changes)
)
# A list of at most 60 has 5 on average, so most examples are told to be longer; a failure still shrinks to a few.
_story = st.one_of(st.lists(_happening, max_size=60), *[st.lists(_happening, min_size=25, max_size=60)] * 3)

BEGINNINGS: tuple[tuple[Stimulus, ...], ...] = (
    (),
    (  # profiles that can run tasks, and a job with two shuffles under way
        ResourceProfileAdded(0, ProfileId(1), (("cores", 2.0),), (("cpus", 1.0),)),
        ResourceProfileAdded(0, ProfileId(2), (("cores", 4.0), ("gpu", 2.0)), (("cpus", 1.0), ("gpu", 1.0))),
        ResourceProfileAdded(0, ProfileId(3), (), (("cpus", 1.0),)),
        JobStart(0, 0, (JobStage(0, 0), JobStage(1, 1), JobStage(2))),
        StageSubmitted(0, 0, 0, 6, ProfileId(0)),
        ExecutorAdded(0, ExecutorId("1"), ProfileId(0)),
        ExecutorAdded(0, ExecutorId("2"), ProfileId(0)),
    ),
    (  # executors without work, some of them with data
        ResourceProfileAdded(0, ProfileId(1), (), ()),
        *(ExecutorAdded(0, ExecutorId(e), ProfileId(0)) for e in ("1", "2", "10", "driver")),
        JobStart(0, 0, (JobStage(0, 0), JobStage(1, 1))),
        BlockUpdated(0, ExecutorId("1"), RddBlock(0, 0), True, False),
        BlockUpdated(0, ExecutorId("2"), RddBlock(1, 1), True, True),
        BlockUpdated(0, ExecutorId("2"), ShuffleDataBlock(1), True, True),
        TaskEnd(0, 0, 0, 0, ExecutorId("10")),
        JobEnd(0, 0),
    ),
    (  # a long backlog
        StageSubmitted(0, 1, 0, 40, ProfileId(0)),
    ),
)

happenings: st.SearchStrategy[list[Happening]] = st.builds(
    lambda beginning, story: [*((0, stimulus) for stimulus in beginning), *story],
    st.sampled_from(BEGINNINGS),
    _story,
)


@st.composite
def configs(draw: st.DrawFn) -> ScalingConfig:
    """A valid configuration: the first target may lie above the maximum, as Spark allows, never below the minimum."""
    low = draw(st.integers(0, 2))
    high = draw(st.sampled_from([max(1, low), low + 1, low + 3, 10, 2**31 - 1]))
    return ScalingConfig(
        executors_min=low,
        executors_max=high,
        executors_initial=low + draw(st.sampled_from([0, 0, 0, 1, 5])),
        backlog_timeout_ms=draw(st.sampled_from([1, 100, 1_000])),
        sustained_backlog_timeout_ms=draw(st.sampled_from([50, 100, 1_000])),
        idle_timeout_ms=draw(st.sampled_from([0, 100, 1_000])),
        cached_idle_timeout_ms=draw(st.sampled_from([0, 1_000, 2_000, 2_000, 2_147_483_647_000])),
        shuffle_timeout_ms=draw(st.sampled_from([0, 1_500, 1_500, 3_000, NEVER])),
        shuffle_tracking=draw(st.booleans()),
        rdd_from_service=draw(st.booleans()),
        decommission=draw(st.booleans()),
        ratio=draw(st.sampled_from([1.0, 1.0, 0.5, 0.1])),
        testing=draw(st.sampled_from([False, False, False, True])),
        profile_rules=ProfileRules(
            executor_cores=draw(st.sampled_from([1, 2, 4])),
            task_cpus=draw(st.sampled_from([*[Decimal(1)] * 6, Decimal("0.5"), Decimal(3)])),
        ),
    )


def at(when: Millis, stimulus: Stimulus) -> Stimulus:
    """The stimulus at that time."""
    moved: Stimulus = stimulus._replace(at=when)
    return moved


@dataclass(frozen=True)
class Moment:
    """A run stopped between two happenings: everything but the state of the core."""

    config: ScalingConfig
    eager: bool
    now: Millis
    grid: Millis
    cluster: Cluster
    silent: bool
    owed: tuple[Stimulus, ...]


class Run:
    """One application. ``eager``: tick every 100 ms; otherwise only when due. ``said``: commands and reports."""

    def __init__(self, config: ScalingConfig, *, eager: bool = False, start: Millis = 0) -> None:
        self.config = config
        self.eager = eager
        self.now = start
        self.grid = start
        self.cluster = Cluster()
        self.silent = False
        self.owed: list[Stimulus] = []
        self.said: list[Said] = []
        self.ticks = 0
        begun = dynamic_allocation.start(config, start)
        self.state: State = begun.state
        self._carry_out(begun.commands)

    @classmethod
    def resumed(cls, state: State, moment: Moment) -> Run:
        """Go on from a moment with a state; nothing has been said yet."""
        run = cls.__new__(cls)
        run.config, run.eager, run.now, run.grid = moment.config, moment.eager, moment.now, moment.grid
        run.cluster, run.silent, run.owed = moment.cluster, moment.silent, list(moment.owed)
        run.said, run.ticks, run.state = [], 0, state
        return run

    def moment(self) -> Moment:
        """Where the run stands."""
        return Moment(
            self.config, self.eager, self.now, self.grid, replace(self.cluster), self.silent, tuple(self.owed)
        )

    def live(self, story: Sequence[Happening]) -> Run:
        """Live through a story."""
        for happening in story:
            self.happen(happening)
        return self

    def happen(self, happening: Happening) -> None:
        """Let the time pass, ticking, and the thing happen."""
        gap, what = happening
        self.pass_time(gap)
        if isinstance(what, Changed):
            self.cluster, self.silent = what.cluster, what.silent
            if not self.silent:
                owed, self.owed = self.owed, []
                for answer in owed:
                    self.take(at(self.now, answer))
        else:
            self.take(at(self.now, what))

    def pass_time(self, gap: Millis) -> None:
        """Let time pass up to, not including, the ticks of its last millisecond."""
        self.now += gap
        while self.grid < self.now:
            if not self.eager:
                due = dynamic_allocation.due(self.state, self.config)
                if due > self.grid:
                    self.grid += -(-(min(due, self.now) - self.grid) // TICK_INTERVAL_MS) * TICK_INTERVAL_MS
                    if self.grid >= self.now:
                        break
            self.ticks += 1
            self.take(Tick(self.grid))
            self.grid += TICK_INTERVAL_MS

    def take(self, stimulus: Stimulus) -> None:
        """One step, and the answers to what it led to."""
        step = dynamic_allocation.step(self.state, stimulus, self.config, stimulus.at)
        self.state = step.state
        self.said.extend(step.reports)
        self._carry_out(step.commands)

    def _carry_out(self, commands: Sequence[ScalingCommand]) -> None:
        for command in commands:
            self.said.append(command)
            for answer in self.cluster.answers(command, command.at):
                if self.silent:
                    self.owed.append(answer)
                else:
                    self.take(answer)


def news(said: Sequence[Said]) -> list[Said]:
    """What was said, without the exceptions that only repeat themselves: how often is nobody's business."""
    return [one for one in said if not (isinstance(one, ScheduleThrew) and one.repeated)]


__all__ = [
    "Changed",
    "Happening",
    "Moment",
    "Run",
    "Said",
    "Stop",
    "at",
    "configs",
    "executors",
    "happenings",
    "news",
    "profiles",
]
