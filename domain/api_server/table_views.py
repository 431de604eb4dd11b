"""Objects as rows of a Table, which is what kubectl asks for: ``Accept: application/json;as=Table;v=v1;g=meta.k8s.io``.

Columns are the real server's for pods, those that people look at for the other kinds, and name and age for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, frozen
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.selectors import selector_text
from podtide.domain.base.units import Millis
from podtide.domain.jvm.instants import parse_instant

_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"

Cells = Callable[[FrozenObject], tuple[Json, ...]]


def wants_table(accept: str) -> bool:
    """Whether the first choice of an Accept header is a Table (of the version that is served)."""
    first = accept.partition(",")[0].replace(" ", "").split(";")
    return "as=Table" in first and "v=v1" in first and "g=meta.k8s.io" in first


def table(
    kind: ApiKind, items: Iterable[FrozenObject], metadata: Json, now: Millis, include: str = "Metadata"
) -> FrozenObject:
    """Objects as a Table. ``include``: what of an object stands beside its cells: None, Metadata or Object."""
    heads, cells = _COLUMNS.get(kind.plural, _PLAIN)
    rows = []
    for item in items:
        age = _age(item["metadata"].get("creationTimestamp"), now)
        values = [item["metadata"]["name"], *cells(item)]
        values.insert(len([head for head in heads if not head[1]]) + 1, age)
        row: dict[str, Any] = {"cells": values}
        if include == "Metadata":
            partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = partial | {"metadata": item["metadata"]}
        elif include == "Object":
            row["object"] = {**item, "kind": kind.kind, "apiVersion": kind.api_version}
        rows.append(row)
    names: list[tuple[str, bool]] = [
        ("Name", False),
        *((name, wide) for name, wide in heads if not wide),
        ("Age", False),
    ]
    names += [(name, wide) for name, wide in heads if wide]
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": int(wide),
        }
        for name, wide in names
    ]
    made: FrozenObject = frozen(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }
    )
    return made


def _age(created: str | None, now: Millis) -> str:
    moment = parse_instant(created) if created else None
    return _UNKNOWN if moment is None else duration_text(max(0, now - moment) // 1000)


def duration_text(seconds: int) -> str:
    """A duration as kubectl writes it (duration.HumanDuration): two units at most, coarser as it grows."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if days % 365 and years < 8 else f"{years}y"


def _pod_cells(pod: FrozenObject) -> tuple[Json, ...]:
    status = pod.get("status") or EMPTY
    containers = status.get("containerStatuses") or ()
    word = status.get("reason") or status.get("phase") or _UNKNOWN
    for one in reversed(containers):
        state = one.get("state") or EMPTY
        ended = state.get("terminated")
        word = at(state, ("waiting", "reason")) or (ended and _end_word(ended)) or word
    if "deletionTimestamp" in pod["metadata"]:
        word = _UNKNOWN if status.get("reason") == "NodeLost" else "Terminating"
    ready = sum(1 for one in containers if one.get("ready"))
    restarts = sum(one.get("restartCount", 0) for one in containers)
    node, address = at(pod, ("spec", "nodeName")), status.get("podIP")
    wide = (address or _NONE, node or _NONE, status.get("nominatedNodeName") or _NONE, _NONE)
    return f"{ready}/{len(pod['spec']['containers'])}", word, str(restarts), *wide


def _end_word(ended: FrozenObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _node_cells(node: FrozenObject) -> tuple[Json, ...]:
    ready = next((one for one in at(node, ("status", "conditions")) or () if one.get("type") == "Ready"), EMPTY)
    word = {"True": "Ready", "False": "NotReady"}.get(ready.get("status", ""), "Unknown")
    closed = ",SchedulingDisabled" if at(node, ("spec", "unschedulable")) else ""
    return word + closed, _NONE, _text(at(node, ("status", "nodeInfo", "kubeletVersion")))


def _service_cells(service: FrozenObject) -> tuple[Json, ...]:
    spec = service["spec"]
    ports = ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in spec.get("ports") or ())
    chosen = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or EMPTY).items()))
    return spec.get("type"), spec.get("clusterIP") or _NONE, _NONE, ports or _NONE, chosen or _NONE


