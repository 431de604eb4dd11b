"""What the scheduler backend hears and what it tells other machines, beside the shared words for the outside.

Inputs are those of ``protocol.pod_stimuli`` and a few of the driver's own: requests by dynamic allocation, losses that the
lifecycle manager reports, what the allocator deleted. What the backend says to other machines are values too, which
the engine routes:

- ``StartAllocator``, ``StopAllocator`` and, where ``awaited``, ``TargetsForwarded`` are calls: the backend stands
  still until an ``Outcome`` with their serial says that the allocator is through, or how it failed.
- ``Requested``, ``Killed`` and ``Decommissioned`` answer whoever asked, by the serial of the question.
- ``MasterAsked`` is a call of the application master (YARN); the backend goes on meanwhile.
- everything else is news. ``stimuli.ExecutorAdded`` and ``stimuli.ExecutorRemoved`` are the listener events that the
  driver endpoint posts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pyrsistent import pmap

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.executor_stimuli import (
    DecommissionExecutorsOnHost,
    DecommissionRequested,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorExiting,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    Starting,
    Stopping,
    Wake,
)
from podtide.domain.protocol.pod_commands import AssignExecutorId, CreateConfigMap, DeleteOwned, DeletePods, MarkPods
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, Outcome
from podtide.domain.protocol.reasons import Why
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved, Reset
from podtide.domain.protocol.yarn_messages import (
    ContainersWanted,
    DecommissionHost,
    KillExecutors,
    LossReasonsAsked,
    MasterEnding,
    MasterLost,
    MasterRegistered,
    ProfilesDefined,
    TellLossReason,
)

Targets: TypeAlias = tuple[tuple[ProfileId, int], ...]
"""Executors wanted, by profile, in the order of the request."""


# what it hears


class RequestTotals(NamedTuple):
    """requestTotalExecutors: these targets replace all that were requested before, and so do the hints.

    ``locality_tasks``: tasks that have a preferred host, by profile; ``host_tasks``: how many would like which.
    """

    at: Millis
    targets: Targets
    serial: int = 0
    locality_tasks: Mapping[ProfileId, int] = pmap()
    host_tasks: Mapping[ProfileId, Mapping[str, int]] = pmap()


class RequestMore(NamedTuple):
    """requestExecutors: so many executors of the default profile beyond what is requested."""

    at: Millis
    additional: int
    serial: int = 0


class Excluded(NamedTuple):
    """The allocator's deleted executors (isDeleted) changed: ``added`` are deleted, ``gone`` forgotten."""

    at: Millis
    added: tuple[ExecutorId, ...] = ()
    gone: tuple[ExecutorId, ...] = ()


class HostsExcluded(NamedTuple):
    """The task scheduler's excluded nodes, all of them."""

    at: Millis
    hosts: frozenset[str]


class LossReported(NamedTuple):
    """doRemoveExecutor: the lifecycle manager says that an executor is gone.

    ``why``, ``active`` and ``round_index`` come back in the ``RemoveExecutor`` that follows.
    """

    at: Millis
    executor: ExecutorId
    reason: ExitReason
    why: Why | None = None
    active: bool | None = None
    round_index: int | None = None


class HeartbeatTimedOut(NamedTuple):
    """HeartbeatReceiver has not heard from an executor for ``silent_ms``, which is more than ``timeout_ms``.

    killAndReplaceExecutor, and then RemoveExecutor to the driver endpoint.
    """

    at: Millis
    executor: ExecutorId
    silent_ms: Millis
    timeout_ms: Millis


BackendInput: TypeAlias = (
    RequestTotals
    | RequestMore
    | KillRequested
    | DecommissionRequested
    | LossReported
    | HeartbeatTimedOut
    | KillExecutorsOnHost
    | DecommissionExecutorsOnHost
    | RegisterExecutor
    | ExecutorDisconnected
    | ExecutorExiting
    | GenerateExecutorId
    | ExecutorBusy
    | Excluded
    | HostsExcluded
    | Starting
    | Stopping
    | Wake
    | Outcome
)

