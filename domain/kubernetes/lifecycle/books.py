"""The books of the lifecycle manager: what a round has to look at again, so that nobody walks over all pods.

ExecutorPodsLifecycleManager walks over every pod of every snapshot. Almost all of them are running and mean nothing to
it. Here a snapshot is folded in as what changed, and what a round has to look at is kept at hand:

- ``ended``: pods that failed or succeeded and are not labelled inactive: Spark asks the API about each in every round;
- ``attention``: pods to look at once: those that turned final (or were labelled) since the last look, and deleted ones
  whose entry in the removed cache has expired;
- ``uncounted``: failed pods that are no failure yet, because no round got to the snapshot that shows them;
- ``absent``: registered executors without a pod in the last snapshot, of whom some may be lost.

Every change is noted in a journal, so that an older version can be rebuilt (see ``base.versioned``).

The ids that ever counted as failed grow for ever, as in Spark; they are kept as bits, 512 ids to a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

from podtide.domain.backend.failure_tracker import NO_FAILURES, Failures
from podtide.domain.base.units import Millis
from podtide.domain.base.versioned import JournalEntry
from podtide.domain.jvm.hash_order import SMALL, long_hash, trie_order
from podtide.domain.protocol.pods import INACTIVE_LABEL, Pod, PodNumber, PodState, Snapshot

Log: TypeAlias = Callable[[JournalEntry], None]

_CHUNK_BITS: Final = 9
_CHUNK: Final = (1 << _CHUNK_BITS) - 1
_FIELD: Final = ""
"""In a journal entry, instead of a table: the change of a field."""
_CAME: Final = "+"
"""The same: ids that are new in ``present``."""


class LifecycleBooks:
    """The mutable inside of a lifecycle state. Tables map an id to what is known of it; none holds None."""

    def __init__(self) -> None:
        self.present: dict[PodNumber, int] = {}  # the ids of the last snapshot, numbered as they came
        self.ended: dict[PodNumber, Pod] = {}
        self.deleted: dict[PodNumber, Pod] = {}  # PodDeleted, not labelled inactive
        self.attention: dict[PodNumber, bool] = {}
        self.uncounted: dict[PodNumber, bool] = {}
        self.failed_bits: dict[int, int] = {}
        self.removed: dict[PodNumber, Millis] = {}  # removedExecutorsCache: when it was written, oldest first
        self.inactivated: dict[PodNumber, bool] = {}
        self.vanished: dict[PodNumber, bool] = {}  # were inactivated, and perhaps not in the last snapshot
        self.patches: dict[int, PodNumber] = {}  # by serial, those under way
        self.patching: dict[PodNumber, int] = {}  # the other way round, those whose success would count
        self.registered: dict[PodNumber, Millis] = {}
        self.active: dict[PodNumber, bool] = {}
        self.arrivals = 0
        self.snapshot_ts: Millis = 0  # fullSnapshotTs of the last snapshot
        self.polled_at: Millis = 0  # lastFullSnapshotTs: of the last snapshot that was searched for lost executors
        self.serial = 0
        self.failures: Failures = NO_FAILURES
        self.absent: dict[PodNumber, Millis] = {}

    def copy(self) -> LifecycleBooks:
        """Independent books with the same content."""
        twin = LifecycleBooks()
        for name, value in vars(self).items():
            setattr(twin, name, dict(value) if isinstance(value, dict) else value)
        return twin

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one step's changes back."""
        for table, key, before in reversed(journal):
            if table == _FIELD:
                setattr(self, str(key), before)
                continue
            if table == _CAME:
                assert isinstance(key, list)
                for number in key:
                    del self.present[number]
                continue
            book: dict[Any, Any] = getattr(self, str(table))
            if before is None:
                book.pop(key, None)
            else:
                book[key] = before

    def recount(self) -> None:
        """Derive who is absent, and put the removed cache into the order of its times again."""
        self.removed = dict(sorted(self.removed.items(), key=lambda entry: entry[1]))
        self.absent = {number: at for number, at in self.registered.items() if number not in self.present}

    # ------------------------------------------------------------------------------------------------ changes

    def field(self, name: str, value: object, log: Log) -> None:
        """Set a field."""
        log((_FIELD, name, getattr(self, name)))
        setattr(self, name, value)

    def put(self, table: str, key: int, value: object, log: Log) -> None:
        """Set an entry of a table."""
        book: dict[Any, Any] = getattr(self, table)
        log((table, key, book.get(key)))
        book[key] = value

    def drop(self, table: str, key: int, log: Log) -> None:
        """Drop an entry of a table, if it is there."""
        book: dict[Any, Any] = getattr(self, table)
        before = book.pop(key, None)
        if before is not None:
            log((table, key, before))

    def next_serial(self, log: Log) -> int:
        """A serial for one more call."""
        self.field("serial", self.serial + 1, log)
        return self.serial

    # ---------------------------------------------------------------------------------------------- snapshots

    def take(self, snapshot: Snapshot, handled: set[PodNumber] | None, log: Log) -> None:
        """Fold one snapshot in.

        ``handled``: the final pods of the round's earlier snapshots (None in the first one): a final pod that changes
        or goes now was among them, looked at or not.
        """
        full = bool(snapshot.gone) or snapshot.full_ts != self.snapshot_ts
        if snapshot.full_ts != self.snapshot_ts:
            self.field("snapshot_ts", snapshot.full_ts, log)
        present, changed = self.present, snapshot.changed
        if handled is not None:
            touched = chain(snapshot.gone, (pod.number for pod in changed))
            handled.update(number for number in touched if number in self.ended or number in self.deleted)
        for number in snapshot.gone:
            self._leave(number, log)
        if changed:
            log((_FIELD, "arrivals", self.arrivals))
            came: list[PodNumber] = []
            log((_CAME, came, None))
            for pod in changed:
                number = pod.number
                if number not in present:
                    self.arrivals += 1
                    present[number] = self.arrivals
                    came.append(number)
                    self.absent.pop(number, None)
                self._sort(pod, log)
        if full and len(present) <= SMALL:
            listed = dict.fromkeys(pod.number for pod in changed)
            if len(listed) == len(present):  # a list that is known whole: its order is the map's
                for number in listed:
                    self.arrivals += 1
                    self.put("present", number, self.arrivals, log)

    def _leave(self, number: PodNumber, log: Log) -> None:
        self.drop("present", number, log)
        self._dismiss(number, log)
        if number in self.inactivated or number in self.patching:
            self.put("vanished", number, True, log)
        if number in self.registered:
            self.absent[number] = self.registered[number]

    def _sort(self, pod: Pod, log: Log) -> None:
        """Put a pod of the last snapshot into the tables that it belongs to."""
        number, state = pod.number, pod.state
        labelled = pod.manifest.labels.get(INACTIVE_LABEL) == "true"
        if number in self.attention or number in self.ended or number in self.deleted or number in self.uncounted:
            self._dismiss(number, log)
        # One after the other: an Enum's hash is a Python function.
        deleted = state is PodState.DELETED
        if not (labelled or deleted or state is PodState.FAILED or state is PodState.SUCCEEDED):
            return
        self.put("attention", number, True, log)
        if state is PodState.FAILED and not self.has_failed(number):
            self.put("uncounted", number, True, log)
        if not labelled:
            self.put("deleted" if deleted else "ended", number, pod, log)

    def _dismiss(self, number: PodNumber, log: Log) -> None:
        """There is nothing to look at in a pod."""
        for table in ("attention", "ended", "deleted", "uncounted"):
            self.drop(table, number, log)

    # ----------------------------------------------------------------------------------------------- executors

    def register(self, number: PodNumber, at: Millis, log: Log) -> None:
        """The backend knows this executor, since then."""
        self.put("registered", number, at, log)
        if number not in self.present:
            self.absent[number] = at

    def unregister(self, number: PodNumber, log: Log) -> None:
        """The backend no longer knows this executor."""
        self.drop("registered", number, log)
        self.absent.pop(number, None)

    # ------------------------------------------------------------------------------------------ removed, failed

    def expire(self, timeout_ms: Millis, now: Millis, log: Log) -> None:
        """Drop the entries of the removed cache that are as old as the timeout; deleted pods are looked at again."""
        expired = []
        for number, at in self.removed.items():
            if now - at < timeout_ms:
                break
            expired.append(number)
        for number in expired:
            self.drop("removed", number, log)
            if number in self.deleted and number not in self.attention:
                self.put("attention", number, True, log)

    def remember_removal(self, number: PodNumber, now: Millis, log: Log) -> None:
        """Enter an executor into the removed cache, which is kept in the order of its times."""
        self.drop("removed", number, log)
        self.put("removed", number, now, log)

    def has_failed(self, number: PodNumber) -> bool:
        """Whether an executor was ever counted as failed."""
        return bool(self.failed_bits.get(number >> _CHUNK_BITS, 0) >> (number & _CHUNK) & 1)

    def count_failed(self, log: Log) -> int:
        """Count the failed pods that are no failure yet as failed; returns how many there are."""
        fresh = list(self.uncounted)
        for number in fresh:
            self.drop("uncounted", number, log)
            chunk = number >> _CHUNK_BITS
            self.put("failed_bits", chunk, self.failed_bits.get(chunk, 0) | 1 << (number & _CHUNK), log)
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

    def reactivate(self, number: PodNumber, log: Log) -> None:
        """An executor leaves inactivatedPods; a patch under way no longer counts."""
        self.drop("inactivated", number, log)
        self.drop("patching", number, log)

    def forget_vanished(self, log: Log) -> None:
        """inactivatedPods keeps only what is in the last snapshot."""
        for number in list(self.vanished):
            self.drop("vanished", number, log)
            if number not in self.present:
                self.reactivate(number, log)

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
