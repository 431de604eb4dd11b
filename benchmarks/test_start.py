"""How long ``podtide --help`` takes, against importing click."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT / ".typing")}
HELP = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main(['--help'])"]
CLICK = [sys.executable, "-c", "import click"]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)


def test_help(benchmark: BenchmarkFixture, compared: Callable[[str, str, str, str], None]) -> None:
    benchmark.pedantic(_run, args=(HELP,), rounds=15, warmup_rounds=2)
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    times = []
    for _ in range(15):
        began = time.perf_counter()
        _run(CLICK)
        times.append(time.perf_counter() - began)
    ours, theirs = benchmark.stats.stats.median, median(times)
    compared(
        "podtide --help",
        f"{ours * 1000:.0f} ms",
        f"python -c 'import click': {theirs * 1000:.0f} ms",
        f"{ours / theirs:.2f} times as long",
    )
