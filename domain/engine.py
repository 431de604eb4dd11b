"""One step of everything: stimulus -> fold -> scale -> backend -> allocate -> reap -> commands; and when the next is due.

This is where machines meet. None of them knows another: the engine hands the load that a fold produced to the decision that
reads it, the targets of that decision to the scheduler backend, and so on down to the pods. ``now`` is an argument here and
everywhere; what a command led to comes back as the next stimulus.

Two times: ``now`` is the time of the step, ``at`` the time that a stimulus carries, and ``at <= now``. ``advance`` asserts
that: a stimulus from the future is a mistake of the caller, not news of the cluster. Listener events may come in batches,
so dynamic allocation (the load, the executor monitor, the allocation manager) reckons from ``at``; every machine of a
cluster manager's side lives at ``now``.

``launch`` begins, ``advance`` goes on, ``wake_due`` says when time next matters. A cluster manager's side lies under dynamic
allocation (``scaling.dynamic_allocation``): Kubernetes (``kubernetes.side``) or, where ``yarn`` is set, YARN
(``yarn.side``). Requests and kills are answered inside, by the scheduler backend; they still come out as commands, because
they are decisions, but nobody has to carry them out. The listener events that the backend posts are folded in the same
step. ``Wake`` runs whatever timer is due, dynamic allocation's 100 ms grid included. A stimulus of a cluster manager
that is not the configured one changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, cast, get_args

from podtide.domain.base.units import NEVER, Millis, next_on_grid
from podtide.domain.kubernetes import side as kubernetes_side
from podtide.domain.kubernetes.router import KubernetesRouter
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol import resource_profiles as profiles
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    Decommissioned,
    ExecutorDisabled,
    Killed,
    Requested,
    RequestMore,
    RequestTotals,
)
from podtide.domain.protocol.cluster_config import ContainerRules
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScalingCommand, Step
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, KillRequested, Starting, Stopping, Wake
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.stimuli import (
    Answer,
    ExecutorAdded,
    ExecutorRemoved,
    ExecutorsActive,
    ExecutorsInactive,
    Reset,
    ResourceProfileAdded,
    Stimulus,
    Stop,
    Tick,
)
from podtide.domain.protocol.yarn_messages import MasterRegistered, ProfilesDefined, YarnStimulus
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import STIMULI, State
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.state import ScalingState
from podtide.domain.yarn import side as yarn_side
from podtide.domain.yarn.container_specs import container_spec
from podtide.domain.yarn.router import YarnRouter
from podtide.domain.yarn.side import News, YarnSideState

_NEWS: Final = get_args(News)
_OF_YARN: Final = get_args(YarnStimulus)


class EngineState(NamedTuple):
    """A whole application at a moment. Immutable: an older state can be kept, compared and gone on from.

    ``side``: of the cluster manager. ``tick_at``: the next place on the grid of dynamic allocation's timer.
    """

    load: Load
    scaling: ScalingState
    side: KubernetesState | YarnSideState
    tick_at: Millis

    @property
    def kubernetes(self) -> KubernetesState | None:
        """The side, if the cluster manager is Kubernetes."""
        return self.side if isinstance(self.side, KubernetesState) else None

    @property
    def yarn(self) -> YarnSideState | None:
        """The side, if the cluster manager is YARN."""
        return self.side if isinstance(self.side, YarnSideState) else None


def launch(config: EngineConfig, now: Millis, *, master_registered: bool = False) -> Step[EngineState, Command]:
    """A whole application that begins at ``now``: the backend starts, and then, if it is on, dynamic allocation.

    ``master_registered``: on YARN in client mode the driver waits for the application to run before it goes on, so that its
    master registers in between. In cluster mode the master waits for the driver, and its registration, a stimulus that
    follows, resets dynamic allocation, whose first backlog then needs no timeout.
    """
    begun = dynamic_allocation.start(config.scaling, now)
    side = kubernetes_side.begin(config.kubernetes, now) if config.yarn is None else yarn_side.begin(config.yarn, now)
    run = _Run(EngineState(*begun.state, side, now), replace(config, dynamic=False), now)
    run.take(Starting(now))
    if master_registered:
        run.take(MasterRegistered(now))
    run.config = config
    if config.dynamic:
        run.adopt(begun.commands, begun.reports)
    return run.step()


def advance(
    state: EngineState, stimuli: Sequence[AnyStimulus], config: EngineConfig, now: Millis
) -> Step[EngineState, Command]:
    """Take what came of a whole application, in order, and decide. Never raises on well-typed stimuli of up to ``now``.

    Every command with a serial, but those of dynamic allocation, may be answered by an ``Outcome``; those that a machine
    waits for must be. Listener events in a row are reflected in one fold.
    """
    run = _Run(state, config, now)
    events: list[Stimulus] = []
    for stimulus in stimuli:
        assert stimulus.at <= now, stimulus
        if type(stimulus) in STIMULI:
            events.append(cast(Stimulus, stimulus))
            continue
        run.hear(events)
        events = []
        run.take(cast(PodStimulus | YarnStimulus, stimulus))
    run.hear(events)
    return run.step()


def wake_due(state: EngineState, config: EngineConfig) -> Millis:
    """The earliest time at which a ``Wake`` could change anything (``ALWAYS``: the next one; ``NEVER``)."""
    if config.yarn is None:
        assert isinstance(state.side, KubernetesState)
        first = kubernetes_side.due(state.side, config.kubernetes)
    else:
        assert isinstance(state.side, YarnSideState)
        first = yarn_side.due(state.side, config.yarn)
    if not config.dynamic:
        return first
    return min(first, _next_tick(State(state.load, state.scaling), state.tick_at, config.scaling))


def with_next_heartbeat(state: EngineState, until: Millis | None) -> EngineState:
    """The application on YARN with its reporter's next heartbeat at ``until``; None: not before anything else happens.

    For whoever knows that the heartbeats in between would change nothing. ``wake_due`` follows.
    """
    side = state.side
    assert isinstance(side, YarnSideState)
    return state._replace(side=replace(side, reporter=replace(side.reporter, until=until)))


def _next_tick(state: State, tick_at: Millis, config: ScalingConfig) -> Millis:
    """The place on the 100 ms grid from ``tick_at`` on where schedule() may next do something."""
    wanted = dynamic_allocation.due(state, config)
    return NEVER if wanted == NEVER else next_on_grid(tick_at, TICK_INTERVAL_MS, wanted)


def _rested(state: EngineState, config: EngineConfig, now: Millis) -> Millis:
    """The timer's place with the idle ticks passed over that lie before now; a tick that is late stays where it is."""
    if not config.dynamic or state.tick_at >= now:
        return state.tick_at
    if _next_tick(State(state.load, state.scaling), state.tick_at, config.scaling) < now:
        return state.tick_at
    return next_on_grid(state.tick_at, TICK_INTERVAL_MS, now)


