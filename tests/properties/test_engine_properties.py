"""The composed engine under any weather: it never raises, an older state answers as before, idle time changes nothing.

Stories are made of every stimulus that there is, sensible or not; calls are answered late, in any order, with failures, or
never. ``Run`` lives through one, waking only when ``due`` says so, or (``eager``) at every run of every timer.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain import engine
from podtide.domain.backend import heartbeat_receiver as heartbeats, scheduler_backend as backend
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes import polling_source as polling, snapshots_store as store
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.cluster_config import ClaimTemplate, HeartbeatConfig, ResizeConfig, RollConfig
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScheduleThrew
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import (
    DecommissionExecutorsOnHost,
    DecommissionRequested,
    ExecutorDisconnected,
    ExecutorExiting,
    Heartbeat,
    HeartbeatsStopped,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    TargetsSet,
    Wake,
)
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    CreationFailed,
    ExecutorsSummarized,
    ExecutorSummary,
    KnownExecutors,
    Outcome,
    PodsReplaced,
    PodsUpdated,
    Reconciled,
)
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted, TaskEnd, TaskStart, Tick
from tests.properties.pod_happenings import pod_stimuli, stimuli as listener_stimuli
from tests.support.engine_play import config, manifest

S = 1_000
FAILURES = (
    CallFailure(403, "forbidden"), CallFailure(None, "timeout", "java.net.SocketTimeoutException"),
    CallFailure(None, "bad", "java.lang.IllegalArgumentException"), CallFailure(404, "not found"),
)  # fmt: skip


def _outside(stimulus: AnyStimulus) -> bool:
    """What one machine tells another never comes from outside."""
    return not isinstance(stimulus, KnownExecutors | CreationFailed)


any_stimulus: st.SearchStrategy[AnyStimulus] = st.one_of(pod_stimuli, pod_stimuli, listener_stimuli).filter(_outside)


NUMBERS = st.integers(1, 8)
WHO = NUMBERS.map(lambda number: ExecutorId(str(number)))
SOME = st.lists(WHO, min_size=1, max_size=3, unique=True).map(tuple)
FLAG = st.booleans()
likely: st.SearchStrategy[AnyStimulus] = st.one_of(
    st.builds(TargetsSet, st.just(0), st.integers(0, 5).map(lambda n: ((ProfileId(0), n),))),
    st.builds(
        TargetsSet, st.just(0), st.tuples(st.integers(0, 4), st.integers(0, 4)).map(
            lambda n: ((ProfileId(0), n[0]), (ProfileId(1), n[1]))
        ),
    ),
    st.builds(PodsUpdated, st.just(0), st.tuples(st.builds(manifest, NUMBERS, st.just("Pending")))),
    st.builds(PodsUpdated, st.just(0), st.tuples(st.builds(manifest, NUMBERS, st.just("Running")))),
    st.builds(
        PodsUpdated, st.just(0), st.tuples(st.builds(manifest, NUMBERS, st.sampled_from(["Failed", "Succeeded", "Gone"])))
    ),
    st.builds(PodsReplaced, st.just(0), st.lists(st.builds(manifest, NUMBERS), max_size=4).map(tuple)),
    st.builds(RegisterExecutor, st.just(0), WHO, st.just(ProfileId(0)), st.just("h"), WHO.map("a{}".format)),
    st.builds(RegisterExecutor, st.just(0), WHO, st.just(ProfileId(0)), st.just("h"), WHO.map("a{}".format)),
    st.builds(KillRequested, st.just(0), SOME, FLAG, FLAG, FLAG, st.integers(0, 3)),
    st.builds(DecommissionRequested, st.just(0), SOME, st.just("bye"), st.none(), FLAG, FLAG, st.integers(0, 3)),
    st.builds(ExecutorDisconnected, st.just(0), WHO.map("a{}".format)),
    st.builds(HeartbeatsStopped, st.just(0), WHO, st.integers(0, 3 * S)),
    st.builds(HeartbeatsStopped, st.just(0), WHO, st.integers(0, 3 * S)),
    st.builds(Heartbeat, st.just(0), WHO),
    st.builds(ExecutorExiting, st.just(0), WHO, st.just("Finished decommissioning")),
    st.builds(KillExecutorsOnHost, st.just(0), st.just("h")),
    st.builds(DecommissionExecutorsOnHost, st.just(0), st.just("h")),
    st.builds(ExecutorsSummarized, st.just(0), st.builds(ExecutorSummary, WHO, st.just(0)).map(lambda one: (one,))),
    st.builds(StageSubmitted, st.just(0), st.integers(0, 2), st.just(0), st.integers(1, 6), st.just(ProfileId(0))),
    st.builds(StageCompleted, st.just(0), st.integers(0, 2), st.just(0)),
    st.builds(TaskStart, st.just(0), st.integers(0, 2), st.just(0), st.integers(0, 5), WHO),
    st.builds(TaskEnd, st.just(0), st.integers(0, 2), st.just(0), st.integers(0, 5), WHO),
)  # fmt: skip
"""What an application that goes about its work meets."""


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    """Applications of every kind, with short times."""
    dynamic = draw(st.booleans())
    allocator = draw(st.sampled_from(["direct", "direct", "direct", "statefulset", "deployment"]))
    claims = (ClaimTemplate("data", "OnDemand", 0, "fast", "1Gi"),) if draw(st.integers(0, 3)) == 0 else ()
    initial = draw(st.sampled_from([0, 1, 3]))
    scaling = ScalingConfig(
        executors_min=draw(st.sampled_from([0, 1])), executors_max=6, executors_initial=initial,
        backlog_timeout_ms=S, idle_timeout_ms=draw(st.sampled_from([0, 500, 3 * S])),
        shuffle_tracking=draw(st.booleans()), shuffle_timeout_ms=5 * S, decommission=draw(st.booleans()),
        repair_pending=draw(st.booleans()),
    )  # fmt: skip
    roll = draw(st.sampled_from([None, None, RollConfig(2 * S, "ID")]))
    resize = draw(st.sampled_from([None, None, ResizeConfig(3 * S, 0.9, 0.5)]))
    return config(
        dynamic=dynamic, allocator=allocator, initial=initial, scaling=scaling, poll=draw(st.booleans()),
        driver_pod=draw(st.sampled_from(["driver", "driver", None])), failures_max=draw(st.sampled_from([0, 2, 1_000])),
        backend={
            "grace_ms": draw(st.sampled_from([0, S])), "decommission_label": draw(st.sampled_from([None, "x"])),
            "force_kill_timeout_ms": draw(st.sampled_from([None, 2 * S])), "unknown_decommissions_max": 2,
            "deletion_cost": draw(st.sampled_from([None, 5])),
            "delete_on_termination": draw(st.booleans()),
        },
        allocation={
            "batch_size": draw(st.sampled_from([1, 20])), "idle_timeout_ms": draw(st.sampled_from([0, 3 * S])),
            "create_timeout_ms": draw(st.sampled_from([2 * S, 600 * S])), "pods_max": draw(st.sampled_from([5, 2**31 - 1])),
            "pending_max": draw(st.sampled_from([2, 2**31 - 1])), "claims": claims,
            "wait_for_claims": draw(st.booleans()), "claims_max": 2,
            "policies": draw(st.sampled_from([SPARK_POLICIES, FIXED_POLICIES])),
        },
        roll=roll, resize=resize, claim_resize=resize,
        heartbeats=HeartbeatConfig(2 * S, draw(st.sampled_from([0, 700, 2 * S])), every_beat=draw(st.booleans())),
    )  # fmt: skip


class Happens(NamedTuple):
    """After a while, stimuli."""

    gap: Millis
    stimuli: tuple[AnyStimulus, ...]


GAPS = st.sampled_from([0, 0, 1, 99, 100, 250, 900, 1_000, 1_001, 3_500])


def _steps(one: st.SearchStrategy[AnyStimulus], least: int) -> st.SearchStrategy[list[Happens]]:
    """So many things that happen, at least, one after the other."""
    happens = st.builds(Happens, GAPS, st.lists(one, min_size=1, max_size=3).map(tuple))
    return st.lists(happens, min_size=least, max_size=24)


applications: st.SearchStrategy[list[Happens]] = st.one_of(
    _steps(likely, 10), _steps(st.one_of(likely, likely, likely, any_stimulus), 10), _steps(any_stimulus, 3)
)

Luck: TypeAlias = list[tuple[Millis | None, int]]
LUCK: st.SearchStrategy[Luck] = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 0, 30, 1_200, None]), st.sampled_from([-1, -1, -1, -1, *range(len(FAILURES))])),
    min_size=1, max_size=12,
).map(lambda luck: [(0, -1), (0, -1), *luck])  # fmt: skip
"""How calls are answered, in turn: after how long (None: never), and how (-1: well). Most applications start."""


class Run:
    """An application lived through."""

    def __init__(self, config: EngineConfig, luck: Luck, *, eager: bool = False) -> None:
        self.config, self.luck, self.eager = config, luck, eager
        self.now: Millis = 0
        self.coming: list[tuple[Millis, int, Outcome]] = []
        self.calls = 0
        self.said: list[tuple[Millis, Command | Report]] = []
        self.kept: list[tuple[EngineState, tuple[AnyStimulus, ...], Millis, Any]] = []
        step = engine.launch(config, 0)
        self.state = step.state
        self._note(step)

    def take(self, *stimuli: AnyStimulus) -> None:
        """One step."""
        before = self.state
        step = engine.advance(before, stimuli, self.config, self.now)
        self.kept.append((before, stimuli, self.now, step))
        self.state = step.state
        self._note(step)

    def _note(self, step: Any) -> None:
        self.said += [(self.now, item) for item in (*step.commands, *step.reports)]
        for command in step.commands:
            serial = getattr(command, "serial", None)
            if serial is None or isinstance(command, RequestTotal | Kill | Decommission):
                continue
            delay, how = self.luck[self.calls % len(self.luck)]
            self.calls += 1
            if delay is not None:
                failure = FAILURES[how] if how >= 0 else None
                heapq.heappush(self.coming, (self.now + delay, self.calls, Outcome(0, serial, failure)))

    def live(self, story: list[Happens]) -> Run:
        """Live through it."""
        for happens in story:
            self.until(self.now + happens.gap)
            timed = tuple(s._replace(at=self.now) for s in happens.stimuli)
            self.take(*timed)
        return self

    def until(self, end: Millis) -> None:
        """Let time pass; what is heard at a moment comes before the timers that are due then, as in the loop."""
        while True:
            answer = self.coming[0][0] if self.coming else NEVER
            at = max(self.now, min(answer, self._due()))
            if at > end or (at == end and answer > at):
                break
            self.now = at
            if answer <= at:
                _, _, outcome = heapq.heappop(self.coming)
                self.take(outcome._replace(at=at))
            elif self.eager and engine.wake_due(self.state, self.config) > at:
                self._wake_for_nothing()
            else:
                self.take(Wake(at))
        self.now = end

    def _wake_for_nothing(self) -> None:
        before = self._due()
        self.take(Wake(self.now))
        if self.config.dynamic and self.state.tick_at <= self.now:
            self.take(Tick(self.now))
            self.state = self.state._replace(tick_at=self.now + TICK_INTERVAL_MS)
        assert self._due() > before, "every timer that ran lies ahead again"

    def _due(self) -> Millis:
        if not self.eager:
            return engine.wake_due(self.state, self.config)
        side, given = self.state.kubernetes, self.config.kubernetes
        assert side is not None
        silences = heartbeats.due(side.heartbeats, given.heartbeats)
        times = [silences, backend.due(side.backend, given.backend), polling.due(side.polling), store.due(side.store)]
        if side.roll is not None and given.roll is not None:
            times.append(side.roll.timer.due)
        if side.memory is not None and given.resize is not None:
            times.append(side.memory.timer.due)
        if side.claims is not None and given.claim_resize is not None:
            times.append(side.claims.timer.due)
        if self.config.dynamic:
            times.append(self.state.tick_at)
        return min(times)

    def news(self) -> list[tuple[Millis, Command | Report]]:
        """What was said, without repetitions of an exception: those are as many as there are ticks."""
        return [(at, item) for at, item in self.said if not (isinstance(item, ScheduleThrew) and item.repeated)]


def departing(one: Run, other: Run) -> object:
    """Where two runs say different things for the first time, and what; None if they do not."""
    for mine, theirs in zip_longest(one.news(), other.news()):
        if mine != theirs:
            return mine, theirs
    return None


@given(configs(), applications, LUCK)
def test_no_input_raises(config: EngineConfig, story: list[Happens], luck: Luck) -> None:
    run = Run(config, luck).live(story)
    run.until(run.now + 10 * S)


@given(configs(), st.lists(st.tuples(GAPS, st.lists(any_stimulus, max_size=3)), max_size=12))
def test_a_stimulus_may_be_as_old_as_it_likes(
    config: EngineConfig, story: list[tuple[Millis, list[AnyStimulus]]]
) -> None:
    """Its own time is any up to the step's."""
    step = engine.launch(config, 0)
    now = 0
    for gap, stimuli in story:
        now += gap
        past = (stimulus._replace(at=min(stimulus.at, now)) for stimulus in stimuli)
        step = engine.advance(step.state, (*past, Wake(now)), config, now)
        assert engine.wake_due(step.state, config) >= -(2**63)


