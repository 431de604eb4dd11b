"""What a user asks to change (a ``Variant``), and the same settled into configs in the units of the simulation (a ``Plan``).

A ``Plan`` is made by ``whatif.planning.plan`` from the log's conf and a ``Variant``. It holds the production configs of the
machines that decide (``dynamic``, ``kubernetes``, ``yarn``), and what the task scheduler needs to know of the conf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scheduler.rules import SchedulerRules

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
class Plan(SchedulerRules):
    """One variant, settled; also what the schedulers go by.

    ``dynamic``: dynamic allocation's config; None: ``static`` executors (of the default profile) are asked for at the
    start and kept. ``kubernetes``: the pods allocator and all that belongs to it decide about pods, on the cluster that
    ``cluster`` describes (its own scaling config is then the same as ``dynamic``). ``yarn``: the same of the YARN allocator,
    on the cluster ``hadoop`` (None: containers come and go as they did in the log). Neither: a plain resource manager that
    gives what it is asked for. ``shapes``: by profile, the default one always.
    ``registered_ratio``, ``registered_wait_ms``: no task starts before so many of the first executors are there or so long
    has passed (spark.scheduler.minRegisteredResourcesRatio and maxRegisteredResourcesWaitingTime). ``speculation``: whether
    copies are made as the log made them.
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
    registered_ratio: float = 0.0
    registered_wait_ms: Millis = 30_000
    speculation: bool = False
    faults: Faults = NO_FAULTS
    notes: tuple[str, ...] = field(default=())
