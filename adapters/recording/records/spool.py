"""Records put aside as JSON until all that goes before them is known: in memory while few, in a temporary file then.

A replay knows its totals at the end, but its decisions come on the way and may be millions. They are encoded at
once, one a line, and read back a line at a time. The file has no name, so nothing is left of it however the process
ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec

from podtide.adapters.recording.records.jsonl import encoded

MEMORY_MAX: Final = 4 * 1024 * 1024
"""Bytes of records that are kept in memory."""


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