@given(configs(), any_stimulus, GAPS)
def test_a_stimulus_of_the_future_is_a_mistake_of_the_caller(
    config: EngineConfig, stimulus: AnyStimulus, now: Millis
) -> None:
    state = engine.launch(config, 0).state
    with pytest.raises(AssertionError):
        engine.advance(state, (stimulus._replace(at=now + 1),), config, now)


@given(configs(), applications, LUCK, st.data())
def test_an_older_state_still_answers_as_before(
    config: EngineConfig, story: list[Happens], luck: Luck, data: st.DataObject
) -> None:
    run = Run(config, luck).live(story)
    places = st.lists(st.integers(0, max(0, len(run.kept) - 1)), max_size=6)
    for place in data.draw(places) if run.kept else ():
        state, stimuli, now, step = run.kept[place]
        again = engine.advance(state, stimuli, config, now)
        assert again.commands == step.commands
        assert again.reports == step.reports


@settings(max_examples=40)
@given(configs(), applications, LUCK)
def test_the_same_inputs_give_the_same_outputs(config: EngineConfig, story: list[Happens], luck: Luck) -> None:
    assert departing(Run(config, luck).live(story), Run(config, luck).live(story)) is None


@given(configs(), applications, LUCK)
def test_passing_over_idle_timers_decides_what_waking_for_each_does(
    config: EngineConfig, story: list[Happens], luck: Luck
) -> None:
    lazy, eager = Run(config, luck), Run(config, luck, eager=True)
    for happens in story:
        lazy.live([happens])
        eager.live([happens])
        assert departing(lazy, eager) is None
    lazy.until(lazy.now + 8 * S)
    eager.until(eager.now + 8 * S)
    assert departing(lazy, eager) is None
    assert len(lazy.kept) <= len(eager.kept)


