"""Clocks that stand still until a test moves them."""

from __future__ import annotations


class MillisClock:
    """``at``: now, in whole ms. Its monotonic time counts from ``since``."""

    def __init__(self, at: int, since: int = 0) -> None:
        self.at = at
        self._since = since

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return (self.at - self._since) / 1000


class SecondsClock:
    """``seconds``: its monotonic time; ``epoch_ms``: the time of day when that was 0."""

    def __init__(self, seconds: float = 0.0, epoch_ms: int = 0) -> None:
        self.seconds = seconds
        self._epoch_ms = epoch_ms

    def now(self) -> int:
        return self._epoch_ms + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def move(self, seconds: float) -> None:
        self.seconds += seconds
