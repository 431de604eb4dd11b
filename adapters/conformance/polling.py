"""Scenarios of the polling source: real Spark's ExecutorPodsPollingSnapshotSource was driven by them, and so is the core.

Lines say which pods the API server has, which resource version a list carries, whether lists fail, and start and stop the
source. The answers are the lists as asked for, what replaced the snapshot, and when the next list is due. The API server is
played here: it selects by labels as Spark asks it to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podtide.adapters.conformance.manifests import ShapeError, java_text, manifest
from podtide.adapters.conformance.scripted import FORBIDDEN, Line, Scripted, played
from podtide.adapters.conformance.store import config
from podtide.domain.base.units import Millis
from podtide.domain.kubernetes import polling_source as polling
from podtide.domain.kubernetes.polling_source import REJECTED, STARTED_TWICE, PollingConfig, PollingInput, PollingState
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome, PodsReplaced, Wake
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, INACTIVE_LABEL, ROLE_LABEL, PodManifest
from podtide.domain.protocol.reasons import Threw

LISTS_MAX: Final = 1_000_000
"""Lists of one scenario; one that lets a year pass at a millisecond's interval is a mistake."""
_THROWN_TO_CALLER: Final = frozenset({str(STARTED_TWICE), str(REJECTED)})


class _Runner(Scripted):
    """One scenario under way: the clock, and the API server."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.config = PollingConfig(config("poll", header).sources)
        self.state: PollingState = polling.start()
        self.pods: dict[str, PodManifest] = {}
        self.version: str | None = "1"
        self.failing = False
        self.lists = 0

    def step(self, line: Line) -> Iterator[Line]:
        """The answers to a line of the scenario."""
        if "at" in line:
            yield from self.advance(line["at"])
        if "fail" in line:
            failing = line["fail"].get("GET pods", ())
            self.failing = "*" in failing or "" in failing
        if "resourceVersion" in line:
            version = line["resourceVersion"]
            self.version = None if version is None else java_text(version)
        if "pods" in line:
            listed = [manifest(pod, pod.get("app", self.app_id)) for pod in line["pods"]]
            self.pods = {pod.name: pod for pod in listed}
        # What one call throws ends the line's calls.
        started = self.take(polling.Start(self.now)) if line.get("start") else []
        yield from started
        if line.get("stop") and not any("threw" in answer for answer in started):
            yield from self.take(polling.Stop(self.now))
        yield from self.advance(self.now)
        due = [] if self.state.due is None else [self.state.due]
        yield {"at": self.now, "state": {"scheduled": due}}

    def advance(self, until: Millis) -> Iterator[Line]:
        """Let time pass, listing when a list is due."""
        while (at := polling.due(self.state)) <= until:
            self.now = max(self.now, at)
            yield from self.take(Wake(self.now))
        self.now = max(self.now, until)

    def take(self, happening: PollingInput) -> list[Line]:
        step = polling.poll(self.state, (happening,), self.config, self.now)
        self.state = step.state
        faults = [report.what for report in step.reports if isinstance(report, Threw)]
        answers: list[Line] = [{"at": self.now, "threw": fault} for fault in faults if fault in _THROWN_TO_CALLER]
        for command in step.commands:
            if isinstance(command, ListPods):
                answers += self.list(command)
            elif isinstance(command, PodsReplaced):
                answers.append({"at": self.now, "replaceSnapshot": [pod.name for pod in command.pods]})
        return answers

    def list(self, command: ListPods) -> list[Line]:
        """Answer a list as the API server would."""
        self.lists += 1
        if self.lists > LISTS_MAX:
            raise ShapeError(f"more than {LISTS_MAX:,} lists")
        selector = [f"{APP_LABEL}={self.app_id}", f"{INACTIVE_LABEL}!=true", f"{ROLE_LABEL}={EXECUTOR_ROLE}"]
        request: Line = {"at": self.now, "list": "pods", "labelSelector": selector}
        if command.resource_version is not None:
            request["resourceVersion"] = command.resource_version
        if self.failing:
            answer = Outcome(self.now, command.serial, CallFailure(FORBIDDEN, "Forbidden"))
            return [{**request, "code": FORBIDDEN}, *self.take(answer)]
        pods = tuple(pod for pod in self.pods.values() if self.selected(pod))
        answer = Outcome(self.now, command.serial, found=len(pods), version=self.version, pods=pods)
        return [{**request, "code": 200}, *self.take(answer)]

    def selected(self, pod: PodManifest) -> bool:
        labels = pod.labels
        ours = labels.get(APP_LABEL) == self.app_id and labels.get(ROLE_LABEL) == EXECUTOR_ROLE
        return ours and labels.get(INACTIVE_LABEL) != "true"


def answers(lines: Sequence[Line]) -> Iterator[Line]:
    """Everything that Spark would have said to a scenario. Raises ShapeError."""
    return played(_Runner, lines)
