"""A fleet in figures: totals, where the bill went, what would be saved by what, and what could not be answered.

Rows stream through ``FleetSummary.add``; what is kept in memory does not follow their number. The figures of each run
are in a private temporary database (``fleet.runs``), reasons in a bounded table: reasons are compared without their
numbers, and shown as first met. Totals are over the rows that are ok, since only those have a bill.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, NotRequired, Self, TypedDict

from podtide.adapters.fleet.memory import MemoryTotals
from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.adapters.fleet.runs import FleetAction, FleetRuns
from podtide.adapters.text.documents import schema_name
from podtide.adapters.views.bill import bill_notes
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.whatif.prices import Prices

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
    "saving_least_core_hours",
    "saving_least_cost",
)
"""Columns that are summed over a fleet."""

_NUMBERS: Final = re.compile(r"[+−-]?\d[\d.,:]*")


class FleetActionEntry(TypedDict):
    """What to do for an application. ``saving_least``: what nine of ten real runs save at least; in the currency, or
    core-hours."""

    application: str
    setting: str
    conf: dict[str, str | None]
    static: int | None
    runs: int
    of_runs: int
    saving: float
    saving_least: float


class ReasonEntry(TypedDict):
    """Why logs have no answer."""

    status: str
    reason: str
    logs: int


class FleetDocument(TypedDict):
    """The summary of a fleet. ``logs``: by status; ``totals``, ``ledger``, ``waiting``: sums over the logs with an answer.
    The last four keys are the run's own: the table, the version, logs found twice, rows of an earlier run."""

    schema: str
    logs: dict[str, int]
    currency: str | None
    notes: list[str]
    totals: dict[str, float]
    ledger: dict[str, float]
    waiting: dict[str, float]
    memory: dict[str, Any]
    applications: list[dict[str, Any]]
    actions: list[FleetActionEntry]
    settings: list[dict[str, Any]]
    reasons: list[ReasonEntry]
    took_s: float
    out: NotRequired[str]
    podtide: NotRequired[str]
    duplicates: NotRequired[int]
    reused: NotRequired[int]


class FleetSummary:
    """See the module. A context manager. With ``prices`` savings are given in money."""

    def __init__(self, prices: Prices | None = None) -> None:
        self.priced = prices is not None
        self.currency = None if prices is None else prices.currency
        self.notes = bill_notes(prices)
        self.counts: Counter[RowStatus] = Counter()
        self.totals = dict.fromkeys(TOTALS, 0.0)
        self.ledger = dict.fromkeys((cause.value for cause in SpendCause), 0.0)
        self.waiting = dict.fromkeys((limit.value for limit in Limit), 0.0)
        self.memory = MemoryTotals()
        self.seconds = 0.0
        self._reasons: dict[tuple[RowStatus, str], tuple[str, int]] = {}
        self.runs = FleetRuns(priced=self.priced)

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
        self.runs.add(row)

    def reasons(self, most: int = REASONS) -> list[ReasonEntry]:
        """Why rows are not ok, the commonest first."""
        counted = sorted(self._reasons.items(), key=lambda one: (-one[1][1], one[0][0].value, one[0][1]))
        return [
            {"status": status.value, "reason": shown, "logs": count} for (status, _), (shown, count) in counted[:most]
        ]

    def document(self) -> FleetDocument:
        """The summary as ``--json`` prints it."""
        totals = {name: round(total, 3) for name, total in self.totals.items() if self.priced or "cost" not in name}
        return {
            "schema": schema_name("fleet"),
            "logs": {status.value: self.counts[status] for status in RowStatus},
            "currency": self.currency,
            "notes": list(self.notes),
            "totals": totals,
            "ledger": {cause: round(spent, 3) for cause, spent in self.ledger.items()},
            "waiting": {limit: round(waited, 3) for limit, waited in self.waiting.items()},
            "memory": self.memory.document(priced=self.priced),
            "applications": self.runs.savings(APPLICATIONS),
            "actions": [self._action(one) for one in self.runs.actions(APPLICATIONS)],
            "settings": self.runs.settings(APPLICATIONS),
            "reasons": self.reasons(),
            "took_s": round(self.seconds, 3),
        }

    def close(self) -> None:
        """Forget everything."""
        self.runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _action(one: FleetAction) -> FleetActionEntry:
        return {
            "application": one.name, "setting": one.best, "conf": dict(one.conf), "static": one.static, "runs": one.runs,
            "of_runs": one.of_runs, "saving": round(one.saving, 6), "saving_least": round(one.least, 6),
        }  # fmt: skip

    def _because(self, status: RowStatus, reason: str) -> None:
        key = status, _NUMBERS.sub("#", reason)
        if key not in self._reasons and len(self._reasons) >= REASONS_MAX:
            key, reason = (status, OTHERS), OTHERS
        shown, count = self._reasons.get(key, (reason, 0))
        self._reasons[key] = shown, count + 1
