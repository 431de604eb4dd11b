"""Counts by name as the remarks behind a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from podtide.adapters.text.safe import escaped

Cost: TypeAlias = tuple[str, str, Sequence[str]]
"""A figure: what it is called, the number, and remarks (empty ones are left out)."""


def removed_words(removed: int, causes: Mapping[str, int]) -> str:
    """Executors that are gone again, and why."""
    if not removed:
        return ""
    if len(causes) == 1:
        return f"{removed:,} gone again: {escaped(next(iter(causes)))}"
    return f"{removed:,} gone again: {', '.join(listed_words(causes))}"


def listed_words(counts: Mapping[str, int]) -> Sequence[str]:
    """Counts by name, the largest first."""
    return [
        f"{escaped(name)} {number:,}" for name, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
