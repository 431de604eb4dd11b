"""Stalls where no tasks are seen: a target above the executors waits, and executors that stay are the success."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import (
    ExecutorCame,
    ExecutorWent,
    PodMade,
    PodRefused,
    ProfileMoment,
    StallConfig,
    StallInput,
    StallMoment,
)
from podtide.domain.stalls.readings import target_moments
from podtide.domain.stalls.rules import DEATHS_MIN
from podtide.domain.stalls.stalls import StallState, watch

S: Millis = 1_000
P0, P1 = DEFAULT_PROFILE, ProfileId(1)


def moment(at: Millis, executors: int, target: int) -> StallMoment:
    return StallMoment(at, at, (ProfileMoment(P0, executors=executors, target=target, tasks_known=False),))


def told(*facts: StallInput) -> StallState:
    return watch(StallState(), facts, StallConfig(0), facts[-1].at).state


def lives(number: int, length: Millis = 10 * S) -> list[StallInput]:
    """Executors that fail one after the other."""
    found: list[StallInput] = []
    for place in range(number):
        executor = ExecutorId(str(place))
        found += [ExecutorCame(place * length, executor, P0), ExecutorWent((place + 1) * length, executor, True)]
    return found


@pytest.mark.parametrize(("executors", "blocked"), [(0, True), (1, False)])
def test_a_shortage_is_an_alarm_where_nobody_is_there_and_else_a_limit(executors: int, blocked: bool) -> None:
    last = ROWS[StallCause.NOT_COMING].patience_ms
    (stall,) = told(moment(0, executors, 3), moment(last, executors, 3)).stalls()
    assert (stall.cause, stall.blocked, stall.since) == (StallCause.NOT_COMING, blocked, 0)
    assert "running_tasks" not in stall.facts


def test_a_pod_that_was_made_after_a_refusal_ends_the_quota() -> None:
    refused, at = PodRefused(S, 403, "exceeded quota"), ROWS[StallCause.NOT_COMING].patience_ms
    begun = moment(0, 0, 3)
    assert [one.cause for one in told(begun, refused, moment(at, 0, 3)).stalls()] == [StallCause.QUOTA]
    made = told(begun, refused, PodMade(2 * S), moment(at, 0, 3))
    assert [one.cause for one in made.stalls()] == [StallCause.NOT_COMING]


def test_once_they_die_one_after_the_other_a_young_executor_does_not_count() -> None:
    there, wanted = {P0: 2, P1: 1}, ((P0, 2), (P1, 1), (ProfileId(2), 0))
    few = told(*lives(DEATHS_MIN - 1))
    assert [one.missing for one in target_moments(wanted, there, few, 100 * S)] == [0, 0, 0]
    born = 100 * S
    many = told(*lives(DEATHS_MIN), ExecutorCame(born, ExecutorId("9"), P0))
    assert [one.executors for one in target_moments(wanted, there, many, born + LEAST_MS - 1)] == [1, 1, 0]
    assert [one.executors for one in target_moments(wanted, there, many, born + LEAST_MS)] == [2, 1, 0]


def test_deaths_are_forgotten_once_enough_executors_stay() -> None:
    last = DEATHS_MIN * 10 * S
    dead = lives(DEATHS_MIN)
    assert told(*dead, moment(last + LEAST_MS, 2, 2)).deaths
    assert told(*dead, moment(last + LEAST_MS + 1, 1, 2)).deaths
    assert not told(*dead, moment(last + LEAST_MS + 1, 2, 2)).deaths
