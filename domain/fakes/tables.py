"""What every fake is made of: tables of immutable rows, what lies ahead in time, and a shell that steps them.

A fake is ``base.versioned.Exclusive``: a step takes its tables over, and the version before it answers no more. Whoever
wants to go on twice from the same moment forks it. Nothing but tables and fields is written to, so a step that raises is
rolled back; what is derived (the heap of times, indexes, counts) is made anew from the tables then, and in a fork.

What lies ahead is a row of ``agenda`` under a serial number, which also orders what happens at the same millisecond; a
heap holds (time, serial). Cancelling deletes the row. Iteration never depends on the history of a dict: serials and
uids only grow, and where order matters among names it is sorted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol, Self, TypeVar

from podtide.domain.base.randomness import Stream, split
from podtide.domain.base.tables import Field, Serial, Table, Tables
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.base.versioned import Exclusive


class Ahead(Protocol):
    """Something that will happen."""

    @property
    def at(self) -> Millis:
        """When."""


D = TypeVar("D", bound=Ahead)
T = TypeVar("T", bound="FakeTables[Any]")


class FakeTables(Tables, Generic[D]):
    """The inside of a fake. ``began``: when it did; ``calm_ms``: from how long after that on no fault begins."""

    stopped = Field(False)

    def __init__(self, seed: Stream, began: Millis, calm_ms: Millis | None = None) -> None:
        self.seed = seed
        self.began = began
        self.calm_ms = calm_ms
        self.agenda: Table[int, D] = Table()
        self.serials = Serial()
        self.tally: Table[str, int] = Table()
        super().__init__()

    def recount(self) -> None:
        """Put every table into the order of its keys, and make the heap anew."""
        for table in vars(self).values():
            if isinstance(table, Table):
                table.reorder(sorted(table.items()))
        self.heap = [(due.at, serial) for serial, due in self.agenda.items()]
        heapq.heapify(self.heap)

    def count(self, name: str, by: int = 1) -> None:
        """Add to what the summary tells."""
        self.tally.put(name, self.tally.get(name, 0) + by)

    def stream(self, family: int, key: int) -> Stream:
        """The stream of one pod, node, call or event."""
        return split(split(self.seed, family), key)

    def faulty(self, now: Millis) -> bool:
        """Whether faults may begin."""
        return self.calm_ms is None or now - self.began < self.calm_ms

    # what lies ahead

    def schedule(self, due: D) -> int:
        """Put something into the agenda; returns its serial."""
        serial = self.serials.next()
        self.agenda.put(serial, due)
        heap = self.heap
        heapq.heappush(heap, (due.at, serial))
        if len(heap) > 2 * len(self.agenda) + 1_000:  # what was cancelled is dropped at last
            self.heap = [(due.at, serial) for serial, due in self.agenda.items()]
            heapq.heapify(self.heap)
        return serial

    def cancel(self, serial: int) -> None:
        """Take something out of the agenda, if it is still there."""
        if serial:
            self.agenda.drop(serial)

    def due(self) -> Millis:
        """When something lies ahead next."""
        heap, agenda = self.heap, self.agenda
        while heap:
            if heap[0][1] in agenda:
                return heap[0][0]
            heapq.heappop(heap)
        return NEVER

    def pop(self, until: Millis) -> Iterator[D]:
        """What lies ahead up to and including ``until``, in order, also what is put there meanwhile."""
        while (at := self.due()) <= until and at != NEVER:
            _, serial = heapq.heappop(self.heap)
            due = self.agenda.drop(serial)
            assert due is not None
            yield due


class FakeCluster(Exclusive[T]):
    """A cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ("now",)

    def __init__(self, tables: T, now: Millis) -> None:
        super().__init__(tables)
        self.now = now

    def fork(self) -> Self:
        """Return an independent cluster at the same moment. Costs one copy."""
        return type(self)(self._tables.fork(), self.now)

    def step_at(self, now: Millis) -> T:
        """The tables, to be changed within a ``with``. Raises ValueError when ``now`` has been lived through."""
        if now < self.now:
            raise ValueError(f"the cluster is at {self.now} already, {now} is before that")
        return self._tables

    def stepped(self, now: Millis) -> Self:
        """End a step: the cluster as its tables are now."""
        return self.hand_over(type(self)(self._tables, now))


def due(cluster: FakeCluster[Any]) -> Millis:
    """When something happens in the cluster next, whether or not anybody will hear of it (``NEVER``: nothing does)."""
    at: Millis = cluster._tables.due()
    return at


def tally(cluster: FakeCluster[Any]) -> Mapping[str, int]:
    """What has happened so far, counted by name ("pods.created", "calls.refused", "faults.429", ...), sorted."""
    return MappingProxyType(dict(sorted(cluster._tables.tally.items())))
