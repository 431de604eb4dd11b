"""The places that an assistant may have read, and whether a log lies in one of them.

A place is a file, a folder or a URL; it is named when the server starts, and there is no other way to add one. A path counts
as what it leads to: ``..`` and links are followed first, and what they lead to has to lie in a place. In a folder that is
read as one log every link has to lead to a file of a place. A URL has to begin with the URL of a place, at the border of a
part of its path, with the same scheme, host and port; chains of file systems (``::``) and ``..`` are refused. What does not
lie in a place is refused in the same words, whether it is there or not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from podtide.adapters.eventlog.bytes.store import is_url, local_path
from podtide.adapters.text.safe import display

ENTRIES_MAX: Final = 10_000
"""What a folder may hold that is read as one log; Spark rolls a log into a few dozen files."""

_MEMBER: Final = re.compile(r"(.+\.zip)!(.+)", re.IGNORECASE | re.DOTALL)


class NotAllowed(Exception):
    """A place that may not be read, or that cannot be one; one printable line."""


@dataclass(frozen=True, slots=True)
class Places:
    """``paths``: absolute, without links; ``urls``: as they were given."""

    paths: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Sequence[str]) -> Places:
        """The places that were named at the start. Raises NotAllowed for what is not there or cannot be a place."""
        paths, urls = [], []
        for place in given:
            if is_url(place):
                if _refused_url(place):
                    raise NotAllowed(f"--allow {display(place)}: expected a URL without .. and without ::")
                urls.append(place)
                continue
            try:
                paths.append(str(Path(local_path(place)).resolve(strict=True)))
            except (OSError, ValueError, RuntimeError):
                raise NotAllowed(f"--allow {display(place)}: there is no such file or folder") from None
        return cls(tuple(paths), tuple(urls))

    def __iter__(self) -> Iterator[str]:
        """All of them."""
        yield from self.paths
        yield from self.urls

    def log(self, given: str) -> str:
        """What to open for the log ``given``: a path without links, or a URL. Raises NotAllowed."""
        if is_url(given):
            if _refused_url(given) or not any(_below(given, place) for place in self.urls):
                raise _outside(given)
            return given
        path, member = self._split(local_path(given))
        found = self._resolved(path, given)
        if found.is_dir():
            self._check_folder(found, given)
        elif found.exists() and not found.is_file():
            raise NotAllowed(f"{display(given)} is neither a file nor a folder")
        return f"{found}!{member}" if member else str(found)

    def folder(self, given: str) -> str:
        """What to look for logs in. Raises NotAllowed."""
        return self.log(given) if is_url(given) else str(self._resolved(local_path(given), given))

    def holds(self, path: str) -> bool:
        """Whether a path, its links followed, lies in a place."""
        try:
            found = Path(path).resolve()
        except (OSError, ValueError, RuntimeError):
            return False
        return any(found.is_relative_to(place) for place in self.paths)

    def _split(self, path: str) -> tuple[str, str | None]:
        """A path, and the member of a ZIP that is meant."""
        chosen = _MEMBER.fullmatch(path)
        return (chosen[1], chosen[2]) if chosen else (path, None)

    def _resolved(self, path: str, given: str) -> Path:
        """Where a path leads; a relative one is looked for in every place. Raises NotAllowed."""
        if not path or "\0" in path:
            raise _outside(given)
        tries = [Path(path)] if Path(path).is_absolute() else [Path(place) / path for place in self.paths]
        inside = [one for one in tries if self.holds(str(one))]
        if not inside:
            raise _outside(given)
        return next((one for one in inside if one.exists()), inside[0]).resolve()

    def _check_folder(self, folder: Path, given: str) -> None:
        """Raise NotAllowed where reading the folder as one log could lead out of the places."""
        seen = 0
        for where, folders, files in os.walk(folder):
            for name in (*folders, *files):
                seen += 1
                path = Path(where) / name
                if path.is_symlink() and (path.is_dir() or not self.holds(str(path))):
                    raise NotAllowed(f"{display(given)} holds a link that is not followed: {display(name)}")
            if seen > ENTRIES_MAX:
                raise NotAllowed(f"{display(given)} holds more than {ENTRIES_MAX:,} files: expected one log")


def _outside(given: str) -> NotAllowed:
    return NotAllowed(f"{display(given)} is not in a place that was allowed when this server started")


def _refused_url(url: str) -> bool:
    """Whether a URL could mean something else than what it begins with."""
    path = unquote(unquote(urlsplit(url).path))
    return "::" in url or "\\" in path or ".." in re.split(r"[/\\]", path) or not url.isprintable()


def _below(url: str, place: str) -> bool:
    one, other = urlsplit(url), urlsplit(place)
    root = other.path.rstrip("/")
    return (
        one.scheme.lower() == other.scheme.lower()
        and one.netloc.lower() == other.netloc.lower()
        and (one.path == other.path or one.path.rstrip("/") == root or one.path.startswith(f"{root}/"))
    )