_Stimulus: TypeAlias = kubernetes_side.SideStimulus | YarnStimulus
_Command: TypeAlias = kubernetes_side.SideCommand | yarn_side.SideCommand


class _ToSide(NamedTuple):
    """Something for the cluster manager's side to take."""

    stimulus: _Stimulus


class _ToScaling(NamedTuple):
    """Something for dynamic allocation to hear, in order."""

    events: tuple[Stimulus, ...]


class _Run:
    """One step of a whole application under way."""

    def __init__(self, state: EngineState, config: EngineConfig, now: Millis) -> None:
        self.config = config
        self.now = now
        self.allocation = State(state.load, state.scaling)
        self.router = _router(state, config, now)
        self.tick_at = _rested(state, config, now)
        self.commands: list[Command] = []
        self.reports: list[Report] = []
        self.queue: deque[_ToSide | _ToScaling] = deque()

    def step(self) -> Step[EngineState, Command]:
        state = EngineState(*self.allocation, self.router.state(), self.tick_at)
        return Step(state, tuple(self.commands), tuple(self.reports))

    def take(self, stimulus: _Stimulus) -> None:
        """Hand one stimulus to the cluster manager's side; at a Wake, run the timer of dynamic allocation after it.

        The end of an application ends dynamic allocation first (SparkContext.stop).
        """
        if self.config.yarn is None and isinstance(stimulus, _OF_YARN):
            return
        if isinstance(stimulus, Stopping):
            self.hear((Stop(self.now),))
        self._to_side(_unasked(stimulus))
        self._settle()
        if isinstance(stimulus, Wake) and self.config.dynamic:
            self._tick()

    def hear(self, events: Sequence[Stimulus]) -> None:
        """Reflect listener events and decide; YARN hears first of what containers a new profile needs."""
        if self.config.yarn is not None:
            rules = self.config.yarn.allocator.rules
            for event in events:
                if isinstance(event, ResourceProfileAdded):
                    self._to_side(_defined(event, rules))
        if events:
            self._to_scaling(events)
            self._settle()

    def adopt(self, commands: Sequence[ScalingCommand], reports: Sequence[Report]) -> None:
        """Carry on with what dynamic allocation decided."""
        self._decided(commands, reports)
        self._settle()

    def _tick(self) -> None:
        if _next_tick(self.allocation, self.tick_at, self.config.scaling) <= self.now:
            self.tick_at = next_on_grid(self.tick_at, TICK_INTERVAL_MS, self.now + 1)
            self._to_scaling((Tick(self.now),))
            self._settle()

    def _settle(self) -> None:
        while self.queue:
            message = self.queue.popleft()
            if isinstance(message, _ToSide):
                self._to_side(message.stimulus)
            else:
                self._to_scaling(message.events)

    def _to_side(self, stimulus: _Stimulus) -> None:
        router = self.router
        router.take(cast(Any, stimulus))
        commands, router.commands = router.commands, []
        self.reports.extend(router.reports)
        router.reports = []
        for command in commands:
            if isinstance(command, _NEWS):
                stimuli = _scaling_stimuli(command)
                if stimuli and self.config.dynamic:
                    self.queue.append(_ToScaling(stimuli))
            else:
                self.commands.append(_outward(command))

    def _to_scaling(self, events: Sequence[Stimulus]) -> None:
        if not self.config.dynamic:
            return
        decided = dynamic_allocation.step(self.allocation, events, self.config.scaling, self.now)
        self.allocation = decided.state
        self._decided(decided.commands, decided.reports)

    def _decided(self, commands: Sequence[ScalingCommand], reports: Sequence[Report]) -> None:
        self.reports.extend(reports)
        for command in commands:
            self.commands.append(command)
            self.queue.append(_ToSide(_backend_request(command)))


