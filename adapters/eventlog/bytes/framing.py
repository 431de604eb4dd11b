"""Compressed bytes with a position, and the ways in which a stream of blocks can end.

A codec here is a generator: it takes bytes from an ``Intake`` and yields decoded blocks of bounded size. It
ends by returning (the stream is complete), by raising ``Cut`` (the bytes stop inside a frame, as in the log
of a running or killed application: all that was whole has been yielded) or by raising ``Damage`` (the bytes
are there but wrong; the offset says where in the compressed file). ``Cut`` is ordinary life and becomes a
flag; ``Damage`` becomes an error.

Length fields come from the file and are therefore hostile: every codec checks them against a bound before it
takes the bytes, so that four bytes never make anyone reserve four gigabytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

READ_BYTES: Final = 256 * 1024
"""Compressed bytes asked for at once: large enough that calls do not count, small enough for the cache."""

BLOCK_MAX: Final = 32 * 1024 * 1024
"""The largest decoded block accepted: the most lz4-java can write, a thousand times Spark's 32 KiB."""


EXPANSION_MAX: Final = 500
"""How many bytes may come of one; event logs reach 10 to 60, a bomb in gzip 1,032, in zstd 30,000."""

EXPANSION_FREE: Final = 1024 * 1024 * 1024
"""Output below which no ratio is suspicious."""

BOMB: Final = f"expands more than {EXPANSION_MAX}-fold: refused as a decompression bomb"


def is_bomb(decoded: int, stored: int) -> bool:
    """Whether so many decoded bytes from so many stored ones are a decompression bomb."""
    return decoded > EXPANSION_FREE and decoded > EXPANSION_MAX * stored


class Cut(Exception):
    """The stream stops before it is complete. ``why`` says inside what."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Damage(Exception):
    """The stream is not what its codec prescribes at byte ``at`` of the compressed file."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class PackageMissing(Exception):
    """The package that decodes this codec is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package


def need(module: str, package: str) -> Any:
    """The codec module, imported when a stream first needs it; ``PackageMissing`` names what to install.

    A plain log needs none of them, and their imports would cost every start.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise PackageMissing(package) from None


class Intake:
    """A reader that knows its position and can be asked for an exact number of bytes.

    ``read(n)`` returns at most n bytes, and nothing only at the end. Holds at most one read beyond what was
    asked.
    """

    __slots__ = ("_at", "_base", "_data", "_read")

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._data = b""
        self._at = 0
        self._base = 0

    @property
    def position(self) -> int:
        """Compressed bytes handed out so far: the offset of the next byte in the file."""
        return self._base + self._at

    def some(self, limit: int = READ_BYTES) -> bytes:
        """Whatever is at hand, at least one byte and at most ``limit``; nothing at the end."""
        if self._at == len(self._data) and not self._refill():
            return b""
        data = self._data[self._at : self._at + limit]
        self._at += len(data)
        return data

    def take(self, size: int) -> bytes:
        """Exactly ``size`` bytes, or all that is left where the stream ends before."""
        end = self._at + size
        if end <= len(self._data):
            data = self._data[self._at : end]
            self._at = end
            return data
        parts = []
        while size and (part := self.some(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _refill(self) -> bool:
        self._base += len(self._data)
        self._at = 0
        self._data = self._read(READ_BYTES)
        return bool(self._data)
