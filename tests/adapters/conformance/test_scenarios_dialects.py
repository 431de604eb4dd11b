"""Pods of scenarios, in both dialects, as manifests; and the words of the store."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.conformance.manifests import ShapeError, java_bool, java_text, manifest
from podtide.adapters.views.sparklog import machines
from podtide.adapters.views.sparklog.templates import SparkLine
from podtide.domain.kubernetes.polling_source import POLLING, REJECTED, STARTED_TWICE
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pods import SPARK_CONTAINER, Container, ContainerState, PodManifest
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why

LABELS = {
    "spark-exec-id": "7",
    "spark-app-selector": "app",
    "spark-role": "executor",
    "spark-exec-resourceprofile-id": "0",
}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"id": 7, "phase": "Running"}, PodManifest("exec-7", LABELS, phase="Running")),
        (
            {"id": 7, "phase": "Pending", "rp": 2, "createdAt": 1_500, "deletionTimestamp": "soon", "pvcs": ["a", "b"]},
            PodManifest(
                "exec-7",
                {**LABELS, "spark-exec-resourceprofile-id": "2"},
                "1970-01-01T00:00:01.500Z",
                "soon",
                claims=("a", "b"),
                phase="Pending",
            ),
        ),
        (
            {"id": 7, "phase": "Running", "exitCode": 3},
            PodManifest(
                "exec-7",
                LABELS,
                phase="Running",
                containers=(Container(SPARK_CONTAINER, None, ContainerState("terminated", 3)),),
            ),
        ),
        ({"id": 7, "phase": None}, PodManifest("exec-7", LABELS)),
        ({"id": 7, "noStatus": True, "phase": "Running"}, PodManifest("exec-7", LABELS, has_status=False)),
        ({"id": 7, "noSpec": True}, PodManifest("exec-7", LABELS, has_spec=False)),
        (
            {"id": "007", "name": "n", "reason": "r", "message": "m", "restartPolicy": "Never"},
            PodManifest("n", {**LABELS, "spark-exec-id": "007"}, None, None, "Never", (), None, "r", "m"),
        ),
    ],
)
def test_manifests(pod: dict[str, Any], expected: PodManifest) -> None:
    assert manifest(pod, "app") == expected


@pytest.mark.parametrize(
    ("pod", "label", "value"),
    [
        ({}, "spark-exec-id", None),
        ({"id": None}, "spark-exec-id", None),
        ({"id": 7, "rp": None}, "spark-exec-resourceprofile-id", None),
        ({"id": 7, "rp": ""}, "spark-exec-resourceprofile-id", "0"),
        ({"id": 7, "inactive": True}, "spark-exec-inactive", "true"),
        ({"id": 7, "inactive": False}, "spark-exec-inactive", None),
        ({"id": 7, "labels": {"spark-role": "driver"}}, "spark-role", "driver"),
        ({"id": 7, "labels": {"x": None}}, "x", "null"),
        ({"id": 7, "labels": {"x": 1.5}}, "x", "1.5"),
    ],
)
def test_labels(pod: dict[str, Any], label: str, value: str | None) -> None:
    assert manifest(pod, "app").labels.get(label) == value


@pytest.mark.parametrize(("pod", "name"), [({}, "exec-"), ({"id": None}, "exec-null"), ({"id": 7, "name": None}, "")])
def test_names(pod: dict[str, Any], name: str) -> None:
    assert manifest(pod, "app").name == name


@pytest.mark.parametrize(
    ("container", "state"),
    [
        ({"name": "c"}, ContainerState("running")),
        ({"name": "c", "startedAt": "t"}, ContainerState("running", started_at="t")),
        ({"name": "c", "state": "waiting", "reason": "r"}, ContainerState("waiting", reason="r")),
        (
            {"name": "c", "exitCode": 1, "reason": "r", "startedAt": "s", "finishedAt": "f"},
            ContainerState("terminated", 1, "r", "s", "f"),
        ),
        ({"name": "c", "state": "terminated", "exitCode": None}, ContainerState("terminated")),
        ({"name": "c", "exitCode": None}, ContainerState("terminated")),
        ({"name": "c", "state": "none"}, ContainerState()),
        ({"name": "c", "state": None, "exitCode": 1}, None),
    ],
)
def test_containers(container: dict[str, Any], state: ContainerState | None) -> None:
    pod = {"id": 1, "phase": "Running", "exitCode": 9, "containers": [container], "initContainers": [{"exitCode": 1}]}
    assert manifest(pod, "app").containers == (Container("c", None, state),)


@pytest.mark.parametrize(
    "pod",
    [
        7,
        {"id": 1, "containers": 7},
        {"id": 1, "containers": [7]},
        {"id": 1, "labels": 7},
        {"id": 1, "createdAt": 1.5},
        {"id": 1, "pvcs": "a"},
        {"id": 1, "exitCode": "x"},
        {"id": 1, "containers": [{"exitCode": True}]},
    ],
)
def test_what_is_no_pod(pod: Any) -> None:
    with pytest.raises(ShapeError, match="expected"):
        manifest(pod, "app")


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (7, "7"), (1.0, "1.0"), (True, "true"), (False, "false"), (None, "null"), ([], "")]
)
def test_texts_as_jackson_makes_them(value: object, text: str) -> None:
    assert java_text(value) == text


@pytest.mark.parametrize(
    ("value", "truth"),
    [(True, True), (False, False), (0, False), (2, True), ("true", True), ("x", False), (None, False)],
)
def test_truth_as_jackson_has_it(value: object, truth: bool) -> None:
    assert java_bool(value) is truth


# --------------------------------------------------------------------------------------------------------------- words

STORE = "ExecutorPodsSnapshotsStoreImpl"
ALLOCATOR = "ExecutorPodsAllocator"
UNKNOWN = Remark(5, "ExecutorPodsSnapshot", "unknown phase", {"phase": "odd", "pod": "exec-1", "namespace": "jobs"})


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            UNKNOWN,
            SparkLine(
                "WARN",
                "ExecutorPodsSnapshot",
                "Received unknown phase odd for executor pod with name exec-1 in namespace jobs",
            ),
        ),
        (
            Remark(5, POLLING, "started", {"interval_ms": 30_000}),
            SparkLine("DEBUG", POLLING, "Starting to check for executor pod state every 30000 ms."),
        ),
        (
            ListPods(5, 0, Why(Cause.RESYNCHRONIZE)),
            SparkLine("DEBUG", POLLING, "Resynchronizing full executor pod state from Kubernetes."),
        ),
        (
            Threw(5, POLLING, "java.lang.NullPointerException: null"),
            SparkLine("ERROR", "Utils", "Uncaught exception in thread kubernetes-executor-pod-polling-sync"),
        ),
        (Threw(5, POLLING, str(STARTED_TWICE)), None),
        (Threw(5, POLLING, str(REJECTED)), None),
        (Threw(5, ALLOCATOR, "x"), SparkLine("WARN", STORE, "Exception when notifying snapshot subscriber.")),
        (
            Threw(5, "ExecutorPodsLifecycleManager", "x", fatal=True),
            SparkLine("ERROR", STORE, "Going to stop due to IllegalArgumentException"),
        ),
        (Threw(5, "ExecutorPodsWatchSnapshotSource", "x"), None),
        (ListPods(5, 0, Why(Cause.STARTED)), None),
        (Remark(5, "ExecutorPodsSnapshot", "something else"), None),
        ("nothing of ours", None),
    ],
)
def test_words(item: object, line: SparkLine | None) -> None:
    assert machines.lines(item) == (() if line is None else (line,))
