"""Scripts for a simulated driver: targets over time, from the command line.

``0:10,60:50,300:0`` wants ten executors at once, fifty after a minute and none after five. A profile is named before its
number: ``0:10,60:1=5`` wants five of profile 1 besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from podtide.domain.commands import Command
from podtide.domain.config import EngineConfig
from podtide.domain.engine import AnyStimulus
from podtide.domain.pod_stimuli import TargetsSet
from podtide.domain.units import DEFAULT_PROFILE, NEVER, Millis, ProfileId

STEPS_MAX: Final = 100_000
EXECUTORS_MAX: Final = 1_000_000
SECONDS_MAX: Final = 10 * 366 * 86_400

_STEP: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*:\s*(?:([0-9]{1,9})\s*=\s*)?([0-9]{1,9})")


class ScriptError(Exception):
    """A script that cannot be used; the message says where and what was expected."""


class TargetScript:
    """Targets over time, as the driver's other half."""

    def __init__(self, steps: Sequence[tuple[Millis, ProfileId, int]]) -> None:
        """``steps``: when, counted from the beginning, which profile, how many executors; in order of time."""
        self._steps = tuple(steps)
        self._next = 0
        self._start: Millis = 0

    def begin(self, config: EngineConfig, seed: int, start: Millis) -> TargetScript:
        """The script, played from ``start`` on."""
        del config, seed  # nothing here depends on them
        script = TargetScript(self._steps)
        script._start = start
        return script

    def due(self) -> Millis:
        """When the next target is set."""
        return NEVER if self.done() else self._start + self._steps[self._next][0]

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """The targets that are set up to now."""
        said: list[AnyStimulus] = []
        while self.due() <= now:
            at, profile, target = self._steps[self._next]
            said.append(TargetsSet(self._start + at, ((profile, target),)))
            self._next += 1
        return said

    def hear(self, command: Command, now: Millis) -> None:
        """Nothing that is decided changes the script."""

    def done(self) -> bool:
        """Whether the last target is set."""
        return self._next >= len(self._steps)

    def summary(self) -> dict[str, int]:
        """There is no work to sum up."""
        return {}


def targets_of(text: str) -> TargetScript:
    """Targets from the command line. Raises ScriptError."""
    steps: list[tuple[Millis, ProfileId, int]] = []
    for place, part in enumerate(text.split(",", STEPS_MAX), start=1):
        match = _STEP.fullmatch(part.strip())
        where = f"--targets: step {place} ({part.strip()[:40]!r})"
        if match is None:
            raise ScriptError(
                f"{where}: expected SECONDS:EXECUTORS or SECONDS:PROFILE=EXECUTORS, such as 60:50 or 60:1=5"
            )
        at, executors = round(float(match[1]) * 1000), int(match[3])
        if executors > EXECUTORS_MAX:
            raise ScriptError(f"{where}: expected at most {EXECUTORS_MAX:,} executors")
        if at > SECONDS_MAX * 1000:
            raise ScriptError(f"{where}: expected a time within ten years")
        if steps and at < steps[-1][0]:
            raise ScriptError(f"{where}: expected a time not before that of the step before it")
        steps.append((at, ProfileId(int(match[2])) if match[2] else DEFAULT_PROFILE, executors))
    if len(steps) > STEPS_MAX:
        raise ScriptError(f"--targets: expected at most {STEPS_MAX:,} steps; a file takes more (--workload)")
    return TargetScript(steps)
