"""The scheduler of a fake resource manager, after CapacityScheduler: who is given what, at whose heartbeat.

A node is given containers when its NodeManager beats. The profiles are asked in the order of their priorities, the
lowest number first, and for each: a container whose host was named goes there at once; one whose rack was named,
after ``node_delay`` heartbeats that were let pass; anywhere, after as many as the containers wanted times the share
of the cluster that is named (no more than there are nodes), or at once where nobody named anything. Locality given
begins the waiting anew. Without locality a node gets only ``anywhere_per_heartbeat`` at once, so that they spread.
Where the queue has no room for the first profile that wants something, nobody behind it gets anything.

Not modelled: reservations (a node with too little room is passed by) and other applications on the nodes themselves.
Source: LeafQueue and RegularContainerAllocator of Hadoop 3.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import chance, draw, split
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.fakes.windows import Window
from podtide.domain.fakes.yarn.description import NO_MISTAKES
from podtide.domain.fakes.yarn.resource_requests import give, wanted
from podtide.domain.fakes.yarn.rows import ContainerRow, NeedRow, YarnAgenda
from podtide.domain.fakes.yarn.tables import YarnShape, YarnTables
from podtide.domain.protocol.containers import ANY_HOST, ContainerId, Resource

CONTAINERS: Final = 1
_GIFTS: Final = 2
_RPC: Final = 1

UNKNOWN_PRIORITY: Final = ProfileId(1_000_000)
"""A priority with which nobody asks."""

# the queue


def limit(tables: YarnTables, now: Millis) -> tuple[int, int]:
    """How much of the queue is for this application now: memory in MiB, processors."""
    queue = tables.plan.description.queue
    memory = tables.total_mib if queue.memory_mib is None else queue.memory_mib
    cores = tables.total_vcores if queue.vcores is None else queue.vcores
    for tenant in queue.tenants:
        if tenant.during.active(now - tables.began):
            memory -= tenant.memory_mib
            cores -= tenant.vcores
    return max(0, memory), max(0, cores)


def headroom(tables: YarnTables, now: Millis) -> Resource:
    """What the queue has left."""
    memory, cores = limit(tables, now)
    return Resource(max(0, memory - tables.used_mib), max(0, cores - tables.used_vcores))


def above(tables: YarnTables, now: Millis) -> bool:
    """Whether the application has more than it may have."""
    memory, cores = limit(tables, now)
    dominant = tables.plan.description.manager.dominant
    return tables.used_mib > memory or (dominant and tables.used_vcores > cores)


def queue_has_room(tables: YarnTables, size: Resource, now: Millis) -> bool:
    """Whether the queue has room for one such container."""
    left = headroom(tables, now)
    fits = size.memory_mib <= left.memory_mib
    return fits and (size.vcores <= left.vcores or not tables.plan.description.manager.dominant)


def next_change(window: Window, t: Millis) -> Millis | None:
    """When a time opens or closes next, later than ``t``; None where it does not any more."""
    if t < window.from_ms:
        return window.from_ms
    if window.until_ms is None:
        return None
    if window.every_ms is None:
        return window.until_ms if t < window.until_ms else None
    length = window.until_ms - window.from_ms
    begun = t - (t - window.from_ms) % window.every_ms
    return begun + (length if t < begun + length else window.every_ms)


def watch_queue(tables: YarnTables, now: Millis) -> None:
    """Tenants come and go: look again when the next one does."""
    since = now - tables.began
    changes = [next_change(tenant.during, since) for tenant in tables.plan.description.queue.tenants]
    times = [at for at in changes if at is not None]
    if times:
        tables.later(tables.began + min(times), YarnAgenda.QUEUE)


# heartbeats


def look(tables: YarnTables, now: Millis) -> None:
    """Something changed: find the next heartbeat at which somebody may be given something."""
    tables.stirred = False
    slots = _slots(tables, now)
    timer = tables.beat_timer
    waiting = tables.agenda.get(timer)
    if not slots:
        if waiting is not None:
            tables.cancel(timer)
        return
    at, slot = tables.next_beat(slots, now)
    if waiting is not None:
        if waiting.at == at and waiting.a == slot:
            return
        tables.cancel(timer)
    tables.beat_timer = tables.later(at, YarnAgenda.BEAT, slot)


def _slots(tables: YarnTables, now: Millis) -> int:
    """The nodes at whose heartbeat somebody may be given something, as bits."""
    slots = 0
    for _, need in _hungry(tables):
        if not queue_has_room(tables, need.resource, now):
            break
        slots |= tables.room_for(YarnShape(need.resource, need.label)) & ~tables.barred
    return slots


def _hungry(tables: YarnTables) -> list[tuple[int, NeedRow]]:
    """The profiles that want something, in the order of their priorities."""
    return [(profile, need) for profile, need in sorted(tables.needs.items()) if wanted(need)]


def beat(tables: YarnTables, slot: int, now: Millis) -> None:
    """A node beats: it is given what it may be given."""
    tables.last_beat = (now, slot)
    anywhere = tables.plan.description.manager.anywhere_per_heartbeat
    while anywhere > 0:
        local = _offer(tables, slot, now)
        if local is None:
            break
        anywhere -= not local
    tables.stir()


def _offer(tables: YarnTables, slot: int, now: Millis) -> bool | None:
    """Give one container: whether its host or rack had been named; None where nobody may be given one."""
    node = tables.plan.nodes[slot]
    for profile, need in _hungry(tables):
        if not queue_has_room(tables, need.resource, now):
            return None
        if not _open(tables, slot, YarnShape(need.resource, need.label)):
            continue
        missed = need.missed + 1
        tables.needs.put(profile, need._replace(missed=missed))
        on_rack = wanted(need, node.rack) > 0
        if on_rack and wanted(need, node.host):
            _give(tables, profile, slot, (node.host, node.rack, ANY_HOST), now)
            return True
        if on_rack and missed > _node_delay(tables):
            _give(tables, profile, slot, (node.rack, ANY_HOST), now)
            return True
        if missed > _anywhere_delay(tables, need):
            _give(tables, profile, slot, (ANY_HOST,), now)
            return False
    return None


def _node_delay(tables: YarnTables) -> int:
    return min(tables.active, tables.plan.description.manager.node_delay)


def _anywhere_delay(tables: YarnTables, need: NeedRow) -> float:
    """How many heartbeats are let pass before a container may be anywhere."""
    if not need.places:
        return 0
    rack_delay = tables.plan.description.manager.rack_delay
    if rack_delay >= 0:
        return _node_delay(tables) + min(rack_delay, tables.active)
    share = min(1.0, need.places / tables.active)
    return min(float(tables.active), wanted(need) * share)


def _give(tables: YarnTables, profile: int, slot: int, locations: tuple[str, ...], now: Millis) -> None:
    """A container is given; what locality it has is counted down with it."""
    need = tables.needs[profile]
    missed = 0 if len(locations) > 1 else need.missed
    tables.needs.put(profile, give(need, locations)._replace(missed=missed))
    tables.count(f"containers.{_LEVELS[len(locations)]}")
    size, priority, mine = need.resource, ProfileId(profile), ProfileId(profile)
    mistakes = tables.plan.description.manager.mistakes
    if mistakes == NO_MISTAKES or not mistakes.during.active(now - tables.began) or not tables.faulty(now):
        _allocate(tables, mine, priority, size, slot)
        return
    rng = tables.stream(_GIFTS, tables.offer_draws.next())
    surplus, rng = chance(rng, mistakes.surplus)
    unknown, rng = chance(rng, mistakes.unknown)
    small, rng = chance(rng, mistakes.small)
    if unknown:
        tables.count("mistakes.unknown priority")
        priority = UNKNOWN_PRIORITY
    if small:
        tables.count("mistakes.too small")
        size = size._replace(memory_mib=max(1, size.memory_mib // 2))
    _allocate(tables, mine, priority, size, slot)
    if (
        surplus
        and _open(tables, slot, YarnShape(need.resource, need.label))
        and queue_has_room(tables, need.resource, now)
    ):
        tables.count("mistakes.surplus")
        _allocate(tables, mine, mine, need.resource, slot)


_LEVELS: Final = {3: "on their host", 2: "on their rack", 1: "anywhere"}


def _open(tables: YarnTables, slot: int, shape: YarnShape) -> bool:
    """Whether a node has room for such a container and the application wants it."""
    return tables.has_room(tables.nodes[slot], shape) and tables.plan.nodes[slot].host not in tables.excluded


def _allocate(tables: YarnTables, profile: ProfileId, priority: ProfileId, size: Resource, slot: int) -> None:
    """A container begins its life: it has room, and the application will hear of it."""
    number = tables.container_numbers.next()
    rng = tables.stream(CONTAINERS, number)
    rpc, _ = draw(split(rng, _RPC), tables.plan.description.executors.rpc)
    # An attempt's container 1 is its application master's.
    place = number - tables.containers_before + 1
    name = ContainerId(f"{tables.plan.prefix}_{tables.attempt:02d}_{place:06d}")
    node = tables.nodes[slot]
    tables.put_node(node._replace(room=node.room.plus(size, -1)))
    tables.put_container(ContainerRow(number, name, slot, profile, priority, size, rng, rpc_ms=rpc))
    tables.fresh.put(number, 1)
    tables.count("containers.allocated")
