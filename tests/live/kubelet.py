"""The product's hollow kubelets as tests need them: pods come up and go in times that a test says, and end when it says.

``hold``: nobody looks after pods for a while; those that are new wait. What befalls a single pod (``finish``, ``evict``) is
written into its status by the administrator, as a kubelet would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from podtide.adapters.kubelet.hollow import HollowConfig, hollow_kubelet
from podtide.adapters.kubelet.pod_status import now_text
from podtide.adapters.kubernetes.api import MERGE_PATCH, KubernetesApi
from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.kubernetes.real_pods import uniform

NODES = 3
PODS_PER_NODE = 10_000


def brisk(start_ms: Millis, delete_ms: Millis) -> Description:
    """Nodes with room for every pod, which runs so long after it was made and is gone so long after it was deleted."""
    usual = uniform(NODES, PODS_PER_NODE, start_ms)
    stages = tuple(
        replace(stage, delay=Constant(delete_ms)) if stage.name == "terminate" else stage
        for stage in usual.executors.stages
    )
    return replace(usual, executors=replace(usual.executors, stages=stages))


class Kubelet:
    """``with Kubelet(connect, namespace, brisk(50, 100)) as kubelet:``; pods stay as they are at its end."""

    def __init__(self, connect: Callable[[], KubernetesApi], namespace: str, description: Description) -> None:
        self._connect = connect
        self._namespace = namespace
        self._config = HollowConfig(namespace, description)
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def _begin(self) -> None:
        self._api = self._connect()
        self._running.callback(self._api.close)
        self._hollow = self._running.enter_context(hollow_kubelet(self._api, self._config))

    def running(self) -> int:
        """How many pods run."""
        return self._hollow.running()

    def hold(self, on: bool) -> None:
        """Look after no pod from now on, or go on."""
        self._running.close()
        if not on:
            self._begin()

    def finish(self, pod: str, phase: str = "Succeeded", code: int = 0) -> None:
        """Let a pod end."""
        self._end(pod, phase, code)

    def evict(self, pod: str) -> None:
        """Let a pod fail as an evicted one does."""
        self._end(pod, "Failed", 143, reason="Evicted")

    def _end(self, name: str, phase: str, code: int, **more: str) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        pod: dict[str, Any] = json.loads(self._api.call("get", "pods", path).body)
        over = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": now_text()}
        containers = [
            {**one, "ready": False, "started": False, "state": {"terminated": over}}
            for one in pod["status"].get("containerStatuses", ())
        ]
        status = {"phase": phase, "containerStatuses": containers, **more}
        body = json.dumps({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}).encode()
        answer = self._api.call("patch", "pods", f"{path}/status", body=body, content_type=MERGE_PATCH)
        assert answer.ok, answer
