"""Server-side apply: who owns which field, what an apply changes, whom it would take a field from.

A manager's apply says which fields it wants. They are merged into the object; a field that it wanted the last time and does
not any more goes, unless somebody else owns it. To change a field that another manager owns is a conflict (409) unless it is
forced, which takes the field from the other. The same value is no conflict: both own it.

Ownership is counted from an object's first apply on, as Kubernetes did by default until 1.17: what it had before belongs to
``before-first-apply``. From then on other writes take the fields that they change. So an object that nobody applies has no
managedFields, and costs nothing. Controllers' writes take no fields.

Source: sigs.k8s.io/structured-merge-diff, merge.Updater; apiserver, endpoints/handlers/fieldmanager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at
from podtide.domain.api_server.patches.field_paths import (
    FieldPath,
    FieldSet,
    changed,
    elements,
    field_set,
    fields_v1,
    in_order,
    is_atomic,
    keys_of,
    managed,
    path_text,
    paths_of,
)
from podtide.domain.api_server.statuses import ApiRefusal, bad_request, failure

APPLY_PATCH: Final = "application/apply-patch+yaml"
_BEFORE: Final = "before-first-apply"
_NO_FIELDS: Final[FieldSet] = frozenset()


class FieldManager(NamedTuple):
    """Who writes: ``operation`` is Apply or Update; ``subresource`` is empty for the object itself."""

    name: str
    operation: str
    version: str
    subresource: str = ""


class OwnedFields(NamedTuple):
    """What a manager owns, and since when it is so."""

    fields: FieldSet
    time: str


class Applied(NamedTuple):
    """The object that an apply makes, before defaults and checks, and its managedFields."""

    item: FrozenObject
    managed_fields: tuple[FrozenObject, ...]


def applied(
    live: FrozenObject | None, config: FrozenObject, manager: FieldManager, time: str, *, force: bool
) -> Applied:
    """Merge what a manager wants into ``live`` (None: it is not there yet). Raises 409 where that takes somebody's field."""
    wanted = managed(config)
    fields = frozenset(paths_of(wanted))
    owners = _owners(live)
    if live is not None and not owners:
        owners[FieldManager(_BEFORE, "Update", manager.version)] = OwnedFields(frozenset(paths_of(managed(live))), time)
    merged = config if live is None else _merged(live, config)
    made, _ = changed(managed(live or EMPTY), managed(merged))
    last = owners.pop(manager, OwnedFields(_NO_FIELDS, time))
    conflicts = {other: taken for other, owned in owners.items() if (taken := owned.fields & made)}
    if conflicts and not force:
        raise _conflict(conflicts)
    for other, taken in conflicts.items():
        owners[other] = owners[other]._replace(fields=owners[other].fields - taken)
    held = [path for owned in owners.values() for path in owned.fields]
    merged = _without(merged, last.fields - fields, [*held, *fields])
    owners[manager] = OwnedFields(fields, last.time if fields == last.fields else time)
    return Applied(merged, _written(owners))


def updated(old: FrozenObject, new: FrozenObject, manager: FieldManager, time: str) -> tuple[FrozenObject, ...]:
    """The managedFields after a write that is no apply: it takes what it changed."""
    owners = _owners(old)
    made, gone = changed(managed(old), managed(new))
    for other, owned in owners.items():
        owners[other] = owned._replace(fields=owned.fields - made - gone)
    if made:
        before = owners.get(manager, OwnedFields(_NO_FIELDS, time))
        owners[manager] = OwnedFields(before.fields | made, time)
    return _written(owners)


# managedFields


def _owners(item: FrozenObject | None) -> dict[FieldManager, OwnedFields]:
    entries = at(item, ("metadata", "managedFields")) or ()
    owners = {}
    for one in entries:
        who = FieldManager(one["manager"], one["operation"], one["apiVersion"], one.get("subresource", ""))
        owners[who] = OwnedFields(field_set(one["fieldsV1"]), one["time"])
    return owners


