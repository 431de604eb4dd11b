"""Reading a recording: a stream of steps, each as what went in and what came out, in bounded memory.

Lines come through the same reader as those of event logs (``eventlog.bytes.source``), so a recording may lie where a log
may lie and be compressed as one. Every line is checked before anything of it is handed on: its JSON and types, the order
of the lines, that time does not fall, that what refers to earlier pods finds them, and at every full snapshot that the
pods read so far are those that the writer knew. What does not fit raises RecordingError with the line.

A recording may end anywhere: the process died, the disk was full, it is still being written. Whatever follows the last
whole line is passed over, and so is a step of several lines that are not all there; ``cut`` then says where it ends. Of
the last step nobody can say whether its decisions were lost (``RecordedStep.complete``), as they follow in a line of
their own. Damage before the end is an error, not an end.

Nothing in a recording is evaluated; names in it are looked up in closed lists.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import UNSET

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.lines import Chunk, FaultKind, Piece
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.recording.codec import (
    Decided,
    RecordedStimulus,
    StimulusBatch,
    UnreadableLine,
    ViewWire,
    decided_values,
    line_type,
    manifests,
)
from podtide.adapters.recording.header import NothingRecorded, RecordingError, RecordingHeader, read_header
from podtide.adapters.recording.pods import PodTable
from podtide.adapters.recording.records.codec import Plain
from podtide.adapters.recording.writer import LINE_MAX, STEP_BYTES_MAX
from podtide.adapters.text.safe import cause
from podtide.domain.base.units import Millis
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Report, ScheduleThrew
from podtide.domain.protocol.pods import PodManifest
from podtide.domain.protocol.reasons import Held, Remark, Threw

_FULL_LINE: Final = re.compile(rb'\{"at_ms":(-?\d{1,19}),"view":')
_KINDS: Final = ("stimuli", "decided", "full", "end")
_REPORTS: Final = (Held, ScheduleThrew, Threw, Remark)


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step of the engine as recorded.

    ``line``: of its stimuli, from 1. ``decided``: the records as they stand there; ``commands`` and ``reports``: the same
    as values. ``complete``: False for the last step of a recording that was cut before its decisions, if it had any.
    """

    line: int
    at: Millis
    stimuli: tuple[RecordedStimulus, ...]
    decided: tuple[Plain, ...] = ()
    commands: tuple[Command, ...] = ()
    reports: tuple[Report, ...] = ()
    complete: bool = True


class RecordedPods(NamedTuple):
    """A full snapshot: the pods known at that moment."""

    line: int
    at: Millis
    pods: tuple[PodManifest, ...]


class RecordedEnd(NamedTuple):
    """The recording was closed: how many steps it has, and why it ends."""

    line: int
    at: Millis
    steps: int
    reason: str


Recorded: TypeAlias = RecordedStep | RecordedPods | RecordedEnd


class _Line(NamedTuple):
    number: int
    data: bytes
    whole: bool


