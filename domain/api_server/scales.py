"""The scale sub-resource of ReplicaSets, StatefulSets and Deployments: ``autoscaling/v1`` Scale, read and written.

A Scale carries the set's name, uid and version; its replicas are the set's, and the rest of it is only shown. A PUT needs no
namespace here, as on newer servers (1.20 refuses one without).
"""

from __future__ import annotations

from dataclasses import replace

from podtide.domain.api_server import writes
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, frozen, put
from podtide.domain.api_server.kinds import STATEFUL_SETS, ApiKind
from podtide.domain.api_server.selectors import selector_text
from podtide.domain.api_server.state import Books
from podtide.domain.api_server.statuses import bad_request, conflict, invalid, not_found, unsupported, wrong

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(books: Books, kind: ApiKind, namespace: str, name: str) -> FrozenObject:
    """The Scale of a set, or 404: in the words of its kind's storage."""
    item = books.find(kind, namespace, name)
    if item is None:
        raise not_found(kind if kind is STATEFUL_SETS else replace(kind, plural=f"{kind.plural}/scale"), name)
    return scale_of(item)


def scale_of(item: FrozenObject) -> FrozenObject:
    """The Scale of a set."""
    metadata = FrozenObject({name: item["metadata"][name] for name in _SHOWN})
    selector = selector_text(item["spec"]["selector"])
    status = FrozenObject(replicas=at(item, ("status", "replicas")) or 0, selector=selector)
    named = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    wanted = item["spec"]["replicas"]
    return FrozenObject(named | {"spec": FrozenObject(replicas=wanted) if wanted else EMPTY, "status": status})


def change_scale(books: Books, kind: ApiKind, old: FrozenObject, body: Json) -> FrozenObject:
    """Give a set the replicas of a Scale; returns the Scale that is stored."""
    scale, name = _readable(body), old["metadata"]["name"]
    metadata = scale.get("metadata") or EMPTY
    if metadata.get("name", name) != name:
        why = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        raise bad_request(why)
    if metadata.get("namespace") not in {None, "", old["metadata"]["namespace"]}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    for field in ("uid", "resourceVersion"):
        if metadata.get(field) not in {None, "", old["metadata"][field]}:
            raise conflict(kind, name)
    replicas = at(scale, ("spec", "replicas")) or 0
    if replicas < 0:
        raise invalid(
            "autoscaling", "Scale", name, [wrong("spec.replicas", replicas, "must be greater than or equal to 0")]
        )
    return scale_of(writes.replaced(books, kind, old, put(old, ("spec", "replicas"), replicas)))


def _readable(body: Json) -> FrozenObject:
    scale = frozen(body)
    if not isinstance(scale, FrozenObject):
        raise bad_request("the object provided is unrecognized (must be of type Object): couldn't get version/kind")
    kind, version = scale.get("kind") or "Scale", scale.get("apiVersion") or "autoscaling/v1"
    if kind != "Scale":
        what = f'{kind} in version "{str(version).rpartition("/")[2]}" cannot be handled as a Scale'
        raise bad_request(f"{what}: converting ({version}.{kind}) to (autoscaling.Scale): unknown conversion")
    if version != "autoscaling/v1":
        raise unsupported(f"a Scale of {version}; it takes autoscaling/v1")
    parts = [scale.get(name) for name in ("metadata", "spec")]
    if not all(part is None or isinstance(part, FrozenObject) for part in parts):
        raise bad_request('Scale in version "v1" cannot be handled as a Scale: metadata or spec is no object')
    replicas = at(scale, ("spec", "replicas"))
    if replicas is not None and type(replicas) is not int:
        raise bad_request('Scale in version "v1" cannot be handled as a Scale: spec.replicas is no number')
    return scale
