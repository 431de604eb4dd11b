"""What the sensor reads: a full list of 5,000 executor pods, an event of the watch, and both against the client's models.

The pods are as Spark 4.3 makes them and as an API server shows them while they run: labels, an environment of three dozen
entries, volumes, conditions, container statuses, and managed fields as long as all that together. The rival is the official
client's own way over the same bytes in the same run: JSON into dicts, dicts into ``V1PodList`` or, for a line of a watch,
into ``V1Pod``. Both are measured in CPU time of the thread. What else the sensor does with a list or an event, up to the
stimulus, is measured beside it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared, median_ms
from podtide.adapters.kubernetes.codec import PodPage, read_event, read_pods
from podtide.adapters.kubernetes.watch.lists import KnownPods, ListedPods
from podtide.adapters.kubernetes.watch.stream import WatchReader

pytestmark = pytest.mark.benchmark(timer=time.thread_time)

PODS = 5_000
PAGE = 500
STAMP = "2026-01-01T00:00:00Z"


def fields_of(value: object) -> object:
    """Managed fields: the shape of an object, as the API server keeps account of who set what."""
    if isinstance(value, dict):
        return {".": {}, **{f"f:{key}": fields_of(inner) for key, inner in value.items()}}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {f'k:{{"name":"{item["name"]}"}}': {".": {}, **{f"f:{key}": {} for key in item}} for item in value}
    return {}


def pod(number: int) -> dict[str, Any]:
    """A running executor pod."""
    labels = {
        "spark-app-name": "nightly-report", "spark-app-selector": "spark-0123456789abcdef0123456789abcdef",
        "spark-exec-id": str(number), "spark-exec-resourceprofile-id": "0", "spark-role": "executor",
        "spark-version": "4.3.0",
    }  # fmt: skip
    options = [
        {"name": f"SPARK_JAVA_OPT_{i}", "value": f"--add-opens=java.base/java.part{i}=ALL-UNNAMED"} for i in range(24)
    ]
    env = [
        {"name": "SPARK_DRIVER_URL", "value": "spark://CoarseGrainedScheduler@driver-svc.spark.svc:7078"},
        {"name": "SPARK_EXECUTOR_ID", "value": str(number)}, {"name": "SPARK_EXECUTOR_CORES", "value": "4"},
        {"name": "SPARK_EXECUTOR_MEMORY", "value": "8g"}, *options,
        {"name": "SPARK_EXECUTOR_POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
    ]  # fmt: skip
    container = {
        "name": "spark-kubernetes-executor", "image": "registry.example/spark:4.3.0", "imagePullPolicy": "IfNotPresent",
        "args": ["executor"], "env": env,
        "ports": [{"containerPort": 7079, "name": "blockmanager", "protocol": "TCP"}],
        "resources": {"limits": {"memory": "9011Mi"}, "requests": {"cpu": "4", "memory": "9011Mi"}},
        "volumeMounts": [{"mountPath": "/var/data/spark-1", "name": "spark-local-dir-1"}],
    }  # fmt: skip
    spec = {
        "containers": [container], "restartPolicy": "Never", "nodeName": f"node-{number % 400}",
        "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
        "volumes": [{"name": "spark-local-dir-1", "persistentVolumeClaim": {"claimName": f"report-exec-{number}-pvc-0"}}],
    }  # fmt: skip
    managed = {"f:metadata": {"f:labels": fields_of(labels)}, "f:spec": fields_of(spec)}
    ready = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": STAMP}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
        "startTime": STAMP, "qosClass": "Burstable", "conditions": ready,
        "containerStatuses": [
            {
                "name": "spark-kubernetes-executor", "image": "registry.example/spark:4.3.0", "imageID": "sha256:0",
                "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": STAMP}},
                "lastState": {}, "containerID": f"containerd://{number:064x}",
            }
        ],
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"report-0123456789abcdef-exec-{number}", "namespace": "spark", "uid": f"{number:08x}-0000-4000-8000-0",
            "resourceVersion": str(100_000 + number), "creationTimestamp": STAMP, "labels": labels,
            "managedFields": [
                {"manager": "fabric8-kubernetes-client", "operation": "Update", "time": STAMP, "fieldsV1": managed}
            ],
        },
        "spec": spec,
        "status": status,
    }  # fmt: skip


def raw(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def pages() -> list[bytes]:
    """The bodies of a list in pages."""
    bodies = []
    for first in range(0, PODS, PAGE):
        items = [pod(number) for number in range(first + 1, first + PAGE + 1)]
        meta = {"resourceVersion": "200000", "continue": "more" if first + PAGE < PODS else ""}
        bodies.append(raw({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}))
    return bodies


@pytest.fixture(scope="module")
def typed() -> Callable[[bytes, str], Any]:
    """The client's own way from bytes to a model."""
    client = pytest.importorskip("kubernetes.client", reason="NO COMPARISON: the kubernetes package is not installed")
    api = client.ApiClient(client.Configuration(host="https://localhost"))

    def read(body: bytes, kind: str) -> Any:
        return api.deserialize(body.decode(), kind, "application/json")

    return read


