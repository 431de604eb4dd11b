"""A tune for people: the frontier, what stands beside it, what to change, and the lines to paste.

The view is given the document that ``podtide tune --json`` prints. Differences are to the config that
ran, run again, like with like. Names come from logs and the command line: whatever is printed is escaped before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.text.format import count, moment
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif import figures, findings
from podtide.adapters.views.whatif.model import Document, Recommendation, RunEntry, Searched
from podtide.adapters.views.whatif.view import header, show_memory, show_remarks, show_warnings

AS_RAN: Final = "as it ran"
NAME_MAX: Final = 200
LOG_MAX: Final = 40
RUNS_SHOWN: Final = 20
NOTES_SHOWN: Final = 12
VALUES_SHOWN: Final = 12


class TuneView:
    """Prints a tune."""

    def __init__(self, page: Page, document: Document) -> None:
        self.page = page
        self.document = document
        self.measure = document.measure or "executor_seconds"

    def report(self) -> None:
        """Everything."""
        self.header()
        self.sureness()
        self.frontier()
        self.recommendation()
        show_memory(self.page, self.document)
        self.searched()
        self.notes()

    def header(self) -> None:
        """Whose logs these are."""
        app, page, runs = self.document.app, self.page, self.document.runs
        when = () if app.started_ms is None else (moment(app.started_ms),)
        if len(runs) > 1:
            when = (f"{count(len(runs), 'run')}; figures are their means",)
        header(page, app, *when, count(app.tasks, "task"))
        page.say(f"Log: {escaped(app.log)}" if len(runs) == 1 else escaped(app.log), "dim")
        show_warnings(page, self.document)

    def sureness(self) -> None:
        """How far the model is off, for each run."""
        page, runs = self.page, self.document.runs
        page.title("How sure", "the config that ran, simulated, against the log")
        if len(runs) == 1:
            page.bullet("·", escaped(findings.sure(self.document), 1000))
        else:
            heads = ("", "run time", "own error", "executor-seconds", "own error")
            rows = (
                (
                    escaped(run.log, LOG_MAX),
                    figures.took(run.runtime_s),
                    figures.change(run.error.runtime),
                    figures.whole(run.executor_seconds),
                    figures.change(run.error.executor_seconds),
                )
                for run in runs[:RUNS_SHOWN]
            )
            page.grid(heads, rows, (False, True, True, True, True))
            if (more := len(runs) - RUNS_SHOWN) > 0:
                page.say(f"  and {count(more, 'more run')}", "dim")
        for one in self.document.unusable:
            page.bullet("!", f"left out: {escaped(one.log, LOG_MAX)}: {escaped(one.why, 500)}", "bad")

    def frontier(self) -> None:
        """The frontier and what stands beside it, by rising time."""
        page, document = self.page, self.document
        word = figures.MEASURES[self.measure]
        page.title(
            f"Time against {word}",
            "* nobody is faster and cheaper; differences are to the config that ran; (~) nine of ten runs may show none",
        )
        heads = ("", "run time", "", word, "", "peak", "config")
        listed = sorted(
            (document.self_replay, *document.variants),
            key=lambda run: (run.unfinished is not None, run.runtime_s or 0, self._price(run) or 0),
        )
        rows = [[page.text(head, "dim") for head in heads], *(list(self._row(run)) for run in listed)]
        widths = [max(cell_len(row[place].plain) for row in rows) for place in range(len(heads) - 1)]
        for row in rows:
            lead = Text("  ")
            for place, (cell, width) in enumerate(zip(row[:-1], widths, strict=True)):
                blanks = " " * (width - cell_len(cell.plain))
                lead = Text.assemble(lead, *((cell, blanks) if place == 0 else (blanks, cell)), "  ")
            page.lines(list(page.hanging(lead, row[-1])))

    def _row(self, run: RunEntry) -> Iterator[Text]:
        """Its marks, what it takes, and what it is."""
        page, document = self.page, self.document
        base = document.self_replay
        ran = run is base
        picked = document.recommendation is not None and run.name == document.recommendation.name
        style = "good" if picked else "bold" if ran else ""
        yield page.text(("*" if run.name in document.frontier else " ") + ("→" if picked else ""), style)
        yield page.text(figures.took(run.runtime_s), style)
        yield page.text("" if ran else _change(findings.compared_time(run, base)), "dim")
        yield page.text(self._amount(self._price(run)), style)
        yield page.text("" if ran else _change(self._compared(run)), "dim")
        yield page.text(figures.number(run.peak_executors), "dim")
        yield page.text(AS_RAN if ran else escaped(run.name, NAME_MAX), style)

    def _price(self, run: RunEntry) -> float | None:
        return {"cost": run.cost, "core_hours": run.core_hours}.get(self.measure, run.executor_seconds)

    def _compared(self, run: RunEntry) -> findings.Compared:
        """Its price beside that of the config that ran; core-hours are as unsure as executor-seconds."""
        base = self.document.self_replay
        if self.measure == "cost":
            return findings.compared_cost(run, base)
        if self.measure == "executor_seconds" or run.core_hours is None or run.executor_seconds_range is None:
            return findings.compared_executor_seconds(run, base)
        low, high = (run.core_hours * end / (run.executor_seconds or 1.0) for end in run.executor_seconds_range)
        return findings.compared(run.core_hours, (low, high), base.core_hours)

    def _amount(self, price: float | None) -> str:
        if price is None:
            return figures.UNKNOWN
        if self.measure == "cost":
            return figures.money(price, self.document.currency, scale=self._price(self.document.self_replay))
        return figures.whole(price) if self.measure == "executor_seconds" else f"{price:,.3g}"

    def recommendation(self) -> None:
        """What to change, and the lines to paste."""
        page, advice = self.page, self.document.recommendation or Recommendation()
        page.title("Recommendation")
        if advice.name is None:
            page.bullet("·", escaped(advice.text, 1000), "bold")
            return
        self._advice(advice, "good")
        self._by_run()
        if (knee := self.document.knee) is not None:
            page.blank()
            page.say("Nearly as cheap, and faster:", "dim")
            self._advice(knee, "bold")
            page.lines(list(page.hanging(page.text("    "), page.text(_settings(knee)))))
        for place in advice.lines:
            page.blank()
            page.say(f"{place}:", "dim")
            page.lines([page.text(f"    {line}") for line in advice.lines[place].splitlines()])

    def _advice(self, advice: Recommendation, style: str) -> None:
        """A config, what it takes, and what is to be known before it is taken over."""
        page = self.page
        page.bullet("→", escaped(advice.name or "", 500), style)
        run = self.document.variant(advice)
        figured = "" if run is None else f"{findings.standing(run, self.document)} "
        page.bullet("·", f"{figured}{escaped(advice.text, 1000)}")
        for caveat in advice.caveats[:NOTES_SHOWN]:
            page.bullet("!", escaped(caveat, 1000), "held")

    def _by_run(self) -> None:
        page, runs = self.page, self.document.runs
        if len(runs) == 1:
            return
        rows = []
        for run in runs[:RUNS_SHOWN]:
            one = run.recommended
            shares = (None,) * 3 if one is None else (one.runtime_share, one.runtime_share_worst, one.price_share)
            rows.append((escaped(run.log, LOG_MAX), *map(figures.change, shares)))
        heads = ("", "run time", "in nine of ten", figures.MEASURES[self.measure])
        page.grid(heads, rows, (False, True, True, True))

    def searched(self) -> None:
        """What was tried, and what was spared."""
        page, document, searched = self.page, self.document, self.document.searched or Searched()
        how = "all of a grid" if searched.whole_grid else f"of a grid of {searched.grid:,}"
        page.title("Searched", f"{count(searched.candidates, 'config')}, {how}")
        rows = []
        for key, values in searched.space.items():
            texts = ["unset" if value is None else str(value) for value in values]
            more = [f"and {len(texts) - VALUES_SHOWN} more"] if len(texts) > VALUES_SHOWN else []
            rows.append(
                [page.text(escaped(key), "dim"), page.text(escaped(" ".join([*texts[:VALUES_SHOWN], *more]), 300))]
            )
        page.lines(page.table(rows, (False, False)))
        pruned = ", ".join(f"{amount} {why}" for why, amount in searched.pruned_by.items() if amount)
        simulated = f"{count(searched.simulations, 'simulation')}, {searched.full_simulations:,} of them to the end"
        page.bullet("·", f"{simulated}; {count(searched.pruned, 'config')} pruned{pruned and f': {pruned}'}")
        within = document.within or 0.0
        bound = (
            f"at most {figures.percent(within)} longer"
            if within >= 0
            else f"at least {figures.percent(-within)} faster"
        )
        page.bullet("·", f"Asked for: {bound}, worth it from a saving of {figures.percent(document.worth)}")

    def notes(self) -> None:
        """What is odd and was not said yet, and what the log does not tell."""
        document = self.document
        shown = {text for one in (document.recommendation, document.knee) if one is not None for text in one.caveats}
        unknown = [findings.OwnedNote(f"{one.what.rstrip('.')}: {one.effect}") for one in document.unknowns]
        noted = [one for one in findings.remarks(document) if one.text not in shown]
        show_remarks(self.page, [*noted, *unknown])


def _change(one: findings.Compared) -> str:
    """A difference, marked where it is unclear."""
    unclear = one.verdict is findings.FigureVerdict.ALIKE and one.change
    return f"{figures.change(one.change)}{' ~' if unclear else ''}"


def _settings(advice: Recommendation) -> str:
    """The settings of a config, on one line."""
    if advice.static is not None:
        return f"{figures.number(advice.static)} executors from the start, no dynamic allocation"
    return ", ".join(
        f"{escaped(key)}={'unset' if value is None else escaped(value)}" for key, value in advice.conf.items()
    )
