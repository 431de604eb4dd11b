"""The inside of a ZIP as a store of logs: read in place, never unpacked.

Its members stream. Its table of contents is read whole by zipfile, so its size is bounded before that.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from podtide.adapters.eventlog.bytes.errors import LogCorrupt, LogError, LogMissing, LogUndecodable, LogUnreadable
from podtide.adapters.eventlog.bytes.framing import BOMB, is_bomb
from podtide.adapters.eventlog.bytes.rolled import Entry, hidden, is_events_name, is_part_name, log_entries
from podtide.adapters.eventlog.bytes.store import Reader
from podtide.adapters.text.safe import cause

DIRECTORY_MAX: Final = 4 * 1024 * 1024
"""Largest table of contents of a ZIP, in bytes (zipfile makes about fifteen times as much of it in memory); a
History Server's has a few dozen entries of 150."""

_ZIP_END: Final = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR: Final = struct.Struct("<4sLQL")
_ZIP64_END: Final = struct.Struct("<4sQ2H2L4Q")
_ZIP_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""The methods that Java writes; the others would bring decoders whose memory the file itself dictates."""


class ZipStore:
    """The inside of a ZIP, as folders of members; the empty path is its root.

    ``path`` names the ZIP in errors. Owns ``reader``, which must be able to seek, and closes it in every case.
    """

    def __init__(self, reader: Reader, path: str) -> None:
        self._path = path
        self._reader = reader
        try:
            with self._inside(path):
                size = _check_directory(reader.raw, path)
                self._zip = zipfile.ZipFile(reader.raw)
                # The sizes are binding: zipfile delivers no more than a member announces.
                if is_bomb(sum(info.file_size for info in self._zip.infolist()), size):
                    raise LogUndecodable(path, BOMB)
        except LogError:
            reader.close()
            raise
        self._folders: dict[str, list[Entry]] = {"": []}
        seen = set()
        for info in self._zip.infolist():
            name = info.filename.strip("/")
            if not info.is_dir() and name not in seen and not name.startswith("__MACOSX/"):
                seen.add(name)
                folder, _, own = name.rpartition("/")
                self._folders.setdefault(folder, []).append(Entry(own, info.file_size))

    def logs(self) -> list[tuple[str, Entry]]:
        """Every log at any depth: folders that hold the parts of one, and single files; hidden ones are left out."""
        logs: list[tuple[str, Entry]] = []
        for folder, entries in sorted(self._folders.items()):
            if any(hidden(part) for part in folder.split("/")):
                continue
            if any(is_part_name(entry.name) for entry in entries):
                logs.append((folder, Entry(folder, None, folder=True)))
            if not any(is_events_name(entry.name) for entry in entries):
                logs.extend((self.join(folder, entry.name), entry) for entry in log_entries(entries))
        return logs

    def look(self, path: str) -> Entry:
        """See ``Store``."""
        if path in self._folders:
            return Entry(path, None, folder=True)
        folder, _, name = path.rpartition("/")
        for entry in self._folders.get(folder, ()):
            if entry.name == name:
                return entry
        raise LogMissing(self.show(path), "there is no such member in the ZIP")

    def entries(self, path: str) -> tuple[Entry, ...]:
        """See ``Store``."""
        return tuple(self._folders.get(path, ()))

    def join(self, path: str, name: str) -> str:
        """See ``Store``."""
        return f"{path}/{name}" if path else name

    def show(self, path: str) -> str:
        """See ``Store``."""
        return f"{self._path}!{path}" if path else self._path

    def open(self, path: str) -> Reader:
        """See ``Store``."""
        shown = self.show(path)
        with self._inside(shown):
            info = self._zip.getinfo(path)
            if info.flag_bits & 1:
                raise LogUndecodable(shown, "is encrypted; unpack it first")
            if info.compress_type not in _ZIP_METHODS:
                raise LogUndecodable(shown, "is compressed in a way that History Servers do not use; unpack it first")
            raw = self._zip.open(info)
        return Reader(raw, lambda problem: _zip_refusal(shown, problem))

    def close(self) -> None:
        """Close the ZIP and the file it is in."""
        self._zip.close()
        self._reader.close()

    @contextmanager
    def _inside(self, shown: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # BadZipFile, NotImplementedError, RuntimeError, struct.error, OSError, ...
            raise _zip_refusal(shown, problem) from None


def _zip_refusal(shown: str, problem: Exception) -> LogError:
    if isinstance(problem, LogError):
        return problem
    if isinstance(problem, zipfile.BadZipFile | EOFError | zlib.error):
        return LogCorrupt(shown, shown, 0, f"the ZIP is damaged or incomplete ({cause(problem)})")
    return LogUnreadable(shown, f"the ZIP cannot be read: {cause(problem)}")


def _check_directory(raw: IO[bytes], path: str) -> int:
    """The size of the ZIP; refuse a table of contents over ``DIRECTORY_MAX`` before zipfile reads it whole."""
    size = raw.seek(0, os.SEEK_END)
    start = max(0, size - _ZIP_END.size - 0xFFFF - _ZIP64_LOCATOR.size)
    raw.seek(start)
    tail = raw.read(size - start)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _ZIP_END.size:
        raise LogCorrupt(path, path, size, "the ZIP has no table of contents at its end: it is cut off")
    directory = _ZIP_END.unpack_from(tail, at)[5]
    locator = at - _ZIP64_LOCATOR.size
    if locator >= 0 and tail.startswith(b"PK\x06\x07", locator):
        # Where the record is said to be, and right before its locator: zipfile's versions differ in which they trust.
        for place in (_ZIP64_LOCATOR.unpack_from(tail, locator)[2], start + locator - _ZIP64_END.size):
            raw.seek(max(0, min(place, size)))
            end = raw.read(_ZIP64_END.size)
            if len(end) == _ZIP64_END.size and end.startswith(b"PK\x06\x06"):
                directory = max(directory if directory < 0xFFFFFFFF else 0, _ZIP64_END.unpack(end)[8])
    raw.seek(0)
    if directory > DIRECTORY_MAX:
        why = f"the ZIP's table of contents has {directory:,} bytes; at most {DIRECTORY_MAX:,} are read"
        raise LogUndecodable(path, why)
    return size
