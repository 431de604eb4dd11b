"""What is seen of a cause in both runs: figures, each before and after.

``CauseFigure`` is a figure with its unit, for people to check a cause against; which figures there are depends on the cause
and on the stages that it changed most.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from podtide.domain.comparison.account import RunAccount, StageAccount, TaskTime
from podtide.domain.comparison.causes import OF_TASK_TIME, ChangeCause
from podtide.domain.comparison.stage_change import Spell, measure_of
from podtide.domain.comparison.stalled import stalled_time


class Unit(Enum):
    """What a figure counts."""

    COUNT = "count"
    MS = "ms"
    BYTES = "bytes"
    RATIO = "ratio"


class CauseFigure(NamedTuple):
    """A figure of both runs; ``stage``: of which stage (its name), empty where it is of the whole run."""

    what: str
    before: float
    after: float
    unit: Unit
    stage: str = ""


def evidence_of(
    cause: ChangeCause,
    first: RunAccount,
    second: RunAccount,
    pairs: Sequence[tuple[StageAccount, StageAccount]],
) -> tuple[CauseFigure, ...]:
    """The figures for a cause. ``pairs``: the stages that it changed, the most first."""
    found: list[CauseFigure] = []
    if pairs:
        found += _of_stage(cause, *pairs[0])
    one, two = first.executors, second.executors
    if cause in (ChangeCause.EXECUTORS, ChangeCause.SHAPE):
        found.append(CauseFigure("executors at once", one.peak, two.peak, Unit.COUNT))
    waited = cause in (ChangeCause.EXECUTORS, ChangeCause.FIRST_EXECUTORS)
    if waited and one.start_up_ms is not None and two.start_up_ms is not None:
        found.append(CauseFigure("from request to registration, median", one.start_up_ms, two.start_up_ms, Unit.MS))
    if cause is ChangeCause.FIRST_EXECUTORS and one.first_ms is not None and two.first_ms is not None:
        found.append(CauseFigure("first executor registered after", one.first_ms, two.first_ms, Unit.MS))
    if cause is ChangeCause.STALL:
        was, now = (stalled_time(run, 0, run.runtime_ms).ms for run in (first, second))
        found.append(CauseFigure("nothing moved for", was, now, Unit.MS))
        found.append(CauseFigure("executors at once", one.peak, two.peak, Unit.COUNT))
    if cause is ChangeCause.LOST:
        found.append(CauseFigure("executors lost", sum(one.lost.values()), sum(two.lost.values()), Unit.COUNT))
        wasted, lost = (sum(stage.wasted_ms for stage in run.stages) for run in (first, second))
        found.append(CauseFigure("task time that did not count", wasted, lost, Unit.MS))
    return tuple(found)


def _of_stage(cause: ChangeCause, one: StageAccount, two: StageAccount) -> list[CauseFigure]:
    measure = measure_of(one, two)
    name = two.label
    amounts = (max(1, one.amounts.get(measure, 0)), max(1, two.amounts.get(measure, 0)))
    if cause is ChangeCause.INPUT:
        unit = Unit.BYTES if "bytes" in measure.value else Unit.COUNT
        return [CauseFigure(measure.value, *amounts, unit, name)]
    for kind, blamed in OF_TASK_TIME.items():
        if blamed is cause:
            return [_per_unit(kind, one, two, name), CauseFigure(measure.value, *amounts, Unit.COUNT, name)]
    match cause:
        case ChangeCause.SLOW_HOST:
            slowest = _on_hosts(one)[-1], _on_hosts(two)[-1]
            middle = _on_hosts(one)[len(one.hosts) // 2], _on_hosts(two)[len(two.hosts) // 2]
            return [
                CauseFigure(f"task time for 1,000 {measure.value} on the slowest host", *slowest, Unit.MS, name),
                CauseFigure(f"task time for 1,000 {measure.value} on the middle one", *middle, Unit.MS, name),
            ]
        case ChangeCause.SKEW | ChangeCause.STRAGGLER:
            found = [CauseFigure("longest task", one.longest.task_ms, two.longest.task_ms, Unit.MS, name)]
            found.append(CauseFigure("median task", one.longest.median_ms, two.longest.median_ms, Unit.MS, name))
            if cause is ChangeCause.SKEW:
                figures = one.longest.units, two.longest.units
                found.append(CauseFigure(f"{measure.value} by the longest task", *figures, Unit.COUNT, name))
                figures = one.longest.median_units, two.longest.median_units
                found.append(CauseFigure(f"{measure.value} by the median task", *figures, Unit.COUNT, name))
            return found
        case ChangeCause.SPILL:
            return [CauseFigure("spilled", one.spilled_bytes, two.spilled_bytes, Unit.BYTES, name)]
        case ChangeCause.PARTITIONS:
            slots = Spell.of(one).slots, Spell.of(two).slots
            return [
                CauseFigure("tasks", one.tasks, two.tasks, Unit.COUNT, name),
                CauseFigure("slots, on average", *slots, Unit.RATIO, name),
            ]
        case ChangeCause.EXECUTORS | ChangeCause.SHAPE | ChangeCause.SHARED:
            slots = Spell.of(one).slots, Spell.of(two).slots
            return [CauseFigure("slots, on average", *slots, Unit.RATIO, name)]
        case ChangeCause.LOCALITY:
            return [CauseFigure("tasks away from their data", one.remote.tasks, two.remote.tasks, Unit.COUNT, name)]
        case ChangeCause.LOST:
            return [CauseFigure("tries that did not count", one.lost_tasks, two.lost_tasks, Unit.COUNT, name)]
        case _:
            return []


def _per_unit(kind: TaskTime, one: StageAccount, two: StageAccount, name: str) -> CauseFigure:
    """Task time of a kind for a thousand units of work."""
    measure = measure_of(one, two)
    before = 1000 * one.time_ms.get(kind, 0) / max(1, one.amounts.get(measure, 0))
    after = 1000 * two.time_ms.get(kind, 0) / max(1, two.amounts.get(measure, 0))
    return CauseFigure(f"{kind.value}, for 1,000 {measure.value}", before, after, Unit.MS, name)


def _on_hosts(stage: StageAccount) -> list[float]:
    """Task time for a thousand units of work by host, the fastest first."""
    return sorted(1000 * one.task_ms / max(1, one.units) for one in stage.hosts) or [0.0]
