"""The driver's other half in a simulation: a workload, played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from podtide.domain import workload as workloads
from podtide.domain.commands import Command
from podtide.domain.config import ProfileRules
from podtide.domain.engine import AnyStimulus
from podtide.domain.units import Millis
from podtide.domain.workload_rows import Ending
from podtide.domain.workload_script import Workload


class ScriptError(Exception):
    """A script that cannot be used; the message says where and what was expected."""


class WorkloadScript:
    """A workload under way. ``start``: when it begins; ``rules``: what executors are like by the configuration."""

    def __init__(self, workload: Workload, seed: int, start: Millis, rules: ProfileRules) -> None:
        """Raises ScriptError for a workload that cannot be played under these rules."""
        try:
            self._state = workloads.begin(workload, seed, start, rules)
        except ValueError as problems:
            raise ScriptError(f"the workload cannot be played: {problems}") from None

    def due(self) -> Millis:
        """When it next has something to say."""
        return workloads.due(self._state)

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """Let time pass; what it says up to now."""
        self._state, said = workloads.advance(self._state, now)
        return said

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of what the engine decided, or of what an executor told the driver."""
        self._state = workloads.hear(self._state, cast(workloads.Word, word), now)  # it passes over what is not its own

    def done(self) -> bool:
        """Whether all jobs have ended, or all targets are set."""
        return workloads.done(self._state)

    def summary(self) -> dict[str, Any]:
        """What the workload went through: ``jobs`` one by one, and counts; empty for targets."""
        if isinstance(self._state, workloads.Asking):
            return {}
        summary = workloads.summary(self._state)._asdict()
        jobs = summary.pop("jobs")
        summary["jobs"] = [
            {
                "name": job.name,
                "run": job.run,
                "job": job.job,
                "began_ms": job.began,
                "first_task_ms": job.first_task,
                "ended_ms": job.ended,
                "ending": job.ending.value if isinstance(job.ending, Ending) else None,
            }
            for job in jobs
        ]
        return summary
