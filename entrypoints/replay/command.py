"""``podtide replay``: every scaling decision that Spark would take over an event log, when and why.

The command opens the log, hands the records of the replay to whoever wants them as they come (the timeline, a file of
decisions, an expectation, the temporary store behind ``--json``), and prints when the log has ended. None of them holds
more than a bounded part of it. Standard output carries the answer alone: progress and errors go to standard error,
progress only where that is a terminal.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Final

import click

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.decoder_process import WORTH_BYTES, SecondProcess
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.adapters.recording.opening import is_recording
from podtide.adapters.recording.records.decision_file import STDOUT
from podtide.adapters.recording.records.jsonl import RecordSpool
from podtide.adapters.text.progress import ByteProgress
from podtide.adapters.text.safe import display
from podtide.adapters.views.sparklog.log import LEVELS
from podtide.adapters.views.timeline.scaling import Timeline
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.log_config import NothingToReplay, SettingsError
from podtide.entrypoints.common.output import (
    Misused,
    UnreadableInput,
    check_streams,
    printed,
    refused_as,
    silence,
    unreadable,
)
from podtide.entrypoints.replay.outputs import ReplayOptions, ReplayOutputs
from podtide.entrypoints.replay.run import Replay

if TYPE_CHECKING:
    from podtide.adapters.views.replay import ReplayView

FIRST: Final = ("podtide", "app", "log", "events", "conf", "behaviour", "defaults")
"""Keys of the document that are printed before the decisions."""


@click.command()
@click.argument("log")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Replay under another setting; may be repeated.")
@click.option(
    "--properties-file", metavar="FILE", help="Settings in the form of spark-defaults.conf; --conf goes over it."
)
@click.option("--spark-version", metavar="VERSION", help="Take the defaults of this Spark (the log's own otherwise).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a report.")
@click.option(
    "--decisions", metavar="FILE", help="Write the decisions as JSON lines; - for standard output, without a report."
)
@click.option(
    "--expect", metavar="FILE", help="Compare with an earlier file of decisions; exit code 1 at a difference."
)
@click.option(
    "--spark-log",
    metavar="FILE",
    help="Write what Spark's own log would say of the decisions; - for standard output, without a report.",
)
@click.option(
    "--spark-log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    help="The lowest level in it (INFO, as in Spark, if not given).",
)
@click.option("--spark-log-millis", is_flag=True, help="Its times with the full date and milliseconds.")
@click.option(
    "--check", is_flag=True, help="Of a recording: compare every decision with the recorded ones; 1 at a difference."
)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="NAME",
    help="Of a recording: with a fix that Spark lacks, all of them, or none.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="CHOICE=MODULE:NAME",
    help="Of a recording: with a policy of your own (retire, split or size), or with CHOICE=spark.",
)
@click.option("--strict", is_flag=True, help="Stop at the first line that cannot be used.")
@click.option(
    "--keep-unended", is_flag=True, help="Let a task run on whose end is missing, although its stage or job ended."
)
@click.option("--all", "whole", is_flag=True, help="Show every decision in the timeline, not the weightiest.")
@click.option(
    "--no-bounds", is_flag=True, help="Do not also replay as if shuffles were cleaned at once (a little faster)."
)
def replay(log: str, no_bounds: bool, **given: Any) -> int:
    """Replay the event log or recording LOG: what was wanted, what was let go, when and why.

    LOG is a file (plain, .gz, .zstd, .lz4, .snappy, .lzf), the folder of a rolled log, the zip of a History Server,
    a URL, or - for standard input. Its own configuration applies, with the defaults of the Spark that wrote it; the
    decisions are those of Spark 4.3.0. A recording (podtide simulate --record) holds all that entered the decisions:
    it is decided again, pods and all, and --check compares.

    \b
    Exit codes: 0 done, 1 not as expected (--expect, --check), 2 usage or configuration,
    3 the log or the expectation cannot be read, 130 interrupted.
    """
    options = ReplayOptions(log, bounds=not no_bounds, **given)
    if options.as_json and options.decisions == STDOUT:
        raise click.UsageError("--json and --decisions - both write to standard output; choose one.")
    if options.spark_log == STDOUT and (options.as_json or options.decisions == STDOUT):
        other = "--json" if options.as_json else "--decisions -"
        raise click.UsageError(f"{other} and --spark-log - both write to standard output; choose one.")
    if options.spark_log is not None and options.spark_log == options.decisions:
        raise click.UsageError("--decisions and --spark-log name the same file; choose two.")
    if options.spark_log is None and (options.spark_log_level is not None or options.spark_log_millis):
        option = "--spark-log-millis" if options.spark_log_level is None else "--spark-log-level"
        raise click.UsageError(f"{option} belongs to --spark-log, which is not given.")
    if options.as_json and options.whole:
        raise click.UsageError("--all belongs to the report; --json holds every decision anyway.")
    check_streams(stdin=_from_stdin(log))
    if options.check or is_recording(log):  # a named pipe cannot be asked; --check says what it holds
        return _replay_recording(options)
    for option, wanted in (("--fix", options.fixes), ("--policy", options.policies)):
        if wanted:
            raise click.UsageError(f"{option} belongs to recordings; {display(log)} is none.")
    try:
        with (
            refused_as(UnreadableInput, LogError),
            refused_as(UnreadableInput, NothingToReplay, prefix=f"{display(log)}: "),
            refused_as(Misused, SettingsError),
            contextlib.ExitStack() as resources,
        ):
            return _Run(options, resources).done()
    except BrokenPipeError:  # of --decisions - or --spark-log -, while the log is read
        silence()
        return 0


def _replay_recording(options: ReplayOptions) -> int:
    """The same for a recording; what only an event log can be asked is refused."""
    from podtide.entrypoints.replay.recording import replay_recording  # noqa: PLC0415 - loads the engine

    logs_alone = {
        "--strict": options.strict,
        "--keep-unended": options.keep_unended,
        "--no-bounds": not options.bounds,
    }
    for given, wanted in logs_alone.items():
        if wanted:
            raise click.UsageError(f"{given} belongs to event logs; {display(options.log)} is taken for a recording.")
    if options.check and options.expect is not None:
        raise click.UsageError("--check and --expect both say what is expected; choose one.")
    if options.check and (options.whole or options.decisions is not None or options.spark_log is not None):
        raise click.UsageError("--check ends at the first difference; write decisions and logs without it.")
    return replay_recording(options)


class _Run:
    """One run of the command: who gets the records, and what is printed in the end."""

    def __init__(self, options: ReplayOptions, resources: contextlib.ExitStack) -> None:
        self.options = options
        self.given = given_conf(options.conf, options.properties_file, options.spark_version)
        self.timeline: Timeline | None = None
        self.decided: RecordSpool | None = None
        self._resources = resources
        # Whatever may be refused at once is opened before the log is read for an hour.
        self.outputs = ReplayOutputs(options, resources)
        self.source = resources.enter_context(contextlib.closing(open_log(options.log)))
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
        strict, keep_unended = self.options.strict, self.options.keep_unended
        if source.size is not None and source.size >= WORTH_BYTES and not _from_stdin(self.options.log):
            return self._resources.enter_context(SecondProcess(source, strict=strict, keep_unended=keep_unended))
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


def _from_stdin(log: str) -> bool:
    """Whether the log is standard input, which no second process can open."""
    return log == "-" or log.startswith("-!")


def _view(stream: IO[str], work: Replay, document: Mapping[str, Any]) -> ReplayView:
    from podtide.adapters.text.page import Page  # noqa: PLC0415 - the same
    from podtide.adapters.views.replay import ReplayView  # noqa: PLC0415 - rich costs a tenth of a second

    config = work.settled.config
    waits = {"backlog": config.backlog_timeout_ms, "sustained backlog": config.sustained_backlog_timeout_ms}
    return ReplayView(Page(stream), document, waits)
