"""What a log says of executors: when they came and went and why, when they were busy, and what their slots waited for.

*Times* are those that the events claim; an executor that is only known by its tasks came with the first of them.

*Busy* is the union of the intervals of its tasks, put together as the tasks end: those ends come in order, so an interval
that reaches back swallows the last ones.

*Turnaround* is the gap between a task's finish and the next launch on its slot, where that next task had been waiting. A
driver frees a slot before it has noted the task's finish, so a launch may come first, as one task too many: the gap is then
negative.

*Leaving.* Whether the application let an executor go or lost it is told by Spark's reason text: the driver's own kills, YARN
containers that were released, and decommissioning for a scale-down on one side, all else on the other.

What a fresh executor adds to its first tasks, told apart from the tasks themselves.

The first tasks on an executor (one for each slot, launched before any task on it had ended) load classes, fetch jars and
broadcasts and run cold code. Two parts of that can be seen:

- *overhead*: what lies between launch and finish besides the executor's run time, beyond the median of the stage's other
  tasks (of all stages' where there are fewer than ``ENOUGH``). It is taken for each task as it is.
- *run time*: a first task's own work may differ from its neighbours' for better reasons. Only where stages are even (the
  spread around the median is a quarter of it or less) are first tasks compared with the others. Where two or more of a stage
  stand out, each by three spreads, the stage speaks for itself (Python workers that start). For all other first tasks the
  median difference is taken alike, if it is clear: at least ``FEW`` of them, three of four slower, and by twice the spread
  unless they are ``MANY``.

Without metrics the whole length stands in for the run time, under the same conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podtide.domain.base.samples import Sample, median, spread
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.resource_profiles import CORES
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import Leave, RecordedExecutor
from podtide.domain.recorded.stages import FreshTask, StageWork

SPANS_MAX: Final = 64
"""Disjoint busy intervals of one executor that a longer task may still swallow."""

SLOTS_MAX: Final = 1_024
"""Slots of an executor that are told apart."""

REASON_MAX: Final = 300

PROFILES_MAX: Final = 10_000
"""Resource profiles of one log that are made up for executors and stages."""

UNANNOUNCED: Final = "profiles not announced"
"""In ``Application.counts``: resource profiles that are used and not in the log."""

ALWAYS: Final[Millis] = -1
SLOT_TAKEN: Final[Millis] = 2**63 - 1

_RELEASED: Final = re.compile(
    r"killed by driver"
    r"|exited from explicit termination request"  # YarnAllocator, of containers that the driver released
    r"|decommission.*spark scale down"
    r"|^spark scale down"
    r"|^dynamic allocation"
    r"|\bidle\b",
    re.IGNORECASE | re.DOTALL,
)


def leave_of(reason: str) -> Leave:
    """RELEASED or LOST, by the reason that ExecutorRemoved gives."""
    return Leave.RELEASED if _RELEASED.search(reason) else Leave.LOST


@dataclass(slots=True, eq=False)
class ExecutorRecord:
    """One executor while the log is read. ``started``: tasks so far; ``ended``: those of them that ended."""

    executor: str
    number: int
    added: Millis
    slots: int
    implied: bool = True  # nobody but its tasks has said that it is there
    host: str = ""
    cores: int = 0
    profile: int = 0
    requested: Millis | None = None
    removed: Millis | None = None
    reason: str = ""
    started: int = 0
    ended: int = 0
    running: int = 0
    most: int = 0
    first_task: Millis | None = None
    last_task: Millis | None = None
    fresh: set[tuple[int, int, int]] = field(default_factory=set)
    freed: list[Millis] = field(default_factory=list)
    early: list[Millis] = field(default_factory=list)
    busy: Millis = 0
    since: Millis = 0
    until: Millis = 0
    spans: list[tuple[Millis, Millis]] = field(default_factory=list)

    def launched(self, stage: int, attempt: int, index: int, at: Millis) -> Millis:
        """A task began. Returns since when its slot had been free: ALWAYS, a moment, or SLOT_TAKEN: until just now."""
        running = self.running = self.running + 1
        if not self.ended and self.started < self.slots:
            self.fresh.add((stage, attempt, index))
        self.started += 1
        if running > self.most:
            self.most = running
        if self.first_task is None or at < self.first_task:
            self.first_task = at
        if running > self.slots:
            if len(self.early) < SLOTS_MAX:
                self.early.append(at)
            return SLOT_TAKEN
        return self.freed.pop() if self.freed else ALWAYS

    def finished(self, launch: Millis, finish: Millis, turnaround: Sample) -> None:
        """A task ended, however."""
        self.ended += 1
        if self.running:
            self.running -= 1
        if self.early:
            turnaround.add(self.early.pop(0) - finish)
        else:
            freed = self.freed
            freed.append(finish)
            if len(freed) > self.slots:
                del freed[0]
        if launch >= self.until:
            if self.until:
                self._keep()
            self.since, self.until = launch, finish
        else:
            if finish > self.until:
                self.until = finish
            if launch < self.since:
                self._swallow(launch)
        if self.last_task is None or finish > self.last_task:
            self.last_task = finish

    def _keep(self) -> None:
        spans = self.spans
        spans.append((self.since, self.until))
        if len(spans) > SPANS_MAX:
            half = SPANS_MAX // 2
            self.busy += sum(until - since for since, until in spans[:half])
            del spans[:half]

    def _swallow(self, launch: Millis) -> None:
        self.since = launch
        spans = self.spans
        while spans and spans[-1][1] >= launch:
            since, _ = spans.pop()
            self.since = min(self.since, since)

    def busy_ms(self) -> Millis:
        """Time in which any task ran that ended."""
        return self.busy + sum(until - since for since, until in self.spans) + self.until - self.since

    def record(self, worked: Millis, ended: Millis, requested: Millis | None, task_cpus: float) -> RecordedExecutor:
        """The executor as it is kept; ``ended``: when the application did, ``worked``: when its last job had.

        Cores that are not logged are those that its tasks took at most. An executor that is lost after the last job went
        down with the application.
        """
        leave = Leave.STAYED if self.removed is None or self.removed >= ended else leave_of(self.reason)
        if leave is Leave.LOST and self.removed is not None and self.removed >= worked:
            leave = Leave.STAYED
        return RecordedExecutor(
            ExecutorId(self.executor), self.host, ProfileId(self.profile), self.cores or int(self.most * task_cpus),
            self.added, self.removed, leave,
            self.reason[:REASON_MAX], requested, self.first_task, self.last_task, max(self.started, self.ended),
            self.busy_ms(),
        )  # fmt: skip


class Fleet:
    """All executors of a log, in the order in which they were heard of."""

    def __init__(self) -> None:
        self.lives: list[ExecutorRecord] = []
        self.current: dict[str, ExecutorRecord] = {}
        self.task_cpus = 1.0
        self.profile_cpus: dict[int, float] = {}
        self.slots_usual = SLOTS_MAX  # until anything is known: as many as run at once

    def implied(self, executor: str, at: Millis) -> ExecutorRecord:
        """An executor that runs a task and was never announced (or will be, later)."""
        life = self.current[executor] = ExecutorRecord(executor, len(self.lives), at, self.slots_usual)
        self.lives.append(life)
        return life

    def add(self, executor: str, at: Millis, host: str, cores: int, profile: int) -> ExecutorRecord:
        """An executor registered. One that was only implied is then known; one that is there stays as it is."""
        life = self.current.get(executor)
        if life is None or (life.removed is not None and at > life.removed):
            life = self.current[executor] = ExecutorRecord(executor, len(self.lives), at, 0)
            self.lives.append(life)
        elif life.implied:
            life.added = at if life.first_task is None else min(at, life.first_task)
        else:
            return life
        life.implied = False
        life.host, life.cores, life.profile = host or life.host, max(0, cores), profile
        cpus = self.profile_cpus.get(profile, self.task_cpus)
        slots = int(life.cores / cpus) if life.cores else self.slots_usual
        life.slots = self.slots_usual = max(1, min(slots, SLOTS_MAX))
        return life

    def remove(self, executor: str, at: Millis, reason: str) -> None:
        """An executor was removed."""
        life = self.current.get(executor)
        if life is None or life.removed is not None:
            return
        life.removed = max(at, life.added)
        life.reason = reason
        life.running = 0
        life.freed, life.early = [], []


def all_profiles(
    announced: Mapping[ProfileId, ResourceProfileAdded],
    used: Iterable[ProfileId],
    executors: Sequence[RecordedExecutor],
    at: Millis,
) -> tuple[ResourceProfileAdded, ...]:
    """The resource profiles by id. Those that nobody announced have the cores of their executors, the conf's for the rest.

    ``used``: by stages; ``at``: when the made-up ones are said to have come.
    """
    found = dict(announced)
    cores = {one.profile: float(one.cores) for one in executors if one.cores > 0}
    unknown = {*used, *(one.profile for one in executors)} - found.keys() - {DEFAULT_PROFILE}
    for profile in sorted(unknown)[:PROFILES_MAX]:
        known = ((CORES, cores[profile]),) if profile in cores else ()
        found[profile] = ResourceProfileAdded(at, profile, known, ())
    return tuple(found[one] for one in sorted(found))


ENOUGH: Final = 3
"""Tasks of a stage that make a median."""


FEW: Final = 4
MANY: Final = 12
"""First tasks that make a case about run times: where they stand out, and where they do not."""


PAIR: Final = 2
SURE: Final = 3
"""Of one stage alone: so many first tasks, each longer than the others by so many spreads."""

LEAST_MS: Final[Millis] = 10
"""A median difference below this is noise."""


class Extra(NamedTuple):
    """What a task took longer: on which executor (by its place in the order of coming), and how long."""

    life: int
    extra_ms: Millis


def take_out(stages: Iterable[StageWork]) -> list[Extra]:
    """Take what fresh executors add out of the stages' tasks; return it, in the order of the stages."""
    works = [work for work in stages if work.fresh]
    usual = _usual_overhead(works)
    even = {work.seen.stage: _slower_in(work) for work in works}
    slower = _slower(one for one in even.values() if one is not None)
    extras: list[Extra] = []
    for work in works:
        overheads = _overheads(work)
        base = median(overheads) if len(overheads) >= ENOUGH else usual
        own = even[work.seen.stage]
        more = own.clear if own is not None and own.clear else slower
        for task in work.fresh:
            extra = more if task.run < 0 else more + max(0, task.duration - task.run - base)
            extra = min(extra, task.duration)
            if extra:
                work.lengthen(task.place, task.duration - extra)
            extras.append(Extra(task.life, extra))
        work.fresh = []
    return extras


