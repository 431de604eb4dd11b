"""A table of rows by key that keeps what a step overwrote, so that the step can be taken back."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", int, str)


V = TypeVar("V")


_ABSENT: Final = object()


class Table(Generic[K, V]):
    """Rows by key, and what the present step has overwritten of them."""

    __slots__ = ("old", "rows")

    def __init__(self, rows: dict[K, V] | None = None) -> None:
        self.rows: dict[K, V] = {} if rows is None else rows
        self.old: dict[K, object] = {}

    def put(self, key: K, row: V) -> None:
        """Write a row."""
        if key not in self.old:
            self.old[key] = self.rows.get(key, _ABSENT)
        self.rows[key] = row

    def drop(self, key: K) -> V | None:
        """Delete a row that may be there; returns it."""
        row = self.rows.pop(key, None)
        if row is not None and key not in self.old:
            self.old[key] = row
        return row

    def undo(self, old: dict[Any, Any]) -> None:
        """Put back what a step overwrote."""
        for key, row in old.items():
            if row is _ABSENT:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def sort(self) -> None:
        """Order the rows by key."""
        self.rows = dict(sorted(self.rows.items()))
