"""A what-if for people: a screen or two in a terminal, plain text in a pipe.

In the order in which the questions come: what happened and what it cost; how sure the model is of itself; what each variant
would have been, beside the log's own config run again; where the executor-seconds went; what tasks waited for; what cannot
be known. The view is given the document that ``--json`` prints; figures and sentences are those of
the report (``views.whatif.figures``, ``views.whatif.findings``).

Variants stand side by side, so many at once as the terminal is wide. Differences are to the log's own config *run again*,
like with like, not to the record: what the model gets wrong it gets wrong on both sides. One whose range reaches over the
simulated figure is marked as no clear difference.

Names come from a log or from the command line: whatever is printed is escaped before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.text import plot
from podtide.adapters.text.format import moment
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif import figures, findings
from podtide.adapters.views.whatif.memory import memory_lines
from podtide.adapters.views.whatif.model import AppEntry, CurvePoint, Document, RunEntry
from podtide.adapters.views.whatif.overview_view import show_overview, show_troubles
from podtide.domain.base.units import Millis
from podtide.domain.rerun.plan import AS_RECORDED, AS_SIMULATED

BAR: Final = 24
"""Columns of the longest bar."""

BINS: Final = 240
"""Stretches of time of the plot."""

NAME_MAX: Final = 24
"""Columns of a variant's name in a table."""

NOTES_SHOWN: Final = 30
OWNERS_SHOWN: Final = 3
CHANGES_SHOWN: Final = 12
WAITING_SHOWN: Final = 12
GAP: Final = 3


class _Figure(NamedTuple):
    """A row of the table of variants. ``field``: of a run, and of the record where that has it; ``shown``: the value as a
    text; ``range``: the field of its range; ``compared``: whether variants show the difference to the first.
    """

    label: str
    field: str
    shown: Callable[[float | None], str] = figures.number
    range: str = ""
    compared: bool = True


