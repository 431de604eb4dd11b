"""A server, kubelets and somebody who asks, for the tests of kubelets."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from podtide.adapters.api_server.serving import serving
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubelet.kubelet import Kubelet, KubeletConfig, process_kubelet
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.spark_process import LocalSpark
from podtide.adapters.kubernetes.api import KubernetesApi, connect
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.kubernetes.real_pods import uniform
from tests.live.waiting import until

OBJECTS = "/api/v1/namespaces/default"
PODS = f"{OBJECTS}/pods"


class Played:
    """A server, kubelets, and who asks."""

    def __init__(self, api: KubernetesApi, kubelet: Kubelet) -> None:
        self.api = api
        self.kubelet = kubelet

    def call(self, verb: str, path: str = "", body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        answer = self.api.call(verb, "pods", PODS + path, body=sent)
        assert answer.ok or answer.status == 404, answer
        return None if answer.status == 404 else json.loads(answer.body) if b"{" in answer.body[:1] else answer.body

    def nodes(self) -> list[str]:
        answer = self.api.call("list", "nodes", "/api/v1/nodes")
        return [node["metadata"]["name"] for node in json.loads(answer.body)["items"]]

    def create(self, name: str, profile: int = 0, **more: Any) -> None:
        spec = {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"} | more
        labels = {"spark-exec-id": name.rpartition("-")[2]}
        if profile:
            labels["spark-exec-resourceprofile-id"] = str(profile)
        metadata = {"name": name, "labels": labels}
        self.call("create", "", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def executor(
        self, number: int, pids: Path, *, hook: bool = False, memory: str | None = None, profile: int = 0
    ) -> str:
        env = {
            "SPARK_EXECUTOR_ID": number, "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_DRIVER_URL": "spark://here",
            "SPARK_EXECUTOR_CORES": "1", "SPARK_APPLICATION_ID": "app", "SPARK_RESOURCE_PROFILE_ID": "0",
            "SPARK_JAVA_OPT_10": "-Dten", "SPARK_JAVA_OPT_9": "-Dnine", "PIDS": pids, "PYTHON": sys.executable,
        }  # fmt: skip
        rows: list[dict[str, Any]] = [{"name": name, "value": str(value)} for name, value in env.items()]
        rows.append({"name": "SPARK_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        container: dict[str, Any] = {"name": "spark", "image": "i", "args": ["executor"], "env": rows}
        if memory is not None:
            container["resources"] = {"limits": {"memory": memory}}
        if hook:
            container["lifecycle"] = {"preStop": {"exec": {"command": ["/opt/decom.sh"]}}}
        self.create(f"exec-{number}", profile, containers=[container])
        return f"exec-{number}"

    def make(self, resource: str, kind: str, name: str, **rest: Any) -> Any:
        """Another object; what the server made of it."""
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **rest}
        answer = self.api.call("create", resource, f"{OBJECTS}/{resource}", body=json.dumps(body).encode())
        assert answer.ok, answer
        return json.loads(answer.body)

    def config_map(self, name: str, values: dict[str, str]) -> None:
        self.make("configmaps", "ConfigMap", name, data=values)

    def claim(self, name: str, mode: str = "ReadWriteOnce") -> None:
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        self.make("persistentvolumeclaims", "PersistentVolumeClaim", name, spec=spec)

    def shell(self, name: str, script: str, **more: Any) -> dict[str, Any]:
        """A container that runs a script."""
        return {"name": name, "image": "i", "command": ["bash", "-c", script]} | more

    def pod(self, name: str) -> Any:
        return self.call("get", f"/{name}")

    def phase(self, name: str) -> str:
        pod = self.pod(name)
        return "gone" if pod is None else str(pod["status"]["phase"])

    def reaches(self, name: str, phase: str) -> None:
        until(lambda: self.phase(name) == phase, 20, f"{name} {phase}", every_s=0.01)

    def delete(self, name: str, grace_s: int) -> None:
        self.call("delete", f"/{name}", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_s})


@contextmanager
def played(
    folder: Path, spark: LocalSpark, description: Description | None = None, *, back_off_s: float = 10
) -> Iterator[Played]:
    logs = PodLogs(folder / "kubelet")
    with serving(begin(ApiConfig(), SystemClock().now()), logs=logs) as server:
        kubeconfig = str(server.kubeconfig(folder / "kubeconfig"))
        config = KubeletConfig(
            "default",
            logs.folder,
            description or uniform(1, 4),
            back_off_s=back_off_s,
            logs=logs,
            kubeconfig=folder / "kubeconfig",
        )
        with (
            closing(connect(kubeconfig)) as api,
            closing(connect(kubeconfig)) as own,
            process_kubelet(own, config, spark) as kubelet,
        ):
            yield Played(api, kubelet)
