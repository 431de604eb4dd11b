"""The first parts of a report: the answer in short, what happened, what it cost, and why.

Each part opens with its sentence (``views.whatif.findings``), then shows what the sentence is made of, as a drawing and as a
table. Lists are cut to what a person can read and a page can hold; what was left out is said where it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtide.adapters.text.format import count
from podtide.adapters.views.report.bars import Bar, amounts_table, stacked
from podtide.adapters.views.report.decisions import kept, told
from podtide.adapters.views.report.executors_chart import executors_chart
from podtide.adapters.views.report.markup import EMPTY, Markup, element, join, name, prose
from podtide.adapters.views.report.plots import gantt
from podtide.adapters.views.whatif.figures import (
    CAUSES,
    LIMITS,
    WORK,
    at,
    executor_seconds,
    largest,
    money,
    number,
    percent,
    share_of,
    took,
)
from podtide.adapters.views.whatif.findings import (
    Headlines,
    Trust,
    error_rows,
    featured,
    money_range,
    number_range,
    time_range,
    trust,
)
from podtide.adapters.views.whatif.model import Document, Run, StageTimes

STAGES_FIRST: Final = 12
STAGES_MAX: Final = 150
DECISIONS_MAX: Final = 300
BARS_MAX: Final = 8
COLUMNS_MAX: Final = 6
"""Configs beside each other in a table, the recorded one among them."""


def section(identity: str, title: str, lead: str, *content: str | None) -> Markup:
    """A part of the page: a landmark with a heading and its sentence."""
    heading = element("h2", title, id=f"{identity}-title")
    opening = element("p", prose(lead), class_="lead") if lead else None
    return element("section", heading, opening, *content, id=identity, aria_labelledby=f"{identity}-title")


def in_short(document: Document, words: Headlines) -> Markup:
    """The page for the meeting: figures, and a sentence for each question."""
    fit = trust(document.self_replay.error, document.max_error)
    warning = None
    if document.refused:
        warning = element("p", element("strong", prose(" ".join(document.refused))), class_="warning", role="note")
    elif fit is Trust.MISFIT:
        bound = percent(document.max_error)
        text = f"The model does not fit this run: its own error is beyond {bound}. Take no decision from the figures below."
        warning = element("p", element("strong", text), class_="warning", role="note")
    return section("short", "In short", "", warning, key_figures(document), answers(document, words))


def answers(document: Document, words: Headlines, *, links: bool = True) -> Markup:
    """A sentence for each question; ``links``: to the parts of the page."""
    fit = trust(document.self_replay.error, document.max_error)
    badge = element("span", "model: " + fit.value, class_=f"badge t-{fit.name.lower()}")
    told = (
        ("happened", "What happened", None, words.happened),
        ("cost", "What it cost", None, words.cost),
        ("why", "Why", None, words.why),
        ("change", "What to change", None, words.change),
        ("sure", "How sure", badge, words.sure),
    )
    listed = (
        join(
            element("dt", element("a", title, href=f"#{target}") if links else title),
            element("dd", mark, prose(text)),
        )
        for target, title, mark, text in told
    )
    return element("dl", *listed, class_="answers")


def what_happened(document: Document, lead: str) -> Markup:
    """Executors over time with the decisions, and the stages."""
    run = document.self_replay
    chart = executors_chart(run, document.recorded, "replay", "the recorded config, simulated")
    return section(
        "happened", "What happened", lead,
        element("h3", "Executors over time"),
        element("p", "The recorded config, simulated, with the executors of the log beside it.", class_="note"),
        chart, decisions_table(run, "the recorded config, simulated"), _stages(run),
    )  # fmt: skip


def what_it_cost(document: Document, lead: str) -> Markup:
    """The bill, and the ledger that divides it."""
    runs: list[Run] = [document.self_replay, *featured(document, BARS_MAX - 1)]
    bars = [Bar(one.name, one.ledger, f"{executor_seconds(one.billed)} billed") for one in runs if one.ledger]
    columns = _columns(bars, document)
    parts: list[Markup] = [_bill(document)]
    if bars:
        caption = "Executor-seconds by cause, from the request of each executor to its end; each second has one cause."
        parts += [
            element("h3", "The ledger: where every executor-second went"),
            stacked(bars, CAUSES, _seconds, "The ledger as bars"),
            amounts_table(columns, CAUSES, CAUSES, _seconds, caption, "Cause"),
            _left_out(document, len(bars), len(columns)),
        ]
    return section("cost", "What it cost", lead, *parts)


def why_so(document: Document, lead: str) -> Markup:
    """What tasks waited for, by the limit that kept executors away."""
    runs: list[Run] = [document.self_replay, *featured(document, BARS_MAX - 1)]
    bars = [Bar(one.name, one.waiting, f"{took(one.waited_s)} waited") for one in runs]
    if not any(largest(one.amounts) for one in bars):
        return section("why", "Why", lead)
    meanings = {key: meaning + (f" Moved by {keys}." if keys else "") for key, (meaning, keys) in LIMITS.items()}
    columns = _columns(bars, document)
    caption = "Time in which tasks waited for executors, shared among the limits that kept them away."
    return section(
        "why", "Why", lead,
        element("h3", "The waiting: which limit held executors back"),
        stacked(bars, LIMITS, took, "The waiting as bars"),
        amounts_table(columns, LIMITS, meanings, took, caption, "Limit"),
        _left_out(document, len(bars), len(columns)),
    )  # fmt: skip


def decisions_table(run: Run, label: str, most: int = DECISIONS_MAX) -> Markup:
    """The decisions of a run in words, behind a summary that can be opened."""
    decisions = run.decisions
    if not decisions:
        return EMPTY
    rows = []
    for one in kept(decisions, most):
        words = told(one)
        rows.append(
            element("tr", element("td", at(words.at_s), role="cell"), element("td", prose(words.what, 300), class_="text",
                    role="cell"), element("td", prose(words.why, 600), class_="text", role="cell"), role="row")
        )  # fmt: skip
    caption = f"What dynamic allocation decided and why: {label}."
    if len(rows) < run.decided:
        caption += f" The {len(rows):,} of {run.decided:,} that moved the most executors."
    table = element(
        "table", element("caption", prose(caption)),
        element("thead", _head(("When", ""), ("Decision", "text"), ("Why", "text")), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"), role="table", class_="decisions",
    )  # fmt: skip
    return element(
        "details",
        element("summary", "Decisions with their reasons ", element("small", f"{len(rows):,} rows")),
        table,
    )


def key_figures(document: Document) -> Markup:
    """The figures that everybody asks for."""
    recorded, bill = document.recorded, document.self_replay
    work = share_of(bill.ledger.get(WORK, 0.0), bill.billed)
    figures = [
        ("Run time", took(recorded.runtime_s), f"simulated {took(bill.runtime_s)}"),
        (
            "Executor-seconds",
            number(round(recorded.executor_seconds)),
            f"simulated {number(round(bill.executor_seconds))}",
        ),
    ]
    if recorded.cost is not None:
        simulated = money(bill.cost, document.currency, scale=recorded.cost)
        figures.append(("Cost", money(recorded.cost, document.currency), f"simulated {simulated}"))
    elif recorded.core_hours is not None:
        figures.append(("Core-hours", number(recorded.core_hours), "no price was given"))
    figures.append(("Peak executors", number(recorded.peak_executors), f"simulated {number(bill.peak_executors)}"))
    if work is not None:
        figures.append(("Did work", percent(work), "of the billed executor-seconds"))
    cells = (
        element("div", element("dt", title), element("dd", value), element("dd", beside))
        for title, value, beside in figures
    )
    return element("dl", *cells, class_="figures")


def _bill(document: Document) -> Markup:
    recorded, run, currency = document.recorded, document.self_replay, document.currency
    rows = [
        ("Run time", took(recorded.runtime_s), took(run.runtime_s), time_range(run)),
        (
            "Executor-seconds",
            number(round(recorded.executor_seconds)),
            number(round(run.executor_seconds)),
            number_range(run.executor_seconds_range),
        ),
        (
            "Billed executor-seconds, from request to end",
            number(None if recorded.billed_seconds is None else round(recorded.billed_seconds)),
            number(round(run.billed)),
            "",
        ),
    ]
    if recorded.core_hours is not None or run.core_hours is not None:
        rows.append(("Core-hours", number(recorded.core_hours), number(run.core_hours), ""))
    if recorded.gb_hours is not None or run.gb_hours is not None:
        rows.append(("GB-hours", number(recorded.gb_hours), number(run.gb_hours), ""))
    if recorded.cost is not None or run.cost is not None:
        rows.append(("Cost", money(recorded.cost, currency), money(run.cost, currency), money_range(run, currency)))
    return plain_table(
        "The run as the log has it, and the same config simulated.", ("", "As recorded", "As simulated", "Range"), rows
    )


def plain_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of texts; the first of a row names it, empty columns are left out."""
    used = [0, *(column for column in range(1, len(head)) if any(row[column] for row in rows))]
    body = (
        element(
            "tr", element("th", row[0], scope="row", role="rowheader"),
            *(element("td", row[column] or "–", role="cell", data_label=head[column]) for column in used[1:]), role="row",
        )
        for row in rows
    )  # fmt: skip
    return element(
        "table", element("caption", caption), element("thead", _head(*((head[one], "") for one in used)), role="rowgroup"),
        element("tbody", *body, role="rowgroup"), role="table",
    )  # fmt: skip


