"""How values went over time, in a bounded number of bins: their averages, and the highest that each bin saw.

A bin holds the integral of every value over its stretch of time, so two bins merge into one without loss and the area
under the averages is what it seems to be (executor-seconds, for executors). Bins begin 100 ms wide and double whenever
time outgrows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from podtide.domain.base.units import Millis

FIELDS: Final = ("target", "need", "executors", "busy")
BINS_MAX: Final = 480
WIDTH_MS: Final[Millis] = 100


class History:
    """Values of ``FIELDS`` from ``start`` on."""

    def __init__(self, start: Millis) -> None:
        self.start = start
        self.width = WIDTH_MS
        self._sums: list[list[int]] = []
        self._peaks: list[list[int]] = []
        self._end: Millis = 0

    def hold(self, begin: Millis, end: Millis, values: Sequence[int]) -> None:
        """``values`` held from ``begin`` to ``end``; neither lies before what was told so far."""
        begin, end = max(0, begin - self.start), end - self.start
        if end <= begin:
            return
        while end > self.width * BINS_MAX:
            self._double()
        self._end = end
        width, sums, peaks = self.width, self._sums, self._peaks
        last = (end - 1) // width
        while len(sums) <= last:
            sums.append([0] * len(FIELDS))
            peaks.append([0] * len(FIELDS))
        first = begin // width
        if first == last:  # nearly always: calls come as often as the timer ticks
            self._add(sums[last], peaks[last], values, end - begin)
            return
        for place in range(first, last + 1):
            span = min(end, (place + 1) * width) - max(begin, place * width)
            self._add(sums[place], peaks[place], values, span)

    @staticmethod
    def _add(total: list[int], peak: list[int], values: Sequence[int], span: Millis) -> None:
        for field, value in enumerate(values):
            total[field] += value * span
            if value > peak[field]:
                peak[field] = value

    def document(self) -> dict[str, Any]:
        """The bins as plain data: averages to a thousandth, and peaks."""
        means = [
            [round(total / min(self.width, self._end - place * self.width), 3) for total in sums]
            for place, sums in enumerate(self._sums)
        ]
        return {"start_ms": self.start, "width_ms": self.width, "fields": FIELDS, "mean": means, "peak": self._peaks}

    def _double(self) -> None:
        sums, peaks = self._sums, self._peaks
        self._sums = [[sum(v) for v in zip(*sums[i : i + 2], strict=True)] for i in range(0, len(sums), 2)]
        self._peaks = [[max(v) for v in zip(*peaks[i : i + 2], strict=True)] for i in range(0, len(peaks), 2)]
        self.width *= 2
