"""What a what-if wants to know of an event log, beyond what dynamic allocation reads: richer shapes, and who takes them.

``SHAPES`` are the structs of ``eventlog.events`` with more fields: task metrics and partitions, names, reasons, hosts, the
properties of jobs, and the beginning and end of SQL executions. An ``EventLogSensor`` that is given ``SHAPES`` and an
``ApplicationLog`` as observer replays the log as ever, while the ``LogReading`` behind it hears every event with its time.

Field history that matters: Partition ID since 3.3, Task Metrics missing for tasks whose executor was lost, Executor Info's
Request Time since 4.3, Failure Reason only where a stage failed.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field
from msgspec.structs import astuple

from podtide.adapters.eventlog import events as wire
from podtide.domain.base.units import Millis
from podtide.domain.comparison.task_accounts import NO_METRICS, TaskAccounts, TaskMetrics, TaskOf
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.job_dependencies import JobTraits
from podtide.domain.recorded.reading import BLOCK_MANAGERS, DRIVERS, RESUBMITTED, SUCCESS, LogReading
from podtide.domain.recorded.shuffles import MAP_TASK, ROW_RDD
from podtide.domain.recorded.stages import LoggedStage


class ShuffleRead(Struct, gc=False, frozen=True):
    """Shuffle Read Metrics."""

    remote: wire.Long = field(name="Remote Bytes Read", default=0)
    local: wire.Long = field(name="Local Bytes Read", default=0)


class ShuffleWrite(Struct, gc=False, frozen=True):
    """Shuffle Write Metrics."""

    written: wire.Long = field(name="Shuffle Bytes Written", default=0)


class Input(Struct, gc=False, frozen=True):
    """Input Metrics."""

    read: wire.Long = field(name="Bytes Read", default=0)


class ExecutorMetrics(Struct, gc=False, frozen=True):
    """ExecutorMetrics: the peaks that were polled, with the fields of ``recorded.memory.Peaks`` in their order."""

    heap: wire.Long = field(name="JVMHeapMemory", default=0)
    non_heap: wire.Long = field(name="JVMOffHeapMemory", default=0)
    execution: wire.Long = field(name="OnHeapExecutionMemory", default=0)
    storage: wire.Long = field(name="OnHeapStorageMemory", default=0)
    unified: wire.Long = field(name="OnHeapUnifiedMemory", default=0)
    off_heap_storage: wire.Long = field(name="OffHeapStorageMemory", default=0)
    off_heap_unified: wire.Long = field(name="OffHeapUnifiedMemory", default=0)
    direct: wire.Long = field(name="DirectPoolMemory", default=0)
    jvm_resident: wire.Long = field(name="ProcessTreeJVMRSSMemory", default=0)
    python_resident: wire.Long = field(name="ProcessTreePythonRSSMemory", default=0)
    other_resident: wire.Long = field(name="ProcessTreeOtherRSSMemory", default=0)


class Metrics(Struct, frozen=True):
    """Task Metrics. Until Spark 2.0 the inner objects are there only where they say something."""

    run: wire.Long = field(name="Executor Run Time", default=-1)
    gc: wire.Long = field(name="JVM GC Time", default=0)
    peak: wire.Long = field(name="Peak Execution Memory", default=0)
    memory_spilled: wire.Long = field(name="Memory Bytes Spilled", default=0)
    disk_spilled: wire.Long = field(name="Disk Bytes Spilled", default=0)
    shuffle_read: ShuffleRead | None = field(name="Shuffle Read Metrics", default=None)
    shuffle_write: ShuffleWrite | None = field(name="Shuffle Write Metrics", default=None)
    input: Input | None = field(name="Input Metrics", default=None)


class FullTaskInfo(wire.TaskInfo, gc=False, frozen=True):
    """Task Info of a task that ended."""

    partition: wire.Int = field(name="Partition ID", default=-1)


class FullTaskEndReason(wire.TaskEndReason, gc=False, frozen=True):
    """Task End Reason; ``exception``: the class of what the task ended in; ``loss``: why its executor was lost."""

    exception: str | None = field(name="Class Name", default=None)
    loss: str | None = field(name="Loss Reason", default=None)
    kill: str | None = field(name="Kill Reason", default=None)


class FullTaskEndLine(wire.TypedTaskEndLine, frozen=True):
    """SparkListenerTaskEnd, with metrics."""

    reason: FullTaskEndReason = field(name="Task End Reason")
    info: FullTaskInfo = field(name="Task Info")
    metrics: Metrics | None = field(name="Task Metrics", default=None)
    peaks: ExecutorMetrics | None = field(name="Task Executor Metrics", default=None)


class FullRddInfo(wire.DependentRddInfo, frozen=True):
    """One RDD of a stage. ``determinism``: its DeterministicLevel; ``scope``: JSON, the operation that made it."""

    barrier: bool = field(name="Barrier", default=False)
    determinism: str | None = field(name="DeterministicLevel", default=None)
    scope: str | None = field(name="Scope", default=None)

    @property
    def rolls_back(self) -> bool:
        """Whether a second run may give other rows, for which Spark would throw away all that was made from the first.

        An exchange of SQL has checksums for that (ShuffleDependency.checksumMismatchFullRetryEnabled, by default since 4.1):
        what it writes again counts as the same until they differ, and they are not logged.
        """
        return self.determinism == "INDETERMINATE" and _EXCHANGE not in (self.scope or "").replace(" ", "")


class FullStageInfo(wire.DetailedStageInfo, frozen=True):
    """Stage Info."""

    name: str = field(name="Stage Name", default="")
    rdds: list[FullRddInfo] = field(name="RDD Info", default_factory=list)  # type: ignore[assignment]  # read only


class FullStageSubmittedLine(wire.StageSubmittedLine, frozen=True):
    """SparkListenerStageSubmitted."""

    info: FullStageInfo = field(name="Stage Info")


class FullStageCompletedLine(wire.DetailedStageCompletedLine, frozen=True):
    """SparkListenerStageCompleted."""

    info: FullStageInfo = field(name="Stage Info")


class FullJobProperties(wire.JobProperties, frozen=True):
    """The local properties of a job that tell where it came from."""

    pool: str | None = field(name="spark.scheduler.pool", default=None)
    group: str | None = field(name="spark.jobGroup.id", default=None)
    description: str | None = field(name="spark.job.description", default=None)
    callsite: str | None = field(name="callSite.short", default=None)
    query: str | None = field(name="sql.streaming.queryId", default=None)
    batch: str | None = field(name="streaming.sql.batchId", default=None)
    batch_time: str | None = field(name="spark.streaming.internal.batchTime", default=None)


class FullJobStartLine(wire.ListingJobStartLine, frozen=True):
    """SparkListenerJobStart. Before 1.2 the ids of its stages are all that is said of them."""

    properties: FullJobProperties | None = field(name="Properties", default=None)
    stage_ids: list[wire.Int] = field(name="Stage IDs", default_factory=list)


class FullExecutorInfo(wire.ExecutorInfo, frozen=True):
    """Executor Info."""

    host: str = field(name="Host", default="")
    cores: wire.Int = field(name="Total Cores", default=0)
    requested: wire.Time | None = field(name="Request Time", default=None)


class FullExecutorAddedLine(wire.ExecutorAddedLine, frozen=True):
    """SparkListenerExecutorAdded."""

    info: FullExecutorInfo = field(name="Executor Info", default_factory=FullExecutorInfo)


class FullBlockManagerId(wire.BlockManagerId, frozen=True):
    """Block Manager ID."""

    host: str = field(name="Host", default="")


class FullBlockManagerAddedLine(wire.BlockManagerAddedLine, frozen=True):
    """SparkListenerBlockManagerAdded."""

    manager: FullBlockManagerId = field(name="Block Manager ID", default_factory=FullBlockManagerId)
    pool: wire.Long = field(name="Maximum Onheap Memory", default=0)


class StagePeaksLine(Struct, frozen=True, tag="SparkListenerStageExecutorMetrics", tag_field="Event"):
    """SparkListenerStageExecutorMetrics; logged only with spark.eventLog.logStageExecutorMetrics."""

    stage: wire.Int = field(name="Stage ID")
    executor: wire.Name = field(name="Executor ID", default="")
    peaks: ExecutorMetrics = field(name="Executor Metrics", default_factory=ExecutorMetrics)


class ExecutionStartLine(Struct, frozen=True, tag=f"{wire.SQL_EXECUTION}Start", tag_field="Event"):
    """SparkListenerSQLExecutionStart."""

    execution: wire.Long = field(name="executionId")
    root: wire.Long | None = field(name="rootExecutionId", default=None)
    time: wire.Time = -1


_RICHER: Final = (
    FullTaskEndLine,
    FullStageSubmittedLine,
    FullStageCompletedLine,
    FullJobStartLine,
    wire.ResultJobEndLine,
    FullExecutorAddedLine,
    FullBlockManagerAddedLine,
)

SHAPES: Final = wire.Shapes(
    wire.richer(_RICHER, ExecutionStartLine, StagePeaksLine, wire.ExecutionEndLine), wire.TaskStartLine, FullTaskEndLine
)
"""For ``EventLogSensor``."""


class AccountShuffleRead(ShuffleRead, gc=False, frozen=True):
    """Shuffle Read Metrics."""

    fetch: wire.Long = field(name="Fetch Wait Time", default=0)
    records: wire.Long = field(name="Total Records Read", default=0)


class AccountShuffleWrite(ShuffleWrite, gc=False, frozen=True):
    """Shuffle Write Metrics; ``time`` in nanoseconds."""

    time: wire.Long = field(name="Shuffle Write Time", default=0)
    records: wire.Long = field(name="Shuffle Records Written", default=0)


class AccountInput(Input, gc=False, frozen=True):
    """Input Metrics."""

    records: wire.Long = field(name="Records Read", default=0)


class AccountOutput(Struct, gc=False, frozen=True):
    """Output Metrics."""

    written: wire.Long = field(name="Bytes Written", default=0)
    records: wire.Long = field(name="Records Written", default=0)


class AccountMetrics(Metrics, frozen=True):
    """Task Metrics, with what tells of a task's time; ``cpu`` in nanoseconds (since 2.1)."""

    cpu: wire.Long = field(name="Executor CPU Time", default=0)
    deserialize: wire.Long = field(name="Executor Deserialize Time", default=0)
    serialize: wire.Long = field(name="Result Serialization Time", default=0)
    shuffle_read: AccountShuffleRead | None = field(name="Shuffle Read Metrics", default=None)
    shuffle_write: AccountShuffleWrite | None = field(name="Shuffle Write Metrics", default=None)
    input: AccountInput | None = field(name="Input Metrics", default=None)
    output: AccountOutput | None = field(name="Output Metrics", default=None)


