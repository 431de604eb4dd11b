"""The rows of a driver: executors, tasks that run, task sets, stages, jobs. Immutable, each under an integer key."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId

ATTEMPTS_SHIFT: Final = 32


def attempt_key(stage: int, attempt: int) -> int:
    """The key of a stage attempt."""
    return stage << ATTEMPTS_SHIFT | attempt


class PendingExecutorRow(NamedTuple):
    """What is known of an executor before it is accepted. ``single_task``: it offers cores for one task only."""

    profile: ProfileId = DEFAULT_PROFILE
    single_task: bool = False
    address: str = ""


class OfferState(IntEnum):
    """Whether an executor is offered tasks."""

    ACTIVE = 0
    LEAVING = 1  # decommissioning: what runs on it may end, nothing more starts
    SILENT = 2  # its connection is lost: nothing more is heard of what runs on it


class DriverExecutorRow(NamedTuple):
    """An executor that the driver accepted. Its key says the order in which executors were. ``free``: of its ``slots``.

    ``hung_at``: since when nothing goes on there, -1 while it does. It is offered tasks as before.
    """

    executor: ExecutorId
    profile: ProfileId
    slots: int
    free: int
    standing: OfferState
    since: Millis
    address: str
    hung_at: Millis = -1


class Fate(IntEnum):
    """How a task that runs will end."""

    SUCCESS = 0
    FAILURE = 1
    FETCH_FAILURE = 2
    KILLED = 3


class TaskRow(NamedTuple):
    """A task that runs. ``executor``: its key. ``task_index``: its place in its stage attempt."""

    stage: int
    attempt: int
    task_index: int
    executor: int
    began: Millis
    ends: Millis
    fate: Fate


Returned: TypeAlias = "tuple[int, Returned] | None"
"""Indexes that wait again, the last one returned first."""


class QueueRow(NamedTuple):
    """What of a task set waits and runs. ``fresh``: from here on no index was ever started. ``pending`` counts."""

    fresh: int
    returned: Returned
    pending: int
    running: int


class AttemptRow(NamedTuple):
    """A stage attempt's task set. ``job``: the one it is queued for.

    ``partitions``: the partition of each index, in order; None: the index itself. ``zombie``: nothing of it starts any more.
    ``failures``: by index, those that count. ``elsewhere``: indexes whose partition another attempt's task computed.
    """

    job: int
    stage: int
    attempt: int
    tasks: int
    profile: ProfileId
    partitions: tuple[int, ...] | None
    zombie: bool = False
    failures: PMap[int, int] = pmap()
    elsewhere: PSet[int] = pset()


class DagPhase(IntEnum):
    """Where a stage is in the eyes of the DAG scheduler."""

    IDLE = 0
    WAITING = 1  # for its parents
    RUNNING = 2
    FAILED = 3  # a fetch failed; it is submitted again in a moment


class DriverStageRow(NamedTuple):
    """A stage of one job or more. ``array``: where its output is noted. ``place``, ``run``: of its job in the script.

    ``attempt``: the latest (-1: none yet). ``failed``: attempts with a failed fetch since it last succeeded.
    """

    jobs: frozenset[int]
    place: int
    run: int
    stage: int
    array: int
    parents: tuple[int, ...]
    phase: DagPhase = DagPhase.IDLE
    attempt: int = -1
    failed: frozenset[int] = frozenset()


class Ending(Enum):
    """How a job ended, or where it was when the application did."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    RUNNING = "running"


class DriverJobRow(NamedTuple):
    """A job that started. ``first_task``: when its first task did. ``stages``: their ids, its final stage's last."""

    place: int
    run: int
    began: Millis
    stages: tuple[int, ...]
    first_task: Millis | None = None
    ended: Millis | None = None
    ending: Ending = Ending.RUNNING


class Holder(NamedTuple):
    """Who computed a partition: the executor that holds it (its key; -1: a service), and the attempt (-1: it was moved)."""

    executor: int
    stage: int
    attempt: int


class DriverAgenda(IntEnum):
    """What lies ahead besides the ends of tasks."""

    JOB = 0  # a: the job's place, b: its run
    RESUBMIT = 1
    CLEAN = 2  # a: the shuffle
