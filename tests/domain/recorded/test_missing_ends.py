"""Tasks whose end a log lacks."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome
from podtide.domain.recorded.missing_ends import MissingEnds

X = ExecutorId("1")
KILLED, SUCCESS = TaskOutcome.KILLED, TaskOutcome.SUCCESS


def running(*tasks: tuple[int, int, bool]) -> MissingEnds:
    """Stage 0 of job 0; tasks as (attempt, index, speculative)."""
    ends = MissingEnds()
    ends.job_started(0, [0])
    for attempt, index, speculative in tasks:
        ends.started(0, attempt, index, X, speculative)
    return ends


def end(at: int, index: int, outcome: TaskOutcome, attempt: int = 0, speculative: bool = False) -> TaskEnd:
    return TaskEnd(at, 0, attempt, index, X, speculative, outcome)


def test_a_task_ends_with_its_stage() -> None:
    ends = running((0, 0, False), (0, 1, False))
    assert not ends.ended(end(3, 0, SUCCESS))
    assert ends.stage_completed(0, 5, well=True) == [end(5, 1, SUCCESS)]
    assert ends.count == 1
    assert ends.job_ended(0, 6, well=True) == []


def test_an_end_that_comes_all_the_same_is_passed_over_once_and_not_counted() -> None:
    ends = running((0, 1, False))
    ends.stage_completed(0, 5, well=True)
    assert [ends.ended(end(9, 1, KILLED)), ends.ended(end(9, 1, KILLED))] == [True, False]
    assert ends.count == 0


@pytest.mark.parametrize("other", [(0, 0, True), (1, 0, False)], ids=["a copy", "a later attempt"])
def test_a_task_of_a_stage_that_is_repeated_ends_with_the_job(other: tuple[int, int, bool]) -> None:
    ends = running((0, 0, False), other)
    assert ends.stage_completed(0, 5, well=True) == []
    attempt, index, speculative = other
    assert ends.job_ended(0, 6, well=True) == [end(6, 0, KILLED), end(6, index, KILLED, attempt, speculative)]


@pytest.mark.parametrize("well", [True, False])
def test_a_stage_or_job_that_failed_leaves_its_tasks_running(*, well: bool) -> None:
    ends = running((0, 0, False))
    assert ends.stage_completed(0, 5, well=False) == []
    assert bool(ends.job_ended(0, 6, well=well)) is well
    assert ends.count == well


def test_a_stage_of_two_jobs_is_over_with_the_second() -> None:
    ends = running((0, 0, True))
    ends.job_started(1, [0])
    assert ends.job_ended(0, 6, well=True) == []
    assert ends.job_ended(1, 7, well=True) == [end(7, 0, KILLED, speculative=True)]
    assert not ends.running
