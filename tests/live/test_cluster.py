"""The harness itself: a namespace, rights, a hollow kubelet, a restart, an audit log."""

from __future__ import annotations

import json
import time

import pytest

from podtide.adapters.kubernetes.api import Unreachable
from tests.live.cluster import Cluster, until


def pod(name: str, **annotations: str) -> dict[str, object]:
    metadata = {
        "name": name,
        "labels": {"app": "x"},
        "annotations": {f"hollow/{k.replace('_', '-')}": v for k, v in annotations.items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


def phases(cluster: Cluster, namespace: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["phase"] for one in cluster.pods(namespace)}


def test_pods_live_and_end_as_the_hollow_kubelet_is_told(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    with cluster.kubelet(namespace, start_delay=0.05, delete_delay=0.1) as kubelet:
        cluster.must("create", "pods", path, pod("plain"))
        cluster.must("create", "pods", path, pod("held", hold="true"))
        cluster.must("create", "pods", path, pod("short", run_for="0.1", outcome="Failed", exit_code="137"))
        cluster.must("create", "pods", path, pod("long"))
        expected = {"plain": "Running", "held": "Pending", "short": "Failed", "long": "Running"}
        until(lambda: phases(cluster, namespace) == expected, what="the phases")
        kubelet.evict("long")
        until(lambda: phases(cluster, namespace)["long"] == "Failed", what="the eviction")
        kubelet.finish("plain")
        until(lambda: phases(cluster, namespace)["plain"] == "Succeeded", what="the end")
        for name in expected:
            cluster.must("delete", "pods", f"{path}/{name}")
        until(lambda: not cluster.pods(namespace), what="an empty namespace")
        assert kubelet.command("stat").get("errors", 0) == 0, kubelet.errors()


def test_the_driver_has_the_rights_that_it_was_given_and_no_other(cluster: Cluster, namespace: str) -> None:
    api = cluster.api("driver")
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert api.call("list", "pods", path).status == 403
    cluster.role(namespace, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    assert api.call("list", "pods", path).status == 200
    cluster.role(namespace, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
    assert api.call("list", "pods", path).status == 403


def test_a_restart_keeps_what_was_written(own_cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    own_cluster.must("create", "pods", path, pod("kept"))
    api = own_cluster.api()
    with own_cluster.apiserver_down(), pytest.raises(Unreachable):
        api.call("list", "pods", path)
    assert list(phases(own_cluster, namespace)) == ["kept"]


def test_a_version_that_was_compacted_is_gone_for_a_watch(own_cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    old = own_cluster.must("list", "pods", path)["metadata"]["resourceVersion"]
    for number in range(3):
        own_cluster.must("create", "pods", path, pod(f"p{number}"))
    own_cluster.compact()
    own_cluster.restart_apiserver()
    stream = own_cluster.api().stream("pods", path, query=[("watch", "1"), ("resourceVersion", old)], silence_s=10)
    event = json.loads(next(stream.chunks()))
    stream.close()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_the_audit_log_counts_calls(cluster: Cluster, namespace: str) -> None:
    if cluster.audit is None:
        pytest.skip("this server keeps no audit log that could be read")
    began = time.time() - 0.1
    for _ in range(7):
        cluster.pods(namespace)
    assert cluster.audit.counts(cluster, began, namespace=namespace)["list", "pods"] == 7
