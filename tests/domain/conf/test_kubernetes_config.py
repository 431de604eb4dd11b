"""From a conf to the config of the Kubernetes side: effective values, refusals in Spark's order, plugins, scenarios."""

from __future__ import annotations

from decimal import Decimal

import pytest
from returns.pipeline import is_successful

from podtide.domain.conf.kubernetes_config import KubernetesSettings, kubernetes_config
from podtide.domain.conf.kubernetes_sections import CLAIM_RESIZE_PLUGIN, RESIZE_PLUGIN, ROLL_PLUGIN
from podtide.domain.conf.settings import ConfNotice, Refused
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.protocol import cluster_config
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES
from podtide.domain.protocol.pods import PodRules
from tests.support.executor_pod_play import CLAIM, CLAIM_SETTINGS
from tests.support.project import SHARED

CONFORMANCE = SHARED / "conformance"

K = "spark.kubernetes."
DA = "spark.dynamicAllocation."
DYNAMIC = {DA + "enabled": "true"}
MASTER = {"spark.master": "k8s://https://api", "spark.app.id": "spark-1", "spark.app.name": "My App"}


def read(settings: dict[str, str], version: str = "4.3.0") -> KubernetesSettings:
    return kubernetes_config(from_mapping({**MASTER, **settings}, "test", parse_version(version))).unwrap()


def refused(settings: dict[str, str]) -> Refused[KubernetesSettings]:
    result = kubernetes_config(from_mapping({**MASTER, **settings}, "test"))
    assert not is_successful(result)
    return result.failure()


def test_defaults_are_sparks() -> None:
    config = read({}).config
    assert config == cluster_config.KubernetesConfig(
        allocation=cluster_config.AllocationConfig(dynamic=False, claims_max=2, pod_name_prefix="my-app-spark-1"),
        backend=cluster_config.BackendConfig(app_id="spark-1"),
    )
    assert config.pods == PodRules(check_all_containers=True)
    assert config.lifecycle == cluster_config.LifecycleConfig()
    assert config.sources == cluster_config.SourcesConfig()


NETWORK = "spark.network.timeout"
LOOKS = "spark.network.timeoutInterval"
SILENCE = "spark.storage.blockManagerHeartbeatTimeoutMs"
BEATS = "spark.executor.heartbeatInterval"


@pytest.mark.parametrize(
    ("settings", "timeout_ms", "check_ms"),
    [
        ({}, 120_000, 60_000),
        ({NETWORK: "300"}, 300_000, 60_000),
        ({NETWORK: "15s", LOOKS: "3s"}, 15_000, 3_000),
        ({SILENCE: "70s", LOOKS: "70000"}, 70_000, 70_000),
        ({"spark.storage.blockManagerSlaveTimeoutMs": "90000"}, 90_000, 60_000),
        ({SILENCE: "10m", NETWORK: "11s"}, 600_000, 60_000),
    ],
)
def test_how_long_an_executor_may_be_silent(settings: dict[str, str], timeout_ms: int, check_ms: int) -> None:
    assert read(settings).config.heartbeats == cluster_config.HeartbeatConfig(timeout_ms, check_ms)
    assert read({BEATS: "2s"}).config.heartbeats.interval_ms == 2_000


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({NETWORK: "10s", LOOKS: "1s"}, NETWORK,
         "org.apache.spark.SparkIllegalArgumentException: [INVALID_SPARK_CONFIG.INVALID_EXECUTOR_HEARTBEAT_INTERVAL] "
         f"Invalid Spark config: The value of {NETWORK}=10000ms must be greater than the value of {BEATS}=10000ms. "
         "SQLSTATE: 42616"),
        ({NETWORK: "59s"}, LOOKS,
         f"java.lang.IllegalArgumentException: requirement failed: {LOOKS} should be less than or equal to {NETWORK}."),
        ({SILENCE: "59s"}, LOOKS,
         f"java.lang.IllegalArgumentException: requirement failed: {LOOKS} should be less than or equal to {SILENCE}."),
        ({SILENCE: "9s", LOOKS: "1s"}, BEATS,
         f"java.lang.IllegalArgumentException: requirement failed: {BEATS} should be less than or equal to {SILENCE}"),
    ],
)  # fmt: skip
def test_a_silence_that_is_too_short_is_refused(settings: dict[str, str], key: str, message: str) -> None:
    failure = refused({**settings, "spark.plugins": "no.such.Plugin"})
    assert [(error.key, str(error.raised)) for error in failure.errors] == [(key, message)]


