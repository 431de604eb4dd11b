"""The configs of conformance scenarios: what each judge's driver sets, and the exception in which it ends."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from podtide.adapters.conformance.scenario_configs import (
    YarnScenario,
    kubernetes_scenario,
    scaling_scenario,
    yarn_scenario,
)
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.cluster_config import ClaimTemplate, KubernetesConfig, ReplicasConfig
from podtide.domain.protocol.pods import PodRules
from tests.support.executor_pod_play import CLAIM_SETTINGS
from tests.support.project import SHARED

CONFORMANCE = SHARED / "conformance"

DA = "spark.dynamicAllocation."
K = "spark.kubernetes."
PENDING_TEXT = (
    "java.lang.IllegalArgumentException: requirement failed: Maximum pending pods per resource profile ID (9) must be less "
    "than or equal to maximum pending pods (4)."
)
HEARTBEAT = "spark.yarn.scheduler.heartbeat.interval-ms"
RESOURCE = "spark.yarn.executor.resource."


def test_a_scenario_may_hold_json_values() -> None:
    config = scaling_scenario({DA + "minExecutors": 2, DA + "executorAllocationRatio": 0.5, DA + "testing": True})
    assert not isinstance(config, SparkFault)
    assert (config.executors_min, config.ratio, config.testing) == (2, 0.5, True)


def test_a_scenario_reads_only_what_the_allocator_reads() -> None:
    answer = yarn_scenario({HEARTBEAT: "x", "spark.executor.cores": 3}, {}, awaited=True, remarks=False)
    assert isinstance(answer, YarnScenario)
    assert answer.config.containers.cores == 3
    assert answer.config.launches_awaited
    refusal = yarn_scenario({"spark.executor.instances": "x"}, {}, awaited=True, remarks=False)
    assert isinstance(refusal, SparkFault)
    assert "spark.executor.instances" in refusal.message
    dropped = yarn_scenario({RESOURCE + "q.amount": "3x"}, {}, awaited=False, remarks=False)
    assert isinstance(dropped, YarnScenario)
    assert dropped.config.containers.resource.custom == ()


def config_of(kind: str, conf: dict[str, Any] | None = None, **options: object) -> KubernetesConfig:
    config = kubernetes_scenario(kind, conf or {}, options)
    assert isinstance(config, KubernetesConfig)
    return config


def test_the_other_drivers() -> None:
    assert config_of("lifecycle", {"spark.executor.instances": 4}).lifecycle.failures_max == 8
    assert config_of("store").pods == PodRules()
    assert config_of("poll", {K + "executor.apiPollingInterval": "5s"}).sources.poll_interval_ms == 5_000
    backend = config_of("backend", {K + "allocation.batch.size": 0}, appId="app-7").backend
    assert (backend.app_id, backend.allocator) == ("app-7", "direct")
    scale = config_of("scale", CLAIM_SETTINGS, allocator="deployment", builder="real").replicas
    claims = (ClaimTemplate("data", "OnDemand", 0, "gp", "10Gi"),)
    assert scale == ReplicasConfig("deployment", "app-1", driver_pod="driver", wait_for_driver=False, claims=claims)
    with pytest.raises(ValueError, match="expected one of pods"):
        kubernetes_scenario("yarn", {}, {})


NO_DRIVER = (
    "org.apache.spark.SparkException: No pod was found named driver in the cluster in the namespace default (this was "
    "supposed to be the driver pod.)."
)


@pytest.mark.parametrize(
    ("kind", "conf", "options", "construct"),
    [
        ("scale", {}, {"driverMissing": True}, NO_DRIVER),
        ("pods", {K + "driver.pod.name": "driver"}, {"driverPod": False}, NO_DRIVER),
        ("pods", {K + "allocation.maxPendingPodsPerRp": 9, K + "allocation.maxPendingPods": 4}, {}, PENDING_TEXT),
        (
            "backend",
            {K + "allocation.maxPendingPodsPerRp": 9, K + "allocation.maxPendingPods": 4},
            {"allocator": "direct"},
            PENDING_TEXT,
        ),
    ],
)
def test_drivers_that_cannot_be_made(
    kind: str, conf: dict[str, object], options: dict[str, object], construct: str
) -> None:
    failure = kubernetes_scenario(kind, conf, options)
    assert isinstance(failure, SparkFault)
    assert str(failure) == construct


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="no recorded answers beside the project")
@pytest.mark.parametrize("kind", ["pods", "pods-pvc", "lifecycle", "store", "poll", "scale", "backend"])
def test_recorded_headers(kind: str) -> None:
    """Constructing fails exactly where the judge's driver failed, with its words."""
    for path in sorted((CONFORMANCE / kind).glob("*.jsonl.gz")):
        if ".expect." in path.name:
            continue
        with gzip.open(path, "rt") as scenario, gzip.open(f"{str(path)[:-9]}.expect.jsonl.gz", "rt") as answers:
            header, first = json.loads(scenario.readline()), json.loads(answers.readline())
        config = kubernetes_scenario(kind.partition("-")[0], header["conf"], header.get("options", {}))
        failure = f"construct: {config}" if isinstance(config, SparkFault) else None
        assert first.get("error") == failure, path.name
        if kind == "lifecycle" and isinstance(config, KubernetesConfig):
            found = config.lifecycle.interval_ms, config.lifecycle.failures_max
            assert found == (first["interval"], first["maxNumExecutorFailures"]), path.name
