"""What an application asks for, written down: a workload as a value.

Two forms. ``Targets`` says how many executors are wanted at which time, as if dynamic allocation were elsewhere. ``Jobs``
says what the driver's program does: jobs that start at a time or after others, stages of tasks with parents, how long tasks
take and how often they fail, what is shuffled and cached. From it a driver can be played, task by task (``workload``).

Names are the script's own; the ids of Spark (jobs, stages, shuffles, RDDs) are given out while it is played, in the order
in which Spark would. Times count from the workload's beginning. All durations are whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from podtide.domain.base.randomness import Constant, Delay
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId

_NOW: Final = Constant(0)
_SECOND: Final = Constant(1_000)


@dataclass(frozen=True, slots=True)
class Targets:
    """Executors wanted over time: (time, ((profile, executors), ...)), later ones last.

    Profiles that a step does not name keep their targets.
    """

    steps: tuple[tuple[Millis, tuple[tuple[ProfileId, int], ...]], ...] = ()


class Storage(Enum):
    """Where cached blocks are kept. The texts are the names in a workload file."""

    MEMORY = "memory"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Cached:
    """The stage's tasks cache what they compute, one RDD block each.

    ``until``: the job with whose end it is unpersisted (None: never); with its own job's name, at the end of each run.
    """

    storage: Storage = Storage.MEMORY
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Where the input of a stage's tasks is: of each on ``copies`` of these hosts, by turns.

    Spark tells YARN so when it asks for executors; the tasks themselves run as long anywhere.
    """

    hosts: tuple[str, ...]
    copies: int = 1

    def of(self, partition: int) -> tuple[str, ...]:
        """The hosts that have the input of this partition's task."""
        hosts = self.hosts
        return tuple(hosts[(partition + copy) % len(hosts)] for copy in range(self.copies))


@dataclass(frozen=True, slots=True)
class ScriptStage:
    """Tasks that differ in their partition alone.

    ``parents``: the stages whose shuffle output its tasks read: ``map`` of the same job, ``load.map`` of a job before it.
    ``duration``: how long a task runs that does not fail. ``failure``: the share of task attempts that fail by themselves;
    they run for a random part of their duration. ``writes_shuffle``: of a job's last stage, that its result is a shuffle's
    output too (a map stage job, as adaptive execution submits them); every other stage writes one anyway. ``data``: where
    the tasks would like to run.
    """

    name: str
    tasks: int
    duration: Delay = _SECOND
    parents: tuple[str, ...] = ()
    profile: ProfileId = DEFAULT_PROFILE
    writes_shuffle: bool = False
    cached: Cached | None = None
    failure: float = 0.0
    data: Data | None = None


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """An action of the driver's program, run ``times`` times, one after the other.

    It starts ``think`` after the last of ``after`` has ended, however it ended, and not before ``start_ms``. Between its
    runs, it thinks again.
    """

    name: str
    stages: tuple[ScriptStage, ...]
    start_ms: Millis = 0
    after: tuple[str, ...] = ()
    think: Delay = _NOW
    times: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """A resource profile besides the default one: what an executor offers and what a task takes.

    Amounts by resource: ``cores`` and custom ones of the executor, ``cpus`` and custom ones of a task. What is absent is
    as the application's conf has it.
    """

    id: ProfileId
    executor: tuple[tuple[str, int], ...] = ()
    task: tuple[tuple[str, float], ...] = ()


class Outputs(Enum):
    """What becomes of an executor's shuffle output when it goes. The texts are the names in a workload file."""

    EXECUTOR = "executor"  # it is lost with the executor
    MIGRATED = "migrated"  # an executor that decommissions moves it to others; else it is lost
    SERVICE = "service"  # a shuffle service or a store has it; it stays


@dataclass(frozen=True, slots=True)
class Jobs:
    """What the driver's program does.

    ``task_failures_max``: spark.task.maxFailures. ``stage_attempts_max``: spark.stage.maxConsecutiveAttempts.
    ``shuffled_offers``: executors are offered tasks in random order, as Spark does; else in the order of their
    registration. ``clean_ms``: how long after the last job that can read a shuffle the context cleaner removes it
    (None: not while the application runs; in Spark it is the driver's garbage collector that decides).
    """

    jobs: tuple[ScriptJob, ...] = ()
    profiles: tuple[Profile, ...] = ()
    outputs: Outputs = Outputs.EXECUTOR
    task_failures_max: int = 4
    stage_attempts_max: int = 4
    shuffled_offers: bool = False
    clean_ms: Millis | None = None


Workload: TypeAlias = Targets | Jobs
"""Either form."""
