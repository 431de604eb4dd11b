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
from typing import Final, assert_never, cast

from podtide.domain.backend import answers, executor_removals as removals, registration
from podtide.domain.backend.kubernetes_manager import KUBERNETES
from podtide.domain.backend.registry import Leaving, empty_registry
from podtide.domain.backend.state import (
    BackendPhase,
    BackendState,
    Decommissioning,
    Killing,
    KillSent,
    PendingRequest,
    Rest,
    StartStage,
    StopStage,
)
from podtide.domain.backend.turn import BackendTurn, S
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, SparkFault
from podtide.domain.jvm.values import INT_MAX, to_int
from podtide.domain.machine.turn import thrown
from podtide.domain.protocol import backend_messages as messages, executor_stimuli, pod_stimuli
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Cause

MAINTENANCE_THREAD: Final = "kubernetes-executor-maintenance"
STOPPING_THREAD: Final = "main"
"""Who calls stop(), as a rule: the application's own thread."""


def begin(config: BackendConfig, now: Millis, *, first_serial: int = 0) -> BackendState:
    """A backend that was made now and not started yet. Its commands' serials follow ``first_serial``."""
    return BackendState(now, empty_registry(config.unknown_decommissions_max), serial=first_serial)


def due(state: BackendState, config: BackendConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """When the next timer runs; NEVER without one, and while a call is under way."""
    if state.waiting is not None:
        return NEVER
    next_grace = state.graces.left.due if state.graces else NEVER
    next_patience = state.patience.left.due if state.patience else NEVER
    return min(next_grace, next_patience, NEVER if state.stop_by is None else state.stop_by)


def manage(
    state: BackendState, snapshots: Sequence[messages.BackendInput], config: BackendConfig, now: Millis
) -> Step[BackendState, messages.BackendCommand]:
    """Run the timers that are overdue, then take the inputs in order; a Wake runs those that are due now."""
    turn = BackendTurn(state, config, now, KUBERNETES)
    KUBERNETES.run_timers(turn, now - 1)
    for item in snapshots:
        hear(turn, item)
    # All but YARN's own, which nobody here says.
    return cast("Step[BackendState, messages.BackendCommand]", turn.step())


def hear(turn: BackendTurn[S], item: messages.BackendInput) -> None:
    """Take an input, or let it wait while a call is under way."""
    if isinstance(item, pod_stimuli.Outcome):
        answered(turn, item)
    elif turn.state.waiting is not None:
        turn.state.later = turn.state.later.append(item)
    else:
        take(turn, item)


def take(turn: BackendTurn[S], item: messages.BackendInput) -> None:
    """Take an input."""
    match item:
        case messages.RequestTotals():
            request_totals(turn, item)
        case messages.RequestMore():
            request_more(turn, item)
        case executor_stimuli.KillRequested():
            removals.kill(
                turn,
                item.executors,
                PendingRequest(item.serial),
                Cause.KILLED,
                adjust_target=item.adjust_target,
                count_failures=item.count_failures,
                force=item.force,
            )
        case executor_stimuli.DecommissionRequested():
            decommission_asked(turn, item)
        case messages.LossReported():
            turn.manager.lose(turn, item)
        case messages.HeartbeatTimedOut():
            removals.time_out(turn, item)
        case executor_stimuli.KillExecutorsOnHost():
            removals.kill_on_host(turn, item)
        case executor_stimuli.DecommissionExecutorsOnHost():
            turn.remark("host kill asked", host=item.host)  # the line is the same
            removals.decommission_on_host(turn, item.host)
        case executor_stimuli.ExecutorExiting():
            removals.exits(turn, item)
        case executor_stimuli.RegisterExecutor():
            registration.register(turn, item)
        case executor_stimuli.ExecutorDisconnected():
            turn.manager.disconnect(turn, item.address)
        case pod_stimuli.GenerateExecutorId():
            turn.manager.name_pod(turn, item)
        case executor_stimuli.ExecutorBusy():
            turn.state.registry = turn.state.registry.with_busy(item.executors, busy=item.busy)
        case messages.Excluded():
            turn.state.registry = turn.state.registry.with_excluded(item.added, item.gone)
        case messages.HostsExcluded():
            turn.state.registry = replace(turn.state.registry, excluded_hosts=item.hosts)
        case executor_stimuli.Starting():
            if turn.state.phase is BackendPhase.CREATED:
                turn.manager.start(turn)
        case executor_stimuli.Stopping():
            turn.manager.stop(turn)
        case executor_stimuli.Wake():
            turn.manager.run_timers(turn, turn.now)
        case pod_stimuli.Outcome():
            pass  # taken as they come
        case _:
            assert_never(item)


def answered(turn: BackendTurn[S], outcome: pod_stimuli.Outcome) -> None:
    """Go on if this call was waited for, and then with what came meanwhile."""
    waiting = turn.state.waiting
    if waiting is None or outcome.serial != waiting.serial:
        noted(turn, outcome)
        return
    turn.state.waiting = None
    resume(turn, waiting.rest, _thrown(outcome))
    while turn.state.later and turn.state.waiting is None:
        item, turn.state.later = turn.state.later.left, turn.state.later.popleft()
        take(turn, item)


def resume(turn: BackendTurn[S], rest: Rest, threw: str | None) -> None:
    """The call returned, or ended in an exception."""
    match rest:
        case StartStage():
            turn.manager.start_on(turn, rest, threw)
        case StopStage():
            turn.manager.stop_on(turn, threw)
        case PendingRequest():
            answers.answer(turn, rest.serial, threw)
        case Killing() if threw is None:
            turn.manager.do_kill(turn, rest.executors, rest.reply, rest.why)
        case Killing():
            answers.reply_killed(turn, rest.reply, (), threw)
        case KillSent():
            answers.reply_killed(turn, rest.reply, rest.executors if threw is None else (), threw)
            if threw is None and isinstance(rest.reply, messages.HeartbeatTimedOut):
                removals.report_silent(turn, rest.reply)
        case Decommissioning() if threw is None:
            removals.do_decommission(turn, rest)
        case Decommissioning():
            answers.reply_decommissioned(turn, rest.reply, (), threw)
        case _:
            assert_never(rest)


def noted(turn: BackendTurn[S], outcome: pod_stimuli.Outcome) -> None:
    """A call came back that nothing waits for: the log may have something to say."""
    count = turn.state.forced.get(outcome.serial)
    if count is not None:
        turn.state.forced = turn.state.forced.remove(outcome.serial)
        if outcome.found:
            turn.remark("deleted by force", found=outcome.found, asked=count)
    threw = _thrown(outcome)
    if threw is not None:
        of_stop = turn.state.stop_serial is not None and outcome.serial > turn.state.stop_serial
        turn.uncaught(STOPPING_THREAD if of_stop else MAINTENANCE_THREAD, threw)


def request_totals(turn: BackendTurn[S], item: messages.RequestTotals) -> None:
    """requestTotalExecutors."""
    total = to_int(sum(count for _, count in item.targets))
    if total < 0:
        refuse(turn, item.serial, f"executor(s) {total}")
        return
    fault = turn.manager.unknown_profile(turn, item.targets)
    if fault is not None:
        answers.answer(turn, item.serial, str(fault))
        return
    turn.state.requested = tuple(dict(item.targets).items())
    turn.manager.hinted(turn, item)
    request(turn, item.serial)


def request_more(turn: BackendTurn[S], item: messages.RequestMore) -> None:
    """requestExecutors."""
    if item.additional < 0:
        refuse(turn, item.serial, f"additional executor(s) {item.additional}")
        return
    turn.remark("more", executors=item.additional)
    requested = dict(turn.state.requested)
    requested[DEFAULT_PROFILE] = min(requested.get(DEFAULT_PROFILE, 0) + item.additional, INT_MAX)
    turn.state.requested = tuple(requested.items())
    request(turn, item.serial)


def request(turn: BackendTurn[S], serial: int) -> None:
    """Pass the targets on, and answer if nobody has to be waited for."""
    if not turn.manager.forward(turn, turn.state.requested, PendingRequest(serial)):
        turn.manager.acknowledge(turn, serial)


def refuse(turn: BackendTurn[S], serial: int, what: str) -> None:
    """Answer that a number must not be negative."""
    message = (
        f"Attempted to request a negative number of {what} from the cluster manager. Please specify a positive number!"
    )
    answers.answer(turn, serial, str(SparkFault(ILLEGAL_ARGUMENT, message)))


def decommission_asked(turn: BackendTurn[S], item: executor_stimuli.DecommissionRequested) -> None:
    """decommissionExecutors, also where the executor itself asks."""
    if item.triggered_by_executor:
        for executor in item.executors:
            turn.remark("decommission heard", turn.manager.endpoint, executor=executor)
    removals.decommission(
        turn,
        item.executors,
        Leaving(item.message, item.host),
        PendingRequest(item.serial),
        adjust_target=item.adjust_target,
        triggered_by_executor=item.triggered_by_executor,
    )


def _thrown(outcome: pod_stimuli.Outcome) -> str | None:
    return None if outcome.failure is None else str(thrown(outcome.failure))
