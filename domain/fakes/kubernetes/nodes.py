"""Nodes: the room that they have, who is put where, and how they come and go.

The scheduler puts pods on the open node with the most processor time free (the least allocated one, as kube-scheduler's
default scores), the oldest node among equals. Pods that do not fit wait in the order of their coming, by the shape of
what they request: when one of a shape does not fit, none of that shape does, so a pass over the queue costs what it
places, not what waits.

The autoscaler looks a while after pods were found unschedulable, counts what does not fit on the nodes that are on
their way, and orders as many nodes as those pods need, in the order of the groups, up to each group's maximum. It gives
back nodes above the group's count that have been empty for long. A node that is taken back (spot) is closed and its pods
are evicted, and at the end of the notice it is gone with whatever still runs; one that crashes is gone at once, and the
driver hears of it only by silence.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import draw, split
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Image, Life, NodeGroup, NodeHappening, PodShape
from podtide.domain.fakes.kubernetes.pod_endings import delete, lose
from podtide.domain.fakes.kubernetes.pods import enter, show
from podtide.domain.fakes.kubernetes.rows import NodeRow, PodAgenda, PodRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables

_NODES: Final = 2
_ORDERS: Final = 1
_FATE: Final = 2


def begin(tables: ClusterTables, now: Millis) -> None:
    """The nodes that are there from the beginning, and what is scripted to happen to nodes."""
    for place, group in enumerate(tables.plan.description.groups):
        for _ in range(group.count):
            _join(tables, place, tables.node_numbers.next(), now)
    for place, event in enumerate(tables.plan.description.node_events):
        tables.later(tables.began + event.at_ms, PodAgenda.EVENT, place)


def _join(tables: ClusterTables, place: int, number: int, now: Millis) -> None:
    group = tables.plan.description.groups[place]
    rng = tables.stream(_NODES, number)
    row = NodeRow(
        number, f"{group.name}-{number}", place, group.cpu_millis, group.memory_mib, group.pods, rng,
        image_at=now if group.image_present else -1, empty_since=now,
    )  # fmt: skip
    tables.nodes.put(number, row)
    tables.in_group[place] += 1
    tables.count("nodes.joined")
    if group.interruptions_per_hour > 0:
        rng = split(row.rng, _FATE)
        tables.later_at_rate(rng, group.interruptions_per_hour, group.during, now, PodAgenda.INTERRUPT, number)
    if group.maximum is not None and tables.in_group[place] > group.count:
        tables.later(now + group.idle_ms, PodAgenda.IDLE, number)
    _place_soon(tables, now)


def _place_soon(tables: ClusterTables, now: Millis) -> None:
    if tables.waiting and not tables.place_timer:
        tables.place_timer = tables.later(now, PodAgenda.PLACE)


# placing


def schedule(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The scheduler gets to a pod: it is put on a node, or waits."""
    pod = pod._replace(timer=0)
    shape = pod.shape
    if shape not in tables.waiting:
        node = _roomiest(tables, shape)
        if node is not None:
            _bind(tables, pod, node, shape, now)
            return
    tables.count("pods.unschedulable")
    # The condition PodScheduled=False is no part of what Spark reads, but it is a change with a version.
    pod = show(tables, pod._replace(unschedulable=True), pod.manifest, now)
    tables.put_pod(pod._replace(ticket=tables.tickets.next()))
    _scan_soon(tables, now)


def _roomiest(tables: ClusterTables, shape: PodShape) -> NodeRow | None:
    """The open node with the most processor time free among those with room."""
    best, most = None, -1
    cpu, memory = shape.cpu_millis, shape.memory_mib
    for node in tables.nodes.values():
        if node.cpu > most and node.cpu >= cpu and node.memory >= memory and node.pods > 0 and node.open:
            best, most = node, node.cpu
    return best


