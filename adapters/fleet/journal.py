"""The logs of a fleet and the rows that are done, in SQLite: kept on disk, so that an interrupted run goes on.

``FILE.partial`` is a database with one table, ``rows``: ``key``, ``limits``, ``row`` (JSON). ``key`` is a digest of where
the log lies, of its stamp and of everything that was asked about it (variants, prices, seeds, podtide's version ...):
another question, or a log that has grown, has another key and is computed. ``limits`` is a digest of the limits of time
and memory, which only matter to rows that failed: with other limits they are tried again. Rows are only ever added; of two
with one key the later counts.

Each row is a transaction of its own in a write-ahead log (``FILE.partial-wal``), so a ``kill -9`` loses at most the row
that was being written; SQLite forces the log to the disk at its checkpoints, against a loss of power. The database is
locked for as long as it is open, so two runs cannot write one journal; the lock goes with the process.

A fleet may have a million logs; their paths do not belong in memory either. They are in a temporary table (a file without
a name, gone with the process), with a bounded cache, and are found anew by every run. The order of the table is the order
of what was given, and within that by path, byte by byte. A log that is found twice stays where it was found first.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Container, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from podtide.adapters.fleet.discovery import FoundLog
from podtide.adapters.fleet.rows import FleetRow, RowStatus, Stamp, place_bytes, place_text, row_bytes, row_of
from podtide.adapters.text.safe import cause, display

ENDING: Final = ".partial"

CACHE_KIB: Final = 32 * 1024
"""Memory that SQLite may use for pages of the temporary table."""

PAGE: Final = 500
"""Logs that are taken out at once."""

_SETUP: Final = f"""
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA temp.cache_size = -{CACHE_KIB};
PRAGMA temp.journal_mode = OFF;
BEGIN EXCLUSIVE;
CREATE TABLE IF NOT EXISTS main.rows (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, limits TEXT NOT NULL, status TEXT NOT NULL, row BLOB NOT NULL);
CREATE TABLE temp.logs (
  argument INTEGER NOT NULL, place BLOB NOT NULL UNIQUE, named INTEGER NOT NULL, problem TEXT, key TEXT NOT NULL,
  size INTEGER, modified INTEGER, etag TEXT, PRIMARY KEY (argument, place)) WITHOUT ROWID;
