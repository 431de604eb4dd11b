"""Why a profile does not move: each cause with the least that shows it, beside the nearest that shows another one.

Every case is asked about three times: as late as can be, in the moment in which its patience ends, and just before.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import PodRefused, ProfileMoment
from podtide.domain.stalls.rules import DEATHS_MIN, Since, verdict

WAITS = ProfileMoment(DEFAULT_PROFILE, pending=3, attempts=((0, 0),), target=0, maximum=9)
"""Three tasks wait, there are no executors, and none is wanted."""

ONE_MISSING = WAITS._replace(target=1)
ONE_FREE = WAITS._replace(target=1, executors=1, free=1)
ONE_AT_WORK = WAITS._replace(target=1, executors=1, running=1)
LONG = Since(NEVER)
SHORT_LIVED = LONG._replace(short_lived=(ExecutorId("4"),))
REFUSED = LONG._replace(refused=PodRefused(0, 403, "exceeded quota"), refusals=7)
DIED = LONG._replace(deaths=DEATHS_MIN, dead=tuple(map(ExecutorId, "567")), reason="exit code 137")


@pytest.mark.parametrize(
    ("one", "since", "cause", "blocked"),
    [
        pytest.param(WAITS._replace(hidden=4), LONG, StallCause.PENDING_BELOW_ZERO, True, id="hidden tasks"),
        pytest.param(ONE_MISSING._replace(hidden=4), LONG, StallCause.NOT_COMING, True, id="hidden, and one wanted"),
        pytest.param(ONE_FREE._replace(hidden=4), LONG, StallCause.DRIVER, True, id="hidden, and one is free"),
        pytest.param(ONE_AT_WORK._replace(hidden=4), LONG, None, False, id="hidden, and one works"),
        pytest.param(WAITS._replace(unschedulable=1), LONG, StallCause.UNSCHEDULABLE, True, id="no host may"),
        pytest.param(
            ONE_AT_WORK._replace(unschedulable=1), LONG, StallCause.UNSCHEDULABLE, False, id="no host may, others do"
        ),
        pytest.param(ONE_MISSING, DIED, StallCause.EXECUTORS_DIE, True, id="they die"),
        pytest.param(ONE_AT_WORK, DIED, StallCause.EXECUTORS_DIE, True, id="they die at work"),
        pytest.param(
            ONE_MISSING, DIED._replace(deaths=DEATHS_MIN - 1), StallCause.NOT_COMING, True, id="too few of them die"
        ),
        pytest.param(ONE_MISSING._replace(ghosts=(ExecutorId("4"),)), LONG, StallCause.GHOST, True, id="a ghost seen"),
        pytest.param(ONE_MISSING, SHORT_LIVED, StallCause.GHOST, True, id="a ghost suspected"),
        pytest.param(ONE_FREE, SHORT_LIVED, StallCause.DRIVER, True, id="short-lived, and nobody is missing"),
        pytest.param(
            WAITS._replace(target=2), SHORT_LIVED, StallCause.NOT_COMING, True, id="more are missing than were short-lived"
        ),
        pytest.param(
            ONE_FREE._replace(target=2), SHORT_LIVED, StallCause.DRIVER, True, id="short-lived, and one is free"
        ),
        pytest.param(ONE_MISSING, REFUSED, StallCause.QUOTA, True, id="pods are refused"),
        pytest.param(ONE_AT_WORK._replace(target=2), REFUSED, StallCause.QUOTA, False, id="refused, and one works"),
        pytest.param(ONE_FREE._replace(target=2), REFUSED, StallCause.DRIVER, True, id="refused, and one is free"),
        pytest.param(WAITS, REFUSED, StallCause.NOT_ASKED, True, id="refused once, and none is wanted"),
        pytest.param(
            ONE_MISSING._replace(pods_waiting=1, pods=("p-1",)), LONG, StallCause.NODES, True, id="a pod waits for a node"
        ),
        pytest.param(
            ONE_FREE._replace(target=2, pods_waiting=1), LONG, StallCause.DRIVER, True, id="it waits, and one is free"
        ),
        pytest.param(ONE_FREE, LONG, StallCause.DRIVER, True, id="one is free"),
        pytest.param(ONE_FREE._replace(running=1), LONG, StallCause.DRIVER, False, id="one is free, one works"),
        pytest.param(
            ONE_FREE._replace(tasks_known=False, target=2), LONG, StallCause.NOT_COMING, False, id="free or not, who knows"
        ),
        pytest.param(ONE_AT_WORK._replace(maximum=1), LONG, StallCause.MAXIMUM, False, id="at the maximum"),
        pytest.param(ONE_AT_WORK._replace(maximum=2), LONG, None, False, id="below the maximum"),
        pytest.param(ONE_MISSING._replace(ids_over=True), LONG, StallCause.MAXIMUM, True, id="no ids are left"),
        pytest.param(
            ONE_AT_WORK._replace(ids_over=True), LONG, None, False, id="no ids are left, and nobody is missing"
        ),
        pytest.param(ONE_MISSING, LONG, StallCause.NOT_COMING, True, id="one is missing"),
        pytest.param(ONE_AT_WORK._replace(target=2), LONG, StallCause.NOT_COMING, False, id="one of two is missing"),
        pytest.param(WAITS._replace(target=None, maximum=None), LONG, StallCause.NOT_COMING, True, id="nobody is there"),
        pytest.param(WAITS, LONG, StallCause.NOT_ASKED, True, id="nobody is wanted"),
        pytest.param(ONE_AT_WORK, LONG, None, False, id="one works, one is wanted"),
    ],
)  # fmt: skip
def test_the_cause_is_named_when_its_patience_ends(
    one: ProfileMoment, since: Since, cause: StallCause | None, blocked: bool
) -> None:
    found = verdict(one, since)
    if cause is None:
        assert found is None
        return
    assert found is not None
    assert (found.cause, found.blocked) == (cause, blocked)
    patience = ROWS[cause].patience_ms
    assert verdict(one, since._replace(waited_ms=patience)) == found
    assert verdict(one, since._replace(waited_ms=patience - 1)) is None


def test_the_evidence_is_in_the_verdict() -> None:
    below = verdict(WAITS._replace(hidden=4), LONG)
    assert below is not None
    assert below.facts == {
        "pending_tasks": -1,
        "hidden_tasks": 4,
        "waiting_tasks": 3,
        "running_tasks": 0,
        "executors": 0,
        "target": 0,
        "maximum": 9,
    }
    died = verdict(ONE_MISSING, DIED)
    assert died is not None
    assert (died.facts["died"], died.facts["reason"], died.executors) == (3, "exit code 137", ("5", "6", "7"))
    refused = verdict(ONE_MISSING, REFUSED)
    assert refused is not None
    assert (refused.facts["refusals"], refused.facts["message"]) == (7, "exceeded quota")
    waiting = verdict(ONE_MISSING._replace(pods_waiting=12, pods=("p-1",)), LONG)
    assert waiting is not None
    assert (waiting.facts["pods"], waiting.executors) == (12, ("p-1",))
    seen = verdict(ONE_MISSING._replace(ghosts=(ExecutorId("4"),)), SHORT_LIVED)
    suspected = verdict(ONE_MISSING, SHORT_LIVED)
    assert seen is not None
    assert suspected is not None
    assert (seen.facts["certain"], suspected.facts["certain"]) == (1, 0)
    assert seen.executors == suspected.executors == ("4",)
    unknown = verdict(ONE_MISSING._replace(tasks_known=False, target=None, maximum=None), LONG)
    assert unknown is not None
    assert unknown.facts == {"executors": 0}, "what nobody knows is not told"


small = st.integers(0, 2)
moments = st.builds(
    ProfileMoment,
    st.just(DEFAULT_PROFILE),
    pending=st.integers(1, 3),
    hidden=small,
    running=small,
    unschedulable=small,
    executors=small,
    free=small,
    target=st.none() | small,
    maximum=st.none() | small,
    tasks_known=st.booleans(),
    pods_waiting=small,
    ghosts=st.sampled_from([(), (ExecutorId("1"),)]),
    ids_over=st.booleans(),
)
sinces = st.builds(
    Since,
    st.integers(0, 3_600_000),
    deaths=st.integers(0, 4),
    short_lived=st.sampled_from([(), (ExecutorId("2"),)]),
    refused=st.sampled_from([None, PodRefused(0, 403, "no")]),
)


@given(moments, sinces)
def test_while_tasks_run_there_is_no_alarm_but_for_executors_that_die(one: ProfileMoment, since: Since) -> None:
    """Where no tasks are seen, an executor that is there stands for tasks that run."""
    found = verdict(one, since)
    if found is not None and found.blocked:
        works = one.running if one.tasks_known else one.executors
        assert not works or found.cause is StallCause.EXECUTORS_DIE


@given(moments, sinces)
def test_a_verdict_stays_while_nothing_changes_but_the_time(one: ProfileMoment, since: Since) -> None:
    """And nothing is said before the least patience of all."""
    found = verdict(one, since)
    if found is not None:
        assert verdict(one, since._replace(waited_ms=since.waited_ms + 1)) == found
    assert verdict(one, since._replace(waited_ms=LEAST_MS - 1)) is None


def test_every_cause_has_its_words_and_comes_in_the_order_of_the_list() -> None:
    assert list(ROWS) == list(StallCause)
    assert all(row.meaning.endswith(".") and row.advice.endswith(".") for row in ROWS.values())
