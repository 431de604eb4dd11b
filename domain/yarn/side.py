"""The YARN side of an application: its machines, composed.

The driver's scheduler backend, and in the application master the allocator and the reporter thread, do not know one
another. Each says what it has to tell the others as values; here these are carried from one to the next, first come first
served, until nobody has anything left to say. What is for the outside comes out as commands:

    targets, kills, lost connections -> backend -> allocator -> reporter (woken) -> allocator (a beat)
    the resource manager's answer    -> allocator -> backend (losses), reporter (sleeps) -> allocator (what waited)

The allocator's lock is kept here: while a round is under way, from its beat until the resource manager has answered and
everything in the answer is dealt with, whatever else is for the allocator waits, and so does whoever asked for it; the
backend goes on. What waited comes after the reporter has gone to sleep, and may wake it at once. (In Spark the two threads
race; the one that holds the lock usually has it again before the other wakes up.) Only that the application ends needs no
lock: what the answer under way says has ended is nobody's fault by then.

Before the first ``MasterRegistered`` there is no application master: the backend refuses what it is asked, and nobody
beats; so it is again from ``MasterLost`` on. With each new one the allocator begins anew, from the driver's highest executor
id, and knows of what went before only what containers of each profile are. Its calls are numbered on, so that an answer to
its predecessor is nobody's; what was held back there is held back no longer.

What the application master tells the driver goes out as well as inside: ``TellLossReason``, ``DecommissionHost``; a
``RemoveExecutor`` is what the driver makes of a loss. ``EndApplication`` is the last word: no beat comes after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, assert_never, cast

from pyrsistent import pmap

from podtide.domain.backend.state import Phase
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    Decommissioned,
    ExecutorDisabled,
    HostsExcluded,
    Killed,
    KnownChanged,
    LossReported,
    MasterAsked,
    Requested,
    RequestMore,
    RequestTotals,
    YarnBackendInput,
)
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.config import YarnConfig
from podtide.domain.protocol.pod_commands import PodCommand, RemoveExecutor
from podtide.domain.protocol.pod_stimuli import (
    ClaimsMeasured,
    DecommissionRequested,
    DiskReport,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorsSummarized,
    GenerateExecutorId,
    KillRequested,
    MemoryMeasured,
    Outcome,
    PodsReplaced,
    PodStimulus,
    PodsUpdated,
    Reconciled,
    RegisterExecutor,
    Starting,
    Stopping,
    TargetsSet,
    Wake,
)
from podtide.domain.protocol.reasons import Bound, Fact, Held, Phase as HeldPhase, Threw
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved, Reset
from podtide.domain.protocol.yarn_messages import (
    Beat,
    ContainersGiven,
    DecommissionHost,
    LaunchEnded,
    LossReasonsAsked,
    MasterEnding,
    MasterLost,
    MasterRegistered,
    ProfilesDefined,
    ResourcesAnswered,
    ResourcesRefused,
    TargetsTaken,
    TellLossReason,
    YarnCommand,
    YarnInput,
)
from podtide.domain.yarn import allocator as yarn, reporter, scheduler_backend as yarn_backend
from podtide.domain.yarn.allocator_state import MACHINE as ALLOCATOR, Said, YarnState
from podtide.domain.yarn.node_health import Health
from podtide.domain.yarn.reporter import (
    MasterFinished,
    MasterGone,
    MasterMade,
    ReporterInput,
    ReporterState,
    RoundEnded,
    Roused,
    SleptOut,
    Stage,
    Standing,
)
from podtide.domain.yarn.scheduler_backend import YarnBackendState

YarnStimulus: TypeAlias = (
    ProfilesDefined
    | ResourcesAnswered
    | ResourcesRefused
    | ContainersGiven
    | LaunchEnded
    | MasterRegistered
    | MasterLost
)
"""What arrives at the YARN side alone."""

SideStimulus: TypeAlias = YarnStimulus | PodStimulus | RequestTotals | RequestMore | HostsExcluded
"""All that may arrive; what only Kubernetes knows (pods, measurements, outcomes of calls) changes nothing here."""

News: TypeAlias = (
    Requested | Killed | Decommissioned | ActiveChanged | ExecutorAdded | ExecutorRemoved | ExecutorDisabled | Reset
)
"""What is told to the driver's other half: answers to dynamic allocation, listener events, and that it is to begin anew."""

SideCommand: TypeAlias = PodCommand | YarnCommand | News


class Letter(NamedTuple):
    """Something for the allocator; ``serial``: of the backend's call that it is, if somebody waits for the answer."""

    item: YarnInput
    serial: int | None = None


@dataclass(frozen=True, slots=True)
class YarnSideState:
    """All machines at a moment.

    ``beating``: a round is under way that the reporter waits for. ``held``: what waits for the allocator until it is over.
    """

    allocator: YarnState
    backend: YarnBackendState
    reporter: ReporterState
    beating: bool = False
    held: tuple[Letter, ...] = ()


