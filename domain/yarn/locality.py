"""Where containers should be: LocalityPreferredContainerPlacementStrategy.

A stage's tasks have hosts that they would like to run on. From how many would like which host follows how many executors
each host should have; what it has, or is promised, is taken off. Containers beyond what is still wanted may be anywhere. The
rest are asked for on hosts in proportion: with r_i the container count of host i, scaled so that the most wanted host is in
every request, host i is in the first r_i requests. So the hosts of the requests are nested, and one ``Layout`` says them all
- Spark makes a list of hosts for every single request.

All arithmetic is Spark's: doubles, rounded up at the end, sums of 32 bits; where the hints count no task at all 0/0 is NaN,
which becomes 0. Source: spec: yarn, section 5, checked against runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from podtide.domain.jvm.values import double_to_int, to_int
from podtide.domain.protocol.container_requests import Layout, RequestBatch


class Wish(NamedTuple):
    """What a placement answers. ``tasks``: that have a preference; ``host_tasks``: how many would like a host (a task with
    several hosts counts at each). ``per_executor``: tasks that an executor runs at once.
    """

    tasks: int
    host_tasks: Mapping[str, int]
    per_executor: int


class ContainerPlacement(NamedTuple):
    """``anywhere`` containers without preference, and those of a layout (None: none)."""

    anywhere: int
    layout: Layout | None


def place(
    containers: int,
    wish: Wish,
    existing: Callable[[str], int],
    pending: Iterable[RequestBatch],
    rack_of: Callable[[str], str],
) -> ContainerPlacement:
    """localityOfRequestedContainers: how to ask for so many containers.

    ``existing``: how many containers a host has; ``pending``: requests that wait and name one of the wished hosts;
    ``rack_of``: where a host is.
    """
    wanted = _wanted(wish, existing, pending)
    aware = to_int(sum(wanted.values()))
    anywhere = max(0, containers - aware)
    localized = containers - anywhere
    if localized <= 0:
        return ContainerPlacement(anywhere, None)
    largest = max(wanted.values())
    shares = {host: _ceil(count * localized / largest) for host, count in wanted.items()}
    return ContainerPlacement(anywhere, _layout(localized, shares, rack_of))


def _wanted(wish: Wish, existing: Callable[[str], int], pending: Iterable[RequestBatch]) -> dict[str, int]:
    """expectedHostToContainerCount: how many more containers each host should have."""
    total = to_int(sum(wish.host_tasks.values()))
    executors = _ceil(_over(float(wish.tasks), wish.per_executor))
    promised = _promised(pending)
    wanted = {}
    for host, tasks in wish.host_tasks.items():
        expected = _over(float(tasks) * executors, total)
        wanted[host] = max(0, _ceil(expected - (existing(host) + promised.get(host, 0.0))))
    return wanted


def _promised(pending: Iterable[RequestBatch]) -> dict[str, float]:
    """pendingHostToContainerCount: requests that name several hosts count in parts at each."""
    mentions: Counter[str] = Counter()
    requests = 0
    for batch in pending:
        layout = batch.layout
        assert layout is not None
        requests += batch.size
        begun, end = batch.first - batch.base, batch.last - batch.base + 1
        before = 0
        # The hosts of the shortest group are in all requests, those that a longer group has besides in fewer.
        for length, until in reversed(tuple(zip(layout.lengths, layout.ends, strict=True))):
            here = min(end, until) - begun
            if here <= 0:
                break
            for host in layout.hosts[before:length]:
                mentions[host] += here
            before = length
    total = sum(mentions.values())
    return {host: count * float(requests) / total for host, count in mentions.items()}


def _layout(requests: int, shares: Mapping[str, int], rack_of: Callable[[str], str]) -> Layout | None:
    """Host i in the first ``shares[i]`` of so many requests; the largest share is at least all of them."""
    hosts = tuple(sorted((host for host, share in shares.items() if share > 0), key=lambda host: (-shares[host], host)))
    lengths: list[int] = []
    ends: list[int] = []
    there, done = len(hosts), 0
    while there and done < requests:
        end = min(shares[hosts[there - 1]], requests)
        if end > done:
            lengths.append(there)
            ends.append(end)
            done = end
        there -= 1
    return Layout(hosts, tuple(map(rack_of, hosts)), tuple(lengths), tuple(ends))


def _over(dividend: float, divisor: int) -> float:
    """Java's division of doubles."""
    if divisor:
        return dividend / divisor
    return math.nan if dividend == 0 or math.isnan(dividend) else math.copysign(math.inf, dividend)


def _ceil(value: float) -> int:
    """Java's ceil and the cast to an int: NaN is 0, what is too large is the largest."""
    return double_to_int(value if not math.isfinite(value) else math.ceil(value))
