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

from podtide.domain.base.randomness import Delay, Stream, draw, split
from podtide.domain.base.units import Millis
from podtide.domain.fakes.yarn.container_endings import give_up, press, vanish
from podtide.domain.fakes.yarn.description import YarnNodeEvent, YarnNodeHappening
from podtide.domain.fakes.yarn.rows import NodeState, YarnAgenda, YarnNodeRow
from podtide.domain.fakes.yarn.tables import ACTIVE, YarnTables
from podtide.domain.protocol.containers import DECOMMISSIONING, NodeReport

_NODES: Final = 4
_LOSS: Final = 1
_LEAVE: Final = 2
_AWAY: Final = 3


def begin(tables: YarnTables, now: Millis) -> None:
    """The nodes that are there from the beginning, and what is scripted to happen to nodes."""
    for slot, node in enumerate(tables.plan.nodes):
        if node.first:
            join(tables, slot, now)
        else:
            tables.put_node(YarnNodeRow(slot, NodeState.ABSENT, node.capacity))
    for place, event in enumerate(tables.plan.description.node_events):
        tables.later(tables.began + event.at_ms, YarnAgenda.EVENT, place)


def join(tables: YarnTables, slot: int, now: Millis) -> None:
    """A node registers with the resource manager, for the first time or again."""
    plan = tables.plan.nodes[slot]
    old = tables.nodes.get(slot)
    if old is not None and old.state in ACTIVE:
        return
    lives = 1 if old is None else old.lives + 1
    tables.put_node(YarnNodeRow(slot, NodeState.RUNNING, plan.capacity, lives))
    if now > tables.began:
        tables.count("nodes.joined")
        _report(tables, slot, "RUNNING")
    group = tables.plan.description.nodes[plan.row]
    rng = _stream(tables, slot, lives)
    for rate, kind, key in (
        (group.lost_per_hour, YarnAgenda.LOSE, _LOSS), (group.decommissioned_per_hour, YarnAgenda.LEAVE, _LEAVE),
    ):  # fmt: skip
        if rate > 0:
            tables.later_at_rate(split(rng, key), rate, group.during, now, kind, slot, lives)
    tables.stir()


def _stream(tables: YarnTables, slot: int, lives: int) -> Stream:
    return split(tables.stream(_NODES, slot), lives)


def _report(tables: YarnTables, slot: int, state: str) -> None:
    tables.news.put(tables.report_numbers.next(), NodeReport(tables.plan.nodes[slot].host, state))


def _present(tables: YarnTables, slot: int, lives: int, *states: NodeState) -> YarnNodeRow | None:
    """A node, if it is still the same one and in one of these states."""
    node = tables.nodes[slot]
    return node if node.lives == lives and node.state in states else None


def crash(
    tables: YarnTables, slot: int, lives: int, now: Millis, back: Millis | None = None, *, stays: bool = False
) -> None:
    """The machine is gone at once. ``back``: how long, instead of what the row says; ``stays``: for ever."""
    node = _present(tables, slot, lives, NodeState.RUNNING, NodeState.DECOMMISSIONING)
    if node is None:
        return
    description = tables.plan.description
    tables.count("nodes.crashed")
    tables.cancel(node.timer)
    timer = tables.later(now + description.manager.node_expiry_ms, YarnAgenda.LOST, slot, lives)
    tables.put_node(node._replace(state=NodeState.SILENT, timer=timer))
    vanish(tables, slot, now, description.executors.silence_ms)
    _again(tables, slot, lives, now, back, stays=stays)
    tables.stir()


def _again(tables: YarnTables, slot: int, lives: int, now: Millis, back: Millis | None, *, stays: bool) -> None:
    """The machine will be there again."""
    group = tables.plan.description.nodes[tables.plan.nodes[slot].row]
    wait = back
    if wait is None and group.back is not None:
        wait, _ = draw(split(_stream(tables, slot, lives), _AWAY), group.back)
    if wait is not None and not stays:
        tables.later(now + max(1, wait), YarnAgenda.BACK, slot, lives)


def lost(tables: YarnTables, slot: int, lives: int, now: Millis) -> None:
    """The resource manager has not heard of a node for too long."""
    node = _present(tables, slot, lives, NodeState.SILENT)
    if node is not None:
        tables.count("nodes.lost")
        _gone(tables, node, "LOST", now)