class AccountTaskInfo(FullTaskInfo, gc=False, frozen=True):
    """Task Info of a task that ended, with where it ran and how near to its data."""

    host: Annotated[str, Meta(max_length=1_000)] = field(name="Host", default="")
    locality: str = field(name="Locality", default="")


class AccountTaskEndLine(FullTaskEndLine, frozen=True):
    """SparkListenerTaskEnd, with all that an account of the run is made of."""

    info: AccountTaskInfo = field(name="Task Info")
    metrics: AccountMetrics | None = field(name="Task Metrics", default=None)


ACCOUNT_SHAPES: Final = wire.Shapes(
    wire.richer((AccountTaskEndLine, *_RICHER[1:]), ExecutionStartLine, StagePeaksLine, wire.ExecutionEndLine),
    wire.TaskStartLine,
    AccountTaskEndLine,
)
"""For an ``EventLogSensor`` whose log becomes an account, too."""

_EXCHANGE: Final = '"name":"Exchange"'
"""What the scope of the RDD says that ShuffleExchangeExec writes."""

RDDS_MAX: Final = 200
PLAN_MAX: Final = 1_000
SCOPE_MAX: Final = 1_000
NAME_MAX: Final = 100
"""Bounds of a stage's plan: its RDDs, its text, and what is read of each."""

