"""Pods: the defaults of kube-apiserver, what has to hold of a manifest, what may still change afterwards.

A pod's spec stands still after its creation but for images, activeDeadlineSeconds and added tolerations. Its node is set
by a binding, its status through the status sub-resource.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, drop, filled, put
from podtide.domain.api_server.rules.metadata_rules import dns_label, label_faults
from podtide.domain.api_server.statuses import (
    FieldFault,
    bad_request,
    duplicate,
    not_allowed,
    not_one_of,
    required,
    wrong,
)
from podtide.domain.jvm.quantities import parse_quantity

_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)"
)
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_KINDS: Final = ("containers", "initContainers")


def pod_defaults(item: FrozenObject) -> FrozenObject:
    """The pod with what the server and its admission add."""
    spec = item.get("spec")
    if not isinstance(spec, FrozenObject):
        raise bad_request('Pod in version "v1" cannot be handled as a Pod: no spec')
    spec = filled(spec, {"priority": 0, "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"})
    spec = put(spec_defaults(spec), ("tolerations",), _tolerations(spec.get("tolerations") or ()))
    item = put(item, ("spec",), spec)
    address = at(item, ("status", "podIP"))
    if address and not at(item, ("status", "podIPs")):
        item = put(item, ("status", "podIPs"), (FrozenObject(ip=address),))
    return item


def spec_defaults(spec: FrozenObject) -> FrozenObject:
    """A pod's spec with its defaults, as it stands in a template too: without what admission adds to a pod."""
    made: dict[str, Any] = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": EMPTY,
        "schedulerName": "default-scheduler",
    }
    made |= spec
    for field in _KINDS:
        if field in spec:
            if not isinstance(spec[field], tuple) or not all(isinstance(one, FrozenObject) for one in spec[field]):
                raise bad_request(f'Pod in version "v1" cannot be handled as a Pod: spec.{field} is no list of objects')
            made[field] = tuple(map(_container, spec[field]))
    if spec.get("serviceAccountName"):
        made["serviceAccount"] = spec["serviceAccountName"]
    return FrozenObject(made)


def begun_status(item: FrozenObject) -> FrozenObject:
    """The status of a pod that was just made."""
    return FrozenObject(phase="Pending", qosClass=_quality(item["spec"]))


def _container(container: FrozenObject) -> FrozenObject:
    image = container.get("image", "")
    untagged = ":" not in image.rpartition("/")[2] and "@" not in image
    made: dict[str, Any] = {
        "resources": EMPTY,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if untagged or image.endswith(":latest") else "IfNotPresent",
    }
    made |= container
    limits = at(container, ("resources", "limits"))
    if limits:
        # What is limited is asked for, unless the manifest says how much.
        requests = FrozenObject({**limits, **(at(container, ("resources", "requests")) or {})})
        made["resources"] = put(made["resources"], ("requests",), requests)
    if container.get("ports"):
        made["ports"] = tuple(port if "protocol" in port else put(port, ("protocol",), "TCP") for port in made["ports"])
    return FrozenObject(made)


def _tolerations(given: Json) -> Json:
    """DefaultTolerationSeconds: a node may be away for five minutes, unless the pod says something of that."""
    added = tuple(
        FrozenObject(key=key, operator="Exists", effect="NoExecute", tolerationSeconds=300)
        for key in _TOLERATED
        if not any(
            (not one.get("key") or one["key"] == key) and one.get("effect", "NoExecute") == "NoExecute" for one in given
        )
    )
    return (*given, *added)


def _quality(spec: FrozenObject) -> str:
    resources = [container.get("resources") or EMPTY for field in _KINDS for container in spec.get(field) or ()]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    for one in resources:
        limits, requests = one.get("limits") or {}, one.get("requests") or {}
        if not {"cpu", "memory"} <= limits.keys() or any(
            requests.get(name, limits[name]) != limits[name] for name in limits
        ):
            return "Burstable"
    return "Guaranteed"


def pod_faults(item: FrozenObject) -> list[FieldFault]:
    """Everything that is wrong with a pod's spec."""
    return spec_faults(item["spec"], "spec")