class Recording:
    """A recording that was opened; a context manager. Iterating gives its steps, again and again unless it is a pipe.

    ``header``: whose it is. ``name``: the path for people. ``cut``: after an iteration to the end, why the recording is
    not whole, None if it is. Every iteration raises RecordingError where the recording cannot be read on.
    """

    def __init__(self, path: str, *, stdin: BinaryIO | None = None) -> None:
        self.path = path
        self.cut: str | None = None
        try:
            self._source = open_log(path, stdin=stdin)
        except LogError as problem:
            raise self._refused(problem) from None
        self.name = self._source.name
        # What was read for the header's sake is gone on with: a pipe cannot be read again.
        self._begun: Generator[_Line] | None = self._lines()
        try:
            first = next(self._begun, None)
            self.header = self._header(first)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[RecordedStep]:
        return (entry for entry in self.entries() if isinstance(entry, RecordedStep))

    def entries(self) -> Iterator[Recorded]:
        """Steps, full snapshots and the end, in order."""
        lines = self._begun
        self._begun = None
        if lines is None:
            lines = self._lines()
            self._header(next(lines, None))
        return self._entries(lines, _Assembly())

    def since(self, at: Millis) -> Iterator[Recorded]:
        """The same from the last full snapshot not after ``at`` on (its entry is the first), or from the beginning.

        Reads the file twice; what comes before the snapshot is not decoded. Not for a pipe.
        """
        start = 0
        for line in self._lines():
            found = _FULL_LINE.match(line.data) if line.whole else None
            if found and int(found[1]) <= at:
                start = line.number
            elif found:
                break
        if not start:
            return self.entries()
        return self._entries((line for line in self._lines() if line.number >= start), _Assembly(midway=True))

    def close(self) -> None:
        """Close whatever is open."""
        if self._begun is not None:
            self._begun.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _entries(self, lines: Iterator[_Line], assembly: _Assembly) -> Iterator[Recorded]:
        self.cut = None
        decode = msgspec.json.Decoder(line_type()).decode
        number = 1
        for number, data, whole in lines:
            if data.isspace():
                continue
            try:
                line = decode(data)
            except (ValueError, RecursionError) as problem:  # msgspec's errors and UnicodeDecodeError are ValueErrors
                if not whole:
                    self.cut = f"cut off in line {number}, which is passed over"
                    break
                raise RecordingError(self.path, _words(problem), number) from None
            try:
                ready = assembly.take(number, line, len(data))
            except UnreadableLine as problem:
                raise RecordingError(self.path, str(problem), number) from None
            yield from ready
        yield from assembly.rest(complete=assembly.ended)
        if not assembly.ended:
            what = self.cut or f"cut off after line {number}"
            self.cut = f"{what}; it was not closed" + (
                ", and the step or snapshot that it ends in is not all there" if assembly.partial else ""
            )

    def _lines(self) -> Generator[_Line]:
        """Every line with its number; the one that a cut goes through is not ``whole``."""
        pieces: Iterator[Piece] = self._source.pieces(line_max=LINE_MAX)
        try:
            for piece in pieces:
                if not isinstance(piece, Chunk):
                    if piece.kind is FaultKind.CUT:
                        return
                    raise RecordingError(self.path, piece.why, piece.line)  # noqa: TRY301 - as any other complaint
                lines = bytes(piece.data).split(b"\n")
                if not piece.unterminated:
                    lines.pop()
                for number, data in enumerate(lines, piece.line):
                    yield _Line(number, data, not piece.unterminated)
        except RecordingError:
            raise
        except LogError as problem:
            raise self._refused(problem) from None

    def _header(self, first: _Line | None) -> RecordingHeader:
        if first is None:
            raise NothingRecorded(self.path, "cut off before its first line; the header of a recording was expected", 1)
        try:
            return read_header(first.data)
        except ValueError as problem:
            why = str(problem) if first.whole else "cut off in its first line; the header of a recording was expected"
            raise RecordingError(self.path, why, 1) from None

    def _refused(self, problem: LogError) -> RecordingError:
        return RecordingError(self.path, problem.why.replace("an event log", "a recording"))


