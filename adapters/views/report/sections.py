"""What the first parts of a report show: figures, the bill, the ledger and the waiting, stages, decisions.

Each part opens with its sentence (``views.whatif.findings``), then shows what the sentence is made of, as a drawing and as a
table (page.html). Lists are cut to what a person can read and a page can hold; what was left out is said where it is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtide.adapters.text.format import moment
from podtide.adapters.views.report.bars import Amounts, Bar
from podtide.adapters.views.report.markup import element, name, visible
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS, executor_seconds, money, number, percent, took, whole
from podtide.adapters.views.whatif.findings import about, featured, money_range, number_range, time_range
from podtide.adapters.views.whatif.model import Document, RunEntry, StageEntry

STAGES_FIRST: Final = 12
STAGES_MAX: Final = 150
DECISIONS_MAX: Final = 300
NOTES_MAX: Final = 40
BARS_MAX: Final = 8
COLUMNS_MAX: Final = 6
"""Configs beside each other in a table, the recorded one among them."""

QUESTIONS: Final = {
    "happened": "What happened",
    "cost": "What it cost",
    "why": "Why",
    "change": "What to change",
    "sure": "How sure",
}
"""By the part of the page that answers, in the order of ``findings.Headlines``."""


def facts(document: Document) -> list[str]:
    """The application in a line."""
    app = document.app
    listed = (
        element("span", name(app.id, 80)) if app.id else "",
        f"Spark {visible(app.spark_version, 30)}" if app.spark_version else "",
        "" if app.started_ms is None else moment(app.started_ms),
        about(document),
    )
    return [one for one in listed if one]


def key_figures(document: Document) -> list[tuple[str, str, str]]:
    """The figures that everybody asks for: what it is, the figure, and what stands below it."""
    recorded, bill = document.recorded, document.self_replay
    work = bill.filled_share if bill.ledger else None
    seconds = whole(recorded.executor_seconds)
    figures = [
        ("Run time", took(recorded.runtime_s), f"simulated {took(bill.runtime_s)}"),
        ("Executor-seconds", seconds, f"simulated {whole(bill.executor_seconds)}"),
    ]
    if recorded.cost is not None:
        simulated = money(bill.cost, document.currency, scale=recorded.cost)
        figures.append(("Cost", money(recorded.cost, document.currency), f"simulated {simulated}"))
    elif recorded.core_hours is not None:
        figures.append(("Core-hours", number(recorded.core_hours), "no price was given"))
    figures.append(("Peak executors", number(recorded.peak_executors), f"simulated {number(bill.peak_executors)}"))
    if work is not None:
        figures.append(("Did work", percent(work), "of the bill, slot by slot, as simulated"))
    return figures


def bill(document: Document) -> list[tuple[str, str, str, str]]:
    """What was taken: as recorded, as simulated, and the range."""
    recorded, run, currency = document.recorded, document.self_replay, document.currency
    billed = whole(recorded.billed_seconds)
    seconds = whole(recorded.executor_seconds), whole(run.executor_seconds)
    rows = [
        ("Run time", took(recorded.runtime_s), took(run.runtime_s), time_range(run)),
        ("Executor-seconds", *seconds, number_range(run.executor_seconds_range)),
        ("Billed executor-seconds, from request to end", billed, whole(run.billed), ""),
    ]
    if recorded.core_hours is not None or run.core_hours is not None:
        rows.append(("Core-hours", number(recorded.core_hours), number(run.core_hours), ""))
    if recorded.gb_hours is not None or run.gb_hours is not None:
        rows.append(("GB-hours", number(recorded.gb_hours), number(run.gb_hours), ""))
    if recorded.cost is not None or run.cost is not None:
        rows.append(("Cost", money(recorded.cost, currency), money(run.cost, currency), money_range(run, currency)))
    return rows


def ledger(document: Document, most: int = BARS_MAX) -> Amounts:
    """Where the executor-seconds of up to ``most`` configs went."""
    bars = [
        Bar(
            one.name,
            one.ledger,
            f"{executor_seconds(one.billed)} billed, {percent(one.filled_share)} at work slot by slot",
        )
        for one in _runs(document, most)
    ]
    bars = [one for one in bars if one.amounts]
    return Amounts(
        "The ledger: where every executor-second went",
        "The ledger as bars",
        "Executor-seconds by cause, from the request of each executor to its end; each second has one cause.",
        "Cause", bars, _columns(bars, document), CAUSES, CAUSES, lambda value: f"{number(value)} s",
    )  # fmt: skip


def waiting(document: Document, most: int = BARS_MAX) -> Amounts:
    """What the tasks of up to ``most`` configs waited for, by the limit that kept executors away."""
    bars = [Bar(one.name, one.waiting, f"{took(one.waited_s)} waited") for one in _runs(document, most)]
    meanings = {key: meaning + (f" Moved by {keys}." if keys else "") for key, (meaning, keys) in LIMITS.items()}
    return Amounts(
        "The waiting: which limit held executors back",
        "The waiting as bars",
        "Time in which tasks waited for executors, shared among the limits that kept them away.",
        "Limit", bars, _columns(bars, document), LIMITS, meanings, took,
    )  # fmt: skip


def decisions_caption(run: RunEntry, label: str, shown: int) -> str:
    """What the table of decisions has. ``label``: whose they are; ``shown``: how many of them."""
    cut = f" The {shown:,} of {run.decided:,} that moved the most executors." if shown < run.decided else ""
    return f"What dynamic allocation decided and why: {label}.{cut}"


def longest_stages(run: RunEntry) -> list[StageEntry]:
    """The stages, the longest first, as many as are shown."""
    return sorted(run.stages, key=lambda one: (-one.took_s, one.submitted_s, one.stage))[:STAGES_MAX]


def used_columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The first column of a table, and those that are not empty."""
    return [0, *(column for column in range(1, len(titles)) if any(row[column] for row in rows))]


def untyped(titles: Sequence[str], columns: Sequence[int] | None = None) -> list[tuple[str, str]]:
    """Heads of columns (all, or these) without a class."""
    return [(title, "") for column, title in enumerate(titles) if columns is None or column in columns]


def _runs(document: Document, most: int) -> list[RunEntry]:
    return [document.self_replay, *featured(document, most - 1)]


def _columns(bars: Sequence[Bar], document: Document) -> list[Bar]:
    """The bars that the table beside them has room for: the recorded config and what matters most."""
    names = {one.name for one in featured(document, COLUMNS_MAX - 1)}
    return [*bars[:1], *(one for one in bars[1:] if one.name in names)][:COLUMNS_MAX]