def begin(config: YarnConfig, now: Millis) -> YarnSideState:
    """An application that has been made and not started: ``step`` it with ``Starting``, and then ``MasterRegistered``."""
    return YarnSideState(
        yarn.begin(config.allocator, now).state,
        yarn_backend.begin(config.backend, now),
        reporter.begin(config.reporter),
    )


def step(
    state: YarnSideState, snapshots: Sequence[SideStimulus], config: YarnConfig, now: Millis
) -> Step[YarnSideState, SideCommand]:
    """Take what came, in order, and carry what the machines say to one another until they are silent."""
    office = Office(state, config, now)
    for item in snapshots:
        office.take(item)
    return Step(office.state(), tuple(office.commands), tuple(office.reports))


def due(state: YarnSideState, config: YarnConfig) -> Millis:
    """When a ``Wake`` could change anything; NEVER if only a stimulus can."""
    return min(yarn_backend.due(state.backend, config.backend), reporter.due(state.reporter, config.reporter))


class Office:
    """One step under way: the machines' states, and what they still have to tell one another.

    ``commands`` and ``reports`` collect what was said; whoever takes some of it out in between keeps it.
    """

    def __init__(self, state: YarnSideState, config: YarnConfig, now: Millis) -> None:
        self.config = config
        self.now = now
        self.allocator, self.backend, self.reporter = state.allocator, state.backend, state.reporter
        self.beating = state.beating
        self.held = list(state.held)
        self.mail: deque[tuple[Callable[[Any], None], Any]] = deque()
        self.commands: list[SideCommand] = []
        self.reports: list[Report] = []

    def take(self, item: SideStimulus) -> None:
        """Hear one stimulus, and let the machines talk until they are silent."""
        self._receive(item)
        while self.mail:
            machine, letter = self.mail.popleft()
            machine(letter)

    def state(self) -> YarnSideState:
        """Where the machines stand now."""
        return YarnSideState(self.allocator, self.backend, self.reporter, self.beating, tuple(self.held))

    # who gets what from outside

    def _receive(self, item: SideStimulus) -> None:  # one branch for each kind of stimulus
        match item:
            case ProfilesDefined():
                self._post(self._to_backend, item)
                self._post(self._to_allocator, Letter(item))
            case ResourcesAnswered() | ResourcesRefused() | ContainersGiven() | LaunchEnded():
                self._post(self._to_allocator, Letter(item))
            case MasterLost():
                self._post(self._to_backend, item)
                self._post(self._lose_master, item)
            case MasterRegistered():
                self._post(self._to_backend, item)
                self._post(self._replace_master, item)
            case Wake():
                self._wake(item)
            case TargetsSet():
                self._post(self._to_backend, RequestTotals(item.at, item.targets))
            case (
                RequestTotals()
                | RequestMore()
                | KillRequested()
                | DecommissionRequested()
                | Starting()
                | Stopping()
                | RegisterExecutor()
                | ExecutorDisconnected()
                | ExecutorBusy()
                | HostsExcluded()
            ):
                self._post(self._to_backend, item)
            case (
                PodsUpdated()
                | PodsReplaced()
                | Outcome()
                | Reconciled()
                | GenerateExecutorId()
                | ExecutorsSummarized()
                | MemoryMeasured()
                | DiskReport()
                | ClaimsMeasured()
            ):
                pass  # of Kubernetes; no command here waits for an outcome
            case _:
                assert_never(item)

    def _wake(self, item: Wake) -> None:
        if yarn_backend.due(self.backend, self.config.backend) <= self.now:
            self._post(self._to_backend, item)
        if reporter.due(self.reporter, self.config.reporter) <= self.now:
            self._post(self._to_reporter, SleptOut(self.now, Standing()))

    def _replace_master(self, item: MasterRegistered) -> None:
        """A new application master: its allocator begins, and then its reporter."""
        if self.backend.phase is Phase.STOPPED:
            return
        begun = self._begin_anew(item.at)
        self.reports.extend(begun.reports)
        for command in begun.commands:
            self._route(command)
        self._post(self._to_reporter, MasterMade(self.now, Standing()))

    def _lose_master(self, item: MasterLost) -> None:
        """The application master is gone, and what it knew with it."""
        if self.reporter.stage is not Stage.ABSENT:
            self._begin_anew(item.at)
            self._post(self._to_reporter, MasterGone(self.now))

    def _begin_anew(self, at: Millis) -> Step[YarnState, Said]:
        """The allocator of another application master; that of before is forgotten, but for the profiles."""
        before = self.allocator
        waited = [letter.item for letter in self.held if isinstance(letter.item, ProfilesDefined)]
        self.beating = False
        self.held.clear()
        for profile in sorted(before.held):
            nothing = pmap({"pending": 0, "target": 0})
            self.reports.append(Held(self.now, HeldPhase.ENDED, Bound.RESOURCE_MANAGER, profile, (), nothing))
        self._hold_all(before.health, Health())
        begun = yarn.begin(self.config.allocator, self.now, last_id=self.backend.ids)
        known = ProfilesDefined(at, tuple((profile, before.specs[profile]) for profile in sorted(before.specs)))
        taught = yarn.negotiate(begun.state, (known, *waited), self.config.allocator, self.now)
        self.allocator = replace(taught.state, serial=before.serial)
        return begun

    # the post

    def _post(self, machine: Callable[[Any], None], item: Any) -> None:
        self.mail.append((machine, item))

    # the machines

    @property
    def _busy(self) -> bool:
        """A round, or what it left of an answer, holds the allocator's lock."""
        return self.allocator.waiting is not None or self.allocator.rest is not None

    def _goes_on(self, item: YarnInput) -> bool:
        """Whether it is what the round under way waits for."""
        if self.allocator.rest is not None:
            return isinstance(item, LaunchEnded)
        return isinstance(item, ResourcesAnswered | ResourcesRefused)

    def _to_allocator(self, letter: Letter) -> None:
        item = letter.item
        if isinstance(item, MasterEnding):  # setShutdown takes no lock
            self.allocator = replace(self.allocator, ending=True)
            return
        if self._busy and not self._goes_on(item):
            if not isinstance(item, ResourcesAnswered | ResourcesRefused):  # an answer that nobody waits for
                self.held.append(letter)
            return
        step = yarn.negotiate(self.allocator, (item,), self.config.allocator, self.now)
        before, self.allocator = self.allocator.health, step.state
        self.reports.extend(step.reports)
        if before is not self.allocator.health:
            self._hold_all(before, self.allocator.health)
        for command in step.commands:
            self._route(command)
        if letter.serial is not None:
            self._post(self._to_backend, Outcome(self.now, letter.serial))
        if isinstance(item, LossReasonsAsked):
            self._post(self._to_reporter, Roused(self.now, Standing()))
        self.beating = self.beating or isinstance(item, Beat)
        if not self._busy:
            self._release(step.reports)

    def _release(self, reports: Sequence[Report]) -> None:
        """The lock is free: the reporter hears how its round ended; then comes whoever waited."""
        if self.beating:
            self.beating = False
            threw = next((one for one in reports if isinstance(one, Threw) and one.machine == ALLOCATOR), None)
            ended = RoundEnded(self.now, Standing())
            if threw is not None:
                ended = ended._replace(threw=threw.what, fatal=threw.fatal)
            self._post(self._to_reporter, ended)
        for letter in self.held:
            self._post(self._to_allocator, letter)
        self.held.clear()

    def _hold_all(self, before: Health, after: Health) -> None:
        """Report that no node is left to run on: when that begins, changes and ends."""
        facts: dict[str, Fact] = {"excluded": len(after.sent), "nodes": after.nodes}
        if not after.all_excluded and not before.all_excluded:
            return
        if after.all_excluded and before.all_excluded:
            if (len(before.sent), before.nodes) == (len(after.sent), after.nodes):
                return
            phase = HeldPhase.CHANGED
        else:
            phase = HeldPhase.BEGAN if after.all_excluded else HeldPhase.ENDED
        self.reports.append(Held(self.now, phase, Bound.NODES_EXCLUDED, DEFAULT_PROFILE, (), pmap(facts)))

    def _route(self, command: Said) -> None:
        """Who hears what the allocator says."""
        match command:
            case TargetsTaken():
                if command.changed:
                    self._post(self._to_reporter, Roused(self.now, Standing()))
            case RemoveExecutor():
                loss = LossReported(command.at, command.executor, command.reason, command.why)
                self._post(self._to_backend, loss)
            case TellLossReason() | DecommissionHost():
                self.commands.append(command)
                self._post(self._to_backend, command)
            case _:
                self.commands.append(command)

    def _to_reporter(self, item: ReporterInput) -> None:
        if not isinstance(item, MasterFinished | MasterGone):
            item = item._replace(standing=self._standing())
        step = reporter.report(self.reporter, (item,), self.config.reporter, self.now)
        self.reporter = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            if not isinstance(command, Beat):
                self.commands.append(command)
            elif isinstance(item, Roused):  # before whoever woke it is answered
                self.mail.appendleft((self._to_allocator, Letter(command)))
            else:
                self._post(self._to_allocator, Letter(command))

    def _standing(self) -> Standing:
        allocator, config = self.allocator, self.config.allocator
        health = allocator.health
        return Standing(
            allocator.pending,
            allocator.loss_requests,
            health.failures_at(config.exclusion, self.now),
            config.failures_max,
            len(health.sent),
            health.all_excluded,
            health.nodes,
        )

    def _to_backend(self, item: YarnBackendInput) -> None:
        before = self.backend.phase
        step = yarn_backend.manage(self.backend, (item,), self.config.backend, self.now)
        self.backend = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            match command:
                case MasterAsked():
                    self._post(self._to_allocator, Letter(command.message, command.serial))
                case LossReasonsAsked() | MasterEnding():
                    self._post(self._to_allocator, Letter(command))
                case KnownChanged():
                    pass  # the backend alone needs to know
                case _:
                    self.commands.append(cast(SideCommand, command))  # what Kubernetes routes is not said here
        if self.backend.phase is Phase.STOPPED and before is not Phase.STOPPED:  # however it came to that
            self._post(self._to_reporter, MasterFinished(self.now))
