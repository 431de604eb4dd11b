"""Who is let in: executors that register with the driver endpoint."""

from __future__ import annotations

from podtide.domain.backend import answers, executor_removals as removals
from podtide.domain.backend.registry import Registered
from podtide.domain.backend.state import OVER, Registering
from podtide.domain.backend.turn import BackendTurn, S
from podtide.domain.jvm.values import parse_int
from podtide.domain.protocol.backend_messages import ActiveChanged, KnownChanged
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded


def register(turn: BackendTurn[S], item: RegisterExecutor) -> None:
    """RegisterExecutor."""
    if turn.state.phase in OVER:
        return  # the context is stopped: not even an answer
    executor = item.executor
    if executor in turn.state.registry.executors:
        answers.reject(turn, executor, f"Duplicate executor ID: {executor}", Cause.DUPLICATE)
        return
    try:
        excluded = item.host in turn.state.registry.excluded_hosts or turn.manager.excluded(turn, executor)
    except ValueError:
        answers.reject(turn, executor, f'For input string: "{executor}"', Cause.ILLEGAL_ARGUMENT)
        return
    if excluded:
        turn.remark("rejected", turn.manager.endpoint, executor=executor)
        answers.reject(turn, executor, f"Executor is excluded due to failures: {executor}", Cause.EXCLUDED)
        return
    turn.remark("registered", turn.manager.endpoint, executor=executor, address=item.address, profile=item.profile)
    turn.state.registry = turn.state.registry.registered(
        executor, Registered(item.profile, item.address, item.host, turn.now)
    )
    turn.say(KnownChanged(turn.now, ((executor, item.profile, turn.now),)))
    turn.say(ActiveChanged(turn.now, (executor,)))
    try:
        turn.manager.numbered(turn, parse_int(executor))
    except ValueError:  # the driver keeps the highest id as a number; by now it has taken the executor in
        answers.reject(turn, executor, f'For input string: "{executor}"', Cause.ILLEGAL_ARGUMENT)
        return
    turn.say(ExecutorAdded(turn.now, executor, item.profile))
    parked = turn.state.registry.parking.get(executor)
    if parked is None:
        answers.accept(turn, executor)
        return
    removals.decommission(
        turn,
        (executor,),
        parked.info,
        Registering(executor),
        adjust_target=parked.adjust_target,
        triggered_by_executor=parked.triggered_by_executor,
    )