_SCOPE_NAME: Final = re.compile(r'"name"\s*:\s*"([^"\\]*)"')
_NUMBER: Final = re.compile(r"\(?\d+\)?")

_NO_READ: Final = AccountShuffleRead()
_NO_WRITE: Final = AccountShuffleWrite()
_NO_INPUT: Final = AccountInput()
_NO_OUTPUT: Final = AccountOutput()

SCAN_RDD: Final = "FileScanRDD"
"""The name of the RDD that reads a data source's files."""

_OF_EXECUTORS: Final = (
    wire.ExecutorAddedLine,
    wire.ExecutorRemovedLine,
    wire.BlockManagerAddedLine,
    wire.BlockManagerRemovedLine,
)
"""What these claim does not move the clock of the application's work (``recorded.lifetimes``)."""

_NO_METRICS: Final = Metrics()
_NO_PROPERTIES: Final = FullJobProperties()


class AccountLog:
    """What a comparison of runs needs of a log besides what a rerun does. ``plans``: the operators of each stage."""

    def __init__(self) -> None:
        self.tasks = TaskAccounts()
        self.plans: dict[int, str] = {}

    def task_ended(self, line: AccountTaskEndLine, *, counts: bool) -> None:
        """A task ended; ``counts``: well, and for the first time."""
        info, metrics = line.info, NO_METRICS
        if (logged := line.metrics) is not None:
            inward, outward = logged.shuffle_read or _NO_READ, logged.shuffle_write or _NO_WRITE
            source, sink = logged.input or _NO_INPUT, logged.output or _NO_OUTPUT
            metrics = TaskMetrics(
                logged.run, logged.cpu, logged.gc, logged.deserialize, logged.serialize, inward.fetch, outward.time,
                inward.records + source.records, outward.records + sink.records,
                inward.remote + inward.local + source.read, outward.written + sink.written,
                logged.memory_spilled + logged.disk_spilled,
            )  # fmt: skip
        finish = max(info.finish, info.launch)
        if line.reason.reason != RESUBMITTED:
            task = TaskOf(line.stage, info.executor, info.host, info.launch, finish, info.locality)
            self.tasks.ended(task, metrics, counts=counts, maps=line.kind == MAP_TASK)

    def stage_submitted(self, info: wire.StageInfo) -> None:
        """A stage was submitted: its plan is what its RDDs are, each operator once, from the last to the first. Spark lists
        them in any order."""
        if info.id in self.plans or not isinstance(info, FullStageInfo):
            return
        newest = sorted(info.rdds, key=lambda rdd: -rdd.id)[:RDDS_MAX]
        names = (_operator(rdd) for rdd in newest)
        self.plans[info.id] = " < ".join(dict.fromkeys(names))[:PLAN_MAX]


