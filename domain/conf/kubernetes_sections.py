"""One section of the KubernetesConfig at a time, read as the class that uses it reads its keys.

Each function walks its class's keys in that class's order and leaves what cannot be used in ``Reads.errors``. What YARN's
classes read as well stands in ``conf.backend_config``. The values are *effective* ones, which is where a rule is easily
got wrong:

- the creation timeout is at least five times the batch delay;
- claims are limited by maxExecutors under dynamic allocation, by spark.executor.instances (2 when unset) without;
- executorIdleTimeout protects pods without dynamic allocation too;
- a plugin runs only if spark.plugins names its class, its interval is above 0 and what it needs is there.
"""

from __future__ import annotations

from typing import Final

from returns.pipeline import is_successful

from podtide.domain.base.units import Millis
from podtide.domain.conf.backend_config import (
    DEFAULT_EXECUTORS,
    app_id_of,
    executors_initial,
    failures_max,
    failures_window,
    force_kill_timeout,
    registered_ratio,
)
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION, INSTANCES, MAX, dynamic_allocation_enabled
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.conf.volumes import claim_templates, executor_volumes
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, SPARK_EXCEPTION
from podtide.domain.jvm.values import INT_MAX, to_long
from podtide.domain.protocol import cluster_config as configs
from podtide.domain.protocol.allocation_policies import Policies
from podtide.domain.protocol.pods import SPARK_CONTAINER, PodRules

K: Final = "spark.kubernetes."
ALLOCATOR: Final = K + "allocation.pods.allocator"
DELETION_COST: Final = K + "executor.podDeletionCost"
DRIVER_POD: Final = K + "driver.pod.name"
PENDING: Final = K + "allocation.maxPendingPods"
PENDING_PER_PROFILE: Final = K + "allocation.maxPendingPodsPerRp"
CONTAINER_NAME: Final = K + "executor.podTemplateContainerName"
PREFIX: Final = K + "executor.podNamePrefix"
DELETE: Final = K + "executor.deleteOnTermination"
OWN_CLAIMS: Final = K + "driver.ownPersistentVolumeClaim"
CLUSTER_MODE: Final = K + "submitInDriver"

PLUGINS: Final = "spark.plugins"
PLUGINS_BEFORE: Final = "spark.plugins.defaultList"
_PLUGIN_PACKAGE: Final = "org.apache.spark.scheduler.cluster.k8s."
ROLL_PLUGIN: Final = _PLUGIN_PACKAGE + "ExecutorRollPlugin"
RESIZE_PLUGIN: Final = _PLUGIN_PACKAGE + "ExecutorResizePlugin"
CLAIM_RESIZE_PLUGIN: Final = _PLUGIN_PACKAGE + "ExecutorPVCResizePlugin"

DIRECT: Final = "direct"
REPLICA_KINDS: Final = ("statefulset", "deployment")


# ------------------------------------------------------------------------------------------------- machine by machine


def pod_rules(reads: Reads) -> PodRules:
    """ExecutorPodsSnapshot's two settings, as KubernetesClusterManager sets them."""
    return PodRules(reads.flag(K + "executor.checkAllContainers"), reads.text(CONTAINER_NAME) or SPARK_CONTAINER)


def lifecycle_config(reads: Reads, *, remarks: bool) -> configs.LifecycleConfig:
    """ExecutorPodsLifecycleManager's constructor, start and lazy fields, and its failure tracker."""
    container = reads.text(CONTAINER_NAME)
    failures = failures_max(reads)
    window = failures_window(reads)
    return configs.LifecycleConfig(
        interval_ms=reads.int(K + "executor.eventProcessingInterval"),
        removed_cache_ms=reads.seconds(K + "executor.deletedExecutorsCacheTimeout"),
        missing_delta_ms=reads.int(K + "executor.missingPodDetectDelta"),
        delete_on_termination=reads.flag(DELETE),
        failures_max=failures,
        failures_window_ms=window,
        spark_container=SPARK_CONTAINER if container is None else container,
        remarks=remarks,
    )


