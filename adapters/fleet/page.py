"""The report of a fleet: one HTML file that needs nothing else, in the style of the other reports (``views.report``).

It says where the money goes, by application and by cause of waste, and what to do about it: actions in the order of
what is sure of their savings (``fleet.runs``). Each application that the page names has a page of its own *in the
same file*, shown when its row is opened (a fragment of the address, so links, the browser's back button and printing
work, and no script is needed). One file is there whole or not at all; a folder of pages could be half written, or
hold pages of an older fleet.

Its size does not follow the number of logs: ``SPENT`` applications that take the most and the ``ACTIONS`` with the
largest sure savings have a row and a page, the others are summed; of a page's runs ``RUNS`` are listed. The table
(``--out``) has all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.fleet.runs import (
    DRIVER,
    FREE,
    UNUSED,
    FleetAction,
    FleetRun,
    FleetRuns,
    MemoryAction,
    SpentApplication,
)
from podtide.adapters.text.format import count, moment
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.report.bars import Amounts, Bar, stacked
from podtide.adapters.views.report.markup import breakable, element, name, prose
from podtide.adapters.views.report.page import framed
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS, WORK, money, number, percent, share_of, took

SPENT: Final = 25
ACTIONS: Final = 40
MEMORY: Final = 15
"""Rows of the lists: applications, actions, other memory."""

BARS: Final = 12
"""Applications whose bill is drawn."""

RUNS: Final = 10
SETTINGS: Final = 4
"""Rows of an application's page: its runs that took the most, its settings."""

NAME: Final = 120
KEYS: Final = 12
"""Characters of a name, and settings of an action, that are shown."""

PARTS: Final[Mapping[str, str]] = {
    **{cause: text for cause, text in CAUSES.items() if cause == WORK},
    FREE: "Slots of running executors that had no task.",
    **{cause: text for cause, text in CAUSES.items() if cause != WORK},
    UNUSED: "What of whole nodes no executor took while one stood on them.",
    DRIVER: "The driver, or on YARN in client mode the application master.",
}
WORK_NOTE: Final = "Tasks whose result counted filled it, slot by slot."


class ApplicationPage(NamedTuple):
    """The page of an application. ``anchor``: its address within the file."""

    anchor: str
    spent: SpentApplication
    actions: Sequence[FleetAction]
    memory: Sequence[MemoryAction]
    runs: Sequence[FleetRun]


