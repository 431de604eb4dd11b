"""The table of waiting requests against a list of requests, one by one; older tables still answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from podtide.domain.protocol.container_requests import Layout, RequestBatch, RequestTable, Span, count_of, first_of
from podtide.domain.protocol.containers import ANY_HOST

POOL = ("h1", "h2", "h3", "h4", "h5", "h6")
RACK_NAMES = ("/a", "/b", "h6")
"""A topology script may call a rack what it likes, also like a host."""


class Request(NamedTuple):
    number: int
    hosts: frozenset[str]
    racks: frozenset[str]


@dataclass
class Naive:
    """AMRMClientImpl for one profile, with an object for each request."""

    waiting: list[Request] = field(default_factory=list)
    made: int = 0

    def add(self, layout: Layout | None, anywhere: int) -> None:
        nodes: list[tuple[frozenset[str], frozenset[str]]] = []
        if layout is not None:
            for place in range(layout.size):
                length = next(length for length, end in zip(layout.lengths, layout.ends, strict=True) if place < end)
                nodes.append((frozenset(layout.hosts[:length]), frozenset(layout.racks[:length])))
        nodes += [(frozenset(), frozenset())] * max(0, anywhere)
        for hosts, racks in nodes:
            self.made += 1
            self.waiting.append(Request(self.made, hosts, racks))

    def take(self, location: str) -> int | None:
        for request in self.waiting:
            if location == ANY_HOST or location in request.hosts or location in request.racks:
                self.waiting.remove(request)
                return request.number
        return None

    def drop(self, numbers: Iterable[int]) -> None:
        gone = set(numbers)
        assert gone <= {request.number for request in self.waiting}
        self.waiting = [request for request in self.waiting if request.number not in gone]

    def split(self, hosts: Iterable[str]) -> tuple[list[int], list[int], list[int]]:
        wished = frozenset(hosts)
        local = [request.number for request in self.waiting if request.hosts & wished]
        stale = [request.number for request in self.waiting if request.hosts and not request.hosts & wished]
        return local, stale, [request.number for request in self.waiting if not request.hosts]


def numbers_of(spans: Iterable[Span | RequestBatch]) -> list[int]:
    return [number for span in spans for number in range(span.first, span.last + 1)]


def told(table: RequestTable) -> list[Request]:
    """Every request of a table with its nodes."""
    requests = []
    for batch in table.batches:
        for number in range(batch.first, batch.last + 1):
            layout = batch.layout
            length = 0 if layout is None else layout.length(number - batch.base)
            hosts, racks = ((), ()) if layout is None else (layout.hosts[:length], layout.racks[:length])
            requests.append(Request(number, frozenset(hosts), frozenset(racks)))
    return requests


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    hosts = draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=6, unique=True))
    lengths = draw(st.lists(st.integers(1, len(hosts)), min_size=1, max_size=4, unique=True))
    sizes = draw(st.lists(st.integers(1, 6), min_size=len(lengths), max_size=len(lengths)))
    ends = tuple(sum(sizes[: place + 1]) for place in range(len(sizes)))
    racks = tuple(draw(st.sampled_from(RACK_NAMES)) for _ in hosts)
    return Layout(tuple(hosts), racks, tuple(sorted(lengths, reverse=True)), ends)


class Added(NamedTuple):
    layout: Layout | None
    anywhere: int


class Taken(NamedTuple):
    location: str


class Cut(NamedTuple):
    """Of the requests by what hosts make of them: the first so many, in an order of the three kinds."""

    hosts: frozenset[str]
    order: tuple[int, ...]
    most: int


class Dropped(NamedTuple):
    """Requests here and there, by their place among those that wait."""

    places: frozenset[int]


Act = Added | Taken | Cut | Dropped
acts: st.SearchStrategy[Act] = st.one_of(
    st.builds(Added, st.none() | layouts(), st.integers(0, 8)),
    st.builds(Taken, st.sampled_from([*POOL, *RACK_NAMES, ANY_HOST, "elsewhere"])),
    st.builds(
        Cut,
        st.frozensets(st.sampled_from(POOL)),
        st.permutations([0, 1, 2]).map(tuple),
        st.integers(0, 12),
    ),
    st.builds(Dropped, st.frozensets(st.integers(0, 20), max_size=5)),
)


@given(st.lists(acts, max_size=20))
def test_the_table_is_a_list_of_requests(story: list[Act]) -> None:
    table, naive = RequestTable(), Naive()
    kept: list[tuple[RequestTable, list[Request]]] = []
    for act in story:
        kept.append((table, list(naive.waiting)))
        match act:
            case Added():
                table = table.added(act.layout, act.anywhere)
                naive.add(act.layout, act.anywhere)
            case Taken():
                table, number = table.taken(act.location)
                assert number == naive.take(act.location)
            case Cut():
                parts = table.split(act.hosts)
                kinds = naive.split(act.hosts)
                local = [Span(batch.first, batch.last) for batch in parts.local]
                split: tuple[Iterable[Span], ...] = (local, parts.stale, parts.anywhere)
                assert [numbers_of(spans) for spans in split] == list(kinds)
                assert [count_of(spans) for spans in split] == [len(kind) for kind in kinds]
                in_order = [span for kind in act.order for span in split[kind]]
                chosen = first_of(in_order, act.most)
                naively = [number for kind in act.order for number in kinds[kind]][: act.most]
                assert numbers_of(chosen) == naively
                table = table.without(chosen)
                naive.drop(naively)
            case Dropped():
                gone = [naive.waiting[place].number for place in act.places if place < len(naive.waiting)]
                table = table.without(Span(number, number) for number in gone)
                naive.drop(gone)
        assert told(table) == naive.waiting
        assert list(table.numbers()) == [request.number for request in naive.waiting]
        assert (table.made, table.waiting) == (naive.made, len(naive.waiting))
        assert all(batch.size > 0 for batch in table.batches)
    for older, waiting in kept:
        assert told(older) == waiting
        assert older.waiting == len(waiting)


@given(layouts())
def test_a_layout_counts_its_requests(layout: Layout) -> None:
    naive = Naive()
    naive.add(layout, 0)
    assert layout.size == len(naive.waiting)
    groups = list(layout.groups())
    assert [frozenset(hosts) for count, hosts, _ in groups for _ in range(count)] == [
        request.hosts for request in naive.waiting
    ]
    assert [frozenset(racks) for count, _, racks in groups for _ in range(count)] == [
        request.racks for request in naive.waiting
    ]
    assert all(hosts == tuple(sorted(hosts)) and racks == tuple(sorted(set(racks))) for _, hosts, racks in groups)
    for place, host in enumerate(layout.hosts):
        assert layout.until(place) == sum(host in request.hosts for request in naive.waiting)


TWO_HOSTS = Layout(("h1", "h2"), ("/a", "/b"), (2, 1), (2, 3))


@pytest.mark.parametrize(
    ("location", "number"),
    [
        pytest.param("h1", 3, id="a host"),
        pytest.param("h2", 3, id="a host of the first ones only"),
        pytest.param("/b", 3, id="a rack"),
        pytest.param("*", 1, id="44 anywhere takes the oldest of all"),
        pytest.param("h3", None, id="a host that nobody wants"),
    ],
)
def test_the_oldest_that_is_listed_is_taken(location: str, number: int | None) -> None:
    table = RequestTable().added(None, 2).added(TWO_HOSTS, 0)
    assert table.taken(location)[1] == number


def test_a_rack_may_be_called_like_a_host() -> None:
    """Hadoop's table knows locations only. The second request has h1 alone, whose rack is called h2."""
    table, _ = RequestTable().added(Layout(("h1", "h2"), ("h2", "/b"), (2, 1), (1, 2)), 0).taken("h1")
    assert table.taken("h2")[1] == 2


def test_requests_without_nodes_in_a_row_are_one_batch() -> None:
    table = RequestTable()
    for _ in range(1_000):
        table = table.added(None, 3)
    assert table.batches == (RequestBatch(1, 3_000),)


def test_nothing_asked_for_changes_nothing() -> None:
    assert RequestTable().added(None, 0) == RequestTable()
    assert first_of((Span(1, 5),), 0) == ()
    assert first_of((), 3) == ()
