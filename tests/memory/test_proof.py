"""What is recommended from a log holds on real Spark: nothing spills and nothing is lost; with half, something is.

The logs are of Spark 4.3.0 (``scripts/make_memory_logs.py`` made them): for each application a first run, one with the heap
that was recommended from its log, and one with half of that.
"""

from __future__ import annotations

from functools import cache

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.whatif.memory import HEAP_KEY, MemoryFinding, memory_finding
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.fleet.assess import assess
from podtide.entrypoints.fleet.work import FleetOptions
from podtide.entrypoints.whatif.logs import read_log
from podtide.entrypoints.whatif.run import study
from tests.support.project import PROJECT

PLACE = PROJECT / "tests" / "memory"
APPLICATIONS = ("sorted", "joined", "ample")


@cache
def found(application: str, which: str) -> MemoryFinding:
    made = study(read_log(str(PLACE / f"{application}-{which}.zstd")), seeds=1).unwrap()
    seen = memory_finding(made.application, made.conf.conf, made.replay.plan.shapes[DEFAULT_PROFILE])
    assert seen is not None
    return seen


@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_recommended_heap_suffices_and_half_of_it_does_not(application: str) -> None:
    first, recommended, half = (found(application, which) for which in ("first", "recommended", "half"))
    assert first.changes[HEAP_KEY] == f"{recommended.heap_mib}m"
    assert half.heap_mib == recommended.heap_mib // 2
    assert (recommended.memory_spilled, recommended.losses.any) == (0, False)
    assert half.memory_spilled > 0 or half.losses.any


@pytest.mark.parametrize("application", APPLICATIONS)
def test_what_a_spill_would_have_needed_is_what_is_used_without_one(application: str) -> None:
    """The estimate from a run that spilled is no less than what is measured in one that did not, and not twice of it."""
    half, whole = found(application, "half"), found(application, "recommended")
    if half.memory_spilled:
        assert whole.needed_pool_mib <= half.needed_pool_mib <= 2.5 * whole.needed_pool_mib


def test_a_fleet_has_memory_as_columns_and_money() -> None:
    options = FleetOptions(prices=Prices(0.04, 0.005))
    short = assess(str(PLACE / "sorted-first.zstd"), options)
    assert short.memory_spilled_bytes == found("sorted", "first").memory_spilled
    assert short.memory_conf == dict(found("sorted", "first").changes)
    assert (short.memory_risk, short.memory_losses) == ("moderate", 0)
    assert short.saving_memory_gb_hours is not None
    assert short.saving_memory_gb_hours < 0
    ample = assess(str(PLACE / "ample-first.zstd"), options)
    assert ample.saving_memory_gb_hours is not None
    assert 0 < ample.saving_memory_gb_hours < (ample.gb_hours or 0)
    assert ample.saving_memory_cost == pytest.approx(0.005 * ample.saving_memory_gb_hours, abs=1e-6)
