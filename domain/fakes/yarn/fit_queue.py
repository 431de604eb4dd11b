"""The queue of a YARN cluster over time: what of it was the application's, and what others took back of it.

With every answer the resource manager says what the queue has left. With what the application has of it that is its share at
this moment, to the container; what is missing of the largest share belongs to others, and each stretch of time in which the
share is the same makes one tenant. Where containers are preempted, the share had fallen before: what the application
still has is more than its share, so the level that is reached in the end is the share from the beginning of the pressure on.

Preempted containers are explained by such a fall; others that end so are not (``unexplained``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import Evidence
from podtide.domain.fakes.windows import Window
from podtide.domain.fakes.yarn.description import YARN, Queue, Tenant
from podtide.domain.protocol.containers import Resource

SHARES_MAX: Final = 20_000
"""Changes of the share that are kept; of more every other one goes."""

TENANTS_MAX: Final = 40
_SHORT_MS: Final[Millis] = 5_000
"""A share that does not last as long is what an answer did not tell yet."""

_PAUSE_MS: Final[Millis] = 60_000
"""Preemptions with a longer pause between them are two; pressure is seen at most so long before the first."""

_LARGEST: Final = 0.02
"""The largest share is one that lasted for this part of the time at least."""

_ALIKE: Final = 0.02


class Share(NamedTuple):
    """What of the queue is the application's from ``at`` on: MiB and processors. ``nodes``: of the cluster then."""

    at: Millis
    memory_mib: int
    vcores: int
    nodes: int


class Preemption(NamedTuple):
    """Containers that were taken back, as one answer says. ``used_mib``: what the application had before."""

    at: Millis
    containers: int
    memory_mib: int
    used_mib: int


@dataclass(slots=True)
class QueueSightings:
    """What was seen of the queue."""

    shares: list[Share] = field(default_factory=list)
    answers: int = 0
    preemptions: list[Preemption] = field(default_factory=list)
    _before: Millis | None = None  # the answer before

    def say(self, at: Millis, available: Resource, used: Resource, nodes: int) -> None:
        """An answer says what the queue has left, and the application has ``used``."""
        self.answers += 1
        memory, cores = available.memory_mib + used.memory_mib, available.vcores + used.vcores
        if not self.shares or self.shares[-1][1:] != (memory, cores, nodes):
            # It changed at some time since the answer before.
            since = at if self._before is None else (self._before + at) // 2
            self.shares.append(Share(since, memory, cores, nodes))
            if len(self.shares) >= SHARES_MAX:
                del self.shares[1::2]
        self._before = at

    def preempt(self, at: Millis, taken: Sequence[Resource], used: Resource) -> None:
        """An answer says that containers were preempted; ``used``: before."""
        self.preemptions.append(Preemption(at, len(taken), sum(one.memory_mib for one in taken), used.memory_mib))

    def whole(self) -> bool:
        """Whether the share moves with the number of nodes, so that the queue is all there is."""
        largest: dict[int, int] = {}
        for share in self.shares:
            largest[share.nodes] = max(share.memory_mib, largest.get(share.nodes, 0))
        each = [memory / nodes for nodes, memory in largest.items() if nodes]
        return len(each) > 1 and max(each) - min(each) <= _ALIKE * max(each)

    def queue(self, began: Millis, now: Millis, evidence: list[Evidence]) -> tuple[Queue, set[Millis]]:
        """The queue, and when containers were preempted that it does not explain; ``evidence`` gets what it rests on."""
        evidence.append(Evidence("queue.memory", self.answers, "what it had and what was left, at the most"))
        unexplained = {one.at for one in self.preemptions}
        if not self.shares:
            evidence.append(Evidence("queue.tenants", 0))
            return YARN.queue, unexplained
        shares = self.shares
        if self.whole():
            most = max(share.nodes for share in shares)
            shares = [
                share._replace(
                    memory_mib=share.memory_mib * most // share.nodes, vcores=share.vcores * most // share.nodes
                )
                for share in shares
                if share.nodes
            ]
        waits: list[Millis] = []
        rounds: list[Sequence[Preemption]] = []
        for episode in _episodes(self.preemptions):
            pressed, wait = _pressed(shares, episode)
            if pressed is not shares:
                shares = pressed
                rounds.append(episode)
                waits += [] if wait is None else [wait]
                unexplained -= {one.at for one in episode}
        stretches = _stretches(shares, now)
        base = Resource(
            max(1, _largest((share.memory_mib, ms) for share, ms in stretches)),
            max(1, _largest((share.vcores, ms) for share, ms in stretches)),
        )
        tenants = tuple(_tenants(stretches, base, began, now))
        evidence.append(Evidence("queue.tenants", len(tenants), "stretches of time in which others had more of it"))
        queue = replace(YARN.queue, tenants=tenants)
        if not self.whole():
            queue = replace(queue, memory_mib=base.memory_mib, vcores=base.vcores)
        return _preempting(queue, rounds, waits, evidence), unexplained


