"""``podtide replay``: every scaling decision that Spark would take over an event log, when and why.

This module holds the options, and starts the process that reads a long log. Everything else is imported while that process
starts, by ``replay.log_replay``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from podtide.adapters.eventlog.bytes.source import from_stdin
from podtide.adapters.eventlog.decoder_process import begun_early
from podtide.adapters.recording.opening import is_recording
from podtide.adapters.text.safe import display
from podtide.adapters.views.sparklog.templates import Level
from podtide.entrypoints.common.option_groups import configured, in_json

if TYPE_CHECKING:
    from podtide.entrypoints.replay.outputs import ReplayOptions


@click.command()
@click.argument("log")
@configured("Replay with another setting; may be repeated.")
@click.option("--spark-version", metavar="VERSION", help="Take the defaults of this Spark version (the log's own).")
@in_json
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
    type=click.Choice(get_args(Level), case_sensitive=False),
    help="The lowest level in --spark-log (INFO, as in Spark).",
)
@click.option(
    "--spark-log-millis", is_flag=True, help="In --spark-log, print times with the full date and milliseconds."
)
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
@click.option("--overwrite", is_flag=True, help="Let --decisions and --spark-log replace a file.")
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
    # A named pipe cannot be asked; --check says what it holds.
    recording = given["check"] or is_recording(log)
    with begun_early(None if recording else log, strict=given["strict"], keep_unended=given["keep_unended"]) as reading:
        # What follows is imported while that process starts.
        from podtide.entrypoints.common.output import check_streams  # noqa: PLC0415
        from podtide.entrypoints.replay.outputs import ReplayOptions  # noqa: PLC0415

        options = ReplayOptions(log, bounds=not no_bounds, **given)
        _refuse_contradictions(options)
        check_streams(stdin=from_stdin(log))
        if recording:
            _refuse_for_recordings(options)
            from podtide.entrypoints.replay.recording import replay_recording  # noqa: PLC0415 - loads the engine

            return replay_recording(options)
        for option, wanted in (("--fix", options.fixes), ("--policy", options.policies)):
            if wanted:
                raise click.UsageError(f"{option} belongs to recordings; {display(log)} is none.")
        from podtide.entrypoints.replay.log_replay import replay_log  # noqa: PLC0415

        return replay_log(options, reading)


def _refuse_contradictions(options: ReplayOptions) -> None:
    """Options that exclude each other."""
    from podtide.adapters.recording.records.decision_file import STDOUT  # noqa: PLC0415

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


def _refuse_for_recordings(options: ReplayOptions) -> None:
    """What only an event log can be asked."""
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
