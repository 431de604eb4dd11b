"""What a driver hears of its executors on every cluster manager: how many are wanted, who came, who went, time passing.

As in ``stimuli``, every one begins with ``at``, the millisecond at which the driver hears of it; ``at`` never falls.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis, ProfileId


class TargetsSet(NamedTuple):
    """setTotalExpectedExecutors: executors wanted, by profile, in the order of the request.

    Profiles that are not named keep their targets.
    """

    at: Millis
    targets: tuple[tuple[ProfileId, int], ...]


class KillRequested(NamedTuple):
    """killExecutors(ids, adjustTargetNumExecutors, countFailures, force). ``serial``: who asks is answered with it."""

    at: Millis
    executors: tuple[ExecutorId, ...]
    adjust_target: bool = False
    count_failures: bool = False
    force: bool = False
    serial: int = 0


class DecommissionRequested(NamedTuple):
    """decommissionExecutors. ``triggered_by_executor``: the executor itself told us (its node goes away)."""

    at: Millis
    executors: tuple[ExecutorId, ...]
    message: str = ""
    host: str | None = None
    adjust_target: bool = False
    triggered_by_executor: bool = False
    serial: int = 0


class Starting(NamedTuple):
    """The scheduler backend starts."""

    at: Millis


class Stopping(NamedTuple):
    """The scheduler backend stops (the application ended)."""

    at: Millis


class RegisterExecutor(NamedTuple):
    """An executor registers with the driver endpoint. ``address``: where it is heard from ("" if nobody said)."""

    at: Millis
    executor: ExecutorId
    profile: ProfileId
    host: str = ""
    address: str = ""


class ExecutorDisconnected(NamedTuple):
    """The connection to an address is lost (onDisconnected)."""

    at: Millis
    address: str


class ExecutorExiting(NamedTuple):
    """An executor says that it exits (the RemoveExecutor that CoarseGrainedExecutorBackend.exitExecutor sends about itself).

    ``message``: why, as "Finished decommissioning".
    """

    at: Millis
    executor: ExecutorId
    message: str


class Heartbeat(NamedTuple):
    """An executor was heard from (Heartbeat). One that had fallen silent (``HeartbeatsStopped``) is heard from again."""

    at: Millis
    executor: ExecutorId


class HeartbeatsStopped(NamedTuple):
    """Nothing more is heard from an executor; its last heartbeat came at ``last_ms``, at most ``at``.

    Nothing in Spark says this. It stands for all the heartbeats that a source did not tell because they came in time.
    """

    at: Millis
    executor: ExecutorId
    last_ms: Millis


class KillExecutorsOnHost(NamedTuple):
    """killExecutorsOnHost: HealthTracker excluded a node (spark.excludeOnFailure.killExcludedExecutors)."""

    at: Millis
    host: str


class DecommissionExecutorsOnHost(NamedTuple):
    """decommissionExecutorsOnHost: the same where spark.excludeOnFailure.killExcludedExecutors.decommission is on."""

    at: Millis
    host: str


class ExecutorBusy(NamedTuple):
    """The task scheduler holds these executors for busy or no longer (isExecutorBusy), for kills without force."""

    at: Millis
    executors: tuple[ExecutorId, ...]
    busy: bool


class Wake(NamedTuple):
    """Time passed: every timer that is due by now runs, in order."""

    at: Millis


ExecutorStimulus: TypeAlias = (
    TargetsSet
    | KillRequested
    | DecommissionRequested
    | Starting
    | Stopping
    | RegisterExecutor
    | ExecutorDisconnected
    | ExecutorExiting
    | Heartbeat
    | HeartbeatsStopped
    | KillExecutorsOnHost
    | DecommissionExecutorsOnHost
    | ExecutorBusy
    | Wake
)
"""All that can arrive from outside, whatever runs the executors."""