def _written(owners: Mapping[FieldManager, OwnedFields]) -> tuple[FrozenObject, ...]:
    """Entries in the real server's order: appliers first, then by time and name."""
    entries = []
    for who, owned in sorted(owners.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0])):
        if owned.fields:
            made = {"manager": who.name, "operation": who.operation, "apiVersion": who.version, "time": owned.time}
            made |= {"fieldsType": "FieldsV1", "fieldsV1": fields_v1(owned.fields)}  # type: ignore[dict-item]
            entries.append(FrozenObject(made | ({"subresource": who.subresource} if who.subresource else {})))
    return tuple(entries)


def _conflict(conflicts: Mapping[FieldManager, FieldSet]) -> ApiRefusal:
    named = sorted((_called(who), in_order(taken)) for who, taken in conflicts.items())
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path_text(path)}
        for who, taken in named
        for path in taken
    ]
    if len(causes) == 1:
        message = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        parts = [f"conflicts with {who}:" + "".join(f"\n- {path_text(path)}" for path in taken) for who, taken in named]
        message = f"{len(causes)} conflicts: " + "\n".join(parts)
    return failure(409, "Conflict", f"Apply failed with {message}", {"causes": causes})


def _called(who: FieldManager) -> str:
    return f'"{who.name}"' if who.operation == "Apply" else f'"{who.name}" using {who.version}'


# merging


def _merged(live: FrozenObject, config: FrozenObject) -> FrozenObject:
    made = dict(live)
    for name, value in config.items():
        made[name] = _merged_value(name, live.get(name), value)
    return FrozenObject(made)


def _merged_value(name: str, live: Json, config: Json) -> Json:
    if isinstance(config, FrozenObject) and isinstance(live, FrozenObject) and not is_atomic(name):
        return _merged(live, config)
    if not isinstance(live, tuple) or not isinstance(config, tuple):
        return config
    was, now = elements(name, live), elements(name, config)
    if was is None or now is None:
        return config
    kept = [_merged_value("", one, now[word]) if word in now else one for word, one in was.items()]
    return tuple(kept + [one for word, one in now.items() if word not in was])


# giving up


def _without(item: FrozenObject, dropped: FieldSet, held: list[FieldPath]) -> FrozenObject:
    """The object without fields that a manager gave up; what is held, or has something in it that is, stays."""
    kept = {path[:length] for path in held for length in range(1, len(path) + 1)}
    for path in sorted(dropped - kept):
        item = _removed(item, path, kept, path[:0])
    return item


def _removed(value: FrozenObject, path: FieldPath, kept: set[FieldPath], at_path: FieldPath) -> FrozenObject:
    word, rest = path[0], path[1:]
    name, here = word[2:], (*at_path, word)
    inner = value.get(name)
    if inner is None:
        return value
    if not rest:
        return FrozenObject({key: one for key, one in value.items() if key != name})
    made: Json
    if isinstance(inner, tuple):
        made = _removed_element(name, inner, rest, kept, here)
    elif isinstance(inner, FrozenObject):
        made = _removed(inner, rest, kept, here)
    else:
        return value
    if not made and here not in kept:
        return FrozenObject({key: one for key, one in value.items() if key != name})
    return FrozenObject({**value, name: made})


def _removed_element(
    name: str, items: tuple[Json, ...], path: FieldPath, kept: set[FieldPath], at_path: FieldPath
) -> tuple[Json, ...]:
    word, rest = path[0], path[1:]
    here = (*at_path, word)
    made = []
    for key, one in (elements(name, items) or {}).items():
        if key != word:
            made.append(one)
        elif rest and not (here in kept and rest[0][2:] in keys_of(word)):
            made.append(_removed(one, rest, kept, here))
        elif rest:
            made.append(one)
    return tuple(made)


def check_config(config: Json, version: str) -> FrozenObject:
    """The body of an apply as an object that says its version; 400 where it is none."""
    if not isinstance(config, FrozenObject):
        raise bad_request("error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}")
    if config.get("apiVersion") != version:
        given, what = config.get("apiVersion") or "", "Specified patch version"
        raise bad_request(f"Incorrect version specified in apply patch. {what}: {given}, expected: {version}")
    if at(config, ("metadata", "managedFields")) is not None:
        raise bad_request("metadata.managedFields must be nil")
    return config
