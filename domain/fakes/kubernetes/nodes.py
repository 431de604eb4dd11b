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

from podtide.domain.base.randomness import Stream, draw, draw_active_ms, split
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.books import Books
from podtide.domain.fakes.kubernetes.description import Image, Life, NodeGroup, NodeHappening, Shape
from podtide.domain.fakes.kubernetes.pod_endings import delete, lose
from podtide.domain.fakes.kubernetes.pods import enter, show
from podtide.domain.fakes.kubernetes.rows import Kind, NodeRow, PodRow

_NODES: Final = 2
_ORDERS: Final = 1
_FATE: Final = 2


def begin(books: Books, now: Millis) -> None:
    """The nodes that are there from the beginning, and what is scripted to happen to nodes."""
    for place, group in enumerate(books.plan.description.groups):
        for _ in range(group.count):
            _join(books, place, books.next("node"), now)
    for place, event in enumerate(books.plan.description.node_events):
        books.later(books.began + event.at_ms, Kind.EVENT, place)


def _join(books: Books, place: int, number: int, now: Millis) -> None:
    group = books.plan.description.groups[place]
    rng = books.stream(_NODES, number)
    row = NodeRow(
        number, f"{group.name}-{number}", place, group.cpu_millis, group.memory_mib, group.pods, rng,
        image_at=now if group.image_present else -1, empty_since=now,
    )  # fmt: skip
    books.nodes.put(number, row)
    books.in_group[place] += 1
    books.count("nodes.joined")
    if group.interruptions_per_hour > 0:
        _fate(books, row, group, now)
    if group.maximum is not None and books.in_group[place] > group.count:
        books.later(now + group.idle_ms, Kind.IDLE, number)
    _place_soon(books, now)


def _fate(books: Books, row: NodeRow, group: NodeGroup, now: Millis) -> None:
    wait, _ = draw_active_ms(split(row.rng, _FATE), group.interruptions_per_hour)
    at = group.during.after(now - books.began, max(1, wait))
    if at is not None and books.faulty(books.began + at):
        books.later(books.began + at, Kind.INTERRUPT, row.number)


def _place_soon(books: Books, now: Millis) -> None:
    if books.waiting and not books.number("placing"):
        books.numbers.put("placing", books.later(now, Kind.PLACE))


# placing


def schedule(books: Books, pod: PodRow, now: Millis) -> None:
    """The scheduler gets to a pod: it is put on a node, or waits."""
    pod = pod._replace(timer=0)
    shape = books.plan.shape(pod.profile)
    if shape not in books.waiting:
        node = _roomiest(books, shape)
        if node is not None:
            _bind(books, pod, node, shape, now)
            return
    books.count("pods.unschedulable")
    # The condition PodScheduled=False is no part of what Spark reads, but it is a change with a version.
    pod = show(books, pod._replace(unschedulable=True), pod.manifest, now)
    books.put_pod(pod._replace(ticket=books.next("ticket")))
    _scan_soon(books, now)


def _roomiest(books: Books, shape: Shape) -> NodeRow | None:
    """The open node with the most processor time free among those with room."""
    best, most = None, -1
    cpu, memory = shape.cpu_millis, shape.memory_mib
    for node in books.nodes.rows.values():
        if node.cpu > most and node.cpu >= cpu and node.memory >= memory and node.pods > 0 and node.open:
            best, most = node, node.cpu
    return best


def _bind(books: Books, pod: PodRow, node: NodeRow, shape: Shape, now: Millis) -> None:
    books.nodes.put(
        node.number,
        node._replace(
            cpu=node.cpu - shape.cpu_millis, memory=node.memory - shape.memory_mib, pods=node.pods - 1, empty_since=-1
        ),
    )
    manifest = pod.manifest._replace(node=node.name)
    pod = show(books, pod._replace(node=node.number, held=True, ticket=0), manifest, now)
    pod = enter(books, pod, Life.SCHEDULED, now)
    timer = books.agenda.rows.get(pod.timer)
    if timer is None:
        return
    stage = books.plan.stages[timer.b]
    if stage.next is not Life.PULLED or stage.image is not Image.ABSENT:
        return
    if node.image_at < 0:
        books.count("images.pulled")
        books.nodes.put(node.number, books.nodes.rows[node.number]._replace(image_at=timer.at))
    elif node.image_at > now:
        # The image is on its way for another pod: this one waits for the same pull.
        books.cancel(pod.timer)
        books.put_pod(pod._replace(timer=books.later(node.image_at, Kind.STAGE, pod.uid, timer.b)))


def place(books: Books, now: Millis) -> None:
    """Room has come: put those who wait into it, the longest waiting first."""
    books.numbers.put("placing", 0)
    full: set[Shape] = set()
    while True:
        heads = [(next(iter(tickets)), shape) for shape, tickets in books.waiting.items() if shape not in full]
        if not heads:
            break
        ticket, shape = min(heads, key=_ticket)
        node = _roomiest(books, shape)
        if node is None:
            full.add(shape)
            continue
        _bind(books, books.pods.rows[books.waiting[shape][ticket]], node, shape, now)
    if books.waiting:
        _scan_soon(books, now)  # what was ordered for them may have gone to others


def _ticket(head: tuple[int, Shape]) -> int:
    return head[0]