def own_error(document: Document) -> Markup:
    """The own error of the self replay as a table."""
    return plain_table(
        "The recorded config, simulated, against the log.",
        ("", "As recorded", "As simulated", "Difference"),
        error_rows(document),
    )


def _stages(run: Run) -> Markup:
    if not run.stages:
        return EMPTY
    ranked = sorted(run.stages, key=lambda one: (-one.took_s, one.submitted_s, one.stage))
    shown = ranked[:STAGES_MAX]
    more = shown[STAGES_FIRST:]
    caption = (
        f"The {min(len(ranked), STAGES_FIRST)} longest of {count(len(ranked), 'stage')}; the bar is where in the run."
    )
    parts = [element("h3", "Stages, the longest first"), _stage_table(shown[:STAGES_FIRST], run.runtime_s, caption)]
    if more:
        rest = len(ranked) - len(shown)
        tail = f" {count(rest, 'shorter stage')} left out; the JSON document has them all." if rest else ""
        table = _stage_table(more, run.runtime_s, f"Further stages by length.{tail}")
        parts.append(
            element("details", element("summary", "Further stages ", element("small", f"{len(more):,} rows")), table)
        )
    return join(*parts)


def _stage_table(stages: Sequence[StageTimes], span: float, caption: str) -> Markup:
    rows = (
        element(
            "tr",
            element("th", f"{one.stage} ", name(one.name, 70), scope="row", role="rowheader"),
            element("td", number(one.tasks), role="cell", data_label="Tasks"),
            element("td", at(one.submitted_s), role="cell", data_label="Began at"),
            element("td", took(one.took_s), role="cell", data_label="Took"),
            element("td", gantt(one.submitted_s, one.completed_s, span), role="cell", class_="when"),
            role="row",
        )
        for one in stages
    )  # fmt: skip
    head = _head(("Stage", ""), ("Tasks", ""), ("Began at", ""), ("Took", ""), ("In the run", "text"))
    return element(
        "table", element("caption", caption), element("thead", head, role="rowgroup"),
        element("tbody", *rows, role="rowgroup"), role="table", class_="stages",
    )  # fmt: skip


def _head(*titles: tuple[str, str]) -> Markup:
    cells = (
        element(
            "th",
            title or element("span", "What", class_="hidden"),
            scope="col",
            role="columnheader",
            class_=kind or None,
        )
        for title, kind in titles
    )
    return element("tr", *cells, role="row")


def _columns(bars: Sequence[Bar], document: Document) -> list[Bar]:
    """The bars that the table beside them has room for: the recorded config and what matters most."""
    names = {one.name for one in featured(document, COLUMNS_MAX - 1)}
    return [*bars[:1], *(one for one in bars[1:] if one.name in names)][:COLUMNS_MAX]


def _left_out(document: Document, drawn: int, listed: int) -> Markup:
    """What is not shown, if anything."""
    there = len(document.variants) + 1
    if listed >= there:
        return EMPTY
    text = f"{drawn} of {count(there, 'config')} drawn, {listed} in the table; the JSON document has them all."
    return element("p", text, class_="note")


def _seconds(value: float) -> str:
    return f"{number(value)} s"
