"""The configuration of each machine of a cluster manager's side: one frozen field per Spark key, in the core's units.

Like ``config``, these records are filled by ``conf`` and read no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from pyrsistent import pmap

from podtide.domain.base.units import Millis
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.containers import ContainerSpec, Resource
from podtide.domain.protocol.pods import EXECUTOR_ID, ON_DEMAND, SPARK_CONTAINER, PodRules

INT_MAX: Final = 2**31 - 1


DEFAULT_CONTAINERS: Final = ContainerSpec(Resource(1_408, 1), 1_024, 1)
"""Spark's defaults: a heap of 1 GiB, the least overhead, one core."""


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
    """The scheduler backend's configuration: what Kubernetes' and YARN's have in common, and what Kubernetes' has besides.

    ``allocator``: "direct", "statefulset", "deployment" or a class name. ``registered_ratio``: effective (0.8 when
    unset). ``force_kill_timeout_ms``: spark.executor.decommission.forceKillTimeout. ``ask_timeout_ms``: how long an
    application master is waited for (spark.rpc.askTimeout).
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
    ask_timeout_ms: Millis = 120_000
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """HeartbeatReceiver's configuration.

    ``timeout_ms``: effective (spark.storage.blockManagerHeartbeatTimeoutMs, else spark.network.timeout). ``check_ms``:
    spark.network.timeoutInterval. ``interval_ms``: spark.executor.heartbeatInterval, by which executors beat; the receiver
    itself does not need it. ``every_beat``: whoever tells of heartbeats tells every one, so that one that is not told is
    missed; otherwise only where they stop and begin again, and an executor of which nothing is told is alive.
    """

    timeout_ms: Millis = 120_000
    check_ms: Millis = 60_000
    interval_ms: Millis = 10_000
    every_beat: bool = False
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
    heartbeats: HeartbeatConfig = field(default_factory=HeartbeatConfig)


@dataclass(frozen=True, slots=True)
class ExclusionConfig:
    """YarnAllocatorNodeHealthTracker's and ExecutorFailureTracker's configuration.

    ``always``: spark.yarn.exclude.nodes. ``enabled``: spark.yarn.executor.launch.excludeOnFailure.enabled.
    ``window_ms``: spark.executor.failuresValidityInterval; None counts failures for ever.
    """

    always: frozenset[str] = frozenset()
    enabled: bool = False
    failures_per_node_max: int = 2
    timeout_ms: Millis = 3_600_000
    window_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class ContainerRules:
    """What containers are made of, as far as the application's conf decides it; ``yarn.container_specs`` does the sums.

    Memory in MiB. ``overhead_mib``: the default profile's; a share of *its* heap, whatever heap another profile has.
    ``off_heap_enabled``: another profile's off-heap memory counts. ``python_mib``: of the Python workers, if ``python``.
    ``names``: YARN's names of Spark's resources (gpu: yarn.io/gpu), as pairs. ``extra``: of the default profile alone, by
    YARN's names (spark.yarn.executor.resource.*), in units of one. ``types``: custom resources the cluster knows; others
    are dropped, and Spark warns. None: nobody said which, all count.
    """

    profile_rules: ProfileRules = field(default_factory=ProfileRules)
    heap_mib: int = 1_024
    overhead_mib: int = 384
    off_heap_mib: int = 0
    off_heap_enabled: bool = False
    python_mib: int = 0
    python: bool = False
    names: tuple[tuple[str, str], ...] = (("gpu", "yarn.io/gpu"), ("fpga", "yarn.io/fpga"))
    extra: tuple[tuple[str, int], ...] = ()
    types: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class NegotiationConfig:
    """YarnAllocator's configuration.

    ``executors_initial``: the first target of a profile. ``containers``: of the default profile. ``rules``: what those of
    other profiles follow from. ``label``: the node label expression. ``decommission`` is effective: on, and no external
    shuffle service. ``racks``: host to rack, as the topology script has it; other hosts are on the default rack.
    ``launches_awaited``: launches end before anything else happens (spark.yarn.launchContainers=false); they run on a pool
    otherwise.
    """

    executors_initial: int = 2
    containers: ContainerSpec = DEFAULT_CONTAINERS
    rules: ContainerRules = field(default_factory=ContainerRules)
    exclusion: ExclusionConfig = field(default_factory=ExclusionConfig)
    failures_max: int = 3
    label: str | None = None
    decommission: bool = False
    racks: Mapping[str, str] = field(default_factory=pmap)
    launches_awaited: bool = False
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class ReporterConfig:
    """The ApplicationMaster's reporter thread: when it speaks to the resource manager.

    ``heartbeat_ms``: effective, at most half of the resource manager's expiry; 0 waits until somebody wakes it.
    ``initial_ms``: effective, at most ``heartbeat_ms``; while requests wait the interval doubles from there on.
    ``exceptions_max``: exceptions in a row that end the application.
    """

    heartbeat_ms: Millis = 3_000
    initial_ms: Millis = 200
    exceptions_max: int = 5
    remarks: bool = False


@dataclass(frozen=True, slots=True)
class YarnConfig:
    """All of the YARN side: the allocator and its reporter in the application master, the driver's backend and receiver."""

    allocator: NegotiationConfig = field(default_factory=NegotiationConfig)
    reporter: ReporterConfig = field(default_factory=ReporterConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)
    heartbeats: HeartbeatConfig = field(default_factory=HeartbeatConfig)


def claim_name(template: ClaimTemplate, prefix: str, executor: str) -> str:
    """The name of an executor's claim of this volume. ``prefix``: that of the pods' names."""
    own = f"{prefix}-exec-{executor}-pvc-{template.index}"
    return template.claim.replace(ON_DEMAND, own).replace(EXECUTOR_ID, executor)