class _Assembly:
    """Lines in, entries out: joins what belongs to one step and checks what fits only together."""

    def __init__(self, *, midway: bool = False) -> None:
        self.ended = False
        self._midway = self._from_pods = midway
        self._count = not midway
        self._table = PodTable()
        self._at: Millis | None = None
        self._kind = ""
        self._more = False
        self._bytes = 0
        self._steps = 0
        self._line = 0
        self._step_at: Millis = 0
        self._batch: StimulusBatch | None = None
        self._stimuli: tuple[RecordedStimulus, ...] | None = None
        self._records: list[Plain] = []
        self._values: list[Decided] = []
        self._view = ViewWire(0, 0)
        self._full: list[Any] = []

    @property
    def partial(self) -> bool:
        """Whether the last line said that there is more."""
        return self._more

    def take(self, number: int, line: Any, size: int) -> tuple[Recorded, ...]:
        """One line; the entries that it completes."""
        kinds = [kind for kind in _KINDS if getattr(line, kind) is not UNSET]
        if len(kinds) != 1:
            raise UnreadableLine(f"one of {', '.join(_KINDS)} was expected, {' and '.join(kinds) or 'none'} found")
        (kind,) = kinds
        self._in_order(kind, line, size)
        ready: tuple[Recorded, ...] = ()
        goes_on = self._more
        if not goes_on and kind != "decided":
            ready = self.rest()
            self._line = number
        self._kind, self._more, self._at = kind, line.more, line.at_ms
        if kind == "stimuli":
            self._stimulate(line, goes_on=goes_on)
        elif kind == "decided":
            self._decide(line)
        elif kind == "full":
            ready += self._snapshot(line, goes_on=goes_on)
        else:
            ready += self._end(number, line)
        return ready

    def rest(self, *, complete: bool = True) -> tuple[Recorded, ...]:
        """The step under way, as far as it is known whole; ``complete``: that nothing of it can be missing."""
        if self._stimuli is None:
            return ()
        stimuli, self._stimuli = self._stimuli, None
        records, values = tuple(self._records), self._values
        self._records, self._values = [], []
        reports = tuple([value for value in values if isinstance(value, _REPORTS)])
        commands = tuple([value for value in values if not isinstance(value, _REPORTS)])
        complete = complete or (self._kind == "decided" and not self._more)
        return (RecordedStep(self._line, self._step_at, stimuli, records, commands, reports, complete),)

    def _in_order(self, kind: str, line: Any, size: int) -> None:
        if self.ended:
            raise UnreadableLine("a line after the last one, which says that the recording ends")
        if self._at is not None and line.at_ms < self._at:
            raise UnreadableLine(f"at_ms is {line.at_ms} after {self._at}; time never falls")
        if self._more and (kind != self._kind or line.at_ms != self._at):
            raise UnreadableLine(f"more {self._kind} of {self._at} were expected, as the line before says")
        if (
            kind == "decided"
            and not self._more
            and (self._stimuli is None or self._kind == kind or line.at_ms != self._at)
        ):
            raise UnreadableLine("decisions that follow no stimuli of their time")
        if (line.view is not UNSET) is not (kind == "full" and not self._more):
            raise UnreadableLine("view was expected in the first line of a full snapshot, and nowhere else")
        if self._from_pods and kind != "full":
            raise UnreadableLine("a full snapshot was expected")
        self._from_pods = False
        self._bytes = size + (self._bytes if self._more else 0)
        if self._bytes > STEP_BYTES_MAX:
            raise UnreadableLine(f"{kind} of more than {STEP_BYTES_MAX:,} bytes")

    def _stimulate(self, line: Any, *, goes_on: bool) -> None:
        if self._batch is None or not goes_on:
            self._batch = StimulusBatch(line.at_ms, self._table)
        self._batch.add(line.stimuli)
        if not line.more:
            self._stimuli, self._step_at = self._batch.values(), line.at_ms
            self._batch = None
            self._steps += 1

    def _decide(self, line: Any) -> None:
        self._values.extend(decided_values(line.decided, len(self._records)))
        self._records.extend(line.decided)

    def _snapshot(self, line: Any, *, goes_on: bool) -> tuple[Recorded, ...]:
        if not goes_on:
            self._view, self._full = line.view, []
        self._full.extend(line.full)
        if line.more:
            return ()
        pods, self._full = manifests(self._full), []
        found = ViewWire(len(self._table), self._table.differing(pods))
        if found != self._view and not self._midway:
            raise UnreadableLine(
                f"the writer knew {self._view.known} pods, {self._view.differ} of this snapshot otherwise or not at all; "
                f"the lines before make it {found.known} and {found.differ}: one of them is missing or was changed"
            )
        self._midway = False
        self._table.replace(pods)
        return (RecordedPods(self._line, line.at_ms, pods),)

    def _end(self, number: int, line: Any) -> tuple[Recorded, ...]:
        self.ended = True
        if line.more or (self._count and line.end.steps != self._steps):
            raise UnreadableLine(
                f"the end of {line.end.steps} steps; {self._steps} were found before: lines are missing"
            )
        return (RecordedEnd(number, line.at_ms, line.end.steps, line.end.reason),)


def _words(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return "no line of a recording: nested too deeply"
    what = "no line of a recording" if isinstance(problem, msgspec.ValidationError) else "no JSON"
    return f"{what}: {cause(problem)}"
