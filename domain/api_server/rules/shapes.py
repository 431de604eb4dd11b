"""The types of the fields that rules look at: a body in which one of them has another is refused (400).

A shape is written as JSON: a type's name for a value, a list of one shape for an array, an object for an object. Fields
that it does not name may be anything. In metadata and specs a null is as good as nothing, as it is to the real server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.domain.api_server.json_values import FrozenObject, Json
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.statuses import ApiRefusal, bad_request
from podtide.domain.jvm.quantities import parse_quantity

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "text": (str,),
    "number": (int,),
    "flag": (bool,),
    "quantity": (str, int, float),
    "port": (str, int),
}
_TEXTS: Final = {"*": "text"}
_AMOUNTS: Final = {"*": "quantity"}
_NAMED: Final = [{"name": "text"}]
_CONTAINER: Final = {
    "name": "text",
    "image": "text",
    "args": ["text"],
    "command": ["text"],
    "ports": [{"containerPort": "number", "name": "text", "protocol": "text"}],
    "env": _NAMED,
    "envFrom": [{}],
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
    "volumeMounts": [{"name": "text", "mountPath": "text"}],
}
_CONDITIONS: Final = [{"type": "text", "status": "text"}]
_METADATA: Final = {
    "name": "text",
    "generateName": "text",
    "namespace": "text",
    "resourceVersion": "text",
    "uid": "text",
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": ["text"],
    "ownerReferences": [
        {
            "apiVersion": "text",
            "kind": "text",
            "name": "text",
            "uid": "text",
            "controller": "flag",
            "blockOwnerDeletion": "flag",
        }
    ],
}
_POD_SPEC: Final = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": "text", "persistentVolumeClaim": {"claimName": "text"}}],
    "tolerations": [{"key": "text", "effect": "text", "operator": "text"}],
    "restartPolicy": "text",
    "nodeName": "text",
    "serviceAccountName": "text",
    "schedulerName": "text",
    "terminationGracePeriodSeconds": "number",
    "activeDeadlineSeconds": "number",
}
_SET: Final = {
    "spec": {
        "replicas": "number",
        "minReadySeconds": "number",
        "paused": "flag",
        "serviceName": "text",
        "podManagementPolicy": "text",
        "selector": {
            "matchLabels": _TEXTS,
            "matchExpressions": [{"key": "text", "operator": "text", "values": ["text"]}],
        },
        "template": {
            "metadata": {"labels": _TEXTS, "annotations": _TEXTS, "finalizers": ["text"]},
            "spec": _POD_SPEC,
        },
        "volumeClaimTemplates": [{"metadata": _METADATA, "spec": {"accessModes": ["text"]}}],
        "strategy": {"type": "text", "rollingUpdate": {"maxUnavailable": "port", "maxSurge": "port"}},
        "updateStrategy": {"type": "text", "rollingUpdate": {}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "text", "whenScaled": "text"},
    },
    "status": {},
}
_SHAPES: Final[Mapping[str, Any]] = {
    "pods": {
        "spec": _POD_SPEC,
        "status": {
            "phase": "text",
            "reason": "text",
            "podIP": "text",
            "podIPs": [{"ip": "text"}],
            "conditions": _CONDITIONS,
            "containerStatuses": [
                {
                    "ready": "flag",
                    "restartCount": "number",
                    "state": {
                        "waiting": {"reason": "text"},
                        "terminated": {"reason": "text", "exitCode": "number", "signal": "number"},
                    },
                }
            ],
        },
    },
    "services": {
        "spec": {
            "type": "text",
            "clusterIP": "text",
            "selector": _TEXTS,
            "ports": [{"name": "text", "protocol": "text", "port": "number", "targetPort": "port"}],
        },
        "status": {},
    },
    "configmaps": {"data": _TEXTS, "binaryData": _TEXTS, "immutable": "flag"},
    "secrets": {"data": _TEXTS, "stringData": _TEXTS, "type": "text", "immutable": "flag"},
    "persistentvolumeclaims": {
        "spec": {
            "accessModes": ["text"],
            "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
            "storageClassName": "text",
            "volumeName": "text",
        },
        "status": {"phase": "text", "capacity": _AMOUNTS},
    },
    "resourcequotas": {"spec": {"hard": _AMOUNTS}, "status": {"hard": _AMOUNTS, "used": _AMOUNTS}},
    "persistentvolumes": {"spec": {"accessModes": ["text"], "capacity": _AMOUNTS}, "status": {"phase": "text"}},
    "leases": {"spec": {"holderIdentity": "text", "leaseDurationSeconds": "number", "leaseTransitions": "number"}},
    "events": {
        "involvedObject": {"namespace": "text", "name": "text", "kind": "text"},
        "type": "text",
        "reason": "text",
    },
    "networkpolicies": {"spec": {"podSelector": {}, "policyTypes": ["text"], "egress": [{}], "ingress": [{}]}},
    "namespaces": {"spec": {"finalizers": ["text"]}, "status": {"phase": "text"}},
    "nodes": {"spec": {"unschedulable": "flag"}, "status": {}},
    "deployments": _SET,
    "replicasets": _SET,
    "statefulsets": _SET,
    "serviceaccounts": {"secrets": [{}], "imagePullSecrets": _NAMED, "automountServiceAccountToken": "flag"},
}


def well_shaped(kind: ApiKind, item: FrozenObject) -> FrozenObject:
    """The object without nulls in metadata and spec; a refusal where a type is wrong."""
    cleaned = {name: _without_nulls(item[name]) for name in ("metadata", "spec") if item.get(name) is not None}
    if any(cleaned[name] is not item[name] for name in cleaned):
        item = FrozenObject({**item, **cleaned})
    place = _misfit(item, {"metadata": _METADATA, **_SHAPES[kind.plural]}, "")
    if place:
        raise wrong_type(kind, place)
    return item


def wrong_type(kind: ApiKind, place: str) -> ApiRefusal:
    """400: a field has a value of another type."""
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: {place} has a value of another type")


def _misfit(value: Json, shape: Any, place: str) -> str:
    """Where a value has another type than its shape; empty where it fits."""
    if value is None:
        return ""
    if isinstance(shape, str):
        fits = isinstance(value, _TYPES[shape]) and (shape == "flag" or not isinstance(value, bool))
        fits = fits and (shape != "quantity" or parse_quantity(str(value)) is not None)
        return "" if fits else place
    if isinstance(shape, list):
        if not isinstance(value, tuple):
            return place
        inner = ((one, shape[0], f"{place}[{number}]") for number, one in enumerate(value))
        return next(
            (found for one, of, where in inner if (found := place if one is None else _misfit(one, of, where))), ""
        )
    if not isinstance(value, FrozenObject):
        return place
    every = shape.get("*")
    names = value if every else [name for name in shape if name in value]
    prefix = f"{place}." if place else ""
    for name in names:
        if found := _misfit(value[name], every or shape[name], prefix + name):
            return found
    return ""


def _without_nulls(value: Json) -> Json:
    """The value without nulls in its objects; itself where there are none."""
    if isinstance(value, FrozenObject):
        made = {name: _without_nulls(one) for name, one in value.items() if one is not None}
        same = len(made) == len(value) and all(one is value[name] for name, one in made.items())
        return value if same else FrozenObject(made)
    if isinstance(value, tuple):
        items = tuple([_without_nulls(one) for one in value])
        return value if all(one is two for one, two in zip(items, value, strict=True)) else items
    return value
