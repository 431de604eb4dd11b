"""What jobs waited for: chains, forks and joins, executions, threads with and without names, streams."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.recorded.job_dependencies import AFTER_MAX, JobTraits, LoggedJob, SqlSpan, waited_for

A, B = JobTraits(pool="a"), JobTraits(pool="b")


NOBODY = JobTraits()


def job(number: int, began: int, ended: int | None, traits: JobTraits = NOBODY) -> LoggedJob:
    return LoggedJob(number, began, ended, traits)


def after(
    *jobs: LoggedJob, executions: dict[int, SqlSpan] | None = None, started: int = 0
) -> dict[int, tuple[int, ...]]:
    return {number: one.after for number, one in waited_for(jobs, executions or {}, started).items()}


def execution(number: int, **more: str) -> JobTraits:
    return JobTraits(execution=number, **more)


def test_two_chains_in_pools_side_by_side() -> None:
    """The real chains of two threads: 0, 2, 3, 5 and 1, 4."""
    jobs = [
        job(0, 4_196, 22_900, A), job(1, 4_302, 34_600, B), job(2, 23_918, 32_937, A), job(3, 37_953, 51_324, A),
        job(4, 40_578, 57_194, B), job(5, 51_869, 58_780, A),
    ]  # fmt: skip
    waits = waited_for(jobs, {}, 0)
    assert {number: one.after for number, one in waits.items()} == {0: (), 1: (), 2: (0,), 3: (2,), 4: (1,), 5: (3,)}
    assert [waits[n].think_ms for n in (2, 3, 5)] == [1_018, 5_016, 545]
    assert waits[4].thread == "pool b"


def test_a_fork_that_is_joined_again_and_again() -> None:
    jobs = [
        job(0, 0, 10),
        job(1, 20, 50),
        job(2, 21, 60),
        job(3, 22, 40),
        job(4, 70, 90),
        job(5, 71, 80),
        job(6, 95, 99),
    ]
    assert after(*jobs) == {0: (), 1: (0,), 2: (0,), 3: (0,), 4: (1, 2, 3), 5: (1, 2, 3), 6: (4, 5)}


def test_adaptive_execution_runs_several_at_once_and_goes_on_when_they_are_there() -> None:
    jobs = [
        job(0, 10, 100, execution(0)), job(1, 12, 102, execution(0)), job(2, 110, 150, execution(0)),
        job(3, 200, 300, execution(1)), job(4, 201, 250, execution(1)), job(5, 260, 310, execution(1)),
        job(6, 320, 330, execution(1)),
    ]  # fmt: skip
    spans = {0: SqlSpan(5, 160), 1: SqlSpan(190, 340)}
    expected = {0: (), 1: (), 2: (0, 1), 3: (2,), 4: (2,), 5: (4,), 6: (3, 5)}
    assert after(*jobs, executions=spans) == expected


def test_executions_that_overlap_are_not_of_one_thread_even_if_their_jobs_do_not() -> None:
    jobs = [job(0, 10, 20, execution(0)), job(1, 30, 40, execution(1)), job(2, 45, 60, execution(0))]
    assert after(*jobs, executions={0: SqlSpan(5, 70), 1: SqlSpan(22, 41)}) == {0: (), 1: (), 2: (0,)}


def test_broadcasts_have_groups_of_their_own_and_stay_with_their_query() -> None:
    broadcast = execution(1, group="run-77", description="broadcast exchange (runId run-77)")
    jobs = [job(0, 0, 50, execution(0, group="g")), job(1, 60, 80, broadcast), job(2, 90, 120, execution(1, group="g"))]
    waits = waited_for(jobs, {}, 0)
    assert (waits[1].after, waits[2].after) == ((0,), (1,))
    assert waits[1].thread == "group g"


def test_a_notebook_names_every_cell_differently() -> None:
    jobs = [job(n, 100 * n, 100 * n + 50, JobTraits(group=f"cell-{n}")) for n in range(5)]
    assert after(*jobs) == {0: (), 1: (0,), 2: (1,), 3: (2,), 4: (3,)}


def test_threads_forked_from_the_main_program_are_joined_with_it() -> None:
    jobs = [
        job(0, 0, 100), job(1, 110, 300, A), job(2, 112, 200, B), job(3, 205, 280, B), job(4, 400, 500),
    ]  # fmt: skip
    assert after(*jobs) == {0: (), 1: (0,), 2: (0,), 3: (2,), 4: (1, 3)}


def test_a_query_from_outside_comes_at_its_time() -> None:
    jobs = [job(0, 0, 50, A), job(1, 60, 90_000, A), job(2, 50_000, 60_000, B)]
    waits = waited_for(jobs, {}, 0)
    assert (waits[2].after, waits[2].think_ms) == ((), 50_000)


def test_a_job_that_never_ended_is_nobodys_reason() -> None:
    assert after(job(0, 0, None), job(1, 50, 60), job(2, 70, 80)) == {0: (), 1: (), 2: (1,)}


def batch(number: int, began: int, ended: int) -> LoggedJob:
    return job(number, began, ended, JobTraits(stream="q", batch=str(number)))


def test_micro_batches_wait_for_the_clock_unless_they_are_late() -> None:
    times = [
        (0, 3_000),
        (10_000, 13_500),
        (20_000, 31_000),
        (31_010, 34_000),
        (40_000, 42_000),
        (50_000, 52_000),
        (60_000, 61_000),
    ]
    waits = waited_for([batch(n, *span) for n, span in enumerate(times)], {}, 0)
    assert [waits[n].clocked for n in range(7)] == [True, True, True, False, True, True, True]
    assert waits[3].after == (2,)
    assert (waits[4].after, waits[4].think_ms) == ((), 40_000)


def test_micro_batches_one_after_another_wait_for_one_another() -> None:
    waits = waited_for([batch(n, 1_000 * n, 1_000 * n + 990) for n in range(6)], {}, 0)
    assert not any(one.clocked for one in waits.values())
    assert waits[5].after == (4,)


def test_a_thousand_jobs_at_once_are_waited_for_by_the_last_of_them() -> None:
    jobs = [job(n, 0, 100 + n) for n in range(1_000)]
    found = after(*jobs, job(1_000, 2_000, 3_000))[1_000]
    assert found == tuple(range(1_000 - AFTER_MAX, 1_000))


@pytest.mark.uncounted
@pytest.mark.parametrize("count", [20_000])
def test_many_jobs_that_never_end_cost_no_more_than_others(count: int) -> None:
    assert len(after(*(job(n, n, None) for n in range(count)))) == count


_traits = st.builds(
    JobTraits,
    st.sampled_from([None, "default", "a", "b"]),
    st.sampled_from([None, "g", "h"]),
    st.sampled_from([None, 1, 2, 3]),
)


@given(st.lists(st.tuples(st.integers(0, 300), st.none() | st.integers(0, 100), _traits), max_size=40))
def test_whatever_a_job_waits_for_had_ended_and_nothing_is_said_twice(
    spans: list[tuple[int, int | None, JobTraits]],
) -> None:
    jobs = [
        job(n, began, None if took is None else began + took, traits) for n, (began, took, traits) in enumerate(spans)
    ]
    waits = waited_for(jobs, {}, 0)
    assert set(waits) == {one.job for one in jobs}
    for one in jobs:
        found = waits[one.job]
        for other in found.after:
            ended = jobs[other].ended_ms
            assert ended is not None
            assert ended <= one.submitted_ms
            assert other not in {before for also in found.after if also != other for before in waits[also].after}
        last = max((jobs[other].ended_ms or 0 for other in found.after), default=0)
        assert found.think_ms == one.submitted_ms - last
