"""What the scheduler backend has done to executors, on every cluster manager: told of, asked to go, answered, ended.

Commands about pods stand in ``pod_commands``, calls to YARN's resource manager in ``yarn_messages``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.reasons import Why


class ExitReason(NamedTuple):
    """Why an executor is gone: Spark's ExecutorLossReason.

    ``kind``: the class (ExecutorExited, ExecutorKilled, ExecutorDecommission, ExecutorProcessLost).
    """

    kind: str
    message: str
    exit_code: int | None = None
    caused_by_app: bool = False


@dataclass(frozen=True, slots=True)
class RemoveExecutor:
    """Tell the driver endpoint that an executor is gone (RemoveExecutor).

    ``active``: whether the backend still held it for active when that was asked (succeeded pods only).
    ``round_index``: which snapshot of the batch said so, from 0; None for executors found missing.
    """

    at: Millis
    executor: ExecutorId
    reason: ExitReason
    why: Why
    active: bool | None = None
    round_index: int | None = None


@dataclass(frozen=True, slots=True)
class DecommissionExecutors:
    """Tell executors, the scheduler and their block managers to decommission.

    ``notify_executors``: also tell the executors themselves (not when they asked for it).
    """

    at: Millis
    executors: tuple[ExecutorId, ...]
    message: str
    notify_executors: bool
    why: Why


@dataclass(frozen=True, slots=True)
class AnswerRegistration:
    """Answer an executor that registers: accepted, or refused with Spark's reason."""

    at: Millis
    executor: ExecutorId
    accepted: bool
    why: Why
    message: str = ""


@dataclass(frozen=True, slots=True)
class StopSource:
    """Stop something of the backend's own: "scheduler", "store", "watch", "poll", "timers", "client"."""

    at: Millis
    serial: int
    what: Literal["scheduler", "store", "watch", "poll", "timers", "client"]
    why: Why


@dataclass(frozen=True, slots=True)
class StopApplication:
    """End the driver with this exit code (11: too many executor failures; 1: an IllegalArgumentException)."""

    at: Millis
    exit_code: int
    why: Why


ExecutorCommand: TypeAlias = RemoveExecutor | DecommissionExecutors | AnswerRegistration | StopSource | StopApplication
"""All that is said of executors, whatever runs them."""
