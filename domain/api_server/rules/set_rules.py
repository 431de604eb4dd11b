"""ReplicaSets, StatefulSets and Deployments: defaults, what has to hold, what may not change.

Texts are kube-apiserver 1.20's (pkg/apis/apps/validation). What the controllers here do not play is refused: a roll-out of
another template (Deployment, StatefulSet), pods one after the other (OrderedReady), minReadySeconds, a Deployment that is
paused, ordinals, claims that are deleted with their pods.
"""

from __future__ import annotations

from typing import Any, Final

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, drop, filled, put
from podtide.domain.api_server.rules.metadata_rules import dns_label, label_faults
from podtide.domain.api_server.rules.pod_rules import spec_defaults, spec_faults
from podtide.domain.api_server.selectors import label_selection
from podtide.domain.api_server.statuses import FieldFault, not_allowed, not_one_of, required, unsupported, wrong

SETS: Final = frozenset({"deployments", "replicasets", "statefulsets"})

_EXPRESSIONS: Final = ("DoesNotExist", "Exists", "In", "NotIn")
_STATEFUL_CHANGES: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'template', and 'updateStrategy' are forbidden"
)


def set_defaults(item: FrozenObject) -> FrozenObject:
    """The set with the defaults of its kind and of its template."""
    made: dict[str, Any] = {"replicas": 1}
    if item["kind"] == "StatefulSet":
        rolling = FrozenObject(type="RollingUpdate", rollingUpdate=FrozenObject(partition=0))
        made |= {
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": rolling,
            "revisionHistoryLimit": 10,
            "serviceName": "",
        }
    if item["kind"] == "Deployment":
        rolling = FrozenObject(maxUnavailable="25%", maxSurge="25%")
        strategy = FrozenObject(type="RollingUpdate", rollingUpdate=rolling)
        made |= {"strategy": strategy, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    spec = filled(item.get("spec") or EMPTY, made)
    template = at(spec, ("template", "spec"))
    if isinstance(template, FrozenObject):
        spec = put(spec, ("template", "spec"), spec_defaults(template))
    if spec.get("volumeClaimTemplates"):
        spec = put(spec, ("volumeClaimTemplates",), tuple(map(_claim, spec["volumeClaimTemplates"])))
    return put(item, ("spec",), spec)


def _claim(claim: FrozenObject) -> FrozenObject:
    spec = filled(claim.get("spec") or EMPTY, {"volumeMode": "Filesystem"})
    named = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "status": FrozenObject(phase="Pending")}
    return FrozenObject({**filled(claim, named), "spec": spec})


