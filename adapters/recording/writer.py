"""Writing a recording: whole lines, appended as they happen, so that whatever ends the process leaves a file to read.

Lines collect in memory and go to the operating system together, whole ones only: after every step unless told
otherwise (``flush_steps``). So a process that dies loses the step it was in, and a machine that loses power what its
operating system had not written yet; nothing is forced onto the disk but at the end, because a live loop must not wait
for a disk at every step. A simulation of a million steps sets ``flush_steps`` higher: it can be run again.

Under a name that ends in ``.zst`` or ``.zstd`` the lines are compressed. Every flush ends a zstd block, so that all
before it can be read without what follows; the blocks share a window, which keeps small steps small. A frame, with a
checksum, ends after 8 MiB of text and at the end.

A full snapshot of the pods is written now and then without being asked for: once the text since the last one is about
four times as long as the next will be, and at least a megabyte. It costs about a quarter more, whatever the fleet.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol, Self

import zstandard

from podtide.adapters.eventlog.bytes.codecs import Codec, suffix_codec
from podtide.adapters.recording.codec import MORE_PODS, Decided, RecordedStimulus, decided_record, written
from podtide.adapters.recording.header import RecordingError, RecordingHeader, header_line
from podtide.adapters.recording.pods import STEP_PODS_MAX, PodTable, whole_plain
from podtide.adapters.recording.records.codec import Plain
from podtide.adapters.recording.records.jsonl import encoded
from podtide.adapters.text.safe import cause
from podtide.domain.base.units import Millis
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.pods import PodManifest

STDOUT: Final = "-"

PRIVATE: Final = 0o600
"""The mode of a new recording."""

LINE_MAX: Final = 32 * 1024 * 1024
"""Bytes of the longest line; only a single stimulus or command can come near it."""

PART_BYTES: Final = 1024 * 1024
"""A line that has so many bytes ends there, and the next goes on with ``more``."""

STEP_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of all lines of one step, or of one full snapshot; 100,000 pods take about 70 MiB."""

FRAME_BYTES: Final = 8 * 1024 * 1024
FULL_BYTES_MIN: Final = 1024 * 1024
FULL_POD_BYTES: Final = 4 * 600
"""Text between two full snapshots for each pod; a usual pod, written whole, takes 600 bytes."""

_LEVEL: Final = 3
_PENDING_MAX: Final = 4 * 1024 * 1024
"""Bytes of lines that wait in memory at most, whatever ``flush_steps`` says."""


