"""``podtide diff`` as its user, or a pipeline, meets it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from podtide.domain.conf.scaling_config import MAX
from podtide.entrypoints.whatif import diff, diff_command
from podtide.entrypoints.whatif.diff_command import DiffOptions, run
from tests.support import commands
from tests.support.project import TRUTH
from tests.support.tune_play import IDLE, read, rerun

invoked = partial(commands.answer, "diff")

SHORT_IDLE = ("--candidate", f"{IDLE}=5s")
NARROW = ("--candidate", f"{MAX}=4")


def played(options: DiffOptions) -> int:
    return run(options, read=read, rerun=rerun)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command over the small world of ``tune_play``."""
    monkeypatch.setattr(diff_command, "run", played)
    return invoked


@pytest.fixture
def asked_here(asked: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, without processes of its own for more than one log."""
    monkeypatch.setattr(diff, "_rows", lambda differ, logs, _: ((at, differ.row(log)) for at, log in enumerate(logs)))
    return asked


def test_the_row_of_an_application(asked: Any) -> None:
    answer = asked("good-0", *SHORT_IDLE, "--json", "--price", "core-hour=3.6")
    found = answer.document
    assert answer.code == 0
    (row,) = found["applications"]
    assert row["status"] == "compared"
    assert row["settings"] == {IDLE: ["60000ms", "5000ms"]}
    assert row["base"]["executor_seconds"] == pytest.approx(1120)
    assert row["candidate"]["executor_seconds"] == pytest.approx(680)
    assert row["change"]["cost"]["share"] == pytest.approx(680 / 1120 - 1, abs=1e-6)
    time = row["change"]["runtime"]
    assert time["low"] < time["least"] < time["share"] == 0.0 < time["most"] < time["high"]
    assert row["decisions"] == {"base": 8, "candidate": 8, "differing": 0, "first": None}
    assert row["error"]["runtime"] == pytest.approx(2 / 90, abs=1e-6)  # the typical of four seeds is two seconds late
    assert found["totals"]["applications"] == 1
    assert found["defaults_only"] is False


def test_one_bad_log_never_stops_the_rest(asked: Any) -> None:
    logs = ("good-0", "nowhere", "misfit-1", "deadly-1", "endless-1", "nothing-1", "good-1")
    answer = asked(*logs, "--candidate", f"{MAX}=16", "--json", "--jobs", "2")
    found = answer.document
    assert [one["status"] for one in found["applications"]] == [
        "compared", "unreadable", "refused", "unreadable", "unfinished", "refused", "compared",
    ]  # fmt: skip
    assert "its process died" in found["applications"][3]["why"]
    assert found["applications"][4]["side"] == "candidate"
    assert found["totals"]["applications"] == 2
    assert found["totals"]["base"]["executor_seconds"] == pytest.approx(2240)
    assert answer.code == 3
    shown = asked(*logs, "--candidate", f"{MAX}=16")
    assert "5 logs without figures" in shown.out
    assert "! nowhere: unreadable: there is no such file" in shown.out
    assert "in all" in shown.out


@pytest.mark.parametrize(
    ("logs", "options", "code"),
    [
        (("good-0",), (), 0),
        (("good-0",), ("--fail-if", "runtime>+50%"), 1),
        (("good-0",), ("--fail-if", "runtime>+99%"), 0),
        (("good-0", "good-1"), ("--fail-if", "any(runtime)>+20s", "--fail-if", "executor_seconds>+1%"), 1),
        (("good-0", "good-1"), ("--fail-if", "executor_seconds>+1%"), 0),
        (("good-0", "nowhere"), (), 3),
        (("good-0", "nowhere"), ("--skip-bad",), 0),
        (("nowhere",), ("--skip-bad",), 3),
        (("good-0", "misfit-0"), (), 5),
        (("good-0", "misfit-0"), ("--max-error", "200%"), 0),
        (("good-0", "nowhere"), ("--fail-if", "runtime>+50%"), 1),
    ],
)
def test_exit_codes(asked_here: Any, logs: Sequence[str], options: Sequence[str], code: int) -> None:
    assert asked_here(*logs, *NARROW, *options).code == code


def test_a_gate_names_what_failed(asked: Any) -> None:
    answer = asked("good-0", "good-1", *NARROW, "--fail-if", "any(runtime)>+50%", "--fail-if", "executor_seconds>+0%")
    assert "! fails   any(runtime)>+50%" in answer.out
    assert "good-1: 1m31s → 2m51s (+88%)" in answer.out
    assert "· holds   executor_seconds>+0%" in answer.out


def test_what_does_not_end_under_the_candidate_fails_every_gate(asked: Any) -> None:
    answer = asked("endless-0", "--candidate", f"{MAX}=16", "--fail-if", "executor_seconds>+1000%", "--json")
    (gate,) = answer.document["gates"]
    assert answer.code == 1
    assert "never come" in gate["by"][0]["why"]
    assert asked("endless-0", "--candidate", f"{MAX}=16").code == 5


def test_what_spark_would_not_start_is_said(asked: Any) -> None:
    refused = ("--candidate", "spark.dynamicAllocation.minExecutors=9")
    answer = asked("good-0", *refused, "--json")
    assert answer.code == 2
    assert answer.document["applications"][0]["status"] == "not started"
    assert "candidate: spark.dynamicAllocation.minExecutors" in answer.document["applications"][0]["why"]
    assert asked("good-0", *refused, "--fail-if", "runtime>+1%").code == 1
    assert asked("good-0", "--base", refused[1], *SHORT_IDLE, "--fail-if", "runtime>+1%").code == 2


def test_versions_are_compared_by_their_defaults_and_that_is_said(asked: Any) -> None:
    arguments = ("good-0", "--base", "spark:3.3", "--candidate", "spark:4.3")
    answer = asked(*arguments)
    assert answer.code == 0
    assert "Defaults only" in answer.out
    assert "spark.kubernetes.allocation.batch.size" in answer.out
    found = asked(*arguments, "--json").document
    assert found["defaults_only"] is True
    assert any("defaults only" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("good-0", *NARROW, "--fail-if", "cost>+1%"), 2, "asks for money: expected --price"),
        (("good-0", *NARROW, "--fail-if", "cost<+1%"), 2, "expected '>' or '>='"),
        (("good-0", "--candidate", "recorded"), 2, "expected another config"),
        (("good-0", "--candidate", f"{MAX}=x"), 2, "expected a whole number"),
        (("good-0", "-", *NARROW), 2, "standard input (-) can only be the one log"),
        (("good-0", *NARROW, "--price", "gold"), 2, "gold"),
        (("good-0", *NARROW, "--cluster", "nowhere.yaml"), 3, "nowhere.yaml"),
        (("good-0",), 2, "--candidate"),
    ],
)
def test_what_is_refused_says_why(asked: Any, arguments: Sequence[str], code: int, said: str) -> None:
    answer = asked(*arguments)
    assert answer.code == code
    assert said in answer.err


@pytest.mark.skipif(not TRUTH.is_dir(), reason="../shared/data is not here")
def test_real_runs_are_compared() -> None:
    logs = sorted(TRUTH.glob("w2/[AD]_*/*/log"))
    answer = invoked(*logs, "--candidate", f"{MAX}=1", "--json", "--seeds", "1", "--fail-if", "runtime>+5%")
    found = answer.document
    assert answer.code == 1
    assert [one["status"] for one in found["applications"]] == ["compared"] * len(logs)
    assert all(one["decisions"]["differing"] > 0 for one in found["applications"])


def test_each_error_stands_beside_its_figure_and_unlimited_is_a_word(asked: Any) -> None:
    timeout = "spark.dynamicAllocation.shuffleTracking.timeout"
    answer = asked("good-0", "--candidate", f"{timeout}=2m")
    (heads,) = (line.split() for line in answer.out.splitlines() if "executor-s" in line)
    assert heads == ["run", "time", "±", "executor-s", "±", "decisions"]
    assert f"{timeout} unlimited → 2m" in answer.words
