"""Stalls of a log, as ``replay`` tells them: each cause with a small log that shows it, and one beside it that does not.

Real logs that are known to be healthy raise no alarm at all; of other people's logs ``test_run`` says the same, where it
replays them.
"""

from __future__ import annotations

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
from tests.support.stall_logs import (
    M,
    S,
    ghost,
    late_task,
    long_tasks,
    nobody_comes,
    nothing_starts,
    old_shuffles,
    short_lives,
    two_profiles,
)

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
