"""Values with large insides that are cheap to step forward, and the one undo log under all of them.

A fold over a batch of events may touch three executors out of ten thousand. Copying the ten thousand would make
every step cost the fleet; rebuilding persistent maps would cost microseconds an event, millions of times. So the
newest version of such a value owns a plain mutable *inside*, and a step hands it on to its successor. Whatever a step
changes, it writes into the inside's *undo log* first: how to take the change back. Three things follow from that log:

- A step that raises is rolled back, and the version that it was given is as it was.
- An older ``Versioned`` still answers as before: it rebuilds an inside of its own from a copy of the successor's and the
  logs in between (Baker's trick for persistent arrays). Going forward costs what changed; going back, which only a fork
  does, costs one copy.
- An older ``Exclusive``, whose versions nobody goes back to, keeps no log. Asking it raises ``Stale``; whoever wants
  two futures says so before, with ``fork``.

Every step has this form, whatever the inside is::

    with state.step() as tables:
        ...  # change the tables; each change is noted in tables.undo_log
        return state.hand_over(State(tables))

Versions are not thread-safe: one thread at a time may read or step the versions that descend from one another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

UndoEntry: TypeAlias = tuple[Any, ...]
"""How to take one change back; only the inside that wrote it can read it."""


class Inside(ABC):
    """The mutable inside of a version, and the undo log of the step under way."""

    __slots__ = ("undo_log",)
    undo_log: list[UndoEntry]

    @abstractmethod
    def copy(self) -> Self:
        """Return an independent inside with the same content and an empty log; what is derived may be left out."""

    @abstractmethod
    def undo(self, log: Sequence[UndoEntry]) -> None:
        """Take the changes of one step back, the last one first; what is derived may stay wrong."""

    @abstractmethod
    def recount(self) -> None:
        """Derive anew what is derived."""

    def fork(self) -> Self:
        """Return an independent inside that is like this one in every respect."""
        twin = self.copy()
        twin.recount()
        return twin

    def roll_back(self) -> None:
        """Take the step under way back."""
        self.undo(self.undo_log)
        self.undo_log.clear()
        self.recount()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.roll_back()


T = TypeVar("T", bound=Inside)
S = TypeVar("S", bound="_Owner[Any]")


class _Owner(Generic[T]):
    """A version that owns its inside, or did."""

    __slots__ = ("_own",)
    _own: T | None

    @property
    def _tables(self) -> T:
        """This version's inside. Only the machine itself reads it, and nobody keeps it."""
        raise NotImplementedError

    def step(self) -> T:
        """The inside, to be changed within a ``with``: if that is left by an exception, the changes are taken back."""
        return self._tables


class Versioned(_Owner[T]):
    """One version: it owns its inside, or knows the newer version that does and how to undo what changed on the way."""

    __slots__ = ("_log", "_newer")

    def __init__(self, inside: T | None) -> None:
        self._own = inside
        self._log: Sequence[UndoEntry] = ()
        self._newer: Versioned[T] | None = None

    @property
    def _tables(self) -> T:
        inside = self._own
        return inside if inside is not None else self._rebuild()

    def step(self) -> T:
        """The inside, to be changed within a ``with``: if that is left by an exception, the changes are taken back."""
        inside = self._own
        return inside if inside is not None else self._rebuild()

    def hand_over(self, successor: S) -> S:
        """End a step: ``successor``, made of this version's inside as it is now, owns it from here on."""
        assert isinstance(successor, Versioned)
        inside = self._own
        assert inside is not None
        self._log = inside.undo_log[:]
        inside.undo_log.clear()
        self._own = None
        self._newer = successor
        return successor

    def _rebuild(self) -> T:
        logs = []
        version: Versioned[T] = self
        while version._own is None:
            logs.append(version._log)
            assert version._newer is not None
            version = version._newer
        inside: T = version._own.copy()
        for log in reversed(logs):
            inside.undo(log)
        inside.recount()
        self._own = inside
        self._log = ()
        self._newer = None
        return inside


class Stale(Exception):
    """A version was asked that has been stepped on from. Only the newest one answers; ``fork`` before a step keeps two."""


class Exclusive(_Owner[T]):
    """The newest version of a value whose older versions answer no more."""

    __slots__ = ()

    def __init__(self, inside: T) -> None:
        self._own = inside

    @property
    def _tables(self) -> T:
        inside = self._own
        if inside is None:
            raise Stale(f"this {type(self).__name__} has been stepped on from: fork() it before the step to keep it")
        return inside

    def hand_over(self, successor: S) -> S:
        """End a step: ``successor``, made of this version's inside as it is now, owns it from here on."""
        self._tables.undo_log.clear()
        self._own = None
        return successor
