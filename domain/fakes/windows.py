"""Windows of time in which something of a fake cluster holds, and a time-out of Spark that all of them meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podtide.domain.base.units import Millis, next_on_grid


@dataclass(frozen=True, slots=True)
class Window:
    """When something may happen: from ``from_ms`` until ``until_ms`` (None: for ever), again every ``every_ms``."""

    from_ms: Millis = 0
    until_ms: Millis | None = None
    every_ms: Millis | None = None

    def active(self, t: Millis) -> bool:
        """Whether it is open at ``t`` (ms since the cluster began)."""
        if t < self.from_ms:
            return False
        if self.until_ms is None:
            return True
        if self.every_ms is None:
            return t < self.until_ms
        return (t - self.from_ms) % self.every_ms < self.until_ms - self.from_ms

    def after(self, t: Millis, active_ms: Millis) -> Millis | None:
        """When it has been open for ``active_ms`` from ``t`` on; None where it never will."""
        t = max(t, self.from_ms)
        if self.until_ms is None:
            return t + active_ms
        if self.every_ms is None:
            return t + active_ms if t + active_ms < self.until_ms else None
        length = self.until_ms - self.from_ms
        round_, offset = divmod(t - self.from_ms, self.every_ms)
        left = max(0, length - offset)
        if active_ms < left:
            return t + active_ms
        whole, rest = divmod(active_ms - left, length)
        return self.from_ms + (round_ + 1 + whole) * self.every_ms + rest

    def next_start(self, t: Millis) -> Millis | None:
        """When it opens next, at ``t`` or later; None where it does not any more."""
        if t <= self.from_ms:
            return self.from_ms
        if self.until_ms is None or self.every_ms is None:
            return None
        return next_on_grid(self.from_ms, self.every_ms, t)


ALWAYS_OPEN: Final = Window()


SPARK_ASK_MS: Final[Millis] = 120_000
"""spark.rpc.askTimeout: how long an executor waits for the driver's answer before it gives up."""
