"""Values with large insides that are cheap to step forward.

A fold over a batch of events may touch three executors out of ten thousand. Copying the ten thousand would make
every step cost the fleet; rebuilding persistent maps would cost microseconds an event, millions of times. So the
newest version of such a value owns plain mutable *books*, and a step hands them on to its successor together
with a journal of what it changed. What is pure is the boundary: an older version still answers as before,
because it can rebuild its own books from the successor's and the journals in between (Baker's trick for
persistent arrays). Going forward costs what changed; going back, which only a fork does, costs one copy.

Versions are not thread-safe: one thread at a time may read or fold the versions that descend from one another.
"""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

JournalEntry = tuple[object, ...]
"""How to take one change back; only the books that wrote it can read it."""


class Books(Protocol):
    """The mutable inside of a version."""

    def copy(self) -> Self:
        """Return independent books with the same content."""
        ...

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take the changes of one step back, the last one first; what is derived may stay wrong."""
        ...

    def recount(self) -> None:
        """Derive anew what is derived."""
        ...


B = TypeVar("B", bound=Books)


class Versioned(Generic[B]):
    """One version: it owns books, or knows the newer version that does and what changed on the way there."""

    __slots__ = ("_books", "_journal", "_newer")

    def __init__(self, books: B | None) -> None:
        self._books = books
        self._journal: list[JournalEntry] = []
        self._newer: Versioned[B] | None = None

    @property
    def books(self) -> B:
        """This version's books, to be read; rebuilt first when a newer version took them over."""
        books = self._books
        return books if books is not None else self._rebuild()

    def hand_over(self, successor: Versioned[B], journal: list[JournalEntry]) -> None:
        """Let ``successor``, whose books are this version's books changed as ``journal`` says, own them."""
        self._books = None
        self._journal = journal
        self._newer = successor

    def _rebuild(self) -> B:
        journals = []
        version: Versioned[B] = self
        while version._books is None:
            journals.append(version._journal)
            assert version._newer is not None
            version = version._newer
        books = version._books.copy()
        for journal in reversed(journals):
            books.undo(journal)
        books.recount()
        self._books = books
        self._journal = []
        self._newer = None
        return books
