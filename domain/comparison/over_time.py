"""Sums over time of what changes in steps: slots that are there, executors that were lost and not yet replaced."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import Leave, RecordedExecutor


class Steps:
    """A function that is constant between changes: O(log n) for its value and for its sum between two moments."""

    def __init__(self, moves: Iterable[tuple[Millis, float]]) -> None:
        """``moves``: (moment, by how much it changes); it is 0 before the first."""
        by_moment: dict[Millis, float] = {}
        for at, change in moves:
            by_moment[at] = by_moment.get(at, 0) + change
        self.moments = sorted(by_moment)
        self._values: list[float] = []
        self._sums: list[float] = []
        value = total = 0.0
        before = 0
        for at in self.moments:
            total += value * (at - before)
            value += by_moment[at]
            before = at
            self._values.append(value)
            self._sums.append(total)

    def value(self, at: Millis) -> float:
        """What it is from ``at`` on."""
        place = bisect_right(self.moments, at) - 1
        return self._values[place] if place >= 0 else 0.0

    def between(self, start: Millis, end: Millis) -> float:
        """Its sum over the time from ``start`` to ``end``."""
        return self._until(end) - self._until(start) if end > start else 0.0

    def _until(self, at: Millis) -> float:
        place = bisect_right(self.moments, at) - 1
        return self._sums[place] + self._values[place] * (at - self.moments[place]) if place >= 0 else 0.0


def present(executors: Iterable[RecordedExecutor], each: float, ended: Millis) -> Steps:
    """Registered executors, ``each`` counted as so many."""
    moves: list[tuple[Millis, float]] = []
    for one in executors:
        moves.append((one.added_ms, each))
        moves.append((ended if one.removed_ms is None else min(one.removed_ms, ended), -each))
    return Steps(moves)


def lost(executors: Sequence[RecordedExecutor], each: float, ended: Millis) -> Steps:
    """Executors that were lost, each until one registered that was asked for afterwards and made up for no other."""
    gone = sorted(one.removed_ms for one in executors if one.leave is Leave.LOST and one.removed_ms is not None)
    arrivals = sorted(
        (one.added_ms if one.requested_ms is None else min(one.requested_ms, one.added_ms), one.added_ms)
        for one in executors
    )
    moves: list[tuple[Millis, float]] = []
    place = 0
    for at in gone:
        while place < len(arrivals) and arrivals[place][0] < at:
            place += 1
        back = arrivals[place][1] if place < len(arrivals) else ended
        moves += [(at, each), (max(at, back), -each)]
        place += 1
    return Steps(moves)
