"""A simulation for people: what is said, in which order, in any width, in ASCII where it must be."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import pytest

from podtide.adapters.text.page import Page
from podtide.adapters.views.simulation import SimulationView

START = 1_767_225_600_000
DOCUMENT: dict[str, Any] = {
    "app_id": "simulated", "cluster": "spot.yaml", "seed": 7, "start_ms": START, "steps": 1_234, "duration_s": 300.0,
    "conf": {"spark.kubernetes.allocation.batch.size": "1"}, "fixes": [], "notes": [],
    "targets": [
        {"at_ms": START + 200, "profile": 0, "before": 0, "target": 3, "steps": 1, "raised_ms": START + 200, "most": 3,
         "reached_ms": START + 7_450, "duration_s": 7.25, "replaced": False,
         "waited": [{"for": "node", "duration_s": 5.06}, {"for": "batch size", "duration_s": 2.19}]},
        {"at_ms": START + 60_000, "profile": 0, "before": 3, "target": 400, "steps": 9, "raised_ms": START + 68_000,
         "most": 58, "reached_ms": None, "duration_s": None, "replaced": True, "waited": []},
        {"at_ms": START + 120_000, "profile": 0, "before": 2, "target": 5, "steps": 1, "raised_ms": START + 120_000,
         "most": 4, "reached_ms": None, "duration_s": None, "replaced": False, "waited": []},
    ],
    "targets_left_out": 0,
    "pods": {"created": 70, "creations_failed": 2, "registered": 58, "removed": 9, "wasted": 10, "on_the_way": 2,
             "excess": 4, "timed_out": 1, "executor_seconds": 12_345.678, "waiting_seconds": 987.6},
    "removals": {"pod failed": 6, "killed by the driver": 3},
    "wasted_by": {"above target": 7, "pod failed": 3},
    "calls": {"create pods": 72, "list pods": 10},
    "calls_failed": {"create pods 403": 2},
    "held": [{"bound": "batch size", "profile": 0, "duration_s": 56.7, "pod_seconds": 6_020.7}],
    "kept": [{"bound": "shuffle data", "profile": 0, "duration_s": 250.0, "executor_seconds": 26_544.6}],
    "rounds_threw": 1,
    "exit_code": None,
    "series": {"start_ms": START, "width_ms": 100_000, "fields": ["target", "need", "executors", "busy"],
               "mean": [[3, 3, 3, 1.5], [400, 400, 90, 50], [5, 5, 5, 4]],
               "peak": [[3, 3, 3, 3], [400, 400, 90, 58], [5, 5, 5, 4]]},
    "cluster_tally": {},
    "workload": {},
}  # fmt: skip


def shown(width: int = 100, stream: io.StringIO | None = None, **changes: Any) -> str:
    """The report, with some of the document's keys changed."""
    out = stream or io.StringIO()
    document = {**deepcopy(DOCUMENT), **changes}
    page = Page(out, width)
    SimulationView(page, document).report(lambda: page.say("THE TIMELINE"))
    return out.getvalue()


def row(text: str, name: str) -> str:
    """The line of a figure."""
    return next(" ".join(line.split()) for line in text.splitlines() if line.strip().startswith(name))


def test_what_was_simulated_comes_first() -> None:
    lines = shown().splitlines()
    assert lines[0] == "Simulation of simulated"
    assert lines[1] == "5m 00s of virtual time · 1,234 steps · seed 7 · cluster: spot.yaml"
    assert lines[2] == "conf  kubernetes.allocation.batch.size 1"


def test_sections_come_in_the_order_of_the_questions() -> None:
    text = shown()
    titles = (
        "Executors  over",
        "THE TIMELINE",
        "Targets that were raised",
        "What it took",
        "What held pods back",
        "What kept",
    )
    places = [text.index(title) for title in titles]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pods created", "pods created 70 2 creations failed · 2 still on the way"),
        ("executors registered", "executors registered 58 9 gone again: pod failed 6, killed by the driver 3"),
        ("pods wasted", "pods wasted 10 gone before they registered · above target 7 · pod failed 3"),
        ("excess pods deleted", "excess pods deleted 4 pods that had not started, above the target"),
        ("pods given up", "pods given up 1 not seen within allocation.executor.timeout"),
        ("executor time", "executor time 3h 25m of registered executors, added up"),
        ("waiting time", "waiting time 16m 28s of pods asked for and not registered, added up"),
        ("API calls", "API calls 82 create pods 72 · list pods 10"),
        ("calls that failed", "calls that failed 2 create pods 403 2"),
        ("rounds that threw", "rounds that threw 1 Spark logs these and tries again"),
    ],
)
def test_each_figure_says_what_it_is(name: str, told: str) -> None:
    assert row(shown(), name) == told


