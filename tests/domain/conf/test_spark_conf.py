"""SparkConf: reading, layering, versions; against recorded answers of Spark 4.3.0."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from returns.pipeline import is_successful

from podtide.adapters.conformance.scenario_configs import scaling_scenario
from podtide.domain.base.units import NEVER
from podtide.domain.conf.entries import KEYS, is_known, suspect
from podtide.domain.conf.entry_types import release
from podtide.domain.conf.review import conflicts, review
from podtide.domain.conf.scaling_config import scaling_config
from podtide.domain.conf.settings import NoticeLevel
from podtide.domain.conf.spark_conf import (
    COMMAND_LINE,
    EVENT_LOG,
    ConfError,
    SparkConf,
    check,
    from_arguments,
    from_mapping,
    layered,
    read,
    unresolved,
)
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.values import double_text, parse_double

HERE = Path(__file__).parent
READINGS = json.loads((HERE / "conf_readings.json").read_text())
BESIDES, READINGS = READINGS[0][1], READINGS[1:]
ENTRIES = json.loads((HERE / "conf_entries.json").read_text())[1:]
CONSTRUCTED = json.loads((HERE / "manager_construct.json").read_text())[1:]

DA = "spark.dynamicAllocation."


def conf_of(settings: dict[str, str], version: str = "4.3.0") -> SparkConf:
    return from_mapping(settings, EVENT_LOG, parse_version(version))


def value_of(name: str, settings: dict[str, str] | None = None, version: str = "4.3.0") -> object:
    return read(conf_of(settings or {}, version), name).unwrap().value


def failure_of(name: str, settings: dict[str, str]) -> ConfError:
    return read(conf_of(settings), name).failure()


def spelled(value: object) -> str:
    match value:
        case None:
            return "<none>"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case tuple():
            return f"[{'|'.join(value)}]"
        case _:
            return str(value)


@pytest.mark.parametrize("row", READINGS, ids=range(len(READINGS)))
def test_reads_as_spark_does(row: list[str]) -> None:
    name, text, answer = row
    reading = read(conf_of({**BESIDES, name: text}), name)
    if answer.startswith("!"):
        assert f"!{reading.failure().raised}" == answer
    elif isinstance(value := reading.unwrap().value, Decimal):
        assert value == Decimal(answer)
    else:
        assert spelled(value) == answer


@pytest.mark.parametrize("row", ENTRIES, ids=[row[0] for row in ENTRIES])
def test_the_table_is_sparks(row: list[Any]) -> None:
    name, kind, default, since, public, alternatives = row
    key = KEYS[name]
    expected = {"Optional": None, "Fallback": None}.get(kind, default)
    assert key.default((4, 3, 0)) == expected
    assert kind != "Fallback" or default == f"<value of {key.fallback}>"
    assert key.internal is not public
    assert {old for old, _ in key.alternatives} >= set(alternatives)
    # Streaming's keys are older than their registration says.
    assert key.since == release(since) or name.startswith("spark.streaming.")


@pytest.mark.parametrize("row", CONSTRUCTED, ids=range(len(CONSTRUCTED)))
def test_constructs_the_manager_as_spark_does(row: list[Any]) -> None:
    settings, reliable, answer = row
    config = scaling_scenario(settings, reliable_shuffle_storage=reliable)
    if isinstance(config, SparkFault):
        assert str(config) == answer
    else:
        assert config.executors_initial == answer


@pytest.mark.parametrize(
    ("name", "by_version"),
    [
        ("spark.kubernetes.allocation.batch.size", {"2.4.0": 5, "3.5.7": 5, "4.0.0": 10, "4.1.2": 10, "4.2.0": 20}),
        (DA + "shuffleTracking.enabled", {"3.0.0": False, "3.3.4": False, "3.4.0": True, "4.3.0": True}),
        ("spark.kubernetes.driver.ownPersistentVolumeClaim", {"3.2.0": False, "3.4.0": True}),
        ("spark.kubernetes.driver.reusePersistentVolumeClaim", {"3.3.0": False, "3.4.0": True}),
        ("spark.kubernetes.executor.checkAllContainers", {"3.5.0": False, "4.0.0": True}),
        ("spark.kubernetes.executor.useDriverPodIP", {"4.2.0": False, "4.3.0": True}),
        ("spark.storage.decommission.shuffleBlocks.enabled", {"3.3.0": False, "3.4.0": True}),
        ("spark.shuffle.service.removeShuffle", {"3.5.0": False, "4.0.0": True}),
        ("spark.shuffle.service.db.backend", {"3.5.0": "LEVELDB", "4.0.0": "ROCKSDB"}),
        ("spark.speculation.multiplier", {"3.5.0": 1.5, "4.0.0": 3.0}),
    ],
)
def test_defaults_follow_the_version(name: str, by_version: dict[str, object]) -> None:
    assert {version: value_of(name, version=version) for version in by_version} == by_version


@pytest.mark.parametrize(
    ("text", "name", "remarked"),
    [
        ("4.3.0", "4.3", False),
        ("3.3.0-amzn-0", "3.3", False),
        ("3.1.0-SNAPSHOT", "3.1", False),
        ("v3.5", "3.5", False),
        ("2.4.8", "2.4", False),
        ("2.2.3", "2.4", True),
        ("1.6.0", "2.4", True),
        ("4.4.0", "4.3", True),
        ("99.0.1", "4.3", True),
        ("databricks", "4.3", True),
        ("", "4.3", True),
        (None, "4.3", True),
    ],
)
def test_versions_map_to_a_release(text: str | None, name: str, remarked: bool) -> None:
    version = parse_version(text)
    assert version.name == name
    assert (version.remark is not None) is remarked


def test_later_layers_win_and_remember_where_they_come_from() -> None:
    log = conf_of({DA + "minExecutors": "1", DA + "maxExecutors": "9"}, "3.5.1")
    file = from_mapping({DA + "minExecutors": "2", DA + "initialExecutors": "3"}, "file x.conf:1")
    arguments = from_arguments([DA + "initialExecutors=4"]).unwrap()
    conf = layered(log, file, arguments)
    origins = {key: (read(conf, DA + key).unwrap().value, read(conf, DA + key).unwrap().origin) for key in
               ("maxExecutors", "minExecutors", "initialExecutors", "executorIdleTimeout")}  # fmt: skip
    assert origins == {
        "maxExecutors": (9, EVENT_LOG),
        "minExecutors": (2, "file x.conf:1"),
        "initialExecutors": (4, COMMAND_LINE),
        "executorIdleTimeout": (60, "default of Spark 3.5"),
    }


def test_a_fallback_names_the_key_that_lends() -> None:
    reading = read(conf_of({DA + "minExecutors": "3"}), DA + "initialExecutors").unwrap()
    assert reading == (3, "3", f"value of {DA}minExecutors ({EVENT_LOG})")


@pytest.mark.parametrize(
    ("pair", "name", "text"),
    [("spark.a=1", "spark.a", "1"), ("spark.a=", "spark.a", ""), ("spark.a=b=c", "spark.a", "b=c"),
     (" spark.a = 1 ", " spark.a ", " 1 ")],
)  # fmt: skip
def test_arguments_split_at_the_first_sign(pair: str, name: str, text: str) -> None:
    assert from_arguments([pair]).unwrap().settings == {name: (text, COMMAND_LINE)}


def test_all_malformed_arguments_are_named() -> None:
    errors = from_arguments(["spark.a", "spark.b=1", "=x"]).failure()
    assert [error.key for error in errors] == ["spark.a", ""]
    assert str(errors[0].raised) == "org.apache.spark.SparkException: Spark config without '=': spark.a"


def test_an_empty_text_is_a_value() -> None:
    assert failure_of("spark.executor.cores", {"spark.executor.cores": ""}).value == ""


def test_check_collects_every_error() -> None:
    conf = conf_of({DA + "minExecutors": "x", "spark.executor.memory": "1.5g", "spark.task.cpus": "1", "spark.x": "?"})
    assert [(error.key, error.value) for error in check(conf)] == [
        (DA + "minExecutors", "x"),
        ("spark.executor.memory", "1.5g"),
    ]


def test_an_error_says_key_value_origin_and_expectation() -> None:
    error = failure_of(DA + "executorIdleTimeout", {DA + "executorIdleTimeout": "1.5m"})
    assert str(error) == (
        "spark.dynamicAllocation.executorIdleTimeout = '1.5m' (event log): expected a whole number with a time suffix "
        "(us, ms, s, m, min, h, d; s without), such as 60s or 2m"
    )


@pytest.mark.parametrize(
    ("old", "name", "text", "value"),
    [
        ("spark.yarn.executor.memoryOverhead", "spark.executor.memoryOverhead", "4g", 4096),
        ("spark.yarn.max.executor.failures", "spark.executor.maxNumFailures", "8", 8),
        ("spark.yarn.executor.failuresValidityInterval", "spark.executor.failuresValidityInterval", "7s", 7000),
        ("spark.unsafe.offHeap", "spark.memory.offHeap.enabled", "true", True),
    ],
)
def test_other_names_are_read(old: str, name: str, text: str, value: object) -> None:
    reading = read(conf_of({old: text}), name).unwrap()
    assert (reading.value, reading.origin) == (value, f"{EVENT_LOG}, as {old}")
    assert value_of(name, {old: text, name: text}) == value


def test_names_that_a_release_dropped_are_ignored_from_then_on() -> None:
    settings = {"spark.blacklist.timeout": "7s"}
    assert value_of("spark.excludeOnFailure.timeout", settings, "3.5.0") == 7000
    assert value_of("spark.excludeOnFailure.timeout", settings, "4.1.0") is None


def test_references_that_bomb_are_refused() -> None:
    settings = {"spark.r0": "x" * 50} | {f"spark.r{n}": f"${{spark.r{n - 1}}}" * 10 for n in range(1, 30)}
    error = failure_of("spark.kubernetes.namespace", {**settings, "spark.kubernetes.namespace": "${spark.r29}"})
    assert error.raised is None
    long_chain = {f"spark.r{n}": f"${{spark.r{n + 1}}}" for n in range(5_000)}
    assert failure_of("spark.kubernetes.namespace", {**long_chain, "spark.kubernetes.namespace": "${spark.r0}"})
    many = {"spark.kubernetes.namespace": "${spark.a}" * 2_000}
    assert "references" in failure_of("spark.kubernetes.namespace", many).expected


def test_references_to_the_environment_stay_and_are_found() -> None:
    text = "${env:HOME}/${system:user.name}/${spark.a}"
    assert value_of("spark.kubernetes.namespace", {"spark.kubernetes.namespace": text}) == text
    assert unresolved(text) == ("env:HOME", "system:user.name")


@given(st.text(alphabet="${}:a b.spark", max_size=60))
def test_any_reference_text_is_read_or_refused(text: str) -> None:
    settings = {"spark.kubernetes.namespace": text, "spark.a": "1", "spark.s": "${spark.a}"}
    assert read(conf_of(settings), "spark.kubernetes.namespace") is not None


@given(st.floats())
def test_a_double_written_as_java_does_reads_back(value: float) -> None:
    text = double_text(value)
    assert parse_double(text) == value or text == "NaN"


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=30))
def test_any_text_of_any_key_is_read_or_refused(name: str, text: str) -> None:
    reading = read(conf_of({name: text}), name)
    assert is_successful(reading) or reading.failure().expected


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        (DA + "minExecutor", DA + "minExecutors"),
        ("spark.dynamicallocation.maxexecutors", DA + "maxExecutors"),
        ("spark.kubernetes.allocation.batch.sise", "spark.kubernetes.allocation.batch.size"),
        ("spark.executor.instance", "spark.executor.instances"),
        ("spark.Executor.Cores", "spark.executor.cores"),
        (DA + "zzz", ""),
        ("spark.executor.ownThing", None),
        ("spark.sql.shuffle.partitions", None),
        ("spark.kubernetes.executor.label.team", None),
        ("spark.executor.resource.gpu.amount", None),
        (DA + "x" * 5_000, ""),
    ],
)
def test_mistaken_keys_are_suspected(name: str, guess: str | None) -> None:
    assert suspect(name) == guess
    assert guess is None or not is_known(name)


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "a\\", "*a", "a|+", "(?i", "x" * 20_000])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    failure = failure_of("spark.redaction.regex", {"spark.redaction.regex": pattern})
    assert failure.expected == "a regular expression"


@pytest.mark.parametrize("pattern", ["(?i)a|b", "[(]", "[^)]", "\\(+a", "\\Q(\\E", "\\Q(", "(?:a)+", "a*+", "", "[a]]"])
def test_a_pattern_may_be_involved(pattern: str) -> None:
    assert value_of("spark.redaction.regex", {"spark.redaction.regex": pattern}) == pattern


def texts(settings: dict[str, str], version: str = "4.3.0") -> str:
    return "\n".join(notice.text for notice in review(conf_of(settings, version)))


@pytest.mark.parametrize(
    ("settings", "version", "said"),
    [
        ({DA + "minExecutor": "1"}, "4.3.0", f"Spark does not know {DA}minExecutor; did you mean {DA}minExecutors?"),
        ({DA + "shuffleTracking.enabled": "true"}, "2.4.0", "Spark 2.4 does not know"),
        ({"spark.yarn.executor.memoryOverhead": "1g"}, "4.3.0", "Please use the new key 'spark.executor"),
        ({"spark.blacklist.timeout": "1s"}, "4.3.0", "ignores spark.blacklist.timeout"),
        ({"spark.executor.port": "1"}, "4.3.0", "deprecated as of Spark 2.0.0"),
        ({"spark.kubernetes.namespace": "${env:NS}"}, "4.3.0", "env:NS"),
        ({}, "1.6.1", "older than 2.4"),
        ({"spark.redaction.regex": "(a+)+$"}, "4.3.0", "redaction"),
    ],
)  # fmt: skip
def test_what_is_odd_is_said(settings: dict[str, str], version: str, said: str) -> None:
    assert said in texts(settings, version)


def test_review_of_a_hostile_conf_is_short() -> None:
    assert len(review(conf_of({f"{DA}x{n}": "" for n in range(5_000)}))) < 110


def test_pending_limits_that_contradict_are_an_error() -> None:
    name = "spark.kubernetes.allocation.maxPendingPods"
    (error,) = conflicts(conf_of({name: "2", name + "PerRp": "5"}))
    assert "(5) must be less than or equal to maximum pending pods (2)." in str(error.raised)
    assert conflicts(conf_of({name: "5", name + "PerRp": "5"})) == ()
    assert conflicts(conf_of({name: "x", name + "PerRp": "5"})) == ()


def test_scaling_config_in_the_cores_units() -> None:
    settings = {
        "spark.master": "yarn",
        DA + "enabled": "true",
        DA + "minExecutors": "2",
        DA + "maxExecutors": "40",
        "spark.executor.instances": "5",
        DA + "executorIdleTimeout": "90",
        DA + "cachedExecutorIdleTimeout": "9223372036854775807",
        DA + "shuffleTracking.timeout": "2m",
        "spark.task.cpus": "0.5",
    }
    settled = scaling_config(conf_of(settings)).unwrap()
    config = settled.config
    assert settled.enabled
    assert (config.executors_min, config.executors_initial, config.executors_max) == (2, 5, 40)
    assert config.idle_timeout_ms == 90_000
    assert config.cached_idle_timeout_ms == NEVER
    assert config.shuffle_timeout_ms == 120_000
    assert (config.shuffle_tracking, config.rdd_from_service) == (True, False)
    assert config.profile_rules.task_cpus == Decimal("0.5")
    assert config.profile_rules.cores_limit_known


@pytest.mark.parametrize(
    ("settings", "known"),
    [({"spark.master": "k8s://x"}, True), ({"spark.master": "YARN"}, True), ({"spark.master": "yarn-client"}, False),
     ({"spark.master": "spark://x"}, False), ({}, False), ({"spark.executor.cores": "1"}, True)],
)  # fmt: skip
def test_when_cores_bound_tasks(settings: dict[str, str], known: bool) -> None:
    assert scaling_config(conf_of(settings)).unwrap().config.profile_rules.cores_limit_known is known


def test_an_external_shuffle_service_turns_tracking_off() -> None:
    settings = {"spark.shuffle.service.enabled": "true", "spark.shuffle.service.fetch.rdd.enabled": "true"}
    config = scaling_config(conf_of(settings)).unwrap().config
    assert (config.shuffle_tracking, config.rdd_from_service) == (False, True)


def test_sparks_own_warnings_are_values() -> None:
    settings = {DA + "minExecutors": "2", DA + "initialExecutors": "1", "spark.decommission.enabled": "true"}
    notices = scaling_config(conf_of(settings)).unwrap().notices
    assert [notice.text.split(",")[0] for notice in notices if notice.level is NoticeLevel.WARNING] == [
        f"{DA}initialExecutors less than {DA}minExecutors is invalid",
        f"spark.executor.instances less than {DA}minExecutors is invalid",
        "You are enabling both shuffle tracking and other DA supported mechanism",
    ]
    assert all(notice.spark for notice in notices)


def test_every_error_is_collected_and_the_first_is_sparks() -> None:
    settings = {DA + "minExecutors": "x", DA + "maxExecutors": "0", DA + "executorAllocationRatio": "2"}
    settings |= {DA + "executorIdleTimeout": "-1", DA + "sustainedSchedulerBacklogTimeout": "0"}
    refused = scaling_config(conf_of(settings)).failure()
    assert [error.key.removeprefix(DA) for error in refused.errors] == [
        "minExecutors", "maxExecutors", "sustainedSchedulerBacklogTimeout", "executorAllocationRatio",
        "executorIdleTimeout",
    ]  # fmt: skip
    assert "'x' in the config" in refused.construct.message
    assert str(refused.errors[2].raised).endswith(f"SparkException: s{DA}sustainedSchedulerBacklogTimeout must be > 0!")
    assert refused.settings.config.executors_min == 0


def test_an_old_application_without_dynamic_allocation_still_has_settings() -> None:
    refused = scaling_config(conf_of({"spark.master": "yarn"}, "3.1.1")).failure()
    assert refused.construct.message.startswith("Dynamic allocation of executors requires one of the following")
    assert refused.settings.config.executors_max == 2**31 - 1
    assert not refused.settings.enabled
    reliable = scaling_config(conf_of({"spark.master": "yarn"}, "3.1.1"), reliable_shuffle_storage=True)
    assert not reliable.unwrap().config.shuffle_tracking


@pytest.mark.parametrize(
    ("master", "fault"), [("k8s://x", True), ("yarn", True), ("spark://x", False), ("local[2]", False)]
)
def test_backends_refuse_an_initial_target_beyond_the_maximum(master: str, fault: bool) -> None:
    settings = {"spark.master": master, "spark.executor.instances": "9", DA + "maxExecutors": "4"}
    settled = scaling_config(conf_of(settings)).unwrap()
    assert (settled.backend_fault is not None) is fault


@pytest.mark.parametrize(("master", "on"), [("local", False), ("local[4]", False), ("local-cluster[1,1,1]", True)])
def test_a_local_master_allocates_nothing(master: str, on: bool) -> None:
    settings = {"spark.master": master, DA + "enabled": "true"}
    assert scaling_config(conf_of(settings)).unwrap().enabled is on
