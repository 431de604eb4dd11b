"""Which fields an object may have, and the types of those that rules look at: what else a body has is refused (400).

A shape is written as JSON: a type's name for a value, a list of one shape for an array, an object for an object. Fields
that it does not name may be anything. Under ``""`` may stand all the names that an object can have: any other would only be
kept, for nothing here would heed it. In metadata and specs a null is as good as nothing, as it is to the real server.
The schemas that clients are shown (``openapi``) are made from the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.domain.api_server.json_values import FrozenObject, Json, words
from podtide.domain.api_server.kinds import KINDS, ApiKind
from podtide.domain.api_server.statuses import ApiRefusal, bad_request, unsupported
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


def _typed(of: str, names: str) -> dict[str, str]:
    """Fields that have one type."""
    return dict.fromkeys(names.split(), of)


_CONTAINER: Final = {
    "": words(
        "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy volumeMounts "
        "volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath "
        "terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty"
    ),
    "name": "text",
    "image": "text",
    "args": ["text"],
    "command": ["text"],
    "ports": [{"containerPort": "number", "name": "text", "protocol": "text"}],
    "env": _NAMED,
    "envFrom": [{}],
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
    "volumeMounts": [{"name": "text", "mountPath": "text"}],
    **_typed("text", "workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy restartPolicy"),
    **_typed("flag", "stdin stdinOnce tty"),
}
_CONDITIONS: Final = [{"type": "text", "status": "text"}]
_METADATA: Final = {
    "": words(
        "name generateName namespace uid resourceVersion generation creationTimestamp deletionTimestamp "
        "deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields selfLink clusterName"
    ),
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
    "": words(
        "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds "
        "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken "
        "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname "
        "subdomain affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates "
        "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os "
        "hostUsers schedulingGates resourceClaims resources"
    ),
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": "text", "persistentVolumeClaim": {"claimName": "text"}}],
    "tolerations": [{"key": "text", "effect": "text", "operator": "text"}],
    "nodeSelector": _TEXTS,
    "imagePullSecrets": _NAMED,
    **_typed(
        "text", "restartPolicy nodeName serviceAccountName serviceAccount schedulerName dnsPolicy hostname subdomain"
    ),
    **_typed("text", "priorityClassName runtimeClassName preemptionPolicy"),
    **_typed("number", "terminationGracePeriodSeconds activeDeadlineSeconds priority"),
    **_typed(
        "flag", "automountServiceAccountToken hostNetwork hostPID hostIPC shareProcessNamespace enableServiceLinks"
    ),
    **_typed("flag", "setHostnameAsFQDN hostUsers"),
}
_SET: Final[Mapping[str, Any]] = {
    "replicas": "number",
    "minReadySeconds": "number",
    "selector": {
        "matchLabels": _TEXTS,
        "matchExpressions": [{"key": "text", "operator": "text", "values": ["text"]}],
    },
    "template": {
        "": words("metadata spec"),
        "metadata": {
            # Names, namespace and owners have no effect, as on the real server; Spark's have them.
            "": words("name generateName namespace labels annotations finalizers ownerReferences creationTimestamp"),
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "finalizers": ["text"],
        },
        "spec": _POD_SPEC,
    },
}
_ROLLED: Final = {**_SET, "revisionHistoryLimit": "number"}
_CLAIM: Final = {
    "": words("kind apiVersion metadata spec status"),
    "metadata": _METADATA,
    "spec": {"accessModes": ["text"]},
}


def _set(shape: Mapping[str, Any]) -> Any:
    """A set, whose spec has no other fields than its shape."""
    return {"spec": {"": frozenset(shape), **shape}, "status": {}}


_TYPED: Final[Mapping[str, Any]] = {
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
    "deployments": _set(
        _ROLLED
        | {
            "paused": "flag",
            "progressDeadlineSeconds": "number",
            "strategy": {"type": "text", "rollingUpdate": {"maxUnavailable": "port", "maxSurge": "port"}},
        }
    ),
    "replicasets": _set(_SET),
    "statefulsets": _set(
        _ROLLED
        | {
            "serviceName": "text",
            "podManagementPolicy": "text",
            "volumeClaimTemplates": [_CLAIM],
            "updateStrategy": {"type": "text", "rollingUpdate": {}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "text", "whenScaled": "text"},
        }
    ),
    "serviceaccounts": {"secrets": [{}], "imagePullSecrets": _NAMED, "automountServiceAccountToken": "flag"},
}


SHAPES: Final[Mapping[str, Any]] = {
    kind.resource: {
        "": kind.fields | words("apiVersion kind metadata"),
        "apiVersion": "text",
        "kind": "text",
        "metadata": _METADATA,
        **_TYPED[kind.plural],
    }
    for kind in KINDS
}
"""By the kind's qualified plural."""


def well_shaped(kind: ApiKind, item: FrozenObject) -> FrozenObject:
    """The object without nulls in metadata and spec; a refusal where a type is wrong or a field is not known."""
    cleaned = {name: _without_nulls(item[name]) for name in ("metadata", "spec") if item.get(name) is not None}
    if any(cleaned[name] is not item[name] for name in cleaned):
        item = FrozenObject({**item, **cleaned})
    place = _misfit(item, SHAPES[kind.resource], "", kind)
    if place:
        raise wrong_type(kind, place)
    return item


def wrong_type(kind: ApiKind, place: str) -> ApiRefusal:
    """400: a field has a value of another type."""
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: {place} has a value of another type")


def _misfit(value: Json, shape: Any, place: str, kind: ApiKind) -> str:
    """Where a value has another type than its shape, empty where it fits; a refusal of a field that its shape has not."""
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
            (found for one, of, where in inner if (found := place if one is None else _misfit(one, of, where, kind))),
            "",
        )
    if not isinstance(value, FrozenObject):
        return place
    prefix = f"{place}." if place else ""
    known = shape.get("")
    if known is not None and (unknown := value.keys() - known):
        raise unsupported(f'the field "{prefix}{min(unknown)}" of {kind.kind}')
    every = shape.get("*")
    for name in value:
        inside = every or shape.get(name)
        if inside is not None and name and (found := _misfit(value[name], inside, prefix + name, kind)):
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
