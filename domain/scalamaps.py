"""How Scala 2.13 walks a mutable HashMap with Int keys: the one place where its order and growth are modelled.

ExecutorAllocationManager keeps the target of each profile in such a map and walks it in every round. The order shows when
a profile makes schedule() throw (those before it have moved, those after have not). And it shows in a stranger way: an
update of a key that is there already may make the table grow, so that with 11, 23, 47, ... profiles the first update of
a round moves profiles to places that the walk does not reach; they are passed over until the next round.

The table begins with 16 buckets and doubles, before an update or an insertion, when one entry more would reach three
quarters of it. The bucket of a key is ``(h ^ h >>> 16)`` modulo the table; a bucket is a chain sorted by that hash as a
signed number; a walk visits as many buckets as there were when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from podtide.domain.units import ProfileId

BUCKETS: Final = 16
"""HashMap.defaultInitialCapacity."""


def grown(entries: int, buckets: int) -> int:
    """The buckets after ``put`` of one key into a map of so many entries, be the key new or not."""
    return buckets * 2 if entries + 1 >= buckets * 0.75 else buckets


def _hash(profile: ProfileId) -> int:
    bits = profile & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def _chain_order(profile: ProfileId) -> int:
    hashed = _hash(profile)
    return hashed - 2**32 if hashed >= 2**31 else hashed


class Walk:
    """``HashMap.foreach``: yields the keys; ``put`` tells it of an update of a key that is there."""

    def __init__(self, profiles: Iterable[ProfileId], buckets: int) -> None:
        self._profiles = sorted(profiles, key=_chain_order)
        self.buckets = buckets

    def put(self) -> None:
        """A key was updated."""
        self.buckets = grown(len(self._profiles), self.buckets)

    def __iter__(self) -> Iterator[ProfileId]:
        size = self.buckets
        chains = self._chains()
        for place in range(size):
            chain = chains.get(place, [])
            while chain:
                profile, *chain = chain
                before = self.buckets
                yield profile
                if self.buckets != before:  # growing splits a chain: the walk goes on in the half that it is in
                    chains = self._chains()
                    mask = self.buckets - 1
                    chain = [other for other in chain if _hash(other) & mask == _hash(profile) & mask]

    def _chains(self) -> dict[int, list[ProfileId]]:
        chains: dict[int, list[ProfileId]] = {}
        for profile in self._profiles:
            chains.setdefault(_hash(profile) & (self.buckets - 1), []).append(profile)
        return chains


def walk_order(profiles: Iterable[ProfileId], buckets: int) -> tuple[ProfileId, ...]:
    """The keys in the order of a walk that updates nothing."""
    return tuple(Walk(profiles, buckets))
