"""Blocks of decoded bytes in, whole lines out, a megabyte or so at a time.

An event log is one JSON object a line. A decoder is fastest when it is given many whole lines in one piece of memory,
so blocks are cut at their last newline and the rest is carried over; lines are neither split nor searched one by one. A
large block is delivered where it lies, after the one line that began in the block before: a chunk then comes in parts.
Small blocks are copied together. Line numbers count from 1 in every file.

A line longer than ``line_max`` is not held: it is passed over as it streams by and reported as a ``LineFault`` with its
length. What follows the last newline of a file is delivered as a chunk of its own, ``unterminated``: it may be a
whole event whose newline was never written, or half of one; only a decoder can tell.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

CHUNK_BYTES: Final = 1024 * 1024
"""A chunk is delivered once it holds this much; it stays in the second-level cache while it is decoded."""

IN_PLACE: Final = 4
"""A block of at least this part of a chunk is delivered without being copied."""

LINE_MAX: Final = 16 * 1024 * 1024
"""Longest line that is delivered, in bytes; real logs have lines of up to 1 MB."""

LONG_AVERAGE: Final = 512
"""Bytes a line beyond which it pays to jump from newline to newline instead of looking at every byte."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class FaultKind(enum.StrEnum):
    """What is wrong with a place in a log."""

    LONG_LINE = "long line"
    """The line was passed over unread."""
    CUT = "cut off"
    """The compressed stream ends inside a frame: the log is incomplete from here on."""
    GAP = "gap"
    """Files of a rolled log are missing before this one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """``lines`` whole lines of ``file``, the first of them number ``line``; all end in a newline.

    ``continues``: more of the chunk before it, so that where chunks end does not depend on what was copied.
    ``unterminated``: a single line, the last of its file, that does not end in a newline.
    """

    data: bytes | memoryview
    file: str
    line: int
    lines: int
    continues: bool = False
    unterminated: bool = False


@dataclass(frozen=True, slots=True)
class LineFault:
    """A place in a log that could not be used: file, line (1 is the first), kind, and why in words for people."""

    file: str
    line: int
    kind: FaultKind
    why: str


Piece: TypeAlias = Chunk | LineFault
"""What reading a log yields, in the log's order."""


def cut_lines(
    blocks: Iterable[bytes], file: str, *, chunk_bytes: int = CHUNK_BYTES, line_max: int = LINE_MAX
) -> Iterator[Piece]:
    """Yield the lines of one file as chunks of about ``chunk_bytes`` and the lines over ``line_max`` as faults.

    Holds at most a block, a chunk and a line. What ``blocks`` raises is raised after everything before it was
    yielded, the unterminated rest included.
    """
    cutter = _Cutter(file, chunk_bytes, line_max)
    failure: Exception | None = None
    stream = iter(blocks)
    first = True
    while True:
        try:
            block = next(stream)
        except StopIteration:
            break
        except Exception as problem:  # raised again below, after what came before it
            failure = problem
            break
        if first:
            block = block.removeprefix(_BYTE_ORDER_MARK)
            first = False
        if len(block) <= line_max:
            yield from cutter.add(block)
        else:
            # A line inside one block would otherwise escape the measure.
            for at in range(0, len(block), line_max):
                yield from cutter.add(block[at : at + line_max])
    yield from cutter.end()
    if failure is not None:
        raise failure


def count_lines(data: bytes, *, long_lines: bool) -> int:
    """Newlines in ``data``; ``long_lines`` chooses the faster of two ways and never changes the answer.

    ``bytes.count`` looks at one byte a cycle (3 GB/s, more than all other work of reading a plain log); ``index`` runs at
    memory speed but costs a call a line. Task lines of about 2 kB: 2.4 against 5.4 GB/s.
    """
    if not long_lines:
        return data.count(b"\n")
    lines = at = 0
    index = data.index
    try:
        while True:
            at = index(b"\n", at) + 1
            lines += 1
    except ValueError:
        return lines


class _Cutter:
    """Whole lines that wait to become a chunk, the beginning of a line, or the length of one that is passed over."""

    __slots__ = (
        "_chunk_bytes",
        "_continues",
        "_file",
        "_line",
        "_line_max",
        "_long_lines",
        "_over",
        "_ready",
        "_ready_size",
        "_tail",
        "_tail_size",
    )

    def __init__(self, file: str, chunk_bytes: int, line_max: int) -> None:
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._line_max = line_max
        self._line = 1
        self._long_lines = False
        self._ready: list[bytes | memoryview] = []
        self._ready_size = 0
        self._continues = False
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._over = 0

    def add(self, block: bytes) -> Iterator[Piece]:
        """Take a block of at most ``line_max`` bytes; yield what it completes."""
        first = block.find(b"\n")
        if self._over or self._tail_size + (first if first >= 0 else len(block)) > self._line_max:
            yield from self._flush()
            self._over += self._tail_size
            self._tail.clear()
            self._tail_size = 0
            if first < 0:
                self._over += len(block)
                return
            yield self._long_line(self._over + first)
            block = block[first + 1 :]
            first = block.find(b"\n")
        if first < 0:
            if block:
                self._tail.append(block)
                self._tail_size += len(block)
            return
        end = block.rfind(b"\n") + 1
        self._ready.extend(self._tail)
        self._ready_size += self._tail_size + end
        if end * IN_PLACE < self._chunk_bytes:
            self._ready.append(block if end == len(block) else memoryview(block)[:end])
        elif self._ready:
            lines = self._count(block)
            self._ready.append(memoryview(block)[: first + 1])
            yield self._joined()
            if lines > 1:
                yield self._numbered(memoryview(block)[first + 1 : end], lines - 1)
        else:
            yield self._numbered(memoryview(block)[:end], self._count(block))
        self._tail = [block[end:]] if end < len(block) else []
        self._tail_size = len(block) - end
        if self._ready_size >= self._chunk_bytes:
            yield from self._flush()

    def end(self) -> Iterator[Piece]:
        """Yield what is left: whole lines, then the unterminated one, or the report of a long one without an end."""
        yield from self._flush()
        if self._over:
            yield self._long_line(self._over)
        elif self._tail:
            yield Chunk(b"".join(self._tail), self._file, self._line, 1, unterminated=True)

    def _flush(self) -> Iterator[Chunk]:
        """Yield what is ready, and end the chunk."""
        if self._ready:
            yield self._joined()
        self._ready_size = 0
        self._continues = False

    def _joined(self) -> Chunk:
        data = b"".join(self._ready)
        self._ready.clear()
        return self._numbered(data, self._count(data))

    def _count(self, data: bytes) -> int:
        lines = count_lines(data, long_lines=self._long_lines)
        self._long_lines = len(data) > LONG_AVERAGE * lines
        return lines

    def _numbered(self, data: bytes | memoryview, lines: int) -> Chunk:
        chunk = Chunk(data, self._file, self._line, lines, self._continues)
        self._continues = True
        self._line += lines
        return chunk

    def _long_line(self, size: int) -> LineFault:
        why = f"a line of {size:,} bytes; at most {self._line_max:,} are read"
        fault = LineFault(self._file, self._line, FaultKind.LONG_LINE, why)
        self._line += 1
        self._over = 0
        return fault
