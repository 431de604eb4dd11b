"""Where logs lie: this machine's files and remote stores behind a URL; the inside of a ZIP is in ``zip_store``.

A ``Store`` answers three questions about a path - what is it, what is in it, open it - and turns every refusal of the
operating system and of fsspec's clients into a ``LogError`` of one line. What is opened is a plain reader of bytes;
nothing here knows what the bytes mean. Remote clients come as extras and are imported only when a URL needs one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from podtide.adapters.eventlog.bytes.errors import LogError, LogMissing, LogUnreadable, RemoteFailed, RemoteMissing
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

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(::[A-Za-z][A-Za-z0-9+.\-]*)*://")
_FILE_URL: Final = re.compile(r"\Afile:(//)?(?=/)", re.IGNORECASE)


def is_url(place: str) -> bool:
    """Whether a place is a URL of a remote store (``file://`` is this machine)."""
    return _URL.match(place) is not None and not _FILE_URL.match(place)


def local_path(place: str) -> str:
    """The path on this machine that a place means, which may be given as ``file://``."""
    return _FILE_URL.sub("", place, count=1)


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
        """Close the file below; a failure to close a file that was only read is ignored."""
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
        return tuple(_remote_entry(item, name) for name, item in self.listed(path))

    def listed(self, path: str) -> list[tuple[str, Mapping[str, Any]]]:
        """What the client says lies in a folder, by name. Its cache is emptied: of two folders it never holds both."""
        with self._remote():
            listing = self._fs.ls(path, detail=True)
            self._fs.invalidate_cache(path)
        named = ((str(item["name"]).strip("/"), item) for item in listing)
        # Object stores list the folder's own empty marker among its contents.
        return [(name.rpartition("/")[2], item) for name, item in named if name and name != path.strip("/")]

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


def _remote_entry(found: Mapping[str, Any], name: str) -> Entry:
    size = found.get("size")
    return Entry(name, size if isinstance(size, int) else None, found.get("type") == "directory")
