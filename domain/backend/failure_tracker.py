"""How many executors have failed lately: a pure ExecutorFailureTracker.

Every failure is a moment in a queue. Without a validity interval (spark.executor.failuresValidityInterval) a failure
counts for ever; with one, counting drops failures from the head of the queue that are *older* than the interval: one
that is exactly as old still counts. An interval of 0 or less means none, as in Spark.

Failures of the same millisecond share an entry, so the queue grows with the moments, not with the failures.

Source: org.apache.spark.deploy.ExecutorFailureTracker of 4.3.0 (spec: allocation, section 9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pyrsistent import PDeque, pdeque

from podtide.domain.base.units import NEVER, Millis


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures that still count, oldest first: how many at which moment; ``count``: all of them."""

    moments: PDeque[tuple[Millis, int]] = field(default_factory=pdeque)
    count: int = 0

    def registered(self, now: Millis, times: int = 1) -> Failures:
        """One failure more (or ``times``), at ``now`` (registerExecutorFailure)."""
        moments, together = self.moments, times
        if moments and moments.right[0] == now:
            together += moments.right[1]
            moments = moments.pop()
        return Failures(moments.append((now, together)), self.count + times)

    def within(self, window_ms: Millis | None, now: Millis) -> Failures:
        """What still counts at ``now`` (numFailedExecutors). ``window_ms``: None or not positive counts for ever."""
        moments, count = self.moments, self.count
        if window_ms is None or window_ms <= 0:
            return self
        while moments and moments.left[0] < now - window_ms:
            count -= moments.left[1]
            moments = moments.popleft()
        return self if count == self.count else Failures(moments, count)

    def next_change(self, window_ms: Millis | None) -> Millis:
        """The first millisecond at which fewer count than now; NEVER if they count for ever."""
        if window_ms is None or window_ms <= 0 or not self.moments:
            return NEVER
        return self.moments.left[0] + window_ms + 1


NO_FAILURES: Final = Failures()
