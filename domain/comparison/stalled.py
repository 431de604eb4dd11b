"""What stalls did to the time of a stage: while tasks waited and nothing moved, no other cause counts.

A stage that stood still for ten minutes has these ten minutes in its account as free slots, missing executors or lost work.
They are taken from what the stage's change was divided into, the largest part first, and named for what they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.causes import ChangeCause
from podtide.domain.comparison.stage_change import Part
from podtide.domain.stalls.causes import StallCause


class StalledTime(NamedTuple):
    """For how long nothing moved, and the cause of most of it (a ``StallCause``)."""

    ms: Millis
    cause: str = ""


def stalled_time(run: RunAccount, began_ms: Millis, ended_ms: Millis) -> StalledTime:
    """How long nothing moved between two moments of a run; executors that old shuffles keep make no task wait."""
    total, until = 0, began_ms
    by_cause: Counter[str] = Counter()
    for stall in sorted(run.stalls, key=lambda one: one.began_ms):
        begins, ends = max(stall.began_ms, until), min(stall.ended_ms, ended_ms)
        if stall.cause is StallCause.SHUFFLES or ends <= begins:
            continue
        total += ends - begins
        by_cause[stall.cause.value] += ends - begins
        until = ends
    return StalledTime(total, by_cause.most_common(1)[0][0] if by_cause else "")


def with_stall(parts: Mapping[Part, float], stall: StalledTime) -> dict[Part, float]:
    """The parts of a stage's change with what a stall made of them named for it; their sum stays."""
    stalled = float(stall.ms)
    left, found = stalled, dict(parts)
    for part, ms in sorted(parts.items(), key=lambda item: (-abs(item[1]), item[0][0].value, item[0][1])):
        if ms * stalled <= 0 or not left:
            continue
        taken = min(ms, left) if stalled > 0 else max(ms, left)
        found[part] -= taken
        left -= taken
    moved = stalled - left
    if moved:
        found[ChangeCause.STALL, stall.cause] = moved
    return {part: ms for part, ms in found.items() if ms}
