"""A kubelet of the tests: executor pods become local processes, or, hollow, become nothing but their status.

An API server without nodes accepts pods and nothing ever comes of them. This watches the pods of one namespace and leads
each through the life that a kubelet gives it: bound to a node, started when there is room, Running with the statuses of its
containers, ended with an exit code. A deleted pod gets what a kubelet gives it: its preStop hook if it has one, SIGTERM,
at the end of its grace SIGKILL, a terminal phase, and the last delete with grace 0.

The process is what the entrypoint of Spark's image makes of the pod: the environment of the Spark container and
``java ... KubernetesExecutorBackend`` with its arguments. The hook of Spark's image, ``decom.sh``, sends SIGPWR to the
executor and waits for it; that is done here without the script. Only the executor's address is the loopback's, and its
local directories lie below the kubelet's folder. An executor needs at least 450 MB of heap, or it refuses to start.

``hollow``: no process; a pod runs until it is deleted and nobody ever registers.

As a program: ``process_kubelet.py --namespace NS [--kubeconfig F] [--hollow] [--processes N] [--folder DIR]``. A line on
standard input ``crash ID`` kills an executor's process, ``quit`` ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

from podtide.adapters.kubernetes.api import MERGE_PATCH, ApiAnswer, ApiClient, Stream, Unreachable, connect
from podtide.domain.protocol.pods import EXECUTOR_LABEL

NODE: Final = "process-0"
BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ENDED: Final = ("Succeeded", "Failed")
WATCH_S: Final = 240
GRACE_S: Final = 30.0

Pod: TypeAlias = dict[str, Any]


def spark_home(python: str) -> Path:
    """The folder of pyspark that belongs to a Python: its jars lie below it."""
    asked = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"
    said = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True)
    return Path(said.stdout.strip())


class Kubelet:
    """The kubelet of one namespace: ``with Kubelet(...):`` or ``start`` and ``stop``.

    ``jars``: the folder of Spark's jars; None is hollow. ``processes``: pods that run at once, the others stay Pending.
    ``start_delay_s``: from seeing a pod to starting it. ``folder``: logs (``<pod>.log``) and local directories.
    """

    def __init__(
        self,
        kubeconfig: str,
        namespace: str,
        folder: Path,
        *,
        jars: Path | None = None,
        processes: int = 4,
        start_delay_s: float = 0.0,
    ) -> None:
        self.folder = folder
        self.jars = jars
        self.start_delay_s = start_delay_s
        self.started: list[str] = []
        self.exits: dict[str, int] = {}
        self._api = connect(kubeconfig)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._room = threading.Condition()
        self._free = processes
        self._lives: dict[str, _Life] = {}
        self._numbers = itertools.count(1)
        self._ending = threading.Event()
        self._stream: Stream | None = None
        self._watching = threading.Thread(target=self._watch, name="kubelet", daemon=True)

    def __enter__(self) -> Kubelet:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the node and begin to watch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _make_node(self._api)
        self._watching.start()

    def stop(self) -> None:
        """End every process and the watch. Pods stay as they are."""
        self._ending.set()
        if self._stream is not None:
            self._stream.close()
        with self._room:
            lives = list(self._lives.values())
            self._room.notify_all()
        for life in lives:
            life.give_up()
        for life in lives:
            life.thread.join(10)
        self._watching.join(10)
        self._api.close()

    def running(self) -> int:
        """How many pods run now."""
        return sum(1 for life in list(self._lives.values()) if life.runs)

    def crash(self, executor: str) -> bool:
        """SIGKILL the process of an executor, as the kernel does when memory runs out. Whether there was one."""
        for life in list(self._lives.values()):
            if life.executor == executor and life.process is not None and life.process.poll() is None:
                life.process.kill()
                return True
        return False

    def log(self, executor: str) -> str:
        """What an executor's process wrote."""
        named = [life.pod_name for life in list(self._lives.values()) if life.executor == executor]
        return "".join((self.folder / f"{name}.log").read_text(errors="replace") for name in named)

    # ------------------------------------------------------------------------------------------------------- the watch

    def _watch(self) -> None:
        while not self._ending.is_set():
            try:
                for kind, pod in self._seen():
                    self._take(kind, pod)
            except (Unreachable, ValueError) as problem:
                if not self._ending.is_set():
                    print(f"kubelet: watch again: {problem}", file=sys.stderr)
                    self._ending.wait(0.2)

    def _seen(self) -> Iterator[tuple[str, Pod]]:
        listed = self._api.call("list", "pods", self._path)
        if not listed.ok:
            raise ValueError(f"list of pods: {listed.status}")
        document = json.loads(listed.body)
        there = {pod["metadata"]["uid"] for pod in document["items"]}
        for pod in document["items"]:
            yield "ADDED", pod
        for uid, life in list(self._lives.items()):
            if uid not in there:
                yield "DELETED", {"metadata": {"uid": uid, "name": life.pod_name}}
        version = document["metadata"]["resourceVersion"]
        query = [("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", str(WATCH_S))]
        self._stream = self._api.stream("pods", self._path, query=query, silence_s=WATCH_S + 10)
        rest = b""
        for chunk in self._stream.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    def _take(self, kind: str, pod: Pod) -> None:
        meta = pod["metadata"]
        uid = meta["uid"]
        life = self._lives.get(uid)
        if kind == "DELETED":
            if life is not None:
                life.hear("gone")
            return
        if life is None:
            if pod["status"].get("phase") != "Pending" or meta.get("deletionTimestamp"):
                return  # of a kubelet before this one
            life = self._lives[uid] = _Life(self, pod, next(self._numbers))
            life.thread.start()
        elif meta.get("deletionTimestamp") and not life.deleted.is_set():
            life.grace_s = float(meta.get("deletionGracePeriodSeconds") or 0)
            life.deleted.set()
            life.hear("deleted")
            with self._room:
                self._room.notify_all()

    # -------------------------------------------------------------------------------------------- for the lives of pods

    def take_room(self, life: _Life) -> bool:
        """Wait for room to run; False if the pod is deleted before there is any."""
        with self._room:
            self._room.wait_for(lambda: self._free > 0 or life.deleted.is_set() or self._ending.is_set())
            if self._ending.is_set() or life.deleted.is_set():
                return False
            self._free -= 1
            return True

    def leave_room(self) -> None:
        """Another pod may run."""
        with self._room:
            self._free += 1
            self._room.notify_all()

    @property
    def ending(self) -> bool:
        """Whether everything is to end."""
        return self._ending.is_set()

    def bind(self, name: str) -> bool:
        """Put a pod on the node."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": NODE},
        }
        return self._call("create", f"{self._path}/{name}/binding", body).ok

    def status(self, name: str, uid: str, status: dict[str, Any]) -> bool:
        """Change a pod's status."""
        body = {"metadata": {"uid": uid}, "status": status}
        return self._call("patch", f"{self._path}/{name}/status", body, MERGE_PATCH).ok

    def delete(self, name: str, uid: str) -> None:
        """The last delete of a pod that was deleted."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        self._call("delete", f"{self._path}/{name}", body)

    def _call(self, verb: str, path: str, body: dict[str, Any], content: str = "application/json") -> ApiAnswer:
        try:
            return self._api.call(verb, "pods", path, body=json.dumps(body).encode(), content_type=content)
        except Unreachable as problem:
            print(f"kubelet: {verb} {path}: {problem}", file=sys.stderr)
            return ApiAnswer(0, b"")


class _Life:
    """The life of one pod, in a thread of its own."""

    def __init__(self, kubelet: Kubelet, pod: Pod, number: int) -> None:
        meta = pod["metadata"]
        self.pod = pod
        self.pod_name: str = meta["name"]
        self.uid: str = meta["uid"]
        self.executor: str = (meta.get("labels") or {}).get(EXECUTOR_LABEL, "")
        self.deleted = threading.Event()
        self.grace_s = GRACE_S
        self.process: subprocess.Popen[bytes] | None = None
        self.runs = False
        self.thread = threading.Thread(target=self._live, name=self.pod_name, daemon=True)
        self._kubelet = kubelet
        self._ip = "127.0.0.1" if kubelet.jars else f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._began = _now()

    def hear(self, news: str) -> None:
        """Say what became of the pod: ``deleted``, ``gone``, ``exited``, ``end``."""
        self._news.put(news)

    def give_up(self) -> None:
        """End the process at once; the pod is left as it is."""
        self.hear("end")
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()

    def _live(self) -> None:
        kubelet = self._kubelet
        if self.deleted.wait(kubelet.start_delay_s) or not kubelet.take_room(self):
            return  # an unscheduled pod that is deleted is gone at once
        try:
            if not kubelet.bind(self.pod_name):
                return
            if kubelet.jars is not None:
                self._spawn(kubelet.jars)
            self.runs = True
            kubelet.started.append(self.pod_name)
            kubelet.status(self.pod_name, self.uid, self._running())
            code = self._until_the_end()
        finally:
            self.runs = False
            kubelet.leave_room()
        if code is None or kubelet.ending:
            return
        kubelet.exits[self.pod_name] = code
        kubelet.status(self.pod_name, self.uid, self._terminated(code))
        self.deleted.wait()
        if not kubelet.ending:
            kubelet.delete(self.pod_name, self.uid)

    def _until_the_end(self) -> int | None:
        """Exit code; None if the pod is gone or the kubelet ends."""
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
                    return _exit_code(self.process.wait())
                case "deleted":
                    if self.process is None:
                        return 143
                    self.process.send_signal(signal.SIGPWR if _decommissions(self.pod) else signal.SIGTERM)
                    deadline = time.monotonic() + self.grace_s
                case "late" if self.process is not None:
                    # The hook used the grace up: two seconds for SIGTERM, then SIGKILL, as a kubelet does.
                    self.process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
                    deadline, killed = time.monotonic() + 2, True
                case "gone":  # deleted with grace 0 behind the kubelet's back
                    if self.process is not None:
                        self.process.kill()
                        self.process.wait()
                    return None
                case _:
                    return None

    def _spawn(self, jars: Path) -> None:
        kubelet = self._kubelet
        env = self._environment()
        options = [env[key] for key in sorted((k for k in env if k.startswith("SPARK_JAVA_OPT_")), key=_last_number)]
        command = [
            "java", *options, "-Xms64m", f"-Xmx{env['SPARK_EXECUTOR_MEMORY']}", "-XX:+UseSerialGC",
            "-cp", f"{env.get('SPARK_CLASSPATH', '')}:{jars}/*", BACKEND,
            "--driver-url", env["SPARK_DRIVER_URL"], "--executor-id", env["SPARK_EXECUTOR_ID"],
            "--cores", env["SPARK_EXECUTOR_CORES"], "--app-id", env["SPARK_APPLICATION_ID"], "--hostname", self._ip,
            "--resourceProfileId", env["SPARK_RESOURCE_PROFILE_ID"], "--podName", self.pod_name,
        ]  # fmt: skip
        with (kubelet.folder / f"{self.pod_name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=kubelet.folder,
            )
        threading.Thread(target=self._wait, args=(self.process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self.hear("exited")

    def _environment(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG", "TZ") if name in os.environ}
        fields: Mapping[str, str] = {
            "metadata.name": self.pod_name,
            "metadata.namespace": self.pod["metadata"]["namespace"],
            "status.podIP": self._ip,
            "status.hostIP": "127.0.0.1",
        }
        for entry in _spark_container(self.pod).get("env", ()):
            field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            env[entry["name"]] = fields.get(field, "") if field else entry.get("value", "")
        env["SPARK_LOCAL_DIRS"] = str(self._kubelet.folder / f"{self.pod_name}.dirs")
        return env

    def _running(self) -> dict[str, Any]:
        self._began = _now()
        state = {"running": {"startedAt": self._began}}
        return {
            "phase": "Running",
            "startTime": self._began,
            "hostIP": "127.0.0.1",
            "podIP": self._ip,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": self._began}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": self._containers(state, ready=True),
        }

    def _terminated(self, code: int) -> dict[str, Any]:
        ended = _now()
        reason = "Completed" if code == 0 else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": self._began, "finishedAt": ended}}
        return {
            "phase": ENDED[code != 0],
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": ended}],
            "containerStatuses": self._containers(state, ready=False),
        }

    def _containers(self, state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
        return [
            {
                "name": container["name"], "image": container["image"], "imageID": "process", "ready": ready,
                "started": ready, "restartCount": 0, "state": state,
            }
            for container in self.pod["spec"]["containers"]
        ]  # fmt: skip


def _spark_container(pod: Pod) -> dict[str, Any]:
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return next((one for one in containers if "executor" in (one.get("args") or ())), containers[-1])


def _decommissions(pod: Pod) -> bool:
    hook = _spark_container(pod).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command") or [""]
    return str(hook[-1]).endswith("decom.sh")


def _exit_code(status: int) -> int:
    return 128 - status if status < 0 else status  # as a container reports a signal


def _last_number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_node(api: ApiClient) -> None:
    """A node must exist, or the garbage collection of pods takes the pods that are bound to it."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
    }
    api.call("create", "nodes", "/api/v1/nodes", body=json.dumps(node).encode())
    room = {"cpu": "1000", "memory": "4Ti", "pods": "10000"}
    ready = {"type": "Ready", "status": "True", "reason": "Process", "lastTransitionTime": _now()}
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    api.call(
        "patch", "nodes", f"/api/v1/nodes/{NODE}/status", body=json.dumps(status).encode(), content_type=MERGE_PATCH
    )


def main() -> int:
    """Run until ``quit``, the end of the input, SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="Run the executor pods of a namespace as local processes.")
    parser.add_argument("--kubeconfig", default=os.environ.get("PODTIDE_TEST_KUBECONFIG"))
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--hollow", action="store_true", help="no processes, only their status")
    parser.add_argument("--processes", type=int, default=4, help="pods that run at once, default %(default)s")
    parser.add_argument("--start-delay", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--folder", type=Path, help="logs and local directories")
    given = parser.parse_args()
    python = os.environ.get("PODTIDE_SPARK_PYTHON", sys.executable)
    jars = None if given.hollow else spark_home(python) / "jars"
    folder = given.folder or Path(tempfile.mkdtemp(prefix="kubelet-"))
    print(f"logs in {folder}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    kubelet = Kubelet(
        given.kubeconfig, given.namespace, folder, jars=jars, processes=given.processes, start_delay_s=given.start_delay
    )
    with kubelet, suppress(KeyboardInterrupt):
        for line in sys.stdin:
            match line.split():
                case ["crash", executor]:
                    print("crashed" if kubelet.crash(executor) else "no such process", flush=True)
                case ["quit"]:
                    break
                case _:
                    print(f"running {kubelet.running()} exits {kubelet.exits}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
