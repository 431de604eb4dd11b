"""The executors of an application as the pods allocator counts them, indexed so that a round costs what changed.

ExecutorPodsAllocator regroups every pod in every round. Here each pod stands in a *bucket*, its resource profile's, and a
change moves one pod from one bucket to another; a round then reads sums. What the allocator keeps besides the last
snapshot lies here too, because it decides who counts:

- ``created``: pods made and neither seen in a snapshot nor known to the scheduler (newlyCreatedExecutors);
- ``joined``: the same, but registered with the driver meanwhile (schedulerKnownNewlyCreatedExecs);
- ``deleted``: excess pods whose delete was sent (deletedExecutorIds): they count nowhere;
- ``known``: executors registered with the driver: their pending pods are never deleted as excess.

A pending pod unknown to the scheduler may go as excess once it is older than executorIdleTimeout. Such pods wait in a heap
by creation time and move to ``ripe`` when they are old enough, so that nobody looks at all of them in each round.

Snapshots come as what changed; a delivery of which some pod has no spec is an exception in Spark and leaves the last
snapshot as it was. ``squash`` keeps what such deliveries said for the next one.

Source: ExecutorPodsAllocator.onNewSnapshots of Spark 4.3.0 (spec: allocation, sections 2, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.base.versioned import JournalEntry, Versioned
from podtide.domain.jvm.hash_order import bucket_order, long_hash
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.protocol.pods import PROFILE_LABEL, Pod, PodNumber, PodState, Snapshot

_BEFORE_ALL: Final[Millis] = -(2**63)
"""The creation time of a pod that does not say when it was created: it counts as idle for long enough."""

_INT_DIGITS: Final = 10
"""Digits of the largest Int."""


class Created(NamedTuple):
    """A pod that was created: for whom and when."""

    profile: ProfileId
    at: Millis


class Joined(NamedTuple):
    """A created pod whose executor registered. ``turn`` counts up: the order in which they did."""

    profile: ProfileId
    turn: int


class Bucket:
    """The pods of one profile label that count. ``pods``: all of them, whatever their state.

    ``ripe`` holds the unknown pending pods created before ``horizon``, ``young`` the others and entries that are stale.
    """

    __slots__ = ("horizon", "known_pending", "pending", "pods", "ripe", "running", "young")

    def __init__(self) -> None:
        self.pods = 0
        self.running = 0
        self.known_pending = 0
        self.pending: dict[PodNumber, Millis] = {}  # unknown to the scheduler, by creation time
        self.young: list[tuple[Millis, PodNumber]] = []
        self.ripe: set[PodNumber] = set()
        self.horizon: Millis = _BEFORE_ALL

    def ripen(self, before: Millis) -> set[PodNumber]:
        """The unknown pending pods created before this time."""
        if before < self.horizon:  # the idle timeout is longer than it was, or an old state is asked about its own time
            self.ripe.clear()
            self.young = [(at, number) for number, at in self.pending.items()]
            heapify(self.young)
        self.horizon = before
        young = self.young
        while young and young[0][0] < before:
            created, number = heappop(young)
            if self.pending.get(number) == created:
                self.ripe.add(number)
        return self.ripe

    def first_young(self) -> Millis | None:
        """The creation time of the oldest unknown pending pod that is not ripe yet."""
        young = self.young
        while young and self.pending.get(young[0][1]) != young[0][0]:
            heappop(young)
        return young[0][0] if young else None


class Books:
    """The mutable inside of a fleet."""

    def __init__(self) -> None:
        self.pods: dict[PodNumber, Pod] = {}
        self.known: set[PodNumber] = set()
        self.created: dict[PodNumber, Created] = {}
        self.joined: dict[PodNumber, Joined] = {}
        self.turns = 0  # given out to ``joined``, ever
        self.deleted: set[PodNumber] = set()
        self.veterans: set[PodNumber] = set()  # registered once and no longer, and their pods are there or expected
        self._derive()

    def _derive(self) -> None:
        self.buckets: dict[ProfileId | None, Bucket] = {}
        self.created_by: dict[ProfileId, int] = {}
        self.joined_by: dict[ProfileId, int] = {}
        self.claims: dict[str, int] = {}
        self.unseen: set[PodNumber] = set()  # deleted, and not in the last snapshot
        self.returning: set[PodNumber] = set()  # created or joined, though the last snapshot has such a pod
        self.overrun: set[PodNumber] = set()  # deleted as excess, and running
        self.met: set[PodNumber] = set()  # created, and known to the scheduler meanwhile

    def copy(self) -> Books:
        """Independent books with the same content."""
        twin = Books()
        twin.pods = dict(self.pods)
        twin.known = set(self.known)
        twin.created = dict(self.created)
        twin.joined = dict(self.joined)
        twin.turns = self.turns
        twin.deleted = set(self.deleted)
        twin.veterans = set(self.veterans)
        return twin

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one step's changes back; the sums are wrong until ``recount``."""
        for table, key, before in reversed(journal):
            book = getattr(self, str(table))
            if isinstance(book, set):
                (book.add if before else book.discard)(key)
            elif before is None:
                book.pop(key, None)
            else:
                book[key] = before

    def recount(self) -> None:
        """Derive the sums and the order of creation anew."""
        self.created = dict(sorted(self.created.items(), key=lambda item: (item[1].at, item[0])))
        self.joined = dict(sorted(self.joined.items(), key=lambda item: item[1].turn))
        self._derive()
        for pod in self.pods.values():
            self.enter(pod)
        for made in self.created.values():
            self.created_by[made.profile] = self.created_by.get(made.profile, 0) + 1
        for joined in self.joined.values():
            self.joined_by[joined.profile] = self.joined_by.get(joined.profile, 0) + 1
        self.unseen = {number for number in self.deleted if number not in self.pods}
        self.returning = {number for number in chain(self.created, self.joined) if number in self.pods}
        self.met = {number for number in self.created if number in self.known}

    def has_registered(self, number: PodNumber) -> bool:
        """Whether the executor was ever known to the scheduler, as far as that is still of interest."""
        return number in self.known or number in self.joined or number in self.veterans

    def enter(self, pod: Pod) -> None:
        """Count a pod of the last snapshot."""
        manifest = pod.manifest
        for claim in manifest.claims:
            self.claims[claim] = self.claims.get(claim, 0) + 1
        if pod.number not in self.deleted:
            self.place(pod)
        elif pod.state is PodState.RUNNING and manifest.deleted_at is None:
            self.overrun.add(pod.number)

    def leave(self, pod: Pod) -> None:
        """Count a pod of the last snapshot no longer."""
        manifest = pod.manifest
        for claim in manifest.claims:
            if self.claims[claim] == 1:
                del self.claims[claim]
            else:
                self.claims[claim] -= 1
        if pod.number not in self.deleted:
            self.lift(pod)
        self.overrun.discard(pod.number)

    def place(self, pod: Pod) -> None:
        """Put a pod into its bucket."""
        profile = profile_of(pod)
        bucket = self.buckets.get(profile)
        if bucket is None:
            bucket = self.buckets[profile] = Bucket()
        bucket.pods += 1
        if pod.state is PodState.RUNNING:
            bucket.running += 1
        elif pod.state is PodState.PENDING:
            if pod.number in self.known:
                bucket.known_pending += 1
            else:
                text = pod.manifest.created_at
                at = parse_instant(text) if text is not None else None
                created = _BEFORE_ALL if at is None else at
                bucket.pending[pod.number] = created
                heappush(bucket.young, (created, pod.number))

    def lift(self, pod: Pod) -> None:
        """Take a pod out of its bucket."""
        profile = profile_of(pod)
        bucket = self.buckets[profile]
        bucket.pods -= 1
        if pod.state is PodState.RUNNING:
            bucket.running -= 1
        elif pod.state is PodState.PENDING:
            if bucket.pending.pop(pod.number, None) is None:
                bucket.known_pending -= 1
            else:
                bucket.ripe.discard(pod.number)
                if len(bucket.young) > 2 * len(bucket.pending) + 64:  # mostly pods that are pending no longer
                    bucket.young = [(at, n) for n, at in bucket.pending.items() if n not in bucket.ripe]
                    heapify(bucket.young)
        if not bucket.pods:
            del self.buckets[profile]