def _count(*fields: str) -> Cells:
    return lambda item: (str(sum(len(item.get(field) or ()) for field in fields)),)


def _set_cells(*counts: Cells) -> Cells:
    def cells(item: FrozenObject) -> tuple[Json, ...]:
        containers = at(item, ("spec", "template", "spec", "containers")) or ()
        names = ",".join(str(one.get("name")) for one in containers)
        images = ",".join(str(one.get("image")) for one in containers)
        selector = () if item.get("kind") == "StatefulSet" else (selector_text(at(item, ("spec", "selector"))),)
        return (*(value for count in counts for value in count(item)), names, images, *selector)

    return cells


def _of_set(*fields: str) -> Cells:
    return lambda item: tuple(at(item, ("status", field)) or 0 for field in fields)


def _ready_of(item: FrozenObject) -> tuple[Json, ...]:
    return (f"{at(item, ('status', 'readyReplicas')) or 0}/{item['spec']['replicas']}",)


def _desired(item: FrozenObject) -> tuple[Json, ...]:
    return (item["spec"]["replicas"],)


def _texts(*paths: tuple[str, ...]) -> Cells:
    return lambda item: tuple(_text(at(item, path)) for path in paths)


def _text(value: Json) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


def _heads(names: str, wide: str = "") -> tuple[tuple[str, bool], ...]:
    return (*((name, False) for name in names.split("|")), *((name, True) for name in wide.split("|") if name))


_PLAIN: Final[tuple[tuple[tuple[str, bool], ...], Cells]] = ((), lambda _: ())
_COLUMNS: Final[Mapping[str, tuple[tuple[tuple[str, bool], ...], Cells]]] = {
    "pods": (_heads("Ready|Status|Restarts", "IP|Node|Nominated Node|Readiness Gates"), _pod_cells),
    "nodes": (_heads("Status|Roles|Version"), _node_cells),
    "services": (_heads("Type|Cluster-IP|External-IP|Port(s)", "Selector"), _service_cells),
    "configmaps": (_heads("Data"), _count("data", "binaryData")),
    "secrets": (_heads("Type|Data"), lambda item: (item.get("type"), *_count("data")(item))),
    "serviceaccounts": (_heads("Secrets"), _count("secrets")),
    "namespaces": (_heads("Status"), _texts(("status", "phase"))),
    "leases": (_heads("Holder"), _texts(("spec", "holderIdentity"))),
    "events": (_heads("Type|Reason|Message"), _texts(("type",), ("reason",), ("message",))),
    "statefulsets": (_heads("Ready", "Containers|Images"), _set_cells(_ready_of)),
    "deployments": (
        _heads("Ready|Up-to-date|Available", "Containers|Images|Selector"),
        _set_cells(_ready_of, _of_set("updatedReplicas", "availableReplicas")),
    ),
    "replicasets": (
        _heads("Desired|Current|Ready", "Containers|Images|Selector"),
        _set_cells(_desired, _of_set("replicas", "readyReplicas")),
    ),
    "persistentvolumeclaims": (
        _heads("Status|Volume|Capacity|Access Modes|StorageClass"),
        _texts(
            ("status", "phase"),
            ("spec", "volumeName"),
            ("status", "capacity", "storage"),
            ("spec", "accessModes"),
            ("spec", "storageClassName"),
        ),
    ),
}


def row_of(kind: ApiKind, item: FrozenObject, now: Millis, include: str = "Metadata") -> FrozenObject:
    """One object as a Table, for a get or the event of a watch."""
    metadata: dict[str, Any] = {"resourceVersion": item["metadata"]["resourceVersion"]}
    return table(kind, (item,), metadata, now, include)
