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
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from podtide.domain.base.randomness import Stream, draw_active_ms, split
from podtide.domain.base.tables import Field, Serial, Table, Tables
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.base.versioned import Exclusive
from podtide.domain.fakes.windows import Window

K = TypeVar("K", bound=IntEnum)
S = TypeVar("S")
H = TypeVar("H", bound=Hashable)
T = TypeVar("T", bound="FakeTables[Any, Any]")


class AgendaRow(NamedTuple, Generic[K, S]):
    """Something that lies ahead. ``a``, ``b``: whom it concerns, by its kind. ``say``: what is heard of the fake then."""

    at: Millis
    kind: K
    a: int = 0
    b: int = 0
    say: S | None = None


class FakeTables(Tables, Generic[K, S]):
    """The inside of a fake. ``began``: when it did; ``calm_ms``: from how long after that on no fault begins."""

    stopped = Field(False)

    def __init__(self, seed: Stream, began: Millis, calm_ms: Millis | None = None) -> None:
        self.seed = seed
        self.began = began
        self.calm_ms = calm_ms
        self.agenda: Table[int, AgendaRow[K, S]] = Table()
        self.serials = Serial()
        self.tally: Table[str, int] = Table()
        super().__init__()

    def recount(self) -> None:
        """Put every table into the order of its keys, and make the heap anew."""
        for table in vars(self).values():
            if isinstance(table, Table):
                table.reorder(sorted(table.items()))
        self._heap_anew()
        self.stimuli: list[S] = []

    def _heap_anew(self) -> None:
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

    def later(self, at: Millis, kind: K, a: int = 0, b: int = 0, say: S | None = None) -> int:
        """Put something into the agenda; returns its serial."""
        serial = self.serials.next()
        self.agenda.put(serial, AgendaRow(at, kind, a, b, say))
        heap = self.heap
        heapq.heappush(heap, (at, serial))
        if len(heap) > 2 * len(self.agenda) + 1_000:  # what was cancelled is dropped at last
            self._heap_anew()
        return serial

    def later_at_rate(
        self, rng: Stream, per_hour: float, during: Window, now: Millis, kind: K, a: int = 0, b: int = 0
    ) -> None:
        """Put a fault that comes at a rate into the agenda, unless faults have ended by then."""
        wait, _ = draw_active_ms(rng, per_hour)
        at = during.after(now - self.began, max(1, wait))
        if at is not None and self.faulty(self.began + at):
            self.later(self.began + at, kind, a, b)

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

    def pop(self, until: Millis) -> Iterator[AgendaRow[K, S]]:
        """What lies ahead up to and including ``until``, in order, also what is put there meanwhile."""
        while (at := self.due()) <= until and at != NEVER:
            _, serial = heapq.heappop(self.heap)
            due = self.agenda.drop(serial)
            assert due is not None
            yield due


def discard_member(index: dict[H, dict[int, Any]], key: H, member: int) -> None:
    """Take a member out of an index; a key without members goes."""
    members = index[key]
    del members[member]
    if not members:
        del index[key]


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

    def lived(self, now: Millis, happen: Callable[[T, AgendaRow[Any, Any]], None]) -> tuple[Self, tuple[Any, ...]]:
        """``advance``: the cluster when time has passed up to and including ``now``, and what was heard of it, in order.

        Raises ValueError when ``now`` is before what has been lived through.
        """
        with self.step_at(now) as tables:
            if tables.due() > now:
                return (self if now == self.now else self.stepped(now)), ()
            stimuli = tables.stimuli = []
            for happening in tables.pop(now):
                happen(tables, happening)
            return self.stepped(now), tuple(stimuli)


def due(cluster: FakeCluster[Any]) -> Millis:
    """When something happens in the cluster next, whether or not anybody will hear of it (``NEVER``: nothing does)."""
    at: Millis = cluster._tables.due()
    return at


def tally(cluster: FakeCluster[Any]) -> Mapping[str, int]:
    """What has happened so far, counted by name ("pods.created", "calls.refused", "faults.429", ...), sorted."""
    return MappingProxyType(dict(sorted(cluster._tables.tally.items())))
