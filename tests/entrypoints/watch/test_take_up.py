"""What a worker answers for real logs, and the command as a whole with its processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from podtide.adapters.fleet.rows import RowStatus
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import WatchedRun, run_of
from podtide.entrypoints.cli import run
from podtide.entrypoints.watch.take_up import TakeUpOptions, take_up
from tests.support.event_log_lines import written
from tests.support.nightly_logs import another_night, lines_of
from tests.support.project import DEMO, PROJECT
from tests.support.stall_logs import M, nothing_starts


def answer(place: Path, history: Path | None = None) -> WatchedRun:
    options = TakeUpOptions(history=None if history is None else str(history))
    return run_of(take_up(options, json.dumps([str(place), True, 1, 2, None]).encode()))


def test_the_command_takes_a_real_log_up_and_knows_it_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs, history = tmp_path / "logs", tmp_path / "h.db"
    shutil.copytree(DEMO, logs / DEMO.name)
    (logs / "notes.txt").write_text("no log")
    command = ["watch", str(logs), "--history", str(history), "--once", "--jobs", "1", "--json", "--events"]
    assert run([*command, str(tmp_path / "lines")]) == 0
    first = json.loads(capfd.readouterr().out)
    assert (first["taken"], first["skipped"], first["broken"]) == (1, 1, 0)
    (told,) = map(json.loads, (tmp_path / "lines").read_text().splitlines())
    assert told["kind"] == "run"
    assert told["healthy"]
    assert told["runtime_s"] > 0
    assert told["core_hours"] > 0
    shutil.copytree(logs / DEMO.name, tmp_path / "again" / DEMO.name)
    command[1] = str(tmp_path / "again")
    assert run([*command, str(tmp_path / "lines")]) == 0
    second = json.loads(capfd.readouterr().out)
    assert (second["taken"], second["known"], second["runs"]) == (0, 1, 1)
    with RunHistory(str(history), write=False) as base:
        (kept,) = base.runs()
    assert kept.place == str(logs / DEMO.name)
    assert kept.key.app_id in DEMO.name


def test_a_log_that_is_cut_off_is_not_finished(tmp_path: Path) -> None:
    whole = answer(DEMO)
    assert whole.finished
    assert whole.healthy
    lines = lines_of(DEMO)
    kept = lines.rstrip().splitlines()[:-1]
    (tmp_path / "cut").write_bytes(b"\n".join(kept) + b"\n")
    cut = answer(tmp_path / "cut")
    assert cut.key == whole.key
    assert (cut.finished, cut.healthy) == (False, False)


def test_a_log_without_tasks_says_why(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    found = answer(tmp_path / "a")
    assert found.key is None
    assert found.row.status is RowStatus.REFUSED
    assert found.row.reason


def night_of(name: str, folder: Path, night: int) -> None:
    (log,) = (PROJECT / "tests" / "compared" / "nightly" / name / "run1" / "log").iterdir()
    another_night(lines_of(log), folder, night)


@pytest.fixture(scope="module")
def four_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of four healthy nights, and their logs."""
    folder = tmp_path_factory.mktemp("nights")
    for night, name in enumerate(["base", "base_again", "base", "base_again"], start=1):
        night_of(name, folder / "logs", night)
    assert run(["watch", str(folder / "logs"), "--history", str(folder / "h.db"), "--once"]) == 0
    return folder


@pytest.mark.parametrize(
    ("run_of_last_night", "cause"),
    [("more_data", "more data"), ("skewed_key", "skew"), ("maximum", "fewer executors: no more were allowed")],
)
def test_a_regression_of_real_runs_names_its_cause(
    tmp_path: Path, four_nights: Path, run_of_last_night: str, cause: str
) -> None:
    shutil.copytree(four_nights, tmp_path, dirs_exist_ok=True)
    night_of(run_of_last_night, tmp_path / "logs", 5)
    lines = tmp_path / "lines"
    command = ["watch", str(tmp_path / "logs"), "--history", str(tmp_path / "h.db"), "--events", str(lines), "--once"]
    assert run([*command, "--jobs", "1"]) == 1
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    found = [one for one in told if one["kind"] == "regression" and one["measure"] == "run time"]
    assert len(found) == 1
    assert found[0]["causes"][0]["text"].startswith(cause)
    if run_of_last_night == "maximum":
        assert "spark.dynamicAllocation.maxExecutors" in found[0]["causes"][0]["settings"][0]


def test_when_nothing_moved_is_part_of_the_answer(tmp_path: Path) -> None:
    (stall,) = answer(Path(written(tmp_path, nothing_starts(6 * M)))).stalls
    assert (stall.cause, stall.began_s, stall.seconds, stall.lasts) == ("driver does nothing", 4.0, 361.0, False)
    assert "jstack" in stall.advice
    assert answer(DEMO).stalls == ()
