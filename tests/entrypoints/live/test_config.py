"""Under which conf a live run decides."""

from __future__ import annotations

import pytest
from returns.pipeline import is_successful

from podtide.domain.conf.spark_conf import SparkConf, from_arguments
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES
from podtide.entrypoints.common.app_config import AppSettings
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.output import Misused
from podtide.entrypoints.live.config import derived_prefix, live_settings

IDLE = "spark.dynamicAllocation.executorIdleTimeout"


def arguments(*pairs: str) -> list[SparkConf]:
    given = from_arguments(pairs)
    assert is_successful(given)
    return [given.unwrap()]


def settings(
    *pairs: str,
    acting: bool = True,
    dynamic: bool | None = False,
    target: int | None = 3,
    driver: dict[str, str] | None = None,
    prefix: str | None = None,
) -> AppSettings:
    layers = arguments("spark.kubernetes.container.image=spark", *pairs)
    return live_settings(
        layers, SPARK_POLICIES, app_id="app-1", namespace="jobs", acting=acting, dynamic=dynamic, target=target,
        driver_conf=driver, prefix=prefix,
    )  # fmt: skip


def test_a_number_is_a_static_application() -> None:
    config = settings().config
    assert not config.dynamic
    assert config.kubernetes.backend.executors_initial == 3
    assert config.kubernetes.backend.app_id == "app-1"
    assert config.kubernetes.allocation.namespace == "jobs"


def test_acting_lists_rarely_and_deletes_at_once_unless_told_otherwise() -> None:
    for config in (settings().config.kubernetes, settings(dynamic=True, target=None, driver={}).config.kubernetes):
        assert config.sources.poll_interval_ms == 300_000
        assert config.backend.grace_ms == 0, "nobody tells an executor to go, with a driver or without"
    told = settings(
        "spark.kubernetes.executor.apiPollingInterval=10s", "spark.kubernetes.dynamicAllocation.deleteGracePeriod=7s"
    ).config.kubernetes
    assert told.sources.poll_interval_ms == 10_000
    assert told.backend.grace_ms == 7_000


def test_a_shadow_has_sparks_own_defaults() -> None:
    config = settings(acting=False).config.kubernetes
    assert config.sources.poll_interval_ms == 30_000
    assert config.backend.grace_ms == 5_000


def test_a_shadow_decides_as_its_driver_is_configured() -> None:
    driver = {"spark.dynamicAllocation.enabled": "true", IDLE: "7s"}
    config = settings(acting=False, dynamic=None, target=None, driver=driver).config
    assert config.dynamic
    assert config.scaling.idle_timeout_ms == 7_000


def test_what_keeps_a_driver_from_acting_is_not_taken_over() -> None:
    parked = {
        "spark.dynamicAllocation.enabled": "true", IDLE: "3650d", "spark.dynamicAllocation.maxExecutors": "40",
        "spark.dynamicAllocation.schedulerBacklogTimeout": "3650d", "spark.kubernetes.allocation.maximum": "1",
        "spark.executor.cores": "4",
    }  # fmt: skip
    config = settings(dynamic=True, target=None, driver=parked).config
    assert config.scaling.idle_timeout_ms == 60_000
    assert config.scaling.backlog_timeout_ms == 1_000
    assert config.scaling.executors_max == 40
    assert config.scaling.profile_rules.executor_cores == 4
    assert config.kubernetes.allocation.pods_max == 2**31 - 1


def test_the_user_overrides_the_driver() -> None:
    config = settings(f"{IDLE}=9s", dynamic=None, acting=False, target=None, driver={IDLE: "7s"}).config
    assert config.kubernetes.allocation.idle_timeout_ms == 9_000


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("My App", "my-app-2f3c5b"), ("  ", "spark-2f3c5b"), ("7 dwarfs", "x7-dwarfs-2f3c5b"), ("a" * 300, "a" * 180),
        ("Ünïcode!", "n-code-2f3c5b"),
    ],
)  # fmt: skip
def test_the_prefix_of_pod_names_is_the_same_after_a_restart(name: str, prefix: str) -> None:
    made = derived_prefix(name, "app-1")
    assert made == derived_prefix(name, "app-1")
    assert made != derived_prefix(name, "app-2")
    assert made.rpartition("-")[0] == (prefix.rpartition("-")[0] or prefix)


def test_the_prefix_of_an_earlier_run_goes_on() -> None:
    assert settings(prefix="old-one").config.kubernetes.allocation.pod_name_prefix == "old-one"


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (("spark.kubernetes.allocation.batch.size=0",), "spark.kubernetes.allocation.batch.size"),
        (("spark.kubernetes.allocation.pods.allocator=com.acme.Mine",), "direct, statefulset, deployment"),
    ],
)
def test_a_conf_that_spark_would_refuse(conf: tuple[str, ...], said: str) -> None:
    with pytest.raises(Misused, match=said):
        settings(*conf)


def test_settings_that_are_none() -> None:
    with pytest.raises(Misused, match="nonsense"):
        given_conf(("nonsense",), None)
    with pytest.raises(Misused, match="no-such-file"):
        given_conf((), "no-such-file")
