"""Logs as applications to run again: request times out of the replay, real runs, and everybody else's logs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.recorded.application import NO_TASK, Leave
from podtide.entrypoints.common.log_config import NothingToReplay
from podtide.entrypoints.whatif.recorded_log import NothingToRun, RecordedLog, read_application
from podtide.entrypoints.whatif.run import refusal, study
from tests.support import event_log_lines as log
from tests.support.event_log_lines import START
from tests.support.project import PROJECT

DATA = PROJECT.parent / "shared" / "data"
TRUTH = sorted((DATA / "truth").glob("*/*/run*"))

no_data = pytest.mark.skipif(not TRUTH, reason="real runs (../shared/data) are not beside the project")


def read(path: Path | str) -> RecordedLog:
    with open_log(str(path)) as source:
        return read_application(source)


def bursts(**conf: str) -> list[str]:
    """Ten tasks on two executors, then nothing for two minutes, then one task on the executor that stayed."""
    lines = [
        *log.begun(maxExecutors="4", **conf),
        log.job(0, 900, log.stage(0, 10, 1_000)),
        log.submitted(0, 10, 1_000),
    ]
    lines += [log.executor("1", 3_000), log.executor("2", 5_000)]
    for index in range(10):
        began = 5_000 + 200 * (index // 2)
        lines.append(log.task(0, index, str(1 + index % 2), began))
        lines.append(log.task(0, index, str(1 + index % 2), began, began + 200))
    lines += [log.completed(0, 10, 6_050), log.job_end(0, 6_060)]
    lines += [log.gone("2", 70_000, "Executor killed by driver."), log.job(1, 119_990, log.stage(1, 1, 120_000))]
    lines += [log.submitted(1, 1, 120_000), log.task(1, 0, "1", 120_000), log.task(1, 0, "1", 120_000, 121_000)]
    return [
        *lines,
        log.completed(1, 1, 121_000),
        log.job_end(1, 121_010),
        log.line("ApplicationEnd", Timestamp=START + 122_000),
    ]


def test_an_application_and_when_its_executors_were_asked_for(tmp_path: Path) -> None:
    found = read(log.written(tmp_path, bursts()))
    app = found.application
    assert (app.id, app.name, app.spark_version, app.runtime_ms, app.end_known) == (
        "app-1",
        "a test",
        "4.3.0",
        122_000,
        True,
    )
    assert [(one.requested_ms or 0) - START for one in app.executors] == [2_000, 3_000]
    assert [one.leave for one in app.executors] == [Leave.STAYED, Leave.RELEASED]
    assert [(job.after, job.think_ms, job.end_lag_ms) for job in app.jobs] == [((), 900, 10), ((0,), 113_930, 10)]
    assert [list(stage.body_ms) for stage in app.stages] == [[200] * 10, [1_000]]
    assert found.settled.config.executors_max == 4
    assert max(total for _, total in found.targets) == 4
    assert found.counts["read"] == len(bursts())


def test_without_dynamic_allocation_executors_were_asked_for_at_the_start(tmp_path: Path) -> None:
    lines = bursts(enabled="false")
    lines.insert(3, log.line("BlockManagerAdded", Timestamp=START + 700, Block_Manager_ID={"Executor ID": "driver"}))
    found = read(log.written(tmp_path, lines))
    assert [(one.requested_ms or 0) - START for one in found.application.executors] == [700, 700]
    assert found.targets == ()


def test_what_came_late_to_an_autoscaled_cluster_came_by_rules_of_its_own(tmp_path: Path) -> None:
    lines = bursts(enabled="false")
    lines[1] = lines[1].replace(
        '"spark.dynamicAllocation.enabled"', '"spark.databricks.x": "y", "spark.dynamicAllocation.enabled"'
    )
    lines.insert(-1, log.executor("3", 121_500))
    app = read(log.written(tmp_path, lines)).application
    assert [one.requested_ms is None for one in app.executors] == [False, False, True]
    assert any("Databricks" in one.what for one in app.unknowns)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([*log.begun(), log.submitted(0, 1, 5)], "no task in it"),
        ([*log.begun(), log.task(0, 0, "1", 5)], "no task ended"),
        ([*log.begun(), log.task(0, 0, "1", 5, 9, "TaskKilled")], "none of the 1 tasks"),
        ([*log.begun(), "{ not JSON", log.submitted(0, 1, 5)], "1 malformed lines; line 4"),
    ],
)
def test_nothing_to_run_again(tmp_path: Path, lines: list[str], word: str) -> None:
    with pytest.raises(NothingToRun, match=word) as refused:
        read(log.written(tmp_path, lines))
    assert isinstance(refused.value, NothingToReplay)


def test_lines_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    found = read(log.written(tmp_path, [*bursts(), "{ not JSON"]))
    assert any("1 line could not be used" in note for note in found.notes)
    assert any("1 line could not be read" in one.what for one in found.application.unknowns)


def test_a_log_without_its_end_ends_with_its_last_event(tmp_path: Path) -> None:
    app = read(log.written(tmp_path, bursts()[:-1])).application
    assert (app.end_known, app.runtime_ms) == (False, 121_010)
    assert any("no end" in one.what for one in app.unknowns)


YEARS: Millis = 80_000_000_000


@pytest.mark.parametrize("claimed", [YEARS, -5_000], ids=["years later", "before the start"])
def test_an_executor_that_claims_another_time_moves_nothing(tmp_path: Path, claimed: Millis) -> None:
    plain = read(log.written(tmp_path, bursts(enabled="false"))).application
    lines = bursts(enabled="false")
    lines.insert(3, log.executor("9", claimed))
    app = read(log.written(tmp_path, lines)).application
    assert (app.started_ms, app.ended_ms, app.jobs, app.stages) == (
        plain.started_ms, plain.ended_ms, plain.jobs, plain.stages,
    )  # fmt: skip
    assert app.executors == plain.executors
    assert app.fresh == plain.fresh
    assert any("By the log 1 executor came" in one.what for one in app.unknowns)


def test_an_executor_that_claims_another_time_was_there_if_its_tasks_say_so(tmp_path: Path) -> None:
    lines = bursts(enabled="false")
    lines[5] = log.executor("1", YEARS)
    app = read(log.written(tmp_path, lines)).application
    assert [(one.executor, one.added_ms - START) for one in app.executors] == [("1", 5_000), ("2", 5_000)]
    assert app.runtime_ms == 122_000


@pytest.mark.parametrize(
    ("last", "runtime"),
    [
        ([log.executor("9", YEARS)], 121_010),
        ([log.gone("1", 190_000)], 190_000),  # it idles: the application was there
        ([log.executor("9", YEARS), log.task(1, 0, "1", 130_000)], 130_000),
        ([log.line("ApplicationEnd", Timestamp=START - 1)], 121_010),
        ([log.line("ApplicationEnd", Timestamp=START + 125_000), log.gone("1", 126_000)], 125_000),
        ([log.line("ApplicationEnd", Timestamp=START + 1), log.line("ApplicationStart", App_Name="b")], 121_010),
    ],
)
def test_when_an_application_ends(tmp_path: Path, last: list[str], runtime: Millis) -> None:
    assert read(log.written(tmp_path, [*bursts()[:-1], *last])).application.runtime_ms == runtime


def test_without_a_start_the_application_begins_with_its_work(tmp_path: Path) -> None:
    lines = bursts(enabled="false")
    lines[2] = log.executor("9", YEARS)
    app = read(log.written(tmp_path, lines)).application
    assert (app.started_ms, app.runtime_ms, len(app.executors)) == (START + 900, 121_100, 2)


def test_stages_of_no_job_and_no_time_are_left_out(tmp_path: Path) -> None:
    lines = bursts()
    lines.insert(-1, log.task(7, 0, "1", YEARS, YEARS + 100))
    app = read(log.written(tmp_path, lines)).application
    assert [stage.stage for stage in app.stages] == [0, 1]
    assert any("No job lists the stages of 1 task" in one.what for one in app.unknowns)


def test_a_job_that_does_not_say_when_it_was_submitted_began_with_its_first_stage(tmp_path: Path) -> None:
    lines = [line for line in bursts() if "StageCompleted" not in line]
    said = f'"Submission Time": {START + 119_990}, "Stage Infos"'
    app = read(log.written(tmp_path, [line.replace(said, '"Stage Infos"') for line in lines])).application
    assert [job.submitted_ms - START for job in app.jobs] == [900, 120_000]
    assert app.stages[1].submit_lag_ms == 0


def test_executors_of_a_platform_that_nobody_asked_for_were_there_from_the_start(tmp_path: Path) -> None:
    """One task asks for one executor, and six come."""
    lines = [
        *log.begun(),
        log.line("BlockManagerAdded", Timestamp=START + 700, Block_Manager_ID={"Executor ID": "driver"}),
    ]
    lines += [log.job(0, 900, log.stage(0, 1, 1_000)), log.submitted(0, 1, 1_000)]
    lines += [log.executor(str(number), 4_000 + 100 * number) for number in range(6)]
    lines += [log.task(0, 0, "0", 4_500), log.task(0, 0, "0", 4_500, 9_000), log.completed(0, 1, 9_010)]
    lines += [log.job_end(0, 9_020), log.line("ApplicationEnd", Timestamp=START + 9_500)]
    app = read(log.written(tmp_path, lines)).application
    assert {(one.requested_ms or 0) - START for one in app.executors} == {700}
    assert any("6 executors came at the start" in one.what for one in app.unknowns)
    found = study(app, seeds=1).unwrap()
    assert found.conf.conf.settings["spark.dynamicAllocation.initialExecutors"].value == "6"
    assert any("initialExecutors=6" in note for note in found.conf.notes)
    assert found.error.worst < 0.1
    assert found.replay.typical.peak_executors == 6
    better = from_mapping({"spark.dynamicAllocation.initialExecutors": "2"}, "--conf")
    known = study(app, [better], seeds=1).unwrap()
    assert known.conf.conf.settings["spark.dynamicAllocation.initialExecutors"].value == "2"


def test_without_an_environment_nobody_knows_why_executors_came_later(tmp_path: Path) -> None:
    lines = bursts()
    del lines[1]
    lines.insert(-1, log.executor("3", 60_000))
    app = read(log.written(tmp_path, lines)).application
    assert [one.requested_ms is None for one in app.executors] == [False, False, True]


def test_a_log_without_most_of_its_tasks_is_refused_whatever_the_error(tmp_path: Path) -> None:
    lines = [
        line
        for line in bursts(enabled="false")
        if '"Stage ID": 0' not in line or '"Index": 3' in line or "Tasks" in line
    ]
    app = read(log.written(tmp_path, lines)).application
    found = study(app, seeds=1).unwrap()
    assert "9 of 11 tasks are not in the log" in refusal(found, 1e9)[0]
    assert refusal(study(read(log.written(tmp_path, bursts(enabled="false"))).application, seeds=1).unwrap(), 1e9) == ()


def test_a_misfit_of_a_log_without_an_environment_says_so_first(tmp_path: Path) -> None:
    lines = bursts()
    del lines[1]
    found = study(read(log.written(tmp_path, lines)).application, seeds=1).unwrap()
    assert refusal(found, 1e9) == ()
    said = refusal(found, -1.0)
    assert "no environment" in said[0]
    assert "does not fit" in said[1]


@pytest.mark.parametrize("tasks", [2**31 - 1])
def test_claims_cost_nothing(tmp_path: Path, tasks: int) -> None:
    lines = [*log.begun(), log.executor("1", 1)]
    for stage in range(50):
        lines += [
            log.submitted(stage, tasks, 5),
            log.task(stage, tasks - 1, "1", 10),
            log.task(stage, tasks - 1, "1", 10, 20),
        ]
    app = read(log.written(tmp_path, lines)).application
    assert sum(len(stage.body_ms) for stage in app.stages) < 1_100_000
    assert all(10 in stage.body_ms for stage in app.stages)


def errors_of_requests(run: Path) -> list[Millis]:
    """How far the inferred times of request lie from the real ones, one by one."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    app = read(run / "log").application
    start = manifest["t0_epoch_ms"]
    granted = {one["id"]: round(1000 * one["granted"]) for one in manifest["executors"] if one.get("added") is not None}
    assert abs(app.runtime_ms - 1000 * manifest["app_s"]) < 2
    assert abs(app.executor_ms - 1000 * manifest["executor_seconds"]) < 2
    assert app.peak_executors == manifest["peak_executors"]
    assert app.tasks == manifest["tasks"]
    return [
        one.requested_ms - start - granted[one.executor]
        for one in app.executors
        if one.requested_ms is not None and one.executor in granted
    ]