def _bind(tables: ClusterTables, pod: PodRow, node: NodeRow, shape: PodShape, now: Millis) -> None:
    tables.nodes.put(
        node.number,
        node._replace(
            cpu=node.cpu - shape.cpu_millis, memory=node.memory - shape.memory_mib, pods=node.pods - 1, empty_since=-1
        ),
    )
    manifest = pod.manifest._replace(node=node.name)
    pod = show(tables, pod._replace(node=node.number, held=True, ticket=0), manifest, now)
    pod = enter(tables, pod, Life.SCHEDULED, now)
    timer = tables.agenda.get(pod.timer)
    if timer is None:
        return
    stage = tables.plan.stages[timer.b]
    if stage.next is not Life.PULLED or stage.image is not Image.ABSENT:
        return
    if node.image_at < 0:
        tables.count("images.pulled")
        tables.nodes.put(node.number, tables.nodes[node.number]._replace(image_at=timer.at))
    elif node.image_at > now:
        # The image is on its way for another pod: this one waits for the same pull.
        tables.cancel(pod.timer)
        tables.put_pod(pod._replace(timer=tables.later(node.image_at, PodAgenda.STAGE, pod.uid, timer.b)))


def place(tables: ClusterTables, now: Millis) -> None:
    """Room has come: put those who wait into it, the longest waiting first."""
    tables.place_timer = 0
    full: set[PodShape] = set()
    while True:
        heads = [(next(iter(tickets)), shape) for shape, tickets in tables.waiting.items() if shape not in full]
        if not heads:
            break
        ticket, shape = min(heads, key=lambda head: head[0])
        node = _roomiest(tables, shape)
        if node is None:
            full.add(shape)
            continue
        _bind(tables, tables.pods[tables.waiting[shape][ticket]], node, shape, now)
    if tables.waiting:
        _scan_soon(tables, now)  # what was ordered for them may have gone to others


# the autoscaler


def _scan_soon(tables: ClusterTables, now: Millis) -> None:
    groups = tables.plan.description.groups
    if not tables.scan_timer and any(_may_grow(tables, i, g) for i, g in enumerate(groups)):
        tables.scan_timer = tables.later(now + tables.plan.description.scan_ms, PodAgenda.SCAN)


def _may_grow(tables: ClusterTables, place: int, group: NodeGroup) -> bool:
    return group.maximum is not None and tables.in_group[place] < group.maximum


def scan(tables: ClusterTables, now: Millis) -> None:
    """The autoscaler looks: order what those who wait need beyond what is on its way."""
    tables.scan_timer = 0
    needs = {
        shape: len(tickets) for shape, tickets in sorted(tables.waiting.items(), key=lambda item: next(iter(item[1])))
    }
    groups = tables.plan.description.groups
    for place_ in tables.coming.values():
        _pack(groups[place_], needs)
    for place_, group in enumerate(groups):
        while needs and _may_grow(tables, place_, group):
            if not _pack(group, needs):
                break
            _order(tables, place_, now)


