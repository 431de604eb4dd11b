"""What can happen to dynamic allocation, as values: Spark's listener events, the timer, and answers.

Every stimulus begins with ``at``, the millisecond at which the allocation manager heard of it (not the time
the event claims for itself: event logs are out of order, the manager's clock is not). Stimuli are plain tuples
because a long log holds millions of them.

The listener events keep Spark's names without the ``SparkListener`` prefix and carry only what
ExecutorAllocationListener and ExecutorMonitor read (spec: dynamic allocation, sections 6 and 7).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis, ProfileId


class TaskOutcome(Enum):
    """How a task ended, as far as dynamic allocation tells outcomes apart (TaskEndReason)."""

    SUCCESS = "success"
    KILLED = "killed"
    FAILED = "failed"


class TaskStart(NamedTuple):
    """SparkListenerTaskStart. ``task_index`` is the task's index within its stage attempt."""

    at: Millis
    stage: int
    attempt: int
    task_index: int
    executor: ExecutorId
    speculative: bool = False


class TaskEnd(NamedTuple):
    """SparkListenerTaskEnd. Every reason but Success and TaskKilled is FAILED (Resubmitted included)."""

    at: Millis
    stage: int
    attempt: int
    task_index: int
    executor: ExecutorId
    speculative: bool = False
    outcome: TaskOutcome = TaskOutcome.SUCCESS


class StageSubmitted(NamedTuple):
    """SparkListenerStageSubmitted. ``locality``: preferred hosts per task, or None when nobody knows them."""

    at: Millis
    stage: int
    attempt: int
    tasks: int
    profile: ProfileId
    locality: tuple[tuple[str, ...], ...] | None = None


class StageCompleted(NamedTuple):
    """SparkListenerStageCompleted, of a successful or a failed attempt alike."""

    at: Millis
    stage: int
    attempt: int


class SpeculativeTaskSubmitted(NamedTuple):
    """SparkListenerSpeculativeTaskSubmitted. ``task_index`` is the task index, as of Spark 3.4."""

    at: Millis
    stage: int
    attempt: int
    task_index: int


class UnschedulableTaskSetAdded(NamedTuple):
    """SparkListenerUnschedulableTaskSetAdded: every executor is excluded for the attempt."""

    at: Millis
    stage: int
    attempt: int


class UnschedulableTaskSetRemoved(NamedTuple):
    """SparkListenerUnschedulableTaskSetRemoved."""

    at: Millis
    stage: int
    attempt: int


class ExecutorAdded(NamedTuple):
    """SparkListenerExecutorAdded. From here on the scheduler backend holds the executor for active."""

    at: Millis
    executor: ExecutorId
    profile: ProfileId


class ExecutorRemoved(NamedTuple):
    """SparkListenerExecutorRemoved, with Spark's reason text."""

    at: Millis
    executor: ExecutorId
    reason: str = ""


class JobStage(NamedTuple):
    """One stage of a job: its id and, for a map stage, the id of the shuffle that it writes."""

    stage: int
    shuffle: int | None = None


class JobStart(NamedTuple):
    """SparkListenerJobStart, with all stages of the job, skipped ones included."""

    at: Millis
    job: int
    stages: tuple[JobStage, ...]


class JobEnd(NamedTuple):
    """SparkListenerJobEnd."""

    at: Millis
    job: int


class RddBlock(NamedTuple):
    """BlockId ``rdd_<rdd>_<split>``."""

    rdd: int
    split: int


class ShuffleDataBlock(NamedTuple):
    """BlockId ``shuffle_<id>_<map>_<reduce>.data``."""

    shuffle: int


class BlockUpdated(NamedTuple):
    """SparkListenerBlockUpdated. ``block`` is None for any block but RDD and shuffle data: it only says that the
    executor exists.

    ``valid``: StorageLevel.isValid, i.e. the block is stored somewhere; ``on_disk``: its level uses disk.
    """

    at: Millis
    executor: ExecutorId
    block: RddBlock | ShuffleDataBlock | None
    valid: bool
    on_disk: bool


class UnpersistRDD(NamedTuple):
    """SparkListenerUnpersistRDD."""

    at: Millis
    rdd: int


class ShuffleCleaned(NamedTuple):
    """ContextCleaner cleaned a shuffle (ExecutorMonitor.shuffleCleaned)."""

    at: Millis
    shuffle: int


