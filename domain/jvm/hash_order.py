"""In which order Scala 2.13 and Java walk their hash tables: the one place where that order, and growth, are modelled.

Three kinds of table, each a function from hash codes: the immutable HashMap and HashSet (``trie_order``), the mutable ones
(``bucket_order``) and Java's ConcurrentHashMap (``concurrent_order``). ``long_hash`` is the code of a Long key; an Int's is
the number itself, a string's ``jvm.values.string_hash``; a case class and a tuple have ``product_hash``, a map
``map_hash``.

A mutable HashMap with Int keys is also walked while it changes. ExecutorAllocationManager keeps the target of each profile
in such a map and walks it in every round. The order shows when a profile makes schedule() throw (those before it have
moved, those after have not). And it shows in a stranger way: an update of a key that is there already may make the table
grow, so that with 11, 23, 47, ... profiles the first update of a round moves profiles to places that the walk does not
reach; they are passed over until the next round.

The table begins with 16 buckets and doubles, before an update or an insertion, when one entry more would reach three
quarters of it. The bucket of a key is ``(h ^ h >>> 16)`` modulo the table; a bucket is a chain sorted by that hash as a
signed number; a walk visits as many buckets as there were when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.values import string_hash, to_int

BUCKETS: Final = 16
"""HashMap.defaultInitialCapacity, of Scala and of Java."""

SMALL: Final = 4
"""Scala's immutable maps and sets of up to so many entries keep the order of insertion."""

T = TypeVar("T")


def long_hash(number: int) -> int:
    """``##`` of a Long, as 32 bits: the number's own where it is an Int, else that of java.lang.Long."""
    low = number & 0xFFFFFFFF
    return low if -(2**31) <= number < 2**31 else low ^ (number >> 32 & 0xFFFFFFFF)


def trie_order(entries: Sequence[tuple[int, T]]) -> list[T]:
    """How an immutable HashMap or HashSet is walked; ``entries``: hash code and item, in order of insertion.

    A CHAMP trie, five bits of the improved hash a level: a node lists its own entries before those of its children. Small
    maps and sets are no tries (``SMALL``).
    """
    return _trie_order([(_improved(code), item) for code, item in entries], 0)


