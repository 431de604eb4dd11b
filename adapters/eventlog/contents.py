"""What a log holds, counted and named as it is read. Plain records, which cross from the reading process to the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from podtide.domain.base.units import Millis


class Malformed(NamedTuple):
    """A line that could not be used."""

    file: str
    line: int
    why: str


@dataclass
class LineCounts:
    """What became of the lines. ``read``: well-formed events; ``skipped``: those of them that play no role."""

    read: int = 0
    skipped: int = 0
    malformed: int = 0
    cut: int = 0
    first_malformed: list[Malformed] = field(default_factory=list)


@dataclass
class LogApplication:
    """What the log says of its application; None where it does not."""

    id: str | None = None
    name: str | None = None
    attempt: str | None = None
    spark_version: str | None = None
    started_ms: Millis | None = None
    ended_ms: Millis | None = None
    properties: dict[str, str] | None = None
    first_ms: Millis | None = None


@dataclass
class LogContents:
    """What a log holds, as far as it decides what the replay can know."""

    tasks: int = 0
    stages: int = 0
    jobs: int = 0
    executors: int = 0
    block_managers: int = 0
    block_updates: int = 0
    persisted_rdds: bool = False
    missing_ends: int = 0
    map_stages: int = 0
    parentless: bool = True
    applications: int = 0
    jump_ms: Millis = 0
    jump_at: tuple[str, int] = ("", 0)