@given(configs(), applications, LUCK)
def test_serials_are_given_out_once(config: EngineConfig, story: list[Happens], luck: Luck) -> None:
    run = Run(config, luck).live(story)
    run.until(run.now + 5 * S)
    questions = (RequestTotal, Kill, Decommission)
    calls = [getattr(c, "serial", None) for _, c in run.said if not isinstance(c, questions)]
    serials = [serial for serial in calls if serial is not None]
    assert len(serials) == len(set(serials))
    asked = [c.executor for _, c in run.said if isinstance(c, CreatePod)]
    # A shadow is told which id was really the last, even if that is a lower one.
    lowered = any(isinstance(one, Reconciled) and one.exact for step in story for one in step.stimuli)
    assert lowered or asked == sorted(set(asked)), "no executor id is used twice"


@given(configs(), applications, LUCK)
def test_a_batch_decides_what_its_stimuli_decide_one_by_one(
    config: EngineConfig, story: list[Happens], luck: Luck
) -> None:
    """Listener events are folded together, so only what is decided at one moment is compared, as a whole."""
    together = engine.launch(config, 0)
    alone = engine.launch(config, 0)
    now = 0
    for happens in story:
        now += happens.gap
        timed = tuple(s._replace(at=now) for s in happens.stimuli if type(s).__module__ != Tick.__module__)
        together = engine.advance(together.state, timed, config, now)
        said: list[Command] = []
        for stimulus in timed:
            alone = engine.advance(alone.state, (stimulus,), config, now)
            said += alone.commands
        assert said == list(together.commands)
        assert [c for c in said if isinstance(c, StopApplication) and c.exit_code not in (1, 11)] == []


def test_a_config_of_every_kind_launches() -> None:
    for allocator in ("direct", "statefulset", "deployment"):
        settings_ = config(allocator=allocator, initial=1, driver_pod="driver")
        for dynamic in (True, False):
            assert engine.launch(replace(settings_, dynamic=dynamic), 0).commands
