"""ResourceProfile arithmetic, against recorded answers of Spark 4.3.0 and by its rules."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import immutable_map_order, mutable_map_order
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.resource_profiles import (
    ResourceProfile,
    default_profile,
    from_added,
    refusal,
    tasks_per_executor,
)
from podtide.domain.protocol.stimuli import ResourceProfileAdded

ANSWERS = json.loads(Path(__file__).with_name("tasks_per_executor.json").read_text())[1:]
RULES = ProfileRules(executor_cores=4)


def custom(executor: dict[str, int], task: dict[str, float]) -> ResourceProfile:
    return ResourceProfile(ProfileId(7), tuple(executor.items()), tuple(task.items()))


@pytest.mark.parametrize("row", ANSWERS, ids=range(len(ANSWERS)))
def test_agrees_with_spark(row: list[Any]) -> None:
    master, cores, cpus, executor, task, answer = row
    known = cores is not None or master.startswith("k8s://") or master.lower() == "yarn"
    rules = ProfileRules(int(cores or 1), known, Decimal(cpus or "1"))
    profile = ResourceProfile(ProfileId(7), tuple((n, a) for n, a in executor), tuple((n, a) for n, a in task))
    got = tasks_per_executor(profile, rules)
    assert (got if isinstance(got, int) else str(got)) == answer


@pytest.mark.parametrize(
    ("cores", "cpus", "tasks"), [(4, "1", 4), (4, "0.5", 8), (1, "0.1", 10), (7, "2", 3), (1, "1e-9", 10**9)]
)
def test_cores_bound_the_default_profile(cores: int, cpus: str, tasks: int) -> None:
    rules = ProfileRules(cores, True, Decimal(cpus))
    assert tasks_per_executor(default_profile(rules), rules) == tasks


def test_unknown_cores_bound_nothing() -> None:
    rules = ProfileRules(executor_cores=1, cores_limit_known=False, task_cpus=Decimal(8))
    assert tasks_per_executor(default_profile(rules), rules) == 1


def test_custom_resources_alone_bound_when_cores_are_unknown() -> None:
    rules = ProfileRules(cores_limit_known=False)
    assert tasks_per_executor(custom({"gpu": 2}, {"gpu": 0.25}), rules) == 8


def test_the_default_profile_takes_custom_resources_of_the_conf() -> None:
    rules = ProfileRules(16, True, Decimal(1), (("gpu", 2),), (("gpu", 0.5),))
    assert default_profile(rules).id == DEFAULT_PROFILE
    assert tasks_per_executor(default_profile(rules), rules) == 4


def test_a_resource_called_cpus_overrides_task_cpus() -> None:
    rules = ProfileRules(4, True, Decimal(1), (), (("cpus", 0.5),))
    assert tasks_per_executor(default_profile(rules), rules) == 8


def test_a_profile_comes_from_its_event() -> None:
    added = ResourceProfileAdded(5, ProfileId(3), (("cores", 4.0), ("gpu", 2.0)), (("cpus", 1.0), ("gpu", 0.5)))
    profile = from_added(added)
    assert profile == ResourceProfile(ProfileId(3), (("cores", 4), ("gpu", 2)), (("cpus", 1.0), ("gpu", 0.5)))
    assert tasks_per_executor(profile, RULES) == 4


@pytest.mark.parametrize(("amount", "kept"), [(1e300, 2**63 - 1), (-1e300, -(2**63)), (float("nan"), 0)])
def test_executor_amounts_become_longs(amount: float, kept: int) -> None:
    added = ResourceProfileAdded(0, ProfileId(1), (("gpu", amount),), ())
    assert from_added(added).executor == (("gpu", kept),)


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ({"cpus": 5.0}, "The number of cores per executor (=4) has to be >= the number of cpus per task = 5."),
        ({"gpu": 1.5}, "assertion failed: The resource amount 1.5 must be either <= 1.0, or a whole number."),
        ({"gpu": 0.7}, "assertion failed: The task resource amount 0.7 must be either <= 0.5, or a whole number."),
        ({"gpu": 1.0}, "No executor resource configs were specified for the following task configs: gpu"),
        ({"cpus": 1e-10}, "requirement failed: The cpus amount 1.0E-10 must be at least 1e-9 and at most 2147483647."),
        ({"cpus": 3e9}, "requirement failed: The cpus amount 3.0E9 must be at least 1e-9 and at most 2147483647."),
    ],
)  # fmt: skip
def test_refuses_a_profile_as_the_manager_does(task: dict[str, float], fault: str) -> None:
    refused = refusal(custom({}, task), RULES)
    assert refused is not None
    assert refused.message == fault


def test_accepts_a_profile_that_works() -> None:
    assert refusal(custom({"gpu": 1}, {"gpu": 0.5}), RULES) is None


def test_a_master_without_profiles_takes_only_the_default_one() -> None:
    rules = ProfileRules(profiles_supported=False)
    refused = refusal(custom({}, {}), rules)
    assert refused is not None
    assert refused.message.startswith("ResourceProfiles are only supported on YARN")
    assert refusal(default_profile(rules), rules) is None


@pytest.mark.parametrize("amount", [float("inf"), float("-inf"), float("nan")])
def test_cpus_that_are_no_number_are_a_fault(amount: float) -> None:
    assert isinstance(tasks_per_executor(custom({}, {"cpus": amount}), RULES), SparkFault)


def test_scala_walks_keys_by_hash() -> None:
    names = ["gpu", "fpga", "tpu", "nic", "disk", "x1"]
    assert sorted(immutable_map_order(names)) == sorted(mutable_map_order(names)) == sorted(names)
    assert mutable_map_order(["gpu", "fpga"]) == ["fpga", "gpu"]
    assert immutable_map_order(["AaBB", "BBAa"]) == ["AaBB", "BBAa"]  # one hash code, order of insertion


amounts = st.floats(allow_nan=True, allow_infinity=True)
longs = st.integers(-(2**63), 2**63 - 1)
names = st.sampled_from(["gpu", "fpga", "cpus", "cores", "memory", "x"])


@given(st.dictionaries(names, longs), st.dictionaries(names, amounts), st.booleans(), longs)
def test_every_profile_has_an_answer(executor: dict[str, int], task: dict[str, float], known: bool, cores: int) -> None:
    answer = tasks_per_executor(custom(executor, task), ProfileRules(cores, known))
    assert isinstance(answer, SparkFault) or -(2**31) <= answer < 2**31
