"""The kubelets of one namespace: they watch its pods, bind them where there is room, and lead each through its life.

They are scheduler and kubelets in one, for all nodes, and an ordinary client of whatever API server there is. Where a pod
runs and when, and what befalls its process and its node, is decided by the fake cluster (``real_pods``): a process may be
killed or stand still, a node go with all that runs on it. How a process lives otherwise, it decides itself. A pod has a
loopback address of its own, so that each has its own ports (on Linux; elsewhere there is only 127.0.0.1).
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubelet.claims import ClaimFolders
from podtide.adapters.kubelet.led_pods import NamespaceCalls, grace_left_s, seen_pod
from podtide.adapters.kubelet.pod_facts import Pod
from podtide.adapters.kubelet.pod_life import PodLife
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.pod_watch import PodWatch
from podtide.adapters.kubelet.processes import over_limit
from podtide.adapters.kubelet.spark_process import LocalSpark
from podtide.adapters.kubernetes.api import ApiClient
from podtide.domain.fakes.kubernetes import real_pods
from podtide.domain.fakes.kubernetes.cluster import due
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.kubernetes.real_pods import Decision, PodSight, uniform
from podtide.domain.protocol.pods import PodManifest

ADDRESSES: Final = 60_000
WAIT_MAX_S: Final = 3_600.0
MEMORY_LOOK_S: Final = 1.0
"""How often the memory of processes is looked at, and which claims are gone."""

BACK_OFF_S: Final = 10.0

END_S: Final = 10.0

Job: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class KubeletConfig:
    """``folder``: local directories of pods. ``description``: nodes, their room, and what befalls nodes and processes.

    ``kubeconfig``: for pods, in the place of a service account. ``back_off_s``: before a container is begun again for the
    second time; it doubles. ``say``: takes what goes wrong, in one line.
    """

    namespace: str
    folder: Path
    description: Description = field(default_factory=lambda: uniform(1, 4))
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
        self.calls = NamespaceCalls(api, config.namespace, config.say)
        self.claims = ClaimFolders(self.calls, config.folder / "claims")
        self._lock = threading.Lock()
        self._lives: dict[str, PodLife] = {}
        self._waiting: dict[str, Pod] = {}
        self._lost: dict[str, str] = {}
        self._made = 0
        self._watch = PodWatch(api, config.namespace, config.say)
        self._clock = SystemClock()
        self._cluster, decisions = real_pods.begin(config.description, self._clock.now())
        self._nodes = [one for one in decisions if isinstance(one, real_pods.NodeJoined)]
        self._sooner = threading.Event()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._watching = threading.Thread(
            target=self._watch.run, args=(self._take,), name="podtide-kubelet", daemon=True
        )
        self._timing = threading.Thread(target=self._keep_time, name="podtide-kubelet-time", daemon=True)
        self._calling = threading.Thread(target=self._work, name="podtide-kubelet-call", daemon=True)
        self._measuring = threading.Thread(target=self._measure, name="podtide-kubelet-memory", daemon=True)

    def start(self) -> None:
        """Make the nodes and begin to watch. Raises Unreachable."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in self._nodes:
            self.calls.make_node(node)
        self.calls.begun = True
        for thread in self._threads():
            thread.start()

    def _threads(self) -> tuple[threading.Thread, ...]:
        return self._watching, self._timing, self._calling, self._measuring

    def stop(self) -> None:
        """End every process and the watch. Pods stay as they are."""
        self.calls.ending.set()
        self._watch.stop()
        self._sooner.set()
        self._jobs.put(None)
        with self._lock:
            self._waiting.clear()
            lives = list(self._lives.values())
        for life in lives:
            life.give_up()
        for life in lives:
            life.thread.join(END_S)
        for thread in self._threads():
            thread.join(END_S)

    def running(self) -> int:
        """How many pods run now."""
        return sum(1 for life in list(self._lives.values()) if life.runs)

    def crash(self, executor: str) -> bool:
        """SIGKILL the process of an executor. Whether there was one."""
        return any(life.crash() for life in list(self._lives.values()) if life.executor == executor)

    def _measure(self) -> None:
        """Kill what has more memory than its container's limit; forget claims that are gone."""
        while not self.calls.ending.wait(MEMORY_LOOK_S):
            found = [one for life in list(self._lives.values()) for one in life.containers]
            processes = {process.pid: one for one in found if (process := one.process) is not None}
            limits = {pid: one.memory_limit for pid, one in processes.items() if one.memory_limit is not None}
            for pid in over_limit(limits):
                processes[pid].kill(out_of_memory=True)
            self.claims.sweep()

    # what is seen, and decided

    def _take(self, kind: str, pod: Pod) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        with self._lock:
            life = self._lives.get(uid)
            if kind == "DELETED":
                self._lost.pop(uid, None)
                if life is not None:
                    life.gone()
                    del self._lives[uid]
                if self._waiting.pop(uid, None) is not None or life is not None:
                    self._lead(real_pods.PodVanished(uid))
            elif life is None:
                if uid in self._lost:  # its node is gone, and its process with it
                    return
                if pod["status"].get("phase") != "Pending" or metadata.get("deletionTimestamp"):
                    if self._waiting.pop(uid, None) is not None:  # else of a kubelet before this one
                        self._lead(real_pods.PodVanished(uid))
                elif uid not in self._waiting:
                    self._waiting[uid] = pod
                    self._lead(seen_pod(pod))
            elif metadata.get("deletionTimestamp"):
                life.delete(float(metadata.get("deletionGracePeriodSeconds") or 0))

    def _keep_time(self) -> None:
        while not self.calls.ending.is_set():
            with self._lock:
                self._lead()
                wait_ms = due(self._cluster) - self._clock.now()
            self._sooner.wait(min(max(wait_ms / 1000, 0.0), WAIT_MAX_S))
            self._sooner.clear()

    def _lead(self, *sights: PodSight) -> None:
        """Decide, and do it; called under the lock."""
        if self.calls.ending.is_set():
            return
        before = due(self._cluster)
        now = max(self._cluster.now, self._clock.now())
        self._cluster, decisions = real_pods.lead(self._cluster, sights, now)
        for decision in decisions:
            self._act(decision, now)
        if due(self._cluster) < before:
            self._sooner.set()

    def _act(self, decision: Decision, now: int) -> None:
        match decision:
            case real_pods.PodShown():
                self._show(decision.uid, decision.manifest, now)
            case real_pods.PodHung():
                if (life := self._lives.get(decision.uid)) is not None:
                    life.pause(decision.hangs)
            case real_pods.PodRemoved():
                if (name := self._lost.get(decision.uid)) is not None:
                    uid = decision.uid
                    self._jobs.put(lambda: self.calls.status(name, uid, {"phase": "Failed", "reason": "NodeLost"}))
                    self._jobs.put(lambda: self.calls.delete(name, uid))
            case real_pods.NodeJoined():
                self._jobs.put(lambda: self.calls.make_node(decision))
            case real_pods.NodeClosed():
                self._jobs.put(lambda: self.calls.close_node(decision.name))
            case real_pods.NodeLost():
                for uid, life in list(self._lives.items()):
                    if life.node == decision.name:
                        self._lost[uid] = life.name
                        del self._lives[uid]
                        life.give_up()
                self._jobs.put(lambda: self.calls.delete_node(decision.name))

    def _show(self, uid: str, manifest: PodManifest, now: int) -> None:
        life = self._lives.get(uid)
        if life is None:
            if manifest.phase == "Running" and manifest.node and (pod := self._waiting.pop(uid, None)) is not None:
                self._made += 1
                life = self._lives[uid] = PodLife(self, pod, manifest.node, self._address())
                life.thread.start()
        elif manifest.deleted_at is not None:
            name, grace_s = life.name, grace_left_s(manifest.deleted_at, now)
            self._jobs.put(lambda: self.calls.delete(name, uid, grace_s))
        elif manifest.phase == "Failed":
            life.crash()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self.calls.ending.is_set():
            job()

    def _address(self) -> str:
        if sys.platform != "linux":
            return "127.0.0.1"
        # One that was not used for a long time: the ports of one that just ended may still be taken.
        number = 2 + self._made % ADDRESSES
        return f"127.0.{number >> 8 & 255}.{number & 255}"

    # for the lives of pods

    def began(self, life: PodLife) -> None:
        """A pod runs."""
        self.started.append(life.name)

    def ended(self, life: PodLife, code: int | None) -> None:
        """A pod needs its room no more."""
        with self._lock:
            if code is not None:
                self.exits[life.name] = code
            if life.uid not in self._lost:
                self._lead(real_pods.PodVanished(life.uid) if code is None else real_pods.PodExited(life.uid, code))
