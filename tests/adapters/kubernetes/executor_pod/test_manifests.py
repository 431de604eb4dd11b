"""Manifests as bodies, and against the published API: every field is one of its, of its type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtide.adapters.kubernetes.executor_pod.manifests import ExecutorManifests
from podtide.adapters.kubernetes.executor_pod.template import template_of
from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.executor_pod.builder import CannotBuild, DriverPod, Owner, PodFacts, executor_pods
from podtide.domain.protocol.pod_commands import ClaimSpec, CreateClaim, CreatePod, CreateSet
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why

K = "spark.kubernetes."
VOLUMES = K + "executor.volumes."
WHY = Why(Cause.BELOW_TARGET)
TEMPLATE = """
kind: Pod
spec:
  tolerations: [{key: spot, operator: Exists, tolerationSeconds: 30}]
  priorityClassName: low
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: h}}]
  containers:
  - name: main
    ports: [{containerPort: "4040"}]
    livenessProbe: {httpGet: {port: http}, periodSeconds: 5}
  - {name: side, image: side, resources: {limits: {cpu: 1}}}
"""
CONF = {
    "spark.app.name": "app",
    "spark.driver.host": "driver",
    "spark.decommission.enabled": "true",
    "spark.executor.resource.gpu.amount": "1",
    "spark.executor.resource.gpu.vendor": "nvidia.com",
    K + "container.image": "img",
    K + "executor.podNamePrefix": "app",
    K + "executor.podTemplateFile": "t",
    K + "executor.limit.cores": "2",
    K + "executor.secrets.s": "/s",
    K + "executor.secretKeyRef.E": "n:k",
    K + "executor.scheduler.name": "volcano",
    K + "container.image.pullSecrets": "reg",
    K + "executor.hadoopConfigMapName": "hadoop",
    VOLUMES + "persistentVolumeClaim.data.mount.path": "/data",
    VOLUMES + "persistentVolumeClaim.data.options.claimName": "OnDemand",
    VOLUMES + "persistentVolumeClaim.data.options.storageClass": "gp3",
    VOLUMES + "persistentVolumeClaim.data.options.sizeLimit": "10Gi",
    VOLUMES + "hostPath.h.mount.path": "/h",
    VOLUMES + "hostPath.h.options.path": "/host",
    VOLUMES + "nfs.n.mount.path": "/n",
    VOLUMES + "nfs.n.options.path": "/x",
    VOLUMES + "nfs.n.options.server": "srv",
    VOLUMES + "emptyDir.e.mount.path": "/e",
    VOLUMES + "emptyDir.e.options.sizeLimit": "1Gi",
}
FACTS = PodFacts(
    "app-1",
    "spark",
    driver=DriverPod("drv", "u-1"),
    config_map="cm",
    config_items=("a.txt",),
    template=template_of(TEMPLATE, "t").tree,
)


def manifests(**more: str) -> ExecutorManifests:
    conf = {**CONF, **{K + key.replace("_", "."): text for key, text in more.items()}}
    return ExecutorManifests(executor_pods(from_mapping(conf, "test"), FACTS).unwrap(), {"a.txt": "x"}, lambda: 0)


def create(number: int, claims: tuple[str, ...] = ()) -> CreatePod:
    return CreatePod(0, 1, PodNumber(number), DEFAULT_PROFILE, WHY, claims)


def test_a_pod_as_json() -> None:
    made = manifests()
    pod = json.loads(made.pod(create(7, ("taken",))))
    assert pod["metadata"]["name"] == made.pod_name(PodNumber(7)) == "app-exec-7"
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == ["taken"]
    assert [container["name"] for container in pod["spec"]["containers"]] == ["side", "main"]


def test_claims_sets_and_the_config_map_as_json() -> None:
    made = manifests(allocation_pods_allocator="statefulset")
    command = CreateClaim(0, 1, PodNumber(7), ClaimSpec("c", "gp3", "1Gi", "data"), owned_by_driver=False, why=WHY)
    claim = json.loads(made.claim(command, Owner("v1", "Pod", "app-exec-7", "u-7")))
    assert claim["metadata"]["ownerReferences"][0]["name"] == "app-exec-7"
    of_profile = CreateSet(
        0, 1, "statefulset", "set", DEFAULT_PROFILE, 2, WHY, (ClaimSpec("data", "gp3", "1Gi", "data"),)
    )
    found = json.loads(made.replica_set(of_profile))
    assert (found["kind"], found["spec"]["replicas"]) == ("StatefulSet", 2)
    assert "Thu Jan 01 00:00:00 UTC 1970" in json.loads(made.config_map())["data"]["spark.properties"]


def test_what_cannot_be_built_is_said() -> None:
    with pytest.raises(CannotBuild, match="key not found"):
        manifests().pod(CreatePod(0, 1, PodNumber(1), ProfileId(9), WHY))


# ------------------------------------------------------------------------------------------- against the published API


def test_everything_is_of_the_published_api() -> None:
    """The models of the official client are generated of the API's OpenAPI description: names and types of all fields."""
    client = pytest.importorskip("kubernetes.client")
    made = manifests(allocation_pods_allocator="statefulset")
    of_profile = CreateSet(
        0, 1, "statefulset", "set", DEFAULT_PROFILE, 2, WHY, (ClaimSpec("data", "gp3", "1Gi", "data"),)
    )
    command = CreateClaim(0, 1, PodNumber(7), ClaimSpec("c", "gp3", "1Gi", "data"), owned_by_driver=False, why=WHY)
    for kind, body in (
        ("V1Pod", made.pod(create(1))),
        ("V1StatefulSet", made.replica_set(of_profile)),
        ("V1PersistentVolumeClaim", made.claim(command, Owner("v1", "Pod", "p", "u"))),
        ("V1ConfigMap", made.config_map()),
    ):
        assert list(_strange(client, json.loads(body), kind, kind)) == []
    assert list(_strange(client, {"spec": {"hostnam": 1}}, "V1Pod", "V1Pod")) == ["V1Pod.spec.hostnam"]
    assert "ReadWriteOncePod" in json.loads(made.claim(command, None))["spec"]["accessModes"]


_PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "datetime": str,
    "object": (str, int),
}


def _strange(client: Any, node: Any, kind: str, at: str) -> list[str]:
    """Places where a manifest has what the API has not."""
    if kind.lower().startswith("list["):
        return [one for n, child in enumerate(node) for one in _strange(client, child, kind[5:-1], f"{at}[{n}]")]
    if kind.lower().startswith("dict["):
        inner = kind[5:-1].split(", ")[1]
        return [one for key, child in node.items() for one in _strange(client, child, inner, f"{at}.{key}")]
    if kind in _PLAIN:
        return [] if isinstance(node, _PLAIN[kind]) else [at]
    model = getattr(client, kind, None)
    if model is None or not hasattr(model, "openapi_types"):
        return [] if isinstance(node, str | int) else [at]
    kinds = {wire: model.openapi_types[name] for name, wire in model.attribute_map.items()}
    return [
        one
        for key, child in node.items()
        for one in (_strange(client, child, kinds[key], f"{at}.{key}") if key in kinds else [f"{at}.{key}"])
    ]