def set_faults(item: FrozenObject) -> list[FieldFault]:
    """Everything that is wrong with a set's spec."""
    kind, spec = item["kind"], item["spec"]
    _refuse_unplayed(kind, spec)
    faults = _policy_faults(kind, spec)
    if spec["replicas"] < 0:
        faults.append(wrong("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector = spec.get("selector")
    if selector is None:
        faults.append(required("spec.selector"))
    else:
        broken = _selector_faults(kind, selector)
        if broken:
            return [*faults, *broken]
    for number, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        # The real server leaves that to the controller, which then fails at each pod.
        field = f"spec.volumeClaimTemplates[{number}].metadata.name"
        name = at(claim, ("metadata", "name"))
        faults += dns_label(field, name) if name else [required(field)]
    labels = at(spec, ("template", "metadata", "labels")) or EMPTY
    if selector is None or not label_selection(selector).matches({"metadata": {"labels": labels}}):
        why = "`selector` does not match template `labels`"
        faults.append(FieldFault("FieldValueInvalid", f"Invalid value: {_go_map(labels)}: {why}",
                                 "spec.template.metadata.labels"))  # fmt: skip
    faults += label_faults("spec.template.labels", labels)
    pod = at(spec, ("template", "spec")) or spec_defaults(EMPTY)
    for fault in spec_faults(pod, "spec.template.spec"):
        # A StatefulSet's containers mount its claims, too: the real server leaves all mounts there to the pods.
        left_to_pods = kind == "StatefulSet" and fault.reason == "FieldValueNotFound"
        if fault.field != "spec.template.spec.restartPolicy" and not left_to_pods:
            faults.append(fault)
    if pod["restartPolicy"] != "Always":
        faults.append(not_one_of("spec.template.spec.restartPolicy", pod["restartPolicy"], ["Always"]))
    return faults


def _refuse_unplayed(kind: str, spec: FrozenObject) -> None:
    """Refuse what the controllers here would not do."""
    if spec.get("minReadySeconds"):
        raise unsupported(f"minReadySeconds of a {kind}: a pod is available as soon as it is ready")
    if spec.get("paused"):
        raise unsupported("a paused Deployment")
    if spec.get("podManagementPolicy") == "OrderedReady":
        raise unsupported("podManagementPolicy OrderedReady (the default): say Parallel, as Spark does")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or EMPTY
    if any(value != "Retain" for value in retention.values()):
        raise unsupported("claims that are deleted with their StatefulSet's pods")
    if at(spec, ("updateStrategy", "rollingUpdate", "partition")):
        raise unsupported("a partition of a roll-out")


def _policy_faults(kind: str, spec: FrozenObject) -> list[FieldFault]:
    if kind == "StatefulSet" and spec["podManagementPolicy"] != "Parallel":
        why = "must be 'OrderedReady' or 'Parallel'"
        return [wrong("spec.podManagementPolicy", spec["podManagementPolicy"], why)]
    field = {"StatefulSet": "updateStrategy", "Deployment": "strategy"}.get(kind, "")
    choices = ["OnDelete", "RollingUpdate"] if kind == "StatefulSet" else ["Recreate", "RollingUpdate"]
    chosen = at(spec, (field, "type")) or ""
    return [] if not field or chosen in choices else [not_one_of(f"spec.{field}", chosen, choices)]


def _selector_faults(kind: str, selector: FrozenObject) -> list[FieldFault]:
    faults = label_faults("spec.selector.matchLabels", selector.get("matchLabels") or EMPTY)
    for number, one in enumerate(selector.get("matchExpressions") or ()):
        place = f"spec.selector.matchExpressions[{number}]"
        operator, values = one.get("operator", ""), one.get("values") or ()
        if operator not in _EXPRESSIONS:
            faults.append(wrong(f"{place}.operator", operator, "not a valid selector operator"))
        elif operator in {"In", "NotIn"} and not values:
            faults.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator not in {"In", "NotIn"} and values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(not_allowed(f"{place}.values", why))
        if not one.get("key"):
            faults.append(wrong(f"{place}.key", "", "name part must be non-empty"))
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        what = "statefulset" if kind == "StatefulSet" else "deployment"
        shown = f"{_go_selector(selector)}: empty selector is invalid for {what}"
        faults.append(FieldFault("FieldValueInvalid", f"Invalid value: {shown}", "spec.selector"))
    return faults


def set_change_faults(old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    """What a change of a set may not do."""
    kind, was, now = old["kind"], old["spec"], new["spec"]
    if was == now:
        return []
    faults = []
    if kind == "StatefulSet":
        one, other = (drop(drop(drop(spec, ("replicas",)), ("template",)), ("updateStrategy",)) for spec in (was, now))
        if one != other:
            faults.append(not_allowed("spec", _STATEFUL_CHANGES))
    elif was.get("selector") != now.get("selector"):
        shown = f"Invalid value: {_go_selector(now.get('selector') or EMPTY)}: field is immutable"
        faults.append(FieldFault("FieldValueInvalid", shown, "spec.selector"))
    if not faults and was.get("template") != now.get("template"):
        raise unsupported(f"another template for a {kind}: nothing would roll it out; delete it and make a new one")
    return faults


def _go_map(labels: FrozenObject) -> str:
    inner = ", ".join(f'"{key}":"{value}"' for key, value in sorted(labels.items()))
    return f"map[string]string{{{inner}}}" if labels else "map[string]string(nil)"


def _go_selector(selector: Json) -> str:
    """A selector as Go prints it; expressions, which are pointers and lists there, are named only."""
    labels = selector.get("matchLabels")
    shown = "map[string]string(nil)" if labels is None else _go_map(labels) if labels else "map[string]string{}"
    expressions = "[...]" if selector.get("matchExpressions") else "(nil)"
    return f"v1.LabelSelector{{MatchLabels:{shown}, MatchExpressions:[]v1.LabelSelectorRequirement{expressions}}}"
