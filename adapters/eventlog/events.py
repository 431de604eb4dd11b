"""Spark's event JSON (JsonProtocol) to stimuli, for logs of Spark 1.x to 4.x and for recorded scenarios.

A line is decoded into a partial record: only the fields that are used are materialised, the rest is
validated and skipped, which is what makes a 2 kB TaskEnd cost a microsecond. Numbers are bounded while they are
decoded, so a hostile log cannot smuggle in what a 64-bit Spark could not hold.

Field history that matters: Stage Attempt ID since 1.1, Parent IDs since 1.4/1.5, Executor Info since 1.3,
Submission Time in StageSubmitted since 2.3, Resource Profile Id since 3.0, Partition ID since 3.3. Absent fields
take the value that Spark itself gives them when it reads an old log.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from podtide.domain.base.units import LAST_MS, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStage,
    JobStart,
    RddBlock,
    ResourceProfileAdded,
    ShuffleDataBlock,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    UnpersistRDD,
    UnschedulableTaskSetAdded,
    UnschedulableTaskSetRemoved,
)
from podtide.domain.recorded.shuffles import ROW_RDD, ListedStage, RddReader

Int: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Scala's Int."""

Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Scala's Long."""

Name: TypeAlias = Annotated[str, Meta(max_length=1_000)]
"""An executor id. Spark's are numbers; whatever is longer than this is no id."""

Time: TypeAlias = Annotated[int, Meta(ge=-1, le=LAST_MS)]
"""Milliseconds since the epoch; -1 where Spark had none to write."""

SQL_EXECUTION: Final = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


class TaskInfo(Struct, gc=False, frozen=True):
    """The part of Task Info that dynamic allocation reads, and the times."""

    index: Int = field(name="Index")
    executor: Name = field(name="Executor ID")
    launch: Time = field(name="Launch Time", default=-1)
    finish: Time = field(name="Finish Time", default=-1)
    speculative: bool = field(name="Speculative", default=False)


class TaskEndReason(Struct, gc=False, frozen=True):
    """Task End Reason."""

    reason: str = field(name="Reason", default="")


class TaskStartLine(Struct, gc=False, frozen=True, tag="SparkListenerTaskStart", tag_field="Event"):
    """SparkListenerTaskStart."""

    stage: Int = field(name="Stage ID")
    info: TaskInfo = field(name="Task Info")
    attempt: Int = field(name="Stage Attempt ID", default=0)


class TaskEndLine(Struct, gc=False, frozen=True, tag="SparkListenerTaskEnd", tag_field="Event"):
    """SparkListenerTaskEnd."""

    stage: Int = field(name="Stage ID")
    reason: TaskEndReason = field(name="Task End Reason")
    info: TaskInfo = field(name="Task Info")
    attempt: Int = field(name="Stage Attempt ID", default=0)


class StorageLevel(Struct, frozen=True):
    """Storage Level."""

    disk: bool = field(name="Use Disk", default=False)
    memory: bool = field(name="Use Memory", default=False)
    replication: Int = field(name="Replication", default=1)

    @property
    def stores(self) -> bool:
        """Whether blocks of this level are kept anywhere."""
        return (self.memory or self.disk) and self.replication > 0


class RddInfo(Struct, frozen=True):
    """One RDD of a stage; the first one is the stage's own."""

    id: Int = field(name="RDD ID")
    level: StorageLevel | None = field(name="Storage Level", default=None)


class StageInfo(Struct, frozen=True):
    """Stage Info. The last two fields are extensions of recorded scenarios: no event log carries them."""

    id: Int = field(name="Stage ID")
    tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] = field(name="Number of Tasks")
    attempt: Int = field(name="Stage Attempt ID", default=0)
    parents: list[Int] = field(name="Parent IDs", default_factory=list)
    rdds: list[RddInfo] = field(name="RDD Info", default_factory=list)
    submitted: Time | None = field(name="Submission Time", default=None)
    completed: Time | None = field(name="Completion Time", default=None)
    profile: Int = field(name="Resource Profile Id", default=0)
    shuffle: Int | None = field(name="Shuffle Dep ID", default=None)
    locality: list[list[str]] | None = field(name="Task Locality Preferences", default=None)


class StageSubmittedLine(Struct, frozen=True, tag="SparkListenerStageSubmitted", tag_field="Event"):
    """SparkListenerStageSubmitted."""

    info: StageInfo = field(name="Stage Info")


class StageCompletedLine(Struct, frozen=True, tag="SparkListenerStageCompleted", tag_field="Event"):
    """SparkListenerStageCompleted."""

    info: StageInfo = field(name="Stage Info")


