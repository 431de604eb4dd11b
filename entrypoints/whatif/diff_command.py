"""``podtide diff``: what a change of config does to each application of a corpus, and a gate for it.

Every log is read and run again three times over: as it ran (the own error), under the base, under the candidate. One bad log
never stops the rest: it is a row with its reason. What the command line gets wrong is said before any log is read. Standard
output carries the answer alone; progress goes to standard error, and only where that is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from podtide.adapters.process_pool import WorkersError
from podtide.adapters.text.format import count
from podtide.adapters.text.progress import CountProgress
from podtide.adapters.views.whatif.diff_document import (
    DiffDocument,
    DiffSide as SideEntry,
    DiffStatus,
    builtins,
    document,
)
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.comparison import Metric
from podtide.domain.whatif.gates import GATES_MAX, Gate, GateError, parse
from podtide.domain.whatif.summary import MAX_ERROR
from podtide.entrypoints.common.option_groups import in_json
from podtide.entrypoints.common.output import Misused, check_streams, print_object, printed, refused_as
from podtide.entrypoints.whatif import options as common_options
from podtide.entrypoints.whatif.diff import Differ, compare
from podtide.entrypoints.whatif.diff_sides import RECORDED, ConfigSide, SideError, side_of
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.logs import Read, read_log, read_shown
from podtide.entrypoints.whatif.run import Announced, RerunFunction
from podtide.entrypoints.whatif.workers import PROCESSES_MAX, processors

SEEDS: Final = 3
SEEDS_MAX: Final = 100
LOGS_MAX: Final = 10_000
STDIN: Final = "-"

DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
UNREADABLE: Final = 3
REFUSED: Final = 5


@dataclass(frozen=True)
class DiffOptions:
    """What the command line asks for."""

    logs: tuple[str, ...]
    candidate: str
    base: str = RECORDED
    gates: tuple[str, ...] = ()
    price: str | None = None
    cluster: str | None = None
    seeds: int = SEEDS
    max_error: float = MAX_ERROR
    skip_bad: bool = False
    jobs: int | None = None
    as_json: bool = False


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG [LOG ...]")
@click.option(
    "--base",
    default=RECORDED,
    show_default=True,
    metavar="CONFIG",
    help="What is compared with: recorded, KEY=VALUE,..., a properties file, or spark:VERSION for its defaults.",
)
@click.option(
    "--candidate",
    required=True,
    metavar="CONFIG",
    help="What is compared: the same forms; it goes over the log's config.",
)
@click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="GATE",
    help="End with exit code 1 if so, such as 'cost>+2%', 'runtime>+30s', 'any(executor_seconds)>+10%'; may be repeated.",
)
@common_options.priced
@common_options.clustered
@common_options.seeded(SEEDS, SEEDS_MAX, "Runs of each side, with other luck each.")
@common_options.bounded("Refuse a log when its own config, run again, is further off than this.")
@click.option("--skip-bad", is_flag=True, help="Logs that cannot be read or are refused do not change the exit code.")
@click.option(
    "--jobs", type=click.IntRange(1, PROCESSES_MAX), metavar="N", help="Parallel processes (one for each processor)."
)
@in_json
def diff(logs: tuple[str, ...], **given: Any) -> int:
    """What a change of config does to each application of the event logs LOG.

    Each is run again under both configs; a table says how run time, executor-seconds, cost and decisions change, each with
    the model's own error. LOG is a file, the folder of a rolled log, the zip of a History Server, or a URL. Spark versions
    are compared by their defaults only.

    \b
    Exit codes: 0 done and no gate failed, 1 a gate failed, 2 usage, or Spark would refuse a config,
    3 a log cannot be read, 5 a log is refused: the model does not fit (3 and 5 not with --skip-bad, as
    long as one log could be compared), 130 interrupted.
    """
    return run(DiffOptions(logs, **given))


def run(options: DiffOptions, *, read: Read = read_log, rerun: RerunFunction = run_again) -> int:
    """The command. ``read`` and ``rerun``: what reads a log and what runs it again (both found by their names, for other
    processes). Raises Refusal."""
    check_streams()
    differ, gates, notes = _comparison(options, read, rerun)
    processes = processors() if options.jobs is None else options.jobs
    with CountProgress(sys.stderr) as progress:
        total = count(len(options.logs), "log")
        if len(options.logs) == 1:  # worked on here, so that it can say how far it is
            runs = Announced(rerun, progress.show)
            runs.begin("reading and simulating")
            differ = replace(differ, read=read_shown if read is read_log else read, rerun=runs)
        else:
            progress.put(f"comparing  0 of {total}")
        with refused_as(Misused, WorkersError):
            rows = compare(
                differ, options.logs, processes, progress=lambda done: progress.show(f"comparing  {done:,} of {total}")
            )
    sides = [_entry(side) for side in (differ.base, differ.candidate)]
    found = document(rows, sides[0], sides[1], gates, differ.prices, options.seeds, options.max_error, notes)
    with printed():
        if options.as_json:
            print_object(builtins(found))
        else:
            from podtide.adapters.text.page import Page  # noqa: PLC0415 - the same
            from podtide.adapters.views.whatif.diff_view import DiffView  # noqa: PLC0415 - rich costs a tenth of a second

            DiffView(Page(sys.stdout), found).report()
            sys.stdout.flush()
    return exit_code(found, skip_bad=options.skip_bad)


def exit_code(found: DiffDocument, *, skip_bad: bool = False) -> int:
    """The exit code of a document: the first that applies of failed gate, refused config, unreadable log, refused log."""
    counts = found.totals.counts
    if found.failed:
        return FAILED
    if counts[DiffStatus.NOT_STARTED]:
        return MISUSED
    if skip_bad and counts[DiffStatus.COMPARED]:
        return DONE
    if counts[DiffStatus.UNREADABLE]:
        return UNREADABLE
    if counts[DiffStatus.REFUSED] or counts[DiffStatus.UNFINISHED]:
        return REFUSED
    return DONE


def _comparison(options: DiffOptions, read: Read, rerun: RerunFunction) -> tuple[Differ, list[Gate], list[str]]:
    """The options, understood. Raises Misused, Unreadable."""
    if len(options.logs) > LOGS_MAX:
        raise Misused(f"{len(options.logs):,} logs: expected at most {LOGS_MAX:,}; podtide fleet is for more")
    if STDIN in options.logs and len(options.logs) > 1:
        raise Misused("standard input (-) can only be the one log")
    if len(options.gates) > GATES_MAX:
        raise Misused(f"{len(options.gates)} gates: expected at most {GATES_MAX}")
    with refused_as(Misused, SideError):
        base, candidate = side_of("base", options.base), side_of("candidate", options.candidate)
    prices = common_options.given_prices(options.price)
    with refused_as(Misused, GateError, prefix="--fail-if "):
        gates = [parse(gate) for gate in options.gates]
    costly = next((gate.text for gate in gates if gate.metric is Metric.COST), None)
    if prices is None and costly is not None:
        raise Misused(f"--fail-if {costly!r} asks for money: expected --price")
    if base.as_recorded and candidate.as_recorded:
        raise Misused("--candidate: expected another config than the base's, which is the recorded one")
    ground = Ground(
        cluster=common_options.given_cluster(options.cluster), seeds=options.seeds, max_error=options.max_error
    )
    return Differ(base, candidate, ground, prices, read, rerun), gates, [*base.remarks, *candidate.remarks]


def _entry(side: ConfigSide) -> SideEntry:
    """A side without what Spark would redact."""
    given: SparkConf = from_mapping({key: text for key, text in side.changes.items() if text is not None}, side.name)
    redaction = redaction_of(given)
    shown = {key: None if text is None else redaction.shown(key, text) for key, text in sorted(side.changes.items())}
    hidden: Sequence[str] = [key for key, text in side.changes.items() if text is not None and shown[key] != text]
    text = side.text if not hidden else ",".join(f"{key}={value or ''}" for key, value in shown.items())
    return SideEntry(text, shown, side.static, side.version)
