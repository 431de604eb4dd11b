"""Which fields an object has, as server-side apply counts them, and which of them differ between two objects.

A path is a tuple of FieldsV1's own words: ``f:NAME`` for a field, ``k:{...}`` for the element of a list of objects with
keys, ``v:VALUE`` for the element of a set. A list without keys, an empty object and the structures of ``_ATOMIC`` are one
field as a whole. Types of lists are those of k8s.io/api (1.22 on, where selectors and references became atomic).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from podtide.domain.api_server.json_values import FrozenObject, Json, words
from podtide.domain.api_server.statuses import ApiRefusal, failure

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]

_PROTOCOL: Final = ("protocol", "TCP")
_NAME: Final = (("name", None),)
LIST_KEYS: Final[Mapping[str, tuple[tuple[str, str | None], ...]]] = {
    "conditions": (("type", None),),
    "containers": _NAME,
    "env": _NAME,
    "ephemeralContainers": _NAME,
    "hostAliases": (("ip", None),),
    "imagePullSecrets": _NAME,
    "initContainers": _NAME,
    "ownerReferences": (("uid", None),),
    "podIPs": (("ip", None),),
    "ports": (("port", None), _PROTOCOL),
    "secrets": _NAME,
    "topologySpreadConstraints": (("topologyKey", None), ("whenUnsatisfiable", None)),
    "volumeDevices": (("devicePath", None),),
    "volumeMounts": (("mountPath", None),),
    "volumes": _NAME,
}
"""By field: the keys of a list's elements, each with its default."""

_CONTAINER_PORT: Final = (("containerPort", None), _PROTOCOL)
_SETS: Final = frozenset({"finalizers"})
_ATOMIC: Final = words(
    "selector podSelector namespaceSelector labelSelector fieldRef configMapKeyRef secretKeyRef resourceFieldRef "
    "secretRef involvedObject claimRef requiredDuringSchedulingIgnoredDuringExecution"
)
_UNMANAGED: Final = words("apiVersion kind metadata")
_UNMANAGED_METADATA: Final = words(
    "name namespace uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink "
    "managedFields clusterName"
)


def managed(item: Mapping[str, Json]) -> FrozenObject:
    """What of an object managers can own."""
    metadata = {name: one for name, one in (item.get("metadata") or {}).items() if name not in _UNMANAGED_METADATA}
    kept = {name: value for name, value in item.items() if name not in _UNMANAGED}
    return FrozenObject({**kept, "metadata": FrozenObject(metadata)} if metadata else kept)


def is_atomic(name: str) -> bool:
    """Whether an object of this name is one field as a whole."""
    return name in _ATOMIC


def is_object(name: str, value: Json) -> bool:
    """Whether the fields of a value are owned one by one."""
    return isinstance(value, FrozenObject) and bool(value) and name not in _ATOMIC


def elements(name: str, value: Json, place: str = "") -> dict[str, Json] | None:
    """The elements of a list by their words, where they are owned one by one; a refusal where one lacks its keys."""
    if not isinstance(value, tuple):
        return None
    if name in _SETS:
        return {f"v:{json.dumps(one)}": one for one in value}
    if name not in LIST_KEYS or not all(isinstance(one, FrozenObject) for one in value):
        return None
    named: dict[str, Json] = {}
    for number, one in enumerate(value):
        keys = _CONTAINER_PORT if name == "ports" and "containerPort" in one else LIST_KEYS[name]
        values: dict[str, Any] = {}
        for key, default in keys:
            if one.get(key) is None and default is None:
                why = "associative list with keys has an element that omits key field"
                raise untyped(f'{place}: element {number}: {why} "{key}" (and doesn\'t have default value)')
            values[key] = default if one.get(key) is None else one[key]
        word = f"k:{json.dumps(values, sort_keys=True, separators=(',', ':'))}"
        if word in named:
            raise untyped(f"{place}: duplicate entries for key {_step(word)}")
        named[word] = one
    return named


