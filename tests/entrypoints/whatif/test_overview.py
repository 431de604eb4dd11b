"""``podtide whatif LOG`` without a variant, as its user meets it, against logs whose answers can be worked out by hand."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.domain.conf.scaling_config import MAX
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan
from podtide.entrypoints.whatif.overview import CURVE_TASKS, TRIALS, overview
from podtide.entrypoints.whatif.run import study
from tests.support import commands
from tests.support.schemas import validate
from tests.support.whatif_log import START, write_log
from tests.support.whatif_play import YARN, application, rerun

asked = partial(commands.answer, "whatif")
ONE_VARIANT = ("--static", "2", "--seeds", "1")
DATABRICKS = {
    "spark.databricks.clusterUsageTags.clusterId": "1",
    "spark.databricks.clusterUsageTags.sparkVersion": "13.3",
}


def document(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = commands.document("whatif", *arguments)
    validate(found, "whatif")
    return found


@pytest.fixture(scope="module")
def answer(log: Path) -> dict[str, Any]:
    return document(log, "--price", "core-hour=3.6")


# ------------------------------------------------------------------------------------------------------- by hand


def test_the_ideal_time_and_that_of_one_executor(answer: dict[str, Any]) -> None:
    ideal, overview = answer["ideal"], answer["overview"]
    assert (ideal["runtime_s"], ideal["tasks_s"], ideal["driver_s"], ideal["path_stages"]) == (5.0, 1.0, 4.0, 1)
    assert ideal["path"] == [
        {"stage": 0, "name": "count at nightly.py:3", "tasks": 40, "longest_s": 1.0, "driver_s": 4.0}
    ]
    assert (overview["single"]["how"], overview["single"]["runtime_s"]) == ("rerun", 44.0)
    assert answer["variants"] == []


def test_static_counts_and_maxima_with_their_intervals(answer: dict[str, Any]) -> None:
    static, maximum = answer["overview"]["curves"]
    assert (static["setting"], maximum["setting"]) == ("static", MAX)
    points = {one["executors"]: one for one in static["points"]}
    assert list(points) == [1, 2, 3, 6, 10, 18, 32]  # at most 16 times the two that there were
    assert [points[count]["runtime_s"] for count in (1, 2, 10)] == [44.0, 24.0, 8.0]
    assert [points[count]["executor_seconds"] for count in (1, 2, 10)] == [41.0, 42.0, 50.0]
    for curve in (static, maximum):
        for one in curve["points"]:
            assert one["runtime_s"] >= answer["ideal"]["runtime_s"]
            assert one["executor_seconds"] >= 40.0  # the tasks take no less
            assert one["executor_seconds"] <= one["executors"] * one["runtime_s"]
            for figure in ("runtime", "executor_seconds", "cost"):
                low, high = one[f"{figure}_range_s" if figure == "runtime" else f"{figure}_range"]
                assert low <= one[f"{figure}_s" if figure == "runtime" else figure] <= high
    times = [one["runtime_s"] for one in static["points"]]
    assert times == sorted(times, reverse=True)


def test_the_counts_are_what_the_same_variants_come_to(log: Path, answer: dict[str, Any]) -> None:
    """One command is another's answer: a point is the variant of the same count."""
    (variant,) = document(log, "--static", "10", "--seeds", "3", "--price", "core-hour=3.6")["variants"]
    point = next(one for one in answer["overview"]["curves"][0]["points"] if one["executors"] == 10)
    for key in ("runtime_s", "runtime_range_s", "executor_seconds", "executor_seconds_range", "cost", "cost_range"):
        assert point[key] == variant[key]


def test_a_setting_that_is_not_sure_is_not_named(answer: dict[str, Any]) -> None:
    """A third executor would save a quarter of the time, and cost more than a tenth more: it waits for the driver, too."""
    assert answer["overview"]["trials"] == []
    assert answer["overview"]["verdict"].startswith("No setting by itself is worth trying")