def _operator(rdd: FullRddInfo) -> str:
    """What made an RDD: the name of its scope, or of its class, without the numbers that differ from run to run."""
    scope = _SCOPE_NAME.search((rdd.scope or "")[:SCOPE_MAX])
    return _NUMBER.sub("", scope[1] if scope else rdd.name).strip()[:NAME_MAX]


class ApplicationLog:
    """An observer of decoded lines: tells a ``LogReading`` what they say.

    Lines that fit only the plain shapes of ``eventlog.events`` are understood too, as events that say less. With an
    ``account``, and ``ACCOUNT_SHAPES``, what a comparison of runs needs of the tasks is kept too.
    """

    def __init__(self, reading: LogReading, account: AccountLog | None = None) -> None:
        self.reading = reading
        self.account = account

    def __call__(self, lines: list[Any]) -> None:
        """Take a run of lines, in order."""
        reading = self.reading
        started, ended, metered = reading.task_started, reading.task_ended, reading.task_metered
        remembered = reading.memory.task_ended
        start_line, none = wire.TaskStartLine, _NO_METRICS
        account = self.account
        end_line = FullTaskEndLine if account is None else AccountTaskEndLine
        times = reading.times
        clock = times.clock
        for line in lines:
            kind = type(line)
            if kind is end_line:
                info, metrics = line.info, line.metrics or none
                if info.finish > clock:
                    clock = times.clock = info.finish
                why = line.reason
                stage = ended(
                    line.stage, line.attempt, info.index, info.partition, info.executor, info.launch, info.finish,
                    info.speculative, why.reason, metrics.run, line.kind,
                )  # fmt: skip
                if why.reason != SUCCESS:
                    reading.failures.ended(line.stage, why.reason, why.exception or why.loss or why.kill or "")
                    if why.exception is not None:
                        reading.memory.task_failed(line.stage, why.exception)
                if metrics is not none:
                    peaks = line.peaks
                    remembered(
                        line.stage, metrics.run, metrics.gc, metrics.peak, metrics.memory_spilled, metrics.disk_spilled,
                        None if peaks is None or peaks.heap <= 0 else astuple(peaks),
                    )  # fmt: skip
                if account is not None:
                    account.task_ended(line, counts=stage is not None)
                if stage is not None and metrics is not none:
                    inward, outward, source = metrics.shuffle_read, metrics.shuffle_write, metrics.input
                    metered(
                        stage,
                        metrics.run,
                        metrics.gc,
                        0 if source is None else source.read,
                        0 if inward is None else inward.remote + inward.local,
                        0 if outward is None else outward.written,
                    )
            elif kind is start_line:
                info = line.info
                if info.launch > clock:
                    clock = times.clock = info.launch
                started(line.stage, line.attempt, info.index, info.executor, info.launch, info.speculative)
                if account is not None:
                    account.tasks.started(line.stage, info.executor, info.launch)
            else:
                clock = self._rare(line, clock)

    def _rare(self, line: Any, clock: Millis) -> Millis:
        reading = self.reading
        times = reading.times
        time = line.time if isinstance(line, ExecutionStartLine) else wire.time_of(line)
        if isinstance(line, _OF_EXECUTORS) and not _is_drivers(line):
            at = time if time > 0 else clock
        elif isinstance(line, wire.ApplicationEndLine):
            at = clock
        else:
            at = times.of_work(time, clock)
            if at > clock:
                clock = times.clock = at
        match line:
            case wire.TaskEndLine(stage, why, info, attempt):  # one that fits the plain shape alone
                reading.task_ended(
                    stage, attempt, info.index, -1, info.executor, info.launch, info.finish, info.speculative,
                    why.reason, -1, "",
                )  # fmt: skip
                if why.reason != SUCCESS:
                    reading.failures.ended(stage, why.reason, "")
            case wire.StageSubmittedLine(info):
                reading.stage_submitted(_stage_seen(info), at)
                if self.account is not None:
                    self.account.stage_submitted(info)
            case wire.StageCompletedLine(info):
                failure = info.failure if isinstance(info, FullStageInfo) else None
                reading.stage_completed(_stage_seen(info), info.submitted, at, failure)
            case wire.JobStartLine(job, _, stages):
                properties = line.properties if isinstance(line, FullJobStartLine) else None
                listed = line.stage_ids if isinstance(line, FullJobStartLine) and not stages else ()
                seen = [_stage_seen(info)._replace(readers=wire.readers(info)) for info in stages]
                reading.job_started(job, at, seen, _traits(properties), listed)
                if time < 0:
                    reading.timeless.add(job)
            case wire.JobEndLine(job):
                reading.job_ended(job, at, succeeded=not isinstance(line, wire.ResultJobEndLine) or line.well)
            case FullExecutorAddedLine(executor, _, info):
                reading.executor_added(executor, at, info.host, info.cores, info.profile or 0, info.requested)
            case wire.ExecutorAddedLine(executor, _, info):
                reading.executor_added(executor, at, "", 0, info.profile or 0, None)
            case wire.ExecutorRemovedLine(executor, _, reason):
                reading.executor_removed(executor, at, reason or "")
            case wire.BlockManagerAddedLine(manager):
                host = manager.host if isinstance(manager, FullBlockManagerId) else ""
                reading.block_manager_added(manager.executor, at, host)
                if isinstance(line, FullBlockManagerAddedLine) and manager.executor not in DRIVERS:
                    reading.memory.pool = max(reading.memory.pool, line.pool)
            case wire.BlockManagerRemovedLine(manager):
                reading.executor_removed(manager.executor, at, BLOCK_MANAGERS)
            case StagePeaksLine(stage, executor, peaks):
                if executor not in DRIVERS and peaks.heap > 0:
                    reading.memory.executor_peaks(stage, astuple(peaks))
            case wire.UnpersistLine(rdd):
                reading.unpersisted(rdd, at)
            case wire.BlockUpdatedLine():
                reading.block_updates += 1
            case wire.ProfileAddedLine():
                profile = wire.stimulus(line, at)
                assert isinstance(profile, ResourceProfileAdded)
                reading.profile_added(profile)
            case wire.EnvironmentLine(properties):
                reading.environment(properties.get("spark.executor.cores"), properties.get("spark.task.cpus"))
            case wire.ApplicationStartLine():
                times.start(time)
            case wire.ApplicationEndLine():
                times.end(time)
            case ExecutionStartLine(execution, root):
                reading.execution_began(execution, root, at)
            case wire.ExecutionEndLine(execution):
                reading.execution_ended(execution, at)
            case _:
                pass
        return clock


