"""How executors go: kills, decommissions, losses; the part of the scheduler backend's machine that ends executors.

A kill tells the driver endpoint at once and leaves the pod a grace period; a decommission tells everybody and waits, for
ever or until spark.executor.decommission.forceKillTimeout. Both may lower the requested targets first, and whatever that
throws ends them half-way: the executors stay marked as killed, or decommissioning, and nothing else happens.

Everything that the driver endpoint does with a RemoveExecutor message happens within the step that sends it, after the
answer to whoever asked; labels and deletion costs are put on the pods last, by the maintenance thread. See ``backend``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal, cast

from pyrsistent import pmap

from podtide.domain.backend.registry import KILLED, Leaving, Parked, Registry
from podtide.domain.backend.state import (
    DIRECT,
    Asked,
    BackendPhase,
    BackendState,
    Decommissioning,
    Grace,
    Killing,
    Patience,
    Registering,
    ReplyTo,
    Rest,
    Waiting,
)
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendCommand,
    Decommissioned,
    ExecutorDisabled,
    Killed,
    KnownChanged,
    LossReported,
    RecoveryMode,
    Targets,
    TargetsForwarded,
    YarnBackendCommand,
)
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.config import BackendConfig
from podtide.domain.protocol.pod_commands import DecommissionExecutors, DeletePods, ExitReason, MarkPods, RemoveExecutor
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw, Why
from podtide.domain.protocol.stimuli import ExecutorRemoved

MACHINE: Final = "KubernetesClusterSchedulerBackend"
ENDPOINT: Final = "KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint"
UTILS: Final = "Utils"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
DEPLOYMENT: Final = "deployment"
OOM: Final = "OOM"
"""What a loss reason has to contain for the allocator's recovery mode; the literal text."""
REJECTED: Final = "java.util.concurrent.RejectedExecutionException"
"""What the maintenance thread throws once it is shut down; Java's message tells of addresses in memory."""
FORCED_MAX: Final = 1_000
"""Forced deletions whose outcome is remembered for; beyond that the log says less."""

Mark = Literal["label", "annotation"]


def why(cause: Cause, **facts: Fact) -> Why:
    """A cause with its facts."""
    return Why(cause, pmap(facts))


