"""What clients ask first: the version, which groups there are, which kinds, and whether the server is well.

In the legacy form (``/api``, ``/apis`` and one list per group and version), which every client falls back to, and
OpenAPI v3 (``openapi``).
"""

from __future__ import annotations

from typing import Any, Final

from podtide.domain.api_server import openapi
from podtide.domain.api_server.json_values import FrozenObject, Json, frozen
from podtide.domain.api_server.kinds import CREATE_SUBRESOURCES, GROUPS, KINDS, ApiKind

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_KINDS: Final = {
    "binding": {"kind": "Binding"},
    "eviction": {"kind": "Eviction", "group": "policy", "version": "v1"},
    "scale": {"kind": "Scale", "group": "autoscaling", "version": "v1"},
}
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})


def discovered(path: str, version: str) -> FrozenObject | str | None:
    """The answer to a GET of a path that names no object; None where there is nothing."""
    path = path.rstrip("/") or "/"
    if path in _HEALTH:
        return "ok"
    answer: Any = None
    match path.split("/")[1:]:
        case ["version"]:
            answer = _version(version)
        case ["api"]:
            answer = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            answer = _resources("", "v1")
        case ["apis"]:
            groups = [_group(name, number) for name, number in GROUPS]
            answer = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name]:
            found = next((number for group, number in GROUPS if group == name), None)
            answer = None if found is None else {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, found)
        case ["apis", name, number] if (name, number) in GROUPS:
            answer = _resources(name, number)
        case ["openapi", *_]:
            answer = openapi.described(path, version)
        case [""]:
            paths = ["/api", "/api/v1", "/apis"]
            for name, number in GROUPS:
                paths += [f"/apis/{name}", f"/apis/{name}/{number}"]
            answer = {"paths": [*paths, *sorted(_HEALTH), "/openapi/v3", "/version"]}
    made: FrozenObject | None = frozen(answer)
    return made


def _version(version: str) -> Json:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{version}+podtide",
        "gitCommit": "podtide",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "python",
        "platform": "podtide",
    }


def _group(name: str, version: str) -> dict[str, Any]:
    preferred = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [preferred], "preferredVersion": preferred}


def _resources(group: str, version: str) -> Json:
    rows = []
    for kind in KINDS:
        if (kind.group, kind.version) == (group, version):
            rows.append(_row(kind))
            rows += [_subresource(kind, name) for name in kind.subresources]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": rows}


def _row(kind: ApiKind) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        row["shortNames"] = kind.short_names
    if kind.categories:
        row["categories"] = kind.categories
    return row


def _subresource(kind: ApiKind, name: str) -> dict[str, Any]:
    verbs = ["create"] if name in CREATE_SUBRESOURCES else ["get"] if name == "log" else ["get", "patch", "update"]
    row = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "verbs": verbs}
    return row | _SUBRESOURCE_KINDS.get(name, {"kind": kind.kind})
