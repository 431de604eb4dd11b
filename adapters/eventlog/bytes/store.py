"""Where logs lie: this machine's files, remote stores behind a URL, and the inside of a ZIP.

A ``Store`` answers three questions about a path - what is it, what is in it, open it - and turns every refusal of the
operating system, of fsspec's clients and of zipfile into a ``LogError`` of one line. What is opened is a plain reader
of bytes; nothing here knows what the bytes mean.

Remote clients come as extras and are imported only when a URL needs one. A ZIP is read in place, never unpacked: its
members stream. Its table of contents is read whole by zipfile, so its size is bounded before that.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from podtide.adapters.eventlog.bytes.errors import (
    LogCorrupt,
    LogError,
    LogMissing,
    LogUndecodable,
    LogUnreadable,
    RemoteFailed,
    RemoteMissing,
)
from podtide.adapters.eventlog.bytes.framing import BOMB, is_bomb
from podtide.adapters.eventlog.bytes.rolled import Entry
from podtide.adapters.text.safe import cause

EXTRAS: Final = {
    **dict.fromkeys(("s3", "s3a"), "podtide[s3]"),
    **dict.fromkeys(("gs", "gcs"), "podtide[gcs]"),
    **dict.fromkeys(("abfs", "abfss", "adl", "az"), "podtide[azure]"),
    **dict.fromkeys(("hdfs", "webhdfs"), "pyarrow"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
}
"""What brings the client of a URL's scheme; every other scheme needs ``podtide[remote]``."""

DIRECTORY_MAX: Final = 4 * 1024 * 1024
"""Largest table of contents of a ZIP, in bytes (zipfile makes about fifteen times as much of it in memory); a
History Server's has a few dozen entries of 150."""

_ZIP_END: Final = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR: Final = struct.Struct("<4sLQL")
_ZIP64_END: Final = struct.Struct("<4sQ2H2L4Q")
_ZIP_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""The methods that Java writes; the others would bring decoders whose memory the file itself dictates."""


class Store(Protocol):
    """A place that holds logs. Paths are the store's own strings; every method raises ``LogError`` only."""

    def look(self, path: str) -> Entry:
        """What is at ``path``: a folder or something that can be read, and its size. Raises ``LogMissing``."""

    def entries(self, path: str) -> tuple[Entry, ...]:
        """What lies directly in the folder ``path``, in no particular order."""

    def join(self, path: str, name: str) -> str:
        """The path of ``name`` in the folder ``path``."""

    def show(self, path: str) -> str:
        """What a user would have to give to mean ``path``."""

    def open(self, path: str) -> Reader:
        """Open for reading from the beginning. The caller closes it."""

    def close(self) -> None:
        """Let go of what the store holds open."""


class Reader:
    """Bytes from a store: ``read(n)`` gives at most n, nothing at the end; refusals come as ``LogError``.

    ``count`` is what was read so far, as stored (compressed), what was only peeked at included. ``raw`` is the file
    below, for zipfile to seek in.
    """

    def __init__(self, raw: IO[bytes], refuse: Callable[[Exception], LogError], read: str = "read") -> None:
        self.raw = raw
        self.count = 0
        self._read: Callable[[int], bytes] = getattr(raw, read)
        self._refuse = refuse
        self._ahead = b""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        try:
            data = self._read(size)
        except Exception as problem:  # every client has exceptions of its own
            raise self._refuse(problem) from None
        self.count += len(data)
        return data

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes (fewer only at the end), which the next reads give again."""
        parts: list[bytes] = []
        while size > 0 and (part := self.read(size)):
            parts.append(part)
            size -= len(part)
        self._ahead = b"".join(parts) + self._ahead
        return b"".join(parts)

    def seekable(self) -> bool:
        """Whether the file below can be read from any place, as a ZIP wants it."""
        try:
            self.raw.seek(0, os.SEEK_END)
            self.raw.seek(0)
        except Exception:  # an OSError, a ValueError, or a client's own
            return False
        return True

    def close(self) -> None:
        """Close the file below; a failure to close what was only read is nobody's news."""
        with suppress(Exception):
            self.raw.close()


