"""Floors: by hand, and never above what the simulation takes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings, strategies as st
from returns.pipeline import is_successful

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.scaling_config import ENABLED, MAX
from podtide.domain.recorded.application import Application, RecordedJob, RecordedStage
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.plan import Variant
from podtide.domain.rerun.rerun import rerun
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.search.bounds import work_of
from tests.support.search_play import START


def stage(number: int, job: int, *body_ms: int, parents: tuple[int, ...] = ()) -> RecordedStage:
    return RecordedStage(number, job, "s", ProfileId(0), START, START, array("q", body_ms), parents, shuffle=number)


def job(number: int, *stages: int, after: tuple[int, ...] = (), think_ms: int = 0) -> RecordedJob:
    return RecordedJob(number, START, START, True, stages, (), after, think_ms)


def application(jobs: tuple[RecordedJob, ...], stages: tuple[RecordedStage, ...]) -> Application:
    properties = {ENABLED: "true", MAX: "4", "spark.master": "spark://example:7077", "spark.executor.cores": "1"}
    return Application("app", "play", "4.3.0", START, START + 60_000, True, properties, jobs, stages, ())


CHAIN = application(
    (job(0, 0, 1, think_ms=500), job(1, 2, after=(0,), think_ms=2_000)),
    (stage(0, 0, 1_000, 3_000, -1), stage(1, 0, *[1_000] * 10, parents=(0,)), stage(2, 1, 700)),
)


@pytest.mark.parametrize(
    ("slots", "floor_ms"),
    [
        (None, 500 + 3_000 + 1_000 + 2_000 + 700),
        (10, 500 + 3_000 + 1_000 + 2_000 + 700),
        (2, 500 + 3_000 + 5_000 + 2_000 + 700),
        (1, 500 + 4_000 + 10_000 + 2_000 + 700),
    ],
)
def test_the_longest_chain_and_the_work_over_the_slots(slots: int | None, floor_ms: int) -> None:
    assert work_of(CHAIN).runtime_floor_ms(slots) == floor_ms


def test_jobs_side_by_side_share_the_slots() -> None:
    both = application((job(0, 0), job(1, 1)), (stage(0, 0, *[1_000] * 8), stage(1, 1, *[1_000] * 8)))
    assert work_of(both).runtime_floor_ms(4) == 4_000
    assert work_of(both).runtime_floor_ms(None) == 1_000


def test_executors_are_paid_for_their_work_at_least() -> None:
    assert work_of(CHAIN).executor_floor_ms(4) == 14_700 // 4


def test_an_application_without_work_has_no_floor() -> None:
    assert work_of(application((), ())).runtime_floor_ms(3) == 0


BODIES = st.lists(st.integers(0, 5_000), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(BODIES, BODIES, st.integers(0, 3_000)), min_size=1, max_size=3), st.integers(1, 6), st.data())
def test_no_simulation_beats_its_floor(
    jobs: list[tuple[list[int], list[int], int]], executors: int, data: st.DataObject
) -> None:
    listed, stages = [], []
    for number, (first, second, think_ms) in enumerate(jobs):
        after = (number - 1,) if number and data.draw(st.booleans()) else ()
        stages += [stage(2 * number, number, *first), stage(2 * number + 1, number, *second, parents=(2 * number,))]
        listed.append(job(number, 2 * number, 2 * number + 1, after=after, think_ms=think_ms))
    app = application(tuple(listed), tuple(stages))
    conf = recorded_conf(app).unwrap().conf
    static = data.draw(st.booleans())
    wish = Variant("v", {}, executors) if static else Variant("v", {MAX: str(executors)})
    made = plan(app, conf, wish)
    assert is_successful(made)
    outcome = rerun(app, Behaviour(StartUp((1_000,))), made.unwrap(), 0)
    work = work_of(app)
    assert outcome.unfinished is None
    slots = made.unwrap().shapes[DEFAULT_PROFILE].slots
    assert outcome.runtime_ms >= work.runtime_floor_ms(executors * slots)
    assert outcome.executor_ms >= work.executor_floor_ms(slots)
