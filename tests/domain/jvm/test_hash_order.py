"""The walk over Scala's HashMap, update by update. Expectations follow HashMap 2.13; quirk-eleven-profiles is the proof."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.hash_order import Walk, grown, walk_order


def profiles(*numbers: int) -> list[ProfileId]:
    return [ProfileId(n) for n in numbers]


@pytest.mark.parametrize(
    ("keys", "buckets", "order"),
    [
        (profiles(0), 16, [0]),
        (profiles(5, 0, 3), 16, [0, 3, 5]),
        (profiles(17, 16, 1, 0), 16, [0, 16, 1, 17]),
        (profiles(*range(11, 22)), 16, [16, 17, 18, 19, 20, 21, 11, 12, 13, 14, 15]),
        (profiles(*range(11, 23)), 32, list(range(11, 23))),
        (profiles(65_536, 1, 0), 16, [0, 1, 65_536]),  # the upper half of the bits is folded in
        (profiles(0, 16, -1), 16, [-1, 0, 16]),  # a chain is sorted by signed hashes
    ],
)
def test_the_order_of_a_walk(keys: list[ProfileId], buckets: int, order: list[int]) -> None:
    assert list(walk_order(keys, buckets)) == order


@pytest.mark.parametrize(
    ("entries", "buckets", "after"), [(0, 16, 16), (10, 16, 16), (11, 16, 32), (11, 32, 32), (22, 32, 32), (23, 32, 64)]
)
def test_when_a_table_grows(entries: int, buckets: int, after: int) -> None:
    assert grown(entries, buckets) == after


def test_an_update_in_a_walk_may_move_keys_beyond_its_reach() -> None:
    walk = Walk(profiles(0, *range(17, 27)), 16)
    seen = []
    for profile in walk:
        seen.append(profile)
        walk.put()
    assert seen == [0]
    assert walk.buckets == 32


def test_a_chain_that_is_split_goes_on_in_its_own_half() -> None:
    walk = Walk(profiles(0, 16, 32, 1, 2, 3, 4, 5, 6, 7, 8), 16)
    seen = []
    for profile in walk:
        seen.append(profile)
        if profile == 0:
            walk.put()
    assert seen == [0, 32, 1, 2, 3, 4, 5, 6, 7, 8]
