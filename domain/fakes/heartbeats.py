"""When an executor of a fake cluster sent its last heartbeat."""

from __future__ import annotations

from math import floor

from podtide.domain.base.units import Millis


def last_heartbeat(since: Millis, until: Millis, interval_ms: Millis, share: float) -> Millis:
    """When an executor that sends heartbeats from ``since`` on sent the last one up to ``until``; ``since`` if it sent none.

    The first one comes after an interval and a part of one (``share``, drawn once for each executor, 0 to 1), and then one
    comes every interval (Heartbeater.start). An interval below 1 ms counts as 1 ms.
    """
    interval = max(1, interval_ms)
    first = since + interval + floor(share * interval)
    return since if until < first else until - (until - first) % interval
