"""What each kind adds: defaults, what a create begins with, what has to hold, what may not change.

As far as clients rely on it: what kubectl, fabric8 and the Python client read back, and the refusals that tell of a wrong
manifest. The rules and texts are kube-apiserver 1.20's (pkg/apis/core/v1/defaults.go, pkg/apis/core/validation).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, drop, filled, put
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.quotas import BOUNDS
from podtide.domain.api_server.rules.metadata_rules import label_faults, subdomain
from podtide.domain.api_server.rules.pod_rules import begun_status, parsed, pod_change_faults, pod_defaults, pod_faults
from podtide.domain.api_server.rules.set_rules import SETS, set_change_faults, set_defaults, set_faults
from podtide.domain.api_server.statuses import (
    FieldFault,
    bad_request,
    duplicate,
    not_allowed,
    not_one_of,
    required,
    unsupported,
    wrong,
)
from podtide.domain.jvm.quantities import parse_quantity

_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_DATA_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_DATA_MAX: Final = 1024 * 1024
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
_CLAIM_IMMUTABLE: Final = "spec is immutable after creation except resources.requests for bound claims"
_STORAGE: Final = ("spec", "resources", "requests", "storage")
_PORT: Final = "must be between 1 and 65535, inclusive"
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")

_CHANGES_FIRST: Final = frozenset({"configmaps", "secrets", "services"})
"""Of which the real server names what may not change before all else that is wrong."""

Rule = Callable[[FrozenObject], FrozenObject]


def with_defaults(kind: ApiKind, item: FrozenObject) -> FrozenObject:
    """The object as the server keeps it, on every write."""
    rule = _DEFAULTS.get(kind.resource)
    return item if rule is None else rule(item)


def begun(kind: ApiKind, item: FrozenObject, draw: int) -> FrozenObject:
    """A new object: the status as it begins, and what is drawn (``draw`` is a number that no other object has)."""
    if kind.plural == "services":
        return _begun_service(item, draw)
    if kind.plural == "namespaces":
        spec = FrozenObject(finalizers=("kubernetes",))
        return FrozenObject({**item, "spec": spec, "status": FrozenObject(phase="Active")})
    if kind.plural == "pods":
        return put(item, ("status",), begun_status(item))
    if kind.plural == "persistentvolumes":
        # No kubernetes.io/pv-protection: the volume controller, which takes it away, is not played here.
        return put(item, ("status",), FrozenObject(phase="Pending"))
    if kind.plural == "persistentvolumeclaims":
        item = put(item, ("status",), FrozenObject(phase="Pending"))
        finalizers = item["metadata"].get("finalizers") or ()
        protected = finalizers if CLAIM_PROTECTION in finalizers else (*finalizers, CLAIM_PROTECTION)
        return put(item, ("metadata", "finalizers"), protected)
    if kind.plural in SETS:
        status = EMPTY if kind.plural == "deployments" else FrozenObject(replicas=0)
        return put(put(item, ("metadata", "generation"), 1), ("status",), status)
    if kind.plural == "networkpolicies":
        return put(item, ("metadata", "generation"), 1)
    return item


def faults_of(kind: ApiKind, item: FrozenObject) -> list[FieldFault]:
    """Everything that is wrong with an object besides its metadata."""
    rule = _FAULTS.get(kind.resource)
    return [] if rule is None else rule(item)


def faults_of_change(kind: ApiKind, old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    """Everything that is wrong with an object that takes the place of another, in the order of the real server."""
    there, changed = faults_of(kind, new), _change_faults(kind, old, new)
    return changed + there if kind.plural in _CHANGES_FIRST else there + changed


def _change_faults(kind: ApiKind, old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    """What a change may not do."""
    if kind.plural == "pods":
        return pod_change_faults(old, new)
    if kind.plural in SETS:
        return set_change_faults(old, new)
    if kind.plural in {"configmaps", "secrets"}:
        return _data_change_faults(kind, old, new)
    if kind.plural == "persistentvolumeclaims":
        bound = at(old, ("status", "phase")) == "Bound"
        path = ("spec", "resources", "requests")
        one, other = (drop(item, path) if bound and at(item, path) else item for item in (old, new))
        # A claim is bound by its spec: whoever plays the volume controller sets volumeName once.
        if not at(old, ("spec", "volumeName")):
            other = drop(other, ("spec", "volumeName"))
            one = drop(one, ("spec", "volumeName"))
        faults = [] if one.get("spec") == other.get("spec") else [not_allowed("spec", _CLAIM_IMMUTABLE)]
        was, now = (parse_quantity(str(at(item, _STORAGE))) for item in (old, new))
        if was is not None and now is not None and now < was:
            faults.append(not_allowed(".".join(_STORAGE), "field can not be less than previous value"))
        return faults
    if kind.plural == "services":
        was, now = at(old, ("spec", "clusterIP")), at(new, ("spec", "clusterIP"))
        return [wrong("spec.clusterIPs[0]", now or "", "field is immutable")] if was and now != was else []
    return []


# services


def _begun_service(item: FrozenObject, draw: int) -> FrozenObject:
    spec = item.get("spec") or EMPTY
    item = put(item, ("status",), FrozenObject(loadBalancer=EMPTY))
    if spec.get("type", "ClusterIP") == "ExternalName":
        return item
    address = spec.get("clusterIP") or f"10.{96 + draw // 62500 % 32}.{draw // 250 % 250}.{1 + draw % 250}"
    return put(put(item, ("spec", "clusterIP"), address), ("spec", "clusterIPs"), (address,))


def _service_defaults(item: FrozenObject) -> FrozenObject:
    spec = filled(item.get("spec") or EMPTY, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec = put(spec, ("clusterIPs",), (spec["clusterIP"],))
    ports = spec.get("ports")
    if isinstance(ports, tuple):
        kept = tuple(filled(port, {"protocol": "TCP", "targetPort": port.get("port")}) for port in ports)
        spec = put(spec, ("ports",), kept)
    return put(item, ("spec",), spec)


def _service_faults(item: FrozenObject) -> list[FieldFault]:
    spec = item["spec"]
    ports = spec.get("ports") or ()
    faults = []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and spec["type"] != "ExternalName":
        faults.append(required("spec.ports"))
    if spec["type"] not in {"ClusterIP", "ExternalName", "NodePort", "LoadBalancer"}:
        choices = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
        faults.append(not_one_of("spec.type", spec["type"], choices))
    for number, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            faults.append(required(f"spec.ports[{number}].name"))
        if port.get("name") and port["name"] in [one.get("name") for one in ports[:number]]:
            faults.append(duplicate(f"spec.ports[{number}].name", port["name"]))
        value = port.get("port")
        if not isinstance(value, int) or not 1 <= value <= 65535:
            faults.append(wrong(f"spec.ports[{number}].port", value or 0, _PORT))
        aim = port.get("targetPort")
        if isinstance(aim, int) and not 1 <= aim <= 65535:
            faults.append(wrong(f"spec.ports[{number}].targetPort", aim, _PORT))
    return faults + label_faults("spec.selector", spec.get("selector") or EMPTY)


# config maps and secrets


def _secret_defaults(item: FrozenObject) -> FrozenObject:
    texts = item.get("stringData")
    if texts is not None:
        data = dict(item.get("data") or {})
        data |= {key: b64encode(str(value).encode()).decode() for key, value in texts.items()}
        item = put(drop(item, ("stringData",)), ("data",), FrozenObject(data))
    return filled(item, {"type": "Opaque"})


def _data_faults(item: FrozenObject) -> list[FieldFault]:
    faults, size = list[FieldFault](), 0
    for field in ("data", "binaryData"):
        data = item.get(field) or EMPTY
        for key, value in data.items():
            if not isinstance(value, str):
                kind = item.get("kind", "")
                why = f"{field}[{key}] is no text"
                raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {why}')
            size += len(value.encode())
            if not _DATA_KEY.fullmatch(key):
                faults.append(wrong(f"{field}[{key}]", key, _DATA_KEY_TEXT))
    if size > _DATA_MAX:
        faults.append(FieldFault("FieldValueTooLong", f"Too long: must have at most {_DATA_MAX} bytes", ""))
    return faults


def _data_change_faults(kind: ApiKind, old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    faults = []
    if kind.plural == "secrets" and old.get("type") != new.get("type"):
        faults.append(wrong("type", new.get("type", ""), "field is immutable"))
    if old.get("immutable"):
        why = "field is immutable when `immutable` is set"
        if not new.get("immutable"):
            faults.append(not_allowed("immutable", why))
        faults += [not_allowed(f, why) for f in ("data", "binaryData") if (old.get(f) or {}) != (new.get(f) or {})]
    return faults


# volumes, leases, events, policies


def _claim_faults(item: FrozenObject) -> list[FieldFault]:
    spec = item.get("spec") or EMPTY
    faults = []
    modes = spec.get("accessModes") or ()
    if not modes:
        faults.append(required("spec.accessModes", "at least 1 access mode is required"))
    faults += [not_one_of("spec.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    faults += _storage_faults("spec.resources[storage]", at(spec, ("resources", "requests", "storage")))
    if spec.get("storageClassName"):
        faults += subdomain("spec.storageClassName", spec["storageClassName"])
    return faults


def _volume_faults(item: FrozenObject) -> list[FieldFault]:
    spec = item.get("spec") or EMPTY
    faults = [] if spec.get("accessModes") else [required("spec.accessModes")]
    if not spec.get("capacity"):
        return [*faults, required("spec.capacity")]
    return faults + _storage_faults("spec.capacity[storage]", at(spec, ("capacity", "storage")))


def _storage_faults(field: str, size: Json) -> list[FieldFault]:
    if size is None:
        return [required(field)]
    return [] if parsed(field, size) > 0 else [wrong(field, str(size), "must be greater than zero")]


def _lease_faults(item: FrozenObject) -> list[FieldFault]:
    spec = item.get("spec") or EMPTY
    faults = []
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        faults.append(wrong("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        faults.append(wrong("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return faults


def _event_faults(item: FrozenObject) -> list[FieldFault]:
    place = at(item, ("involvedObject", "namespace")) or ""
    home = item["metadata"].get("namespace", "")
    if place == home or (not place and home == "default"):
        return []
    return [wrong("involvedObject.namespace", place, "does not match event.namespace")]


def _policy_defaults(item: FrozenObject) -> FrozenObject:
    spec = item.get("spec") or EMPTY
    types = ("Ingress", "Egress") if spec.get("egress") else ("Ingress",)
    return put(item, ("spec",), filled(spec, {"podSelector": EMPTY, "policyTypes": types}))


def _spec_defaults(**defaults: Json) -> Rule:
    return lambda item: put(item, ("spec",), filled(item.get("spec") or EMPTY, defaults))


def _event_defaults(item: FrozenObject) -> FrozenObject:
    defaults: dict[str, Any] = {
        "source": EMPTY,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    return filled(item, defaults)


def _quota_faults(item: FrozenObject) -> list[FieldFault]:
    spec = item.get("spec") or EMPTY
    strange = sorted(spec.keys() - {"hard"}) or sorted((spec.get("hard") or EMPTY).keys() - BOUNDS)
    if strange:
        raise unsupported(f'"{strange[0]}" in the spec of a ResourceQuota')
    faults = []
    for bound, text in sorted((spec.get("hard") or EMPTY).items()):
        if parsed(f"spec.hard[{bound}]", text) < 0:
            faults.append(wrong(f"spec.hard[{bound}]", str(text), "must be greater than or equal to 0"))
    return faults


_DEFAULTS: Final[Mapping[str, Rule]] = {
    "pods": pod_defaults,
    "services": _service_defaults,
    "resourcequotas": _spec_defaults(),
    "secrets": _secret_defaults,
    "events": _event_defaults,
    "persistentvolumeclaims": _spec_defaults(volumeMode="Filesystem"),
    "persistentvolumes": _spec_defaults(volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain"),
    "networkpolicies.networking.k8s.io": _policy_defaults,
    **{f"{plural}.apps": set_defaults for plural in SETS},
}
_FAULTS: Final[Mapping[str, Callable[[FrozenObject], list[FieldFault]]]] = {
    "pods": pod_faults,
    "services": _service_faults,
    "resourcequotas": _quota_faults,
    "secrets": _data_faults,
    "configmaps": _data_faults,
    "persistentvolumeclaims": _claim_faults,
    "persistentvolumes": _volume_faults,
    "leases.coordination.k8s.io": _lease_faults,
    "events": _event_faults,
    **{f"{plural}.apps": set_faults for plural in SETS},
}
