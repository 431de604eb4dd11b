"""Maps and sets that step forward cheaply: each version against a dict or a set of its own."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.versioned_map import VersionedMap, VersionedSet

KEYS = st.integers(0, 6)


class Put(NamedTuple):
    """``version``: which of the versions is gone on from, as a place counted from the newest one."""

    version: int
    key: int
    value: int


class Gone(NamedTuple):
    version: int
    key: int


VERSIONS = st.just(0) | st.integers(0, 30)
acts = st.lists(st.builds(Put, VERSIONS, KEYS, st.integers(0, 3)) | st.builds(Gone, VERSIONS, KEYS), max_size=40)


@given(acts, st.dictionaries(KEYS, st.integers()), st.data())
def test_every_version_is_a_map_of_its_own(story: list[Put | Gone], begun: dict[int, int], data: st.DataObject) -> None:
    versions = [(VersionedMap(begun), dict(begun))]
    for act in story:
        version, literal = versions[-1 - act.version % len(versions)]
        if isinstance(act, Put):
            versions.append((version.set(act.key, act.value), {**literal, act.key: act.value}))
        else:
            versions.append((version.discard(act.key), {key: literal[key] for key in literal if key != act.key}))
    for place in data.draw(st.permutations(range(len(versions)))):
        version, literal = versions[place]
        assert version == literal
        assert dict(version) == literal
        assert len(version) == len(literal)
        assert sorted(version.items()) == sorted(literal.items())
        assert [version.get(key, "none") for key in range(8)] == [literal.get(key, "none") for key in range(8)]
        assert [key in version for key in range(8)] == [key in literal for key in range(8)]


@given(acts, st.frozensets(KEYS), st.data())
def test_every_version_is_a_set_of_its_own(story: list[Put | Gone], begun: frozenset[int], data: st.DataObject) -> None:
    versions = [(VersionedSet(begun), set(begun))]
    for act in story:
        version, literal = versions[-1 - act.version % len(versions)]
        if isinstance(act, Gone):
            versions.append((version.discard(act.key), literal - {act.key}))
        elif act.value:
            versions.append((version.add(act.key), literal | {act.key}))
        else:
            versions.append((version.update((act.key, 7)), literal | {act.key, 7}))
    for place in data.draw(st.permutations(range(len(versions)))):
        version, literal = versions[place]
        assert version == literal
        assert set(version) == literal
        assert len(version) == len(literal)
        assert [key in version for key in range(8)] == [key in literal for key in range(8)]


def test_versions_with_the_same_content_are_equal() -> None:
    first = VersionedMap({"a": 1}).set("b", 2).remove("a")
    assert first == VersionedMap({"b": 2})
    assert first != VersionedMap({"b": 3})
    assert VersionedSet("ab").discard("a") == VersionedSet("b") == {"b"}
    assert VersionedSet("a") != VersionedSet("b")
    assert VersionedMap() != VersionedSet()


def test_what_is_not_there_cannot_be_removed() -> None:
    kept = VersionedMap({"a": 1})
    with pytest.raises(KeyError):
        kept.remove("b")
    assert kept.discard("b") is kept
    assert VersionedSet("a").discard("b") == {"a"}
    assert kept == {"a": 1}


def test_a_copy_stands_alone() -> None:
    oldest = VersionedMap({"a": 1})
    newest, oldest_set = oldest.set("a", 2), VersionedSet("a")
    newest_set = oldest_set.add("b")
    assert [dict(copied) for copied in deepcopy([oldest, newest])] == [{"a": 1}, {"a": 2}]
    assert [set(copied) for copied in deepcopy([oldest_set, newest_set])] == [{"a"}, {"a", "b"}]


def test_a_long_history_can_be_asked_and_forgotten() -> None:
    """Nothing along the versions is recursive, the end of an old one neither."""
    oldest: VersionedMap[int, int] = VersionedMap()
    older: VersionedSet[int] = VersionedSet()
    newest, newer = oldest, older
    for number in range(100_000):
        newest, newer = newest.set(number, number), newer.add(number)
        if number == 50_000:
            half, half_set = newest, newer
    assert (len(half), len(half_set)) == (50_001, 50_001)
    assert (len(deepcopy(newest)), len(deepcopy(newer))) == (100_000, 100_000)
    del oldest, older
    assert (len(newest), len(newer)) == (100_000, 100_000)


def test_versions_outlive_the_books_that_they_were_written_in() -> None:
    """Many steps over few entries: journals end, and older versions find their way through the later ones."""
    version, elements, literal = VersionedMap({"a": 0}), VersionedSet("a"), {"a": 0}
    kept = []
    for number in range(5_000):
        if number % 97 == 0:
            kept.append((version, elements, dict(literal)))
        key = "abc"[number % 3]
        if key in literal:
            version, elements = version.remove(key), elements.discard(key)
            del literal[key]
        else:
            version, elements = version.set(key, number), elements.add(key)
            literal[key] = number
    assert version == literal
    assert elements == literal.keys()
    for older, older_elements, then in [*kept[::2], *reversed(kept[1::2])]:
        assert older == then
        assert older_elements == then.keys()


def test_a_step_costs_what_it_changes() -> None:
    """A million entries: copied once for each of the steps they would take minutes."""
    version = VersionedMap(zip(range(1_000_000), range(1_000_000), strict=True))
    elements = VersionedSet(range(1_000_000))
    begun = time.thread_time()
    for number in range(20_000):
        version, elements = version.set(number, 0).remove(number + 20_000), elements.discard(number)
    assert time.thread_time() - begun < 5
    assert (len(version), len(elements)) == (980_000, 980_000)
