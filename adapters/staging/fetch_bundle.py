"""The program of the init container: fetch a bundle, check it, unpack it. For any Python from 3.8, alone.

It takes everything from its environment: PODTIDE_STAGE_URL, _SECRET, _SHA256, _FOLDER, _TIMEOUT_S, _UNPACKED_MAX (bytes)
and _CA (PEM; without, the certificates of the image). It tries again until the time is over, but not where trying cannot
help: a wrong secret, an unknown bundle or certificate. Nothing is unpacked before the digest is right and every entry is a
plain file with a plain name. It follows no redirect and asks no proxy: the secret goes to the named server alone.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import IO, Mapping  # noqa: UP035 - Python 3.8
from urllib.parse import urlsplit

PIECE = 256 * 1024
SILENCE_S = 30.0
FILES_MAX = 10_000


class FetchError(Exception):
    """The bundle cannot be had; says why in one line."""


class _TryAgain(Exception):
    """It may work later."""


def fetch(environment: Mapping[str, str]) -> int:
    """Fetch and unpack; returns how many files. Raises FetchError."""
    url, folder = environment["PODTIDE_STAGE_URL"], environment["PODTIDE_STAGE_FOLDER"]
    timeout_s = float(environment["PODTIDE_STAGE_TIMEOUT_S"])
    context = None
    if urlsplit(url).scheme == "https":
        context = ssl.create_default_context(cadata=environment.get("PODTIDE_STAGE_CA") or None)
    secret = environment["PODTIDE_STAGE_SECRET"]
    deadline = time.monotonic() + timeout_s
    pause_s = 0.25
    while True:
        with tempfile.TemporaryFile(dir=folder) as archive:
            try:
                _download(url, secret, context, archive, deadline)
                _check_digest(archive, environment["PODTIDE_STAGE_SHA256"])
                return unpack(archive, folder, int(environment["PODTIDE_STAGE_UNPACKED_MAX"]))
            except _TryAgain as problem:
                if time.monotonic() + pause_s >= deadline:
                    raise FetchError(f"{url} was not fetched within {timeout_s:g} s: {problem}") from None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 5.0)


def _download(url: str, secret: str, context: ssl.SSLContext | None, archive: IO[bytes], deadline: float) -> None:
    parts = urlsplit(url)
    wait_s = max(0.1, min(SILENCE_S, deadline - time.monotonic()))
    connection: http.client.HTTPConnection
    if context is not None:
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=wait_s, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=wait_s)
    try:
        connection.request("GET", parts.path, headers={"Authorization": "Bearer " + secret})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(1000).decode("utf-8", "replace").strip()
            kind = _TryAgain if response.status in (408, 429) or response.status >= 500 else FetchError
            raise kind(f"{url}: {response.status} {text}")
        while True:
            piece = response.read(PIECE)
            if not piece:
                break
            archive.write(piece)
            if time.monotonic() > deadline:
                raise _TryAgain("the time is over")
        if response.length:
            raise _TryAgain("the connection broke")
    except ssl.SSLCertVerificationError as problem:
        raise FetchError(f"{url} cannot be trusted: {problem.verify_message}") from None
    except (OSError, http.client.HTTPException) as problem:
        raise _TryAgain(str(problem) or type(problem).__name__) from None
    finally:
        connection.close()


def _check_digest(archive: IO[bytes], wanted: str) -> None:
    archive.seek(0)
    digest = hashlib.sha256()
    while True:
        piece = archive.read(PIECE)
        if not piece:
            break
        digest.update(piece)
    if digest.hexdigest() != wanted:
        raise FetchError("what was fetched is not what was pushed: its SHA-256 is " + digest.hexdigest())


def unpack(archive: IO[bytes], folder: str, size_max: int) -> int:
    """Unpack a flat archive of plain files into a folder; returns how many. Raises FetchError before it writes anything."""
    try:
        _check_entries(archive, size_max)
        archive.seek(0)
        count = 0
        with tarfile.open(fileobj=archive, mode="r|gz") as entries:
            for entry in entries:
                content = entries.extractfile(entry)
                if content is None:
                    raise FetchError(f"entry {entry.name!r} is no plain file")
                _write(content, Path(folder, entry.name), 0o755 if entry.mode & 0o100 else 0o644)
                count += 1
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise FetchError(f"the archive cannot be unpacked: {problem}") from None
    return count


def _check_entries(archive: IO[bytes], size_max: int) -> None:
    archive.seek(0)
    names = set()
    size = 0
    with tarfile.open(fileobj=archive, mode="r|gz") as entries:
        for entry in entries:
            name = entry.name
            if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise FetchError(f"entry {name!r} is no plain file")
            if name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable():
                raise FetchError(f"entry {name!r} is no plain name")
            if name in names:
                raise FetchError(f"entry {name!r} is there twice")
            names.add(name)
            size += entry.size
            if size > size_max or len(names) > FILES_MAX:
                raise FetchError(f"entry {name!r}: the archive holds more than {size_max} bytes or {FILES_MAX} files")


def _write(content: IO[bytes], path: Path, mode: int) -> None:
    """A file appears as a whole, in the place of one of an earlier attempt."""
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            while True:
                piece = content.read(PIECE)
                if not piece:
                    break
                file.write(piece)
            os.fchmod(file.fileno(), mode)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink()
        raise


def main() -> int:
    """Fetch by the environment; returns the exit code."""
    try:
        count = fetch(os.environ)
    except FetchError as problem:
        print(f"podtide: {problem}", file=sys.stderr)
        return 1
    print(f"podtide: {count} files are in {os.environ['PODTIDE_STAGE_FOLDER']}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
