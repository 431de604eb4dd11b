"""One pod's life, in a thread of its own: bound, started, Running, ended with an exit code, gone.

A deleted pod gets what a kubelet gives it: its preStop hook if it has one, SIGTERM, at the end of its grace SIGKILL, a
terminal phase, and the last delete with grace 0. The hook of Spark's image, ``decom.sh``, sends SIGPWR to the executor and
waits for it; that is done here without the script. A pod that cannot be run ends as Failed and says why.
"""

from __future__ import annotations

import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from podtide.adapters.kubelet.driver_process import ConfigMaps, begun_driver, config_maps
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.processes import kill_rest, kill_session
from podtide.adapters.kubelet.spark_process import (
    LocalSpark,
    NoExecutor,
    Pod,
    begun,
    is_driver,
    memory_limit,
    refuse_others,
    spark_container,
)
from podtide.domain.protocol.pods import EXECUTOR_LABEL

GRACE_S: Final = 30.0
KILL_S: Final = 2.0
"""What SIGTERM has after a hook that used the grace up."""

MOUNT_AGAIN_S: Final = 0.2
TERMINATED: Final = 143
KILLED: Final = 137


class PodCalls(Protocol):
    """What a life does to the API, and where it stands."""

    folder: Path
    logs: PodLogs
    spark: LocalSpark | None
    start_delay_s: float
    kubeconfig: Path | None

    @property
    def ending(self) -> bool:
        """Whether everything is to end: nothing more is said of pods."""
        ...

    def bind(self, pod: str, node: str) -> bool:
        """Put a pod on a node; whether that was done."""
        ...

    def status(self, pod: str, uid: str, status: dict[str, Any]) -> None:
        """Change a pod's status."""
        ...

    def delete(self, pod: str, uid: str) -> None:
        """The last delete of a pod that was deleted."""
        ...

    def config_map(self, name: str) -> Mapping[str, str] | None:
        """The data of a config map; None while it is not there."""
        ...

    def began(self, life: PodLife) -> None:
        """A pod runs."""
        ...

    def ended(self, life: PodLife, code: int | None) -> None:
        """A pod needs its room no more; None: it is gone, or never ran."""
        ...