class Departures(ABC):
    """The backend within one step, as far as executors leave.

    What a cluster manager does in its own way is a method of its own, for another backend to say otherwise: ``forward``,
    ``marks``, ``do_kill``, ``lose``; ``machine`` and ``endpoint`` are the classes that speak in Spark's log.
    """

    machine: str = MACHINE
    endpoint: str = ENDPOINT

    def __init__(self, state: BackendState, config: BackendConfig, now: Millis) -> None:
        self.state, self.config, self.now = state, config, now
        self.registry = state.registry
        if self.registry.parking.size != config.unknown_decommissions_max:
            parking = self.registry.parking.resized(config.unknown_decommissions_max)
            self.registry = replace(self.registry, parking=parking)
        self.graces, self.patience = state.graces, state.patience
        self.requested, self.ids, self.serial = state.requested, state.ids, state.serial
        self.phase, self.stop_by, self.stop_serial = state.phase, state.stop_by, state.stop_serial
        self.recovery, self.waiting, self.later = state.recovery, state.waiting, state.later
        self.forced = state.forced
        self.commands: list[YarnBackendCommand] = []
        self.reports: list[Report] = []

    def step(self) -> Step[BackendState, BackendCommand]:
        """What came of it."""
        said = cast(tuple[BackendCommand, ...], tuple(self.commands))  # but for YARN's, which gives its own
        return Step(self.after(), said, tuple(self.reports))

    def after(self) -> BackendState:
        """The books as they are now."""
        return BackendState(
            self.state.created_at, self.registry, self.requested, self.graces, self.patience, self.ids, self.serial,
            self.phase, self.stop_by, self.stop_serial, self.recovery, self.waiting, self.later, self.forced,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------ helpers

    def say(self, command: YarnBackendCommand) -> None:
        """One command more."""
        self.commands.append(command)

    def call(self, make: Callable[[int], YarnBackendCommand]) -> int:
        """A command with the next serial."""
        self.serial += 1
        self.commands.append(make(self.serial))
        return self.serial

    def wait_for(self, rest: Rest, make: Callable[[int], BackendCommand]) -> None:
        """A command with the next serial, until whose outcome the backend stands still."""
        self.waiting = Waiting(self.call(make), rest)

    def forward(self, targets: Targets, rest: Rest) -> bool:
        """Tell the allocator its targets; returns whether that has to be waited for."""
        awaited = self.config.allocator != DIRECT
        serial = self.call(lambda serial: TargetsForwarded(self.now, serial, targets, awaited))
        if awaited:
            self.waiting = Waiting(serial, rest)
        return awaited

    def remark(self, topic: str, machine: str | None = None, **facts: Fact) -> None:
        """A line of Spark's log that no command says."""
        if self.config.remarks:
            self.reports.append(Remark(self.now, machine or self.machine, topic, pmap(facts)))

    def uncaught(self, thread: str, what: str) -> None:
        """An exception that Utils.tryLogNonFatalError swallows."""
        self.remark("uncaught", UTILS, thread=thread, what=what)

    def threw(self, what: str, *, fatal: bool = False) -> None:
        """An exception that leaves the backend."""
        self.reports.append(Threw(self.now, self.machine, what, fatal))

    @property
    def pool_open(self) -> bool:
        """Whether the maintenance thread still takes work."""
        return self.phase not in (BackendPhase.DRAINING, BackendPhase.STOPPED)

    # -------------------------------------------------------------------------------------------------------- kills

    def kill(
        self,
        executors: tuple[ExecutorId, ...],
        reply: Asked | None,
        cause: Cause,
        *,
        adjust_target: bool,
        count_failures: bool,
        force: bool,
    ) -> None:
        """killExecutors. ``reply``: who is told which executors go."""
        self.remark("kill asked", executors=", ".join(executors))
        chosen = []
        for executor in executors:
            if executor not in self.registry.executors:
                self.remark("kill unknown", executor=executor)
            elif executor not in self.registry.killed and (force or executor not in self.registry.busy):
                chosen.append(executor)
        killed = tuple(chosen)
        self.stand_down(killed, self.registry.to_kill(killed, expected=not count_failures))
        self.remark("kill list", executors=", ".join(killed))
        if not killed:
            self.reply_killed(reply, ())
            return
        reason = why(cause, asked=len(executors), killed=len(killed), forced=int(force), grace_ms=self.config.grace_ms)
        if adjust_target:
            fault = self.lower(killed)
            if fault is not None:
                self.reply_killed(reply, (), str(fault))
                return
            if self.forward(self.requested, Killing(killed, reply, reason)):
                return
        self.do_kill(killed, reply, reason)

    def do_kill(self, executors: tuple[ExecutorId, ...], reply: Asked | None, reason: Why) -> None:
        """doKillExecutors."""
        marks = self.marks("annotation", "label")
        if marks and not self.pool_open:  # Spark hands these over first, and finds out
            self.reply_killed(reply, (), REJECTED)
            return
        self.commands.extend(RemoveExecutor(self.now, executor, KILLED, reason) for executor in executors)
        if self.pool_open:
            self.graces = self.graces.append(Grace(self.now + self.config.grace_ms, executors))
            self.reply_killed(reply, executors)
        else:
            self.reply_killed(reply, (), REJECTED)
        self.remove([(executor, KILLED) for executor in executors])
        self.mark(marks, executors, reason)

    def reply_killed(self, reply: Asked | None, executors: tuple[ExecutorId, ...], threw: str | None = None) -> None:
        """Answer; a kill by force that throws is swallowed by its timer."""
        if reply is not None:
            self.say(Killed(self.now, reply.serial, executors, threw))
            if threw is not None:
                self.threw(threw)
        elif threw is not None:
            self.uncaught("cleanup-decommission-execs", threw)

    def lower(self, executors: Iterable[ExecutorId]) -> SparkFault | None:
        """adjustExecutors: one less for the profile of each; what it changed before it threw stays changed."""
        requested = dict(self.requested)
        fault = None
        for executor in executors:
            profile = self.registry.executors[executor].profile
            if not requested:
                requested[profile] = 0
            elif profile in requested:
                requested[profile] = max(requested[profile] - 1, 0)
            else:
                fault = _no_such_profile(profile)
                break
        self.requested = tuple(requested.items())
        return fault

    # ----------------------------------------------------------------------------------------------- decommissioning

    def decommission(
        self,
        executors: tuple[ExecutorId, ...],
        info: Leaving,
        reply: ReplyTo,
        *,
        adjust_target: bool,
        triggered_by_executor: bool,
    ) -> None:
        """decommissionExecutors, with the pods' marks around the core's part."""
        marks = () if triggered_by_executor else self.marks("label", "annotation")
        if marks and not self.pool_open:
            self.reply_decommissioned(reply, (), REJECTED)
            return
        active = []
        for executor in executors:
            if self.registry.active(executor):
                self.registry = self.registry.decommissioning(executor, info)
                active.append(executor)
            else:
                parked = Parked(info, adjust_target, triggered_by_executor)
                self.registry = replace(self.registry, parking=self.registry.parking.put(executor, parked))
        going = Decommissioning(tuple(active), info, triggered_by_executor, reply)
        if active:
            self.say(ActiveChanged(self.now, inactive=going.executors))
        fault = self.lower(active) if adjust_target and active else None
        if fault is not None:
            self.reply_decommissioned(reply, (), str(fault))
        elif not active:
            self.reply_decommissioned(reply, ())
        elif not (adjust_target and self.forward(self.requested, going)):
            self.do_decommission(going)
        self.mark(marks, executors, why(Cause.DECOMMISSIONED, message=info.message, asked=len(executors)))

    def do_decommission(self, going: Decommissioning) -> None:
        """Tell the executors and everybody else; from now on they have forceKillTimeout."""
        timeout = self.config.force_kill_timeout_ms
        reason = why(Cause.DECOMMISSIONED, executors=len(going.executors), force_kill_timeout_ms=timeout)
        notify = not going.triggered_by_executor
        self.say(DecommissionExecutors(self.now, going.executors, going.info.message, notify, reason))
        if timeout is not None:
            self.patience = self.patience.append(Patience(self.now + timeout, going.executors, timeout))
        self.reply_decommissioned(going.reply, going.executors)

    def reply_decommissioned(self, reply: ReplyTo, executors: tuple[ExecutorId, ...], threw: str | None = None) -> None:
        """Answer whoever asked, or go on with the registration that the decommission waited for."""
        if isinstance(reply, Asked):
            self.say(Decommissioned(self.now, reply.serial, executors, threw))
        if threw is not None:
            self.threw(threw)
        if isinstance(reply, Registering):
            self.registration_ends(reply.executor, threw)

    @abstractmethod
    def registration_ends(self, executor: ExecutorId, threw: str | None) -> None:
        """The parked decommission of an executor that registers is through."""

    # ------------------------------------------------------------------------------------------------ marks on pods

    def marks(self, *kinds: Mark) -> tuple[Mark, ...]:
        """Which of these marks pods of executors that go are given."""
        cost = self.config.allocator == DEPLOYMENT and self.config.deletion_cost is not None
        given = {"label": self.config.decommission_label is not None, "annotation": cost}
        return tuple(kind for kind in kinds if given[kind])

    def mark(self, marks: Iterable[Mark], executors: tuple[ExecutorId, ...], reason: Why) -> None:
        """One task of the maintenance thread for each mark."""
        config, now = self.config, self.now
        for kind in marks:
            key, value = DELETION_COST, str(config.deletion_cost)
            if kind == "label":
                key, value = config.decommission_label or "", config.decommission_label_value
            self.serial += 1
            self.say(MarkPods(now, self.serial, executors, kind, key, value, reason))

    # -------------------------------------------------------------------------------------------------------- timers

    def delete_running(self, grace: Grace) -> None:
        """The grace period is over."""
        asked = len(grace.executors)
        reason = why(Cause.STILL_RUNNING, executors=asked, grace_ms=self.config.grace_ms)
        self.serial += 1
        self.say(DeletePods(self.now, self.serial, grace.executors, "Running", reason, list_first=True))
        if self.config.remarks and len(self.forced) < FORCED_MAX:
            self.forced = self.forced.set(self.serial, asked)

    def kill_stragglers(self, patience: Patience) -> None:
        """forceKillTimeout is over."""
        left = tuple(executor for executor in patience.executors if executor in self.registry.leaving)
        if left:
            self.remark("still decommissioning", executors=", ".join(left), seconds=patience.given_ms // 1_000)
            cause = Cause.DECOMMISSION_TIMEOUT
            self.kill(left, None, cause, adjust_target=False, count_failures=False, force=True)

    # -------------------------------------------------------------------------------------------------------- losses

    def lose(self, item: LossReported) -> None:
        """doRemoveExecutor."""
        reason = item.why or why(Cause.POD_FAILED, exit_code=item.reason.exit_code)
        self.say(RemoveExecutor(self.now, item.executor, item.reason, reason, item.active, item.round_index))
        if self.config.allocator == DIRECT and OOM in item.reason.message:
            self.remark("out of memory", executor=item.executor)
            if not self.recovery:
                self.recovery = True
                self.say(RecoveryMode(self.now))
        self.remove([(item.executor, item.reason)])

    def disable(self, executor: ExecutorId) -> bool:
        """disableExecutor: its tasks are lost, and the cluster will tell what became of it. Returns whether it was news."""
        active = self.registry.active(executor)
        if not active and executor not in self.registry.killed:
            return False
        self.remark("disabled", self.endpoint, executor=executor)
        idle = self.registry.with_busy((executor,), busy=False)
        self.stand_down((executor,), idle.disconnected(executor) if active else idle)
        self.say(ExecutorDisabled(self.now, executor))
        return True

    def remove(self, losses: Sequence[tuple[ExecutorId, ExitReason]]) -> None:
        """DriverEndpoint.removeExecutor, for each: off the books with the reason that counts, and the listener event."""
        events: list[ExecutorRemoved] = []
        removed, inactive = [], []
        for executor, given in losses:
            reason = given
            if executor in self.registry.executors:
                reason = self.registry.effective_reason(executor, given)
                if self.registry.active(executor):
                    inactive.append(executor)
                self.registry = self.registry.removed(executor)
                removed.append(executor)
            else:
                self.remark("not registered", self.endpoint, executor=executor)
            events.append(ExecutorRemoved(self.now, executor, reason.message))
        if inactive:
            self.say(ActiveChanged(self.now, inactive=tuple(inactive)))
        if removed:
            self.say(KnownChanged(self.now, removed=tuple(removed)))
        self.commands.extend(events)

    def stand_down(self, executors: Iterable[ExecutorId], registry: Registry) -> None:
        """Take the books over and say which of these executors were active until now."""
        before = tuple(dict.fromkeys(executor for executor in executors if self.registry.active(executor)))
        self.registry = registry
        if before:
            self.say(ActiveChanged(self.now, inactive=before))


def _no_such_profile(profile: ProfileId) -> SparkFault:
    """requestedTotalExecutorsPerResourceProfile(profile), of a profile that was never requested.

    Spark's text goes on with what the profile asks for, which is not known here.
    """
    return SparkFault("java.util.NoSuchElementException", f"key not found: Profile: id = {profile}")