def test_defaults_follow_the_version() -> None:
    config = read({}, "3.3.0").config
    assert (config.allocation.batch_size, config.allocation.own_claims) == (5, False)
    assert config.pods.check_all_containers is False


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({K + "allocation.executor.timeout": "3s"}, "create_timeout_ms", 5_000),
        ({K + "allocation.executor.timeout": "3s", K + "allocation.batch.delay": "200ms"}, "create_timeout_ms", 3_000),
        ({"spark.executor.instances": "7"}, "claims_max", 7),
        ({**DYNAMIC, "spark.executor.instances": "7"}, "claims_max", cluster_config.INT_MAX),
        ({**DYNAMIC, DA + "maxExecutors": "9"}, "claims_max", 9),
        ({DA + "executorIdleTimeout": "90s"}, "idle_timeout_ms", 90_000),
        ({K + "driver.waitToReusePersistentVolumeClaim": "true"}, "wait_for_claims", True),
        (
            {K + "driver.waitToReusePersistentVolumeClaim": "true", K + "driver.reusePersistentVolumeClaim": "false"},
            "wait_for_claims",
            False,
        ),
        ({K + "driver.service.publishNotReadyAddresses": "true"}, "wait_for_driver", False),
        ({K + "allocation.driver.readinessTimeout": "2m"}, "driver_readiness_timeout_ms", 120_000),
        ({K + "allocation.recoveryMode.enabled": "false"}, "recovery_mode", False),
        ({"spark.task.cpus": "0.5"}, "task_cpus", Decimal("0.5")),
        ({K + "executor.podNamePrefix": "etl"}, "pod_name_prefix", "etl"),
        ({"spark.app.name": "2 Apps!"}, "pod_name_prefix", "x-apps-spark-1"),
        ({K + "allocation.maxPendingPodsPerRp": "4", K + "allocation.maxPendingPods": "4"}, "pending_max_per_profile", 4),
        ({K + "driver.pod.name": "drv"}, "driver_pod", "drv"),
        ({K + "namespace": "jobs"}, "namespace", "jobs"),
    ],
)  # fmt: skip
def test_allocation(settings: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(settings).config.allocation, field) == value


@pytest.mark.parametrize(
    ("settings", "failures_max"),
    [
        ({}, 3),
        ({"spark.executor.instances": "1"}, 3),
        ({"spark.executor.instances": "10"}, 20),
        ({**DYNAMIC, DA + "maxExecutors": "8", "spark.executor.instances": "1"}, 16),
        ({**DYNAMIC}, cluster_config.INT_MAX),
        ({**DYNAMIC, DA + "maxExecutors": "1073741823"}, 2_147_483_646),
        ({**DYNAMIC, DA + "maxExecutors": "1073741824"}, cluster_config.INT_MAX),
        (
            {
                "spark.streaming.dynamicAllocation.enabled": "true",
                "spark.streaming.dynamicAllocation.maxExecutors": "5",
                "spark.executor.instances": "100",
            },
            10,
        ),
        ({"spark.executor.maxNumFailures": "1"}, 1),
        ({"spark.yarn.max.executor.failures": "2"}, 2),
    ],
)
def test_failures_that_stop_an_application(settings: dict[str, str], failures_max: int) -> None:
    assert read(settings).config.lifecycle.failures_max == failures_max


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({}, "executors_initial", 2),
        ({"spark.executor.instances": "5"}, "executors_initial", 5),
        (DYNAMIC, "executors_initial", 0),
        ({**DYNAMIC, DA + "minExecutors": "1", "spark.executor.instances": "5"}, "executors_initial", 5),
        ({"spark.scheduler.minRegisteredResourcesRatio": "0.5"}, "registered_ratio", 0.5),
        ({"spark.scheduler.minRegisteredResourcesRatio": "1.5"}, "registered_ratio", 1.0),
        ({"spark.scheduler.maxRegisteredResourcesWaitingTime": "1m"}, "registered_wait_ms", 60_000),
        ({K + "dynamicAllocation.deleteGracePeriod": "0"}, "grace_ms", 0),
        ({"spark.executor.decommission.forceKillTimeout": "2m"}, "force_kill_timeout_ms", 120_000),
        ({K + "executor.disableConfigMap": "true"}, "config_map", False),
        ({K + "executor.podDeletionCost": "-7"}, "deletion_cost", -7),
        ({K + "executor.decommissionLabel": "leaving"}, "decommission_label", "leaving"),
        ({"spark.scheduler.maxRetainedUnknownDecommissionExecutors": "3"}, "unknown_decommissions_max", 3),
    ],
)
def test_backend(settings: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(settings).config.backend, field) == value


