"""The run that stands for many is one of them; their own spread is the noise, where there are enough of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.baseline import ENOUGH, LEAST, RUNS_MAX, baseline_of
from podtide.domain.comparison.comparison import NOISE
from podtide.domain.rerun.ledger.causes import SpendCause
from tests.support.account_play import run_of


def run(runtime: int, billed: int = 1_000, id: str = "") -> RunAccount:
    return replace(run_of([], end_ms=runtime), id=id, bill={SpendCause.RUNNING: billed})


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=15))
def test_the_typical_run_happened_and_no_other_is_nearer_to_both_medians(rows: list[tuple[int, int]]) -> None:
    runs = [run(*row, id=str(place)) for place, row in enumerate(rows)]
    found = baseline_of(runs)
    last = runs[-RUNS_MAX:]
    assert found.typical in last
    assert found.runs == len(last)
    times = [one.runtime_ms for one in last]
    assert sum(time < found.median_ms for time in times) <= len(times) / 2
    assert sum(time > found.median_ms for time in times) <= len(times) / 2
    twice = baseline_of([*last, *last][-RUNS_MAX:]) if len(last) <= RUNS_MAX // 2 else found
    assert twice.median_ms == found.median_ms


def test_a_run_that_is_usual_in_time_and_money_is_typical() -> None:
    runs = [run(100, 9_000, "dear"), run(101, 1_000, "usual"), run(60, 1_000, "short"), run(160, 1_000, "long")]
    assert baseline_of(runs).typical.id == "usual"
    assert baseline_of([run(100, id="older"), run(100, id="newer")]).typical.id == "newer"


@pytest.mark.parametrize(
    ("times", "noise"),
    [
        ([100] * (ENOUGH - 1), NOISE),
        ([100] * ENOUGH, LEAST),
        ([80, 95, 100, 105, 130], 0.3),
        ([95, 96, 97, 98, 100, 100, 102, 103, 104, 500], 0.05),
        ([0] * 9, NOISE),
    ],
)
def test_the_noise_is_what_nine_of_ten_differ_by(times: list[int], noise: float) -> None:
    assert baseline_of([run(time) for time in times]).noise == pytest.approx(noise)


def test_older_runs_do_not_count() -> None:
    found = baseline_of([*[run(10**6)] * 30, *[run(100)] * RUNS_MAX])
    assert (found.median_ms, found.typical.runtime_ms, found.runs) == (100, 100, RUNS_MAX)