def test_settings_worth_trying_are_sure(tmp_path: Path) -> None:
    overview = document(write_log(tmp_path / "long.json", tasks=400), "--price", "core-hour=3.6")["overview"]
    trials = overview["trials"]
    assert 0 < len(trials) <= TRIALS
    assert overview["verdict"] is None
    for one in trials:
        saving = one["saving"]
        assert saving["measure"] == "cost"
        assert saving["least_share"] > 0 if one["reason"] == "saves" else saving["longest_share"] < 0
        assert one["conf"] or one["static"]
    # Two of one core ran all the time but for the start: more of them are as cheap and much faster.
    assert trials[0]["reason"] == "faster"
    assert trials[0]["point"]["runtime_s"] < 0.75 * 204.0


def test_skew_costs_what_the_same_work_spread_evenly_would_not(tmp_path: Path) -> None:
    found = _edited(write_log(tmp_path / "even.json", tasks=4, executors=4), tmp_path, _last_task_takes(13_000))
    (skew,) = document(found)["troubles"]["skewed"]
    assert skew == {
        "stage": 0, "name": "count at nightly.py:3", "tasks": 4, "longest_s": 13.0, "median_s": 1.0,
        "costs_s": 13.0 - 16.0 / 4,
    }  # fmt: skip
    assert "longest task 13 s, median 1 s (13 times); costs the run 9 s" in asked(found).words


def test_failures_are_counted_by_reason_and_named_with_their_stage(tmp_path: Path) -> None:
    reasons: list[Event] = [
        {"Reason": "ExceptionFailure", "Class Name": "java.io.IOException", "Description": "secret", "Stack Trace": []},
        {"Reason": "ExceptionFailure", "Class Name": "java.io.IOException", "Description": "other", "Stack Trace": []},
        {
            "Reason": "ExecutorLostFailure",
            "Executor ID": "1",
            "Exit Caused By App": True,
            "Loss Reason": "exit code 137",
        },
        {"Reason": "TaskKilled", "Kill Reason": "another attempt succeeded"},
        {"Reason": "FetchFailed", "Shuffle ID": 0, "Map ID": 0, "Message": "gone"},
    ]
    found = _edited(write_log(tmp_path / "well.json"), tmp_path, _first_tries_end(reasons))
    troubles = document(found, *ONE_VARIANT)["troubles"]
    (failed,) = troubles["failed"]
    assert (failed["stage"], failed["name"], failed["tries"], troubles["failed_stages"]) == (
        0,
        "count at nightly.py:3",
        5,
        1,
    )
    assert failed["reasons"] == troubles["reasons"]
    assert {(one["reason"], one["detail"]): one["count"] for one in failed["reasons"]} == {
        ("ExceptionFailure", "java.io.IOException"): 2,
        ("ExecutorLostFailure", "exit code 137"): 1,
        ("TaskKilled", "another attempt succeeded"): 1,
        ("FetchFailed", ""): 1,
    }
    printed = asked(found, *ONE_VARIANT).words
    assert "5 tries of tasks did not count: 2 × ExceptionFailure (java.io.IOException)" in printed
    assert "secret" not in printed


# --------------------------------------------------------------------------------------------- what it says, and where


def test_a_terminal_gets_the_answer_on_a_screen(log: Path) -> None:
    printed = asked(log).out
    for text in ("Ideal time 5 s (−79% to the record)", "With one executor from start to end it takes 44 s", "Static counts",
                 "maxExecutors, with dynamic allocation", "Worth trying"):  # fmt: skip
        assert text in printed
    assert "Skew" not in printed
    assert "failures" not in printed
    assert all(len(line) <= 100 for line in printed.splitlines())
    narrow = asked(log, columns=60).out
    assert all(len(line) <= 60 for line in narrow.splitlines())


