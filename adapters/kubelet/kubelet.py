"""The kubelets of one namespace: they watch its pods, bind them where there is room, and lead each through its life.

They are scheduler and kubelets in one, for all nodes, and an ordinary client of whatever API server there is. A pod waits as
Pending while no node has room, in the order of creation. An executor that is a process has a loopback address of its own, so
that each has its own ports (on Linux; elsewhere there is only 127.0.0.1).
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from podtide.adapters.kubelet.claims import ClaimFolders, Document
from podtide.adapters.kubelet.pod_facts import Pod
from podtide.adapters.kubelet.pod_life import PodLife
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.pod_status import now_text
from podtide.adapters.kubelet.pod_watch import AGAIN_S, PodWatch
from podtide.adapters.kubelet.processes import over_limit
from podtide.adapters.kubelet.spark_process import LocalSpark
from podtide.adapters.kubernetes.api import JSON, MERGE_PATCH, ApiAnswer, ApiClient, Unreachable

MEMORY_LOOK_S: Final = 1.0
"""How often the memory of processes is looked at, and which claims are gone."""

BACK_OFF_S: Final = 10.0

END_S: Final = 10.0


@dataclass(frozen=True)
class KubeletConfig:
    """``folder``: local directories of pods. ``pods_per_node``: pods that run at once on each of the ``nodes``.

    ``kubeconfig``: for pods, in the place of a service account. ``back_off_s``: before a container is begun again for the
    second time; it doubles. ``say``: takes what goes wrong, in one line.
    """

    namespace: str
    folder: Path
    nodes: int = 1
    pods_per_node: int = 4
    node_prefix: str = "node"
    back_off_s: float = BACK_OFF_S
    logs: PodLogs | None = None
    kubeconfig: Path | None = None
    say: Callable[[str], None] = lambda line: print(f"kubelet: {line}", file=sys.stderr)


@contextmanager
def process_kubelet(api: ApiClient, config: KubeletConfig, spark: LocalSpark) -> Iterator[Kubelet]:
    """Kubelets that run pods as processes, with a local Spark as the image. What cannot be run fails, and says why."""
    kubelet = Kubelet(api, config, spark)
    kubelet.start()
    try:
        yield kubelet
    finally:
        kubelet.stop()


class Kubelet:
    """Kubelets under way. ``started``: pods in the order in which they began; ``exits``: exit codes by pod."""

    def __init__(self, api: ApiClient, config: KubeletConfig, spark: LocalSpark) -> None:
        self.folder = config.folder
        self.spark = spark
        self.back_off_s = config.back_off_s
        self.kubeconfig = config.kubeconfig
        self.logs = config.logs or PodLogs(config.folder)
        self.started: list[str] = []
        self.exits: dict[str, int] = {}
        self._api = api
        self._config = config
        self._objects = f"/api/v1/namespaces/{config.namespace}"
        self._path = f"{self._objects}/pods"
        self.claims = ClaimFolders(self._call, config.namespace, config.folder / "claims")
        self._lock = threading.Lock()
        self._lives: dict[str, PodLife] = {}
        self._waiting: dict[str, Pod] = {}
        self._load: Counter[str] = Counter({f"{config.node_prefix}-{i}": 0 for i in range(config.nodes)})
        self._addresses = deque(range(2, 2 + self._room * 2 + 2))
        self._ending = threading.Event()
        self._watch = PodWatch(api, config.namespace, config.say)
        self._watching = threading.Thread(
            target=self._watch.run, args=(self._take,), name="podtide-kubelet", daemon=True
        )
        self._measuring = threading.Thread(target=self._measure, name="podtide-kubelet-memory", daemon=True)

    @property
    def _room(self) -> int:
        return self._config.nodes * self._config.pods_per_node

    def start(self) -> None:
        """Make the nodes and begin to watch. Raises Unreachable."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in self._load:
            _make_node(self._api, node, self._config.pods_per_node)
        self._watching.start()
        self._measuring.start()

    def stop(self) -> None:
        """End every process and the watch. Pods stay as they are."""
        self._ending.set()
        self._watch.stop()
        with self._lock:
            self._waiting.clear()
            lives = list(self._lives.values())
        for life in lives:
            life.give_up()
        for life in lives:
            life.thread.join(END_S)
        self._watching.join(END_S)
        self._measuring.join(END_S)

    def running(self) -> int:
        """How many pods run now."""
        return sum(1 for life in list(self._lives.values()) if life.runs)

    def crash(self, executor: str) -> bool:
        """SIGKILL the process of an executor. Whether there was one."""
        return any(life.crash() for life in list(self._lives.values()) if life.executor == executor)

    def _measure(self) -> None:
        """Kill what has more memory than its container's limit; forget claims that are gone."""
        while not self._ending.wait(MEMORY_LOOK_S):
            found = [one for life in list(self._lives.values()) for one in life.containers]
            processes = {process.pid: one for one in found if (process := one.process) is not None}
            limits = {pid: one.memory_limit for pid, one in processes.items() if one.memory_limit is not None}
            for pid in over_limit(limits):
                processes[pid].kill(out_of_memory=True)
            self.claims.sweep()

    # what is seen

    def _take(self, kind: str, pod: Pod) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        with self._lock:
            life = self._lives.get(uid)
            if kind == "DELETED":
                self._waiting.pop(uid, None)
                if life is not None:
                    life.gone()
                    del self._lives[uid]
            elif life is None:
                if pod["status"].get("phase") != "Pending" or metadata.get("deletionTimestamp"):
                    self._waiting.pop(uid, None)  # or of a kubelet before this one
                else:
                    self._waiting[uid] = pod
                    self._fill()
            elif metadata.get("deletionTimestamp"):
                life.delete(float(metadata.get("deletionGracePeriodSeconds") or 0))

    def _fill(self) -> None:
        """Begin lives while there is room; called under the lock."""
        while self._waiting and not self._ending.is_set():
            node = min(self._load, key=lambda name: self._load[name])
            if self._load[node] >= self._config.pods_per_node:
                return
            uid = next(iter(self._waiting))
            self._load[node] += 1
            life = self._lives[uid] = PodLife(self, self._waiting.pop(uid), node, self._address())
            life.thread.start()

    def _address(self) -> str:
        if sys.platform != "linux":
            return "127.0.0.1"
        # The one that was not used for the longest time: the ports of one that just ended may still be taken.
        number = self._addresses.popleft()
        self._addresses.append(number)
        return f"127.0.{number >> 8 & 255}.{number & 255}"

    # for the lives of pods

    @property
    def ending(self) -> bool:
        """Whether everything is to end."""
        return self._ending.is_set()

    def began(self, life: PodLife) -> None:
        """A pod runs."""
        self.started.append(life.name)

    def ended(self, life: PodLife, code: int | None) -> None:
        """A pod needs its room no more."""
        with self._lock:
            self._load[life.node] -= 1
            if code is not None:
                self.exits[life.name] = code
            self._fill()

    def bind(self, pod: str, node: str) -> bool:
        """Put a pod on a node."""
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        answer = self._call("create", "pods", f"{self._path}/{pod}/binding", body)
        return answer is not None and answer.ok

    def status(self, pod: str, uid: str, status: dict[str, Any]) -> None:
        """Change a pod's status."""
        body = {"metadata": {"uid": uid}, "status": status}
        self._call("patch", "pods", f"{self._path}/{pod}/status", body, MERGE_PATCH)

    def delete(self, pod: str, uid: str) -> None:
        """The last delete of a pod that was deleted."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._call("delete", "pods", f"{self._path}/{pod}", body)

    def document(self, resource: str, name: str) -> Document | None:
        """An object of the namespace; None while it is not there."""
        answer = self._call("get", resource, f"{self._objects}/{resource}/{name}")
        if answer is None or not answer.ok:
            return None
        document: Document = json.loads(answer.body)
        return document

    def _call(
        self, verb: str, resource: str, path: str, body: Document | None = None, content: str = JSON
    ) -> ApiAnswer | None:
        """A call, repeated until there is an answer or the kubelet ends."""
        sent = None if body is None else json.dumps(body).encode()
        while not self._ending.is_set():
            try:
                answer = self._api.call(verb, resource, path, body=sent, content_type=content)
            except Unreachable as problem:
                self._config.say(f"{verb} {path}: {problem}")
            else:
                if answer.status != 429 and answer.status < 500:
                    return answer
            self._ending.wait(AGAIN_S)
        return None


def _make_node(api: ApiClient, name: str, pods: int) -> None:
    """A node must exist, or the garbage collection of pods takes the pods that are bound to it."""
    labels = {"kubernetes.io/hostname": name}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    api.call("create", "nodes", "/api/v1/nodes", body=json.dumps(node).encode())
    room = {"cpu": "1000", "memory": "4Ti", "pods": str(pods)}
    ready = {
        "type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now_text(),
        "lastHeartbeatTime": now_text(),
    }  # fmt: skip
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    path = f"/api/v1/nodes/{name}/status"
    api.call("patch", "nodes", path, body=json.dumps(status).encode(), content_type=MERGE_PATCH)
