"""The harness of the truth: what is recorded, what a driver's log says, and who was kept for shuffle data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

from scripts import make_truth_logs, truth_configs
from scripts.driver_log import driver_decisions, read_lines
from scripts.kept_executors import common, kept_by_driver, kept_by_replay, seconds

DAY = "2026-11-22 00:00:"
START = 1_795_305_600_000  # that day


def event(at: float, name: str, **fields: Any) -> bytes:
    return json.dumps({"Event": f"SparkListener{name}", "Timestamp": START + round(1000 * at), **fields}).encode()


def task(at: float, end: str, executor: str, stage: int, *, kind: str = "ShuffleMapTask") -> bytes:
    moment = START + round(1000 * at)
    info = {"Executor ID": executor, "Launch Time": moment, "Finish Time": moment if end == "End" else 0}
    fields = {"Task Info": info, "Stage ID": stage, "Task Type": kind, "Task End Reason": {"Reason": "Success"}}
    return json.dumps({"Event": f"SparkListenerTask{end}", **fields}).encode()


def job(at: float, stages: dict[int, int]) -> bytes:
    infos = [{"Stage ID": stage, "RDD Info": [{"RDD ID": rdd}]} for stage, rdd in stages.items()]
    moment = START + round(1000 * at)
    return json.dumps({"Event": "SparkListenerJobStart", "Submission Time": moment, "Stage Infos": infos}).encode()


def test_shuffle_data_keeps_from_the_idle_timeout_until_the_cleaner_comes() -> None:
    log = [
        event(0, "ExecutorAdded", **{"Executor ID": "1"}),
        event(0, "ExecutorAdded", **{"Executor ID": "2"}),
        job(0.5, {0: 7}),
        task(1, "Start", "1", 0),
        task(2, "End", "1", 0),
        event(20, "ApplicationEnd"),
    ]
    driver = [
        f"{DAY}00.600 DEBUG ExecutorMonitor: Registered new shuffle 0 (from stage 0).",
        f"{DAY}12.000 DEBUG ExecutorMonitor: Cleaning up state related to shuffle 0.",
    ]
    assert kept_by_driver(log, driver, [], 3000) == {"1": [(START + 5000, START + 12000)]}


def test_a_map_stage_that_a_later_job_repeats_writes_the_same_shuffle() -> None:
    log = [
        event(0, "ExecutorAdded", **{"Executor ID": "1"}),
        job(0.5, {0: 7}),
        job(5, {1: 7, 2: 9}),
        task(6, "Start", "1", 1),
        task(7, "End", "1", 1),
        task(8, "Start", "1", 2, kind="ResultTask"),
        task(9, "End", "1", 2, kind="ResultTask"),
        event(20, "ApplicationEnd"),
    ]
    driver = [f"{DAY}00.600 DEBUG ExecutorMonitor: Registered new shuffle 0 (from stage 0)."]
    kept = kept_by_driver(log, driver, [(START + 15000, "1")], 3000)
    assert kept == {"1": [(START + 12000, START + 15000)]}


def test_nobody_is_kept_who_has_died() -> None:
    log = [
        event(0, "ExecutorAdded", **{"Executor ID": "1"}),
        job(0.5, {0: 7}),
        *(task(at, end, "1", 0) for at, end in ((1, "Start"), (2, "End"), (3, "Start"))),
        event(4, "ExecutorRemoved", **{"Executor ID": "1"}),
        task(4.001, "End", "1", 0),
        event(20, "ApplicationEnd"),
    ]
    driver = [f"{DAY}00.600 DEBUG ExecutorMonitor: Registered new shuffle 0 (from stage 0)."]
    assert kept_by_driver(log, driver, [], 3000) == {}


def test_what_replay_and_driver_agree_on_is_counted_once() -> None:
    records = [
        {"at_ms": 1000, "report": "held", "phase": "began", "bound": "shuffle data", "ids": ["1", "2"]},
        {"at_ms": 4000, "report": "held", "phase": "changed", "bound": "cached data", "ids": ["1"]},
        {"at_ms": 6000, "report": "held", "phase": "ended", "bound": "cached data", "ids": ["1"]},
    ]
    ours = kept_by_replay(records, 9000)
    assert ours == {"1": [(1000, 4000)], "2": [(1000, 9000)]}
    assert seconds(common(ours, {"2": [(0, 2000), (8000, 12000)], "3": [(0, 9000)]})) == 2.0


def test_a_compressed_log_may_have_several_frames(tmp_path: Path) -> None:
    said = "ExecutorAllocationManager: Executors 4,5 removed due to idle timeout."
    frames = [f"{DAY}0{second}.000 INFO {said}\n".encode() for second in (1, 2)]
    path = tmp_path / "driver-decisions.log.zst"
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(frame) for frame in frames))
    assert [executor for _, executor in driver_decisions(read_lines(path)).killed()] == ["4", "5", "4", "5"]


def test_a_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    everything = make_truth_logs.wanted_runs(tmp_path, ())
    assert [run[2] for run in everything] == sorted(run[2] for run in everything)
    application, config, number = everything[-1]
    (tmp_path / application / config / f"run{number}").mkdir(parents=True)
    assert make_truth_logs.wanted_runs(tmp_path, ()) == everything[:-1]
    assert make_truth_logs.wanted_runs(tmp_path, [f"{application}/{config}"]) == [(application, config, number + 1)]


def test_every_application_has_its_program_and_adds_to_configs_that_it_has() -> None:
    for name, app in truth_configs.APPS.items():
        assert (make_truth_logs.TRUTH / f"{app.program}.py").is_file()
        assert not set(app.own) - {"*", *app.configs}, name
