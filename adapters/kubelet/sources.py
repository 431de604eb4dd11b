"""The objects that a pod's volumes and variables come from: config maps, secrets and claims, by name.

A kubelet waits for them before it begins a container, unless the manifest calls them optional: spark-submit, for example,
makes a driver's pod before its config map.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.adapters.kubelet.pod_facts import CannotRun, Pod, containers_of

CONFIG_MAPS: Final = "configmaps"
SECRETS: Final = "secrets"
CLAIMS: Final = "persistentvolumeclaims"

TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105 - a volume's name
"""How the volume is called in which admission puts a service account's token: a folder of the kubelet takes its place."""

Data: TypeAlias = Mapping[str, bytes]


class SourceRef(NamedTuple):
    """An object that is needed: the resource and its name."""

    resource: str
    name: str
    optional: bool


@dataclass(frozen=True)
class PodSources:
    """What was there: data of config maps and secrets, folders of claims. ``token``, ``ca``: of the service account."""

    config_maps: Mapping[str, Data] = field(default_factory=dict)
    secrets: Mapping[str, Data] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)
    token: str | None = None
    ca: bytes | None = None


def volumes_of(pod: Pod) -> Iterator[Pod]:
    """The volumes, but for that of the service account's token."""
    return (volume for volume in pod["spec"].get("volumes", ()) if not volume["name"].startswith(TOKEN_VOLUME))


def sources_of(pod: Pod) -> frozenset[SourceRef]:
    """Everything that a pod names; what one place calls optional and another does not is needed."""
    found = set(_named(pod))
    return frozenset(ref for ref in found if not ref.optional or ref._replace(optional=False) not in found)


def _named(pod: Pod) -> Iterator[SourceRef]:
    for volume in volumes_of(pod):
        for source in (volume, *(volume.get("projected") or {}).get("sources", ())):
            if (one := source.get("configMap")) is not None:
                yield SourceRef(CONFIG_MAPS, one["name"], bool(one.get("optional")))
            if (one := source.get("secret")) is not None:
                yield SourceRef(SECRETS, one.get("secretName") or one["name"], bool(one.get("optional")))
        if (one := volume.get("persistentVolumeClaim")) is not None:
            yield SourceRef(CLAIMS, one["claimName"], optional=False)
    for container in containers_of(pod):
        for entry in container.get("envFrom", ()):
            yield from _refs(entry, "configMapRef", "secretRef")
        for entry in container.get("env", ()):
            yield from _refs(entry.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")


def _refs(entry: Pod, config_map: str, secret: str) -> Iterator[SourceRef]:
    for resource, key in ((CONFIG_MAPS, config_map), (SECRETS, secret)):
        if (one := entry.get(key)) is not None:
            yield SourceRef(resource, one["name"], bool(one.get("optional")))


def data_of(document: Mapping[str, Any]) -> Data:
    """The data of a config map or a secret, decoded."""
    if document.get("kind") == "Secret":
        return {key: base64.b64decode(text) for key, text in (document.get("data") or {}).items()}
    plain = {key: text.encode() for key, text in (document.get("data") or {}).items()}
    return plain | {key: base64.b64decode(text) for key, text in (document.get("binaryData") or {}).items()}


def value_of(sources: Mapping[str, Data], ref: Pod, what: str) -> bytes | None:
    """The value that a ``...KeyRef`` names; None for an optional one that is not there. Raises CannotRun."""
    value = sources.get(ref["name"], {}).get(ref["key"])
    if value is None and not ref.get("optional"):
        raise CannotRun(f"{what} {ref['name']} has no key {ref['key']}")
    return value
