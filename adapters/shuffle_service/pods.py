"""What there is of shuffle services and executors on a cluster: lists of this moment, in values of the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.calls import ENDED, Meta, Phased, lone_caller
from podtide.adapters.kubernetes.errors import RefusedCall
from podtide.adapters.notices import Notify
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, ROLE_LABEL
from podtide.domain.shuffle_service.services import PlacedExecutor, ServicePod, ServicesSeen, ServicesUnseen

LOOK_S: Final = 20.0
"""How long one look may take, with all its pages and repeats."""


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Status(Phased):
    address: str = msgspec.field(default="", name="podIP")


class PodOnNode(msgspec.Struct):
    """What is looked at of a pod of a service, a driver or an executor."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.status.phase not in ENDED

    def label(self, key: str) -> str:
        """A label; "" where it has none."""
        return (self.metadata.labels or {}).get(key, "")


class ServicePods:
    """Looks at a cluster. ``labels``: those of the service's pods; ``namespace``: of the executors."""

    def __init__(
        self,
        api: ApiClient,
        labels: Mapping[str, str],
        services_namespace: str,
        namespace: str,
        clock: Clock,
        notify: Notify,
    ) -> None:
        self._services = (services_namespace, ",".join(f"{key}={value}" for key, value in labels.items()))
        self._applications = (namespace, f"{APP_LABEL},{ROLE_LABEL}")
        self._caller = lone_caller(api, "lists of pods", clock, notify)

    def look(self) -> ServicesSeen | ServicesUnseen:
        """Everything there is now."""
        services, pods = self._list(*self._services), self._list(*self._applications)
        if services is None or pods is None:
            return ServicesUnseen()
        alive = [pod for pod in pods if pod.alive]
        return ServicesSeen(
            tuple(_service(pod) for pod in services if pod.alive and pod.spec.node),
            tuple(
                PlacedExecutor(pod.metadata.name, pod.label(APP_LABEL), pod.spec.node, pod.status.address)
                for pod in alive
                if pod.label(ROLE_LABEL) == EXECUTOR_ROLE and pod.spec.node and pod.status.address
            ),
            frozenset(pod.label(APP_LABEL) for pod in alive),
        )

    def _list(self, namespace: str, selector: str) -> list[PodOnNode] | None:
        pods: dict[str, PodOnNode] = {}  # a list that begins again shows pods twice
        deadline = self._caller.deadline(LOOK_S)
        for page in self._caller.pages("pods", namespace, [("labelSelector", selector)], PodOnNode, deadline):
            if isinstance(page, RefusedCall):
                return None
            pods |= {pod.metadata.name: pod for pod in page}
        return list(pods.values())


def _service(pod: PodOnNode) -> ServicePod:
    """A service. One that is being deleted is not handed out: its port closes."""
    conditions = pod.status.conditions or ()
    ready = any(one.type == "Ready" and one.status == "True" for one in conditions) and pod.metadata.deletion is None
    return ServicePod(pod.metadata.name, pod.spec.node, pod.status.address, ready)
