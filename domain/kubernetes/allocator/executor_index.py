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

``executor_index_step`` has the changes.

Source: ExecutorPodsAllocator.onNewSnapshots of Spark 4.3.0 (spec: allocation, sections 2, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from podtide.domain.base.tables import Field, Members, Table, Tables
from podtide.domain.base.units import ALWAYS, NEVER, Millis, ProfileId
from podtide.domain.base.versioned import Versioned
from podtide.domain.jvm.hash_order import bucket_order, long_hash
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.protocol.pods import PROFILE_LABEL, Pod, PodNumber, PodState

_BEFORE_ALL: Final[Millis] = -(2**63)

K = TypeVar("K")
"""The creation time of a pod that does not say when it was created: it counts as idle for long enough."""

_INT_DIGITS: Final = 10
"""Digits of the largest Int."""


class CreatedPod(NamedTuple):
    """A pod that was created: for whom and when."""

    profile: ProfileId
    at: Millis


class JoinedPod(NamedTuple):
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


class IndexTables(Tables):
    """The inside of an index. ``turns``: given out to ``joined``, ever.

    ``veterans``: registered once and no longer, and their pods are there or expected.
    """

    turns = Field(0)

    def __init__(self) -> None:
        self.pods: Table[PodNumber, Pod] = Table()
        self.known: Members[PodNumber] = Members()
        self.created: Table[PodNumber, CreatedPod] = Table()
        self.joined: Table[PodNumber, JoinedPod] = Table()
        self.deleted: Members[PodNumber] = Members()
        self.veterans: Members[PodNumber] = Members()
        super().__init__()

    def recount(self) -> None:
        """Derive the sums and the order of creation anew."""
        self.created.reorder(sorted(self.created.items(), key=_age))
        self.joined.reorder(sorted(self.joined.items(), key=_turn))
        self.buckets: dict[ProfileId | None, Bucket] = {}
        self.created_by: dict[ProfileId, int] = {}
        self.joined_by: dict[ProfileId, int] = {}
        self.claims: dict[str, int] = {}
        self.overrun: set[PodNumber] = set()  # deleted as excess, and running
        for pod in self.pods.values():
            self.enter(pod)
        for made in self.created.values():
            self.created_by[made.profile] = self.created_by.get(made.profile, 0) + 1
        for joined in self.joined.values():
            self.joined_by[joined.profile] = self.joined_by.get(joined.profile, 0) + 1
        # Deleted, and not in the last snapshot.
        self.unseen = {number for number in self.deleted if number not in self.pods}
        # Created or joined, though the last snapshot has such a pod.
        self.returning = {number for number in chain(self.created, self.joined) if number in self.pods}
        # Created, and known to the scheduler meanwhile.
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
            self.add_share(pod)
        elif pod.state is PodState.RUNNING and manifest.deleted_at is None:
            self.overrun.add(pod.number)

    def leave(self, pod: Pod) -> None:
        """Count a pod of the last snapshot no longer."""
        manifest = pod.manifest
        for claim in manifest.claims:
            less(self.claims, claim)
        if pod.number not in self.deleted:
            self.remove_share(pod)
        self.overrun.discard(pod.number)

    @staticmethod
    def counts_alike(before: Pod, pod: Pod) -> bool:
        """Whether a pod counts as the same one did before it changed; a pending one is always counted anew."""
        was, now_is = before.manifest, pod.manifest
        return (
            before.state is pod.state
            and pod.state is not PodState.PENDING
            and was.labels.get(PROFILE_LABEL) == now_is.labels.get(PROFILE_LABEL)
            and was.claims == now_is.claims
            and was.deleted_at == now_is.deleted_at
        )

    def add_share(self, pod: Pod) -> None:
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

    def remove_share(self, pod: Pod) -> None:
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


class ProfileCensus(NamedTuple):
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


class IndexedExecutor(NamedTuple):
    """How an executor counts. ``pod``: in the last snapshot. ``known``: to the scheduler."""

    created: CreatedPod | None
    joined: JoinedPod | None
    deleted: bool
    known: bool
    pod: Pod | None


class IndexCounts:
    """What a round reads: of an index, or of a step of it under way."""

    __slots__ = ()

    @property
    def _tables(self) -> IndexTables:
        raise NotImplementedError

    def standing(self, number: PodNumber) -> IndexedExecutor:
        """How an executor counts."""
        tables = self._tables
        return IndexedExecutor(
            tables.created.get(number),
            tables.joined.get(number),
            number in tables.deleted,
            number in tables.known,
            tables.pods.get(number),
        )

    def awaited(self, number: PodNumber) -> ProfileId | None:
        """The profile of a pod that is created or joined and not seen; None for any other."""
        tables = self._tables
        made = tables.created.get(number) or tables.joined.get(number)
        return None if made is None else made.profile

    def created(self) -> tuple[tuple[PodNumber, CreatedPod], ...]:
        """Created pods that are neither seen nor known, oldest first."""
        return tuple(sorted(self._tables.created.items(), key=_age))

    def joined(self) -> tuple[tuple[PodNumber, ProfileId], ...]:
        """Created pods that registered and were not seen, in the order in which that was noticed."""
        return tuple((number, joined.profile) for number, joined in self._tables.joined.items())

    def awaited_by_profile(self) -> dict[ProfileId, int]:
        """How many pods of each profile are created or joined and not seen. Costs a copy of the counts."""
        counts = dict(self._tables.created_by)
        for profile, count in self._tables.joined_by.items():
            counts[profile] = counts.get(profile, 0) + count
        return counts

    def oldest_creation(self) -> Millis | None:
        """When the pod was created that is awaited for the longest time."""
        return next((made.at for made in self._tables.created.values()), None)

    def first_excess(self, profile: ProfileId, idle_timeout_ms: Millis, *, alone: bool) -> Millis:
        """When the first excess pod of a profile is old enough to go."""
        first: Millis = NEVER
        for bucket in self._buckets(profile, alone=alone):
            if bucket.ripe:
                return ALWAYS
            young = bucket.first_young()
            if young is not None:
                first = min(first, young + idle_timeout_ms + 1)
        if self._tables.created_by.get(profile):
            made = next(made for made in self._tables.created.values() if made.profile == profile)
            first = min(first, made.at + idle_timeout_ms + 1)
        return first

    def overdue(self, before: Millis) -> list[tuple[PodNumber, CreatedPod]]:
        """Created pods from before this time, oldest first."""
        found = []
        for number, made in self._tables.created.items():  # in the order of their times, whatever that of their numbers
            if made.at >= before:
                break
            found.append((number, made))
        found.sort(key=_age)
        return found

    def census(self, profile: ProfileId, *, alone: bool) -> ProfileCensus:
        """How many pods of a profile are in which state. ``alone``: it is the only one, so all pods count as its own."""
        tables = self._tables
        created, joined = tables.created_by.get(profile, 0), tables.joined_by.get(profile, 0)
        buckets = self._buckets(profile, alone=alone)
        return ProfileCensus(
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
        ripe = [number for bucket in self._buckets(profile, alone=alone) for number in bucket.ripen(before)]
        return hash_order(ripe)

    def undated_of(self, profile: ProfileId, *, alone: bool) -> list[PodNumber]:
        """Unknown pending pods that do not say when they were created, in Spark's hash order. Costs the pending pods."""
        buckets = self._buckets(profile, alone=alone)
        return hash_order([number for b in buckets for number, at in b.pending.items() if at == _BEFORE_ALL])

    def unreadable(self) -> Pod | None:
        """The first pod, by number, that counts and whose profile label cannot be read. Costs all pods."""
        tables = self._tables
        found = [n for n, pod in tables.pods.items() if n not in tables.deleted and profile_of(pod) is None]
        return tables.pods[min(found)] if found else None

    def _buckets(self, profile: ProfileId, *, alone: bool) -> list[Bucket]:
        """The buckets whose pods count for a profile."""
        if not alone:
            bucket = self._tables.buckets.get(profile)
            return [] if bucket is None else [bucket]
        # With at most one target Spark does not look at labels: all pods are of profile 0, none of any other.
        return list(self._tables.buckets.values()) if profile == 0 else []


class ExecutorIndex(Versioned[IndexTables], IndexCounts):
    """The executors as the allocator counts them, at one moment. ``executor_index_step.IndexDraft`` steps it forward."""

    __slots__ = ()

    def deleted(self, number: PodNumber) -> bool:
        """Whether the pod's delete was sent and it still showed in the last snapshot."""
        return number in self._tables.deleted

    @property
    def pods(self) -> int:
        """Pods in the last snapshot."""
        return len(self._tables.pods)

    def deleted_numbers(self) -> frozenset[PodNumber]:
        """All pods whose delete was sent and that count nowhere since."""
        return frozenset(self._tables.deleted)

    def known_numbers(self) -> frozenset[PodNumber]:
        """All executors known to the scheduler."""
        return frozenset(self._tables.known)

    def snapshot(self) -> Mapping[PodNumber, Pod]:
        """The last snapshot. Costs a copy."""
        return dict(self._tables.pods)


def empty_index() -> ExecutorIndex:
    """No pod, no executor."""
    return ExecutorIndex(IndexTables())


def _age(item: tuple[PodNumber, CreatedPod]) -> tuple[Millis, PodNumber]:
    return item[1].at, item[0]


def _turn(item: tuple[PodNumber, JoinedPod]) -> int:
    return item[1].turn


def less(counts: dict[K, int], key: K) -> None:
    """Count one less of a key; a count of 0 is none."""
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1


def profile_of(pod: Pod) -> ProfileId | None:
    """The profile that the pod's label names; None where Integer.parseInt would throw."""
    text = pod.manifest.labels.get(PROFILE_LABEL)
    return None if text is None else _profile_named(text)


@lru_cache(maxsize=1_024)
def _profile_named(text: str) -> ProfileId | None:
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
