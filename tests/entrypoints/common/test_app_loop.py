"""The loop: who is heard when, timers that run in time, time that never goes back, environment that never let it pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Kill, RequestTotal, Step
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import TargetsSet, Wake
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import Outcome, PodsUpdated
from podtide.domain.protocol.stimuli import StageSubmitted
from podtide.entrypoints.common.app_loop import AppLoop, Stuck
from tests.support.engine_play import S, config, manifest

Heard = tuple[Millis, tuple[AnyStimulus, ...]]


def wanting(now: Millis, target: int) -> TargetsSet:
    return TargetsSet(now, ((ProfileId(0), target),))


class Scene:
    """Environment that follow a script, and answer every call after ``latency``; what they did not know they count."""

    def __init__(self, *script: Heard, latency: Millis = 0) -> None:
        self.coming = sorted(script, key=lambda heard: heard[0])
        self.latency = latency
        self.asked: list[Millis] = []
        self.applied: list[tuple[Millis, Command]] = []
        self.now: Millis = 0

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        self.asked.append(until)
        if self.coming and self.coming[0][0] <= until:
            at, stimuli = self.coming.pop(0)
            self.now = max(self.now, at)
            return self.now, stimuli
        if until == NEVER:
            return NEVER, ()
        self.now = until
        return until, ()

    def apply(self, command: Command, now: Millis) -> None:
        self.applied.append((now, command))
        serial = getattr(command, "serial", None)
        if serial is not None:
            self.coming.append((now + self.latency, (Outcome(now + self.latency, serial),)))
            self.coming.sort(key=lambda heard: heard[0])


class Notebook:
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.steps: list[tuple[Millis, list[str], int]] = []
        self.states: list[EngineState] = []

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        self.steps.append((now, [type(stimulus).__name__ for stimulus in stimuli], len(taken.commands)))
        self.states.append(taken.state)


def looped(scene: Scene, settings: EngineConfig | None = None, now: Millis = 0) -> tuple[AppLoop, Notebook]:
    notebook = Notebook()
    loop = AppLoop(settings or config(initial=0), now, scene, [notebook])
    loop.launch()
    return loop, notebook


def test_what_is_heard_comes_at_its_time_and_timers_run_at_theirs() -> None:
    scene = Scene((2_500, (wanting(2_500, 1),)), latency=40)
    loop, notebook = looped(scene)
    loop.run(10 * S)
    assert notebook.steps == [
        (0, ["Starting"], 0),
        (2_500, ["TargetsSet"], 1),
        (2_540, ["Outcome"], 0),
        (3_000, ["Wake"], 0),
    ]  # fmt: skip
    assert loop.now == 10 * S


def test_the_end_is_exclusive_for_timers_and_inclusive_for_what_is_heard() -> None:
    scene = Scene((1_500, (wanting(1_500, 1),)))
    loop, notebook = looped(scene)
    loop.run(1_500)
    assert [names for _, names, _ in notebook.steps] == [["Starting"], ["TargetsSet"], ["Outcome"]]
    loop.run(2 * S)
    assert len(notebook.steps) == 3
    assert loop.now == 2 * S
    loop.run(2 * S + 1)
    assert notebook.steps[-1][:2] == (2 * S, ["Wake"]), "the round that was due at the end comes with the next run"


def test_what_is_heard_at_a_moment_comes_before_the_timers_that_are_due_then() -> None:
    shown = PodsUpdated(3 * S, (manifest(1),))
    scene = Scene((500, (wanting(500, 1),)), (3 * S, (shown,)), (3 * S, (shown,)))
    loop, notebook = looped(scene)
    loop.run(3_001)
    assert [names for at, names, _ in notebook.steps if at == 3 * S] == [["PodsUpdated"], ["PodsUpdated"], ["Wake"]]


def test_questions_of_dynamic_allocation_are_answered_inside() -> None:
    asking = ScalingConfig(executors_initial=1, shuffle_tracking=False, idle_timeout_ms=S)
    scene = Scene((50, (StageSubmitted(50, 0, 0, 4, ProfileId(0)),)))
    loop, notebook = looped(scene, config(initial=1, dynamic=True, scaling=asking))
    loop.run(10 * S)
    assert not [command for _, command in scene.applied if isinstance(command, RequestTotal | Kill)]
    assert [command.executor for _, command in scene.applied if isinstance(command, CreatePod)] == [1]
    assert sum(count for _, _, count in notebook.steps) > len(scene.applied), "observers see them"


class Echo(Scene):
    """Environment that always have something to say, at the same moment."""

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        return min(42, until), (Wake(42),)


def test_surroundings_that_never_let_time_pass_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtide.entrypoints.common.app_loop.STEPS_AT_ONCE_MAX", 50)
    loop, notebook = looped(Echo())
    with pytest.raises(Stuck, match="at 42 ms"):
        loop.run(60 * S)
    assert len(notebook.steps) <= 53


class Silent(Scene):
    """Environment that come back early without anything to say."""

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        self.now = min(until, self.now + 300)
        return self.now, ()


def test_surroundings_may_come_back_early() -> None:
    loop, notebook = looped(Silent(), config(initial=1))
    loop.run(4 * S)
    assert loop.now == 4 * S
    assert [at for at, _, _ in notebook.steps] == [0, S, 2 * S, 3 * S] or len(notebook.steps) < 5