class FleetPage:
    """What the template shows. ``document``: the summary; ``runs``: the runs behind it."""

    def __init__(self, document: Mapping[str, Any], runs: FleetRuns) -> None:
        self.document = document
        self.currency: str | None = document["currency"]
        self._runs = runs
        self.whole = runs.whole()
        self.applications = runs.applications()
        self.spent = runs.costliest(SPENT)
        self.actions = runs.actions(ACTIONS)
        self.memory = runs.memory(MEMORY)
        self.sure = runs.sure()
        named = [
            *(one.name for one in self.spent), *(one.name for one in self.actions), *(one.name for one in self.memory),
        ]  # fmt: skip
        self._anchors = {one: f"app-{at}" for at, one in enumerate(dict.fromkeys(named), 1)}

    @cached_property
    def pages(self) -> list[ApplicationPage]:
        """A page for each application that is named."""
        runs = self._runs
        return [
            ApplicationPage(
                anchor, runs.spent(one), runs.actions_of(one, SETTINGS), runs.memory_of(one, 2), runs.runs_of(one, RUNS)
            )
            for one, anchor in self._anchors.items()
        ]

    @property
    def unit(self) -> str:
        """What amounts are, as the head of a column."""
        return "Core-hours" if self.currency is None else "Money"

    def amount(self, value: float) -> str:
        """An amount in words."""
        return f"{_hours(value)} core-hours" if self.currency is None else money(value, self.currency, scale=value)

    def short(self, value: float) -> str:
        """An amount in a column."""
        return _hours(value) if self.currency is None else self.amount(value)

    def share(self, value: float) -> str:
        """Of what the fleet took."""
        return percent(share_of(value, self.whole.amount))

    def link(self, application: str) -> Markup:
        """An application's name, which opens its page."""
        return element("a", name(application, NAME), href=f"#{self._anchors[application]}")

    def headline(self) -> str:
        """The fleet in a sentence or two."""
        logs = self.document["logs"]
        many, least = self.sure
        who = f"{count(self.whole.runs, 'run')} of {count(self.applications, 'application')}"
        took_all = f"{who} took {self.amount(self.whole.amount)}"
        waste = share_of(self.whole.idle, self.whole.amount) or 0.0
        first = f"{took_all}; {percent(waste)} of it did no work."
        if not many:
            return f"{first} No setting that was tried saves anything for sure."
        saved = f"{self.amount(least)} ({self.share(least)}) can be saved for sure, with one setting in each of "
        silent = sum(logs[kind] for kind in ("refused", "unreadable", "failed"))
        left = (
            f" {count(silent, 'log')} could not be answered and {'is' if silent == 1 else 'are'} not in it."
            if silent
            else ""
        )
        return f"{first} {saved}{count(many, 'application')}.{left}"

    def key_figures(self) -> list[tuple[str, str, str]]:
        """The figures at the top."""
        totals, (many, least) = self.document["totals"], self.sure
        waste = self.whole.idle
        title = "Core-hours" if self.currency is None else "Bill"
        return [
            (title, self.short(self.whole.amount), f"{count(self.whole.runs, 'run')}, as simulated"),
            ("Did no work", self.short(waste), self.share(waste)),
            ("Sure savings", self.short(least), f"{self.share(least)}, {count(many, 'application')}"),
            ("Applications", number(self.applications), f"{number(round(totals['core_hours']))} core-hours"),
            ("Tasks waited", took(totals["waited_s"]), "for executors"),
        ]

    def bill(self) -> Amounts:
        """The fleet's amount by cause."""
        bars = [Bar("all applications", self._parts(self.whole), self.amount(self.whole.amount))]
        caption = f"{self.unit} by cause, of all applications."
        return Amounts(
            "The bill", "The bill by cause", caption, "Cause", bars, bars, PARTS, self.meanings(), self.short
        )

    def bars(self) -> Markup:
        """The amounts of the applications that took the most, by cause."""
        drawn = [Bar(one.name, self._parts(one), self.amount(one.amount)) for one in self.spent[:BARS]]
        return stacked(drawn, PARTS, self.short, "The bill by application and cause")

    def spent_rows(self) -> list[tuple[SpentApplication, str]]:
        """The applications that took the most, each with what is sure of its action; "" without one."""
        sure = {one.name: self.short(one.least) for one in self.actions}
        return [(one, sure.get(one.name, "")) for one in self.spent]

    def idle(self, spent: SpentApplication) -> str:
        """The share of an application's amount that did no work."""
        return percent(share_of(spent.idle, spent.amount))

    def wasted(self, spent: SpentApplication, most: int = 3) -> str:
        """The largest causes of waste in words."""
        causes = sorted(
            ((part, one) for one, part in spent.parts.items() if part > 0 and one not in (WORK, DRIVER)), reverse=True
        )
        return ", ".join(f"{one} {percent(share_of(part, spent.amount))}" for part, one in causes[:most])

    def others(self) -> str:
        """What is not in the list of applications, in words; "" where all are."""
        many = self.applications - len(self.spent)
        left = self.whole.amount - sum(one.amount for one in self.spent)
        if many <= 0:
            return ""
        return f"{count(many, 'more application')} took {self.amount(left)} ({self.share(left)}). {self.elsewhere()}"

    def other_actions(self) -> str:
        """What is not in the list of actions, in words; "" where all are."""
        many, least = self.sure
        more = many - len(self.actions)
        if more <= 0:
            return ""
        left = self.amount(least - sum(one.least for one in self.actions))
        return f"{count(more, 'more action')} would save {left} for sure. {self.elsewhere()}"

    def elsewhere(self) -> str:
        """Where every run is."""
        return f"The table {escaped(self.document['out'], 200)} has every run."

    def settings(self, action: FleetAction | MemoryAction) -> list[Markup]:
        """What to set, a line each."""
        lines = [f"{key}={value}" if value is not None else f"{key}: unset" for key, value in action.conf.items()]
        if isinstance(action, FleetAction) and action.static is not None and not lines:
            lines = [f"a fixed count of {count(action.static, 'executor')}"]
        shown = [breakable(one, 200) for one in lines[:KEYS]]
        return [*shown, prose(f"and {len(lines) - KEYS} more")] if len(lines) > KEYS else shown

    def paste(self, action: FleetAction) -> str:
        """Lines for spark-defaults.conf; what has to be unset is a comment."""
        return "\n".join(
            f"{key} {escaped(value, 400)}" if value is not None else f"# {key}: leave out"
            for key, value in action.conf.items()
        )

    def applies(self, action: FleetAction | MemoryAction, of_runs: int) -> str:
        """To how many of an application's runs it applies."""
        return count(of_runs, "run") if action.runs == of_runs else f"{action.runs:,} of {count(of_runs, 'run')}"

    def memory_saving(self, saving: float) -> str:
        """What other memory saves, in words."""
        amount = f"{_hours(abs(saving))} GB-hours" if self.currency is None else self.amount(abs(saving))
        return amount if saving >= 0 else f"takes {amount} more"

    def detail(self, page: ApplicationPage) -> Amounts:
        """An application's amount by cause."""
        bars = [Bar(page.spent.name, self._parts(page.spent), self.amount(page.spent.amount))]
        return Amounts(
            "", "The bill by cause", f"{self.unit} by cause.", "Cause", bars, bars, PARTS, self.meanings(), self.short
        )

    def waited(self, page: ApplicationPage) -> list[tuple[str, ...]]:
        """What its tasks waited for."""
        whole = page.spent.waited_s
        kept = sorted(((at, limit) for limit, at in page.spent.waits.items() if at > 0), reverse=True)
        return [(limit, took(at), percent(share_of(at, whole)), *LIMITS.get(limit, ("", ""))) for at, limit in kept[:6]]

    def run_rows(self, page: ApplicationPage) -> list[tuple[Markup | str, ...]]:
        """Its runs that took the most."""
        return [
            (
                prose(one.log, 300),
                "" if one.started_ms is None else moment(one.started_ms),
                took(one.runtime_s),
                self.short(one.amount),
                prose(one.best, 80) if one.best else "",
                self.short(one.saving) if one.best else "",
                self.short(one.least) if one.best else "",
            )
            for one in page.runs
        ]

    def reasons(self) -> list[tuple[Markup | str, ...]]:
        """Why logs were not answered."""
        return [
            (number(one["logs"]), prose(f"{one['status']}: {one['reason'] or 'no reason given'}", 300))
            for one in self.document["reasons"]
        ]

    def meanings(self) -> Mapping[str, str]:
        """What each cause means."""
        return {**PARTS, WORK: WORK_NOTE}

    @staticmethod
    def _parts(spent: SpentApplication) -> Mapping[str, float]:
        return spent.parts


def render(document: Mapping[str, Any], runs: FleetRuns) -> str:
    """The page as a text."""
    page = FleetPage(document, runs)
    title = f"{count(page.whole.runs, 'run')} of {count(page.applications, 'application')}"
    return framed("fleet.html", "fleet", title, page=page, document=document)


def _hours(value: float) -> str:
    """Core-hours; as many digits as small ones need."""
    return number(value) if value >= 0.995 or value <= 0 else f"{value:.2g}"
