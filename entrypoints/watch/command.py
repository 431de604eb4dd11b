"""``podtide watch``: a history of finished runs, kept as they appear; the ones that took longer or cost more are reported.

The command turns what was given into terms, an engine and receivers of events, and repeats passes (``watch.passes``) until
it is ended, or makes one (``--once``). Standard output carries what was found; problems and progress go to standard error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypedDict

import click
import msgspec

from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.fleet.spark_workers import SparkEngineError
from podtide.adapters.fleet.table import TableError, check_table, open_table
from podtide.adapters.history import exposition
from podtide.adapters.history.sinks import LinesFile, LinesOut, Sink, SinkError, Webhook
from podtide.adapters.history.store import HistoryError, RunHistory
from podtide.adapters.history.values import EXIT_SINK, EventKind
from podtide.adapters.http_server.small_server import LOOPBACK, CannotServe, HttpAsked, HttpReply, SmallServer
from podtide.adapters.process_pool import WorkersError
from podtide.adapters.recording.records.decision_file import DecisionFileError, DecisionWriter, put_file
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.exposition import CONTENT_TYPE
from podtide.adapters.text.format import clock, count, lasting
from podtide.adapters.text.progress import TerminalLine
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.entrypoints.common.option_groups import SectionedCommand
from podtide.entrypoints.common.output import (
    ClusterRefused,
    Misused,
    UnreadableInput,
    check_streams,
    print_object,
    printed,
    refused_as,
)
from podtide.entrypoints.common.serving import LOOK_S
from podtide.entrypoints.common.types import DAY, SecondsType
from podtide.entrypoints.fleet.command import engine_of
from podtide.entrypoints.fleet.options import worked
from podtide.entrypoints.fleet.work import FleetOptions
from podtide.entrypoints.watch.judging import JudgedMeasure
from podtide.entrypoints.watch.passes import PassTally, TakeUp, WatchEngine, WatchTerms, watch_once
from podtide.entrypoints.watch.take_up import take_up
from podtide.entrypoints.whatif.options import given_prices, priced

HISTORY: Final = "podtide-history.db"
STDOUT: Final = "-"
INTERVAL_MIN: Final[Millis] = 1_000

CAUSES_SHOWN: Final = 3
FOUND: Final = 1
"""Exit code: a regression or a stall was found."""

ALL: Final = frozenset(EventKind)
ALARMS: Final = frozenset({EventKind.REGRESSION, EventKind.STALL})


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What the command line says about the watch itself. ``interval_s``: None for one pass."""

    history: str
    terms: WatchTerms
    interval_s: float | None
    sinks: tuple[Sink, ...] = ()
    metrics_file: str | None = None
    export: str | None = None
    as_json: bool = False
    quiet: bool = False


@click.command(cls=SectionedCommand)
@click.argument("places", nargs=-1, required=True, metavar="PLACE...")
@click.option("--history", default=HISTORY, show_default=True, metavar="FILE", help="Keeps the history (SQLite).")
@click.option("--once", is_flag=True, help="One pass, as for cron: exit code 1 if a regression or a stall was found.")
@click.option(
    "--interval", "interval_s", default="1m", show_default=True, type=SecondsType(INTERVAL_MIN, DAY), metavar="DURATION",
    help="Time between two passes.",
)  # fmt: skip
@click.option("--events", metavar="FILE", help="Append every event as a JSON line; - for standard output.")
@click.option(
    "--webhook",
    metavar="URL",
    envvar="PODTIDE_WEBHOOK",
    help="POST regressions and stalls there ($PODTIDE_WEBHOOK).",
)
@click.option("--metrics-file", metavar="FILE", help="Write metrics for Prometheus' node exporter (FILE.prom).")
@click.option("--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve the same as /metrics.")
@click.option("--metrics-address", default=LOOPBACK, show_default=True, metavar="ADDRESS", help="Where to serve it.")
@click.option("--export", metavar="FILE", help="Write all runs as a table after each pass: FILE.csv or FILE.parquet.")
@priced
@worked
@click.option("--again", is_flag=True, help="Retry the logs that could not be read, also if they have not changed.")
@click.option("--json", "as_json", is_flag=True, help="Print each pass as one JSON object.")
def watch(places: tuple[str, ...], **given: Any) -> int:
    """Keep a history of the finished runs in each PLACE, and report runs that took longer or cost more than noise explains.

    PLACE is a file, a folder (logs at any depth), a pattern, a URL of an object store, or the address of a Spark History
    Server (http://host:18080). A run is taken up once, however often the command is started or ended. Each run is judged by
    the healthy runs of the same application before it; what is normal is learned. A run in which tasks waited and nothing
    moved is reported, too.

    \b
    Exit codes: 0 done, 1 a regression or a stall was found (--once), 2 usage, or something cannot be written,
    3 no PLACE can be read, 4 the Spark cluster, 130 interrupted.
    """
    once, again, events, url = (given.pop(key) for key in ("once", "again", "events", "webhook"))
    prices, interval_s = given_prices(given["price"]), given["interval_s"]
    engine, _ = engine_of(given)
    if once and given["metrics_port"] is not None:
        raise Misused("--metrics-port belongs to a watch that goes on; --once has --metrics-file")
    if events == STDOUT and given["as_json"]:
        raise Misused("--events - and --json both write to standard output; choose one")
    with refused_as(Misused, SinkError):
        sinks = _sinks(events, url)
    wanted = {sink.name: ALARMS if isinstance(sink, Webhook) else ALL for sink in sinks}
    if once:
        wanted[EXIT_SINK] = ALARMS
    shared = given["engine"] == "local"
    terms = WatchTerms(places, FleetOptions(prices=prices), wanted, shared=shared, again=again)
    request = WatchRequest(
        given["history"], terms, None if once else interval_s, sinks, given["metrics_file"], given["export"],
        given["as_json"], quiet=events == STDOUT,
    )  # fmt: skip
    with contextlib.ExitStack() as end:
        if given["metrics_port"] is not None:
            with refused_as(Misused, CannotServe):
                server = SmallServer(_metrics(request.history), given["metrics_port"], given["metrics_address"])
            end.enter_context(server)
            click.echo(f"podtide: metrics on {server.url}/metrics", err=True)
        return run_watch(request, engine)