class _Output(Protocol):
    """What can be written to; a raw file may take less than it is given."""

    def write(self, data: bytes | memoryview, /) -> int | None: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class RecordingWriter:
    """Writes a recording; a context manager. Leaving it without an exception closes the recording with its last line.

    ``target``: a path (``-``: standard output), or a binary file, which stays open. An existing file is refused unless
    ``overwrite``. ``compress``: None goes by the name. ``flush_steps``: 0 only flushes when told to, or at 4 MiB.
    Raises RecordingError here and from every method if the file cannot be written; from then on nothing is written.
    BrokenPipeError passes through: nobody reads.
    """

    def __init__(
        self,
        target: str | BinaryIO,
        header: RecordingHeader,
        *,
        overwrite: bool = False,
        compress: bool | None = None,
        flush_steps: int = 1,
        full_bytes_min: int = FULL_BYTES_MIN,
    ) -> None:
        self.path = target if isinstance(target, str) else str(getattr(target, "name", "<file>"))
        self.steps = 0
        self._ours = isinstance(target, str) and target != STDOUT
        self._problem: RecordingError | BrokenPipeError | None = None
        self._closed = False
        self._table = PodTable()
        self._now: Millis | None = None
        self._started = header.started_at
        self._flush_steps = flush_steps
        self._unflushed = 0
        self._pending = bytearray()
        self._full_bytes_min = full_bytes_min
        self._text_bytes = 0
        self._full_end = 0
        line = header_line(header)
        if len(line) > LINE_MAX:
            raise RecordingError(self.path, f"a header of {len(line):,} bytes; at most {LINE_MAX:,} are written")
        self._deflate = _Frames() if self._compressed(compress) else None
        self._output = self._open(target, overwrite=overwrite) if isinstance(target, str) else target
        self._pending += line
        self.flush()

    def step(
        self,
        now: Millis,
        stimuli: Sequence[RecordedStimulus],
        commands: Iterable[Command] = (),
        reports: Iterable[Report] = (),
    ) -> None:
        """One step of the engine: all that it took, in order, and all that it decided. ``now`` never falls."""
        self._clock(now)
        if sum(len(getattr(stimulus, "pods", ())) for stimulus in stimuli) > STEP_PODS_MAX:
            raise self._broken(RecordingError(self.path, f"more than {STEP_PODS_MAX:,} pods in one step"))
        self._put(self._lines(now, "stimuli", self._stimuli(now, stimuli)))
        decided: list[Decided] = [*commands, *reports]
        if decided:
            self._put(self._lines(now, "decided", (_text(decided_record(item)) for item in decided)))
        self.steps += 1
        self._unflushed += 1
        since = self._text_bytes - self._full_end
        if since >= max(self._full_bytes_min, FULL_POD_BYTES * len(self._table)) and len(self._table):
            self.full(now)
        if self._flush_steps and self._unflushed >= self._flush_steps:
            self.flush()

    def full(self, now: Millis, pods: Iterable[PodManifest] | None = None) -> None:
        """A full snapshot: the pods known at ``now``, in order; None: as the recording knows them itself."""
        self._clock(now)
        listed = self._table.pods if pods is None else tuple(pods)
        view = {"known": len(self._table), "differ": self._table.differing(listed)}
        self._put(self._lines(now, "full", (_text(whole_plain(pod)) for pod in listed), view))
        self._full_end = self._text_bytes
        self._table.replace(listed)

    def flush_every(self, steps: int) -> None:
        """From now on hand what was written over after so many steps; 0: only when told to, or at 4 MiB."""
        self._flush_steps = steps
        self.flush()

    def flush(self) -> None:
        """Hand all that was written so far to the operating system."""
        self._check()
        data: bytes | bytearray = self._pending
        self._unflushed = 0
        if not data:
            return
        self._pending = bytearray()
        self._send(data if self._deflate is None else self._deflate.block(data))

    def close(self, reason: str = "closed") -> None:
        """Write the last line, which says that the recording is whole and why it ends, and close the file."""
        if self._closed:
            return
        try:
            self._check()
            end = {
                "at_ms": self._started if self._now is None else self._now,
                "end": {"steps": self.steps, "reason": reason},
            }
            self._put([encoded(end)])
            self._finish()
            self._sync()
        finally:
            self._release()

    def abandon(self) -> None:
        """Close the file without a last line: the recording reads as cut. What was written stays."""
        if self._closed:
            return
        try:
            if self._problem is None:
                self._finish()
        finally:
            self._release()

    def _finish(self) -> None:
        self.flush()
        if self._deflate is not None:
            self._send(self._deflate.finish())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.close()
            return
        with suppress(RecordingError, OSError):  # the exception under way is the news
            self.abandon()

    # ------------------------------------------------------------------------------------------------------------ lines

    def _stimuli(self, now: Millis, stimuli: Iterable[RecordedStimulus]) -> Iterator[bytes]:
        for stimulus in stimuli:
            plain, pods = written(stimulus, now, self._table)
            if pods is None:
                yield _text(plain)
                continue
            parts = list(_parted(map(_text, pods)))
            for part in parts or [[]]:
                yield b'%b,"pods":[%b]}' % (_text(plain)[:-1], b",".join(part))
                plain = {"stimulus": MORE_PODS}

    def _lines(self, now: Millis, kind: str, items: Iterable[bytes], view: Plain | None = None) -> Iterator[bytes]:
        """The lines that hold these items; all but the last say that there is more."""
        head = b'{"at_ms":%d,' % now
        first = head if view is None else b'%b"view":%b,' % (head, _text(view))
        whole = 0
        parts = _parted(items)
        part = next(parts, [])
        while True:
            following = next(parts, None)
            more = b"" if following is None else b',"more":true'
            line = b'%b"%b":[%b]%b}\n' % (first, kind.encode(), b",".join(part), more)
            whole += len(line)
            if len(line) > LINE_MAX or whole > STEP_BYTES_MAX:
                what = f"{kind} of {max(len(line), whole):,} bytes at {now}"
                raise self._broken(
                    RecordingError(self.path, f"{what}; a line has at most {LINE_MAX:,}, a step {STEP_BYTES_MAX:,}")
                )
            yield line
            if following is None:
                return
            part, first = following, head

    def _clock(self, now: Millis) -> None:
        assert self._now is None or now >= self._now, "time never falls"
        self._now = now

    def _put(self, lines: Iterable[bytes]) -> None:
        self._check()
        for line in lines:
            self._pending += line
            self._text_bytes += len(line)
            if len(self._pending) > _PENDING_MAX:
                self.flush()

    # ----------------------------------------------------------------------------------------------------------- the file

    def _open(self, path: str, *, overwrite: bool) -> _Output:
        if path == STDOUT:
            return sys.stdout.buffer
        try:
            try:
                special = not stat.S_ISREG(Path(path).stat().st_mode)
            except FileNotFoundError:
                special = False
            return open(path, "wb" if overwrite or special else "xb", buffering=0, opener=_private)
        except FileExistsError:
            raise RecordingError(path, "exists already; choose another name, or say that it may be replaced") from None
        except (OSError, ValueError) as problem:  # ValueError: a NUL byte in the path
            raise RecordingError(path, f"cannot be written: {cause(problem)}") from None

    def _compressed(self, compress: bool | None) -> bool:
        claimed = suffix_codec(self.path)
        if compress is None and claimed not in (None, Codec.ZSTD):
            raise RecordingError(self.path, f"recordings are not written as {claimed}; .zst or no suffix was expected")
        return claimed is Codec.ZSTD if compress is None else compress

    def _send(self, data: bytes | bytearray) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._output.write(rest) or 0 :]
            self._output.flush()
        except BrokenPipeError as problem:
            self._problem = problem
            raise
        except (OSError, ValueError) as problem:  # ValueError: the file was closed by somebody else
            raise self._broken(RecordingError(self.path, f"writing failed: {cause(problem)}")) from None

    def _sync(self) -> None:
        """Onto the disk, where there is one: a pipe or a device has none."""
        if not self._ours:
            return
        try:
            descriptor = self._output.fileno()
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fsync(descriptor)
        except OSError as problem:
            raise self._broken(RecordingError(self.path, f"writing failed: {cause(problem)}")) from None

    def _release(self) -> None:
        self._closed = True
        if self._ours:
            with suppress(OSError):  # what could not be written was reported when it was
                self._output.close()

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem
        if self._closed:
            raise RecordingError(self.path, "the recording is closed")

    def _broken(self, problem: RecordingError) -> RecordingError:
        """From now on nothing is written: a line that is missing in the middle would be worse than an end."""
        self._problem = problem
        self._pending = bytearray()
        return problem


