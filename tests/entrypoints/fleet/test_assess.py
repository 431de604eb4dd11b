"""The row of a real log: its figures hang together, the best setting keeps its bound, and what does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.fleet.discovery import FoundLog
from podtide.adapters.fleet.rows import FleetRow, RowStatus, Stamp, row_of
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.fleet.assess import WORTH, assess
from podtide.entrypoints.fleet.work import FleetOptions, answer, request
from tests.support import event_log_lines as log
from tests.support.project import DEMO, TRUTH

recorded = pytest.mark.skipif(not TRUTH.is_dir(), reason="the recorded runs are not beside the project")


def truth(run: str) -> str:
    return str(next((TRUTH / run / "log").iterdir()))


def test_the_figures_of_a_row_hang_together() -> None:
    row = assess(str(DEMO), FleetOptions(max_error=100.0))
    assert row.status is RowStatus.OK
    assert row.app_id and row.spark_version and row.runtime_s and row.tasks_ended  # noqa: PT018 - all are there
    assert row.billed_seconds is not None
    assert sum(row.ledger.values()) == pytest.approx(row.billed_seconds, abs=0.05)
    assert row.waited_s is not None
    assert sum(row.waiting.values()) == pytest.approx(row.waited_s, abs=0.05)
    assert row.filled_seconds is not None
    assert 0 < row.filled_seconds <= row.ledger["running"] + 0.05
    assert row.waste_s == pytest.approx(row.billed_seconds - row.filled_seconds, abs=0.05)
    assert row.compared
    assert row.cost is None


@recorded
@pytest.mark.parametrize("run", ["w1/H_static4/run1", "w2/G_min2_init4_i3_max8/run1"])
@pytest.mark.parametrize("within", [0.0, 0.1, 1.0])
def test_the_best_setting_keeps_its_bound_and_is_worth_it(run: str, within: float) -> None:
    row = assess(truth(run), FleetOptions(prices=Prices(core_hour=1.0), within=within))
    assert row.status is RowStatus.OK
    if row.best is None:
        assert row.saving_cost is None
        return
    assert row.best_runtime_s is not None
    assert row.simulated_runtime_s is not None
    assert row.best_runtime_s <= row.simulated_runtime_s * (1 + within) + 0.001
    assert row.saving_share is not None
    assert row.saving_share >= WORTH
    assert row.cost is not None
    assert row.best_cost is not None
    assert row.saving_cost == pytest.approx(row.cost - row.best_cost, abs=1e-5)


@recorded
def test_given_settings_are_tried_instead_and_impossible_ones_left_out() -> None:
    log = truth("w2/G_min2_init4_i3_max8/run1")
    wishes = (
        Variant("none", {"spark.dynamicAllocation.maxExecutors": "8"}),
        Variant("refused by Spark", {"spark.dynamicAllocation.minExecutors": "9"}),
        Variant("two", static=2),
    )
    row = assess(log, FleetOptions(wishes, within=10.0))
    assert (row.compared, row.best, row.best_static) == (2, "two", 2)
    asked = {"spark.dynamicAllocation.enabled": "false", "spark.executor.cores": "1", "spark.cores.max": "2"}
    assert row.best_conf == asked, "a standalone master counts cores"


@recorded
def test_a_quick_search_finds_no_worse_than_nothing() -> None:
    row = assess(truth("w2/G_min2_init4_i3_max8/run1"), FleetOptions(tune=True))
    assert row.status is RowStatus.OK
    assert row.compared is not None
    assert 1 < row.compared <= 60
    assert row.saving_share is None or row.saving_share >= WORTH


@recorded
def test_what_does_not_fit_is_refused_with_the_record_alone() -> None:
    row = assess(truth("w1/H_static4/run1"), FleetOptions(max_error=0.0))
    assert row.status is RowStatus.REFUSED
    assert "the model does not fit" in (row.reason or "")
    assert row.runtime_s is not None
    assert row.error_runtime is not None
    assert row.billed_seconds is None
    assert not row.ledger


def test_a_log_without_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    row = assess(str(tmp_path / "log"), FleetOptions())
    assert row.status is RowStatus.REFUSED
    assert row.reason


def test_a_path_without_a_log_raises_and_the_answer_says_it(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        assess(str(tmp_path / "none"), FleetOptions())
    place = str(tmp_path / "none")
    said = row_of(answer(assess, FleetOptions(), request(FoundLog(place, Stamp(7, 8, "x"), True), place)))
    assert said == FleetRow(
        log=place, status=RowStatus.UNREADABLE, reason="there is no such file or folder", log_bytes=7, log_modified_ms=8,
        log_etag="x", seconds=said.seconds,
    )  # fmt: skip


def test_the_same_log_twice_is_the_same_row() -> None:
    options = FleetOptions(max_error=100.0, seeds=2)
    assert msgspec.json.encode(assess(str(DEMO), options)) == msgspec.json.encode(assess(str(DEMO), options))


def test_tasks_are_counted_as_the_log_has_them(tmp_path: Path) -> None:
    ends = [
        "Success",
        "ExceptionFailure",
        "FetchFailed",
        "ExecutorLostFailure",
        "TaskKilled",
        "TaskCommitDenied",
        "Success",
    ]
    lines = [*log.begun(), log.executor("x", 5), log.job(0, 5, log.stage(0, 9, 5)), log.submitted(0, 9, 10)]
    lines += [log.task(0, index, "x", 20) for index in range(9)]
    lines += [log.task(0, index, "x", 20, 40 + index, reason) for index, reason in enumerate(ends)]
    lines += [log.task(0, 0, "x", 20, 40, "Resubmitted"), log.completed(0, 9, 60), log.job_end(0, 70)]
    row = assess(log.written(tmp_path, lines), FleetOptions())
    assert (row.tasks_started, row.tasks_ended, row.tasks_failed, row.tasks_killed) == (9, 8, 3, 2)
