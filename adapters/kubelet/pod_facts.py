"""What a pod knows of itself: the downward API, as variables and as files."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from podtide.domain.jvm.quantities import parse_quantity

Pod: TypeAlias = dict[str, Any]

HOST_IP: Final = "127.0.0.1"
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class CannotRun(Exception):
    """A pod that this kubelet cannot run; says why in one line."""


@dataclass(frozen=True)
class PlacedPod:
    """A pod's manifest, and what it got besides: its address and its node."""

    pod: Pod
    ip: str
    node: str

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])


def containers_of(pod: Pod) -> list[Pod]:
    """All containers: init containers first, in their order."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def field_text(facts: PlacedPod, path: str) -> str:
    """A field as ``fieldRef`` gives it. Raises CannotRun for one that it does not give."""
    metadata, spec = facts.pod["metadata"], facts.pod["spec"]
    if keyed := _KEYED.fullmatch(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata[path.removeprefix("metadata.")])
        case "metadata.labels" | "metadata.annotations":
            return _listed(metadata.get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName":
            return facts.node
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName") or "default")
        case "status.podIP" | "status.podIPs":
            return facts.ip
        case "status.hostIP" | "status.hostIPs":
            return HOST_IP
        case _:
            raise CannotRun(f"the downward API has no field {path}")


def _listed(texts: dict[str, str]) -> str:
    """Labels as lines of a file."""
    quoted = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for _, value in sorted(texts.items())
    )
    return "\n".join(f'{key}="{value}"' for key, value in zip(sorted(texts), quoted, strict=True))


def resource_text(facts: PlacedPod, container: Pod, ref: Pod) -> str:
    """A resource as ``resourceFieldRef`` gives it, in whole divisors, rounded up. Raises CannotRun."""
    named = ref.get("containerName")
    if named is not None:
        found = [one for one in containers_of(facts.pod) if one["name"] == named]
        if not found:
            raise CannotRun(f"resourceFieldRef: there is no container {named}")
        container = found[0]
    side, _, resource = str(ref["resource"]).partition(".")
    amount = (container.get("resources", {}).get(side) or {}).get(resource)
    value = parse_quantity(str(amount)) if amount is not None else _of_node(side, resource)
    divisor = parse_quantity(str(ref.get("divisor") or "1")) or Decimal(1)  # "0" is how the API writes no divisor
    if value is None:
        raise CannotRun(f"resourceFieldRef: {ref['resource']} cannot be read")
    return str(math.ceil(value / divisor))


def _of_node(side: str, resource: str) -> Decimal | None:
    """What a container without a limit may have: what the node has. Without a request: nothing."""
    if side == "requests":
        return Decimal(0)
    match resource:
        case "cpu":
            return Decimal(os.cpu_count() or 1)
        case "memory":
            return Decimal(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        case _:
            return None