def _router(state: EngineState, config: EngineConfig, now: Millis) -> KubernetesRouter | YarnRouter:
    if config.yarn is not None:
        assert isinstance(state.side, YarnSideState)
        return YarnRouter(state.side, config.yarn, now)
    assert isinstance(state.side, KubernetesState)
    return KubernetesRouter(state.side, config.kubernetes, now)


def _defined(event: ResourceProfileAdded, rules: ContainerRules) -> ProfilesDefined:
    spec = container_spec(profiles.from_added(event), rules)
    return ProfilesDefined(event.at, ((event.profile, spec),))


def _outward(command: _Command) -> Command:
    return cast(Command, command)


def _unasked(stimulus: _Stimulus) -> _Stimulus:
    """What somebody else asks of the backend: dynamic allocation must not take the answer for one of its own."""
    if isinstance(stimulus, KillRequested | DecommissionRequested | RequestTotals | RequestMore) and stimulus.serial:
        return stimulus._replace(serial=0)
    return stimulus


def _backend_request(command: ScalingCommand) -> _Stimulus:
    """What the scheduler backend is asked for."""
    match command:
        case RequestTotal():
            targets = tuple((profile, command.targets[profile]) for profile in sorted(command.targets))
            return RequestTotals(command.at, targets, command.serial, command.locality_tasks, command.host_tasks)
        case Kill():
            return KillRequested(command.at, command.executors, serial=command.serial)
        case Decommission():
            return DecommissionRequested(
                command.at, command.executors, command.message, adjust_target=False, serial=command.serial
            )
        case _:
            assert_never(command)


def _scaling_stimuli(news: News) -> tuple[Stimulus, ...]:
    """What the driver's other half hears of it."""
    match news:
        case Requested():
            return (Answer(news.at, news.serial, news.acked, news.threw),)
        case Killed() | Decommissioned():
            return (Answer(news.at, news.serial, news.executors, news.threw),)
        case ActiveChanged():
            active = (ExecutorsActive(news.at, news.active),) if news.active else ()
            inactive = (ExecutorsInactive(news.at, news.inactive),) if news.inactive else ()
            return active + inactive
        case ExecutorAdded() | ExecutorRemoved() | Reset():
            return (news,)
        case ExecutorDisabled():
            return ()
        case _:
            assert_never(news)
