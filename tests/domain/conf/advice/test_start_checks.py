"""What earlier Sparks refuse at the start: what keeps shuffle data when an executor goes, release by release."""

from __future__ import annotations

import pytest

from podtide.domain.conf.advice.start_checks import SERVICE_REQUIRED, start_errors, whole_cpus
from podtide.domain.conf.scaling_config import REQUIRED_CONDITIONS
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.jvm.exceptions import SparkFault

DA = "spark.dynamicAllocation."
TRACKING = f"{DA}shuffleTracking.enabled"
SERVICE = "spark.shuffle.service.enabled"
MIGRATED = {"spark.decommission.enabled": "true", "spark.storage.decommission.shuffleBlocks.enabled": "true"}
OFF = {f"{DA}enabled": "true", TRACKING: "false"}


def conf(version: str, settings: dict[str, str]) -> SparkConf:
    return from_mapping(settings, "a test", parse_version(version))


def refused(version: str, settings: dict[str, str]) -> list[tuple[str, str]]:
    found = start_errors(conf(version, settings), ())
    return [(one.key, one.raised.message if one.raised else "") for one in found]


@pytest.mark.parametrize(
    ("version", "more", "key", "message"),
    [
        ("2.4.8", {}, SERVICE, SERVICE_REQUIRED),
        ("2.4.8", {TRACKING: "true"}, SERVICE, SERVICE_REQUIRED),
        ("2.4.8", {SERVICE: "true"}, None, ""),
        ("3.0.3", {}, TRACKING, SERVICE_REQUIRED),
        ("3.0.3", {TRACKING: "true"}, None, ""),
        ("3.0.3", MIGRATED, TRACKING, SERVICE_REQUIRED),
        ("3.1.3", MIGRATED, None, ""),
        ("3.1.3", {"spark.decommission.enabled": "true"}, TRACKING, SERVICE_REQUIRED),
        ("3.5.1", {}, TRACKING, REQUIRED_CONDITIONS),
        ("3.5.1", {f"{DA}testing": "true"}, None, ""),
    ],
)
def test_what_keeps_shuffle_data(version: str, more: dict[str, str], key: str | None, message: str) -> None:
    assert refused(version, {**OFF, **more}) == ([] if key is None else [(key, message)])


@pytest.mark.parametrize(
    ("version", "settings", "key"),
    [
        ("2.4.8", {"spark.task.cpus": "2"}, "spark.task.cpus"),
        ("2.4.8", {"spark.task.cpus": "2", "spark.executor.cores": "1"}, "spark.executor.cores"),
        ("2.4.8", {"spark.task.cpus": "2", "spark.executor.cores": "2"}, None),
        ("3.0.3", {"spark.task.cpus": "2"}, None),
    ],
)
def test_an_executor_without_room_for_a_task(version: str, settings: dict[str, str], key: str | None) -> None:
    found = refused(version, {**OFF, SERVICE: "true", **settings})
    assert [one for one, _ in found] == ([] if key is None else [key])


@pytest.mark.parametrize(("version", "cpus", "wrong"), [("3.5.1", "0.5", 1), ("3.5.1", "2", 0), ("4.3.0", "0.5", 0)])
def test_cores_of_a_task_are_whole_before_4_3(version: str, cpus: str, wrong: int) -> None:
    assert len(whole_cpus(conf(version, {"spark.task.cpus": cpus}))) == wrong


def test_of_the_newest_release_the_errors_stay_as_they_are() -> None:
    known = conf("4.3.0", OFF)
    error = known.refused(TRACKING, "true", SparkFault("x", REQUIRED_CONDITIONS))
    assert start_errors(known, [error]) == (error,)


def test_a_key_that_a_release_does_not_have_is_not_read() -> None:
    """What 4.3.0 says of it is not said; what it says of others is, but for what keeps shuffle data."""
    known = conf("2.4.8", {**OFF, SERVICE: "true"})
    keys = (f"{DA}shuffleTracking.timeout", f"{DA}executorIdleTimeout", "spark.executor.resource.gpu.amount", SERVICE)
    errors = [known.refused(key, "another value", None) for key in keys]
    errors.append(known.refused(SERVICE, "true", SparkFault("x", REQUIRED_CONDITIONS)))
    assert [one.key for one in start_errors(known, errors)] == [f"{DA}executorIdleTimeout", SERVICE]
    later = conf("3.5.1", {**OFF, SERVICE: "true"})
    assert [one.key for one in start_errors(later, errors)] == list(keys)