def allocation_config(reads: Reads, policies: Policies, *, remarks: bool) -> configs.AllocationConfig:
    """ExecutorPodsAllocator's constructor, key by key."""
    dynamic = dynamic_allocation_enabled(reads)
    claims_max = reads.int(MAX) if dynamic else reads.raw_int(INSTANCES, DEFAULT_EXECUTORS)
    own, reuse = reads.flag(OWN_CLAIMS), reads.flag(K + "driver.reusePersistentVolumeClaim")
    wait = reads.flag(K + "driver.waitToReusePersistentVolumeClaim")
    batch_size, batch_delay = reads.int(K + "allocation.batch.size"), reads.int(K + "allocation.batch.delay")
    pods_max = reads.int(K + "allocation.maximum")
    recovery = reads.value(K + "allocation.recoveryMode.enabled")
    pending_max, pending_each = reads.int(PENDING), reads.int(PENDING_PER_PROFILE)
    if pending_each != INT_MAX and pending_each > pending_max:
        message = (
            f"requirement failed: Maximum pending pods per resource profile ID ({pending_each}) must be less than or "
            f"equal to maximum pending pods ({pending_max})."
        )
        reads.refuse(PENDING_PER_PROFILE, f"at most {PENDING} ({pending_max})", ILLEGAL_ARGUMENT, message)
    return configs.AllocationConfig(
        batch_size=batch_size,
        batch_delay_ms=batch_delay,
        pending_max=pending_max,
        pending_max_per_profile=pending_each,
        pods_max=pods_max,
        create_timeout_ms=max(to_long(5 * batch_delay), reads.int(K + "allocation.executor.timeout")),
        driver_readiness_timeout_ms=reads.seconds(K + "allocation.driver.readinessTimeout"),
        wait_for_driver=not reads.flag(K + "driver.service.publishNotReadyAddresses"),
        idle_timeout_ms=reads.seconds("spark.dynamicAllocation.executorIdleTimeout"),
        namespace=reads.text(K + "namespace") or "",
        driver_pod=reads.text(DRIVER_POD),
        delete_on_termination=reads.flag(DELETE),
        dynamic=dynamic,
        claims_max=claims_max,
        own_claims=own,
        reuse_claims=reuse,
        wait_for_claims=own and reuse and wait,
        recovery_mode=recovery if isinstance(recovery, bool) else None,
        task_cpus=reads.decimal("spark.task.cpus"),
        policies=policies,
        remarks=remarks,
    )


def check_deletion_cost(reads: Reads, allocator: str, *, dynamic: bool) -> None:
    """KubernetesClusterManager's condition for Deployments under dynamic allocation."""
    if allocator == "deployment" and dynamic and reads.value(DELETION_COST) is None:
        message = f"Dynamic allocation with the deployment pods allocator requires '{DELETION_COST}' to be configured."
        reads.refuse(DELETION_COST, f"a whole number: {ALLOCATOR}=deployment needs it", SPARK_EXCEPTION, message)


def check_cluster_mode(reads: Reads) -> None:
    """spark-submit in cluster mode names the driver pod."""
    if (reads.conf.raw(CLUSTER_MODE) or "").strip().lower() == "true" and reads.text(DRIVER_POD) is None:
        message = (
            "requirement failed: If the application is deployed using spark-submit in cluster mode, the driver pod name "
            "must be provided."
        )
        reads.refuse(DRIVER_POD, "the name of the driver pod", ILLEGAL_ARGUMENT, message)


def sources_config(reads: Reads) -> configs.SourcesConfig:
    """The watch, the polling source and the end of the snapshot store."""
    return configs.SourcesConfig(
        watch=reads.flag(K + "executor.enableApiWatcher"),
        poll_interval_ms=reads.int(K + "executor.apiPollingInterval"),
        poll=reads.flag(K + "executor.enableApiPolling"),
        poll_with_version=reads.flag(K + "executor.enablePollingWithResourceVersion"),
        shutdown_grace_ms=reads.seconds(K + "executorSnapshotsSubscribersShutdownGracePeriod"),
    )


def backend_config(reads: Reads, notices: list[ConfNotice], allocator: str, *, remarks: bool) -> configs.BackendConfig:
    """CoarseGrainedSchedulerBackend's constructor, then KubernetesClusterSchedulerBackend's, then what they read later."""
    ratio, kill_after = registered_ratio(reads), force_kill_timeout(reads)
    cost = reads.value(DELETION_COST)
    return configs.BackendConfig(
        registered_wait_ms=reads.int("spark.scheduler.maxRegisteredResourcesWaitingTime"),
        unknown_decommissions_max=reads.int("spark.scheduler.maxRetainedUnknownDecommissionExecutors"),
        force_kill_timeout_ms=kill_after,
        registered_ratio=ratio,
        executors_initial=executors_initial(reads, notices),
        app_id=app_id_of(reads.conf),
        allocator=allocator,
        config_map=not reads.flag(K + "executor.disableConfigMap"),
        grace_ms=reads.int(K + "dynamicAllocation.deleteGracePeriod"),
        decommission_label=reads.text(K + "executor.decommissionLabel"),
        decommission_label_value=reads.text(K + "executor.decommissionLabelValue") or "",
        deletion_cost=cost if isinstance(cost, int) else None,
        delete_services=reads.flag(K + "driver.service.deleteOnTermination"),
        own_claims=reads.flag(OWN_CLAIMS),
        delete_on_termination=reads.flag(DELETE),
        remarks=remarks,
    )


