"""The tables of the lifecycle manager: what a round has to look at again, so that nobody walks over all pods.

ExecutorPodsLifecycleManager walks over every pod of every snapshot. Almost all of them are running and mean nothing to
it. Here a snapshot is folded in as what changed, and what a round has to look at is kept at hand:

- ``ended``: pods that failed or succeeded and are not labelled inactive: Spark asks the API about each in every round;
- ``attention``: pods to look at once: those that turned final (or were labelled) since the last look, and deleted ones
  whose entry in the removed cache has expired;
- ``uncounted``: failed pods that are no failure yet, because no round got to the snapshot that shows them;
- ``absent``: registered executors without a pod in the last snapshot, of whom some may be lost.

The ids that ever counted as failed grow for ever, as in Spark; they are kept as bits, 512 ids to a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Final

from podtide.domain.backend.failure_tracker import NO_FAILURES, Failures
from podtide.domain.base.tables import Field, Members, Table, Tables
from podtide.domain.base.units import Millis
from podtide.domain.jvm.hash_order import SMALL, long_hash, trie_order
from podtide.domain.protocol.pods import INACTIVE_LABEL, Pod, PodNumber, PodState, Snapshot

_CHUNK_BITS: Final = 9
_CHUNK: Final = (1 << _CHUNK_BITS) - 1


class LifecycleTables(Tables):
    """The inside of a lifecycle state.

    ``present``: the ids of the last snapshot, numbered as they came. ``removed``: removedExecutorsCache, when each was
    written, oldest first. ``vanished``: were inactivated, and perhaps not in the last snapshot. ``patches``: those under
    way by serial; ``patching``: the other way round, those whose success would count. ``snapshot_ts``: fullSnapshotTs of
    the last snapshot; ``polled_at``: lastFullSnapshotTs, of the last snapshot that was searched for lost executors.
    """

    arrivals = Field(0)
    snapshot_ts: Field[Millis] = Field(0)
    polled_at: Field[Millis] = Field(0)
    serial = Field(0)
    failures: Field[Failures] = Field(NO_FAILURES)

    def __init__(self) -> None:
        self.present: Table[PodNumber, int] = Table()
        self.ended: Table[PodNumber, Pod] = Table()
        self.deleted: Table[PodNumber, Pod] = Table()  # PodDeleted, not labelled inactive
        self.attention: Members[PodNumber] = Members()
        self.uncounted: Members[PodNumber] = Members()
        self.failed_bits: Table[int, int] = Table()
        self.removed: Table[PodNumber, Millis] = Table()
        self.inactivated: Members[PodNumber] = Members()
        self.vanished: Members[PodNumber] = Members()
        self.patches: Table[int, PodNumber] = Table()
        self.patching: Table[PodNumber, int] = Table()
        self.registered: Table[PodNumber, Millis] = Table()
        self.active: Members[PodNumber] = Members()
        super().__init__()

    def recount(self) -> None:
        """Derive who is absent, and put the removed cache into the order of its times again."""
        self.removed.reorder(sorted(self.removed.items(), key=itemgetter(1)))
        self.absent = {number: at for number, at in self.registered.items() if number not in self.present}

    def next_serial(self) -> int:
        """A serial for one more call."""
        self.serial += 1
        return self.serial

    # ---------------------------------------------------------------------------------------------- snapshots

    def take(self, snapshot: Snapshot, handled: set[PodNumber] | None) -> None:
        """Fold one snapshot in.

        ``handled``: the final pods of the round's earlier snapshots (None in the first one): a final pod that changes
        or goes now was among them, looked at or not.
        """
        full = bool(snapshot.gone) or snapshot.full_ts != self.snapshot_ts
        if snapshot.full_ts != self.snapshot_ts:
            self.snapshot_ts = snapshot.full_ts
        present, changed = self.present, snapshot.changed
        if handled is not None:
            touched = chain(snapshot.gone, (pod.number for pod in changed))
            handled.update(number for number in touched if number in self.ended or number in self.deleted)
        for number in snapshot.gone:
            self._leave(number)
        arrivals = self.arrivals
        for pod in changed:
            number = pod.number
            if number not in present:
                arrivals += 1
                present.put(number, arrivals)
                self.absent.pop(number, None)
            self._sort(pod)
        if full and len(present) <= SMALL:
            listed = dict.fromkeys(pod.number for pod in changed)
            if len(listed) == len(present):  # a list that is known whole: its order is the map's
                for number in listed:
                    arrivals += 1
                    present.put(number, arrivals)
        if arrivals != self.arrivals:
            self.arrivals = arrivals

    def _leave(self, number: PodNumber) -> None:
        self.present.drop(number)
        self._dismiss(number)
        if number in self.inactivated or number in self.patching:
            self.vanished.add(number)
        if number in self.registered:
            self.absent[number] = self.registered[number]

    def _sort(self, pod: Pod) -> None:
        """Put a pod of the last snapshot into the tables that it belongs to."""
        number, state = pod.number, pod.state
        labelled = pod.manifest.labels.get(INACTIVE_LABEL) == "true"
        if number in self.attention or number in self.ended or number in self.deleted or number in self.uncounted:
            self._dismiss(number)
        # One after the other: an Enum's hash is a Python function.
        deleted = state is PodState.DELETED
        if not (labelled or deleted or state is PodState.FAILED or state is PodState.SUCCEEDED):
            return
        self.attention.add(number)
        if state is PodState.FAILED and not self.has_failed(number):
            self.uncounted.add(number)
        if not labelled:
            (self.deleted if deleted else self.ended).put(number, pod)

    def _dismiss(self, number: PodNumber) -> None:
        """There is nothing to look at in a pod."""
        self.attention.discard(number)
        self.ended.drop(number)
        self.deleted.drop(number)
        self.uncounted.discard(number)

    # ----------------------------------------------------------------------------------------------- executors

    def register(self, number: PodNumber, at: Millis) -> None:
        """The backend knows this executor, since then."""
        self.registered.put(number, at)
        if number not in self.present:
            self.absent[number] = at

    def unregister(self, number: PodNumber) -> None:
        """The backend no longer knows this executor."""
        self.registered.drop(number)
        self.absent.pop(number, None)

    # ------------------------------------------------------------------------------------------ removed, failed

    def expire(self, timeout_ms: Millis, now: Millis) -> None:
        """Drop the entries of the removed cache that are as old as the timeout; deleted pods are looked at again."""
        expired = []
        for number, at in self.removed.items():
            if now - at < timeout_ms:
                break
            expired.append(number)
        for number in expired:
            self.removed.drop(number)
            if number in self.deleted and number not in self.attention:
                self.attention.add(number)

    def remember_removal(self, number: PodNumber, now: Millis) -> None:
        """Enter an executor into the removed cache, which is kept in the order of its times."""
        self.removed.drop(number)
        self.removed.put(number, now)

    def has_failed(self, number: PodNumber) -> bool:
        """Whether an executor was ever counted as failed."""
        return bool(self.failed_bits.get(number >> _CHUNK_BITS, 0) >> (number & _CHUNK) & 1)

    def count_failed(self) -> int:
        """Count the failed pods that are no failure yet as failed; returns how many there are."""
        fresh = list(self.uncounted)
        for number in fresh:
            self.uncounted.discard(number)
            chunk = number >> _CHUNK_BITS
            self.failed_bits.put(chunk, self.failed_bits.get(chunk, 0) | 1 << (number & _CHUNK))
        return len(fresh)

    def failed(self) -> Iterator[PodNumber]:
        """Every executor that was counted as failed, ascending."""
        for chunk in sorted(self.failed_bits):
            bits = self.failed_bits[chunk]
            while bits:
                lowest = bits & -bits
                yield PodNumber((chunk << _CHUNK_BITS) + lowest.bit_length() - 1)
                bits ^= lowest

    # ----------------------------------------------------------------------------------------------- inactivated

    def reactivate(self, number: PodNumber) -> None:
        """An executor leaves inactivatedPods; a patch under way no longer counts."""
        self.inactivated.discard(number)
        self.patching.drop(number)

    def forget_vanished(self) -> None:
        """inactivatedPods keeps only what is in the last snapshot."""
        for number in list(self.vanished):
            self.vanished.discard(number)
            if number not in self.present:
                self.reactivate(number)

    # --------------------------------------------------------------------------------------------------- order

    def in_spark_order(self, numbers: Iterable[PodNumber]) -> list[PodNumber]:
        """These pods in the order in which Spark meets them in the last snapshot. Costs a pass over all its pods."""
        chosen = set(numbers)
        return [number for number in map_order(self.present) if number in chosen]


def map_order(arrivals: Mapping[PodNumber, int]) -> list[PodNumber]:
    """The order in which Scala 2.13 iterates an immutable Map with Long keys, of which it is given when each came.

    Up to four entries: as they came.
    """
    came = sorted(arrivals, key=arrivals.__getitem__)
    if len(came) <= SMALL:
        return came
    return trie_order([(long_hash(number), number) for number in came])
