"""Hollow kubelets: they run nothing, and lead the pods of a namespace through the life that a cluster file describes.

They are scheduler, autoscaler and kubelets in one, and an ordinary client of whatever API server there is: nodes are made
and deleted, pods bound, their statuses patched, and what was deleted gets its last delete. What happens when is decided by
the fake cluster (``real_pods``) in one thread; workers make the calls, those of one pod in order. What has no answer, a 429
or a 5xx is asked again until the end.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from zlib import crc32

from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.kubelet.led_pods import NamespaceCalls, grace_left_s, seen_pod
from podtide.adapters.kubelet.pod_status import now_text
from podtide.adapters.kubelet.pod_watch import Pod, PodWatch
from podtide.adapters.kubernetes.api import ApiClient
from podtide.domain.fakes.kubernetes import real_pods
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster, due
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.kubernetes.real_pods import Decision, PodSight
from podtide.domain.protocol.pods import RUNNING, TERMINATED, ContainerState, PodManifest

WORKERS: Final = 8
END_S: Final = 10.0
_WAIT_MAX_S: Final = 3_600.0

Job: TypeAlias = Callable[[], object]


def _to_stderr(line: str) -> None:
    print(f"kubelet: {line}", file=sys.stderr)


@dataclass(frozen=True)
class HollowConfig:
    """``description``: the nodes and lives of pods (``real_pods.uniform``: nothing takes time or goes wrong).

    ``say``: takes what goes wrong, in one line.
    """

    namespace: str
    description: Description
    say: Callable[[str], None] = _to_stderr
    clock: Clock = field(default_factory=SystemClock)


@contextmanager
def hollow_kubelet(api: ApiClient, config: HollowConfig) -> Iterator[HollowKubelet]:
    """Kubelets whose pods run nothing. Pods stay as they are at the end. Raises Unreachable."""
    kubelet = HollowKubelet(api, config)
    kubelet.start()
    try:
        yield kubelet
    finally:
        kubelet.stop()


@dataclass
class _LedPod:
    """A pod under way, of the deciding thread. ``shown``: how often the decisions spoke of it."""

    pod: Pod
    ip: str
    node: str = ""
    shown: int = 0
    deleted: bool = False
    last: PodManifest | None = None
    restarts: int = 0

    @property
    def name(self) -> str:
        name: str = self.pod["metadata"]["name"]
        return name


class HollowKubelet:
    """Kubelets under way. ``exits``: exit codes of pods by name."""

    def __init__(self, api: ApiClient, config: HollowConfig) -> None:
        self.exits: dict[str, int] = {}
        self._config = config
        self._calls = NamespaceCalls(api, config.namespace, config.say)
        self._watch = PodWatch(api, config.namespace, config.say)
        self._inbox: queue.SimpleQueue[tuple[str, Pod] | None] = queue.SimpleQueue()
        self._jobs: list[queue.SimpleQueue[Job | None]] = [queue.SimpleQueue() for _ in range(WORKERS)]
        self._pods: dict[str, _LedPod] = {}
        self._addresses = 0
        deciding = threading.Thread(target=self._decide, name="podtide-kubelet", daemon=True)
        watching = threading.Thread(target=self._see, name="podtide-kubelet-watch", daemon=True)
        workers = [
            threading.Thread(target=self._work, args=(jobs,), name="podtide-kubelet-call", daemon=True)
            for jobs in self._jobs
        ]
        self._threads = [deciding, watching, *workers]
        self._cluster: KubernetesCluster | None = None

    def start(self) -> None:
        """Make the nodes and begin to watch. Raises Unreachable."""
        self._cluster, decisions = real_pods.begin(self._config.description, self._config.clock.now())
        for decision in decisions:
            if isinstance(decision, real_pods.NodeJoined):
                self._calls.make_node(decision)
        self._calls.begun = True
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the watch and the calls. Pods stay as they are."""
        self._calls.ending.set()
        self._watch.stop()
        self._inbox.put(None)
        for jobs in self._jobs:
            jobs.put(None)
        for thread in self._threads:
            thread.join(END_S)

    def running(self) -> int:
        """How many pods run now."""
        return sum(1 for row in list(self._pods.values()) if row.last is not None and row.last.phase == "Running")

    # what is seen, and decided

    def _see(self) -> None:
        self._watch.run(lambda kind, pod: self._inbox.put((kind, pod)))

    def _decide(self) -> None:
        assert self._cluster is not None
        cluster, clock = self._cluster, self._config.clock
        while not self._calls.ending.is_set():
            sights = self._sights(due(cluster) - clock.now())
            now = max(cluster.now, clock.now())
            cluster, decisions = real_pods.lead(cluster, sights, now)
            for decision in decisions:
                self._act(decision, now)

    def _sights(self, wait_ms: int) -> list[PodSight]:
        """What was seen, waited for until something is due."""
        found: list[PodSight] = []
        try:
            news = self._inbox.get(timeout=min(max(wait_ms / 1000, 0.0), _WAIT_MAX_S))
            while news is not None:
                found += self._sight(*news)
                news = self._inbox.get_nowait()
        except queue.Empty:
            pass
        return found

    def _sight(self, kind: str, pod: Pod) -> list[PodSight]:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        row = self._pods.get(uid)
        if kind == "DELETED":
            self._pods.pop(uid, None)
            return [real_pods.PodVanished(uid)] if row is not None else []
        deleted = bool(metadata.get("deletionTimestamp"))
        if row is None:
            if deleted and pod["spec"].get("nodeName"):  # of a kubelet before this one
                self._later(uid, lambda: self._calls.delete(metadata["name"], uid))
            if deleted or pod["status"].get("phase") != "Pending":
                return []
            self._addresses += 1
            number = self._addresses
            ip = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            self._pods[uid] = _LedPod(pod, ip)
            return [seen_pod(pod)]
        row.pod = pod
        if deleted and not row.deleted:
            row.deleted = True
            grace_ms = int(metadata.get("deletionGracePeriodSeconds") or 0) * 1000
            return [real_pods.DeletionSeen(uid, grace_ms)]
        return []

    # what is done

    def _act(self, decision: Decision, now: int) -> None:
        match decision:
            case real_pods.PodShown():
                row = self._pods.get(decision.uid)
                if row is not None:
                    self._show(decision.uid, row, decision.manifest, now)
            case real_pods.PodRemoved():
                row = self._pods.get(decision.uid)
                if row is not None:
                    name, uid = row.name, decision.uid
                    self._later(uid, lambda: self._calls.delete(name, uid))
            case real_pods.NodeJoined():
                self._later(decision.name, lambda: self._calls.make_node(decision))
            case real_pods.NodeClosed():
                self._later(decision.name, lambda: self._calls.close_node(decision.name))
            case real_pods.NodeLost():
                self._later(decision.name, lambda: self._calls.delete_node(decision.name))
            case real_pods.PodHung():
                pass  # nothing is to be seen of it

    def _show(self, uid: str, row: _LedPod, manifest: PodManifest, now: int) -> None:
        """Bring the API's pod to what the decisions show."""
        name, before = row.name, row.last
        row.last = manifest
        row.shown += 1
        if manifest.node and not row.node:
            row.node = manifest.node
            self._later(uid, lambda: self._calls.bind(name, row.node))
        elif not manifest.node and manifest.deleted_at is None and row.shown == 2:
            waiting = {"conditions": [_UNSCHEDULABLE | {"lastTransitionTime": now_text()}]}
            self._later(uid, lambda: self._calls.status(name, uid, waiting))
        if before is None or manifest.phase != before.phase or manifest.containers != before.containers:
            state = manifest.containers[0].state if manifest.containers else None
            if state is not None and state.kind == TERMINATED:
                self.exits[name] = state.exit_code or 0
                row.restarts += manifest.phase == "Running"
            if before is not None:
                status = status_of(row.pod, manifest, row.ip, row.restarts)
                self._later(uid, lambda: self._calls.status(name, uid, status))
        if manifest.deleted_at is not None and not row.deleted:
            row.deleted = True
            grace_s = grace_left_s(manifest.deleted_at, now)
            self._later(uid, lambda: self._calls.delete(name, uid, grace_s))

    # calls

    def _later(self, key: str, job: Job) -> None:
        """Have a call made, after those of the same pod or node."""
        self._jobs[crc32(key.encode()) % WORKERS].put(job)

    def _work(self, jobs: queue.SimpleQueue[Job | None]) -> None:
        while (job := jobs.get()) is not None and not self._calls.ending.is_set():
            job()


