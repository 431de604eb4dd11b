"""How executors go: kills, decommissions, losses.

A kill tells the driver endpoint at once and leaves the pod a grace period; a decommission tells everybody and waits, for
ever or until spark.executor.decommission.forceKillTimeout. Both may lower the requested targets first, and whatever that
throws ends them half-way: the executors stay marked as killed, or decommissioning, and nothing else happens.

Everything that the driver endpoint does with a RemoveExecutor message happens within the step that sends it, after the
answer to whoever asked; labels and deletion costs are put on the pods last, by the maintenance thread. See
``scheduler_backend``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from podtide.domain.backend import answers
from podtide.domain.backend.registry import Leaving, Parked, Registry
from podtide.domain.backend.state import Decommissioning, Killing, KillReply, Patience, ReplyTo
from podtide.domain.backend.turn import BackendTurn, S
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.jvm.exceptions import NO_SUCH_ELEMENT, REJECTED_EXECUTION, SparkFault
from podtide.domain.machine.turn import why
from podtide.domain.protocol import backend_messages as messages, executor_stimuli
from podtide.domain.protocol.backend_messages import ActiveChanged, ExecutorDisabled, KnownChanged
from podtide.domain.protocol.executor_commands import DecommissionExecutors, ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import ExecutorRemoved


def kill(
    turn: BackendTurn[S],
    executors: tuple[ExecutorId, ...],
    reply: KillReply,
    cause: Cause,
    *,
    adjust_target: bool,
    count_failures: bool,
    force: bool,
) -> bool:
    """killExecutors. ``reply``: who is told which executors go. Returns whether it went through by now."""
    turn.remark("kill asked", executors=", ".join(executors))
    chosen = []
    for executor in executors:
        if executor not in turn.state.registry.executors:
            turn.remark("kill unknown", executor=executor)
        elif executor not in turn.state.registry.killed and (force or executor not in turn.state.registry.busy):
            chosen.append(executor)
    killed = tuple(chosen)
    stand_down(turn, killed, turn.state.registry.to_kill(killed, expected=not count_failures))
    turn.remark("kill list", executors=", ".join(killed))
    if not killed:
        answers.reply_killed(turn, reply, ())
        return True
    reason = why(cause, asked=len(executors), killed=len(killed), forced=int(force), grace_ms=turn.config.grace_ms)
    if adjust_target:
        fault = lower(turn, killed)
        if fault is not None:
            answers.reply_killed(turn, reply, (), str(fault))
            return False
        if turn.manager.forward(turn, turn.state.requested, Killing(killed, reply, reason)):
            return False
    return turn.manager.do_kill(turn, killed, reply, reason)


def lower(turn: BackendTurn[S], executors: Iterable[ExecutorId]) -> SparkFault | None:
    """adjustExecutors: one less for the profile of each; what it changed before it threw stays changed."""
    requested = dict(turn.state.requested)
    fault = None
    for executor in executors:
        profile = turn.state.registry.executors[executor].profile
        if not requested:
            requested[profile] = 0
        elif profile in requested:
            requested[profile] = max(requested[profile] - 1, 0)
        else:
            fault = _no_such_profile(profile)
            break
    turn.state.requested = tuple(requested.items())
    return fault


def decommission(
    turn: BackendTurn[S],
    executors: tuple[ExecutorId, ...],
    info: Leaving,
    reply: ReplyTo,
    *,
    adjust_target: bool,
    triggered_by_executor: bool,
) -> None:
    """decommissionExecutors, with the pods' marks around the core's part."""
    marks = () if triggered_by_executor else turn.manager.marks(turn, "label", "annotation")
    if marks and not turn.pool_open:
        answers.reply_decommissioned(turn, reply, (), REJECTED_EXECUTION)
        return
    active = []
    for executor in executors:
        if turn.state.registry.active(executor):
            turn.state.registry = turn.state.registry.decommissioning(executor, info)
            active.append(executor)
        else:
            parked = Parked(info, adjust_target, triggered_by_executor)
            turn.state.registry = replace(
                turn.state.registry, parking=turn.state.registry.parking.put(executor, parked)
            )
    going = Decommissioning(tuple(active), info, triggered_by_executor, reply)
    if active:
        turn.say(ActiveChanged(turn.now, inactive=going.executors))
    fault = lower(turn, active) if adjust_target and active else None
    if fault is not None:
        answers.reply_decommissioned(turn, reply, (), str(fault))
    elif not active:
        answers.reply_decommissioned(turn, reply, ())
    elif not (adjust_target and turn.manager.forward(turn, turn.state.requested, going)):
        do_decommission(turn, going)
    turn.mark(marks, executors, why(Cause.DECOMMISSIONED, message=info.message, asked=len(executors)))


def do_decommission(turn: BackendTurn[S], going: Decommissioning) -> None:
    """Tell the executors and everybody else; from now on they have forceKillTimeout."""
    timeout = turn.config.force_kill_timeout_ms
    reason = why(Cause.DECOMMISSIONED, executors=len(going.executors), force_kill_timeout_ms=timeout)
    notify = not going.triggered_by_executor
    turn.say(DecommissionExecutors(turn.now, going.executors, going.info.message, notify, reason))
    if timeout is not None:
        turn.state.patience = turn.state.patience.append(Patience(turn.now + timeout, going.executors, timeout))
    answers.reply_decommissioned(turn, going.reply, going.executors)


def disable(turn: BackendTurn[S], executor: ExecutorId) -> bool:
    """disableExecutor: its tasks are lost, and the cluster will report how it ended. Returns whether it was news."""
    active = turn.state.registry.active(executor)
    if not active and executor not in turn.state.registry.killed:
        return False
    turn.remark("disabled", turn.manager.endpoint, executor=executor)
    idle = turn.state.registry.with_busy((executor,), busy=False)
    stand_down(turn, (executor,), idle.disconnected(executor) if active else idle)
    turn.say(ExecutorDisabled(turn.now, executor))
    return True


def remove(turn: BackendTurn[S], losses: Sequence[tuple[ExecutorId, ExitReason]]) -> None:
    """DriverEndpoint.removeExecutor, for each: off the books with the reason that counts, and the listener event."""
    events: list[ExecutorRemoved] = []
    removed, inactive = [], []
    for executor, given in losses:
        reason = given
        if executor in turn.state.registry.executors:
            reason = turn.state.registry.effective_reason(executor, given)
            if turn.state.registry.active(executor):
                inactive.append(executor)
            turn.state.registry = turn.state.registry.removed(executor)
            removed.append(executor)
        else:
            turn.remark("not registered", turn.manager.endpoint, executor=executor)
        events.append(ExecutorRemoved(turn.now, executor, reason.message))
    if inactive:
        turn.say(ActiveChanged(turn.now, inactive=tuple(inactive)))
    if removed:
        turn.say(KnownChanged(turn.now, removed=tuple(removed)))
    turn.commands.extend(events)


def dismiss(turn: BackendTurn[S], executor: ExecutorId, reason: ExitReason, because: Why) -> None:
    """RemoveExecutor to the driver endpoint, of which it also makes the executor's end."""
    turn.say(RemoveExecutor(turn.now, executor, reason, because))
    remove(turn, [(executor, reason)])