class WhatIfView:
    """Prints a what-if."""

    def __init__(self, page: Page, document: Document) -> None:
        self.page = page
        self.document = document

    def report(self) -> None:
        """Everything."""
        self.header()
        self.happened()
        self.plot()
        self.sureness()
        self.variants()
        show_overview(self.page, self.document)
        self.ledger()
        self.waiting()
        show_troubles(self.page, self.document)
        show_memory(self.page, self.document)
        self.limits()

    def header(self) -> None:
        """Whose log this is."""
        app, page = self.document.app, self.page
        when = () if app.started_ms is None else (moment(app.started_ms),)
        header(page, app, *when, findings.about(self.document))
        page.say(f"Log: {escaped(app.log)}", "dim")
        for text in findings.incomplete(self.document):
            page.bullet("!", escaped(text, 1000), "held")

    def happened(self) -> None:
        """What happened, what it cost, and why."""
        page, document = self.page, self.document
        page.title("What happened")
        for sentence in (findings.happened(document), findings.cost(document), findings.why(document.self_replay)):
            page.bullet("·", escaped(sentence, 1000))

    def plot(self) -> None:
        """The log's own config run again, over time."""
        page, run = self.page, self.document.self_replay
        span_ms = round(run.span_s * 1000)
        if not run.curve or span_ms <= 0:
            return
        legend = {"target": "target", "busy": "busy", "idle": "idle", "need": "needed"}
        parts = plot.show(page, binned(run.curve, span_ms), span_ms, "as simulated, averaged", legend)
        if parts:
            page.lines(list(page.packed(Text("  "), parts)))

    def sureness(self) -> None:
        """The model's own error."""
        page, document = self.page, self.document
        page.title("How sure", "the log's own config, simulated")
        heads = ("", "recorded", "simulated", "difference")
        page.grid(heads, findings.error_rows(document), (False, True, True, True))
        bad = findings.trust(document) is findings.Trust.MISFIT
        page.bullet("!" if bad else "·", findings.sure(document), "bad" if bad else "")
        for line in document.refused:
            page.bullet("!", escaped(line, 1000), "bad")

    def variants(self) -> None:
        """The variants side by side, in as many tables as it takes."""
        document, page = self.document, self.page
        if not document.variants:
            return
        page.title("Variants", "differences are to the config as simulated; (~) nine of ten real runs may show none")
        for run in document.variants:
            page.lines(list(page.packed(page.text(f"  {_name(run)}  ", "bold"), self._changes(run))))
        base = document.self_replay
        first = [self._column(None, base), self._column(base, base)]
        others = [self._column(run, base) for run in document.variants]
        labels = []
        for row in self._figures():
            labels += [page.text(row.label, "dim"), *([Text()] if row.range else [])]
        self._side_by_side(labels, first, others, sparse=True)
        for run in document.variants:
            if run.unfinished is not None:
                page.bullet("!", f"{_name(run)} does not come to its end: {escaped(run.unfinished, 500)}", "bad")

    def ledger(self) -> None:
        """Where every executor-second of the bill went."""
        document, page = self.document, self.page
        base = document.self_replay
        if base.billed <= 0:
            return
        page.title(
            "Where the executor-seconds went", f"of {figures.whole(base.billed)} from request to end, as simulated"
        )
        most = max(base.ledger.values(), default=0.0) or 1.0
        rows = []
        for cause, amount in figures.parts_of(base.ledger, figures.CAUSES):
            bar = page.text("█" * max(1, round(amount / most * BAR)), "busy")
            partly = cause == figures.WORK and amount - base.filled >= findings.SLOTS_NOTED * base.billed
            slots = f" ({figures.percent(base.filled_share)} by slots)" if partly else ""
            share = figures.share_of(amount, base.billed)
            rows.append(
                [
                    page.text(f"{escaped(cause)}{slots}"),
                    page.text(figures.whole(amount)),
                    page.text(figures.percent(share)),
                    bar,
                ]
            )
        page.lines(page.table(rows, (False, True, True, False)))
        if not document.variants:
            return
        runs = (base, *document.variants)
        occurring = {name: 1.0 for run in runs for name, amount in run.ledger.items() if amount}
        causes = [name for name, _ in figures.parts_of(occurring, figures.CAUSES)]
        columns = [
            [page.text(_name(run), "bold"), *(self._ledger_cell(run, cause) for cause in causes)] for run in runs
        ]
        self._side_by_side([page.text(escaped(cause), "dim") for cause in causes], columns[:1], columns[1:])

    def waiting(self) -> None:
        """Which limit kept executors away from tasks that waited."""
        document, page = self.document, self.page
        runs = (document.self_replay, *document.variants[:WAITING_SHOWN])
        if all(run.waited_s < 0.05 for run in runs):
            return
        page.title("What tasks waited for")
        base = document.self_replay
        if base.waited_s >= 0.05:
            most = max(base.waiting.values(), default=0.0) or 1.0
            rows = []
            for limit, amount in figures.parts_of(base.waiting, figures.LIMITS):
                bar = page.text("█" * max(1, round(amount / most * BAR)), "target")
                rows.append([page.text(escaped(limit)), page.text(figures.took(amount)), bar])
            if rows:
                page.lines(page.table(rows, (False, True, False)))
            for limit, _ in figures.largest(base.waiting)[:1]:
                if settings := figures.LIMITS.get(limit, ("", ""))[1]:
                    page.bullet("·", f"{limit} is a matter of {settings}", "dim")
        for run in runs:
            lead = page.text(f"  {_name(run)}  ", "bold")
            page.lines(list(page.hanging(lead, page.text(findings.why(run)))))

    def limits(self) -> None:
        """What could not be known, and what is odd."""
        document, page = self.document, self.page
        if document.unknowns:
            page.title("What the log does not tell")
            for unknown in document.unknowns[:NOTES_SHOWN]:
                sign = "" if unknown.what.endswith((".", "!", "?")) else ":"
                page.bullet(
                    "·", escaped(f"{unknown.what}{sign} {unknown.effect}" if unknown.effect else unknown.what, 1000)
                )
        show_remarks(page, findings.remarks(document))

    # ------------------------------------------------------------------------------------------------------- pieces

    def _side_by_side(
        self, labels: list[Text], first: list[list[Text]], others: list[list[Text]], *, sparse: bool = False
    ) -> None:
        """Columns with their heads beside the labels, in as many tables as it takes; ``sparse``: empty rows are left out."""
        page = self.page
        width = page.width - 2 - max(cell_len(label.plain) for label in labels)
        for block in _blocks(first, others, width):
            rows = [[label, *(column[place] for column in block)] for place, label in enumerate([Text(), *labels])]
            if sparse:
                rows = [row for row in rows if any(cell.plain.strip(figures.UNKNOWN + " ") for cell in row[1:])]
            page.blank()
            page.lines(page.table(rows, (False, *(True for _ in block)), gap=GAP))

    def _figures(self) -> tuple[_Figure, ...]:
        """The rows of the table of variants."""
        currency = self.document.currency
        return (
            _Figure("run time", "runtime_s", figures.took, "runtime_range_s"),
            _Figure("executor-seconds", "executor_seconds", figures.whole, "executor_seconds_range"),
            _Figure("core-hours", "core_hours"),
            _Figure("GB-hours", "gb_hours"),
            _Figure("money", "cost", lambda value: figures.money(value, currency), "cost_range"),
            _Figure("work in the bill", "filled_share", figures.percent, compared=False),
            _Figure("idle share", "idle_share", figures.percent, compared=False),
            _Figure("peak executors", "peak_executors", compared=False),
            _Figure("executors started", "executors_started"),
            _Figure("executors lost", "executors_lost", _unless_none, compared=False),
            _Figure("tasks run again", "tasks_again", _unless_none, compared=False),
            _Figure("requests", "requests"),
        )

    def _column(self, run: RunEntry | None, base: RunEntry) -> list[Text]:
        """A column: its name, then every figure, and below it the range where there is one. None is the record."""
        page, document = self.page, self.document
        if run is None:
            cells = [page.text(AS_RECORDED, "bold")]
            for row in self._figures():
                started = document.app.executors if row.field == "executors_started" else None
                value = getattr(document.recorded, row.field, started)
                known = value is not None or row.field in document.recorded.__struct_fields__
                cells.append(page.text(row.shown(value) if known else ""))
                cells.extend([Text()] if row.range else [])
            return cells
        cells = [page.text(_name(run), "bold")]
        for row in self._figures():
            value = getattr(run, row.field)
            cell = page.text(row.shown(value))
            extent = getattr(run, row.range) if row.range else None
            if row.compared and run is not base and run.unfinished is None:
                was = getattr(base, row.field)
                by = figures.difference(value, was)
                if by is not None:
                    alike = extent is not None and was is not None and extent[0] <= was <= extent[1]
                    style = "dim" if alike else "good" if by < 0 else "bad" if by > 0 else ""
                    cell = Text.assemble(
                        cell, " ", page.text(f"{figures.change(by)}{' ~' if alike and by else ''}", style)
                    )
            cells.append(cell)
            if row.range:
                low_high = "" if extent is None else figures.span(*(row.shown(one) for one in extent))
                cells.append(page.text(low_high, "dim"))
        return cells

    def _changes(self, run: RunEntry) -> Iterator[Text]:
        page = self.page
        if run.static is not None:
            yield page.text(f"{figures.number(run.static)} executors from the start, no dynamic allocation")
        faults = figures.faults_words(run.faults)
        yield from (page.text(one) for one in faults)
        shown = list(run.conf.items())
        for key, value in shown[:CHANGES_SHOWN]:
            text = "unset" if value is None else escaped(value, 60) or '""'
            yield Text.assemble(page.text(f"{escaped(key, 80).removeprefix('spark.')} ", "dim"), page.text(text))
        if (more := len(shown) - CHANGES_SHOWN) > 0:
            yield page.text(f"and {more:,} more", "dim")
        if run.static is None and not run.conf and not faults:
            yield page.text("the log's own config", "dim")

    def _ledger_cell(self, run: RunEntry, cause: str) -> Text:
        amount = run.ledger.get(cause, 0.0)
        share = figures.percent(figures.share_of(amount, run.billed)) if amount else ""
        return self.page.text(f"{figures.whole(amount)} {share:>5}" if amount else figures.UNKNOWN)


