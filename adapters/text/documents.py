"""What every JSON document has in common: the name of its schema, and keys in snake_case.

A document begins with ``"schema": "podtide/NAME/1"``. The number grows when a field goes or changes its meaning; fields may
be added without it. Keys are fields in snake_case, and words of podtide's own (a cause, a limit, a call) written the same
way; keys that are data - a conf key, an id, a file's name - are as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

WORDED: Final = frozenset(
    {
        "by_cause", "calls", "calls_failed", "cluster_tally", "counts", "exits", "held", "ledger", "pruned_by", "released",
        "removals", "waiting", "wasted_by",
    }
)  # fmt: skip
"""Fields whose keys are words: "kept by shuffle data", "create pods", "pods.created"."""

_SIGN: Final = re.compile(r"-(?=[0-9])")
_GAPS: Final = re.compile(r"[^a-z0-9]+")


def schema_name(document: str, version: int = 1) -> str:
    """The value of the key ``schema``: ``podtide/replay/1``."""
    return f"podtide/{document}/{version}"


def snake_case(words: str) -> str:
    """``kept by shuffle data`` as ``kept_by_shuffle_data``; the sign of a number is kept as a word."""
    return _GAPS.sub("_", _SIGN.sub("minus ", words.lower())).strip("_")


def with_plain_keys(value: Any) -> Any:
    """The same document with words as keys in snake_case. What would fall together stays as it is."""
    if isinstance(value, Mapping):
        return {key: _worded(one) if key in WORDED else with_plain_keys(one) for key, one in value.items()}
    return [with_plain_keys(one) for one in value] if isinstance(value, list | tuple) else value


def _worded(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return with_plain_keys(value)
    made: dict[str, Any] = {}
    for key, one in value.items():
        plain = snake_case(str(key))
        made[plain if plain and plain not in made else key] = with_plain_keys(one)
    return made
