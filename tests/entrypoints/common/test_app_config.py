"""The configuration of a whole application: valid as a whole, or refused as a whole."""

from __future__ import annotations

import pytest

from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES
from podtide.entrypoints.common.app_config import FIXES, MASTER, AppSettings, app_settings, policies_with
from podtide.entrypoints.common.log_config import SettingsError

K = "spark.kubernetes."
DA = "spark.dynamicAllocation."
IMAGE = {f"{K}container.image": "spark"}


def settled(**given: str) -> AppSettings:
    return app_settings(from_mapping({**IMAGE, **given}, "a test"))


def refused(**given: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as fault:
        settled(**given)
    return {error.key: str(error) for error in fault.value.errors}


def test_the_defaults_are_a_static_application_on_kubernetes() -> None:
    settings = settled()
    config = settings.config
    assert not config.dynamic
    assert config.kubernetes.backend.executors_initial == 2
    assert config.kubernetes.replicas is None
    setting = settings.conf.setting("spark.master")
    assert setting is not None
    assert setting.value == MASTER


def test_dynamic_allocation_is_known_to_all_machines() -> None:
    config = settled(**{f"{DA}enabled": "true", f"{DA}maxExecutors": "7"}).config
    assert (config.dynamic, config.kubernetes.allocation.dynamic) == (True, True)
    assert config.scaling.executors_max == 7


def test_what_dynamic_allocation_would_refuse_is_fine_while_it_is_off() -> None:
    bad = {f"{DA}maxExecutors": "0"}
    assert not settled(**bad).config.dynamic
    assert f"{DA}maxExecutors" in refused(**bad, **{f"{DA}enabled": "true"})


def test_all_that_is_wrong_is_told_at_once_and_once() -> None:
    told = refused(**{f"{DA}enabled": "true", f"{DA}minExecutors": "x", f"{K}allocation.batch.size": "0",
                      f"{K}allocation.batch.delay": "soon"})  # fmt: skip
    assert set(told) == {f"{DA}minExecutors", f"{K}allocation.batch.size", f"{K}allocation.batch.delay"}
    assert all("a test" in line for line in told.values())


def test_notices_are_those_of_what_is_on_and_each_is_said_once() -> None:
    off = [notice.text for notice in settled().notices]
    assert not [text for text in off if "ynamic" in text]
    on = [notice.text for notice in settled(**{f"{DA}enabled": "true"}).notices]
    assert len(on) == len(set(on)) > 0


@pytest.mark.parametrize("allocator", ["statefulset", "deployment"])
def test_sets_take_the_place_of_the_direct_allocator(allocator: str) -> None:
    config = settled(**{f"{K}allocation.pods.allocator": allocator}).config.kubernetes
    assert config.replicas is not None
    assert (config.replicas.kind, config.backend.allocator) == (allocator, allocator)


def test_an_allocator_of_somebody_elses_is_refused() -> None:
    told = refused(**{f"{K}allocation.pods.allocator": "com.example.Mine"})
    assert list(told) == [f"{K}allocation.pods.allocator"]
    assert "direct, statefulset, deployment" in told[f"{K}allocation.pods.allocator"]


def test_remarks_reach_every_machine() -> None:
    config = app_settings(from_mapping(IMAGE, "a test"), remarks=True).config.kubernetes
    assert all((config.allocation.remarks, config.lifecycle.remarks, config.backend.remarks))


# ----------------------------------------------------------------------------------------------------------- fixes


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("SPARK-34519", "back_off"),
        ("SPARK-52589", "forget_ghosts"),
        ("SPARK-58446", "repair_pending"),
        ("excess-running", "delete_excess_running"),
    ],
)
def test_each_fix_is_one_policy(name: str, field: str) -> None:
    policies = policies_with((name,))
    changed = [f for f in policies.__dataclass_fields__ if getattr(policies, f) != getattr(SPARK_POLICIES, f)]
    assert changed == [field]


def test_every_fix_has_a_word_and_reaches_its_machine() -> None:
    settings = app_settings(from_mapping(IMAGE, "a test"), policies_with(("all",)))
    assert settings.config.scaling.repair_pending
    assert settings.config.kubernetes.allocation.policies == FIXED_POLICIES
    assert all(FIXES.values())


def test_a_fix_that_is_none_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no fix 'SPARK-1': expected all or one of SPARK-34519, "):
        policies_with(("SPARK-34519", "SPARK-1"))
