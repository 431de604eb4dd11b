"""The controller of Deployments: one ReplicaSet, called DEPLOYMENT-HASH, that has the Deployment's replicas.

Another template is refused (``rules.set_rules``), so nothing is ever rolled out. The deadline of a progress is not watched.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from podtide.domain.api_server.controllers import pod_sets
from podtide.domain.api_server.controllers.stateful_sets import revision
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, put
from podtide.domain.api_server.kinds import REPLICA_SETS
from podtide.domain.api_server.state import Books, ObjectKey, controller_of

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"


def sync(books: Books, key: ObjectKey, owner: FrozenObject, *, tries: bool) -> bool:
    """Bring one Deployment nearer to what it should be; whether something was done but the report."""
    uid = owner["metadata"]["uid"]
    row = books.sets[uid]
    if not row.child:
        row = row._replace(child=revision(owner))
        books.sets = books.sets.set(uid, row)
    home = ObjectKey(REPLICA_SETS.resource, key.namespace, row.child)
    child = books.found(home)
    if not pod_sets.deleting(owner) and (child is None or not pod_sets.deleting(child)):
        if child is None:
            return tries and pod_sets.make(books, REPLICA_SETS, owner, _child(owner, row.child))
        if not controller_of(child):
            references = (*(at(child, ("metadata", "ownerReferences")) or ()), pod_sets.reference(owner))
            books.write(home, put(child, ("metadata", "ownerReferences"), references))
            return True
        if controller_of(child) == uid and child["spec"]["replicas"] != owner["spec"]["replicas"]:
            child = put(child, ("spec", "replicas"), owner["spec"]["replicas"])
            child = put(child, ("metadata", "generation"), child["metadata"]["generation"] + 1)
            books.write(home, put(child, ("metadata", "annotations"), _notes(owner, child)))
            return True
    if (at(owner, ("metadata", "annotations")) or EMPTY).get(_REVISION) is None and child is not None:
        notes = FrozenObject({**(at(owner, ("metadata", "annotations")) or EMPTY), _REVISION: "1"})
        books.write(key, put(owner, ("metadata", "annotations"), notes))
        return True
    _report(books, key, owner, child)
    return False


def _child(owner: FrozenObject, name: str) -> FrozenObject:
    """The ReplicaSet of a Deployment, as it is sent."""
    spec = owner["spec"]
    mark = {_HASH: name.rpartition("-")[2]}
    labels = FrozenObject({**(at(spec, ("template", "metadata", "labels")) or EMPTY), **mark})
    wanted = FrozenObject({**(at(spec, ("selector", "matchLabels")) or EMPTY), **mark})
    metadata = FrozenObject(
        name=name, labels=labels, annotations=_notes(owner, None), ownerReferences=(pod_sets.reference(owner),)
    )
    inside = FrozenObject(
        replicas=spec["replicas"],
        selector=FrozenObject({**spec["selector"], "matchLabels": wanted}),
        template=put(spec["template"], ("metadata", "labels"), labels),
    )
    return FrozenObject(metadata=metadata, spec=inside)


def _notes(owner: FrozenObject, child: FrozenObject | None) -> FrozenObject:
    wanted = owner["spec"]["replicas"]
    surge = _share(at(owner, ("spec", "strategy", "rollingUpdate", "maxSurge")), wanted, up=True)
    notes = {
        "deployment.kubernetes.io/desired-replicas": str(wanted),
        "deployment.kubernetes.io/max-replicas": str(wanted + surge),
        _REVISION: "1",
    }
    return FrozenObject({**(at(child, ("metadata", "annotations")) or EMPTY), **notes})


def _share(text: Json, wanted: int, *, up: bool) -> int:
    """A number, or a percentage of the replicas."""
    if isinstance(text, int):
        return text
    digits = str(text or "").removesuffix("%")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 6:
        return 0
    share = wanted * int(digits) / 100
    return ceil(share) if up else int(share)


def _report(books: Books, key: ObjectKey, owner: FrozenObject, child: FrozenObject | None) -> None:
    wanted, inside = owner["spec"]["replicas"], at(child, ("status",)) or EMPTY
    there, available = inside.get("replicas", 0), inside.get("availableReplicas", 0)
    spare = _share(at(owner, ("spec", "strategy", "rollingUpdate", "maxUnavailable")), wanted, up=False)
    enough = available >= wanted - spare
    done = there == wanted == available
    conditions = (
        _condition(
            books,
            owner,
            "Available",
            "True" if enough else "False",
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        ),
        _condition(
            books,
            owner,
            "Progressing",
            "True",
            "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
            f'ReplicaSet "{books.sets[owner["metadata"]["uid"]].child}" '
            f"{'has successfully progressed' if done else 'is progressing'}.",
        ),
    )
    pod_sets.report(
        books,
        key,
        {
            "observedGeneration": owner["metadata"]["generation"],
            # Not "replicas" where there are none: a Deployment's status leaves that out, too.
            "updatedReplicas": there,
            "readyReplicas": inside.get("readyReplicas", 0),
            "availableReplicas": available,
            "unavailableReplicas": max(0, there - available),
            "conditions": conditions,
        }
        | ({"replicas": there} if there or "replicas" in (owner.get("status") or EMPTY) else {}),
    )


def _condition(books: Books, owner: FrozenObject, name: str, status: str, reason: str, message: str) -> FrozenObject:
    """A condition, with the moments of the old one where it says the same."""
    old = next((one for one in at(owner, ("status", "conditions")) or () if one.get("type") == name), EMPTY)
    same = old.get("status") == status
    if same and old.get("reason") == reason and old.get("message") == message:
        return old
    since = old.get("lastTransitionTime", books.time) if same else books.time
    made = {"type": name, "status": status, "lastUpdateTime": books.time, "lastTransitionTime": since}
    return FrozenObject(made | {"reason": reason, "message": message})
