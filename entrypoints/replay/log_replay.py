"""What ``podtide replay`` does with an event log, once it is known what was asked.

It hands the records of the replay to whoever wants them as they come (the timeline, a file of decisions, an expectation, the
temporary store behind ``--json``), and prints when the log has ended. None of them holds more than a bounded part of it.
Standard output carries the answer alone: progress and errors go to standard error, progress only where that is a terminal.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Final

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.source import from_stdin, open_log
from podtide.adapters.eventlog.decoder_process import SecondProcess, pays
from podtide.adapters.recording.records.jsonl import RecordSpool
from podtide.adapters.text.progress import ByteProgress
from podtide.adapters.text.safe import display
from podtide.adapters.views.timeline.scaling import Timeline
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.interruption import silence
from podtide.entrypoints.common.log_config import NothingToReplay, SettingsError
from podtide.entrypoints.common.output import Misused, UnreadableInput, printed, refused_as, unreadable
from podtide.entrypoints.replay.outputs import ReplayOptions, ReplayOutputs
from podtide.entrypoints.replay.run import Replay, waits_of

if TYPE_CHECKING:
    from podtide.adapters.eventlog.sensor import EventLogSensor
    from podtide.adapters.views.replay import ReplayView

FIRST: Final = ("schema", "app", "log", "events", "conf", "behaviour", "defaults")
"""Keys of the document that are printed before the decisions."""


def replay_log(options: ReplayOptions, reading: SecondProcess | None) -> int:
    """Replay an event log and return the exit code. ``reading``: a process that reads it already."""
    log = options.log
    try:
        with (
            refused_as(UnreadableInput, LogError),
            refused_as(UnreadableInput, NothingToReplay, prefix=f"{display(log)}: "),
            refused_as(Misused, SettingsError),
            contextlib.ExitStack() as resources,
        ):
            return _Run(options, resources, reading).done()
    except BrokenPipeError:  # of --decisions - or --spark-log -, while the log is read
        silence()
        return 0


class _Run:
    """One run of the command: who gets the records, and what is printed in the end."""

    def __init__(self, options: ReplayOptions, resources: contextlib.ExitStack, reading: SecondProcess | None) -> None:
        self.options = options
        self.given = given_conf(options.conf, options.properties_file, options.spark_version)
        self.timeline: Timeline | None = None
        self.decided: RecordSpool | None = None
        self._resources = resources
        self._reading = reading
        # Whatever may be refused at once is opened before the log is read for an hour.
        self.outputs = ReplayOutputs(options, resources)
        self.source = reading.source if reading else resources.enter_context(open_log(options.log))
        self.outputs.open()
        if options.as_json:
            self.outputs.keep_lists(repeated=False)  # schedule() may throw ten times a second for hours
        elif not options.to_stdout and options.expect is None:
            self.timeline = Timeline()
            self.outputs.sinks.append(self.timeline.take)
            if options.whole:
                self.decided = self.outputs.keep_all()

    def done(self) -> int:
        """Replay, then print. Returns the exit code."""
        options, outputs = self.options, self.outputs
        progress = self._resources.enter_context(ByteProgress(sys.stderr, self.source.size))
        sensor = self._sensor(self.source)
        where = sensor if isinstance(sensor, SecondProcess) else self.source
        timeline = self.timeline
        work = Replay(sensor, self._sink, self.given.layers, options.spark_version, options.bounds)
        work.spark_log = outputs.spark_log

        def went_on() -> None:
            progress.show(where.bytes_read)
            if timeline is not None:
                timeline.prune(work.world.proposed)

        work.progress = went_on
        with unreadable():
            document = work.run()
            outputs.finish()
        document["notes"] = [*self.given.remarks, *document["notes"]]
        progress.close()
        outputs.commit()
        with printed():
            self._answer(work, document)
            sys.stdout.flush()
        return outputs.exit_code

    def _sink(self, record: dict[str, Any]) -> None:
        for sink in self.outputs.sinks:
            sink(record)

    def _sensor(self, source: LogSource) -> EventLogSensor | SecondProcess:
        """The reader of the log: a process of its own where that pays."""
        if self._reading is not None:
            return self._reading
        strict, keep_unended = self.options.strict, self.options.keep_unended
        if pays(source) and not from_stdin(self.options.log):
            return self._resources.enter_context(SecondProcess(source, strict=strict, keep_unended=keep_unended))
        from podtide.adapters.eventlog.sensor import EventLogSensor  # noqa: PLC0415 - a second process has its own

        return EventLogSensor(source, strict=strict, keep_unended=keep_unended)

    def _answer(self, work: Replay, document: dict[str, Any]) -> None:
        if self.options.as_json:
            self.outputs.print_json(document, FIRST)
        if self.outputs.expectation is not None:
            # The verdict belongs to the answer, unless standard output is taken by a machine's.
            taken = self.options.as_json or self.options.to_stdout
            from podtide.adapters.views.expectation import verdict  # noqa: PLC0415 - rich costs a tenth of a second

            view = _view(sys.stderr if taken else sys.stdout, work, document)
            verdict(view, self.outputs.expectation, document)
        elif self.timeline is not None:
            self.timeline.finish(document["app"]["last_ms"], work.world.proposed)
            view = _view(sys.stdout, work, document)
            view.report(
                self.timeline, self.decided.records() if self.decided is not None else None, work.world.proposed
            )


def _view(stream: IO[str], work: Replay, document: Mapping[str, Any]) -> ReplayView:
    from podtide.adapters.text.page import Page  # noqa: PLC0415 - the same
    from podtide.adapters.views.replay import ReplayView  # noqa: PLC0415 - rich costs a tenth of a second

    return ReplayView(Page(stream), document, waits_of(work.settled.config))
