"""What ``kubectl kustomize`` makes of the folders of deploy/, as far as these use it, where there is no kubectl.

Resources, labels, namespace, name suffix, images, generated config maps (merged, replaced) and patches (a strategic merge of
objects without lists that merge, and JSON 6902's add, replace and test). Names of config maps get no hash.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

Manifest: TypeAlias = dict[str, Any]
KNOWN: Final = {
    "apiVersion", "kind", "resources", "labels", "namespace", "nameSuffix", "images", "configMapGenerator", "patches",
}  # fmt: skip


def render(folder: Path) -> list[Manifest]:
    """The objects that a folder stands for."""
    plan = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(plan) <= KNOWN, f"{folder}: {set(plan) - KNOWN} cannot be rendered here"
    found: list[Manifest] = []
    for name in plan.get("resources", ()):
        place = folder / name
        found += render(place) if place.is_dir() else list(yaml.safe_load_all(place.read_text()))
    for wish in plan.get("configMapGenerator", ()):
        _generate(found, wish, folder)
    for patch in plan.get("patches", ()):
        _patch(found, patch, folder)
    for labels in plan.get("labels", ()):
        for one in found:
            _label(one, labels["pairs"], selectors=labels.get("includeSelectors", False))
    for image in plan.get("images", ()):
        for container in _containers(found):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    return _named(found, plan.get("nameSuffix", ""), plan.get("namespace"))


def _generate(found: list[Manifest], wish: Manifest, folder: Path) -> None:
    data = dict(literal.split("=", 1) for literal in wish.get("literals", ()))
    data |= {name: (folder / name).read_text() for name in wish.get("files", ())}
    there = [one for one in found if one["kind"] == "ConfigMap" and one["metadata"]["name"] == wish["name"]]
    if not there:
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": wish["name"]}, "data": data})
        return
    assert wish["behavior"] in {"merge", "replace"}
    there[0]["data"] = data if wish["behavior"] == "replace" else {**there[0]["data"], **data}


def _patch(found: list[Manifest], patch: Manifest, folder: Path) -> None:
    if "path" in patch:
        change = yaml.safe_load((folder / patch["path"]).read_text())
        target = _target(found, change["kind"], change["metadata"]["name"])
        _merge(target, change)
        return
    target = _target(found, patch["target"]["kind"], patch["target"]["name"])
    for step in yaml.safe_load(patch["patch"]):
        *way, last = step["path"].strip("/").split("/")
        place: Any = target
        for part in way:
            place = place[int(part) if isinstance(place, list) else part]
        if step["op"] == "add" and last == "-":
            place.append(step["value"])
        elif step["op"] == "test":
            assert place[int(last) if isinstance(place, list) else last] == step["value"], step
        else:
            place[int(last) if isinstance(place, list) else last] = step["value"]


def _merge(target: Manifest, change: Manifest) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _target(found: list[Manifest], kind: str, name: str) -> Manifest:
    (target,) = [one for one in found if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return target


def _label(one: Manifest, pairs: dict[str, str], *, selectors: bool) -> None:
    places = [one["metadata"]]
    if selectors and one["kind"] == "Deployment":
        one["spec"]["selector"]["matchLabels"] |= pairs
        places.append(one["spec"]["template"]["metadata"])
    for metadata in places:
        metadata["labels"] = {**metadata.get("labels", {}), **pairs}


def _containers(found: list[Manifest]) -> list[Manifest]:
    return [c for one in found if one["kind"] == "Deployment" for c in one["spec"]["template"]["spec"]["containers"]]


def _named(found: list[Manifest], suffix: str, namespace: str | None) -> list[Manifest]:
    """Names and namespaces, and all that refers to them."""
    names = {one["metadata"]["name"] for one in found}
    result = copy.deepcopy(found)
    for one in result:
        _rename(one, names, suffix)
        if namespace is not None:
            one["metadata"]["namespace"] = namespace
            for subject in one.get("subjects", ()):
                subject["namespace"] = namespace
    return result


def _rename(place: Any, names: set[str], suffix: str) -> None:
    """References are names beside a kind or a mount; a container's or a volume's own name is none."""
    if isinstance(place, list):
        for one in place:
            _rename(one, names, suffix)
    elif isinstance(place, dict):
        for key, value in place.items():
            if key in {"metadata", "roleRef", "configMapRef", "configMap"} and value.get("name") in names:
                value["name"] += suffix
            elif key == "subjects":
                for subject in value:
                    subject["name"] += suffix
            elif key == "serviceAccountName" and value in names:
                place[key] = value + suffix
            else:
                _rename(value, names, suffix)