class JobStartLine(Struct, frozen=True, tag="SparkListenerJobStart", tag_field="Event"):
    """SparkListenerJobStart. Before 1.2 it listed stage ids alone."""

    job: Int = field(name="Job ID")
    submitted: Time | None = field(name="Submission Time", default=None)
    stages: list[StageInfo] = field(name="Stage Infos", default_factory=list)


class JobEndLine(Struct, frozen=True, tag="SparkListenerJobEnd", tag_field="Event"):
    """SparkListenerJobEnd."""

    job: Int = field(name="Job ID")
    completed: Time | None = field(name="Completion Time", default=None)


class ExecutorInfo(Struct, frozen=True):
    """Executor Info."""

    profile: Int | None = field(name="Resource Profile Id", default=None)


class ExecutorAddedLine(Struct, frozen=True, tag="SparkListenerExecutorAdded", tag_field="Event"):
    """SparkListenerExecutorAdded."""

    executor: Name = field(name="Executor ID")
    time: Time = field(name="Timestamp", default=-1)
    info: ExecutorInfo = field(name="Executor Info", default_factory=ExecutorInfo)


class ExecutorRemovedLine(Struct, frozen=True, tag="SparkListenerExecutorRemoved", tag_field="Event"):
    """SparkListenerExecutorRemoved."""

    executor: Name = field(name="Executor ID")
    time: Time = field(name="Timestamp", default=-1)
    reason: str | None = field(name="Removed Reason", default=None)


class BlockManagerId(Struct, frozen=True):
    """Block Manager ID."""

    executor: str = field(name="Executor ID", default="")


class BlockManagerAddedLine(Struct, frozen=True, tag="SparkListenerBlockManagerAdded", tag_field="Event"):
    """SparkListenerBlockManagerAdded: in logs before 1.3 the only trace of an executor's coming."""

    manager: BlockManagerId = field(name="Block Manager ID", default_factory=BlockManagerId)
    time: Time = field(name="Timestamp", default=-1)


class BlockManagerRemovedLine(Struct, frozen=True, tag="SparkListenerBlockManagerRemoved", tag_field="Event"):
    """SparkListenerBlockManagerRemoved."""

    manager: BlockManagerId = field(name="Block Manager ID", default_factory=BlockManagerId)
    time: Time = field(name="Timestamp", default=-1)


class BlockUpdatedInfo(Struct, frozen=True):
    """Block Updated Info."""

    manager: BlockManagerId = field(name="Block Manager ID")
    block: str = field(name="Block ID")
    level: StorageLevel = field(name="Storage Level")


class BlockUpdatedLine(Struct, frozen=True, tag="SparkListenerBlockUpdated", tag_field="Event"):
    """SparkListenerBlockUpdated; logged only with spark.eventLog.logBlockUpdates.enabled."""

    info: BlockUpdatedInfo = field(name="Block Updated Info")


class UnpersistLine(Struct, frozen=True, tag="SparkListenerUnpersistRDD", tag_field="Event"):
    """SparkListenerUnpersistRDD."""

    rdd: Int = field(name="RDD ID")


class ResourceAmount(Struct, frozen=True):
    """One executor or task resource request."""

    amount: float = field(name="Amount")


class ProfileAddedLine(Struct, frozen=True, tag="SparkListenerResourceProfileAdded", tag_field="Event"):
    """SparkListenerResourceProfileAdded."""

    profile: Int = field(name="Resource Profile Id")
    executor: dict[str, ResourceAmount] = field(name="Executor Resource Requests", default_factory=dict)
    task: dict[str, ResourceAmount] = field(name="Task Resource Requests", default_factory=dict)


class SpeculativeLine(
    Struct, frozen=True, tag="org.apache.spark.scheduler.SparkListenerSpeculativeTaskSubmitted", tag_field="Event"
):
    """SparkListenerSpeculativeTaskSubmitted. Spark's own JSON loses the index; it reads back as 0."""

    stage: Int = field(name="stageId")
    attempt: Int = field(name="stageAttemptId", default=0)
    index: Int = field(name="taskIndex", default=0)


class UnschedulableAddedLine(
    Struct, frozen=True, tag="org.apache.spark.scheduler.SparkListenerUnschedulableTaskSetAdded", tag_field="Event"
):
    """SparkListenerUnschedulableTaskSetAdded."""

    stage: Int = field(name="stageId")
    attempt: Int = field(name="stageAttemptId", default=0)


