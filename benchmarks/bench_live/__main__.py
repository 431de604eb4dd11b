"""``python -m benchmarks.bench_live``: measure, print the tables, clean up.

Needs an API server (tests/live/cluster.py says where it comes from; one with an audit log) and PODTIDE_SPARK_PYTHON, a
Python that has pyspark 4.3 and finds Java 17. Exit code 0, 1 when a goal was missed (only with ``--strict``), 2 when
something it needs is missing, 4 when a rival or the cluster did not do what it should.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from podtide.adapters.kubernetes.api import Unreachable
from tests.live.cluster import BrokenCluster, Cluster, NoCluster, find
from tests.live.spark_driver import VARIABLE, SparkFailed

from .report import goals_missed, tables
from .rounds import Crowd, Field, Round, Steady, Stuck

PARTS: Final = ("creates", "steady", "crowd")


class Size(NamedTuple):
    """How much of it."""

    pods: int
    rounds: int
    steady_s: float
    vanish: int
    crowd: int
    crowd_s: float


QUICK: Final = Size(pods=200, rounds=1, steady_s=60.0, vanish=5, crowd=1000, crowd_s=20.0)
FULL: Final = Size(pods=1000, rounds=3, steady_s=240.0, vanish=20, crowd=5000, crowd_s=60.0)
BATCH: Final = 1000


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_live", description="podtide next to real Spark.")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="a few minutes: does it work, and roughly how fast")
    sizes.add_argument("--full", action="store_true", help="the figures of RESULTS.md (the default)")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--rounds", type=int, help="alternating rounds of creations")
    parser.add_argument("--spark-crowd", action="store_true", help="the thousands of pods by Spark as well")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a goal is missed")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs, and say where it is")
    arguments = parser.parse_args()
    python = os.environ.get(VARIABLE)
    if not python:
        print(f"bench_live: {VARIABLE} names no Python with pyspark 4.3", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _ended)
    work = Path(tempfile.mkdtemp(prefix="podtide-bench-live-"))
    try:
        cluster = find()
    except (NoCluster, BrokenCluster) as problem:
        print(f"bench_live: {problem}", file=sys.stderr)
        return 2
    try:
        if cluster.audit is None:
            print("bench_live: the cluster has no audit log where it can be read", file=sys.stderr)
            return 2
        field = Field(cluster, work, python, _say)
        size = QUICK if arguments.quick else FULL
        if arguments.rounds is not None:
            size = size._replace(rounds=arguments.rounds)
        missed = _measure(field, size, arguments.only or PARTS, arguments.spark_crowd)
    except (Stuck, SparkFailed, Unreachable, AssertionError, OSError, subprocess.SubprocessError) as problem:
        print(f"bench_live: {problem}", file=sys.stderr)
        return 4
    finally:
        _close(cluster)
        if arguments.keep:
            _say(f"logs: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if missed and arguments.strict else 0


def _measure(field: Field, size: Size, parts: list[str] | tuple[str, ...], spark_crowd: bool) -> list[str]:
    began = time.monotonic()
    _say(f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}, load {_load()}")
    rounds: list[Round] = []
    steady: Steady | None = None
    crowds: list[Crowd] = []
    if "creates" in parts:
        for number in range(size.rounds):
            makers = (field.spark, field.podtide) if number % 2 == 0 else (field.podtide, field.spark)
            rounds += [field.create_and_stop(make, size.pods, BATCH) for make in makers]
    if "steady" in parts:
        steady = field.steady(size.pods, BATCH, size.steady_s, size.vanish)
    if "crowd" in parts:
        crowds.append(field.crowd(field.podtide, size.crowd, BATCH, size.crowd_s))
        if spark_crowd:
            crowds.append(field.crowd(field.spark, size.crowd, BATCH, size.crowd_s))
    print(tables(rounds, steady, crowds), flush=True)
    before = [one.load for one in rounds] + ([steady.load] if steady else []) + [one.load for one in crowds]
    loads = ", ".join(f"{load:.1f}" for load in before)
    print(f"\nLoad of the machine before each round: {loads}. In all {(time.monotonic() - began) / 60:.1f} minutes.")
    missed = goals_missed(rounds, steady, crowds)
    for goal in missed:
        print(f"GOAL MISSED: {goal}")
    return missed


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _ended(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _close(cluster: Cluster) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing keeps the server's processes from being ended
    cluster.close()


if __name__ == "__main__":
    sys.exit(main())