# pods as they are written and read

_UNSCHEDULABLE: Final = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has room",
}  # fmt: skip


def status_of(pod: Pod, manifest: PodManifest, ip: str, restarts: int) -> dict[str, Any]:
    """The status of a pod whose containers are all in the state of the manifest's one."""
    runs = manifest.phase == "Running"
    state = manifest.containers[0].state if manifest.containers else None
    ready = runs and state is not None and state.kind == RUNNING
    names = ("Initialized", "Ready", "ContainersReady", "PodScheduled") if runs else ("Ready",)
    up = "True" if ready else "False"
    conditions = [
        {
            "type": name,
            "status": "True" if name in {"Initialized", "PodScheduled"} else up,
            "lastTransitionTime": now_text(),
        }
        for name in names
    ]
    status: dict[str, Any] = {"phase": manifest.phase, "conditions": conditions}
    if runs:
        status |= {"hostIP": "127.0.0.1", "podIP": ip, "startTime": (state and state.started_at) or now_text()}
    status |= {key: text for key in ("reason", "message") if (text := getattr(manifest, key)) is not None}
    if state is not None:
        status["containerStatuses"] = [
            {
                "name": container["name"], "image": container.get("image", ""), "imageID": "hollow", "ready": ready,
                "started": ready, "restartCount": restarts, "state": _state(state),
            }
            for container in pod["spec"]["containers"]
        ]  # fmt: skip
    return status


def _state(state: ContainerState) -> dict[str, Any]:
    fields = {
        "exitCode": state.exit_code, "reason": state.reason, "startedAt": state.started_at,
        "finishedAt": state.finished_at,
    }  # fmt: skip
    return {state.kind or "waiting": {key: value for key, value in fields.items() if value is not None}}
