"""Curves of a run, thinned to what a screen can show, and what they were at any moment.

A curve is a step function: each point holds until the next. Up to ``COLUMNS`` points are drawn as they are. Of more,
lines keep in each column what came first, lowest, highest and last, so that no peak is lost; areas are the mean over
the column, so that what they cover stays the executor-seconds they stand for; and what is read off at a moment was
really there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

COLUMNS: Final = 600
"""Columns that a chart is drawn in."""

Steps: TypeAlias = list[tuple[float, float]]
"""(time, value), in order of time; each holds until the next."""


def steps_of(points: Sequence[Sequence[float]], index: int) -> Steps:
    """One figure of a curve, without the points at which it does not change; of several at one time the last holds."""
    steps: Steps = []
    for point in sorted(points, key=lambda one: one[0]):
        at, value = max(0.0, point[0]), float(point[index])
        if steps and steps[-1][0] == at:
            steps.pop()
        if not steps or steps[-1][1] != value:
            steps.append((at, value))
    return steps


def line(steps: Steps, span: float, columns: int = COLUMNS) -> Steps:
    """The curve as a line of steps: at most four in a column, its extremes among them."""
    if len(steps) <= columns:
        return steps
    kept: Steps = []
    for _, group in _columns(steps, span, columns):
        low = min(group, key=lambda one: one[1])
        high = max(group, key=lambda one: one[1])
        for step in sorted({group[0], low, high, group[-1]}):
            if not kept or kept[-1][1] != step[1]:
                kept.append(step)
    return kept


def area(steps: Steps, span: float, columns: int = COLUMNS) -> Steps:
    """The curve as an area: the mean over each column, where it has more steps than columns."""
    if len(steps) <= columns or span <= 0:
        return steps
    width = span / columns
    sums = [0.0] * columns
    for (start, value), (end, _) in zip(steps, [*steps[1:], (span, 0.0)], strict=True):
        first, last = min(columns - 1, int(start / width)), min(columns - 1, int(end / width))
        for column in range(first, last + 1):
            covered = min(end, span, (column + 1) * width) - max(start, column * width)
            if covered > 0:
                sums[column] += value * covered
    kept: Steps = []
    for column, total in enumerate(sums):
        mean = round(total / width, 2)
        if not kept or kept[-1][1] != mean:
            kept.append((column * width, mean))
    return kept


def added(first: Steps, second: Steps) -> Steps:
    """The sum of two curves."""
    moments = sorted({at for at, _ in first} | {at for at, _ in second})
    return [(at, value_at(first, at) + value_at(second, at)) for at in moments]


def value_at(steps: Steps, at: float) -> float:
    """What the curve was at a moment; nothing before its first point."""
    index = bisect_right(steps, at, key=lambda one: one[0]) - 1
    return steps[index][1] if index >= 0 else 0.0


def moments(curves: Sequence[Steps], span: float, columns: int = COLUMNS) -> list[float]:
    """When to read curves off: whenever one changes, or where that is too often once in each column."""
    changes = sorted({at for steps in curves for at, _ in steps if at <= span} | {0.0})
    if len(changes) <= columns:
        return changes
    kept: dict[int, float] = {}
    for at in changes:
        kept.setdefault(min(columns - 1, int(columns * at / span)), at)
    return list(kept.values())


def peak(steps: Steps) -> float:
    """The highest value."""
    return max((value for _, value in steps), default=0.0)


def _columns(steps: Steps, span: float, columns: int) -> Iterator[tuple[int, Steps]]:
    column, group = 0, list[tuple[float, float]]()
    for step in steps:
        own = min(columns - 1, int(columns * step[0] / span)) if span > 0 else 0
        if own != column and group:
            yield column, group
            group = []
        column = own
        group.append(step)
    if group:
        yield column, group
