"""What the loop asks of the outside: where stimuli come from, where commands and reports go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Report, ScalingCommand
from podtide.domain.protocol.stimuli import Stimulus


class Sensor(Protocol):
    """Yields stimuli in order, as many at a time as it likes; their ``at`` never falls."""

    def batches(self) -> Iterable[list[Stimulus]]:
        """The stimuli, until there are no more."""
        ...


class ScalingActuator(Protocol):
    """Applies a command and says what came of it."""

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Carry the command out; the answer comes back as stimuli of the same ``now``."""
        ...

    def report(self, report: Report) -> None:
        """Take note of what was held back."""
        ...
