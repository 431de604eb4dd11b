"""JSON as values that nobody can change: objects that refuse to be written to, tuples for arrays.

The server shares what it stores with those who read it. A body is frozen once, where it enters; what is frozen already is
returned as it is, so a change of one field costs the path to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never, TypeAlias

Json: TypeAlias = Any
"""A JSON value; arrays are tuples once frozen."""

JsonPath: TypeAlias = tuple[str, ...]


class FrozenObject(dict[str, Any]):
    """A JSON object that cannot be changed; encoders take it for the dict that it is."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise TypeError("an object of the API server cannot be changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenObject], tuple[dict[str, Any]]]:
        return FrozenObject, (dict(self),)


EMPTY = FrozenObject()


def frozen(value: Json) -> Json:
    """The same JSON, in values that cannot be changed."""
    kind = type(value)
    if kind is FrozenObject or kind is str:
        return value
    if kind is dict:
        return FrozenObject({key: frozen(item) for key, item in value.items()})
    if kind is list or kind is tuple:
        return tuple([frozen(item) for item in value])
    return value


def put(value: Mapping[str, Json], path: JsonPath, leaf: Json) -> FrozenObject:
    """The object with a frozen ``leaf`` at ``path``; objects on the way are made where there is none."""
    changed = dict(value)
    inner = path[1:]
    changed[path[0]] = put(_object(changed.get(path[0])), inner, leaf) if inner else leaf
    return FrozenObject(changed)


def drop(value: Mapping[str, Json], path: JsonPath) -> FrozenObject:
    """The object without the field at ``path``."""
    head, inner = path[0], path[1:]
    if head not in value:
        return value if isinstance(value, FrozenObject) else FrozenObject(value)
    changed = dict(value)
    if inner:
        changed[head] = drop(_object(changed[head]), inner)
    else:
        del changed[head]
    return FrozenObject(changed)


def filled(base: Mapping[str, Json], defaults: Mapping[str, Json]) -> FrozenObject:
    """The object with the defaults for what it does not say."""
    return FrozenObject({**defaults, **{name: value for name, value in base.items() if value is not None}})


def at(value: Json, path: JsonPath) -> Json:
    """What stands at ``path``; None where nothing does."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_at(value: Json, path: JsonPath) -> str:
    """The text at ``path`` as field selectors see it: empty where there is none, ``true`` for True."""
    found = at(value, path)
    if found is None:
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else EMPTY


def words(text: str) -> frozenset[str]:
    """Names that a table holds, written with blanks between them."""
    return frozenset(text.split())
