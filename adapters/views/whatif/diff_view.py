"""A diff for people: a row for each application, the sums, the gates. It is given the document that ``--json`` prints.

Rows are in the order of what changes most in the measure that matters (money where there are prices, executor-seconds
otherwise); logs without figures come last, with their reasons. Names come from logs and the command line: whatever is
printed is escaped before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from rich.text import Text

from podtide.adapters.text.format import count, setting_text
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif.diff_document import ComparedRow, DiffBreach, DiffDocument, DiffRow, DiffStatus
from podtide.adapters.views.whatif.figures import UNKNOWN, change, money, number, percent, took, whole
from podtide.adapters.views.whatif.findings import OwnedNote
from podtide.adapters.views.whatif.model import OwnErrorEntry
from podtide.adapters.views.whatif.view import show_remarks
from podtide.domain.whatif.comparison import Metric

ROWS_SHOWN: Final = 200
SETTINGS_SHOWN: Final = 30
BREACHES_SHOWN: Final = 20
NAME_MAX: Final = 32
LOG_MAX: Final = 4_000


class DiffView:
    """Prints a diff."""

    def __init__(self, page: Page, document: DiffDocument) -> None:
        self.page = page
        self.document = document
        self.currency = None if document.prices is None else document.prices.currency
        self.measure = Metric.EXECUTOR_SECONDS if document.prices is None else Metric.COST

    def report(self) -> None:
        """Everything."""
        self.header()
        self.settings()
        self.table()
        self.bad()
        self.gates()
        self.notes()

    def header(self) -> None:
        """What is compared with what."""
        page, document = self.page, self.document
        page.line(page.text("base       ", "dim"), page.text(escaped(document.base.text, 200), "bold"))
        page.line(page.text("candidate  ", "dim"), page.text(escaped(document.candidate.text, 200), "bold"))
        if document.defaults_only:
            page.say(
                "Defaults only: versions are compared by their defaults, all behaviour is that of Spark 4.3.0.", "dim"
            )

    def settings(self) -> None:
        """What is in force on either side, where it differs, over all applications."""
        differences: Counter[tuple[str, str, str]] = Counter()
        run = [one for one in self.document.applications if isinstance(one, ComparedRow)]
        for one in run:
            differences.update(
                (key, setting_text(base, 60), setting_text(candidate, 60))
                for key, (base, candidate) in one.settings.items()
            )
        if not differences:
            if run:
                self.page.say("No setting that decides differs between the two.", "dim")
            return
        page = self.page
        page.title("Settings that differ")
        rows = [
            [
                page.text(escaped(key), "dim"),
                page.text(base),
                page.text("→"),
                page.text(candidate),
                page.text("" if times == len(run) else f"in {times} of {len(run)}", "dim"),
            ]
            for (key, base, candidate), times in list(differences.items())[:SETTINGS_SHOWN]
        ]
        page.lines(page.table(rows, (False, False, False, False, False)))
        page.more(len(differences) - SETTINGS_SHOWN)

    def table(self) -> None:
        """The applications and the sums."""
        page, document = self.page, self.document
        compared = document.compared
        if not compared:
            return
        page.title(
            count(len(compared), "application"),
            "means over the seeds; ± is how far the model is off on the figure before it, in the log's own config run "
            "again; decisions are those that differ",
        )
        priced = self.measure is Metric.COST
        heads = ["", "run time", "", "±", "executor-s", "", "±", *(["cost", ""] if priced else []), "decisions"]
        rows = [[page.text(head, "dim") for head in heads]]
        listed = sorted(compared, key=lambda one: -abs(one.change[self.measure].share or 0.0))
        names = [_app_name(one) for one in compared]
        rows += [
            self._row(one, priced, by_log=names.count(_app_name(one)) > 1 or not _app_name(one))
            for one in listed[:ROWS_SHOWN]
        ]
        if (more := len(listed) - ROWS_SHOWN) > 0:
            rows.append([page.text(f"and {more:,} more", "dim"), *(Text() for _ in heads[1:])])
        if len(compared) > 1:
            totals = document.totals
            cells = self._cells("in all", totals.candidate, totals.change, None, priced, "bold")
            rows.append([*cells, page.text(f"{totals.decisions_differing:,}", "bold")])
        page.lines(page.table(rows, (False, *(True for _ in heads[1:]))))

    def _row(self, one: ComparedRow, priced: bool, *, by_log: bool) -> list[Text]:
        """``by_log``: its name does not tell it from others."""
        page, decisions = self.page, one.decisions
        name = _ending(escaped(one.log, LOG_MAX)) if by_log else escaped(_app_name(one), NAME_MAX)
        shares = {metric: change.share for metric, change in one.change.items()}
        return [
            *self._cells(name, one.candidate, shares, one.error, priced, ""),
            page.text(f"{decisions.differing:,} of {decisions.base + decisions.candidate:,}"),
        ]

    def _cells(
        self,
        name: str,
        takes: Mapping[Metric, float],
        changes: Mapping[Metric, float | None],
        error: OwnErrorEntry | None,
        priced: bool,
        style: str,
    ) -> list[Text]:
        page = self.page

        def changed(metric: Metric) -> Text:
            return page.text(change(changes[metric]), style or "dim")

        def off(share: float | None) -> Text:
            return page.text("" if share is None else percent(abs(share)), "dim")

        cells = [
            page.text(name, style),
            page.text(took(takes[Metric.RUNTIME]), style),
            changed(Metric.RUNTIME),
            off(None if error is None else error.runtime),
            page.text(whole(takes[Metric.EXECUTOR_SECONDS]), style),
            changed(Metric.EXECUTOR_SECONDS),
            off(None if error is None else error.executor_seconds),
        ]
        if priced:
            cells += [page.text(money(takes[Metric.COST], self.currency), style), changed(Metric.COST)]
        return cells

    def bad(self) -> None:
        """Logs without figures."""
        rows = [one for one in self.document.applications if one.status is not DiffStatus.COMPARED]
        if not rows:
            return
        self.page.title(f"{count(len(rows), 'log')} without figures")
        for one in rows[:ROWS_SHOWN]:
            text = f"{escaped(one.log, 100)}: {one.status.value}: {escaped(one.why or '', 500)}"
            self.page.bullet("!", text, "bad")
        self.page.more(len(rows) - ROWS_SHOWN)

    def gates(self) -> None:
        """What failed, and by what."""
        page, gates = self.page, self.document.gates
        if not gates:
            return
        page.title("Gates")
        for gate in gates:
            if not gate.failed:
                page.bullet("·", f"holds   {escaped(gate.gate)}", "good")
                continue
            page.bullet("!", f"fails   {escaped(gate.gate)}", "bad")
            for by in gate.by[:BREACHES_SHOWN]:
                page.lines(list(page.hanging(page.text("        "), page.text(self._breach(gate.metric, by)))))
            if (more := len(gate.by) - BREACHES_SHOWN) > 0:
                page.say(f"        and {more:,} more", "dim")

    def _breach(self, metric: Metric, by: DiffBreach) -> str:
        where = "in all" if by.log is None else escaped(by.log, 100)
        if by.why is not None:
            return f"{where}: {escaped(by.why, 300)}"
        return f"{where}: {self._figure(metric, by.base)} → {self._figure(metric, by.candidate)} ({change(by.change)})"

    def _figure(self, metric: Metric, value: float | None) -> str:
        if value is None:
            return UNKNOWN
        if metric in (Metric.RUNTIME, Metric.WAITED):
            return took(value)
        return money(value, self.currency) if metric is Metric.COST else number(value)

    def notes(self) -> None:
        """What is odd, each once."""
        document = self.document
        common = [note for note in document.notes if not document.defaults_only or "defaults only" not in note]
        own = (one.notes for one in document.applications if isinstance(one, ComparedRow))
        notes = dict.fromkeys([*common, *(note.note for several in own for note in several)])
        show_remarks(self.page, [OwnedNote(note) for note in notes])


def _app_name(one: DiffRow) -> str:
    return "" if one.app is None else one.app.name


def _ending(log: str) -> str:
    """The end of a path, where logs of a corpus differ."""
    return log if len(log) <= NAME_MAX else f"…{log[1 - NAME_MAX :]}"
