"""What is kept of a run for comparisons: its chain of stages, the work of each, its executors, its bill, its conf.

Times are milliseconds; moments are counted from the application's start. An account is plain data (it goes into a history
and comes back), and bounded: of stages that are not on the chain only sums are kept beyond ``STAGES_MAX``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.stalls.causes import StallCause

STAGES_MAX: Final = 2_000
"""Stages that an account keeps; of the others the shortest are left out, and counted."""

LABEL_MAX: Final = 60
"""Characters of a plan that stands for a name."""

SPANS_MAX: Final = 20_000
"""Executors whose begin and end an account keeps; with more of them it keeps none, and says so in its notes."""

HOSTS_MAX: Final = 64
"""Hosts that are kept of a stage: those with the most task time."""


class TaskTime(Enum):
    """What the time of a task, from launch to finish as the driver sees it, was spent on; the first that applies."""

    CPU = "computing"
    """Executor CPU Time."""
    GC = "garbage collection"
    """JVM GC Time: of the whole JVM, as Spark counts it."""
    FETCH = "waiting for shuffle data"
    """Fetch Wait Time."""
    WRITE = "writing shuffle data"
    """Shuffle Write Time."""
    BLOCKED = "waiting in the task"
    """The rest of Executor Run Time: sources, sinks, Python, locks."""
    DESERIALIZE = "deserializing and serializing"
    """Executor Deserialize Time and Result Serialization Time."""
    DELAY = "between driver and executor"
    """The rest: scheduler delay, and fetching the result."""


class HostWork(NamedTuple):
    """What the counted tasks of a stage took on one host."""

    host: str
    tasks: int
    task_ms: Millis
    units: int


class LongestTask(NamedTuple):
    """The longest counted task of a stage, beside the others: ``units`` of input, with the medians of both."""

    task_ms: Millis = 0
    units: int = 0
    host: str = ""
    median_ms: Millis = 0
    median_units: int = 0


NO_WORK: Final = HostWork("", 0, 0, 0)
NO_TASK: Final = LongestTask()


class WorkUnit(Enum):
    """What the work of a stage is counted in: the first that its tasks say something of."""

    RECORDS_READ = "records read"
    RECORDS_WRITTEN = "records written"
    BYTES_READ = "bytes read"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class StageAccount:
    """A stage. ``name``, ``plan``: as in the log, the operators of its RDDs; ``job``: what its job says of itself.

    ``time_ms``: of tasks that count, by what it was spent on; ``wasted_ms``: of tries that did not count, and of work that
    was done again. ``amounts``: by measure. ``slot_ms``: slots of its profile that were there from its first launch to its
    last end, over time; ``lost_slot_ms``: slots that were missing meanwhile because executors had been lost;
    ``missing_ms``: executors that were missing while tasks waited, over time, by what kept them away; ``others_ms``: task
    time of other stages meanwhile. ``remote``: counted tasks that ran away from their data, their time and units.
    """

    stage: int
    job: str
    name: str
    plan: str
    tasks: int
    slots_each: int
    submitted_ms: Millis
    first_launch_ms: Millis
    last_launch_ms: Millis
    last_end_ms: Millis
    completed_ms: Millis
    attempts: int = 1
    lost_tasks: int = 0
    time_ms: Mapping[TaskTime, Millis] = field(default_factory=dict)
    wasted_ms: Millis = 0
    amounts: Mapping[WorkUnit, int] = field(default_factory=dict)
    spilled_bytes: int = 0
    bytes_written: int = 0
    longest: LongestTask = NO_TASK
    hosts: tuple[HostWork, ...] = ()
    remote: HostWork = NO_WORK
    slot_ms: Millis = 0
    lost_slot_ms: Millis = 0
    missing_ms: Mapping[Limit, Millis] = field(default_factory=dict)
    others_ms: Millis = 0
    repeats: bool = False

    @property
    def label(self) -> str:
        """What people know it by: its name, or its plan where adaptive execution gives it none of the program's."""
        return self.plan[:LABEL_MAX] if self.plan and (not self.name or self.name.startswith("$anonfun")) else self.name

    @property
    def useful_ms(self) -> Millis:
        """Task time that counts."""
        return sum(self.time_ms.values())


class RunStall(NamedTuple):
    """Tasks waited and nothing moved (``domain.stalls``): since the start; ``lasts``: to the end of the log."""

    cause: StallCause
    profile: int
    began_ms: Millis
    ended_ms: Millis
    lasts: bool = False


class PieceKind(Enum):
    """What a piece of the chain is."""

    STARTING = "before the first job"
    DRIVER = "driver"
    STAGE = "stage"
    ENDING = "after the last stage"


class Piece(NamedTuple):
    """A piece of the chain: ``stage`` is the stage itself, of a driver's piece the one that follows (None: none does)."""

    kind: PieceKind
    began_ms: Millis
    ended_ms: Millis
    stage: int | None = None

    @property
    def length_ms(self) -> Millis:
        """Its part of the run time."""
        return self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True)
class ExecutorsAccount:
    """The executors of a run. ``start_up_ms``: the median from request to registration; None where nothing is known.

    ``lost``: reasons of executors that were taken, with their numbers; ``shapes``: (cores, memory in MiB) with the
    executor-milliseconds that were billed of each; ``spans``: (place in ``shapes``, begin, end) of each executor that is
    billed; ``first_ms``: when the first one registered.
    """

    registered: int = 0
    peak: int = 0
    executor_ms: Millis = 0
    start_up_ms: Millis | None = None
    first_ms: Millis | None = None
    lost: Mapping[str, int] = field(default_factory=dict)
    shapes: tuple[tuple[int, int, Millis], ...] = ()
    hosts: int = 0
    spans: tuple[tuple[int, Millis, Millis], ...] = ()


@dataclass(frozen=True, slots=True)
class RunAccount:
    """A run. ``started_ms``: since the epoch; ``chain``: fills the run time; ``driver_ready_ms``: since the start;
    ``bill``: billed executor-milliseconds by cause; ``waiting_ms``: in which tasks waited for executors, by what kept
    these away; ``conf``: Spark properties without secrets; ``left_out``: stages that were not kept; ``notes``: what the log
    does not tell; ``stalls``: alarms, no limits."""

    id: str
    name: str
    spark_version: str
    started_ms: Millis
    runtime_ms: Millis
    chain: tuple[Piece, ...]
    stages: tuple[StageAccount, ...]
    executors: ExecutorsAccount
    bill: Mapping[SpendCause, Millis]
    waiting_ms: Mapping[Limit, Millis]
    conf: Mapping[str, str]
    driver_ready_ms: Millis | None = None
    tasks: int = 0
    finished: bool = True
    left_out: int = 0
    notes: tuple[str, ...] = ()
    stalls: tuple[RunStall, ...] = ()

    @property
    def billed_ms(self) -> Millis:
        """All of the bill."""
        return sum(self.bill.values())
