"""The runs of a fleet in a private temporary database, and the questions that a summary and a report ask of them.

Only rows that are ok come here, since only those have a bill. What is kept of a row is its figures, not the row;
SQLite keeps them in a file without a name, so memory does not follow their number. Runs of one application are those
of one name, as nightly jobs have it.

*Amounts* are money where there are prices and core-hours otherwise. The amount of a cause is the amount of the run's
executors times the share of their bill that the ledger gives to the cause; ``FREE`` is what stood free beside running
tasks, slot by slot. With what the prices' rules add (``whatif.bill``) the parts sum to the amount.

An *action* is a setting for an application: the same settings with the same values, the best of some of its runs. Its
savings are those of these runs alone, since only for them it was simulated and held; of the actions of one
application, which cannot be taken together, the one with the largest sure saving counts. What is *sure* of a saving
is what nine of ten runs save at least.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from podtide.adapters.fleet.rows import FleetRow
from podtide.domain.base.units import Millis
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

FREE: Final = "slots free beside running tasks"
"""The part of running executors that no task filled."""

UNUSED: Final = "nodes beside their executors"
DRIVER: Final = "driver"
"""Of a bill with whole nodes, and with the driver."""

PARTS: Final = (*(cause.value for cause in SpendCause), FREE, UNUSED, DRIVER)
LIMITS: Final = tuple(limit.value for limit in Limit)

_CAUSE: Final = tuple(f"part_{at}" for at in range(len(PARTS)))
_WAIT: Final = tuple(f"wait_{at}" for at in range(len(LIMITS)))
_FIGURES: Final = (
    "amount", "cost", "core_hours", "saving_cost", "saving_core_hours", "saving", "least", "runtime", "waited", *_CAUSE,
    *_WAIT,
)  # fmt: skip
_TEXTS: Final = ("name", "log", "best", "conf", "memory_conf", "memory_risk")

_TABLE: Final = f"""
CREATE TABLE runs (
  started INTEGER, static INTEGER, memory_saving REAL, {", ".join(f"{one} TEXT NOT NULL" for one in _TEXTS)},
  {", ".join(f"{one} REAL NOT NULL" for one in _FIGURES)});
"""
_COLUMNS: Final = ("started", "static", "memory_saving", *_TEXTS, *_FIGURES)
_ADD: Final = f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our names
_SUMS: Final = ", ".join(f"sum({one})" for one in ("amount", "waited", *_CAUSE, *_WAIT))

_SAVING: Final = """
SELECT name, count(*), sum(cost), sum(core_hours), sum(saving_cost), sum(saving_core_hours), sum(least) FROM runs
GROUP BY name HAVING sum(saving) > 0 ORDER BY sum(saving) DESC, name LIMIT ?
"""
_OF_ONE: Final = """
SELECT best FROM runs WHERE name = ? AND best <> '' GROUP BY best ORDER BY sum(saving) DESC, best LIMIT 1
"""
_SETTINGS: Final = """
SELECT best, count(*), sum(saving_cost), sum(saving_core_hours) FROM runs
WHERE best <> '' GROUP BY best ORDER BY sum(saving) DESC, best LIMIT ?
"""
_ACTIONS: Final = """
WITH settings AS (
  SELECT name, best, conf, static, count(*) AS runs, sum(saving) AS saving, sum(least) AS least, sum(amount) AS amount
  FROM runs WHERE best <> '' AND least > 0 GROUP BY name, best, conf, static),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY name ORDER BY least DESC, best, conf) AS place FROM settings)
SELECT name, best, conf, static, runs, (SELECT count(*) FROM runs AS all_runs WHERE all_runs.name = ranked.name), amount,
  saving, least FROM ranked