class UnschedulableRemovedLine(
    Struct, frozen=True, tag="org.apache.spark.scheduler.SparkListenerUnschedulableTaskSetRemoved", tag_field="Event"
):
    """SparkListenerUnschedulableTaskSetRemoved."""

    stage: Int = field(name="stageId")
    attempt: Int = field(name="stageAttemptId", default=0)


class LogStartLine(Struct, frozen=True, tag="SparkListenerLogStart", tag_field="Event"):
    """SparkListenerLogStart."""

    version: str = field(name="Spark Version", default="")


class PartLine(Struct, frozen=True, tag="DBCEventLoggingListenerMetadata", tag_field="Event"):
    """The first line of each part of a log that Databricks writes. ``number``: from 0; ``context``: of one SparkContext."""

    version: str = field(name="Spark Version", default="")
    number: Int = field(name="Rollover Number", default=0)
    context: Long | None = field(name="SparkContext Id", default=None)


class EnvironmentLine(Struct, frozen=True, tag="SparkListenerEnvironmentUpdate", tag_field="Event"):
    """SparkListenerEnvironmentUpdate; may come several times."""

    properties: dict[str, str | None] = field(name="Spark Properties", default_factory=dict)


class ApplicationStartLine(Struct, frozen=True, tag="SparkListenerApplicationStart", tag_field="Event"):
    """SparkListenerApplicationStart."""

    name: str | None = field(name="App Name", default=None)
    id: str | None = field(name="App ID", default=None)
    attempt: str | None = field(name="App Attempt ID", default=None)
    time: Time = field(name="Timestamp", default=-1)


class ApplicationEndLine(Struct, frozen=True, tag="SparkListenerApplicationEnd", tag_field="Event"):
    """SparkListenerApplicationEnd."""

    time: Time = field(name="Timestamp", default=-1)


Line: TypeAlias = (
    TaskStartLine
    | TaskEndLine
    | StageSubmittedLine
    | StageCompletedLine
    | JobStartLine
    | JobEndLine
    | ExecutorAddedLine
    | ExecutorRemovedLine
    | BlockManagerAddedLine
    | BlockManagerRemovedLine
    | BlockUpdatedLine
    | UnpersistLine
    | ProfileAddedLine
    | SpeculativeLine
    | UnschedulableAddedLine
    | UnschedulableRemovedLine
    | LogStartLine
    | PartLine
    | EnvironmentLine
    | ApplicationStartLine
    | ApplicationEndLine
)
"""An event that means something here."""


class Shapes(NamedTuple):
    """What lines are decoded into: a union of structs, and which of them task starts and ends are.

    A reader that wants to know more of an event gives structs derived from those of ``Line``, with the same tags.
    """

    union: Any
    task_start: type[TaskStartLine]
    task_end: type[TaskEndLine]


class TypedTaskEndLine(TaskEndLine, frozen=True):
    """SparkListenerTaskEnd. ``kind``: ResultTask or ShuffleMapTask."""

    kind: str = field(name="Task Type", default="")


class DependentRddInfo(RddInfo, frozen=True):
    """One RDD of a stage, with the name of its class and the RDDs that it depends on."""

    name: str = field(name="Name", default="")
    parents: list[Int] = field(name="Parent IDs", default_factory=list)


class DetailedStageInfo(StageInfo, frozen=True):
    """Stage Info with the dependencies of its RDDs, and why the attempt failed, if it did."""

    rdds: list[DependentRddInfo] = field(name="RDD Info", default_factory=list)  # type: ignore[assignment]  # read only
    failure: str | None = field(name="Failure Reason", default=None)


class DetailedStageCompletedLine(StageCompletedLine, frozen=True):
    """SparkListenerStageCompleted."""

    info: DetailedStageInfo = field(name="Stage Info")


class JobProperties(Struct, frozen=True):
    """The local properties of a job: its SQL execution, and since 3.4 the outermost one that this is part of."""

    execution: str | None = field(name="spark.sql.execution.id", default=None)
    root: str | None = field(name="spark.sql.execution.root.id", default=None)

    @property
    def outermost(self) -> int | None:
        """The outermost SQL execution; None for anything but a plain number that a Long holds."""
        root = _number(self.root)
        return _number(self.execution) if root is None else root


class ListingJobStartLine(JobStartLine, frozen=True):
    """SparkListenerJobStart, with what tells shuffles apart and how long they are needed."""

    stages: list[DetailedStageInfo] = field(name="Stage Infos", default_factory=list)  # type: ignore[assignment]  # read only
    properties: JobProperties | None = field(name="Properties", default=None)


