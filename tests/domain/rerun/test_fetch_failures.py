"""Map output that is lost: when a task that reads it fails, what runs again, and when Spark gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import JobStage, StageSubmitted, TaskEnd, TaskOutcome
from podtide.domain.recorded.application import Application, Failure
from podtide.domain.rerun.behaviour import Behaviour, Loss
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan
from podtide.domain.scheduler.rules import Retries
from tests.support.rerun_play import (
    AT_ONCE,
    Watched,
    app,
    behaviour,
    chain,
    dynamic,
    job,
    limits,
    run,
    stage,
    static,
    told,
)

S: Millis = 1_000
HOUR: Millis = 3_600 * S


def failures(watched: Watched) -> list[tuple[int, Millis]]:
    """Tasks of job 1 that failed: the stage and when."""
    ends = told(watched.tasks, TaskEnd)
    return [(end.stage, end.at) for end in ends if end.outcome is TaskOutcome.FAILED and end.stage]


def write_then_read(pause_ms: Millis, *, readers: int = 1) -> Application:
    """Job 0 writes a shuffle on four executors until 1.0 s, as stage 0; job 1 reads it, which lists it as stage 1."""
    first = stage(0, [S] * 4, shuffle=7)
    second = stage(2, [S] * readers, job=1, parents=(1,))
    needs = (JobStage(1, 7), JobStage(2))
    jobs = [job(0, [first], ended_ms=S), job(1, [second], needs=needs, after=(0,), think_ms=pause_ms)]
    return app(first, second, jobs=jobs)


def released(idle_ms: Millis = 3 * S, least: int = 1, **plan: object) -> Plan:
    """Four executors, of which those beyond ``least`` are let go ``idle_ms`` after their last task."""
    return dynamic(
        plan=plan, executors_initial=4, executors_min=least, executors_max=4, idle_timeout_ms=idle_ms,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------- executors killed


@pytest.mark.parametrize(
    ("pause_ms", "removal_ms", "fails_at"),
    [
        pytest.param(3_500, 5_000, 9_500, id="at the first retry after the driver removed them"),
        pytest.param(4_500, 7_000, 15_500, id="at the second, as the first came too early"),
        pytest.param(3_500, 30_000, 19_500, id="at the third, whether it did or not"),
        pytest.param(9_500, 5_000, None, id="never: the driver knew before the stage was submitted"),
        pytest.param(2_500, 5_000, None, id="never: it fetched before they were killed"),
    ],
)
def test_when_a_reducer_notices_that_executors_were_killed(
    pause_ms: Millis, removal_ms: Millis, fails_at: Millis | None
) -> None:
    """Three executors are killed at 4.0 s (or the tick after it); the driver removes them ``removal_ms`` later."""
    watched = Watched(write_then_read(pause_ms), released(), behaviour(removal_ms=(removal_ms,)))
    outcome = watched.go(HOUR)
    assert outcome.unfinished is None
    assert failures(watched)[:1] == ([] if fails_at is None else [(2, fails_at)])


def test_what_was_lost_is_computed_again_by_a_stage_of_the_job_that_reads_it() -> None:
    """Fails at 9.5; at 9.7 the three parts that are missing, under the id that job 1 knows, one after another."""
    watched = Watched(write_then_read(3_500), released(), behaviour(removal_ms=(5 * S,)))
    outcome = watched.go(HOUR)
    submitted = [(one.stage, one.attempt, one.tasks, one.at) for one in told(watched.tasks, StageSubmitted)]
    assert submitted[:3] == [(0, 0, 4, 0), (2, 0, 1, 4_500), (1, 0, 3, 9_700)]
    assert submitted[3][:3] == (2, 1, 1)
    assert outcome.tasks_again == 4
    assert outcome.runtime_ms == submitted[3][3] + S


def test_executors_that_are_decommissioned_serve_until_they_are_gone() -> None:
    plan = released()
    assert plan.dynamic is not None
    plan = replace(plan, dynamic=replace(plan.dynamic, decommission=True))
    watched = Watched(write_then_read(3_500), plan, behaviour(removal_ms=(5 * S,)))
    watched.go(HOUR)
    assert failures(watched) == []  # it fetched at 4.5 s, they went at 9.0 s


@pytest.mark.parametrize(
    ("decommission", "started", "waits"),
    [
        pytest.param(False, 5, {Limit.BACKLOG_TIMEOUT: S}, id="killed: another one starts at 6.5"),
        pytest.param(True, 4, {Limit.BACKLOG_TIMEOUT: S, Limit.OTHER: S}, id="decommissioned: three still count"),
    ],
)
def test_no_executor_starts_in_the_place_of_one_that_is_decommissioned_and_still_there(
    decommission: bool, started: int, waits: dict[Limit, Millis]
) -> None:
    """Three of four go at 4.0 and are gone at 9.0. Three tasks come at 5.5; after a second of backlog two executors are
    wanted for those that are left, and a standalone master counts four."""
    plan = released(shuffle_kept=True)
    assert plan.dynamic is not None
    plan = replace(plan, dynamic=replace(plan.dynamic, decommission=decommission))
    outcome = run(write_then_read(4_500, readers=3), plan, behaviour(removal_ms=(5 * S,)))
    assert outcome.executors_started == started
    assert {limit: round(ms) for limit, ms in limits(outcome).items() if ms} == waits


def test_a_shuffle_service_answers_for_the_dead() -> None:
    watched = Watched(write_then_read(3_500), released(shuffle_kept=True), behaviour(removal_ms=(5 * S,)))
    assert watched.go(HOUR).runtime_ms == 5_500
    assert failures(watched) == []


# --------------------------------------------------------------------------------------------------- executors lost


def test_tasks_that_run_when_output_is_lost_have_fetched_it_and_those_that_begin_later_fail() -> None:
    """Map on two executors until 1.0; of four reducers two run when the first executor goes at 1.5.

    That of the second one goes on until 2.0; the next one there fails at once, and so did the first one's on the third
    executor at 1.5. At 1.7 the lost half of map, until 2.7; then the three reducers that are missing, on two executors.
    """
    watched = Watched(app(*chain([[S] * 2, [S] * 4])), static(2), behaviour(losses=(Loss(0, 1_500),)))
    outcome = watched.go(HOUR)
    ran = sorted((one.stage, one.attempt, one.began, one.ended) for one in watched.tasks.ran if one.began != one.ended)
    assert ran == [
        (0, 0, 0, S), (0, 0, 0, S), (0, 1, 1_700, 2_700),
        (1, 0, S, 1_500), (1, 0, S, 2 * S), (1, 1, 2_700, 3_700), (1, 1, 2_700, 3_700), (1, 1, 3_700, 4_700),
    ]  # fmt: skip
    assert outcome.runtime_ms == 4_700


def test_what_a_dying_attempt_computes_counts_and_is_not_begun_again() -> None:
    """Of two reducers of 4.0 s one runs on as a zombie from 1.5 to 5.0 s; the next attempt, from 2.7 on, is of both.

    The lost one is on the third executor; that of the zombie waits for a slot until there is no need for it any more.
    """
    watched = Watched(app(*chain([[S] * 2, [4 * S] * 2])), static(2), behaviour(losses=(Loss(0, 1_500),)))
    outcome = watched.go(HOUR)
    reducers = sorted((one.attempt, one.part, one.began) for one in watched.tasks.good if one.stage == 1)
    assert len(reducers) == 2
    assert {part for _, part, _ in reducers} == {0, 1}
    assert outcome.runtime_ms == 2_700 + 4 * S


def losing(times: int) -> tuple[Application, Behaviour]:
    """One executor at a time; the n-th goes half a second after a reducer began there, with the map output that it read."""
    application = app(*chain([[S], [S]]))
    return application, behaviour(losses=tuple(Loss(one, S + 700 if one else S + 500) for one in range(times)))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_after_so_many_attempts_in_a_row_spark_gives_up(most: int) -> None:
    application, b = losing(9)
    outcome = run(application, static(1, retries=Retries(99, stage_attempts_max=most)), b, limit_ms=HOUR)
    times = "once" if most == 1 else f"{most} times in a row"
    assert outcome.unfinished == (
        f"stage 1 failed to fetch what its parents wrote {times}, and Spark gives up then "
        f"(spark.stage.maxConsecutiveAttempts={most})"
    )


def test_one_attempt_less_and_it_ends() -> None:
    application, b = losing(3)
    assert run(application, static(1, retries=Retries(99)), b, limit_ms=HOUR).unfinished is None


def test_executors_that_were_decommissioned_do_not_count() -> None:
    """Of a task set that finds nothing, if nothing but decommissioned executors held it."""

    def outcome(retries: Retries) -> RerunOutcome:
        plan = released(least=0, retries=retries)
        assert plan.dynamic is not None
        plan = replace(plan, dynamic=replace(plan.dynamic, decommission=True))
        return run(write_then_read(3_500, readers=9), plan, behaviour(removal_ms=(600,)), limit_ms=HOUR)

    assert outcome(Retries(stage_attempts_max=1)).unfinished is not None
    assert outcome(Retries(stage_attempts_max=1, spares_decommissioned=True)).unfinished is None


# -------------------------------------------------------------------------------------------- failures of the tasks


def test_a_task_that_fails_too_often_ends_its_job() -> None:
    application = app(stage(0, [S], failures=(Failure(0, 300), Failure(0, 300))))
    assert run(application, static(1, retries=Retries(3))).unfinished is None
    outcome = run(application, static(1, retries=Retries(2)))
    assert outcome.unfinished == "a task of stage 0 failed 2 times, and Spark gives up then (spark.task.maxFailures=2)"


def test_failures_of_several_attempts_are_nobodys_limit() -> None:
    application = app(stage(0, [S], failures=(Failure(0, 300),) * 5, attempts=2))
    assert run(application, static(1)).unfinished is None


def test_executors_that_crash_count_against_their_tasks_and_those_that_are_taken_back_do_not() -> None:
    application = app(stage(0, [4 * S]))
    crashes = behaviour(losses=tuple(Loss(one, S) for one in range(9)))
    outcome = run(application, static(1), crashes, limit_ms=HOUR)
    assert outcome.unfinished == "a task of stage 0 failed 4 times, and Spark gives up then (spark.task.maxFailures=4)"
    spared = behaviour(losses=tuple(Loss(one, S) for one in range(3)))
    assert run(application, static(1), spared, limit_ms=HOUR).unfinished is None


def test_a_barrier_stage_that_loses_an_executor_begins_anew() -> None:
    """Two tasks of 1.0 s; one executor goes at 0.5: both begin again at 0.7 s."""
    application = app(stage(0, [S] * 2, barrier=True, shuffle=0))
    outcome = run(application, static(2), behaviour(losses=(Loss(0, 500),)))
    assert (outcome.unfinished, outcome.runtime_ms) == (None, 1_700)


def test_a_barrier_stage_that_has_results_is_given_up() -> None:
    application = app(stage(0, [S, 3 * S], barrier=True))
    outcome = run(application, static(2), behaviour(losses=(Loss(0, 2 * S), Loss(1, 2 * S))))
    assert outcome.unfinished == "stage 0, a barrier stage with results, failed, and Spark gives up then"


def test_nothing_changes_where_nothing_is_lost() -> None:
    application = write_then_read(3_500, readers=9)
    hurried = static(4, retries=Retries(1, 1, fetches=0, fetch_wait_ms=0))
    assert run(application, hurried) == run(application, static(4))
    assert run(application, static(4), AT_ONCE).tasks_again == 0
