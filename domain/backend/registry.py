"""The scheduler backend's books: which executors are registered, and how each of them is on its way out.

An executor is *active* while it is registered and none of three things has happened to it: it was asked to go
(``killed``; True where its end is no failure), its connection was lost and nobody knows why yet (``lost``), or it is
decommissioning (``leaving``). Only active executors are offered tasks, and only they can be decommissioned.

When an executor is removed, the reason that counts is not always the given one: what we asked for ourselves comes
first, a decommission under way second (``effective_reason``).

A decommission that comes before its executor registers is *parked*. Spark keeps those in a Guava cache of bounded
size, off by default; which entry goes when it is full follows that cache: least recently written first, within
segments that a hash chooses once there are 20 places or more (``Parking``).

Source: CoarseGrainedSchedulerBackend and its DriverEndpoint, Spark 4.3.0 (spec: backend, section 1, core rules).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.jvm.values import string_hash
from podtide.domain.protocol.executor_commands import ExitReason

KILLED: Final = ExitReason("ExecutorKilled", "Executor killed by driver.")
"""ExecutorKilled, a singleton in Spark."""

DECOMMISSION_PREFIX: Final = "Executor decommission: "
"""ExecutorDecommission.msgPrefix."""


class Registered(NamedTuple):
    """An executor that the driver endpoint took in, at ``since``. ``address``: where it is heard from."""

    profile: ProfileId
    address: str
    host: str
    since: Millis


class Leaving(NamedTuple):
    """ExecutorDecommissionInfo: why an executor decommissions, and the worker's host if that goes too."""

    message: str
    host: str | None = None


class Parked(NamedTuple):
    """A decommission that waits for its executor to register."""

    info: Leaving
    adjust_target: bool
    triggered_by_executor: bool


def decommissioned(info: Leaving) -> ExitReason:
    """ExecutorDecommission."""
    return ExitReason("ExecutorDecommission", DECOMMISSION_PREFIX + info.message)


# ---------------------------------------------------------------------------------------------------------- parking


class _Segment(NamedTuple):
    """One segment of the cache: entries by the number of their writing; ``oldest`` is at or before the first."""

    numbers: PMap[ExecutorId, int] = pmap()
    entries: PMap[int, tuple[ExecutorId, Parked]] = pmap()
    oldest: int = 0
    next: int = 0

    def without(self, executor: ExecutorId) -> _Segment:
        number = self.numbers.get(executor)
        if number is None:
            return self
        return self._replace(numbers=self.numbers.remove(executor), entries=self.entries.remove(number))

    def written(self, executor: ExecutorId, entry: Parked, places: int) -> _Segment:
        if places <= 0:
            return self
        kept = self.without(executor)
        numbers, entries = kept.numbers.set(executor, kept.next), kept.entries.set(kept.next, (executor, entry))
        oldest = kept.oldest
        while len(numbers) > places:
            first = entries.get(oldest)
            if first is not None:
                numbers, entries = numbers.remove(first[0]), entries.remove(oldest)
            oldest += 1
        return _Segment(numbers, entries, oldest, kept.next + 1)


@dataclass(frozen=True, slots=True)
class Parking:
    """The decommissions that wait for their executors: a Guava cache with ``maximumSize(size)``."""

    size: int
    segments: tuple[_Segment, ...]

    def get(self, executor: ExecutorId) -> Parked | None:
        """What waits for this executor."""
        segment = self.segments[self._segment(executor)]
        number = segment.numbers.get(executor)
        return None if number is None else segment.entries[number][1]

    def put(self, executor: ExecutorId, entry: Parked) -> Parking:
        """Park; what was written longest ago goes if its segment is full."""
        index = self._segment(executor)
        places = self.size // len(self.segments) + (index < self.size % len(self.segments))
        return self._with(index, self.segments[index].written(executor, entry, places))

    def discard(self, executor: ExecutorId) -> Parking:
        """Forget what waits for this executor."""
        index = self._segment(executor)
        return self._with(index, self.segments[index].without(executor))

    def resized(self, size: int) -> Parking:
        """The same under another limit, written anew in order."""
        if size == self.size:
            return self
        parking = empty_parking(size)
        for segment in self.segments:
            for number in sorted(segment.entries):
                parking = parking.put(*segment.entries[number])
        return parking

    def _with(self, index: int, segment: _Segment) -> Parking:
        return replace(self, segments=(*self.segments[:index], segment, *self.segments[index + 1 :]))

    def _segment(self, executor: ExecutorId) -> int:
        bits = len(self.segments).bit_length() - 1
        return _guava_hash(executor) >> (32 - bits)  # no bits: no segment but the first


def empty_parking(size: int) -> Parking:
    """Nothing waits. As many segments as Guava makes: up to four, each with at least ten places."""
    count = 1
    while count < 4 and count * 20 <= size:
        count *= 2
    return Parking(max(0, size), (_Segment(),) * count)


def _guava_hash(text: str) -> int:
    """LocalCache.rehash of String.hashCode, unsigned."""
    h = string_hash(text) & 0xFFFFFFFF
    h = (h + ((h << 15) ^ 0xFFFFCD7D)) & 0xFFFFFFFF
    h ^= h >> 10
    h = (h + (h << 3)) & 0xFFFFFFFF
    h ^= h >> 6
    h = (h + (h << 2) + (h << 14)) & 0xFFFFFFFF
    return h ^ h >> 16


