"""How the scheduler backend answers: whoever asked for executors, kills or decommissions, and executors that register."""

from __future__ import annotations

from dataclasses import replace

from podtide.domain.backend.state import KillReply, PendingRequest, Registering, ReplyTo
from podtide.domain.backend.turn import BackendTurn, S
from podtide.domain.base.units import ExecutorId
from podtide.domain.machine.turn import why
from podtide.domain.protocol.backend_messages import Decommissioned, Killed, Requested
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.reasons import Cause


def answer(turn: BackendTurn[S], serial: int, threw: str | None) -> None:
    """Answer a request."""
    turn.say(Requested(turn.now, serial, threw is None, threw))
    if threw is not None:
        turn.threw(threw)


def reply_killed(
    turn: BackendTurn[S], reply: KillReply, executors: tuple[ExecutorId, ...], threw: str | None = None
) -> None:
    """Answer; what a kill throws that nobody asked for is swallowed by the thread that made it."""
    if isinstance(reply, PendingRequest):
        turn.say(Killed(turn.now, reply.serial, executors, threw))
        if threw is not None:
            turn.threw(threw)
    elif threw is not None:
        turn.uncaught("cleanup-decommission-execs" if reply is None else "kill-executor-thread", threw)


def reply_decommissioned(
    turn: BackendTurn[S], reply: ReplyTo, executors: tuple[ExecutorId, ...], threw: str | None = None
) -> None:
    """Answer whoever asked, or go on with the registration that the decommission waited for."""
    if isinstance(reply, PendingRequest):
        turn.say(Decommissioned(turn.now, reply.serial, executors, threw))
    if threw is not None:
        turn.threw(threw)
    if isinstance(reply, Registering):
        registration_ends(turn, reply.executor, threw)


def registration_ends(turn: BackendTurn[S], executor: ExecutorId, threw: str | None) -> None:
    """The parked decommission of an executor that registers is through."""
    if threw is not None:
        reject(turn, executor, threw.partition(": ")[2], Cause.DECOMMISSIONED)
        return
    turn.state.registry = replace(turn.state.registry, parking=turn.state.registry.parking.discard(executor))
    accept(turn, executor)


def accept(turn: BackendTurn[S], executor: ExecutorId) -> None:
    """Let an executor in."""
    reason = why(Cause.REGISTERED, registered=len(turn.state.registry.executors))
    turn.say(AnswerRegistration(turn.now, executor, True, reason))


def reject(turn: BackendTurn[S], executor: ExecutorId, message: str, cause: Cause) -> None:
    """Refuse an executor, with the reason that Spark gives."""
    reason = why(cause, registered=len(turn.state.registry.executors))
    turn.say(AnswerRegistration(turn.now, executor, False, reason, message))
