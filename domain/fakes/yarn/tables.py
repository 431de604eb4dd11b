"""The inside of a YARN cluster: tables of immutable rows, what lies ahead in time, and indexes over both.

The tables and the agenda are those of every fake (``fakes.tables``).

Nodes have slots, in the order in which their heartbeats come within a second (each beats at a phase of its own, for ever).
So "which node with room beats next" is a question about an integer: ``fitting`` keeps for each shape of container the slots
with room for it as bits, and the next heartbeat of interest is the next bit. Nobody walks through nodes that have nothing
to give, and a node's heartbeat is an event only if it can change something.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

from podtide.domain.base.randomness import Stream, split
from podtide.domain.base.tables import Field, Serial, Table
from podtide.domain.base.units import Millis, next_on_grid
from podtide.domain.fakes.tables import FakeTables, discard_member
from podtide.domain.fakes.yarn.description import YarnDescription, places
from podtide.domain.fakes.yarn.rows import (
    AllocateCallRow,
    AskRow,
    ClusterStimulus,
    ContainerRow,
    LaunchRow,
    NeedRow,
    NodeState,
    YarnAgenda,
    YarnNodeRow,
)
from podtide.domain.protocol.containers import Completion, NodeReport, Resource

_APPLICATION: Final = re.compile(r"application_(\d{1,19})_(\d{1,9})")
_PHASES: Final = 9

ACTIVE: Final = frozenset({NodeState.RUNNING, NodeState.SILENT, NodeState.DECOMMISSIONING})
"""The states of the nodes that the resource manager counts."""


class YarnShape(NamedTuple):
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


class YarnPlan:
    """What follows from a description and a seed alone: computed once, shared by all versions of a cluster."""

    def __init__(
        self, description: YarnDescription, seed: Stream, application_id: str, heartbeat_ms: Millis = 10_000
    ) -> None:
        self.description = description
        self.seed = seed
        self.heartbeat_ms = heartbeat_ms
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
        self.nodes = tuple(sorted(nodes, key=lambda node: (node.phase, node.row, node.place)))
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


class YarnTables(FakeTables[YarnAgenda, ClusterStimulus]):
    """The inside of a fake YARN cluster.

    ``master``: an application master is registered; ``attempt``: its number; ``containers_before``: how many containers
    there were before it. ``beat_timer``, ``preempt_timer``: what lies ahead of these (0: nothing). ``last_beat``: the
    heartbeat that the scheduler was at last, its time and slot.
    """

    master = Field(False)
    attempt = Field(0)
    containers_before = Field(0)
    beat_timer = Field(0)
    preempt_timer = Field(0)
    last_beat: Field[tuple[Millis, int] | None] = Field(None)

    def __init__(self, plan: YarnPlan, began: Millis) -> None:
        self.plan = plan
        self.containers: Table[int, ContainerRow] = Table()
        self.nodes: Table[int, YarnNodeRow] = Table()
        self.asks: Table[int, AskRow] = Table()
        self.needs: Table[int, NeedRow] = Table()
        self.fresh: Table[int, int] = Table()
        self.done: Table[int, Completion] = Table()
        self.news: Table[int, NodeReport] = Table()
        self.releases: Table[int, int] = Table()
        self.excluding: Table[str, int] = Table()
        self.excluded: Table[str, int] = Table()
        self.calls: Table[int, AllocateCallRow] = Table()
        self.launches: Table[int, LaunchRow] = Table()
        self.container_numbers, self.call_numbers, self.launch_numbers = Serial(), Serial(), Serial()
        self.completion_numbers, self.release_numbers, self.report_numbers = Serial(), Serial(), Serial()
        self.offer_draws = Serial()
        super().__init__(plan.seed, began, plan.description.calm_ms)

    def recount(self) -> None:
        """Make the heap, the indexes and the sums anew."""
        super().recount()
        self.stirred = False
        self.aboard: dict[int, dict[int, None]] = {}
        self.held: dict[int, dict[int, None]] = {}
        self.speakers: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        self.used_mib = 0
        self.used_vcores = 0
        for row in self.containers.values():
            self._enter(row)
        self.fitting: dict[YarnShape, int] = {}
        self.total_mib = 0
        self.total_vcores = 0
        self.active = 0
        for node in self.nodes.values():
            self._count_node(node, 1)
        self.barred = 0
        for host in self.excluded:
            self.barred |= self._bit(host)

    def count(self, name: str, by: int = 1) -> None:
        """Add to what the summary tells; a name of which nothing happened is not in it."""
        if by:
            super().count(name, by)

    def say(self, what: ClusterStimulus) -> None:
        """Something will reach the application, at its time."""
        self.later(what.at, YarnAgenda.SAY, say=what)

    def stir(self) -> None:
        """Something changed that the scheduler may act on: it looks again when this moment's event is over."""
        self.stirred = True

    # heartbeats of nodes

    def beat_after(self, slot: int, now: Millis) -> Millis:
        """When a node beats next, later than ``now``."""
        interval = self.plan.description.manager.heartbeat_ms
        first = self.began + self.plan.phases[slot]
        return next_on_grid(first, interval, now + 1)

    def next_beat(self, slots: int, now: Millis) -> tuple[Millis, int]:
        """Of these slots (a bit for each, at least one) which beats next and when.

        Later than ``now``; at ``now`` only behind the slot that the scheduler has just been at.
        """
        interval = self.plan.description.manager.heartbeat_ms
        passed = (now - self.began) % interval
        if self.last_beat is not None and self.last_beat[0] == now:
            first = self.last_beat[1] + 1
        else:
            first = bisect_right(self.plan.phases, passed)
        ahead = slots >> first
        if ahead:
            slot = first + (ahead & -ahead).bit_length() - 1
            return now - passed + self.plan.phases[slot], slot
        slot = (slots & -slots).bit_length() - 1
        return now - passed + interval + self.plan.phases[slot], slot

    def room_for(self, shape: YarnShape) -> int:
        """The slots of the nodes that have room for such a container, as bits."""
        slots = self.fitting.get(shape)
        if slots is None:
            fine = bytearray(len(self.plan.nodes) // 8 + 1)
            for node in self.nodes.values():
                if self.has_room(node, shape):
                    fine[node.slot >> 3] |= 1 << (node.slot & 7)
            slots = self.fitting[shape] = int.from_bytes(fine, "little")
        return slots

    def has_room(self, node: YarnNodeRow, shape: YarnShape) -> bool:
        """Whether a node takes such a container."""
        plan = self.plan
        if node.state is not NodeState.RUNNING or plan.nodes[node.slot].label != shape.label:
            return False
        return plan.fits(shape.resource, node.room)

    def put_node(self, node: YarnNodeRow) -> None:
        """Write a node and keep the indexes."""
        old = self.nodes.get(node.slot)
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

    def _count_node(self, node: YarnNodeRow, by: int) -> None:
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
        old = self.containers.get(row.number)
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
        discard_member(self.aboard, old.slot, old.number)
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
        discard_member(self.held, row.profile, row.number)
        self.used_mib -= row.resource.memory_mib
        self.used_vcores -= row.resource.vcores

    def here(self, slot: int) -> list[ContainerRow]:
        """The containers on a node, oldest first."""
        rows = self.containers
        return [rows[number] for number in sorted(self.aboard.get(slot, ()))]

    def by_id(self, container: str) -> ContainerRow | None:
        """A container by its name, if there still is one."""
        return self.containers.get(self.ids.get(container, 0))