class ShuffleRegistered(NamedTuple):
    """A stage of a running job turned out to write a shuffle: JobStart meant ``JobStage(stage, shuffle)``.

    No event of Spark's, whose JobStart has the id of the shuffle. In an event log the tasks of the stage tell.
    """

    at: Millis
    job: int
    stage: int
    shuffle: int


class ShuffleUnneeded(NamedTuple):
    """No running job and no SQL execution needs the shuffle: from now on Spark's ContextCleaner may clean it.

    No event of Spark's, and it changes nothing: when the cleaner runs is up to the driver's garbage collector.
    """

    at: Millis
    shuffle: int


class ResourceProfileAdded(NamedTuple):
    """SparkListenerResourceProfileAdded: what an executor of the profile offers and what its tasks take.

    Amounts by resource name, doubles as in Spark: ``cores`` and custom names for executors, ``cpus`` and custom
    names for tasks. Absent cores or cpus fall back to the application's defaults (ResourceProfile 4.3.0).
    """

    at: Millis
    profile: ProfileId
    executor: tuple[tuple[str, float], ...]
    task: tuple[tuple[str, float], ...]


class ExecutorsActive(NamedTuple):
    """The scheduler backend now holds these executors for active (isExecutorActive)."""

    at: Millis
    executors: tuple[ExecutorId, ...]


class ExecutorsInactive(NamedTuple):
    """The scheduler backend no longer holds these executors for active."""

    at: Millis
    executors: tuple[ExecutorId, ...]


class KillDisproved(NamedTuple):
    """Executors that a kill was granted for were seen at work again: the kill never happened.

    No rule of Spark's; a replay needs it when the recorded world did not follow a proposed kill.
    """

    at: Millis
    executors: tuple[ExecutorId, ...]


MOVED_MAX: Final = 1_000_000
"""No ``Move`` names more tasks than this, started or ended; what is beyond is not reflected."""


class Move(NamedTuple):
    """Regular tasks of one attempt: those with indices from ``first`` to before ``last`` started, ``ended`` ended well."""

    stage: int
    attempt: int
    first: int
    last: int
    ended: int


class ExecutorTurn(NamedTuple):
    """An executor runs ``change`` more tasks than before; ``ended``: when the last of them ended that ended.

    With a change of 0 it worked in between and has been idle since ``ended``.
    """

    executor: ExecutorId
    change: int
    ended: Millis


class TasksMoved(NamedTuple):
    """What many TaskStarts and TaskEnds amount to, of attempts that were submitted and have no speculative copies.

    No event of Spark's: a simulation says it instead of millions of them. It means the same as the events one by one in the
    order in which no executor that goes on working falls idle in between: first the starts, then the ends.
    ``turns``: executors that run more or fewer tasks than before; ``outputs``: (executor, stage) where a task of the stage
    ended well on the executor for the first time.
    """

    at: Millis
    moves: tuple[Move, ...]
    turns: tuple[ExecutorTurn, ...] = ()
    outputs: tuple[tuple[ExecutorId, int], ...] = ()


class Tick(NamedTuple):
    """The 100 ms timer of ExecutorAllocationManager fired: ``schedule()``."""

    at: Millis


class Answer(NamedTuple):
    """What the scheduler backend said to a command that waits for an answer.

    ``serial`` names the command. ``acked``: for a request whether it was accepted, for a kill or a
    decommission the executors that it was accepted for. ``threw`` holds the message of the exception that
    the call ended in, if it did.
    """

    at: Millis
    serial: int
    acked: bool | tuple[ExecutorId, ...] = True
    threw: str | None = None


class Reset(NamedTuple):
    """ExecutorAllocationManager.reset(): the YARN application master registered again."""

    at: Millis


class Stop(NamedTuple):
    """ExecutorAllocationManager.stop(): the timer stops. The listener goes on, as Spark's does."""

    at: Millis


ListenerEvent: TypeAlias = (
    TaskStart
    | TaskEnd
    | StageSubmitted
    | StageCompleted
    | SpeculativeTaskSubmitted
    | UnschedulableTaskSetAdded
    | UnschedulableTaskSetRemoved
    | ExecutorAdded
    | ExecutorRemoved
    | JobStart
    | JobEnd
    | BlockUpdated
    | UnpersistRDD
    | ShuffleCleaned
    | ShuffleRegistered
    | ShuffleUnneeded
    | ResourceProfileAdded
    | ExecutorsActive
    | ExecutorsInactive
    | KillDisproved
    | TasksMoved
)
"""What the folds reflect."""

Stimulus: TypeAlias = ListenerEvent | Tick | Answer | Reset | Stop
"""All that can arrive."""
