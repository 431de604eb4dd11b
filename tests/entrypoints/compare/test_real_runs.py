"""Comparisons of real runs: runs that differ in one thing each, and every pair of configs of the truth."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.causes import ChangeCause
from podtide.domain.comparison.comparison import Comparison, compare
from podtide.entrypoints.compare.accounts import read_account
from scripts.make_compared_logs import APPLICATION, BASE, CAUSES, COMPARED, KUBERNETES_BASE, RUNS
from scripts.make_truth_logs import TRUTH


@cache
def account(folder: str) -> RunAccount:
    with open_log(folder) as source:
        return read_account(source).account


def run(name: str) -> RunAccount:
    return account(str(COMPARED / APPLICATION / name / "run1" / "log"))


def base_of(name: str) -> RunAccount:
    return run(KUBERNETES_BASE if RUNS[name].kubernetes else BASE)


def check_sums(found: Comparison) -> None:
    """Nothing is left over: causes, pieces, stages' times, the bill."""
    assert sum(one.ms for one in found.causes) == pytest.approx(found.change_ms, abs=0.01)
    assert sum(one.ms for one in found.bill) == found.second.billed_ms - found.first.billed_ms
    assert sum(one.amount for one in found.bill) == pytest.approx(found.cost[1] - found.cost[0])
    for one in found.causes:
        assert sum(ms for _, ms in one.details) == pytest.approx(one.ms)


@pytest.mark.parametrize("name", CAUSES)
def test_the_true_cause_is_named_first(name: str) -> None:
    """Both ways: what made the run longer makes the base's shorter."""
    for first, second in ((base_of(name), run(name)), (run(name), base_of(name))):
        found = compare(first, second)
        check_sums(found)
        named = found.causes[0]
        other_way = {ChangeCause.ADDED: ChangeCause.GONE}
        expected = CAUSES[name] if first is base_of(name) else tuple(other_way.get(one, one) for one in CAUSES[name])
        assert named.cause in expected, [(one.cause.value, round(one.ms)) for one in found.causes[:4]]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("maximum", "spark.dynamicAllocation.maxExecutors"),
        ("few_partitions", "spark.sql.shuffle.partitions"),
        ("backlog", "spark.dynamicAllocation.schedulerBacklogTimeout"),
    ],
)
def test_a_setting_that_did_it_is_named_with_the_cause(name: str, key: str) -> None:
    found = compare(base_of(name), run(name))
    assert [one.key for one in found.causes[0].because] == [key]
    assert [one.key for one in found.conf] == [key]


def test_the_slow_host_is_named() -> None:
    """The host that is named is that of the stage whose tasks took longest for a record."""
    slow = run("slow_host")
    works = [max(stage.hosts, key=lambda one: one.task_ms / max(1, one.units)) for stage in slow.stages]
    found = compare(run(KUBERNETES_BASE), slow)
    assert found.causes[0].details[0][0] in {one.host for one in works}


def truths() -> list[str]:
    return sorted(str(one) for one in TRUTH.glob("*/*/run1/log"))


def test_every_run_of_the_truth_compared_with_its_neighbour_leaves_nothing_over() -> None:
    for one, two in pairwise(truths()):
        found = compare(account(one), account(two))
        check_sums(found)
        for first in (found.first, found.second):
            assert sum(piece.length_ms for piece in first.chain) == first.runtime_ms


def test_a_run_compared_with_itself_has_not_changed() -> None:
    for one in truths()[::7]:
        found = compare(account(one), account(one))
        assert found.within_noise
        assert all(abs(cause.ms) < 0.01 for cause in found.causes)
        assert not found.conf
        assert not found.bill
