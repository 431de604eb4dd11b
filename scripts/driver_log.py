"""What a real driver decided, from its own log: a yardstick for replays (``make truth-check``).

Spark's ExecutorAllocationManager says every move of a target and every removal at DEBUG and INFO. The texts are those
of Spark 4.3.0; the times are the driver's wall clock, in UTC unless said otherwise.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import zstandard

from podtide.domain.base.units import Millis

_LINE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}) +[A-Z]+ +(ExecutorAllocationManager|ExecutorMonitor): (.*)"
)
_RAISED: Final = re.compile(
    r"Requesting \d+ new executors? because tasks are backlogged "
    r"\(new desired total will be (\d+) for resource profile id: (\d+)\)"
)
_LOWERED: Final = re.compile(
    r"Lowering target number of executors to (\d+) \(previously \d+ for resource profile id: (\d+)\)"
)
_REMOVED: Final = re.compile(r"Executors ([^ ]+) removed due to idle timeout\.")


class TargetMove(NamedTuple):
    """A profile's target became ``target`` at ``at``."""

    at: Millis
    profile: int
    target: int


class Removal(NamedTuple):
    """These executors were let go at ``at``."""

    at: Millis
    executors: tuple[str, ...]


@dataclass
class Decided:
    """What somebody decided over an application, in order."""

    moves: list[TargetMove] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)

    def killed(self) -> list[tuple[Millis, str]]:
        """Every executor that was let go, with the time."""
        return [(removal.at, executor) for removal in self.removals for executor in removal.executors]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, which may be compressed (``.zst``, ``.zstd``, in any number of frames)."""
    if path.suffix not in (".zst", ".zstd"):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    with path.open("rb") as file:
        content = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return io.TextIOWrapper(content, encoding="utf-8", errors="replace").read().splitlines()


def driver_decisions(lines: Iterable[str]) -> Decided:
    """Read a driver's log. Lines that say nothing about targets or removals are passed over."""
    decided = Decided()
    for at, text in _log_texts(lines, "ExecutorAllocationManager"):
        if moved := _RAISED.match(text) or _LOWERED.match(text):
            decided.moves.append(TargetMove(at, int(moved[2]), int(moved[1])))
        elif removed := _REMOVED.match(text):
            decided.removals.append(Removal(at, tuple(removed[1].split(","))))
    return decided


def monitor_lines(lines: Iterable[str]) -> Iterator[tuple[Millis, str]]:
    """What the ExecutorMonitor logged, with its times."""
    return _log_texts(lines, "ExecutorMonitor")


def _log_texts(lines: Iterable[str], logger: str) -> Iterator[tuple[Millis, str]]:
    for line in lines:
        if (line_match := _LINE.match(line)) and line_match[2] == logger:
            moment = datetime.strptime(line_match[1].replace(",", "."), "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
            yield int(moment.timestamp() * 1000), line_match[3]
