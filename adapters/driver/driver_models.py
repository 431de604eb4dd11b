"""The answers of the Spark driver's REST API (``/api/v1``, Spark 3.1 to 4.3), decoded in part into what a look is
made of.

Only the fields that are used are materialised. Whatever Spark's numbers may be, they are bounded while they are
decoded; a field that an older Spark does not send has the value that means "not known". Stages and executors that are
of no kind known here (a status that a later Spark invents) are passed over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field

from podtide.domain.base.units import LAST_MS, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.live.driver_snapshot import ExecutorSeen, JobSeen, ProfileSeen, StageSeen, StageStatus

Int: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Scala's Int."""
Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Scala's Long."""
Name: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Text: TypeAlias = Annotated[str, Meta(max_length=64)]

LISTED_MAX = 200_000
"""Entries of one list that are looked at."""


class RestJob(Struct, frozen=True):
    """JobData."""

    job: Int = field(name="jobId")
    status: Text = field(name="status", default="RUNNING")
    stages: list[Int] = field(name="stageIds", default_factory=list)


class RestStage(Struct, frozen=True):
    """StageData."""

    status: Text
    stage: Int = field(name="stageId")
    attempt: Int = field(name="attemptId")
    tasks: Int = field(name="numTasks")
    active: Int = field(name="numActiveTasks", default=0)
    complete_tasks: Int = field(name="numCompleteTasks", default=0)
    complete: Int | None = field(name="numCompletedIndices", default=None)
    failed: Int = field(name="numFailedTasks", default=0)
    killed: Int = field(name="numKilledTasks", default=0)
    profile: Int = field(name="resourceProfileId", default=0)
    submitted: Text | None = field(name="submissionTime", default=None)
    completed: Text | None = field(name="completionTime", default=None)
    shuffle_write: Long = field(name="shuffleWriteBytes", default=0)
    rdds: list[Int] = field(name="rddIds", default_factory=list)


class RestPeak(Struct, frozen=True):
    """ExecutorMetrics, as far as the roll plugin reads them."""

    heap: Long = field(name="JVMHeapMemory", default=0)
    offheap: Long = field(name="JVMOffHeapMemory", default=0)


class RestExecutor(Struct, frozen=True):
    """ExecutorSummary."""

    executor: Name = field(name="id")
    address: Name = field(name="hostPort", default="")
    active: bool = field(name="isActive", default=True)
    profile: Int = field(name="resourceProfileId", default=0)
    added: Text | None = field(name="addTime", default=None)
    removed: Text | None = field(name="removeTime", default=None)
    cores: Int = field(name="totalCores", default=0)
    active_tasks: Int = field(name="activeTasks", default=0)
    completed_tasks: Int = field(name="completedTasks", default=0)
    failed_tasks: Int = field(name="failedTasks", default=0)
    total_tasks: Int = field(name="totalTasks", default=0)
    rdd_blocks: Int = field(name="rddBlocks", default=0)
    memory_used: Long = field(name="memoryUsed", default=0)
    disk_used: Long = field(name="diskUsed", default=0)
    shuffle_write: Long = field(name="totalShuffleWrite", default=0)
    excluded: bool = field(name="isExcluded", default=False)
    duration: Long = field(name="totalDuration", default=0)
    gc: Long = field(name="totalGCTime", default=0)
    peak: RestPeak | None = field(name="peakMemoryMetrics", default=None)


class RestAmount(Struct, frozen=True):
    """ExecutorResourceRequest, TaskResourceRequest."""

    amount: float = 0.0


class RestProfile(Struct, frozen=True):
    """ResourceProfileInfo."""

    profile: Int = field(name="id")
    executor: dict[str, RestAmount] = field(name="executorResources", default_factory=dict)
    task: dict[str, RestAmount] = field(name="taskResources", default_factory=dict)


class RestEnvironment(Struct, frozen=True):
    """ApplicationEnvironmentInfo, the resource profiles alone."""

    profiles: list[RestProfile] = field(name="resourceProfiles", default_factory=list)


class RestConf(Struct, frozen=True):
    """ApplicationEnvironmentInfo again, the configuration alone."""

    properties: list[tuple[str, str | None]] = field(name="sparkProperties", default_factory=list)


class RestAttempt(Struct, frozen=True):
    """ApplicationAttemptInfo."""

    completed: bool = False


class RestApp(Struct, frozen=True):
    """ApplicationInfo; the newest attempt comes first."""

    id: Name
    attempts: list[RestAttempt] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.attempts) and self.attempts[0].completed


S = TypeVar("S")


class UnreadableReply(Exception):
    """An answer that is not what the driver's API says; the text names the place in it."""


def decode(kind: type[S], body: bytes) -> S:
    """Decode an answer. Raises UnreadableReply."""
    try:
        found: S = _decoder(cast(Any, kind)).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        text = str(problem).replace("\n", " ")[:200]
        raise UnreadableReply(text or type(problem).__name__) from None
    return found


@lru_cache(maxsize=16)
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)


def jobs(listed: list[RestJob]) -> tuple[JobSeen, ...]:
    """The jobs that run."""
    return tuple(JobSeen(one.job, tuple(one.stages)) for one in listed[:LISTED_MAX] if one.status == "RUNNING")


_STATUSES = {status.value: status for status in StageStatus}


def stages(listed: list[RestStage]) -> tuple[StageSeen, ...]:
    """The stages of a known status."""
    return tuple(
        StageSeen(
            one.stage,
            one.attempt,
            status,
            one.tasks,
            one.active,
            one.complete_tasks if one.complete is None else one.complete,
            one.failed,
            one.killed,
            ProfileId(one.profile),
            moment(one.submitted),
            moment(one.completed),
            one.shuffle_write,
            tuple(one.rdds[:1]),  # the stage's own; the others are long lists in iterative programs
        )
        for one in listed[:LISTED_MAX]
        if (status := _STATUSES.get(one.status)) is not None
    )


def executors(listed: list[RestExecutor]) -> tuple[ExecutorSeen, ...]:
    """All executors, the driver among them."""
    return tuple(
        ExecutorSeen(
            ExecutorId(one.executor),
            one.active,
            one.address,
            ProfileId(one.profile),
            moment(one.added) or 0,
            moment(one.removed),
            one.cores,
            one.active_tasks,
            one.completed_tasks,
            one.failed_tasks,
            one.total_tasks,
            one.rdd_blocks,
            one.memory_used,
            one.disk_used,
            one.shuffle_write,
            one.excluded,
            one.duration,
            one.gc,
            0 if one.peak is None else one.peak.heap,
            0 if one.peak is None else one.peak.offheap,
        )
        for one in listed[:LISTED_MAX]
    )


def profiles(environment: RestEnvironment) -> tuple[ProfileSeen, ...]:
    """The resource profiles."""
    return tuple(
        ProfileSeen(
            ProfileId(one.profile),
            tuple((name, request.amount) for name, request in one.executor.items()),
            tuple((name, request.amount) for name, request in one.task.items()),
        )
        for one in environment.profiles[:LISTED_MAX]
    )


@lru_cache(maxsize=50_000)
def moment(text: str | None) -> Millis | None:
    """Epoch milliseconds of ``2026-11-21T15:38:01.916GMT``; None for nothing, and for anything else."""
    if text is None or not text.endswith("GMT"):
        return None
    at = parse_instant(text.removesuffix("GMT") + "Z")
    return at if at is not None and 0 <= at <= LAST_MS else None
