"""What a rerun is told: the config of one variant, settled, in the units of the simulation.

A ``Plan`` is made by ``planning.plan`` from the log's conf and a ``Variant``. It holds the production configs of the
machines that decide (``dynamic``, ``kubernetes``, ``yarn``), and what the task scheduler needs to know of the conf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.protocol.config import EngineConfig, ScalingConfig
from podtide.domain.rerun.plan__variants import NO_FAULTS, Faults

AnyCluster: TypeAlias = Description | YarnDescription
"""A cluster as somebody described it: Kubernetes, or YARN."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An executor of a profile: ``slots`` tasks at once; ``cores`` and ``memory_mib`` (all of it) that are paid for."""

    slots: int
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant, settled.

    ``dynamic``: dynamic allocation's config; None: ``static`` executors (of the default profile) are asked for at the
    start and kept. ``kubernetes``: the pods allocator and all that belongs to it decide about pods, on the cluster that
    ``cluster`` describes (its own scaling config is then the same as ``dynamic``). ``yarn``: the same of the YARN allocator,
    on the cluster ``hadoop`` (None: containers come and go as they did in the log). Neither: a plain resource manager that
    gives what it is asked for. ``shapes``: by profile, the default one always. ``fair``: spark.scheduler.mode.
    ``registered_ratio``, ``registered_wait_ms``: no task
    starts before so many of the first executors are there or so long has passed
    (spark.scheduler.minRegisteredResourcesRatio and maxRegisteredResourcesWaitingTime). ``speculation``: whether copies
    are made as the log made them.
    ``shuffle_kept``: map output outlives its executor (a shuffle service, or reliable shuffle storage).
    """

    name: str
    conf: SparkConf
    shapes: Mapping[ProfileId, Shape]
    dynamic: ScalingConfig | None = None
    static: int = 0
    kubernetes: EngineConfig | None = None
    cluster: Description | None = None
    yarn: EngineConfig | None = None
    hadoop: YarnDescription | None = None
    fair: bool = False
    registered_ratio: float = 0.0
    registered_wait_ms: Millis = 30_000
    speculation: bool = False
    shuffle_kept: bool = False
    faults: Faults = NO_FAULTS
    notes: tuple[str, ...] = field(default=())
