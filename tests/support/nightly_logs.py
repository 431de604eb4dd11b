"""Copies of a real log as if it had been another night's: another application id, all times later by whole days."""

from __future__ import annotations

import re
from pathlib import Path

from podtide.adapters.eventlog.bytes.lines import Chunk
from podtide.adapters.eventlog.bytes.source import open_log

DAY_MS = 86_400_000
_TIME = re.compile(rb"(?<![0-9.])1[78][0-9]{11}(?![0-9.])")
"""Epoch milliseconds of the years that the logs are from."""

_ID = re.compile(rb'"App ID":"([^"]+)"')


def lines_of(log: Path) -> bytes:
    """A log, decoded."""
    with open_log(str(log)) as source:
        return b"".join(bytes(piece.data) for piece in source.pieces() if isinstance(piece, Chunk))


def another_night(lines: bytes, folder: Path, night: int) -> Path:
    """Write the copy of the ``night``-th night; it is named by its application's id."""
    found = _ID.search(lines)
    assert found is not None
    own = found[1].decode()
    copy = f"{own.rpartition('-')[0]}-{night:06}"
    shifted = _TIME.sub(lambda time: b"%d" % (int(time[0]) + night * DAY_MS), lines)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / copy
    place.write_bytes(shifted.replace(own.encode(), copy.encode()))
    return place
