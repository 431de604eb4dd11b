"""Variants against the record: time, executor-seconds and money, each with its difference and its range.

The first row is what really happened, the second the same config simulated, with its distance from the record: the model's
own error. Differences of variants are to that second row, like with like; where the range of one includes no difference at
all it is called unclear, and its drawing is hollow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtide.adapters.text.format import count
from podtide.adapters.views.report.markup import EMPTY, Markup, breakable, element, join, name, prose, visible
from podtide.adapters.views.report.plots import spread, whisker
from podtide.adapters.views.report.sections import plain_table
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
)
from podtide.adapters.views.whatif.findings import (
    Compared,
    Verdict,
    compared_cost,
    compared_executor_seconds,
    compared_time,
    featured,
    money_range,
    number_range,
    time_range,
)
from podtide.adapters.views.whatif.model import Document, Run
from podtide.domain.conf.redaction import Redaction

VARIANTS_FIRST: Final = 16
"""Variants that are seen at once; the others are behind a summary."""

VARIANTS_MAX: Final = 60
KEYS_MAX: Final = 12

_REDACTION: Final = Redaction()
"""Spark's default pattern; whoever made the document knew the log's own."""

_TIME: Final = {Verdict.LESS: "faster", Verdict.MORE: "slower"}
_AMOUNT: Final = {Verdict.LESS: "less", Verdict.MORE: "more"}


def variants_table(document: Document) -> Markup:
    """A row for the record, its simulation and each variant: time, executor-seconds, money, and their differences."""
    recorded, currency = document.recorded, document.currency
    shown = featured(document, VARIANTS_MAX)
    early = {id(one) for one in featured(document, VARIANTS_FIRST)}
    runs: list[Run] = [document.self_replay, *sorted(shown, key=lambda one: id(one) not in early)]
    base = document.self_replay
    times = {id(one): compared_time(one, base) for one in runs}
    sums = {id(one): compared_executor_seconds(one, base) for one in runs}
    costs = {id(one): compared_cost(one, base) for one in runs}
    priced = any(one.cost is not None for one in runs)
    scales = [spread(list(figures.values())) for figures in (times, sums, costs)]
    picked = document.recommendation.name if document.recommendation else None
    head = ["Config", "Run time", "Executor-seconds", *(["Cost"] if priced else []), "Peak executors", "Slots unused"]
    rows = [
        _row(
            head,
            element(
                "th",
                "as recorded",
                element("span", "what really happened", class_="conf"),
                scope="row",
                role="rowheader",
            ),
            [element("b", took(recorded.runtime_s)), element("b", number(round(recorded.executor_seconds)))]
            + ([element("b", money(recorded.cost, currency))] if priced else [])
            + [join(number(recorded.peak_executors)), join(UNKNOWN)],
        )
    ]
    error = base.error
    for one in runs:
        own = one is base
        offs = (
            (error.runtime, error.executor_seconds, difference(one.cost, recorded.cost)) if own else (None, None, None)
        )
        amount = number(round(one.executor_seconds)), number_range(one.executor_seconds_range)
        cells = [
            _against(took(one.runtime_s), time_range(one), times[id(one)], scales[0], _TIME, offs[0]),
            _against(*amount, sums[id(one)], scales[1], _AMOUNT, offs[1]),
        ]
        if priced:
            paid = money(one.cost, currency), money_range(one, currency)
            cells.append(_against(*paid, costs[id(one)], scales[2], _AMOUNT, offs[2]))
        cells += [join(number(one.peak_executors)), join(percent(one.idle_share))]
        title = element(
            "th", name(one.name, 60), element("span", "recommended", class_="tag") if one.name == picked else None,
            _conf(one), _unfinished(one), scope="row", role="rowheader",
        )  # fmt: skip
        rows.append(_row(head, title, cells, picked=one.name == picked))
    caption = (
        "Below each figure its difference to the recorded config as simulated, like with like, and its range; the line in "
        "the middle of the drawing is no difference. Unclear, and drawn hollow: the range includes none."
    )
    first, further = rows[: VARIANTS_FIRST + 2], rows[VARIANTS_FIRST + 2 :]
    parts = [_table(head, first, caption)]
    if further:
        words = f"The next {len(further):,} of {count(len(document.variants), 'variant')}."
        opened = element("summary", "Further variants ", element("small", f"{len(further):,} rows"))
        parts.append(element("details", opened, _table(head, further, words)))
    left = len(document.variants) - len(shown)
    if left:
        parts.append(element("p", f"{count(left, 'variant')} more in the JSON document.", class_="note"))
    return join(*parts)


def _table(head: list[str], rows: list[Markup], caption: str) -> Markup:
    titles = element("tr", *(element("th", one, scope="col", role="columnheader") for one in head), role="row")
    return element(
        "table", element("caption", caption), element("thead", titles, role="rowgroup"),
        element("tbody", *rows, role="rowgroup"), role="table", class_="variants",
    )  # fmt: skip


def _row(head: list[str], title: Markup, cells: list[Markup], *, picked: bool = False) -> Markup:
    told = (
        element("td", cell, role="cell", data_label=label, class_=None if "<" in cell else "plain")
        for label, cell in zip(head[1:], cells, strict=True)
    )
    return element("tr", title, *told, role="row", class_="picked" if picked else None)


def _against(
    value: str, extent: str, one: Compared, scale: float, words: Mapping[Verdict, str], off: float | None
) -> Markup:
    """A figure, its difference, its range, and both as a drawing. ``off``: the model's own error, where this is its row."""
    shown = [element("span", value)]
    tone = {Verdict.LESS: "less", Verdict.MORE: "more"}.get(one.verdict)
    if off is not None:
        shown.append(element("small", element("b", change(off)), " to the record"))
    elif one.change is not None:
        said = "" if abs(one.change) < SAME else f" {words.get(one.verdict, 'unclear')}"
        shown.append(element("small", element("b", change(one.change)), said, class_=tone))
    if extent:
        shown.append(element("small", extent))
    return join(*shown, whisker(one, scale))


def _conf(run: Run) -> Markup:
    lines = [f"{count(run.static, 'executor')} from start to end"] if run.static is not None else []
    lines += faults_words(run.faults)
    for key, value in list(run.conf.items())[:KEYS_MAX]:
        lines.append(f"{key} unset" if value is None else f"{key}={_REDACTION.shown(key, value)}")
    if (more := len(run.conf) - KEYS_MAX) > 0:
        lines.append(f"and {more:,} more")
    return join(*(element("code", breakable(line, 160), class_="conf") for line in lines))


def _unfinished(run: Run) -> Markup:
    if run.unfinished is None:
        return EMPTY
    return element("span", "Does not come to its end: ", prose(run.unfinished, 200), class_="conf")


def further_figures(document: Document) -> Markup:
    """Figures that few ask for."""
    shown: list[Run] = [document.self_replay, *featured(document, VARIANTS_MAX)]
    rows = [
        (
            visible(one.name, 60), number(round(one.billed)), number(one.core_hours), number(one.gb_hours),
            number(one.executors_started), number(one.executors_lost), number(one.requests), took(one.waited_s),
            number(one.tasks_again),
        )
        for one in shown
    ]  # fmt: skip
    head = (
        "", "Billed executor-seconds", "Core-hours", "GB-hours", "Executors started", "Executors lost",
        "Calls to the cluster", "Tasks waited", "Tasks run again",
    )  # fmt: skip
    table = plain_table("Further figures of the simulated configs.", head, rows)
    return element("details", element("summary", "Further figures"), table)
