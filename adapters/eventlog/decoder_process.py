"""Reading and decoding a log in a second process, so that two cores share a long replay.

``SecondProcess`` looks like the sensor that it stands for: the child runs an ``EventLogSensor`` and sends what it
yields; here the stimuli are put together again. Task events, nearly all of a long log, travel as plain tuples, whose
length says what they are; everything else is pickled between two ends of the same program.

A message is a length (4 bytes) and a body; a body is one marshalled tuple. The child ends when the parent closes the
pipe, and dies with the parent's interrupt.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from os.path import isdir, isfile
from typing import IO, TYPE_CHECKING, Any, Final

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.lines import LineFault
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.source import from_stdin, open_log
from podtide.adapters.eventlog.contents import LineCounts, LogApplication, LogContents
from podtide.adapters.eventlog.executors import LogExecutors
from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import Stimulus, TaskEnd, TaskOutcome, TaskStart

if TYPE_CHECKING:
    from podtide.adapters.eventlog.sensor import EventLogSensor

WORTH_BYTES: Final = 64 * 1024 * 1024
"""Stored size from which a second process pays for its start."""

COLLECTED_AFTER: Final = 100_000
"""Objects made and not released until cycles are looked for. A batch has tens of thousands, none of them in a cycle."""

MARSHAL_VERSION: Final = 2
"""The last one without references between values, which cost more than they save where nearly all are small numbers."""

_LENGTH: Final = struct.Struct(">I")
START_FIELDS: Final = len(TaskStart._fields)


def packed(batch: Sequence[Any]) -> tuple[list[tuple[Any, ...] | None], bytes]:
    """A batch of a sensor that yields rows: the rows, None for every other stimulus, and these pickled."""
    rows = [event if type(event) is tuple else None for event in batch]
    return rows, pickle.dumps([event for event in batch if type(event) is not tuple])


def unpacked(rows: Sequence[tuple[Any, ...] | None], others: bytes) -> list[Stimulus]:
    """The batch that ``packed`` was given, its rows as stimuli."""
    make, of_start = tuple.__new__, START_FIELDS
    outcomes = [(outcome,) for outcome in TaskOutcome]
    rest = iter(pickle.loads(others))  # noqa: S301 - written by this program's own other end
    batch: list[Stimulus] = []
    append = batch.append
    for row in rows:
        if row is None:
            append(next(rest))
        elif len(row) == of_start:
            append(make(TaskStart, row))
        else:
            append(make(TaskEnd, row[:-1] + outcomes[row[-1]]))
    return batch


class SecondProcess:
    """A sensor whose work is done by a child process; a context manager, closed when done with."""

    def __init__(self, source: LogSource, *, strict: bool = False, keep_unended: bool = False) -> None:
        self.source = source
        self.counts = LineCounts()
        self.application = LogApplication()
        self.seen = LogContents()
        self.faults: list[LineFault] = []
        self.fleet = LogExecutors()
        self.clock: Millis = 0
        self.bytes_read = 0
        # -P: nothing is imported from the working directory.
        command = [sys.executable, "-P", "-c", _CHILD, source.path, *("strict",) * strict, *("keep",) * keep_unended]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = subprocess.Popen(  # noqa: S603 - this very interpreter
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=1 << 20, env=environment
        )
        assert self._child.stdout is not None
        self._pipe: IO[bytes] = self._child.stdout

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child, if it has not ended."""
        self._pipe.close()
        self._child.terminate()
        self._child.wait()

    def prologue(self) -> LogApplication:
        """As EventLogSensor.prologue."""
        self._adopt(self._receive())
        return self.application

    def batches(self) -> Iterator[list[Stimulus]]:
        """As EventLogSensor.batches."""
        while True:
            kind, *body = self._receive()
            if kind == "batch":
                self.clock, self.bytes_read, rows, others = body
                yield unpacked(rows, others)
            else:
                self._adopt((kind, *body))
                return

    def _adopt(self, message: tuple[Any, ...]) -> None:
        kind, *body = message
        if kind == "error":
            raise LogError(*body)
        state = pickle.loads(body[0])  # noqa: S301 - written by this program's own other end
        self.application, self.counts, self.seen, self.faults, self.fleet, self.clock, *of_source = state
        self.source.codecs, self.source.notes = of_source

    def _receive(self) -> tuple[Any, ...]:
        head = self._pipe.read(_LENGTH.size)
        if len(head) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            body = self._pipe.read(length)
            if len(body) == length:
                message: tuple[Any, ...] = marshal.loads(body)  # noqa: S302 - written by this program's own other end
                return message
        raise LogError(self.source.path, f"the process that read it ended early (status {self._child.wait()})")


def pays(source: LogSource) -> bool:
    """Whether a second process gains more than its start costs."""
    return source.size is not None and source.size >= WORTH_BYTES


@contextlib.contextmanager
def begun_early(path: str | None, *, strict: bool, keep_unended: bool) -> Iterator[SecondProcess | None]:
    """A process that reads the log at ``path``, if one pays; it is ended on the way out.

    None as well for whatever is no plain file or folder, and for what cannot be opened: who opens it later is told why.
    """
    if path is None or from_stdin(path) or not (isfile(path) or isdir(path)):  # noqa: PTH112, PTH113 - Path's may raise
        yield None
        return
    try:
        source = open_log(path)
    except LogError:
        yield None
        return
    with source:
        if pays(source):
            with SecondProcess(source, strict=strict, keep_unended=keep_unended) as reading:
                yield reading
        else:
            yield None


_CHILD: Final = "from podtide.adapters.eventlog.decoder_process import child; child()"


def child() -> None:
    """The other end: read the log named on the command line and write messages to standard output."""
    from podtide.adapters.eventlog.sensor import EventLogSensor  # noqa: PLC0415 - only the child decodes

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(COLLECTED_AFTER)
    path, *how = sys.argv[1:]
    out = sys.stdout.buffer
    with contextlib.suppress(BrokenPipeError):
        try:
            with open_log(path) as source:
                sensor = EventLogSensor(source, strict="strict" in how, keep_unended="keep" in how, rows=True)
                sensor.prologue()
                _send(out, ("begun", _state(sensor)))
                for batch in sensor.batches():
                    _send(out, ("batch", sensor.clock, source.bytes_read, *packed(batch)))
                _send(out, ("ended", _state(sensor)))
        except LogError as refusal:
            _send(out, ("error", refusal.path, refusal.why))
        out.flush()


def _state(sensor: EventLogSensor) -> bytes:
    parts = (sensor.application, sensor.counts, sensor.seen, sensor.faults, sensor.fleet, sensor.clock)
    return pickle.dumps((*parts, sensor.source.codecs, sensor.source.notes))


def _send(out: IO[bytes], message: tuple[Any, ...]) -> None:
    body = marshal.dumps(message, MARSHAL_VERSION)
    out.write(_LENGTH.pack(len(body)))
    out.write(body)
