"""What a user asks to change (a ``Variant``), and the same settled into configs in the units of the simulation (a ``Plan``).

A ``Plan`` is made by ``whatif.planning.plan`` from the log's conf and a ``Variant``. It holds the production configs of the
machines that decide (``dynamic``, ``kubernetes``, ``yarn``), and what the task scheduler needs to know of the conf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.config import ScalingConfig

AnyCluster: TypeAlias = Description | YarnDescription
"""A cluster as somebody described it: Kubernetes, or YARN."""


AS_RECORDED: Final = "as recorded"
AS_SIMULATED: Final = "as simulated"
"""The name of the variant that changes nothing: the log's own config, run again."""


EXECUTORS_MAX: Final = 10_000
"""The most executors that somebody may ask for from the start: more than the largest applications have. What a
log had is run again whatever it was."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong besides what did. ``spot_per_hour``: interruptions of one executor in an hour; ``start_extra_ms``:
    what every start takes longer (a slow image pull); ``quota``: the most executors that the cluster gives."""

    spot_per_hour: float = 0.0
    start_extra_ms: Millis = 0
    quota: int | None = None


NO_FAULTS: Final = Faults()


@dataclass(frozen=True, slots=True)
class Variant:
    """``changes``: Spark keys over the log's conf, None unsets one. ``static``: so many executors from start to end,
    without dynamic allocation."""

    name: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    static: int | None = None
    faults: Faults = NO_FAULTS


@dataclass(frozen=True, slots=True)
class ExecutorShape:
    """An executor of a profile: ``slots`` tasks at once; ``cores`` and ``memory_mib`` (all of it) that are paid for."""

    slots: int
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Retries:
    """``task_failures_max``: failures of one task that end its job (spark.task.maxFailures); ``stage_attempts_max``:
    attempts of a stage in a row that failed to fetch, likewise (spark.stage.maxConsecutiveAttempts);
    ``spares_decommissioned``: not those that failed for executors that were decommissioned
    (spark.stage.ignoreDecommissionFetchFailure, on by default, where spark.decommission.enabled is).

    ``fetches``, ``fetch_wait_ms``: how often a task asks again for a block that it did not get, and after what time each
    (spark.shuffle.io.maxRetries and retryWait).
    """

    task_failures_max: int = 4
    stage_attempts_max: int = 4
    spares_decommissioned: bool = False
    fetches: int = 3
    fetch_wait_ms: Millis = 5_000


RETRIES: Final = Retries()


class FairPool(NamedTuple):
    """A pool of fairscheduler.xml. ``fair``: whether task sets within it share fairly, too (else first in first out)."""

    weight: int = 1
    min_share: int = 0
    fair: bool = False


EQUAL: Final = FairPool()
"""A pool that no file names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant, settled.

    ``dynamic``: dynamic allocation's config; None: ``static`` executors (of the default profile) are asked for at the
    start and kept. ``kubernetes``: the pods allocator and all that belongs to it decide about pods, on the cluster that
    ``cluster`` describes (its own scaling config is then the same as ``dynamic``). ``yarn``: the same of the YARN allocator,
    on the cluster ``hadoop`` (None: containers come and go as they did in the log). Neither: a plain resource manager that
    gives what it is asked for. ``shapes``: by profile, the default one always. ``fair``: spark.scheduler.mode;
    ``pools``: those of fairscheduler.xml, by name, where it is known (all others are equal).
    ``registered_ratio``, ``registered_wait_ms``: no task starts before so many of the first executors are there or so long
    has passed (spark.scheduler.minRegisteredResourcesRatio and maxRegisteredResourcesWaitingTime). ``speculation``: whether
    copies are made as the log made them. ``shuffle_kept``: map output outlives its executor (a shuffle service, or reliable
    shuffle storage). ``shuffle_migrates``: an executor that is decommissioned hands its map output to others before it goes
    (spark.storage.decommission.shuffleBlocks.enabled); ``shuffle_fallback``: or to a storage, where there are no others
    (spark.storage.decommission.fallbackStorage.path). ``retries``: what Spark bears of failures.
    """

    name: str
    conf: SparkConf
    shapes: Mapping[ProfileId, ExecutorShape]
    dynamic: ScalingConfig | None = None
    static: int = 0
    kubernetes: EngineConfig | None = None
    cluster: Description | None = None
    yarn: EngineConfig | None = None
    hadoop: YarnDescription | None = None
    fair: bool = False
    pools: Mapping[str, FairPool] = field(default_factory=dict)
    registered_ratio: float = 0.0
    registered_wait_ms: Millis = 30_000
    speculation: bool = False
    shuffle_kept: bool = False
    shuffle_migrates: bool = False
    shuffle_fallback: bool = False
    retries: Retries = RETRIES
    faults: Faults = NO_FAULTS
    notes: tuple[str, ...] = field(default=())
