"""What happened on an embedded cluster, counted as it happens: pods by their fate, calls, executor-seconds.

A pod's fate is what ended it: one that was asked to go was *deleted*, whatever its process made of that; else it *succeeded*
or *failed*. Executor-seconds are those in which pods with the label ``spark-role=executor`` were Running.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from podtide.adapters.api_server.front import ServedStep
from podtide.adapters.api_server.serving import KUBELET
from podtide.adapters.text.format import count
from podtide.domain.api_faults.faulty_server import WatchCut
from podtide.domain.api_server.json_values import FrozenObject, at
from podtide.domain.api_server.messages import ApiResponse, HttpRequest
from podtide.domain.base.units import Millis

ENDED: Final = {"Succeeded": "succeeded", "Failed": "failed"}
DELETED: Final = "deleted"
BROKEN: Final = "watch broken"
LEFT: Final = "left"
"""Still there at the end."""


@dataclass
class PodTally:
    """One pod that is there."""

    executor: bool
    since: Millis | None = None
    """When it began to run."""
    fate: str = ""


@dataclass
class ClusterTally:
    """An observer of steps (``StepObserver``). Everything is up to the last step; ``closed`` counts what is left."""

    fates: Counter[str] = field(default_factory=Counter)
    calls: Counter[int] = field(default_factory=Counter)
    """Of others than the kubelets, by status; watches and logs are 200, and 0 is no answer."""
    faults: Counter[str] = field(default_factory=Counter)
    """What clients met of the cluster file, by kind."""
    executor_ms: Millis = 0
    running_max: int = 0
    _pods: dict[str, PodTally] = field(default_factory=dict)
    _running: int = 0

    def __call__(self, step: ServedStep) -> None:
        """A step was taken."""
        if isinstance(step.stimulus, HttpRequest) and step.user != KUBELET:
            answer = step.answer
            self.calls[answer.code if isinstance(answer, ApiResponse) else 200 if answer is not None else 0] += 1
        if step.fault:
            self.faults[step.fault] += 1
        for _, event in step.events:
            if isinstance(event, WatchCut):
                self.faults[BROKEN] += 1
        for revision in range(step.before.revision + 1, step.after.revision + 1):
            change = step.after.history.get(revision)
            if change is not None and change.key.resource == "pods":
                self._see(change.before, change.after, step.now)

    def _see(self, before: FrozenObject | None, after: FrozenObject | None, now: Millis) -> None:
        pod = after if after is not None else before
        assert pod is not None
        uid = pod["metadata"]["uid"]
        row = self._pods.get(uid)
        if row is None:
            role = at(pod, ("metadata", "labels", "spark-role"))
            row = self._pods[uid] = PodTally(executor=role == "executor")
        phase = at(pod, ("status", "phase"))
        if not row.fate:
            if at(pod, ("metadata", "deletionTimestamp")):
                row.fate = DELETED
            elif phase in ENDED:
                row.fate = ENDED[phase]
        runs = after is not None and phase == "Running"
        if runs and row.since is None:
            row.since = now
            self._running += 1
            self.running_max = max(self.running_max, self._running)
        elif not runs:
            self._stop(row, now)
        if after is None:
            self.fates[row.fate or DELETED] += 1
            del self._pods[uid]

    def _stop(self, row: PodTally, now: Millis) -> None:
        if row.since is not None:
            self._running -= 1
            self.executor_ms += (now - row.since) if row.executor else 0
            row.since = None

    def closed(self, now: Millis) -> ClusterTally:
        """The same at the end: pods that are still there are counted by their phase, or as left."""
        for row in self._pods.values():
            self._stop(row, now)
            self.fates[row.fate if row.fate in ENDED.values() else LEFT] += 1
        self._pods.clear()
        return self

    def line(self) -> str:
        """The summary for people."""
        pods = self.fates.total()
        fates = ", ".join(f"{number} {fate}" for fate, number in sorted(self.fates.items()))
        parts = [
            count(pods, "pod") + (f" ({fates}; {self.running_max} at once)" if pods else ""),
            self._calls_part(),
            f"{self.executor_ms / 1000:,.1f} executor-seconds",
            *self._faults_part(),
        ]
        return ", ".join(parts)

    @property
    def calls_made(self) -> int:
        """How many calls there were."""
        return sum(self.calls.copy().values())

    def calls_line(self) -> str:
        """Calls and faults up to now."""
        return ", ".join([self._calls_part(), *self._faults_part()])

    def _calls_part(self) -> str:
        calls = self.calls.copy()
        refused = sum(number for status, number in calls.items() if status >= 400)
        return count(calls.total(), "API call") + (f" ({refused} refused)" if refused else "")

    def _faults_part(self) -> list[str]:
        faults = self.faults.copy()
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(faults.items()))
        return [f"{count(faults.total(), 'fault')} ({kinds})"] if faults else []
