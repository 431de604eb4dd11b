"""``podtide tune`` as its user meets it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.entrypoints.whatif import tune_command
from podtide.entrypoints.whatif.tune_command import TuneOptions, run
from tests.support import commands
from tests.support.project import TRUTH
from tests.support.schemas import validate
from tests.support.tune_play import IDLE, read, rerun

invoked = partial(commands.answer, "tune")


def played(options: TuneOptions) -> int:
    return run(options, read=read, rerun=rerun)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command over the small world of ``tune_play``."""
    monkeypatch.setattr(tune_command, "run", played)
    return invoked


SMALL = ("--space", "none", "--space", f"{IDLE}=5s,20s,60s", "--space", "spark.dynamicAllocation.maxExecutors=4,8,16")


def test_the_answer_for_people(asked: Any) -> None:
    answer = asked("good-0", *SMALL, "--space", "static=4,8")
    assert answer.code == 0
    assert "as it ran" in answer.out
    assert "static 4" in answer.out
    assert "→ executorIdleTimeout 5s" in answer.out
    assert "spark.dynamicAllocation.executorIdleTimeout  5s" in answer.out
    assert "--conf spark.dynamicAllocation.executorIdleTimeout=5s" in answer.out
    assert "SparkApplication" not in answer.out, "the application ran on YARN"
    assert "In nine of ten runs it saves at least " in " ".join(answer.out.split())
    assert "10 configs, all of a grid" in answer.out
    assert "hush" not in answer.out


def test_the_document(asked: Any) -> None:
    found = asked("good-0", *SMALL, "--json", "--price", "core-hour=3.6,currency=EUR").document
    assert found["schema"] == "podtide/tune/1"
    assert found["recommendation"]["name"] == "executorIdleTimeout 5s"
    assert found["recommendation"]["conf"] == {IDLE: "5s"}
    assert found["recommendation"]["saving"]["share"] == pytest.approx(1 - 680 / 1120, abs=1e-6)
    assert set(found["recommendation"]["lines"]) == {"spark-defaults.conf", "spark-submit"}, "no operator on YARN"
    assert found["frontier"] == [
        "maxExecutors 16, executorIdleTimeout 5s",
        "executorIdleTimeout 5s",
        "maxExecutors 4, executorIdleTimeout 5s",
    ]
    assert {one["name"] for one in found["variants"]} >= set(found["frontier"])
    assert found["self_replay"]["cost"] == pytest.approx(1120 / 1000)
    assert found["searched"]["space"] == {
        IDLE: ["5s", "20s", "60s"],
        "spark.dynamicAllocation.maxExecutors": ["4", "8", "16"],
    }
    assert found["searched"]["candidates"] == 8
    assert found["self_replay"]["curve"]
    assert found["measure"] == "cost"
    validate(found, "whatif")


def test_what_is_nearly_as_cheap_and_faster_stands_beside_the_cheapest(asked: Any, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    shown = asked("good-0", *SMALL, "--within", "100%", "--report", page)
    found = asked("good-0", *SMALL, "--within", "100%", "--json").document
    validate(found, "whatif")
    assert found["recommendation"]["name"] == "maxExecutors 4, executorIdleTimeout 5s"
    knee = found["knee"]
    assert knee["name"] == "maxExecutors 16, executorIdleTimeout 5s"
    assert knee["conf"] == {IDLE: "5s", "spark.dynamicAllocation.maxExecutors": "16"}
    assert knee["saving"]["share"] == pytest.approx(1 - 720 / 1120, abs=1e-6)
    assert knee["name"] in {one["name"] for one in found["variants"]}
    assert "Nearly as cheap, and faster:\n  → maxExecutors 16, executorIdleTimeout 5s" in shown.out
    assert f"    {IDLE}=5s, spark.dynamicAllocation.maxExecutors=16" in shown.out
    text = page.read_text()
    assert "Nearly as cheap, and faster" in text
    assert text.count("spark.dynamicAllocation.executorIdleTimeout  5s") == 2
    assert asked("good-0", *SMALL, "--within", "-20%", "--json").document["knee"] is None


def test_what_is_to_be_known_stands_beside_the_advice(asked: Any, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    options = ("good-0", "--space", "none", "--space", "spark.executor.cores=2", "--space", f"{IDLE}=5s")
    shown = asked(*options, "--report", page)
    [caveat] = [one for one in asked(*options, "--json").document["recommendation"]["caveats"] if "cores" in one]
    assert caveat == "spark.executor.cores: tasks take as long on executors of another shape as they took."
    assert " ".join(shown.out.split()).count(f"! {caveat}") == 1
    assert caveat in page.read_text()


def test_several_runs_are_one_answer_and_bad_logs_are_left_out(asked: Any) -> None:
    answer = asked("good-2", "nowhere", "misfit-1", "good-1", "nothing-1", *SMALL, "--json")
    found = answer.document
    assert answer.code == 0
    validate(found, "whatif")
    assert [one["id"] for one in found["runs"]] == ["app-1", "app-2"]
    assert [one["log"] for one in found["unusable"]] == ["nowhere", "misfit-1", "nothing-1"]
    assert found["recorded"]["runtime_s"] == pytest.approx(90.0)
    assert found["recommendation"]["name"] == "executorIdleTimeout 5s"
    assert found["recommendation"] == asked("good-1", "good-2", *SMALL, "--json").document["recommendation"]
    assert found["runs"][0]["recommended"]["price_share"] == pytest.approx(680 / 1120 - 1, abs=1e-6)
    shown = asked("good-2", "nowhere", "good-1", *SMALL)
    assert "2 runs; figures are their means" in shown.out
    assert "left out: nowhere: cannot be read" in shown.out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--within", "100%"), "maxExecutors 4, executorIdleTimeout 5s"),
        (("--within", "-20%"), "maxExecutors 16, executorIdleTimeout 5s"),
        (("--within", "-80%"), None),
        (("--worth", "50%"), None),
    ],
)
def test_what_is_asked_decides(asked: Any, options: Sequence[str], name: str | None) -> None:
    found = asked("good-0", *SMALL, "--seeds", "1", "--json", *options).document
    assert found["recommendation"]["name"] == name