class ExecutionEndLine(Struct, frozen=True, tag=f"{SQL_EXECUTION}End", tag_field="Event"):
    """SparkListenerSQLExecutionEnd."""

    execution: Long = field(name="executionId")
    time: Time = -1


class JobResult(Struct, frozen=True):
    """Job Result."""

    result: str = field(name="Result", default="")


class ResultJobEndLine(JobEndLine, frozen=True):
    """SparkListenerJobEnd, with its result."""

    result: JobResult | None = field(name="Job Result", default=None)

    @property
    def well(self) -> bool:
        """Whether the job succeeded, as far as is said."""
        return self.result is None or self.result.result == "JobSucceeded"


def richer(shapes: Iterable[type[Struct]], *more: type[Struct]) -> Any:
    """The union of ``Line`` in which these take the place of those with their tags, and of ``more``."""
    by_tag = {shape.__struct_config__.tag: shape for shape in shapes}
    return reduce(or_, [*(by_tag.get(shape.__struct_config__.tag, shape) for shape in Line.__args__), *more])


PLAIN: Final = Shapes(
    richer([TypedTaskEndLine, DetailedStageCompletedLine, ListingJobStartLine, ResultJobEndLine], ExecutionEndLine),
    TaskStartLine,
    TypedTaskEndLine,
)
"""What dynamic allocation reads, and what tells of shuffles."""


class Skipped(Struct, frozen=True):
    """Any well-formed event: its name alone."""

    event: str = field(name="Event")


_any_event = msgspec.json.Decoder(Skipped)
_plain = msgspec.json.Decoder(Line)
_KNOWN = frozenset(struct.__struct_config__.tag for struct in Line.__args__)

DecodeError = msgspec.DecodeError
"""What the decoders raise; ``ValidationError`` is one of them."""

_LEARNED_MAX = 100
_NAME_MAX = 200


class LineDecoder:
    """Decodes lines, and learns the names of events that play no role.

    A run of lines is decoded at once as long as every event in it is known. An event that is not known is decoded
    by itself, once: its name is learnt (so many at most, for a log may be hostile), and lines with it take the fast
    path from then on. ``Skipped`` stands for all of them. A line that fits ``Line`` but not the richer shapes that
    were asked for is decoded as a ``Line``: richer shapes never cost an event.
    """

    def __init__(self, shapes: Shapes = PLAIN) -> None:
        self._union: Any = shapes.union
        self._named = frozenset(struct.__struct_config__.tag for struct in shapes.union.__args__)
        self._learned: set[str] = set()
        self._decoder = msgspec.json.Decoder(self._union)

    def lines(self, chunk: bytes | bytearray | memoryview) -> list[Any]:
        """Decode a run of whole lines. Raises DecodeError if any of them is malformed or not known yet."""
        lines: list[Any] = self._decoder.decode_lines(chunk)
        return lines

    def line(self, line: bytes | bytearray | memoryview) -> Any:
        """Decode one line: a ``Line``, or a kind of ``Skipped`` for an event that plays no role.

        Raises DecodeError, with the reason, when it is not JSON, no event, or a known event with unusable fields;
        RecursionError when it is nested beyond what can be read.
        """
        try:
            return self._decoder.decode(line)
        except msgspec.ValidationError:
            event = _any_event.decode(line)
            if event.event in _KNOWN:
                return _plain.decode(line)
        if event.event not in self._named:
            self._learn(event.event)
        return event

    def _learn(self, name: str) -> None:
        if len(self._learned) < _LEARNED_MAX and len(name) <= _NAME_MAX and name not in self._learned:
            self._learned.add(name)
            self._union |= msgspec.defstruct("Ignored", [], tag=name, tag_field="Event", frozen=True)
            self._decoder = msgspec.json.Decoder(self._union)


_OUTCOMES = {"Success": TaskOutcome.SUCCESS, "TaskKilled": TaskOutcome.KILLED}


def outcome(reason: str) -> TaskOutcome:
    """How dynamic allocation tells a Task End Reason: Success, TaskKilled, or anything else."""
    return _OUTCOMES.get(reason, TaskOutcome.FAILED)


