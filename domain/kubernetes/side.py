"""The Kubernetes side of an application: its machines, composed.

The snapshot store, the pods allocator (or the StatefulSet or Deployment allocator), the lifecycle manager, the scheduler
backend, the polling source and the plugins do not know one another. Each says what it has to tell the others as values; here
these are carried from one to the next, first come first served, until nobody has anything left to say. What is for the
outside comes out as commands. So one step is what the driver's threads would do one after the other, undisturbed:

    pods seen -> store -> allocator, lifecycle -> backend -> allocator, lifecycle (known executors)
    targets   -> backend -> allocator -> store (run your subscribers) -> allocator ...

Each machine numbers its own calls; the numbers that go out are ``number * MACHINES + machine``, so that the outcome of a
call finds its way home without anybody keeping a list.

A subscriber's timer need not run when nothing is queued and its machine has nothing to do by itself; ``due`` passes over
such runs, which leaves their grid in time as it was (Spark's round would have ended where it began).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.state import BackendState
from podtide.domain.base.units import NEVER, ExecutorId, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import (
    polling_source as polling,
    resize_plugins as resizing,
    roll_plugin as rolling,
    snapshots_store as store,
)
from podtide.domain.kubernetes.allocator import allocator as allocation, replicas_allocator as replicas
from podtide.domain.kubernetes.allocator.replicas_allocator import (
    AllocatorStarted,
    ReplicasInput,
    ReplicasState,
    TargetsServed,
)
from podtide.domain.kubernetes.allocator.state import (
    AllocatorInput,
    AllocatorState,
    DeletionsChanged,
    RecoveryNeeded,
    Subscribed,
)
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import (
    ActiveExecutors,
    Delivery,
    LifecycleInput,
    LifecycleState,
)
from podtide.domain.kubernetes.polling_source import PollingState
from podtide.domain.kubernetes.resize_plugins import ClaimSizes, PodSizes
from podtide.domain.kubernetes.roll_plugin import Roll, RollState
from podtide.domain.kubernetes.snapshots_store import ALLOCATOR, LIFECYCLE, Delivered, StoreInput, StoreState, Subscribe
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendInput,
    Decommissioned,
    Excluded,
    ExecutorDisabled,
    HostsExcluded,
    Killed,
    KnownChanged,
    LossReported,
    RecoveryMode,
    Requested,
    RequestMore,
    RequestTotals,
    SourcesStarted,
    StartAllocator,
    StopAllocator,
    TargetsForwarded,
)
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.config import KubernetesConfig
from podtide.domain.protocol.pod_commands import (
    CountFailure,
    Deliver,
    NotifySubscribers,
    PodCommand,
    RemoveExecutor,
    StopApplication,
    StopSource,
)
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    ClaimsMeasured,
    CreationFailed,
    DecommissionRequested,
    DiskReport,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorsSummarized,
    GenerateExecutorId,
    KillRequested,
    KnownExecutors,
    MemoryMeasured,
    Outcome,
    PodsReplaced,
    PodStimulus,
    PodsUpdated,
    Reconciled,
    RegisterExecutor,
    Starting,
    Stopping,
    TargetsSet,
    Wake,
)
from podtide.domain.protocol.pods import PodNumber, pod_number
from podtide.domain.protocol.reasons import Cause, Threw, Why
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved


class Machine(IntEnum):
    """Who gave out a serial."""

    ALLOCATOR = 0
    REPLICAS = 1
    LIFECYCLE = 2
    BACKEND = 3
    POLLING = 4
    MEMORY = 5
    CLAIMS = 6


MACHINES: Final = 8
"""Serials of a machine lie this far apart outside; a power of two that leaves room for more."""

DRIVER_FAILED: Final = 1
"""The exit code of a driver whose SparkContext could not be made."""

Question: TypeAlias = RequestTotals | RequestMore
"""What dynamic allocation asks of the backend, besides kills and decommissions."""

SideStimulus: TypeAlias = PodStimulus | Question | HostsExcluded
"""All that the Kubernetes side hears of; ``HostsExcluded`` is the task scheduler's word (spark.excludeOnFailure)."""

News: TypeAlias = (
    Requested | Killed | Decommissioned | ActiveChanged | ExecutorAdded | ExecutorRemoved | ExecutorDisabled
)
"""What is told to the driver's other half: answers to dynamic allocation, and listener events."""

SideCommand: TypeAlias = PodCommand | News


