"""From a conf to the YARN side's configuration, as Spark 4.3.0 reads it."""

from __future__ import annotations

import pytest
from returns.pipeline import is_successful

from podtide.domain.conf.settings import NoticeLevel, Refused
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.conf.yarn_config import YarnSettings, yarn_config
from podtide.domain.conf.yarn_sections import NO_DECOMMISSION
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.cluster_config import ExclusionConfig, ReporterConfig, YarnConfig
from podtide.domain.protocol.containers import Resource

EXPIRY = "spark.hadoop.yarn.am.liveness-monitor.expiry-interval-ms"
HEARTBEAT = "spark.yarn.scheduler.heartbeat.interval-ms"
INITIAL = "spark.yarn.scheduler.initial-allocation.interval"
RESOURCE = "spark.yarn.executor.resource."
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
NUMBER = "java.lang.NumberFormatException"
ILLEGAL = "java.lang.IllegalArgumentException"


def settings_of(conf: dict[str, str]) -> YarnSettings:
    return yarn_config(from_mapping({"spark.master": "yarn", **conf}, "test")).unwrap()


def config_of(**conf: str) -> YarnConfig:
    """Names below spark., with underscores for dots."""
    return settings_of({f"spark.{name.replace('_', '.')}": value for name, value in conf.items()}).config


def refused(conf: dict[str, str]) -> Refused[YarnSettings]:
    return yarn_config(from_mapping({"spark.master": "yarn", **conf}, "test")).failure()


def test_defaults() -> None:
    settings = settings_of({})
    config = settings.config
    assert config == YarnConfig(
        allocator=config.allocator, backend=config.backend
    )  # the reporter's are those of the record
    assert not settings.enabled
    assert settings.notices == ()
    assert config.backend.allocator == "yarn"
    assert config.backend.registered_ratio == 0.8
    assert (config.allocator.executors_initial, config.backend.executors_initial, config.allocator.failures_max) == (
        2,
        2,
        3,
    )
    assert config.allocator.containers.resource == Resource(1_408, 1)
    assert config.allocator.exclusion == ExclusionConfig()
    assert not config.allocator.launches_awaited


@pytest.mark.parametrize(
    ("conf", "reporter"),
    [
        ({HEARTBEAT: "1s"}, ReporterConfig(1_000, 200)),
        ({HEARTBEAT: "100"}, ReporterConfig(100, 100)),
        ({HEARTBEAT: "-5s"}, ReporterConfig(0, 0)),
        ({HEARTBEAT: "1h"}, ReporterConfig(300_000, 200)),
        ({HEARTBEAT: "10s", EXPIRY: " 15001 "}, ReporterConfig(7_500, 200)),
        ({EXPIRY: "-7"}, ReporterConfig(0, 0)),
        ({EXPIRY: ""}, ReporterConfig(3_000, 200)),
        ({INITIAL: "5s"}, ReporterConfig(3_000, 3_000)),
        ({"spark.yarn.scheduler.reporterThread.maxFailures": "1"}, ReporterConfig(exceptions_max=1)),
    ],
)
def test_the_reporters_intervals(conf: dict[str, str], reporter: ReporterConfig) -> None:
    assert settings_of(conf).config.reporter == reporter


@pytest.mark.parametrize(
    ("conf", "first", "failures"),
    [
        ({"spark.executor.instances": "7"}, 7, 14),
        ({"spark.executor.instances": "1"}, 1, 3),
        ({**DYNAMIC}, 0, 2**31 - 1),
        ({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "9", "spark.executor.instances": "4"}, 4, 18),
        ({"spark.executor.maxNumFailures": "1"}, 2, 1),
        ({"spark.yarn.max.executor.failures": "5"}, 2, 5),
    ],
)
def test_executors_and_failures(conf: dict[str, str], first: int, failures: int) -> None:
    config = settings_of(conf).config
    assert (config.allocator.executors_initial, config.allocator.failures_max) == (first, failures)
    assert config.backend.executors_initial == first


