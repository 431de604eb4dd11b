"""Manifests as text for people and for kubectl: YAML documents, or JSON (a List where there are several).

Nothing that a manifest contains can move the terminal's cursor: YAML quotes and escapes what is not printable, JSON all
that is not ASCII. Anchors are not used, so that each document stands by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes shared parts out each time, and lists indented as in Kubernetes' own examples."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def yaml_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """The documents one after the other."""
    return yaml.dump_all(
        [dict(document) for document in documents],
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=False,
        width=10_000,
        explicit_start=len(documents) > 1,
    )


def json_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """One document as it is, several as a List."""
    if len(documents) == 1:
        return json.dumps(documents[0], indent=2)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}, indent=2)
