"""Rows as kubectl shows them: ages as it writes them, and the cells of each kind."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.domain.api_server.json_values import frozen
from podtide.domain.api_server.kinds import KINDS
from podtide.domain.api_server.table_views import duration_text, row_of

BY_PLURAL = {one.plural: one for one in KINDS}
MINUTE, HOUR = 60, 3_600
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (1, "1s"), (70, "70s"), (120, "2m"), (190, "3m10s"), (10 * MINUTE + 5, "10m"), (70 * MINUTE, "70m"),
        (3 * HOUR, "3h"), (7 * HOUR + 59 * MINUTE, "7h59m"), (8 * HOUR + 59 * MINUTE, "8h"), (47 * HOUR, "47h"),
        (48 * HOUR, "2d"), (49 * HOUR, "2d1h"), (8 * DAY + 2 * HOUR, "8d"), (367 * DAY, "367d"), (2 * 365 * DAY, "2y"),
        (2 * 365 * DAY + 25 * HOUR, "2y1d"), (8 * 365 * DAY + 2 * HOUR, "8y"), (9 * 365 * DAY + 9 * DAY, "9y"),
    ],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    """The cases of Kubernetes' own duration_test.go are among them."""
    assert duration_text(seconds) == text


def cells(plural: str, include: str = "None", **fields: Any) -> dict[str, Any]:
    """The cells of an object that is five minutes old, by column."""
    metadata = {"name": "x", "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z"}
    item = frozen({"kind": BY_PLURAL[plural].kind, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields})
    made = row_of(BY_PLURAL[plural], item, 300_000, include)
    (row,) = made["rows"]
    assert made["metadata"] == frozen({"resourceVersion": "7"})
    return dict(zip((column["name"] for column in made["columnDefinitions"]), row["cells"], strict=True))


def pod(*states: dict[str, Any], metadata: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    found = [{"ready": "running" in state, "restartCount": 2, "state": state} for state in states]
    containers = [{"name": str(place)} for place in range(max(1, len(states)))]
    status = {"containerStatuses": found, **status}
    return cells("pods", metadata=metadata or {}, spec={"containers": containers}, status=status)


RUNNING: dict[str, Any] = {"running": {}}


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (pod(phase="Pending"), "Pending"),
        (pod(), "<unknown>"),
        (pod(RUNNING, phase="Running"), "Running"),
        (pod({"waiting": {"reason": "ImagePullBackOff"}}, RUNNING, phase="Pending"), "ImagePullBackOff"),
        (pod({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, phase="Failed"), "OOMKilled"),
        (pod({"terminated": {"signal": 9}}, phase="Failed"), "Signal:9"),
        (pod({"terminated": {"exitCode": 3}}, phase="Failed"), "ExitCode:3"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(RUNNING, metadata={"deletionTimestamp": "1970-01-01T00:04:00Z"}, phase="Running"), "Terminating"),
        (pod(RUNNING, metadata={"deletionTimestamp": "1970-01-01T00:04:00Z"}, reason="NodeLost"), "<unknown>"),
    ],
)
def test_the_status_of_a_pod_is_the_word_that_says_most(shown: dict[str, Any], status: str) -> None:
    assert shown["Status"] == status
    assert (shown["Name"], shown["Age"], shown["IP"], shown["Node"]) == ("x", "5m", "<none>", "<none>")


def test_containers_of_a_pod_are_counted() -> None:
    shown = pod(RUNNING, {"waiting": {}}, podIP="10.0.0.1")
    assert (shown["Ready"], shown["Restarts"], shown["IP"]) == ("1/2", "4", "10.0.0.1")


@pytest.mark.parametrize(
    ("conditions", "spec", "status"),
    [
        ([{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}], {}, "Ready"),
        ([{"type": "Ready", "status": "False"}], {"unschedulable": True}, "NotReady,SchedulingDisabled"),
        ([], {}, "Unknown"),
    ],
)
def test_the_status_of_a_node(conditions: list[dict[str, str]], spec: dict[str, bool], status: str) -> None:
    assert cells("nodes", spec=spec, status={"conditions": conditions})["Status"] == status


SET = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}


@pytest.mark.parametrize(
    ("plural", "fields", "expected"),
    [
        ("deployments", {"spec": {**SET, "replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 1}},
         {"Ready": "2/3", "Up-to-date": 1, "Available": 0, "Containers": "c", "Images": "i", "Selector": "a=b"}),
        ("replicasets", {"spec": {**SET, "replicas": 3}, "status": {"replicas": 2}},
         {"Desired": 3, "Current": 2, "Ready": 0, "Selector": "a=b"}),
        ("statefulsets", {"spec": {**SET, "replicas": 1}, "status": {}}, {"Ready": "0/1", "Images": "i"}),
        ("services", {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}},
         {"Type": "ClusterIP", "Cluster-IP": "<none>", "Port(s)": "80/TCP", "Selector": "a=b"}),
        ("configmaps", {"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}}, {"Data": "3"}),
        ("secrets", {"type": "Opaque"}, {"Type": "Opaque", "Data": "0"}),
        ("persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}},
         {"Status": "Bound", "Volume": "", "Access Modes": "ReadWriteOnce"}),
        ("leases", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
        ("resourcequotas", {}, {"Name": "x", "Age": "5m"}),
    ],
)  # fmt: skip
def test_the_cells_of_other_kinds(plural: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = cells(plural, **fields)
    assert {name: shown[name] for name in expected} == expected
    assert shown["Age"] == "5m"


def test_an_object_of_no_known_time_has_no_age() -> None:
    assert cells("configmaps", metadata={"creationTimestamp": None})["Age"] == "<unknown>"
