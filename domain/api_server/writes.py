"""Create, change and delete: what apiserver's generic registry does, for every kind alike.

A create fills in defaults, checks and stores. A change takes the version it was made from where it names one (409 if that is
not the newest), keeps what only the server sets, and is no write at all where nothing is different. A deletion is the
registry's BeforeDelete: a pod on a node goes when its kubelet says so or its grace is over, an object with finalizers when
the last one is gone. ``dryRun`` is the caller's matter: it throws the books away.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from podtide.domain.api_server import quotas
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, drop, frozen, put, words
from podtide.domain.api_server.kinds import DEPLOYMENTS, NAMESPACES, PODS, ApiKind
from podtide.domain.api_server.patches.apply import FieldManager, updated
from podtide.domain.api_server.reads import integer
from podtide.domain.api_server.rules import kind_rules, metadata_rules
from podtide.domain.api_server.rules.shapes import well_shaped
from podtide.domain.api_server.state import Books, ObjectKey, ended, key_of, kind_of
from podtide.domain.api_server.statuses import (
    FieldFault,
    already_exists,
    bad_request,
    conflict,
    details_of,
    failure,
    forbidden,
    invalid,
    not_found,
    not_one_of,
    success,
    unsupported,
    wrong,
)
from podtide.domain.base.units import Millis
from podtide.domain.jvm.instants import format_instant, parse_instant

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_POLICIES: Final = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_OPTIONS: Final = words("kind apiVersion gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun")


ManagedFields: TypeAlias = tuple[FrozenObject, ...]
_NO_MANAGERS: Final = ((), (EMPTY,))
"""What a client writes that wants to begin anew."""


class DeleteOptions(NamedTuple):
    """How something is to be deleted; ``propagation`` is a finalizer, empty for background, None for the default."""

    grace: int | None = None
    propagation: str | None = None
    uid: str | None = None
    version: str | None = None


# creating


def readable(kind: ApiKind, body: Json) -> FrozenObject:
    """A body as an object of the kind, frozen; a refusal where it is none."""
    item = frozen(body)
    if not isinstance(item, FrozenObject):
        raise bad_request("the object provided is unrecognized (must be of type Object): couldn't get version/kind")
    given_kind, version = item.get("kind") or kind.kind, item.get("apiVersion") or kind.api_version
    if not isinstance(given_kind, str) or not isinstance(version, str):
        raise bad_request("couldn't get version/kind; json parse error")
    what = f'{given_kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.kind}'
    package = kind.group.partition(".")[0] or "core"
    if given_kind != kind.kind:
        raise bad_request(f"{what}: converting ({version}.{given_kind}) to ({package}.{kind.kind}): unknown conversion")
    if version != kind.api_version:
        raise bad_request(f'{what}: no kind "{given_kind}" is registered for version "{version}"')
    if item.get("metadata") is None:
        item = put(item, ("metadata",), EMPTY)
    item = FrozenObject({**item, "kind": kind.kind, "apiVersion": kind.api_version})
    return well_shaped(kind, item)


def create(books: Books, kind: ApiKind, namespace: str, body: Json, managers: ManagedFields = ()) -> FrozenObject:
    """Store a new object; returns it. ``managers``: its managedFields, if it is made by an apply."""
    item = readable(kind, body)
    metadata = item["metadata"]
    name = metadata.get("name", "")
    if metadata.get("namespace", namespace) not in {namespace, ""}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if kind.namespaced:
        _check_namespace(books, kind, namespace, name)
    if metadata.get("resourceVersion"):
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    if not name and metadata.get("generateName"):
        name = metadata["generateName"][:58] + books.new_suffix()
        while books.find(kind, namespace, name) is not None:
            name = metadata["generateName"][:58] + books.new_suffix()
    made = {
        key: value for key, value in metadata.items() if key not in metadata_rules.SET_BY_SERVER and value is not None
    }
    made.pop("resourceVersion", None)
    made |= {"name": name, "uid": books.new_uid(), "creationTimestamp": books.time}
    if kind.namespaced:
        made["namespace"] = namespace
    if managers:
        made["managedFields"] = managers
    item = put(item, ("metadata",), FrozenObject(made))
    if kind.has_status:
        item = drop(item, ("status",))
    item = kind_rules.begun(kind, kind_rules.with_defaults(kind, item), books.made)
    faults = metadata_rules.faults_of(kind, item["metadata"]) + kind_rules.faults_of(kind, item)
    _refuse(kind, name, faults)
    there = books.find(kind, namespace, name)
    if there is not None:
        raise already_exists(kind, name, ending="deletionTimestamp" in there["metadata"])
    quotas.check(books, kind, item)
    return books.write(ObjectKey(kind.resource, namespace, name), item)


def _check_namespace(books: Books, kind: ApiKind, namespace: str, name: str) -> None:
    home = books.find(NAMESPACES, "", namespace)
    if home is None:
        raise not_found(NAMESPACES, namespace)
    if "deletionTimestamp" in home["metadata"]:
        ending = f"namespace {namespace} is being terminated"
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        causes = [{"reason": "NamespaceTerminating", "message": ending, "field": "metadata.namespace"}]
        raise forbidden(kind, name, why, causes)


def _refuse(kind: ApiKind, name: str, faults: list[FieldFault]) -> None:
    if faults:
        raise invalid(kind.group, kind.kind, name, faults)


# changing


def existing(books: Books, kind: ApiKind, namespace: str, name: str) -> FrozenObject:
    """The object, or 404."""
    item = books.find(kind, namespace, name)
    if item is None:
        raise not_found(kind, name)
    return item


def check_place(item: FrozenObject, namespace: str, name: str) -> None:
    """400 where an object says that it belongs to another place than the path."""
    metadata = item["metadata"]
    if metadata.get("name", "") != name:
        why = f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
        raise bad_request(why)
    given = metadata.get("namespace") or namespace
    if given != namespace:
        why = f"the namespace of the object ({given}) does not match the namespace on the request ({namespace})"
        raise bad_request(why)


def change(
    books: Books,
    kind: ApiKind,
    old: FrozenObject,
    body: Json,
    subresource: str = "",
    managers: ManagedFields | None = None,
) -> FrozenObject:
    """Put a whole new object in the place of ``old``; returns what is stored. ``managers``: as for ``replaced``."""
    item = readable(kind, body)
    metadata, name = item["metadata"], old["metadata"]["name"]
    namespace = old["metadata"].get("namespace", "")
    check_place(item, namespace, name)
    version = metadata.get("resourceVersion")
    if not version and kind.plural == "leases":
        why = "must be specified for an update"
        fault = FieldFault("FieldValueInvalid", f"Invalid value: 0x0: {why}", "metadata.resourceVersion")
        raise invalid(kind.group, kind.plural, name, [fault])
    uid = metadata.get("uid")
    if uid and uid != old["metadata"]["uid"]:
        place = f"/registry/{kind.plural}/{namespace}/{name}" if namespace else f"/registry/{kind.plural}/{name}"
        why = f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        why += f"failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise conflict(kind, name, why)
    if version and version != old["metadata"]["resourceVersion"]:
        raise conflict(kind, name)
    item = put(item, ("metadata", "namespace"), namespace) if kind.namespaced else item
    return replaced(books, kind, old, item, subresource, managers)


def replaced(
    books: Books,
    kind: ApiKind,
    old: FrozenObject,
    item: FrozenObject,
    subresource: str = "",
    managers: ManagedFields | None = None,
) -> FrozenObject:
    """Check and store a change of ``old``; nothing is written where nothing is different.

    ``managers``: the managedFields that an apply makes. Any other write takes what it changes of an object that has some.
    """
    name = old["metadata"]["name"]
    forgotten = item["metadata"].get("managedFields") in _NO_MANAGERS
    item = metadata_rules.carried_over(old, item)
    if subresource == "status":
        kept = {field: value for field, value in old.items() if field not in {"status", "metadata"}}
        metadata = put(item["metadata"], ("ownerReferences",), old["metadata"].get("ownerReferences"))
        metadata = metadata if metadata["ownerReferences"] else drop(metadata, ("ownerReferences",))
        item = FrozenObject({**kept, "metadata": metadata, "status": item.get("status") or EMPTY})
    elif kind.has_status:
        item = put(item, ("status",), old["status"]) if "status" in old else drop(item, ("status",))
    item = put(
        kind_rules.with_defaults(kind, item), ("metadata", "resourceVersion"), old["metadata"]["resourceVersion"]
    )
    faults = metadata_rules.faults_of(kind, item["metadata"]) + metadata_rules.change_faults(old, item)
    _refuse(kind, name, faults + kind_rules.faults_of_change(kind, old, item))
    if managers is None and "managedFields" in old["metadata"] and (item != old or forgotten):
        writer = FieldManager(books.manager, "Update", kind.api_version, subresource)
        managers = () if forgotten else updated(old, item, writer, books.time)
    if managers is not None:
        path = ("metadata", "managedFields")
        item = put(item, path, managers) if managers else drop(item, path)
    if item == old:
        return old
    renewed = item.get("spec") != old.get("spec")
    if kind is DEPLOYMENTS:
        renewed = renewed or item["metadata"].get("annotations") != old["metadata"].get("annotations")
    if renewed and "generation" in item["metadata"]:
        item = put(item, ("metadata", "generation"), item["metadata"]["generation"] + 1)
    return settled(books, key_of(kind, item), item)


def settled(books: Books, key: ObjectKey, item: FrozenObject) -> FrozenObject:
    """Store a change; an object that was only waiting for its last finalizer goes."""
    metadata = item["metadata"]
    if "deletionTimestamp" in metadata and not metadata.get("finalizers") and _is_free(key, item):
        books.write(key, None)
        return item
    return books.write(key, item)


def _is_free(key: ObjectKey, item: FrozenObject) -> bool:
    """Whether nothing but finalizers holds an object that is being deleted: neither grace nor what a namespace holds."""
    if key.resource == NAMESPACES.resource:
        return not at(item, ("spec", "finalizers"))
    return not item["metadata"].get("deletionGracePeriodSeconds")


# binding


def bind(books: Books, namespace: str, name: str, body: Json) -> FrozenObject:
    """A scheduler's word: the pod's node; 409 where it has one."""
    pod = existing(books, PODS, namespace, name)
    binding = frozen(body)
    node = at(binding, ("target", "name"))
    if at(binding, ("metadata", "name")) not in {None, "", name} or at(binding, ("metadata",)) is None:
        raise bad_request("name in URL does not match name in Binding object")
    if not isinstance(node, str) or not node:
        raise invalid("", "Binding", name, [FieldFault("FieldValueRequired", "Required value", "target.name")])
    if (at(binding, ("target", "kind")) or "Node") != "Node":
        kind = str(at(binding, ("target", "kind")))
        raise invalid("", "Binding", name, [not_one_of("target.kind", kind, ["Node", ""])])
    where = at(pod, ("spec", "nodeName"))
    pods_binding = f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} is '
    details = {"name": name, "kind": "pods/binding"}
    if "deletionTimestamp" in pod["metadata"]:
        raise failure(409, "Conflict", pods_binding + "being deleted, cannot be assigned to a host", details)
    if where:
        raise failure(409, "Conflict", f'{pods_binding}already assigned to node "{where}"', details)
    scheduled = FrozenObject(
        type="PodScheduled", status="True", lastProbeTime=None, lastTransitionTime=format_instant(books.now)
    )
    others = tuple(one for one in at(pod, ("status", "conditions")) or () if one.get("type") != "PodScheduled")
    pod = put(put(pod, ("spec", "nodeName"), node), ("status", "conditions"), (*others, scheduled))
    books.write(ObjectKey(PODS.resource, namespace, name), pod)
    return success(code=201)


# deleting


def delete_options(body: Json, query: dict[str, str]) -> DeleteOptions:
    """DeleteOptions of a body, or of the query where there is none."""
    given = frozen(body) if body else EMPTY
    if not isinstance(given, FrozenObject):
        raise bad_request("DeleteOptions are no object")
    if given.keys() - _OPTIONS:
        raise unsupported(f'the field "{min(given.keys() - _OPTIONS)}" of DeleteOptions')
    texts = {name: query[name] for name in ("propagationPolicy", "orphanDependents") if query.get(name)}
    given = FrozenObject({**texts, **given})
    grace = given.get("gracePeriodSeconds")
    if grace is None:
        grace = integer(query.get("gracePeriodSeconds", ""))
    if grace is not None and type(grace) is not int:
        raise bad_request("gracePeriodSeconds is no number")
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    field, faults = "propagationPolicy", list[FieldFault]()
    if not isinstance(policy, str | None):
        raise bad_request("propagationPolicy is no text")
    if policy is not None and orphan is not None:
        faults.append(wrong(field, policy, "orphanDependents and deletionPropagation cannot be both set"))
    elif policy is not None and policy not in _POLICIES:
        faults.append(not_one_of(field, policy, ["Foreground", "Background", "Orphan", "nil"]))
    if faults:
        raise invalid("meta.k8s.io", "DeleteOptions", "", faults)
    propagation = None if policy is None else _POLICIES[policy]
    if orphan is not None:
        propagation = ORPHAN if str(orphan).lower() == "true" else ""
    needs = given.get("preconditions") or EMPTY
    if not isinstance(needs, FrozenObject):
        raise bad_request("preconditions are no object")
    # A negative grace is none, as on the real server.
    return DeleteOptions(
        None if grace is None else max(grace, 0), propagation, needs.get("uid"), needs.get("resourceVersion")
    )


def check_preconditions(kind: ApiKind, item: FrozenObject, options: DeleteOptions) -> None:
    """409 where the object is another one than the caller had in mind."""
    metadata = item["metadata"]
    why = ""
    if options.uid is not None and options.uid != metadata["uid"]:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
        why += "The object might have been deleted and then recreated"
    elif options.version is not None and options.version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
        )
        why += f"({metadata['resourceVersion']}). The object might have been modified"
    if why:
        name = metadata["name"]
        group = {"group": kind.group} if kind.group else {}
        qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
        raise failure(409, "Conflict", message, {"name": name, **group, "kind": kind.kind})


def delete(books: Books, kind: ApiKind, item: FrozenObject, options: DeleteOptions) -> FrozenObject:
    """Delete an object or begin to; returns the answer's body."""
    check_preconditions(kind, item, options)
    key = key_of(kind, item)
    kept = remove(books, key, item, options)
    if kept is not None:
        return kept
    if kind.returned:
        return books.changes[-1].before or item
    details = details_of(kind, key.name) | {"uid": item["metadata"]["uid"]}
    return success(details)


