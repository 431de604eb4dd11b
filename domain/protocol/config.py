"""The configuration of each machine: one frozen field per Spark key, in the core's units.

Nothing here reads text: ``conf.spark_conf`` parses, checks and fills these records. A record is what a decision is
given beside state, snapshots and time, so two configs can be compared, stored and swapped like any value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from podtide.domain.base.units import NEVER, Millis

TICK_INTERVAL_MS: Final[Millis] = 100
"""ExecutorAllocationManager.intervalMillis: schedule() runs every 100 ms, in Spark a constant."""


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """What ResourceProfile needs of the application's conf to know how many tasks an executor takes.

    ``executor_cores``: spark.executor.cores (1 when unset). ``cores_limit_known``: the cores really bound the
    tasks of an executor: spark.executor.cores was set, or the master is Kubernetes or "yarn".
    ``task_cpus``: spark.task.cpus. ``executor_resources`` and ``task_resources``: the custom resources of the
    default profile (spark.executor.resource.NAME.amount, spark.task.resource.NAME.amount), in the order in which
    Spark looks at them. ``profiles_supported``: the master takes profiles other than the default one.
    """

    executor_cores: int = 1
    cores_limit_known: bool = True
    task_cpus: Decimal = Decimal(1)
    executor_resources: tuple[tuple[str, int], ...] = ()
    task_resources: tuple[tuple[str, float], ...] = ()
    profiles_supported: bool = True


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    """Dynamic allocation's configuration (spark.dynamicAllocation.* and what it reads besides).

    Executor counts apply to each resource profile by itself. ``executors_initial`` is the effective one:
    max(minExecutors, initialExecutors, spark.executor.instances). ``shuffle_tracking`` is effective too: off
    under an external shuffle service. ``rdd_from_service``: spark.shuffle.service.enabled and
    spark.shuffle.service.fetch.rdd.enabled. ``repair_pending``: no key of Spark's, but a fix that 4.3.0 lacks, off by
    default: tasks of completed stages that start late do not count as pending (SPARK-58446).
    """

    executors_min: int = 0
    executors_max: int = 2**31 - 1
    executors_initial: int = 0
    backlog_timeout_ms: Millis = 1_000
    sustained_backlog_timeout_ms: Millis = 1_000
    idle_timeout_ms: Millis = 60_000
    cached_idle_timeout_ms: Millis = 2_147_483_647_000
    shuffle_timeout_ms: Millis = NEVER
    shuffle_tracking: bool = True
    rdd_from_service: bool = False
    decommission: bool = False
    ratio: float = 1.0
    testing: bool = False
    repair_pending: bool = False
    profile_rules: ProfileRules = field(default_factory=ProfileRules)
