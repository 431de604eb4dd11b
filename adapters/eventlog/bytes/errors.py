"""Why a log cannot be read: each error is one printable line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtide.adapters.text.format import some
from podtide.adapters.text.safe import display

LISTED_MAX: Final = 10
"""Candidates that are listed by name; a history folder may hold a hundred thousand."""


class LogError(Exception):
    """A log cannot be read. ``path`` is what was asked for, as it was given; the message is one printable
    line."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{display(path)}: {why}")
        self.path = path
        self.why = why


class LogMissing(LogError):
    """Nothing is at that path."""


class LogUnreadable(LogError):
    """Something is there, but the operating system refuses: permission, a failing disk, a socket."""


class LogEmpty(LogError):
    """There is a log, but not one byte of events in it."""


class LogNotFound(LogError):
    """A folder or a ZIP is there, but nothing in it is an event log."""


class LogAmbiguous(LogError):
    """Several logs answer to the path: ``candidates`` are paths, each of which may be given instead."""

    def __init__(self, path: str, why: str, candidates: Iterable[str]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(path, f"{why}: {some([display(one) for one in self.candidates], LISTED_MAX)}")


class LogUndecodable(LogError):
    """The file is something that event logs are not written in (xz, tar, Parquet, UTF-16, ...)."""


class LogCorrupt(LogError):
    """The compressed stream is damaged at byte ``offset`` of ``file``; whatever came before was delivered."""

    def __init__(self, path: str, file: str, offset: int, why: str) -> None:
        where = "" if display(file) == display(path) else f"{display(file)}: "
        super().__init__(path, f"{where}damaged at byte {offset:,}: {why}")
        self.file = file
        self.offset = offset


class CodecMissing(LogError):
    """The codec is known, its package is not installed: ``package`` is what to install."""

    def __init__(self, path: str, codec: str, package: str) -> None:
        super().__init__(path, f"reading {codec} needs the package {package}: pip install {package}")
        self.package = package


class RemoteMissing(LogError):
    """The URL needs a client that is not installed: ``extra`` is the extra (or package) that brings it."""

    def __init__(self, path: str, scheme: str, extra: str) -> None:
        super().__init__(path, f"reading {scheme}:// needs a client that is not installed: pip install '{extra}'")
        self.extra = extra


class RemoteFailed(LogError):
    """The remote store answered with an error, or not at all."""
