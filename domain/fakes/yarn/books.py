"""The inside of a YARN cluster: tables of immutable rows, what lies ahead in time, and indexes over both.

As in ``fakes.kubernetes.books``: nothing but a ``Table`` is written to, so a step's journal is as large as what it
touched, and an older cluster rebuilds itself. What is derived is made anew from the tables then.

Nodes have slots, in the order in which their heartbeats come within a second (each beats at a phase of its own, for ever).
So "which node with room beats next" is a question about an integer: ``fitting`` keeps for each shape of container the slots
with room for it as bits, and the next heartbeat of interest is the next bit. Nobody walks through nodes that have nothing
to give, and a node's heartbeat is an event only if it can change something.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Self, cast

from podtide.domain.base.randomness import Stream, split
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.base.versioned import JournalEntry
from podtide.domain.fakes.tables import Table
from podtide.domain.fakes.yarn.description import YarnDescription, places
from podtide.domain.fakes.yarn.rows import (
    AskRow,
    CallRow,
    ContainerRow,
    Due,
    Kind,
    LaunchRow,
    NeedRow,
    NodeRow,
    NodeState,
    Said,
)
from podtide.domain.protocol.containers import Completion, NodeReport, Resource

_APPLICATION: Final = re.compile(r"application_(\d{1,19})_(\d{1,9})")
_PHASES: Final = 9
_TABLES: Final = ("agenda", "containers", "nodes", "asks", "needs", "fresh", "done", "news", "releases", "excluding",
                  "excluded", "calls", "launches", "numbers", "tally")  # fmt: skip

ACTIVE: Final = frozenset({NodeState.RUNNING, NodeState.SILENT, NodeState.DECOMMISSIONING})
"""The states of the nodes that the resource manager counts."""


class Shape(NamedTuple):
    """A kind of container: how large, and on which nodes."""

    resource: Resource
    label: str


class NodePlan(NamedTuple):
    """What a node always is. ``phase``: when in each interval it beats; ``first``: it is there from the beginning."""

    row: int
    place: int
    host: str
    rack: str
    phase: Millis
    capacity: Resource
    label: str
    first: bool


class Plan:
    """What follows from a description and a seed alone: computed once, shared by all versions of a cluster."""

    def __init__(self, description: YarnDescription, seed: Stream, application_id: str) -> None:
        self.description = description
        self.seed = seed
        found = _APPLICATION.fullmatch(application_id)
        self.prefix = f"container_{found[1]}_{int(found[2]):04d}" if found else "container_0_0001"
        interval = description.manager.heartbeat_ms
        phases = split(seed, _PHASES)
        nodes = []
        for number, (row, place, first) in enumerate(places(description)):
            group = description.nodes[row]
            phase = split(phases, number) % interval
            nodes.append(
                NodePlan(row, place, group.host(place), group.rack(place), phase, group.capacity, group.label, first)
            )
        self.nodes = tuple(sorted(nodes, key=_beat))
        self.phases = [node.phase for node in self.nodes]
        self.slots: Mapping[str, int] = {node.host: slot for slot, node in enumerate(self.nodes)}
        by_row: list[list[int]] = [[] for _ in description.nodes]
        for slot in sorted(range(len(self.nodes)), key=lambda slot: self.nodes[slot].place):
            by_row[self.nodes[slot].row].append(slot)
        self.rows = tuple(map(tuple, by_row))

    def fits(self, resource: Resource, room: Resource) -> bool:
        """Whether a container goes in there, as the cluster's calculator sees it."""
        if self.description.manager.dominant:
            return resource.fits(room)
        return resource.memory_mib <= room.memory_mib


def _beat(node: NodePlan) -> tuple[Millis, int, int]:
    return node.phase, node.row, node.place