def untyped(why: str) -> ApiRefusal:
    """The body of an apply is no object of its kind."""
    return failure(500, "", f"failed to create typed patch object: {why}")


def paths_of(value: FrozenObject, prefix: FieldPath = (), place: str = "") -> Iterator[FieldPath]:
    """All fields of an object."""
    for name, inner in value.items():
        yield from _paths(name, inner, (*prefix, f"f:{name}"), f"{place}.{name}")


def _paths(name: str, value: Json, path: FieldPath, place: str) -> Iterator[FieldPath]:
    inside = elements(name, value, place)
    if is_object(name, value):
        yield from paths_of(value, path, place)
    elif inside:
        for word, one in inside.items():
            yield (*path, word)
            if isinstance(one, FrozenObject):
                yield from paths_of(one, (*path, word), place + _step(word))
    else:
        yield path


def changed(old: FrozenObject, new: FrozenObject, prefix: FieldPath = ()) -> tuple[set[FieldPath], set[FieldPath]]:
    """Fields that are new or have another value, and fields that are gone."""
    made: set[FieldPath] = set()
    gone: set[FieldPath] = set()
    for name in old.keys() | new.keys():
        _compare(name, old.get(name), new.get(name), (*prefix, f"f:{name}"), made, gone)
    return made, gone


def _compare(name: str, old: Json, new: Json, path: FieldPath, made: set[FieldPath], gone: set[FieldPath]) -> None:
    if old == new:
        return
    if is_object(name, old or new) and is_object(name, new or old):
        inside = changed(old or FrozenObject(), new or FrozenObject(), path)
        made |= inside[0]
        gone |= inside[1]
        return
    was, now = elements(name, old or ()), elements(name, new or ())
    if was is None or now is None or not (was or now):
        (gone if new is None else made).add(path)
        return
    for word in was.keys() | now.keys():
        inner = (*path, word)
        if word not in was or word not in now:
            (made if word in now else gone).add(inner)
        one, other = was.get(word), now.get(word)
        if isinstance(one or other, FrozenObject):
            inside = changed(one or FrozenObject(), other or FrozenObject(), inner)
            made |= inside[0]
            gone |= inside[1]


def path_text(path: FieldPath) -> str:
    """A path as messages write it: ``.spec.containers[name="c"].image``."""
    return "".join(map(_step, path))


def _step(word: str) -> str:
    kind, _, text = word.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    return f"[{','.join(f'{key}={json.dumps(value)}' for key, value in json.loads(text).items())}]"


def keys_of(word: str) -> frozenset[str]:
    """The names of the keys in an element's word."""
    return frozenset(json.loads(word[2:])) if word[0] == "k" else frozenset()


# FieldsV1


def fields_v1(paths: Iterable[FieldPath]) -> FrozenObject:
    """A set of paths as FieldsV1."""
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=len):
        node = tree
        for word in path:
            node = node.setdefault(word, {})
        node["."] = {}
    return _packed(tree)


def _packed(node: dict[str, Any]) -> FrozenObject:
    inner = {word: _packed(one) for word, one in sorted(node.items()) if word != "."}
    return FrozenObject({".": FrozenObject(), **inner} if inner and "." in node else inner)


def field_set(fields: Json) -> FieldSet:
    """FieldsV1 as a set of paths."""
    return frozenset(_unpacked(fields, ()))


def _unpacked(node: Json, path: FieldPath) -> Iterator[FieldPath]:
    inner = {word: one for word, one in node.items() if word != "."} if isinstance(node, dict) else {}
    if path and (not inner or "." in node):
        yield path
    for word, one in inner.items():
        yield from _unpacked(one, (*path, word))


def in_order(paths: Iterable[FieldPath]) -> list[FieldPath]:
    """Paths as the real server lists them: at each place the fields themselves before what lies deeper."""
    return sorted(paths, key=lambda path: [(number < len(path) - 1, word) for number, word in enumerate(path)])
