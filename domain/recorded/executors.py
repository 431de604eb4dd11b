"""What a log says of executors: when they came and went and why, when they were busy, and what their slots waited for.

*Times* are those that the events claim; an executor that is only known by its tasks came with the first of them.

*Busy* is the union of the intervals of its tasks, put together as the tasks end: those ends come in order, so an interval
that reaches back swallows the last ones.

*Turnaround* is the gap between a task's finish and the next launch on its slot, where that next task had been waiting. A
driver frees a slot before it has noted the task's finish, so a launch may come first, as one task too many: the gap is then
negative.

*Leaving.* Whether the application let an executor go or lost it is told by Spark's reason text: the driver's own kills, YARN
containers that were released, and decommissioning for a scale-down on one side, all else on the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from podtide.domain.base.samples import Sample
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.resource_profiles import CORES
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import Executor, Leave

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


class Life:
    """One executor while the log is read. ``started``: tasks so far; ``ended``: those of them that ended."""

    __slots__ = (
        "added", "busy", "cores", "early", "ended", "executor", "first_task", "freed", "fresh", "host", "implied",
        "last_task", "most", "number", "profile", "reason", "removed", "requested", "running", "since", "slots", "spans",
        "started", "until",
    )  # fmt: skip

    def __init__(self, executor: str, number: int, added: Millis, slots: int) -> None:
        self.executor = executor
        self.number = number
        self.added = added
        self.implied = True  # nobody but its tasks has said that it is there
        self.host = ""
        self.cores = 0
        self.profile = 0
        self.slots = slots
        self.requested: Millis | None = None
        self.removed: Millis | None = None
        self.reason = ""
        self.started = 0
        self.ended = 0
        self.running = 0
        self.most = 0
        self.first_task: Millis | None = None
        self.last_task: Millis | None = None
        self.fresh: set[tuple[int, int, int]] = set()
        self.freed: list[Millis] = []
        self.early: list[Millis] = []
        self.busy: Millis = 0
        self.since: Millis = 0
        self.until: Millis = 0
        self.spans: list[tuple[Millis, Millis]] = []

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

    def record(self, worked: Millis, ended: Millis, requested: Millis | None, task_cpus: float) -> Executor:
        """The executor as it is kept; ``ended``: when the application did, ``worked``: when its last job had.

        Cores that are not logged are those that its tasks took at most. An executor that is lost after the last job went
        down with the application.
        """
        leave = Leave.STAYED if self.removed is None or self.removed >= ended else leave_of(self.reason)
        if leave is Leave.LOST and self.removed is not None and self.removed >= worked:
            leave = Leave.STAYED
        return Executor(
            ExecutorId(self.executor), self.host, ProfileId(self.profile), self.cores or int(self.most * task_cpus),
            self.added, self.removed, leave,
            self.reason[:REASON_MAX], requested, self.first_task, self.last_task, max(self.started, self.ended),
            self.busy_ms(),
        )  # fmt: skip


class Fleet:
    """All executors of a log, in the order in which they were heard of."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.current: dict[str, Life] = {}
        self.task_cpus = 1.0
        self.profile_cpus: dict[int, float] = {}
        self.slots_usual = SLOTS_MAX  # until anything is known: as many as run at once

    def implied(self, executor: str, at: Millis) -> Life:
        """An executor that runs a task and was never announced (or will be, later)."""
        life = self.current[executor] = Life(executor, len(self.lives), at, self.slots_usual)
        self.lives.append(life)
        return life

    def add(self, executor: str, at: Millis, host: str, cores: int, profile: int) -> Life:
        """An executor registered. One that was only implied is then known; one that is there stays as it is."""
        life = self.current.get(executor)
        if life is None or (life.removed is not None and at > life.removed):
            life = self.current[executor] = Life(executor, len(self.lives), at, 0)
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
    executors: Sequence[Executor],
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