def replicas_config(reads: Reads, kind: str, *, remarks: bool) -> configs.ReplicasConfig:
    """The constructor of StatefulSetPodsAllocator or DeploymentPodsAllocator; claims and app id are the caller's."""
    return configs.ReplicasConfig(
        kind=kind,
        driver_readiness_timeout_ms=reads.seconds(K + "allocation.driver.readinessTimeout"),
        wait_for_driver=not reads.flag(K + "driver.service.publishNotReadyAddresses"),
        namespace=reads.text(K + "namespace") or "",
        driver_pod=reads.text(DRIVER_POD),
        remarks=remarks,
    )


def claims_of(reads: Reads) -> tuple[configs.ClaimTemplate, ...]:
    """The claims of the executors' volumes; none where a volume cannot be used."""
    volumes = executor_volumes(reads.conf)
    if is_successful(volumes):
        return claim_templates(volumes.unwrap())
    reads.errors.append(volumes.failure())
    return ()


# --------------------------------------------------------------------------------------------------------- the plugins


def plugin_configs(
    reads: Reads, notices: list[ConfNotice], allocator: str, *, remarks: bool
) -> tuple[configs.RollConfig | None, configs.ResizeConfig | None, configs.ResizeConfig | None]:
    """The three plugins that are named, in Spark's order, as their ``init`` would have them."""
    roll: configs.RollConfig | None = None
    resize: configs.ResizeConfig | None = None
    claim_resize: configs.ResizeConfig | None = None
    for name in _plugin_names(reads.conf):
        match name:
            case _ if name == ROLL_PLUGIN:
                roll = _roll(reads, notices, remarks=remarks)
            case _ if name == RESIZE_PLUGIN and _needs_direct(notices, "ExecutorResizePlugin", allocator):
                every = reads.seconds(K + "executor.resizeInterval")
                disabled = "ExecutorResizePlugin disabled (interval <= 0)."
                resize = _resize(reads, notices, K + "executor.resize", every, disabled, remarks=remarks)
            case _ if name == CLAIM_RESIZE_PLUGIN and _needs_direct(notices, "ExecutorPVCResizePlugin", allocator):
                every = to_long(60_000 * reads.int(K + "executor.pvc.resizeInterval"))
                disabled = "PVCResizePlugin disabled (interval <= 0)."
                claim_resize = _resize(reads, notices, K + "executor.pvc.resize", every, disabled, remarks=remarks)
                if claim_resize is not None:
                    notices.append(
                        ConfNotice(NoticeLevel.INFO, "ExecutorPVCResizeDriverPlugin is scheduled", spark=True)
                    )
    return roll, resize, claim_resize


def _plugin_names(conf: SparkConf) -> list[str]:
    names = (name.strip() for key in (PLUGINS_BEFORE, PLUGINS) for name in (conf.raw(key) or "").split(","))
    return list(dict.fromkeys(name for name in names if name))


def _roll(reads: Reads, notices: list[ConfNotice], *, remarks: bool) -> configs.RollConfig | None:
    interval = reads.seconds(K + "executor.rollInterval")
    if interval <= 0:
        text = f"Disabled due to invalid interval value, '{interval}'"
        notices.append(ConfNotice(NoticeLevel.WARNING, text, spark=True))
        return None
    if not reads.flag(DECOMMISSION):
        notices.append(ConfNotice(NoticeLevel.WARNING, f"Disabled because {DECOMMISSION} is false.", spark=True))
        return None
    tasks_min = reads.int(K + "executor.minTasksPerExecutorBeforeRolling")
    return configs.RollConfig(interval, reads.text(K + "executor.rollPolicy") or "OUTLIER", tasks_min, remarks)


def _needs_direct(notices: list[ConfNotice], plugin: str, allocator: str) -> bool:
    if allocator == DIRECT:
        return True
    text = f"{plugin} requires the 'direct' pods allocator; {ALLOCATOR} is {allocator}. Plugin will not start."
    notices.append(ConfNotice(NoticeLevel.WARNING, text, spark=True))
    return False


def _resize(
    reads: Reads, notices: list[ConfNotice], keys: str, interval: Millis, disabled: str, *, remarks: bool
) -> configs.ResizeConfig | None:
    if interval <= 0:
        notices.append(ConfNotice(NoticeLevel.INFO, disabled, spark=True))
        return None
    return configs.ResizeConfig(interval, reads.double(f"{keys}Threshold"), reads.double(f"{keys}Factor"), remarks)


# -------------------------------------------------------------------------------------------------------------- reading


def derived_prefix(conf: SparkConf, app_id: str) -> str:
    """KubernetesConf.getResourceNamePrefix, with the application's id in the place of Spark's random one."""
    text = f"{conf.raw('spark.app.name') or ''}-{app_id}".strip().lower()
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign == "-") else "-" for sign in text)
    name = "-".join(part for part in kept.split("-") if part)
    if kept.endswith("-"):
        name += "-"
    return f"x{name[1:]}" if name[:1].isdecimal() else name
