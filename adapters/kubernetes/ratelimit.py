"""How fast calls may follow one another: a rate of our own, and whatever the API server asks for.

Calls of a kind share a ``RateLimiter``. Every call reserves a moment in it and waits until then. On a quiet server the
moments are those of a token bucket: ``per_second`` of them, up to ``burst`` at once, or all at once where no rate was set.

A server that answers 429 or 503 speaks to the whole lane, however many workers call in it. The lane then stands still
for as long as the server asked (Retry-After), or, where it did not say, for a back-off that doubles with every refusal
and carries jitter; then one call goes out as a probe, the next a second later, and with every success the distance is
halved until it is gone. So one refusal never makes sixteen workers knock again at once, and a server that recovers is
met at full speed about three seconds later. Answers to calls that left before the last refusal say nothing new: a success
among them does not speed the lane up, a refusal among them does not double the back-off a second time.

An episode begins with the first refusal and ends when the distance is gone; each is told once at both ends.

``RateLimiter`` is thread-safe. It waits by the function that it was given, never while it holds its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from podtide.adapters.clock import Clock
from podtide.adapters.notices import Level, Notice, Notify, Topic

Wait = Callable[[float], bool]
"""Lets seconds pass and answers False; True, perhaps early: nobody waits any more, give up (``Event.wait`` is one)."""

Jitter = Callable[[], float]
"""A number from 0.0 to below 1.0."""

RETRY_AFTER_MAX_S: Final = 60.0
"""A server that asks for more is asked again after this."""


class Rate(NamedTuple):
    """At most ``per_second`` calls a second over time, at most ``burst`` of them at once. None: no bound of ours."""

    per_second: float | None = None
    burst: int = 1


class Backoff(NamedTuple):
    """How long to wait when nobody says: ``first_s``, doubled each time up to ``most_s``; the half of it is jitter."""

    first_s: float = 0.5
    most_s: float = 30.0

    def after(self, attempts: int, jitter: Jitter) -> float:
        """Seconds to wait after this many attempts (from 1 on) failed."""
        whole = min(self.most_s, self.first_s * 2.0 ** min(attempts - 1, 30))
        return whole * (0.5 + 0.5 * jitter())


class Throttle(NamedTuple):
    """How a lane recovers: the distance of the first calls after a pause, and the one below which all is well again."""

    probe_s: float = 1.0
    over_s: float = 0.05
    backoff: Backoff = Backoff()


class CallTurn(NamedTuple):
    """The right to make one call. ``refusals``: how many the lane knew of when it gave the turn."""

    waited_s: float
    refusals: int


class RateLimiter:
    """One lane. ``name`` is for people: "creations", "other calls"."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        notify: Notify,
        *,
        jitter: Jitter,
        wait: Wait,
        rate: Rate = Rate(),  # noqa: B008 - a value
        throttle: Throttle = Throttle(),  # noqa: B008 - a value
    ) -> None:
        """``wait`` is called by whoever enters."""
        assert rate.per_second is None or rate.per_second > 0.0
        assert rate.burst >= 1
        self.name = name
        self._clock, self._notify, self._jitter, self._wait = clock, notify, jitter, wait
        self._throttle = throttle
        self._interval: Final = 0.0 if rate.per_second is None else 1.0 / rate.per_second
        self._tolerance: Final = self._interval * (rate.burst - 1)
        self._lock = threading.Lock()
        self._next = -1e18  # the moment of the next call if they came at their interval (GCRA's arrival time)
        self._spacing = 0.0
        self._refusals = 0
        self._in_a_row = 0
        self._began: float | None = None
        self._refusals_noted = 0

    @property
    def busy(self) -> bool:
        """Whether the server asked for less, and the lane has not recovered yet."""
        return self._began is not None

    @property
    def refusals(self) -> int:
        """Answers 429 and 503, ever."""
        return self._refusals

    def enter(self, deadline: float) -> CallTurn | None:
        """Wait for a turn; None if there is none before ``deadline`` (monotonic seconds), or nobody waits any more."""
        began = self._clock.monotonic()
        while True:
            with self._lock:
                now = self._clock.monotonic()
                slowed = self._began is not None
                gap = max(self._interval, self._spacing)
                at = self._next - (0.0 if slowed else self._tolerance)
                if at <= now:
                    self._next = max(self._next, now) + gap
                    return CallTurn(now - began, self._refusals)
                if at > deadline or now >= deadline:
                    return None
            # Nothing is reserved while waiting: whoever wakes first goes, and a refusal in between holds for all.
            if self._wait(at - now):
                return None

    def eased(self, turn: CallTurn) -> None:
        """The call of this turn was answered, and not with a refusal to serve."""
        if self._began is None or turn.refusals != self._refusals:
            return
        with self._lock:
            if self._began is None or turn.refusals != self._refusals:
                return
            self._spacing /= 2.0
            self._in_a_row = 0
            if self._spacing >= self._throttle.over_s:
                return
            lasted, count = self._clock.monotonic() - self._began, self._refusals - self._refusals_noted
            self._spacing, self._began = 0.0, None
        facts = (("refusals", count), ("lasted_ms", int(lasted * 1000)))
        text = f"the API server takes {self.name} at full speed again, {lasted:.1f} s after it asked for less"
        self._notify(Notice(self._clock.now(), Level.INFO, Topic.THROTTLED, text, facts))

    def throttled(self, turn: CallTurn, retry_after_s: float | None) -> None:
        """The call of this turn was answered with 429 or 503."""
        with self._lock:
            now = self._clock.monotonic()
            known = turn.refusals != self._refusals  # others were refused since this call left
            if not known:
                self._in_a_row += 1
            if retry_after_s is None:
                pause = 0.0 if known else self._throttle.backoff.after(self._in_a_row, self._jitter)
            else:
                delay_s = min(retry_after_s, RETRY_AFTER_MAX_S)
                pause = delay_s + self._jitter() * min(delay_s, 1.0)
            begins = self._began is None
            if begins:
                self._began, self._refusals_noted = now, self._refusals
            self._refusals += 1
            self._spacing = self._throttle.probe_s
            self._next = max(self._next, now + pause)
        if begins:
            facts = (("pause_ms", int(pause * 1000)),)
            text = f"the API server asks for fewer calls; {self.name} wait {pause:.1f} s and come slower then"
            self._notify(Notice(self._clock.now(), Level.WARNING, Topic.THROTTLED, text, facts))
