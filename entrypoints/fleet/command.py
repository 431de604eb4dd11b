"""``podtide fleet``: a table over very many logs - what each cost, where its waste is, which setting would save what.

The command turns what was given into a question (``FleetOptions``), terms and an engine, refuses at once what could only
fail after hours (the table's ending, a folder that cannot be written, a path that leads nowhere), and prints the summary.
Standard output carries the summary alone; progress goes to standard error.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.fleet.discovery import Finder, FoundLog, ListError, paths_in
from podtide.adapters.fleet.journal import ENDING, JournalError
from podtide.adapters.fleet.progress import FleetProgress
from podtide.adapters.fleet.spark_workers import SparkEngineError, SparkWorkers
from podtide.adapters.fleet.table import TableError, check_table
from podtide.adapters.process_pool import Work, Workers, WorkersError
from podtide.adapters.recording.records.decision_file import STDOUT, DecisionFileError
from podtide.adapters.text.format import count
from podtide.adapters.text.safe import cause, display, escaped
from podtide.domain.conf.spark_conf import from_arguments
from podtide.domain.rerun.plan import EXECUTORS_MAX
from podtide.entrypoints.common.option_groups import ExpertOption, SectionedCommand
from podtide.entrypoints.common.output import (
    ClusterRefused,
    Misused,
    UnreadableInput,
    check_streams,
    print_object,
    printed,
    refused_as,
    usable,
)
from podtide.entrypoints.common.types import ShareType
from podtide.entrypoints.fleet.options import memory_bytes, worked
from podtide.entrypoints.fleet.run import Answers, Engine, SurveyTally, SurveyTerms, survey
from podtide.entrypoints.fleet.work import SEEDS, WITHIN, Assess, FleetOptions
from podtide.entrypoints.whatif.command import SEEDS_MAX
from podtide.entrypoints.whatif.diff_sides import SideError, check
from podtide.entrypoints.whatif.options import bounded, check_report, given_prices, priced, reported, seeded
from podtide.entrypoints.whatif.variants import VariantError, VariantWishes, variants_of
from podtide.entrypoints.whatif.workers import processors

LIST: Final = "-"


@dataclass(frozen=True)
class FleetRequest:
    """What the command line says about the run itself."""

    logs: tuple[str, ...]
    listed: str | None
    terms: SurveyTerms
    plain: bool = False
    as_json: bool = False
    overwrite: bool = False


@click.command(cls=SectionedCommand)
@click.argument("logs", nargs=-1, metavar="LOG...")
@click.option("--out", required=True, metavar="FILE", help="Write the table here: FILE.csv or FILE.parquet.")
@click.option("--from", "listed", metavar="FILE", help="Read paths from FILE, one a line; - for standard input.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="As in whatif: all of them make one variant to try."
)
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME:KEY=VALUE,...", help="As in whatif: one more variant to try."
)
@click.option(
    "--static",
    "statics",
    multiple=True,
    type=click.IntRange(1, EXECUTORS_MAX),
    metavar="N",
    help="A static number of executors to try.",
)
@click.option(
    "--tune", type=click.Choice(["quick"]), help="Instead of variants, search for the best setting of each application."
)
@priced
@click.option(
    "--within",
    default=f"{WITHIN:.0%}",
    show_default=True,
    type=ShareType(),
    metavar="SHARE",
    help="How much longer an application may take under the setting that is called the best.",
)
@seeded(SEEDS, SEEDS_MAX, "Runs of each setting.")
@bounded("Refuse a log whose own config, run again, is further off than this.")
@worked
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted run.")
@click.option("--again", is_flag=True, help="On resuming, retry the logs that failed or could not be read.")
@click.option(
    "--progress",
    "plain",
    cls=ExpertOption,
    is_flag=True,
    help="Print progress as plain lines, also without a terminal.",
)
@reported
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def fleet(logs: tuple[str, ...], out: str, listed: str | None, **given: Any) -> int:
    """A table over many LOGs: what each cost, its waste by cause, and the setting that would save most.

    LOG is a file, a folder (logs at any depth; what else lies there is passed over), a pattern, a URL, or - for a list of
    paths on standard input. Every log gets a row, also if it fails. Run the same command again to resume an interrupted run.

    \b
    Exit codes: 0 the table is written, 2 usage, or something cannot be written, 3 there is no log,
    4 the Spark cluster, 130 interrupted.
    """
    options = _options(given)
    engine, limits = engine_of(given)
    terms = SurveyTerms(out, limits, given["fresh"], given["again"], given["report"])
    request = FleetRequest(logs, listed, terms, given["plain"], given["as_json"], given["overwrite"])
    return run_fleet(request, options, engine)


def run_fleet(request: FleetRequest, options: FleetOptions, engine: Engine, assess: Assess | None = None) -> int:
    """The command once its options are understood. Raises Refusal.

    ``assess``: what is done for a log (``fleet.assess.assess``), found by workers by its name in its module.
    """
    work = _assess() if assess is None else assess
    check_streams()
    if not request.logs and request.listed is None:
        raise click.UsageError("no LOG is given: expected files, folders, patterns or URLs, or --from FILE")
    if request.listed == LIST and LIST in request.logs:
        raise click.UsageError("--from - and LOG - both read standard input; choose one")
    if request.terms.report == STDOUT and request.as_json:
        raise click.UsageError("--json and --report - both write to standard output; choose one.")
    out = request.terms.out
    tally = SurveyTally()
    try:
        with (
            refused_as(Misused, TableError, JournalError, WorkersError, DecisionFileError),
            refused_as(ClusterRefused, SparkEngineError),
            refused_as(UnreadableInput, LogError, ListError),
        ):
            check_table(out)
            check_report(request.terms.report, overwrite=request.overwrite)
            with FleetProgress(sys.stderr, plain=request.plain) as progress, _goes_on(tally, out):
                document = survey(
                    lambda finder: _find(request, finder), options, request.terms, engine, progress, tally, work
                )
    except sqlite3.Error as refused:
        raise Misused(f"temporary files cannot be written: {cause(refused)}") from None
    if document is None:
        looked = f" ({count(tally.passed_over, 'file')} passed over)" if tally.passed_over else ""
        raise UnreadableInput(f"no log was found{looked}")
    _remarks(tally)
    with printed():
        if request.as_json:
            print_object(document)
        else:
            from podtide.adapters.fleet.view import show_fleet  # noqa: PLC0415 - rich costs a tenth of a second
            from podtide.adapters.text.page import Page  # noqa: PLC0415 - the same

            show_fleet(Page(sys.stdout), document)
            sys.stdout.flush()
    return 0


def _assess() -> Assess:
    from podtide.entrypoints.fleet.assess import assess  # noqa: PLC0415 - tests go without the simulation

    return assess


@contextlib.contextmanager
def _goes_on(tally: SurveyTally, out: str) -> Iterator[None]:
    """Whatever ends a run says what is kept of it."""
    try:
        yield
    except BaseException:
        if tally.done and not tally.finished:
            kept = f"{tally.done:,} of {count(tally.total, 'log')}"
            click.echo(f"podtide: {kept} are kept in {display(out)}{ENDING}; the same command goes on", err=True)
        raise


def _remarks(tally: SurveyTally) -> None:
    if tally.reused:
        click.echo(f"podtide: {count(tally.reused, 'row')} of an interrupted run taken over", err=True)
    if tally.duplicates:
        click.echo(f"podtide: {count(tally.duplicates, 'log')} found more than once, and counted once", err=True)
    if tally.links:
        click.echo(f"podtide: {count(tally.links, 'link')} to folders not followed", err=True)


def _find(request: FleetRequest, finder: Finder) -> Iterator[tuple[int, FoundLog]]:
    """Everything that was given: each argument by its number, a list as the argument that it stands for."""
    for number, given in enumerate(request.logs):
        found: Iterable[FoundLog] = _listed(LIST, finder) if given == LIST else finder.argument(given)
        for one in found:
            yield number, one
    if request.listed is not None:
        for one in _listed(request.listed, finder):
            yield len(request.logs), one


def _listed(name: str, finder: Finder) -> Iterator[FoundLog]:
    if name == LIST:
        if sys.stdin is None:
            raise ListError("standard input is closed")
        yield from finder.listed(paths_in(sys.stdin.buffer, "<stdin>"))
        return
    with _opened(name) as stream:
        yield from finder.listed(paths_in(stream, display(name)))


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as problem:
        raise ListError(f"{display(name)}: the list cannot be read: {cause(problem)}") from None


def _options(given: dict[str, Any]) -> FleetOptions:
    """What is asked about every log. Raises Misused."""
    wishes = VariantWishes(given["sets"], given["variants"], given["statics"])
    with refused_as(Misused, VariantError, SideError):
        variants = variants_of(wishes) or None
        for variant in variants or ():
            check(f"variant {escaped(variant.name)}", variant.changes)
    prices = given_prices(given["price"])
    if variants is not None and given["tune"] is not None:
        raise click.UsageError("--tune searches by itself; it cannot be given with --set, --variant or --static")
    return FleetOptions(
        variants, given["tune"] is not None, prices, given["seeds"], given["max_error"], given["within"]
    )


def engine_of(given: dict[str, Any]) -> tuple[Engine, tuple[object, ...]]:
    """What the work is done by, and the limits that it keeps. Raises Misused."""
    spark = given["engine"] == "spark"
    for name, wanted, wrong in (
        ("--spark-conf", given["spark_conf"], not spark),
        ("--jobs", given["jobs"], spark),
    ):
        if wanted and wrong:
            kind = "spark" if name == "--spark-conf" else "local"
            raise click.UsageError(f"{name} belongs to --engine {kind}")
    jobs = given["jobs"] or processors()
    limit = given["timeout_s"]
    # An executor's memory is Spark's to know: there is a limit only where one is given.
    memory = memory_bytes(given["memory"], jobs) if given["memory"] is not None or not spark else None
    if not spark:

        def local(work: Work) -> Answers:
            return Workers(work, jobs, limit_s=limit, memory_bytes=memory)

        return local, (limit, memory)
    conf: dict[str, str] = {}
    if given["spark_conf"]:
        conf = {key: setting.value for key, setting in usable(from_arguments(given["spark_conf"])).settings.items()}

    def cluster(work: Work) -> Answers:
        return SparkWorkers(work, conf=conf, limit_s=limit, memory_bytes=memory)

    return cluster, (limit, memory)
