"""What is done of a fleet, kept beside the table until the table is whole, so that an interrupted run goes on.

``FILE.partial`` is text, one record a line: eight hexadecimal digits of CRC-32, a blank, and a JSON object
``{"key": ..., "limits": ..., "row": ...}``. ``key`` is a digest of where the log lies, of its stamp and of everything that
was asked about it (variants, prices, seeds, podtide's version ...): another question, or a log that has grown, has another
key and is computed. ``limits`` is a digest of the limits of time and memory, which only matter to rows that failed: with
other limits they are tried again.

The file is only ever appended to, each record by one ``write``; nothing is kept in a buffer of this process, so a
``kill -9`` loses at most the record that was being written. A record that is torn or damaged fails its checksum: a torn
end is cut off before anything is appended, damage in between is passed over and counted; its logs are computed again. Every
few seconds the file is also forced to the disk, against a loss of power. Two runs cannot write one journal: the file is
locked for as long as it is open, and the lock goes with the process.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from podtide.adapters.fleet.rows import Row, Stamp, row_bytes
from podtide.adapters.text.safe import cause, display

try:
    import fcntl
except ImportError:  # no such locks on Windows: there two runs on one table are the user's own care
    fcntl = None  # type: ignore[assignment]

ENDING: Final = ".partial"

RECORD_MAX: Final = 256 * 1024
"""Bytes of the longest record that is believed; rows take one or two thousand."""

SYNC_S: Final = 5.0
"""Seconds between two times that the file is forced to the disk."""

_HEAD: Final = 9


class JournalError(Exception):
    """The journal cannot be read, written or locked; the message is one printable line that names it."""


class Record(msgspec.Struct, frozen=True):
    """One line of the journal."""

    key: str
    limits: str
    row: Row


class Kept(NamedTuple):
    """Where a record lies in the file, and enough of it to know whether it counts."""

    key: str
    limits: str
    row: Row
    at: int
    size: int


_decode: Final = msgspec.json.Decoder(Record).decode


def digest(*parts: object) -> str:
    """A digest of values, each by its ``repr``: 32 hexadecimal digits."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def key_of(place: str, stamp: Stamp, question: str) -> str:
    """The key of a log under a question (itself a ``digest``)."""
    return digest(place, stamp.size, stamp.modified_ms, stamp.etag, question)


class Journal:
    """The journal of one table; a context manager. ``damaged``: records that were passed over."""

    def __init__(self, table: str, *, fresh: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """Open or begin ``<table>.partial``. ``fresh``: forget what is in it. Raises ``JournalError``."""
        self.path = Path(os.path.realpath(table) + ENDING)
        self.damaged = 0
        self._clock = clock
        self._synced = clock()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as problem:
            raise self._failed("cannot be opened", problem) from None
        try:
            self._lock()
            if fresh:
                os.ftruncate(self._file, 0)
            self._end = os.fstat(self._file).st_size
        except OSError as problem:
            os.close(self._file)
            raise self._failed("cannot be used", problem) from None
        except JournalError:
            os.close(self._file)
            raise

    def records(self) -> Iterator[Kept]:
        """Everything that is kept, in the order in which it was written; then a torn end is cut off. Streams."""
        at = whole = 0
        try:
            with os.fdopen(os.dup(self._file), "rb") as reader:
                reader.seek(0)
                while line := reader.readline(RECORD_MAX):
                    if (kept := _kept(line, at)) is not None:
                        yield kept
                        whole = at + len(line)
                    elif line.endswith(b"\n"):
                        self.damaged += 1
                        whole = at + len(line)
                    at += len(line)
            if whole < at:
                self.damaged += 1
                os.ftruncate(self._file, whole)
                self._end = whole
        except OSError as problem:
            raise self._failed("cannot be read", problem) from None

    def append(self, key: str, limits: str, row: Row) -> tuple[int, int]:
        """Keep a row; returns where its record begins and how long it is. Raises ``JournalError``."""
        body = b'{"key":"%s","limits":"%s","row":%s}' % (key.encode(), limits.encode(), row_bytes(row))
        line = b"%08x %s\n" % (zlib.crc32(body), body)
        at = self._end
        try:
            left = memoryview(line)
            while left:
                written = os.write(self._file, left)
                left = left[written:]
            self._end += len(line)
            if self._clock() - self._synced >= SYNC_S:
                os.fsync(self._file)
                self._synced = self._clock()
        except OSError as problem:
            with suppress(OSError):  # half a record before a full disk; the next reader would cut it off as well
                os.ftruncate(self._file, at)
            raise self._failed("cannot be written", problem) from None
        return at, len(line)

    def row_at(self, at: int, size: int) -> Row:
        """The row of the record at a place that ``records`` or ``append`` named. Raises ``JournalError``."""
        try:
            line = os.pread(self._file, size, at)
        except OSError as problem:
            raise self._failed("cannot be read", problem) from None
        kept = _kept(line, at)
        if kept is None:
            raise JournalError(f"{display(str(self.path))}: the record at byte {at:,} has changed while it was used")
        return kept.row

    def remove(self) -> None:
        """The table is in its place: the journal is not needed any more."""
        with suppress(OSError):
            os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Let go of the file and its lock; one in which nothing is kept goes."""
        with suppress(OSError):
            if not os.fstat(self._file).st_size:
                self.path.unlink(missing_ok=True)
            os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"{display(str(self.path))}: another run is writing it; wait, or give another --out"
            ) from None
        except OSError:  # a file system without locks
            return
        if not self.path.exists() or not os.path.samestat(os.fstat(self._file), self.path.stat()):
            raise JournalError(f"{display(str(self.path))}: another run has this moment ended with it; start again")

    def _failed(self, what: str, problem: OSError) -> JournalError:
        return JournalError(f"{display(str(self.path))}: {what}: {cause(problem)}")


def _kept(line: bytes, at: int) -> Kept | None:
    """The record in a line, None if the line is not whole."""
    if not line.endswith(b"\n") or len(line) <= _HEAD + 1 or line[_HEAD - 1 : _HEAD] != b" ":
        return None
    body = line[_HEAD:-1]
    if line[: _HEAD - 1] != b"%08x" % zlib.crc32(body):
        return None
    try:
        record = _decode(body)
    except msgspec.DecodeError:  # a record of another podtide
        return None
    return Kept(record.key, record.limits, record.row, at, len(line))
