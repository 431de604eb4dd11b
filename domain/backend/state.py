"""The scheduler backend's state: its books, its timers, the call that it waits for, and what can be asked of them.

Two queues of timers, each in order of time as long as the configuration stays the same (which in Spark it does): pods to
delete when their grace period is over, and decommissions to end by force. While a call of the pods allocator is under way
(``waiting``) the backend stands still, as Spark does behind its locks; what it hears meanwhile comes ``later``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PDeque, PMap, pdeque, pmap

from podtide.domain.backend.registry import Leaving, Registry
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.backend_messages import BackendInput, HeartbeatTimedOut, Targets
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.reasons import Why

DIRECT: Final = "direct"
"""The allocator that creates pods itself; the only one that cannot throw when it is told its targets."""


class BackendPhase(Enum):
    """Where the backend is in its life."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    DRAINING = "draining"
    """stop() waits for the maintenance thread."""
    STOPPED = "stopped"
    ABANDONED = "abandoned"
    """stop() ended in an exception of the allocator: the maintenance thread goes on."""


OVER: Final = frozenset({BackendPhase.STOPPING, BackendPhase.DRAINING, BackendPhase.STOPPED, BackendPhase.ABANDONED})
"""The phases of a backend whose context is stopped, or stops."""


class Grace(NamedTuple):
    """Pods of these executors are deleted at ``due`` if they still run."""

    due: Millis
    executors: tuple[ExecutorId, ...]


class Patience(NamedTuple):
    """Those of these executors that still decommission at ``due`` are killed; ``given_ms`` was the timeout."""

    due: Millis
    executors: tuple[ExecutorId, ...]
    given_ms: Millis


class PendingRequest(NamedTuple):
    """Somebody waits for the answer with this serial."""

    serial: int


class Registering(NamedTuple):
    """An executor's registration is answered when its parked decommission is through."""

    executor: ExecutorId


ReplyTo: TypeAlias = PendingRequest | Registering | None

KillReply: TypeAlias = PendingRequest | HeartbeatTimedOut | None
"""Who is told which executors a kill has asked to go; after one for silence the executor is reported lost."""


class StartStage(Enum):
    """The call of start() that is under way."""

    ALLOCATOR = "allocator"
    CONFIG_MAP = "config map"
    TARGETS = "targets"


class StopStage(Enum):
    """The call of stop() that is under way."""

    ALLOCATOR = "allocator"


class Killing(NamedTuple):
    """A kill that waits for its lowered target."""

    executors: tuple[ExecutorId, ...]
    reply: KillReply
    why: Why


class KillSent(NamedTuple):
    """A kill that the cluster manager was told of (YARN): who asked is answered when it has said so."""

    executors: tuple[ExecutorId, ...]
    reply: KillReply


class Decommissioning(NamedTuple):
    """A decommission that waits for its lowered target."""

    executors: tuple[ExecutorId, ...]
    info: Leaving
    triggered_by_executor: bool
    reply: ReplyTo


Rest: TypeAlias = StartStage | StopStage | PendingRequest | Killing | KillSent | Decommissioning
"""What is left to do when a call returned; ``PendingRequest``: answer it."""


class Waiting(NamedTuple):
    """The backend stands still until the call with this serial returned."""

    serial: int
    rest: Rest


@dataclass(slots=True)
class BackendState:
    """The backend at a moment.

    ``created_at``: when it was made. ``requested``: executors requested in all, in the order of the request.
    ``ids``: the last executor id given to a pod that asked for one. ``stop_by``: until when stop() waits for ``graces``;
    ``stop_serial``: the last serial before stop(). ``recovery``: an executor ran out of memory. ``forced``: for the log's
    sake, how many executors a forced deletion under way is about, by serial.
    """

    created_at: Millis
    registry: Registry
    requested: Targets = ()
    graces: PDeque[Grace] = field(default_factory=pdeque)
    patience: PDeque[Patience] = field(default_factory=pdeque)
    ids: int = 0
    serial: int = 0
    phase: BackendPhase = BackendPhase.CREATED
    stop_by: Millis | None = None
    stop_serial: int | None = None
    recovery: bool = False
    waiting: Waiting | None = None
    later: PDeque[BackendInput] = field(default_factory=pdeque)
    forced: PMap[int, int] = field(default_factory=pmap)

    def is_active(self, executor: ExecutorId) -> bool:
        """isExecutorActive."""
        return self.registry.active(executor)

    def is_excluded(self, executor: ExecutorId) -> bool:
        """isExecutorExcluded: the allocator deleted it as excess."""
        return executor in self.registry.excluded


class Readiness(NamedTuple):
    """Whether tasks may be scheduled (isReady), and why: "ratio", "time" or None.

    ``registered`` of at least ``needed`` executors are there, or ``waited_ms`` reached ``wait_ms``.
    """

    by: str | None
    registered: int
    needed: float
    ratio: float
    waited_ms: Millis
    wait_ms: Millis


def sufficient_resources_registered(state: BackendState, config: BackendConfig) -> bool:
    """sufficientResourcesRegistered: the ratio of the initial executors has registered."""
    return len(state.registry.executors) >= config.executors_initial * config.registered_ratio


def readiness(state: BackendState, config: BackendConfig, now: Millis) -> Readiness:
    """isReady: enough executors registered, or maxRegisteredResourcesWaitingTime passed since the backend was made."""
    waited = now - state.created_at
    by = None
    if sufficient_resources_registered(state, config):
        by = "ratio"
    elif waited >= config.registered_wait_ms:
        by = "time"
    ratio = config.registered_ratio
    needed = config.executors_initial * ratio
    return Readiness(by, len(state.registry.executors), needed, ratio, waited, config.registered_wait_ms)


def supports_hold(config: BackendConfig) -> bool:
    """supportsExecutorHold: under the direct allocator only. Nothing in Spark 4.3.0 asks."""
    return config.allocator == DIRECT