class PodLife:
    """A pod under way."""

    def __init__(self, calls: PodCalls, pod: Pod, node: str, ip: str) -> None:
        metadata = pod["metadata"]
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.executor: str = (metadata.get("labels") or {}).get(EXECUTOR_LABEL, "")
        self.node = node
        self.process: subprocess.Popen[bytes] | None = None
        self.memory_limit = memory_limit(pod)
        self.runs = False
        self.thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self._pod = pod
        self._ip = ip
        self._calls = calls
        self._deleted = threading.Event()
        self._grace_s = GRACE_S
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._oom = False
        self._start_time = now_text()

    # from outside

    def delete(self, grace_s: float) -> None:
        """The pod was deleted; once counts."""
        if not self._deleted.is_set():
            self._grace_s = grace_s
            self._deleted.set()
            self._news.put("deleted")

    def gone(self) -> None:
        """The pod's object is gone, behind the kubelet's back."""
        self._deleted.set()
        self._news.put("gone")
        self.kill()

    def give_up(self) -> None:
        """End the process at once; the pod is left as it is."""
        self._deleted.set()
        self._news.put("end")
        self.kill()

    def kill(self) -> bool:
        """SIGKILL, as the kernel does when memory runs out. Whether there was a process."""
        if self.process is None or self.process.poll() is not None:
            return False
        kill_session(self.process.pid)
        return True

    def out_of_memory(self) -> None:
        """The pod's processes have more than their limit: SIGKILL, and the reason that a kubelet gives."""
        self._oom = True
        self.kill()

    # inside

    def _live(self) -> None:
        code: int | None = None
        try:
            # An unscheduled pod that is deleted is gone at once.
            if self._deleted.wait(self._calls.start_delay_s) or not self._calls.bind(self.name, self.node):
                return
            code = self._run()
        finally:
            self.runs = False
            self._clean()
            self._calls.ended(self, code)
        if code is None:
            return
        self._deleted.wait()
        if not self._calls.ending:
            self._calls.delete(self.name, self.uid)

    def _run(self) -> int | None:
        """From the start to the terminal phase; the exit code, None if nobody is to hear of the end."""
        if self._calls.spark is not None:
            try:
                refuse_others(self._pod)
                if not self._start(self._calls.spark):
                    return TERMINATED
            except (NoExecutor, OSError, KeyError) as problem:
                why = f"podtide's process kubelet: {problem}"
                self._say({"phase": "Failed", "reason": "CannotRun", "message": why, "startTime": self._start_time})
                return 1
        self.runs = True
        self._calls.began(self)
        self._say(self._running())
        code = self._until_the_end()
        if code is not None and not self._calls.ending:
            self._say(self._terminated(code))
        return code

    def _start(self, spark: LocalSpark) -> bool:
        """Start the process; whether there is one: a pod may be deleted while it waits for what it mounts."""
        folder = self._calls.folder / self.name
        folder.mkdir()
        maps = self._config_maps() if is_driver(self._pod) else {}
        if maps is None:
            return False
        with self._calls.logs.open(self.name) as log:
            if is_driver(self._pod):
                kubeconfig = self._calls.kubeconfig
                self.process = begun_driver(spark, self._pod, self._ip, folder, log.fileno(), maps, kubeconfig)
            else:
                self.process = begun(spark, self._pod, self._ip, folder, log.fileno())
        threading.Thread(target=self._wait, args=(self.process,), daemon=True).start()
        return True

    def _config_maps(self) -> ConfigMaps | None:
        """What the driver mounts, waited for: spark-submit makes the pod first. None: the pod was deleted meanwhile."""
        maps: dict[str, Mapping[str, str]] = {}
        for name in config_maps(self._pod):
            while (data := self._calls.config_map(name)) is None:
                if self._deleted.wait(MOUNT_AGAIN_S):
                    return None
            maps[name] = data
        return maps

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._news.put("exited")

    def _until_the_end(self) -> int | None:
        """The exit code; None if the pod is gone or the kubelet ends."""
        deadline: float | None = None
        killed = False
        while True:
            try:
                news = self._news.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                news = "late"
            match news:
                case "exited":
                    assert self.process is not None
                    status = self.process.wait()
                    return 128 - status if status < 0 else status  # as a container reports a signal
                case "deleted":
                    if self.process is None:
                        return TERMINATED
                    self.process.send_signal(signal.SIGPWR if _decommissions(self._pod) else signal.SIGTERM)
                    deadline = time.monotonic() + self._grace_s
                case "late" if self.process is not None:
                    # The hook used the grace up: a little for SIGTERM, then SIGKILL, as a kubelet does.
                    self.process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
                    deadline, killed = time.monotonic() + KILL_S, True
                case _:
                    self.kill()
                    return None

    def _clean(self) -> None:
        self.kill()
        self._calls.logs.ended(self.name)
        if self.process is not None:
            self.process.wait()
            kill_rest(self.process.pid)
        shutil.rmtree(self._calls.folder / self.name, ignore_errors=True)

    # statuses

    def _say(self, status: dict[str, Any]) -> None:
        self._calls.status(self.name, self.uid, status)

    def _running(self) -> dict[str, Any]:
        self._start_time = now_text()
        return {
            "phase": "Running",
            "startTime": self._start_time,
            "hostIP": "127.0.0.1",
            "podIP": self._ip,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": self._start_time}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": self._containers({"running": {"startedAt": self._start_time}}, ready=True),
        }

    def _terminated(self, code: int) -> dict[str, Any]:
        over = {
            "exitCode": code, "reason": self._reason(code), "startedAt": self._start_time,
            "finishedAt": now_text(),
        }  # fmt: skip
        gone = {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": now_text()}
        return {
            "phase": "Failed" if code else "Succeeded",
            "conditions": [gone],
            "containerStatuses": self._containers({"terminated": over}, ready=False),
        }

    def _reason(self, code: int) -> str:
        if self._oom and code == KILLED:
            return "OOMKilled"
        return "Error" if code else "Completed"

    def _containers(self, state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
        return [
            {
                "name": container["name"], "image": container.get("image", ""), "imageID": "local", "ready": ready,
                "started": ready, "restartCount": 0, "state": state,
            }
            for container in self._pod["spec"]["containers"]
        ]  # fmt: skip


def _decommissions(pod: Pod) -> bool:
    hook = spark_container(pod).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command") or [""]
    return str(hook[-1]).endswith("decom.sh")


def now_text() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
