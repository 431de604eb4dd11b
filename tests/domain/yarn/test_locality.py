"""Where containers should be: Spark's own placement scenarios, and every request against the algorithm taken literally.

``literal`` is spec: yarn, section 5 step by step, a list of hosts for each request; ``place`` groups equal requests. What
they ask for must be the same, request by request, also while earlier requests wait, are taken and grow stale.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from podtide.domain.protocol.container_requests import RequestBatch, RequestTable
from podtide.domain.protocol.containers import ANY_HOST, DEFAULT_RACK
from podtide.domain.yarn.locality import ContainerPlacement, Wish, place

Hosts = frozenset[str]


class Request(NamedTuple):
    """One request, as Spark makes it."""

    hosts: Hosts
    racks: frozenset[str]


ANYWHERE = Request(frozenset(), frozenset())


def literal(
    containers: int, wish: Wish, existing: Mapping[str, int], pending: Sequence[Hosts], racks: Mapping[str, str]
) -> list[Request]:
    """localityOfRequestedContainers, as written down: one preference after the other."""
    mentions = Counter(host for hosts in pending for host in hosts)
    total_mentions = sum(mentions.values())
    promised = {host: times * float(len(pending)) / total_mentions for host, times in mentions.items()}
    total = sum(wish.host_tasks.values())
    executors_pending = math.ceil(wish.tasks / wish.per_executor)
    updated = {}
    for host, tasks in wish.host_tasks.items():
        there = existing.get(host, 0) + promised.get(host, 0.0)
        expected = tasks * float(executors_pending) / total if total else math.nan
        updated[host] = 0 if math.isnan(expected) else max(0, math.ceil(expected - there))
    aware = sum(updated.values())
    free = max(0, containers - aware)
    localized = containers - free
    asked = [ANYWHERE] * free
    if localized > 0:
        largest = max(updated.values())
        ratios = {host: math.ceil(count * float(localized) / largest) for host, count in updated.items()}
        for _ in range(localized):
            hosts = frozenset(host for host, ratio in ratios.items() if ratio > 0)
            asked.append(Request(hosts, frozenset(racks.get(host, DEFAULT_RACK) for host in hosts)))
            ratios = {host: ratio - 1 for host, ratio in ratios.items()}
    return asked


def one_by_one(placement: ContainerPlacement) -> list[Request]:
    """Every request of a placement; those without a preference come first."""
    asked = [ANYWHERE] * placement.anywhere
    for count, hosts, racks in () if placement.layout is None else placement.layout.groups():
        asked += [Request(frozenset(hosts), frozenset(racks))] * count
    return asked


def ask(
    containers: int,
    wish: Wish,
    existing: Mapping[str, int],
    pending: Sequence[RequestBatch] = (),
    racks: Mapping[str, str] = {},
) -> list[Request]:
    placement = place(
        containers, wish, lambda host: existing.get(host, 0), pending, lambda host: racks.get(host, DEFAULT_RACK)
    )
    return one_by_one(placement)


# What Spark's own suites say; five tasks run in an executor.


def hosts_of(requests: Sequence[Request]) -> list[str]:
    """Hosts of each request, by their digits."""
    return ["".join(sorted(host[1:] for host in request.hosts)) for request in requests]


WANTED = {"h1": 15, "h2": 15, "h3": 10}


@pytest.mark.parametrize(
    ("containers", "tasks", "wanted", "existing", "asked"),
    [
        pytest.param(3, 15, {"h3": 15, "h4": 15, "h5": 10}, {}, ["345", "345", "34"], id="Z1 nothing there"),
        pytest.param(3, 15, WANTED, {"h1": 2, "h2": 1}, ["", "23", "23"], id="Z2 some there"),
        pytest.param(1, 15, WANTED, {"h1": 2, "h2": 1}, ["23"], id="Z3 fewer containers than wished"),
        pytest.param(3, 15, WANTED, {"h1": 2, "h2": 2, "h3": 1}, ["", "", ""], id="Z4 all there"),
        pytest.param(1, 0, {}, {}, [""], id="Z5 no preferences"),
        pytest.param(0, 15, WANTED, {}, [], id="nothing asked for"),
        pytest.param(2, 15, {"h1": 0, "h2": 0}, {}, ["", ""], id="41 counts that sum to nothing"),
        pytest.param(2, 0, WANTED, {}, ["", ""], id="no task with a preference"),
        pytest.param(2, 15, {"h1": 15, "h2": 0}, {}, ["1", "1"], id="a host with no task"),
    ],
)
def test_spark_places(
    containers: int, tasks: int, wanted: dict[str, int], existing: dict[str, int], asked: list[str]
) -> None:
    wish = Wish(tasks, wanted, 5)
    assert hosts_of(ask(containers, wish, existing)) == asked
    assert hosts_of(literal(containers, wish, existing, (), {})) == asked


def test_requests_that_wait_count_in_parts() -> None:
    """Z6: as Z3, while requests for {2, 3} and {1, 4} wait."""
    table = RequestTable()
    for hosts in ({"h2": 1, "h3": 1}, {"h1": 1, "h4": 1}):
        layout = place(1, Wish(1, hosts, 1), lambda _: 0, (), lambda _: DEFAULT_RACK).layout
        table = table.added(layout, 0)
    parts = table.split(WANTED.keys())
    assert [batch.size for batch in parts.local] == [1, 1]
    wish = Wish(15, WANTED, 5)
    assert hosts_of(ask(1, wish, {"h1": 2, "h2": 1}, parts.local)) == ["3"]
    waiting = [frozenset({"h2", "h3"}), frozenset({"h1", "h4"})]
    assert hosts_of(literal(1, wish, {"h1": 2, "h2": 1}, waiting, {})) == ["3"]


def test_a_large_stage_ends_soon() -> None:
    """Z7: Spark's recursion once had no room for it."""
    wanted = {f"h{number}": 32_768 // 128 for number in range(128)}
    begun = time.thread_time()
    asked = ask(2_048, Wish(32_768, wanted, 16), {})
    assert time.thread_time() - begun < 5
    assert [len(request.hosts) for request in asked] == [128] * 2_048


@pytest.mark.parametrize("count", [2**31 - 1, 2**40])
def test_absurd_counts_end(count: int) -> None:
    """Hints come from outside; what does not fit 32 bits must not cost anything."""
    wish = Wish(count, {"h1": count, "h2": 1}, 1)
    placement = place(10, wish, lambda _: 0, (), lambda _: DEFAULT_RACK)
    assert placement.anywhere + (0 if placement.layout is None else placement.layout.size) >= 10


# Against the algorithm taken literally.

POOL = [f"h{number}" for number in range(7)]
RACKS = {"h0": "/a", "h1": "/a", "h2": "/b", "h3": "/b", "h4": "/c"}
LOCATIONS = st.sampled_from([*POOL, "/a", "/b", "/c", DEFAULT_RACK, ANY_HOST])


class Round(NamedTuple):
    """A placement, and what happens before the next one."""

    containers: int
    wish: Wish
    existing: dict[str, int]
    taken: list[str]
    stale_too: bool


rounds = st.builds(
    Round,
    st.integers(0, 40),
    st.builds(
        Wish,
        st.integers(0, 60),
        st.dictionaries(st.sampled_from(POOL), st.integers(0, 20), max_size=7),
        st.integers(1, 5),
    ),
    st.dictionaries(st.sampled_from(POOL), st.integers(0, 6), max_size=4),
    st.lists(LOCATIONS, max_size=12),
    st.booleans(),
)


@given(st.lists(rounds, min_size=1, max_size=6))
def test_equal_requests_together_ask_for_the_same_as_one_by_one(story: list[Round]) -> None:
    table = RequestTable()
    waiting: dict[int, Request] = {}
    for one in story:
        hosts = one.wish.host_tasks.keys()
        parts = table.split(hosts)
        if one.stale_too:
            table = table.without(parts.stale)
            for span in parts.stale:
                for number in range(span.first, span.last + 1):
                    assert not waiting[number].hosts & hosts
                    del waiting[number]
        near = [request.hosts for request in waiting.values() if request.hosts & hosts]
        expected = literal(one.containers, one.wish, one.existing, near, RACKS)
        placement = place(
            one.containers,
            one.wish,
            lambda host, there=one.existing: there.get(host, 0),  # type: ignore[misc]
            parts.local,
            lambda host: RACKS.get(host, DEFAULT_RACK),
        )
        assert one_by_one(placement) == expected
        localized = [request for request in expected if request.hosts]
        numbers = range(table.made + 1, table.made + one.containers + 1)
        table = table.added(placement.layout, placement.anywhere)
        waiting |= zip(numbers, localized + [ANYWHERE] * (one.containers - len(localized)), strict=True)
        for location in one.taken:
            oldest = next(
                (
                    number
                    for number, request in sorted(waiting.items())
                    if location == ANY_HOST or location in request.hosts or location in request.racks
                ),
                None,
            )
            table, taken = table.taken(location)
            assert taken == oldest
            if oldest is not None:
                del waiting[oldest]
        assert list(table.numbers()) == sorted(waiting)
