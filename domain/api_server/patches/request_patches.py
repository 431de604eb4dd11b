"""The three patches that change a value where it stands: JSON Patch (RFC 6902), Merge Patch (RFC 7386), strategic merge.

Strategic merge is Kubernetes' own: lists of objects are merged by a key that depends on the field, and directives say what
else to do ($patch, $deleteFromPrimitiveList, $setElementOrder, $retainKeys). The keys are the patchMergeKey tags of
k8s.io/api; a list without one is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtide.domain.api_server.json_values import FrozenObject, Json
from podtide.domain.api_server.patches.field_paths import LIST_KEYS
from podtide.domain.api_server.statuses import ApiRefusal, bad_request, failure

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: keys[0][:1] for name, keys in LIST_KEYS.items()},
    "addresses": ("type",),
    "ports": ("containerPort", "port"),
    "taints": ("key",),
}
"""By field: the keys that elements may be merged by (a container's ports and a service's have the same name)."""

_PRIMITIVES: Final = frozenset({"finalizers"})
"""Lists of texts that are merged as sets."""

_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


# JSON Merge Patch


def merged(target: Json, patch: Json) -> Json:
    """The target with a merge patch: null removes, objects are merged, all else replaces."""
    if not isinstance(patch, FrozenObject):
        return patch
    made = dict(target) if isinstance(target, FrozenObject) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return FrozenObject(made)


# JSON Patch


def patched(target: Json, operations: Json) -> Json:
    """The target after a JSON Patch; a refusal where an operation does not apply."""
    if not isinstance(operations, tuple) or not all(isinstance(one, FrozenObject) for one in operations):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    for operation in operations:
        kind, path = operation.get("op"), _pointer(operation, "path")
        match kind:
            case "add" | "replace" | "test":
                if "value" not in operation:
                    raise _inapplicable()
                value = operation["value"]
                if kind == "test":
                    if _at(target, path, missing=None) != value:
                        raise _inapplicable()
                else:
                    target = _set(target, path, value, add=kind == "add")
            case "remove":
                target = _removed(target, path)
            case "copy" | "move":
                source = _pointer(operation, "from")
                value = _at(target, source)
                target = _removed(target, source) if kind == "move" else target
                target = _set(target, path, value, add=True)
            case _:
                raise _inapplicable()
    return target


def _inapplicable() -> ApiRefusal:
    return failure(422, "Invalid", "the server rejected our request due to an error in our request", {})


_MISSING: Final = object()


def _pointer(operation: FrozenObject, field: str) -> tuple[str, ...]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and text[0] != "/"):
        raise _inapplicable()
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def _index(part: str, *, end: int) -> int:
    if not part.isdecimal() or int(part) > end:
        raise _inapplicable()
    return int(part)


def _at(target: Json, path: tuple[str, ...], missing: Json = _MISSING) -> Json:
    for part in path:
        if isinstance(target, tuple):
            target = target[_index(part, end=len(target) - 1)]
        elif isinstance(target, FrozenObject) and part in target:
            target = target[part]
        elif missing is not _MISSING:
            return missing
        else:
            raise _inapplicable()
    return target


def _set(target: Json, path: tuple[str, ...], value: Json, *, add: bool) -> Json:
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(target, tuple):
        items = list(target)
        if rest:
            place = _index(part, end=len(items) - 1)
            items[place] = _set(items[place], rest, value, add=add)
        elif add:
            items.insert(len(items) if part == "-" else _index(part, end=len(items)), value)
        else:
            items[_index(part, end=len(items) - 1)] = value
        return tuple(items)
    # As the real server (1.20): "replace" of a field that is not there adds it.
    if not isinstance(target, FrozenObject) or (rest and part not in target):
        raise _inapplicable()
    return FrozenObject({**target, part: _set(target[part], rest, value, add=add) if rest else value})


def _removed(target: Json, path: tuple[str, ...]) -> Json:
    if not path:
        raise _inapplicable()
    part, rest = path[0], path[1:]
    if isinstance(target, tuple):
        place = _index(part, end=len(target) - 1)
        kept = (_removed(target[place], rest),) if rest else ()
        return (*target[:place], *kept, *target[place + 1 :])
    if not isinstance(target, FrozenObject) or part not in target:
        raise _inapplicable()
    if rest:
        return FrozenObject({**target, part: _removed(target[part], rest)})
    return FrozenObject({name: value for name, value in target.items() if name != part})


# strategic merge


def strategically_merged(target: Json, patch: Json) -> FrozenObject:
    """The target with a strategic merge patch."""
    made = _merged_object(target if isinstance(target, FrozenObject) else FrozenObject(), patch)
    # Without a name or uid in it, what is left of an object that a directive deletes is refused by the caller.
    return FrozenObject() if made is None else made


def _merged_object(target: FrozenObject, patch: FrozenObject) -> FrozenObject | None:
    """The merged object; None where the patch says to delete it."""
    directive = patch.get("$patch")
    plain = {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "replace":
        replacement: FrozenObject = _stripped(FrozenObject(plain))
        return replacement
    if directive == "delete":
        return FrozenObject() if not plain else None
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {directive}")
    made = dict(target)
    directives = [
        plain[name] for name in plain if name == "$retainKeys" or name.startswith((_ORDER, _DELETE_PRIMITIVES))
    ]
    if not all(isinstance(one, tuple) for one in directives):
        raise bad_request("a directive of the patch is no list")
    kept = plain.pop("$retainKeys", None)
    if kept is not None:
        made = {name: value for name, value in made.items() if name in kept}
    orders = {name.removeprefix(_ORDER): value for name, value in plain.items() if name.startswith(_ORDER)}
    for name, value in plain.items():
        if name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE_PRIMITIVES):
            field = name.removeprefix(_DELETE_PRIMITIVES)
            made[field] = tuple(one for one in _list(made.get(field)) if one not in value)
        elif value is None:
            made.pop(name, None)
        elif isinstance(value, FrozenObject):
            old = made.get(name)
            merged_value = _merged_object(old if isinstance(old, FrozenObject) else FrozenObject(), value)
            if merged_value is None:
                made.pop(name, None)
            else:
                made[name] = merged_value
        elif isinstance(value, tuple):
            made[name] = _merged_list(name, _list(made.get(name)), value)
        else:
            made[name] = value
    for name, order in orders.items():
        if isinstance(made.get(name), tuple):
            key = _merge_key(name, made[name])
            made[name] = _normalized(made[name], order, _list(target.get(name)), key)
    return FrozenObject(made)


def _merge_key(name: str, *lists: tuple[Json, ...]) -> str:
    elements = [one for items in lists for one in items]
    if not elements or not all(isinstance(one, FrozenObject) for one in elements):
        return ""
    keys = _MERGE_KEYS.get(name, ())
    return next((key for key in keys if any(key in one for one in elements)), "")


def _merged_list(name: str, old: tuple[Json, ...], patch: tuple[Json, ...]) -> tuple[Json, ...]:
    if name in _PRIMITIVES:
        every = (*old, *(one for number, one in enumerate(patch) if one not in old and one not in patch[:number]))
        return _normalized(every, patch, old, "")
    mark = FrozenObject({"$patch": "replace"})
    if mark in patch:
        return tuple(_stripped(one) for one in patch if one != mark)
    key = _merge_key(name, old, patch)
    if not key:
        return tuple(_stripped(one) for one in patch)
    made = list(old)
    for element in patch:
        if key not in element:
            raise bad_request(f"map: {dict(element)} does not contain declared merge key: {key}")
        place = next((number for number, one in enumerate(made) if one.get(key) == element[key]), None)
        if element.get("$patch") == "delete":
            made = [one for one in made if one.get(key) != element[key]]
        elif place is None:
            made.append(_stripped(element))
        else:
            made[place] = _merged_object(made[place], element)
    return _normalized(tuple(made), patch, old, key)


def _normalized(items: tuple[Json, ...], order: tuple[Json, ...], old: tuple[Json, ...], key: str) -> tuple[Json, ...]:
    """Elements in apimachinery's order (normalizeElementOrder).

    Those that the patch names come in its order, the others in theirs; an old one stands before one of the patch only where
    it stood before it already.
    """

    def names(elements: tuple[Json, ...]) -> list[Json]:
        return [one.get(key) if key and isinstance(one, FrozenObject) else one for one in elements]

    wanted, was = names(order), names(old)
    named = sorted((one for one in items if names((one,))[0] in wanted), key=lambda one: wanted.index(names((one,))[0]))
    made: list[Json] = []
    for one in (one for one in items if names((one,))[0] not in wanted):
        place = was.index(names((one,))[0]) if names((one,))[0] in was else -1
        while named and not (place >= 0 and (last := names((named[0],))[0]) in was and place < was.index(last)):
            made.append(named.pop(0))
        made.append(one)
    return (*made, *named)


def _list(value: Json) -> tuple[Json, ...]:
    return value if isinstance(value, tuple) else ()


def _stripped(value: Json) -> Json:
    """What a patch adds, without directives and nulls."""
    if isinstance(value, FrozenObject):
        return FrozenObject(
            {name: _stripped(one) for name, one in value.items() if one is not None and not name.startswith("$")}
        )
    return tuple(map(_stripped, value)) if isinstance(value, tuple) else value
