"""Pods and nodes between an API server and the decisions that lead them (``real_pods``): how they are read and written."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from podtide.adapters.kubelet.pod_status import now_text
from podtide.adapters.kubelet.pod_watch import AGAIN_S
from podtide.adapters.kubernetes.api import JSON, MERGE_PATCH, ApiAnswer, ApiClient, Unreachable
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import PodShape
from podtide.domain.fakes.kubernetes.real_pods import NodeJoined, PodSeen
from podtide.domain.jvm.quantities import parse_quantity
from podtide.domain.protocol.pods import PROFILE_LABEL

Pod: TypeAlias = Mapping[str, Any]
Document: TypeAlias = Mapping[str, Any]

_DAY_S: Final = 86_400
_MIB: Final = 1 << 20
_NODES: Final = "/api/v1/nodes"


class NamespaceCalls:
    """Calls about the pods of a namespace, about what they name, and about nodes. Thread-safe.

    ``ending``: nothing is called any more. ``begun``: from then on a server that cannot be reached is waited for.
    """

    def __init__(self, api: ApiClient, namespace: str, say: Callable[[str], None]) -> None:
        self.path = f"/api/v1/namespaces/{namespace}"
        self.ending = threading.Event()
        self.begun = False
        self._api = api
        self._say = say

    def bind(self, pod: str, node: str) -> bool:
        """Put a pod on a node; whether that was done."""
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        answer = self.call("create", "pods", f"{self.path}/pods/{pod}/binding", body)
        return answer is not None and answer.ok

    def status(self, pod: str, uid: str, status: dict[str, Any]) -> None:
        """Change a pod's status."""
        self.call("patch", "pods", f"{self.path}/pods/{pod}/status", {"metadata": {"uid": uid}, "status": status})

    def delete(self, pod: str, uid: str, grace_s: int | None = 0) -> None:
        """Delete a pod: for the last time, or with a grace (None: its own)."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        self.call("delete", "pods", f"{self.path}/pods/{pod}", body)

    def document(self, resource: str, name: str) -> Document | None:
        """An object of the namespace; None while it is not there."""
        answer = self.call("get", resource, f"{self.path}/{resource}/{name}")
        if answer is None or not answer.ok:
            return None
        document: Document = json.loads(answer.body)
        return document

    def make_node(self, node: NodeJoined) -> None:
        """Make a node. It must exist, or the garbage collection of pods takes the pods that are bound to it."""
        labels = {"kubernetes.io/hostname": node.name}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
        self.call("create", "nodes", _NODES, made)
        room = {"cpu": f"{node.cpu_millis}m", "memory": f"{node.memory_mib}Mi", "pods": str(node.pods)}
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now_text(),
            "lastHeartbeatTime": now_text(),
        }  # fmt: skip
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        self.call("patch", "nodes", f"{_NODES}/{node.name}/status", status)

    def close_node(self, node: str) -> None:
        """Have a node take no more pods."""
        self.call("patch", "nodes", f"{_NODES}/{node}", {"spec": {"unschedulable": True}})

    def delete_node(self, node: str) -> None:
        """Delete a node."""
        self.call("delete", "nodes", f"{_NODES}/{node}")

    def call(self, verb: str, resource: str, path: str, body: Document | None = None) -> ApiAnswer | None:
        """A call, repeated until it has an answer that is no 429 and no 5xx; None where everything ends before.

        Raises Unreachable before it has ``begun``.
        """
        sent = None if body is None else json.dumps(body).encode()
        content = MERGE_PATCH if verb == "patch" else JSON
        while not self.ending.is_set():
            try:
                answer = self._api.call(verb, resource, path, body=sent, content_type=content)
            except Unreachable as problem:
                if not self.begun:
                    raise
                self._say(f"{verb} {path}: {problem}")
            else:
                if answer.status != 429 and answer.status < 500:
                    return answer
            self.ending.wait(AGAIN_S)
        return None


def seen_pod(pod: Pod) -> PodSeen:
    """A pod that is Pending, as the decisions want it."""
    metadata, spec = pod["metadata"], pod["spec"]
    return PodSeen(metadata["uid"], _profile(metadata), shape_of(pod), spec.get("restartPolicy", "Always") == "Always")


def shape_of(pod: Pod) -> PodShape:
    """What a pod requests: the sums over its containers."""
    requests = [(one.get("resources") or {}).get("requests") or {} for one in pod["spec"]["containers"]]
    cpu, memory = (
        sum((parse_quantity(str(one.get(key, 0))) or Decimal(0) for one in requests), Decimal(0))
        for key in ("cpu", "memory")
    )
    return PodShape(max(1, int(cpu * 1000)), max(1, -(-int(memory) // _MIB)))


def _profile(metadata: Mapping[str, Any]) -> int:
    text = str((metadata.get("labels") or {}).get(PROFILE_LABEL, "0"))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def grace_left_s(deleted_at: str, now: Millis) -> int | None:
    """The grace of a deletion that ends at a time as Kubernetes writes it; None: the pod's own."""
    left_s = int(datetime.fromisoformat(deleted_at).astimezone(UTC).timestamp()) - now // 1000
    return None if left_s > _DAY_S else max(1, left_s)
