"""Stages whose number of tasks follows the registered cores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.protocol import stimuli
from podtide.domain.recorded.application import NO_TASK, Copy, Failure
from podtide.domain.recorded.partitions_by_cores import CoalescedStage, ScannedStage, cut_anew
from tests.support.rerun_play import AT_ONCE, Watched, app, chain, run, stage, static, told

MIB = 1 << 20
EXCHANGE = CoalescedStage(
    1, tasks=6, cores=6, partitions=48, total_bytes=12 * MIB, least_bytes=MIB, advisory_bytes=64 * MIB
)


@pytest.mark.parametrize(
    ("cores", "tasks"),
    [
        pytest.param(6, 6, id="as recorded"),
        pytest.param(3, 3, id="half the cores"),
        pytest.param(12, 12, id="twice the cores"),
        pytest.param(1, 2, id="the default parallelism is never below 2"),
        pytest.param(1_000, 12, id="no partition is made smaller than the minimum"),
    ],
)
def test_a_task_for_every_core(cores: int, tasks: int) -> None:
    assert EXCHANGE.tasks_on(cores) == tasks


def test_a_partition_is_not_made_larger_than_advised() -> None:
    large = EXCHANGE._replace(total_bytes=480 * MIB, tasks=8, cores=6)
    assert large.expected_on(6) == large.expected_on(1) == 8


def test_there_are_never_more_than_before_they_were_coalesced() -> None:
    many = EXCHANGE._replace(tasks=7, partitions=8, total_bytes=1_200 * MIB, advisory_bytes=1_000 * MIB)
    assert many.expected_on(6) == 8
    assert EXCHANGE._replace(partitions=8, tasks=8, total_bytes=1_200 * MIB).tasks_on(1_000) == 8
    assert EXCHANGE._replace(partitions=8, total_bytes=80 * MIB, cores=2, tasks=3).tasks_on(1_000) == 8


@pytest.mark.parametrize(("cores", "tasks"), [(4, 5), (8, 10), (2, 3), (1, 3), (1_000, 1_250)])
def test_a_scan_has_tasks_in_proportion_to_the_cores(cores: int, tasks: int) -> None:
    assert ScannedStage(1, tasks=5, cores=4, tasks_least=1).tasks_on(cores) == tasks


def test_no_split_is_larger_than_the_largest() -> None:
    assert ScannedStage(1, tasks=9, cores=8, tasks_least=7).tasks_on(2) == 7


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), st.integers(1, 60))
def test_the_work_is_the_same_however_it_is_cut(bodies: list[int], tasks: int) -> None:
    cut = cut_anew(stage(0, bodies), tasks)
    assert (cut.tasks, sum(cut.body_ms)) == (tasks, sum(bodies))
    assert min(cut.body_ms) >= 0
    assert list(cut_anew(stage(0, bodies), len(bodies)).body_ms) == bodies


def test_whole_tasks_are_put_together_and_even_parts_taken_apart() -> None:
    assert list(cut_anew(stage(0, [1, 2, 3, 4]), 2).body_ms) == [3, 7]
    assert list(cut_anew(stage(0, [10, 30]), 4).body_ms) == [5, 5, 15, 15]


def test_a_task_that_never_ended_well_has_no_work_and_what_belongs_to_tasks_that_are_gone_goes() -> None:
    recorded = replace(stage(0, [4, NO_TASK, 4]), failures=(Failure(0, 1), Failure(2, 1)), copies=(Copy(2, 1),))
    cut = cut_anew(recorded, 1)
    assert list(cut.body_ms) == [8]
    assert (cut.failures, cut.copies) == ((Failure(0, 1),), ())


def test_a_stage_is_cut_for_the_cores_that_are_there_when_it_is_submitted() -> None:
    application = app(*chain([[1_000] * 4, [1_000] * 6]))
    behaviour = replace(AT_ONCE, by_cores=(EXCHANGE,))
    watched = Watched(application, static(3), behaviour)
    outcome = watched.go()
    assert [one.tasks for one in told(watched.tasks, stimuli.StageSubmitted)] == [4, 3]
    assert outcome.runtime_ms == 4_000  # 4 x 1 s on three slots, then 3 x 2 s beside one another
    assert outcome.task_ms == 10_000
    assert "1 stage has another number of tasks" in outcome.notes[0]


def test_on_the_recorded_cores_nothing_changes() -> None:
    application = app(*chain([[1_000] * 4, [1_000] * 6]))
    assert run(application, static(6), replace(AT_ONCE, by_cores=(EXCHANGE,))) == run(application, static(6))
