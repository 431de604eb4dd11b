"""What the driver says to executors, as the fake clusters carry it to them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor

FINISHED: Final = "Finished decommissioning"
"""What an executor that has drained says of its own end (ExecutorLossMessage.decommissionFinished)."""

WordCommand: TypeAlias = RemoveExecutor | DecommissionExecutors | AnswerRegistration
"""The commands that say something to executors."""


class DriverWord(IntEnum):
    """What the driver says to an executor. ``NAMED``: the id that it asked for."""

    ACCEPTED = 1
    REFUSED = 2
    STOP = 3
    DECOMMISSION = 4
    NAMED = 5


def words(command: WordCommand) -> tuple[tuple[ExecutorId, DriverWord], ...]:
    """What a command says, and to whom."""
    match command:
        case RemoveExecutor():
            return ((command.executor, DriverWord.STOP),)
        case DecommissionExecutors():
            executors = command.executors if command.notify_executors else ()
            return tuple((executor, DriverWord.DECOMMISSION) for executor in executors)
        case AnswerRegistration():
            return ((command.executor, DriverWord.ACCEPTED if command.accepted else DriverWord.REFUSED),)
