"""What the pods allocator remembers, hears and says: the types that ``allocator`` and ``round`` share.

A round that stands still keeps its place here as a value: which call it waits for (``Wait``) and what it had counted until
then (``Round``), so that a state can be stored, compared and gone on from at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault
from podtide.domain.kubernetes.allocator.back_off import QUIET, Slowdown
from podtide.domain.kubernetes.allocator.executor_index import ExecutorIndex, ProfileCensus, empty_index
from podtide.domain.machine.holds import NO_HOLDS, HoldKey, Holds
from podtide.domain.machine.turn import thrown
from podtide.domain.protocol.allocation_policies import Consumer
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    ClaimSpec,
    CountFailure,
    CreateClaim,
    CreatePod,
    DeletePod,
    DeletePods,
    Deliver,
    GetDriverPod,
    ListClaims,
    NotifySubscribers,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, KnownExecutors, Outcome, Reconciled
from podtide.domain.protocol.pods import PodNumber, Snapshot
from podtide.domain.protocol.reasons import Fact

NOT_FOUND: Final = 404


class RecoveryNeeded(NamedTuple):
    """The backend saw an executor die for lack of memory (setRecoveryMode; spec: allocation, section 8)."""

    at: Millis


class Subscribed(NamedTuple):
    """The allocator began: it wants snapshots every ``interval_ms``, the first ones at once."""

    at: Millis
    interval_ms: Millis


class DeletionsChanged(NamedTuple):
    """A round ended: excess pods that it deleted, and deleted pods that no snapshot shows any more (isDeleted)."""

    at: Millis
    added: tuple[PodNumber, ...]
    gone: tuple[PodNumber, ...]


AllocatorInput: TypeAlias = (
    Starting | TargetsSet | Deliver | KnownExecutors | RecoveryNeeded | Outcome | Stopping | Reconciled
)
"""All that the allocator hears of."""

AllocatorCommand: TypeAlias = (
    CreatePod
    | CreateClaim
    | DeletePods
    | DeletePod
    | ListClaims
    | GetDriverPod
    | AwaitDriverReady
    | NotifySubscribers
    | CountFailure
    | Subscribed
    | DeletionsChanged
)
"""All that it says; the last four to other machines."""


class ExcessWait(NamedTuple):
    """Excess pods are being deleted: which, and what the survey of their profile had counted."""

    serial: int
    profile: ProfileId
    target: int
    census: ProfileCensus
    created: tuple[PodNumber, ...]
    pending: tuple[PodNumber, ...]


class ListWait(NamedTuple):
    """The claims are being listed for the profile that is served."""

    serial: int


class PodWait(NamedTuple):
    """A pod is being created whose claims come next."""

    serial: int
    number: PodNumber
    claims: tuple[ClaimSpec, ...]


class ClaimWait(NamedTuple):
    """A claim of a created pod is being created; ``claims`` come after it."""

    serial: int
    number: PodNumber
    claims: tuple[ClaimSpec, ...]


class UndoWait(NamedTuple):
    """A pod is being deleted because its claim failed."""

    serial: int
    number: PodNumber
    failure: CallFailure


Wait: TypeAlias = ExcessWait | ListWait | PodWait | ClaimWait | UndoWait


class Flight(NamedTuple):
    """A creation under way that nothing waits for but the end of the round."""

    number: PodNumber
    profile: ProfileId


@dataclass(frozen=True, slots=True)
class Round:
    """A round that is not over.

    ``plan``: profiles and their targets, ascending, as they were when it began; ``place``: the next one to survey.
    ``fresh``: the delivery held a snapshot. ``vanished``: claims of pods that only earlier snapshots of it had.
    ``shares`` are None until the survey is over; ``turn``: the consumer that is served, ``batch``: pods it gets, ``left``:
    those that it still gets. ``serial``: the last one before the round; ``requests``: pods asked for in it. ``probing``: it
    is one that asks for a probe only (``back_off``).
    """

    at: Millis
    plan: tuple[tuple[ProfileId, int], ...]
    fresh: bool
    vanished: frozenset[str] = frozenset()
    place: int = 0
    pending: int = 0
    not_running: int = 0
    consumers: tuple[Consumer, ...] = ()
    shares: tuple[int, ...] | None = None
    turn: int = 0
    batch: int = 0
    left: int = 0
    reusable: tuple[Claim, ...] = ()
    wait: Wait | None = None
    flights: PMap[int, Flight] = field(default_factory=pmap)
    retired: tuple[PodNumber, ...] = ()
    forgotten: tuple[PodNumber, ...] = ()
    held: PMap[HoldKey, PMap[str, Fact]] = field(default_factory=pmap)
    over: bool = False
    aborted: bool = False
    serial: int = 0
    requests: int = 0
    probing: bool = False


@dataclass(slots=True)
class AllocatorState:
    """All that ExecutorPodsAllocator keeps. Immutable; old states still answer.

    ``executors``: the last executor id handed out (EXECUTOR_ID_COUNTER). ``claims``: claims created, ever (PVC_COUNTER).
    ``failures``: failed creations, ever. ``outstanding``: numOutstandingPods, as of the last round that ended well.
    ``driver``: the driver pod was found. ``starting``: the call that the start waits for. ``later``: what was heard
    during a round, for after it. ``stirred``: something changed since the last round began, by it or otherwise.
    ``unread``: what deliveries showed that ended in an exception over it; it comes with the next one.
    """

    fleet: ExecutorIndex = field(default_factory=empty_index)
    targets: PMap[ProfileId, int] = field(default_factory=pmap)
    executors: int = 0
    claims: int = 0
    failures: int = 0
    outstanding: int = 0
    serial: int = 0
    driver: bool = False
    starting: int | None = None
    recovery: bool | None = None
    recovery_warned: bool = False
    round: Round | None = None
    later: tuple[AllocatorInput, ...] = ()
    holds: Holds = NO_HOLDS
    slowdown: Slowdown = QUIET
    stirred: bool = False
    unread: Snapshot | None = None


def driver_pod_fault(failure: CallFailure, name: str, namespace: str) -> SparkFault:
    """What the allocators throw where the driver pod cannot be looked up."""
    if failure.status != NOT_FOUND:
        return thrown(failure)
    missing = (
        f"No pod was found named {name} in the cluster in the namespace {namespace} (this was supposed to be the driver "
        "pod.)."
    )
    return SparkFault(SPARK_EXCEPTION, missing)