class LocalStore:
    """This machine's files, given as paths."""

    def look(self, path: str) -> Entry:
        """See ``Store``. Pipes (``<(zcat log)``, /dev/stdin) can be read and have no size."""
        with local_errors(path):
            found = Path(path).stat()
        if stat.S_ISSOCK(found.st_mode) or stat.S_ISBLK(found.st_mode):
            raise LogUnreadable(path, "is a socket or a disk; a file, a folder or a pipe was expected")
        regular = stat.S_ISREG(found.st_mode)
        return Entry(path, found.st_size if regular else None, stat.S_ISDIR(found.st_mode))

    def entries(self, path: str) -> tuple[Entry, ...]:
        """See ``Store``; what vanishes while it is listed, or is neither file nor folder, is left out."""
        with local_errors(path), os.scandir(path) as listing:
            return tuple(entry for item in listing if (entry := _local_entry(item)))

    def join(self, path: str, name: str) -> str:
        """See ``Store``."""
        return str(Path(path) / name)

    def show(self, path: str) -> str:
        """See ``Store``."""
        return path

    def open(self, path: str) -> Reader:
        """See ``Store``. Unbuffered: reads are large."""
        with local_errors(path):
            raw = Path(path).open("rb", buffering=0)  # noqa: SIM115 - the caller closes it
        return Reader(raw, lambda problem: LogUnreadable(path, f"reading it failed: {cause(problem)}"))

    def close(self) -> None:
        """See ``Store``; nothing."""


class RemoteStore:
    """A remote store behind ``scheme://``, through fsspec."""

    def __init__(self, url: str) -> None:
        """Find the client for ``url``; ``RemoteMissing`` says what to install."""
        self._scheme = url.partition("://")[0].rpartition("::")[2].lower()
        extra = EXTRAS.get(self._scheme, "podtide[remote]")
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra, and slow to import
        except ImportError:
            raise RemoteMissing(url, self._scheme, extra) from None
        try:
            fs, self.root = url_to_fs(url)
        except ImportError:
            raise RemoteMissing(url, self._scheme, extra) from None
        except Exception as problem:
            # Some schemes (abfss) are unknown to fsspec until the package that serves them is there.
            if self._scheme in EXTRAS and "not known" in str(problem):
                raise RemoteMissing(url, self._scheme, extra) from None
            raise RemoteFailed(url, f"this URL cannot be opened: {cause(problem)}") from None
        self._fs: Any = fs
        self._url = url

    def look(self, path: str) -> Entry:
        """See ``Store``. A web address is taken for a file unless it ends in a slash: servers list what they like."""
        if self._scheme in ("http", "https") and not path.endswith("/"):
            return Entry(path, None)
        with self._remote():
            found = self._fs.info(path)
        return _remote_entry(found, path)

    def entries(self, path: str) -> tuple[Entry, ...]:
        """See ``Store``."""
        with self._remote():
            listing = self._fs.ls(path, detail=True)
        named = ((str(item["name"]).strip("/"), item) for item in listing)
        # Object stores list the folder's own empty marker among its contents.
        return tuple(
            _remote_entry(item, name.rpartition("/")[2]) for name, item in named if name and name != path.strip("/")
        )

    def join(self, path: str, name: str) -> str:
        """See ``Store``."""
        return f"{path.rstrip('/')}/{name}"

    def show(self, path: str) -> str:
        """See ``Store``."""
        return self._url if path == self.root else str(self._fs.unstrip_protocol(path))

    def open(self, path: str) -> Reader:
        """See ``Store``."""
        with self._remote():
            raw = self._fs.open(path, "rb")
        return Reader(raw, self._refusal)

    def close(self) -> None:
        """See ``Store``; the clients keep their own pools."""

    @contextmanager
    def _remote(self) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # aiohttp's, botocore's, google's, azure's: no common ancestor
            raise self._refusal(problem) from None

    def _refusal(self, problem: Exception) -> LogError:
        if isinstance(problem, LogError):
            return problem
        if isinstance(problem, FileNotFoundError):
            return LogMissing(self._url, "there is no such file or folder")
        if isinstance(problem, ImportError):
            return RemoteMissing(self._url, self._scheme, EXTRAS.get(self._scheme, "podtide[remote]"))
        if isinstance(problem, PermissionError):
            return LogUnreadable(self._url, f"the store refuses access: {cause(problem)}")
        return RemoteFailed(self._url, f"the store failed: {type(problem).__name__}: {cause(problem)}")


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

    @property
    def folders(self) -> dict[str, list[Entry]]:
        """Every folder that directly holds members, with them."""
        return self._folders

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


@contextmanager
def local_errors(path: str) -> Iterator[None]:
    """What goes wrong with a file or folder of this machine, as a LogError that names it."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise LogMissing(path, "there is no such file or folder") from None
    except PermissionError:
        raise LogUnreadable(path, "reading it is not permitted") from None
    except (OSError, ValueError) as problem:  # ValueError: a NUL byte in the path
        raise LogUnreadable(path, f"it cannot be read: {cause(problem)}") from None


def _local_entry(item: os.DirEntry[str]) -> Entry | None:
    try:
        if item.is_dir():
            return Entry(item.name, None, folder=True)
        return Entry(item.name, item.stat().st_size) if item.is_file() else None
    except OSError:
        return None


def _remote_entry(found: dict[str, Any], name: str) -> Entry:
    size = found.get("size")
    return Entry(name, size if isinstance(size, int) else None, found.get("type") == "directory")
