"""What is in deploy/, as the API server sees it: every object is sent as a dry run, and nothing of it is dropped."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.live.cluster import Cluster
from tests.support.project import PROJECT
from tests.support.rendering import render

DEPLOY = PROJECT / "deploy"
PATHS = {
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
}


def created(cluster: Cluster, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
    base, resource = PATHS[manifest["kind"]]
    sent = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    for subject in sent.get("subjects", ()):
        subject["namespace"] = namespace
    query = [("dryRun", "All"), ("fieldValidation", "Strict")]
    return cluster.must("create", resource, f"{base}/namespaces/{namespace}/{resource}", sent, query)


def kept(sent: Any, stored: Any) -> bool:
    """Whether all that was sent is in what was stored; the server adds its defaults."""
    if isinstance(sent, dict):
        return isinstance(stored, dict) and all(
            key in stored and kept(value, stored[key]) for key, value in sent.items()
        )
    if isinstance(sent, list):
        return isinstance(stored, list) and len(sent) == len(stored) and all(map(kept, sent, stored))
    return bool(sent == stored)


@pytest.mark.parametrize("folder", ["base", "act", "example", "shuffle-service"])
def test_the_server_takes_every_object_and_keeps_every_field(cluster: Cluster, namespace: str, folder: str) -> None:
    for manifest in render(DEPLOY / "kustomize" / folder):
        stored = created(cluster, namespace, manifest)
        manifest["metadata"].pop("namespace", None)
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = namespace
        assert kept(manifest, stored), manifest["kind"]


def test_the_server_takes_every_role(cluster: Cluster, namespace: str) -> None:
    for role in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()):
        assert kept(role["rules"], created(cluster, namespace, role)["rules"])


def test_a_pod_of_the_deployment_is_one_that_the_server_takes(cluster: Cluster, namespace: str) -> None:
    (deployment,) = [one for one in render(DEPLOY / "kustomize" / "act") if one["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **template["metadata"]},
        "spec": template["spec"],
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    stored = cluster.must("create", "pods", path, pod, [("dryRun", "All")])
    assert kept(template["spec"], stored["spec"])
