"""What becomes of executors that are asked to go, and who is let in: a pure KubernetesClusterSchedulerBackend.

The backend stands between the driver and the cluster. It forwards targets to the pods allocator, lets executors
register, kills and decommissions them, and tidies up at the end. Rules that are easily got wrong:

- A kill tells the driver first (every executor is removed at once, reason ExecutorKilled) and the cluster later: pods
  that still run when the grace period is over are deleted, whatever spark.kubernetes.executor.deleteOnTermination says.
- Busy executors are passed over unless the kill is forced; unknown ones and those asked before always are.
- Labels and deletion costs are put on pods by the maintenance thread, after everything that the call itself does: cost
  before label for a kill, label before cost for a decommission, and for all ids that were named, active or not.
- A target lowered together with a kill (``adjust_target``) is the last request, one less for each. Without any request
  it becomes 0, which is what a kill does to an application of fixed size.
- The allocator's call is part of the request: under an allocator that may throw, the backend stands still until it
  returned. What throws leaves its traces: executors marked as killed stay marked and are never asked again.
- Decommission is cooperative; spark.executor.decommission.forceKillTimeout later, what is left is killed by force.
- stop() goes through all its steps whatever fails, but for the allocator: if that throws, config maps, maintenance thread
  and client are left. Deletions of the grace period still pending are waited for, at most 30 s.

``manage`` takes inputs in order; overdue timers run before them, those of this very moment with a Wake. Everything that the
driver endpoint does with its own messages happens within the step that sends them. Source:
KubernetesClusterSchedulerBackend and CoarseGrainedSchedulerBackend of Spark 4.3.0 (spec: backend, section 1; allocation,
section 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from pyrsistent import pdeque

from podtide.domain.backend.executor_removals import Departures, why
from podtide.domain.backend.registry import Leaving, Registered, decommissioned
from podtide.domain.backend.state import (
    DIRECT,
    Asked,
    BackendPhase,
    BackendState,
    Decommissioning,
    Killing,
    KillSent,
    Readiness,
    Registering,
    Rest,
    StartStage,
    StopStage,
    begin,
    due,
    readiness,
    sufficient_resources_registered,
    supports_hold,
)
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, SparkFault
from podtide.domain.jvm.values import INT_MAX, parse_int, parse_long, to_int
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendCommand,
    BackendInput,
    Excluded,
    HostsExcluded,
    KnownChanged,
    LossReported,
    Requested,
    RequestMore,
    RequestTotals,
    SourcesStarted,
    StartAllocator,
    StopAllocator,
)
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.config import BackendConfig
from podtide.domain.protocol.pod_commands import (
    AnswerRegistration,
    AssignExecutorId,
    CreateConfigMap,
    DeleteOwned,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    DecommissionRequested,
    ExecutorBusy,
    ExecutorDisconnected,
    GenerateExecutorId,
    KillRequested,
    Outcome,
    RegisterExecutor,
    Starting,
    Stopping,
    Wake,
)
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded

__all__ = [
    "BackendCommand",
    "BackendInput",
    "BackendState",
    "Readiness",
    "begin",
    "due",
    "manage",
    "readiness",
    "sufficient_resources_registered",
    "supports_hold",
]

STOP_WAIT_MS: Final[Millis] = 30_000
"""How long stop() waits for the maintenance thread (ThreadUtils.shutdown)."""
MAINTENANCE_THREAD: Final = "kubernetes-executor-maintenance"
STOPPING_THREAD: Final = "main"
"""Who calls stop(), as a rule: the application's own thread."""

_OVER: Final = frozenset({BackendPhase.STOPPING, BackendPhase.DRAINING, BackendPhase.STOPPED, BackendPhase.ABANDONED})


def manage(
    state: BackendState, snapshots: Sequence[BackendInput], config: BackendConfig, now: Millis
) -> Step[BackendState, BackendCommand]:
    """Run the timers that are overdue, then take the inputs in order; a Wake runs those that are due now."""
    backend = Backend(state, config, now)
    backend.run_timers(now - 1)
    for item in snapshots:
        backend.hear(item)
    return backend.step()