def remove(books: Books, key: ObjectKey, item: FrozenObject, options: DeleteOptions) -> FrozenObject | None:
    """The deletion itself: the object as it stays for now; None once it is gone."""
    kind = kind_of(key)
    metadata = item["metadata"]
    grace = _grace(kind, item, options)
    finalizers = tuple(metadata.get("finalizers") or ())
    if options.propagation is not None:
        others = tuple(one for one in finalizers if one not in {ORPHAN, FOREGROUND})
        finalizers = (*others, options.propagation) if options.propagation else others
    pending = "deletionTimestamp" in metadata
    changed = item
    if finalizers != tuple(metadata.get("finalizers") or ()):
        path = ("metadata", "finalizers")
        changed = put(changed, path, finalizers) if finalizers else drop(changed, path)
    if kind is NAMESPACES and not pending:
        changed = put(changed, ("status", "phase"), "Terminating")
        changed = put(changed, ("metadata", "deletionTimestamp"), books.time)
    elif pending:
        changed = _shortened(changed, options.grace)
    elif grace or finalizers:
        moment = format_instant(books.now + 1000 * grace)
        changed = put(changed, ("metadata", "deletionTimestamp"), moment)
        changed = put(changed, ("metadata", "deletionGracePeriodSeconds"), grace)
        if "generation" in metadata:
            changed = put(changed, ("metadata", "generation"), metadata["generation"] + 1)
    if not finalizers and _is_free(key, changed):
        if kind is PODS and "deletionTimestamp" not in changed["metadata"]:
            changed = put(changed, ("metadata", "deletionTimestamp"), books.time)
            changed = put(changed, ("metadata", "deletionGracePeriodSeconds"), 0)
            books.write(key, changed)
        elif changed != item and kind is PODS:
            books.write(key, changed)
        books.write(key, None)
        return None
    return item if changed == item else books.write(key, changed)


def _grace(kind: ApiKind, item: FrozenObject, options: DeleteOptions) -> int:
    """Seconds until the object may go: pods on a node that still run have some, nothing else does."""
    if kind is not PODS or not at(item, ("spec", "nodeName")) or ended(item):
        return 0
    if options.grace is not None:
        return options.grace
    seconds: int = item["spec"]["terminationGracePeriodSeconds"]
    return seconds


def _shortened(item: FrozenObject, grace: int | None) -> FrozenObject:
    """A deletion under way ends earlier if a shorter grace is asked for, never later."""
    metadata = item["metadata"]
    before = metadata.get("deletionGracePeriodSeconds")
    if grace is None or before is None or grace >= before:
        return item
    ends: Millis = parse_instant(metadata["deletionTimestamp"]) or 0
    item = put(item, ("metadata", "deletionTimestamp"), format_instant(ends - 1000 * (before - grace)))
    return put(item, ("metadata", "deletionGracePeriodSeconds"), grace)
