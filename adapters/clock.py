"""The one place where a live run reads a clock: epoch milliseconds that never fall, and a monotonic clock for time-outs.

Everything else is handed a ``Clock``; tests hand one that they move themselves.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

from podtide.domain.base.units import Millis


class Clock(Protocol):
    """Epoch milliseconds, and seconds that only ever grow."""

    def now(self) -> Millis:
        """Epoch milliseconds; never lower than before, whatever somebody does to the machine's clock."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment: for time-outs and latencies."""
        ...


class SystemClock:
    """The machine's. Epoch time is read once and goes on with the monotonic clock, so that it neither jumps nor falls.

    Where the system can tell, time goes on while the machine sleeps: a lease must not look fresh after waking.
    """

    def __init__(self) -> None:
        self._epoch: Final = time.time() - self.monotonic()

    def now(self) -> Millis:
        """Epoch milliseconds."""
        return int((self._epoch + self.monotonic()) * 1000)

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


_BOOT: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
