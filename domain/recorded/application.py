"""An application as its event log tells it: jobs and what they waited for, stages, tasks, executors, and what is not told.

This is what a what-if runs again. It says what the work *is* (which task takes how long, what must be there before what),
kept apart from how it went on the executors that happened to be there: waiting for a slot, the slow first task of a fresh
executor and the tasks that died with their executor are taken out, or told apart, when the log is read
(``recorded.reading``). Sizes: a stage costs eight bytes for each of its tasks, and no task is an object.

Times are epoch milliseconds as in the log; durations are milliseconds. Ids are Spark's.

How many executors of each resource profile there were at once: what a static count keeps where there were several.

``Application.peak_executors`` counts all profiles together, and they need not have peaked at one time. Without dynamic
allocation one profile is the application's own - the default one, or the most frequent where a log names none so - and the
executors of the others are kept as they were.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobStage, ResourceProfileAdded
from podtide.domain.recorded.failures import StageFailures
from podtide.domain.recorded.memory import NO_MEMORY, MemoryEvidence

NO_TASK: Final = -1
"""In ``RecordedStage.body_ms``: this task never ended well in the log."""


SKEW: Final = 2.0
"""How many times as long as its others, on average, the longest task of a stage with skew takes."""


class Failure(NamedTuple):
    """A try of a task that failed by itself (an exception, not a lost executor): ``after_ms`` from its launch."""

    task: int
    after_ms: Millis


class Copy(NamedTuple):
    """A speculative copy of a task, launched ``after_ms`` after the first launch of the task it copies."""

    task: int
    after_ms: Millis


@dataclass(frozen=True, slots=True)
class RecordedStage:
    """A stage that was run. Its attempts are one piece of work: what was computed again for a loss counts once, even where a
    stage of another id did so (``recorded.repeated_stages``).

    ``body_ms``: for each task, from launch to finish as the driver sees it, without what a fresh executor or a stage's
    first task there adds;
    ``NO_TASK`` where the log has no success. ``parents``: stages whose output it reads, run in this log or not (skipped,
    or before the log begins). ``shuffle``: what its output is known by, None for a result stage. ``stores``: RDDs that it
    caches. ``submit_lag_ms``: from the moment when all that it waited for was there to its submission; ``launch_lag_ms``:
    from submission to the first task, where a slot was free; ``finish_lag_ms``: from the last task's end to completion.
    ``recomputed``: tasks that ran again because their output was lost; ``attempts`` counts those that ran them. Bytes are
    sums over the tasks, 0 where not logged.
    ``exchanged``: it reads an exchange of SQL; ``scanned``: it scans files for it; ``indeterminate``: computed again, it may
    come out otherwise, so that what was made from it is thrown away then. ``opening_ms``: what its first task in a slot of
    an executor that was not fresh took longer than those after it; ``opened``: in how many slots it was begun.
    """

    stage: int
    job: int
    name: str
    profile: ProfileId
    submitted_ms: Millis
    completed_ms: Millis
    body_ms: array[int]
    parents: tuple[int, ...] = ()
    shuffle: int | None = None
    stores: tuple[int, ...] = ()
    barrier: bool = False
    submit_lag_ms: Millis = 0
    launch_lag_ms: Millis = 0
    finish_lag_ms: Millis = 0
    failures: tuple[Failure, ...] = ()
    copies: tuple[Copy, ...] = ()
    attempts: int = 1
    recomputed: int = 0
    run_ms: Millis = 0
    gc_ms: Millis = 0
    read_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    exchanged: bool = False
    scanned: bool = False
    indeterminate: bool = False
    opening_ms: Millis = 0
    opened: int = 0

    @property
    def tasks(self) -> int:
        """How many tasks the stage is made of."""
        return len(self.body_ms)

    @property
    def skewed(self) -> bool:
        """Whether one of its tasks takes so much longer than the others that these are waited out. O(tasks)."""
        if len(self.body_ms) < 2:
            return False
        longest = max(self.body_ms)
        return longest * (len(self.body_ms) - 1) >= SKEW * max(1, sum(self.body_ms) - longest)


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job: the stages it ran, and what it waited for.

    ``after``: jobs that had to end before the driver's program submitted it (of its own thread, as far as pools, groups
    and SQL executions tell threads apart; each a job of this log), ``think_ms``: from the end of the last of these, or
    from the application's start where there are none, to its submission. ``stages``: those it was the first to run, in
    order of submission; ``needs``: all that it lists, with the shuffles that they write, skipped ones included (a skipped
    stage has another id than the one that wrote its shuffle). ``ended_ms``: None when the log ends before. ``end_lag_ms``:
    from the completion of its last stage to its end. ``repeated``: stages that it ran only to compute lost output again
    (``recorded.repeated_stages``), which are none of ``Application.stages``.
    """

    job: int
    submitted_ms: Millis
    ended_ms: Millis | None
    succeeded: bool
    stages: tuple[int, ...]
    needs: tuple[JobStage, ...]
    after: tuple[int, ...] = ()
    think_ms: Millis = 0
    end_lag_ms: Millis = 0
    pool: str | None = None
    thread: str = ""
    name: str = ""
    repeated: tuple[int, ...] = ()


class Leave(Enum):
    """Why an executor's record ends."""

    STAYED = "stayed"
    """It was there when the application ended."""
    RELEASED = "released"
    """The application let it go: idle for too long, killed or decommissioned by the driver."""
    LOST = "lost"
    """It was taken: preempted, evicted, out of memory, crashed, its node gone."""


