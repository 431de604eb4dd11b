"""A hollow kubelet and scheduler: runs no container, only moves the pods of a namespace through their life.

A pod is bound to a hollow node and Running ``--start-delay`` seconds after it was seen; with ``--run-for`` it ends so many
seconds later; deleted, it ends and is gone after ``--delete-delay``. A pod's annotations (or labels) say otherwise for
itself: ``hollow/hold: "true"`` (Pending until it is taken away), ``hollow/start-delay``, ``hollow/run-for``,
``hollow/outcome`` (Succeeded, Failed), ``hollow/exit-code`` (137 is OOMKilled), ``hollow/delete-delay``.

Standard input, one command a line, each answered by a line of JSON with the counts:
``finish NAME [Succeeded|Failed] [CODE]``, ``evict NAME``, ``hold on|off``, ``stat``, ``quit``.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

from podtide.adapters.kubernetes.api import MERGE_PATCH, ApiAnswer, KubernetesApi, Unreachable, connect

Pod: TypeAlias = dict[str, Any]
ENDED = ("Succeeded", "Failed")
EXPECTED = (404, 409, 422)
"""The pod is gone, changed or ended meanwhile: part of life."""


def stamp() -> str:
    """Now, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class HollowKubelet:
    """All that happens to pods, each thing at its time."""

    def __init__(self, api: KubernetesApi, options: argparse.Namespace) -> None:
        self.api = api
        self.options = options
        self.path = f"/api/v1/namespaces/{options.namespace}/pods"
        self.held = threading.Event()
        if options.hold:
            self.held.set()
        self.count: Counter[str] = Counter()
        self._pods: dict[str, Pod] = {}
        self._taken: set[str] = set()
        self._running: set[str] = set()
        self._state = threading.Lock()
        self._later: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._turn = itertools.count()
        self._address = itertools.count(1)
        self._timer = threading.Condition()
        self._workers = ThreadPoolExecutor(options.threads)

    # time

    def after(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        """Do something ``seconds`` from now."""
        with self._timer:
            heapq.heappush(self._later, (time.monotonic() + seconds, next(self._turn), act, arguments))
            self._timer.notify()

    def keep_time(self) -> None:
        """Hand what is due to the workers, for ever."""
        while True:
            with self._timer:
                while not self._later or self._later[0][0] > time.monotonic():
                    self._timer.wait(self._later[0][0] - time.monotonic() if self._later else None)
                _, _, act, arguments = heapq.heappop(self._later)
            self._workers.submit(self._guarded, act, arguments)

    def _guarded(self, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            act(*arguments)
        except Unreachable:
            self.after(0.5, act, *arguments)  # the server is away: as a kubelet would, try until it is back
        except Exception as problem:
            self._trouble(f"{act.__name__}: {problem!r}")

    def _trouble(self, text: str) -> None:
        self.count["errors"] += 1
        print(text[:400], file=sys.stderr, flush=True)

    # calls

    def _call(self, verb: str, path: str, body: Mapping[str, Any], content_type: str = "application/json") -> ApiAnswer:
        answer = self.api.call(verb, "pods", path, body=json.dumps(body).encode(), content_type=content_type)
        if not answer.ok and answer.status not in EXPECTED:
            self._trouble(f"{verb} {path}: {answer.status} {answer.body[:200]!r}")
            if answer.status >= 500 or answer.status == 429:
                raise Unreachable(f"{answer.status}")
        return answer

    def _patch_status(self, pod: Pod, status: Mapping[str, Any]) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self._call("patch", f"{self.path}/{pod['metadata']['name']}/status", body, MERGE_PATCH)

    # the life of a pod

    def _said(self, pod: Pod, key: str, default: Any = None) -> Any:
        metadata = pod["metadata"]
        for place in ("annotations", "labels"):
            if f"hollow/{key}" in (metadata.get(place) or {}):
                return metadata[place][f"hollow/{key}"]
        return default

    def start(self, uid: str) -> None:
        """Bind a pod and let it run, unless something holds it."""
        with self._state:
            pod = self._alive(uid)
            if pod is None:
                self._taken.discard(uid)
                return
            full = len(self._running) >= self.options.capacity
            wait = self.held.is_set() or full or self._said(pod, "hold") == "true"
            if not wait:
                self._running.add(uid)
        if wait:
            if not any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions") or ()):
                why = {"status": "False", "reason": "Unschedulable", "message": "held by the hollow kubelet"}
                self._patch_status(
                    pod, {"conditions": [{"type": "PodScheduled", "lastTransitionTime": stamp(), **why}]}
                )
            self.after(0.25, self.start, uid)
            return
        name, number = pod["metadata"]["name"], next(self._address)
        if not pod["spec"].get("nodeName"):
            node = {"kind": "Node", "name": f"hollow-{number % self.options.nodes}"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": node}
            self._call("create", f"{self.path}/{name}/binding", binding)
        now = stamp()
        ready = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ]
        self._patch_status(
            pod,
            {
                "phase": "Running",
                "startTime": now,
                "hostIP": "127.0.0.1",
                "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                "conditions": ready,
                "containerStatuses": [
                    {**one, "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
                    for one in _containers(pod)
                ],
            },
        )
        self.count["started"] += 1
        if (run_for := float(self._said(pod, "run-for", self.options.run_for))) > 0:
            outcome, code = self._said(pod, "outcome", "Succeeded"), int(self._said(pod, "exit-code", 1))
            self.after(run_for, self.end, uid, outcome, code)

    def end(self, uid: str, phase: str = "Succeeded", code: int = 1, reason: str | None = None) -> None:
        """Let a pod's containers end."""
        with self._state:
            pod = self._alive(uid)
        if pod is not None:
            self._end(pod, phase, code, reason)

    def _end(self, pod: Pod, phase: str, code: int, reason: str | None) -> None:
        code = 0 if phase == "Succeeded" else code
        why = {0: "Completed", 137: "OOMKilled"}.get(code, "Error")
        now = stamp()
        over = {"exitCode": code, "reason": why, "startedAt": now, "finishedAt": now}
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}],
            "containerStatuses": [
                {**one, "ready": False, "restartCount": 0, "state": {"terminated": over}} for one in _containers(pod)
            ],
        }
        if reason is not None:
            status["reason"] = reason
        self._patch_status(pod, status)
        self.count["ended"] += 1

    def reap(self, uid: str) -> None:
        """Let a deleted pod go: its containers end first, as a kubelet reports it since 1.27."""
        with self._state:
            pod = self._pods.get(uid)
        if pod is None:
            return
        if pod["status"].get("phase") == "Running" and not self.options.abrupt:
            self._end(pod, "Failed", 143, None)
        exactly = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._call("delete", f"{self.path}/{pod['metadata']['name']}", exactly)
        self.count["deleted"] += 1

    def _alive(self, uid: str) -> Pod | None:
        pod = self._pods.get(uid)
        if pod is None or pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in ENDED:
            return None
        return pod

    # what is seen

    def seen(self, kind: str, pod: Pod) -> None:
        """A pod came, changed or went."""
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        with self._state:
            if kind == "DELETED":
                self._pods.pop(uid, None)
                self._taken.discard(uid)
                self._running.discard(uid)
                return
            before = self._pods.get(uid)
            self._pods[uid] = pod
            if phase in ENDED:
                self._running.discard(uid)
            elif phase == "Running":
                self._running.add(uid)
            deleted = bool(pod["metadata"].get("deletionTimestamp"))
            newly_deleted = deleted and not (before and before["metadata"].get("deletionTimestamp"))
            fresh = phase == "Pending" and not deleted and uid not in self._taken
            if fresh:
                self._taken.add(uid)
        if newly_deleted:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
            self.after(min(float(self._said(pod, "delete-delay", self.options.delete_delay)), grace), self.reap, uid)
        elif fresh:
            self.after(float(self._said(pod, "start-delay", self.options.start_delay)), self.start, uid)

    def watch(self) -> None:
        """List, then watch, for ever."""
        while True:
            try:
                self._list_and_watch()
            except Unreachable as problem:
                print(f"watching again: {problem}", file=sys.stderr, flush=True)
            time.sleep(0.1)

    def _list_and_watch(self) -> None:
        answer = self.api.call("list", "pods", self.path)
        if not answer.ok:
            self._trouble(f"list: {answer.status} {answer.body[:200]!r}")
            return
        listed = json.loads(answer.body)
        there = {pod["metadata"]["uid"] for pod in listed["items"]}
        for pod in listed["items"]:
            self.seen("ADDED", pod)
        for uid in self._pods.keys() - there:
            self.seen("DELETED", self._pods[uid])
        version = listed["metadata"]["resourceVersion"]
        query = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", "300"),
        ]
        stream = self.api.stream("pods", self.path, query=query, silence_s=320)
        rest = b""
        try:
            for chunk in stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "BOOKMARK":
                        self.seen(event["type"], event["object"])
        finally:
            stream.close()

    # commands

    def listen(self) -> None:
        """Do what standard input says; its end ends everything."""
        for line in sys.stdin:
            words = line.split()
            names = {pod["metadata"]["name"]: uid for uid, pod in list(self._pods.items())}
            match words:
                case ["finish", name, *rest] if name in names:
                    phase, code = (rest[0] if rest else "Succeeded"), (int(rest[1]) if len(rest) > 1 else 1)
                    self.after(0, self.end, names[name], phase, code)
                case ["evict", name] if name in names:
                    self.after(0, self.end, names[name], "Failed", 143, "Evicted")
                case ["hold", "on"]:
                    self.held.set()
                case ["hold", "off"]:
                    self.held.clear()
                case ["quit"]:
                    break
                case _:
                    pass
            print(json.dumps({**self.count, "running": len(self._running), "known": len(self._pods)}), flush=True)
        os._exit(0)  # workers may be in the middle of a call; nothing of them is worth waiting for

    def make_nodes(self) -> None:
        """Nodes have to exist, or the server's collector of lost pods takes the pods."""
        much = {"cpu": "1000", "memory": "4Ti", "pods": "10000"}
        for number in range(self.options.nodes):
            name = f"hollow-{number}"
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            }
            self._call("create", "/api/v1/nodes", node)
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "Hollow",
                "lastTransitionTime": stamp(),
                "lastHeartbeatTime": stamp(),
            }
            status = {"status": {"capacity": much, "allocatable": much, "conditions": [ready]}}
            self._call("patch", f"/api/v1/nodes/{name}/status", status, MERGE_PATCH)


def _containers(pod: Pod) -> list[dict[str, str]]:
    return [
        {"name": one["name"], "image": one.get("image", ""), "imageID": "hollow"} for one in pod["spec"]["containers"]
    ]


def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--start-delay", type=float, default=0.2)
    parser.add_argument("--delete-delay", type=float, default=0.2)
    parser.add_argument("--run-for", type=float, default=0.0)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--capacity", type=int, default=10**9)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--abrupt", action="store_true", help="let deleted pods go without a terminal phase")
    options = parser.parse_args()
    kubelet = HollowKubelet(connect(options.kubeconfig), options)
    with suppress(Unreachable):
        kubelet.make_nodes()
    for task in (kubelet.keep_time, kubelet.watch):
        threading.Thread(target=task, daemon=True).start()
    kubelet.listen()


if __name__ == "__main__":
    main()
