"""What each job waited for: the driver's program, read from the times of its jobs and the names of their threads.

*Units.* Jobs of one SQL execution (the outermost one), or of one micro-batch of a stream, belong together; any other job
is a unit of its own. Within a unit a job waits for all jobs of it that had ended when it was submitted: adaptive execution
and broadcasts run several at once and go on when they are there. The first jobs of a unit wait for what the unit waited for.

*Lanes.* Units are told apart by what is known of their threads: the stream, the scheduler pool (if not the default one),
the job group; what has none of them is the main lane. In its lane a unit waits for all units that had ended, if no other of
the lane was under way: a loop over queries, a fork that was joined. If others were under way, several threads are at work in
the lane: the unit goes on where a unit that nobody had gone on from ended last, or, if there is none, began with the one
that began after that end (a fork). A lane whose units first went on from another lane's is its child, and joined with it
when all of it has ended.

*First units of a lane.* If nothing else was under way, the program is taken to go on from all that had ended: notebooks name
every cell differently. Otherwise it may have been forked from what ended last: if nobody had begun since but forks of the
same end, or within ``PROMPT_MS``. If not, it came from outside, at its time.

*Streams.* Micro-batches that begin at a regular interval wait for the clock, not for the batch before, unless that ended
just then.

Jobs that overlap never wait for one another: whatever a job waits for had ended when it was submitted. What a job of
``after`` waited for itself is left out. ``think_ms`` is what the program then took, from the last of these ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from podtide.domain.base.samples import median
from podtide.domain.base.units import Millis

PROMPT_MS: Final[Millis] = 1_000
"""What begins so soon after an end, while others are under way, is taken to go on from there."""

FORK_MS: Final[Millis] = 5_000
"""What begins so soon after another that went on from the last end is taken for a fork of the same thread."""

AFTER_MAX: Final = 64
"""Jobs that one waits for, at most: those that ended last."""

BATCHES_MIN: Final = 4
"""Micro-batches that show an interval."""

DEPTH_MAX: Final = 16
"""Generations of lanes that are followed."""

DEFAULT_POOL: Final = "default"
MAIN: Final = "main"
NAME_MAX: Final = 100

_BROADCAST: Final = "broadcast exchange"


class JobTraits(NamedTuple):
    """What a job's properties say of where it came from. ``execution``: the outermost SQL execution."""

    pool: str | None = None
    group: str | None = None
    execution: int | None = None
    stream: str | None = None
    batch: str | None = None
    description: str = ""


class LoggedJob(NamedTuple):
    """A job as the log has it; ``ended_ms`` is None if it did not end."""

    job: int
    submitted_ms: Millis
    ended_ms: Millis | None
    traits: JobTraits = JobTraits()


class SqlSpan(NamedTuple):
    """When an SQL execution began and ended; None where that is not logged."""

    began_ms: Millis | None
    ended_ms: Millis | None


class Waited(NamedTuple):
    """What a job waited for. ``clocked``: for a moment, not for a job (a stream's trigger)."""

    job: int
    after: tuple[int, ...]
    think_ms: Millis
    thread: str
    clocked: bool = False


@dataclass(slots=True, eq=False)
class _Unit:
    """Jobs that belong together, in the order of submission."""

    number: int
    jobs: list[LoggedJob] = field(default_factory=list)
    begins: Millis = 0
    ends: Millis | None = None
    lane: _Lane = field(init=False)
    preds: tuple[_Unit, ...] = ()  # that it waited for, and ...
    follows: tuple[_Unit, ...] = ()  # ... that it came after in its thread, waiting or not
    sinks: list[LoggedJob] = field(default_factory=list)
    continued: bool = False
    clocked: bool = False
    thread: int = 0


@dataclass(slots=True, eq=False)
class _Lane:
    """Units of one thread, as far as that is known."""

    name: str
    parent: _Lane | None = None
    any: bool = False
    active: int = 0
    threads: int = 0  # that there ever were at once, and those of them that are ...
    free: list[int] = field(default_factory=list)  # ... free, the lowest number first
    latest: _Unit | None = None  # the unit that ended last
    newest: _Unit | None = None  # the unit that began last

    def descends(self, other: _Lane) -> bool:
        """Whether this lane is ``other`` or a child of it, over a number of lanes."""
        lane: _Lane | None = self
        for _ in range(DEPTH_MAX):
            if lane is None or lane is other:
                break
            lane = lane.parent
        return lane is other