# the autoscaler


def _scan_soon(books: Books, now: Millis) -> None:
    groups = books.plan.description.groups
    if not books.number("scanning") and any(_may_grow(books, i, g) for i, g in enumerate(groups)):
        books.numbers.put("scanning", books.later(now + books.plan.description.scan_ms, Kind.SCAN))


def _may_grow(books: Books, place: int, group: NodeGroup) -> bool:
    return group.maximum is not None and books.in_group[place] < group.maximum


def scan(books: Books, now: Millis) -> None:
    """The autoscaler looks: order what those who wait need beyond what is on its way."""
    books.numbers.put("scanning", 0)
    needs = {shape: len(tickets) for shape, tickets in sorted(books.waiting.items(), key=_first_ticket)}
    groups = books.plan.description.groups
    for place_ in books.coming.rows.values():
        _pack(groups[place_], needs)
    for place_, group in enumerate(groups):
        while needs and _may_grow(books, place_, group):
            if not _pack(group, needs):
                break
            _order(books, place_, now)


def _first_ticket(item: tuple[Shape, dict[int, int]]) -> int:
    return next(iter(item[1]))


def _pack(group: NodeGroup, needs: dict[Shape, int]) -> int:
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


def _order(books: Books, place_: int, now: Millis) -> None:
    number = books.next("node")
    delay, _ = draw(_stream(books, number), books.plan.description.groups[place_].arrives)
    books.coming.put(number, place_)
    books.in_group[place_] += 1
    books.count("nodes.ordered")
    books.later(now + max(1, delay), Kind.ARRIVE, number)


def _stream(books: Books, number: int) -> Stream:
    return split(books.stream(_NODES, number), _ORDERS)


def arrive(books: Books, number: int, now: Millis) -> None:
    """An ordered node is there."""
    place_ = books.coming.drop(number)
    if place_ is not None:
        books.in_group[place_] -= 1
        _join(books, place_, number, now)


def idle(books: Books, number: int, now: Millis) -> None:
    """A node may have been empty for long, or may have become empty after it was closed."""
    node = books.nodes.rows.get(number)
    if node is None or node.empty_since < 0:
        return
    group = books.plan.description.groups[node.group]
    if not node.open:
        _remove(books, node, now)
    elif (
        group.maximum is not None
        and books.in_group[node.group] > group.count
        and now - node.empty_since >= group.idle_ms
    ):
        books.count("nodes.given back")
        _remove(books, node, now)


# going


def interrupt(books: Books, number: int, now: Millis) -> None:
    """The cloud takes a node back: it is closed, its pods are evicted, and it goes when the notice ends."""
    node = books.nodes.rows.get(number)
    if node is None:
        return
    group = books.plan.description.groups[node.group]
    books.count("nodes.taken back")
    books.nodes.put(number, node._replace(open=False))
    if group.drained:
        _evict(books, number, now, group.notice_ms)
    books.later(now + group.notice_ms, Kind.LEAVE, number)


def _evict(books: Books, number: int, now: Millis, grace_ms: Millis | None) -> None:
    rows = books.pods.rows
    for uid in sorted(books.aboard.get(number, ())):
        pod = rows.get(uid)
        if pod is not None and not pod.finished:
            delete(books, pod, now, grace_ms)


def leave(books: Books, number: int, now: Millis, silent_ms: Millis = 0) -> None:
    """A node is gone, and with it every process on it."""
    node = books.nodes.rows.get(number)
    if node is not None:
        _remove(books, node, now, silent_ms)


def _remove(books: Books, node: NodeRow, now: Millis, silent_ms: Millis = 0) -> None:
    books.nodes.drop(node.number)
    books.in_group[node.group] -= 1
    books.count("nodes.gone")
    rows = books.pods.rows
    for uid in sorted(books.aboard.get(node.number, ())):
        lose(books, rows[uid], now, silent_ms)
    group = books.plan.description.groups[node.group]
    if group.replaced and books.in_group[node.group] < group.count:
        _order(books, node.group, now)
    if books.waiting:
        _scan_soon(books, now)


def happen(books: Books, place_: int, now: Millis) -> None:
    """What is scripted for this moment happens to the oldest open nodes of its group."""
    event = books.plan.description.node_events[place_]
    names = [g.name for g in books.plan.description.groups]
    group = names.index(event.group)
    if event.what is NodeHappening.JOIN:
        for _ in range(event.count):
            _join(books, group, books.next("node"), now)
        return
    if not books.faulty(now) and event.what is not NodeHappening.DRAIN:
        return
    chosen = [n.number for n in books.nodes.rows.values() if n.group == group and n.open][: event.count]
    for number in chosen:
        match event.what:
            case NodeHappening.DRAIN:
                _drain(books, number, now)
            case NodeHappening.TAKE_BACK:
                interrupt(books, number, now)
            case NodeHappening.CRASH:
                books.count("nodes.crashed")
                leave(books, number, now, books.plan.description.executors.silence_ms)


def _drain(books: Books, number: int, now: Millis) -> None:
    node = books.nodes.rows[number]
    books.nodes.put(number, node._replace(open=False))
    _evict(books, number, now, None)
    if node.empty_since >= 0:
        books.later(now, Kind.IDLE, number)
