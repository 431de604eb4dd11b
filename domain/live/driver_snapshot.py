"""What the Spark driver's REST API says at a moment, as a value; and what is to be made of it, as configuration.

The names are those of the API's own objects (JobData, StageData, ExecutorSummary, ResourceProfileInfo of Spark's
status API) with Spark's counters as they are: ``complete`` counts task *indices* that are done (numCompletedIndices),
``active`` counts running attempts of tasks, speculative copies among them. The four lists were asked for one after
the other while the application went on, so they may contradict one another: nobody may rely on sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized, ExecutorSummary

DRIVERS: Final = frozenset({"driver", "<driver>"})
"""SparkContext.DRIVER_IDENTIFIER, and what it was before 1.4: listed among the executors, and none."""


class StageStatus(Enum):
    """StageStatus of the status API. PENDING: a stage of a running job that was not submitted."""

    ACTIVE = "ACTIVE"
    PENDING = "PENDING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class JobSeen(NamedTuple):
    """A running job and its stages, skipped ones among them."""

    job: int
    stages: tuple[int, ...] = ()


class StageSeen(NamedTuple):
    """One attempt of a stage. Times in epoch ms, None where there is none yet; ``shuffle_write`` in bytes.

    ``failed`` and ``killed`` count attempts of tasks. ``rdds``: ids, the stage's own RDD first.
    """

    stage: int
    attempt: int
    status: StageStatus
    tasks: int
    active: int = 0
    complete: int = 0
    failed: int = 0
    killed: int = 0
    profile: ProfileId = DEFAULT_PROFILE
    submitted_at: Millis | None = None
    completed_at: Millis | None = None
    shuffle_write: int = 0
    rdds: tuple[int, ...] = ()

    @property
    def key(self) -> AttemptKey:
        """Stage id and attempt number."""
        return self.stage, self.attempt


class ExecutorSeen(NamedTuple):
    """An executor, dead ones too as long as the driver remembers them. Times in ms, sizes in bytes.

    ``total_tasks`` counts attempts that were started, ``completed_tasks`` and ``failed_tasks`` those that ended so
    (killed ones are neither). ``memory_used`` and ``disk_used``: of its block manager.
    """

    executor: ExecutorId
    active: bool = True
    address: str = ""
    profile: ProfileId = DEFAULT_PROFILE
    added_at: Millis = 0
    removed_at: Millis | None = None
    cores: int = 0
    active_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    total_tasks: int = 0
    rdd_blocks: int = 0
    memory_used: int = 0
    disk_used: int = 0
    shuffle_write: int = 0
    excluded: bool = False
    duration_ms: Millis = 0
    gc_ms: Millis = 0
    peak_heap: int = 0
    peak_offheap: int = 0

    @property
    def host(self) -> str:
        """The host of its block manager."""
        return self.address.rpartition(":")[0] or self.address


class ProfileSeen(NamedTuple):
    """A resource profile: amounts by resource name, as in ``stimuli.ResourceProfileAdded``."""

    profile: ProfileId
    executor: tuple[tuple[str, float], ...] = ()
    task: tuple[tuple[str, float], ...] = ()


class DriverSnapshot(NamedTuple):
    """One look at the driver. ``jobs``: those that run; ``stages``: at least the active ones; ``executors``: all.

    ``profiles``: all, or as many as were asked for so far. ``missed_stages``: more stages came and went since the last look
    than were asked for.
    """

    jobs: tuple[JobSeen, ...] = ()
    stages: tuple[StageSeen, ...] = ()
    executors: tuple[ExecutorSeen, ...] = ()
    profiles: tuple[ProfileSeen, ...] = ()
    missed_stages: bool = False


@dataclass(frozen=True, slots=True)
class ViewConfig:
    """How a view is folded.

    ``tasks_max``: bound on running tasks that are told apart, and on tasks of one stage that ended unseen between two
    looks; beyond it a stage is begun anew. ``shuffles``: guess who holds shuffle data that running jobs may read;
    ``shuffle_linger_ms``: how long after the last such job (None: for ever, as in Spark
    until its ContextCleaner acts).
    """

    tasks_max: int = 200_000
    shuffles: bool = True
    shuffle_linger_ms: Millis | None = None


def summary(snapshot: DriverSnapshot, now: Millis) -> ExecutorsSummarized:
    """What the executor roll plugin wants to know: the active executors, in the driver's order."""
    return ExecutorsSummarized(
        now,
        tuple(
            ExecutorSummary(
                one.executor,
                one.added_at,
                one.total_tasks,
                one.failed_tasks,
                one.duration_ms,
                one.gc_ms,
                one.shuffle_write,
                one.disk_used,
                one.peak_heap,
                one.peak_offheap,
            )
            for one in snapshot.executors
            if one.active
        ),
    )
