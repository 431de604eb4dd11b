"""Whether a recording lies somewhere: its first line tells, and nothing else is read or loaded for it.

The record of an embedded cluster counts as one here: whoever reads recordings refuses it, and says what it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import closing
from io import BytesIO
from typing import BinaryIO, Final

from podtide.adapters.eventlog.bytes.codecs import HEAD_BYTES, Decoded, sniff
from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.lines import Chunk
from podtide.adapters.eventlog.bytes.source import STDIN, open_log

_OPENING: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"podtide"\s*:\s*\d+\s*,\s*"kind"\s*:\s*"(?:recording|cluster)"'
)


_PEEKED: Final = 8 * 1024


def begins_recording(head: bytes, name: str = "") -> bool:
    """Whether a file that begins with these bytes, as stored (the first few thousand), is a recording."""
    try:
        text = b"".join(Decoded(_once(head), sniff(head[:HEAD_BYTES], name), name or "a file"))
    except LogError:
        return False
    return _OPENING.match(text) is not None


def is_recording(path: str, *, stdin: BinaryIO | None = None) -> bool:
    """Whether a recording lies at ``path``, by its first line; False for anything else, also for what cannot be read.

    Standard input (``-``) is only looked at: whoever reads it next gets all of it. A named pipe can be read only once and is
    not asked: False.
    """
    if path == STDIN:
        # Python runs without standard input too, and then sys.stdin is None.
        peek = getattr(stdin if stdin is not None else getattr(sys.stdin, "buffer", None), "peek", None)
        return peek is not None and begins_recording(peek(_PEEKED))
    try:
        with open_log(path) as source:
            if source.size is None and "://" not in path:
                return False
            with closing(source.pieces(chunk_bytes=1)) as pieces:
                first = next(pieces, None)
    except LogError:
        return False
    return isinstance(first, Chunk) and _OPENING.match(first.data) is not None


def _once(data: bytes) -> Callable[[int], bytes]:
    source = BytesIO(data)
    return source.read
