"""The embedded API server next to kube-apiserver: the same creates of 4.8 KB pods by the same client, over TLS, watched.

The client is this process, sixteen threads with a connection each; the servers are processes of their own, and processor
time is theirs, etcd's with kube-apiserver's. The rival checks more and writes to a disk. Where its programs come from:
``tests/live/cluster.py``; without them the embedded one is measured alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared
from podtide.adapters.kubernetes.api import connect
from tests.live.cluster import NoCluster, find
from tests.support.project import PROJECT

PODS, MANY, THREADS, SIZE = 2_000, 5_000, 16, 4_800
"""Pods that are created against the clock, pods that are listed then, connections, bytes of a pod."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Speed(NamedTuple):
    """Seconds for PODS creates: on the clock, until a watch had them all, and of the server's processors.

    ``listed``: seconds for a list of MANY pods; ``memory``: by how many bytes the server's processes grew for them.
    """

    wall: float
    watched: float
    cpu: float
    listed: float
    memory: float


def pod(number: int) -> bytes:
    """An executor's pod with as many variables as make SIZE bytes."""
    made: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"bench-exec-{number}", "labels": {"spark-role": "executor", "spark-exec-id": str(number)}},
        "spec": {"containers": [{"name": "spark-kubernetes-executor", "image": "spark", "args": ["executor"]}]},
    }  # fmt: skip
    env = made["spec"]["containers"][0]["env"] = [
        {"name": f"SPARK_JAVA_OPT_{i}", "value": f"-Dspark.some.key.of.the.conf.{i}=value-{i}"} for i in range(50)
    ]
    env.append({"name": "PADDING", "value": "x" * (SIZE - len(json.dumps(made)) - 40)})
    return json.dumps(made).encode()


@contextmanager
def embedded(folder: Path) -> Iterator[tuple[str, Sequence[int]]]:
    """The server of podtide: kubeconfig, process ids."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "benchmarks.api_server_process", str(kubeconfig)]
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}/.typing:{PROJECT}"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=PROJECT
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield str(kubeconfig), [process.pid]
        process.stdin.close()
        assert process.wait(20) == 0


@contextmanager
def real() -> Iterator[tuple[str, Sequence[int]] | None]:
    """kube-apiserver with its etcd, if it is there and ours."""
    try:
        cluster = find()
    except NoCluster:
        yield None
        return
    try:
        files = (cluster.admin.parent / "run").glob("*.pid")
        pids = [int(file.read_text()) for file in files if "controller" not in file.name]
        yield (str(cluster.admin), pids) if cluster.server is not None else None
    finally:
        cluster.close()


def cpu(pids: Sequence[int]) -> float:
    """Seconds of processor time so far."""
    texts = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(fields[11]) + int(fields[12]) for fields in texts) * TICK_S


def resident(pids: Sequence[int]) -> int:
    """Bytes of memory in use."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * os.sysconf("SC_PAGE_SIZE")


def measured(kubeconfig: str, pids: Sequence[int]) -> Speed:
    """Create PODS pods in a namespace of their own, then others up to MANY, and list them."""
    api = connect(kubeconfig)
    namespace = f"bench-{time.monotonic_ns()}"
    made = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).encode()
    assert api.call("create", "namespaces", "/api/v1/namespaces", body=made).ok
    path = f"/api/v1/namespaces/{namespace}/pods"
    account = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode()
    api.call("create", "serviceaccounts", f"/api/v1/namespaces/{namespace}/serviceaccounts", body=account)
    bodies = [pod(number) for number in range(MANY)]
    stream = api.stream("pods", path, query=[("watch", "1")], silence_s=60)

    def watch() -> float:
        lines = 0
        for chunk in stream.chunks():
            lines += chunk.count(b"\n")
            if lines >= PODS:
                break
        return time.perf_counter()

    def create(body: bytes) -> int:
        return api.call("create", "pods", path, body=body).status

    empty = resident(pids)
    with ThreadPoolExecutor(THREADS + 1) as threads:
        before, start = cpu(pids), time.perf_counter()
        seen = threads.submit(watch)
        assert set(threads.map(create, bodies[:PODS])) == {201}
        wall = time.perf_counter() - start
        watched = seen.result() - start
        spent = cpu(pids) - before
        assert set(threads.map(create, bodies[PODS:])) == {201}
    stream.close()
    start = time.perf_counter()
    assert api.call("list", "pods", path, timeout_s=60).ok
    listed = time.perf_counter() - start
    grown = resident(pids) - empty
    api.call("deletecollection", "pods", path, body=b'{"gracePeriodSeconds": 0}', timeout_s=120)
    api.close()
    return Speed(wall, watched, spent, listed, grown)


def test_creates_a_second(benchmark: BenchmarkFixture, compared: Compared, tmp_path: Path) -> None:
    with embedded(tmp_path) as (kubeconfig, pids):
        ours = [measured(kubeconfig, pids) for _ in range(2)]
        benchmark.pedantic(lambda: ours.append(measured(kubeconfig, pids)), rounds=1)
        with real() as rival:
            theirs = None if rival is None else [measured(*rival) for _ in range(2)]
    for what, seconds in (
        ("create, wall", lambda speed: speed.wall),
        ("create until a watch has it, wall", lambda speed: speed.watched),
        ("create, CPU of the server", lambda speed: speed.cpu),
    ):
        best = min(map(seconds, ours))
        text = f"{PODS / best:,.0f} a second ({best / PODS * 1e3:.2f} ms)"
        if theirs is None:
            compared(f"pod of 4.8 KB: {what}", text, "-", "-")
            continue
        other = min(map(seconds, theirs))
        compared(
            f"pod of 4.8 KB: {what}", text, f"{PODS / other:,.0f} a second ({other / PODS * 1e3:.2f} ms)",
            f"{other / best:.1f}",
        )  # fmt: skip
    # The first round's memory: what a later one needs, the one before it has left.
    for what, figure in (
        (f"a list of {MANY:,} pods", lambda speeds: f"{min(speed.listed for speed in speeds) * 1e3:.0f} ms"),
        ("memory for one of them", lambda speeds: f"{speeds[0].memory / MANY / 1e3:.1f} KB"),
    ):
        compared(what, figure(ours), "-" if theirs is None else figure(theirs), "")
