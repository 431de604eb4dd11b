"""Maps and sets with many entries that are cheap to step forward: a step costs what it changed, whatever is in them.

To their users they are persistent: ``set``, ``remove``, ``add`` and so on return the next version, and an older one still
answers as before. Versions that follow each other share a *book*: a plain dict as the newest of them has it, and a
journal of what each step changed. An older version that is asked or gone on from makes a book of its own, from a copy and
the journal (Baker's trick, as in ``base.versioned``). So going forward costs a tenth of what a persistent map costs, and
as much for fifty thousand entries as for ten; going back, which only a fork does, costs one copy.

Many changes in a row are made in place, on a ``draft`` of a version: ``put`` and ``drop``. The draft is the next version as
soon as its maker gives it away; until then nobody else has it.

When a journal is longer than what it tells of, the newest version begins a new book, which knows nothing of the old one:
what no older version can ask for any more is forgotten with the last of them.

Iteration has no order that means anything. Versions are not thread-safe: one thread at a time may use those that descend
from one another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set as AbstractSet
from typing import Any, Final, Generic, Self, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

JOURNAL_MIN: Final = 100
"""A journal may have so many entries whatever the size of what it tells of, and twice that size besides."""

_ABSENT: Final[Any] = object()


class _Book(Generic[K, V]):
    """``items``: as the newest version has them; None once a later book, ``later``, has taken them over.

    ``journal``: for each step since the first version of the book the key that it changed, and the value before.
    """

    __slots__ = ("items", "journal", "later")

    def __init__(self, items: dict[K, V]) -> None:
        self.items: dict[K, V] | None = items
        self.journal: list[tuple[K, Any]] = []
        self.later: _Book[K, V] | None = None


class _Version(Generic[K, V]):
    """A version: its book, and how many entries of the journal lie before it."""

    __slots__ = ("_book", "_place")
    _book: _Book[K, V]
    _place: int

    def _own(self) -> dict[K, V]:
        """The items of this version, to be read; from a book of its own if there are later versions."""
        book = self._book
        if book.items is not None and self._place == len(book.journal):
            return book.items
        journals = [book.journal[self._place :]]
        while book.items is None:
            assert book.later is not None
            book = book.later
            journals.append(book.journal)
        items = book.items.copy()
        for journal in reversed(journals):
            for key, old in reversed(journal):
                if old is _ABSENT:
                    del items[key]
                else:
                    items[key] = old
        self._book, self._place = _Book(items), 0
        return items

    def draft(self) -> Self:
        """The same version once more, to be changed in place; what it becomes is the next version."""
        version = self.__class__.__new__(self.__class__)
        version._book, version._place = self._book, self._place
        return version

    def _note(self, items: dict[K, V], key: K, old: Any) -> None:
        """Note that ``items``, which are this draft's own, change at this key."""
        book = self._book
        book.journal.append((key, old))
        self._place += 1
        if self._place > JOURNAL_MIN + 2 * len(items):
            book.items = None
            book.later = self._book = _Book(items)
            self._place = 0

    def drop(self, key: K) -> None:
        """Take a key out of a draft, if it is there."""
        items = self._own()
        old = items.get(key, _ABSENT)
        if old is not _ABSENT:
            del items[key]
            self._note(items, key, old)

    def __contains__(self, key: object) -> bool:
        return key in self._own()

    def __iter__(self) -> Iterator[K]:
        return iter(self._own())

    def __len__(self) -> int:
        return len(self._own())


class VersionedMap(_Version[K, V], Mapping[K, V]):
    """One version of a map."""

    __slots__ = ()

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._book, self._place = _Book(dict(items)), 0

    def put(self, key: K, value: V) -> None:
        """Set a key of a draft to a value."""
        items = self._own()
        old = items.get(key, _ABSENT)
        items[key] = value
        self._note(items, key, old)

    def set(self, key: K, value: V) -> VersionedMap[K, V]:
        """With this value at this key."""
        draft = self.draft()
        draft.put(key, value)
        return draft

    def remove(self, key: K) -> VersionedMap[K, V]:
        """Without this key; KeyError if it is not there."""
        if key not in self:
            raise KeyError(key)
        return self.discard(key)

    def discard(self, key: K) -> VersionedMap[K, V]:
        """Without this key, if it is there."""
        if key not in self:
            return self
        draft = self.draft()
        draft.drop(key)
        return draft

    def __getitem__(self, key: K) -> V:
        return self._own()[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value at a key, or what is given for none."""
        return self._own().get(key, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, VersionedMap):
            return self is other or self._own() == other._own()
        return self._own() == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VersionedMap({self._own()!r})"

    def __reduce__(self) -> tuple[type[VersionedMap[K, V]], tuple[dict[K, V]]]:
        # A copy stands alone.
        return VersionedMap, (dict(self._own()),)


class VersionedSet(_Version[K, None], AbstractSet[K]):
    """One version of a set."""

    __slots__ = ()

    def __init__(self, elements: Iterable[K] = ()) -> None:
        self._book, self._place = _Book(dict.fromkeys(elements)), 0

    def put(self, element: K) -> None:
        """Put an element into a draft, if it is not there."""
        items = self._own()
        if element not in items:
            items[element] = None
            self._note(items, element, _ABSENT)

    def add(self, element: K) -> VersionedSet[K]:
        """With this element."""
        return self.update((element,))

    def discard(self, element: K) -> VersionedSet[K]:
        """Without this element, if it is there."""
        if element not in self:
            return self
        draft = self.draft()
        draft.drop(element)
        return draft

    def update(self, elements: Iterable[K]) -> VersionedSet[K]:
        """With these elements."""
        draft = self.draft()
        for element in elements:
            draft.put(element)
        return draft

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AbstractSet) and self._own().keys() == set(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VersionedSet({set(self._own())!r})"

    def __reduce__(self) -> tuple[type[VersionedSet[K]], tuple[set[K]]]:
        return VersionedSet, (set(self._own()),)
