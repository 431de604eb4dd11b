"""Records as JSON lines that are safe to look at: ASCII alone, so that no name in them can steer a terminal.

``RecordSpool`` puts records aside until all that goes before them is known: a replay knows its totals at the end, but its
decisions come on the way and may be millions. They are kept in memory while few, in a temporary file then, which has no
name, so nothing is left of it however the process ends.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec

MEMORY_MAX: Final = 4 * 1024 * 1024
"""Bytes of records that are kept in memory."""

_encode = msgspec.json.Encoder().encode


def encoded(record: dict[str, Any]) -> bytes:
    """A record as one line of JSON, its newline included."""
    line = _encode(record)
    if not line.isascii() or b"\x7f" in line:  # rare: an executor id that a cluster manager would not give
        line = json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
    return line + b"\n"


class RecordSpool:
    """A list of records outside memory; a context manager."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_MAX)  # noqa: SIM115 - closed by __exit__

    def put(self, record: dict[str, Any]) -> None:
        """Append a record."""
        self._file.write(encoded(record))

    def lines(self) -> Iterator[bytes]:
        """The records in their order, each as one line of JSON without its newline."""
        self._file.seek(0)
        for line in self._file:
            yield line[:-1]

    def records(self) -> Iterator[dict[str, Any]]:
        """The records in their order."""
        for line in self.lines():
            yield msgspec.json.decode(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