def _private(path: str, flags: int) -> int:
    """Open a file that others may not read if it is new: it holds an application's conf. One that exists keeps its mode."""
    return os.open(path, flags, PRIVATE)


class _Frames:
    """zstd frames that follow each other, each block of which can be read as soon as it is written."""

    def __init__(self) -> None:
        self._maker = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._frame: Any = None
        self._size = 0

    def block(self, data: bytes | bytearray) -> bytes:
        """The data, compressed, with the end of its block."""
        if self._frame is None:
            self._frame = self._maker.compressobj()
            self._size = 0
        self._size += len(data)
        out: bytes = self._frame.compress(data)
        if self._size >= FRAME_BYTES:
            return out + self.finish()
        return out + bytes(self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))

    def finish(self) -> bytes:
        """The end of the frame under way."""
        if self._frame is None:
            return b""
        out: bytes = self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)
        self._frame = None
        return out


def _text(plain: Any) -> bytes:
    """One item as JSON; half a surrogate pair, which no text of Kubernetes can hold, becomes a replacement mark."""
    try:
        return encoded(plain)[:-1]
    except UnicodeEncodeError:
        return encoded(_mended(plain))[:-1]


def _mended(plain: Any) -> Any:
    match plain:
        case str():
            return plain.encode("utf-8", "replace").decode()
        case dict():
            return {_mended(key): _mended(value) for key, value in plain.items()}
        case list() | tuple():
            return [_mended(item) for item in plain]
        case _:
            return plain


def _parted(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The items in parts of about ``PART_BYTES``."""
    part: list[bytes] = []
    size = 0
    for item in items:
        if part and size + len(item) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += len(item) + 1
    if part:
        yield part
