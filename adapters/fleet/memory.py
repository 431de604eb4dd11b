"""What a fleet's logs say of memory, summed up: what was spilled, what ended for want of it, what other memory would cost.

A recommendation takes less memory or more; the two are summed apart, since what less would save in one application is no
money for another that needs more.
"""

from __future__ import annotations

from typing import Any

from podtide.adapters.fleet.rows import FleetRow


class MemoryTotals:
    """Sums over rows that are ok. GB-hours and money are those of the rows' bills, as simulated."""

    def __init__(self) -> None:
        self.spilled_logs = 0
        self.spilled_bytes = 0
        self.short_logs = 0
        self.less = [0, 0.0, 0.0]
        self.more = [0, 0.0, 0.0]

    def add(self, row: FleetRow) -> None:
        """Count a row."""
        if row.memory_spilled_bytes:
            self.spilled_logs += 1
            self.spilled_bytes += row.memory_spilled_bytes
        self.short_logs += bool(row.memory_losses)
        saved = row.saving_memory_gb_hours
        if saved:
            sums = self.less if saved > 0 else self.more
            sums[0] += 1
            sums[1] += abs(saved)
            sums[2] += abs(row.saving_memory_cost or 0.0)

    def document(self, *, priced: bool) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "spilled_logs": self.spilled_logs,
            "spilled_bytes": self.spilled_bytes,
            "short_logs": self.short_logs,
            "less": _sums(self.less, priced=priced),
            "more": _sums(self.more, priced=priced),
        }


def _sums(sums: list[float], *, priced: bool) -> dict[str, Any]:
    logs, hours, cost = sums
    return {"logs": int(logs), "gb_hours": round(hours, 6), "cost": round(cost, 6) if priced else None}
