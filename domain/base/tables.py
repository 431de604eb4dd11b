"""Insides that are made of tables: every write says what was there before, so that a step can be taken back.

A ``Table`` is a dict that is written to by ``put`` and ``drop`` alone, ``Members`` a set that is written to by ``add`` and
``discard``, a ``Serial`` gives numbers out, a ``Field`` is a plain value that is assigned to. ``Tables`` holds them under
their names and undoes what they noted: an entry of the log is (table, key, old). All other attributes of it are derived
(``recount``) or never change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from podtide.domain.base.versioned import Inside, UndoEntry

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ABSENT: Final[Any] = object()
"""In an undo log: nothing was there."""

_FIELD: Final = ""
"""In an undo log, instead of a table's name: a field was assigned to."""


def put_back(rows: dict[K, Any], key: K, old: Any) -> None:
    """Undo one change of a dict."""
    if old is ABSENT:
        rows.pop(key, None)
    else:
        rows[key] = old


class Table(dict[K, V]):
    """Rows by key."""

    __slots__ = ("log", "name")

    def __init__(self, rows: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(rows)
        self.name = ""
        self.log: Callable[[UndoEntry], None] = _untied

    def put(self, key: K, row: V) -> None:
        """Write a row."""
        self.log((self.name, key, self.get(key, ABSENT)))
        self[key] = row

    def drop(self, key: K) -> V | None:
        """Delete a row that may be there; returns it."""
        row: V = self.get(key, ABSENT)
        if row is ABSENT:
            return None
        self.log((self.name, key, row))
        del self[key]
        return row

    def drop_all(self) -> None:
        """Delete all rows."""
        for key in list(self):
            self.drop(key)

    def undo(self, key: K, old: Any) -> None:
        """Take one change back."""
        put_back(self, key, old)

    def reorder(self, rows: Iterable[tuple[K, V]]) -> None:
        """Put the same rows into this order."""
        ordered = dict(rows)
        self.clear()
        self.update(ordered)

    def twin(self) -> Self:
        """An independent table with the same rows, tied to no log yet."""
        return type(self)(self)


class Members(set[K]):
    """A set of keys."""

    __slots__ = ("log", "name")

    def __init__(self, members: Iterable[K] = ()) -> None:
        super().__init__(members)
        self.name = ""
        self.log: Callable[[UndoEntry], None] = _untied

    def add(self, key: K) -> None:
        """Add a member that may be there."""
        if key not in self:
            self.log((self.name, key, False))
            super().add(key)

    def discard(self, key: object) -> None:
        """Take a member out that may be there."""
        if key in self:
            self.log((self.name, key, True))
            super().discard(key)

    def undo(self, key: K, old: bool) -> None:
        """Take one change back."""
        (super().add if old else super().discard)(key)

    def twin(self) -> Self:
        """An independent set with the same members, tied to no log yet."""
        return type(self)(self)


class Serial:
    """Numbers that are given out, one after the other. ``last``: the latest one."""

    __slots__ = ("last", "log", "name")

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.name = ""
        self.log: Callable[[UndoEntry], None] = _untied

    def next(self) -> int:
        """Give the next number out."""
        self.log((self.name, None, self.last))
        self.last += 1
        return self.last

    def undo(self, _: None, old: int) -> None:
        """Take one change back."""
        self.last = old

    def twin(self) -> Self:
        """An independent serial at the same number, tied to no log yet."""
        return type(self)(self.last)


def _untied(_: UndoEntry) -> None:
    raise AssertionError("a table is written to that belongs to no Tables")


class Field(Generic[V]):
    """A plain value of ``Tables``, which has this default at first.

    At run time there is no ``__get__``: reading a field is reading an attribute, and costs as much.
    """

    def __init__(self, default: V) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    if TYPE_CHECKING:

        def __get__(self, tables: Tables, owner: type | None = None) -> V: ...

    def __set__(self, tables: Tables, value: V) -> None:
        values = tables.__dict__
        tables.undo_log.append((_FIELD, self.name, values[self.name]))
        values[self.name] = value


class Tables(Inside):
    """Tables, sets and fields by name. A subclass makes its tables and ends its ``__init__`` with this one's."""

    _fields: ClassVar[Mapping[str, Field[Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = {**cls._fields, **{name: one for name, one in vars(cls).items() if isinstance(one, Field)}}

    def __init__(self) -> None:
        for name, field in self._fields.items():
            self.__dict__[name] = field.default
        self._tie()
        self.recount()

    def _tie(self) -> None:
        """Let every table write into this log."""
        self.undo_log = []
        for name, table in self.__dict__.items():
            if isinstance(table, Table | Members | Serial):
                table.name, table.log = name, self.undo_log.append

    def copy(self) -> Self:
        """Return independent tables with the same content. What is derived is shared until ``recount``."""
        twin = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            twin.__dict__[name] = value.twin() if isinstance(value, Table | Members | Serial) else value
        twin._tie()
        return twin

    def undo(self, log: Sequence[UndoEntry]) -> None:
        """Take the changes of one step back, the last one first."""
        values = self.__dict__
        for name, key, old in reversed(log):
            if name:
                values[name].undo(key, old)
            else:
                values[key] = old

    def recount(self) -> None:
        """Derive anew what is derived; here nothing is."""
