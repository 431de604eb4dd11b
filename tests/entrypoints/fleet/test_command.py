"""``podtide fleet`` over fake logs: whatever happens to one of them, there is a row for each, in order, and only once."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.adapters.fleet.progress import FleetProgress
from podtide.adapters.fleet.rows import RowStatus, row_bytes, row_of
from podtide.adapters.process_pool import Workers
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.common.output import Misused, UnreadableInput
from podtide.entrypoints.fleet import command as fleet_command
from podtide.entrypoints.fleet.command import FleetRequest, run_fleet
from podtide.entrypoints.fleet.run import SurveyTerms
from podtide.entrypoints.fleet.work import FleetOptions
from tests.support.fleet_fakes import fake_assess, fake_log, fake_logs
from tests.support.project import PROJECT

PROGRAM = [sys.executable, "-c", "from tests.support.fleet_fakes import main; main()", "fleet"]
TIMING = ("seconds",)


def engine(jobs: int = 1, limit_s: float | None = None, memory: int | None = None) -> Any:
    return partial(Workers, jobs=jobs, limit_s=limit_s, memory_bytes=memory)


def run(
    out: Path, *logs: Path | str, jobs: int = 1, options: FleetOptions | None = None, terms: dict[str, Any] | None = None,
    limit_s: float | None = None, memory: int | None = None, as_json: bool = False,
) -> int:  # fmt: skip
    asked = FleetRequest(
        tuple(map(str, logs)), None, SurveyTerms(str(out), (limit_s, memory), **(terms or {})), as_json=as_json
    )
    return run_fleet(asked, options or FleetOptions(), engine(jobs, limit_s, memory), fake_assess)


def table(out: Path) -> list[dict[str, str]]:
    with out.open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(file)]


def program(*arguments: Path | str, **environment: str) -> subprocess.Popen[str]:
    path = os.pathsep.join((str(PROJECT), str(PROJECT / ".typing")))
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def ended(pid: int, within_s: float = 30) -> bool:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    return bool(select.select([watch], [], [], within_s)[0])


def test_a_row_for_each_log_in_order_whatever_comes_of_it(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "deep" / "er").mkdir(parents=True)
    fake_log(logs / "a", number=1)
    fake_log(logs / "b", "refuse", number=2)
    fake_log(logs / "c", "damaged")
    fake_log(logs / "d", "die")
    fake_log(logs / "deep" / "er" / "e", "error")
    (logs / "empty").touch()
    (logs / "notes.txt").write_text("no log")
    (logs / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (logs / "_SUCCESS").touch()
    fake_log(logs / "z", number=9)
    assert run(tmp_path / "out.csv", logs, jobs=2) == 0
    rows = table(tmp_path / "out.csv")
    told = [(Path(row["log"]).name, row["status"], row["reason"]) for row in rows]
    assert told == [
        ("a", "ok", ""),
        ("b", "refused", "the model does not fit: +2% in run time"),
        ("c", "unreadable", "damaged at byte 7: fake"),
        ("d", "failed", "its process died: exit code 7"),
        ("e", "failed", "ValueError: a fault of podtide's own"),
        ("empty", "unreadable", "is empty; an event log was expected"),
        ("z", "ok", ""),
    ]
    assert not (tmp_path / "out.csv.partial").exists()


def test_the_same_table_with_one_job_and_with_three(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 40)
    run(tmp_path / "one.csv", logs)
    run(tmp_path / "three.csv", logs, jobs=3)
    assert table(tmp_path / "one.csv") == table(tmp_path / "three.csv")


def test_a_log_that_hangs_is_ended_at_its_limit(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 3)
    fake_log(logs / "app-000001", "hang")
    run(tmp_path / "out.csv", logs, limit_s=0.5)
    rows = table(tmp_path / "out.csv")
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]
    assert rows[1]["reason"] == "not done within 500 ms: its process was ended"


def test_a_log_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 3)
    fake_log(logs / "app-000001", "memory")
    run(tmp_path / "out.csv", logs, memory=1 << 30)
    rows = table(tmp_path / "out.csv")
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]
    assert "needs more memory than the bound of 1.1 GB" in rows[1]["reason"]


def test_killed_in_the_middle_and_gone_on_with_it_is_the_same_table(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 60)
    run(tmp_path / "whole.csv", logs)
    gated = logs / "app-000030"
    stamp = gated.stat()
    text = gated.read_text()
    gated.write_text(text.replace('"ok"', '"wait"'))
    os.utime(gated, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    out = tmp_path / "out.csv"
    whole = table(tmp_path / "whole.csv")
    os.mkfifo(f"{gated}.gate")
    process = program(logs, "--out", out, "--jobs", "1", "--timeout", "0")
    gate = os.open(f"{gated}.gate", os.O_WRONLY)  # returns once the worker is at that log
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert ended(int(Path(f"{gated}.pid").read_text()))
    os.close(gate)
    for leftover in (".gate", ".pid"):
        Path(f"{gated}{leftover}").unlink()
    assert not out.exists()
    journal = Path(f"{out}.partial")
    ahead = Path(f"{journal}-wal")
    kept = ahead.read_bytes()
    ahead.write_bytes(kept + kept[-500:-200])  # a record that was being written
    code, text, err = finished(program(logs, "--out", out, "--jobs", "2", "--json"))
    assert code == 0, err
    assert "30 rows of an interrupted run taken over" in err
    assert json.loads(text)["reused"] == 30
    size = {row["log"]: row["log_bytes"] for row in whole}
    assert [row | {"log_bytes": size[row["log"]]} for row in table(out)] == whole
    assert not journal.exists()


def test_an_interrupt_ends_everything_and_keeps_what_is_done(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 5)
    gated = fake_log(logs / "app-000003", "wait")
    os.mkfifo(f"{gated}.gate")
    out = tmp_path / "out.csv"
    process = program(logs, "--out", out, "--jobs", "1")
    gate = os.open(f"{gated}.gate", os.O_WRONLY)
    process.send_signal(signal.SIGINT)
    code, text, err = finished(process)
    os.close(gate)
    assert code == 130
    assert text == ""
    assert f"3 of 5 logs are kept in {out}.partial; the same command goes on" in err
    assert ended(int(Path(f"{gated}.pid").read_text()))
    assert not out.exists()


def test_a_log_that_has_grown_and_another_question_are_computed_again(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 4)
    out = tmp_path / "out.csv"
    seen: list[str] = []

    def count(asked: FleetOptions, wish: str) -> int:
        """How many logs are assessed; the last is refused a process, so the journal stays."""
        del wish
        seen.clear()

        class Counting(Workers):
            def run(self, requests: Any) -> Any:
                for log, answer in super().run(requests):
                    seen.append(log.found.place)
                    yield log, answer
                raise Misused("stop")

        terms = SurveyTerms(str(out))
        with pytest.raises(Misused):
            run_fleet(FleetRequest((str(logs),), None, terms), asked, partial(Counting, jobs=1), fake_assess)
        return len(seen)

    assert count(FleetOptions(), "all") == 4
    assert count(FleetOptions(), "none") == 0
    fake_log(logs / "app-000002", number=2, grown=True)
    assert count(FleetOptions(), "the one that has grown") == 1
    assert count(FleetOptions(seeds=3), "all, under another question") == 4
    assert count(FleetOptions(), "none: the first question's rows are still there") == 0


def test_what_failed_over_a_limit_is_tried_again_under_another(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 2)
    gated = fake_log(logs / "app-000001", "hang")
    out = tmp_path / "out.csv"
    journal = Path(f"{out}.partial")

    def interrupted(**options: Any) -> int:
        class Stopping(Workers):
            def run(self, requests: Any) -> Any:
                yield from super().run(requests)
                raise Misused("stop")

        asked = FleetRequest((str(logs),), None, SurveyTerms(str(out), (options["limit_s"],)))
        with pytest.raises(Misused):
            run_fleet(asked, FleetOptions(), partial(Stopping, jobs=1, **options), fake_assess)
        with contextlib.closing(sqlite3.connect(journal)) as base:
            return int(base.execute("SELECT count(*) FROM rows").fetchone()[0])

    assert interrupted(limit_s=0.3) == 2
    assert interrupted(limit_s=0.3) == 2  # nothing is tried again
    assert interrupted(limit_s=0.4) == 3  # the one that failed is
    stamp = gated.stat()
    gated.write_text(gated.read_text().replace('"hang"', '"okay"'))
    os.utime(gated, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert run(out, logs, terms={"again": True}) == 0
    assert [row["status"] for row in table(out)] == ["ok", "ok"]


def test_fresh_forgets_what_was_kept(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 2)
    out = tmp_path / "out.csv"
    Path(f"{out}.partial").write_text("nonsense\n")
    run(out, logs, terms={"fresh": True})
    assert len(table(out)) == 2


def test_names_from_strangers_are_text(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "ünïcödé ☃", 'a,b"c\nd\x1b[2J', "\ud800", "x" * 1000]
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, name in enumerate(names):
        fake_log(logs / f"{number}", name=name)
    run(tmp_path / "out.csv", logs)
    shown = [row["app_name"] for row in table(tmp_path / "out.csv")]
    assert shown[:7] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "' =1", "ünïcödé ☃", 'a,b"c\\nd\\x1b[2J']
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(names) + 1
    assert table(tmp_path / "out.csv")[0]["error_runtime"] == "-0.01"


def test_a_path_need_not_be_text(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/logs-\xff\xfe"
    Path(os.fsdecode(place)).mkdir()
    fake_log(Path(os.fsdecode(place + b"/=\xe4")))
    run(tmp_path / "out.csv", os.fsdecode(place))
    (row,) = table(tmp_path / "out.csv")
    assert row["status"] == "ok"
    assert row["log"].endswith("/logs-\\udcff\\udcfe/=\\udce4")


def test_a_list_of_paths_keeps_its_order_and_every_line_has_a_row(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 3)
    given = tmp_path / "list.txt"
    lines = [logs / "app-000002", tmp_path / "nowhere", logs / "app-000000", "", logs / "app-000002"]
    given.write_text("\n".join(map(str, lines)))
    asked = FleetRequest((), str(given), SurveyTerms(str(tmp_path / "out.csv")))
    assert run_fleet(asked, FleetOptions(), engine(), fake_assess) == 0
    rows = table(tmp_path / "out.csv")
    # The order of a list is the order of its paths, like that of a folder.
    assert [Path(row["log"]).name for row in rows] == ["app-000000", "app-000002", "nowhere"]
    assert rows[2]["reason"] == "there is no such file or folder"


def test_a_report_beside_the_table(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 20)
    report = tmp_path / "fleet.html"
    assert run(tmp_path / "out.csv", logs, terms={"report": str(report)}) == 0
    with pytest.raises(Misused, match="the file exists"):
        run(tmp_path / "out.csv", logs, terms={"report": str(report)})
    text = report.read_text()
    assert "20 runs of 7 applications took 20 core-hours" in text
    assert 'href="#app-7"' in text


def test_a_report_that_cannot_be_written_is_refused_before_a_log_is_read(tmp_path: Path) -> None:
    logs = fake_logs(tmp_path / "logs", 1)
    with pytest.raises(Misused, match=r"--report .*a folder that exists"):
        run(tmp_path / "out.csv", logs, terms={"report": str(tmp_path / "none" / "fleet.html")})
    assert not list(tmp_path.glob("out.csv*"))


def test_the_summary_says_where_the_waste_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = fake_logs(tmp_path / "logs", 20)
    fake_log(logs / "bad-1", "refuse", number=31)
    fake_log(logs / "bad-2", "refuse", number=47)
    fake_log(logs / "bad-3", "damaged")
    priced = FleetOptions(prices=Prices(core_hour=1.0, currency="EUR"))
    run(tmp_path / "out.csv", logs, options=priced)
    said = capsys.readouterr().out
    assert "20 of 23 logs answered · 2 refused · 1 unreadable" in said.replace("\n", " ")
    assert "60.00 EUR" in said
    assert "15.00 EUR could be saved (25.0%), 12.00 EUR for sure (20.0%)" in said.replace("\n", " ")
    assert "kept by minimum" in said
    assert "lean" in said
    assert "2 refused, such as: the model does not fit: +31% in run time" in " ".join(said.split())
    run(tmp_path / "out.csv", logs, options=priced, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["logs"] == {"ok": 20, "refused": 2, "unreadable": 1, "failed": 0, "skipped": 0}
    assert document["totals"]["cost"] == 60.0
    assert document["ledger"]["running"] == 1200.0
    assert document["totals"]["waste_s"] == 1000.0
    assert document["waiting"]["start_up"] == 60.0
    assert document["applications"][0] == {
        "name": "job 0", "runs": 3, "cost": 9.0, "core_hours": 3.0, "saving_cost": 2.25, "saving_core_hours": 0.75,
        "saving_least": 1.8, "best": "lean",
    }  # fmt: skip
    assert document["actions"][0] == {
        "application": "job 0", "setting": "lean", "static": None, "runs": 3, "of_runs": 3, "saving": 2.25,
        "saving_least": 1.8,
        "conf": {"spark.dynamicAllocation.executorIdleTimeout": "15s", "spark.executor.instances": None},
    }  # fmt: skip
    assert document["reasons"][0]["logs"] == 2


@pytest.mark.parametrize(
    ("logs", "refusal", "words"),
    [
        (["nowhere"], UnreadableInput, "nowhere: there is no such file or folder"),
        (["nothing*"], UnreadableInput, r"nothing\*: nothing matches this pattern"),
        (["."], UnreadableInput, "no log was found"),
    ],
)
def test_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: Sequence[str], refusal: type[Exception], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(refusal, match=words):
        run(Path("../out.csv"), *logs)
    assert not list(tmp_path.parent.glob("out.csv*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "x.csv"], "no LOG is given"),
        (["a", "--out", "x.txt"], "x.txt: a file that ends in .csv or .parquet was expected"),
        (["a", "--out", "none/x.csv"], "cannot be written"),
        (["a", "--out", "x.csv", "--timeout", "soon"], "'soon' is no duration"),
        (["a", "--out", "x.csv", "--memory", "2k"], "'2k': expected a size of at least 256m"),
        (["a", "--out", "x.csv", "--variant", "x"], "expected NAME:KEY=VALUE"),
        (["a", "--out", "x.csv", "--tune", "quick", "--static", "4"], "--tune searches by itself"),
        (["a", "--out", "x.csv", "--spark-conf", "a=b"], "--spark-conf belongs to --engine spark"),
        (["-", "--from", "-", "--out", "x.csv"], "both read standard input"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(fleet_command.fleet, arguments)
    assert answer.exit_code == 2
    assert words in answer.output


def test_parquet_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Misused, match=r"pip install 'podtide\[fleet\]'"):
        run(tmp_path / "out.parquet", tmp_path)


def test_eight_times_the_logs_take_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for count in (500, 4_000):
        logs = fake_logs(tmp_path / str(count), count)
        peak = tmp_path / f"{count}.peak"
        options = ("--jobs", "2", "--report", tmp_path / f"{count}.html")
        process = program(logs, "--out", tmp_path / f"{count}.csv", *options, FLEET_MEMORY=str(peak))
        code, _, err = finished(process)
        assert code == 0, err
        assert len(table(tmp_path / f"{count}.csv")) == count
        peaks.append(int(peak.read_text()))
    assert peaks[1] - peaks[0] < 12 * 1024  # KiB


def test_progress_as_plain_lines(tmp_path: Path) -> None:
    class Lines(list[str]):
        def write(self, text: str) -> None:
            self.append(text)

        def flush(self) -> None: ...

    now = [0.0]
    lines: Any = Lines()
    with FleetProgress(lines, plain=True, clock=lambda: now[0]) as progress:
        progress.begin()
        for second in range(30):
            now[0] = float(second)
            progress.done(RowStatus.OK if second % 3 else RowStatus.REFUSED, 100, 10)
    assert lines[0].startswith("fleet: 21 of 100 logs (4 refused), 1.1/s, about 1m")
    assert len(lines) == 2


def test_a_row_survives_its_journey(tmp_path: Path) -> None:
    row = fake_assess(str(fake_log(tmp_path / "log")), FleetOptions())
    assert row_of(row_bytes(row)) == row
