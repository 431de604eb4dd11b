"""Whole nodes: for how long nodes of one shape are paid for, so that every executor stands on one.

The rule is first fit, as it happens: an executor stands, from its request to its end, on the node that was opened
first among those with room for its cores and its memory; where none has room, another node is opened. A node is paid
for from its first executor to the moment at which none is left on it; then it is given back, and its place is never
used again. At one moment executors end before others begin. An executor that is larger than a node's room takes as
many whole nodes as its size fills, by itself.

Real schedulers may do better (packing anew) or worse (spreading out, nodes that linger until a scale-down delay has
passed, as the cluster autoscaler's ten minutes), and other tenants may share the nodes; so this is the bill of an
application that has its nodes for itself, with an autoscaler that is quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.whatif.bill.rules import NodeShape


class PlacedSpan(NamedTuple):
    """An executor: from its request to its end, with its cores and memory."""

    began_ms: Millis
    ended_ms: Millis
    cores: int
    memory_mib: int


class _Node:
    """A node that is paid for: what is left of its room, and how many executors stand on it."""

    __slots__ = ("left_cores", "left_mib", "opened", "standing")

    def __init__(self, room: tuple[int, int], opened: Millis) -> None:
        self.left_cores, self.left_mib = room
        self.opened = opened
        self.standing = 0

    def has_room(self, cores: int, mib: int) -> bool:
        return self.left_cores >= cores and self.left_mib >= mib


def node_ms(spans: Iterable[PlacedSpan], node: NodeShape) -> Millis:
    """Node-milliseconds that are paid for. O(n log n) for executors of one shape; times their shapes for several."""
    room = node.room
    lives = sorted(one for one in spans if one.ended_ms > one.began_ms)
    nodes: list[_Node] = []
    candidates: dict[tuple[int, int], list[int]] = {}
    """By shape, nodes that may have room for it: all that have are among them, and others that had."""
    leaving: list[tuple[Millis, int, int, int]] = []
    paid = 0
    for began, ended, cores, mib in lives:
        while leaving and leaving[0][0] <= began:
            paid += _leave(nodes, candidates, *heappop(leaving))
        size = (1000 * cores, mib)
        if size[0] > room[0] or size[1] > room[1]:
            paid += (ended - began) * max(_times(size[0], room[0]), _times(size[1], room[1]))
            continue
        if size not in candidates:
            candidates[size] = [at for at, one in enumerate(nodes) if one.standing]  # in order: a heap
        waiting = candidates[size]
        while waiting and not (nodes[waiting[0]].standing and nodes[waiting[0]].has_room(*size)):
            heappop(waiting)
        if waiting:
            at = waiting[0]
        else:
            at = len(nodes)
            nodes.append(_Node(room, began))
            for heap in candidates.values():
                heappush(heap, at)
        chosen = nodes[at]
        chosen.left_cores -= size[0]
        chosen.left_mib -= size[1]
        chosen.standing += 1
        heappush(leaving, (ended, at, *size))
    while leaving:
        paid += _leave(nodes, candidates, *heappop(leaving))
    return paid


def _leave(
    nodes: list[_Node], candidates: dict[tuple[int, int], list[int]], now: Millis, at: int, cores: int, mib: int
) -> Millis:
    """An executor ends; what its node is paid for if it was the last one there."""
    node = nodes[at]
    node.left_cores += cores
    node.left_mib += mib
    node.standing -= 1
    if not node.standing:
        return now - node.opened
    for size, heap in candidates.items():
        if node.has_room(*size):
            heappush(heap, at)
    return 0


def _times(size: int, room: int) -> int:
    return -(-size // room) if room else 1