def _stage_seen(info: wire.StageInfo) -> LoggedStage:
    """Stage Info as the domain knows it."""
    rich = isinstance(info, FullStageInfo)
    stored = tuple(rdd.id for rdd in info.rdds if rdd.level is not None and rdd.level.stores)
    return LoggedStage(
        info.id,
        info.attempt,
        info.tasks,
        info.name if rich else "",  # type: ignore[attr-defined]  # rich says so
        info.profile,
        tuple(info.parents),
        info.rdds[0].id if info.rdds else None,
        stored,
        rich and any(rdd.barrier for rdd in info.rdds),  # type: ignore[attr-defined]  # rich says so
        info.shuffle,
        exchanged=rich and any(rdd.name == ROW_RDD for rdd in info.rdds),  # type: ignore[attr-defined]  # rich says so
        scanned=rich and any(rdd.name == SCAN_RDD for rdd in info.rdds),  # type: ignore[attr-defined]  # rich says so
        indeterminate=rich and any(rdd.rolls_back for rdd in info.rdds[:1]),  # type: ignore[attr-defined]  # rich says so
    )


def _is_drivers(line: Any) -> bool:
    """Whether it is the driver's block manager that comes or goes: that belongs to the application."""
    return (
        isinstance(line, wire.BlockManagerAddedLine | wire.BlockManagerRemovedLine) and line.manager.executor in DRIVERS
    )


def _traits(properties: FullJobProperties | None) -> JobTraits:
    given = properties or _NO_PROPERTIES
    stream, batch = given.query, given.batch
    if given.batch_time is not None:  # a DStream's: the jobs of one interval
        stream, batch = "DStreams", given.batch_time
    return JobTraits(given.pool, given.group, given.outermost, stream, batch, given.description or given.callsite or "")
