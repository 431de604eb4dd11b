"""All logs of a fleet, and where in the journal each one's row lies: on disk, in order, without duplicates.

A fleet may have a million logs; their paths and the places of their rows do not belong in memory. The catalogue is a private
temporary database of SQLite (a file without a name, gone with the process), with a bounded cache. It is scratch: what must
survive an interruption is in the journal, and the catalogue is made anew from the folders and the journal.

The order of the table is the order of what was given, and within that by path, byte by byte. A log that is found twice
stays where it was found first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from podtide.adapters.fleet.discovery import Found
from podtide.adapters.fleet.rows import Stamp
from podtide.adapters.text.safe import cause

CACHE_KIB: Final = 32 * 1024
"""Memory that SQLite may use for pages."""

PAGE: Final = 500
"""Logs that are taken out at once."""

_SCHEMA: Final = """
CREATE TABLE logs (
  argument INTEGER NOT NULL, place BLOB NOT NULL UNIQUE, named INTEGER NOT NULL, problem TEXT, key TEXT NOT NULL,
  size INTEGER, modified INTEGER, etag TEXT, PRIMARY KEY (argument, place)) WITHOUT ROWID;
CREATE TABLE done (key TEXT PRIMARY KEY, at INTEGER NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
"""

_TODO: Final = """
SELECT argument, place, named, problem, key, logs.size, modified, etag FROM logs LEFT JOIN done USING (key)
WHERE (argument, place) > (?, ?) AND done.key IS NULL ORDER BY argument, place LIMIT ?
"""

_ROWS: Final = """
SELECT argument, place, done.at, done.size FROM logs LEFT JOIN done USING (key)
WHERE (argument, place) > (?, ?) ORDER BY argument, place LIMIT ?
"""


class CatalogueError(Exception):
    """The catalogue's temporary file cannot be written; the message is one printable line."""


class Log(NamedTuple):
    """A log of the catalogue, with its key in the journal."""

    found: Found
    key: str


class Catalogue:
    """See the module. A context manager; every method raises ``CatalogueError`` where the disk refuses."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("PRAGMA synchronous = OFF")
        self._base.executescript(_SCHEMA)
        self.found = 0
        self.duplicates = 0

    def add(self, argument: int, found: Found, key: str) -> None:
        """Enter a log that the ``argument``-th argument led to; one that is there already is counted as a duplicate."""
        stamp = found.stamp
        row = (
            argument, _stored(found.place), found.named, found.problem, key, stamp.size, stamp.modified_ms, stamp.etag,
        )  # fmt: skip
        if self._run("INSERT OR IGNORE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row).rowcount:
            self.found += 1
        else:
            self.duplicates += 1

    def done(self, key: str, at: int, size: int) -> None:
        """The row of this key is in the journal at this place; a later one replaces an earlier one."""
        self._run("INSERT OR REPLACE INTO done VALUES (?, ?, ?)", (key, at, size))

    def count_done(self) -> int:
        """How many logs of the catalogue have a row."""
        count: int = self._run("SELECT count(*) FROM logs JOIN done USING (key)", ()).fetchone()[0]
        return count

    def todo(self) -> Iterator[Log]:
        """The logs without a row, in order. Rows may be entered meanwhile: each log comes once."""
        last: tuple[int, bytes] = (-1, b"")
        while page := self._run(_TODO, (*last, PAGE)).fetchall():
            for argument, place, named, problem, key, size, modified, etag in page:
                last = argument, place
                yield Log(Found(_given(place), Stamp(size, modified, etag), bool(named), problem), key)

    def rows(self) -> Iterator[tuple[str, int | None, int | None]]:
        """Every log in order: its place, and where in the journal its row lies (None: it has none)."""
        last: tuple[int, bytes] = (-1, b"")
        while page := self._run(_ROWS, (*last, PAGE)).fetchall():
            for argument, place, at, size in page:
                last = argument, place
                yield _given(place), at, size

    def close(self) -> None:
        """Forget everything."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._base.execute(statement, values)
        except sqlite3.Error as problem:
            raise CatalogueError(f"the temporary list of logs cannot be kept: {cause(problem)}") from None


def _stored(place: str) -> bytes:
    """A path as bytes: file names need not be text."""
    return place.encode("utf-8", "surrogateescape")


def _given(place: bytes) -> str:
    return place.decode("utf-8", "surrogateescape")