def header(page: Page, app: AppEntry, *facts: str) -> None:
    """Whose log it is: name, id, version of Spark, and ``facts``."""
    name = escaped(app.name) if app.name else "An application without a name"
    page.line(page.text(name, "bold"), page.text(f"  {escaped(app.id)}" if app.id else "", "dim"))
    version = f"Spark {escaped(app.spark_version)}" if app.spark_version else "Spark version not logged"
    page.lines(list(page.packed(Text(), [page.text(fact) for fact in (version, *facts)])))


def show_memory(page: Page, document: Document) -> None:
    """Print what memory would have sufficed."""
    lines = memory_lines(document)
    if lines:
        page.title("Memory", "of executors, from the peaks and spills in the log")
        for line in lines:
            page.bullet("·", escaped(line, 1000))


def show_warnings(page: Page, document: Document) -> None:
    """Print why no decision is to be taken from the figures, if so."""
    for text in findings.warnings(document):
        page.bullet("!", escaped(text, 1000), "bad")


def show_remarks(page: Page, noted: Sequence[findings.OwnedNote]) -> None:
    """Print what is odd, as much as is read, with whose it is."""
    if not noted:
        return
    page.title("Notes")
    for one in noted[:NOTES_SHOWN]:
        names = ", ".join(escaped(name, NAME_MAX) for name in one.names[:OWNERS_SHOWN])
        others = " and others" if len(one.names) > OWNERS_SHOWN else ""
        page.bullet("!", f"{names}{others}{': ' if names else ''}{escaped(one.text, 1000)}", "held")
    page.more(len(noted) - NOTES_SHOWN, in_json=True)


