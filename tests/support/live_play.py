"""A live run on a small scale: a clock that is moved by hand, and an application whose steps a story sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.views.live.status import About
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.protocol.application import AnyStimulus, EngineConfig
from podtide.domain.protocol.executor_stimuli import Starting
from tests.support.clock import MillisClock
from tests.support.engine_play import Answers, AppPlay

START = 1_795_255_200_000
"""2026-11-21T10:00:00Z."""

ABOUT = About("spark-1", "data", "act", "1.2.3", "https://10.0.0.1", "a number")


class HandClock(MillisClock):
    """Time stands still until somebody moves it."""

    def __init__(self, now: int = START) -> None:
        super().__init__(now, START)


class Seen(AppPlay):
    """An application whose steps ``observers`` see. Times of the play count from ``START``."""

    def __init__(
        self,
        settings: EngineConfig,
        clock: HandClock,
        *observers: Any,
        answers: Answers | None = None,
    ) -> None:
        self.clock = clock
        self.observers = observers
        self._heard: Sequence[AnyStimulus] = (Starting(clock.now()),)
        super().__init__(settings, answers, now=clock.now())

    def feed(self, *stimuli: AnyStimulus) -> list[Any]:
        self._heard = stimuli
        self.clock.at = max(self.clock.at, self.now)
        return super().feed(*stimuli)

    def _keep(self, step: Any) -> None:
        for observer in self.observers:
            observer.step(self.now, self._heard, step)
        super()._keep(step)


def tracker(clock: HandClock | None = None, about: About = ABOUT) -> LiveTracker:
    return LiveTracker(about, clock or HandClock())


def notice(
    topic: Topic = Topic.CALL_REFUSED, text: str = "no", level: Level = Level.WARNING, at: int = START, **facts: Any
) -> Notice:
    return Notice(at, level, topic, text, tuple(facts.items()))
