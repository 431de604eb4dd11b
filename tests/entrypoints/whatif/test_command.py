"""``podtide whatif`` as its user meets it: against a log whose answers can be worked out by hand."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.rerun.plan import Variant
from podtide.entrypoints.common.output import Misused, ModelRefused
from podtide.entrypoints.whatif.command import WhatIfOptions, run
from podtide.entrypoints.whatif.recorded_log import Loaded
from podtide.entrypoints.whatif.run import answered, evaluate, planned, study
from podtide.entrypoints.whatif.variants import VariantWishes
from tests.support import commands
from tests.support.project import TRUTH
from tests.support.schemas import validate
from tests.support.terminal import Terminal
from tests.support.whatif_log import STATIC, write_log
from tests.support.whatif_play import BEHAVIOUR, KUBERNETES, application, rerun

asked = partial(commands.answer, "whatif")

DA = "spark.dynamicAllocation."
DYNAMIC = ("--set", DA + "enabled=true", "--set", DA + "shuffleTracking.enabled=true")
MOVES = {"spark.master": "yarn", DA + "enabled": "true", DA + "maxExecutors": "1", "spark.executor.cores": "1"}
"""Under which one executor would have run what two did."""


def document(*arguments: str | Path) -> dict[str, Any]:
    answer = asked(*arguments, "--json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    validate(found, "whatif")
    return found


# ------------------------------------------------------------------------------------------------------- by hand


def test_what_can_be_worked_out_by_hand(log: Path) -> None:
    found = document(log, "--static", "4", "--static", "1", "--seeds", "1")
    assert found["recorded"]["runtime_s"] == 24.0
    assert found["self_replay"]["error"] == {"runtime": 0.0, "executor_seconds": 0.0, "peak_executors": 0, "curve": 0.0}
    assert sum(found["self_replay"]["waiting"].values()) == pytest.approx(found["self_replay"]["waited_s"])
    four, one = found["variants"]
    assert (four["name"], four["runtime_s"], four["executor_seconds"], four["peak_executors"]) == (
        "static 4",
        14.0,
        44.0,
        4,
    )
    assert (one["runtime_s"], one["executor_seconds"]) == (44.0, 41.0)
    assert four["ledger"]["running"] == 40.0
    assert sum(four["ledger"].values()) == pytest.approx(four["billed_seconds"])


def test_what_does_not_come_to_its_end_has_no_run_time(log: Path) -> None:
    (stuck,) = document(log, "--quota", "0", "--seeds", "2")["variants"]
    assert (stuck["runtime_s"], stuck["runtime_range_s"], bool(stuck["unfinished"])) == (None, None, True)
    answer = asked(log, "--quota", "0", "--seeds", "1")
    (run_time,) = (line for line in answer.out.splitlines() if line.strip().startswith("run time"))
    assert run_time.split()[-1] == "–"
    assert "faults does not come to its end" in answer.out


@pytest.mark.parametrize(("task_ms", "noted"), [(1_000, False), (10_000, True)])
def test_a_large_share_of_a_little_time_is_no_trouble_with_memory(tmp_path: Path, task_ms: int, noted: bool) -> None:
    """A fifth of the tasks' time goes to the garbage collector: 8 s, or 80 s."""
    path = write_log(tmp_path / "log", task_ms=task_ms)
    metrics = {"Executor Run Time": task_ms, "JVM GC Time": task_ms // 5, "Disk Bytes Spilled": 1 << 20}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    metered = [line | {"Task Metrics": metrics} if line["Event"] == "SparkListenerTaskEnd" else line for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in metered))
    troubles = [one["what"] for one in document(path, "--seeds", "1")["unknowns"] if "garbage" in one["what"]]
    assert troubles == (["Tasks spent 20% of their time (80 s) collecting garbage."] if noted else [])


def test_work_is_counted_in_slots(tmp_path: Path) -> None:
    """Two tasks of 20 s on two executors of eight slots: each executor runs one, and is an eighth full."""
    path = write_log(tmp_path / "log", {**STATIC, "spark.executor.cores": "8"}, tasks=2, task_ms=20_000)
    path.write_text(path.read_text().replace('"Total Cores": 1', '"Total Cores": 8'))
    replay = document(path, "--seeds", "1")["self_replay"]
    assert replay["filled_seconds"] == 2 * 20 / 8
    assert replay["ledger"]["running"] >= 20
    said = asked(path, "--seeds", "1").words
    share = f"{5 / replay['billed_seconds']:.0%}"
    assert f"{share} of {replay['billed_seconds']:.0f} billed executor-seconds did work, slot by slot" in said
    assert f"{1 - 5 / replay['billed_seconds']:.0%} of the bill did no work" in said
    assert "slots free beside running tasks" in said
    assert f"running ({share} by slots)" in said


def test_an_even_stage_with_a_task_too_many_is_not_told_to_mind_its_skew(tmp_path: Path) -> None:
    ledger = document(write_log(tmp_path / "log", tasks=41), "--seeds", "1")["self_replay"]["ledger"]
    assert (ledger["waiting_for_the_last_task"], ledger["fewer_tasks_than_slots"]) == (0.0, 1.0)


def test_all_kinds_of_variants_at_once(log: Path) -> None:
    wide = "wide:static=2,spark.executor.cores=4,spark.executor.memory=8g"
    found = document(
        log, "--set", "spark.executor.instances=3", "--variant", wide,
        "--static", "5", "--quota", "1", "--price", "core-hour=36,gb-hour=0", "--seeds", "2",
    )  # fmt: skip
    by_name = {one["name"]: one for one in found["variants"]}
    assert list(by_name) == ["set", "wide", "static 5", "faults"]
    assert by_name["set"]["peak_executors"] == 3
    assert by_name["wide"]["runtime_s"] == 9.0  # eight slots
    assert by_name["wide"]["core_hours"] == pytest.approx(by_name["wide"]["billed_seconds"] * 4 / 3600, abs=1e-6)
    assert by_name["faults"]["peak_executors"] == 1
    assert by_name["static 5"]["cost"] == pytest.approx(by_name["static 5"]["billed_seconds"] / 100, abs=1e-5)
    assert any("bill alone" in note for note in by_name["wide"]["notes"])


def test_on_kubernetes(log: Path) -> None:
    batch = "spark.kubernetes.allocation.batch.size"
    found = document(log, "--kubernetes", "--variant", f"k:static=6,{batch}=1", "--static", "6", "--seeds", "1")
    slow, fast = found["variants"]
    assert slow["conf"]["spark.master"].startswith("k8s://")
    assert slow["waiting"]["batch_size_and_delay"] > fast["waiting"]["batch_size_and_delay"]
    assert slow["runtime_s"] >= fast["runtime_s"]


def test_the_report_for_people(log: Path) -> None:
    text = asked(log, "--static", "4", "--price", "core-hour=1").out
    assert "Ran 24 s on up to 2 executors" in text
    assert "14 s −42%" in text
    assert "in executor-seconds: a " in " ".join(text.split())


def test_standard_input(log: Path) -> None:
    answer = asked("-", "--json", "--seeds", "1", stdin=log.read_bytes())
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["recorded"]["runtime_s"] == 24.0


def test_the_html_report(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert asked(log, "--static", "4", "--report", file).code == 0
    assert "nightly" in file.read_text()
    nowhere = asked(log, "--report", tmp_path / "no" / "report.html")
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "--report" in nowhere.err
    both = asked(log, "--report", "-", "--json")
    assert (both.code, both.out) == (2, "")
    assert asked(log, "--report", "-").out.lower().startswith("<!doctype html>")


def test_a_report_that_cannot_be_written_is_refused_before_the_log_is_read(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / ("x" * 300)):
        refused = asked(tmp_path / "no log", "--report", place)
        assert (refused.code, refused.out) == (2, "")
        assert "cannot be written" in refused.err
    assert asked(tmp_path / "no log", "--report", tmp_path / "page.html").code == 3
    assert not list(tmp_path.iterdir())


def test_a_terminal_sees_each_run_begin(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(WhatIfOptions(str(log), VariantWishes(statics=(4,)), seeds=2, as_json=True)) == 0
    said = [text.removesuffix("\x1b[K") for text in terminal.getvalue().split("\r") if "run" in text]
    assert said == [
        *(f"simulating its own config, run {number}" for number in range(1, 7)),
        *(f"simulating static 4, 1 of 1, run {number}" for number in (1, 2, 3)),
    ]


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", DA + "maxExecutor=4"], f"did you mean {DA}maxExecutors?"),
        (
            ["--set", "spark.executor.cores=many"],
            "spark.executor.cores = 'many' (variant set): expected a whole number",
        ),
        (["--variant", "w:spark.task.cpus=3"], "spark.executor.cores = '1'"),
        (["--variant", "w"], "expected NAME:KEY=VALUE"),
        (["--static", "0"], "0 is not in the range"),
        (["--spot-rate", "often"], "expected interruptions an hour"),
        (["--slow-start", "slow"], "expected a duration"),
        (["--quota", "few"], "expected a whole number"),
        (["--static", "1000000"], "1000000 is not in the range 1<=x<=10000"),
        (["--variant", "w:static=1000000"], "expected a whole number from 1 to 10,000"),
        (["--set", "spark.executor.instances=1000000"], "expected at most 10,000 executors from the start"),
        (
            [*DYNAMIC, "--set", DA + "initialExecutors=1000000"],
            DA + "initialExecutors = '1000000' (variant set): expected at most 10,000 executors",
        ),
        (["--price", "core-hour=cheap"], "core-hour = 'cheap': expected a number"),
        (["--price", "/nowhere/prices.yaml"], "cannot be read"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--max-error", "lots"], "expected a share such as 10% or 0.1, 0% to 10000%"),
        (["--max-error", "nan"], "expected a share"),
        (["--recorded-conf", "spark.executor.cores=x"], "spark.executor.cores = 'x' (--recorded-conf)"),
        (["--spark-version", "newest"], "--spark-version newest"),
        (["--set", "spark.my.password=hush", "--set", "spark.my.password=hush"], "spark.my.password: expected once"),
    ],
)
def test_what_the_command_line_gets_wrong(log: Path, arguments: list[str], words: str) -> None:
    answer = asked(log, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_a_cluster_needs_something_that_runs_on_it(log: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("nodes: {groups: [{name: w, count: 10, cpu: 4}]}\n")
    answer = asked(log, "--cluster", cluster, "--static", "2")
    assert answer.code == 2
    assert "add --kubernetes" in answer.err
    assert asked(log, "--cluster", cluster, "--static", "2", "--kubernetes", "--seeds", "1").code == 0
    cluster.write_text("nodes: 3\n")
    assert asked(log, "--cluster", cluster, "--kubernetes").code == 3


@pytest.mark.parametrize("text", ["", "no log\n", '{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}\n'])
def test_what_is_no_log_of_an_application(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    answer = asked(file)
    assert answer.code in (3, 5)
    assert str(file) in answer.err
    assert "Traceback" not in answer.err


def test_a_model_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", MOVES)
    answer = asked(log, "--static", "4")
    assert (answer.code, answer.out) == (5, "")
    assert "+83% in run time" in answer.err
    assert "stage 0 (count at nightly.py:3) is farthest off" in answer.err
    assert asked(log, "--max-error", "100%", "--static", "4").code == 0


def test_a_refusal_as_json_says_why(tmp_path: Path) -> None:
    answer = asked(write_log(tmp_path / "log", MOVES), "--static", "4", "--json")
    assert answer.code == 5
    found = json.loads(answer.out)
    validate(found, "whatif")
    assert found["variants"] == []
    assert "does not fit" in found["refused"][0]


def test_what_the_user_knows_better_than_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", MOVES)
    properties = tmp_path / "real.conf"
    properties.write_text(f"{DA}enabled false\n")
    answer = asked(log, "--recorded-conf", "spark.executor.instances=2", "--recorded-properties-file", properties)
    assert answer.code == 0, answer.err


# ------------------------------------------------------------------------------------------- with a known simulation


def load(_: str, overrides: Sequence[SparkConf] = (), version: str | None = None) -> Loaded:
    del overrides, version
    return Loaded(application(), ("a remark on the log",))


def test_progress_and_remarks_do_not_reach_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    options = WhatIfOptions("a.log", VariantWishes(statics=(2,)), as_json=True, seeds=3)
    assert run(options, read=load, rerun=rerun) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["notes"] == ["a remark on the log"]
    assert found["self_replay"]["runtime_s"] == 22.0  # the middle one of five seeds without that of the log
    assert found["variants"][0]["runtime_s"] == 11.0
    assert found["seeds"] == 3


def test_wrong_variants_are_refused_before_anything_is_run() -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("it was run")

    with pytest.raises(Misused, match="1 or more"):
        run(WhatIfOptions("a.log", VariantWishes(sets=(DA + "maxExecutors=0",))), read=load, rerun=never)


def test_an_application_without_tasks_is_refused() -> None:
    def empty(*_: object) -> Loaded:
        return Loaded(application(tasks=0))

    with pytest.raises(ModelRefused, match="nothing to run"):
        run(WhatIfOptions("a.log"), read=empty, rerun=rerun)


def test_only_the_typical_run_is_watched() -> None:
    app = application()
    made = study(app, behaviour=BEHAVIOUR, seeds=3, rerun=rerun).unwrap()
    outcomes = evaluate(app, BEHAVIOUR, made.replay.plan, (0, 1, 2), watch=True, rerun=rerun)
    assert [bool(one.curve) for one in outcomes] == [False, True, False]
    assert [bool(one.curve) for one in evaluate(app, BEHAVIOUR, made.replay.plan, (4,), watch=True, rerun=rerun)] == [
        True
    ]


def test_a_study_and_its_answers_can_be_sent_to_other_processes() -> None:
    for properties in (None, KUBERNETES, {"spark.master": "local[2]"}):
        made = study(application(properties), seeds=2).unwrap()
        again = pickle.loads(pickle.dumps(made))
        assert again == made
        variant = Variant("v", static=2)
        ready = planned(again, variant).unwrap()
        answer = answered(again, variant, pickle.loads(pickle.dumps(ready)), watch=False)
        assert pickle.loads(pickle.dumps(answer)) == answer


# ------------------------------------------------------------------------------------------------------- real logs


@pytest.mark.skipif(not TRUTH.is_dir(), reason="the folder of real runs is not beside the project")
def test_a_real_run_predicts_another_config() -> None:
    first = next(iter(sorted((TRUTH / "w1" / "A_b1_i60_max8").glob("run*/log/*"))))
    real = json.loads(next(iter(sorted((TRUTH / "w1" / "H_static4").glob("run*/manifest.json")))).read_text())
    found = document(first, "--static", "4", "--seeds", "3")
    assert abs(found["self_replay"]["error"]["runtime"]) < 0.1
    predicted = found["variants"][0]
    assert predicted["runtime_s"] == pytest.approx(real["app_s"], rel=0.1)
    assert predicted["executor_seconds"] == pytest.approx(real["executor_seconds"], rel=0.1)