def time_of(line: Any) -> Millis:
    """The time that an event claims for itself, or -1."""
    match line:
        case TaskStartLine():
            return line.info.launch
        case TaskEndLine():
            return line.info.finish
        case StageSubmittedLine():
            return -1 if line.info.submitted is None else line.info.submitted
        case StageCompletedLine():
            return -1 if line.info.completed is None else line.info.completed
        case JobStartLine():
            return -1 if line.submitted is None else line.submitted
        case JobEndLine():
            return -1 if line.completed is None else line.completed
        case (
            ExecutorAddedLine()
            | ExecutorRemovedLine()
            | BlockManagerAddedLine()
            | BlockManagerRemovedLine()
            | ApplicationStartLine()
            | ApplicationEndLine()
            | ExecutionEndLine()
        ):
            return line.time
        case _:
            return -1


def stimulus(line: Any, at: Millis) -> Stimulus | None:
    """What an event means to dynamic allocation when it is heard at ``at``; None if it means nothing."""
    match line:
        case TaskStartLine(stage, info, attempt):
            return TaskStart(at, stage, attempt, info.index, ExecutorId(info.executor), info.speculative)
        case TaskEndLine(stage, reason, info, attempt):
            end = outcome(reason.reason)
            return TaskEnd(at, stage, attempt, info.index, ExecutorId(info.executor), info.speculative, end)
        case StageSubmittedLine(info):
            hosts = None if info.locality is None else tuple(tuple(map(location_host, t)) for t in info.locality)
            return StageSubmitted(at, info.id, info.attempt, info.tasks, ProfileId(info.profile), hosts)
        case StageCompletedLine(info):
            return StageCompleted(at, info.id, info.attempt)
        case JobStartLine(job, _, stages):
            return JobStart(at, job, tuple(JobStage(s.id, s.shuffle) for s in stages))
        case JobEndLine(job):
            return JobEnd(at, job)
        case ExecutorAddedLine(executor, _, executor_info):
            return ExecutorAdded(at, ExecutorId(executor), ProfileId(executor_info.profile or 0))
        case ExecutorRemovedLine(executor, _, why):
            return ExecutorRemoved(at, ExecutorId(executor), why or "")
        case BlockUpdatedLine(update):
            level = update.level
            valid = level.stores
            executor = ExecutorId(update.manager.executor)
            return BlockUpdated(at, executor, block_id(update.block), valid, level.disk)
        case UnpersistLine(rdd):
            return UnpersistRDD(at, rdd)
        case ProfileAddedLine(profile, executor_amounts, task_amounts):
            return ResourceProfileAdded(at, ProfileId(profile), _amounts(executor_amounts), _amounts(task_amounts))
        case SpeculativeLine(stage, attempt, index):
            return SpeculativeTaskSubmitted(at, stage, attempt, index)
        case UnschedulableAddedLine(stage, attempt):
            return UnschedulableTaskSetAdded(at, stage, attempt)
        case UnschedulableRemovedLine(stage, attempt):
            return UnschedulableTaskSetRemoved(at, stage, attempt)
        case _:
            return None


def readers(info: StageInfo) -> tuple[RddReader, ...]:
    """The RDDs of a stage that depend on others, where the stage reads a shuffle at all."""
    if not info.parents or not isinstance(info, DetailedStageInfo):
        return ()
    return tuple(RddReader(rdd.id, tuple(rdd.parents), rdd.name == ROW_RDD) for rdd in info.rdds if rdd.parents)


def listed(info: StageInfo) -> ListedStage:
    """A stage of a job's listing, as the shuffles want it."""
    own = info.rdds[0].id if info.rdds else None
    return ListedStage(info.id, tuple(info.parents), own, readers(info), info.shuffle)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and len(text) < 19 and text.isascii() and text.isdecimal() else None


def _amounts(requests: dict[str, ResourceAmount]) -> tuple[tuple[str, float], ...]:
    return tuple((name, request.amount) for name, request in requests.items())


def block_id(text: str) -> RddBlock | ShuffleDataBlock | None:
    """BlockId of the two kinds that matter: ``rdd_R_S`` and ``shuffle_S_M_R.data``; None for any other."""
    parts = text.split("_")
    try:
        if parts[0] == "rdd" and len(parts) == 3:
            return RddBlock(int(parts[1]), int(parts[2]))
        if parts[0] == "shuffle" and len(parts) == 4 and parts[3].endswith(".data"):
            int(parts[2]), int(parts[3][:-5])
            return ShuffleDataBlock(int(parts[1]))
    except ValueError:
        return None
    return None


def location_host(text: str) -> str:
    """The host of a TaskLocation: ``host``, ``executor_host_id`` or ``hdfs_cache_host``."""
    if text.startswith("hdfs_cache_"):
        return text.removeprefix("hdfs_cache_")
    if text.startswith("executor_"):
        return text.removeprefix("executor_").split("_", 1)[0]
    return text
