"""Writes what Spark's own log would say, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from podtide.adapters.views.sparklog.log import SparkLog
from podtide.domain.base.units import Millis
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.protocol.commands import Command, Step


class SparkLogObserver:
    """Says every decision in Spark's words."""

    def __init__(self, log: SparkLog) -> None:
        self._log = log

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """Say one step: what the machines remarked, then what they decided."""
        del stimuli
        for report in taken.reports:
            self._log.tell(now, report)
        for command in taken.commands:
            self._log.tell(now, command)
