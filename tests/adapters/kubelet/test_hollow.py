"""Hollow kubelets as clients of an API server: pods live as the cluster file says, also where the server has faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from podtide.adapters.api_server.serving import serving
from podtide.adapters.clock import SystemClock
from podtide.adapters.files.cluster import understand
from podtide.adapters.kubelet.hollow import HollowConfig, HollowKubelet, hollow_kubelet
from podtide.adapters.kubernetes.api import KubernetesApi, connect
from podtide.domain.api_faults.faulty_server import FaultyState, begin as begin_faulty
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig, ApiState
from podtide.domain.base.randomness import Constant
from podtide.domain.fakes.kubernetes.description import Api, Description, Fault, Watch
from podtide.domain.fakes.kubernetes.real_pods import uniform
from tests.live.waiting import until

PODS = "/api/v1/namespaces/default/pods"
PROMPT = """
nodes:
  groups: [{name: base, count: 1, cpu: 2, memory: 8Gi}]
  orphaned: 100ms
stages:
  schedule: {delay: 0}
  pull: {delay: 1ms}
  pulled: {delay: 0}
  start: {delay: 0}
  register: {delay: 0}
  terminate: {delay: 0}
"""


class Play:
    """A server, kubelets, and who asks."""

    def __init__(self, api: KubernetesApi, kubelet: HollowKubelet) -> None:
        self.api = api
        self.kubelet = kubelet

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        answer = self.api.call(verb, "any", path, body=None if body is None else json.dumps(body).encode())
        return json.loads(answer.body) if answer.ok else None

    def create(self, name: str, cpu: str = "1", **spec: Any) -> None:
        requests = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": requests}]} | spec
        assert self.call("create", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def pod(self, name: str) -> Any:
        return self.call("get", f"{PODS}/{name}")

    def phase(self, name: str) -> str:
        pod = self.pod(name)
        return "gone" if pod is None else str(pod["status"]["phase"])

    def reaches(self, name: str, phase: str) -> None:
        until(lambda: self.phase(name) == phase, 20, f"{name} {phase}", every_s=0.01)

    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.call("list", "/api/v1/nodes")["items"]]


@contextmanager
def played(description: Description, folder: Path, state: ApiState | FaultyState | None = None) -> Iterator[Play]:
    with serving(state or begin(ApiConfig(), SystemClock().now())) as server:
        kubeconfig = str(server.kubeconfig(folder / "kubeconfig"))
        kubelets = str(server.kubeconfig(folder / "kubelets", kubelet=state is None))
        config = HollowConfig("default", description, say=lambda _: None)
        with (
            closing(connect(kubeconfig)) as api,
            closing(connect(kubelets)) as own,
            hollow_kubelet(own, config) as kubelet,
        ):
            yield Play(api, kubelet)


def file(more: str) -> Description:
    return understand(PROMPT + more)


def test_a_pod_runs_until_it_is_deleted_and_one_without_room_waits(tmp_path: Path) -> None:
    with played(uniform(1, 1), tmp_path) as play:
        play.create("one")
        play.reaches("one", "Running")
        pod = play.pod("one")
        assert pod["spec"]["nodeName"] == "node-1"
        assert pod["status"]["podIP"].startswith("10.")
        assert [(row["ready"], row["started"]) for row in pod["status"]["containerStatuses"]] == [(True, True)]
        play.create("two")
        until(lambda: play.pod("two")["status"].get("conditions"), 20, every_s=0.01)
        assert play.pod("two")["status"]["conditions"][0]["reason"] == "Unschedulable"
        assert play.kubelet.running() == 1
        play.call("delete", f"{PODS}/one")
        play.reaches("one", "gone")
        play.reaches("two", "Running")
        assert play.kubelet.exits == {"one": 143}


def test_pods_fail_end_and_wait_for_images_as_the_file_says(tmp_path: Path) -> None:
    crash = "  oom: {from: registered, next: failed, delay: 1ms, exits: {137: 1}, reason: OOMKilled}\n"
    with played(file(crash), tmp_path) as play:
        play.create("crashes")
        play.reaches("crashes", "Failed")
        (status,) = play.pod("crashes")["status"]["containerStatuses"]
        over = status["state"]["terminated"]
        assert (over["exitCode"], over["reason"], status["ready"]) == (137, "OOMKilled", False)
        play.create("again", restartPolicy="Always")
        until(lambda: (play.pod("again")["status"].get("containerStatuses") or [{}])[0].get("restartCount"), 20)
        assert play.phase("again") == "Running"
    no_image = "  no-image: {from: scheduled, next: hung, weight: 1e9, reason: ImagePullBackOff}\n"
    with played(file(no_image), tmp_path) as play:
        play.create("waits")
        until(lambda: play.pod("waits")["status"].get("containerStatuses"), 20, every_s=0.01)
        (status,) = play.pod("waits")["status"]["containerStatuses"]
        assert status["state"] == {"waiting": {"reason": "ImagePullBackOff"}}
        assert play.phase("waits") == "Pending"
        play.call("delete", f"{PODS}/waits?gracePeriodSeconds=1")
        play.reaches("waits", "gone")


def test_a_node_is_taken_back_and_another_comes_for_those_who_wait(tmp_path: Path) -> None:
    nodes = PROMPT.replace(
        "[{name: base, count: 1, cpu: 2, memory: 8Gi}]",
        "[{name: base, count: 1, cpu: 1, memory: 8Gi, maximum: 2, arrives: 50ms, replaced: false, notice: 300ms}]\n"
        "  scan: 10ms\n"
        "  events: [{at: 1s, what: take back, group: base}]",
    )
    with played(understand(nodes), tmp_path) as play:
        play.create("one")
        play.create("two")
        play.reaches("two", "Running")
        assert play.nodes() == ["base-1", "base-2"]
        assert play.phase("one") == "Running"
        play.reaches("one", "gone")
        until(lambda: "base-1" not in play.nodes(), 20, every_s=0.01)
        assert play.pod("two")["spec"]["nodeName"] == "base-2"


def test_kubelets_go_on_where_the_server_refuses_and_breaks_their_watch(tmp_path: Path) -> None:
    stormy = Description(
        api=Api(latency=Constant(0), faults=(Fault(status=503, probability=0.3),)),
        watch=Watch(delay=Constant(0), breaks_per_hour=36_000, broken=Constant(20), expired=0.5),
        calm_ms=4_000,
    )
    state = begin_faulty(ApiConfig(), stormy, SystemClock().now())
    with played(uniform(4, 10), tmp_path, state) as play:
        made = set()
        for number in range(30):
            name = f"pod-{number}"
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
            if play.call("create", PODS, body) is not None:
                made.add(name)
        assert 5 < len(made) < 30
        until(lambda: play.kubelet.running() == len(made), 20, every_s=0.01)
