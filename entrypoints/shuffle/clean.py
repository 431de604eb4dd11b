"""``podtide shuffle-service clean`` from its options to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from podtide.adapters.clock import SystemClock
from podtide.adapters.http_server.small_server import CannotServe, HttpAsked, HttpReply, SmallServer
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.notices import say
from podtide.adapters.shuffle_service.cleaning import CleaningFigures, DirectoryCleaner
from podtide.adapters.shuffle_service.directories import ApplicationDirectories, RootUnusable
from podtide.adapters.text.exposition import CONTENT_TYPE, Series, exposed
from podtide.adapters.text.format import count
from podtide.domain.shuffle_service.applications import CleanerConfig, CleaningCause
from podtide.entrypoints.common.output import ClusterRefused, Misused, UnreadableInput, printed, refused_as

ONCE_S: Final = 60.0
CAUSES: Final = {
    CleaningCause.DRIVER_ENDED: "driver_ended",
    CleaningCause.DRIVER_GONE: "driver_gone",
    CleaningCause.NO_DRIVER: "no_driver",
}


@dataclass(frozen=True)
class CleanOptions:
    """What the command line says. ``ended``, ``orphans``, ``every`` in seconds; ``namespaces`` empty: the context's."""

    roots: tuple[Path, ...]
    namespaces: frozenset[str]
    kubeconfig: str | None
    context_name: str | None
    ended: float
    orphans: float
    every: float
    once: bool
    metrics_port: int | None
    metrics_address: str


def run_cleaner(options: CleanOptions) -> int:
    """Clean until a signal's exception, or once; returns the exit code. Raises a Refusal."""
    clock = SystemClock()
    with (
        refused_as(ClusterRefused, ConnectionRefused),
        refused_as(Misused, CannotServe),
        refused_as(UnreadableInput, RootUnusable),
        ExitStack() as end,
    ):
        directories = ApplicationDirectories(options.roots)
        api = end.enter_context(closing(connect(options.kubeconfig, options.context_name, clock=clock)))
        config = CleanerConfig(
            options.namespaces or frozenset({api.namespace or "default"}),
            scan_ms=max(1, int(options.every * 1000)),
            ended_ms=0 if options.once else int(options.ended * 1000),
            orphan_ms=int(options.orphans * 1000),
        )
        cleaner = DirectoryCleaner(api, directories, config, clock, say)
        if options.once:
            return _once(cleaner)
        if options.metrics_port is not None:
            address = options.metrics_address
            server = SmallServer(_page(cleaner), options.metrics_port, address, name="podtide-metrics")
            end.enter_context(server)
            print(f"podtide: metrics at {server.url}/metrics", file=sys.stderr, flush=True)
        cleaner.run()
    return 0


def _once(cleaner: DirectoryCleaner) -> int:
    complete = cleaner.run_once(ONCE_S)
    figures = cleaner.figures
    with printed():
        removed = sum(figures.removed.values())
        kept = f"{count(figures.applications, 'application')} kept"
        print(f"{count(removed, 'application')} removed, {kept}{'' if complete else '; the API server did not answer'}")
    return 0 if complete else ClusterRefused.exit_code


def _page(cleaner: DirectoryCleaner) -> Callable[[HttpAsked], HttpReply]:
    def reply(request: HttpAsked) -> HttpReply:
        if request.path != "/metrics":
            return HttpReply(HTTPStatus.NOT_FOUND, b"there is /metrics\n")
        return HttpReply(HTTPStatus.OK, exposition(cleaner.figures), CONTENT_TYPE)

    return reply


def exposition(figures: CleaningFigures) -> bytes:
    """The figures for Prometheus."""
    on = "1: files of ended applications are removed; 0: cleaning is off"
    removed = [({"cause": name}, figures.removed.get(cause, 0)) for cause, name in CAUSES.items()]
    return exposed(
        Series(f"podtide_shuffle_{name}", kind, meaning, samples)
        for name, kind, meaning, samples in (
            ("cleaning", "gauge", on, [({}, int(figures.on))]),
            ("applications", "gauge", "Applications with files on this node", [({}, figures.applications)]),
            ("removed_total", "counter", "Applications whose files were removed, by cause", removed),
            ("kept_total", "counter", "Removals that the disk refused", [({}, figures.kept)]),
            ("unanswered_total", "counter", "Questions that the API server did not answer", [({}, figures.unanswered)]),
        )
    )