@dataclass(frozen=True, slots=True)
class KubernetesState:
    """All machines at a moment. ``allocator`` is None where ``sets`` allocates, and the other way round.

    ``starting``: the backend's call of the allocator's start that is not answered yet; ``serving``: its calls of
    setTotalExpectedExecutors that are not. ``thrown``: what subscribers' rounds have thrown that are not over yet.
    """

    store: StoreState
    lifecycle: LifecycleState
    backend: BackendState
    polling: PollingState
    allocator: AllocatorState | None = None
    sets: ReplicasState | None = None
    roll: RollState | None = None
    memory: PodSizes | None = None
    claims: ClaimSizes | None = None
    starting: int | None = None
    serving: tuple[int | None, ...] = ()
    thrown: PMap[str, str] = field(default_factory=pmap)


class Wants(NamedTuple):
    """What the plugins need to be told before they can go on: measurements that only the outside can make."""

    summary: bool = False
    memory: bool = False
    claims: bool = False


def begin(config: KubernetesConfig, now: Millis) -> KubernetesState:
    """An application that has been made and not started: ``step`` it with ``Starting``."""
    direct = config.replicas is None
    return KubernetesState(
        store.start(),
        lifecycle.empty(),
        backend.begin(config.backend, now),
        polling.start(),
        allocation.begin(config.allocation) if direct else None,
        None if direct else replicas.begin(),
        None if config.roll is None else rolling.start(config.roll, now),
        None if config.resize is None else resizing.start_pods(config.resize, now),
        None if config.claim_resize is None else resizing.start_claims(config.claim_resize, now),
    )


def step(
    state: KubernetesState, snapshots: Sequence[SideStimulus], config: KubernetesConfig, now: Millis
) -> Step[KubernetesState, SideCommand]:
    """Take what came, in order, and carry what the machines say to one another until they are silent."""
    office = Office(state, config, now)
    for item in snapshots:
        office.take(item)
    return office.step()


def due(state: KubernetesState, config: KubernetesConfig) -> Millis:
    """When a ``Wake`` could change anything; NEVER if only a stimulus can."""
    first = min(backend.due(state.backend, config.backend), polling.due(state.polling))
    for run in state.store.submitted:
        first = min(first, run.due)
    for subscriber in state.store.subscribers:
        if subscriber.due is not None:
            first = min(first, _next_run(subscriber, state, config))
    if state.roll is not None and config.roll is not None:
        first = min(first, rolling.due(state.roll, config.roll))
    if state.memory is not None and config.resize is not None:
        first = min(first, resizing.pods_due(state.memory, config.resize))
    if state.claims is not None and config.claim_resize is not None:
        first = min(first, resizing.claims_due(state.claims, config.claim_resize))
    return first


def wants(state: KubernetesState, config: KubernetesConfig, now: Millis) -> Wants:
    """Which measurements the plugins wait for at ``now``."""
    return Wants(
        state.roll is not None and config.roll is not None and rolling.wants_summary(state.roll, config.roll, now),
        state.memory is not None
        and config.resize is not None
        and resizing.wants_memory(state.memory, config.resize, now),
        state.claims is not None
        and config.claim_resize is not None
        and resizing.wants_claims(state.claims, config.claim_resize, now),
    )


def _next_run(subscriber: store.Subscriber, state: KubernetesState, config: KubernetesConfig) -> Millis:
    """The first run of a subscriber's timer that is not idle."""
    assert subscriber.due is not None
    if subscriber.queue or subscriber.notifications:
        return subscriber.due
    wanted = _machine_due(subscriber.name, state, config)
    return wanted if wanted == NEVER else _grid(subscriber.due, subscriber.interval_ms, wanted)


def _machine_due(subscriber: str, state: KubernetesState, config: KubernetesConfig) -> Millis:
    if subscriber == ALLOCATOR and state.allocator is not None:
        return allocation.due(state.allocator, config.allocation)
    return lifecycle.due(state.lifecycle, config.lifecycle) if subscriber == LIFECYCLE else NEVER