def test_a_list(
    benchmark: BenchmarkFixture, pages: list[bytes], typed: Callable[[bytes, str], Any], compared: Compared
) -> None:
    def ours() -> list[PodPage]:
        read = [read_pods(page) for page in pages]
        return [page for page in read if isinstance(page, PodPage)]

    found = benchmark.pedantic(ours, rounds=15, iterations=1, warmup_rounds=2)
    assert sum(len(page.pods) for page in found) == PODS
    began = time.thread_time()
    theirs = [typed(page, "V1PodList") for page in pages]
    theirs_ms = (time.thread_time() - began) * 1_000
    assert sum(len(page.items) for page in theirs) == PODS
    size = sum(map(len, pages))
    ms = median_ms(benchmark)
    compared(
        f"list of {PODS:,} pods, {size / PODS / 1_000:.1f} KB each", f"{ms:.1f} ms, {size / ms / 1_000:.0f} MB/s",
        f"typed client: {theirs_ms:.0f} ms", f"{theirs_ms / ms:.0f} x",
    )  # fmt: skip
    assert ms <= theirs_ms / 20


def test_an_event_of_a_watch(
    benchmark: BenchmarkFixture, typed: Callable[[bytes, str], Any], compared: Compared
) -> None:
    lines = [raw({"type": "MODIFIED", "object": pod(number)}) for number in range(200)]
    benchmark.pedantic(lambda: [read_event(line) for line in lines], rounds=50, iterations=1, warmup_rounds=5)
    began = time.thread_time()
    for line in lines:
        # As its Watch does it: the line as JSON, then the object of it as text again, into a model.
        typed(json.dumps(json.loads(line)["object"]).encode(), "V1Pod")
    theirs_us = (time.thread_time() - began) * 1_000_000 / len(lines)
    us = median_ms(benchmark) * 1_000 / len(lines)
    compared("an event of a watch", f"{us:.1f} us", f"typed client: {theirs_us:.0f} us", f"{theirs_us / us:.0f} x")
    assert us <= theirs_us / 20


def test_a_list_taken_by_the_sensor(benchmark: BenchmarkFixture, pages: list[bytes], compared: Compared) -> None:
    """Bytes of a periodic list of 5,000 pods to what is heard; every pod is known."""
    known = KnownPods()

    def take() -> int:
        read = [page for page in map(read_pods, pages) if isinstance(page, PodPage)]
        listed = ListedPods(tuple(one for page in read for one in page.pods), "200000", len(read))
        return len(known.take_list(listed, floor=known.floor, fresh=True).pods)

    assert benchmark.pedantic(take, rounds=15, iterations=1, warmup_rounds=2) == PODS
    compared(f"a list of {PODS:,} pods, bytes to stimulus", f"{median_ms(benchmark):.1f} ms", "", "")


def test_events_taken_by_the_sensor(benchmark: BenchmarkFixture, compared: Compared) -> None:
    """A burst of 1,000 events in chunks of 64 KB, bytes to what is heard."""
    stream = b"".join(raw({"type": "MODIFIED", "object": pod(number)}) + b"\n" for number in range(1_000))
    chunks = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]

    def take() -> int:
        known, reader = KnownPods(), WatchReader("1")
        return sum(known.take_event(event) for chunk in chunks for event in reader.read(chunk).events)

    assert benchmark.pedantic(take, rounds=30, iterations=1, warmup_rounds=3) == 1_000
    ms = median_ms(benchmark)
    compared("1,000 events of a watch, bytes to stimulus", f"{ms:.1f} ms, {len(stream) / ms / 1_000:.0f} MB/s", "", "")
