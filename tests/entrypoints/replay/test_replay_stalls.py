"""Stalls of a log, as ``replay`` tells them: each cause with a small log that shows it, and one beside it that does not.

Real logs that are known to be healthy raise no alarm at all.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.entrypoints.cli import podtide
from podtide.entrypoints.common.log_config import NothingToReplay
from podtide.entrypoints.replay.run import Replay
from tests.support import event_log_lines as log
from tests.support.project import PROJECT
from tests.support.schemas import validate

S = 1_000
M = 60 * S
SHARED = PROJECT.parent / "shared" / "data"
Told = tuple[str, bool, float, float | None]
"""Of a stall: its cause, whether it blocks, seconds since the start at which it began and ended."""


def replay(path: str) -> dict[str, Any]:
    with open_log(path) as source:
        return Replay(EventLogSensor(source), lambda _: None).run()


def stalls(path: str) -> list[Told]:
    document = replay(path)
    validate({**document, "decisions": [], "reports": []}, "replay")
    seconds = [(one["began_ms"], one["ended_ms"]) for one in document["stalls"]]
    since = [tuple(None if at is None else (at - log.START) / S for at in times) for times in seconds]
    return [(one["cause"], one["blocked"], *times) for one, times in zip(document["stalls"], since, strict=True)]


def begun(master: str = "", **conf: str) -> list[str]:
    head = log.begun(**conf)
    if master:
        environment = json.loads(head[1])
        environment["Spark Properties"]["spark.master"] = master
        head[1] = json.dumps(environment)
    return head


def ran(stage: int, index: int, executor: str, began: int, ended: int, reason: str = "Success") -> list[str]:
    return [log.task(stage, index, executor, began), log.task(stage, index, executor, began, ended, reason)]


def ended(at: int) -> str:
    return log.line("ApplicationEnd", Timestamp=log.START + at)


def nobody_comes(first_comes: int) -> list[str]:
    """A stage of one task, and its only executor comes at ``first_comes``."""
    lines = [*begun(), log.submitted(0, 1, S), log.executor("1", first_comes)]
    return [*lines, *ran(0, 0, "1", first_comes, first_comes + S), log.completed(0, 1, first_comes + S)]


def nothing_starts(pause: int) -> list[str]:
    """Two tasks for an executor that is there; the second starts ``pause`` after the first one's end."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S), log.executor("1", 2 * S), *ran(0, 0, "1", 3 * S, 4 * S)]
    return [*lines, *ran(0, 1, "1", 4 * S + pause, 5 * S + pause), log.completed(0, 2, 5 * S + pause)]


def long_tasks(length: int) -> list[str]:
    """Two tasks of ``length`` one after the other on the one executor that may be there."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S), log.executor("1", 2 * S)]
    lines += ran(0, 0, "1", 3 * S, 3 * S + length)
    return [*lines, *ran(0, 1, "1", 3 * S + length, 3 * S + 2 * length), log.completed(0, 2, 3 * S + 2 * length)]


def short_lives(reason: str, success: bool = False) -> list[str]:
    """Five executors, each gone 40 s after it came; ``success``: one of them ends another task well before."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S)]
    for number in range(5):
        came, name = 2 * S + number * 45 * S, str(number)
        lines += [log.executor(name, came)]
        if success and number == 2:
            lines += ran(0, 1, name, came + S, came + 2 * S)
        lines += [
            *ran(0, 0, name, came + 2 * S, came + 40 * S, "ExecutorLostFailure"),
            log.gone(name, came + 40 * S, reason),
        ]
    return [*lines, log.executor("9", 240 * S), *ran(0, 0, "9", 240 * S, 241 * S), ended(242 * S)]


def late_task(late: bool) -> list[str]:
    """A stage is aborted while a task runs; ``late``: others of its tasks are heard of after it. Then a stage waits."""
    lines = [*begun(executorIdleTimeout="5s", **{"shuffleTracking.enabled": "false"})]
    lines += [log.submitted(0, 3, S), log.executor("1", 2 * S), log.task(0, 0, "1", 3 * S)]
    info = {**log.stage(0, 3, S), "Completion Time": log.START + 4 * S, "Failure Reason": "cancelled"}
    lines += [log.line("StageCompleted", Stage_Info=info)]
    if late:
        lines += [log.task(0, 1, "1", 4 * S), log.task(0, 1, "1", 4 * S, 6 * S, "TaskKilled")]
        lines += [log.task(0, 2, "1", 4 * S), log.task(0, 2, "1", 4 * S, 6 * S, "TaskKilled")]
    lines += [log.task(0, 0, "1", 3 * S, 7 * S, "TaskKilled"), log.gone("1", 12 * S, "Executor killed by driver.")]
    lines += [log.submitted(1, 1, 20 * S)]
    if not late:
        lines += [log.executor("2", 30 * S), *ran(1, 0, "2", 30 * S, 31 * S), log.completed(1, 1, 31 * S)]
    return [*lines, ended(10 * M)]


def ghost(lived: int, master: str = "k8s://https://10.0.0.1") -> list[str]:
    """The only executor is gone after ``lived``; a task waits for another one, which never comes."""
    lines = [*begun(master, maxExecutors="4"), log.submitted(0, 1, S), log.executor("1", 10 * S)]
    return [*lines, log.gone("1", 10 * S + lived, "worker lost"), ended(20 * M)]