class Backend(Departures):
    """The backend within one step. Beside ``Departures``' own, others may say otherwise how it starts and stops
    (``start``, ``stop``), how it asks (``request``), and whom it lets in (``excluded``, ``numbered``).
    """

    def hear(self, item: BackendInput) -> None:
        if isinstance(item, Outcome):
            self.answered(item)
        elif self.waiting is not None:
            self.later = self.later.append(item)
        else:
            self.take(item)

    def take(self, item: BackendInput) -> None:
        match item:
            case RequestTotals():
                self.request_totals(item)
            case RequestMore():
                self.request_more(item)
            case KillRequested():
                self.kill(
                    item.executors,
                    Asked(item.serial),
                    Cause.KILLED,
                    adjust_target=item.adjust_target,
                    count_failures=item.count_failures,
                    force=item.force,
                )
            case DecommissionRequested():
                self.decommission_asked(item)
            case LossReported():
                self.lose(item)
            case RegisterExecutor():
                self.register(item)
            case ExecutorDisconnected():
                self.disconnect(item.address)
            case GenerateExecutorId():
                self.name_pod(item)
            case ExecutorBusy():
                self.registry = self.registry.with_busy(item.executors, busy=item.busy)
            case Excluded():
                self.registry = self.registry.with_excluded(item.added, item.gone)
            case HostsExcluded():
                self.registry = replace(self.registry, excluded_hosts=item.hosts)
            case Starting():
                if self.phase is BackendPhase.CREATED:
                    self.start()
            case Stopping():
                self.stop()
            case Wake():
                self.run_timers(self.now)
            case Outcome():
                pass  # taken as they come
            case _:
                assert_never(item)

    def answered(self, outcome: Outcome) -> None:
        waiting = self.waiting
        if waiting is None or outcome.serial != waiting.serial:
            self.noted(outcome)
            return
        self.waiting = None
        self.resume(waiting.rest, _thrown(outcome.failure))
        while self.later and self.waiting is None:
            item, self.later = self.later.left, self.later.popleft()
            self.take(item)

    def resume(self, rest: Rest, threw: str | None) -> None:
        """The call returned, or ended in an exception."""
        match rest:
            case StartStage():
                self.start_on(rest, threw)
            case StopStage():
                self.stop_on(threw)
            case Asked():
                self.answer(rest.serial, threw)
            case Killing() if threw is None:
                self.do_kill(rest.executors, rest.reply, rest.why)
            case Killing():
                self.reply_killed(rest.reply, (), threw)
            case KillSent():
                self.reply_killed(rest.reply, rest.executors if threw is None else (), threw)
            case Decommissioning() if threw is None:
                self.do_decommission(rest)
            case Decommissioning():
                self.reply_decommissioned(rest.reply, (), threw)
            case _:
                assert_never(rest)

    def noted(self, outcome: Outcome) -> None:
        """A call came back that nothing waits for: the log may have something to say."""
        asked = self.forced.get(outcome.serial)
        if asked is not None:
            self.forced = self.forced.remove(outcome.serial)
            if outcome.found:
                self.remark("deleted by force", found=outcome.found, asked=asked)
        threw = _thrown(outcome.failure)
        if threw is not None:
            of_stop = self.stop_serial is not None and outcome.serial > self.stop_serial
            self.uncaught(STOPPING_THREAD if of_stop else MAINTENANCE_THREAD, threw)

    # ----------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """start(), up to its first call."""
        self.wait_for(StartStage.ALLOCATOR, lambda serial: StartAllocator(self.now, serial))

    def start_on(self, stage: StartStage, threw: str | None) -> None:
        """start() goes on after one of its calls; an exception ends it, and the application with it."""
        if threw is not None:
            self.threw(threw, fatal=True)
            return
        if stage is StartStage.ALLOCATOR and self.config.config_map:
            reason = why(Cause.STARTED)
            self.wait_for(StartStage.CONFIG_MAP, lambda serial: CreateConfigMap(self.now, serial, reason))
            return
        # Not a request: what was requested stays empty until dynamic allocation asks.
        initial = ((DEFAULT_PROFILE, self.config.executors_initial),)
        if stage is not StartStage.TARGETS and self.forward(initial, StartStage.TARGETS):
            return
        self.phase = BackendPhase.RUNNING
        self.say(SourcesStarted(self.now))

    def stop(self) -> None:
        if self.phase is BackendPhase.DRAINING:
            return  # it stands in stop() already
        now, config, reason = self.now, self.config, why(Cause.STOPPED)
        self.stop_serial = self.serial
        if self.pool_open:
            self.phase = BackendPhase.STOPPING
        self.patience = pdeque()  # super.stop ends the thread of the force kills
        for what in ("scheduler", "store", "watch", "poll"):
            self.serial += 1
            self.say(StopSource(now, self.serial, what, reason))
        if config.delete_services:
            self.call(lambda serial: DeleteOwned(now, serial, "services", reason))
        if config.own_claims:
            self.call(lambda serial: DeleteOwned(now, serial, "persistentvolumeclaims", reason))
        if config.delete_on_termination:
            self.wait_for(StopStage.ALLOCATOR, lambda serial: StopAllocator(now, serial))
        else:
            self.drain()

    def stop_on(self, threw: str | None) -> None:
        """stop() goes on after the allocator's, which alone is not guarded."""
        if threw is not None:
            if self.pool_open:
                self.phase = BackendPhase.ABANDONED
            self.threw(threw)
            return
        if self.config.config_map:
            reason = why(Cause.STOPPED)
            self.call(lambda serial: DeleteOwned(self.now, serial, "configmaps", reason))
        self.drain()

    def drain(self) -> None:
        """The maintenance thread takes no more work and ends what it has, for a while."""
        if self.graces:
            self.phase = BackendPhase.DRAINING
            self.stop_by = self.now + STOP_WAIT_MS
        else:
            self.stopped()

    def stopped(self) -> None:
        reason = why(Cause.STOPPED, deletions_dropped=len(self.graces))
        self.phase, self.stop_by, self.graces = BackendPhase.STOPPED, None, pdeque()
        self.call(lambda serial: StopSource(self.now, serial, "timers", reason))
        self.call(lambda serial: StopSource(self.now, serial, "client", reason))

    def run_timers(self, moment: Millis) -> None:
        """Every timer that is due by then, in order; a deletion before a kill of the same time."""
        until = moment if self.stop_by is None else min(moment, self.stop_by)
        while self.waiting is None:
            grace = self.graces.left if self.graces and self.graces.left.due <= until else None
            patience = self.patience.left if self.patience and self.patience.left.due <= until else None
            if grace is not None and (patience is None or grace.due <= patience.due):
                self.graces = self.graces.popleft()
                self.delete_running(grace)
            elif patience is not None:
                self.patience = self.patience.popleft()
                self.kill_stragglers(patience)
            else:
                break
        if self.stop_by is not None and (not self.graces or moment >= self.stop_by):
            self.stopped()

    # ----------------------------------------------------------------------------------------------------- requests

    def request_totals(self, item: RequestTotals) -> None:
        total = to_int(sum(count for _, count in item.targets))
        if total < 0:
            self.refuse(item.serial, f"executor(s) {total}")
            return
        self.requested = tuple(dict(item.targets).items())
        self.hinted(item)
        self.request(item.serial)

    def hinted(self, item: RequestTotals) -> None:
        """Where the executors should be; Kubernetes has no use for it."""

    def request_more(self, item: RequestMore) -> None:
        if item.additional < 0:
            self.refuse(item.serial, f"additional executor(s) {item.additional}")
            return
        self.remark("more", executors=item.additional)
        requested = dict(self.requested)
        requested[DEFAULT_PROFILE] = min(requested.get(DEFAULT_PROFILE, 0) + item.additional, INT_MAX)
        self.requested = tuple(requested.items())
        self.request(item.serial)

    def refuse(self, serial: int, what: str) -> None:
        message = (
            f"Attempted to request a negative number of {what} from the cluster manager. "
            "Please specify a positive number!"
        )
        self.answer(serial, str(SparkFault(ILLEGAL_ARGUMENT, message)))

    def request(self, serial: int) -> None:
        if not self.forward(self.requested, Asked(serial)):
            self.answer(serial, None)

    def answer(self, serial: int, threw: str | None) -> None:
        self.say(Requested(self.now, serial, threw is None, threw))
        if threw is not None:
            self.threw(threw)

    def decommission_asked(self, item: DecommissionRequested) -> None:
        if item.triggered_by_executor:
            for executor in item.executors:
                self.remark("decommission heard", self.endpoint, executor=executor)
        self.decommission(
            item.executors,
            Leaving(item.message, item.host),
            Asked(item.serial),
            adjust_target=item.adjust_target,
            triggered_by_executor=item.triggered_by_executor,
        )

    # ------------------------------------------------------------------------------------------------- registration

    def register(self, item: RegisterExecutor) -> None:
        if self.phase in _OVER:
            return  # the context is stopped: not even an answer
        executor = item.executor
        if executor in self.registry.executors:
            self.turn_away(executor, f"Duplicate executor ID: {executor}", Cause.DUPLICATE)
            return
        try:
            excluded = item.host in self.registry.excluded_hosts or self.excluded(executor)
        except ValueError:
            self.turn_away(executor, f'For input string: "{executor}"', Cause.ILLEGAL_ARGUMENT)
            return
        if excluded:
            self.remark("rejected", self.endpoint, executor=executor)
            self.turn_away(executor, f"Executor is excluded due to failures: {executor}", Cause.EXCLUDED)
            return
        self.remark("registered", self.endpoint, executor=executor, address=item.address, profile=item.profile)
        self.registry = self.registry.registered(executor, Registered(item.profile, item.address, item.host, self.now))
        self.say(KnownChanged(self.now, ((executor, item.profile, self.now),)))
        self.say(ActiveChanged(self.now, (executor,)))
        try:
            self.numbered(parse_int(executor))
        except ValueError:  # the driver keeps the highest id as a number; by now it has taken the executor in
            self.turn_away(executor, f'For input string: "{executor}"', Cause.ILLEGAL_ARGUMENT)
            return
        self.say(ExecutorAdded(self.now, executor, item.profile))
        parked = self.registry.parking.get(executor)
        if parked is None:
            self.welcome(executor)
            return
        self.decommission(
            (executor,),
            parked.info,
            Registering(executor),
            adjust_target=parked.adjust_target,
            triggered_by_executor=parked.triggered_by_executor,
        )

    def numbered(self, number: int) -> None:
        """An executor of this id registered (currentExecutorIdCounter); nobody on Kubernetes asks for it."""

    def excluded(self, executor: ExecutorId) -> bool:
        """isExecutorExcluded: whether the allocator deleted it. The direct one keeps numbers, and raises on other ids."""
        direct = self.config.allocator == DIRECT
        return (ExecutorId(str(parse_long(executor))) if direct else executor) in self.registry.excluded

    def registration_ends(self, executor: ExecutorId, threw: str | None) -> None:
        """The parked decommission of an executor that registers is through."""
        if threw is not None:
            self.turn_away(executor, threw.partition(": ")[2], Cause.DECOMMISSIONED)
            return
        self.registry = replace(self.registry, parking=self.registry.parking.discard(executor))
        self.welcome(executor)

    def welcome(self, executor: ExecutorId) -> None:
        reason = why(Cause.REGISTERED, registered=len(self.registry.executors))
        self.say(AnswerRegistration(self.now, executor, True, reason))

    def turn_away(self, executor: ExecutorId, message: str, cause: Cause) -> None:
        reason = why(cause, registered=len(self.registry.executors))
        self.say(AnswerRegistration(self.now, executor, False, reason, message))

    def name_pod(self, item: GenerateExecutorId) -> None:
        if self.phase in _OVER:
            return
        self.ids += 1
        executor = ExecutorId(str(self.ids))
        self.registry = self.registry.named(item.address, executor)
        reason = why(Cause.REGISTERED, pod=item.pod)
        self.call(lambda serial: AssignExecutorId(self.now, serial, item.pod, executor, reason))

    def disconnect(self, address: str) -> None:
        """onDisconnected: what a lost connection says about an executor."""
        executor = self.registry.addresses.get(address)
        if executor is None:
            if address in self.registry.askers:
                self.registry = replace(self.registry, askers=self.registry.askers.remove(address))
            else:
                self.remark("nobody there", self.endpoint, address=address)
        elif executor in self.registry.leaving:
            gone = decommissioned(Leaving(""))
            self.say(RemoveExecutor(self.now, executor, gone, why(Cause.DISCONNECTED, address=address)))
            self.remove([(executor, gone)])
        else:
            self.disable(executor)


def _thrown(failure: CallFailure | None) -> str | None:
    return None if failure is None else f"{failure.exception_class}: {failure.message}"
