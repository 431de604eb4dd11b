"""One step of the executor index: what a delivery of snapshots, the scheduler and the allocator itself change in it.

Snapshots come as what changed; a delivery of which some pod has no spec is an exception in Spark and leaves the last
snapshot as it was. ``squash`` keeps what such deliveries said for the next one.

Source: ExecutorPodsAllocator.onNewSnapshots of Spark 4.3.0 (spec: allocation, sections 2, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.kubernetes.allocator.executor_index import (
    CreatedPod,
    ExecutorIndex,
    IndexCounts,
    IndexTables,
    JoinedPod,
    less,
)
from podtide.domain.protocol.pods import Pod, PodNumber, PodState, Snapshot


class DeliveryBatch(NamedTuple):
    """What a delivery of snapshots did besides moving pods.

    ``failed``: pods that turned PodFailed without ever being known to the scheduler. ``forgotten``: deleted pods that
    are gone from the last snapshot. ``vanished``: claims of pods that were in one of the snapshots and not in the last.
    """

    failed: tuple[PodNumber, ...]
    forgotten: tuple[PodNumber, ...]
    vanished: frozenset[str]


class IndexDraft(IndexCounts):
    """One step of an index under way. Whoever makes it does so within ``with index.step()``."""

    __slots__ = ("_index", "tables")

    def __init__(self, index: ExecutorIndex) -> None:
        self._index = index
        self.tables = index.step()

    @property
    def _tables(self) -> IndexTables:
        return self.tables

    def done(self) -> ExecutorIndex:
        """The index after this step."""
        return self._index.hand_over(ExecutorIndex(self.tables)) if self.tables.undo_log else self._index

    # what the cluster shows

    def deliver(self, snapshots: Sequence[Snapshot]) -> DeliveryBatch:
        """Reflect the snapshots of one delivery, at least one (spec: allocation, 4.1, 4.2 and 4.5)."""
        tables = self.tables
        failed: list[PodNumber] = []
        vanished: dict[PodNumber, Pod] = {}
        self._acknowledge_returning(snapshots[0])
        for place, snapshot in enumerate(snapshots):
            for number in snapshot.gone:
                pod = tables.pods.get(number)
                if pod is not None:
                    self._show(number, None)
                    if place:
                        vanished[number] = pod
            for pod in snapshot.changed:
                number = pod.number
                before = tables.pods.get(number)
                newly = before is None or before.state is not PodState.FAILED
                if pod.state is PodState.FAILED and newly and not tables.has_registered(number):
                    failed.append(number)
                self._show(number, pod)
                self._acknowledge(number)
                vanished.pop(number, None)
        forgotten = tuple(n for n in tables.unseen if n not in tables.pods)
        for number in forgotten:
            tables.deleted.discard(number)
        tables.unseen.clear()
        claims = frozenset(claim for pod in vanished.values() for claim in pod.manifest.claims)
        return DeliveryBatch(tuple(failed), forgotten, claims)

    def acknowledge(self, snapshots: Sequence[Snapshot]) -> None:
        """Wait no longer for the pods of these snapshots, at least one; nothing else of them counts."""
        self._acknowledge_returning(snapshots[0])
        for snapshot in snapshots:
            for pod in snapshot.changed:
                self._acknowledge(pod.number)

    def _acknowledge_returning(self, first: Snapshot) -> None:
        """A pod that was there before it was created now is seen as soon as any snapshot has it."""
        if self.tables.returning:
            gone_at_once = set(first.gone)
            for number in [n for n in self.tables.returning if n not in gone_at_once]:
                self._acknowledge(number)

    def _show(self, number: PodNumber, pod: Pod | None) -> None:
        tables = self.tables
        before = tables.pods.get(number)
        if before is not None and pod is not None and tables.counts_alike(before, pod):
            tables.pods.put(number, pod)
            return
        if before is not None:
            tables.leave(before)
        if pod is None:
            tables.pods.drop(number)
            if number in tables.deleted:
                tables.unseen.add(number)
            tables.returning.discard(number)
            if number not in tables.created and number not in tables.joined:
                tables.veterans.discard(number)
        else:
            tables.pods.put(number, pod)
            tables.enter(pod)

    def _acknowledge(self, number: PodNumber) -> None:
        """A snapshot has the pod: it is neither merely created nor merely joined."""
        tables = self.tables
        if number in tables.created:
            self.forget_created(number)
        if number in tables.joined:
            self.forget_joined(number)
        tables.returning.discard(number)

    # what the driver knows

    def know(self, added: Iterable[PodNumber], removed: Iterable[PodNumber]) -> None:
        """The scheduler's registered executors changed."""
        tables = self.tables
        for number in removed:
            if number in tables.known:
                self._regroup(number, known=False)
                here = number in tables.pods or number in tables.created or number in tables.joined
                if here:
                    tables.veterans.add(number)
        for number in added:
            if number not in tables.known:
                self._regroup(number, known=True)

    def _regroup(self, number: PodNumber, *, known: bool) -> None:
        tables = self.tables
        pod = tables.pods.get(number)
        moves = pod is not None and pod.state is PodState.PENDING and number not in tables.deleted
        if pod is not None and moves:
            tables.remove_share(pod)
        (tables.known.add if known else tables.known.discard)(number)
        if number in tables.created:
            (tables.met.add if known else tables.met.discard)(number)
        if pod is not None and moves:
            tables.add_share(pod)

    def join(self) -> None:
        """Created pods whose executors are known are no longer waited for (spec: allocation, 4.3)."""
        tables = self.tables
        for number in sorted(tables.met):
            profile = tables.created[number].profile
            returning = number in tables.returning
            self.forget_created(number)
            tables.turns += 1
            tables.joined.put(number, JoinedPod(profile, tables.turns))
            tables.joined_by[profile] = tables.joined_by.get(profile, 0) + 1
            if returning:
                tables.returning.add(number)

    # what the allocator does

    def create(self, number: PodNumber, profile: ProfileId, at: Millis) -> None:
        """A pod was created."""
        tables = self.tables
        if number in tables.created:
            self.forget_created(number)
        tables.created.put(number, CreatedPod(profile, at))
        tables.created_by[profile] = tables.created_by.get(profile, 0) + 1
        if number in tables.pods:
            tables.returning.add(number)
        if number in tables.known:
            tables.met.add(number)

    def forget_created(self, number: PodNumber) -> None:
        """A created pod is waited for no longer."""
        tables = self.tables
        made = tables.created[number]
        tables.created.drop(number)
        less(tables.created_by, made.profile)
        tables.returning.discard(number)
        tables.met.discard(number)
        if number not in tables.pods:
            tables.veterans.discard(number)

    def forget_joined(self, number: PodNumber) -> None:
        """A joined pod counts no longer as such."""
        tables = self.tables
        joined = tables.joined[number]
        tables.joined.drop(number)
        less(tables.joined_by, joined.profile)
        tables.returning.discard(number)
        if number not in tables.pods:
            tables.veterans.discard(number)

    def retire(self, number: PodNumber) -> bool:
        """The delete of an excess pod is sent: it counts nowhere from now on. Whether it did until now."""
        tables = self.tables
        if number in tables.deleted:
            return False
        pod = tables.pods.get(number)
        if pod is not None:
            tables.leave(pod)
        tables.deleted.add(number)
        if pod is None:
            tables.unseen.add(number)
        else:
            tables.enter(pod)
        return True

    def reinstate(self, number: PodNumber) -> None:
        """Take ``retire`` back."""
        tables = self.tables
        pod = tables.pods.get(number)
        if pod is not None:
            tables.leave(pod)
        tables.deleted.discard(number)
        tables.unseen.discard(number)
        if pod is not None:
            tables.enter(pod)


def has_specless(snapshots: Sequence[Snapshot]) -> bool:
    """Whether a pod of this delivery, as it is shown last, has no spec: reading its volumes throws (4.2)."""
    if all(pod.manifest.has_spec for snapshot in snapshots for pod in snapshot.changed):
        return False
    latest = {pod.number: pod for snapshot in snapshots for pod in snapshot.changed}
    return not all(pod.manifest.has_spec for pod in latest.values())


def squash(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Several snapshots, at least one, as a single one that says what they say together."""
    pods: dict[PodNumber, Pod] = {}
    gone: dict[PodNumber, None] = {}
    for snapshot in snapshots:
        for number in snapshot.gone:
            pods.pop(number, None)
            gone[number] = None
        for pod in snapshot.changed:
            pods[pod.number] = pod
            gone.pop(pod.number, None)
    return Snapshot(snapshots[-1].full_ts, tuple(pods.values()), tuple(gone))
