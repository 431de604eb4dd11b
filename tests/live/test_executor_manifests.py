"""Executor pods as an API server sees them: dry runs of the worked examples, of generated pods, claims and sets.

What a server does not know it drops (1.20 drops resizePolicy), what it forbids it refuses (1.20 refuses ReadWriteOncePod).
Both are held against the published API in tests/adapters/kubernetes/executor_pod/test_manifests.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.executor_pod.builder import DriverPod, PodFacts, executor_pods
from podtide.domain.kubernetes.allocator.replicas_allocator import claim_specs
from podtide.domain.protocol.pod_commands import CreateSet
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.resource_profiles import ResourceProfile
from podtide.entrypoints.check.pod_command import pod as pod_command
from tests.domain.executor_pod.test_builder import EXAMPLES
from tests.live.cluster import Cluster

K = "spark.kubernetes."
VOLUMES = K + "executor.volumes."
FACTS = PodFacts("spark-1", "spark", driver=DriverPod("drv", "11111111-2222-3333-4444-555555555555"), config_map="cm")
BASE = {"spark.driver.host": "driver", K + "container.image": "img", K + "executor.podNamePrefix": "app"}
CLAIM = {
    VOLUMES + "persistentVolumeClaim.data.mount.path": "/data",
    VOLUMES + "persistentVolumeClaim.data.options.claimName": "OnDemand",
    VOLUMES + "persistentVolumeClaim.data.options.storageClass": "gp3",
    VOLUMES + "persistentVolumeClaim.data.options.sizeLimit": "10Gi",
}
CONFS: list[dict[str, str]] = [
    {},
    {"spark.executor.cores": "4", "spark.executor.memory": "8g", K + "executor.limit.cores": "5"},
    {K + "executor.label.a.b/c": "x", K + "executor.annotation.note": "{{EXECUTOR_ID}} {{APP_ID}}"},
    {K + "node.selector.zone": "a", K + "executor.node.selector.disk": "ssd", K + "executor.scheduler.name": "volcano"},
    {"spark.executor.resource.gpu.amount": "2", "spark.executor.resource.gpu.vendor": "nvidia.com"},
    {K + "executor.secrets.s": "/s", K + "executor.secretKeyRef.E": "name:key"},
    CLAIM,
    {VOLUMES + "hostPath.h.mount.path": "/h", VOLUMES + "hostPath.h.options.path": "/host"},
    {
        VOLUMES + "nfs.n.mount.path": "/n",
        VOLUMES + "nfs.n.options.path": "/x",
        VOLUMES + "nfs.n.options.server": "srv",
        VOLUMES + "emptyDir.e.mount.path": "/e",
        VOLUMES + "emptyDir.e.options.sizeLimit": "1Gi",
        VOLUMES + "emptyDir.e.mount.subPath": "sub",
    },
    {K + "local.dirs.tmpfs": "true", "spark.local.dir": "/a,/b", "spark.decommission.enabled": "true"},
    {K + "container.image.pullSecrets": "r", K + "executor.hadoopConfigMapName": "h", "spark.blockManager.port": "0"},
    {"spark.executor.extraJavaOptions": "-Da=1 -Db='x y'", "spark.executorEnv.A-b.c": "ü", "spark.app.name": "Ä b"},
    {K + "executor.podNamePrefix": "p" * 200, K + "executor.disableConfigMap": "true"},
]


def dry_run(cluster: Cluster, path: str, body: object) -> Any:
    answer = cluster.api().call("create", "any", path, query=(("dryRun", "All"),), body=json.dumps(body).encode())
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("conf", CONFS, ids=range(len(CONFS)))
def test_a_server_accepts_generated_pods(cluster: Cluster, namespace: str, conf: dict[str, str]) -> None:
    made = executor_pods(from_mapping({**BASE, **conf}, "test"), FACTS).unwrap().pod("7", DEFAULT_PROFILE)
    status, pod = dry_run(cluster, f"/api/v1/namespaces/{namespace}/pods", made)
    assert status == 201, pod
    lost = set(made["spec"]["containers"][0]) - set(pod["spec"]["containers"][0])
    assert lost <= {"resizePolicy"}


@pytest.mark.parametrize("example", EXAMPLES, ids=["plain", "rich"])
def test_a_server_accepts_the_worked_examples(cluster: Cluster, namespace: str, example: dict[str, Any]) -> None:
    cluster_path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {key: text for key, text in example["pod"]["spec"].items() if not key.startswith("serviceAccount")}
    status, pod = dry_run(cluster, cluster_path, {**example["pod"], "spec": spec})  # there is no such account
    assert status == 201, pod


def test_a_server_accepts_another_profile_s_pods(cluster: Cluster, namespace: str) -> None:
    profile = ResourceProfile(ProfileId(3), (("cores", 2), ("memory", 512), ("gpu", 1)))
    facts = replace(FACTS, vendors={profile.id: {"gpu": "amd.com"}})
    pods = executor_pods(from_mapping(BASE, "test"), facts, {profile.id: profile}).unwrap()
    status, pod = dry_run(cluster, f"/api/v1/namespaces/{namespace}/pods", pods.pod("1", profile.id))
    assert status == 201, pod
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"memory": "896Mi", "amd.com/gpu": "1"}


@pytest.mark.parametrize(("kind", "plural"), [("statefulset", "statefulsets"), ("deployment", "deployments")])
def test_a_server_accepts_sets(cluster: Cluster, namespace: str, kind: Any, plural: str) -> None:
    conf = {**BASE, K + "allocation.pods.allocator": kind, K + "namespace": namespace}
    if kind == "statefulset":
        conf |= {**CLAIM, K + "legacy.useReadWriteOnceAccessMode": "true"}
    pods = executor_pods(from_mapping(conf, "test"), FACTS).unwrap()
    why = Why(Cause.NEW_PROFILE)
    command = CreateSet(0, 1, kind, "set", DEFAULT_PROFILE, 2, why, claim_specs(pods.claims))
    status, found = dry_run(cluster, f"/apis/apps/v1/namespaces/{namespace}/{plural}", pods.replica_set(command))
    assert status == 201, found


def test_a_server_accepts_claims_and_the_config_map(cluster: Cluster, namespace: str) -> None:
    conf = {**BASE, **CLAIM, K + "namespace": namespace, K + "legacy.useReadWriteOnceAccessMode": "true"}
    pods = executor_pods(from_mapping(conf, "test"), FACTS).unwrap()
    (spec,) = pods.own_claims("1")
    assert FACTS.driver is not None
    claim = pods.claim(spec, "1", FACTS.driver.owner)
    status, found = dry_run(cluster, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    assert status == 201, found
    status, found = dry_run(cluster, f"/api/v1/namespaces/{namespace}/configmaps", pods.config_map({"a.txt": "x"}))
    assert status == 201, found


def test_the_command_has_a_server_look_at_it(cluster: Cluster, namespace: str) -> None:
    arguments = ["--conf", f"{K}container.image=img", "--dry-run", "server", "--kubeconfig", str(cluster.admin)]
    fine = CliRunner().invoke(pod_command, [*arguments, "--namespace", namespace])
    assert (fine.exit_code, f"would be created in {namespace} (dry run)" in fine.stderr) == (0, True)
    wrong = CliRunner().invoke(
        pod_command, [*arguments, "--namespace", namespace, "--conf", f"{K}executor.label.x=a b"]
    )
    assert (wrong.exit_code, "the API server refuses it with status 422" in wrong.stderr) == (4, True)
