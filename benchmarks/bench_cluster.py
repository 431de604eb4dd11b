"""``podtide cluster`` measured: ``PODTIDE_SPARK_PYTHON=... python -m benchmarks.bench_cluster [--rounds N]``.

How long it is from the command to the first task, next to the same program with ``local[1]``; and what a pod costs the
process of ``podtide cluster --hollow``: seconds of its processor and memory, for pods that come, run and go. Least of the
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.test_api_server import cpu, pod, resident
from podtide.adapters.kubernetes.api import connect
from tests.support.project import PROJECT

PODS = 1_000
CLUSTER = [sys.executable, "-m", "podtide", "cluster"]
PROGRAM = """
import sys, time
from pyspark.sql import SparkSession
made = SparkSession.builder.config("spark.executor.instances", "1").config("spark.executor.memory", "512m")
made = made.config("spark.driver.memory", "512m").config("spark.ui.enabled", "false")
made = made.master(sys.argv[1]) if sys.argv[1:] else made
context = made.getOrCreate().sparkContext
up = time.time()
print(up, context.parallelize([0], 1).map(lambda _: time.time()).collect()[0])
context.stop()
"""


class Start(NamedTuple):
    """Seconds from the command until the context is up and until the first task runs."""

    up: float
    task: float


class PodCost(NamedTuple):
    """Of one hollow pod: processor seconds of podtide from its creation to its end, bytes while it runs."""

    cpu: float
    memory: float


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return kept | {"PYTHONPATH": f"{PROJECT}/.typing:{PROJECT}"}


def started(python: str, master: str = "") -> Start:
    """The program on a cluster of its own, or with a master."""
    program = ["env", "-u", "PYTHONPATH", python, "-c", PROGRAM, *([master] if master else [])]
    command = program if master else [*CLUSTER, "--", *program]
    spark = environment() | {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    began = time.time()
    ran = subprocess.run(command, env=spark, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    up, task = map(float, ran.stdout.split()[-2:])
    return Start(up - began, task - began)


def pod_cost() -> PodCost:
    """PODS pods on a hollow cluster, by a client in a process of its own."""
    command = [*CLUSTER, "--hollow", "--", sys.executable, "-m", "benchmarks.bench_cluster", "--client"]
    with subprocess.Popen(
        command, env=environment(), cwd=PROJECT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        figures = []
        for word in ("empty", "running", "gone"):
            assert process.stdout.readline().strip() == word
            figures.append((cpu([process.pid]), resident([process.pid])))
            process.stdin.write("go on\n")
            process.stdin.flush()
    empty, running, gone = figures
    return PodCost((gone[0] - empty[0]) / PODS, (running[1] - empty[1]) / PODS)


def client(orders: IO[str]) -> None:
    """Create the pods, wait until they run, delete them, wait until they are gone; each time an order is waited for."""
    api, path = connect(os.environ["KUBECONFIG"]), "/api/v1/namespaces/default/pods"

    def reached(word: str, running: int) -> None:
        while True:
            items = json.loads(api.call("list", "pods", path, timeout_s=60).body)["items"]
            if len(items) == running and all(one["status"].get("phase") == "Running" for one in items):
                break
            time.sleep(1)
        print(word, flush=True)
        orders.readline()

    reached("empty", 0)
    for number in range(PODS):
        assert api.call("create", "pods", path, body=pod(number)).ok
    reached("running", PODS)
    api.call("deletecollection", "pods", path, body=b"{}", timeout_s=120)
    reached("gone", 0)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.client:
        client(sys.stdin)
        return
    python = os.environ.get("PODTIDE_SPARK_PYTHON")
    if python:
        for master in ("", "local[1]"):
            starts = [started(python, master) for _ in range(chosen.rounds)]
            up, task = min(one.up for one in starts), min(one.task for one in starts)
            name = master or "podtide cluster"
            print(f"{name}: context up after {up:.1f} s, the first task after {task:.1f} s", flush=True)
    costs = [pod_cost() for _ in range(chosen.rounds)]
    least, memory = min(one.cpu for one in costs), min(one.memory for one in costs)
    print(f"a hollow pod of 4.8 KB: {least * 1e3:.2f} ms of the processor, {memory / 1e3:.1f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
