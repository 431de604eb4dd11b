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
    """How the lines were read. ``read``: well-formed events; ``skipped``: those of them that play no role."""

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
    """What a log holds, as far as it decides what the replay can know.

    ``first_part``, ``part``: the numbers, from 0, of the first part of a log in parts and of the last one so far, None where
    none is said; ``context``: of which SparkContext that is; ``first_job``: the lowest id of a job.
    """

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
    first_part: int | None = None
    part: int | None = None
    context: int | None = None
    first_job: int | None = None


def begins_late(application: LogApplication, seen: LogContents) -> bool:
    """Whether the log is what is left of one whose beginning is missing: a part, or parts without the first.

    Of a log in parts the first one says its number. Of any other it is told by what stands at every log's beginning: without
    ApplicationStart, it is whole only if it has an environment and its first job is job 0.
    """
    if seen.first_part is not None:
        return seen.first_part > 0
    return seen.applications == 0 and (application.properties is None or seen.first_job != 0)
