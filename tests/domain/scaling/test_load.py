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
from podtide.domain.scaling.load import Backlogged, Demand, QueueEmptied, StageCame
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
    ("events", "demand"),
    [
        pytest.param([], Demand(), id="nothing"),
        pytest.param([submitted()], Demand(pending=3), id="a stage waits"),
        pytest.param([submitted(), submitted(2, attempt=1)], Demand(pending=5), id="a retry is another attempt"),
        pytest.param([submitted(), submitted(5)], Demand(pending=5), id="submitted twice, the last one counts"),
        pytest.param([submitted(), started()], Demand(pending=2, running=1), id="a task runs"),
        pytest.param([submitted(), started(), started()], Demand(pending=2, running=2), id="the same task twice"),
        pytest.param([submitted(), started(), ended()], Demand(pending=2), id="success is not pending again"),
        pytest.param([submitted(), started(), ended(outcome=KILLED)], Demand(pending=2), id="killed neither"),
        pytest.param([submitted(), started(), ended(outcome=FAILED)], Demand(pending=3), id="failed is"),
        pytest.param([submitted(), ended()], Demand(pending=3), id="an end without a start"),
        pytest.param([submitted(), ended(outcome=FAILED)], Demand(pending=3), id="a failure without a start"),
        pytest.param([submitted(), copy(), copy()], Demand(3, speculative=1), id="copies are a set of indices"),
        pytest.param([submitted(), copy(), copy(1)], Demand(3, speculative=2), id="two copies wait"),
        pytest.param([submitted(), copy(), started(speculative=True)], Demand(pending=3, running=1), id="a copy runs"),
        pytest.param(
            [submitted(), copy(), started(), ended()], Demand(pending=2), id="the original ends before its copy"
        ),
        pytest.param(
            [submitted(), copy(), started(), ended(outcome=KILLED)],
            Demand(pending=2, speculative=1),
            id="a killed original leaves its copy",
        ),
        pytest.param(
            [submitted(), copy(), started(speculative=True), ended(outcome=FAILED, speculative=True)],
            Demand(pending=3),
            id="a failed copy is not pending again",
        ),
        pytest.param(
            [submitted(), started(), completed, started(1)],
            Demand(pending=-1, running=2),
            id="a task of a finished attempt that starts late counts below nothing",
        ),
        pytest.param([submitted(), started(), completed], Demand(running=1), id="tasks of a finished attempt count"),
        pytest.param([submitted(), started(), completed, ended()], Demand(), id="until they end"),
        pytest.param(
            [submitted(), completed, started()], Demand(), id="a finished attempt without tasks is unregistered"
        ),
        pytest.param([started()], Demand(), id="an unknown attempt counts nowhere"),
        pytest.param([submitted(), excluded], Demand(3, unschedulable=1), id="unschedulable"),
        pytest.param([submitted(), excluded, excluded, included], Demand(3), id="unschedulable is a set"),
        pytest.param([excluded], Demand(), id="unschedulable without a stage"),
        pytest.param(
            [submitted(), excluded, completed], Demand(), id="a finished attempt is unregistered though unschedulable"
        ),
        pytest.param(
            [submitted(), started(), excluded, completed],
            Demand(unschedulable=1, running=1),
            id="a finished attempt with running tasks stays unschedulable",
        ),
    ],
)
def test_demand(events: list[Stimulus], demand: Demand) -> None:
    whole = loads.fold(loads.empty(), events)
    assert whole.demand(DEFAULT_PROFILE) == demand
    one_by_one = loads.empty()
    for event in events:
        one_by_one = loads.fold(one_by_one, [event])
    assert one_by_one.demand(DEFAULT_PROFILE) == demand


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


def test_tasks_wait() -> None:
    load = loads.fold(loads.empty(), [submitted(1)])
    assert load.tasks_wait()
    load = loads.fold(load, [started()])
    assert not load.tasks_wait()
    load = loads.fold(load, [copy()])
    assert load.tasks_wait()


def test_locality_is_known_only_after_the_first_stage() -> None:
    """Before any stage Spark holds a count for the default profile; later counts are of profiles with stages."""
    assert loads.empty().placement() == ({DEFAULT_PROFILE: 0}, {})
    load = loads.fold(loads.empty(), [submitted(), completed])
    assert load.placement() == ({}, {})


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