"""
_MEMORY: Final = """
SELECT name, memory_conf, memory_risk, count(*), sum(memory_saving) FROM runs WHERE memory_conf <> ''
GROUP BY name, memory_conf, memory_risk
"""


class SpentApplication(NamedTuple):
    """What the runs of an application took. ``parts``: the amount by cause; ``waits``: seconds of waiting by limit."""

    name: str
    runs: int
    amount: float
    waited_s: float
    parts: Mapping[str, float]
    waits: Mapping[str, float]

    @property
    def idle(self) -> float:
        """What neither tasks whose result counted nor the driver took."""
        return self.amount - self.parts[SpendCause.RUNNING.value] - self.parts[DRIVER]


class FleetAction(NamedTuple):
    """A setting for an application, the best of ``runs`` of its ``of_runs``; ``amount``: what these runs took as they ran,
    ``saving``: what they would save of it, ``least``: what is sure of that. ``conf``: what to set (None: unset), ``static``:
    its static count."""

    name: str
    best: str
    conf: Mapping[str, str | None]
    static: int | None
    runs: int
    of_runs: int
    amount: float
    saving: float
    least: float


class MemoryAction(NamedTuple):
    """Other memory for an application. ``saving``: of the amount, below 0 where it takes more; it has no interval."""

    name: str
    conf: Mapping[str, str | None]
    risk: str
    runs: int
    saving: float


class FleetRun(NamedTuple):
    """A run of an application."""

    log: str
    started_ms: Millis | None
    runtime_s: float
    amount: float
    best: str
    saving: float
    least: float


class FleetRuns:
    """See the module. ``priced``: amounts are money."""

    def __init__(self, *, priced: bool) -> None:
        self.priced = priced
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.executescript(_TABLE)
        self._indexed = False

    def add(self, row: FleetRow) -> None:
        """Take a row that is ok."""
        amount = (row.cost if self.priced else row.core_hours) or 0.0
        saving = (row.saving_cost if self.priced else row.saving_core_hours) or 0.0
        least = (row.saving_least_cost if self.priced else row.saving_least_core_hours) or 0.0
        memory = row.saving_memory_cost if self.priced else row.saving_memory_gb_hours
        whole = sum(row.ledger.values())
        spent = dict(row.ledger)
        if row.filled_seconds is not None and whole > 0:
            running = spent.get(SpendCause.RUNNING.value, 0.0)
            spent[FREE] = max(0.0, running - row.filled_seconds)
            spent[SpendCause.RUNNING.value] = running - spent[FREE]
        beside = {UNUSED: row.cost_unused or 0.0, DRIVER: row.cost_driver or 0.0} if self.priced else {}
        each = (amount - sum(beside.values())) / whole if whole > 0 else 0.0
        parts = [beside.get(part, each * spent.get(part, 0.0)) for part in PARTS]
        waits = [row.waiting.get(limit, 0.0) for limit in LIMITS]
        texts = (
            row.app_name or row.app_id or row.log, row.log, row.best or "", _text(row.best_conf), _text(row.memory_conf),
            row.memory_risk or "",
        )  # fmt: skip
        figures = (
            amount, row.cost or 0.0, row.core_hours or 0.0, row.saving_cost or 0.0, row.saving_core_hours or 0.0, saving,
            least, row.runtime_s or 0.0, row.waited_s or 0.0, *parts, *waits,
        )  # fmt: skip
        self._base.execute(_ADD, (row.started_ms, row.best_static, memory, *texts, *figures))

    def savings(self, most: int) -> list[dict[str, Any]]:
        """The applications with the largest saving, as the JSON document has them."""
        found = []
        for name, runs, cost, core_hours, saved_cost, saved_hours, least in self._rows(_SAVING, most):
            best = self._rows(_OF_ONE, name)
            found.append(
                {
                    "name": name, "runs": runs, "cost": self._money(cost), "core_hours": round(core_hours, 6),
                    "saving_cost": self._money(saved_cost), "saving_core_hours": round(saved_hours, 6),
                    "saving_least": round(least, 6), "best": best[0][0] if best else None,
                }
            )  # fmt: skip
        return found

    def settings(self, most: int) -> list[dict[str, Any]]:
        """The settings that are the best of some run, those that save the most first, as the JSON document has them."""
        return [
            {"name": name, "logs": runs, "saving_cost": self._money(cost), "saving_core_hours": round(hours, 6)}
            for name, runs, cost, hours in self._rows(_SETTINGS, most)
        ]

    def applications(self) -> int:
        """How many applications there are."""
        return int(self._rows("SELECT count(DISTINCT name) FROM runs")[0][0])

    def costliest(self, most: int) -> list[SpentApplication]:
        """The applications that took the most, first."""
        ordered = f"SELECT name, count(*), {_SUMS} FROM runs GROUP BY name ORDER BY sum(amount) DESC, name LIMIT ?"  # noqa: S608 - our names
        return [_spent(row) for row in self._rows(ordered, most)]

    def spent(self, name: str) -> SpentApplication:
        """What the runs of an application took."""
        return _spent(self._rows(f"SELECT name, count(*), {_SUMS} FROM runs WHERE name = ?", name)[0])  # noqa: S608 - our names

    def whole(self) -> SpentApplication:
        """What all runs took."""
        found = self._rows(f"SELECT '', count(*), {_SUMS} FROM runs")[0]  # noqa: S608 - our names
        return _spent([0.0 if one is None else one for one in found])

    def actions(self, most: int) -> list[FleetAction]:
        """The action of each application, the largest sure saving first."""
        query = f"{_ACTIONS} WHERE place = 1 ORDER BY least DESC, name LIMIT ?"
        return [_action(row) for row in self._rows(query, most)]

    def actions_of(self, name: str, most: int) -> list[FleetAction]:
        """The actions of an application, the largest sure saving first; they cannot be taken together."""
        query = f"{_ACTIONS} WHERE name = ? ORDER BY place LIMIT ?"
        return [_action(row) for row in self._rows(query, name, most)]

    def sure(self) -> tuple[int, float]:
        """How many applications have an action, and the sum of their sure savings."""
        query = f"SELECT count(*), coalesce(sum(least), 0.0) FROM ({_ACTIONS} WHERE place = 1)"  # noqa: S608 - our names
        found = self._rows(query)[0]
        return int(found[0]), float(found[1])

    def memory(self, most: int) -> list[MemoryAction]:
        """Other memory that would do, the largest saving first."""
        query = f"{_MEMORY} HAVING sum(memory_saving) > 0 ORDER BY sum(memory_saving) DESC, name, memory_conf LIMIT ?"
        return [_memory(row) for row in self._rows(query, most)]

    def memory_of(self, name: str, most: int) -> list[MemoryAction]:
        """The memory that is recommended for the runs of an application, that of the most runs first."""
        query = f"SELECT * FROM ({_MEMORY}) WHERE name = ? ORDER BY 4 DESC, memory_conf LIMIT ?"  # noqa: S608 - our names
        return [_memory(row) for row in self._rows(query, name, most)]

    def runs_of(self, name: str, most: int) -> list[FleetRun]:
        """The runs of an application that took the most, first."""
        shown = "log, started, runtime, amount, best, saving, least"
        query = f"SELECT {shown} FROM runs WHERE name = ? ORDER BY amount DESC, log LIMIT ?"  # noqa: S608 - our names
        return [FleetRun(*row) for row in self._rows(query, name, most)]

    def close(self) -> None:
        """Forget everything."""
        self._base.close()

    def _rows(self, query: str, *values: object) -> list[Any]:
        if not self._indexed:  # once all rows are there
            self._base.execute("CREATE INDEX by_name ON runs (name)")
            self._indexed = True
        return self._base.execute(query, values).fetchall()

    def _money(self, cost: float) -> float | None:
        return round(cost, 6) if self.priced else None


def _text(conf: Mapping[str, str | None] | None) -> str:
    return json.dumps(conf, sort_keys=True) if conf else ""


def _conf(text: str) -> dict[str, str | None]:
    return dict(json.loads(text)) if text else {}


def _spent(row: Any) -> SpentApplication:
    name, runs, amount, waited, *sums = row
    parts, waits = sums[: len(PARTS)], sums[len(PARTS) :]
    return SpentApplication(
        name, runs, amount, waited, dict(zip(PARTS, parts, strict=True)), dict(zip(LIMITS, waits, strict=True))
    )


def _action(row: Any) -> FleetAction:
    name, best, conf, *rest = row
    return FleetAction(name, best, _conf(conf), *rest)


def _memory(row: Any) -> MemoryAction:
    name, conf, risk, runs, saving = row
    return MemoryAction(name, _conf(conf), risk, runs, saving or 0.0)
