"""Where targets come from without a driver: a number, schedules, and lines that people and programs write."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.driver import (
    line_protocol as target_source_lines,
    schedule as target_source_schedule,
    target_sources as target_source,
)
from podtide.adapters.driver.line_protocol import LineRefused, understand
from podtide.adapters.driver.schedule import TargetError, read_schedule, understand_schedule
from podtide.adapters.driver.target_sources import LineSource, NumberSource, ScheduleSource
from podtide.adapters.notices import Level, Notice, Topic
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.fakes.driver.script import Targets
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, KillRequested, TargetsSet
from tests.support.clock import SecondsClock

S = 1_000


def ids(*names: str) -> tuple[ExecutorId, ...]:
    return tuple(map(ExecutorId, names))


def wanted(**targets: int) -> TargetsSet:
    """Targets by profile, as ``p0=5``."""
    return TargetsSet(0, tuple((ProfileId(int(name[1:])), target) for name, target in targets.items()))


def steps(*given: tuple[float, dict[int, int]]) -> Targets:
    return Targets(tuple((int(at * S), tuple((ProfileId(p), n) for p, n in step.items())) for at, step in given))


# ----------------------------------------------------------------------------------------------------------- a number


def test_a_number_is_said_once() -> None:
    heard: list[Any] = []
    source = NumberSource(7, heard.append)
    assert source.initial == 7
    source.start()
    assert source.stop()
    assert heard == [wanted(p0=7)]


@pytest.mark.parametrize("number", [-1, 2**31])
def test_what_is_no_number_of_executors(number: int) -> None:
    with pytest.raises(TargetError, match="expected 0 to 2147483647 executors"):
        NumberSource(number, lambda _: None)


# ---------------------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("0 10\n60 50\n5m 0\n", steps((0, {0: 10}), (60, {0: 50}), (300, {0: 0}))),
        ("# up\n\n  0s 1 3  # profile 1\n0s 0 2\n1h30m 1 0", steps((0, {1: 3, 0: 2}), (5400, {1: 0}))),
        ("1.5 3", steps((1.5, {0: 3}))),
        ("targets: {0s: 10, 60s: {0: 20, 1: 5}}", steps((0, {0: 10}), (60, {0: 20, 1: 5}))),
        ("targets:\n  0s: 1\n", steps((0, {0: 1}))),
    ],
)
def test_schedules_in_files(tmp_path: Path, text: str, schedule: Targets) -> None:
    file = tmp_path / "schedule"
    file.write_text(text)
    assert read_schedule(str(file)) == schedule


def test_a_schedule_in_one_line() -> None:
    assert read_schedule("0:10,60:50,5m:0") == steps((0, {0: 10}), (60, {0: 50}), (300, {0: 0}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 10\n60", "f:2: expected TIME EXECUTORS"),
        ("0 10\n60 1 2 3", "f:2: expected TIME EXECUTORS"),
        ("0 10\n\nx 5", "f:3: expected a time such as 90, 90s or 1h30m, got 'x'"),
        ("0 10\n-5 5", "f:2: expected a time"),
        ("0 10\n99999999999999d 5", "f:2: expected a time"),
        ("60 10\n30 5", "f:2: expected a time that is not before the line above it, got '30'"),
        ("0 x", "f:1: expected 0 to 2147483647 executors, got 'x'"),
        ("0 4294967296", "f:1: expected 0 to 2147483647 executors"),
        ("0 ٣", "f:1: expected 0 to 2147483647 executors"),
        ("0 x 5", "f:1: expected a profile from 0 to 2147483647, got 'x'"),
        ("0 1\n0s 2", "f:2: expected one target of profile 0 at 0s, got a second"),
        ("", "f:1: the file: expected targets or jobs, got nothing (or expected lines TIME EXECUTORS, as 60s 50)"),
        ("targets: {x: 1}", "f:1:"),
        ("targets: {0s: -1}", "f:1:"),
        ("hello", "f:1:"),
        ("jobs: {a: {stages: {s: {tasks: 1}}}}", "f: expected targets over time, got jobs"),
    ],
)
def test_schedules_that_are_none(text: str, said: str) -> None:
    with pytest.raises(TargetError) as refused:
        understand_schedule(text, "f")
    assert str(refused.value).startswith(said)


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match="cannot be read as a schedule"):
        read_schedule(str(tmp_path / "nowhere"))
    with pytest.raises(TargetError, match="cannot be read as a schedule"):
        read_schedule("a\0b")
    file = tmp_path / "s"
    file.write_bytes(b"0 1\n60 \xff\n")
    with pytest.raises(TargetError, match="s:2: expected UTF-8 text"):
        read_schedule(str(file))
    with pytest.raises(TargetError, match="the schedule: step 2: expected TIME:EXECUTORS"):
        read_schedule("0:1,60")
    monkeypatch.setattr(target_source_schedule, "FILE_MAX", 3)
    with pytest.raises(TargetError, match="more than 3 bytes"):
        read_schedule(str(file))
    monkeypatch.setattr(target_source_schedule, "STEPS_MAX", 1)
    with pytest.raises(TargetError, match="f:2: more than 1 times"):
        understand_schedule("0 1\n1 1", "f")


def test_a_schedule_is_played_by_the_clock() -> None:
    clock, heard, notices = SecondsClock(50.0), list[Any](), list[Notice]()
    schedule = steps((0, {0: 10}), (0, {1: 2}), (60, {0: 50}), (300, {0: 0, 1: 1}))
    source = ScheduleSource(schedule, heard.append, clock, notices.append)
    assert source.initial == 10
    assert source.turn() == 60
    assert heard == [wanted(p0=10, p1=2)]
    clock.seconds += 59
    assert source.turn() == pytest.approx(1)
    assert len(heard) == 1
    clock.seconds += 1
    assert source.turn() == 240
    assert heard[1:] == [wanted(p0=50, p1=2)], "a profile that is not named keeps its target"
    assert not notices
    clock.seconds += 1_000
    assert source.turn() == 0
    assert heard[2:] == [wanted(p0=0, p1=1)]
    assert source.done.is_set()
    assert [one.topic for one in notices] == [Topic.STATUS]


def test_steps_that_were_slept_through_are_one() -> None:
    clock, heard = SecondsClock(50.0), list[Any]()
    source = ScheduleSource(steps((1, {0: 1}), (2, {1: 2}), (3, {0: 3})), heard.append, clock, lambda _: None)
    assert source.initial is None
    source.turn()
    clock.seconds += 100
    source.turn()
    assert heard == [wanted(p0=3, p1=2)]


def test_the_thread_of_a_schedule_ends() -> None:
    heard: list[Any] = []
    source = ScheduleSource(steps((0, {0: 1}), (3_600, {0: 2})), heard.append, SecondsClock(50.0), lambda _: None)
    source.start()
    assert source.stop(10)
    assert heard == [wanted(p0=1)]
    assert ScheduleSource(steps(), heard.append, SecondsClock(50.0), lambda _: None).stop()


# -------------------------------------------------------------------------------------------------------- what lines mean


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("kill 7", KillRequested(0, ids("7"), force=True)),
        ("  kill 7 8 7\r", KillRequested(0, ids("7", "8"), force=True)),
        ('{"kill": ["7", "a-b"]}', KillRequested(0, ids("7", "a-b"), force=True)),
        ("decommission 7 9", DecommissionRequested(0, ids("7", "9"), "asked for by a line")),
        ('{"decommission": ["7"]}', DecommissionRequested(0, ids("7"), "asked for by a line")),
        ("", None),
        ("  # a comment", None),
    ],
)
def test_lines(line: str, order: Any) -> None:
    assert understand(line) == order


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("targets 5", "expected target N, target PROFILE N"),
        ("target", "expected target N or target PROFILE N"),
        ("target 1 2 3", "expected target N or target PROFILE N"),
        ("target -1", "expected executors from 0 to 2147483647, got '-1'"),
        ("target 1e3", "got '1e3'"),
        ("target x 5", "expected a profile from 0 to 2147483647, got 'x'"),
        ("target 99999999999", "expected executors"),
        ("kill", "expected kill and 1 to 10000 executor ids, got 0"),
        ("kill 7 -8", "got '-8'"),
        ("kill " + "x" * 64, "got 'x"),
        ("decommission ../x", "got '../x'"),
        ("stop now", "expected stop alone"),
        ("status ?", "expected status alone"),
        ("{", "not understood as JSON"),
        ("{}", "expected one of target, kill, decommission, status and stop, got none"),
        ('{"target": 1, "stop": true}', "got target and stop"),
        ('{"target": "1"}', "$.target"),
        ('{"target": -1}', "$.target"),
        ('{"target": 1, "profil": 0}', "unknown field `profil`"),
        ('{"profile": 1, "stop": true}', "profile: expected beside target alone"),
        ('{"kill": []}', "$.kill"),
        ('{"kill": ["a b"]}', "$.kill"),
        ('{"kill": "7"}', "$.kill"),
        ('{"a":' * 50_000, "not understood as JSON"),
        ("[1]", "expected target N"),
    ],
)
def test_lines_that_mean_nothing(line: str, expected: str) -> None:
    with pytest.raises(LineRefused) as refused:
        understand(line)
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 300


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"(target|kill|stop|\{)[ -~]{0,30}")))
def test_any_line_is_understood_or_refused(line: str) -> None:
    with suppress(LineRefused):
        understand(line)


# ---------------------------------------------------------------------------------------------------- reading them


class Reading:
    """A line source on a pipe, and all that comes of it."""

    def __init__(self, *, stop_at_end: bool = False, descriptor: int | None = None) -> None:
        reading, self.writing = os.pipe()
        self.open = [reading, self.writing]
        self.heard: list[Any] = []
        self.notices: list[Notice] = []
        self.stops = 0
        self.statuses = 0
        self.changed = threading.Semaphore(0)
        self.source = LineSource(
            reading if descriptor is None else descriptor, self.hear, SecondsClock(50.0), self.notify, self.stop,
            self.status, stop_at_end=stop_at_end,
        )  # fmt: skip

    def hear(self, stimulus: Any) -> None:
        self.heard.append(stimulus)
        self.changed.release()

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)
        self.changed.release()

    def stop(self) -> None:
        self.stops += 1
        self.changed.release()

    def status(self) -> None:
        self.statuses += 1
        self.changed.release()

    def write(self, text: str) -> None:
        os.write(self.writing, text.encode())

    def wait(self, changes: int = 1) -> None:
        for _ in range(changes):
            assert self.changed.acquire(timeout=10)

    def close(self) -> None:
        assert self.source.stop(10)
        for descriptor in self.open:
            os.close(descriptor)

    def end(self) -> None:
        self.open.remove(self.writing)
        os.close(self.writing)


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.close()


def test_lines_come_through_a_pipe_piece_by_piece(reading: Reading) -> None:
    reading.source.start()
    reading.write("target 5\ntar")
    reading.wait()
    reading.write("get 1 3\n\ntarget 6\n")
    reading.wait(2)
    assert reading.heard == [wanted(p0=5), wanted(p0=5, p1=3), wanted(p0=6, p1=3)]
    reading.write("status\n")
    reading.wait()
    assert reading.statuses == 1


def test_a_line_that_means_nothing_is_told_and_ends_nothing(reading: Reading) -> None:
    reading.source.start()
    reading.write("target 5\nfaster\x1b[2J\ntarget 6\n")
    reading.wait(3)
    assert reading.heard == [wanted(p0=5), wanted(p0=6)]
    (notice,) = reading.notices
    assert (notice.topic, notice.level, notice.facts) == (Topic.INPUT_REFUSED, Level.WARNING, (("line", 2),))
    assert notice.text.startswith("line 2: expected target N")
    assert notice.text.isprintable()


@pytest.mark.parametrize("stop_at_end", [False, True])
def test_the_end_of_the_input(stop_at_end: bool) -> None:
    reading = Reading(stop_at_end=stop_at_end)
    reading.source.start()
    reading.write("target 5\ntarget 6")
    reading.end()
    assert reading.source.ended.wait(10)
    assert reading.heard == [wanted(p0=5), wanted(p0=6)], "the last line needs no line break"
    assert reading.stops == stop_at_end
    assert reading.notices[-1].topic is (Topic.STOPPING if stop_at_end else Topic.STATUS)
    reading.close()


def test_stop_is_the_last_line_that_is_read(reading: Reading) -> None:
    reading.source.start()
    reading.write("target 5\nstop\ntarget 6\n")
    assert reading.source.ended.wait(10)
    assert reading.heard == [wanted(p0=5)]
    assert reading.stops == 1
    assert not reading.notices


def test_it_ends_while_it_waits(reading: Reading) -> None:
    reading.source.start()
    assert reading.source.stop(10)
    assert reading.source.ended.is_set()
    assert reading.source.stop(10), "twice does no harm"
    assert not reading.notices


def test_it_may_be_stopped_from_what_it_calls() -> None:
    reading = Reading()

    def end() -> None:
        source.stop()

    source = LineSource(reading.open[0], reading.hear, SecondsClock(50.0), reading.notify, reading.stop, end)
    source.start()
    reading.write("status\n")
    assert source.ended.wait(10)
    reading.close()


def test_a_file_and_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("target 5\nkill 3\n")
    descriptor = os.open(file, os.O_RDONLY)
    reading = Reading(descriptor=descriptor)
    reading.source.start()
    assert reading.source.ended.wait(10)
    assert len(reading.heard) == 2
    os.close(descriptor)
    reading.close()
    master, slave = os.openpty()
    reading = Reading(descriptor=slave)
    before = os.get_blocking(slave)
    reading.source.start()
    os.write(master, b"target 5\n")
    reading.wait()
    assert reading.heard == [wanted(p0=5)]
    os.write(master, b"\x04")  # Ctrl-D
    assert reading.source.ended.wait(10)
    assert os.get_blocking(slave) == before
    reading.close()
    os.close(master)
    os.close(slave)


def test_a_descriptor_that_is_none() -> None:
    reading = Reading()
    gone = os.dup(reading.open[0])
    os.close(gone)
    source = LineSource(gone, reading.hear, SecondsClock(50.0), reading.notify, reading.stop, reading.status)
    source.start()
    assert source.ended.wait(10)
    assert [one.topic for one in reading.notices] == [Topic.INPUT_REFUSED, Topic.STATUS]
    reading.close()


def test_lines_without_end_are_passed_over(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_source, "LINE_MAX", 20)
    source = reading.source
    for piece in (b"target 1\n", b"x" * 15, b"x" * 15, b"x" * 50, b" target 2\ntarget 3\n", b"y" * 21 + b"\ntarget 4"):
        source.feed(piece)
    source.feed(b"\n")
    assert reading.heard == [wanted(p0=1), wanted(p0=3), wanted(p0=4)]
    assert [one.text for one in reading.notices] == [f"line {n}: longer than 20 bytes" for n in (2, 4)]


def test_bytes_that_are_no_text(reading: Reading) -> None:
    reading.source.feed(b"\xef\xbb\xbftarget 1\n\xff\n")
    assert reading.heard == [wanted(p0=1)]
    assert reading.notices[0].text == "line 2: expected UTF-8 text"


def test_profiles_are_bounded(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_source, "PROFILES_MAX", 2)
    reading.source.feed(b"target 1 1\ntarget 2 2\ntarget 3 3\ntarget 1 4\n")
    assert reading.heard == [wanted(p1=1), wanted(p1=1, p2=2), wanted(p1=4, p2=2)]
    assert "more than 2 profiles" in reading.notices[0].text


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(1, 7), max_size=60))
def test_however_bytes_are_cut_the_same_is_heard(data: bytes, cuts: list[int]) -> None:
    whole, pieces = Reading(), Reading()
    try:
        text = b"target 1\n" + data + b"\ntarget 2\n"
        whole.source.feed(text)
        rest = text
        for cut in cuts:
            pieces.source.feed(rest[:cut])
            rest = rest[cut:]
        pieces.source.feed(rest)
        assert pieces.heard == whole.heard
        assert [one.text for one in pieces.notices] == [one.text for one in whole.notices]
    finally:
        whole.close()
        pieces.close()


def test_ids_are_bounded() -> None:
    many = " ".join(map(str, range(target_source_lines.IDS_MAX + 1)))
    with pytest.raises(LineRefused, match="got 10001"):
        understand(f"kill {many}")