def _gone(tables: YarnTables, node: YarnNodeRow, state: str, now: Millis) -> None:
    """A node is no part of the cluster any more."""
    give_up(tables, node.slot, now)
    node = tables.nodes[node.slot]
    tables.cancel(node.timer)
    capacity = tables.plan.nodes[node.slot].capacity
    tables.put_node(YarnNodeRow(node.slot, NodeState.ABSENT, capacity, node.lives))
    _report(tables, node.slot, state)
    press(tables, now)
    tables.stir()


def back(tables: YarnTables, slot: int, lives: int, now: Millis) -> None:
    """A machine is there again; if it was not even missed, its containers are gone all the same."""
    node = tables.nodes[slot]
    if node.lives != lives:
        return
    if node.state is NodeState.SILENT:
        _gone(tables, node, "LOST", now)
    join(tables, slot, now)


def leave(
    tables: YarnTables, slot: int, lives: int, now: Millis, back: Millis | None = None, *, stays: bool = False
) -> None:
    """A node is decommissioned gracefully: it gets nothing new."""
    node = _present(tables, slot, lives, NodeState.RUNNING)
    if node is None:
        return
    tables.count("nodes.decommissioning")
    wait = tables.plan.description.manager.decommission_ms
    empty = all(row.ended for row in tables.here(slot))
    at = tables.beat_after(slot, now) if empty else now + wait
    timer = tables.later(at, YarnAgenda.OUT, slot, lives)
    tables.put_node(node._replace(state=NodeState.DECOMMISSIONING, timer=timer))
    _report(tables, slot, DECOMMISSIONING)
    # Away from now on: so it comes again no sooner than it is gone.
    _again(tables, slot, lives, max(at, now + wait), back, stays=stays)
    press(tables, now)
    tables.stir()


def out(tables: YarnTables, slot: int, lives: int, now: Millis) -> None:
    """A decommissioning node is empty, or its time is over."""
    node = _present(tables, slot, lives, NodeState.DECOMMISSIONING)
    if node is None:
        return
    tables.count("nodes.decommissioned")
    _gone(tables, node, "DECOMMISSIONED", now)
    vanish(tables, slot, now)


def sicken(tables: YarnTables, slot: int, now: Millis, back: Millis | None = None, *, stays: bool = False) -> None:
    """A node says that it is unhealthy."""
    node = tables.nodes[slot]
    if node.state not in {NodeState.RUNNING, NodeState.DECOMMISSIONING}:
        return
    tables.count("nodes.unhealthy")
    _gone(tables, node, "UNHEALTHY", now)
    vanish(tables, slot, now)
    _again(tables, slot, node.lives, now, back, stays=stays)


def happen(tables: YarnTables, place: int, now: Millis) -> None:
    """What was scripted happens to nodes."""
    event = tables.plan.description.node_events[place]
    if event.what is not YarnNodeHappening.JOIN and not tables.faulty(now):
        return
    for slot in _chosen(tables, event):
        lives = tables.nodes[slot].lives
        wait = _wait(tables, event.back, slot, lives)
        match event.what:
            case YarnNodeHappening.JOIN:
                join(tables, slot, now)
            case YarnNodeHappening.LOSE:
                crash(tables, slot, lives, now, wait, stays=event.stays)
            case YarnNodeHappening.DECOMMISSION:
                leave(tables, slot, lives, now, wait, stays=event.stays)
            case YarnNodeHappening.SICKEN:
                sicken(tables, slot, now, wait, stays=event.stays)


def _wait(tables: YarnTables, delay: Delay | None, slot: int, lives: int) -> Millis | None:
    if delay is None:
        return None
    return draw(split(_stream(tables, slot, lives), _AWAY), delay)[0]


def _chosen(tables: YarnTables, event: YarnNodeEvent) -> list[int]:
    """The nodes that it happens to: of the row, the first ones that can."""
    plan, rows = tables.plan, tables.nodes
    if event.host is not None:
        return [plan.slots[event.host]]
    number = next(i for i, row in enumerate(plan.description.nodes) if row.name == event.group)
    if event.what is YarnNodeHappening.JOIN:
        fine = [slot for slot in plan.rows[number] if rows[slot].lives == 0 and not plan.nodes[slot].first]
    else:
        fine = [slot for slot in plan.rows[number] if rows[slot].state is NodeState.RUNNING]
    return fine[: event.count]