def _metrics(path: str) -> Callable[[HttpAsked], HttpReply]:
    """Answers with the metrics of a history, read anew for each request."""

    def reply(request: HttpAsked) -> HttpReply:
        if request.path != "/metrics":
            return HttpReply(HTTPStatus.NOT_FOUND, b"there is /metrics here\n")
        try:
            with RunHistory(path, write=False) as history:
                return HttpReply(HTTPStatus.OK, exposition.page(history), CONTENT_TYPE)
        except HistoryError as problem:
            return HttpReply(HTTPStatus.SERVICE_UNAVAILABLE, f"{problem}\n".encode())

    return reply


def _sinks(events: str | None, url: str | None) -> tuple[Sink, ...]:
    """The receivers of events. Raises SinkError."""
    sinks: list[Sink] = []
    if events == STDOUT:
        sinks.append(LinesOut(_print_lines))
    elif events is not None:
        file = LinesFile(events)
        file.check()
        sinks.append(file)
    if url is not None:
        sinks.append(Webhook(url))
    return tuple(sinks)


def run_watch(
    request: WatchRequest,
    engine: WatchEngine,
    clock: Clock | None = None,
    wait: Callable[[float], None] | None = None,
    work: TakeUp = take_up,
) -> int:
    """The command once its options are understood; without ``--once`` it ends by an exception of a signal. Raises Refusal.

    ``clock``: tells the time; ``wait``: passes so many seconds.
    """
    check_streams()
    clock, wait = clock or SystemClock(), wait or _wait
    with _refused(), RunHistory(request.history, write=True) as history:
        _check_outputs(request)
        while True:
            last = _last_event(history)
            with TerminalLine(sys.stderr) as line:

                def show(tally: PassTally, line: TerminalLine = line) -> None:
                    if line.due():
                        line.put(f"watch  {tally.done:,} of {count(tally.entered, 'log')}")

                tally = watch_once(history, request.terms, engine, request.sinks, clock.now, show, work)
            history.end_pass(clock.now(), len(tally.problems))
            _report(request, history, tally, last)
            _write_outputs(request, history, tally)
            if request.interval_s is None:
                return _ended(history, request, tally)
            wait(request.interval_s)


def _ended(history: RunHistory, request: WatchRequest, tally: PassTally) -> int:
    """The exit code of ``--once``. A regression becomes one once, also if its pass was killed before it ended."""
    if waiting := history.undelivered(EXIT_SINK, most=1 << 30):
        history.delivered(EXIT_SINK, waiting[-1].event.id)
        return FOUND
    if tally.unseen == len(request.terms.places):
        raise UnreadableInput("no place can be read")
    return 0


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    with (
        refused_as(Misused, HistoryError, TableError, WorkersError, DecisionFileError),
        refused_as(ClusterRefused, SparkEngineError),
    ):
        yield


