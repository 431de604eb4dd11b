"""What the controllers of pods share: which pods are theirs, how pods are made, what happens when one is refused.

A pod belongs to the set that its controller reference names. One without a controller is adopted by a set of its namespace
whose selector it matches; one that does not match its set's selector any more is released.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from podtide.domain.api_server import quotas, writes
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, drop, put
from podtide.domain.api_server.kinds import BY_RESOURCE, PODS, ApiKind
from podtide.domain.api_server.selectors import label_selection
from podtide.domain.api_server.state import Books, ObjectKey, controller_of, ended
from podtide.domain.api_server.statuses import ApiRefusal

_REFERENCES: Final = ("metadata", "ownerReferences")
_EVENTS: Final = BY_RESOURCE["events"]


def deleting(item: FrozenObject) -> bool:
    """Whether an object is on its way out."""
    return "deletionTimestamp" in item["metadata"]


def ready(pod: FrozenObject) -> bool:
    """Whether a pod says that it is ready."""
    return bool(at(_ready_condition(pod), ("status",)) == "True")


def ready_since(pod: FrozenObject) -> str:
    """Since when a pod is ready, as it stands in its condition; empty where nobody wrote it."""
    return str(at(_ready_condition(pod), ("lastTransitionTime",)) or "")


def _ready_condition(pod: FrozenObject) -> Json:
    conditions = at(pod, ("status", "conditions")) or ()
    return next((one for one in conditions if one.get("type") == "Ready"), None)


def reference(owner: FrozenObject) -> FrozenObject:
    """The reference of what a controller makes for ``owner``."""
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return FrozenObject(named | {"uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True})


def pod_of(owner: FrozenObject, **metadata: Json) -> FrozenObject:
    """A pod of a set's template, as it is sent; ``metadata`` comes on top of the template's."""
    template = owner["spec"]["template"]
    kept = {
        name: value for name in ("labels", "annotations", "finalizers") if (value := at(template, ("metadata", name)))
    }
    named = {**kept, **metadata, "ownerReferences": (reference(owner),)}
    return FrozenObject(metadata=FrozenObject(named), spec=at(template, ("spec",)))


def claim_or_release(books: Books, owner: FrozenObject, pods: Iterable[ObjectKey], *, adopts: bool = True) -> bool:
    """Adopt and release pods; whether there was any. ``adopts``: the set takes pods without a controller."""
    chosen, uid, acted = label_selection(owner["spec"]["selector"]), owner["metadata"]["uid"], False
    for key in pods:
        pod = books.found(key)
        if pod is None or deleting(pod):
            continue
        controller, fits = controller_of(pod), chosen.matches(pod)
        if controller == uid and not fits:
            rest = tuple(one for one in at(pod, _REFERENCES) if one["uid"] != uid)
            books.write(key, put(pod, _REFERENCES, rest) if rest else drop(pod, _REFERENCES))
            acted = True
        elif not controller and fits and adopts and not ended(pod) and not deleting(owner):
            books.write(key, put(pod, _REFERENCES, (*(at(pod, _REFERENCES) or ()), reference(owner))))
            acted = True
    return acted


def make(books: Books, kind: ApiKind, owner: FrozenObject, body: FrozenObject) -> bool:
    """Make an object for a set. A refusal is told by an Event of the set, and the set is looked at again later."""
    namespace = owner["metadata"]["namespace"]
    try:
        writes.create(books, kind, namespace, body)
        # The next one has to meet a quota that knows of this one.
        quotas.keep_books(books)
    except ApiRefusal as refusal:
        books.retries = books.retries.set(owner["metadata"]["uid"], books.now + books.config.retry_ms)
        _complain(books, owner, kind, str(refusal))
        return False
    return True


def _complain(books: Books, owner: FrozenObject, kind: ApiKind, why: str) -> None:
    """An Event, once for each set and reason; none where the namespace takes nothing any more."""
    metadata = owner["metadata"]
    # Drawn names and what a quota has used differ each time, and say nothing new.
    subject = why.partition("is forbidden: exceeded quota")[1] or why
    digest = sha256(f"{metadata['uid']} {kind.resource} {subject}".encode()).hexdigest()
    name = f"{metadata['name']}.{digest[:16]}"
    if books.find(_EVENTS, metadata["namespace"], name) is not None:
        return
    about = {"kind": owner["kind"], "apiVersion": owner["apiVersion"], "uid": metadata["uid"]}
    about |= {"namespace": metadata["namespace"], "name": metadata["name"]}
    body = {
        "metadata": {"name": name},
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": f"Error creating: {why}",
        "type": "Warning",
        "source": {"component": f"{owner['kind'].lower()}-controller"},
        "firstTimestamp": books.time,
        "lastTimestamp": books.time,
        "count": 1,
    }
    try:
        writes.create(books, _EVENTS, metadata["namespace"], body)
    except ApiRefusal:
        return


def remove_pod(books: Books, key: ObjectKey) -> bool:
    """Delete a pod that its set does not want; whether it was there and stayed until now."""
    pod = books.found(key)
    if pod is None or deleting(pod):
        return False
    writes.remove(books, key, pod, writes.DeleteOptions())
    return True


def report(books: Books, key: ObjectKey, status: dict[str, Json]) -> None:
    """Write a set's status where it is another one; zeros are left out, as Go's omitempty does, but of ``replicas``."""
    item = books.found(key)
    if item is None:
        return
    # What somebody else wrote into the status stays.
    old = item.get("status") or EMPTY
    kept = {name: value for name, value in old.items() if name not in status}
    shown = {name: value for name, value in status.items() if value or name in {"replicas", "collisionCount"}}
    if (made := FrozenObject(kept | shown)) != old:
        books.write(key, put(item, ("status",), made))


def pod_key(owner: FrozenObject, name: str) -> ObjectKey:
    """Where a pod of a set stands."""
    return ObjectKey(PODS.resource, owner["metadata"]["namespace"], name)