def _overheads(work: StageWork) -> list[Millis]:
    pairs = zip(work.typical.first, work.typical.second, strict=True)
    return [duration - run for duration, run in pairs if run >= 0]


def _usual_overhead(works: Sequence[StageWork]) -> Millis:
    """The overhead of tasks that were not the first, over all stages; that of the least first task without them."""
    middles = [median(overheads) for work in works if (overheads := _overheads(work))]
    if middles:
        return median(middles)
    return min((task.duration - task.run for work in works for task in work.fresh if task.run >= 0), default=0)


class Slower(NamedTuple):
    """How much longer the first tasks of an even stage ran than its median, and how far the others are from that.

    ``clear``: what its first tasks take longer alike, where the stage alone shows it; else 0.
    """

    differences: list[Millis]
    around: Millis
    clear: Millis


def _slower_in(work: StageWork) -> Slower | None:
    typical = work.typical
    runs = [run if run >= 0 else length for length, run in zip(typical.first, typical.second, strict=True)]
    if len(runs) < ENOUGH:
        return None
    middle, around = median(runs), spread(runs)
    if 4 * around > middle:
        return None
    differences = [_work_of(task) - middle for task in work.fresh]
    least = max(LEAST_MS, SURE * around)
    clear = len(differences) >= PAIR and min(differences) >= least
    return Slower(differences, around, median(differences) if clear else 0)


def _slower(stages: Iterable[Slower]) -> Millis:
    """How much longer first tasks run, if that is clear; else nothing."""
    differences: list[Millis] = []
    spreads: list[Millis] = []
    for one in stages:
        spreads.extend([one.around] * len(one.differences))
        differences.extend(one.differences)
    if len(differences) < FEW or 4 * sum(one > 0 for one in differences) < 3 * len(differences):
        return 0
    middle = median(differences)
    stands_out = len(differences) >= MANY or middle >= 2 * median(spreads)
    return middle if middle >= LEAST_MS and stands_out else 0


def _work_of(task: FreshTask) -> Millis:
    return task.run if task.run >= 0 else task.duration
