"""The actuator that only logs: every command is written down, nothing is carried out.

What the engine would ask of a cluster comes out as records (docs/reference/formats.md), one a line. So that it goes on,
each call is answered at the same moment as done: pods count as created, claims as made, the driver pod as there. No pod
is ever seen after that, and no executor registers: after allocation.executor.timeout the allocator gives its pods up
and asks again, as it would against an API server that loses everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from podtide.adapters.recording.records.commands import command_record
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.pod_stimuli import Outcome


class Demand(Protocol):
    """Where the demand comes from: something that speaks as time passes."""

    def due(self) -> Millis:
        """When it next has something to say."""
        ...

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """Let time pass; what it says up to now."""
        ...

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of what was decided."""
        ...


class DryRun:
    """The loop's environment without a cluster. ``write``: takes each command's record. ``ended``: told to stop."""

    def __init__(self, demand: Demand, write: Callable[[dict[str, Any]], None]) -> None:
        self.ended: Millis | None = None
        self._demand = demand
        self._write = write
        self._answers: deque[Outcome] = deque()

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """The answers that are due, or the next thing that the demand says, or ``until``."""
        if self.ended is not None:
            return NEVER, ()
        if self._answers:
            answers = tuple(self._answers)
            self._answers.clear()
            return answers[0].at, answers
        at = self._demand.due()
        if at > until or at == NEVER:
            return until, ()
        return at, tuple(self._demand.advance(at))

    def apply(self, command: Command, now: Millis) -> None:
        """Write a command down, and answer it."""
        self._write(command_record(command))
        self._demand.hear(command, now)
        serial = getattr(command, "serial", None)
        if serial is not None:
            self._answers.append(Outcome(now, serial))
        if isinstance(command, StopApplication):
            self.ended = now
