"""What becomes of executors whose pods end, go, or never come back: a pure ExecutorPodsLifecycleManager.

``reap`` takes what arrives, in order, at ``now``: deliveries of the snapshots store (each is a round, an empty one
too), who is registered and active at the backend, pods that could not be created, and how calls ended. A round looks at
every snapshot of its batch in turn:

1. pods in PodFailed that never counted before count as failures, before anything else and whatever comes of them;
2. a pod labelled inactive is none of our business, whatever its state;
3. a deleted pod: the executor is removed;
4. a pod that failed or succeeded: the executor is removed, and once in a round the pod is deleted at the API if it is
   still there; where nothing shall be deleted, it is labelled inactive instead.

A removal is remembered for a while (the removed cache) and not repeated as long; what happens at the API does not
depend on that. After the snapshots, executors are lost that are registered, in no snapshot of the batch's end, and
were registered long enough before a full list that is new to us. Last, more failures than the maximum end the
application; a round that threw does not get to the last two.

A round waits for the answers to its patches, because a refused one is made again (``busy``: deliver nothing until
they are in). Nothing else in the round depends on an answer: a pod is patched at most once in a round, so whether an
answer counts at the round's end is known when it comes. Deletes are not waited for: Spark swallows their errors and
looks again in the next round.

Pods are looked at by number. In Spark the order is that of a Scala map, which shows when a round throws half way: then,
and only then, that order is worked out (``kubernetes.lifecycle.tables.map_order``).

A round costs what changed, plus the pods that failed or succeeded and are still there (spec: snapshots, section 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import pmap

from podtide.domain.backend.failure_tracker import Failures
from podtide.domain.base.units import ALWAYS, NEVER, ExecutorId, Millis
from podtide.domain.base.versioned import Versioned
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes.lifecycle import exit_reasons
from podtide.domain.kubernetes.lifecycle.tables import LifecycleTables
from podtide.domain.machine.turn import thrown, why
from podtide.domain.protocol.cluster_config import LifecycleConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import DeletePod, MarkInactive
from podtide.domain.protocol.pod_stimuli import CreationFailed, KnownExecutors, Outcome
from podtide.domain.protocol.pods import Pod, PodNumber, PodState, Snapshot
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw

MACHINE: Final = "ExecutorPodsLifecycleManager"

TOO_MANY_FAILURES: Final = 11
"""SparkExitCode.EXCEED_MAX_EXECUTOR_FAILURES."""

NEW_FAILURES: Final = "new failures"
"""Remark: a snapshot has ``count`` failed executors that did not count before."""

CALL_FAILED: Final = "call failed"
"""Remark: a call ended in an exception (``exception``), which is logged and swallowed."""

_CAUSES: Final = {
    PodState.FAILED: Cause.POD_FAILED,
    PodState.SUCCEEDED: Cause.POD_SUCCEEDED,
    PodState.DELETED: Cause.POD_DELETED,
}


class Delivery(NamedTuple):
    """The snapshots store runs the round: with what queued up since the last one, in order; perhaps nothing."""

    at: Millis
    snapshots: tuple[Snapshot, ...] = ()


class ActiveExecutors(NamedTuple):
    """Which executors the backend holds for active changed (isExecutorActive)."""

    at: Millis
    added: tuple[PodNumber, ...] = ()
    removed: tuple[PodNumber, ...] = ()


LifecycleInput: TypeAlias = Delivery | KnownExecutors | ActiveExecutors | CreationFailed | Outcome

LifecycleCommand: TypeAlias = RemoveExecutor | DeletePod | MarkInactive | StopApplication


class Memory(NamedTuple):
    """What is remembered of an executor: its removal, that its pod was labelled inactive, that it counted as failed."""

    removed: bool
    inactivated: bool
    failed: bool


class LifecycleState(Versioned[LifecycleTables]):
    """All that the manager remembers. Immutable: an older state answers as before (see ``base.versioned``)."""

    __slots__ = ()

    def memory(self, number: PodNumber) -> Memory:
        """What is remembered of an executor."""
        tables = self._tables
        return Memory(number in tables.removed, number in tables.inactivated, tables.has_failed(number))

    def removed(self, config: LifecycleConfig, now: Millis) -> tuple[PodNumber, ...]:
        """Executors whose removal is remembered at ``now``, ascending (removedExecutorsCache)."""
        timeout = config.removed_cache_ms
        return tuple(sorted(number for number, at in self._tables.removed.items() if now - at < timeout))

    def inactivated(self) -> tuple[PodNumber, ...]:
        """Executors whose pods were labelled inactive and not seen so yet, ascending (inactivatedPods)."""
        return tuple(sorted(self._tables.inactivated))

    def failed(self) -> tuple[PodNumber, ...]:
        """Every executor that ever counted as failed, ascending (failedExecutorIds)."""
        return tuple(self._tables.failed())

    def failures(self, config: LifecycleConfig, now: Millis) -> Failures:
        """The failures that count at ``now``."""
        return self._tables.failures.within(config.failures_window_ms, now)

    @property
    def polled_at(self) -> Millis:
        """The time of the full list that was last searched for lost executors (lastFullSnapshotTs); 0 for none."""
        return self._tables.polled_at


def empty() -> LifecycleState:
    """Nothing has been seen."""
    return LifecycleState(LifecycleTables())


def busy(state: LifecycleState) -> bool:
    """Whether a round waits for the outcomes of its patches; until they are in, no delivery is to be made."""
    return bool(state._tables.patches)


def due(state: LifecycleState, config: LifecycleConfig) -> Millis:
    """When a round with an *empty* batch could do anything: ALWAYS with the next one, or NEVER.

    Rounds come with the store's timer. An empty one only asks whether there were too many failures, which pods that
    could not be created and a round that threw may have left unanswered. Early rather than late: failures that have
    grown too old meanwhile are counted.
    """
    return ALWAYS if state._tables.failures.count > config.failures_max else NEVER


def next_change(state: LifecycleState, config: LifecycleConfig) -> Millis:
    """When what the state answers changes by time alone: a failure grows too old, a removal is forgotten."""
    tables = state._tables
    oldest = next(iter(tables.removed.values()), None)
    forgotten = NEVER if oldest is None else oldest + config.removed_cache_ms
    return min(forgotten, tables.failures.next_change(config.failures_window_ms))


def reap(
    state: LifecycleState, snapshots: Sequence[LifecycleInput], config: LifecycleConfig, now: Millis
) -> Step[LifecycleState, LifecycleCommand]:
    """Take what arrived, in order, at ``now`` (milliseconds). Never raises; ``state`` still answers as before.

    A ``MarkInactive`` has to be answered by an ``Outcome`` of its serial; a ``DeletePod`` may be. What Spark would
    throw ends the round and is reported (``Threw``).
    """
    with state.step() as tables:
        reaper = _Reaper(tables, config, now)
        for item in snapshots:
            match item:
                case Delivery():
                    reaper.round(item.snapshots)
                case KnownExecutors():
                    reaper.know(item)
                case ActiveExecutors():
                    reaper.activate(item)
                case CreationFailed():
                    reaper.register_failures(1)
                case Outcome():
                    reaper.answer(item)
                case _:
                    assert_never(item)
        if tables.undo_log:
            state = state.hand_over(LifecycleState(tables))
        return Step(state, tuple(reaper.commands), tuple(reaper.reports))


class _Reaper:
    """One step under way: the tables, and what comes of it."""

    def __init__(self, tables: LifecycleTables, config: LifecycleConfig, now: Millis) -> None:
        self.tables = tables
        self.config = config
        self.now = now
        self.commands: list[LifecycleCommand] = []
        self.reports: list[Report] = []
        self.handled: set[PodNumber] = set()  # execIdsRemovedInThisRound

    # ---------------------------------------------------------------------------------------- what is told

    def know(self, change: KnownExecutors) -> None:
        """The backend's registered executors changed."""
        for number in change.removed:
            self.tables.unregister(number)
        for number, at in change.added:
            self.tables.register(number, at)

    def activate(self, change: ActiveExecutors) -> None:
        """The backend's active executors changed."""
        for number in change.removed:
            self.tables.active.discard(number)
        for number in change.added:
            self.tables.active.add(number)

    def register_failures(self, times: int) -> None:
        """Count failures, now."""
        self.tables.failures = self.tables.failures.registered(self.now, times)

    def answer(self, outcome: Outcome) -> None:
        """A call came back. A pod is inactivated once its patch succeeded, unless something undid that meanwhile."""
        tables = self.tables
        number = tables.patches.get(outcome.serial)
        if number is not None:
            tables.patches.drop(outcome.serial)
            if tables.patching.get(number) == outcome.serial:
                tables.patching.drop(number)
                if outcome.failure is None:
                    tables.inactivated.add(number)
        if outcome.failure is not None and outcome.serial <= tables.serial:
            self._remark(CALL_FAILED, serial=outcome.serial, exception=str(thrown(outcome.failure)))

    # --------------------------------------------------------------------------------------------- a round

    def round(self, snapshots: Sequence[Snapshot]) -> None:
        """onNewSnapshots, and the check that follows it."""
        tables = self.tables
        self.handled = set()
        tables.expire(self.config.removed_cache_ms, self.now)
        fault: SparkFault | None = None
        for index, snapshot in enumerate(snapshots):
            tables.take(snapshot, self.handled if index else None)
            # A snapshot after the one that threw is not looked at, but it is the one that later ones change.
            if fault is None:
                fault = self._look(index)
        if fault is not None:
            self.reports.append(Threw(self.now, MACHINE, str(fault)))
            return
        if snapshots:
            tables.forget_vanished()
            if tables.polled_at != tables.snapshot_ts:
                tables.polled_at = tables.snapshot_ts
                self._find_lost()
        self._limit_failures()

    def _look(self, index: int) -> SparkFault | None:
        """Look at one snapshot of the batch; returns what Spark throws there."""
        tables = self.tables
        if fresh := tables.count_failed():
            self._remark(NEW_FAILURES, count=fresh)
            self.register_failures(fresh)
        # After the first snapshot, a pod that has not changed was removed, and looked after at the API, in this round.
        # Only without a cache is it removed again.
        numbers: set[PodNumber] = set(tables.attention)
        if self.config.removed_cache_ms <= 0:
            numbers.update(tables.ended, tables.deleted)
        elif index == 0:
            numbers.update(tables.ended)
        reasons = {number: self._reason(number) for number in numbers}
        order: Iterable[PodNumber] = sorted(numbers)
        if any(isinstance(reason, SparkFault) for reason in reasons.values()):
            order = tables.in_spark_order(numbers)
        for number in order:
            tables.attention.discard(number)
            fault = self._visit(number, reasons[number], index)
            if fault is not None:
                return fault
        return None

    def _reason(self, number: PodNumber) -> ExitReason | SparkFault | None:
        """Why an executor is to be removed now; None if it is not: its removal is remembered, or it has none."""
        tables = self.tables
        pod = tables.ended.get(number) or tables.deleted.get(number)
        if pod is None or number in tables.removed:
            return None
        return exit_reasons.of_pod(pod, self.config.spark_container)

    def _visit(self, number: PodNumber, reason: ExitReason | SparkFault | None, index: int) -> SparkFault | None:
        """Look at one final or labelled pod; returns what Spark throws there."""
        tables = self.tables
        pod = tables.ended.get(number) or tables.deleted.get(number)
        if pod is None:  # labelled inactive
            tables.reactivate(number)
            return None
        first = number not in self.handled
        self.handled.add(number)
        if reason is not None:
            # Into the cache before the reason is known: a removal that throws is not tried again for a while.
            if self.config.removed_cache_ms > 0:
                tables.remember_removal(number, self.now)
            if isinstance(reason, SparkFault):
                return reason
            self._remove(pod, reason, index)
        if pod.state is PodState.DELETED:
            tables.reactivate(number)
        elif first:
            self._dispose(pod, index)
        return None

    def _remove(self, pod: Pod, reason: ExitReason, index: int) -> None:
        cause = why(_CAUSES[pod.state], snapshot=index, pod=pod.manifest.name, exit_code=reason.exit_code)
        # Spark asks this after it sent the removal, which takes effect later: the answer is that of before.
        active = pod.number in self.tables.active if pod.state is PodState.SUCCEEDED else None
        self.commands.append(RemoveExecutor(self.now, _executor(pod.number), reason, cause, active, index))

    def _dispose(self, pod: Pod, index: int) -> None:
        """Delete the pod at the API, or label it where pods are kept (removeExecutorFromK8s)."""
        tables, number, name = self.tables, pod.number, pod.manifest.name
        cause = why(_CAUSES[pod.state], snapshot=index)
        if self.config.delete_on_termination:
            if pod.manifest.deleted_at is None:
                serial = tables.next_serial()
                self.commands.append(DeletePod(self.now, serial, number, name, cause, check=True))
        elif number not in tables.inactivated and number not in tables.patching:
            serial = tables.next_serial()
            tables.patches.put(serial, number)
            tables.patching.put(number, serial)
            self.commands.append(MarkInactive(self.now, serial, number, name, cause))

    def _find_lost(self) -> None:
        """Remove the executors that are registered, were so before the last full list, and have no pod in it.

        They do not enter the removed cache, so they are removed again at each new list until the backend forgets them.
        """
        tables, polled_at, delta = self.tables, self.tables.polled_at, self.config.missing_delta_ms
        for number in sorted(tables.absent):
            at = tables.absent[number]
            if polled_at - at > delta and number not in self.handled and number not in tables.removed:
                reason = exit_reasons.of_missing(number, at, polled_at, delta)
                cause = why(Cause.POD_MISSING, registered_at=at, polled_at=polled_at, delta_ms=delta)
                self.commands.append(RemoveExecutor(self.now, _executor(number), reason, cause))

    def _limit_failures(self) -> None:
        """More failures than the maximum end the application, and every round says so again."""
        window = self.config.failures_window_ms
        failures = self.tables.failures.within(window, self.now)
        if failures is not self.tables.failures:
            self.tables.failures = failures
        if failures.count > self.config.failures_max:
            maximum = self.config.failures_max
            cause = why(Cause.TOO_MANY_FAILURES, failures=failures.count, maximum=maximum, window_ms=window)
            self.commands.append(StopApplication(self.now, TOO_MANY_FAILURES, cause))

    def _remark(self, topic: str, **facts: Fact) -> None:
        if self.config.remarks:
            self.reports.append(Remark(self.now, MACHINE, topic, pmap(facts)))


def _executor(number: PodNumber) -> ExecutorId:
    return ExecutorId(str(number))
