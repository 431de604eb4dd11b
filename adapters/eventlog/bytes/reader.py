"""A log that was found, read from its first file to its last as chunks of whole lines.

``LogSource`` is what ``open_log`` (log_source) gives: it knows the files of the log, their order and what is missing,
opens one after the other, tells each one's codec by its content and counts what was read, for a progress display. A
file that ends inside a frame is read up to there and a fault says so; a damaged one raises ``LogCorrupt`` once
everything before the damage has been yielded.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Self

from podtide.adapters.eventlog.bytes.codecs import HEAD_BYTES, Codec, Decoded, foreign, sniff, suffix_codec
from podtide.adapters.eventlog.bytes.errors import LogEmpty, LogUndecodable, LogUnreadable
from podtide.adapters.eventlog.bytes.lines import CHUNK_BYTES, LINE_MAX, Chunk, FaultKind, LineFault, Piece, cut_lines
from podtide.adapters.eventlog.bytes.rolled import Gap
from podtide.adapters.eventlog.bytes.store import Reader, Store
from podtide.adapters.text.safe import display


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log: its name for people, its path in its store, its size as stored (None if unknown)."""

    name: str
    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """What a path turned out to mean; ``gaps`` by the path of the file before which something is missing."""

    files: tuple[LogFile, ...]
    in_progress: bool | None = None
    rolled: bool = False
    compacted: bool = False
    gaps: dict[str, Gap] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class LogSource:
    """A log ready to be read. A context manager; ``pieces`` may be asked for again, except of a pipe.

    ``path``        as given; ``name`` the same for people: escaped, without a URL's secrets
    ``files``       in reading order; ``gaps`` which numbers are missing from a rolled log
    ``rolled``, ``compacted``, ``in_progress`` (None: nothing says)
    ``size``        bytes as stored (compressed), None if unknown; ``bytes_read`` how many were read so far
    ``codecs``      those met so far, in order; complete once everything was read
    ``notes``       what people should know about how the path was understood, a sentence each; may grow while reading
    """

    def __init__(self, path: str, store: Store, plan: ReadingOrder, pipe: Reader | None = None) -> None:
        self.path = path
        self.name = display(path)
        self.files = plan.files
        self.gaps = tuple(plan.gaps.values())
        self.rolled = plan.rolled
        self.compacted = plan.compacted
        self.in_progress = plan.in_progress
        self.notes = plan.notes
        self.codecs: tuple[Codec, ...] = ()
        self.size = total_size(plan.files)
        self._gaps = plan.gaps
        self._store = store
        self._pipe = pipe
        self._spent = False
        self._done = 0
        self._current: Reader | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as stored."""
        return self._done + (self._current.count if self._current else 0)

    def pieces(self, *, chunk_bytes: int = CHUNK_BYTES, line_max: int = LINE_MAX) -> Generator[Piece]:
        """Yield the whole log as ``Chunk`` and ``LineFault``, in its order.

        ``chunk_bytes``: about how much a chunk holds; ``line_max``: bytes of the longest line that is delivered.
        Raises ``LogError`` where reading cannot go on, ``LogEmpty`` at the end if there was not one byte.
        """
        if self._pipe and self._spent:
            raise LogUnreadable(self.path, "a pipe can be read only once")
        self._spent = True
        self._done = 0
        anything = False
        for file in self.files:
            if gap := self._gaps.get(file.path):
                yield LineFault(file.name, 1, FaultKind.GAP, f"{gap} missing: what happened in between is not known")
            for piece in self._pieces_of(file, chunk_bytes, line_max):
                anything = True
                yield piece
        if not anything:
            raise LogEmpty(self.path, empty(in_progress=self.in_progress))

    def close(self) -> None:
        """Close whatever is open."""
        for reader in (self._current, self._pipe):
            if reader:
                reader.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pieces_of(self, file: LogFile, chunk_bytes: int, line_max: int) -> Generator[Piece]:
        reader = self._pipe or self._store.open(file.path)
        self._current = reader
        try:
            stream = Decoded(reader.read, self._codec(reader.peek(HEAD_BYTES), file), self.path, file.name)
            line = 0
            for piece in cut_lines(stream, file.name, chunk_bytes=chunk_bytes, line_max=line_max):
                line = piece.line + piece.lines - 1 if isinstance(piece, Chunk) else piece.line
                yield piece
            if stream.cut:
                yield LineFault(file.name, max(1, line), FaultKind.CUT, stream.cut)
        finally:
            self._done += reader.count
            self._current = None
            if reader is not self._pipe:
                reader.close()

    def _codec(self, head: bytes, file: LogFile) -> Codec:
        if what := foreign(head):
            raise LogUndecodable(self.path, f"{of(file.name, self.name)}is {what}; an event log was expected")
        codec = sniff(head, file.path)
        claimed = suffix_codec(file.path)
        if head and codec not in self.codecs:
            self.codecs += (codec,)
        if head and claimed and codec is Codec.PLAIN:
            note = f"{file.name} is named like {claimed} but does not begin like it: read as text"
            self.notes += () if note in self.notes else (note,)
        return codec


def total_size(files: tuple[LogFile, ...]) -> int | None:
    """The sizes of the files together, None if one is unknown."""
    total = 0
    for file in files:
        if file.size is None:
            return None
        total += file.size
    return total


def empty(*, in_progress: bool | None) -> str:
    """Why an empty log is empty, as far as its name or status says."""
    if in_progress:
        return "is empty so far: its application is still running, or died before it wrote anything"
    return "is empty; an event log was expected"


def of(file: str, log: str) -> str:
    """The file as the beginning of a sentence, where it is not the log itself."""
    return "" if file == log else f"{file} "
