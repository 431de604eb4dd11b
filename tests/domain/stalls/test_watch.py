"""The watch over stalls: each begins and ends once, one at a time for each profile, and the state is a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.reasons import Phase
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted
from podtide.domain.stalls.causes import ROWS, StallCause
from podtide.domain.stalls.facts import (
    NAMED_MAX,
    ExecutorCame,
    ExecutorWent,
    KeptExecutors,
    KeptMoment,
    PodMade,
    PodRefused,
    ProfileMoment,
    StallConfig,
    StallInput,
    StallMoment,
    TasksDone,
)
from podtide.domain.stalls.stalls import SUSPECTS_MAX, Stall, StallNews, StallState, watch

S = 1_000
M = 60 * S
POLL = 30 * S
START = 5 * S
CONFIG = StallConfig(START)
ON_KUBERNETES = StallConfig(START, POLL)
P0, P1 = DEFAULT_PROFILE, ProfileId(1)
WAITS = ProfileMoment(P0, pending=1, attempts=((0, 0),), target=1, maximum=9)
"""A task waits for an executor that was asked for."""

OTHER = WAITS._replace(profile=P1, attempts=((1, 0),))

News = tuple[str, StallCause, Millis, Millis | None]
"""Of news: its phase, the cause, and when the stall began and ended."""


def submitted(at: Millis, stage: int = 0, profile: ProfileId = P0) -> StageSubmitted:
    return StageSubmitted(at, stage, 0, 1, profile)


def stood(at: Millis, *profiles: ProfileMoment, since: Millis | None = None) -> StallMoment:
    return StallMoment(at, at if since is None else since, profiles)


def came(at: Millis, number: int, profile: ProfileId = P0) -> ExecutorCame:
    return ExecutorCame(at, ExecutorId(str(number)), profile)


def went(at: Millis, number: int, *, failed: bool = True) -> ExecutorWent:
    return ExecutorWent(at, ExecutorId(str(number)), failed, "exit code 137" if failed else "idle")


def fold(facts: Sequence[StallInput], config: StallConfig = CONFIG) -> tuple[StallState, list[StallNews]]:
    step = watch(StallState(), facts, config, facts[-1].at)
    return step.state, list(step.commands)


def news(facts: Sequence[StallInput], config: StallConfig = CONFIG) -> list[News]:
    return [(one.phase.value, one.stall.cause, one.stall.since, one.stall.until) for one in fold(facts, config)[1]]


COMING = StallCause.NOT_COMING
BEGAN, ENDED = "began", "ended"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([submitted(10 * S), stood(10 * M, WAITS)], [], id="not yet: ten minutes are not over"),
        pytest.param(
            [submitted(10 * S), stood(11 * M, WAITS)],
            [(BEGAN, COMING, 10 * S, None)],
            id="since its stage was submitted",
        ),
        pytest.param(
            [submitted(10 * S), TasksDone(M, P0), stood(12 * M, WAITS)],
            [(BEGAN, COMING, M, None)],
            id="since its last success",
        ),
        pytest.param([stood(11 * M, WAITS)], [(BEGAN, COMING, START, None)], id="since the start: no stage is known"),
        pytest.param(
            [submitted(10 * S), stood(11 * M, WAITS), stood(12 * M, WAITS), TasksDone(13 * M, P0), TasksDone(14 * M, P0)],
            [(BEGAN, COMING, 10 * S, None), (ENDED, COMING, 10 * S, 13 * M)],
            id="until the next success",
        ),
        pytest.param(
            [submitted(10 * S), stood(11 * M, WAITS), stood(13 * M, since=12 * M), stood(14 * M)],
            [(BEGAN, COMING, 10 * S, None), (ENDED, COMING, 10 * S, 12 * M)],
            id="until nothing waits any more",
        ),
        pytest.param(
            [submitted(10 * S), stood(11 * M, WAITS), stood(13 * M, WAITS._replace(pending=0), since=12 * M)],
            [(BEGAN, COMING, 10 * S, None), (ENDED, COMING, 10 * S, 12 * M)],
            id="a profile without waiting tasks is as none",
        ),
        pytest.param(
            [
                submitted(10 * S),
                stood(11 * M, WAITS),
                stood(13 * M, WAITS._replace(executors=1, free=1), since=12 * M),
            ],
            [
                (BEGAN, COMING, 10 * S, None),
                (ENDED, COMING, 10 * S, 12 * M),
                (BEGAN, StallCause.DRIVER, 12 * M, None),
            ],
            id="another cause begins where the first one ended",
        ),
        pytest.param(
            [
                submitted(10 * S),
                stood(6 * M, WAITS._replace(executors=1, free=1)),
                stood(7 * M, WAITS),
                stood(11 * M, WAITS),
            ],
            [
                (BEGAN, StallCause.DRIVER, 10 * S, None),
                (ENDED, StallCause.DRIVER, 10 * S, 7 * M),
                (BEGAN, COMING, 7 * M, None),
            ],
            id="also one whose patience is longer",
        ),
        pytest.param(
            [
                submitted(10 * S),
                stood(11 * M, WAITS),
                stood(13 * M, WAITS._replace(executors=1, running=1, target=2), since=12 * M),
            ],
            [(BEGAN, COMING, 10 * S, None), (ENDED, COMING, 10 * S, 12 * M), (BEGAN, COMING, 12 * M, None)],
            id="an alarm that became a limit is another stall",
        ),
        pytest.param(
            [
                submitted(10 * S),
                stood(11 * M, WAITS),
                stood(13 * M, WAITS._replace(executors=1, running=1), since=12 * M),
            ],
            [(BEGAN, COMING, 10 * S, None), (ENDED, COMING, 10 * S, 12 * M)],
            id="the executor came and works",
        ),
        pytest.param(
            [submitted(10 * S), submitted(20 * S, 1, P1), stood(11 * M, WAITS, OTHER),
             TasksDone(12 * M, P0), stood(13 * M, OTHER)],
            [(BEGAN, COMING, 10 * S, None), (BEGAN, COMING, 20 * S, None), (ENDED, COMING, 10 * S, 12 * M)],
            id="each profile has its own",
        ),
        pytest.param(
            [submitted(10 * S), StageCompleted(20 * S, 0, 0), StageCompleted(20 * S, 9, 0), submitted(9 * M, 1),
             stood(11 * M, WAITS._replace(attempts=((1, 0),)))],
            [],
            id="a stage that is over does not count",
        ),
    ],
)  # fmt: skip
def test_when_a_stall_begins_and_ends(facts: Sequence[StallInput], expected: Sequence[News]) -> None:
    assert news(facts) == expected


def loop(*, failed: bool = True, success: int | None = None, count: int = 3) -> list[StallInput]:
    """Executors that come and go within 40 s each; ``success``: a task ends well while that one is there."""
    facts: list[StallInput] = [submitted(10 * S)]
    for number in range(count):
        at = 20 * S + number * 50 * S
        facts.append(came(at, number))
        if number == success:
            facts.append(TasksDone(at + S, P0))
        facts.append(went(at + 40 * S, number, failed=failed))
    return facts


@pytest.mark.parametrize(
    ("facts", "died"),
    [
        pytest.param(loop(), 3, id="three die"),
        pytest.param(loop(count=2), None, id="two die"),
        pytest.param(loop(failed=False), None, id="three are let go"),
        pytest.param(loop(success=1), None, id="one of them had success, and two died since"),
        pytest.param(loop(success=0, count=4), 3, id="three died since one had success"),
        pytest.param([came(6 * S, 9), *loop(count=2), TasksDone(3 * M, P0), went(4 * M, 9)], None, id="not a loop"),
        pytest.param(
            [submitted(10 * S), *(went(at * S, at) for at in (20, 30, 40))], 3, id="they die before they register"
        ),
        pytest.param(
            [submitted(10 * S), *(went(at * S, 1) for at in (20, 30, 40))], None, id="one of which is heard three times"
        ),
        pytest.param(
            [*(went(at * S, at) for at in (6, 7, 8)), submitted(9 * S)], 3, id="a stage that is tried again at once"
        ),
        pytest.param(
            [*(went(at * S, at) for at in (6, 7, 8)), submitted(3 * M)], None, id="they died before anything waited"
        ),
    ],
)
def test_executors_that_die_are_counted_since_the_last_success(facts: list[StallInput], died: int | None) -> None:
    (state, found) = fold([*facts, stood(30 * M, WAITS)])
    told = [one.stall.facts["died"] for one in found if one.stall.cause is StallCause.EXECUTORS_DIE]
    assert told == ([] if died is None else [died])
    assert len(state.open) == 1


def test_of_many_that_die_the_last_are_named() -> None:
    state, _ = fold([*loop(count=25), stood(40 * M, WAITS)])
    assert state.open[P0].facts["died"] == 25
    assert state.open[P0].executors == tuple(str(number) for number in range(25 - NAMED_MAX, 25))


@pytest.mark.parametrize(
    ("lived", "config", "cause"),
    [
        (POLL - 1, ON_KUBERNETES, StallCause.GHOST),
        (POLL, ON_KUBERNETES, COMING),
        (POLL - 1, CONFIG, COMING),
    ],
)
def test_who_lived_too_short_to_be_seen_is_suspected(lived: Millis, config: StallConfig, cause: StallCause) -> None:
    facts: list[StallInput] = [
        submitted(10 * S),
        came(20 * S, 1),
        went(20 * S + lived, 1, failed=False),
        stood(20 * M, WAITS),
    ]
    assert news(facts, config) == [(BEGAN, cause, 10 * S, None)]


def test_suspects_are_bounded_and_one_that_never_registered_is_none() -> None:
    lives = [fact for number in range(SUSPECTS_MAX + 50) for fact in (came(10 * S, number), went(11 * S, number))]
    state, _ = fold([*lives, went(12 * S, 9_999)], ON_KUBERNETES)
    assert len(state.suspects[P0]) == SUSPECTS_MAX
    assert ExecutorId("9999") not in state.suspects[P0]


@pytest.mark.parametrize("news_of", [lambda: came(2 * M, 1), lambda: PodMade(2 * M)], ids=["it comes", "one is made"])
def test_a_refused_pod_is_forgotten_when_an_executor_comes(news_of: Callable[[], StallInput]) -> None:
    refused = PodRefused(M, 403, "exceeded quota")
    facts: list[StallInput] = [submitted(10 * S), refused, refused, stood(20 * M, WAITS)]
    assert news(facts) == [(BEGAN, StallCause.QUOTA, 10 * S, None)]
    assert fold(facts)[0].open[P0].facts["refusals"] == 2
    facts.insert(3, news_of())
    assert news(facts) == [(BEGAN, COMING, 10 * S, None)]


def test_where_no_task_is_seen_a_shortfall_is_waited_for_since_it_began() -> None:
    blind = WAITS._replace(tasks_known=False, pending=0, attempts=())
    there = blind._replace(executors=1)
    facts = [stood(M, blind), stood(11 * M, blind), stood(12 * M, there), stood(13 * M, blind), stood(23 * M, blind)]
    assert news(facts) == [
        (BEGAN, COMING, M, None),
        (ENDED, COMING, M, 12 * M),
        (BEGAN, COMING, 13 * M, None),
    ]


def test_where_no_task_is_seen_executors_that_stay_are_the_success() -> None:
    blind = WAITS._replace(tasks_known=False, pending=0, attempts=())
    deaths = [went(at * S, at) for at in (20, 30, 40)]
    facts: list[StallInput] = [*deaths, stood(M, blind), stood(4 * M, blind)]
    assert news(facts) == [(BEGAN, StallCause.EXECUTORS_DIE, M, None)]
    stayed: list[StallInput] = [
        *deaths,
        stood(3 * M, blind._replace(executors=1)),
        stood(4 * M, blind),
        stood(7 * M, blind),
    ]
    assert fold(stayed)[0].deaths == {}
    assert news(stayed) == []


def kept(at: Millis, since: Millis | None, number: int = 1, profile: ProfileId = P0) -> KeptMoment:
    names = tuple(ExecutorId(str(one)) for one in range(number))
    return KeptMoment(at, at - S, () if since is None else (KeptExecutors(profile, number, since, names),))


def test_executors_kept_by_old_shuffles_are_watched_beside() -> None:
    patience = ROWS[StallCause.SHUFFLES].patience_ms
    facts: list[StallInput] = [kept(M + patience - 1, M), kept(M + patience, M, 30), kept(3 * patience, 2 * M)]
    state, found = fold(facts)
    assert [(one.at, one.phase.value, one.stall.since) for one in found] == [(M + patience, BEGAN, M)]
    assert len(found[0].stall.executors) == NAMED_MAX
    assert state.kept[P0].since == M, "the first of them has gone, and it is the same stall"
    assert state.stalls() == (state.kept[P0],)
    (ended,) = watch(state, [TasksDone(3 * patience, P0), kept(4 * patience, None)], CONFIG, 4 * patience).commands
    assert (ended.phase.value, ended.stall.until) == (ENDED, 4 * patience - S)


def test_alarms_come_first_and_then_the_oldest() -> None:
    limit = WAITS._replace(executors=1, running=1, target=2)
    state, _ = fold([submitted(10 * S), submitted(20 * S, 1, P1), stood(2 * 60 * M, limit, OTHER), kept(2 * 60 * M, M)])
    assert [(one.cause, one.profile) for one in state.stalls()] == [
        (COMING, P1), (StallCause.SHUFFLES, P0), (COMING, P0)
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------- whatever happens

profiles = st.sampled_from([P0, P1])
small = st.integers(0, 2)
standing = st.builds(
    ProfileMoment,
    profiles,
    pending=small,
    attempts=st.sampled_from([(), ((0, 0),), ((1, 0), (2, 0))]),
    hidden=small,
    running=small,
    executors=small,
    free=small,
    target=st.none() | small,
    maximum=st.none() | small,
    tasks_known=st.booleans(),
    pods_waiting=small,
)
numbers = st.integers(0, 4)


@st.composite
def histories(draw: st.DrawFn) -> list[StallInput]:
    """What a stranger may tell, in order of time; quiet minutes between."""
    facts: list[StallInput] = []
    at = START
    for _ in range(draw(st.integers(1, 25))):
        before, at = at, at + draw(st.sampled_from([0, S, M, 6 * M, 31 * M]))
        profile = draw(profiles)
        match draw(st.integers(0, 9)):
            case 0:
                facts.append(TasksDone(at, profile))
            case 1:
                facts.append(submitted(at, draw(small), profile))
            case 2:
                facts.append(StageCompleted(at, draw(small), 0))
            case 3:
                facts.append(came(at, draw(numbers), profile))
            case 4:
                facts.append(went(at, draw(numbers), failed=draw(st.booleans())))
            case 5:
                facts.append(PodRefused(at, 403, "no") if draw(st.booleans()) else PodMade(at))
            case 6:
                some = draw(st.sampled_from([None, max(0, at - 2 * 60 * M)]))
                facts.append(kept(at, some, draw(st.integers(1, 12)), profile))
            case _:
                rows = draw(st.lists(standing, max_size=2, unique_by=lambda one: one.profile))
                facts.append(stood(at, *rows, since=draw(st.integers(before, at))))
    return facts


@given(histories())
def test_each_stall_begins_once_and_ends_once_one_at_a_time_for_each_profile(facts: list[StallInput]) -> None:
    state, found = fold(facts, ON_KUBERNETES)
    lasting: dict[tuple[ProfileId, bool], Stall] = {}
    over: dict[tuple[ProfileId, bool], Millis] = {}
    for one in found:
        stall = one.stall
        key = stall.profile, stall.cause is StallCause.SHUFFLES
        if one.phase is Phase.BEGAN:
            assert key not in lasting
            assert key[1] or stall.since >= over.get(key, START), "no two at a time"
            assert stall.until is None
            lasting[key] = stall
        else:
            before = lasting.pop(key)
            assert (stall.cause, stall.since, stall.blocked) == (before.cause, before.since, before.blocked)
            assert stall.until is not None
            assert stall.since <= stall.until <= one.at
            over[key] = stall.until
    assert {(one.profile, one.cause, one.since) for one in state.stalls()} == {
        (one.profile, one.cause, one.since) for one in lasting.values()
    }


@given(histories(), st.data())
def test_facts_may_come_in_any_pieces_and_an_older_state_answers_as_before(
    facts: list[StallInput], data: st.DataObject
) -> None:
    whole, expected = fold(facts, ON_KUBERNETES)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(facts)), max_size=4)))
    bounds = [0, *cuts, len(facts)]
    states, found = [StallState()], list[StallNews]()
    for begin, end in pairwise(bounds):
        step = watch(states[-1], facts[begin:end], ON_KUBERNETES, facts[-1].at)
        states.append(step.state)
        found += step.commands
    assert found == expected
    assert states[-1] == whole
    for place, begin in enumerate(bounds):
        again = watch(states[place], facts[begin:], ON_KUBERNETES, facts[-1].at)
        assert again.state == whole