def _episodes(preemptions: Sequence[Preemption]) -> list[list[Preemption]]:
    episodes: list[list[Preemption]] = []
    for one in preemptions:
        if episodes and one.at - episodes[-1][-1].at <= _PAUSE_MS:
            episodes[-1].append(one)
        else:
            episodes.append([one])
    return episodes


def _pressed(shares: list[Share], episode: Sequence[Preemption]) -> tuple[list[Share], Millis | None]:
    """The shares with the fall that explains these preemptions, and how long it was seen before the first of them.

    The very same list where nothing fell.
    """
    first, last = episode[0].at, episode[-1].at
    before = [share for share in shares if share.at < first]
    during = [share for share in shares if share.at <= last]
    if not before or not during:
        return shares, None
    after = during[-1]
    began, wait = first - YARN.queue.wait_ms, None
    place = len(before) - 1
    while place > 0 and before[place].at >= first - _PAUSE_MS and _below(before[place], before[place - 1]):
        began = before[place].at
        wait = first - began
        place -= 1
    held = [share for share in before if share.at < began] or before[:1]
    if not _below(after, held[-1]):
        return shares, None
    return [*held, after._replace(at=max(began, held[-1].at + 1)), *shares[len(during) :]], wait


def _below(share: Share, other: Share) -> bool:
    return share.memory_mib < other.memory_mib or share.vcores < other.vcores


def _stretches(shares: Sequence[Share], now: Millis) -> list[tuple[Share, Millis]]:
    """The shares one after the other and how long each lasts, at most ``TENANTS_MAX``; short ones are left out."""
    short = _SHORT_MS
    while True:
        kept: list[tuple[Share, Millis]] = []
        ends = [share.at for share in shares[1:]] + [max(now, shares[-1].at)]
        for share, end in zip(shares, ends, strict=True):
            length = end - share.at
            alike = bool(kept) and kept[-1][0][1:3] == share[1:3]
            if kept and (alike or length < short):
                kept[-1] = (kept[-1][0], kept[-1][1] + length)
            elif kept and len(kept) == 1 and kept[0][1] < short:
                kept = [(share._replace(at=kept[0][0].at), kept[0][1] + length)]
            else:
                kept.append((share, length))
        if len(kept) <= TENANTS_MAX:
            return kept
        short *= 2


def _largest(amounts: Iterable[tuple[int, Millis]]) -> int:
    """The largest amount of those that lasted, with all larger ones, for a part of the time that counts."""
    ordered = sorted(amounts, reverse=True)
    whole = sum(ms for _, ms in ordered)
    lasted = 0
    for amount, ms in ordered:
        lasted += ms
        if lasted >= _LARGEST * whole:
            return amount
    return ordered[-1][0]


def _tenants(
    stretches: Sequence[tuple[Share, Millis]], base: Resource, began: Millis, now: Millis
) -> Iterable[Tenant]:  # fmt: skip
    """Who else was in the queue: what is missing of the largest share, while it is."""
    for share, ms in stretches:
        memory, cores = max(0, base.memory_mib - share.memory_mib), max(0, base.vcores - share.vcores)
        if memory or cores:
            since, until = share.at - began, share.at + ms - began
            # Who is there in the end stays.
            window = Window(max(0, since), None if until >= now - began else max(until, since + 1))
            yield Tenant(memory, cores, f"others at {max(0, since) // 1_000} s", window)


def _preempting(
    queue: Queue, episodes: Sequence[Sequence[Preemption]], waits: Sequence[Millis], evidence: list[Evidence]
) -> Queue:
    """The queue with how it takes back what is above its share."""
    taken = sum(one.containers for episode in episodes for one in episode)
    gaps = sorted(later.at - one.at for e in episodes for one, later in pairwise(e))
    evidence.append(Evidence("queue.preempts", taken, "containers taken back when others came"))
    evidence.append(Evidence("queue.preempt-wait", len(waits), "from a share that fell to the first of them"))
    evidence.append(Evidence("queue.preempt-every", len(gaps)))
    if not taken:
        return queue
    queue = replace(queue, preempts=True)
    if waits:
        queue = replace(queue, wait_ms=max(1, sorted(waits)[len(waits) // 2]))
    if gaps:
        # A round takes as many containers as its part of the queue holds, so half a container more is the same.
        parts = [
            (one.containers + 0.5) * (one.memory_mib / one.containers) / one.used_mib
            for episode in episodes
            for one in episode[:-1]
            if one.used_mib
        ]
        queue = replace(queue, round_ms=max(1, gaps[len(gaps) // 2]))
        if parts:
            queue = replace(queue, share=round(min(1.0, sorted(parts)[len(parts) // 2]), 4))
    evidence.append(Evidence("queue.preempt-share", len(gaps)))
    return queue
