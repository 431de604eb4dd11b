"""Pods and nodes between an API server and the decisions that lead them (``real_pods``): how they are read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.adapters.kubelet.pod_status import now_text
from podtide.adapters.kubernetes.api import JSON, MERGE_PATCH
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import PodShape
from podtide.domain.fakes.kubernetes.real_pods import NodeJoined, PodSeen
from podtide.domain.jvm.quantities import parse_quantity
from podtide.domain.protocol.pods import PROFILE_LABEL

Pod: TypeAlias = Mapping[str, Any]

_DAY_S: Final = 86_400
_MIB: Final = 1 << 20


class NodeCall(NamedTuple):
    """A call about a node: ``path`` below the nodes."""

    verb: str
    path: str
    body: dict[str, Any] | None = None
    content: str = JSON


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


def node_calls(node: NodeJoined) -> Iterator[NodeCall]:
    """What makes a node. It must exist, or the garbage collection of pods takes the pods that are bound to it."""
    labels = {"kubernetes.io/hostname": node.name}
    yield NodeCall(
        "create", "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
    )
    room = {"cpu": f"{node.cpu_millis}m", "memory": f"{node.memory_mib}Mi", "pods": str(node.pods)}
    ready = {
        "type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now_text(),
        "lastHeartbeatTime": now_text(),
    }  # fmt: skip
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    yield NodeCall("patch", f"/{node.name}/status", status, MERGE_PATCH)


def closing_call(node: str) -> NodeCall:
    """What has a node take no more pods."""
    return NodeCall("patch", f"/{node}", {"spec": {"unschedulable": True}}, MERGE_PATCH)
