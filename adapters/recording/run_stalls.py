"""The watch over stalls of one run, as it goes: beside a replay or beside a live run (``domain.stalls``).

The run hands over its events and, whenever time has passed, how things stood until then. Nothing is looked at while tasks
end well and there is one profile: until ``LEAST_MS`` after the last success nothing can be a stall. After that a look is
taken at most every ``LOOK_MS``, and at executors that old shuffles keep every ``KEPT_MS``; so a look costs little even where
it lasts for days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Phase
from podtide.domain.scaling.state import ScalingState
from podtide.domain.stalls import stalls as watching
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import KeptMoment, ProfileMoment, StallConfig, StallInput, StallMoment
from podtide.domain.stalls.readings import Successes, kept_executors
from podtide.domain.stalls.stalls import Stall, StallNews, StallState

LOOK_MS: Final[Millis] = 10_000
KEPT_MS: Final[Millis] = 300_000
ENDED_MAX: Final = 100
"""Stalls that are over and told one by one: the longest; of the others the number."""


class RunStalls:
    """Which stalls a run had and has. ``config.start``: when it began; ``listener``: told of each that begins or ends."""

    def __init__(self, config: StallConfig, listener: Callable[[StallNews], None] = lambda _news: None) -> None:
        self.config = config
        self._listener = listener
        self.state = StallState()
        self.ended: list[Stall] = []
        self.began: Counter[StallCause] = Counter()
        """Alarms that began, by cause, ever."""
        self.left_out = 0
        self._successes = Successes(config.start)
        self._heard_at = config.start  # the last event
        self._looked_at = config.start
        self._kept_at = config.start

    def hear(self, events: Sequence[Any], now: Millis) -> None:
        """Events that were reflected at ``now``."""
        self._heard_at = now
        if self._successes.take(events) or self.state.open:
            self.tell(self._successes.facts(), now)

    def tell(self, facts: Iterable[StallInput], now: Millis) -> None:
        """Facts that came of something else than listener events."""
        self._keep(watching.watch(self.state, tuple(facts), self.config, now))

    def due(self, now: Millis, *, tasks_known: bool = True) -> bool:
        """Whether a look could find anything, or be needed: nothing has ended well for a while, or something lasts.

        ``tasks_known``: whether successes are heard of at all.
        """
        if now - self._looked_at < LOOK_MS:
            return False
        return (
            not tasks_known
            or now - self._successes.last >= LEAST_MS
            or self._successes.several
            or bool(self.state.open)
        )

    def look(self, moments: Sequence[ProfileMoment], now: Millis) -> None:
        """Judge how things stood from the last event until ``now``."""
        self._looked_at = now
        moment = StallMoment(now, min(self._heard_at, now), tuple(moments))
        state = self.state
        if state.open or state.deaths or state.short_since or any(one.waits for one in moments):
            self.tell((*self._successes.facts(), moment), now)

    def look_at_kept(self, scaling: ScalingState, now: Millis, *, last: bool = False) -> None:
        """Judge whether old shuffles keep executors, if it is time, or the ``last`` time."""
        if last or now - self._kept_at >= KEPT_MS:
            self._kept_at = now
            kept = kept_executors(scaling, now)
            if kept or self.state.kept:
                self.tell((KeptMoment(now, min(self._heard_at, now), kept),), now)

    def all(self) -> list[Stall]:
        """The stalls that are told: those that last and those that are over, by their beginning."""
        return sorted((*self.ended, *self.state.stalls()), key=lambda one: (one.since, one.cause.value))

    def _keep(self, step: Step[StallState, StallNews]) -> None:
        self.state = step.state
        for news in step.commands:
            self._take(news)
            self._listener(news)

    def _take(self, news: StallNews) -> None:
        stall = news.stall
        if news.phase is Phase.BEGAN:
            self.began[stall.cause] += stall.blocked
            return
        self.ended.append(stall)
        if len(self.ended) > ENDED_MAX:
            self.ended.remove(min(self.ended, key=_weight))
            self.left_out += 1


def stall_document(stall: Stall) -> dict[str, Any]:
    """A stall as plain data. ``ended_ms``: null as long as it lasts."""
    row = ROWS[stall.cause]
    return {
        "cause": stall.cause.value,
        "profile": stall.profile,
        "blocked": stall.blocked,
        "began_ms": stall.since,
        "ended_ms": stall.until,
        "facts": dict(stall.facts),
        "executors": list(stall.executors),
        "stage_attempts": [f"{stage}.{attempt}" for stage, attempt in stall.attempts],
        "meaning": row.meaning,
        "advice": row.advice,
    }


def _weight(stall: Stall) -> tuple[bool, Millis]:
    return stall.blocked, (stall.until or stall.since) - stall.since
