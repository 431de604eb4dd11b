"""The chain of stages that ended last, as it was: stages and the driver's time between them fill the run without gaps.

Backwards from the end: the last stage that was completed; before it, of the stages that it read and of those of the jobs
that had to end before its own was submitted, the one that was completed last; and so on to the start. Unlike
``recorded.critical_path`` it takes stages as long as they took, with the executors that there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import Piece, PieceKind


class ChainStage(NamedTuple):
    """A stage in its time; ``parents``: stages that it read; ``job``: its own."""

    stage: int
    job: int
    submitted_ms: Millis
    completed_ms: Millis
    parents: tuple[int, ...] = ()


def chain_of(stages: Sequence[ChainStage], after: Mapping[int, Sequence[int]], runtime_ms: Millis) -> tuple[Piece, ...]:
    """The pieces in order of time; they sum to ``runtime_ms``. ``after``: of a job, those that had to end before it."""
    by_id = {one.stage: one for one in stages}
    last: dict[int, ChainStage] = {}
    for one in stages:
        if one.job not in last or one.completed_ms > last[one.job].completed_ms:
            last[one.job] = one
    pieces: list[Piece] = []
    current = max(stages, key=lambda one: (one.completed_ms, one.stage), default=None)
    if current is None:
        return (Piece(PieceKind.STARTING, 0, runtime_ms),)
    end = min(runtime_ms, current.completed_ms)
    if end < runtime_ms:
        pieces.append(Piece(PieceKind.ENDING, end, runtime_ms))
    while current is not None:
        del by_id[current.stage]  # each is waited for once, whatever a log claims
        before = _released_by(current, by_id, last, after)
        released = 0 if before is None else min(end, before.completed_ms)
        began = min(end, max(released, current.submitted_ms))
        if began < end:
            pieces.append(Piece(PieceKind.STAGE, began, end, current.stage))
        if released < began:
            kind = PieceKind.STARTING if before is None else PieceKind.DRIVER
            pieces.append(Piece(kind, released, began, current.stage))
        current, end = before, released
    return tuple(reversed(pieces))


def _released_by(
    one: ChainStage, by_id: Mapping[int, ChainStage], last: Mapping[int, ChainStage], after: Mapping[int, Sequence[int]]
) -> ChainStage | None:
    """The stage that was completed last of those that had to be before this one was submitted."""
    found = [by_id[parent] for parent in one.parents if parent in by_id]
    found = [parent for parent in found if parent.completed_ms <= one.submitted_ms]
    if not found:
        seen: set[int] = set()
        jobs = list(after.get(one.job, ()))
        while jobs:
            job = jobs.pop()
            if job in seen:
                continue
            seen.add(job)
            if job in last:
                found += [last[job]] if last[job].stage in by_id else []
            else:  # it ran no stage of its own
                jobs.extend(after.get(job, ()))
        found = [before for before in found if before.completed_ms < one.completed_ms]
    return max(found, key=lambda before: (before.completed_ms, before.stage), default=None)
