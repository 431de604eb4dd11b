"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Series(NamedTuple):
    """A metric: its type, what it says, and its samples as (labels, value)."""

    name: str
    kind: str
    text: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def exposed(metrics: Iterable[Series]) -> bytes:
    """The page of these metrics."""
    lines: list[str] = []
    for one in metrics:
        lines.append(f"# HELP {one.name} {one.text}")
        lines.append(f"# TYPE {one.name} {one.kind}")
        for labels, value in one.samples:
            shown = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
            lines.append(f"{one.name}{{{shown}}} {value!r}" if shown else f"{one.name} {value!r}")
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
