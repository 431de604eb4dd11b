"""A long event log: podtide's whole replay, ticks included, against Spark's listeners alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.decoder_process import SecondProcess
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.entrypoints.replay.run import Replay


def _one_process(log: Path) -> int:
    with open_log(str(log)) as source:
        sensor = EventLogSensor(source)
        Replay(sensor, lambda _record: None).run()
        return sensor.counts.read


def _two_processes(log: Path) -> int:
    with open_log(str(log)) as source, SecondProcess(source) as sensor:
        Replay(sensor, lambda _record: None).run()
        return sensor.counts.read


def test_replay_in_one_process(
    benchmark: BenchmarkFixture,
    event_log: Path,
    spark_passes: list[dict[str, Any]],
    compared: Callable[[str, str, str, str], None],
) -> None:
    cpu: list[float] = []

    def run() -> int:
        began = time.process_time()
        events = _one_process(event_log)
        cpu.append(time.process_time() - began)
        return events

    events = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    warm = min(p["cpu_s"] for p in spark_passes[1:])
    ours = min(cpu)
    compared(
        "replay, one process, CPU time of the thread",
        f"{ours:.2f} s = {events / ours:,.0f} events/s",
        f"Spark, warm: {warm:.2f} s = {spark_passes[1]['events'] / warm:,.0f} events/s",
        f"{warm / ours:.2f} x",
    )
    benchmark.extra_info["ratio"] = warm / ours


def test_replay_in_two_processes(
    benchmark: BenchmarkFixture,
    event_log: Path,
    spark_passes: list[dict[str, Any]],
    compared: Callable[[str, str, str, str], None],
) -> None:
    events = benchmark.pedantic(_two_processes, args=(event_log,), rounds=3, warmup_rounds=1)
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    warm = min(p["wall_s"] for p in spark_passes[1:])
    ours = benchmark.stats.stats.min
    compared(
        "replay, two processes, wall time",
        f"{ours:.2f} s = {events / ours:,.0f} events/s",
        f"Spark, warm: {warm:.2f} s = {spark_passes[1]['events'] / warm:,.0f} events/s",
        f"{warm / ours:.2f} x",
    )
    benchmark.extra_info["ratio"] = warm / ours