class Books:
    """The mutable inside of a YARN cluster."""

    def __init__(self, plan: Plan, began: Millis) -> None:
        self.plan = plan
        self.began = began
        self.agenda: Table[int, Due] = Table()
        self.containers: Table[int, ContainerRow] = Table()
        self.nodes: Table[int, NodeRow] = Table()
        self.asks: Table[int, AskRow] = Table()
        self.needs: Table[int, NeedRow] = Table()
        self.fresh: Table[int, int] = Table()
        self.done: Table[int, Completion] = Table()
        self.news: Table[int, NodeReport] = Table()
        self.releases: Table[int, int] = Table()
        self.excluding: Table[str, int] = Table()
        self.excluded: Table[str, int] = Table()
        self.calls: Table[int, CallRow] = Table()
        self.launches: Table[int, LaunchRow] = Table()
        self.numbers: Table[str, int] = Table()
        self.tally: Table[str, int] = Table()
        self.said: list[Said] = []
        self.stirred = False
        self.recount()

    # versions

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """Every table, in one order."""
        return tuple(getattr(self, name) for name in _TABLES)

    def copy(self) -> Self:
        """Return independent books with the same rows; what is derived is made by ``recount``."""
        twin = type(self).__new__(type(self))
        twin.plan, twin.began, twin.said, twin.stirred = self.plan, self.began, [], False
        for name in _TABLES:
            setattr(twin, name, Table(dict(getattr(self, name).rows)))
        return twin

    def journal(self) -> list[JournalEntry]:
        """What the step overwrote; the next step begins."""
        entries: list[JournalEntry] = []
        for place, table in enumerate(self.tables()):
            if table.old:
                entries.append((place, table.old))
                table.old = {}
        return entries

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one step back."""
        tables = self.tables()
        for place, old in journal:
            tables[cast(int, place)].undo(cast("dict[Any, Any]", old))

    def recount(self) -> None:
        """Make the heap, the indexes and the sums anew."""
        for table in self.tables():
            table.sort()
        self.heap = [(due.at, serial) for serial, due in self.agenda.rows.items()]
        heapq.heapify(self.heap)
        self.aboard: dict[int, dict[int, None]] = {}
        self.held: dict[int, dict[int, None]] = {}
        self.speakers: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        self.used_mib = 0
        self.used_vcores = 0
        for row in self.containers.rows.values():
            self._enter(row)
        self.fitting: dict[Shape, int] = {}
        self.total_mib = 0
        self.total_vcores = 0
        self.active = 0
        for node in self.nodes.rows.values():
            self._count_node(node, 1)
        self.barred = 0
        for host in self.excluded.rows:
            self.barred |= self._bit(host)

    def clear(self, *names: str) -> None:
        """Empty these tables."""
        for name in names:
            table: Table[Any, Any] = getattr(self, name)
            for key in list(table.rows):
                table.drop(key)

    # numbers

    def number(self, name: str) -> int:
        """A counter or flag; 0 at first."""
        return self.numbers.rows.get(name, 0)

    def next(self, name: str) -> int:
        """Count one up; returns the new count."""
        count = self.numbers.rows.get(name, 0) + 1
        self.numbers.put(name, count)
        return count

    def count(self, name: str, by: int = 1) -> None:
        """Add to what the summary tells."""
        if by:
            self.tally.put(name, self.tally.rows.get(name, 0) + by)

    def stream(self, family: int, key: int) -> Stream:
        """The stream of one container, node, call or launch."""
        return split(split(self.plan.seed, family), key)

    def faulty(self, now: Millis) -> bool:
        """Whether faults may begin."""
        calm = self.plan.description.calm_ms
        return calm is None or now - self.began < calm

    # what lies ahead

    def later(self, at: Millis, kind: Kind, a: int = 0, b: int = 0, say: Said | None = None) -> int:
        """Put something into the agenda; returns its serial."""
        serial = self.next("agenda")
        self.agenda.put(serial, Due(at, kind, a, b, say))
        heap = self.heap
        heapq.heappush(heap, (at, serial))
        if len(heap) > 2 * len(self.agenda.rows) + 1_000:  # what was cancelled is dropped at last
            self.heap = [(due.at, serial) for serial, due in self.agenda.rows.items()]
            heapq.heapify(self.heap)
        return serial

    def say(self, what: Said) -> None:
        """Something will reach the application, at its time."""
        self.later(what.at, Kind.SAY, say=what)

    def cancel(self, serial: int) -> None:
        """Take something out of the agenda, if it is still there."""
        if serial:
            self.agenda.drop(serial)

    def due(self) -> Millis:
        """When something lies ahead next."""
        heap, agenda = self.heap, self.agenda.rows
        while heap:
            if heap[0][1] in agenda:
                return heap[0][0]
            heapq.heappop(heap)
        return NEVER

    def pop(self, until: Millis) -> Iterator[Due]:
        """What lies ahead up to and including ``until``, in order, also what is put there meanwhile."""
        while (at := self.due()) <= until and at != NEVER:
            _, serial = heapq.heappop(self.heap)
            due = self.agenda.drop(serial)
            assert due is not None
            yield due

    def stir(self) -> None:
        """Something changed that the scheduler may act on: it looks again when this moment's event is over."""
        self.stirred = True

    # heartbeats of nodes

    def beat_after(self, slot: int, now: Millis) -> Millis:
        """When a node beats next, later than ``now``."""
        interval = self.plan.description.manager.heartbeat_ms
        first = self.began + self.plan.phases[slot]
        return first + ((now - first) // interval + 1) * interval

    def next_beat(self, slots: int, now: Millis) -> tuple[Millis, int]:
        """Of these slots (a bit for each, at least one) which beats next and when.

        Later than ``now``; at ``now`` only behind the slot that the scheduler has just been at.
        """
        interval = self.plan.description.manager.heartbeat_ms
        passed = (now - self.began) % interval
        if self.number("beat.at") == now and self.number("beats"):
            first = self.number("beat.slot") + 1
        else:
            first = bisect_right(self.plan.phases, passed)
        ahead = slots >> first
        if ahead:
            slot = first + (ahead & -ahead).bit_length() - 1
            return now - passed + self.plan.phases[slot], slot
        slot = (slots & -slots).bit_length() - 1
        return now - passed + interval + self.plan.phases[slot], slot

    def room_for(self, shape: Shape) -> int:
        """The slots of the nodes that have room for such a container, as bits."""
        slots = self.fitting.get(shape)
        if slots is None:
            fine = bytearray(len(self.plan.nodes) // 8 + 1)
            for node in self.nodes.rows.values():
                if self.has_room(node, shape):
                    fine[node.slot >> 3] |= 1 << (node.slot & 7)
            slots = self.fitting[shape] = int.from_bytes(fine, "little")
        return slots

    def has_room(self, node: NodeRow, shape: Shape) -> bool:
        """Whether a node takes such a container."""
        plan = self.plan
        if node.state is not NodeState.RUNNING or plan.nodes[node.slot].label != shape.label:
            return False
        return plan.fits(shape.resource, node.room)

    def put_node(self, node: NodeRow) -> None:
        """Write a node and keep the indexes."""
        old = self.nodes.rows.get(node.slot)
        self.nodes.put(node.slot, node)
        if old is not None:
            if old.state is node.state and old.room == node.room:
                return
            self._count_node(old, -1)
        self._count_node(node, 1)
        bit = 1 << node.slot
        for shape, slots in self.fitting.items():
            fits = self.has_room(node, shape)
            if fits != bool(slots & bit):
                self.fitting[shape] = slots ^ bit

    def _count_node(self, node: NodeRow, by: int) -> None:
        if node.state in ACTIVE:
            self.active += by
            capacity = self.plan.nodes[node.slot].capacity
            if node.state is NodeState.DECOMMISSIONING:  # it counts for what is still taken of it
                capacity = capacity.plus(node.room, -1)
            self.total_mib += by * capacity.memory_mib
            self.total_vcores += by * capacity.vcores

    def exclude(self, host: str, *, there: bool) -> None:
        """The resource manager is told that the application does not want a host, or wants it again."""
        bit = self._bit(host)
        if there:
            self.excluded.put(host, 1)
            self.barred |= bit
        else:
            self.excluded.drop(host)
            self.barred &= ~bit

    def _bit(self, host: str) -> int:
        slot = self.plan.slots.get(host)
        return 0 if slot is None else 1 << slot

    # containers

    def put_container(self, row: ContainerRow) -> None:
        """Write a container and keep the indexes."""
        old = self.containers.rows.get(row.number)
        self.containers.put(row.number, row)
        if old is None:
            self._enter(row)
            return
        if row.ended and not old.ended:
            self._release(old)
        if row.executor != old.executor and row.executor:
            self.speakers[row.executor] = row.number

    def drop_container(self, row: ContainerRow) -> None:
        """Forget a container: it has lived its life."""
        old = self.containers.drop(row.number)
        assert old is not None
        self.cancel(old.timer)
        if not old.ended:
            self._release(old)
        here = self.aboard[old.slot]
        del here[old.number]
        if not here:
            del self.aboard[old.slot]
        del self.ids[old.id]
        if self.speakers.get(old.executor) == old.number:
            del self.speakers[old.executor]

    def _enter(self, row: ContainerRow) -> None:
        self.ids[row.id] = row.number
        self.aboard.setdefault(row.slot, {})[row.number] = None
        if row.executor:
            self.speakers[row.executor] = row.number
        if not row.ended:
            self.held.setdefault(row.profile, {})[row.number] = None
            self.used_mib += row.resource.memory_mib
            self.used_vcores += row.resource.vcores

    def _release(self, row: ContainerRow) -> None:
        """It takes nothing of the queue any more."""
        mine = self.held[row.profile]
        del mine[row.number]
        if not mine:
            del self.held[row.profile]
        self.used_mib -= row.resource.memory_mib
        self.used_vcores -= row.resource.vcores

    def here(self, slot: int) -> list[ContainerRow]:
        """The containers on a node, oldest first."""
        rows = self.containers.rows
        return [rows[number] for number in sorted(self.aboard.get(slot, ()))]

    def by_id(self, container: str) -> ContainerRow | None:
        """A container by its name, if there still is one."""
        return self.containers.rows.get(self.ids.get(container, 0))
