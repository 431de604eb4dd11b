"""The configuration of each machine: one frozen field per Spark key, in the core's units.

Nothing here reads text: ``sparkconf`` parses, checks and fills these records. A record is what a decision is
given beside state, snapshots and time, so two configs can be compared, stored and swapped like any value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from podtide.domain.pods import SPARK_CONTAINER, PodRules
from podtide.domain.policies import SPARK_POLICIES, Policies
from podtide.domain.units import NEVER, Millis

INT_MAX: Final = 2**31 - 1

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


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """A volume of spark.kubernetes.executor.volumes.persistentVolumeClaim.NAME.*, as far as claims go.

    ``claim``: options.claimName as written ("OnDemand" and SPARK_EXECUTOR_ID are replaced per executor). A claim
    object is created where ``storage_class`` and ``size`` are both set. ``index``: the volume's place among all volumes of
    the conf, which is part of an on-demand claim's name.
    """

    volume: str
    claim: str
    index: int
    storage_class: str | None = None
    size: str | None = None

    @property
    def creates(self) -> bool:
        """Whether a PersistentVolumeClaim object is made for it."""
        return self.storage_class is not None and self.size is not None


@dataclass(frozen=True, slots=True)
class AllocationConfig:
    """ExecutorPodsAllocator's configuration (spark.kubernetes.allocation.* and what it reads besides).

    ``create_timeout_ms`` is the effective one: max(5 * batch.delay, allocation.executor.timeout). ``claims_max``:
    maxExecutors under dynamic allocation, else spark.executor.instances. ``wait_for_claims`` is effective too: own,
    reuse and waitToReuse all on. ``pod_name_prefix`` names the claims made on demand. ``remarks``: also report what only
    Spark's log says.
    """

    batch_size: int = 20
    batch_delay_ms: Millis = 1_000
    pending_max: int = INT_MAX
    pending_max_per_profile: int = INT_MAX
    pods_max: int = INT_MAX
    create_timeout_ms: Millis = 600_000
    idle_timeout_ms: Millis = 60_000
    delete_on_termination: bool = True
    dynamic: bool = True
    driver_pod: str | None = None
    driver_readiness_timeout_ms: Millis = 1_000
    wait_for_driver: bool = True
    claims: tuple[ClaimTemplate, ...] = ()
    claims_max: int = INT_MAX
    own_claims: bool = True
    reuse_claims: bool = True
    wait_for_claims: bool = False
    pod_name_prefix: str = "exec"
    namespace: str = "default"
    recovery_mode: bool | None = None
    task_cpus: Decimal = Decimal(1)
    policies: Policies = SPARK_POLICIES
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """ExecutorPodsLifecycleManager's and ExecutorFailureTracker's configuration.

    ``failures_max``: effective (spec: allocation, section 9). ``failures_window_ms``: None counts failures for ever.
    """

    interval_ms: Millis = 1_000
    removed_cache_ms: Millis = 180_000
    missing_delta_ms: Millis = 30_000
    delete_on_termination: bool = True
    failures_max: int = 3
    failures_window_ms: Millis | None = None
    spark_container: str = SPARK_CONTAINER
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """KubernetesClusterSchedulerBackend's and its core's configuration.

    ``allocator``: "direct", "statefulset", "deployment" or a class name. ``registered_ratio``: effective (0.8 when
    unset). ``force_kill_timeout_ms``: spark.executor.decommission.forceKillTimeout.
    """

    app_id: str = ""
    allocator: str = "direct"
    executors_initial: int = 2
    registered_ratio: float = 0.8
    registered_wait_ms: Millis = 30_000
    grace_ms: Millis = 5_000
    decommission_label: str | None = None
    decommission_label_value: str = ""
    deletion_cost: int | None = None
    delete_on_termination: bool = True
    config_map: bool = True
    own_claims: bool = True
    delete_services: bool = True
    unknown_decommissions_max: int = 0
    force_kill_timeout_ms: Millis | None = None
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class SourcesConfig:
    """Where snapshots come from: the watch and the polling source, and the store's end."""

    watch: bool = True
    poll: bool = True
    poll_interval_ms: Millis = 30_000
    poll_with_version: bool = False
    shutdown_grace_ms: Millis = 20_000


@dataclass(frozen=True, slots=True)
class ReplicasConfig:
    """StatefulSetPodsAllocator's and DeploymentPodsAllocator's configuration."""

    kind: str = "statefulset"
    app_id: str = ""
    namespace: str = "default"
    driver_pod: str | None = None
    driver_readiness_timeout_ms: Millis = 1_000
    wait_for_driver: bool = True
    claims: tuple[ClaimTemplate, ...] = ()
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class RollConfig:
    """ExecutorRollPlugin's configuration."""

    interval_ms: Millis
    policy: str = "OUTLIER"
    tasks_min: int = 0
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class ResizeConfig:
    """ExecutorResizePlugin's and ExecutorPVCResizePlugin's configuration."""

    interval_ms: Millis
    threshold: float
    factor: float
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class KubernetesConfig:
    """All of the Kubernetes side. A plugin that is off is None; ``replicas`` is None under the direct allocator."""

    pods: PodRules = field(default_factory=PodRules)
    allocation: AllocationConfig = field(default_factory=AllocationConfig)
    lifecycle: LifecycleConfig = field(default_factory=LifecycleConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)
    sources: SourcesConfig = field(default_factory=SourcesConfig)
    replicas: ReplicasConfig | None = None
    roll: RollConfig | None = None
    resize: ResizeConfig | None = None
    claim_resize: ResizeConfig | None = None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A whole application: dynamic allocation, if it is on, over the Kubernetes side."""

    scaling: ScalingConfig
    kubernetes: KubernetesConfig
    dynamic: bool = True