def _check_outputs(request: WatchRequest) -> None:
    """Refuse at once what could only fail after the first pass. Raises TableError, DecisionFileError."""
    if request.export is not None:
        check_table(request.export)
    if request.metrics_file is not None:
        with DecisionWriter(request.metrics_file):
            pass


def _write_outputs(request: WatchRequest, history: RunHistory, tally: PassTally) -> None:
    """Metrics and the table. Raises TableError, DecisionFileError."""
    if request.export is not None and (tally.taken or request.interval_s is None):
        with open_table(request.export) as table:
            for run in history.runs():
                table.put(run.row)
            table.commit()
    if request.metrics_file is not None:
        put_file(exposition.page(history), request.metrics_file)


def _last_event(history: RunHistory) -> int:
    last = history.events(ALL, 1)
    return last[0].id if last else 0


class WatchDocument(TypedDict):
    """A pass: logs found, still being written, taken up, known, broken, skipped; what the runs showed; the history."""

    schema: str
    found: int
    in_progress: int
    taken: int
    known: int
    broken: int
    skipped: int
    regressions: int
    stalled: int
    problems: list[str]
    runs: int
    applications: int


def _report(request: WatchRequest, history: RunHistory, tally: PassTally, last: int) -> None:
    """What a pass came to, where there is something to say."""
    for problem in tally.problems:
        click.echo(f"podtide: {problem}", err=True)
    if request.quiet:
        return
    totals = history.totals()
    with printed():
        if request.as_json:
            made: WatchDocument = {
                "schema": schema_name("watch"), "found": tally.found, "in_progress": tally.writing, "taken": tally.taken,
                "known": tally.known, "broken": tally.broken, "skipped": tally.skipped,
                "regressions": tally.regressions, "stalled": tally.stalled, "problems": tally.problems,
                "runs": totals.runs, "applications": totals.applications,
            }  # fmt: skip
            print_object(made)
            return
        alarms = [one for one in history.events(ALARMS, tally.regressions + tally.stalled) if one.id > last]
        for event in reversed(alarms):
            body = msgspec.json.decode(event.body)
            for text in stall_lines(body) if event.kind is EventKind.STALL else regression_lines(body):
                print(text)
        if tally.done or request.interval_s is None:
            bad = f", {count(tally.broken, 'log')} broken" if tally.broken else ""
            hung = f", {count(tally.stalled, 'stalled run')}" if tally.stalled else ""
            print(
                f"{count(tally.taken, 'run')} taken up{bad}, {count(tally.regressions, 'regression')}{hung}; "
                f"the history has {count(totals.runs, 'run')} of {count(totals.applications, 'application')}"
            )
        sys.stdout.flush()


def regression_lines(body: dict[str, Any]) -> Iterator[str]:
    """A regression, and its causes where they are known."""
    unit = escaped(body["unit"], 16)
    yield (
        f"{escaped(body['app']['name'], 80)}: {body['measure']} {body['value']:,.4g} {unit}, normally "
        f"{body['normal']:,.4g} ({body['change_share']:+.0%}; noise up to {body['limit_share']:.0%}), "
        f"run {escaped(body['app']['id'], 80)}"
    )
    if body["measure"] == JudgedMeasure.MONEY.value:
        for one in body.get("bill", ())[:CAUSES_SHOWN]:
            yield f"  {one['cause']}: {one['cost']:+,.4g} {unit}"
        return
    for one in body.get("causes", ())[:CAUSES_SHOWN]:
        why = "; ".join([*one["evidence"][:2], *one["settings"][:2]])
        yield f"  {escaped(one['text'], 120)}: {one['runtime_s']:+,.3g} s{f' ({escaped(why, 240)})' if why else ''}"


def stall_lines(body: dict[str, Any]) -> Iterator[str]:
    """A run in which nothing moved: when, why and what to do."""
    yield f"{escaped(body['app']['name'], 80)}: tasks waited and nothing moved, run {escaped(body['app']['id'], 80)}"
    for one in body["stalls"][:CAUSES_SHOWN]:
        until = ", to the end of the log" if one["lasts"] else ""
        began, lasted = clock(round(one["began_s"] * 1000)), lasting(round(one["seconds"] * 1000))
        what, words = escaped(one["cause"], 60), escaped(f"{one['meaning']} {one['advice']}", 600)
        yield f"  {what} at {began} for {lasted}{until}: {words}"


def _print_lines(lines: bytes) -> None:
    with printed():
        sys.stdout.flush()
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()


def _wait(seconds: float) -> None:
    end, left = threading.Event(), seconds
    while left > 0:
        end.wait(min(LOOK_S, left))
        left -= LOOK_S
