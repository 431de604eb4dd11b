"""The sentences say what the figures say, and no more than the ranges allow."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.views.whatif import figures, findings
from podtide.adapters.views.whatif.findings import FigureVerdict, Trust
from podtide.adapters.views.whatif.model import Document, read

REPLAY: dict[str, Any] = {
    "name": "as simulated",
    "runtime_s": 730.0,
    "executor_seconds": 2_300.0,
    "billed_seconds": 2_500.0,
    "peak_executors": 40,
    "cost": 1.2,
    "waited_s": 250.0,
    "error": {"runtime": 0.0083, "executor_seconds": -0.034, "curve": 0.05},
    "ledger": {
        "running": 950.0,
        "starting": 400.0,
        "kept by minimum": 800.0,
        "waiting for the driver": 300.0,
        "other": 50.0,
    },
    "waiting": {"batch size and delay": 182.0, "start-up": 60.0, "other": 2.0, "maximum": 6.0},
}
RECORDED = {
    "runtime_s": 724.0,
    "executor_seconds": 2_310.0,
    "peak_executors": 40,
    "core_hours": 2.57,
    "gb_hours": 10.3,
    "cost": 1.23,
}


def variant(name: str, runtime: float, cost: float, **more: Any) -> dict[str, Any]:
    made = {"name": name, "runtime_s": runtime, "executor_seconds": cost * 1_900, "cost": cost}
    return (
        made
        | {
            "runtime_range_s": [runtime * 0.98, runtime * 1.02],
            "executor_seconds_range": [cost * 1_862, cost * 1_938],
            "cost_range": [cost * 0.98, cost * 1.02],
        }
        | more
    )


def document(*variants: dict[str, Any], replay: dict[str, Any] | None = None, **more: Any) -> Document:
    base = {
        "recorded": RECORDED,
        "self_replay": REPLAY | (replay or {}),
        "variants": list(variants),
        "max_error": 0.25,
        "seeds": 5,
    }
    return read(base | {"prices": {"currency": "USD"}} | more)


def test_what_happened() -> None:
    words = findings.happened(document())
    assert words == "Ran 12m04s on up to 40 executors. As simulated, 38% of 2,500 billed executor-seconds did work."
    assert findings.happened(document(replay={"ledger": {}, "billed_seconds": 0})) == (
        "Ran 12m04s on up to 40 executors: 2,310 executor-seconds."
    )


def test_several_runs_are_told_as_means() -> None:
    run = {"runtime_s": 1.0, "executor_seconds": 1.0}
    assert findings.happened(document(runs=[run] * 4)).startswith("4 runs, on average: ran 12m04s")


def test_what_it_cost() -> None:
    assert findings.cost(document()) == (
        "As recorded, 2,310 executor-seconds: 2.6 core-hours, 10.3 GB-hours, $1.23. As simulated, 62% of the bill did no "
        "work: 32% kept by minimum, 16% starting, 12% waiting for the driver, 2% the rest."
    )
    assert findings.cost(document(recorded=RECORDED | {"billed_seconds": 2_444, "cost": None})).startswith(
        "As recorded, 2,310 executor-seconds, 2,444 billed: 2.6 core-hours, 10.3 GB-hours. As simulated, 62%"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "Tasks waited 4m10s for executors (34% of the run): 3m02s while pods were created in batches, 1m00s while "
            "executors started, 6 s because no more were allowed (maxExecutors, or the static count).",
        ),
        ({"waiting": {}}, "Tasks waited 4m10s for executors (34% of the run)."),
        ({"waited_s": 0.0}, "Tasks hardly waited for executors: no limit held the application back."),
        (
            {"waiting": {"maximum": 250.0}},
            "Tasks waited 4m10s for executors (34% of the run): 4m10s because no more were allowed (maxExecutors, or the "
            "static count).",
        ),
    ],
)
def test_why(changes: dict[str, Any], words: str) -> None:
    assert findings.why(document(replay=changes).self_replay) == words


CHEAP, FAST = variant("cheap", 800, 0.9), variant("fast", 600, 1.5)


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ((), "No other config was asked for."),
        ((CHEAP,), "cheap: 13m20s (+9.6%) for $0.90 (−25%)."),
        (
            (CHEAP, FAST),
            "Of 2 variants, cheap costs least: 13m20s (+9.6%) for $0.90 (−25%). The fastest is fast: "
            "10m00s (−18%) for $1.50 (+25%).",
        ),
        (
            (variant("both", 600, 0.9), FAST | {"runtime_s": 601}),
            "Of 2 variants, both costs least and is the fastest: 10m00s (−18%) for $0.90 (−25%).",
        ),
        ((variant("same", 733, 1.2),), "same: 12m13s (+0.4%, unclear) for $1.20 (±0%)."),
        ((variant("dead", 10, 0.1, unfinished="stage 3 failed"),), "None of 1 variant came to its end."),
    ],
)
def test_what_to_change(variants: tuple[dict[str, Any], ...], words: str) -> None:
    assert findings.changing(document(*variants)) == words


@pytest.mark.parametrize(
    ("advice", "words"),
    [
        ({"name": None, "text": "Nothing is worth changing: too little."}, "Nothing is worth changing: too little."),
        ({"name": None}, "Nothing is worth changing."),
        ({"name": "cheap", "text": "It saves 25%."}, "Use cheap: 13m20s (+9.6%) for $0.90 (−25%). It saves 25%."),
    ],
)
def test_a_recommendation_speaks_for_itself(advice: dict[str, Any], words: str) -> None:
    assert findings.changing(document(CHEAP, FAST, recommendation=advice)) == words


@pytest.mark.parametrize(
    ("error", "off", "trust"),
    [
        (0.01, 0.10, Trust.CLOSE),
        (0.0, 0.25, Trust.FAIR),  # a model that is right about the run that it knows may be unsure about the next
        (0.0, 0.3, Trust.ROUGH),
        (0.26, 0.01, Trust.MISFIT),
    ],
)
def test_how_sure(error: float, off: float, trust: Trust) -> None:
    replay = {
        "error": {"runtime": 0.0, "executor_seconds": error},
        "runtime_range_s": [710.0, 730.0],
        "runtime_s": 720.0,
        "executor_seconds": 1_000.0,
        "executor_seconds_range": [990.0, 1_000.0 * (1 + off)],
    }
    found = document(replay=replay, unknowns=[{"what": "x"}])
    assert findings.trust(found) is trust
    assert trust is not Trust.MISFIT or "do not rely" in findings.sure(found)
    assert f" and by {figures.change(-0.01)} to {figures.change(off)} in exec" in findings.sure(found)
    assert "1 thing the log does not tell" in findings.sure(found)


@pytest.mark.parametrize(
    ("value", "extent", "verdict"),
    [
        (9, (8, 9.5), FigureVerdict.LESS),
        (9, (8, 10), FigureVerdict.ALIKE),
        (11, (10.5, 12), FigureVerdict.MORE),
        (11, (9, 12), FigureVerdict.ALIKE),
        (10, (10, 10), FigureVerdict.ALIKE),
        (12, None, FigureVerdict.MORE),
        (None, None, FigureVerdict.UNKNOWN),
    ],
)
def test_a_difference_counts_where_the_range_leaves_none_out(
    value: Any, extent: tuple[float, float] | None, verdict: FigureVerdict
) -> None:
    assert findings.compared(value, extent, 10.0).verdict is verdict


def test_featured_are_the_recommended_the_frontier_and_static_ones_in_their_order() -> None:
    runs = [variant(f"v{index}", 700, 1) for index in range(10)]
    runs[8]["static"] = 4
    found = document(*runs, frontier=["v9", "v5"], recommendation={"name": "v7"})
    assert [one.name for one in findings.featured(found, 4)] == ["v5", "v7", "v8", "v9"]
    assert [one.name for one in findings.featured(found, 2)] == ["v5", "v7"]
    assert len(findings.featured(found, 50)) == 10


def test_ranges_in_words() -> None:
    run = document(variant("x", 700, 0.5)).variants[0]
    assert findings.time_range(run) == "11m26s–11m54s"
    assert findings.money_range(run, "USD") == "$0.49–$0.51"
    assert findings.number_range(run.executor_seconds_range) == "931–969"
    assert findings.time_range(document().self_replay) == findings.money_range(document().self_replay, None) == ""
