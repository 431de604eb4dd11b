"""The persistent map is a dict of which every version stays."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.api_server.hash_trie import HashTrie

# Multiples of 2**60 share all the bits that the trie looks at.
KEYS = st.integers(0, 60) | st.integers(0, 30).map(lambda number: number << 60) | st.text(max_size=1)


@given(st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=120))
def test_it_is_a_dict_and_old_versions_stay(writes: list[tuple[int | str, int | None]]) -> None:
    trie: HashTrie[int | str, int] = HashTrie()
    model: dict[int | str, int] = {}
    versions = []
    for key, value in writes:
        if value is None:
            assert (key in trie) == (key in model)
            trie = trie.discard(key)
            model.pop(key, None)
        else:
            trie = trie.set(key, value)
            model[key] = value
        versions.append((trie, dict(model)))
    for version, expected in versions:
        assert dict(version.items()) == expected
        assert len(version) == len(expected)
        assert bool(version) == bool(expected)
        assert set(version) == set(expected)
        assert all(version[key] == version.get(key) == value for key, value in expected.items())


def test_what_is_not_there() -> None:
    trie: HashTrie[str, int] = HashTrie()
    assert trie.get("a", 7) == 7
    with pytest.raises(KeyError):
        trie["a"]
    with pytest.raises(KeyError):
        trie.remove("a")