# ------------------------------------------------------------------------------------------------------------- books


@dataclass(frozen=True, slots=True)
class Registry:
    """The books at a moment.

    ``addresses`` and ``askers``: whose connection an address is (addressToExecutorId; execIDRequester for those that
    got an id and have not registered yet). ``busy``: executors with running tasks, by the task scheduler.
    ``excluded``: those that the allocator deleted (isDeleted). ``excluded_hosts``: the task scheduler's. ``by_host``:
    registered executors by host.
    """

    parking: Parking
    executors: PMap[ExecutorId, Registered] = field(default_factory=pmap)
    addresses: PMap[str, ExecutorId] = field(default_factory=pmap)
    askers: PMap[str, ExecutorId] = field(default_factory=pmap)
    killed: PMap[ExecutorId, bool] = field(default_factory=pmap)
    lost: PSet[ExecutorId] = field(default_factory=pset)
    leaving: PMap[ExecutorId, Leaving] = field(default_factory=pmap)
    busy: PSet[ExecutorId] = field(default_factory=pset)
    excluded: PSet[ExecutorId] = field(default_factory=pset)
    excluded_hosts: frozenset[str] = frozenset()
    by_host: PMap[str, PSet[ExecutorId]] = field(default_factory=pmap)

    def active(self, executor: ExecutorId) -> bool:
        """isExecutorActive."""
        return (
            executor in self.executors
            and executor not in self.killed
            and executor not in self.lost
            and executor not in self.leaving
        )

    def registered(self, executor: ExecutorId, data: Registered) -> Registry:
        """Take an executor in. An executor that nobody can hear from ("") has no address."""
        addresses = self.addresses.set(data.address, executor) if data.address else self.addresses
        by_host = self.by_host.set(data.host, self.by_host.get(data.host, pset()).add(executor))
        return replace(self, executors=self.executors.set(executor, data), addresses=addresses, by_host=by_host)

    def on_host(self, host: str) -> tuple[ExecutorId, ...] | None:
        """Executors of a host that tasks can run on, by number; None if there is none, not even one that decommissions.

        TaskSchedulerImpl.getExecutorsAliveOnHost. Spark walks a set there; this is the order of one message's parts.
        """
        executors = [executor for executor in self.by_host.get(host, ()) if executor not in self.lost]
        if not executors:
            return None
        alive = (executor for executor in executors if executor not in self.leaving)
        return tuple(sorted(alive, key=lambda executor: (len(executor), executor)))

    def named(self, address: str, executor: ExecutorId) -> Registry:
        """A pod at this address got an executor id."""
        return replace(self, askers=self.askers.set(address, executor)) if address else self

    def to_kill(self, executors: Iterable[ExecutorId], *, expected: bool) -> Registry:
        """They were asked to go. ``expected``: their end is no failure."""
        killed = self.killed.evolver()
        for executor in executors:
            killed[executor] = expected
        return replace(self, killed=killed.persistent())

    def decommissioning(self, executor: ExecutorId, info: Leaving) -> Registry:
        """It was told to finish what it does and go."""
        return replace(self, leaving=self.leaving.set(executor, info))

    def disconnected(self, executor: ExecutorId) -> Registry:
        """Its connection was lost; no tasks for it until somebody says why."""
        return replace(self, lost=self.lost.add(executor))

    def effective_reason(self, executor: ExecutorId, given: ExitReason) -> ExitReason:
        """Why a registered executor is gone, given what was reported."""
        if self.killed.get(executor):
            return KILLED
        info = self.leaving.get(executor)
        return given if info is None else decommissioned(info)

    def removed(self, executor: ExecutorId) -> Registry:
        """Strike a registered executor off every book."""
        data = self.executors[executor]
        left = self.by_host[data.host].remove(executor)
        return replace(
            self,
            executors=self.executors.remove(executor),
            by_host=self.by_host.set(data.host, left) if left else self.by_host.remove(data.host),
            addresses=self.addresses.discard(data.address),
            killed=self.killed.discard(executor),
            lost=self.lost.discard(executor),
            leaving=self.leaving.discard(executor),
            busy=self.busy.discard(executor),
        )

    def with_busy(self, executors: Iterable[ExecutorId], *, busy: bool) -> Registry:
        """The task scheduler runs tasks on these executors, or no longer."""
        if busy:
            return replace(self, busy=self.busy.update(executors))
        held = self.busy
        for executor in executors:
            held = held.discard(executor)
        return replace(self, busy=held)

    def with_excluded(self, added: Iterable[ExecutorId], gone: Iterable[ExecutorId]) -> Registry:
        """The allocator deleted some, and forgot others."""
        excluded = self.excluded
        for executor in gone:
            excluded = excluded.discard(executor)
        return replace(self, excluded=excluded.update(added))


def empty_registry(unknown_max: int) -> Registry:
    """Nobody has registered. ``unknown_max``: spark.scheduler.maxRetainedUnknownDecommissionExecutors."""
    return Registry(empty_parking(unknown_max))