def _pack(group: NodeGroup, needs: dict[PodShape, int]) -> int:
    """Take from ``needs`` what fits on one empty node of the group; returns how many pods that are."""
    cpu, memory, pods, packed = group.cpu_millis, group.memory_mib, group.pods, 0
    for shape, count in list(needs.items()):
        fit = min(count, cpu // shape.cpu_millis, memory // shape.memory_mib, pods)
        if fit > 0:
            cpu, memory, pods = cpu - fit * shape.cpu_millis, memory - fit * shape.memory_mib, pods - fit
            packed += fit
            if fit == count:
                del needs[shape]
            else:
                needs[shape] = count - fit
    return packed


def _order(tables: ClusterTables, place_: int, now: Millis) -> None:
    number = tables.node_numbers.next()
    delay, _ = draw(split(tables.stream(_NODES, number), _ORDERS), tables.plan.description.groups[place_].arrives)
    tables.coming.put(number, place_)
    tables.in_group[place_] += 1
    tables.count("nodes.ordered")
    tables.later(now + max(1, delay), PodAgenda.ARRIVE, number)


def arrive(tables: ClusterTables, number: int, now: Millis) -> None:
    """An ordered node is there."""
    place_ = tables.coming.drop(number)
    if place_ is not None:
        tables.in_group[place_] -= 1
        _join(tables, place_, number, now)


def idle(tables: ClusterTables, number: int, now: Millis) -> None:
    """A node may have been empty for long, or may have become empty after it was closed."""
    node = tables.nodes.get(number)
    if node is None or node.empty_since < 0:
        return
    group = tables.plan.description.groups[node.group]
    if not node.open:
        _remove(tables, node, now)
    elif (
        group.maximum is not None
        and tables.in_group[node.group] > group.count
        and now - node.empty_since >= group.idle_ms
    ):
        tables.count("nodes.given back")
        _remove(tables, node, now)


# going


def interrupt(tables: ClusterTables, number: int, now: Millis) -> None:
    """The cloud takes a node back: it is closed, its pods are evicted, and it goes when the notice ends."""
    node = tables.nodes.get(number)
    if node is None:
        return
    group = tables.plan.description.groups[node.group]
    tables.count("nodes.taken back")
    tables.nodes.put(number, node._replace(open=False))
    if group.drained:
        _evict(tables, number, now, group.notice_ms)
    tables.later(now + group.notice_ms, PodAgenda.LEAVE, number)


def _evict(tables: ClusterTables, number: int, now: Millis, grace_ms: Millis | None) -> None:
    rows = tables.pods
    for uid in sorted(tables.aboard.get(number, ())):
        pod = rows.get(uid)
        if pod is not None and not pod.finished:
            delete(tables, pod, now, grace_ms)


def leave(tables: ClusterTables, number: int, now: Millis, silent_ms: Millis = 0) -> None:
    """A node is gone, and with it every process on it."""
    node = tables.nodes.get(number)
    if node is not None:
        _remove(tables, node, now, silent_ms)


def _remove(tables: ClusterTables, node: NodeRow, now: Millis, silent_ms: Millis = 0) -> None:
    tables.nodes.drop(node.number)
    tables.in_group[node.group] -= 1
    tables.count("nodes.gone")
    rows = tables.pods
    for uid in sorted(tables.aboard.get(node.number, ())):
        lose(tables, rows[uid], now, silent_ms)
    group = tables.plan.description.groups[node.group]
    if group.replaced and tables.in_group[node.group] < group.count:
        _order(tables, node.group, now)
    if tables.waiting:
        _scan_soon(tables, now)


def happen(tables: ClusterTables, place_: int, now: Millis) -> None:
    """What is scripted for this moment happens to the oldest open nodes of its group."""
    event = tables.plan.description.node_events[place_]
    names = [g.name for g in tables.plan.description.groups]
    group = names.index(event.group)
    if event.what is NodeHappening.JOIN:
        for _ in range(event.count):
            _join(tables, group, tables.node_numbers.next(), now)
        return
    if not tables.faulty(now) and event.what is not NodeHappening.DRAIN:
        return
    chosen = [n.number for n in tables.nodes.values() if n.group == group and n.open][: event.count]
    for number in chosen:
        match event.what:
            case NodeHappening.DRAIN:
                _drain(tables, number, now)
            case NodeHappening.TAKE_BACK:
                interrupt(tables, number, now)
            case NodeHappening.CRASH:
                tables.count("nodes.crashed")
                leave(tables, number, now, tables.plan.description.executors.silence_ms)


def _drain(tables: ClusterTables, number: int, now: Millis) -> None:
    node = tables.nodes[number]
    tables.nodes.put(number, node._replace(open=False))
    _evict(tables, number, now, None)
    if node.empty_since >= 0:
        tables.later(now, PodAgenda.IDLE, number)
