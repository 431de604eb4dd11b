"""The rows of a rerun under way: executors, stages, their attempts, pools and jobs. Mutable, never seen outside of it."""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import Final

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.recorded.application import Job, Stage

NOBODY: Final = -1
"""In ``StageRow.holder``: nobody holds the output of this partition."""


class Standing(IntEnum):
    """What an executor may be given."""

    ACTIVE = 0
    LEAVING = 1  # told to go: no new task, those that run go on
    GONE = 2


class ExecutorRow:
    """An executor that registered. ``free``: slots with nothing to do; ``change``, ``ended``: what nobody heard yet."""

    __slots__ = (
        "change",
        "ended",
        "first",
        "free",
        "fresh",
        "id",
        "key",
        "place",
        "profile",
        "row",
        "running",
        "since",
        "slots",
        "standing",
        "turned",
        "until",
        "wasted_ms",
        "work_ms",
    )

    def __init__(
        self, row: int, key: int, executor: ExecutorId, profile: ProfileId, slots: range, since: Millis
    ) -> None:
        self.row = row
        self.key = key  # in the ledger
        self.id = executor
        self.profile = profile
        self.slots = len(slots)
        self.first = slots.start
        self.free = list(slots)
        self.running = 0
        self.fresh = len(slots)  # slots whose first task begins before any has ended here
        self.standing = Standing.ACTIVE
        self.since = self.until = since
        self.place = NOBODY  # in the list of those with a free slot
        self.work_ms: Millis = 0
        self.wasted_ms: Millis = 0
        self.change = 0  # tasks that run more than was told
        self.turned = False  # it worked since it was last told of
        self.ended: Millis = since


class Pool:
    """A pool of the scheduler: attempts that have tasks to give, by profile, in FIFO order."""

    __slots__ = ("name", "queues", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.queues: dict[ProfileId, list[Attempt]] = {}


class Phase(IntEnum):
    """Where a stage stands."""

    IDLE = 0
    WAITING = 1  # for parents
    COMING = 2  # its submission is on the way
    RUNNING = 3
    FAILED = 4  # it will be submitted again


class StageRow:
    """A stage. ``done``: which partitions are there; ``missing``: how many are not; ``holder``: on whose disk they are."""

    __slots__ = (
        "attempt",
        "attempts",
        "children",
        "completed_ms",
        "done",
        "ever",
        "holder",
        "missing",
        "on",
        "parents",
        "phase",
        "priority",
        "profile",
        "recorded",
        "stores",
        "submitted_ms",
    )

    def __init__(self, recorded: Stage, profile: ProfileId) -> None:
        self.recorded = recorded
        self.profile = profile
        tasks = recorded.tasks
        self.done = bytearray(tasks)
        self.ever = False  # completed at least once
        self.on: set[int] = set()  # executors that hold output of it
        self.missing = sum(body >= 0 for body in recorded.body_ms)
        self.holder: array[int] | None = None if recorded.shuffle is None else array("i", [NOBODY]) * tasks
        self.parents: tuple[StageRow, ...] = ()
        self.stores: tuple[int, ...] = ()  # RDDs that it is the first to compute and to cache
        self.children: list[StageRow] = []
        self.phase = Phase.IDLE
        self.attempts = 0
        self.attempt: Attempt | None = None
        self.priority = 0
        self.submitted_ms: Millis = NEVER
        self.completed_ms: Millis = NEVER

    @property
    def there(self) -> bool:
        """Whether its output can be read: complete, and nothing of it lost since."""
        return self.ever and not self.missing and self.phase is Phase.IDLE


class Attempt:
    """A task set. ``parts``: the partitions that it computes, None for all; ``next``: the first task that never started.

    ``told`` and ``ended`` are what the listeners have not been told yet: tasks from ``told`` to ``next`` started, so many
    ended. ``simple``: its tasks can be started and ended without a second look.
    """

    __slots__ = (
        "again",
        "barrier",
        "bodies",
        "copies",
        "copying",
        "done",
        "ended",
        "fails",
        "holder",
        "key",
        "next",
        "number",
        "parts",
        "pool",
        "profile",
        "queued",
        "running",
        "simple",
        "special",
        "stage",
        "stores",
        "told",
        "total",
        "zombie",
    )

    def __init__(self, stage: StageRow, number: int, parts: list[int] | None, pool: Pool) -> None:
        recorded = stage.recorded
        self.stage = stage
        self.number = number
        self.profile = stage.profile
        self.key = (stage.priority, recorded.stage, number)
        self.pool = pool
        self.parts = parts
        self.bodies = recorded.body_ms
        self.stores = stage.stores
        self.done = stage.done
        self.holder = stage.holder
        self.next = 0
        self.total = recorded.tasks if parts is None else len(parts)
        self.again: list[int] = []  # tasks that wait once more
        self.running = 0
        self.told = 0
        self.ended = 0
        self.zombie = False
        self.queued = False
        self.barrier = recorded.barrier
        self.fails: dict[int, list[Millis]] | None = None
        self.copies: dict[int, Millis] | None = None
        self.special: frozenset[int] | None = None  # tasks that need a second look, in an attempt that is simple else
        self.copying: dict[int, int] = {}  # task to the slot in which its copy runs
        self.simple = parts is None and not recorded.barrier

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        return 0 if self.zombie else self.total - self.next + len(self.again)

    def part(self, index: int) -> int:
        """The partition of a task."""
        return index if self.parts is None else self.parts[index]


class JobRow:
    """A job. ``left``: its own stages that have not completed; ``waits``: jobs that it comes after."""

    __slots__ = ("ended_ms", "left", "recorded", "rows", "started_ms", "waits")

    def __init__(self, recorded: Job) -> None:
        self.recorded = recorded
        self.rows: tuple[StageRow, ...] = ()
        self.left: set[int] = set()
        self.waits = 0
        self.started_ms: Millis = NEVER
        self.ended_ms: Millis = NEVER