def waited_for(jobs: Iterable[LoggedJob], executions: Mapping[int, SqlSpan], started_ms: Millis) -> dict[int, Waited]:
    """What each job waited for, by job. ``started_ms``: when the application did."""
    ordered = sorted(jobs, key=lambda job: (job.submitted_ms, job.job))
    units = _units(ordered, executions)
    _clocks(units)
    _Sweep().run(units)
    found: dict[int, Waited] = {}
    for unit in units:
        _inside(unit, started_ms, found)
    return found


def _units(jobs: Sequence[LoggedJob], executions: Mapping[int, SqlSpan]) -> list[_Unit]:
    """The units in the order in which they began, with their lanes."""
    units: dict[object, _Unit] = {}
    for job in jobs:
        traits = job.traits
        key: object = ("job", job.job)
        if traits.batch is not None:
            key = ("batch", traits.stream, traits.batch)
        elif traits.execution is not None:
            key = ("execution", traits.execution)
        units.setdefault(key, _Unit(len(units))).jobs.append(job)
    lanes: dict[str, _Lane] = {}
    for key, unit in units.items():
        ends = [job.ended_ms for job in unit.jobs if job.ended_ms is not None]
        unit.begins = unit.jobs[0].submitted_ms
        unit.ends = max(ends) if len(ends) == len(unit.jobs) else None
        assert isinstance(key, tuple)
        span = executions.get(key[1]) if key[0] == "execution" else None
        if span is not None:
            if span.began_ms is not None:
                unit.begins = min(unit.begins, span.began_ms)
            if span.ended_ms is not None and unit.ends is not None:
                unit.ends = max(unit.ends, span.ended_ms)
        name = _lane_name(unit)
        unit.lane = lanes.setdefault(name, _Lane(name))
    return sorted(units.values(), key=lambda unit: (unit.begins, unit.number))


def _lane_name(unit: _Unit) -> str:
    """The lane of a unit, by its first job that says something; broadcasts run in threads and groups of their own."""
    for job in sorted(unit.jobs, key=lambda job: job.traits.description.startswith(_BROADCAST)):
        traits = job.traits
        if traits.stream is not None:
            return f"stream {traits.stream[:NAME_MAX]}"
        if traits.pool is not None and traits.pool != DEFAULT_POOL:
            return f"pool {traits.pool[:NAME_MAX]}"
        if traits.group is not None and not traits.description.startswith(_BROADCAST):
            return f"group {traits.group[:NAME_MAX]}"
    return MAIN


