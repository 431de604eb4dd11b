"""What the kubelet says of a pod: its phase, conditions and the states of its containers, as the API has them.

The rules are the kubelet's: Pending until the init containers are done, Running while a container runs or is to run again,
then Succeeded, or Failed where one ended with another code than 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.adapters.kubelet.pod_facts import HOST_IP, Pod

State: TypeAlias = dict[str, Any]

WAITING: Final[State] = {"waiting": {"reason": "PodInitializing"}}
BACK_OFF: Final[State] = {"waiting": {"reason": "CrashLoopBackOff"}}
CREATING: Final[State] = {"waiting": {"reason": "ContainerCreating"}}
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


class ContainerReport(NamedTuple):
    """What is known of a container. ``last``: how it ended before this time. ``done``: an init container that succeeded."""

    container: Pod
    state: State
    restarts: int = 0
    last: State | None = None
    done: bool = False

    @property
    def runs(self) -> bool:
        """Whether it runs now."""
        return "running" in self.state


class PodReport(NamedTuple):
    """What is known of a pod."""

    phase: str
    ip: str
    started: str
    inits: tuple[ContainerReport, ...]
    containers: tuple[ContainerReport, ...]


def running(at: str) -> State:
    """The state of a container that runs since then."""
    return {"running": {"startedAt": at}}


def terminated(code: int, reason: str, began: str, message: str | None = None) -> State:
    """The state of one that ended now."""
    over = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now_text()}
    return {"terminated": over | ({"message": message} if message else {})}


def pod_status(report: PodReport) -> dict[str, Any]:
    """The status to write."""
    initialized = report.phase != PENDING
    ready = report.phase == RUNNING and all(one.runs for one in report.containers)
    over = report.phase in {SUCCEEDED, FAILED}
    status: dict[str, Any] = {
        "phase": report.phase,
        "startTime": report.started,
        "hostIP": HOST_IP,
        "podIP": report.ip,
        "conditions": [
            _condition("Initialized", initialized, None if initialized else "ContainersNotInitialized"),
            _condition("Ready", ready, "PodCompleted" if over else None if ready else "ContainersNotReady"),
            _condition("ContainersReady", ready, "PodCompleted" if over else None if ready else "ContainersNotReady"),
            _condition("PodScheduled", True, None),
        ],
        "containerStatuses": list(map(_container, report.containers)),
    }
    if report.inits:
        status["initContainerStatuses"] = list(map(_container, report.inits))
    return status


def refused_status(why: str) -> dict[str, Any]:
    """The status of a pod that cannot be run."""
    return {"phase": FAILED, "reason": "CannotRun", "message": why, "startTime": now_text()}


def same_but_times(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two statuses say the same, apart from when conditions were looked at."""
    return _timeless(one) == _timeless(other)


def _timeless(status: Mapping[str, Any]) -> dict[str, Any]:
    conditions: Iterable[dict[str, Any]] = status.get("conditions", ())
    kept = [{key: value for key, value in one.items() if key != "lastTransitionTime"} for one in conditions]
    return {**status, "conditions": kept}


def _condition(kind: str, holds: bool, reason: str | None) -> dict[str, Any]:
    made = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": now_text()}
    return made | ({"reason": reason} if reason else {})


def _container(report: ContainerReport) -> dict[str, Any]:
    return {
        "name": report.container["name"], "image": report.container.get("image", ""), "imageID": "local",
        "ready": report.runs or report.done, "started": report.runs, "restartCount": report.restarts,
        "state": report.state, "lastState": report.last or {},
    }  # fmt: skip


def now_text() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
