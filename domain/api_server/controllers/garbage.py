"""The controllers without which a deletion is never done: owners' dependents, claims in use, namespaces that end.

``follow`` is told of each change of a step (``controllers.settle``). The rules are those of the garbage collector of
kube-controller-manager:

- an object whose owners are all gone (or never were there) is deleted in the background; with one owner left it only loses
  the references to those that are gone;
- an owner that is deleted with its dependents in the foreground waits for those that block it; one that orphans them loses
  them first;
- a claim goes once no pod names it; a namespace when it is empty.
"""

from __future__ import annotations

from podtide.domain.api_server.json_values import FrozenObject, at, drop, put
from podtide.domain.api_server.kinds import BY_RESOURCE, KINDS, NAMESPACES
from podtide.domain.api_server.rules.kind_rules import CLAIM_PROTECTION
from podtide.domain.api_server.state import CLAIM_MARK, ApiChange, Books, ObjectKey, claims_of, owners
from podtide.domain.api_server.writes import FOREGROUND, ORPHAN, DeleteOptions, remove, settled

_CLAIMS = BY_RESOURCE["persistentvolumeclaims"]


def follow(books: Books, change: ApiChange) -> None:
    """Do what follows from one change."""
    if change.after is None:
        assert change.before is not None
        _gone(books, change.key, change.before)
    elif change.before is None or owners(change.before) != owners(change.after):
        _check_owners(books, change.key)
    if change.after is not None and "deletionTimestamp" in change.after["metadata"]:
        _ending(books, change.key)


def _gone(books: Books, key: ObjectKey, item: FrozenObject) -> None:
    for dependent in books.dependents_of(item["metadata"]["uid"]):
        _check_owners(books, dependent)
    for uid in sorted(owners(item)):
        owner = books.uids.get(uid)
        if owner is not None:
            _ending(books, owner)
    if key.resource == "pods":
        for claim in sorted(claims_of(item)):
            _ending(books, ObjectKey(_CLAIMS.resource, key.namespace, claim))
    if key.namespace:
        _end_empty(books, key.namespace)


def _check_owners(books: Books, key: ObjectKey) -> None:
    """Delete a dependent without owners; drop references to owners that are not there."""
    item = books.found(key)
    references = at(item, ("metadata", "ownerReferences")) or ()
    if item is None or not references:
        return
    there = tuple(one for one in references if _owner(books, key, one["uid"]) is not None)
    if len(there) == len(references):
        return
    if there:
        books.write(key, put(item, ("metadata", "ownerReferences"), there))
    elif "deletionTimestamp" not in item["metadata"]:
        remove(books, key, item, DeleteOptions(propagation=None))


def _owner(books: Books, dependent: ObjectKey, uid: str) -> ObjectKey | None:
    """An owner, which has to live in the dependent's namespace or in none."""
    owner = books.uids.get(uid)
    return owner if owner is not None and owner.namespace in {"", dependent.namespace} else None


def _ending(books: Books, key: ObjectKey) -> None:
    """What holds an object that is being deleted may be over."""
    item = books.found(key)
    if item is None or "deletionTimestamp" not in item["metadata"]:
        return
    finalizers = tuple(item["metadata"].get("finalizers") or ())
    uid = item["metadata"]["uid"]
    if ORPHAN in finalizers:
        for dependent in books.dependents_of(uid):
            _disown(books, dependent, uid)
        _unhold(books, key, ORPHAN)
    elif FOREGROUND in finalizers:
        for dependent in books.dependents_of(uid):
            _delete_dependent(books, dependent, uid)
        if not any(_blocks(books, dependent, uid) for dependent in books.dependents_of(uid)):
            _unhold(books, key, FOREGROUND)
    elif CLAIM_PROTECTION in finalizers and not books.tables.labels.get(("pods", key.namespace, CLAIM_MARK, key.name)):
        _unhold(books, key, CLAIM_PROTECTION)
    elif key.resource == NAMESPACES.resource:
        _clear(books, key.name)


def _unhold(books: Books, key: ObjectKey, finalizer: str) -> None:
    """Take a finalizer away, and the object with its last one."""
    item = books.found(key)
    finalizers = at(item, ("metadata", "finalizers")) or ()
    if item is None or finalizer not in finalizers:
        return
    rest = tuple(one for one in finalizers if one != finalizer)
    path = ("metadata", "finalizers")
    settled(books, key, put(item, path, rest) if rest else drop(item, path))


def _disown(books: Books, key: ObjectKey, uid: str) -> None:
    item = books.found(key)
    if item is None:
        return
    rest = tuple(one for one in item["metadata"]["ownerReferences"] if one["uid"] != uid)
    path = ("metadata", "ownerReferences")
    books.write(key, put(item, path, rest) if rest else drop(item, path))


def _delete_dependent(books: Books, key: ObjectKey, uid: str) -> None:
    """Delete a dependent of an owner that goes in the foreground, unless another owner still wants it."""
    item = books.found(key)
    if item is None or "deletionTimestamp" in item["metadata"]:
        return
    for reference in item["metadata"]["ownerReferences"]:
        other = None if reference["uid"] == uid else _owner(books, key, reference["uid"])
        holder = None if other is None else books.found(other)
        if holder is not None and FOREGROUND not in (holder["metadata"].get("finalizers") or ()):
            _disown(books, key, uid)
            return
    blocking = bool(books.dependents_of(item["metadata"]["uid"]))
    remove(books, key, item, DeleteOptions(propagation=FOREGROUND if blocking else None))


def _blocks(books: Books, key: ObjectKey, uid: str) -> bool:
    references = at(books.found(key), ("metadata", "ownerReferences")) or ()
    return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)


def _clear(books: Books, namespace: str) -> None:
    """Delete what a namespace holds; the namespace goes when there is nothing left."""
    for kind in KINDS:
        if not kind.namespaced:
            continue
        for name in sorted(books.names(kind, namespace)):
            inside = ObjectKey(kind.resource, namespace, name)
            content = books.found(inside)
            if content is not None and "deletionTimestamp" not in content["metadata"]:
                remove(books, inside, content, DeleteOptions())
    _end_empty(books, namespace)


def _end_empty(books: Books, namespace: str) -> None:
    key = ObjectKey(NAMESPACES.resource, "", namespace)
    item = books.found(key)
    if item is None or "deletionTimestamp" not in item["metadata"] or not at(item, ("spec", "finalizers")):
        return
    if not any(kind.namespaced and books.names(kind, namespace) for kind in KINDS):
        settled(books, key, put(item, ("spec", "finalizers"), ()))
