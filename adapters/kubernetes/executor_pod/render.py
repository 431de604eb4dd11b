"""Manifests as text for people and for kubectl: YAML documents, or JSON (a List where there are several).

Nothing that a manifest contains can move the terminal's cursor: YAML quotes and escapes what is not printable, JSON all
that is not ASCII. Anchors are not used, so that each document stands by itself. Texts of several lines are blocks, and a
text that YAML 1.2 takes for a number (``12e4``) is quoted, which PyYAML, of YAML 1.1, would not do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

_NUMBER: Final = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")


class _Dumper(yaml.SafeDumper):
    """Writes shared parts out each time, and lists indented as in Kubernetes' own examples."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        """A text as it is read back by every version."""
        style = "|" if "\n" in text else "'" if _NUMBER.fullmatch(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.text)


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
