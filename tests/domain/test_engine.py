"""One step of everything: batches, time, metrics."""

from __future__ import annotations

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId
from podtide.domain.protocol.commands import RequestTotal
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded, StageSubmitted, Stimulus, Stop, TaskStart, Tick
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.metrics import metrics
from tests.support.scaling_play import Play

CONFIG = ScalingConfig(
    executors_min=1,
    executors_max=10,
    executors_initial=1,
    backlog_timeout_ms=1_000,
    idle_timeout_ms=3_000,
    shuffle_tracking=False,
)


def test_the_first_command_asks_for_the_initial_executors() -> None:
    step = dynamic_allocation.start(CONFIG, 7)
    (request,) = step.commands
    assert isinstance(request, RequestTotal)
    assert (request.at, dict(request.targets), request.why.cause) == (7, {DEFAULT_PROFILE: 1}, Cause.INITIAL)
    assert dict(request.locality_tasks) == {DEFAULT_PROFILE: 0}
    assert request.host_tasks == {}
    assert dynamic_allocation.due(step.state, CONFIG) == NEVER


def test_a_batch_may_hold_ticks() -> None:
    state = dynamic_allocation.start(CONFIG, 0).state
    batch: list[Stimulus] = [
        ExecutorAdded(0, ExecutorId("1"), DEFAULT_PROFILE),
        StageSubmitted(10, 0, 0, 5, DEFAULT_PROFILE),
        Tick(1_009),
        Tick(1_010),
        TaskStart(1_011, 0, 0, 0, ExecutorId("1")),
        Stop(1_012),
        Tick(9_000),
    ]
    step = dynamic_allocation.step(state, batch, CONFIG, 9_000)
    assert [command.at for command in step.commands] == [1_010]
    assert step.state.load.demand(DEFAULT_PROFILE).running == 1
    assert step.state.scaling.stopped


def test_an_empty_batch_changes_nothing() -> None:
    state = dynamic_allocation.start(CONFIG, 0).state
    step = dynamic_allocation.step(state, [], CONFIG, 0)
    assert (step.commands, step.reports) == ((), ())
    assert step.state.scaling.targets == state.scaling.targets


def test_metrics_of_an_application_under_way() -> None:
    play = Play(CONFIG)
    play.join(*range(4), busy=True)
    play.stage(0, 3)
    play.add()
    assert play.offer(0) == ["0"]
    play.complete(0)
    play.tick()
    assert play.offer(1) == ["1"]
    play.leave(0)
    assert metrics(play.state.scaling, play.state.load, CONFIG) == {
        "executors.numberExecutorsToAdd": 1,
        "executors.numberExecutorsPendingToRemove": 1,
        "executors.numberAllExecutors": 3,
        "executors.numberTargetExecutors": 1,
        "executors.numberMaxNeededExecutors": 0,
        "executors.numberDecommissioningExecutors": 0,
        "executors.numberExecutorsGracefullyDecommissioned": 0,
        "executors.numberExecutorsDecommissionUnfinished": 0,
        "executors.numberExecutorsKilledByDriver": 1,
        "executors.numberExecutorsExitedUnexpectedly": 0,
    }
