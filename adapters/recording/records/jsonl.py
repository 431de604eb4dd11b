"""Records as JSON lines that are safe to look at: ASCII alone, so that no name in them can steer a terminal."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def encoded(record: dict[str, Any]) -> bytes:
    """A record as one line of JSON, its newline included."""
    line = _encode(record)
    if not line.isascii() or b"\x7f" in line:  # rare: an executor id that a cluster manager would not give
        line = json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
    return line + b"\n"
