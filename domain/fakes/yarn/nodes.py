"""Nodes: how they come and go, and what the resource manager makes of it.

A machine that crashes says nothing: its executors are gone at once, the driver sees that when the silence has lasted,
and the resource manager when the node expires. Then the node is lost, and so are its containers (-100). An unhealthy
node says so itself with its next heartbeat. A node that is decommissioned gracefully gets nothing new; the
application hears of it, and when its last container is over, or its time, it leaves. All of them may come again, with
nothing on them.

Every change of state is a node report in the next call's answer. Source: NodesListManager, DecommissioningNodesWatcher and
RMNodeImpl of Hadoop 3.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import Delay, Stream, draw, draw_active_ms, split
from podtide.domain.base.units import Millis
from podtide.domain.fakes.yarn.books import ACTIVE, Books
from podtide.domain.fakes.yarn.container_endings import give_up, press, vanish
from podtide.domain.fakes.yarn.description import NodeEvent, NodeHappening, Nodes
from podtide.domain.fakes.yarn.rows import Kind, NodeRow, NodeState
from podtide.domain.protocol.containers import DECOMMISSIONING, NodeReport

_NODES: Final = 4
_LOSS: Final = 1
_LEAVE: Final = 2
_AWAY: Final = 3


def begin(books: Books, now: Millis) -> None:
    """The nodes that are there from the beginning, and what is scripted to happen to nodes."""
    for slot, node in enumerate(books.plan.nodes):
        if node.first:
            join(books, slot, now)
        else:
            books.put_node(NodeRow(slot, NodeState.ABSENT, node.capacity))
    for place, event in enumerate(books.plan.description.node_events):
        books.later(books.began + event.at_ms, Kind.EVENT, place)


def join(books: Books, slot: int, now: Millis) -> None:
    """A node registers with the resource manager, for the first time or again."""
    plan = books.plan.nodes[slot]
    old = books.nodes.rows.get(slot)
    if old is not None and old.state in ACTIVE:
        return
    lives = 1 if old is None else old.lives + 1
    books.put_node(NodeRow(slot, NodeState.RUNNING, plan.capacity, lives))
    if now > books.began:
        books.count("nodes.joined")
        _report(books, slot, "RUNNING")
    group = books.plan.description.nodes[plan.row]
    rng = _stream(books, slot, lives)
    for rate, kind, key in (
        (group.lost_per_hour, Kind.LOSE, _LOSS), (group.decommissioned_per_hour, Kind.LEAVE, _LEAVE),
    ):  # fmt: skip
        if rate > 0:
            wait, _ = draw_active_ms(split(rng, key), rate)
            at = group.during.after(now - books.began, max(1, wait))
            if at is not None and books.faulty(books.began + at):
                books.later(books.began + at, kind, slot, lives)
    books.stir()


def _stream(books: Books, slot: int, lives: int) -> Stream:
    return split(books.stream(_NODES, slot), lives)


def _report(books: Books, slot: int, state: str) -> None:
    books.news.put(books.next("news"), NodeReport(books.plan.nodes[slot].host, state))


def _present(books: Books, slot: int, lives: int, *states: NodeState) -> NodeRow | None:
    """A node, if it is still the same one and in one of these states."""
    node = books.nodes.rows[slot]
    return node if node.lives == lives and node.state in states else None


def crash(books: Books, slot: int, lives: int, now: Millis, back: Millis | None = None, *, stays: bool = False) -> None:
    """The machine is gone at once. ``back``: how long, instead of what the row says; ``stays``: for ever."""
    node = _present(books, slot, lives, NodeState.RUNNING, NodeState.DECOMMISSIONING)
    if node is None:
        return
    description = books.plan.description
    books.count("nodes.crashed")
    books.cancel(node.timer)
    timer = books.later(now + description.manager.node_expiry_ms, Kind.LOST, slot, lives)
    books.put_node(node._replace(state=NodeState.SILENT, timer=timer))
    vanish(books, slot, now, description.executors.silence_ms)
    _again(books, slot, lives, now, back, stays=stays)
    books.stir()


def _again(books: Books, slot: int, lives: int, now: Millis, back: Millis | None, *, stays: bool) -> None:
    """The machine will be there again."""
    group = _group(books, slot)
    wait = back
    if wait is None and group.back is not None:
        wait, _ = draw(split(_stream(books, slot, lives), _AWAY), group.back)
    if wait is not None and not stays:
        books.later(now + max(1, wait), Kind.BACK, slot, lives)


def _group(books: Books, slot: int) -> Nodes:
    return books.plan.description.nodes[books.plan.nodes[slot].row]


def lost(books: Books, slot: int, lives: int, now: Millis) -> None:
    """The resource manager has not heard of a node for too long."""
    node = _present(books, slot, lives, NodeState.SILENT)
    if node is not None:
        books.count("nodes.lost")
        _gone(books, node, "LOST", now)


def _gone(books: Books, node: NodeRow, state: str, now: Millis) -> None:
    """A node is no part of the cluster any more."""
    give_up(books, node.slot, now)
    node = books.nodes.rows[node.slot]
    books.cancel(node.timer)
    capacity = books.plan.nodes[node.slot].capacity
    books.put_node(NodeRow(node.slot, NodeState.ABSENT, capacity, node.lives))
    _report(books, node.slot, state)
    press(books, now)
    books.stir()


def back(books: Books, slot: int, lives: int, now: Millis) -> None:
    """A machine is there again; if it was not even missed, its containers are gone all the same."""
    node = books.nodes.rows[slot]
    if node.lives != lives:
        return
    if node.state is NodeState.SILENT:
        _gone(books, node, "LOST", now)
    join(books, slot, now)


def leave(books: Books, slot: int, lives: int, now: Millis, back: Millis | None = None, *, stays: bool = False) -> None:
    """A node is decommissioned gracefully: it gets nothing new."""
    node = _present(books, slot, lives, NodeState.RUNNING)
    if node is None:
        return
    books.count("nodes.decommissioning")
    wait = books.plan.description.manager.decommission_ms
    empty = all(row.ended for row in books.here(slot))
    at = books.beat_after(slot, now) if empty else now + wait
    timer = books.later(at, Kind.OUT, slot, lives)
    books.put_node(node._replace(state=NodeState.DECOMMISSIONING, timer=timer))
    _report(books, slot, DECOMMISSIONING)
    # Away from now on: so it comes again no sooner than it is gone.
    _again(books, slot, lives, max(at, now + wait), back, stays=stays)
    press(books, now)
    books.stir()


def out(books: Books, slot: int, lives: int, now: Millis) -> None:
    """A decommissioning node is empty, or its time is over."""
    node = _present(books, slot, lives, NodeState.DECOMMISSIONING)
    if node is None:
        return
    books.count("nodes.decommissioned")
    _gone(books, node, "DECOMMISSIONED", now)
    vanish(books, slot, now)


def sicken(books: Books, slot: int, now: Millis, back: Millis | None = None, *, stays: bool = False) -> None:
    """A node says that it is unhealthy."""
    node = books.nodes.rows[slot]
    if node.state not in {NodeState.RUNNING, NodeState.DECOMMISSIONING}:
        return
    books.count("nodes.unhealthy")
    _gone(books, node, "UNHEALTHY", now)
    vanish(books, slot, now)
    _again(books, slot, node.lives, now, back, stays=stays)


def happen(books: Books, place: int, now: Millis) -> None:
    """What was scripted happens to nodes."""
    event = books.plan.description.node_events[place]
    if event.what is not NodeHappening.JOIN and not books.faulty(now):
        return
    for slot in _chosen(books, event):
        lives = books.nodes.rows[slot].lives
        wait = _wait(books, event.back, slot, lives)
        match event.what:
            case NodeHappening.JOIN:
                join(books, slot, now)
            case NodeHappening.LOSE:
                crash(books, slot, lives, now, wait, stays=event.stays)
            case NodeHappening.DECOMMISSION:
                leave(books, slot, lives, now, wait, stays=event.stays)
            case NodeHappening.SICKEN:
                sicken(books, slot, now, wait, stays=event.stays)


def _wait(books: Books, delay: Delay | None, slot: int, lives: int) -> Millis | None:
    if delay is None:
        return None
    return draw(split(_stream(books, slot, lives), _AWAY), delay)[0]


def _chosen(books: Books, event: NodeEvent) -> list[int]:
    """The nodes that it happens to: of the row, the first ones that can."""
    plan, rows = books.plan, books.nodes.rows
    if event.host is not None:
        return [plan.slots[event.host]]
    number = next(i for i, row in enumerate(plan.description.nodes) if row.name == event.group)
    if event.what is NodeHappening.JOIN:
        fine = [slot for slot in plan.rows[number] if rows[slot].lives == 0 and not plan.nodes[slot].first]
    else:
        fine = [slot for slot in plan.rows[number] if rows[slot].state is NodeState.RUNNING]
    return fine[: event.count]
