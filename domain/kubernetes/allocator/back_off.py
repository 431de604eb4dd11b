"""Asking for pods ever more slowly while none of them starts: the opt-in back-off that Spark 4.3.0 lacks (SPARK-34519).

A ``Slowdown`` counts start-up failures in a sliding window. Beyond the policy's number it begins: rounds ask for a probe at
a time, at ``until`` and not before, each wait twice as long as the one before. An executor that registers ends it at once:
the trouble is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.protocol.allocation_policies import BackOff
from podtide.domain.protocol.reasons import Fact


@dataclass(frozen=True, slots=True)
class Slowdown:
    """``failures``: times of start-up failures in the window. ``until``: when the next probe may go; None: at ease."""

    failures: tuple[Millis, ...] = ()
    until: Millis | None = None
    delay_ms: Millis = 0

    def failed(self, policy: BackOff, at: Millis) -> Slowdown:
        """A pod could not be created, was never seen, or failed before its executor registered."""
        if self.until is not None:
            return self  # it is slow already; the next probe will tell
        recent = (*(t for t in self.failures if t > at - policy.window_ms), at)[-policy.failures - 1 :]
        if len(recent) <= policy.failures:
            return replace(self, failures=recent)
        return Slowdown(recent, at + policy.first_ms, policy.first_ms)

    def tried(self, policy: BackOff, at: Millis) -> Slowdown:
        """A probe went out: wait twice as long for the next one."""
        delay = min(self.delay_ms * 2, policy.longest_ms)
        return replace(self, until=at + delay, delay_ms=delay)

    def over(self) -> Slowdown:
        """An executor registered."""
        return QUIET if self.failures or self.until is not None else self

    def holds(self, at: Millis) -> bool:
        """Whether nothing may be asked for now."""
        return self.until is not None and at < self.until

    def facts(self) -> dict[str, Fact]:
        """The numbers behind it."""
        return {"failures": len(self.failures), "until_ms": self.until, "delay_ms": self.delay_ms}


QUIET: Final = Slowdown()