def test_lifecycle_and_sources() -> None:
    settings = {
        K + "executor.eventProcessingInterval": "3s",
        K + "executor.deletedExecutorsCacheTimeout": "10s",
        K + "executor.missingPodDetectDelta": "7s",
        K + "executor.podTemplateContainerName": "main",
        K + "executor.deleteOnTermination": "false",
        K + "executor.enableApiPolling": "false",
        K + "executor.apiPollingInterval": "5s",
        K + "executorSnapshotsSubscribersShutdownGracePeriod": "1m",
    }
    config = read(settings).config
    assert config.lifecycle == cluster_config.LifecycleConfig(3_000, 10_000, 7_000, False, spark_container="main")
    assert config.sources == cluster_config.SourcesConfig(poll=False, poll_interval_ms=5_000, shutdown_grace_ms=60_000)
    assert config.pods == PodRules(spark_container="main")
    assert config.allocation.delete_on_termination is config.backend.delete_on_termination is False


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_scaling_allocators(kind: str) -> None:
    config = read({K + "allocation.pods.allocator": kind, K + "driver.pod.name": "drv", **CLAIM_SETTINGS}).config
    claims = (cluster_config.ClaimTemplate("data", "OnDemand", 0, "gp", "10Gi"),)
    assert config.replicas == cluster_config.ReplicasConfig(kind, "spark-1", driver_pod="drv", claims=claims)
    assert config.backend.allocator == kind
    assert config.allocation.claims == claims


@pytest.mark.parametrize("name", ["direct", "com.example.MyAllocator"])
def test_other_allocators_have_no_replicas(name: str) -> None:
    config = read({K + "allocation.pods.allocator": name}).config
    assert (config.replicas, config.backend.allocator) == (None, name)


def test_policies_and_remarks_go_where_they_belong() -> None:
    conf = from_mapping({**MASTER, "spark.plugins": RESIZE_PLUGIN}, "test")
    config = kubernetes_config(conf, policies=FIXED_POLICIES, remarks=True).unwrap().config
    assert config.allocation.policies is FIXED_POLICIES
    assert read({}).config.allocation.policies is SPARK_POLICIES
    assert config.resize is not None
    parts = (config.allocation, config.lifecycle, config.backend, config.resize)
    assert all(part.remarks for part in parts)


# -------------------------------------------------------------------------------------------------------------- refusals

PENDING_TEXT = (
    "java.lang.IllegalArgumentException: requirement failed: Maximum pending pods per resource profile ID (9) must be less "
    "than or equal to maximum pending pods (4)."
)


@pytest.mark.parametrize(
    ("settings", "key", "construct"),
    [
        (
            {K + "allocation.maxPendingPodsPerRp": "9", K + "allocation.maxPendingPods": "4"},
            K + "allocation.maxPendingPodsPerRp",
            PENDING_TEXT,
        ),
        (
            {**DYNAMIC, K + "allocation.pods.allocator": "deployment"},
            K + "executor.podDeletionCost",
            "org.apache.spark.SparkException: Dynamic allocation with the deployment pods allocator requires "
            "'spark.kubernetes.executor.podDeletionCost' to be configured.",
        ),
        (
            {K + "submitInDriver": "true"},
            K + "driver.pod.name",
            "java.lang.IllegalArgumentException: requirement failed: If the application is deployed using spark-submit in "
            "cluster mode, the driver pod name must be provided.",
        ),
        (
            {**DYNAMIC, DA + "initialExecutors": "5", DA + "maxExecutors": "4"},
            DA + "maxExecutors",
            "java.lang.IllegalArgumentException: requirement failed: initial executor number 5 must between min executor "
            "number 0 and max executor number 4",
        ),
        (
            {K + "executor.podNamePrefix": "My_App"},
            K + "executor.podNamePrefix",
            "org.apache.spark.SparkIllegalArgumentException: [INVALID_CONF_VALUE.REQUIREMENT] The value 'My_App' in the "
            'config "spark.kubernetes.executor.podNamePrefix" is invalid. must conform '
            "https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names and the value "
            "length <= 237 SQLSTATE: 22022",
        ),
        (
            {"spark.executor.instances": " 3"},
            "spark.executor.instances",
            "java.lang.NumberFormatException: Illegal value for config key spark.executor.instances: For input string: "
            '" 3"',
        ),
        (
            {CLAIM + "mount.path": "/data"},
            CLAIM + "options.claimName",
            "java.util.NoSuchElementException: persistentVolumeClaim.data.options.claimName is required for "
            "persistentVolumeClaim",
        ),
    ],
)
def test_what_spark_refuses(settings: dict[str, str], key: str, construct: str) -> None:
    refusal = refused(settings)
    assert (refusal.errors[0].key, str(refusal.construct)) == (key, construct)


def test_all_failures_are_collected_in_sparks_order() -> None:
    refusal = refused(
        {
            K + "executor.apiPollingInterval": "0",
            K + "allocation.batch.size": "0",
            K + "executor.missingPodDetectDelta": "x",
            K + "executor.rollInterval": "-1",
            "spark.plugins": ROLL_PLUGIN,
        }
    )
    assert [error.key.removeprefix(K) for error in refusal.errors] == [
        "executor.rollInterval", "executor.missingPodDetectDelta", "allocation.batch.size",
        "executor.apiPollingInterval",
    ]  # fmt: skip
    assert refusal.settings.config.allocation.batch_size == 20


