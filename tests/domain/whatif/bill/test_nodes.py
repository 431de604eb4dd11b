"""Whole nodes by first fit: small plays by hand, and by chance against a reading of the rule that looks at every node."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from podtide.domain.whatif.bill.nodes import PlacedSpan, node_ms
from podtide.domain.whatif.bill.rules import NodeShape

NODE = NodeShape(4, 16_384)


def spans(*lives: tuple[int, int], cores: int = 2, mib: int = 8_192) -> list[PlacedSpan]:
    return [PlacedSpan(began, ended, cores, mib) for began, ended in lives]


def test_a_node_is_paid_for_until_its_last_executor_ends() -> None:
    assert node_ms(spans((0, 10), (5, 30)), NODE) == 30


def test_where_none_has_room_another_node_is_opened() -> None:
    assert node_ms(spans((0, 10), (0, 10), (0, 10)), NODE) == 20


def test_memory_counts_as_cores_do() -> None:
    assert node_ms(spans((0, 10), (0, 10), cores=1, mib=9_000), NODE) == 20


def test_an_executor_that_ends_makes_room_at_that_moment() -> None:
    assert node_ms(spans((0, 10), (0, 20), (10, 20)), NODE) == 20


def test_a_node_that_was_given_back_is_not_paid_for_between() -> None:
    assert node_ms(spans((0, 10), (50, 60)), NODE) == 20


def test_what_is_reserved_is_no_room() -> None:
    reserved = NodeShape(4, 16_384, reserved_cores=0.1)
    assert node_ms(spans((0, 10), (0, 10)), reserved) == 20


def test_an_executor_larger_than_a_node_takes_several() -> None:
    assert node_ms(spans((0, 10), cores=9, mib=8_192), NODE) == 30


def test_an_executor_that_was_never_there_takes_none() -> None:
    assert node_ms(spans((7, 7)), NODE) == 0


SPANS = st.lists(
    st.builds(
        lambda began, length, shape: PlacedSpan(began, began + length, *shape),
        st.integers(0, 60), st.integers(0, 40), st.sampled_from([(1, 4), (2, 2), (3, 9), (5, 20)]),
    ),
    max_size=40,
)  # fmt: skip
NODES = st.builds(NodeShape, st.integers(1, 8), st.integers(1, 24))


def read_plainly(lives: list[PlacedSpan], node: NodeShape) -> int:
    """First fit, node by node, moment by moment."""
    cores, mib = node.cores, node.memory_mib
    nodes: list[list[PlacedSpan]] = []
    paid = 0
    for one in sorted(lives):
        if one.cores > cores or one.memory_mib > mib:
            paid += (one.ended_ms - one.began_ms) * max(-(-one.cores // cores), -(-one.memory_mib // mib))
            continue
        if one.ended_ms == one.began_ms:
            continue
        for standing in nodes:
            there = [other for other in standing if other.ended_ms > one.began_ms]
            fits = sum(other.cores for other in there) + one.cores <= cores
            if there and fits and sum(other.memory_mib for other in there) + one.memory_mib <= mib:
                standing.append(one)
                break
        else:
            nodes.append([one])
    return paid + sum(max(one.ended_ms for one in own) - own[0].began_ms for own in nodes)


@settings(max_examples=300)
@given(SPANS, NODES)
def test_it_is_first_fit(lives: list[PlacedSpan], node: NodeShape) -> None:
    assert node_ms(lives, node) == read_plainly(lives, node)


@given(SPANS, NODES)
def test_nodes_hold_what_stands_on_them(lives: list[PlacedSpan], node: NodeShape) -> None:
    paid = node_ms(lives, node)
    assert paid * node.cores >= sum(one.cores * (one.ended_ms - one.began_ms) for one in lives)
    assert paid * node.memory_mib >= sum(one.memory_mib * (one.ended_ms - one.began_ms) for one in lives)


@given(SPANS)
def test_nodes_of_an_executors_size_are_paid_like_executors(lives: list[PlacedSpan]) -> None:
    same = [one._replace(cores=2, memory_mib=4) for one in lives]
    assert node_ms(same, NodeShape(2, 4)) == sum(one.ended_ms - one.began_ms for one in same)
