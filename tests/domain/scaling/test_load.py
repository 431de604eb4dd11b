"""The demand: what each listener event does to it, one event after another (dynamic allocation spec, section 6)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.protocol.stimuli import (
    ExecutorAdded,
    Reset,
    ResourceProfileAdded,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    Stop,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    Tick,
    UnschedulableTaskSetAdded,
    UnschedulableTaskSetRemoved,
)
from podtide.domain.scaling import load as loads
from podtide.domain.scaling.load import Backlogged, QueueEmptied, StageCame
from tests.support.state_contents import load_contents

EXECUTOR = ExecutorId("1")
OTHER = ProfileId(1)


def submitted(tasks: int = 3, stage: int = 0, attempt: int = 0, profile: ProfileId = DEFAULT_PROFILE) -> Stimulus:
    return StageSubmitted(0, stage, attempt, tasks, profile)


def started(index: int = 0, stage: int = 0, attempt: int = 0, speculative: bool = False) -> Stimulus:
    return TaskStart(0, stage, attempt, index, EXECUTOR, speculative)


def ended(
    index: int = 0, outcome: TaskOutcome = TaskOutcome.SUCCESS, speculative: bool = False, attempt: int = 0
) -> Stimulus:
    return TaskEnd(0, 0, attempt, index, EXECUTOR, speculative, outcome)


def copy(index: int = 0) -> Stimulus:
    return SpeculativeTaskSubmitted(0, 0, 0, index)


completed = StageCompleted(0, 0, 0)
excluded = UnschedulableTaskSetAdded(0, 0, 0)
included = UnschedulableTaskSetRemoved(0, 0, 0)
FAILED, KILLED = TaskOutcome.FAILED, TaskOutcome.KILLED


@pytest.mark.parametrize(
    ("events", "signals"),
    [
        pytest.param([submitted()], [StageCame], id="a stage comes"),
        pytest.param([submitted(1), started()], [StageCame, QueueEmptied], id="its last task starts"),
        pytest.param([submitted(2), started()], [StageCame], id="not its last task"),
        pytest.param(
            [submitted(1), submitted(1, attempt=1), started()], [StageCame, StageCame], id="another attempt waits"
        ),
        pytest.param([submitted(1), copy(), started()], [StageCame, Backlogged], id="a copy waits"),
        pytest.param([started()], [QueueEmptied], id="an unknown task starts, nothing waits"),
        pytest.param([copy()], [Backlogged], id="a copy is submitted"),
        pytest.param([excluded], [Backlogged], id="a task set becomes unschedulable"),
        pytest.param([included], [], id="or schedulable"),
        pytest.param([submitted(), completed], [StageCame, QueueEmptied], id="the last stage completes"),
        pytest.param([submitted(), submitted(attempt=1), completed], [StageCame] * 2, id="not the last stage"),
        pytest.param([submitted(), ended(outcome=FAILED)], [StageCame], id="a failure while tasks wait"),
        pytest.param([ended(outcome=FAILED)], [Backlogged], id="a failure while nothing waits"),
        pytest.param([ended(outcome=KILLED)], [], id="a kill never"),
        pytest.param([Tick(0), Reset(0), Stop(0)], [Tick, Reset, Stop], id="what is no event passes through"),
        pytest.param([ExecutorAdded(0, EXECUTOR, OTHER)], [], id="executors are of no concern"),
    ],
)
def test_signals(events: list[Stimulus], signals: list[type]) -> None:
    assert [type(signal) for signal in loads.fold(loads.empty(), events).signals] == signals


def test_the_last_running_tasks_empty_the_queue_once() -> None:
    """Ten starts in one batch, each of which leaves nothing waiting, are one piece of news."""
    load = loads.fold(loads.empty(), [started(index) for index in range(10)])
    assert len(load.signals) == 1


def announced(profile: ProfileId, cores: float) -> Stimulus:
    return ResourceProfileAdded(0, profile, (("cores", cores),), (("cpus", 1.0),))


def test_announcements_of_one_profile_are_bounded() -> None:
    load = loads.fold(loads.empty(), [announced(OTHER, float(cores)) for cores in range(1, 1_000)])
    assert len(load.resource_profiles(OTHER)) < 100


STORY: list[Stimulus] = [
    StageSubmitted(0, 0, 0, 3, DEFAULT_PROFILE, (("a",),)),
    started(0),
    started(0),
    ended(0),
    copy(1),
    started(1, speculative=True),
    ended(1, speculative=True),
    excluded,
    started(2),
    ended(2, FAILED),
    included,
    announced(OTHER, 2.0),
    StageSubmitted(0, 0, 0, 3, DEFAULT_PROFILE, (("b",),)),
    completed,
    ended(0),
    submitted(2),
]


def test_an_older_load_answers_as_before() -> None:
    versions = [loads.empty()]
    for event in STORY:
        versions.append(loads.fold(versions[-1], [event]))
    forward = [load_contents(loads.fold(loads.empty(), STORY[:n])) for n in range(len(STORY) + 1)]
    # The middle first, so that it is rebuilt from a long way off, then the rest from both ends.
    for place in sorted(range(len(versions)), key=lambda n: abs(n - len(versions) // 2)):
        plain = load_contents(versions[place])
        assert {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in plain.items()} == {
            k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in forward[place].items()
        }
        again = pickle.loads(pickle.dumps(versions[place]))
        assert again.demand(DEFAULT_PROFILE) == versions[place].demand(DEFAULT_PROFILE)
        assert again.placement() == versions[place].placement()


def test_a_fold_that_raises_leaves_the_load_as_it_was() -> None:
    load = loads.fold(loads.empty(), STORY[:6])
    before, demand = load_contents(load), load.demand(DEFAULT_PROFILE)
    unhashable: Any = TaskStart(9, [0], 0, 1, EXECUTOR)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        loads.fold(load, [*STORY[6:], unhashable])
    assert load_contents(load) == before
    assert load.demand(DEFAULT_PROFILE) == demand
