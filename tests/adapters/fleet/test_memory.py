"""Less and more memory are summed apart, and what was spilled and lost is counted."""

from __future__ import annotations

from podtide.adapters.fleet.memory import MemoryTotals
from podtide.adapters.fleet.rows import FleetRow, RowStatus


def row(**more: object) -> FleetRow:
    return FleetRow(log="a", status=RowStatus.OK, **more)  # type: ignore[arg-type]  # a test's own fields


def test_sums() -> None:
    totals = MemoryTotals()
    totals.add(row(saving_memory_gb_hours=3.0, saving_memory_cost=0.3))
    totals.add(row(saving_memory_gb_hours=1.5, saving_memory_cost=0.15))
    totals.add(row(saving_memory_gb_hours=-2.0, saving_memory_cost=-0.2, memory_spilled_bytes=7, memory_losses=0))
    totals.add(row(memory_spilled_bytes=5, memory_losses=2))
    totals.add(row())
    assert totals.document(priced=True) == {
        "spilled_logs": 2,
        "spilled_bytes": 12,
        "short_logs": 1,
        "less": {"logs": 2, "gb_hours": 4.5, "cost": 0.45},
        "more": {"logs": 1, "gb_hours": 2.0, "cost": 0.2},
    }
    assert totals.document(priced=False)["less"]["cost"] is None
