"""The kinds that are served, as a table: what is not in it does not exist here.

``fields`` are an object's own top-level fields besides apiVersion, kind and metadata: any other is refused, never kept and
ignored. ``selectable``: what field selectors may ask for besides name and namespace. ``returned``: whether a delete answers
with the object (the real server's ReturnDeletedObject) or with a Status. ``put_creates``: whether a PUT of what is not there
makes it (AllowCreateOnUpdate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from podtide.domain.api_server.json_values import JsonPath, words

CREATE_SUBRESOURCES: Final = frozenset({"binding", "eviction"})
"""Sub-resources that are posted to."""


@dataclass(frozen=True)
class ApiKind:
    """One kind of objects; see the module."""

    plural: str
    kind: str
    fields: frozenset[str]
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    returned: bool = False
    categories: tuple[str, ...] = ()
    put_creates: bool = False

    @cached_property
    def resource(self) -> str:
        """The qualified plural, by which messages name the kind and tables are kept."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        """``v1``, ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def selectors(self) -> Mapping[str, JsonPath]:
        """Field selectors and where their values stand."""
        names = ("metadata.name", "metadata.namespace", *self.selectable)
        return {name: tuple(name.split(".")) for name in names}

    @property
    def has_status(self) -> bool:
        """Whether the status is a sub-resource: writes to the object itself leave it alone."""
        return "status" in self.subresources


def _kind(plural: str, kind: str, fields: str, selectable: str = "", **rest: object) -> ApiKind:
    return ApiKind(plural, kind, words(fields), selectable=tuple(selectable.split()), **rest)  # type: ignore[arg-type]


PODS: Final = _kind(
    "pods",
    "Pod",
    "spec status",
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP "
    "status.nominatedNodeName",
    short_names=("po",),
    subresources=("binding", "eviction", "log", "status"),
    returned=True,
    categories=("all",),
)
NAMESPACES: Final = _kind(
    "namespaces", "Namespace", "spec status", "status.phase", namespaced=False, short_names=("ns",), returned=True
)

QUOTAS: Final = _kind(
    "resourcequotas", "ResourceQuota", "spec status", short_names=("quota",), subresources=("status",), returned=True
)

_SET: Final[dict[str, Any]] = {"group": "apps", "subresources": ("scale", "status"), "categories": ("all",)}
DEPLOYMENTS: Final = _kind("deployments", "Deployment", "spec status", short_names=("deploy",), **_SET)
REPLICA_SETS: Final = _kind("replicasets", "ReplicaSet", "spec status", "status.replicas", short_names=("rs",), **_SET)
STATEFUL_SETS: Final = _kind("statefulsets", "StatefulSet", "spec status", short_names=("sts",), **_SET)

KINDS: Final = (
    _kind("configmaps", "ConfigMap", "data binaryData immutable", short_names=("cm",)),
    _kind(
        "events",
        "Event",
        "involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series action related "
        "reportingComponent reportingInstance",
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion "
        "involvedObject.resourceVersion involvedObject.fieldPath reason type reportingComponent",
        short_names=("ev",),
        put_creates=True,
    ),
    NAMESPACES,
    _kind(
        "nodes",
        "Node",
        "spec status",
        "spec.unschedulable",
        namespaced=False,
        short_names=("no",),
        subresources=("status",),
    ),
    _kind(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "spec status",
        short_names=("pvc",),
        subresources=("status",),
        returned=True,
    ),
    _kind(
        "persistentvolumes",
        "PersistentVolume",
        "spec status",
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
        returned=True,
    ),
    PODS,
    QUOTAS,
    _kind("secrets", "Secret", "data stringData type immutable", "type"),
    _kind(
        "serviceaccounts",
        "ServiceAccount",
        "secrets imagePullSecrets automountServiceAccountToken",
        short_names=("sa",),
        returned=True,
    ),
    _kind("services", "Service", "spec status", short_names=("svc",), subresources=("status",), categories=("all",)),
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    _kind("leases", "Lease", "spec", group="coordination.k8s.io", put_creates=True),
    _kind("networkpolicies", "NetworkPolicy", "spec", group="networking.k8s.io", short_names=("netpol",)),
)

BY_RESOURCE: Final[Mapping[str, ApiKind]] = {kind.resource: kind for kind in KINDS}
GROUPS: Final = tuple(dict.fromkeys((kind.group, kind.version) for kind in KINDS if kind.group))
