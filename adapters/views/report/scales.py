"""Axes: round numbers for people, and places on a scale."""

from __future__ import annotations

import math
from typing import Final

_TIMES: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400 * days for days in (1, 2, 7, 14, 28)),
)
"""Steps of a time axis, in seconds."""


def count_ticks(top: float, most: int = 4) -> list[float]:
    """Round whole numbers from 0 up to ``top`` or just beyond it; the last is the top of the scale."""
    step = max(1.0, nice(top / most))
    return [step * index for index in range(max(1, math.ceil(top / step - 1e-9)) + 1)]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two others."""
    if high <= low:
        return [low]
    step = nice((high - low) / most)
    first = math.ceil(low / step - 1e-9)
    return [step * index for index in range(first, math.floor(high / step + 1e-9) + 1)]


def time_ticks(span: float, most: int = 6, low: float = 0.0) -> list[float]:
    """Round times from ``low`` to ``span`` seconds."""
    extent = span - low
    step = next((one for one in _TIMES if extent / one <= most), None) or nice(extent / most)
    first = math.ceil(low / step - 1e-9)
    return [step * index for index in range(first, math.floor(span / step + 1e-9) + 1)]


def nice(step: float) -> float:
    """The next of 1, 2, 2.5, 5 and 10 times a power of ten; whole from 1 to 10."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    unit = 10.0 ** math.floor(math.log10(step))
    for factor in (1, 2, 2.5, 5, 10):
        if step <= factor * unit * (1 + 1e-9) and not (unit == 1 and factor == 2.5):
            return factor * unit
    return 10 * unit