def _clocks(units: Sequence[_Unit]) -> None:
    """Mark the micro-batches that began by the clock."""
    streams: dict[str, list[_Unit]] = {}
    for unit in units:
        if unit.jobs[0].traits.batch is not None:
            streams.setdefault(unit.lane.name, []).append(unit)
    for batches in streams.values():
        if len(batches) < BATCHES_MIN:
            continue
        gaps = [after.begins - before.begins for before, after in pairwise(batches)]
        interval = median(gaps)
        if interval <= 0:
            continue
        near = max(50, interval // 20)
        grid = next(unit.begins for unit, gap in zip(batches, gaps, strict=False) if gap == interval)
        regular = [min((unit.begins - grid) % interval, (grid - unit.begins) % interval) <= near for unit in batches]
        idle = [True]
        idle += [before.ends is not None and after.begins - before.ends > near for before, after in pairwise(batches)]
        if 5 * sum(regular) < 4 * len(batches) or 2 * sum(idle) < len(batches):
            continue
        for unit, waited in zip(batches, idle, strict=True):
            unit.clocked = waited


class _Sweep:
    """Goes through the units by time and settles which ones each went on from."""

    def __init__(self) -> None:
        self.active = 0
        self.latest: _Unit | None = None
        self.newest: _Unit | None = None
        self.front: dict[int, _Unit] = {}  # ended, and nobody that went on from there has ended; in order of ends

    def run(self, units: Sequence[_Unit]) -> None:
        """Fill in ``preds`` and ``thread``."""
        ends: list[tuple[Millis, int, _Unit]] = []
        for unit in units:
            while ends and ends[0][0] <= unit.begins:
                self._end(heappop(ends)[2])
            self._begin(unit)
            if unit.ends is not None:
                heappush(ends, (unit.ends, unit.number, unit))

    def _end(self, unit: _Unit) -> None:
        lane = unit.lane
        self.active -= 1
        lane.active -= 1
        heappush(lane.free, unit.thread)
        for pred in unit.follows:
            self.front.pop(pred.number, None)
        self.front[unit.number] = lane.latest = self.latest = unit
        if len(self.front) > AFTER_MAX:
            del self.front[next(iter(self.front))]

    def _begin(self, unit: _Unit) -> None:
        lane = unit.lane
        unit.follows = self._again(unit, lane) if lane.any else self._first(unit, lane)
        if not unit.clocked:
            unit.preds = unit.follows
        for pred in unit.follows:
            pred.continued = True
        if lane.free:
            unit.thread = heappop(lane.free)
        else:
            unit.thread = lane.threads
            lane.threads += 1
        lane.any = True
        lane.active += 1
        lane.newest = self.newest = unit
        self.active += 1

    def _again(self, unit: _Unit, lane: _Lane) -> tuple[_Unit, ...]:
        """What a unit of a lane that has had others went on from."""
        own = [one for one in self.front.values() if one.lane is lane]
        if not lane.active:
            if self.active:
                return tuple(own)
            return tuple(one for one in self.front.values() if one.lane.descends(lane))
        loose = [one for one in own if not one.continued]
        if loose:
            return (loose[-1],)
        return _forked(unit, lane.latest, lane.newest)

    def _first(self, unit: _Unit, lane: _Lane) -> tuple[_Unit, ...]:
        """What the first unit of a lane went on from."""
        preds = tuple(self.front.values()) if not self.active else _forked(unit, self.latest, self.newest)
        if preds and self.active:
            lane.parent = preds[-1].lane
        elif preds:
            # A thread that ends where another begins, or one thread under another name: only a fork makes a child.
            lane.parent = preds[-1].lane if preds[-1].lane.name == MAIN else None
        return preds


def _forked(unit: _Unit, latest: _Unit | None, newest: _Unit | None) -> tuple[_Unit, ...]:
    """The ends that a unit went on from while others were under way, if it plausibly did."""
    if latest is None or latest.ends is None:
        return ()
    if newest is not None and newest.begins >= latest.ends and latest in newest.preds:
        return newest.preds if unit.begins - newest.begins <= FORK_MS else ()
    return (latest,) if unit.begins - latest.ends <= PROMPT_MS else ()


def _inside(unit: _Unit, started_ms: Millis, found: dict[int, Waited]) -> None:
    """Settle the jobs of a unit; units that it went on from are settled already."""
    name = unit.lane.name if not unit.thread else f"{unit.lane.name} #{unit.thread + 1}"
    before = _last([job for pred in unit.preds for job in pred.sinks])
    front: dict[int, LoggedJob] = {}
    ends: list[tuple[Millis, int, LoggedJob]] = []
    after_of: dict[int, Sequence[LoggedJob]] = {}

    def end(job: LoggedJob) -> None:
        for one in after_of[job.job]:
            front.pop(one.job, None)
        front[job.job] = job
        if len(front) > AFTER_MAX:
            del front[next(iter(front))]

    for job in unit.jobs:
        while ends and ends[0][0] <= job.submitted_ms:
            end(heappop(ends)[2])
        inner = tuple(front.values())
        after = inner or before
        released = max((one.ended_ms for one in after if one.ended_ms is not None), default=started_ms)
        think = max(0, job.submitted_ms - released)
        clocked = unit.clocked and not inner
        found[job.job] = Waited(job.job, tuple(sorted(one.job for one in after)), think, name, clocked)
        after_of[job.job] = inner
        if job.ended_ms is not None:
            heappush(ends, (max(job.ended_ms, job.submitted_ms), job.job, job))
    while ends:
        end(heappop(ends)[2])
    unit.sinks = list(front.values())


def _last(jobs: list[LoggedJob]) -> tuple[LoggedJob, ...]:
    """At most AFTER_MAX of them, those that ended last."""
    return tuple(sorted(jobs, key=lambda job: job.ended_ms or 0)[-AFTER_MAX:])
