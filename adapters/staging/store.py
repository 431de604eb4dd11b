"""Bundles on a disk: what is there after a crash is whole, and what was promised is there.

Under the store's folder, which only its owner can read:

- ``incoming/ID``: an upload under way. Whatever is there at the start belongs to nobody and is deleted.
- ``bundles/ID.tgz``, then ``bundles/ID.json``: a bundle. It exists when its entry (the JSON) does, which is written aside,
  synchronized and renamed after the archive is where it stays; a removal deletes the entry first. An archive without an
  entry was never promised to anybody, or is gone: it is deleted at the start.
- ``podtide-staging.lock``: held by the one server that has the store. A folder with other things in it and without this file
  is no store, and nothing in it is touched.

Entries hold hashes of secrets, never secrets. An entry that cannot be read, or whose archive is missing or has another size,
is left where it is and not served; ``StoreOpened.damaged`` says so. Everything here blocks; nothing here decides.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.staging.bundles import Bundle, BundleId, BundleOwner, bundle_id, owner_of

FORMAT: Final = 1
ENTRY_MAX: Final = 64 * 1024
LOCK: Final = "podtide-staging.lock"
_ON_ANY_DISK: Final = "lost+found"
_ENTRY: Final = re.compile(r"[0-9a-f]{32}\.json")


class StoreUnusable(Exception):
    """The folder cannot be a store; says why in one line."""


class StoreOpened(NamedTuple):
    """What was there. ``damaged``: what is wrong with bundles that are not served, in a line for each."""

    bundles: tuple[Bundle, ...]
    damaged: tuple[str, ...]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    namespace: str
    labels: dict[str, str]
    secret_sha256: str
    sha256: str
    size: int
    created_at: Millis
    used: bool


class BundleStore:
    """One folder. Its methods may be called from any thread, those of one bundle one after the other."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, or make it. Raises StoreUnusable."""
        self.folder = folder
        self._incoming = folder / "incoming"
        self._bundles = folder / "bundles"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = {path.name for path in folder.iterdir()} - {_ON_ANY_DISK}
            if names and LOCK not in names:
                raise StoreUnusable(f"{folder} is not empty and no store")
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for part in (self._incoming, self._bundles):
                part.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            raise StoreUnusable(f"{folder} cannot be a store: {problem.strerror or problem}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StoreUnusable(f"{folder} is the store of a server that runs") from None

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._lock)

    def open(self) -> StoreOpened:
        """Delete what belongs to nobody and read what is there. Raises StoreUnusable."""
        try:
            for part in (self._incoming, self._bundles):
                part.mkdir(mode=0o700, exist_ok=True)
            for left in self._incoming.iterdir():
                left.unlink()
            return self._read()
        except OSError as problem:
            raise StoreUnusable(f"{self.folder} cannot be read: {problem.strerror or problem}") from None

    def _read(self) -> StoreOpened:
        bundles: list[Bundle] = []
        damaged: list[str] = []
        entries = {path.stem for path in self._bundles.iterdir() if _ENTRY.fullmatch(path.name)}
        for path in sorted(self._bundles.iterdir()):
            if path.stem not in entries:
                path.unlink()
            elif _ENTRY.fullmatch(path.name):
                made = self._bundle(path)
                if isinstance(made, Bundle):
                    bundles.append(made)
                else:
                    damaged.append(f"bundle {path.stem} is not served: {made}")
            elif path.suffix != ".tgz":
                path.unlink()  # an entry that was being written
        return StoreOpened(tuple(bundles), tuple(damaged))

    def _bundle(self, path: Path) -> Bundle | str:
        """The bundle of an entry, or what is wrong with it."""
        try:
            with path.open("rb") as file:
                entry = msgspec.json.decode(file.read(ENTRY_MAX), type=_Entry)
            secret_hash, digest = bytes.fromhex(entry.secret_sha256), bytes.fromhex(entry.sha256)
            size = self._archive(path.stem).stat().st_size
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as problem:
            return f"its entry is damaged: {escaped(str(problem))}"
        except OSError as problem:
            return f"it cannot be read: {problem.strerror or problem}"
        name = bundle_id(path.stem)
        owner = owner_of(entry.namespace, entry.labels.items())
        if entry.format != FORMAT:
            return f"its format is {entry.format}, this podtide knows {FORMAT}"
        if name is None or not isinstance(owner, BundleOwner) or len(secret_hash) != 32 or len(digest) != 32:
            return "its entry is damaged"
        if size != entry.size:
            return f"it has {size} bytes instead of {entry.size}"
        return Bundle(name, owner, secret_hash, digest, size, entry.created_at, entry.used)

    def free(self) -> int:
        """Bytes that are free on the disk. Raises OSError."""
        return shutil.disk_usage(self.folder).free

    # bundles

    def receive(self, bundle: BundleId) -> IncomingBundle:
        """Begin to take an upload. Raises OSError."""
        return IncomingBundle(self._incoming / bundle)

    def publish(self, bundle: Bundle) -> None:
        """Make what was taken a bundle, for good. Raises OSError; then ``remove`` or ``discard`` cleans up."""
        (self._incoming / bundle.id).rename(self._archive(bundle.id))
        _synchronize(self._bundles)
        self.record(bundle)

    def record(self, bundle: Bundle) -> None:
        """Write a bundle's entry, in one piece. Raises OSError."""
        entry = _Entry(
            FORMAT,
            bundle.owner.namespace,
            dict(bundle.owner.labels),
            bundle.secret_hash.hex(),
            bundle.digest.hex(),
            bundle.size,
            bundle.created_at,
            bundle.used,
        )
        aside = self._bundles / f"{bundle.id}.new"
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(entry))
                file.flush()
                os.fsync(file.fileno())
            aside.rename(self._entry(bundle.id))
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        _synchronize(self._bundles)

    def remove(self, bundle: BundleId) -> None:
        """Delete a bundle, its entry first. Whoever reads it reads on. Raises OSError."""
        self._entry(bundle).unlink(missing_ok=True)
        _synchronize(self._bundles)
        self._archive(bundle).unlink(missing_ok=True)

    def discard(self, bundle: BundleId) -> None:
        """Delete an upload, how far it may have come. What is left then is deleted at the next start, or expires."""
        for path in (self._entry(bundle), self._archive(bundle), self._incoming / bundle):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def reader(self, bundle: BundleId) -> IO[bytes]:
        """Its bytes. Raises OSError."""
        return self._archive(bundle).open("rb")

    def _archive(self, name: str) -> Path:
        return self._bundles / f"{name}.tgz"

    def _entry(self, name: str) -> Path:
        return self._bundles / f"{name}.json"


class IncomingBundle:
    """A file that is being written. ``digest``: SHA-256 of what was written so far."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> bytes:
        """SHA-256 of what was written."""
        return self._hash.digest()

    def write(self, piece: bytes) -> None:
        """Write all of a piece. Raises OSError."""
        rest = memoryview(piece)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._hash.update(piece)

    def finish(self) -> None:
        """Have it on the disk. Raises OSError."""
        os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            self._file.close()


def _synchronize(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