def test_only_the_allocator_that_is_chosen_reads_its_keys() -> None:
    settings = {K + "allocation.batch.size": "0", K + "allocation.pods.allocator": "statefulset"}
    assert read(settings).config.replicas is not None


# --------------------------------------------------------------------------------------------------------------- plugins

ROLL = {"spark.plugins": ROLL_PLUGIN, "spark.decommission.enabled": "true", K + "executor.rollInterval": "1h"}


@pytest.mark.parametrize(
    ("settings", "roll"),
    [
        ({}, None),
        (ROLL, cluster_config.RollConfig(3_600_000)),
        ({**ROLL, K + "executor.rollPolicy": "add_time"}, cluster_config.RollConfig(3_600_000, "ADD_TIME")),
        (
            {**ROLL, K + "executor.minTasksPerExecutorBeforeRolling": "9"},
            cluster_config.RollConfig(3_600_000, tasks_min=9),
        ),
        ({**ROLL, "spark.plugins": f" a.B , {ROLL_PLUGIN} ,"}, cluster_config.RollConfig(3_600_000)),
        (
            {**ROLL, "spark.plugins": "a.B", "spark.plugins.defaultList": ROLL_PLUGIN},
            cluster_config.RollConfig(3_600_000),
        ),
        ({**ROLL, "spark.plugins": "ExecutorRollPlugin"}, None),
        ({**ROLL, K + "executor.rollInterval": "0"}, None),
        ({**ROLL, "spark.decommission.enabled": "false"}, None),
    ],
)
def test_rolling(settings: dict[str, str], roll: cluster_config.RollConfig | None) -> None:
    assert read(settings).config.roll == roll


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({**ROLL, K + "executor.rollInterval": "0"}, "Disabled due to invalid interval value, '0'"),
        ({**ROLL, "spark.decommission.enabled": "false"}, "Disabled because spark.decommission.enabled is false."),
        (
            {"spark.plugins": RESIZE_PLUGIN, K + "allocation.pods.allocator": "statefulset"},
            "ExecutorResizePlugin requires the 'direct' pods allocator; spark.kubernetes.allocation.pods.allocator is "
            "statefulset. Plugin will not start.",
        ),
        (
            {"spark.plugins": RESIZE_PLUGIN, K + "executor.resizeInterval": "0"},
            "ExecutorResizePlugin disabled (interval <= 0).",
        ),
        (
            {"spark.plugins": CLAIM_RESIZE_PLUGIN, K + "executor.pvc.resizeInterval": "0"},
            "PVCResizePlugin disabled (interval <= 0).",
        ),
        ({"spark.plugins": CLAIM_RESIZE_PLUGIN}, "ExecutorPVCResizeDriverPlugin is scheduled"),
    ],
)
def test_what_plugins_say_when_they_start(settings: dict[str, str], text: str) -> None:
    notices: list[ConfNotice] = [notice for notice in read(settings).notices if notice.text == text]
    assert [notice.spark for notice in notices] == [True]


def test_resizing() -> None:
    config = read({"spark.plugins": f"{RESIZE_PLUGIN},{CLAIM_RESIZE_PLUGIN}"}).config
    assert config.resize == cluster_config.ResizeConfig(60_000, 0.9, 0.1)
    assert config.claim_resize == cluster_config.ResizeConfig(300_000, 0.5, 1.0)


@pytest.mark.parametrize("plugin", [RESIZE_PLUGIN, CLAIM_RESIZE_PLUGIN])
def test_p2_resizing_needs_the_direct_allocator(plugin: str) -> None:
    config = read({"spark.plugins": plugin, K + "allocation.pods.allocator": "statefulset"}).config
    assert (config.resize, config.claim_resize) == (None, None)


@pytest.mark.parametrize(("text", "interval"), [("0", None), ("5", 5), ("10", 10), ("15", 15), ("15min", 15)])
def test_p2_intervals(text: str, interval: int | None) -> None:
    config = read({"spark.plugins": CLAIM_RESIZE_PLUGIN, K + "executor.pvc.resizeInterval": text}).config
    assert (config.claim_resize and config.claim_resize.interval_ms) == (interval and interval * 60_000)


@pytest.mark.parametrize("text", ["1", "7", "-5"])
def test_p2_intervals_that_are_refused(text: str) -> None:
    key = K + "executor.pvc.resizeInterval"
    assert [e.key for e in refused({"spark.plugins": CLAIM_RESIZE_PLUGIN, key: text}).errors] == [key]
