"""``podtide shuffle-service check`` on an API server of podtide's own: who is served, who is not, and what changes.

Ids S1, S5, S6 and S10: scenarios of the shuffle service's specification (auxiliary, 4.1)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.staging.stage import SwitchedApi, delete
from tests.support.commands import PROGRAM, answer
from tests.support.project import environment

PODS = "/api/v1/namespaces/default/pods"
SERVICE = {"app.kubernetes.io/name": "spark-shuffle-service"}
EXECUTOR = {"spark-role": "executor", "spark-app-selector": "spark-1"}


@pytest.fixture(autouse=True)
def nothing_left(cluster: tuple[SwitchedApi, Path]) -> Iterator[None]:
    yield
    delete(cluster[0], PODS)


def put(api: SwitchedApi, name: str, labels: dict[str, str], node: str, address: str, ready: bool = True) -> None:
    """A pod on a node, as its kubelet shows it."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
    assert api.call("create", "pods", PODS, body=json.dumps(body).encode()).ok
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"status": {"phase": "Running", "podIP": address, "conditions": [condition]}}
    kind = "application/merge-patch+json"
    path = f"{PODS}/{name}/status"
    assert api.call("patch", "pods", path, body=json.dumps(status).encode(), content_type=kind).ok


def test_nodes_services_and_executors(cluster: tuple[SwitchedApi, Path]) -> None:
    api, kubeconfig = cluster
    options = ("shuffle-service", "check", "--kubeconfig", kubeconfig, "--namespace", "default")
    assert answer(*options).out == "there is no shuffle service and no executor\n"
    put(api, "shuffle-a", SERVICE, "a", "10.0.0.1")
    put(api, "exec-1", EXECUTOR, "a", "10.0.0.1")
    given = answer(*options)
    assert (given.code, given.out) == (0, "a: one service, Ready (shuffle-a at 10.0.0.1); 1 executor served\n")
    put(api, "shuffle-b", SERVICE, "b", "10.0.0.2", ready=False)
    for number in range(2, 9):
        put(api, f"exec-{number}", EXECUTOR, "b", "10.0.0.2")
    put(api, "exec-9", EXECUTOR, "a", "10.244.0.9")
    put(api, "shuffle-c", SERVICE, "c", "10.0.0.3")
    put(api, "shuffle-x", SERVICE, "c", "10.0.0.3")
    given = answer(*options)
    assert given.code == 1
    assert given.out.splitlines() == [
        "a: one service, Ready (shuffle-a at 10.0.0.1); 1 executor served",
        "  exec-9: no service: node a: the service is at 10.0.0.1, and executors look at their own address, here "
        "10.244.0.9; both need hostNetwork",
        "b: its service is not Ready (shuffle-b at 10.0.0.2)",
        "  exec-2, exec-3, exec-4, exec-5, exec-6 and 2 more: no service: node b: its service is not Ready (shuffle-b)",
        "c: several services; there has to be one (shuffle-c at 10.0.0.3, shuffle-x at 10.0.0.3)",
    ]


def test_what_changes_is_followed(cluster: tuple[SwitchedApi, Path]) -> None:
    api, kubeconfig = cluster
    put(api, "shuffle-a", SERVICE, "a", "10.0.0.1")
    put(api, "exec-1", EXECUTOR, "a", "10.0.0.1")
    command = [*PROGRAM, "shuffle-service", "check", "--follow", "--every", "10ms", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(
        [*command, "--namespace", "default"], stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("a: one service, Ready")
            delete(api, f"{PODS}/shuffle-a")
            assert process.stdout.readline() == "a: exec-1: files are held: their service is away\n"
            put(api, "shuffle-new", SERVICE, "a", "10.0.0.1")
            assert process.stdout.readline() == "a: exec-1: files are served again\n"
        finally:
            process.terminate()
    assert process.returncode == 143


def test_refusals(cluster: tuple[SwitchedApi, Path]) -> None:
    _, kubeconfig = cluster
    options = ("shuffle-service", "check", "--kubeconfig", kubeconfig)
    given = answer(*options, "--labels", "a")
    assert given.code == 2
    assert "--labels a: expected KEY=VALUE" in given.err
    assert answer(*options, "--every", "0s").code == 2
    given = answer("shuffle-service", "check", "--kubeconfig", "/nobody/has/this")
    assert given.code == 4
    assert "Traceback" not in given.err
