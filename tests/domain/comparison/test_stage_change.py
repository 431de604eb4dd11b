"""What became of the time of a stage, cause by cause: the parts sum, and each change of one thing has its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from podtide.domain.comparison.account import HostWork, LongestTask, StageAccount, TaskTime, WorkUnit
from podtide.domain.comparison.causes import ChangeCause
from podtide.domain.comparison.stage_change import slow_hosts, stage_change
from podtide.domain.rerun.ledger.causes import Limit
from tests.support.account_play import PLAIN, stages


@given(stages(), stages())
def test_the_parts_sum_to_the_difference(one: StageAccount, two: StageAccount) -> None:
    change = (two.completed_ms - two.submitted_ms) - (one.completed_ms - one.submitted_ms)
    slow = slow_hosts([one]), slow_hosts([two])
    assert sum(stage_change(one, two, slow).values()) == pytest.approx(change, abs=1e-3)


@given(stages())
def test_a_stage_like_another_changes_nothing(one: StageAccount) -> None:
    assert all(abs(ms) < 1e-6 for ms in stage_change(one, one).values())


def longer(by: float, **changed: object) -> StageAccount:
    """The plain stage, its tasks running so many times as long, with other changes."""
    run = round(40_000 * by)
    ends = {"last_launch_ms": 1_000 + round(30_000 * by), "last_end_ms": 1_000 + run, "completed_ms": 1_000 + run}
    given = {"slot_ms": 4 * run, **ends, **changed}
    return replace(PLAIN, **given)  # type: ignore[arg-type]  # fields of it


TWICE = {TaskTime.BLOCKED: 280_000, TaskTime.CPU: 20_000}


@pytest.mark.parametrize(
    ("stage", "cause", "detail"),
    [
        (
            longer(2, time_ms=TWICE, amounts={WorkUnit.RECORDS_READ: 3_200, WorkUnit.TASKS: 16}),
            ChangeCause.INPUT,
            "records read",
        ),
        (longer(2, time_ms={**TWICE, TaskTime.CPU: 10_000, TaskTime.BLOCKED: 290_000}), ChangeCause.BLOCKED, ""),
        (longer(2, time_ms={TaskTime.BLOCKED: 140_000, TaskTime.CPU: 160_000}), ChangeCause.CPU, ""),
        (longer(2, time_ms=TWICE, spilled_bytes=10**9), ChangeCause.SPILL, ""),
        (
            longer(
                1.5,
                time_ms={TaskTime.BLOCKED: 215_000, TaskTime.CPU: 10_000},
                hosts=(HostWork("a", 8, 75_000, 800), HostWork("b", 8, 150_000, 800)),
            ),
            ChangeCause.SLOW_HOST,
            "b",
        ),
        (
            longer(
                1.5,
                time_ms={TaskTime.BLOCKED: 215_000, TaskTime.CPU: 10_000},
                remote=HostWork("", 4, 112_500, 400),
                hosts=(HostWork("a", 16, 225_000, 1_600),),
            ),
            ChangeCause.LOCALITY,
            "",
        ),
        (longer(2, slot_ms=160_000, missing_ms={Limit.MAXIMUM: 100_000}), ChangeCause.EXECUTORS, "maximum"),
        (longer(2, slot_ms=160_000, lost_slot_ms=100_000), ChangeCause.LOST, ""),
        (longer(2, wasted_ms=150_000), ChangeCause.LOST, ""),
        (longer(2, last_launch_ms=2_000, longest=LongestTask(80_000, 900, "a", 5_000, 50)), ChangeCause.SKEW, ""),
        (longer(2, last_launch_ms=2_000, longest=LongestTask(80_000, 100, "a", 5_000, 100)), ChangeCause.STRAGGLER, ""),
        (longer(2, tasks=2), ChangeCause.PARTITIONS, ""),
        (longer(2, others_ms=160_000), ChangeCause.SHARED, ""),
        (longer(2, last_launch_ms=81_000), ChangeCause.SCHEDULING, ""),
        (replace(PLAIN, completed_ms=90_000), ChangeCause.DRIVER, ""),
    ],
)
def test_one_thing_that_changes_is_named(stage: StageAccount, cause: ChangeCause, detail: str) -> None:
    for one, two, sign in ((PLAIN, stage, 1), (stage, PLAIN, -1)):
        change = stage_change(one, two, (slow_hosts([one]), slow_hosts([two])))
        most = max(change, key=lambda part: sign * change[part])
        assert most == (cause, detail), change


def test_a_host_with_few_tasks_is_slow_if_it_is_so_in_most_stages() -> None:
    """Scheduling gives a slow host few tasks of each stage; one long task of one stage may be long for its own reasons."""
    slow = replace(
        PLAIN,
        longest=LongestTask(40_000, 100, "b", 10_000, 100),
        hosts=(HostWork("a", 15, 150_000, 1_500), HostWork("b", 1, 40_000, 100), HostWork("c", 4, 41_000, 400)),
    )
    assert slow_hosts([slow]) == frozenset()
    assert slow_hosts([slow, slow, PLAIN]) == {"b"}
    assert slow_hosts([slow, slow, replace(PLAIN, hosts=slow.hosts[::2]), PLAIN, PLAIN, PLAIN]) == frozenset()