def test_what_did_not_happen_is_not_listed() -> None:
    quiet = {**DOCUMENT["pods"], "wasted": 0, "excess": 0, "timed_out": 0, "creations_failed": 0, "on_the_way": 0}
    text = shown(pods=quiet, calls_failed={}, rounds_threw=0, held=[], kept=[], wasted_by={}, targets=[])
    for absent in ("wasted", "excess", "given up", "failed", "threw", "held", "kept", "Targets"):
        assert absent not in text.replace("pod failed 6", "")
    assert row(text, "pods created") == "pods created 70"


def test_targets_say_how_long_they_took_or_how_far_they_got() -> None:
    text = shown()
    assert row(text, "0:00.2") == "0:00.2 0 → 3 7.2 s"
    assert "      5.1 s for nodes · 2.2 s by allocation.batch.size\n" in text
    assert row(text, "1:00.0") == "1:00.0 3 → 400 in 9 steps changed before it was reached, with 58 at most"
    assert row(text, "2:00.0") == "2:00.0 2 → 5 not reached, with 4 at most"


def test_profiles_are_named_where_there_are_several() -> None:
    assert "profile" not in shown()
    other = [{**DOCUMENT["targets"][0], "profile": 2}, DOCUMENT["targets"][1]]
    bounds = [{**DOCUMENT["held"][0], "profile": 2}]
    text = shown(targets=other, held=bounds)
    assert row(text, "0:00.2") == "0:00.2 0 → 3 profile 2 7.2 s"
    assert "profile 0" in row(text, "1:00.0")
    assert "profile 2" in row(text, "allocation.batch.size")


def test_many_targets_are_counted() -> None:
    text = shown(targets=[DOCUMENT["targets"][0]] * 40, targets_left_out=5)
    assert "and 33 more (--json has 40)" in text


def test_bounds_are_named_as_people_know_them() -> None:
    text = shown()
    assert row(text, "allocation.batch.size") == "allocation.batch.size 56.7 s 6,021 pod-seconds"
    assert row(text, "shuffle data") == "shuffle data 4m 10s 26,545 executor-seconds"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0 pod-seconds"), (0.44, "0.4 pod-seconds"), (1.01, "1 pod-second"), (9.96, "10 pod-seconds"),
     (1_234.5, "1,234 pod-seconds")],
)  # fmt: skip
def test_few_seconds_are_counted_in_tenths(seconds: float, told: str) -> None:
    held = [{**DOCUMENT["held"][0], "pod_seconds": seconds}]
    assert row(shown(held=held), "allocation.batch.size").endswith(f" {told}")


@pytest.mark.parametrize(
    ("code", "told"),
    [(11, "exit code 11: more executors failed than"), (1, "exit code 1: the driver failed"), (50, "exit code 50.")],
)
def test_an_end_is_told(code: int, told: str) -> None:
    assert told in " ".join(shown(exit_code=code).split())


def test_jobs_of_a_workload() -> None:
    jobs = [
        {"name": "load", "run": 0, "job": 0, "began_ms": START + 500, "first_task_ms": START + 20_500,
         "ended_ms": START + 60_500, "ending": "succeeded"},
        {"name": "load", "run": 1, "job": 1, "began_ms": START + 70_000, "first_task_ms": None, "ended_ms": None,
         "ending": "running"},
    ]  # fmt: skip
    text = shown(workload={"jobs": jobs, "tasks_succeeded": 40, "tasks_failed": 0, "useful_ms": 90_000})
    assert row(text, "0:00.5") == "0:00.5 load 1m 00s 20 s succeeded"
    assert row(text, "1:10.0") == "1:10.0 load #2 running"
    assert "tasks succeeded 40 · useful 1m 30s" in text
    assert "tasks failed" not in text
    assert "and 8 more" in shown(workload={"jobs": jobs * 10})


def test_notes_and_fixes_are_told() -> None:
    text = shown(notes=["Stopped at --duration."], fixes=["SPARK-34519"])
    assert "  ! Stopped at --duration." in text
    assert "fixes that Spark 4.3.0 lacks: SPARK-34519" in text


def test_a_simulation_in_which_nothing_happened() -> None:
    empty = {**DOCUMENT["series"], "mean": [], "peak": []}
    assert "Executors  over" not in shown(series=empty, seconds=0.0)
