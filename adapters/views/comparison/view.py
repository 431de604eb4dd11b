"""A comparison of two runs in the terminal. Names come from logs: whatever is printed is escaped before."""

from __future__ import annotations

from typing import Final

from podtide.adapters.text.format import count
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.comparison import words
from podtide.adapters.views.comparison.document import CORE_HOURS, CauseEntry, ComparedRun, ComparisonDocument
from podtide.adapters.views.whatif.figures import change, number, percent, signed, took, whole

STAGES_SHOWN: Final = 8
STALLS_SHOWN: Final = 6
SETTINGS_SHOWN: Final = 12
BILL_SHOWN: Final = 8
EVIDENCE_SHOWN: Final = 4
BECAUSE_SHOWN: Final = 4
TEXT_MAX: Final = 300
DETAILED: Final = 0.1
"""The share of the change from which a cause is told with what is seen of it."""


class ComparisonView:
    """Prints a comparison."""

    def __init__(self, page: Page, document: ComparisonDocument) -> None:
        self.page = page
        self.document = document

    def report(self) -> None:
        """Everything."""
        self.header()
        self.causes()
        self.stalls()
        self.bill()
        self.stages()
        self.settings()
        self.gates()
        self.notes()

    def header(self) -> None:
        """The runs, their figures, and the answer in a sentence."""
        page, document = self.page, self.document
        page.line(page.text("first   ", "dim"), page.text(_named(document.first), "bold"))
        page.line(page.text("second  ", "dim"), page.text(_named(document.second), "bold"))
        if (base := document.baseline) is not None:
            page.say(
                f"The first run is the typical one of {count(base.runs, 'run')}, whose median is "
                f"{took(base.median_runtime_s)}.",
                "dim",
            )
        page.blank()
        page.say(escaped(words.headline(document), TEXT_MAX), "bold")
        one, two = document.first, document.second
        seconds = one.executor_seconds, two.executor_seconds
        rows = [
            ("run time", took(one.runtime_s), took(two.runtime_s), change(document.change.runtime)),
            ("executor-seconds", *map(whole, seconds), _share(*seconds)),
            ("bill", words.cost(document, one.cost), words.cost(document, two.cost), change(document.change.cost_share)),
            ("executors at once", number(one.peak_executors), number(two.peak_executors), ""),
            ("executors lost", number(one.lost_executors), number(two.lost_executors), ""),
        ]  # fmt: skip
        page.blank()
        page.grid(("", "first", "second", ""), rows, (False, True, True, True))

    def causes(self) -> None:
        """Why, the largest first."""
        page, document = self.page, self.document
        large, rest, many = words.large_causes(document)
        longer = "longer" if document.change.runtime_s >= 0 else "less long"
        page.title(f"Why it took {longer}", "seconds of the run time; they sum to the difference")
        for one in large:
            self._cause(one)
        if many:
            page.say(f"  {words.signed_time(rest):>9}  {count(many, 'smaller cause')}", "dim")

    def _cause(self, one: CauseEntry) -> None:
        page = self.page
        share = "" if one.share is None or one.share < 0 else percent(one.share)
        lead = page.text(
            f"  {words.signed_time(one.runtime_s):>9} {share:>5}  ", "bad" if one.runtime_s > 0 else "good"
        )
        page.lines(list(page.hanging(lead, page.text(escaped(words.titled(one), TEXT_MAX), "bold"))))
        if (one.share or 0.0) < DETAILED:
            return
        blank = page.text(" " * len(lead.plain))
        parts = [
            f"{part.name} (stage {_ids(part.first, part.second)}) {words.signed_time(part.runtime_s)}"
            for part in one.stages[:2]
            if part.name
        ]
        limits = [f"{words.limit(detail)} {words.signed_time(seconds)}" for detail, seconds in one.details.items()]
        lines = [", ".join(parts), ", ".join(limits) if len(limits) > 1 else ""]
        lines += map(words.evidence, one.evidence[:EVIDENCE_SHOWN])
        lines += (f"with {words.setting(changed)}" for changed in one.because[:BECAUSE_SHOWN])
        for line in filter(None, lines):
            page.lines(
                list(
                    page.hanging(blank, page.text(escaped(line, TEXT_MAX), "held" if line.startswith("with ") else ""))
                )
            )

    def stalls(self) -> None:
        """When nothing moved in either run."""
        page, rows = self.page, words.stalls(self.document)
        if not rows:
            return
        page.title("Stalls", "tasks waited and nothing moved")
        for which, one in rows[:STALLS_SHOWN]:
            page.bullet("!", f"{which} run: {words.stall(one)}", "bad")
            page.bullet(" ", f"{one.meaning} {one.advice}", "dim")
        page.more(len(rows) - STALLS_SHOWN)

    def bill(self) -> None:
        """Where the bill changed."""
        document = self.document
        if not document.bill:
            return
        priced = document.change.unit != CORE_HOURS
        self.page.title("What the bill changed by", "executor-seconds from request to end, by what they were spent on")
        ledger = {one.cause: one for one in document.ledger}
        rows = []
        for one in document.bill[:BILL_SHOWN]:
            both = ledger.get(one.cause)
            before, after = ("", "") if both is None else (whole(both.before_s), whole(both.after_s))
            cost = [words.signed_cost(document, one.cost)] if priced or both is None else [""]
            rows.append((one.cause, before, after, signed(round(one.executor_seconds)), *cost))
        self.page.grid(("", "first", "second", "change", ""), rows, (False, True, True, True, True))
        self.page.more(len(document.bill) - BILL_SHOWN)

    def stages(self) -> None:
        """Stages whose part of the run time changed most."""
        listed = [one for one in self.document.stages if one.before_s != one.after_s][:STAGES_SHOWN]
        if not listed:
            return
        self.page.title("Stages that changed most", "seconds on the chain of stages that the run waited for")
        rows = [
            (
                _ids(one.first, one.second),
                escaped(one.name, 50),
                "added" if one.first is None else took(one.before_s),
                "gone" if one.second is None else took(one.after_s),
                words.signed_time(one.after_s - one.before_s),
            )
            for one in listed
        ]
        self.page.grid(("stage", "", "first", "second", "change"), rows, (False, False, True, True, True))

    def settings(self) -> None:
        """Settings that differ."""
        conf = self.document.conf
        if not conf:
            return
        self.page.title("Settings that differ")
        for one in conf[:SETTINGS_SHOWN]:
            self.page.bullet("·", escaped(words.setting(one), TEXT_MAX))
        self.page.more(len(conf) - SETTINGS_SHOWN)

    def gates(self) -> None:
        """What failed."""
        if not self.document.gates:
            return
        self.page.title("Gates")
        for one in self.document.gates:
            text = f"{'fails' if one.failed else 'holds'}   {escaped(one.gate)}"
            self.page.bullet("!" if one.failed else "·", text, "bad" if one.failed else "good")

    def notes(self) -> None:
        """What is not known."""
        if self.document.notes:
            self.page.title("Notes")
            for note in self.document.notes:
                self.page.bullet("!", escaped(note, 1000), "held")


def _named(run: ComparedRun) -> str:
    return f"{escaped(run.name, 60)}  {escaped(run.id, 60)}  {escaped(run.log, 120)}"


def _ids(first: int | None, second: int | None) -> str:
    if first is second is None:
        return "none"
    if first == second or second is None or first is None:
        return str(first if first is not None else second)
    return f"{first} → {second}"


def _share(before: float, after: float) -> str:
    return change(after / before - 1 if before else None)
