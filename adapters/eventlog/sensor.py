"""An event log as a sensor: what the allocation manager would have heard, in the log's order.

The clock of a log is the running maximum of the times that its events claim: events are not in time order (an
ExecutorAdded was seen 66 s late), and a manager that reads them hears each when it comes, never earlier.

A log says less than a driver knows. It lacks shuffle ids: ``recorded.shuffles`` says how shuffles are known all the same.
Logs from before Spark 1.3 lack ExecutorAdded: there a block manager's coming and going stands for the executor's.

It lacks block updates, unless they were asked for: ``recorded.cached_blocks`` tells them from storage levels. It may lack
ends of tasks: ``recorded.missing_ends`` says which.

Databricks writes a log in parts and begins each with its number (``PartLine``), from 0: these tell whether one is missing,
whatever the files are called.

Lines that cannot be used are counted and the first of them kept, with file, line and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from podtide.adapters.eventlog import events as wire
from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.lines import Chunk, FaultKind, LineFault, Piece
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.contents import LineCounts, LogApplication, LogContents, Malformed
from podtide.adapters.eventlog.executors import LogExecutors
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStart,
    ShuffleRegistered,
    ShuffleUnneeded,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    UnpersistRDD,
)
from podtide.domain.recorded.cached_blocks import CachedBlocks, PersistedRdd
from podtide.domain.recorded.missing_ends import MissingEnds
from podtide.domain.recorded.shuffles import MAP_TASK, LoggedShuffles

MALFORMED_KEPT: Final = 20
"""Malformed lines that are named; the rest is counted."""

PROLOGUE_LINES_MAX: Final = 10_000
"""How far to read for the application and its environment before settling for what was found."""

BLOCK_UPDATES: Final = "spark.eventLog.logBlockUpdates.enabled"

DRIVERS: Final = frozenset({"driver", "<driver>"})
"""Block managers of these ids belong to the driver (the latter until Spark 1.4)."""


class LogStrict(LogError):
    """A line cannot be used and the reader was told to stop there."""


class NotEventLog(LogError):
    """Text, but not one Spark event in it."""


class EventLogSensor:
    """Reads a log once. ``prologue()`` first, then ``batches()``; the counts are complete at the end.

    ``observer`` is shown every run of decoded lines, in order, and ``shapes`` may let it see more of them. With
    ``keep_unended`` a task whose end is missing runs on for ever. With ``rows`` the stimuli of tasks are plain tuples of
    their fields, the outcome as its number in TaskOutcome: for whoever sends them elsewhere.
    """

    def __init__(
        self,
        source: LogSource,
        *,
        strict: bool = False,
        shapes: wire.Shapes = wire.PLAIN,
        observer: Callable[[list[Any]], None] | None = None,
        keep_unended: bool = False,
        rows: bool = False,
    ) -> None:
        self.source = source
        self.strict = strict
        self.counts = LineCounts()
        self.application = LogApplication()
        self.seen = LogContents()
        self.faults: list[LineFault] = []
        self.clock: Millis = 0  # until an event has a time
        self.fleet = LogExecutors()
        self._pieces = source.pieces()
        self._decoder = wire.LineDecoder(shapes)
        self._task_lines = (shapes.task_start, shapes.task_end)
        self._observer = observer
        self._held: list[Stimulus] = []
        self._began: tuple[Millis, str, int] = (0, "", 1)  # when and where the present chunk began
        self._shuffles = LoggedShuffles()
        self._blocks = CachedBlocks()
        self._unended = MissingEnds()
        self._keep_unended = keep_unended
        self._make: Callable[[type[Any], tuple[Any, ...]], Any] = _NO_CLASS.get if rows else tuple.__new__
        self._outcomes: dict[TaskOutcome, Any] = {
            one: number if rows else one for number, one in enumerate(TaskOutcome)
        }
        self._ended = False

    def prologue(self) -> LogApplication:
        """Read until application and environment are known, or work begins. Raises LogError."""
        application = self.application
        while not self._ended and not self._settled():
            self._take(next(self._pieces, None))
        return application

    def batches(self) -> Iterator[list[Stimulus]]:
        """The stimuli of the whole log in order, many at a time; ``at`` never falls. Raises LogError."""
        while not self._ended:
            try:
                piece = next(self._pieces, None)
            except LogError:
                if self._held:
                    yield self._held
                raise
            if self._held and not (isinstance(piece, Chunk) and piece.continues):
                held, self._held = self._held, []
                yield held
            self._take(piece)
        if self._held:
            yield self._held
            self._held = []
        if not self.counts.read:
            raise NotEventLog(self.source.path, 'no Spark event in it (expected one JSON object with "Event" a line)')

    def _settled(self) -> bool:
        application, seen = self.application, self.seen
        known = application.properties is not None and application.started_ms is not None
        if not known and self.counts.malformed and not self.counts.read and self.counts.malformed >= 100:
            raise NotEventLog(self.source.path, f"not an event log: {self.counts.first_malformed[0].why}")
        return known or bool(seen.tasks or seen.stages) or self.counts.read > PROLOGUE_LINES_MAX

    def _take(self, piece: Piece | None) -> None:
        if piece is None:
            self._ended = True
        elif isinstance(piece, LineFault):
            self._fault(piece)
        else:
            self._chunk(piece)

    def _fault(self, fault: LineFault) -> None:
        if fault.kind is FaultKind.LONG_LINE:
            self._malformed(fault.file, fault.line, fault.why)
        else:
            self.faults.append(fault)

    def _chunk(self, chunk: Chunk) -> None:
        if not chunk.continues:
            self._began = self.clock, chunk.file, chunk.line
        before, file, line = self._began
        self._decode(chunk)
        jump = self.clock - before
        if before > 0 and jump > self.seen.jump_ms:
            self.seen.jump_ms, self.seen.jump_at = jump, (file, line)

    def _decode(self, chunk: Chunk) -> None:
        try:
            lines = self._decoder.lines(chunk.data)
        except (wire.DecodeError, RecursionError, UnicodeDecodeError):
            self._line_by_line(chunk)
            return
        self.counts.read += len(lines)
        self._translate(lines)

    def _line_by_line(self, chunk: Chunk) -> None:
        decode, lines = self._decoder.line, []
        for number, text in enumerate(bytes(chunk.data).split(b"\n"), start=chunk.line):
            if not text or text.isspace():
                continue
            try:
                lines.append(decode(text))
            except (wire.DecodeError, RecursionError, UnicodeDecodeError) as problem:
                if chunk.unterminated:
                    # Spark was writing this line when the log was taken, or died over it.
                    self.counts.cut += 1
                    self.faults.append(LineFault(chunk.file, number, FaultKind.CUT, "the last line ends in the middle"))
                else:
                    self.counts.read += len(lines)
                    self._translate(lines)
                    lines = []
                    self._malformed(chunk.file, number, _reason(problem))
        self.counts.read += len(lines)
        self._translate(lines)

    def _malformed(self, file: str, line: int, why: str) -> None:
        self.counts.malformed += 1
        if len(self.counts.first_malformed) < MALFORMED_KEPT:
            self.counts.first_malformed.append(Malformed(file, line, why))
        if self.strict:
            raise LogStrict(self.source.path, f"{escaped(file)}:{line}: {why}")

    def _translate(self, lines: list[Any]) -> None:
        if self._observer is not None:
            self._observer(lines)
        clock = self.clock
        if not clock:
            timed = (wire.time_of(line) for line in lines)
            self.application.first_ms = next((time for time in timed if time > 0), None)
        out = self._held
        append = out.append
        make = self._make
        (start_line, end_line), start, end = self._task_lines, TaskStart, TaskEnd
        outcomes, success = self._outcomes, self._outcomes[TaskOutcome.SUCCESS]
        unnamed, caching = self._shuffles.unnamed, self._blocks.stages
        running_of, ended = self._unended.running.get, self._unended.ended
        tasks = 0
        for line in lines:
            kind = type(line)
            if kind is end_line:
                info, stage, attempt = line.info, line.stage, line.attempt
                index, executor, speculative = info.index, info.executor, info.speculative
                at = info.finish
                if at > clock:
                    clock = at
                if stage in unnamed:
                    self._told_apart(stage, clock, writes=line.kind == MAP_TASK)
                reason = line.reason.reason
                outcome = success if reason == "Success" else outcomes[wire.outcome(reason)]
                event = make(end, (clock, stage, attempt, index, executor, speculative, outcome))
                of_stage = running_of(stage)
                # Nearly always the task is known to run, and nothing else is to be known of its end.
                if (not of_stage or attempt or speculative or of_stage.pop(index, None) is None) and ended(
                    TaskEnd(clock, stage, attempt, index, executor, speculative)
                ):
                    continue
                if stage in caching and outcome is success:
                    out.extend(self._blocks.task_succeeded(stage, index, executor, clock))
                append(event)
            elif kind is start_line:
                info, stage, attempt = line.info, line.stage, line.attempt
                index, executor, speculative = info.index, info.executor, info.speculative
                at = info.launch
                if at > clock:
                    clock = at
                tasks += 1
                of_stage = running_of(stage)
                if of_stage is None or attempt or speculative:
                    self._unended.started(stage, attempt, index, executor, speculative)
                else:
                    of_stage[index] = executor
                append(make(start, (clock, stage, attempt, index, executor, speculative)))
            else:
                time = wire.time_of(line)
                if time > clock:
                    clock = time
                self.clock = clock
                self._rare(line, clock, out)
        seen = self.seen
        seen.tasks += tasks
        seen.missing_ends = self._unended.count
        seen.map_stages, seen.parentless = self._shuffles.map_stages, self._shuffles.parentless
        self.clock = clock

    def _rare(self, line: Any, at: Millis, out: list[Stimulus]) -> None:
        stimulus = wire.stimulus(line, at)
        seen = self.seen
        match stimulus:
            case None:
                self._about(line, at, out)
                return
            case StageSubmitted():
                seen.stages += 1
                self._persisted(line.info)
            case StageCompleted():
                self._blocks.stage_completed(stimulus.stage)
                failed = isinstance(line.info, wire.DetailedStageInfo) and line.info.failure
                well = not failed and not self._keep_unended
                out.extend(self._unended.stage_completed(stimulus.stage, at, well=well))
            case JobStart():
                seen.jobs += 1
                seen.first_job = line.job if seen.first_job is None else min(seen.first_job, line.job)
                properties = line.properties if isinstance(line, wire.ListingJobStartLine) else None
                execution = None if properties is None else properties.outermost
                listing = [wire.listed(info) for info in line.stages]
                stimulus = JobStart(at, line.job, self._shuffles.job_started(line.job, listing, execution))
                self._unended.job_started(line.job, (info.id for info in line.stages))
            case JobEnd():
                well = isinstance(line, wire.ResultJobEndLine) and line.well and not self._keep_unended
                out.extend(self._unended.job_ended(stimulus.job, at, well=well))
                out.append(stimulus)
                out.extend(ShuffleUnneeded(at, shuffle) for shuffle in self._shuffles.job_ended(stimulus.job))
                return
            case ExecutorAdded():
                seen.executors += 1
                self.fleet.add(stimulus.executor, line.time, at)
            case ExecutorRemoved():
                self.fleet.remove(stimulus.executor, line.time, at)
                self._blocks.executor_removed(stimulus.executor)
            case UnpersistRDD():
                self._blocks.unpersisted(stimulus.rdd)
            case BlockUpdated():
                seen.block_updates += 1
                self._blocks.stages.clear()
            case _:
                pass
        out.append(stimulus)

    def _about(self, line: Any, at: Millis, out: list[Stimulus]) -> None:
        """Events about the application, and those that mean nothing here."""
        application, seen = self.application, self.seen
        match line:
            case wire.LogStartLine(version):
                application.spark_version = version or application.spark_version
            case wire.PartLine(version, number, context):
                application.spark_version = application.spark_version or version or None
                self._part(number, context)
            case wire.EnvironmentLine(properties):
                if application.properties is None:
                    application.properties = {key: text for key, text in properties.items() if text is not None}
            case wire.ApplicationStartLine(name, identity, attempt, time):
                seen.applications += 1
                if seen.applications == 1:  # logs that were put together hold several: the first one names the log
                    application.name, application.id, application.attempt = name, identity, attempt
                    application.started_ms = time if time >= 0 else None
            case wire.ApplicationEndLine(time):
                application.ended_ms = max(time, at, application.ended_ms or 0)
            case wire.BlockManagerAddedLine(manager):
                seen.block_managers += 1
                if not seen.executors and manager.executor not in DRIVERS and manager.executor:
                    self.fleet.add(manager.executor, line.time, at)
                    out.append(ExecutorAdded(at, ExecutorId(manager.executor), ProfileId(0)))
            case wire.BlockManagerRemovedLine(manager):
                if not seen.executors and manager.executor not in DRIVERS and manager.executor:
                    self.fleet.remove(manager.executor, line.time, at)
                    out.append(ExecutorRemoved(at, ExecutorId(manager.executor), "block manager removed"))
            case wire.ExecutionEndLine(execution):
                out.extend(ShuffleUnneeded(at, shuffle) for shuffle in self._shuffles.execution_ended(execution))
            case _:
                self.counts.skipped += 1

    def _part(self, number: int, context: int | None) -> None:
        """A part of a log in parts begins: its number says whether it follows the one before."""
        seen = self.seen
        last, seen.part = seen.part, number
        if last is None:
            seen.first_part, seen.context = number, context
            last = -1
        _, file, line = self._began
        if context != seen.context:
            seen.context = context
            why = "a part of another application's log follows (another SparkContext Id)"
        elif number > last + 1:
            parts = f"part {last + 1}" if number == last + 2 else f"parts {last + 1} to {number - 1}"
            why = f"{parts} missing: what happened in between is not known"
        elif number <= last:
            why = f"part {number} follows part {last}: the order is unknown"
        else:
            return
        self.faults.append(LineFault(file, line, FaultKind.GAP, why))

    def _persisted(self, info: wire.StageInfo) -> None:
        """A stage comes: which persisted RDDs its tasks may store, unless the log says it itself."""
        stored = [(rdd.id, rdd.level) for rdd in info.rdds if rdd.level is not None and rdd.level.stores]
        self.seen.persisted_rdds |= bool(stored)
        properties = self.application.properties or {}
        if not self.seen.block_updates and properties.get(BLOCK_UPDATES, "").lower() != "true":
            rdds = (PersistedRdd(rdd, level.disk and not level.memory) for rdd, level in stored)
            self._blocks.stage_submitted(info.id, rdds)

    def _told_apart(self, stage: int, at: Millis, *, writes: bool) -> None:
        """The first task of a job's last stage ended: it says whether the stage writes a shuffle."""
        if writes:
            written = self._shuffles.map_task_ended(stage)
            self._held.extend(ShuffleRegistered(at, job, stage, shuffle) for job, shuffle in written)
        else:
            self._shuffles.result_task_ended(stage)


_NO_CLASS: Final[dict[Any, Any]] = {}
"""Its ``get(kind, fields)`` is called like ``tuple.__new__`` and gives the fields as they are, for less than a function."""


def _reason(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return "not UTF-8"
    return escaped(str(problem))
