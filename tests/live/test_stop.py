"""``podtide stop`` against a real API server: what Spark leaves behind goes, in pages, and nothing else."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
import pytest
from click.testing import CliRunner

from podtide.entrypoints.live.stop_command import stop
from tests.live.cluster import Cluster, until

APP = "spark-0a1b2c3d"
LABELS = {"spark-app-selector": APP}


def stopped(cluster: Cluster, namespace: str, *arguments: str, who: str = "admin") -> tuple[int, str, str]:
    kubeconfig = str(cluster.admin if who == "admin" else cluster.driver)
    given = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--app-id", APP, *arguments]
    result = CliRunner().invoke(stop, given, standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        complaint = io.StringIO()
        result.exception.show(complaint)
        return result.exception.exit_code, result.stdout, result.stderr + complaint.getvalue()
    assert result.exception is None, result.exception
    return result.return_value, result.stdout, result.stderr


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]},
    }


def executors(cluster: Cluster, namespace: str, count: int, app: str = APP) -> None:
    def make(number: int) -> None:
        labels = {"spark-app-selector": app, "spark-role": "executor", "spark-exec-id": str(number)}
        cluster.must("create", "pods", f"/api/v1/namespaces/{namespace}/pods", pod(f"{app}-exec-{number}", **labels))

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(make, range(1, count + 1)):
            pass


def others(cluster: Cluster, namespace: str) -> None:
    """What else an application leaves behind, as Spark and podtide make it."""
    core, meta = f"/api/v1/namespaces/{namespace}", {"labels": LABELS}
    service = {"metadata": {"name": "svc", **meta}, "spec": {"clusterIP": "None", "ports": [{"port": 7078}]}}
    cluster.must("create", "services", f"{core}/services", service)
    cluster.must("create", "configmaps", f"{core}/configmaps", {"metadata": {"name": "conf", **meta}})
    size = {"requests": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "pvc", **meta}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}
    cluster.must("create", "persistentvolumeclaims", f"{core}/persistentvolumeclaims", claim)
    matched = {**LABELS, "spark-role": "executor"}
    template = {"metadata": {"labels": matched}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": matched}, "template": template}
    for kind, more in (
        ("statefulsets", {"serviceName": "none", "podManagementPolicy": "Parallel"}),
        ("deployments", {}),
    ):
        body = {"metadata": {"name": f"set-{kind}"}, "spec": {**spec, **more}}  # Spark puts no label on them
        cluster.must("create", kind, f"/apis/apps/v1/namespaces/{namespace}/{kind}", body)
    lease = {"metadata": {"name": f"podtide-{APP}", **meta}, "spec": {"holderIdentity": ""}}
    cluster.must("create", "leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)


def left(cluster: Cluster, namespace: str) -> set[str]:
    found = {f"pods/{one['metadata']['name']}" for one in cluster.pods(namespace)}
    for group, kinds in (
        ("/api/v1", ("services", "configmaps", "persistentvolumeclaims")),
        ("/apis/apps/v1", ("statefulsets", "deployments")),
        ("/apis/coordination.k8s.io/v1", ("leases",)),
    ):
        for kind in kinds:
            items = cluster.must("list", kind, f"{group}/namespaces/{namespace}/{kind}")["items"]
            found |= {f"{kind}/{one['metadata']['name']}" for one in items}
    return found - {"configmaps/kube-root-ca.crt"}


@pytest.fixture
def application(cluster: Cluster, namespace: str) -> int:
    """An application's leftovers beside another's; how many executor pods it has."""
    count = 2_000 if cluster.full else 120
    executors(cluster, namespace, count)
    executors(cluster, namespace, 3, "spark-another")
    cluster.must("create", "pods", f"/api/v1/namespaces/{namespace}/pods", pod("no-role", **LABELS))
    return count


def test_everything_goes_but_what_is_somebody_elses(cluster: Cluster, namespace: str, application: int) -> None:
    others(cluster, namespace)
    until(lambda: len(cluster.pods(namespace)) >= application + 4 + 4, 60, what="the sets' pods")
    code, out, err = stopped(cluster, namespace, "--include-claims", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["clean"] is True
    deleted = {one["kind"]: one["deleted"] for one in document["kinds"]}
    assert deleted.pop("pods") >= application
    assert set(deleted.values()) == {1}
    assert left(cluster, namespace) == {"pods/no-role", *(f"pods/spark-another-exec-{one}" for one in (1, 2, 3))}


def test_controllers_that_lag_behind_make_nothing_that_is_left(own_cluster: Cluster, namespace: str) -> None:
    cluster = own_cluster
    executors(cluster, namespace, 2)
    others(cluster, namespace)
    until(lambda: len(cluster.pods(namespace)) >= 2 + 4, 60, what="the sets' pods")
    with cluster.controllers_behind(4):
        code, _, err = stopped(cluster, namespace)
        sources = cluster.must("list", "replicasets", f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    assert (code, err, sources) == (0, "", [])  # what makes pods for a Deployment is gone, too
    assert left(cluster, namespace) == {"persistentvolumeclaims/pvc"}


def test_pods_on_nodes_are_waited_for_until_their_kubelet_lets_go(cluster: Cluster, namespace: str) -> None:
    with cluster.kubelet(namespace, delete_ms=1_000):
        executors(cluster, namespace, 40)
        until(lambda: all(one["status"]["phase"] == "Running" for one in cluster.pods(namespace)), what="running pods")
        code, out, _ = stopped(cluster, namespace)
        assert code == 0
        assert out.endswith(f"nothing is left of {APP} in namespace {namespace}\n")
        assert cluster.pods(namespace) == []


def test_pods_whose_node_is_gone_are_named(cluster: Cluster, namespace: str) -> None:
    executors(cluster, namespace, 2)
    for one in (1, 2):
        binding = {"metadata": {"name": f"{APP}-exec-{one}"}, "target": {"kind": "Node", "name": "gone"}}
        path = f"/api/v1/namespaces/{namespace}/pods/{APP}-exec-{one}/binding"
        cluster.must("create", "pods/binding", path, binding)
    code, out, _ = stopped(cluster, namespace, "--timeout", "2s")
    assert code == 4
    assert f"2 left: {APP}-exec-1, {APP}-exec-2 (2 terminating)" in out


def test_a_running_driver_asks_for_force_and_is_kept_unless_told(cluster: Cluster, namespace: str) -> None:
    executors(cluster, namespace, 2)
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.must("create", "pods", path, pod("driver", **LABELS, **{"spark-role": "driver"}))
    code, _, err = stopped(cluster, namespace)
    assert code == 2
    assert "driver pod driver is Pending" in err
    assert len(cluster.pods(namespace)) == 3
    assert stopped(cluster, namespace, "--force")[0] == 0
    assert left(cluster, namespace) == {"pods/driver"}
    assert stopped(cluster, namespace, "--force", "--include-driver")[0] == 0
    assert left(cluster, namespace) == set()
