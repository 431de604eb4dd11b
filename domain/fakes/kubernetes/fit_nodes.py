"""The nodes of a cluster from where its pods were seen: how many, how large, how late they come, how often they are lost.

A recording names the node of each pod once it has one, and nothing else of nodes. What follows from that:

- A pod whose manifest changes while it is on no node, and that is on none a second later, was found unschedulable (its
  condition changed): it waits, and every node that is there is full. So the most pods that a node was seen to hold while
  others waited is its room. Who is on a node within the second was changed by somebody else.
- A node that takes its first pod while others wait came for them, else one of them would be on it already; every other
  node was there before.
- The autoscaler is played again over the pods that waited, by the fake cluster's own rule: it looks ``KIND.scan_ms`` after a
  pod began to wait and orders what does not fit on the nodes that are on their way. So each order has its time. Which
  order a node answers nobody sees; the mean of the delays and their spread follow without knowing it: the arrivals of a
  wave spread as its orders do and as the delays do. The delays are taken for log-normal.
- When the driver did not ask for it and all pods of a node are deleted at once, the node is taken back; when they are
  gone without a word, it is lost. Either counts for the hours in which nodes held pods.
- A node that came, was empty, and is not used again though pods wait was given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final

from podtide.domain.base.randomness import HOUR_MS, Constant, Delay
from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, log_normal, log_normal_of, plain_sum
from podtide.domain.fakes.kubernetes.description import KIND, NodeGroup

_DEFAULT: Final = KIND.groups[0]
_SURE_MS: Final[Millis] = 1_000
"""A pod that is on no node for so long after it changed waits for one."""

_STEADY_MS: Final[Millis] = 1_500
"""Arrivals that spread by less than this come after a constant time."""

_PATIENCE_MS: Final[Millis] = 600_000
"""An order that is not answered for so long, and three times the longest delay seen, will not be."""


@dataclass(slots=True)
class SeenNode:
    """A node that held pods. ``ordered``: it came for pods that waited. ``since``: from when on it holds some."""

    seen_at: Millis
    ordered: bool
    since: Millis = 0
    aboard: int = 0
    most: int = 0
    full: int = 0
    bound_at: Millis = 0
    occupied_ms: Millis = 0
    empty_at: Millis | None = None
    taken_at: Millis | None = None
    taken: int = 0
    aboard_then: int = 0

    @property
    def lost(self) -> bool:
        """Whether the node itself went, and not single pods of it."""
        return self.taken_at is not None and self.bound_at <= self.taken_at and self.taken * 2 >= self.aboard_then


@dataclass(slots=True)
class Wave:
    """Nodes that were ordered while pods waited without a pause, and the times at which nodes came; the earliest first."""

    orders: list[Millis] = field(default_factory=list)
    arrivals: list[Millis] = field(default_factory=list)
    ended: Millis = 0

    @property
    def unanswered_ms(self) -> Millis:
        """For how long an order was not answered in the end."""
        return self.ended - self.orders[len(self.arrivals)] if len(self.orders) > len(self.arrivals) else 0


@dataclass(slots=True)
class NodeSightings:
    """What was seen of nodes. Memory: the pods that waited, and the nodes."""

    nodes: dict[str, SeenNode] = field(default_factory=dict)
    changed: dict[str, Millis] = field(default_factory=dict)  # pods on no node that changed, and when
    waiting: dict[str, Millis] = field(default_factory=dict)
    waited: int = 0
    notices: DurationSample = field(default_factory=DurationSample)
    drained: int = 0
    silent: int = 0
    kept_ms: Millis = 0
    given_back_ms: Millis | None = None
    most_ordered: int = 0
    _in_use: int = 0
    _log: list[tuple[Millis, int]] = field(default_factory=list)  # 1: a pod waits, -1: no longer, 0: a node came

    def change(self, executor: str, at: Millis) -> None:
        """A pod on no node has changed: the scheduler found no room for it, or it was somebody else."""
        if executor not in self.waiting:
            self.changed.setdefault(executor, at)

    def pass_to(self, now: Millis) -> None:
        """Time has passed: who is still on no node waits for one."""
        while self.changed:
            executor, at = next(iter(self.changed.items()))
            if now - at < _SURE_MS:
                break
            self.waits(executor, self.changed.pop(executor))

    def waits(self, executor: str, since: Millis) -> None:
        """A pod has been found unschedulable: all nodes are full."""
        if executor in self.waiting:
            return
        self.waiting[executor] = since
        self.waited += 1
        self._log.append((since, 1))
        for node in self.nodes.values():
            if node.aboard:
                node.full = max(node.full, node.aboard)
            elif node.ordered and node.empty_at is not None and node.taken_at is None:
                gone = since - node.empty_at
                self.given_back_ms = gone if self.given_back_ms is None else min(gone, self.given_back_ms)
                node.empty_at = None  # it is known to be gone

    def binds(self, executor: str, name: str, at: Millis) -> None:
        """A pod was put on a node."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = SeenNode(at, ordered=bool(self.waiting))
            if node.ordered:
                self._log.append((at, 0))
        self._waits_no_more(executor, at)
        if not node.aboard:
            self._in_use += node.ordered
            self.most_ordered = max(self.most_ordered, self._in_use)
            if node.empty_at is not None:
                self.kept_ms = max(self.kept_ms, at - node.empty_at)
            node.empty_at = None
            node.since = at
        node.aboard += 1
        node.most = max(node.most, node.aboard)
        node.bound_at = at

    def _waits_no_more(self, executor: str, at: Millis) -> None:
        self.changed.pop(executor, None)
        if self.waiting.pop(executor, None) is not None:
            self._log.append((at, -1))

    def leaves(self, executor: str, name: str | None, at: Millis) -> None:
        """A pod is over, wherever it was."""
        self._waits_no_more(executor, at)
        node = None if name is None else self.nodes.get(name)
        if node is None or not node.aboard:
            return
        node.aboard -= 1
        if not node.aboard:
            self._in_use -= node.ordered
            node.occupied_ms += at - node.since
            node.empty_at = at

    def taken(self, name: str, at: Millis, notice_ms: Millis | None) -> None:
        """A pod on a node goes, and neither the driver nor its process wanted it. ``notice_ms``: None without a word."""
        node = self.nodes.get(name)
        if node is None:
            return
        if node.taken_at is None or node.bound_at > node.taken_at:
            node.taken_at, node.taken, node.aboard_then = at, 0, node.aboard
        node.taken += 1
        if notice_ms is None:
            self.silent += 1
        else:
            self.drained += 1
            self.notices.add(notice_ms)

    @property
    def strays(self) -> int:
        """Pods that were taken from nodes which stayed."""
        return sum(node.taken for node in self.nodes.values() if node.taken_at is not None and not node.lost)

    # what follows

    def groups(self, now: Millis, evidence: list[Evidence]) -> tuple[NodeGroup, ...]:
        """The nodes that were there, and those that came; ``evidence`` gets what each figure rests on."""
        there = [node for node in self.nodes.values() if not node.ordered]
        ordered = [node for node in self.nodes.values() if node.ordered]
        standing = _standing(there)
        if not self.waited:
            note = f"{len(there)} nodes seen, and no pod that waited for room"
            evidence += [Evidence("nodes.groups", 0, note), Evidence("nodes.groups[0].arrives", 0)]
            # As many as were seen: with fewer, pods would wait for nodes that were there.
            group = replace(_DEFAULT, count=max(_DEFAULT.count, standing))
            return (self._interrupted(group, there, 0, now, evidence),)
        room = _room(there) or max((node.most for node in ordered), default=1)
        found = (
            f"{self.waited} pods waited; {len(there)} nodes were there, {len(ordered)} came, at most {room} pods on one"
        )
        evidence.append(Evidence("nodes.groups", len(self.nodes), found))
        waves = self._waves(max((node.full for node in ordered), default=0) or room, now)
        unanswered = max(wave.unanswered_ms for wave in waves)
        delay, number = arrival_delay(waves)
        base = _sized(replace(_DEFAULT, name="there", count=standing, maximum=None), room)
        base = self._interrupted(base if delay is None else replace(base, arrives=delay), there, 0, now, evidence)
        if not ordered and unanswered >= _PATIENCE_MS // 2:
            return (base,)
        place = int(bool(there))
        key = f"nodes.groups[{place}]"
        evidence.append(Evidence(f"{key}.arrives", number, "from an order, 10 s after pods were found to wait"))
        coming = _sized(replace(base, name="ordered", count=0, maximum=_DEFAULT.maximum), _room(ordered) or room)
        longest = max((a - o for w in waves for o, a in zip(w.orders, w.arrivals, strict=False)), default=0)
        capped = unanswered > max(_PATIENCE_MS, 3 * longest)
        evidence.append(Evidence(f"{key}.maximum", int(capped), "orders that no node answered"))
        if capped:
            coming = replace(coming, maximum=self.most_ordered)
        coming = self._interrupted(self._idle(coming, key, evidence), ordered, place, now, evidence)
        return (base, coming) if there else (coming,)

    def _idle(self, group: NodeGroup, key: str, evidence: list[Evidence]) -> NodeGroup:
        """The group with how long its nodes stay when they are empty."""
        gone = self.given_back_ms
        evidence.append(Evidence(f"{key}.idle", int(gone is not None), "an empty node that was gone when pods waited"))
        if self.kept_ms < group.idle_ms and (gone is None or group.idle_ms <= gone):
            return group
        return replace(group, idle_ms=max(self.kept_ms + 1, 0 if gone is None else (self.kept_ms + gone) // 2))

    def _interrupted(
        self, group: NodeGroup, nodes: Sequence[SeenNode], place: int, now: Millis, evidence: list[Evidence]
    ) -> NodeGroup:
        """The group with how often its nodes are taken back."""
        lost = sum(node.lost for node in nodes)
        hours = sum(node.occupied_ms + (now - node.since if node.aboard else 0) for node in nodes) / HOUR_MS
        key = f"nodes.groups[{place}].interruptions-per-hour"
        evidence.append(Evidence(key, lost, f"in {hours:.2f} node-hours"))
        if not lost or not hours:
            return replace(group, interruptions_per_hour=0.0)
        rate = min(float(HOUR_MS), max(1e-6, round(lost / hours, 6)))
        drained = self.drained >= self.silent
        notice = self.notices.median() if drained else 0
        if notice >= KIND.executors.grace_ms - _STEADY_MS:
            notice = _DEFAULT.notice_ms  # pods have their own grace and no more: how long the node stays is not seen
        return replace(group, interruptions_per_hour=rate, notice_ms=notice, drained=drained)

    def _waves(self, room: int, now: Millis) -> list[Wave]:
        """What the autoscaler ordered, if an empty node has so much room, and when nodes came. There is at least one."""
        waves = [Wave()]
        coming = waiting = 0
        scan: Millis | None = None
        for at, what in (*sorted(self._log, key=_time), (now, _END)):
            wave = waves[-1]
            wave.ended = at
            if scan is not None and scan <= at:
                short = -(-max(0, waiting - coming * room) // room)
                wave.orders += [scan] * short
                coming, scan = coming + short, None
            if what == _CAME:
                wave.arrivals += [at] * bool(coming)
                coming -= bool(coming)
                continue
            if what == _END:
                break
            waiting += what
            if not waiting:
                # What is still on its way comes for nobody, and is not seen.
                waves.append(Wave())
                coming, scan = 0, None
            elif scan is None:
                scan = at + KIND.scan_ms
        return waves


_CAME: Final = 0
_END: Final = 2


def _time(entry: tuple[Millis, int]) -> Millis:
    return entry[0]


def _room(nodes: Sequence[SeenNode]) -> int:
    """How many pods a node holds: as many as one did when others waited, else the most that any did; 0 of no nodes."""
    return max((node.full for node in nodes), default=0) or max((node.most for node in nodes), default=0)


def _standing(nodes: Sequence[SeenNode]) -> int:
    """The most of these nodes that were there at once."""
    changes = [(node.seen_at, 1) for node in nodes]
    changes += [(node.taken_at, -1) for node in nodes if node.lost and node.taken_at is not None]
    most = number = 0
    for _, change in sorted(changes):
        number += change
        most = max(most, number)
    return most


def _sized(group: NodeGroup, pods: int) -> NodeGroup:
    """The group with room for so many pods of the default shape on each node."""
    shape = KIND.executors.shape
    return replace(group, cpu_millis=pods * shape.cpu_millis, memory_mib=pods * shape.memory_mib, pods=pods)


def arrival_delay(waves: Sequence[Wave]) -> tuple[Delay | None, int]:
    """How long a node takes from its order, and on how many nodes that rests (None: on none).

    The first order is taken to be answered first. That makes the delays of a wave more alike than they are: the arrivals
    spread by the orders' spread and the delays', which says how much.
    """
    delays: list[Millis] = []
    seen = true = 0.0
    for wave in waves:
        orders = wave.orders[: len(wave.arrivals)]
        wave_delays = [arrival - order for order, arrival in zip(orders, wave.arrivals, strict=True)]
        delays += wave_delays
        seen += _spread(wave_delays)
        true += _spread(wave.arrivals) - _spread(orders)
    if not delays:
        return None, 0
    mean = max(1.0, sum(delays) / len(delays))
    if len(delays) == 1:  # it tells when, and nothing of the spread
        return log_normal(mean, mean * _RELATIVE_DEVIATION), 1
    if sqrt(_spread(delays) / (len(delays) - 1)) < _STEADY_MS:
        return Constant(round(mean)), len(delays)
    wider = sqrt(min(max(1.0, true / seen), _WIDER_MAX)) if seen else 1.0
    return log_normal_of(delays, wider), len(delays)


_RELATIVE_DEVIATION: Final = 0.58
"""Of the default: the standard deviation of LogNormal(90 s, 180 s) as a share of its mean."""

_WIDER_MAX: Final = 4.0


def _spread(times: Sequence[Millis]) -> float:
    """The sum of the squares of the distances from the mean."""
    if not times:
        return 0.0
    mean = sum(times) / len(times)
    return plain_sum((time - mean) ** 2 for time in times)
