"""The report of a fleet: what is sure comes first, the figures sum, and strangers' names do no harm, however many."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from podtide.adapters.fleet.page import ACTIONS, MEMORY, SPENT, FleetPage, render
from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.adapters.fleet.runs import FREE, UNUSED
from podtide.adapters.fleet.summary import FleetDocument, FleetSummary
from podtide.adapters.views.report.page import SIZE_MAX
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.whatif.prices import Prices

RATIO = "spark.dynamicAllocation.executorAllocationRatio"


def row(
    name: str, cost: float, *, best: str | None = None, saving: float = 0.0, least: float = 0.0, **more: Any
) -> FleetRow:
    """A run of which half was running, a tenth of that with free slots."""
    return FleetRow(
        log=more.pop("log", f"/logs/{name}"), status=RowStatus.OK, app_name=name, runtime_s=60.0, billed_seconds=100.0,
        filled_seconds=45.0, core_hours=cost, gb_hours=cost, cost=cost, currency="EUR",
        ledger={SpendCause.RUNNING.value: 50.0, SpendCause.MINIMUM.value: 30.0, SpendCause.STARTING.value: 20.0},
        waited_s=4.0, waiting={Limit.START_UP.value: 3.0, Limit.BATCH.value: 1.0},
        best=best, best_conf={RATIO: "0.5"} if best else None,
        saving_cost=saving, saving_core_hours=saving, saving_least_cost=least, saving_least_core_hours=least, **more,
    )  # fmt: skip


def summed(*rows: FleetRow) -> tuple[FleetSummary, FleetDocument]:
    summary = FleetSummary(Prices(core_hour=1.0, currency="EUR"))
    for one in rows:
        summary.add(one)
    return summary, summary.document() | {"out": "night.csv"}


def page(*rows: FleetRow) -> FleetPage:
    summary, document = summed(*rows)
    return FleetPage(document, summary.runs)


def test_actions_come_by_what_is_sure_and_not_by_what_is_hoped_for() -> None:
    made = page(
        row("hopeful", 100.0, best="lean", saving=50.0, least=1.0),
        row("steady", 10.0, best="lean", saving=4.0, least=3.0),
        row("steady", 10.0, best="lean", saving=4.0, least=3.0),
        row("steady", 10.0),
        row("nothing", 500.0),
    )
    assert [(one.name, one.least, one.runs, one.of_runs) for one in made.actions] == [
        ("steady", 6.0, 2, 3),
        ("hopeful", 1.0, 1, 1),
    ]
    assert made.sure == (2, 7.0)
    assert [one.name for one in made.spent] == ["nothing", "hopeful", "steady"]


def test_of_settings_that_cannot_be_taken_together_one_counts() -> None:
    made = page(
        row("job", 10.0, best="half", saving=4.0, least=3.0),
        row("job", 10.0, best="half", saving=4.0, least=2.0),
        row("job", 10.0, best="quarter", saving=6.0, least=4.0),
    )
    assert made.sure == (1, 5.0)
    assert [(one.best, one.least) for one in made.pages[0].actions] == [("half", 5.0), ("quarter", 4.0)]


def test_the_same_name_with_another_value_is_another_setting() -> None:
    made = page(
        row("job", 10.0, best="half the peak", saving=4.0, least=3.0),
        msgspec.structs.replace(
            row("job", 10.0, best="half the peak", saving=4.0, least=2.0), best_conf={RATIO: "0.25"}
        ),
    )
    assert [(one.conf[RATIO], one.least, one.runs) for one in made.pages[0].actions] == [
        ("0.5", 3.0, 1),
        ("0.25", 2.0, 1),
    ]


def test_lines_to_paste_are_as_spark_reads_them() -> None:
    endless = {"spark.dynamicAllocation.maxExecutors": "2147483647", "spark.executor.instances": None}
    made = page(msgspec.structs.replace(row("job", 10.0, best="free", saving=4.0, least=3.0), best_conf=endless))
    assert made.paste(made.actions[0]).splitlines() == [
        "spark.dynamicAllocation.maxExecutors 2147483647",
        "# spark.executor.instances: leave out",
    ]


def test_the_parts_sum_to_the_bill() -> None:
    made = page(row("one", 100.0), row("two", 10.0))
    assert sum(made.whole.parts.values()) == pytest.approx(110.0)
    assert made.whole.parts[SpendCause.RUNNING.value] == pytest.approx(49.5)
    assert made.whole.parts[FREE] == pytest.approx(5.5)
    assert made.wasted(made.spent[0]) == "kept by minimum 30%, starting 20%, slots free beside running tasks 5%"


def test_nodes_and_the_driver_are_parts_of_their_own_and_the_driver_is_no_waste() -> None:
    made = page(row("one", 100.0, cost_unused=20.0, cost_driver=10.0))
    assert sum(made.whole.parts.values()) == pytest.approx(100.0)
    assert made.whole.parts[UNUSED] == 20.0
    assert made.whole.parts[SpendCause.MINIMUM.value] == pytest.approx(21.0)
    assert made.idle(made.spent[0]) == "58%"
    assert made.wasted(made.spent[0]) == "kept by minimum 21%, nodes beside their executors 20%, starting 14%"


def test_a_thousand_hostile_applications_stay_escaped_and_small() -> None:
    hostile = '<script>alert(1)</script>\u202e"><img src=x onerror=alert(1)>' + "x" * 150
    rows = (
        row(f"{hostile}{at}", 1.0 + at, best=hostile, saving=1.0, least=0.5, log=f"{hostile}{at}-{run}",
            memory_conf={hostile: hostile}, memory_risk="low", saving_memory_cost=0.1)
        for at in range(1_000) for run in range(12)
    )  # fmt: skip
    summary, document = summed(*rows)
    text = render(document, summary.runs)
    assert len(text.encode()) < SIZE_MAX
    assert "<img" not in text
    assert text.count("<script>") == 1
    assert "\u202e" not in text
    anchors = set(re.findall(r'href="#(app-[0-9]+)"', text))
    assert anchors == set(re.findall(r'<section id="(app-[0-9]+)"', text))
    assert len(anchors) <= SPENT + ACTIONS + MEMORY
    assert "975 more applications took" in text
    assert "960 more actions would save €5,760" in text


def test_a_fleet_of_which_nothing_was_answered_has_a_report() -> None:
    summary, document = summed(FleetRow(log="a", status=RowStatus.REFUSED, reason="the model does not fit"))
    text = render(document, summary.runs)
    assert "refused: the model does not fit" in text
    assert "No setting that was tried saves" in text
