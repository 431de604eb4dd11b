"""A fleet in figures: totals, where the bill went, what would be saved by what, and what could not be answered.

Rows stream through ``FleetSummary.add``; what is kept does not follow their number. Runs of one application (by its name, as
nightly jobs have it) are summed in a private temporary database, reasons in a bounded table: reasons are compared
without their numbers, and shown as first met. Totals are over the rows that are ok, since only those have a bill.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from typing import Any, Final, Self

from podtide.adapters.fleet.memory import MemoryTotals
from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

SCHEMA: Final = 1

APPLICATIONS: Final = 10
REASONS: Final = 10
"""How many are listed."""

REASONS_MAX: Final = 2_000
"""Different reasons that are counted; the rest counts as ``OTHERS``."""

OTHERS: Final = "other reasons"

TOTALS: Final = (
    "runtime_s",
    "executor_seconds",
    "billed_seconds",
    "filled_seconds",
    "core_hours",
    "gb_hours",
    "cost",
    "waste_s",
    "waited_s",
    "saving_billed_seconds",
    "saving_core_hours",
    "saving_cost",
)
"""Columns that are summed over a fleet."""

_TABLES: Final = """
CREATE TABLE applications (
  name TEXT NOT NULL, best TEXT NOT NULL, runs INTEGER NOT NULL, cost REAL NOT NULL, core_hours REAL NOT NULL,
  saving_cost REAL NOT NULL, saving_core_hours REAL NOT NULL, PRIMARY KEY (name, best)) WITHOUT ROWID;
"""

_ADD: Final = """
INSERT INTO applications VALUES (?, ?, 1, ?, ?, ?, ?) ON CONFLICT (name, best) DO UPDATE SET
  runs = runs + 1, cost = cost + excluded.cost, core_hours = core_hours + excluded.core_hours,
  saving_cost = saving_cost + excluded.saving_cost, saving_core_hours = saving_core_hours + excluded.saving_core_hours
"""

_TOP: Final = """
SELECT name, sum(runs), sum(cost), sum(core_hours), sum(saving_cost), sum(saving_core_hours) FROM applications
GROUP BY name HAVING sum({by}) > 0 ORDER BY sum({by}) DESC, name LIMIT ?
"""

_SETTINGS: Final = """
SELECT best, sum(runs), sum(saving_cost), sum(saving_core_hours) FROM applications
WHERE best <> '' GROUP BY best ORDER BY sum({by}) DESC, best LIMIT ?
"""

_OF_ONE: Final = "SELECT best FROM applications WHERE name = ? AND best <> '' ORDER BY {by} DESC, best LIMIT 1"

_NUMBERS: Final = re.compile(r"[+−-]?\d[\d.,:]*")


class FleetSummary:
    """See the module. A context manager. ``priced``: savings are given in money."""

    def __init__(self, *, priced: bool, currency: str | None = None) -> None:
        self.priced = priced
        self.currency = currency
        self.counts: Counter[RowStatus] = Counter()
        self.totals = dict.fromkeys(TOTALS, 0.0)
        self.ledger = dict.fromkeys((cause.value for cause in SpendCause), 0.0)
        self.waiting = dict.fromkeys((limit.value for limit in Limit), 0.0)
        self.memory = MemoryTotals()
        self.seconds = 0.0
        self._reasons: dict[tuple[RowStatus, str], tuple[str, int]] = {}
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.executescript(_TABLES)

    def add(self, row: FleetRow) -> None:
        """Count a row."""
        self.counts[row.status] += 1
        self.seconds += row.seconds
        if row.status is RowStatus.SKIPPED:
            return
        if row.status is not RowStatus.OK:
            self._because(row.status, row.reason or "")
            return
        for name in TOTALS:
            value = getattr(row, name)
            if value is not None:
                self.totals[name] += value
        self.memory.add(row)
        for cause, spent in row.ledger.items():
            self.ledger[cause] = self.ledger.get(cause, 0.0) + spent
        for limit, waited in row.waiting.items():
            self.waiting[limit] = self.waiting.get(limit, 0.0) + waited
        named = row.app_name or row.app_id or row.log
        figures = (row.cost, row.core_hours, row.saving_cost, row.saving_core_hours)
        self._base.execute(_ADD, (named, row.best or "", *(value or 0.0 for value in figures)))

    def applications(self, most: int = APPLICATIONS) -> list[dict[str, Any]]:
        """Those with the largest saving, first."""
        found = []
        by = self._by
        for name, runs, cost, core_hours, saved_cost, saved_hours in self._base.execute(_TOP.format(by=by), (most,)):
            best = self._base.execute(_OF_ONE.format(by=by), (name,)).fetchone()
            found.append(
                {
                    "name": name, "runs": runs, "cost": round(cost, 6) if self.priced else None,
                    "core_hours": round(core_hours, 6), "saving_cost": round(saved_cost, 6) if self.priced else None,
                    "saving_core_hours": round(saved_hours, 6), "best": best[0] if best else None,
                }
            )  # fmt: skip
        return found

    def settings(self, most: int = APPLICATIONS) -> list[dict[str, Any]]:
        """The settings that are the best of some log, those that save the most first."""
        return [
            {
                "name": name, "logs": runs, "saving_cost": round(cost, 6) if self.priced else None,
                "saving_core_hours": round(hours, 6),
            }
            for name, runs, cost, hours in self._base.execute(_SETTINGS.format(by=self._by), (most,))
        ]  # fmt: skip

    def reasons(self, most: int = REASONS) -> list[dict[str, Any]]:
        """Why rows are not ok, the commonest first."""
        counted = sorted(self._reasons.items(), key=lambda one: (-one[1][1], one[0][0].value, one[0][1]))
        return [
            {"status": status.value, "reason": shown, "logs": count} for (status, _), (shown, count) in counted[:most]
        ]

    def document(self) -> dict[str, Any]:
        """The summary as ``--json`` prints it."""
        totals = {name: round(total, 3) for name, total in self.totals.items() if self.priced or "cost" not in name}
        return {
            "schema": SCHEMA,
            "command": "fleet",
            "logs": {status.value: self.counts[status] for status in RowStatus},
            "currency": self.currency if self.priced else None,
            "totals": totals,
            "ledger": {cause: round(spent, 3) for cause, spent in self.ledger.items()},
            "waiting": {limit: round(waited, 3) for limit, waited in self.waiting.items()},
            "memory": self.memory.document(priced=self.priced),
            "applications": self.applications(),
            "settings": self.settings(),
            "reasons": self.reasons(),
            "seconds": round(self.seconds, 3),
        }

    def close(self) -> None:
        """Forget everything."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _by(self) -> str:
        return "saving_cost" if self.priced else "saving_core_hours"

    def _because(self, status: RowStatus, reason: str) -> None:
        key = status, _NUMBERS.sub("#", reason)
        if key not in self._reasons and len(self._reasons) >= REASONS_MAX:
            key, reason = (status, OTHERS), OTHERS
        shown, count = self._reasons.get(key, (reason, 0))
        self._reasons[key] = shown, count + 1
