"""``podtide serve``: a history in a browser, and the reports of its runs."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.fleet.discovery import Finder
from podtide.adapters.history.history_server import is_history_server
from podtide.adapters.history.site.pages import SiteTerms
from podtide.adapters.history.site.routes import HistorySite
from podtide.adapters.history.site.shelf import ReportShelf
from podtide.adapters.history.store import HistoryError, RunHistory, is_history
from podtide.adapters.http_server.settings import loopback
from podtide.adapters.http_server.small_server import CannotServe, ServerBounds, SmallServer
from podtide.adapters.process_pool import Workers
from podtide.entrypoints.common.output import Misused, UnreadableInput, printed, refused_as
from podtide.entrypoints.common.serving import ListenOptions, given_certificate, listening, server_token, stay
from podtide.entrypoints.common.types import DAY, SecondsType
from podtide.entrypoints.fleet.options import MEMORY_DEFAULT_MIN, memory_bytes
from podtide.entrypoints.fleet.work import FleetOptions
from podtide.entrypoints.watch.command import INTERVAL_MIN, WatchRequest, run_watch
from podtide.entrypoints.watch.passes import WatchTerms
from podtide.entrypoints.watch.reports import report
from podtide.entrypoints.whatif.options import given_prices
from podtide.entrypoints.whatif.workers import processors

VARIABLE: Final = "PODTIDE_SERVE_TOKEN"
BOUNDS: Final = ServerBounds(deadline_s=30.0, connections_max=64)
LIMIT_S: Final = 300.0
"""Of one log, where a PLACE is watched."""


@dataclass(frozen=True)
class HistoryServeOptions(ListenOptions):
    """What the command line says."""

    place: str
    history: str | None
    price: str | None
    interval: float
    report_timeout: float | None


@click.command()
@click.argument("place", metavar="PLACE|HISTORY")
@click.option("--history", metavar="FILE", help="Keep the history of PLACE here (a temporary file if not given).")
@listening(10_080, in_clear="the token is", purpose="that other machines need")
@click.option("--price", metavar="PRICES", help="Show money instead of core-hours, as in whatif.")
@click.option(
    "--interval", default="1m", show_default=True, type=SecondsType(INTERVAL_MIN, DAY), metavar="DURATION",
    help="Time between two looks at PLACE.",
)  # fmt: skip
@click.option(
    "--report-timeout", default="2m", show_default=True, type=SecondsType(endless=True), metavar="DURATION",
    help="Time limit for one report; 0: no limit.",
)  # fmt: skip
def serve(**given: Any) -> int:
    """Show a history of podtide watch, or the logs in PLACE, in a browser.

    The pages show the applications, how their run times and bills went, what was a regression and why, and each run with its
    whole report, which is made when it is asked for. The server listens on loopback unless told otherwise; other machines
    need a token ($PODTIDE_SERVE_TOKEN, --token-file, or a new one that is printed), which is the password in the browser.

    \b
    Exit codes: 2 usage, or the address cannot be listened on, 3 the history or PLACE cannot be read, 130 interrupted.
    """
    run_serve(HistoryServeOptions(**given))


def run_serve(options: HistoryServeOptions) -> NoReturn:
    """Serve until a signal's exception. Raises a Refusal."""
    prices = given_prices(options.price)
    if prices is not None and prices.rules.asked:
        raise Misused(
            "--price: driver, node-* and yarn-* need what a log says; a history has its executors' hours alone"
        )
    certificate = given_certificate(options, "the token")
    local = loopback(options.address)
    token, origin = (None, "") if local else server_token(options.token_file, VARIABLE, "the token")
    with contextlib.ExitStack() as end:
        history, watcher = end.enter_context(_history(options))
        makers = partial(Workers, jobs=1, limit_s=options.report_timeout, memory_bytes=_memory(1))
        shelf = end.enter_context(ReportShelf(partial(report, prices), makers))
        site = HistorySite(history, SiteTerms(prices), shelf, token=token, local=local)
        with refused_as(Misused, CannotServe):
            server = end.enter_context(
                SmallServer(
                    site.reply, options.port, options.address, name="serve", bounds=BOUNDS, certificate=certificate
                )
            )
        with printed():
            if origin:
                print(origin)
            print(f"# {server.url}; Ctrl-C ends it", flush=True)
        stay(lambda: None if watcher is None else watcher.check())


class _Watcher:
    """Watches a place beside the server; ``refusal`` ends the command."""

    def __init__(self, request: WatchRequest, engine: Any) -> None:
        self.refusal: click.ClickException | None = None
        self.thread = threading.Thread(target=self._run, args=(request, engine), name="watch", daemon=True)
        self.thread.start()

    def _run(self, request: WatchRequest, engine: Any) -> None:
        try:
            run_watch(request, engine)
        except click.ClickException as refusal:
            self.refusal = refusal

    def check(self) -> None:
        """Raise the refusal, if there is one."""
        if self.refusal is not None:
            sys.stdout.flush()
            raise self.refusal


@contextlib.contextmanager
def _history(options: HistoryServeOptions) -> Iterator[tuple[str, _Watcher | None]]:
    """The file of the history, and who fills it. Raises Misused, UnreadableInput."""
    if is_history(options.place):
        if options.history is not None:
            raise Misused("PLACE is a history already; --history belongs to places with logs")
        with refused_as(UnreadableInput, HistoryError), RunHistory(options.place, write=False):
            pass
        yield options.place, None
        return
    with contextlib.ExitStack() as end:
        if options.history is None:
            folder = end.enter_context(tempfile.TemporaryDirectory(prefix="podtide-", ignore_cleanup_errors=True))
            path = str(Path(folder) / "history.db")
        else:
            path = options.history
        with refused_as(Misused, HistoryError), RunHistory(path, write=True):
            pass
        if not is_history_server(options.place):
            with refused_as(UnreadableInput, LogError):
                next(Finder().argument(options.place), None)
        terms = WatchTerms((options.place,), FleetOptions(prices=given_prices(options.price)))
        request = WatchRequest(path, terms, options.interval, quiet=True)
        jobs = processors()
        yield path, _Watcher(request, partial(Workers, jobs=jobs, limit_s=LIMIT_S, memory_bytes=_memory(jobs)))


def _memory(jobs: int) -> int | None:
    """A bound for each of so many processes: half of what a fleet gives them, since reports and logs share the machine."""
    whole = memory_bytes(None, 1)
    return None if whole is None else max(MEMORY_DEFAULT_MIN, whole // (2 * jobs))
