"""Variants against the record: time, executor-seconds and money, each with its difference and its range.

The first row is what really happened, the second the same config simulated, with its distance from the record: the model's
own error. Differences of variants are to that second row, like with like; where the range of one includes no difference at
all it is called unclear, and its drawing is hollow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.text.format import count
from podtide.adapters.views.report.markup import EMPTY, visible
from podtide.adapters.views.report.plots import spread, whisker
from podtide.adapters.views.whatif import findings
from podtide.adapters.views.whatif.figures import (
    SAME,
    UNKNOWN,
    change,
    difference,
    faults_words,
    money,
    number,
    percent,
    took,
    whole,
)
from podtide.adapters.views.whatif.findings import Compared, FigureVerdict, featured
from podtide.adapters.views.whatif.model import Document, RunEntry
from podtide.domain.conf.redaction import Redaction

VARIANTS_FIRST: Final = 16
"""Variants that are seen at once; the others are behind a summary."""

VARIANTS_MAX: Final = 60
KEYS_MAX: Final = 12

_REDACTION: Final = Redaction()
"""Spark's default pattern; whoever made the document knew the log's own."""

_TIME: Final = {FigureVerdict.LESS: "faster", FigureVerdict.MORE: "slower"}
_AMOUNT: Final = {FigureVerdict.LESS: "less", FigureVerdict.MORE: "more"}


CAPTION: Final = (
    "Below each figure its difference to the recorded config as simulated, like with like, and its range; the line in "
    "the middle of the drawing is no difference. Unclear, and drawn hollow: the range includes none."
)
FURTHER: Final = (
    "", "Billed executor-seconds", "Core-hours", "GB-hours", "Executors started", "Executors lost", "Calls to the cluster",
    "Tasks waited", "Tasks run again",
)  # fmt: skip


class Figure(NamedTuple):
    """A figure of a variant, its difference in words, its range, and both as a drawing."""

    value: str
    change: str = ""
    verdict: str = ""
    tone: str = ""
    range: str = ""
    drawing: Markup = EMPTY


class VariantRow(NamedTuple):
    """A row of the table; no ``run``: what really happened. ``texts``: the last two cells."""

    run: RunEntry | None
    figures: list[Figure]
    texts: tuple[str, str]
    picked: bool = False


def titles(document: Document) -> list[str]:
    """The heads of the columns."""
    cost = ["Cost"] if _priced(document) else []
    return ["Config", "Run time", "Executor-seconds", *cost, "Peak executors", "Slots unused"]


def rows(document: Document) -> list[VariantRow]:
    """A row for the record, its simulation and each variant: the first ones are those to show at once."""
    recorded, base, currency = document.recorded, document.self_replay, document.currency
    early = {id(one) for one in featured(document, VARIANTS_FIRST)}
    shown = sorted(featured(document, VARIANTS_MAX), key=lambda one: id(one) not in early)
    runs: list[RunEntry] = [base, *shown]
    times = [findings.compared_time(one, base) for one in runs]
    sums = [findings.compared_executor_seconds(one, base) for one in runs]
    costs = [findings.compared_cost(one, base) for one in runs]
    scales = [spread(figures) for figures in (times, sums, costs)]
    priced = _priced(document)
    picked = document.recommendation.name if document.recommendation else None
    off = base.error.runtime, base.error.executor_seconds, difference(base.cost, recorded.cost)
    record = [Figure(took(recorded.runtime_s)), Figure(whole(recorded.executor_seconds))]
    record += [Figure(money(recorded.cost, currency))] if priced else []
    made = [VariantRow(None, record, (number(recorded.peak_executors), UNKNOWN))]
    for one, time, total, cost in zip(runs, times, sums, costs, strict=True):
        offs = off if one is base else (None, None, None)
        seconds = whole(one.executor_seconds)
        figures = [
            _figure(took(one.runtime_s), findings.time_range(one), time, scales[0], _TIME, offs[0]),
            _figure(seconds, findings.number_range(one.executor_seconds_range), total, scales[1], _AMOUNT, offs[1]),
        ]
        if priced:
            paid = money(one.cost, currency)
            figures.append(_figure(paid, findings.money_range(one, currency), cost, scales[2], _AMOUNT, offs[2]))
        made.append(VariantRow(one, figures, (number(one.peak_executors), percent(one.idle_share)), one.name == picked))
    return made


def _priced(document: Document) -> bool:
    return any(one.cost is not None for one in (document.self_replay, *featured(document, VARIANTS_MAX)))


def _figure(
    value: str, extent: str, one: Compared, scale: float, words: Mapping[FigureVerdict, str], off: float | None
) -> Figure:
    """``off``: the model's own error, where this is its row."""
    drawing = whisker(one, scale)
    if off is not None:
        return Figure(value, change(off), " to the record", "", extent, drawing)
    if one.change is None:
        return Figure(value, range=extent, drawing=drawing)
    verdict = "" if abs(one.change) < SAME else f" {words.get(one.verdict, 'unclear')}"
    tone = {FigureVerdict.LESS: "less", FigureVerdict.MORE: "more"}.get(one.verdict, "")
    return Figure(value, change(one.change), verdict, tone, extent, drawing)


def further_rows(document: Document) -> list[tuple[str, ...]]:
    """Figures that few ask for."""
    shown: list[RunEntry] = [document.self_replay, *featured(document, VARIANTS_MAX)]
    return [
        (
            visible(one.name, 60), whole(one.billed), number(one.core_hours), number(one.gb_hours),
            number(one.executors_started), number(one.executors_lost), number(one.requests), took(one.waited_s),
            number(one.tasks_again),
        )
        for one in shown
    ]  # fmt: skip


def conf_lines(run: RunEntry) -> list[str]:
    """What a variant changes."""
    lines = [f"{count(run.static, 'executor')} from start to end"] if run.static is not None else []
    lines += faults_words(run.faults)
    for key, value in list(run.conf.items())[:KEYS_MAX]:
        lines.append(f"{key} unset" if value is None else f"{key}={_REDACTION.shown(key, value)}")
    if (more := len(run.conf) - KEYS_MAX) > 0:
        lines.append(f"and {more:,} more")
    return lines