def test_nothing_is_worth_changing(asked: Any) -> None:
    answer = asked("good-0", "--space", "none", "--space", f"{IDLE}=60s,120s")
    assert answer.code == 0
    assert "Nothing is worth changing" in answer.out
    assert "spark-submit" not in answer.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("good-0", "--within", "10"), 2, "write 1000% if it is meant"),
        (("good-0", "--worth", "-1%"), 2, "expected a share such as 10% or 0.1"),
        (("good-0", "--price", "core-hour=much"), 2, "core-hour"),
        (("good-0", "--space", "spark.executor.instance=4"), 2, "spark.executor.instance"),
        (("good-0", "--cluster", "nowhere.yaml"), 3, "nowhere.yaml"),
        (("good-0", "--spark-version", "new"), 2, "a version such as 3.5"),
        (
            ("good-0", "--recorded-conf", "spark.executor.cores=x"),
            2,
            "spark.executor.cores = 'x': expected a whole number",
        ),
        (("good-0", "--json", "--report", "-"), 2, "both write to standard output"),
        (("-", "-"), 2, "standard input"),
        (("nowhere", "neither"), 3, "nowhere: there is no such file or folder"),
        (("nowhere", "misfit-0"), 5, "the model does not fit"),
        (("nothing-0",), 5, "no task ended well"),
    ],
)
def test_what_is_refused_says_why(asked: Any, arguments: Sequence[str], code: int, said: str) -> None:
    answer = asked(*arguments)
    assert answer.code == code
    assert said in answer.err


def test_a_report_is_written(asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert asked("good-0", *SMALL, "--report", file).code == 0
    text = file.read_text()
    assert "executorIdleTimeout 5s" in text
    assert "count <b>" not in text


def test_on_a_narrow_terminal_nothing_is_lost(asked: Any) -> None:
    answer = asked("good-0", *SMALL, columns=40)
    assert max(map(len, answer.out.splitlines())) <= 40
    assert "executorIdleTimeout 5s" in answer.out


@pytest.mark.skipif(not TRUTH.is_dir(), reason="../shared/data is not here")
def test_real_runs_are_tuned() -> None:
    logs = sorted(TRUTH.glob("w2/D_*/*/log"))
    answer = invoked(*logs, "--budget", "20", "--seeds", "2", "--json", "--jobs", "1")
    assert answer.code == 0
    found = answer.document
    assert len(found["runs"]) == len(logs)
    assert found["searched"]["candidates"] <= 20
    assert all(abs(one["error"]["runtime"]) < 0.25 for one in found["runs"])


def test_the_report_of_several_logs_has_no_empty_panel(asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert asked("good-0", "good-1", *SMALL, "--report", file).code == 0
    assert "<h3>Executors over time" not in file.read_text()
    assert asked("good-0", *SMALL, "--report", file, "--overwrite").code == 0
    assert "<h3>Executors over time" in file.read_text()
