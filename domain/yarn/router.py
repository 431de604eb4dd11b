"""One step of the YARN side: who hears what, from outside and from one another.

Each machine says what it has to tell the others as values. They are carried from one to the next, first come first served,
until nobody has anything left to say; what is for the outside comes out as commands:

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

from collections.abc import Sequence
from typing import assert_never, cast

from pyrsistent import pmap

from podtide.domain.backend import heartbeat_receiver as heartbeats
from podtide.domain.backend.state import BackendPhase
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.machine.holds import held
from podtide.domain.machine.router import Router
from podtide.domain.protocol import backend_messages as messages, executor_stimuli, pod_stimuli, yarn_messages
from podtide.domain.protocol.cluster_config import YarnConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Bound, Threw
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved
from podtide.domain.yarn import allocator as yarn, reporter, scheduler_backend as yarn_backend
from podtide.domain.yarn.allocator_state import MACHINE as ALLOCATOR, NegotiationCommand, YarnState
from podtide.domain.yarn.node_health import Health
from podtide.domain.yarn.reporter import AllocatorStanding, ReporterStage
from podtide.domain.yarn.side import AllocatorCall, SideCommand, SideStimulus, YarnSideState


def step(
    state: YarnSideState, snapshots: Sequence[SideStimulus], config: YarnConfig, now: Millis
) -> Step[YarnSideState, SideCommand]:
    """Take what came, in order, and carry what the machines say to one another until they are silent."""
    router = YarnRouter(state, config, now)
    for item in snapshots:
        router.take(item)
    return Step(router.state(), tuple(router.commands), tuple(router.reports))


class YarnRouter(Router[SideStimulus, SideCommand]):
    """One step under way: the machines' states, and what they still have to tell one another."""

    def __init__(self, state: YarnSideState, config: YarnConfig, now: Millis) -> None:
        super().__init__(now)
        self.config = config
        self.allocator, self.backend, self.reporter = state.allocator, state.backend, state.reporter
        self.heartbeats = state.heartbeats
        self.beating, self.held = state.beating, list(state.held)

    def state(self) -> YarnSideState:
        """Where the machines stand now."""
        return YarnSideState(
            self.allocator, self.backend, self.reporter, self.heartbeats, self.beating, tuple(self.held)
        )

    # who hears what from outside

    def receive(self, stimulus: SideStimulus) -> None:
        """Post one stimulus to the machines that it concerns."""
        match stimulus:
            case yarn_messages.ProfilesDefined():
                self.post(self._to_backend, stimulus)
                self.post(self._to_allocator, AllocatorCall(stimulus))
            case (
                yarn_messages.ResourcesAnswered()
                | yarn_messages.ResourcesRefused()
                | yarn_messages.ContainersGiven()
                | yarn_messages.LaunchEnded()
            ):
                self.post(self._to_allocator, AllocatorCall(stimulus))
            case yarn_messages.MasterLost():
                self.post(self._to_backend, stimulus)
                self.post(self._lose_master, stimulus)
            case yarn_messages.MasterRegistered():
                self.post(self._to_backend, stimulus)
                self.post(self._replace_master, stimulus)
            case executor_stimuli.Wake():
                self._wake(stimulus)
            case executor_stimuli.TargetsSet():
                self.post(self._to_backend, messages.RequestTotals(stimulus.at, stimulus.targets))
            case (
                messages.RequestTotals()
                | messages.RequestMore()
                | messages.HostsExcluded()
                | executor_stimuli.KillRequested()
                | executor_stimuli.DecommissionRequested()
                | executor_stimuli.Starting()
                | executor_stimuli.RegisterExecutor()
                | executor_stimuli.ExecutorDisconnected()
                | executor_stimuli.ExecutorExiting()
                | executor_stimuli.KillExecutorsOnHost()
                | executor_stimuli.DecommissionExecutorsOnHost()
                | executor_stimuli.ExecutorBusy()
            ):
                self.post(self._to_backend, stimulus)
            case executor_stimuli.Heartbeat() | executor_stimuli.HeartbeatsStopped():
                self.post(self._to_heartbeats, stimulus)
            case executor_stimuli.Stopping():
                self.post(self._to_heartbeats, stimulus)
                self.post(self._to_backend, stimulus)
            case (
                pod_stimuli.PodsUpdated()
                | pod_stimuli.PodsReplaced()
                | pod_stimuli.Outcome()
                | pod_stimuli.Reconciled()
                | pod_stimuli.GenerateExecutorId()
                | pod_stimuli.ExecutorsSummarized()
                | pod_stimuli.MemoryMeasured()
                | pod_stimuli.DiskReport()
                | pod_stimuli.ClaimsMeasured()
            ):
                pass  # of Kubernetes; no command here waits for an outcome
            case _:
                assert_never(stimulus)

    def _wake(self, item: executor_stimuli.Wake) -> None:
        if heartbeats.due(self.heartbeats, self.config.heartbeats) <= self.now:
            self.post(self._to_heartbeats, item)
        if yarn_backend.due(self.backend, self.config.backend) <= self.now:
            self.post(self._to_backend, item)
        if reporter.due(self.reporter, self.config.reporter) <= self.now:
            self.post(self._to_reporter, reporter.SleptOut(self.now, AllocatorStanding()))

    def _replace_master(self, item: yarn_messages.MasterRegistered) -> None:
        """A new application master: its allocator begins, and then its reporter."""
        if self.backend.phase is BackendPhase.STOPPED:
            return
        begun = self._begin_anew(item.at)
        self.reports.extend(begun.reports)
        for command in begun.commands:
            self._route(command)
        self.post(self._to_reporter, reporter.MasterMade(self.now, AllocatorStanding()))

    def _lose_master(self, item: yarn_messages.MasterLost) -> None:
        """The application master is gone, and what it knew with it."""
        if self.reporter.stage is not ReporterStage.ABSENT:
            self._begin_anew(item.at)
            self.post(self._to_reporter, reporter.MasterGone(self.now))

    def _begin_anew(self, at: Millis) -> Step[YarnState, NegotiationCommand]:
        """The allocator of another application master; that of before is forgotten, but for the profiles."""
        before = self.allocator
        waited = [call.item for call in self.held if isinstance(call.item, yarn_messages.ProfilesDefined)]
        self.beating = False
        self.held.clear()
        for profile in sorted(before.held):
            nothing = pmap({"pending": 0, "target": 0})
            key = (profile, Bound.RESOURCE_MANAGER)
            self.reports.append(held(self.now, key, nothing, before=True, after=False))
        self._hold_all(before.health, Health())
        ids, serial = self.backend.ids, before.serial
        begun = yarn.begin(self.config.allocator, self.now, last_id=ids, last_serial=serial)
        specs = tuple((profile, before.specs[profile]) for profile in sorted(before.specs))
        known = yarn_messages.ProfilesDefined(at, specs)
        self.allocator = yarn.negotiate(begun.state, (known, *waited), self.config.allocator, self.now).state
        return begun

    # the machines

    @property
    def _busy(self) -> bool:
        """A round, or what it left of an answer, holds the allocator's lock."""
        return self.allocator.waiting is not None or self.allocator.rest is not None

    def _goes_on(self, item: yarn_messages.YarnInput) -> bool:
        """Whether it is what the round under way waits for."""
        if self.allocator.rest is not None:
            return isinstance(item, yarn_messages.LaunchEnded)
        return isinstance(item, yarn_messages.ResourcesAnswered | yarn_messages.ResourcesRefused)

    def _to_allocator(self, call: AllocatorCall) -> None:
        item = call.item
        if isinstance(item, yarn_messages.MasterEnding):  # setShutdown takes no lock
            self.allocator = yarn.ending(self.allocator)
            return
        if self._busy and not self._goes_on(item):
            answer = isinstance(item, yarn_messages.ResourcesAnswered | yarn_messages.ResourcesRefused)
            if not answer:  # nobody waits for an answer that comes now
                self.held.append(call)
            return
        step = yarn.negotiate(self.allocator, (item,), self.config.allocator, self.now)
        before = self.allocator.health
        step = self.decided(step)
        self.allocator = step.state
        if before is not self.allocator.health:
            self._hold_all(before, self.allocator.health)
        for command in step.commands:
            self._route(command)
        if call.serial is not None:
            self.post(self._to_backend, pod_stimuli.Outcome(self.now, call.serial))
        if isinstance(item, yarn_messages.LossReasonsAsked):
            self.post(self._to_reporter, reporter.Roused(self.now, AllocatorStanding()))
        self.beating = self.beating or isinstance(item, yarn_messages.Beat)
        if not self._busy:
            self._release(step.reports)

    def _release(self, reports: Sequence[Report]) -> None:
        """The lock is free: the reporter hears how its round ended; then comes whoever waited."""
        if self.beating:
            self.beating = False
            threw = next((one for one in reports if isinstance(one, Threw) and one.machine == ALLOCATOR), None)
            end = reporter.RoundEnded(self.now, AllocatorStanding())
            if threw is not None:
                end = end._replace(threw=threw.what, fatal=threw.fatal)
            self.post(self._to_reporter, end)
        for call in self.held:
            self.post(self._to_allocator, call)
        self.held.clear()

    def _hold_all(self, before: Health, after: Health) -> None:
        """Report that no node is left to run on: when that begins, changes and ends."""
        was, now_is = before.all_excluded, after.all_excluded
        same = was == now_is and (len(before.sent), before.nodes) == (len(after.sent), after.nodes)
        if (was or now_is) and not same:
            facts = pmap({"excluded": len(after.sent), "nodes": after.nodes})
            key = (DEFAULT_PROFILE, Bound.NODES_EXCLUDED)
            self.reports.append(held(self.now, key, facts, before=was, after=now_is))

    def _route(self, command: NegotiationCommand) -> None:
        """Who hears what the allocator says."""
        match command:
            case yarn_messages.TargetsTaken():
                if command.changed:
                    self.post(self._to_reporter, reporter.Roused(self.now, AllocatorStanding()))
            case RemoveExecutor():
                loss = messages.LossReported(command.at, command.executor, command.reason, command.why)
                self.post(self._to_backend, loss)
            case yarn_messages.TellLossReason() | yarn_messages.DecommissionHost():
                self.commands.append(command)
                self.post(self._to_backend, command)
            case _:
                self.commands.append(command)

    def _to_reporter(self, item: reporter.ReporterInput) -> None:
        if not isinstance(item, reporter.MasterFinished | reporter.MasterGone):
            item = item._replace(standing=self._standing())
        step = self.decided(reporter.report(self.reporter, (item,), self.config.reporter, self.now))
        self.reporter = step.state
        for command in step.commands:
            if not isinstance(command, yarn_messages.Beat):
                self.commands.append(command)
            elif isinstance(item, reporter.Roused):  # before whoever woke it is answered
                self.post_first(self._to_allocator, AllocatorCall(command))
            else:
                self.post(self._to_allocator, AllocatorCall(command))

    def _standing(self) -> AllocatorStanding:
        allocator, config = self.allocator, self.config.allocator
        health = allocator.health
        return AllocatorStanding(
            allocator.pending,
            allocator.loss_requests,
            health.failures_at(config.exclusion, self.now),
            config.failures_max,
            len(health.sent),
            health.all_excluded,
            health.nodes,
        )

    def _to_heartbeats(self, item: heartbeats.HeartbeatInput) -> None:
        step = self.decided(heartbeats.listen(self.heartbeats, (item,), self.config.heartbeats, self.now))
        self.heartbeats = step.state
        for command in step.commands:
            self.post(self._to_backend, command)

    def _to_backend(self, item: messages.YarnBackendInput) -> None:
        before = self.backend.phase
        step = self.decided(yarn_backend.manage(self.backend, (item,), self.config.backend, self.now))
        self.backend = step.state
        for command in step.commands:
            match command:
                case messages.MasterAsked():
                    self.post(self._to_allocator, AllocatorCall(command.message, command.serial))
                case yarn_messages.LossReasonsAsked() | yarn_messages.MasterEnding():
                    self.post(self._to_allocator, AllocatorCall(command))
                case messages.KnownChanged():
                    pass  # the backend alone needs to know
                case ExecutorAdded() | ExecutorRemoved():
                    self.post(self._to_heartbeats, command)
                    self.commands.append(command)
                case _:
                    self.commands.append(cast(SideCommand, command))  # what Kubernetes routes is not said here
        if self.backend.phase is BackendPhase.STOPPED and before is not BackendPhase.STOPPED:  # however it came to that
            self.post(self._to_reporter, reporter.MasterFinished(self.now))