@no_data
def test_requests_are_where_they_were_in_real_runs() -> None:
    errors = sorted(abs(error) for run in TRUTH for error in errors_of_requests(run))
    assert len(errors) >= 230
    assert errors[len(errors) // 2] < 100
    assert errors[int(0.95 * len(errors))] < 500
    assert errors[-1] < 2_000


def test_each_executor_of_our_own_truth_has_its_own_request() -> None:
    """There starts overtake one another: each waits a time of its own, and some are decommissioned."""
    errors = []
    for manifest in sorted((PROJECT / "tests" / "truth").glob("*/*/run*/manifest.json")):
        known = json.loads(manifest.read_text(encoding="utf-8"))
        granted = {one["id"]: one["granted"] for one in known["executors"] if one["granted"] is not None}
        app = read(manifest.parent / known["log"]).application
        errors += [
            abs(one.requested_ms - app.started_ms - round(1000 * granted[one.executor]))
            for one in app.executors
            if one.requested_ms is not None and one.executor in granted
        ]
    errors.sort()
    assert len(errors) > 500
    assert errors[int(0.95 * len(errors))] < 100
    assert errors[int(0.99 * len(errors))] < 200


@no_data
@pytest.mark.parametrize(
    "run", [run for run in TRUTH if run.parts[-3] == "w6"], ids=lambda run: f"{run.parts[-2]}-{run.name}"
)
def test_two_threads_of_a_real_run_are_told_apart(run: Path) -> None:
    jobs = read(run / "log").application.jobs
    chains: dict[str, list[int]] = {}
    for job in jobs:
        chains.setdefault(job.thread, []).append(job.job)
    a, b = chains["pool a"], chains["pool b"]
    after = {job.job: job.after for job in jobs}
    assert [after[one] for one in a] == [(), *((one,) for one in a[:-1])]
    assert [after[one] for one in b] == [(), *((one,) for one in b[:-1])]
    think = {job.job: job.think_ms for job in jobs}
    assert [round(think[one], -3) for one in a[1:3]] == [1_000, 5_000]
    assert 500 <= think[a[3]] < 600


def public() -> list[str]:
    index = DATA / "public" / "index.tsv"
    if not index.exists():
        return []
    with index.open(encoding="utf-8") as rows:
        return [row["file"] for row in csv.DictReader(rows, delimiter="\t")]


@pytest.mark.skipif(not public(), reason="other people's logs (../shared/data) are not beside the project")
def test_everybody_elses_logs_read_or_are_refused() -> None:
    refused = {}
    for name in public():
        try:
            app = read(DATA / "public" / name).application
        except (LogError, NothingToRun) as refusal:
            refused[name] = str(refusal)
            continue
        ids = {job.job: job for job in app.jobs}
        stages = {stage.stage for stage in app.stages}
        assert any(body != NO_TASK for stage in app.stages for body in stage.body_ms), name
        for job in app.jobs:
            assert job.think_ms >= 0, name
            assert all((ids[one].ended_ms or 0) <= job.submitted_ms for one in job.after), name
            assert stages.issuperset(job.stages), name
        assert all(one.requested_ms is None or one.requested_ms <= one.added_ms for one in app.executors), name
        assert all(one.busy_ms >= 0 for one in app.executors), name
    assert len(refused) <= 5
    assert all("no task" in why for why in refused.values())
