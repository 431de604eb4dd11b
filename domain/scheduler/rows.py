"""The rows of the schedulers: executors, stages, task sets, pools and what is due."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappush
from typing import Final, NamedTuple

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.scheduler.locality import PendingTasks
from podtide.domain.scheduler.rules import EQUAL, FairPool

NOBODY: Final = -1
"""In ``Stage.holder``: nobody holds the output of this partition."""
FALLBACK: Final = -2
"""In ``Stage.holder``: the fallback storage holds it."""

NOT_KNOWN: Final = array("q")
"""Of a stage of which nobody knows how long its tasks take before they start."""


class Standing(IntEnum):
    """What an executor may be given."""

    ACTIVE = 0
    LEAVING = 1  # told to go: no new task, those that run go on (or it is dead, and the driver has not noticed)
    GONE = 2


@dataclass(slots=True, eq=False)
class ExecutorSlots:
    """An executor that registered. ``free``: slots with nothing to do; ``change``, ``ended``: what nobody heard yet."""

    row: int
    key: int  # in the books of whoever pays for it
    id: ExecutorId
    profile: ProfileId
    first: int
    slots: int
    since: Millis
    free: list[int] = field(init=False)
    running: int = 0
    fresh: int = field(init=False)  # slots whose first task begins before any has ended here
    standing: Standing = Standing.ACTIVE
    until: Millis = field(init=False)
    place: int = NOBODY  # in the list of those with a free slot
    work_ms: Millis = 0
    wasted_ms: Millis = 0
    change: int = 0  # tasks that run more than the listeners heard
    turned: bool = False  # it worked since the listeners heard of it
    ended: Millis = field(init=False)

    def __post_init__(self) -> None:
        self.free = list(reversed(range(self.first, self.first + self.slots)))
        self.fresh = self.slots
        self.until = self.ended = self.since


@dataclass(slots=True, eq=False)
class Pool:
    """A pool of the scheduler: task sets that have tasks to give, by profile, in FIFO order. ``share``: what it is owed."""

    name: str
    share: FairPool = EQUAL
    running: int = 0
    queues: dict[ProfileId, list[TaskSet]] = field(default_factory=dict)

    def next_of(self, queue: list[TaskSet]) -> TaskSet | None:
        """The task set that is next among those of a queue of it; barrier stages wait for room of their own."""
        if not self.share.fair:
            return next((one for one in queue if not one.barrier), None)
        best: TaskSet | None = None
        for one in queue:
            if not one.barrier and (
                best is None or one.running < best.running or (one.running == best.running and one.name < best.name)
            ):
                best = one
        return best

    @property
    def turn(self) -> tuple[bool, float, str]:
        """Its place among pools (FairSchedulingAlgorithm): who runs less than its minimum comes first, by the share of the
        minimum that it runs; then by running tasks for its weight; then by name."""
        weight, least, _ = self.share
        needy = self.running < least
        return not needy, self.running / (max(1, least) if needy else weight), self.name


class StagePhase(IntEnum):
    """Where a stage stands."""

    IDLE = 0
    WAITING = 1  # for parents
    COMING = 2  # its submission is on the way
    RUNNING = 3
    FAILED = 4  # it will be submitted again


@dataclass(slots=True, eq=False)
class CachedRdd:
    """An RDD that is cached. ``holder``: the executor (its row) that holds each partition; NOBODY before it is computed."""

    rdd: int
    source: Stage
    holder: array[int]


@dataclass(slots=True, eq=False)
class Stage:
    """A stage of ``tasks``. ``bodies``: how long each takes, negative if it need not run; empty where nobody knows before it
    starts. ``done``: which partitions are there; ``missing``: how many are not; ``holder``: on whose disk they are,
    None of a result stage.

    ``id``: as its attempts are known now; a later job that computes lost output again does so as a stage of another id, with
    attempts (``number``) of its own. ``failed``: its attempts since it was complete that failed to fetch; ``spares``: what
    of its output was lost last was on executors that were decommissioned. ``opening_ms``: what the first task in a slot of
    an executor takes longer.
    """

    id: int
    profile: ProfileId
    tasks: int
    shuffle: int | None
    bodies: array[int]
    barrier: bool = False
    indeterminate: bool = False
    opening_ms: Millis = 0
    done: bytearray = field(init=False)
    ever: bool = False  # completed at least once
    on: set[int] = field(default_factory=set)  # executors that hold output of it
    missing: int = field(init=False)
    holder: array[int] | None = field(init=False)
    parents: tuple[Stage, ...] = ()
    stores: tuple[CachedRdd, ...] = ()  # RDDs that it is the first to compute and to cache
    reads: tuple[CachedRdd, ...] = ()  # RDDs that another stage has cached, partition by partition
    children: list[Stage] = field(default_factory=list)
    phase: StagePhase = StagePhase.IDLE
    attempts: int = 0
    number: int = 0
    failed: set[int] = field(default_factory=set)
    spares: bool = False
    attempt: TaskSet | None = None
    priority: int = 0  # the job that its task sets are queued for
    rank: int = 0  # of that job in the queues: its id, unless its caller knows better
    submitted_ms: Millis = NEVER
    completed_ms: Millis = NEVER

    def __post_init__(self) -> None:
        self.cut(self.tasks, self.bodies)

    def cut(self, tasks: int, bodies: array[int]) -> None:
        """Begin with these tasks: none of them is done."""
        self.tasks, self.bodies = tasks, bodies
        self.done = bytearray(tasks)
        self.missing = sum(body >= 0 for body in bodies) if bodies else tasks
        self.holder = None if self.shuffle is None else array("i", [NOBODY]) * tasks

    @property
    def there(self) -> bool:
        """Whether its output can be read: complete, and nothing of it lost since."""
        return self.ever and not self.missing and self.phase is StagePhase.IDLE

    def absent(self) -> list[int]:
        """The partitions that are not there."""
        done, bodies = self.done, self.bodies
        if not bodies:
            return [part for part, there in enumerate(done) if not there]
        return [part for part, body in enumerate(bodies) if body >= 0 and not done[part]]


@dataclass(slots=True, eq=False)
class TaskSet:
    """An attempt of a stage. ``parts``: the partitions that it computes, None for all; ``next``: the first task that never
    started.

    ``first_unsent`` and ``ended`` are what the listeners do not know yet: tasks from ``first_unsent`` to ``next`` started,
    so many ended. ``simple``: its tasks can be started and ended without a second look. ``torn``: some of what it reads may
    be lost; ``stale``: what it computes does not count, as what it has read is computed again; ``elsewhere``: tasks that
    never start, because an earlier attempt computed their partitions meanwhile; ``over``: its end was told. ``name``: as in
    Spark, which decides between two that share fairly.
    """

    stage: Stage
    number: int
    parts: list[int] | None
    pool: Pool
    profile: ProfileId = field(init=False)
    key: tuple[int, int, int] = field(init=False)
    name: str = field(init=False)
    bodies: array[int] = field(init=False)
    stores: tuple[CachedRdd, ...] = field(init=False)
    reads: tuple[CachedRdd, ...] = field(init=False)
    done: bytearray = field(init=False)
    holder: array[int] | None = field(init=False)
    barrier: bool = field(init=False)
    simple: bool = field(init=False)
    total: int = field(init=False)
    next: int = 0
    again: list[int] = field(default_factory=list)  # tasks that wait once more
    local: PendingTasks | None = (
        None  # all that wait, where tasks prefer executors; ``next`` then counts what ever began
    )
    running: int = 0
    first_unsent: int = 0
    ended: int = 0
    zombie: bool = False
    over: bool = False
    torn: bool = False
    stale: bool = False
    elsewhere: set[int] = field(default_factory=set)
    tries: dict[int, int] | None = None  # failures of its tasks
    queued: bool = False
    fails: dict[int, list[Millis]] | None = None
    copies: dict[int, Millis] | None = None
    opening_ms: Millis = field(init=False)
    opened: dict[int, int] = field(default_factory=dict)  # by executor (its row): slots that have begun it
    special: frozenset[int] | None = None  # tasks that need a second look, in a task set that is simple else
    copying: dict[int, int] = field(default_factory=dict)  # task to the slot in which its copy runs

    def __post_init__(self) -> None:
        stage = self.stage
        self.profile = stage.profile
        self.key = (stage.rank, stage.id, self.number)
        self.name = f"TaskSet_{stage.id}.{self.number}"
        self.bodies = stage.bodies
        self.opening_ms = stage.opening_ms
        self.stores, self.reads, self.done, self.holder = stage.stores, stage.reads, stage.done, stage.holder
        self.barrier = stage.barrier
        self.simple = self.parts is None and not stage.barrier
        self.total = stage.tasks if self.parts is None else len(self.parts)

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        if self.zombie:
            return 0
        if self.local is not None:
            return len(self.local)
        return self.total - self.next + len(self.again) - len(self.elsewhere)

    def told(self, index: int) -> int:
        """What the listeners know a task as: by the order of its beginning, where that is not the order of the tasks."""
        return index if self.local is None else self.local.places[index]

    def part(self, index: int) -> int:
        """The partition of a task."""
        return index if self.parts is None else self.parts[index]

    def index(self, part: int) -> int:
        """The task of a partition; NOBODY if it has none."""
        if self.parts is None:
            return part
        place = bisect_left(self.parts, part)
        return place if place < len(self.parts) and self.parts[place] == part else NOBODY


class DueKind(IntEnum):
    """What is due; those due at once happen in this order."""

    COMPLETE = 0
    JOB_ENDS = 1
    JOB = 2
    SUBMIT = 3
    READY = 4
    COPY = 5
    RESUBMIT = 6
    OPEN = 7
    UNPERSIST = 8
    FETCH = 9
    CLEAN = 10
    REVIVE = 11
    WARM = 12


@dataclass(slots=True, eq=False)
class Fetching:
    """A task that will not get what it reads. ``began``: when it asks for it first; ``at``: when it gives up; ``dead``: the
    executors that do not answer, of those that the driver still takes for alive (none: the output is known to be lost)."""

    began: Millis
    at: Millis
    dead: frozenset[int]


class Due(NamedTuple):
    """Something that happens at a time: ``what`` is a job, a stage or a task set, ``task`` one of its tasks, a slot in which
    one runs, an RDD, a shuffle or a run of a job."""

    at: Millis
    kind: DueKind
    serial: int
    what: object
    task: int = 0


class Agenda(list[Due]):
    """What is due, as a heap."""

    def later(self, at: Millis, kind: DueKind, what: object, task: int = 0) -> None:
        """Put something on the agenda."""
        self._serial += 1
        heappush(self, Due(at, kind, self._serial, what, task))

    _serial = 0
