"""A diff for people: a row for each application, the sums, the gates. It is given the document that ``--json`` prints.

Rows are in the order of what changes most in the measure that matters (money where there are prices, executor-seconds
otherwise); logs without figures come last, with their reasons. Names come from logs and the command line: whatever is
printed is escaped before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from podtide.adapters.text.format import count
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif.figures import UNKNOWN, change, money, number, percent, took

ROWS_SHOWN: Final = 200
SETTINGS_SHOWN: Final = 30
BREACHES_SHOWN: Final = 20
NOTES_SHOWN: Final = 20
NAME_MAX: Final = 32
LOG_MAX: Final = 4_000
COMPARED: Final = "compared"


class DiffView:
    """Prints a diff."""

    def __init__(self, page: Page, document: Mapping[str, Any]) -> None:
        self.page = page
        self.raw = document
        self.currency = None if document["prices"] is None else document["prices"]["currency"]
        self.measure = "executor_seconds" if document["prices"] is None else "cost"

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
        page, raw = self.page, self.raw
        page.line(page.text("base       ", "dim"), page.text(escaped(raw["base"]["text"], 200), "bold"))
        page.line(page.text("candidate  ", "dim"), page.text(escaped(raw["candidate"]["text"], 200), "bold"))
        if raw["defaults_only"]:
            page.say(
                "Defaults only: versions are compared by their defaults, all behaviour is that of Spark 4.3.0.", "dim"
            )

    def settings(self) -> None:
        """What is in force on either side, where it differs, over all applications."""
        found: dict[tuple[str, str, str], int] = {}
        compared = [one for one in self.raw["applications"] if "settings" in one]
        for one in compared:
            for key, (base, candidate) in one["settings"].items():
                change_ = (key, _set(base), _set(candidate))
                found[change_] = found.get(change_, 0) + 1
        if not found:
            if compared:
                self.page.say("No setting that decides differs between the two.", "dim")
            return
        page = self.page
        page.title("Settings that differ")
        rows = [
            [
                page.text(escaped(key), "dim"),
                page.text(escaped(base, 60)),
                page.text("→"),
                page.text(escaped(candidate, 60)),
                page.text("" if times == len(compared) else f"in {times} of {len(compared)}", "dim"),
            ]
            for (key, base, candidate), times in list(found.items())[:SETTINGS_SHOWN]
        ]
        page.lines(page.table(rows, (False, False, False, False, False)))
        if (more := len(found) - SETTINGS_SHOWN) > 0:
            page.say(f"  and {more} more", "dim")

    def table(self) -> None:
        """The applications and the sums."""
        page, raw = self.page, self.raw
        compared = [one for one in raw["applications"] if one["status"] == COMPARED]
        if not compared:
            return
        page.title(
            count(len(compared), "application"),
            "means over the seeds; ± is the model's own error, decisions are those that differ",
        )
        priced = self.measure == "cost"
        heads = ["", "run time", "", "executor-s", "", *(["cost", ""] if priced else []), "±", "decisions"]
        rows = [[page.text(head, "dim") for head in heads]]
        listed = sorted(compared, key=lambda one: -abs(one["change"][self.measure]["share"] or 0.0))
        names = [one["app"]["name"] for one in compared]
        rows += [
            self._row(one, priced, by_log=names.count(one["app"]["name"]) > 1 or not one["app"]["name"])
            for one in listed[:ROWS_SHOWN]
        ]
        if (more := len(listed) - ROWS_SHOWN) > 0:
            rows.append([page.text(f"and {more:,} more", "dim"), *(Text() for _ in heads[1:])])
        if len(compared) > 1:
            totals = raw["totals"]
            shares = {name: {"share": value} for name, value in totals["change"].items()}
            cells = self._cells("in all", totals["candidate"], shares, priced, "bold")
            rows.append([*cells, Text(), page.text(f"{totals['decisions_differing']:,}", "bold")])
        page.lines(page.table(rows, (False, *(True for _ in heads[1:]))))

    def _row(self, one: Mapping[str, Any], priced: bool, *, by_log: bool) -> list[Text]:
        """``by_log``: its name does not tell it from others."""
        page = self.page
        name = _ending(escaped(one["log"], LOG_MAX)) if by_log else escaped(one["app"]["name"], NAME_MAX)
        cells = self._cells(name, one["candidate"], one["change"], priced, "")
        error = max(abs(one["error"]["runtime"]), abs(one["error"]["executor_seconds"]))
        decisions = one["decisions"]
        return [
            *cells,
            page.text(percent(error), "dim"),
            page.text(f"{decisions['differing']:,} of {decisions['base'] + decisions['candidate']:,}"),
        ]

    def _cells(
        self, name: str, takes: Mapping[str, float], changes: Mapping[str, Any], priced: bool, style: str
    ) -> list[Text]:
        page = self.page

        def changed(metric: str) -> Text:
            return page.text(change(changes[metric]["share"]), style or "dim")

        cells = [
            page.text(name, style),
            page.text(took(takes["runtime"]), style),
            changed("runtime"),
            page.text(number(round(takes["executor_seconds"])), style),
            changed("executor_seconds"),
        ]
        if priced:
            cells += [page.text(money(takes["cost"], self.currency), style), changed("cost")]
        return cells

    def bad(self) -> None:
        """Logs without figures."""
        rows = [one for one in self.raw["applications"] if one["status"] != COMPARED]
        if not rows:
            return
        self.page.title(f"{count(len(rows), 'log')} without figures")
        for one in rows[:ROWS_SHOWN]:
            text = f"{escaped(one['log'], 100)}: {one['status']}: {escaped(one['why'] or '', 500)}"
            self.page.bullet("!", text, "bad")
        if (more := len(rows) - ROWS_SHOWN) > 0:
            self.page.say(f"  and {more:,} more", "dim")

    def gates(self) -> None:
        """What failed, and by what."""
        page, gates = self.page, self.raw["gates"]
        if not gates:
            return
        page.title("Gates")
        for gate in gates:
            if not gate["failed"]:
                page.bullet("·", f"holds   {escaped(gate['gate'])}", "good")
                continue
            page.bullet("!", f"fails   {escaped(gate['gate'])}", "bad")
            for by in gate["by"][:BREACHES_SHOWN]:
                page.lines(list(page.hanging(page.text("        "), page.text(self._breach(gate["metric"], by)))))
            if (more := len(gate["by"]) - BREACHES_SHOWN) > 0:
                page.say(f"        and {more:,} more", "dim")

    def _breach(self, metric: str, by: Mapping[str, Any]) -> str:
        where = "in all" if by["log"] is None else escaped(by["log"], 100)
        if by["why"] is not None:
            return f"{where}: {escaped(by['why'], 300)}"
        return f"{where}: {self._told(metric, by['base'])} → {self._told(metric, by['candidate'])} ({change(by['change'])})"

    def _told(self, metric: str, value: float | None) -> str:
        if value is None:
            return UNKNOWN
        if metric in ("runtime", "waited"):
            return took(value)
        return money(value, self.currency) if metric == "cost" else number(value)

    def notes(self) -> None:
        """What is odd, each once."""
        notes: Sequence[str] = self.raw["notes"]
        told = dict.fromkeys(
            [
                *(note for note in notes if not self.raw["defaults_only"] or "defaults only" not in note),
                *(note["note"] for one in self.raw["applications"] for note in one.get("notes", ())),
            ]
        )
        if not told:
            return
        self.page.title("Notes")
        for note in list(told)[:NOTES_SHOWN]:
            self.page.bullet("·", escaped(note, 1000))
        if (more := len(told) - NOTES_SHOWN) > 0:
            self.page.say(f"  and {count(more, 'more note')}", "dim")


def _ending(log: str) -> str:
    """The end of a path, where logs of a corpus differ."""
    return log if len(log) <= NAME_MAX else f"…{log[1 - NAME_MAX :]}"


def _set(text: str | None) -> str:
    return "unset" if text is None else text
