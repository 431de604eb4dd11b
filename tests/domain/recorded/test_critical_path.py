"""The critical path: by hand, and beside what the simulation takes with executors for everything."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import ProfileId
from podtide.domain.protocol.stimuli import JobStage
from podtide.domain.recorded.application import Application, Failure, RecordedJob, RecordedStage
from podtide.domain.recorded.critical_path import critical_path
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.plan import Variant
from podtide.domain.rerun.rerun import rerun
from podtide.domain.whatif.planning import plan, recorded_conf
from tests.support.search_play import START


def stage(number: int, job: int, *body_ms: int, parents: tuple[int, ...] = (), lag_ms: int = 0) -> RecordedStage:
    return RecordedStage(
        number, job, f"s{number}", ProfileId(0), START, START + 900, array("q", body_ms), parents, shuffle=number,
        submit_lag_ms=lag_ms, launch_lag_ms=2 * lag_ms, finish_lag_ms=3 * lag_ms,
    )  # fmt: skip


def job(number: int, *stages: int, after: tuple[int, ...] = (), think_ms: int = 0, end_lag_ms: int = 0) -> RecordedJob:
    needs = tuple(JobStage(one, one) for one in stages)
    return RecordedJob(number, START, START + 50_000, True, stages, needs, after, think_ms, end_lag_ms)


def application(jobs: tuple[RecordedJob, ...], stages: tuple[RecordedStage, ...]) -> Application:
    properties = {"spark.master": "spark://example:7077", "spark.executor.cores": "1"}
    return Application("app", "play", "4.3.0", START, START + 50_000, True, properties, jobs, stages, ())


DIAMOND = application(
    (job(0, 0, 1, 2, 3, think_ms=500, end_lag_ms=40),),
    (
        stage(0, 0, 1_000, 3_000, 2_000, lag_ms=10),
        stage(1, 0, 400, parents=(0,)),
        stage(2, 0, *[900] * 20, parents=(0,), lag_ms=1),
        stage(3, 0, 700, 100, parents=(1, 2)),
    ),
)


def test_the_longest_tasks_and_the_driver_between_them() -> None:
    path = critical_path(DIAMOND)
    assert [(one.stage.stage, one.driver_ms, one.longest_ms) for one in path.stages] == [
        (0, 500 + 30, 3_000),
        (2, 30 + 3, 900),
        (3, 3, 700),
    ]
    assert path.after_ms == 40
    assert (path.tasks_ms, path.driver_ms) == (4_600, 530 + 33 + 3 + 40)
    assert path.runtime_ms == 5_206


def test_what_the_driver_does_beside_another_chain_is_not_on_it() -> None:
    jobs = (job(0, 0), job(1, 1, think_ms=4_000), job(2, 2, after=(0, 1), think_ms=100))
    stages = (stage(0, 0, 5_000), stage(1, 1, 600), stage(2, 2, 50))
    path = critical_path(application(jobs, stages))
    assert [one.stage.stage for one in path.stages] == [0, 2]
    assert (path.runtime_ms, path.driver_ms) == (5_150, 100)


def test_a_parent_that_was_skipped_is_who_wrote_its_shuffle() -> None:
    reads = replace(job(1, 2, think_ms=1_000), needs=(JobStage(1, 0), JobStage(2)))  # side by side with the first job
    path = critical_path(application((job(0, 0), reads), (stage(0, 0, 3_000), stage(2, 1, 100, parents=(1,)))))
    assert [one.stage.stage for one in path.stages] == [0, 2]
    assert path.runtime_ms == 3_100


@pytest.mark.parametrize(
    ("found", "longest_ms"),
    [
        (stage(0, 0, 300, -1), 300),
        (replace(stage(0, 0, 300, -1), failures=(Failure(1, 800),)), 800),
        (replace(stage(0, 0, 900, 100), failures=(Failure(0, 5_000),)), 900),
        (stage(0, 0, -1, -1), 900),
        (stage(0, 0), 900),
    ],
)
def test_what_never_succeeded_takes_its_last_try_or_what_its_stage_took(found: RecordedStage, longest_ms: int) -> None:
    assert critical_path(application((job(0, 0),), (found,))).tasks_ms == longest_ms


def test_an_application_without_stages_is_its_driver() -> None:
    path = critical_path(replace(application((), ()), ended_ms=START + 700))
    assert (path.runtime_ms, path.driver_ms, path.stages) == (700, 700, ())


BODIES = st.lists(st.integers(0, 5_000), min_size=1, max_size=6)
LAGS = st.integers(0, 200)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(BODIES, BODIES, LAGS, LAGS), min_size=1, max_size=3), st.integers(1, 40), st.data())
def test_no_count_of_executors_beats_it_and_enough_of_them_reach_it(
    jobs: list[tuple[list[int], list[int], int, int]], executors: int, data: st.DataObject
) -> None:
    listed, stages = [], []
    for number, (first, second, lag_ms, think_ms) in enumerate(jobs):
        after = (number - 1,) if number and data.draw(st.booleans()) else ()
        stages.append(stage(2 * number, number, *first, lag_ms=lag_ms))
        stages.append(stage(2 * number + 1, number, *second, parents=(2 * number,), lag_ms=lag_ms))
        listed.append(job(number, 2 * number, 2 * number + 1, after=after, think_ms=think_ms, end_lag_ms=lag_ms))
    app = application(tuple(listed), tuple(stages))
    made = plan(app, recorded_conf(app).unwrap().conf, Variant("v", {}, executors)).unwrap()
    outcome = rerun(app, Behaviour(StartUp((0,))), made, 0)
    ideal_ms = critical_path(app).runtime_ms
    assert outcome.runtime_ms >= ideal_ms
    if executors >= app.tasks:
        assert outcome.runtime_ms == ideal_ms