def test_a_report_has_the_curves(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert asked(log, "--report", page).code == 0
    text = page.read_text()
    assert "Run time over counts of executors: 14 counts" in text
    assert "The critical path" in text


def test_a_variant_is_answered_alone(log: Path) -> None:
    found = document(log, "--static", "3")
    assert found["overview"] is None
    assert found["ideal"]["runtime_s"] == 5.0


def test_where_the_platform_decides_no_setting_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "databricks.json", {"spark.master": "spark://example:7077", **DATABRICKS})
    found = document(log)["overview"]
    assert [curve["setting"] for curve in found["curves"]] == ["static"]
    assert all(one["static"] for one in found["trials"])
    assert any("Databricks" in note for note in found["notes"])


def test_a_model_that_does_not_fit_tries_nothing(tmp_path: Path) -> None:
    moves = {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true", MAX: "1", "spark.executor.cores": "1"}
    answer = asked(write_log(tmp_path / "log.json", moves), "--json")  # one executor would have run what two did
    assert answer.code == 5
    found = json.loads(answer.out)
    assert found["overview"] is None
    assert found["refused"]


# ------------------------------------------------------------------------------------------------------------- cost


@pytest.mark.parametrize("tasks", [100, 40_000, 400_000, 4_000_000])
def test_what_is_simulated_is_bounded_by_the_tasks_of_the_log(tasks: int) -> None:
    made: list[tuple[int | None, int]] = []

    def counted(
        app: Application,
        behaviour: Behaviour,
        plan: Plan,
        seed: int = 0,
        *,
        watch: bool = False,
        limit_ms: int | None = None,
    ) -> RerunOutcome:
        made.append((plan.static if plan.dynamic is None else None, seed))
        return rerun(app, behaviour, plan, seed, watch=watch, limit_ms=limit_ms)

    known = application(YARN, executors=8)
    big = replace(known, stages=(replace(known.stages[0], body_ms=array("q", [1_000]) * tasks),))
    found = study(big, rerun=counted).unwrap()
    made.clear()
    shown: list[int] = []
    answer = overview(found, None, rerun=counted, processes=1, progress=shown.append)
    points = len(answer.statics) + len(answer.maxima)
    assert points >= 8
    assert shown == list(range(1, answer.simulations + 1))
    assert answer.seeds == 1 or answer.seeds * points * tasks <= 2 * CURVE_TASKS
    assert len(made) <= {100: 130, 40_000: 130}.get(tasks, 40)


# ----------------------------------------------------------------------------------------------------------- pieces

Event = dict[str, Any]


def _edited(log: Path, folder: Path, edit: Callable[[list[Event]], list[Event]]) -> Path:
    events = [json.loads(line) for line in log.read_text().splitlines()]
    path = folder / "edited.json"
    path.write_text("".join(json.dumps(event) + "\n" for event in edit(events)))
    return path


def _last_task_takes(length_ms: int) -> Callable[[list[Event]], list[Event]]:
    """The last task of a log in which all run at once takes longer, and so do its stage, its job and the application."""

    def edit(events: list[Event]) -> list[Event]:
        end = START + 4_000 + length_ms
        last = max(i for i, event in enumerate(events) if event["Event"] == "SparkListenerTaskEnd")
        events[last]["Task Info"]["Finish Time"] = end
        for event in events[last + 1 :]:
            if event["Event"] == "SparkListenerStageCompleted":
                event["Stage Info"]["Completion Time"] = end
            else:
                event["Completion Time" if "Completion Time" in event else "Timestamp"] = end
        return events

    return edit


def _first_tries_end(reasons: Sequence[Mapping[str, Any]]) -> Callable[[list[Event]], list[Event]]:
    """Tries of the first tasks, on their executor at the same time as they succeeded, that ended for these reasons."""

    def edit(events: list[Event]) -> list[Event]:
        ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
        found = []
        for event in events:
            found.append(event)
            if event in ends[: len(reasons)]:
                info = {**event["Task Info"], "Task ID": 1_000 + len(found), "Attempt": 1}
                found.append({**event, "Task Info": info, "Task End Reason": reasons[ends.index(event)]})
        return found

    return edit
