"""What lies in a folder, here or in a remote store, with the stamps by which a log is known again.

Two listings answer the same three questions - what is this, what lies in it, which logs are in this ZIP - one for this
machine's files, one for everything that fsspec has a client for. A local folder streams, however large it is; of a remote
one the client holds the whole answer, but never of two at once: its cache is emptied after each. Links to folders are not
followed (they may lead back up), links to files are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from podtide.adapters.eventlog.bytes.errors import LogError, LogMissing
from podtide.adapters.eventlog.bytes.store import LocalStore, Reader, RemoteStore, is_url, local_errors, local_path
from podtide.adapters.eventlog.bytes.zip_store import ZipStore
from podtide.adapters.fleet.rows import Stamp

_MODIFIED: Final = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
"""What fsspec's clients call the time of the last change; Azure, Google, S3, HDFS and the rest all differ."""

_ETAG: Final = ("ETag", "etag", "e_tag", "md5Hash", "checksum")


class Item(NamedTuple):
    """Something in a folder. ``path`` is the listing's own, ``name`` its last part; ``regular``: neither pipe nor device."""

    path: str
    name: str
    folder: bool
    regular: bool
    stamp: Stamp


class Listing(Protocol):
    """A place with folders. Every method raises ``LogError`` only."""

    def item(self, path: str) -> Item:
        """What is at ``path``. Raises ``LogMissing``."""

    def items(self, path: str) -> Iterable[Item]:
        """What lies directly in a folder, in no particular order; may be walked again."""

    def join(self, path: str, name: str) -> str:
        """The path of ``name`` in the folder ``path``."""

    def show(self, path: str) -> str:
        """What a user would have to give to mean ``path``."""

    def logs_in_zip(self, path: str) -> tuple[str, ...]:
        """The members of a ZIP that may be logs, by name; none where it cannot be read in place."""


def listing_of(place: str) -> tuple[Listing, str]:
    """The listing that a place belongs to, and its path there. Raises ``LogError``: no client for the URL."""
    if is_url(place):
        remote = RemoteListing(place)
        return remote, remote.root
    return LocalListing(), local_path(place)


class LocalListing(LocalStore):
    """This machine's files."""

    def item(self, path: str) -> Item:
        """See ``Listing``."""
        with local_errors(path):
            found = os.stat(path)  # noqa: PTH116 - the path stays as it was given
        return Item(path, _last(path), stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode), _stamp_of(found))

    def items(self, path: str) -> Iterable[Item]:
        """See ``Listing``."""
        return _LocalFolder(path)

    def logs_in_zip(self, path: str) -> tuple[str, ...]:
        """See ``Listing``."""
        return _logs_in(self.open(path), path)


class _LocalFolder:
    """A folder of this machine that is read anew at each iteration."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Item]:
        with local_errors(self._path), os.scandir(self._path) as listing:
            for entry in listing:
                try:
                    folder = entry.is_dir(follow_symlinks=False)
                    found = entry.stat()
                except OSError:  # it vanished, or it is a link to nothing
                    continue
                regular = stat.S_ISREG(found.st_mode)
                yield Item(os.path.join(self._path, entry.name), entry.name, folder, regular, _stamp_of(found))  # noqa: PTH118 - speed


class RemoteListing(RemoteStore):
    """A remote store, through fsspec."""

    def item(self, path: str) -> Item:
        """See ``Listing``. A web address that tells nothing is a file all the same: reading it will tell."""
        try:
            with self._remote():
                found = self._fs.info(path)
        except LogMissing:
            raise
        except LogError:
            if self._scheme in ("http", "https"):
                return Item(path, _last(path), path.endswith("/"), True, Stamp())
            raise
        return _remote_item(found, path)

    def items(self, path: str) -> Iterable[Item]:
        """See ``Listing``."""
        return tuple(_remote_item(found, self.join(path, name)) for name, found in self.listed(path))

    def logs_in_zip(self, path: str) -> tuple[str, ...]:
        """See ``Listing``."""
        reader = self.open(path)
        if not reader.seekable():
            reader.close()
            return ()
        return _logs_in(reader, self.show(path))


def _logs_in(reader: Reader, path: str) -> tuple[str, ...]:
    try:
        zipped = ZipStore(reader, path)
    except LogError:
        return ()  # its reader reports what is wrong with it
    try:
        return tuple(place for place, _ in zipped.logs())
    finally:
        zipped.close()


def _stamp_of(found: os.stat_result) -> Stamp:
    return Stamp(found.st_size, found.st_mtime_ns // 1_000_000)


def _remote_item(found: Mapping[str, Any], path: str) -> Item:
    size = found.get("size")
    modified = next((_millis(found[key]) for key in _MODIFIED if found.get(key) is not None), None)
    etag = next((str(found[key])[:128] for key in _ETAG if found.get(key)), None)
    folder = found.get("type") == "directory"
    stamp = Stamp() if folder else Stamp(size if isinstance(size, int) else None, modified, etag)
    return Item(path, _last(path), folder, True, stamp)


def _millis(value: object) -> int | None:
    """Epoch milliseconds of whatever a client calls a time."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    except (ValueError, OverflowError):
        pass
    return None


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