def spec_faults(spec: FrozenObject, root: str) -> list[FieldFault]:
    """Everything that is wrong with the spec of a pod or, at ``root``, of a template."""
    volumes = [volume.get("name", "") for volume in spec.get("volumes") or ()]
    faults = []
    for number, name in enumerate(volumes):
        field = f"{root}.volumes[{number}].name"
        faults += [required(field)] if not name else dns_label(field, name)
        if name in volumes[:number]:
            faults.append(duplicate(field, name))
    if not spec.get("containers"):
        faults.append(required(f"{root}.containers"))
    names: set[str] = set()
    for field in _KINDS:
        for number, container in enumerate(spec.get(field) or ()):
            faults += _container_faults(f"{root}.{field}[{number}]", container, names, volumes)
    if spec["restartPolicy"] not in _RESTARTS:
        faults.append(not_one_of(f"{root}.restartPolicy", spec["restartPolicy"], _RESTARTS))
    faults += label_faults(f"{root}.nodeSelector", spec.get("nodeSelector") or EMPTY)
    grace = spec["terminationGracePeriodSeconds"]
    if not isinstance(grace, int) or grace < 0:
        faults.append(wrong(f"{root}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"))
    return faults


def _container_faults(field: str, container: FrozenObject, names: set[str], volumes: list[str]) -> list[FieldFault]:
    name = container.get("name", "")
    faults = [required(f"{field}.name")] if not name else dns_label(f"{field}.name", name)
    if name in names:
        faults.append(duplicate(f"{field}.name", name))
    names.add(name)
    if not container.get("image"):
        faults.append(required(f"{field}.image"))
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        place = f"{field}.volumeMounts[{number}]"
        if mount.get("name") not in volumes:
            message = f'Not found: "{mount.get("name", "")}"'
            faults.append(FieldFault("FieldValueNotFound", message, f"{place}.name"))
        if not mount.get("mountPath"):
            faults.append(required(f"{place}.mountPath"))
    for number, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            faults.append(required(f"{field}.env[{number}].name"))
    return faults + _amount_faults(f"{field}.resources", container["resources"])


def parsed(place: str, text: Json) -> Decimal:
    """An amount; 400 where it is none."""
    amount = parse_quantity(str(text))
    if amount is None:
        raise bad_request(
            f"{place}: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return amount


def _amount_faults(field: str, resources: FrozenObject) -> list[FieldFault]:
    faults = []
    amounts: dict[tuple[str, str], Any] = {}
    for side in ("limits", "requests"):
        for name, text in (resources.get(side) or {}).items():
            amount = amounts[side, name] = parsed('Pod in version "v1" cannot be handled as a Pod', text)
            if amount < 0:
                faults.append(wrong(f"{field}.{side}[{name}]", str(text), "must be greater than or equal to 0"))
    for name, text in (resources.get("requests") or {}).items():
        limit = amounts.get(("limits", name))
        if limit is not None and amounts["requests", name] > limit:
            why = f"must be less than or equal to {name} limit"
            faults.append(wrong(f"{field}.requests", str(text), why))
    return faults


def pod_change_faults(old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    """What a change of a pod's spec may not do."""
    was, now = old["spec"], new["spec"]
    if was == now:
        return []
    faults = []
    before, after = was.get("tolerations") or (), now.get("tolerations") or ()
    if any(one not in after for one in before):
        faults.append(
            not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    deadline, later = was.get("activeDeadlineSeconds"), now.get("activeDeadlineSeconds")
    if deadline is not None and (later is None or later > deadline):
        why = (
            "must be less than or equal to previous value"
            if later is not None
            else "must not update from a positive integer to nil value"
        )
        faults.append(wrong("spec.activeDeadlineSeconds", later, why))
    if _standing(was) != _standing(now):
        faults.append(not_allowed("spec", _CHANGEABLE))
    return faults


def _standing(spec: FrozenObject) -> FrozenObject:
    """What of a spec may not change."""
    for field in _KINDS:
        if field in spec:
            spec = put(spec, (field,), tuple(drop(one, ("image",)) for one in spec[field]))
    return drop(drop(spec, ("tolerations",)), ("activeDeadlineSeconds",))