def binned(curve: Sequence[CurvePoint], span_ms: Millis) -> dict[str, Any]:
    """A curve as averages over stretches of time: target, need, executors and busy ones, as the plot takes them."""
    width = max(1, -(-span_ms // BINS))
    bins = [[0.0] * 4 for _ in range(-(-span_ms // width))]
    for place, (at_s, needed, target, _, running, busy) in enumerate(curve):
        begin = max(0, round(at_s * 1000))
        end = min(span_ms, round(curve[place + 1][0] * 1000) if place + 1 < len(curve) else span_ms)
        while begin < end:
            one = begin // width
            until = min(end, (one + 1) * width)
            for field, value in enumerate((target, needed, running, busy)):
                bins[one][field] += value * (until - begin)
            begin = until
    last = span_ms - (len(bins) - 1) * width
    for place, amounts in enumerate(bins):
        length = last if place == len(bins) - 1 else width
        bins[place] = [amount / length for amount in amounts]
    return {"width_ms": width, "mean": bins}


def _unless_none(value: float | None) -> str:
    return figures.number(value) if value else ""


def _name(run: RunEntry) -> str:
    return AS_SIMULATED if run.name == AS_SIMULATED else escaped(run.name, NAME_MAX)


def _blocks(first: list[list[Text]], others: list[list[Text]], width: int) -> Iterator[list[list[Text]]]:
    """Columns in blocks that fit ``width``: ``first`` at the left of each, then at least one of the others."""
    lead = sum(_width(column) + GAP for column in first)
    block: list[list[Text]] = []
    room = width - lead
    for column in others:
        needed = _width(column) + GAP
        if block and needed > room:
            yield [*first, *block]
            block, room = [], width - lead
        block.append(column)
        room -= needed
    yield [*first, *block]


def _width(column: Sequence[Text]) -> int:
    return max(cell_len(cell.plain) for cell in column)
