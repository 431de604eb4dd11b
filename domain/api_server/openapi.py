"""OpenAPI v3 of what is served: what kubectl checks manifests by, explains, and looks for parameters in.

Made from the tables of kinds (``kinds``) and of their fields (``rules.shapes``): a schema names what this server knows, and
what it does not look into is open (``x-kubernetes-preserve-unknown-fields``). Without descriptions. The bodies of a patch
leave strategic merge out: kubectl would want the merge keys of all lists here, and has them itself (it asks for OpenAPI
first and takes its own types where that says nothing, pkg/cmd/apply/patcher.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.domain.api_server.kinds import GROUPS, KINDS, ApiKind
from podtide.domain.api_server.patches.apply import APPLY_PATCH
from podtide.domain.api_server.patches.request_patches import JSON_PATCH, MERGE_PATCH
from podtide.domain.api_server.rules.shapes import SHAPES

_ROOT: Final = "/openapi/v3"
_JSON: Final = "application/json"
_GVK: Final = "x-kubernetes-group-version-kind"
_TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "number": {"type": "integer", "format": "int64"},
    "flag": {"type": "boolean"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
_WRITES: Final = ("dryRun", "fieldManager", "fieldValidation")
_BODIES: Final = {"post": (_JSON,), "put": (_JSON,), "patch": (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)}
_METHODS: Final = ("get", "put", "patch", "delete")
_SUCCESS: Final = {"200": {"description": "OK"}}


def described(path: str, version: str) -> dict[str, Any] | None:
    """The document of a path; None where there is none. ``version``: the server's."""
    places = {f"apis/{group}/{number}": (group, number) for group, number in GROUPS} | {"api/v1": ("", "v1")}
    if path == _ROOT:
        return {"paths": {place: {"serverRelativeURL": f"{_ROOT}/{place}"} for place in sorted(places)}}
    here = places.get(path.removeprefix(f"{_ROOT}/"))
    if here is None or not path.startswith(f"{_ROOT}/"):
        return None
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == here]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {place: item for kind in kinds for place, item in _paths(kind).items()},
        "components": {
            "schemas": {_name(kind): _schema(SHAPES[kind.resource]) | {_GVK: [_gvk(kind)]} for kind in kinds}
        },
    }


def _name(kind: ApiKind) -> str:
    return f"io.k8s.api.{kind.group.partition('.')[0] or 'core'}.{kind.version}.{kind.kind}"


def _gvk(kind: ApiKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema(shape: Any) -> dict[str, Any]:
    """A shape as a schema."""
    if isinstance(shape, str):
        return _TYPES[shape]
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0])}
    if "*" in shape:
        return {"type": "object", "additionalProperties": _schema(shape["*"])}
    known = shape.get("")
    names = shape.keys() - {""} if known is None else known
    made: dict[str, Any] = {"type": "object"}
    if names:
        made["properties"] = {name: _schema(shape[name]) if name in shape else _OPEN for name in sorted(names)}
    return made if known is not None else made | _OPEN


_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
"""Anything."""


def _paths(kind: ApiKind) -> dict[str, Any]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    home = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    return {
        f"{home}/{kind.plural}": {method: _operation(kind, method) for method in ("get", "post")},
        f"{home}/{kind.plural}/{{name}}": {method: _operation(kind, method) for method in _METHODS},
    }


def _operation(kind: ApiKind, method: str) -> dict[str, Any]:
    made: dict[str, Any] = {_GVK: _gvk(kind), "responses": _SUCCESS}
    if method in _BODIES:
        schema = {"$ref": f"#/components/schemas/{_name(kind)}"} if method != "patch" else {}
        made["requestBody"] = {"required": True, "content": {media: {"schema": schema} for media in _BODIES[method]}}
        made["parameters"] = [{"name": name, "in": "query", "schema": _TYPES["text"]} for name in _WRITES]
    return made
