"""A second process decodes: the same stimuli, the same counts, the same refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.decoder_process import SecondProcess, begun_early, packed, unpacked
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.stimuli import JobEnd, TaskEnd, TaskOutcome, TaskStart
from tests.support import event_log_lines as log
from tests.support.project import DEMO

X = ExecutorId("x")


def test_a_batch_travels_whole() -> None:
    outcomes = list(enumerate(TaskOutcome))
    batch: list[Any] = [
        (1, 2, 0, 3, X, True),
        JobEnd(4, 5),
        *((6, 2, 0, 3, X, False, number) for number, _ in outcomes),
        TaskEnd(6, 2, 0, 4, X, False, TaskOutcome.KILLED),
        (7, 2, 1, 4, X, False),
    ]
    received = unpacked(*packed(batch))
    assert received == [
        TaskStart(1, 2, 0, 3, X, True),
        JobEnd(4, 5),
        *(TaskEnd(6, 2, 0, 3, X, False, outcome) for _, outcome in outcomes),
        TaskEnd(6, 2, 0, 4, X, False, TaskOutcome.KILLED),
        TaskStart(7, 2, 1, 4, X, False),
    ]
    kinds = [TaskStart, JobEnd, *[TaskEnd] * (len(outcomes) + 1), TaskStart]
    assert [type(stimulus) for stimulus in received] == kinds


def ends_of_all_kinds(folder: Path) -> str:
    """A log of tasks that succeed, fail, are killed, and of which one has no end."""
    lines = [*log.begun(), log.job(0, 5, log.stage(0, 5, 5)), log.submitted(0, 5, 10)]
    lines += [log.task(0, n, "x", 20 + n) for n in range(5)]
    lines += [
        log.task(0, n, "x", 20 + n, 40 + n, reason)
        for n, reason in enumerate(["Success", "TaskKilled", "ExceptionFailure", "Success"])
    ]
    return log.written(folder, [*lines, log.completed(0, 5, 60), log.job_end(0, 70)])


@pytest.mark.parametrize("kind", ["demo", "ends"])
def test_a_log_reads_the_same_in_two_processes(kind: str, tmp_path: Path) -> None:
    path = str(DEMO) if kind == "demo" else ends_of_all_kinds(tmp_path)
    alone = EventLogSensor(open_log(path))
    alone.prologue()
    expected = [stimulus for batch in alone.batches() for stimulus in batch]
    with SecondProcess(open_log(path)) as sensor:
        sensor.prologue()
        received = [stimulus for batch in sensor.batches() for stimulus in batch]
        assert received == expected
        assert [type(stimulus) for stimulus in received] == [type(stimulus) for stimulus in expected]
        assert sensor.application == alone.application
        assert sensor.counts == alone.counts
        assert sensor.seen == alone.seen
        assert vars(sensor.fleet) == vars(alone.fleet)
        assert sensor.source.codecs == alone.source.codecs


def test_what_the_child_refuses_is_refused_here(tmp_path: Path) -> None:
    path = log.written(tmp_path, ["{", "{"])
    with SecondProcess(open_log(path), strict=True) as sensor, pytest.raises(LogError, match="log:1: "):
        sensor.prologue()


def test_a_child_that_dies_is_one_clear_error() -> None:
    with SecondProcess(open_log(str(DEMO))) as sensor:
        sensor.prologue()
        sensor._child.kill()
        sensor._child.wait()
        with pytest.raises(LogError, match="ended early"):
            for _ in range(10_000):
                sensor._receive()


def test_closing_early_leaves_no_child_behind() -> None:
    with SecondProcess(open_log(str(DEMO))) as sensor:
        sensor.prologue()
    assert sensor._child.returncode is not None


def test_a_long_log_is_begun_early_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtide.adapters.eventlog.decoder_process.WORTH_BYTES", 1_000)
    long = tmp_path / "long"
    long.write_text("\n" * 1_000)
    (tmp_path / "short").write_text("\n" * 999)
    (tmp_path / "foreign").write_bytes(b"PAR1" * 1_000)
    (tmp_path / "-").write_text("\n" * 1_000)
    monkeypatch.chdir(tmp_path)
    for path in ("short", "foreign", "missing", "-", "\0", None):
        with begun_early(path, strict=False, keep_unended=False) as reading:
            assert reading is None
    with begun_early(str(long), strict=False, keep_unended=False) as reading:
        assert reading is not None
        assert reading._child.poll() is None
    assert reading._child.returncode is not None