@dataclass(frozen=True, slots=True)
class RecordedExecutor:
    """An executor's life as logged. ``requested_ms``: when it was asked for, as far as that is known (the log says so since
    4.3, or a replay infers it); ``first_task_ms``: None when it never ran one; ``busy_ms``: time in which any task ran."""

    executor: ExecutorId
    host: str
    profile: ProfileId
    cores: int
    added_ms: Millis
    removed_ms: Millis | None
    leave: Leave
    reason: str = ""
    requested_ms: Millis | None = None
    first_task_ms: Millis | None = None
    last_task_ms: Millis | None = None
    tasks: int = 0
    busy_ms: Millis = 0


class Unknown(NamedTuple):
    """Something that the log does not tell, and what that does to the answers."""

    what: str
    effect: str


class Fresh(NamedTuple):
    """What the first task on a fresh executor took longer than its stage's others on the same footing."""

    executor: ExecutorId
    extra_ms: Millis


@dataclass(frozen=True, slots=True)
class Application:
    """An application as recorded. Everything is in order: jobs and stages by submission, executors by registration.

    ``driver_ready_ms``: when the driver's block manager was registered, close to when executors are first asked for;
    None where not logged. ``turnaround_ms``: what a slot stands empty for between two tasks while others wait (the driver's
    own work). ``cores_per_task``: spark.task.cpus. ``unpersisted``: (time, RDD) as logged. ``properties``: the Spark
    properties of the log, as they are (redact before showing). ``memory``: what the log says of it. ``failures``: stages
    with tries or attempts that did not count.
    """

    id: str
    name: str
    spark_version: str
    started_ms: Millis
    ended_ms: Millis
    end_known: bool
    properties: Mapping[str, str]
    jobs: tuple[RecordedJob, ...]
    stages: tuple[RecordedStage, ...]
    executors: tuple[RecordedExecutor, ...]
    profiles: tuple[ResourceProfileAdded, ...] = ()
    driver_ready_ms: Millis | None = None
    turnaround_ms: Millis = 0
    fresh: tuple[Fresh, ...] = ()
    unpersisted: tuple[tuple[Millis, int], ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    memory: MemoryEvidence = NO_MEMORY
    failures: tuple[StageFailures, ...] = ()

    @property
    def runtime_ms(self) -> Millis:
        """From ApplicationStart to ApplicationEnd, or to the last that was heard."""
        return self.ended_ms - self.started_ms

    @property
    def tasks(self) -> int:
        """Tasks of all stages, each once."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def executor_ms(self) -> Millis:
        """From ExecutorAdded to ExecutorRemoved or the application's end, over all executors."""
        return sum(
            max(0, (self.ended_ms if one.removed_ms is None else min(one.removed_ms, self.ended_ms)) - one.added_ms)
            for one in self.executors
        )

    def executors_over_time(self) -> tuple[tuple[Millis, int], ...]:
        """How many executors were registered: (since the application's start, count) at each change."""
        moves: dict[Millis, int] = {}
        for one in self.executors:
            moves[one.added_ms] = moves.get(one.added_ms, 0) + 1
            if one.removed_ms is not None and one.removed_ms < self.ended_ms:
                moves[one.removed_ms] = moves.get(one.removed_ms, 0) - 1
        count, curve = 0, []
        for at in sorted(moves):
            count += moves[at]
            curve.append((at - self.started_ms, count))
        return tuple(curve)

    @property
    def peak_executors(self) -> int:
        """The most executors that were registered at once."""
        return max((count for _, count in self.executors_over_time()), default=0)


class SumOverTime:
    """The sum of what is there at a moment. Spans are (begin, end, weight), both ends included.

    O(n log n) to make, O(log n) to ask.
    """

    def __init__(self, spans: Iterable[tuple[Millis, Millis, int]]) -> None:
        known = list(spans)
        begins = sorted((begin, weight) for begin, _, weight in known)
        ends = sorted((end, weight) for _, end, weight in known)
        self._begins = [at for at, _ in begins]
        self._ends = [at for at, _ in ends]
        self._begun = [0, *accumulate(weight for _, weight in begins)]
        self._ended = [0, *accumulate(weight for _, weight in ends)]

    def __call__(self, at: Millis) -> int:
        """The sum at a moment."""
        return self._begun[bisect_right(self._begins, at)] - self._ended[bisect_left(self._ends, at)]


def main_profile(application: Application) -> ProfileId:
    """The profile of the application's own executors."""
    known = Counter(one.profile for one in application.executors)
    return max(known, key=lambda one: (one == DEFAULT_PROFILE, known[one], -one), default=DEFAULT_PROFILE)


def peaks(application: Application) -> dict[ProfileId, int]:
    """The most executors of each profile that were registered at once, by profile."""
    moves: dict[ProfileId, dict[Millis, int]] = {}
    for one in application.executors:
        own = moves.setdefault(one.profile, {})
        own[one.added_ms] = own.get(one.added_ms, 0) + 1
        if one.removed_ms is not None:
            own[one.removed_ms] = own.get(one.removed_ms, 0) - 1
    found = {}
    for profile in sorted(moves):
        count = most = 0
        for at in sorted(moves[profile]):
            count += moves[profile][at]
            most = max(most, count)
        found[profile] = max(1, most)
    return found