def two_profiles() -> list[str]:
    """Tasks of the default profile end all the time; the one of another profile waits for an executor of its own."""
    lines = [*begun(), log.executor("1", S), log.submitted(0, 21, S)]
    special = {**log.stage(1, 1, S), "Resource Profile Id": 1}
    resources = {"cores": {"Resource Name": "cores", "Amount": 1, "Discovery Script": "", "Vendor": ""}}
    tasks = {"cpus": {"Resource Name": "cpus", "Amount": 1.0}}
    announced = {"Resource Profile Id": 1, "Executor Resource Requests": resources, "Task Resource Requests": tasks}
    lines += [log.line("ResourceProfileAdded", **{key.replace(" ", "_"): value for key, value in announced.items()})]
    lines += [log.line("StageSubmitted", Stage_Info=special)]
    for minute in range(20):
        lines += ran(0, minute, "1", minute * M + 2 * S, minute * M + 30 * S)
    return [*lines, log.executor("2", 20 * M, profile=1), *ran(1, 0, "2", 20 * M, 20 * M + S), ended(20 * M + S)]


def old_shuffles(idle: int, busy: bool = False) -> list[str]:
    """An executor holds the data of a shuffle that no job needs since 8 s, and stays for ``idle``."""
    made, read = log.stage(0, 1, S), log.stage(1, 1, S, parents=(0,), rdd=1)
    lines = [*begun(), log.job(0, S, made, read), log.submitted(0, 1, S), log.executor("1", 2 * S)]
    lines += [
        log.task(0, 0, "1", 3 * S),
        log.task(0, 0, "1", 3 * S, 4 * S, kind="ShuffleMapTask"),
        log.completed(0, 1, 4 * S),
    ]
    lines += [
        log.submitted(1, 1, 4 * S, parents=(0,), rdd=1),
        *ran(1, 0, "1", 4 * S, 5 * S),
        log.completed(1, 1, 5 * S),
    ]
    lines += [log.job_end(0, 5 * S)]
    if busy:
        work = log.stage(2, 1, 50 * M, rdd=2)
        lines += [log.job(1, 50 * M, work), log.submitted(2, 1, 50 * M, rdd=2), *ran(2, 0, "1", 50 * M, 51 * M)]
        lines += [log.completed(2, 1, 51 * M), log.job_end(1, 51 * M)]
    return [*lines, ended(5 * S + idle)]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param(nobody_comes(11 * M), [("executors do not come", True, 1.0, 661.0)], id="nobody comes"),
        pytest.param(nobody_comes(9 * M), [], id="a node had to be started"),
        pytest.param(nothing_starts(6 * M), [("driver does nothing", True, 4.0, 365.0)], id="nothing starts"),
        pytest.param(nothing_starts(4 * M), [], id="the driver thinks"),
        pytest.param(long_tasks(11 * M), [("maximum", False, 1.0, 663.0)], id="long tasks at the maximum: a limit"),
        pytest.param(long_tasks(9 * M), [], id="tasks at the maximum"),
        pytest.param(
            short_lives("Command exited with code 137"), [("executors start and die", True, 1.0, 241.0)], id="they die"
        ),
        pytest.param(short_lives("Executor killed by driver."), [], id="they are killed"),
        pytest.param(short_lives("Command exited with code 137", success=True), [], id="one of them had success"),
        pytest.param(late_task(True), [("pending below zero", True, 20.0, None)], id="late tasks (SPARK-58446)"),
        pytest.param(late_task(False), [], id="no late tasks"),
        pytest.param(ghost(20 * S), [("ghost executor", True, 1.0, None)], id="gone before it was seen (SPARK-52589)"),
        pytest.param(ghost(40 * S), [("executors do not come", True, 1.0, None)], id="seen, then gone"),
        pytest.param(ghost(20 * S, "yarn"), [("executors do not come", True, 1.0, None)], id="no pod"),
        pytest.param(two_profiles(), [("executors do not come", True, 1.0, 1201.0)], id="one profile of two"),
        pytest.param(old_shuffles(70 * M), [("kept by old shuffles", True, 5.0, None)], id="old shuffles"),
        pytest.param(old_shuffles(50 * M), [], id="the cleaner has time yet"),
        pytest.param(old_shuffles(70 * M, busy=True), [], id="a holder that works now and then"),
    ],
)  # fmt: skip
def test_a_cause_is_told_with_its_times_and_only_where_it_holds(
    tmp_path: Path, lines: list[str], told: Sequence[Told]
) -> None:
    assert stalls(log.written(tmp_path, lines)) == told


def test_the_page_says_since_when_why_and_what_to_do(tmp_path: Path) -> None:
    path = log.written(tmp_path, nothing_starts(6 * M))
    shown = " ".join(CliRunner().invoke(podtide, ["replay", path]).output.split())
    assert "driver does nothing at 0:04, for 6m 01s" in shown
    assert "waiting tasks: 1 · running tasks: 0 · executors: 1" in shown
    assert "Take a thread dump of the driver (jstack)" in shown
    assert "Stalls" not in CliRunner().invoke(podtide, ["replay", log.written(tmp_path, nothing_starts(4 * M))]).output


def healthy() -> list[Path]:
    found = [log for one in (PROJECT / "tests" / "truth").glob("*/*/run1/log") for log in one.iterdir()]
    found += (PROJECT / "tests" / "memory").glob("*.zstd")
    if SHARED.is_dir():
        found += [log for one in (SHARED / "truth").glob("*/*/run*/log") for log in one.iterdir()]
        with (SHARED / "public" / "index.tsv").open() as lines:
            found += [SHARED / "public" / row["file"] for row in csv.DictReader(lines, delimiter="\t")]
    return sorted(found)


def test_no_healthy_log_raises_an_alarm() -> None:
    alarms, read = {}, 0
    for path in healthy():
        try:
            found = replay(str(path))["stalls"]
        except NothingToReplay:
            continue
        read += 1
        if any(one["blocked"] for one in found):
            alarms[path.name] = found
    assert alarms == {}
    assert read >= 30
