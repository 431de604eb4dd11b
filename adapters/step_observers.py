"""Observers of the loop that write down what they see: a recording, and what Spark's own log would have said."""

from __future__ import annotations

from collections.abc import Sequence

from podtide.adapters.recording import RecordingWriter
from podtide.adapters.spark_words import SparkLog
from podtide.domain.commands import Command, Step
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.units import Millis


class Recorder:
    """Writes every step to a recording. Raises RecordingError where the file cannot be written."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """Write one step."""
        self._writer.step(now, stimuli, taken.commands, taken.reports)


class SparkTeller:
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
