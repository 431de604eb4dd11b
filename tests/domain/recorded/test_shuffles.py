"""Which shuffles the stages of a log write, and until when each is needed."""

from __future__ import annotations

import pytest

from podtide.domain.protocol.stimuli import JobStage
from podtide.domain.recorded.shuffles import ListedStage, LoggedShuffles, RddReader


def mapping(stage: int, rdd: int) -> ListedStage:
    return ListedStage(stage, (), rdd)


def reading(stage: int, rdd: int, *parents: int, readers: tuple[RddReader, ...] = ()) -> ListedStage:
    return ListedStage(stage, parents, rdd, readers)


def row(rdd: int, parent: int) -> RddReader:
    return RddReader(rdd, (parent,), row=True)


def test_a_stage_that_another_one_names_writes_a_shuffle() -> None:
    shuffles = LoggedShuffles()
    assert shuffles.job_started(0, [mapping(0, 7), reading(1, 9, 0)]) == (JobStage(0, 7), JobStage(1, None))
    shuffles.result_task_ended(1)
    assert shuffles.job_ended(0) == (7,)


def test_under_adaptive_execution_an_exchange_is_a_job_of_its_own() -> None:
    shuffles = LoggedShuffles()
    assert shuffles.job_started(0, [mapping(0, 7)], execution=1) == (JobStage(0, None),)
    assert shuffles.map_task_ended(0) == ((0, 7),)
    assert shuffles.map_task_ended(0) == ()
    assert shuffles.job_ended(0) == ()  # the query goes on
    again = shuffles.job_started(1, [mapping(1, 7), reading(2, 9, 1, readers=(row(8, 7),))], execution=1)
    assert again == (JobStage(1, 7), JobStage(2, None))
    assert shuffles.job_ended(1) == ()
    assert shuffles.execution_ended(1) == (7,)
    assert shuffles.execution_ended(1) == ()


def test_a_shuffle_is_needed_as_long_as_any_job_or_query_needs_it() -> None:
    shuffles = LoggedShuffles()
    for job, execution in ((0, 1), (1, 2), (2, None)):
        shuffles.job_started(job, [mapping(2 * job, 7), reading(2 * job + 1, 9, 2 * job)], execution)
    assert [shuffles.execution_ended(1), shuffles.job_ended(0), shuffles.job_ended(2)] == [(), (), ()]
    assert [shuffles.execution_ended(2), shuffles.job_ended(1)] == [(), (7,)]


def test_the_last_stage_of_two_jobs_is_found_out_for_both() -> None:
    shuffles = LoggedShuffles()
    shuffles.job_started(0, [mapping(0, 7)])
    shuffles.job_started(1, [mapping(0, 7)])
    assert shuffles.map_task_ended(0) == ((0, 7), (1, 7))
    assert shuffles.map_stages == 2


def test_two_shuffles_of_one_rdd_are_told_apart() -> None:
    """As in ``pairs.partitionBy(a)`` joined with ``pairs.partitionBy(b)``, and each of them used again."""
    shuffles = LoggedShuffles()
    first, second = RddReader(8, (7,)), RddReader(9, (7,))
    both = [mapping(0, 7), reading(1, 10, 0, readers=(first,)), mapping(2, 7), reading(3, 11, 1, 2, readers=(second,))]
    one, _, other, _ = (stage.shuffle for stage in shuffles.job_started(0, both))
    assert one == 7
    assert other not in (None, 7)
    used = shuffles.job_started(1, [mapping(4, 7), reading(5, 12, 4, readers=(second,))])
    assert used[0] == JobStage(4, other)
    third = shuffles.job_started(2, [mapping(6, 7), reading(7, 13, 6, readers=(RddReader(14, (7,)),))])
    assert third[0].shuffle not in (7, other, None)


def test_several_row_rdds_read_one_exchange() -> None:
    shuffles = LoggedShuffles()
    shuffles.job_started(0, [mapping(0, 7), reading(1, 9, 0, readers=(row(8, 7),))])
    assert shuffles.job_started(1, [mapping(2, 7), reading(3, 11, 2, readers=(row(10, 7),))])[0] == JobStage(2, 7)


def test_a_stage_without_rdds_stands_for_itself() -> None:
    shuffles = LoggedShuffles()
    assert shuffles.job_started(0, [ListedStage(4), reading(5, 9, 4)])[0] == JobStage(4, -5)


def test_a_job_whose_last_stage_never_told_leaves_nothing_behind() -> None:
    shuffles = LoggedShuffles()
    shuffles.job_started(0, [mapping(0, 7)])
    assert shuffles.job_ended(0) == ()
    assert not shuffles.unnamed
    assert shuffles.map_task_ended(0) == ()


@pytest.mark.parametrize("ended", [True, False])
def test_ids_that_are_used_again_and_listed_twice_are_borne(*, ended: bool) -> None:
    shuffles = LoggedShuffles()
    shuffles.job_started(0, [mapping(0, 7), mapping(0, 7)])
    if ended:
        shuffles.job_ended(0)
    shuffles.job_started(0, [mapping(0, 7), mapping(0, 7)])
    assert shuffles.map_task_ended(0) == ((0, 7),)
    assert shuffles.job_ended(0) == (7,)
