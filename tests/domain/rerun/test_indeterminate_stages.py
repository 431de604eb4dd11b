"""Indeterminate map stages whose output is lost: what was made from it is made again, or Spark gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import StageSubmitted, TaskEnd, TaskOutcome
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Loss
from tests.support.rerun_play import Watched, app, behaviour, chain, stage, static, told

S: Millis = 1_000
HOUR: Millis = 3_600 * S


def play(application: Application, executors: int, *losses: Loss) -> Watched:
    """The application on so many executors, some of which are lost and replaced at once."""
    watched = Watched(application, static(executors), behaviour(losses=losses))
    watched.go(HOUR)
    return watched


def three(indeterminate: bool, reducers: int = 4) -> Application:
    """Map, map, result: two tasks, then ``reducers``, then one, of 1.0 s each."""
    first, *others = chain([[S] * 2, [S] * reducers, [S]])
    return app(replace(first, indeterminate=indeterminate), *others)


def attempts(watched: Watched) -> list[tuple[int, int, int, Millis]]:
    """Stage, attempt, its tasks, when it was submitted."""
    return [(one.stage, one.attempt, one.tasks, one.at) for one in told(watched.tasks, StageSubmitted)]


def test_all_of_it_is_computed_again_and_all_that_was_made_from_it() -> None:
    """Two reducers run from 1.0; one executor goes at 1.5, and its task fails at once on the next one. The other one's is a
    zombie until 2.0, and does not count. Map runs again from 1.7 and, on the executor of the zombie, from 2.0."""
    watched = play(three(indeterminate=True), 2, Loss(0, 1_500))
    assert attempts(watched) == [(0, 0, 2, 0), (1, 0, 4, S), (0, 1, 2, 1_700), (1, 1, 4, 3 * S), (2, 0, 1, 5 * S)]


def test_of_others_what_is_lost_is_computed_again_and_zombies_count() -> None:
    watched = play(three(indeterminate=False), 2, Loss(0, 1_500))
    assert attempts(watched)[2:4] == [(0, 1, 1, 1_700), (1, 1, 3, 2_700)]


def test_what_had_completed_is_made_again() -> None:
    """The result's task runs from 2.0 to 3.0; whichever executor goes at 2.5, it cannot go on: it was begun from the old."""
    first, second, third = chain([[S] * 2, [S] * 2, [S] * 3])
    watched = Watched(
        app(replace(first, indeterminate=True), second, third), static(3), behaviour(losses=(Loss(0, 1_500),))
    )
    outcome = watched.go(HOUR)
    assert outcome.unfinished is None
    last = {number: max(at for one, _, _, at in attempts(watched) if one == number) for number in range(3)}
    assert last[0] < last[1] < last[2]


@pytest.mark.parametrize(
    ("indeterminate", "lost_ms", "given_up"),
    [
        pytest.param(True, 2_500, True, id="two of four results are there"),
        pytest.param(True, 500, False, id="map alone has run"),
        pytest.param(False, 2_500, False, id="it comes out as before"),
    ],
)
def test_results_cannot_be_rolled_back(indeterminate: bool, lost_ms: Millis, given_up: bool) -> None:
    first, second = chain([[S] * 2, [S] * 4])
    watched = Watched(
        app(replace(first, indeterminate=indeterminate), second), static(2), behaviour(losses=(Loss(0, lost_ms),))
    )
    outcome = watched.go(HOUR)
    assert (outcome.unfinished is not None) == given_up
    assert not given_up or "INDETERMINATE" in str(outcome.unfinished)


def test_another_stage_that_reads_it_is_cancelled_and_follows() -> None:
    """Of two map stages that read it one fails to fetch at 1.5; what runs of the other is killed, and it follows."""
    first = stage(0, [S] * 3, shuffle=0, indeterminate=True)
    sides = [stage(number, [5 * S] * 2, parents=(0,), shuffle=number) for number in (1, 2)]
    watched = play(app(first, *sides, stage(3, [S], parents=(1, 2))), 4, Loss(0, 1_500))
    killed = [end for end in told(watched.tasks, TaskEnd) if end.outcome is TaskOutcome.KILLED]
    failed = {end.stage for end in told(watched.tasks, TaskEnd) if end.outcome is TaskOutcome.FAILED}
    assert {end.at for end in killed} == {1_500}
    assert len(failed) == 1
    assert {end.stage for end in killed} == {1, 2} - failed
    again = [(number, at) for number, attempt, _, at in attempts(watched) if attempt == 1]
    assert again[0] == (0, 1_700)
    assert {number for number, _ in again[1:]} == {1, 2}


losses = st.lists(st.builds(Loss, st.integers(0, 3), st.integers(0, 9_000)), max_size=3)
bodies = st.lists(st.sampled_from([100, S, 2_500]), min_size=1, max_size=5)


@given(st.lists(bodies, min_size=2, max_size=4), st.integers(1, 4), losses)
def test_whatever_is_lost_nothing_is_made_from_two_versions(
    lengths: list[list[Millis]], executors: int, lost: list[Loss]
) -> None:
    """Once the run ends, each partition of a later stage was computed from the last version of the first one's output."""
    first, *others = chain(lengths)
    watched = Watched(
        app(replace(first, indeterminate=True), *others), static(executors), behaviour(losses=tuple(lost))
    )
    outcome = watched.go(HOUR)
    if outcome.unfinished is not None:
        assert "INDETERMINATE" in outcome.unfinished or "in a row" in outcome.unfinished
        return
    ran = [task for task in watched.tasks.good if task.stage == 0]
    for number, lengths_of_it in enumerate(lengths[1:], 1):
        for part in range(len(lengths_of_it)):
            began = [task.began for task in watched.tasks.good if (task.stage, task.part) == (number, part)]
            assert began
            versions = {max((task.attempt for task in ran if task.ended <= at), default=-1) for at in began}
            assert max(task.attempt for task in ran) in versions
