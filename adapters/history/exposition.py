"""What a history says to Prometheus: one page of text, written to a file for the node exporter or served on a port.

Applications are those that ran last, ``APPLICATIONS`` of them, so that the
number of series is bounded; the totals count all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from podtide.adapters.fleet.journal import digest
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import KeptRun
from podtide.adapters.text.exposition import Series, exposed

APPLICATIONS: Final = 500
NAME_MAX: Final = 200


FIGURES: Final[tuple[tuple[str, str, Callable[[KeptRun], float | None]], ...]] = (
    ("started_timestamp_seconds", "When the last run started.", lambda run: run.key.started_ms / 1000),
    ("runtime_seconds", "Run time of the last run.", lambda run: run.row.runtime_s),
    ("executor_seconds", "Executor time of the last run.", lambda run: run.row.executor_seconds),
    ("core_hours", "Core-hours billed for the last run.", lambda run: run.usage.core_hours),
    ("gb_hours", "GB-hours billed for the last run.", lambda run: run.usage.gb_hours),
    ("waste_seconds", "Billed executor time of the last run that no task filled.", lambda run: run.row.waste_s),
    ("saving_share", "What the best setting would save of the last run.", lambda run: run.row.saving_share),
    ("healthy", "Whether the last run ended well.", lambda run: float(run.healthy)),
)
"""Of the last run of an application: the end of the name, what it says, its value."""


def page(history: RunHistory) -> bytes:
    """The page."""
    return exposed(_series(history))


def _series(history: RunHistory) -> Iterator[Series]:
    totals = history.totals()
    known = history.applications(APPLICATIONS)
    lasts = [one.last for one in known]
    if (last := history.last_pass()) is not None:
        at, problems = last
        text = "Places and receivers that did not work in the last pass."
        yield _one("podtide_watch_last_pass_timestamp_seconds", "gauge", "When the last pass ended.", at / 1000)
        yield _one("podtide_watch_problems", "gauge", text, problems)
    yield _one("podtide_watch_runs", "gauge", "Runs in the history.", totals.runs)
    yield _one("podtide_watch_applications", "gauge", "Applications in the history, by name.", totals.applications)
    yield _one("podtide_watch_broken_logs", "gauge", "Logs that could not be taken up.", totals.broken)
    yield _one("podtide_watch_undelivered_events", "gauge", "Events on their way to a receiver.", totals.waiting)
    kinds: list[tuple[dict[str, str], float]] = [({"kind": kind}, count) for kind, count in totals.events.items()]
    yield Series("podtide_watch_events_total", "counter", "Events, by kind.", kinds)
    yield Series(
        "podtide_app_regressions_total", "counter", "Regressions of an application.",
        [({"app": _cut(one.name)}, one.regressions) for one in known],
    )  # fmt: skip
    yield Series(
        "podtide_app_stalled_runs_total", "counter", "Runs of an application in which nothing moved for a while.",
        [({"app": _cut(one.name)}, one.stalled) for one in known],
    )  # fmt: skip
    for name, text, read in FIGURES:
        samples = [(_of(run), float(value)) for run in lasts if (value := read(run)) is not None]
        yield Series(f"podtide_app_last_run_{name}", "gauge", text, samples)
    causes = [
        ({**_of(run), "cause": cause}, seconds) for run in lasts for cause, seconds in run.row.ledger.items() if seconds
    ]
    text = "The bill of the last run in executor time, by cause."
    yield Series("podtide_app_last_run_billed_seconds", "gauge", text, causes)


def _of(run: KeptRun) -> dict[str, str]:
    return {"app": _cut(run.name)}


def _one(name: str, kind: str, text: str, value: float) -> Series:
    return Series(name, kind, text, [({}, value)])


def _cut(name: str) -> str:
    """A name as a label: short, and of two long names that begin alike each its own."""
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 9]}…{digest(name)[:8]}"