def exits(turn: BackendTurn[S], item: executor_stimuli.ExecutorExiting) -> None:
    """RemoveExecutor from an executor about itself. The reason is of no class of its own: a plain ExecutorLossReason."""
    reason = ExitReason("ExecutorLossReason", item.message, None, True)
    dismiss(turn, item.executor, reason, why(Cause.EXITED, message=item.message))


def time_out(turn: BackendTurn[S], item: messages.HeartbeatTimedOut) -> None:
    """HeartbeatReceiver's kill-executor-thread: SparkContext.killAndReplaceExecutor, and then RemoveExecutor.

    A kill that throws, or whose answer does not come, ends it; one that kills nobody does not.
    """
    cause = Cause.HEARTBEAT_TIMEOUT
    if kill(turn, (item.executor,), item, cause, adjust_target=False, count_failures=True, force=True):
        report_silent(turn, item)


def report_silent(turn: BackendTurn[S], item: messages.HeartbeatTimedOut) -> None:
    """RemoveExecutor of an executor that is not heard from.

    Where the kill removed it by itself the message finds nobody, and is an event all the same.
    """
    cause = Cause.HEARTBEAT_TIMEOUT
    reason = ExitReason("ExecutorProcessLost", f"Executor heartbeat timed out after {item.silent_ms} ms", None, True)
    dismiss(turn, item.executor, reason, why(cause, silent_ms=item.silent_ms, timeout_ms=item.timeout_ms))


def kill_on_host(turn: BackendTurn[S], item: executor_stimuli.KillExecutorsOnHost) -> None:
    """killExecutorsOnHost, and what the driver endpoint does with KillExecutorsOnHost."""
    turn.remark("host kill asked", host=item.host)
    alive = turn.state.registry.on_host(item.host)
    if alive is not None:
        kill(turn, alive, None, Cause.HOST_EXCLUDED, adjust_target=False, count_failures=False, force=True)


def decommission_on_host(turn: BackendTurn[S], host: str) -> None:
    """What the driver endpoint does with DecommissionExecutorsOnHost."""
    alive = turn.state.registry.on_host(host)
    if alive:
        info = Leaving(f"Decommissioning all executors on {host}.")
        decommission(turn, alive, info, None, adjust_target=False, triggered_by_executor=False)


def stand_down(turn: BackendTurn[S], executors: Iterable[ExecutorId], registry: Registry) -> None:
    """Take the books over and say which of these executors were active until now."""
    before = tuple(dict.fromkeys(executor for executor in executors if turn.state.registry.active(executor)))
    turn.state.registry = registry
    if before:
        turn.say(ActiveChanged(turn.now, inactive=before))


def kill_stragglers(turn: BackendTurn[S], patience: Patience) -> None:
    """forceKillTimeout is over."""
    left = tuple(executor for executor in patience.executors if executor in turn.state.registry.leaving)
    if left:
        turn.remark("still decommissioning", executors=", ".join(left), seconds=patience.given_ms // 1_000)
        cause = Cause.DECOMMISSION_TIMEOUT
        kill(turn, left, None, cause, adjust_target=False, count_failures=False, force=True)


def _no_such_profile(profile: ProfileId) -> SparkFault:
    """requestedTotalExecutorsPerResourceProfile(profile), of a profile that was never requested.

    Spark's text goes on with what the profile asks for, which is not known here.
    """
    return SparkFault(NO_SUCH_ELEMENT, f"key not found: Profile: id = {profile}")
