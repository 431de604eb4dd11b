"""A scenario under way, as all kinds have it: the clock, the answers so far, and the API server as scripts know it.

The lines of a scenario were checked against the shapes of its kind (``conformance.detect``) before they come here, so
they are read as they are; only ids, which may be numbers, become the text that Java makes of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from podtide.adapters.conformance.manifests import manifest
from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_LABEL, EXECUTOR_ROLE, ROLE_LABEL, PodManifest
from podtide.domain.protocol.reasons import Threw

Line = dict[str, Any]
T = TypeVar("T")

OK: Final = 200
FORBIDDEN: Final = 403


class ConstructionRefused(Exception):
    """Spark's class cannot be constructed with the conf of the scenario: there is nothing to drive."""


class Scripted(ABC):
    """Plays one scenario. ``lines``: the answers to the line under way, at first those to the header."""

    def __init__(self, header: Line) -> None:
        self.now: Millis = header.get("startAt", 0)
        self.app_id: str = header.get("appId", "app-1")
        self.options: Line = header.get("options") or {}
        self.lines: list[Line] = []

    @abstractmethod
    def step(self, line: Line) -> None:
        """Take one line of the scenario and answer what Spark would. Raises ShapeError."""

    def say(self, line: Line) -> None:
        """Answer a line, now."""
        self.lines.append({"at": self.now, **line})


class ScriptedApi:
    """The API server as the scenario scripts it: pods by name, and what fails."""

    def __init__(self, app_id: str) -> None:
        self.app_id = app_id
        self.pods: dict[str, PodManifest] = {}
        self.fail: dict[str, frozenset[str]] = {}
        self.fail_code = FORBIDDEN

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take what a line says about the server."""
        if "fail" in line:
            self.fail = {call: frozenset(names) for call, names in line["fail"].items()}
        self.fail_code = line.get("failCode", self.fail_code)
        if "pods" in line:
            listed = [manifest(pod, pod.get("app", self.app_id)) for pod in line["pods"]]
            self.pods = {pod.name: pod for pod in listed}

    def fails(self, call: str, name: str = "") -> bool:
        """Whether a call ("PATCH pods") on a name, or on a whole collection, fails."""
        failing = self.fail.get(call, frozenset())
        return "*" in failing or name in failing

    def code(self, call: str, name: str = "") -> int:
        """The answer to such a call."""
        return self.fail_code if self.fails(call, name) else OK

    def selector(self, executors: Iterable[str] | None, *more: str) -> list[str]:
        """The label selector of executor pods, its terms sorted."""
        terms = [f"{APP_LABEL}={self.app_id}", f"{ROLE_LABEL}={EXECUTOR_ROLE}", *more]
        if executors is not None:
            terms.append(f"{EXECUTOR_LABEL} in ({','.join(executors)})")
        return sorted(terms)

    def select(self, executors: Iterable[str] | None, phase: str | None) -> list[str]:
        """The names of the pods that a selector finds."""
        wanted = None if executors is None else frozenset(executors)
        return [
            name
            for name, pod in self.pods.items()
            if pod.labels.get(APP_LABEL) == self.app_id
            and pod.labels.get(ROLE_LABEL) == EXECUTOR_ROLE
            and (wanted is None or pod.labels.get(EXECUTOR_LABEL) in wanted)
            and (phase is None or pod.phase == phase)
        ]


def constructed(config: T | SparkFault) -> T:
    """The config. Raises ConstructionRefused where Spark's constructor ends in an exception."""
    if isinstance(config, SparkFault):
        raise ConstructionRefused(f"construct: {config}")
    return config


def thrown(reports: Iterable[Report]) -> list[str]:
    """The exceptions among a step's reports."""
    return [report.what for report in reports if isinstance(report, Threw)]


def played(make: Callable[[Line], Scripted], lines: Sequence[Line]) -> Iterator[Line]:
    """Everything that Spark would have said to a scenario, header first. Raises ShapeError."""
    try:
        runner = make(lines[0])
    except ConstructionRefused as refused:
        yield {"error": str(refused)}
        return
    yield from runner.lines
    for line in lines[1:]:
        runner.lines = []
        runner.step(line)
        yield from runner.lines