YarnBackendInput: TypeAlias = (
    BackendInput | MasterRegistered | MasterLost | ProfilesDefined | TellLossReason | DecommissionHost
)
"""What YARN's backend hears: of the application master, and of resource profiles, too."""


# what it tells other machines


@dataclass(frozen=True, slots=True)
class StartAllocator:
    """podAllocator.start. Answered by an Outcome; a failure ends the application before it began."""

    at: Millis
    serial: int


@dataclass(frozen=True, slots=True)
class StopAllocator:
    """podAllocator.stop. Answered by an Outcome; a failure leaves the rest of stop() undone."""

    at: Millis
    serial: int


@dataclass(frozen=True, slots=True)
class SourcesStarted:
    """The lifecycle manager, the watch and the polling source start."""

    at: Millis


@dataclass(frozen=True, slots=True)
class TargetsForwarded:
    """podAllocator.setTotalExpectedExecutors. ``awaited``: an Outcome has to say that it returned, or what it threw."""

    at: Millis
    serial: int
    targets: Targets
    awaited: bool


@dataclass(frozen=True, slots=True)
class MasterAsked:
    """The application master is asked for something (RequestExecutors, KillExecutors). Answered by an Outcome."""

    at: Millis
    serial: int
    message: ContainersWanted | KillExecutors


@dataclass(frozen=True, slots=True)
class KnownChanged:
    """Executors registered (with profile and time) or no longer are: getExecutorIds, getExecutorsWithRegistrationTs."""

    at: Millis
    added: tuple[tuple[ExecutorId, ProfileId, Millis], ...] = ()
    removed: tuple[ExecutorId, ...] = ()


@dataclass(frozen=True, slots=True)
class ActiveChanged:
    """isExecutorActive turned true, or false, for these."""

    at: Millis
    active: tuple[ExecutorId, ...] = ()
    inactive: tuple[ExecutorId, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutorDisabled:
    """An executor's connection is lost: its tasks are, too, though nobody knows why yet (LossReasonPending)."""

    at: Millis
    executor: ExecutorId


@dataclass(frozen=True, slots=True)
class Requested:
    """The answer to RequestTotals and RequestMore. ``threw``: the exception instead of an answer."""

    at: Millis
    serial: int
    acked: bool
    threw: str | None = None


@dataclass(frozen=True, slots=True)
class Killed:
    """The answer to KillRequested: the executors that are asked to go now."""

    at: Millis
    serial: int
    executors: tuple[ExecutorId, ...]
    threw: str | None = None


@dataclass(frozen=True, slots=True)
class Decommissioned:
    """The answer to DecommissionRequested: the executors that decommission from now on."""

    at: Millis
    serial: int
    executors: tuple[ExecutorId, ...]
    threw: str | None = None


@dataclass(frozen=True, slots=True)
class RecoveryMode:
    """An executor died for lack of memory under the direct allocator (setRecoveryMode); said once."""

    at: Millis


BackendNews: TypeAlias = (
    Requested | Killed | Decommissioned | ActiveChanged | ExecutorDisabled | ExecutorAdded | ExecutorRemoved
)
"""What is told to the driver's other half: answers to dynamic allocation, and listener events."""

BackendRouted: TypeAlias = (
    StartAllocator | StopAllocator | SourcesStarted | TargetsForwarded | KnownChanged | RecoveryMode | BackendNews
)

BackendCommand: TypeAlias = (
    RemoveExecutor
    | DecommissionExecutors
    | MarkPods
    | DeletePods
    | AnswerRegistration
    | AssignExecutorId
    | CreateConfigMap
    | StopSource
    | DeleteOwned
    | BackendRouted
)
"""All that the backend says, to the outside and to other machines."""

YarnBackendCommand: TypeAlias = BackendCommand | MasterAsked | LossReasonsAsked | MasterEnding | Reset
"""The same on YARN: what it says to the application master besides, and that dynamic allocation is to begin anew."""
