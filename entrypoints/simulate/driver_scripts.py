"""The driver's other half in a simulation: a workload, played.

On YARN nothing can be asked for before an application master has registered, and each that registers has forgotten what was
asked of the one before. Dynamic allocation begins anew then; targets over time, which take its place, are set again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis, ProfileId
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.rows import Ending
from podtide.domain.fakes.driver.script import Workload
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.containers import ContainerSpec
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.yarn_messages import EndApplication, MasterRegistered, ProfilesDefined


class ScriptError(Exception):
    """A script that cannot be used; the message says where and what was expected."""


class WorkloadScript:
    """A workload under way. ``start``: when it begins; ``rules``: what executors are like by the configuration."""

    def __init__(
        self,
        workload: Workload,
        seed: int,
        start: Millis,
        rules: ProfileRules,
        containers: ContainerSpec | None = None,
    ) -> None:
        """Raises ScriptError for a workload that cannot be played under these rules.

        ``containers``: on YARN, what the containers of profiles are that only targets name.
        """
        try:
            self._state = workloads.begin(workload, seed, start, rules)
        except ValueError as problems:
            raise ScriptError(f"the workload cannot be played: {problems}") from None
        self._containers = containers
        self._targets: dict[ProfileId, int] = {}
        self._again: Millis = NEVER

    def due(self) -> Millis:
        """When it next has something to say."""
        return min(workloads.due(self._state), self._again)

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """Let time pass; what it says up to now."""
        self._state, events = workloads.advance(self._state, now)
        stimuli: list[AnyStimulus] = []
        for stimulus in events:
            if isinstance(stimulus, TargetsSet):
                stimuli += self._defined(stimulus)
                self._targets.update(stimulus.targets)
            stimuli.append(stimulus)
        if self._again <= now:
            self._again = NEVER
            stimuli.append(TargetsSet(now, tuple(sorted(self._targets.items()))))
        return tuple(stimuli)

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of what the engine decided, or of what somebody told the driver."""
        if isinstance(word, MasterRegistered) and self._targets:
            self._again = now
        elif isinstance(word, EndApplication):
            word = StopApplication(word.at, word.exit_code, word.why)
        self._state = workloads.hear(self._state, cast(workloads.Word, word), now)  # it passes over what is not its own

    def _defined(self, wanted: TargetsSet) -> list[AnyStimulus]:
        """On YARN, what the containers of profiles are that were not named before."""
        new = [] if self._containers is None else [one for one, _ in wanted.targets if one not in self._targets]
        specs = tuple((profile, self._containers) for profile in sorted(new) if profile != DEFAULT_PROFILE)
        return [ProfilesDefined(wanted.at, cast(tuple[tuple[ProfileId, ContainerSpec], ...], specs))] if specs else []

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