def _trie_order(entries: list[tuple[int, T]], shift: int) -> list[T]:
    if len(entries) <= 1 or shift >= 32:  # equal hashes come as they were put in
        return [item for _, item in entries]
    slots: dict[int, list[tuple[int, T]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    ordered = [slots[slot] for slot in sorted(slots)]
    own = [group[0][1] for group in ordered if len(group) == 1]
    return own + [item for group in ordered if len(group) > 1 for item in _trie_order(group, shift + 5)]


def _improved(code: int) -> int:
    """scala.util.hashing: Hashing.improve, unsigned."""
    mixed = code & 0xFFFFFFFF
    mixed = (mixed + ~(mixed << 9)) & 0xFFFFFFFF
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & 0xFFFFFFFF
    return mixed ^ mixed >> 10


def bucket_order(entries: Sequence[tuple[int, T]], size: int | None = None) -> list[T]:
    """How a mutable HashMap or HashSet is walked; ``entries``: hash code and item, in order of insertion.

    ``size``: how many the table has held, where these are only some of them.
    """
    mask = _buckets(len(entries) if size is None else size) - 1

    def place(entry: tuple[int, T]) -> tuple[int, int]:
        hashed = _spread(entry[0])
        return hashed & mask, _signed(hashed)

    return [item for _, item in sorted(entries, key=place)]


def concurrent_order(entries: Sequence[tuple[int, T]]) -> list[T]:
    """How a java.util.concurrent.ConcurrentHashMap is walked; ``entries``: hash code and item, in order of insertion.

    By place in the table. Entries of one place come in the order in which they were put, which a growing table partly turns
    around; that is not modelled.
    """
    mask = _buckets(len(entries)) - 1
    return [item for _, item in sorted(entries, key=lambda entry: _spread(entry[0]) & mask)]


def _buckets(entries: int) -> int:
    """The least table, of 16 places or twice as many again and again, that is less than three quarters full."""
    size = BUCKETS
    while entries >= size * 0.75:
        size *= 2
    return size


def _spread(code: int) -> int:
    """A hash code with its upper half folded into the lower, as both libraries do it."""
    bits = code & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def _signed(bits: int) -> int:
    return bits - 2**32 if bits >= 2**31 else bits


def grown(entries: int, buckets: int) -> int:
    """The buckets after ``put`` of one key into a map of so many entries, be the key new or not."""
    return buckets * 2 if entries + 1 >= buckets * 0.75 else buckets


def _chain_order(profile: ProfileId) -> int:
    return _signed(_spread(profile))


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
                    chain = [other for other in chain if _spread(other) & mask == _spread(profile) & mask]

    def _chains(self) -> dict[int, list[ProfileId]]:
        chains: dict[int, list[ProfileId]] = {}
        for profile in self._profiles:
            chains.setdefault(_spread(profile) & (self.buckets - 1), []).append(profile)
        return chains


def walk_order(profiles: Iterable[ProfileId], buckets: int) -> tuple[ProfileId, ...]:
    """The keys in the order of a walk that updates nothing."""
    return tuple(Walk(profiles, buckets))


_PRODUCT_SEED: Final = 0xCAFEBABE


def map_hash(entries: Mapping[str, str]) -> int:
    """MurmurHash3.mapHash: the same in whatever order."""
    total = exclusive = 0
    product = 1
    for name, text in entries.items():
        code = product_hash("Tuple2", [string_hash(name), string_hash(text)]) & 0xFFFFFFFF
        total += code
        exclusive ^= code
        product = product * (code | 1) & 0xFFFFFFFF
    mixed = _mix(_mix(string_hash("Map") & 0xFFFFFFFF, total & 0xFFFFFFFF), exclusive)
    return _finished(_mixed_last(mixed, product), len(entries))


def product_hash(name: str, codes: Iterable[int]) -> int:
    """MurmurHash3.productHash, the name of the class included; signed."""
    mixed = _mix(_PRODUCT_SEED, string_hash(name))
    count = 0
    for code in codes:
        mixed = _mix(mixed, code)
        count += 1
    return _finished(mixed, count)


def _mix(mixed: int, code: int) -> int:
    mixed = _turned(_mixed_last(mixed, code), 13)
    return (mixed * 5 + 0xE6546B64) & 0xFFFFFFFF


def _mixed_last(mixed: int, code: int) -> int:
    code = _turned((code & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF, 15)
    return mixed ^ code * 0x1B873593 & 0xFFFFFFFF


def _turned(code: int, bits: int) -> int:
    return (code << bits | code >> 32 - bits) & 0xFFFFFFFF


def _finished(mixed: int, count: int) -> int:
    mixed ^= count
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return to_int(mixed ^ mixed >> 16)


def immutable_map_order(names: Sequence[str]) -> list[str]:
    """The order in which Scala 2.13 walks an immutable HashMap with these keys."""
    return trie_order([(string_hash(name), name) for name in names])


def map_order(names: Sequence[str]) -> list[str]:
    """The order in which Scala 2.13 walks an immutable Map with these keys, given in order of insertion."""
    return list(names) if len(names) <= SMALL else immutable_map_order(names)


def concurrent_map_order(names: Sequence[str]) -> list[str]:
    """The order in which Java walks a ConcurrentHashMap with these keys, up to eleven, given in order of insertion."""
    assert len(names) < 12  # beyond that the table grows
    return concurrent_order([(string_hash(name), name) for name in names])


def mutable_map_order(names: Sequence[str]) -> list[str]:
    """The order in which Scala 2.13 walks a mutable HashMap with these keys, given in order of insertion."""
    return bucket_order([(string_hash(name), name) for name in names])