class Fleet(Versioned[Books]):
    """The executors as the allocator counts them, at one moment. Immutable; ``draft`` steps it forward."""

    __slots__ = ()

    def draft(self) -> Draft:
        """Begin a step. Nothing else may be read from this fleet until ``Draft.done``."""
        return Draft(self)

    def deleted(self, number: PodNumber) -> bool:
        """Whether the pod's delete was sent and it still showed in the last snapshot."""
        return number in self.books.deleted

    @property
    def pods(self) -> int:
        """Pods in the last snapshot."""
        return len(self.books.pods)

    def created(self) -> tuple[tuple[PodNumber, Created], ...]:
        """Created pods that are neither seen nor known, oldest first."""
        return tuple(sorted(self.books.created.items(), key=_age))

    def joined(self) -> tuple[tuple[PodNumber, ProfileId], ...]:
        """Created pods that registered and were not seen, in the order in which that was noticed."""
        return tuple((number, joined.profile) for number, joined in self.books.joined.items())

    def deleted_numbers(self) -> frozenset[PodNumber]:
        """All pods whose delete was sent and that count nowhere since."""
        return frozenset(self.books.deleted)

    def known_numbers(self) -> frozenset[PodNumber]:
        """All executors known to the scheduler."""
        return frozenset(self.books.known)

    def snapshot(self) -> dict[PodNumber, Pod]:
        """The last snapshot. Not to be changed."""
        return self.books.pods


