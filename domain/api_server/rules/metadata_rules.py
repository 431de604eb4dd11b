"""What holds for the metadata of every kind: names, labels, annotations, owners, finalizers; what may not change.

The messages are those of apimachinery's validation (1.20), so that clients see the same causes.
"""

from __future__ import annotations

import re
from typing import Final

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, drop, put
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.statuses import FieldFault, not_allowed, required, wrong

SET_BY_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "managedFields",
)
SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PATH_MARKS: Final = frozenset("/%")
_PATH_SEGMENT: Final = "may not be '.' or '..', nor contain '/' or '%'"
_ANNOTATIONS_MAX: Final = 256 * 1024
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS_1035: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_LABEL_NAMED: Final = frozenset({"namespaces"})


def subdomain(field: str, value: str) -> list[FieldFault]:
    """The faults of a name that has to be an RFC 1123 subdomain."""
    faults = []
    if len(value) > 253:
        faults.append(wrong(field, value, "must be no more than 253 characters"))
    if not _SUBDOMAIN.fullmatch(value):
        faults.append(wrong(field, value, SUBDOMAIN))
    return faults


def dns_label(field: str, value: str) -> list[FieldFault]:
    """The faults of a name that has to be an RFC 1123 label."""
    faults = []
    if len(value) > 63:
        faults.append(wrong(field, value, "must be no more than 63 characters"))
    if not _LABEL.fullmatch(value):
        faults.append(wrong(field, value, LABEL))
    return faults


def _name(kind: ApiKind, value: str) -> list[FieldFault]:
    field = "metadata.name"
    if kind.plural == "events":  # of old, whatever can stand in a path (ValidatePathSegmentName)
        return [] if not _PATH_MARKS & set(value) and value not in {".", ".."} else [wrong(field, value, _PATH_SEGMENT)]
    if kind.plural == "services":
        faults = [wrong(field, value, "must be no more than 63 characters")] if len(value) > 63 else []
        return faults + ([] if _DNS_1035.fullmatch(value) else [wrong(field, value, DNS_1035)])
    return dns_label(field, value) if kind.plural in _LABEL_NAMED else subdomain(field, value)


def qualified_name(field: str, key: str) -> list[FieldFault]:
    """The faults of a key of labels, annotations or finalizers."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        return [wrong(field, key, f"prefix part {SUBDOMAIN}" if prefix else "prefix part must be non-empty")]
    if not name:
        return [wrong(field, key, "name part must be non-empty"), wrong(field, key, _NAME_PART)]
    if len(name) > 63:
        return [wrong(field, key, "name part must be no more than 63 characters")]
    return [] if _WORD.fullmatch(name) else [wrong(field, key, _NAME_PART)]


def label_faults(field: str, labels: FrozenObject) -> list[FieldFault]:
    """The faults of keys and values."""
    faults: list[FieldFault] = []
    for key, value in labels.items():
        faults += qualified_name(field, key)
        if len(value) > 63:
            faults.append(wrong(field, value, "must be no more than 63 characters"))
        if value and not _WORD.fullmatch(value):
            faults.append(wrong(field, value, _VALUE))
    return faults


def faults_of(kind: ApiKind, metadata: FrozenObject) -> list[FieldFault]:
    """Everything that is wrong with an object's metadata."""
    name = metadata.get("name", "")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    faults = _name(kind, name)
    faults += label_faults("metadata.labels", metadata.get("labels") or EMPTY)
    annotations = metadata.get("annotations") or EMPTY
    for key in annotations:
        faults += qualified_name("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_MAX:
        message = f"Too long: must have at most {_ANNOTATIONS_MAX} bytes"
        faults.append(FieldFault("FieldValueTooLong", message, "metadata.annotations"))
    faults += _owner_faults(metadata.get("ownerReferences") or ())
    for finalizer in metadata.get("finalizers") or ():
        faults += qualified_name("metadata.finalizers", finalizer)
    return faults


def _owner_faults(references: Json) -> list[FieldFault]:
    faults = []
    for reference in references:
        for field, why in (("apiVersion", "version must not be empty"), ("kind", "kind must not be empty")):
            if not reference.get(field):
                faults.append(wrong(f"metadata.ownerReferences.{field}", "", why))
        faults += [
            wrong(f"metadata.ownerReferences.{field}", "", f"{field} must not be empty")
            for field in ("name", "uid")
            if not reference.get(field)
        ]
    controllers = [r["name"] for r in references if r.get("controller")]
    if len(controllers) > 1:
        why = (
            f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} and '
        )
        faults.append(wrong("metadata.ownerReferences", "", why + controllers[1]))
    return faults


def carried_over(old: FrozenObject, new: FrozenObject) -> FrozenObject:
    """The new object with what only the server sets as it was."""
    for name in SET_BY_SERVER:
        value = old["metadata"].get(name)
        if new["metadata"].get(name) != value:
            path = ("metadata", name)
            new = drop(new, path) if value is None else put(new, path, value)
    return new


def change_faults(old: FrozenObject, new: FrozenObject) -> list[FieldFault]:
    """What a change of metadata may not do."""
    if "deletionTimestamp" not in old["metadata"]:
        return []
    added = [
        name
        for name in new["metadata"].get("finalizers") or ()
        if name not in (old["metadata"].get("finalizers") or ())
    ]
    if not added:
        return []
    listing = ", ".join(f'"{name}"' for name in added)
    why = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [not_allowed("metadata.finalizers", f"{why}[]string{{{listing}}}")]
