"""Scenarios of the polling source: real Spark's ExecutorPodsPollingSnapshotSource was driven by them, and so is the core.

Lines say which pods the API server has, which resource version a list carries, whether lists fail, and start and stop the
source. The answers are the lists as asked for, what replaced the snapshot, and when the next list is due. The API server is
played here: it selects by labels as Spark asks it to.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from podtide.adapters.conformance.manifests import ShapeError, java_text
from podtide.adapters.conformance.scripted import FORBIDDEN, OK, Line, Scripted, ScriptedApi, played, thrown
from podtide.adapters.conformance.store import config
from podtide.domain.base.units import Millis
from podtide.domain.kubernetes import polling_source as polling
from podtide.domain.kubernetes.polling_source import REJECTED, STARTED_TWICE, PollingConfig, PollingInput, PollingState
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome, PodsReplaced
from podtide.domain.protocol.pods import INACTIVE_LABEL

LISTS_MAX: Final = 1_000_000
"""Lists of one scenario; one that lets a year pass at a millisecond's interval is a mistake."""
_THROWN_TO_CALLER: Final = frozenset({str(STARTED_TWICE), str(REJECTED)})


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.config = PollingConfig(config("poll", header).sources)
        self.state: PollingState = polling.start()
        self.api = ScriptedApi(self.app_id)
        self.version: str | None = "1"
        self.lists = 0

    def step(self, line: Line) -> None:
        if "at" in line:
            self.advance(line["at"])
        self.api.apply(line)
        if "resourceVersion" in line:
            version = line["resourceVersion"]
            self.version = None if version is None else java_text(version)
        # What one call throws ends the line's calls.
        threw = bool(line.get("start")) and self.take(polling.Start(self.now))
        if line.get("stop") and not threw:
            self.take(polling.StopPolling(self.now))
        self.advance(self.now)
        self.say({"state": {"scheduled": [] if self.state.due is None else [self.state.due]}})

    def advance(self, until: Millis) -> None:
        while (at := polling.due(self.state)) <= until:
            self.now = max(self.now, at)
            self.take(Wake(self.now))
        self.now = max(self.now, until)

    def take(self, happening: PollingInput) -> bool:
        """Put something to the source; tells whether it threw to its caller."""
        step = polling.poll(self.state, (happening,), self.config, self.now)
        self.state = step.state
        faults = [fault for fault in thrown(step.reports) if fault in _THROWN_TO_CALLER]
        for fault in faults:
            self.say({"threw": fault})
        for command in step.commands:
            if isinstance(command, ListPods):
                self.list(command)
            elif isinstance(command, PodsReplaced):
                self.say({"replaceSnapshot": [pod.name for pod in command.pods]})
        return bool(faults)

    def list(self, command: ListPods) -> None:
        """Answer a list as the API server would."""
        self.lists += 1
        if self.lists > LISTS_MAX:
            raise ShapeError(f"more than {LISTS_MAX:,} lists")
        request: Line = {"list": "pods", "labelSelector": self.api.selector(None, f"{INACTIVE_LABEL}!=true")}
        if command.resource_version is not None:
            request["resourceVersion"] = command.resource_version
        if self.api.fails("GET pods"):
            self.say({**request, "code": FORBIDDEN})
            self.take(Outcome(self.now, command.serial, CallFailure(FORBIDDEN, "Forbidden")))
            return
        self.say({**request, "code": OK})
        selected = (self.api.pods[name] for name in self.api.select(None, None))
        pods = tuple(pod for pod in selected if pod.labels.get(INACTIVE_LABEL) != "true")
        self.take(Outcome(self.now, command.serial, found=len(pods), version=self.version, pods=pods))


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""
