"""SPARK-58446: late news of completed stages, under Spark's rules and with the repair.

Under Spark's rules a task that starts after its stage was completed, while another of its tasks still runs, makes the
pending tasks negative for good: the next stage's tasks are set off against them, and with no executor left nobody is
asked for. With ``repair_pending`` such a task is one that runs, no more.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.protocol.commands import RequestTotal
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import (
    Answer,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    Tick,
)
from podtide.domain.scaling import load as loads, manager as scaling
from podtide.domain.scaling.load import Backlogged, Demand, Load
from tests.support.state_contents import load_contents

EXECUTOR = ExecutorId("1")


def submitted(stage: int = 0, tasks: int = 2, at: Millis = 0) -> StageSubmitted:
    return StageSubmitted(at, stage, 0, tasks, DEFAULT_PROFILE, None)


def completed(stage: int = 0, at: Millis = 0) -> StageCompleted:
    return StageCompleted(at, stage, 0)


def started(index: int = 0, stage: int = 0, at: Millis = 0, *, speculative: bool = False) -> TaskStart:
    return TaskStart(at, stage, 0, index, EXECUTOR, speculative)


def ended(
    index: int = 0,
    outcome: TaskOutcome = TaskOutcome.SUCCESS,
    stage: int = 0,
    at: Millis = 0,
    *,
    speculative: bool = False,
) -> TaskEnd:
    return TaskEnd(at, stage, 0, index, EXECUTOR, speculative, outcome)


def copied(index: int = 0, stage: int = 0, at: Millis = 0) -> SpeculativeTaskSubmitted:
    return SpeculativeTaskSubmitted(at, stage, 0, index)


def demand(*events: Stimulus, repair: bool) -> Demand:
    return loads.fold(loads.empty(), events, repair_pending=repair).demand(DEFAULT_PROFILE)


LATE = (submitted(), started(0), completed(), started(1))


@pytest.mark.parametrize(
    ("events", "faithful", "repaired"),
    [
        (LATE, Demand(pending=-1, running=2), Demand(pending=0, running=2)),
        ((*LATE, ended(0), ended(1)), Demand(pending=-1), Demand()),
        ((*LATE, ended(1, TaskOutcome.FAILED)), Demand(pending=0, running=1), Demand(running=1)),
        ((*LATE, copied()), Demand(pending=-1, speculative=1, running=2), Demand(running=2)),
        ((*LATE, started(0, speculative=True)), Demand(pending=-1, running=3), Demand(running=3)),
        # A stage that is under way is counted alike, and so is an attempt that is submitted once more.
        ((submitted(), started(0), copied(0)), Demand(1, 1, 0, 1), Demand(1, 1, 0, 1)),
        ((submitted(), started(0), ended(0, TaskOutcome.FAILED)), Demand(2), Demand(2)),
        ((*LATE, submitted(), started(0)), Demand(pending=0, running=3), Demand(pending=1, running=3)),
    ],
)
def test_what_is_counted(events: Sequence[Stimulus], faithful: Demand, repaired: Demand) -> None:
    assert demand(*events, repair=False) == faithful
    assert demand(*events, repair=True) == repaired


@pytest.mark.parametrize("event", [ended(1, TaskOutcome.FAILED, at=9), copied(at=9)])
def test_late_news_begins_no_backlog(event: Stimulus) -> None:
    before = loads.fold(loads.empty(), (submitted(), started(0), completed()))
    assert Backlogged(9) in loads.fold(before, (event,)).signals
    assert Backlogged(9) not in loads.fold(before, (event,), repair_pending=True).signals


def test_a_task_of_an_unheard_of_stage_leaves_no_trace_once_it_ended() -> None:
    load = loads.fold(loads.empty(), (started(), ended()), repair_pending=True)
    assert load_contents(load) == load_contents(loads.empty())


# ------------------------------------------------------------------------------------------------------ the application

STORY: tuple[Stimulus, ...] = (
    submitted(0, 3, 10), started(0, at=20), completed(0, 30), Tick(100),
    started(1, at=110), Tick(200), ended(0, at=210), ended(1, at=310), Tick(400),
)  # fmt: skip
"""A stage is done while a task of it runs; another of its tasks starts late; both end."""


def wanted_at_last(config: ScalingConfig, tasks: int) -> int:
    """The target a minute after the next stage came; every request is granted, no executor ever registers."""
    load = loads.empty()
    state = scaling.start(load, config, 0).state
    ticks = tuple(Tick(at) for at in range(600, 60_000, 100))
    stimuli: tuple[Stimulus, ...] = (*STORY, submitted(1, tasks, 500), *ticks)
    for stimulus in stimuli:
        queue: list[Stimulus] = [stimulus]
        while queue:
            one = queue.pop(0)
            if isinstance(one, (Tick, Answer)):
                seen: Load = load.with_signals((), (one,))
            else:
                seen = load = loads.fold(load, (one,), repair_pending=config.repair_pending)
            step = scaling.scale(state, (seen,), config, one.at)
            state = step.state
            queue += [Answer(one.at, c.serial, True, None) for c in step.commands if isinstance(c, RequestTotal)]
    return state.targets[DEFAULT_PROFILE]


@pytest.mark.parametrize(("repair", "wanted"), [(False, 4), (True, 5)])
def test_a_larger_stage_is_short_of_an_executor_unless_repaired(repair: bool, wanted: int) -> None:
    assert wanted_at_last(ScalingConfig(repair_pending=repair), tasks=5) == wanted


# ------------------------------------------------------------------------------------------------------------ properties

EVENTS = st.one_of(
    st.builds(submitted, st.integers(0, 1), st.integers(0, 3)),
    st.builds(completed, st.integers(0, 1)),
    st.builds(started, st.integers(0, 3), st.integers(0, 1), speculative=st.booleans()),
    st.builds(ended, st.integers(0, 3), st.sampled_from(TaskOutcome), st.integers(0, 1), speculative=st.booleans()),
    st.builds(copied, st.integers(0, 3), st.integers(0, 1)),
)


@given(st.lists(EVENTS, max_size=40))
def test_repaired_or_not_the_running_tasks_are_the_same(events: list[Stimulus]) -> None:
    faithful = loads.fold(loads.empty(), events)
    repaired = loads.fold(loads.empty(), events, repair_pending=True)
    keys = set(faithful._tables.attempts) | set(repaired._tables.attempts)
    for key in keys:
        one, other = faithful._tables.attempts.get(key), repaired._tables.attempts.get(key)
        assert (one.running if one else 0) == (other.running if other else 0)


@given(st.lists(EVENTS, max_size=40))
def test_repaired_nothing_is_pending_beyond_the_stages_under_way(events: list[Stimulus]) -> None:
    load = loads.fold(loads.empty(), events, repair_pending=True)
    for attempt in load._tables.attempts.values():
        if attempt.tasks is None:
            assert attempt.pending == 0
            assert not attempt.spec_pending