CREATE TABLE temp.done (key TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
COMMIT;
"""

_ADD: Final = "INSERT OR IGNORE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

_TODO: Final = """
SELECT argument, place, named, problem, key, size, modified, etag FROM logs LEFT JOIN done USING (key)
WHERE (argument, place) > (?, ?) AND done.key IS NULL ORDER BY argument, place LIMIT ?
"""

_ROWS: Final = """
SELECT row FROM logs JOIN done USING (key) JOIN rows USING (id) ORDER BY argument, place
"""


class JournalError(Exception):
    """The journal cannot be read, written or locked; the message is one printable line that names it."""


class Log(NamedTuple):
    """A log of the fleet, with its key in the journal."""

    found: FoundLog
    key: str


def digest(*parts: object) -> str:
    """A digest of values, each by its ``repr``: 32 hexadecimal digits."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def key_of(place: str, stamp: Stamp, question: str) -> str:
    """The key of a log under a question (itself a ``digest``)."""
    return digest(place, stamp.size, stamp.modified_ms, stamp.etag, question)


class Journal:
    """The journal of one table; a context manager. ``found``: logs entered; ``duplicates``: entered more than once."""

    def __init__(self, table: str, *, fresh: bool = False) -> None:
        """Open or begin ``<table>.partial``. ``fresh``: forget what is in it. Raises ``JournalError``."""
        self.path = Path(os.path.realpath(table) + ENDING)
        self.found = self.duplicates = 0
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666))  # the system's own words for what is wrong
        except OSError as problem:
            raise self._failed("cannot be opened", problem) from None
        try:
            self._base = self._opened()
        except sqlite3.DatabaseError as problem:
            if problem.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise self._failed("another run is writing it; wait, or give another --out") from None
            if problem.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise self._failed("cannot be used", problem) from None
            if not fresh:
                raise self._failed("is damaged, or of an older podtide; --fresh starts over") from None
            self._unlink()
            self._base = self._opened()
        if fresh:
            self._run("cannot be used", "DELETE FROM rows")

    def add(self, argument: int, found: FoundLog, key: str) -> None:
        """Enter a log that the ``argument``-th argument led to; one that is there already is counted as a duplicate."""
        stamp = found.stamp
        log = (
            argument, place_bytes(found.place), found.named, found.problem, key, stamp.size, stamp.modified_ms, stamp.etag,
        )  # fmt: skip
        if self._run("cannot keep the list of logs", _ADD, log).rowcount:
            self.found += 1
        else:
            self.duplicates += 1

    def reuse(self, limits: str, unwanted: Container[RowStatus] = ()) -> int:
        """Take the rows that count as done; how many logs have one. Not those of a status that is ``unwanted``."""
        statuses = [status.value for status in RowStatus if status not in unwanted]
        self._run(
            "cannot be read",
            f"INSERT OR REPLACE INTO done SELECT key, id FROM rows WHERE status IN ({', '.join('?' * len(statuses))}) "  # noqa: S608 - marks
            "AND (status <> ? OR limits = ?) ORDER BY id",
            (*statuses, RowStatus.FAILED.value, limits),
        )
        count: int = self._run("cannot be read", "SELECT count(*) FROM logs JOIN done USING (key)").fetchone()[0]
        return count

    def keep(self, key: str, limits: str, row: FleetRow) -> None:
        """Keep the row of a key; it is done. Raises ``JournalError``."""
        values = (key, limits, row.status.value, row_bytes(row))
        kept = self._run(
            "cannot be written", "INSERT INTO rows (key, limits, status, row) VALUES (?, ?, ?, ?)", values
        ).lastrowid
        self._run("cannot keep the list of logs", "INSERT OR REPLACE INTO done VALUES (?, ?)", (key, kept))

    def todo(self) -> Iterator[Log]:
        """The logs without a row, in order. Rows may be kept meanwhile: each log comes once."""
        last: tuple[int, bytes] = (-1, b"")
        while page := self._run("cannot be read", _TODO, (*last, PAGE)).fetchall():
            for argument, place, named, problem, key, size, modified, etag in page:
                last = argument, place
                yield Log(FoundLog(place_text(place), Stamp(size, modified, etag), bool(named), problem), key)

    def rows(self) -> Iterator[FleetRow]:
        """The rows of all logs that have one, in order. Streams."""
        try:
            for (row,) in self._run("cannot be read", _ROWS):
                yield row_of(row)
        except sqlite3.Error as problem:
            raise self._failed("cannot be read", problem) from None

    def remove(self) -> None:
        """The table is in its place: the journal is not needed any more."""
        self._unlink()

    def close(self) -> None:
        """Let go of the database and its lock; one in which nothing is kept goes."""
        with closing(self._base), suppress(sqlite3.Error):
            if self._base.execute("SELECT 1 FROM rows LIMIT 1").fetchone() is None:
                self._unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            base.executescript(_SETUP)
        except BaseException:
            base.close()
            raise
        return base

    def _unlink(self) -> None:
        """Remove the files while the lock is held, the database last: no file of a run that begins now is touched."""
        for name in (f"{self.path}-wal", self.path):
            with suppress(OSError):
                Path(name).unlink()

    def _run(self, failure: str, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._base.execute(statement, values)
        except sqlite3.Error as problem:
            raise self._failed(failure, problem) from None

    def _failed(self, what: str, problem: Exception | None = None) -> JournalError:
        return JournalError(f"{display(str(self.path))}: {what}{'' if problem is None else f': {cause(problem)}'}")
