"""Spark's log, written: its patterns, its threshold, what strangers put into names, and the option of the replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from podtide.adapters.views.sparklog.log import LEVELS, Pattern, SparkLog, throwable
from podtide.adapters.views.sparklog.templates import Level, SparkLine
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol.commands import Departure, Kill, ScheduleThrew
from podtide.domain.protocol.reasons import Cause, Threw, Why
from podtide.entrypoints.cli import podtide
from scripts.driver_log import driver_decisions
from tests.support.project import DEMO, PROJECT

AT = 1_795_254_265_534  # 2026-11-21 09:44:25.534 UTC


def kill(*ids: str) -> Kill:
    return Kill(AT, 1, tuple(Departure(ExecutorId(i), ProfileId(0), Why(Cause.IDLE)) for i in ids))


def written(item: object, at: int = AT, **how: Any) -> str:
    out: list[bytes] = []
    SparkLog(out.append, **how).tell(at, item)
    return b"".join(out).decode()


@pytest.mark.parametrize(
    ("how", "stamp"),
    [
        ({}, "26/11/21 09:44:25"),
        ({"pattern": Pattern.MILLIS}, "2026-11-21 09:44:25.534"),
        ({"zone": ZoneInfo("Asia/Tokyo")}, "26/11/21 18:44:25"),
        ({"zone": timezone(timedelta(hours=-10)), "pattern": Pattern.MILLIS}, "2026-11-20 23:44:25.534"),
    ],
)
def test_lines_begin_as_log4j2_begins_them(how: dict[str, Any], stamp: str) -> None:
    expected = f"{stamp} INFO ExecutorAllocationManager: Executors 1,2 removed due to idle timeout.\n"
    assert written(kill("1", "2"), **how) == expected


@pytest.mark.parametrize(
    ("at", "stamp"),
    [
        (0, "1970-01-01 00:00:00.000"),
        (-1, "1969-12-31 23:59:59.999"),
        (253_402_300_800_000, "10000-01-01 00:00:00.000"),
        (2**63 - 1, "292278994-08-17 07:12:55.807"),  # as Java has it
        (-(10**14), "-1199-02-15 14:13:20.000"),
    ],
)
def test_no_time_is_too_far(at: int, stamp: str) -> None:
    assert written(kill("1"), at, pattern=Pattern.MILLIS).startswith(f"{stamp} INFO ")


def test_an_hour_that_comes_twice_is_shown_as_the_wall_clock_shows_it() -> None:
    zone = ZoneInfo("Europe/Berlin")
    shown = [written(kill("1"), 1_792_888_200_000 + hour * 3_600_000, zone=zone)[:17] for hour in range(2)]
    assert shown == ["26/10/25 02:30:00", "26/10/25 02:30:00"]


@pytest.mark.parametrize("threshold", LEVELS)
def test_the_threshold(threshold: Level) -> None:
    out: list[bytes] = []
    spark_log = SparkLog(out.append, threshold)
    spark_log.say(AT, [SparkLine(level, "X", "y") for level in LEVELS])
    assert [line.split()[2].decode() for line in out] == list(LEVELS[LEVELS.index(threshold) :])
    assert [spark_log.enabled(level) for level in LEVELS] == [
        level in LEVELS[LEVELS.index(threshold) :] for level in LEVELS
    ]


HOSTILE = "1\n26/11/21 09:44:25 ERROR SparkContext: forged\r\x1b[2J\u2028\x85\ud800\x00"


def test_a_name_cannot_forge_a_line() -> None:
    text = written(kill(HOSTILE))
    assert text.count("\n") == 1
    assert text.endswith(r"\r\x1b[2J\u2028\x85\ud800\x00 removed due to idle timeout." + "\n")
    assert text[:-1].isprintable()


@given(st.text(), st.text())
def test_every_item_is_one_printable_line(name: str, what: str) -> None:
    text = written(kill(name))
    assert text.count("\n") == 1
    assert text[:-1].isprintable()
    threw = written(ScheduleThrew(AT, what))
    assert threw.count("\n") == 2
    assert threw.replace("\n", "").isprintable()


def test_an_exception_follows_its_line() -> None:
    what = "java.util.NoSuchElementException: key not found: 5"
    assert throwable(Threw(1, "ExecutorPodsAllocator", what)) == what
    assert throwable(kill("1")) is None
    assert written(ScheduleThrew(AT, what)).splitlines() == [
        "26/11/21 09:44:25 ERROR Utils: Uncaught exception in thread spark-dynamic-executor-allocation",
        what,
    ]
    assert written(ScheduleThrew(AT, what), threshold="ERROR").count("\n") == 2


# --------------------------------------------------------------------------------------------------- the option


def replayed(*arguments: str) -> Result:
    return CliRunner().invoke(podtide, ["replay", *arguments])


def test_the_replay_writes_sparks_log(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    result = replayed(str(DEMO), "--spark-log", str(path))
    assert result.exit_code == 0
    assert "108 tasks" in result.stdout  # the report is there as ever
    said = path.read_text(encoding="utf-8").splitlines()
    assert said[0].endswith(" INFO ExecutorAllocationManager: Dynamic allocation is enabled without a shuffle service.")
    assert {line.split()[2] for line in said} == {"INFO"}
    assert list(tmp_path.iterdir()) == [path]


def test_standard_output_takes_the_log_in_place_of_the_report() -> None:
    result = replayed(str(DEMO), "--spark-log", "-", "--spark-log-level", "debug", "--spark-log-millis")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert {line.split()[2] for line in lines} == {"DEBUG", "INFO"}
    decided = driver_decisions(lines)
    assert len(decided.moves) == 22
    assert len(decided.killed()) == 13
    assert lines == sorted(lines, key=lambda line: line[:23])


def test_the_log_says_what_the_decisions_say(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    replayed(str(DEMO), "--spark-log", str(tmp_path / "log"), "--spark-log-level", "DEBUG", "--spark-log-millis",
             "--decisions", str(path))  # fmt: skip
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with (tmp_path / "log").open(encoding="utf-8") as lines:
        decided = driver_decisions(lines)
    killed = [(r["at_ms"], e) for r in records if r["command"] == "killExecutors" for e in r["ids"]]
    assert decided.killed() == killed
    moves = [
        (r["at_ms"], r["targets"]["0"])
        for r in records
        if r["cause"] in {"backlog", "sustained backlog", "lowered need"}
    ]
    assert [(move.at, move.target) for move in decided.moves] == moves


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--spark-log", "-", "--json"], "--json and --spark-log - both write to standard output"),
        (["--spark-log", "-", "--decisions", "-"], "--decisions - and --spark-log - both write to standard output"),
        (["--spark-log", "x", "--decisions", "x"], "--decisions and --spark-log name the same file"),
        (["--spark-log-level", "DEBUG"], "--spark-log-level belongs to --spark-log"),
        (["--spark-log-millis"], "--spark-log-millis belongs to --spark-log"),
        (["--spark-log", "x", "--spark-log-level", "LOUD"], "LOUD"),
        (["--spark-log", "/nowhere/at/all/x"], "/nowhere/at/all/x: cannot be written"),
    ],
)
def test_what_cannot_be_asked_for(arguments: list[str], complaint: str) -> None:
    result = replayed(str(DEMO), *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_log_that_cannot_be_replayed_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert replayed(str(tmp_path / "empty"), "--spark-log", str(tmp_path / "out")).exit_code == 3
    assert not (tmp_path / "out").exists()


def test_a_reader_that_leaves_is_no_fault() -> None:
    program = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main()", "replay", str(DEMO)]
    arguments = ["--spark-log", "-", "--spark-log-level", "DEBUG"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / ".typing")}
    pipe = subprocess.PIPE
    process = subprocess.Popen([*program, *arguments], env=environment, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0