def _grid(first: Millis, interval_ms: Millis, at: Millis) -> Millis:
    """The first of ``first``, ``first + interval``, ... that is not before ``at``."""
    return first if at <= first else first + -(-(at - first) // interval_ms) * interval_ms


class Office:
    """One step under way: the machines' states, and what they still have to tell one another.

    ``commands`` and ``reports`` collect what was said; whoever takes some of it out in between keeps it.
    """

    def __init__(self, state: KubernetesState, config: KubernetesConfig, now: Millis) -> None:
        self.config = config
        self.now = now
        self.store = self._rested(state)
        self.lifecycle = state.lifecycle
        self.backend = state.backend
        self.polling = state.polling
        self.allocator = state.allocator
        self.sets = state.sets
        self.roll, self.memory, self.claims = state.roll, state.memory, state.claims
        self.starting = state.starting
        self.serving = deque(state.serving)
        self.thrown = state.thrown
        self.mail: deque[tuple[Any, Any]] = deque()
        self.handed: set[str] = set()  # subscribers whose delivery is in the mail
        self.ended: set[str] = set()  # those of whom it is in the mail that their delivery has ended
        self.commands: list[SideCommand] = []
        self.reports: list[Report] = []
        self.store_config = store.StoreConfig(config.pods, config.allocation.remarks)
        self.polling_config = polling.PollingConfig(config.sources, config.allocation.remarks)

    def take(self, item: SideStimulus) -> None:
        """Hear one stimulus, and let the machines talk until they are silent."""
        self._receive(item)
        while self.mail:
            machine, letter = self.mail.popleft()
            machine(letter)

    def state(self) -> KubernetesState:
        """Where the machines stand now."""
        return KubernetesState(
            self.store, self.lifecycle, self.backend, self.polling, self.allocator, self.sets, self.roll, self.memory,
            self.claims, self.starting, tuple(self.serving), self.thrown,
        )  # fmt: skip

    def step(self) -> Step[KubernetesState, SideCommand]:
        """What came of it all."""
        return Step(self.state(), tuple(self.commands), tuple(self.reports))

    def _rested(self, state: KubernetesState) -> StoreState:
        """The store with the idle runs of its timers passed over that lie before now."""
        rested: list[store.Subscriber] | None = None
        for place, subscriber in enumerate(state.store.subscribers):
            due = subscriber.due
            if due is not None and due < self.now and not subscriber.queue and not subscriber.notifications:
                at = min(_next_run(subscriber, state, self.config), _grid(due, subscriber.interval_ms, self.now))
                if at != due:
                    rested = list(state.store.subscribers) if rested is None else rested
                    rested[place] = replace(subscriber, due=at)
        return state.store if rested is None else replace(state.store, subscribers=tuple(rested))

    # who gets what from outside

    def _receive(self, item: SideStimulus) -> None:
        match item:
            case PodsUpdated() | PodsReplaced():
                self._post(self._to_store, item)
            case Wake():
                self._wake(item)
            case Outcome():
                self._answered(item)
            case ExecutorsSummarized():
                self._post(self._to_roll, item)
            case MemoryMeasured():
                self._post(self._to_memory, item)
            case DiskReport() | ClaimsMeasured():
                self._post(self._to_claims, item)
            case Stopping():
                self._post(self._to_backend, item)
                for plugin in (self._to_roll, self._to_memory, self._to_claims):
                    self._post(plugin, item)
            case Reconciled():
                self._post(self._to_allocator, item)
            case TargetsSet():
                self._post(self._to_backend, RequestTotals(item.at, item.targets))
            case (
                RequestTotals()
                | RequestMore()
                | KillRequested()
                | DecommissionRequested()
                | Starting()
                | RegisterExecutor()
                | ExecutorDisconnected()
                | GenerateExecutorId()
                | ExecutorBusy()
                | HostsExcluded()
            ):
                self._post(self._to_backend, item)
            case _:
                assert_never(item)

    def _wake(self, item: Wake) -> None:
        now = self.now
        if backend.due(self.backend, self.config.backend) <= now:
            self._post(self._to_backend, item)
        if store.due(self.store) <= now:
            self._post(self._to_store, item)
        if polling.due(self.polling) <= now:
            self._post(self._to_polling, item)
        for plugin in (self._to_roll, self._to_memory, self._to_claims):
            self._post(plugin, item)

    def _answered(self, outcome: Outcome) -> None:
        serial, machine = divmod(outcome.serial, MACHINES)
        home = _HOMES.get(machine)
        if home is not None:
            self._post(getattr(self, home), outcome._replace(serial=serial))

    # the post

    def _post(self, machine: Any, item: Any) -> None:
        self.mail.append((machine, item))

    def _out(self, machine: Machine, command: PodCommand) -> None:
        serial = getattr(command, "serial", None)
        if serial is not None:
            command = replace(command, serial=serial * MACHINES + machine)
        self.commands.append(command)

    # the machines

    def _to_store(self, item: StoreInput) -> None:
        if isinstance(item, Delivered):
            self.ended.discard(item.subscriber)
        step = store.distribute(self.store, (item,), self.store_config, self.now)
        self.store = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            if not isinstance(command, Deliver):
                self._out(Machine.BACKEND, command)
                continue
            self.handed.add(command.subscriber)
            if command.subscriber == ALLOCATOR:
                self._post(self._to_allocator, command)
            else:
                self._post(self._to_lifecycle, Delivery(command.at, command.snapshots))
        # A notification runs its subscribers now; a Wake stops at each delivery.
        if store.due(self.store) <= self.now and (isinstance(item, Wake) or self.store.submitted):
            self._post(self._to_store, Wake(self.now))

    def _looked(self, subscriber: str, reports: Sequence[Report], machine: str, *, busy: bool) -> None:
        """A subscriber was at work: if that ended its round, tell the store so, and what the round threw.

        A round may throw and still be open, until the calls that it made before have come back. What the subscriber
        does before its delivery reaches it is no round.
        """
        known = self.store.subscriber(subscriber)
        if known is None or known.busy is None or subscriber in self.handed or subscriber in self.ended:
            return
        threw = next((r.what for r in reports if isinstance(r, Threw) and r.machine == machine), None)
        if threw is not None:
            self.thrown = self.thrown.set(subscriber, threw)
        if not busy:
            threw = self.thrown.get(subscriber)
            self.thrown = self.thrown.discard(subscriber)
            fault = None if threw is None else SparkFault(*threw.partition(": ")[::2])
            self.ended.add(subscriber)
            self._post(self._to_store, Delivered(self.now, subscriber, fault))

    def _to_allocator(self, item: AllocatorInput) -> None:
        if self.allocator is None:
            return
        if isinstance(item, Deliver):
            self.handed.discard(ALLOCATOR)
        step = allocation.allocate(self.allocator, (item,), self.config.allocation, self.now)
        self.allocator = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            match command:
                case NotifySubscribers():
                    self._post(self._to_store, command)
                case CountFailure():
                    self._post(self._to_lifecycle, CreationFailed(command.at, command.executor))
                case Subscribed():
                    self._post(self._to_store, Subscribe(command.at, ALLOCATOR, command.interval_ms))
                    self._started(None)
                case DeletionsChanged():
                    added, gone = tuple(map(_executor, command.added)), tuple(map(_executor, command.gone))
                    self._post(self._to_backend, Excluded(command.at, added, gone))
                case _:
                    self._out(Machine.ALLOCATOR, command)
        self._failed_start(step.reports)
        self._looked(ALLOCATOR, step.reports, allocation.MACHINE, busy=allocation.busy(self.allocator))

    def _to_sets(self, item: ReplicasInput) -> None:
        if self.sets is None or self.config.replicas is None:
            return
        step = replicas.scale(self.sets, (item,), self.config.replicas, self.now)
        self.sets = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            match command:
                case AllocatorStarted():
                    self._started(None)
                case TargetsServed():
                    serial = self.serving.popleft() if self.serving else None
                    if serial is not None:
                        failure = None if command.threw is None else _failure(command.threw)
                        self._post(self._to_backend, Outcome(self.now, serial, failure))
                case _:
                    self._out(Machine.REPLICAS, command)
        self._failed_start(step.reports)

    def _started(self, failure: CallFailure | None) -> None:
        if self.starting is not None:
            self._post(self._to_backend, Outcome(self.now, self.starting, failure))
            self.starting = None

    def _failed_start(self, reports: Sequence[Report]) -> None:
        fatal = next((r.what for r in reports if isinstance(r, Threw) and r.fatal), None)
        if fatal is not None and self.starting is not None:
            self._started(_failure(fatal))

    def _to_lifecycle(self, item: LifecycleInput) -> None:
        if isinstance(item, Delivery):
            self.handed.discard(LIFECYCLE)
        step = lifecycle.reap(self.lifecycle, (item,), self.config.lifecycle, self.now)
        self.lifecycle = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            if isinstance(command, RemoveExecutor):
                loss = LossReported(
                    command.at, command.executor, command.reason, command.why, command.active, command.round_index
                )
                self._post(self._to_backend, loss)
            else:
                self._out(Machine.LIFECYCLE, command)
        self._looked(LIFECYCLE, step.reports, lifecycle.MACHINE, busy=lifecycle.busy(self.lifecycle))

    def _to_backend(self, item: BackendInput) -> None:
        step = backend.manage(self.backend, (item,), self.config.backend, self.now)
        self.backend = step.state
        self.reports.extend(step.reports)
        self._ends(step.reports)
        for command in step.commands:
            match command:
                case StartAllocator():
                    self.starting = command.serial
                    self._post(self._to_allocator if self.allocator else self._to_sets, Starting(self.now))
                case StopAllocator():
                    self._post(self._to_allocator if self.allocator else self._to_sets, Stopping(self.now))
                    self._post(self._to_backend, Outcome(self.now, command.serial))
                case TargetsForwarded():
                    self._forward(command)
                case SourcesStarted():
                    self._post(self._to_store, Subscribe(self.now, LIFECYCLE, self.config.lifecycle.interval_ms))
                    self._post(self._to_polling, polling.Start(self.now))
                case KnownChanged():
                    self._know(command)
                case ActiveChanged():
                    self._activate(command)
                case RecoveryMode():
                    self._post(self._to_allocator, RecoveryNeeded(self.now))
                case StopSource(what="store"):
                    self._post(self._to_store, store.Stop(self.now))
                    self._post(self._to_backend, Outcome(self.now, command.serial))
                case StopSource(what="poll"):
                    self._post(self._to_polling, polling.Stop(self.now))
                    self._post(self._to_backend, Outcome(self.now, command.serial))
                case (
                    Requested() | Killed() | Decommissioned() | ExecutorAdded() | ExecutorRemoved() | ExecutorDisabled()
                ):
                    self.commands.append(command)
                case _:
                    self._out(Machine.BACKEND, command)

    def _ends(self, reports: Sequence[Report]) -> None:
        """An exception that leaves the backend's start() leaves SparkContext's, too: there is no application."""
        for report in reports:
            if isinstance(report, Threw) and report.fatal:
                why = Why(Cause.STARTED, pmap({"threw": report.what}))
                self.commands.append(StopApplication(self.now, DRIVER_FAILED, why))

    def _forward(self, command: TargetsForwarded) -> None:
        targets = TargetsSet(self.now, command.targets)
        if self.allocator is None:
            self.serving.append(command.serial if command.awaited else None)
            self._post(self._to_sets, targets)
            return
        self._post(self._to_allocator, targets)
        if command.awaited:
            self._post(self._to_backend, Outcome(self.now, command.serial))

    def _know(self, news: KnownChanged) -> None:
        added = [(n, since) for e, _, since in news.added if (n := pod_number(e)) is not None]
        removed = [n for e in news.removed if (n := pod_number(e)) is not None]
        known = KnownExecutors(self.now, tuple(added), tuple(removed))
        self._post(self._to_allocator, known)
        self._post(self._to_lifecycle, known)

    def _activate(self, news: ActiveChanged) -> None:
        added = tuple(n for e in news.active if (n := pod_number(e)) is not None)
        removed = tuple(n for e in news.inactive if (n := pod_number(e)) is not None)
        self._post(self._to_lifecycle, ActiveExecutors(self.now, added, removed))
        self.commands.append(news)

    def _to_polling(self, item: polling.PollingInput) -> None:
        step = polling.poll(self.polling, (item,), self.polling_config, self.now)
        self.polling = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            if isinstance(command, PodsReplaced):
                self._post(self._to_store, command)
            else:
                self._out(Machine.POLLING, command)

    def _to_roll(self, item: rolling.RollStimulus) -> None:
        if self.roll is None or self.config.roll is None:
            return
        step = rolling.roll(self.roll, (item,), self.config.roll, self.now)
        self.roll = step.state
        self.reports.extend(step.reports)
        for roll in step.commands:
            assert isinstance(roll, Roll)
            self._post(self._to_backend, roll.request)

    def _to_memory(self, item: resizing.MemoryStimulus) -> None:
        if self.memory is None or self.config.resize is None:
            return
        step = resizing.resize_pods(self.memory, (item,), self.config.resize, self.now)
        self.memory = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            self._out(Machine.MEMORY, command)

    def _to_claims(self, item: resizing.ClaimStimulus) -> None:
        if self.claims is None or self.config.claim_resize is None:
            return
        step = resizing.resize_claims(self.claims, (item,), self.config.claim_resize, self.now)
        self.claims = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            self._out(Machine.CLAIMS, command)


_HOMES: Final[dict[int, str]] = {
    Machine.ALLOCATOR: Office._to_allocator.__name__,
    Machine.REPLICAS: Office._to_sets.__name__,
    Machine.LIFECYCLE: Office._to_lifecycle.__name__,
    Machine.BACKEND: Office._to_backend.__name__,
    Machine.POLLING: Office._to_polling.__name__,
    Machine.MEMORY: Office._to_memory.__name__,
    Machine.CLAIMS: Office._to_claims.__name__,
}
"""Who hears what came of a machine's call."""


def _executor(number: PodNumber) -> ExecutorId:
    return ExecutorId(str(number))


def _failure(threw: str) -> CallFailure:
    exception_class, _, message = threw.partition(": ")
    return CallFailure(None, message, exception_class)
