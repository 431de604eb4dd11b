"""Hears the tasks of a log and keeps what an account needs of them: sums by stage and host, and when executors were busy.

Kept of a task: nothing, but a sample of lengths for the medians of its stage and the turns of its executor between busy and
idle, twelve bytes each. Times are epoch milliseconds.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from podtide.domain.base.samples import Pairs, median
from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import HOSTS_MAX, NO_TASK, HostWork, LongestTask, TaskTime, WorkUnit

REMOTE: Final = frozenset({"ANY", "RACK_LOCAL"})
"""Task Locality of tasks that ran away from their data; NO_PREF and NODE_LOCAL did not."""

HOSTS_HEARD: Final = 4_096
"""Hosts of a stage that are counted one by one; the others count as one."""

OTHER_HOSTS: Final = "other hosts"

CLAIM_MAX: Final = 2**53
"""No task has more records, bytes or milliseconds, whatever it claims; sums and ratios of these stay exact enough."""


class TaskMetrics(NamedTuple):
    """Of one task, as Spark measures them: milliseconds, but ``cpu`` and ``write`` in nanoseconds; -1: no ``run`` logged."""

    run: Millis = -1
    cpu: int = 0
    gc: Millis = 0
    deserialize: Millis = 0
    serialize: Millis = 0
    fetch: Millis = 0
    write: int = 0
    records_read: int = 0
    records_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    spilled: int = 0


NO_METRICS: Final = TaskMetrics()


class TaskOf(NamedTuple):
    """A task that ended: where it ran, from when to when, and how near to its data."""

    stage: int
    executor: str
    host: str
    launch: Millis
    finish: Millis
    locality: str


class StageTasks:
    """What is kept of the tasks of one stage."""

    __slots__ = (
        "amounts", "first_launch", "hosts", "last_end", "last_launch", "lengths", "longest", "lost_tasks", "remote",
        "spilled", "time", "wasted", "written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.time = [0] * len(TaskTime)
        self.amounts = [0] * len(WorkUnit)
        self.hosts: dict[str, list[int]] = {}  # tasks, task time, and amounts by measure
        self.remote = [0] * (2 + len(WorkUnit))
        self.lengths = {measure: Pairs() for measure in WorkUnit}
        self.longest: tuple[Millis, str, tuple[int, ...]] = (0, "", (0,) * len(WorkUnit))
        self.first_launch: Millis = -1
        self.last_launch: Millis = -1
        self.last_end: Millis = -1
        self.wasted: Millis = 0
        self.lost_tasks = 0
        self.spilled = 0
        self.written = 0

    def counted(self, task: TaskOf, metrics: TaskMetrics) -> None:
        """A task that counts."""
        length = _claimed(task.finish - task.launch)
        for place, part in enumerate(_parts(length, metrics)):
            self.time[place] += part
        amounts = (*map(_claimed, (metrics.records_read, metrics.records_written, metrics.bytes_read)), 1)
        known = self.hosts.get(task.host)
        if known is None:
            host = task.host if len(self.hosts) < HOSTS_HEARD else OTHER_HOSTS
            known = self.hosts.setdefault(host, [0] * (2 + len(amounts)))
        _add(known, length, amounts)
        if task.locality in REMOTE:
            _add(self.remote, length, amounts)
        for place, amount in enumerate(amounts):
            self.amounts[place] += amount
        for measure, amount in zip(WorkUnit, amounts, strict=True):
            self.lengths[measure].add(length, amount)
        if length > self.longest[0]:
            self.longest = (length, task.host, amounts)
        self.spilled += _claimed(metrics.spilled)
        self.written += _claimed(metrics.bytes_written)

    @property
    def measure(self) -> WorkUnit:
        """What its work is counted in."""
        return next((one for one, amount in zip(WorkUnit, self.amounts, strict=True) if amount > 0), WorkUnit.TASKS)

    def longest_task(self) -> LongestTask:
        """Beside the medians."""
        measure = self.measure
        lengths = self.lengths[measure]
        if not lengths.first:
            return NO_TASK
        length, host, amounts = self.longest
        return LongestTask(
            length, amounts[_PLACE[measure]], host, median(lengths.first), median(lengths.second)
        )  # fmt: skip

    def host_works(self) -> tuple[HostWork, ...]:
        """By task time, the most first."""
        place = 2 + _PLACE[self.measure]
        works = [HostWork(host, row[0], row[1], row[place]) for host, row in self.hosts.items()]
        return tuple(sorted(works, key=lambda one: (-one.task_ms, one.host))[:HOSTS_MAX])

    def remote_work(self) -> HostWork:
        """Of the tasks that ran away from their data."""
        return HostWork("", self.remote[0], self.remote[1], self.remote[2 + _PLACE[self.measure]])


_PLACE: Final = {measure: place for place, measure in enumerate(WorkUnit)}


class Turns:
    """When executors became busy and idle: moments, and places of executors (``~place``: it became idle)."""

    def __init__(self) -> None:
        self.at = array("q")
        self.who = array("q")
        self.executors: dict[str, int] = {}
        self.running: list[int] = []

    def began(self, executor: str, at: Millis) -> None:
        """A task began."""
        place = self.executors.get(executor)
        if place is None:
            place = self.executors[executor] = len(self.running)
            self.running.append(0)
        if not self.running[place]:
            self.at.append(at)
            self.who.append(place)
        self.running[place] += 1

    def ended(self, executor: str, at: Millis) -> None:
        """A task ended."""
        place = self.executors.get(executor)
        if place is None or not self.running[place]:
            return
        self.running[place] -= 1
        if not self.running[place]:
            self.at.append(at)
            self.who.append(~place)


class TaskAccounts:
    """What the tasks of a log come to, by stage; ``worked``: by executor, its task time and what of it was wasted;
    ``wrote``: when an executor first ended a task of a stage that writes a shuffle."""

    def __init__(self) -> None:
        self.stages: dict[int, StageTasks] = {}
        self.turns = Turns()
        self.worked: dict[str, list[Millis]] = {}
        self.wrote: dict[str, Millis] = {}

    def started(self, stage: int, executor: str, at: Millis) -> None:
        """A task was launched."""
        tasks = self.stages.get(stage)
        if tasks is None:
            tasks = self.stages[stage] = StageTasks()
        if tasks.first_launch < 0 or at < tasks.first_launch:
            tasks.first_launch = at
        if at > tasks.last_launch:
            tasks.last_launch = at
        self.turns.began(executor, at)

    def ended(self, task: TaskOf, metrics: TaskMetrics, *, counts: bool, maps: bool) -> None:
        """A task ended; ``counts``: well, and for the first time; ``maps``: it wrote a shuffle."""
        tasks = self.stages.get(task.stage)
        if tasks is None:
            tasks = self.stages[task.stage] = StageTasks()
        if task.finish > tasks.last_end:
            tasks.last_end = task.finish
        length = _claimed(task.finish - task.launch)
        worked = self.worked.setdefault(task.executor, [0, 0])
        worked[0] += length
        if counts:
            tasks.counted(task, metrics)
        else:
            tasks.wasted += length
            tasks.lost_tasks += 1
            worked[1] += length
        if maps:
            self.wrote.setdefault(task.executor, task.finish)
        self.turns.ended(task.executor, task.finish)


def _claimed(amount: int) -> int:
    """What is taken of a number that a log claims: within 0 and ``CLAIM_MAX``."""
    return max(0, min(amount, CLAIM_MAX))


def _add(row: list[int], length: Millis, amounts: tuple[int, ...]) -> None:
    row[0] += 1
    row[1] += length
    for place, amount in enumerate(amounts, start=2):
        row[place] += amount


def _parts(length: Millis, metrics: TaskMetrics) -> tuple[Millis, ...]:
    """The length of a task by what it was spent on, in the order of ``TaskTime``: whatever is claimed, they sum to it."""
    run = length if metrics.run < 0 else min(metrics.run, length)
    left = run
    parts = []
    for claimed in (metrics.cpu // 1_000_000, metrics.gc, metrics.fetch, metrics.write // 1_000_000):
        part = max(0, min(claimed, left))
        parts.append(part)
        left -= part
    around = max(0, min(metrics.deserialize + metrics.serialize, length - run))
    return (*parts, left, around, length - run - around)
