"""Observers of the loop that write down what they see: a recording, and what Spark's own log would have said.

A recording of a simulation is put in its place when it is whole (``whole_recording``): what was cut short can be simulated
again, so half of it is of no use to anybody. A live recording is written in its place, line by line (``RecordingWriter``).
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from podtide.adapters.recording.header import RecordingError, RecordingHeader
from podtide.adapters.recording.writer import PRIVATE, RecordingWriter
from podtide.adapters.text.safe import cause
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step

STDOUT = "-"


@contextmanager
def whole_recording(path: str, header: RecordingHeader, *, overwrite: bool = False) -> Iterator[RecordingWriter]:
    """A recording that stands under its name once it is whole; whoever leaves with an exception leaves nothing behind.

    ``path``: ``-`` for standard output; what is no regular file (a device, a pipe) is written as it is. Raises
    RecordingError, also where there is a file already and ``overwrite`` is not set.
    """
    try:
        place = Path(os.path.realpath(path))
        if path == STDOUT or (place.exists() and not place.is_file()):
            with RecordingWriter(path, header, overwrite=True, flush_steps=0) as writer:
                yield writer
            return
        with _beside(path, place, overwrite=overwrite) as part:
            with RecordingWriter(str(part), header, overwrite=True, flush_steps=0) as writer:
                yield writer
            part.replace(place)
    except RecordingError as refused:
        raise RecordingError(path, refused.why, refused.line) from None
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as problem:  # ValueError: a NUL byte in the path
        raise RecordingError(path, f"cannot be written: {cause(problem)}") from None


@contextmanager
def _beside(path: str, place: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file of another name in the same folder, which is gone afterwards unless it was renamed."""
    if place.exists():
        if not overwrite:
            raise RecordingError(
                path, "exists already; choose another name, or say that it may be replaced (--overwrite)"
            )
        if not os.access(place, os.W_OK):
            raise PermissionError(0, "it is write-protected")
    part = place.with_name(f".part-{secrets.token_hex(6)}-{place.name[-100:]}")
    try:  # before there is a file: an interrupt may strike as soon as there is one
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        part.chmod(stat.S_IMODE(place.stat().st_mode) if place.exists() else PRIVATE)
        yield part
    finally:
        part.unlink(missing_ok=True)


class Recorder:
    """Writes every step to a recording. Raises RecordingError where the file cannot be written."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """Write one step."""
        self._writer.step(now, stimuli, taken.commands, taken.reports)
