"""The controller of StatefulSets with podManagementPolicy Parallel: a pod for each ordinal below replicas.

A pod is called SET-ORDINAL and has the claims of volumeClaimTemplates, called TEMPLATE-POD, which outlive it and are taken
up again. An ordinal's next pod is made once the last one is gone, so a pod on its way out still counts. Those from replicas
on are deleted, the highest first. A pod that ended is deleted so that its ordinal can begin anew (kube-controller-manager
from 1.29 on does that with those that succeeded, too; 1.20 leaves them).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from hashlib import sha256

from podtide.domain.api_server.controllers import pod_sets
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, at
from podtide.domain.api_server.kinds import BY_RESOURCE, PODS
from podtide.domain.api_server.state import Books, ObjectKey, PodSetRow, ended, owners

_CLAIMS = BY_RESOURCE["persistentvolumeclaims"]


def sync(books: Books, key: ObjectKey, owner: FrozenObject, touched: Collection[ObjectKey], *, tries: bool) -> bool:
    """Bring one set nearer to what it should be; whether something was done but the report. ``tries``: may make pods."""
    uid, wanted = owner["metadata"]["uid"], owner["spec"]["replicas"]
    named = [one for one in touched if ordinal_of(key.name, one.name) is not None]
    acted = pod_sets.claim_or_release(books, owner, named)
    if pod_sets.deleting(owner):
        if not acted:
            _report(books, key, owner, books.sets[uid])
        return acted
    row = _resized(books, key, books.sets[uid], wanted)
    books.sets = books.sets.set(uid, row)
    unwanted = [one for one in named if _unwanted(books, owner, one)]
    for one in sorted(unwanted, key=lambda one: ordinal_of(key.name, one.name) or 0, reverse=True):
        acted |= pod_sets.remove_pod(books, one)
    if tries:
        for ordinal in sorted(row.absent):
            if not _make(books, owner, ordinal):
                acted = True
                break
            acted = True
    if not acted:
        _report(books, key, owner, row)
    return acted


def ordinal_of(name: str, pod: str) -> int | None:
    """The ordinal of a pod of a set; None where it has another name."""
    digits = pod.removeprefix(f"{name}-")
    fits = pod != digits and digits.isascii() and digits.isdigit() and len(digits) <= 9 and str(int(digits)) == digits
    return int(digits) if fits else None


def _unwanted(books: Books, owner: FrozenObject, key: ObjectKey) -> bool:
    pod = books.found(key)
    if pod is None or owner["metadata"]["uid"] not in owners(pod):
        return False
    return ended(pod) or (ordinal_of(owner["metadata"]["name"], key.name) or 0) >= owner["spec"]["replicas"]


def _resized(books: Books, key: ObjectKey, row: PodSetRow, wanted: int) -> PodSetRow:
    """The row for another number of replicas: pods that are too many are deleted, ordinals that are new are absent."""
    absent = row.absent
    owner = books.found(key)
    assert owner is not None
    for ordinal in range(row.wanted - 1, wanted - 1, -1):
        absent = absent.discard(ordinal)
        pod_sets.remove_pod(books, pod_sets.pod_key(owner, f"{key.name}-{ordinal}"))
    for ordinal in range(row.wanted, wanted):
        pod = books.found(pod_sets.pod_key(owner, f"{key.name}-{ordinal}"))
        if owner["metadata"]["uid"] not in owners(pod):
            absent = absent.set(ordinal, None)
    return row._replace(wanted=wanted, absent=absent)


def _make(books: Books, owner: FrozenObject, ordinal: int) -> bool:
    """The pod of an ordinal, its claims before it; False where one of them is refused."""
    metadata, spec = owner["metadata"], owner["spec"]
    name = f"{metadata['name']}-{ordinal}"
    mounted = []
    for template in spec.get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        claim = f"{volume}-{name}"
        mounted.append(FrozenObject(name=volume, persistentVolumeClaim=FrozenObject(claimName=claim)))
        if books.find(_CLAIMS, metadata["namespace"], claim) is None:
            labels = {
                **(at(template, ("metadata", "labels")) or EMPTY),
                **(at(spec, ("selector", "matchLabels")) or EMPTY),
            }
            named = {"name": claim, "labels": FrozenObject(labels)}
            if notes := at(template, ("metadata", "annotations")):
                named["annotations"] = notes
            body = FrozenObject(metadata=FrozenObject(named), spec=template["spec"])
            if not pod_sets.make(books, _CLAIMS, owner, body):
                return False
    pod = pod_sets.pod_of(owner, name=name, generateName=f"{metadata['name']}-")
    labels = {"controller-revision-hash": revision(owner), "statefulset.kubernetes.io/pod-name": name}
    labels["apps.kubernetes.io/pod-index"] = str(ordinal)
    kept = FrozenObject(
        {**pod["metadata"], "labels": FrozenObject({**(pod["metadata"].get("labels") or EMPTY), **labels})}
    )
    taken = {one["name"] for one in mounted}
    volumes = (*mounted, *(one for one in pod["spec"].get("volumes") or () if one["name"] not in taken))
    made = {**pod["spec"], "hostname": name, "subdomain": spec["serviceName"]}
    if volumes:
        made["volumes"] = volumes
    if not spec["serviceName"]:
        del made["subdomain"]
    return pod_sets.make(books, PODS, owner, FrozenObject(metadata=kept, spec=FrozenObject(made)))


def revision(owner: FrozenObject) -> str:
    """The name of a template's revision: SET-HASH. Deployments call their ReplicaSet so."""
    template = json.dumps(owner["spec"].get("template"), sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(sha256(template.encode()).digest()[:8], "big")
    letters = ""
    for _ in range(10):
        number, place = divmod(number, 27)
        letters += "bcdfghjklmnpqrstvwxz2456789"[place]
    return f"{owner['metadata']['name']}-{letters}"


def _report(books: Books, key: ObjectKey, owner: FrozenObject, row: PodSetRow) -> None:
    name = at(owner, ("status", "currentRevision")) or revision(owner)
    pod_sets.report(
        books,
        key,
        {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": row.created,
            "readyReplicas": row.ready,
            "availableReplicas": row.ready,
            "currentReplicas": row.staying,
            "updatedReplicas": row.staying,
            "currentRevision": name,
            "updateRevision": name,
            "collisionCount": 0,
        },
    )