def empty_fleet() -> Fleet:
    """No pod, no executor."""
    return Fleet(Books())


class Census(NamedTuple):
    """What a round reads of one profile: how many pods of it are in which state."""

    pods: int
    running: int
    pending: int
    known_pending: int
    created: int
    joined: int

    @property
    def not_running(self) -> int:
        """All that count and do not run."""
        return self.pending + self.known_pending + self.created + self.joined

    @property
    def counted(self) -> int:
        """All that count towards the target."""
        return self.running + self.not_running


class Batch(NamedTuple):
    """What a delivery of snapshots did besides moving pods.

    ``failed``: pods that turned PodFailed without ever being known to the scheduler. ``forgotten``: deleted pods that
    are gone from the last snapshot. ``vanished``: claims of pods that were in one of the snapshots and not in the last.
    """

    failed: tuple[PodNumber, ...]
    forgotten: tuple[PodNumber, ...]
    vanished: frozenset[str]


class Draft:
    """One step of a fleet in the making."""

    __slots__ = ("_fleet", "_journal", "books")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._journal: list[JournalEntry] = []
        self.books = fleet.books

    def done(self) -> Fleet:
        """The fleet after this step."""
        if not self._journal:
            return self._fleet
        successor = Fleet(self.books)
        self._fleet.hand_over(successor, self._journal)
        return successor

    # what the cluster shows

    def deliver(self, snapshots: Sequence[Snapshot]) -> Batch:
        """Reflect the snapshots of one delivery, at least one (spec: allocation, 4.1, 4.2 and 4.5)."""
        books = self.books
        failed: list[PodNumber] = []
        vanished: dict[PodNumber, Pod] = {}
        self._acknowledge_returning(snapshots[0])
        for place, snapshot in enumerate(snapshots):
            for number in snapshot.gone:
                pod = books.pods.get(number)
                if pod is not None:
                    self._show(number, None)
                    if place:
                        vanished[number] = pod
            for pod in snapshot.changed:
                number = pod.number
                before = books.pods.get(number)
                newly = before is None or before.state is not PodState.FAILED
                if pod.state is PodState.FAILED and newly and not books.has_registered(number):
                    failed.append(number)
                self._show(number, pod)
                self._acknowledge(number)
                vanished.pop(number, None)
        forgotten = tuple(n for n in books.unseen if n not in books.pods)
        for number in forgotten:
            self._write("deleted", number, True)
            books.deleted.discard(number)
        books.unseen.clear()
        claims = frozenset(claim for pod in vanished.values() for claim in pod.manifest.claims)
        return Batch(tuple(failed), forgotten, claims)

    def acknowledge(self, snapshots: Sequence[Snapshot]) -> None:
        """Wait no longer for the pods of these snapshots, at least one; nothing else of them counts."""
        self._acknowledge_returning(snapshots[0])
        for snapshot in snapshots:
            for pod in snapshot.changed:
                self._acknowledge(pod.number)

    def _acknowledge_returning(self, first: Snapshot) -> None:
        """A pod that was there before it was created now is seen as soon as any snapshot has it."""
        if self.books.returning:
            gone_at_once = set(first.gone)
            for number in [n for n in self.books.returning if n not in gone_at_once]:
                self._acknowledge(number)

    def _show(self, number: PodNumber, pod: Pod | None) -> None:
        books = self.books
        before = books.pods.get(number)
        self._write("pods", number, before)
        if before is not None:
            books.leave(before)
        if pod is None:
            books.pods.pop(number, None)
            if number in books.deleted:
                books.unseen.add(number)
            books.returning.discard(number)
            if number not in books.created and number not in books.joined:
                self._retire_veteran(number)
        else:
            books.pods[number] = pod
            books.enter(pod)

    def _acknowledge(self, number: PodNumber) -> None:
        """A snapshot has the pod: it is neither merely created nor merely joined."""
        books = self.books
        if number in books.created:
            self.forget_created(number)
        if number in books.joined:
            self.forget_joined(number)
        books.returning.discard(number)

    # what the driver knows

    def know(self, added: Iterable[PodNumber], removed: Iterable[PodNumber]) -> None:
        """The scheduler's registered executors changed."""
        books = self.books
        for number in removed:
            if number in books.known:
                self._regroup(number, known=False)
                here = number in books.pods or number in books.created or number in books.joined
                if here and number not in books.veterans:
                    self._write("veterans", number, False)
                    books.veterans.add(number)
        for number in added:
            if number not in books.known:
                self._regroup(number, known=True)

    def _regroup(self, number: PodNumber, *, known: bool) -> None:
        books = self.books
        pod = books.pods.get(number)
        moves = pod is not None and pod.state is PodState.PENDING and number not in books.deleted
        if pod is not None and moves:
            books.lift(pod)
        self._write("known", number, not known)
        (books.known.add if known else books.known.discard)(number)
        if number in books.created:
            (books.met.add if known else books.met.discard)(number)
        if pod is not None and moves:
            books.place(pod)

    def _retire_veteran(self, number: PodNumber) -> None:
        """Nothing more is to be expected of an executor that had registered."""
        if number in self.books.veterans:
            self._write("veterans", number, True)
            self.books.veterans.remove(number)

    def join(self) -> None:
        """Created pods whose executors are known are no longer waited for (spec: allocation, 4.3)."""
        books = self.books
        for number in sorted(books.met):
            profile = books.created[number].profile
            returning = number in books.returning
            self.forget_created(number)
            self._write("joined", number, None)
            books.turns += 1
            books.joined[number] = Joined(profile, books.turns)
            books.joined_by[profile] = books.joined_by.get(profile, 0) + 1
            if returning:
                books.returning.add(number)

    # what the allocator does

    def create(self, number: PodNumber, profile: ProfileId, at: Millis) -> None:
        """A pod was created."""
        books = self.books
        if number in books.created:
            self.forget_created(number)
        self._write("created", number, None)
        books.created[number] = Created(profile, at)
        books.created_by[profile] = books.created_by.get(profile, 0) + 1
        if number in books.pods:
            books.returning.add(number)
        if number in books.known:
            books.met.add(number)

    def forget_created(self, number: PodNumber) -> None:
        """A created pod is waited for no longer."""
        books = self.books
        made = books.created.pop(number)
        self._write("created", number, made)
        _less(books.created_by, made.profile)
        books.returning.discard(number)
        books.met.discard(number)
        if number not in books.pods:
            self._retire_veteran(number)

    def forget_joined(self, number: PodNumber) -> None:
        """A joined pod counts no longer as such."""
        books = self.books
        joined = books.joined.pop(number)
        self._write("joined", number, joined)
        _less(books.joined_by, joined.profile)
        books.returning.discard(number)
        if number not in books.pods:
            self._retire_veteran(number)

    def retire(self, number: PodNumber) -> bool:
        """The delete of an excess pod is sent: it counts nowhere from now on. Whether it did until now."""
        books = self.books
        if number in books.deleted:
            return False
        pod = books.pods.get(number)
        if pod is not None:
            books.leave(pod)
        self._write("deleted", number, False)
        books.deleted.add(number)
        if pod is None:
            books.unseen.add(number)
        else:
            books.enter(pod)
        return True

    def reinstate(self, number: PodNumber) -> None:
        """Take ``retire`` back."""
        books = self.books
        pod = books.pods.get(number)
        if pod is not None:
            books.leave(pod)
        self._write("deleted", number, True)
        books.deleted.discard(number)
        books.unseen.discard(number)
        if pod is not None:
            books.enter(pod)

    # what a round reads

    def overdue(self, before: Millis) -> list[tuple[PodNumber, Created]]:
        """Created pods from before this time, oldest first."""
        found = []
        for number, made in self.books.created.items():  # in the order of their times, whatever that of their numbers
            if made.at >= before:
                break
            found.append((number, made))
        found.sort(key=_age)
        return found

    def census(self, profile: ProfileId, *, alone: bool) -> Census:
        """How many pods of a profile are in which state. ``alone``: it is the only one, so all pods count as its own."""
        books = self.books
        created, joined = books.created_by.get(profile, 0), books.joined_by.get(profile, 0)
        buckets = self.buckets(profile, alone=alone)
        return Census(
            sum(b.pods for b in buckets),
            sum(b.running for b in buckets),
            sum(len(b.pending) for b in buckets),
            sum(b.known_pending for b in buckets),
            created,
            joined,
        )

    def created_of(self, profile: ProfileId, before: Millis) -> Iterator[PodNumber]:
        """Created pods of a profile from before this time, oldest first."""
        return (number for number, made in self.overdue(before) if made.profile == profile)

    def ripe_of(self, profile: ProfileId, before: Millis, *, alone: bool) -> list[PodNumber]:
        """Unknown pending pods created before this time, in Spark's hash order."""
        ripe = [number for bucket in self.buckets(profile, alone=alone) for number in bucket.ripen(before)]
        return hash_order(ripe)

    def undated_of(self, profile: ProfileId, *, alone: bool) -> list[PodNumber]:
        """Unknown pending pods that do not say when they were created, in Spark's hash order. Costs the pending pods."""
        buckets = self.buckets(profile, alone=alone)
        return hash_order([number for b in buckets for number, at in b.pending.items() if at == _BEFORE_ALL])

    def unreadable(self) -> Pod | None:
        """The first pod, by number, that counts and whose profile label cannot be read. Costs all pods."""
        books = self.books
        found = [n for n, pod in books.pods.items() if n not in books.deleted and profile_of(pod) is None]
        return books.pods[min(found)] if found else None

    def buckets(self, profile: ProfileId, *, alone: bool) -> list[Bucket]:
        """The buckets whose pods count for a profile."""
        if not alone:
            bucket = self.books.buckets.get(profile)
            return [] if bucket is None else [bucket]
        # With at most one target Spark does not look at labels: all pods are of profile 0, none of any other.
        return list(self.books.buckets.values()) if profile == 0 else []

    def _write(self, table: str, key: object, before: object) -> None:
        self._journal.append((table, key, before))


def _age(item: tuple[PodNumber, Created]) -> tuple[Millis, PodNumber]:
    return item[1].at, item[0]


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


def _less(counts: dict[ProfileId, int], profile: ProfileId) -> None:
    if counts[profile] == 1:
        del counts[profile]
    else:
        counts[profile] -= 1


def profile_of(pod: Pod) -> ProfileId | None:
    """The profile that the pod's label names; None where Integer.parseInt would throw."""
    text = pod.manifest.labels.get(PROFILE_LABEL)
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > _INT_DIGITS:  # any number of leading zeros is fine with Java, a long text is not with int()
        digits = digits.lstrip("0") or "0"
        if len(digits) > _INT_DIGITS:
            return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return ProfileId(number) if -(2**31) <= number < 2**31 else None


def hash_order(numbers: Sequence[PodNumber]) -> list[PodNumber]:
    """The order in which a Scala mutable.HashMap[Long, _] with exactly these keys is walked (spec: allocation, 5)."""
    return bucket_order([(long_hash(number), number) for number in numbers])
