"""Samples of a stream in bounded memory, without randomness: every value at first, then every second, fourth, eighth...

When the sample is full, every other value of it is let go and from then on only every so many values are kept: what is left
is spread evenly over all that came, and the same stream always leaves the same sample.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

SAMPLE_MAX: Final = 256


def median(values: Sequence[int]) -> int:
    """The middle of ``values`` (the lower one of two); there must be one."""
    return sorted(values)[(len(values) - 1) // 2]


def quantile(values: Sequence[int], share: float) -> int:
    """The value below which ``share`` of ``values`` lie; there must be one."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def spread(values: Sequence[int]) -> int:
    """The median distance from the median; there must be one value."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


class Sample:
    """Evenly spaced values of a stream, at most ``SAMPLE_MAX`` of them. ``count``: how many there were in all."""

    __slots__ = ("_skip", "_stride", "count", "values")

    def __init__(self) -> None:
        self.values = array("q")
        self.count = 0
        self._stride = 1
        self._skip = 0

    def add(self, value: int) -> None:
        """Take the next value."""
        self.count += 1
        if self._skip:
            self._skip -= 1
            return
        self.values.append(value)
        if len(self.values) == SAMPLE_MAX:
            self.values = self.values[::2]
            self._stride *= 2
        self._skip = self._stride - 1


class Pairs:
    """The same for pairs: two streams that are sampled at the same places."""

    __slots__ = ("_skip", "_stride", "first", "second")

    def __init__(self) -> None:
        self.first = array("q")
        self.second = array("q")
        self._stride = 1
        self._skip = 0

    def add(self, first: int, second: int) -> None:
        """Take the next pair."""
        if self._skip:
            self._skip -= 1
            return
        self.first.append(first)
        self.second.append(second)
        if len(self.first) == SAMPLE_MAX:
            self.first, self.second = self.first[::2], self.second[::2]
            self._stride *= 2
        self._skip = self._stride - 1