@pytest.mark.parametrize(
    ("conf", "exclusion"),
    [
        ({"spark.yarn.exclude.nodes": "a, b ,,a"}, ExclusionConfig(always=frozenset({"a", "b"}))),
        ({"spark.yarn.executor.launch.excludeOnFailure.enabled": "true"}, ExclusionConfig(enabled=True)),
        ({"spark.excludeOnFailure.timeout": "5min"}, ExclusionConfig(timeout_ms=300_000)),
        ({"spark.scheduler.executorTaskExcludeOnFailureTime": "5"}, ExclusionConfig(timeout_ms=5)),
        (
            {"spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "9"},
            ExclusionConfig(failures_per_node_max=9),
        ),
        ({"spark.executor.failuresValidityInterval": "1h"}, ExclusionConfig(window_ms=3_600_000)),
        ({"spark.executor.failuresValidityInterval": "-1"}, ExclusionConfig()),
    ],
)
def test_exclusion(conf: dict[str, str], exclusion: ExclusionConfig) -> None:
    assert settings_of(conf).config.allocator.exclusion == exclusion


def test_decommissioning_needs_the_absence_of_a_shuffle_service() -> None:
    on = {"spark.decommission.enabled": "true"}
    assert settings_of(on).config.allocator.decommission
    both = settings_of({**on, "spark.shuffle.service.enabled": "true"})
    assert not both.config.allocator.decommission
    assert [notice.text for notice in both.notices if notice.level is NoticeLevel.WARNING] == [NO_DECOMMISSION]
    assert settings_of({"spark.shuffle.service.enabled": "true"}).notices == ()


@pytest.mark.parametrize(("label", "warned"), [("gpu", False), ("", False), ("a&&b", True), ("a||b", True)])
def test_a_label_that_is_two_is_told(label: str, warned: bool) -> None:
    settings = settings_of({"spark.yarn.executor.nodeLabelExpression": label})
    assert settings.config.allocator.label == label
    assert [notice.level for notice in settings.notices] == [NoticeLevel.WARNING] * warned


@pytest.mark.parametrize(
    ("conf", "resource"),
    [
        ({"executor_memory": "4g"}, Resource(4_505, 1)),
        ({"executor_memory": "4g", "executor_memoryOverhead": "1g"}, Resource(5_120, 1)),
        ({"executor_memory": "4g", "executor_memoryOverheadFactor": "0.5"}, Resource(6_144, 1)),
        ({"kubernetes_memoryOverheadFactor": "0.9"}, Resource(1_408, 1)),
        ({"memory_offHeap_size": "300m"}, Resource(1_408, 1)),
        ({"memory_offHeap_size": "300m", "memory_offHeap_enabled": "true"}, Resource(1_708, 1)),
        ({"executor_pyspark_memory": "100m"}, Resource(1_408, 1)),
        ({"executor_pyspark_memory": "100m", "yarn_isPython": "true"}, Resource(1_508, 1)),
        ({"executor_cores": "5"}, Resource(1_408, 5)),
        ({"executor_resource_gpu_amount": "2"}, Resource(1_408, 1, (("yarn.io/gpu", 2),))),
        (
            {"executor_resource_gpu_amount": "2", "yarn_resourceGpuDeviceName": "a/gpu"},
            Resource(1_408, 1, (("a/gpu", 2),)),
        ),
        ({"yarn_executor_resource_q_amount": "3"}, Resource(1_408, 1, (("q", 3),))),
        ({"yarn_executor_resource_q_amount": "3k"}, Resource(1_408, 1, (("q", 3_000),))),
        ({"yarn_executor_resource_q_amount": "2g"}, Resource(1_408, 1, (("q", 2 * 10**9),))),
        ({"yarn_executor_resource_q_amount": "1Ki"}, Resource(1_408, 1, (("q", 1_024),))),
        ({"yarn_executor_resource_q_amount": "1500m"}, Resource(1_408, 1, (("q", 1),))),
    ],
)
def test_containers_of_the_default_profile(conf: dict[str, str], resource: Resource) -> None:
    assert config_of(**conf).allocator.containers.resource == resource


@pytest.mark.parametrize(
    ("conf", "key", "exception", "message"),
    [
        ({EXPIRY: "soon"}, EXPIRY, NUMBER, 'For input string: "soon"'),
        (
            {"spark.yarn.launchContainers": "perhaps"}, "spark.yarn.launchContainers", ILLEGAL,
            'Illegal value for config key spark.yarn.launchContainers: For input string: "perhaps"',
        ),
        (
            {"spark.yarn.containerLauncherMaxThreads": "0"}, "spark.yarn.containerLauncherMaxThreads", ILLEGAL, "",
        ),
        (
            {RESOURCE + "q": "1"}, RESOURCE + "q", ILLEGAL,
            f"Missing suffix for {RESOURCE}q, you must specify a suffix - amount is currently the only supported suffix.",
        ),
        (
            {RESOURCE + "q.size": "1"}, RESOURCE + "q.size", ILLEGAL,
            f"Unsupported suffix: size in: {RESOURCE}q.size, only .amount is supported.",
        ),
        (
            {RESOURCE + "q.amount": "1.5"}, RESOURCE + "q.amount", ILLEGAL,
            "Resource request for 'q' ('1.5') does not match pattern ([0-9]+)([A-Za-z]*).",
        ),
        (
            {RESOURCE + "q.amount": "9" * 20}, RESOURCE + "q.amount", ILLEGAL,
            f'Invalid request for q: For input string: "{"9" * 20}"',
        ),
        (
            {RESOURCE + "q.amount": "1x"}, RESOURCE + "q.amount", ILLEGAL,
            "Invalid request for q: Unknown unit 'x'. Known units are [, p, n, u, m, k, M, G, T, P, Ki, Mi, Gi, Ti, Pi]",
        ),
        (
            {RESOURCE + "memory-mb.amount": "1", RESOURCE + "yarn.io/gpu.amount": "1"}, RESOURCE + "memory-mb.amount",
            "org.apache.spark.SparkException",
            f"Error: Do not use {RESOURCE}memory-mb.amount, please use spark.executor.memory instead!\n"
            f"Error: Do not use {RESOURCE}yarn.io/gpu.amount, please use spark.executor.resource.gpu.amount instead!\n",
        ),
        (
            {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "1", "spark.executor.instances": "2"},
            "spark.dynamicAllocation.maxExecutors", ILLEGAL,
            "requirement failed: initial executor number 2 must between min executor number 0 and max executor number 1",
        ),
    ],
)  # fmt: skip
def test_what_spark_refuses(conf: dict[str, str], key: str, exception: str, message: str) -> None:
    refusal = refused(conf)
    assert refusal.errors[0].key == key
    assert refusal.construct == SparkFault(exception, message)
    assert refusal.settings.config.backend.allocator == "yarn"


def test_all_failures_are_told() -> None:
    keys = [error.key for error in refused({HEARTBEAT: "x", "spark.executor.memory": "y", RESOURCE + "q": "1"}).errors]
    assert keys == ["spark.executor.memory", HEARTBEAT, RESOURCE + "q"]


def test_racks_and_remarks_are_the_callers() -> None:
    conf = from_mapping({"spark.master": "yarn", "spark.yarn.launchContainers": "false"}, "test")
    config = yarn_config(conf, racks={"h": "/r"}, remarks=True).unwrap().config
    assert config.allocator.racks == {"h": "/r"}
    assert (config.allocator.remarks, config.reporter.remarks, config.backend.remarks) == (True, True, True)
    assert config.allocator.launches_awaited


def test_the_conf_is_told_apart_from_mistakes() -> None:
    assert is_successful(yarn_config(from_mapping({"spark.yarn.queue": "q"}, "test")))
