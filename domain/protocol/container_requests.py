"""The container requests that wait for an answer, as AMRMClientImpl keeps them, equal ones together.

A request asks for one container, somewhere on a few hosts or anywhere. Spark makes them one by one, each with its own list
of hosts; but the hosts of one placement are nested: the most wanted host is in all of its requests, the least wanted only in
the first (``locality``). So a placement is one ``Layout``: hosts in the order in which they drop out, and how many requests
have how many of them. A ``RequestBatch`` is a run of requests of one layout with numbers in a row; one without a layout
asks for containers anywhere. However many requests there are, what is kept and walked through are batches.

Which request a container takes is Hadoop's rule: of those listed at its location the oldest. A localized request is listed
at its hosts, at their racks and at "*". Within a batch the first request has all hosts that any later one has; so if the
first is not listed at a location, none is.

Requests are numbered per profile, from 1, in the order in which they were made; all lists here are in that order.
Source: AMRMClientImpl and RemoteRequestsTable of Hadoop 3, as real Spark drives them (spec: yarn, sections 4 and 6).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import neg
from typing import NamedTuple

from podtide.domain.protocol.containers import ANY_HOST


class Span(NamedTuple):
    """Requests with numbers in a row, ``first`` to ``last``."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Layout:
    """The hosts of one placement, and how many of them each of its requests has.

    ``hosts``: the longer a host stays in the requests, the earlier it stands here; ``racks``: the rack of each.
    ``lengths``: how many of the hosts the requests of a group have, falling; ``ends``: how many requests there are up to the
    end of each group. What follows from these: ``places`` and ``rack_places``, where a host stands, and the first of a rack.
    """

    hosts: tuple[str, ...]
    racks: tuple[str, ...]
    lengths: tuple[int, ...]
    ends: tuple[int, ...]
    places: Mapping[str, int] = field(init=False, repr=False, compare=False)
    rack_places: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up where each host and rack stands."""
        rack_places: dict[str, int] = {}
        for number, rack in enumerate(self.racks):
            rack_places.setdefault(rack, number)
        object.__setattr__(self, "places", {host: number for number, host in enumerate(self.hosts)})
        object.__setattr__(self, "rack_places", rack_places)

    @property
    def size(self) -> int:
        """How many requests."""
        return self.ends[-1]

    def length(self, place: int) -> int:
        """How many hosts the request at this place has; places count from 0."""
        return self.lengths[bisect_right(self.ends, place)]

    def until(self, host_place: int) -> int:
        """How many of the requests have the host at that place."""
        groups = bisect_left(self.lengths, -host_place, key=neg)  # those that have more hosts than stand before it
        return self.ends[groups - 1] if groups else 0

    def groups(self) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
        """Equal requests together: how many, their hosts and racks, sorted."""
        begun = 0
        for length, end in zip(self.lengths, self.ends, strict=True):
            racks = tuple(sorted(rack for rack, first in self.rack_places.items() if first < length))
            yield end - begun, tuple(sorted(self.hosts[:length])), racks
            begun = end


class RequestBatch(NamedTuple):
    """Requests with numbers in a row. ``base``: the number of the layout's first request, whoever has taken it since."""

    first: int
    last: int
    layout: Layout | None = None
    base: int = 0

    @property
    def size(self) -> int:
        """How many are left."""
        return self.last - self.first + 1

    def listed(self, location: str) -> bool:
        """Whether its first request is listed at a host, a rack or "*"."""
        if location == ANY_HOST:
            return True
        layout = self.layout
        if layout is None:
            return False
        here = layout.length(self.first - self.base)
        return layout.places.get(location, here) < here or layout.rack_places.get(location, here) < here

    def local(self, hosts: AbstractSet[str]) -> int:
        """How many of its requests have one of these hosts; they are the first ones."""
        layout = self.layout
        if layout is None:
            return 0
        place = min((layout.places[host] for host in hosts & layout.places.keys()), default=None)
        if place is None:
            return 0
        return max(0, min(self.base + layout.until(place), self.last + 1) - self.first)


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The requests of one profile that wait, oldest first. ``made``: how many were ever made. ``waiting``: how many wait."""

    batches: tuple[RequestBatch, ...] = ()
    made: int = 0
    waiting: int = 0

    def added(self, layout: Layout | None, anywhere: int) -> RequestTable:
        """The localized requests of a layout, and after them so many without nodes."""
        batches, made = list(self.batches), self.made
        if layout is not None:
            batches.append(RequestBatch(made + 1, made + layout.size, layout, made + 1))
            made += layout.size
        if anywhere > 0:
            before = batches[-1] if batches else None
            if before is not None and before.layout is None and before.last == made:
                batches[-1] = before._replace(last=made + anywhere)
            else:
                batches.append(RequestBatch(made + 1, made + anywhere))
            made += anywhere
        return RequestTable(tuple(batches), made, self.waiting + made - self.made)

    def taken(self, location: str) -> tuple[RequestTable, int | None]:
        """Without the oldest request that is listed at a location, and its number; None if none is."""
        matching = Matching(self)
        number = matching.take(location)
        return (self if number is None else matching.table()), number

    def without(self, spans: Iterable[Span]) -> RequestTable:
        """Without these requests, all of which wait."""
        batches, gone = list(self.batches), 0
        for span in spans:
            gone += span.size
            place = bisect_right(batches, span.first, key=lambda batch: batch.first) - 1
            batch = batches[place]
            assert batch.first <= span.first <= span.last <= batch.last
            left = (batch._replace(last=span.first - 1), batch._replace(first=span.last + 1))
            batches[place : place + 1] = [one for one in left if one.size > 0]
        return replace(self, batches=tuple(batches), waiting=self.waiting - gone)

    def split(self, hosts: AbstractSet[str]) -> Split:
        """Into those that have one of the hosts, those that have others, and those that have none."""
        local: list[RequestBatch] = []
        stale: list[Span] = []
        anywhere: list[Span] = []
        for batch in self.batches:
            if batch.layout is None:
                anywhere.append(Span(batch.first, batch.last))
                continue
            near = batch.local(hosts)
            if near:
                local.append(batch._replace(last=batch.first + near - 1))
            if near < batch.size:
                stale.append(Span(batch.first + near, batch.last))
        return Split(tuple(local), tuple(stale), tuple(anywhere))

    def numbers(self) -> Iterator[int]:
        """The number of every request that waits."""
        for batch in self.batches:
            yield from range(batch.first, batch.last + 1)


class Matching:
    """The requests of a table while containers take them, one by one. ``localized``: some of them name hosts."""

    __slots__ = ("_batches", "_made", "localized", "waiting")

    def __init__(self, table: RequestTable) -> None:
        self._batches = list(table.batches)
        self._made = table.made
        self.waiting = table.waiting
        self.localized = any(batch.layout is not None for batch in table.batches)

    def take(self, location: str) -> int | None:
        """Take the oldest request that is listed at a location; its number, None if none is."""
        for place, batch in enumerate(self._batches):
            if batch.listed(location):
                first, last, layout, base = batch
                if first == last:
                    del self._batches[place]
                else:
                    self._batches[place] = RequestBatch(first + 1, last, layout, base)
                self.waiting -= 1
                return first
        return None

    def table(self) -> RequestTable:
        """The requests that are left."""
        return RequestTable(tuple(self._batches), self._made, self.waiting)


class Split(NamedTuple):
    """Requests by what their hosts are worth now."""

    local: tuple[RequestBatch, ...]
    stale: tuple[Span, ...]
    anywhere: tuple[Span, ...]


def first_of(spans: Sequence[Span], count: int) -> tuple[Span, ...]:
    """The first so many of these requests."""
    chosen: list[Span] = []
    for span in spans:
        if count <= 0:
            break
        chosen.append(Span(span.first, min(span.last, span.first + count - 1)))
        count -= chosen[-1].size
    return tuple(chosen)


def count_of(spans: Iterable[Span]) -> int:
    """How many requests these are."""
    return sum(span.size for span in spans)
