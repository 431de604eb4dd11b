"""Scenarios of the scheduler backend: the Kubernetes half of real Spark's backend was driven by them, and so is the core.

Lines say which pods the API server has, which requests fail, which executors are killed, decommissioned or reported
lost, and when the backend stops. The answers are the messages to the driver, the requests in order, and the backend's
timers after every line. The judge drove the backend's own half alone: it kills without asking who is registered, and
its task scheduler knows no executor. So executors register here, unseen, before they are killed.

What the maintenance thread is given runs at the end of a line, or with the next one (``later``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podtide.adapters.conformance.manifests import java_text, manifest
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario
from podtide.adapters.conformance.scripted import FORBIDDEN, OK, Line, Scripted, constructed, played
from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.state import DIRECT, BackendPhase, BackendState, supports_hold
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.protocol.backend_messages import (
    BackendCommand,
    BackendInput,
    Decommissioned,
    Excluded,
    Killed,
    LossReported,
    RecoveryMode,
    StopAllocator,
)
from podtide.domain.protocol.config import BackendConfig
from podtide.domain.protocol.pod_commands import (
    DeleteOwned,
    DeletePods,
    ExitReason,
    MarkPods,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    DecommissionRequested,
    KillRequested,
    Outcome,
    RegisterExecutor,
    Stopping,
    Wake,
)
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_LABEL, EXECUTOR_ROLE, ROLE_LABEL, PodManifest
from podtide.domain.protocol.reasons import Threw

RECORDED: Final = "recorded"
"""The judge's allocator that only records its calls."""
SCRIPTED: Final = CallFailure(None, "scripted", "java.lang.IllegalStateException")
RECOVERY_KEY: Final = "spark.kubernetes.allocation.recoveryMode.enabled"
STOPS: Final = {"store": "snapshotsStore", "watch": "watch", "poll": "poll"}


class BackendApi:
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
        if "failCode" in line:
            self.fail_code = line["failCode"]
        if "pods" in line:
            listed = [manifest(pod, pod.get("app", self.app_id)) for pod in line["pods"]]
            self.pods = {pod.name: pod for pod in listed}

    def code(self, call: str, name: str = "") -> int:
        """The answer to a call ("PATCH pods") on a name, or on a whole collection."""
        failing = self.fail.get(call, frozenset())
        return self.fail_code if "*" in failing or name in failing else OK

    def selector(self, executors: Iterable[str] | None) -> list[str]:
        """The label selector of executor pods, its terms sorted."""
        terms = [f"{APP_LABEL}={self.app_id}", f"{ROLE_LABEL}={EXECUTOR_ROLE}"]
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


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        options = header.get("options") or {}
        self.api = BackendApi(self.app_id)
        self.tasks: deque[tuple[Millis, MarkPods]] = deque()
        self.deleted: tuple[ExecutorId, ...] = ()
        self.stop_throws: frozenset[str] = frozenset()
        self.threw = False
        self.recovery: str | None = None
        config = constructed(kubernetes_scenario("backend", header["conf"], {**options, "appId": self.app_id}))
        if RECOVERY_KEY in header["conf"]:
            self.recovery = java_text(header["conf"][RECOVERY_KEY])
        self.holds = supports_hold(config.backend)
        self.direct = options.get("allocator", RECORDED) == DIRECT
        # The judge's core is cut off: no request is parked, no timeout ends.
        self.config: BackendConfig = replace(
            config.backend, unknown_decommissions_max=0, force_kill_timeout_ms=None, remarks=False
        )
        if self.direct:
            self.config = replace(self.config, allocator=DIRECT)
        elif self.config.allocator == DIRECT:
            self.config = replace(self.config, allocator=RECORDED)
        self.state: BackendState = backend.begin(self.config, self.now)

    def step(self, line: Line) -> list[Line]:
        """Take one line of the scenario; returns the lines that Spark would answer."""
        self.lines = []
        if "at" in line:
            self.advance(line["at"])
        self.api.apply(line)
        if "deletedIds" in line and not self.direct:  # the real allocator was not asked to delete anybody
            self.deleted = _ids(line, "deletedIds")
        if "stopThrows" in line:
            self.stop_throws = frozenset(line["stopThrows"])
        self.threw = False
        for act in (self.kill, self.decommission, self.lose, self.ask, self.stop):
            act(line)
            if self.threw:
                break
        if not line.get("later"):
            self.advance(self.now)
        self.say({"state": self.state_line()})
        return self.lines

    # what a line asks for

    def kill(self, line: Line) -> None:
        if "kill" not in line:
            return
        executors = _ids(line, "kill")
        for executor in executors:
            self.take(RegisterExecutor(self.now, executor, DEFAULT_PROFILE))
        self.take(KillRequested(self.now, executors, force=True))

    def decommission(self, line: Line) -> None:
        if "decommission" in line:
            by_executor = line.get("byExecutor", False)
            executors = _ids(line, "decommission")
            self.take(DecommissionRequested(self.now, executors, "scripted", triggered_by_executor=by_executor))

    def lose(self, line: Line) -> None:
        for loss in line.get("remove", ()):
            executor = ExecutorId(java_text(loss["id"]))
            reason = ExitReason("ExecutorExited", loss.get("message", "m"), loss.get("exitCode", 1), True)
            self.take(LossReported(self.now, executor, reason))

    def ask(self, line: Line) -> None:
        if "excluded" in line:
            self.take(Excluded(self.now, added=self.deleted))
            answers = {executor: self.state.is_excluded(executor) for executor in _ids(line, "excluded")}
            self.take(Excluded(self.now, gone=self.deleted))  # the exclusion ends here
            self.say({"isExecutorExcluded": answers})
        if line.get("hold"):
            self.say({"supportsExecutorHold": self.holds})

    def stop(self, line: Line) -> None:
        if not line.get("stop"):
            return
        self.take(Stopping(self.now))
        while self.state.phase is BackendPhase.DRAINING:  # stop() waits, and moves the clock
            self.advance(backend.due(self.state, self.config))

    # time

    def advance(self, until: Millis) -> None:
        """Let time pass: what the maintenance thread was given, then its timers."""
        self.run_tasks()
        while (due := backend.due(self.state, self.config)) <= until:
            self.now = max(self.now, due)
            self.take(Wake(self.now))
        self.now = max(self.now, until)

    def run_tasks(self) -> None:
        while self.tasks:
            self.mark(self.tasks.popleft()[1])

    # the core, and the calls that it makes

    def take(self, item: BackendInput) -> None:
        """Hand one input to the core and carry out what it says."""
        step = backend.manage(self.state, (item,), self.config, self.now)
        self.state = step.state
        for report in step.reports:
            if isinstance(report, Threw):
                self.threw = True
        for command in step.commands:
            self.carry_out(command)
        if self.threw:
            self.lines.extend(
                {"at": self.now, "threw": report.what.partition(":")[0]}
                for report in step.reports
                if isinstance(report, Threw)
            )

    def carry_out(self, command: BackendCommand) -> None:
        match command:
            case RemoveExecutor(executor=executor, reason=reason):
                self.say({"call": "removeExecutor", "id": executor, "reason": reason.kind, "message": reason.message})
            case Killed(threw=None):
                self.say({"killResult": "Some(Success(true))"})
            case Decommissioned(threw=None):
                self.say({"core": "decommissionExecutors"})
            case MarkPods():
                self.tasks.append((self.now, command))
            case DeletePods():
                self.delete(command)
            case StopSource(what=what):
                if what == "timers":
                    self.run_tasks()
                elif what in STOPS:
                    self.say({"call": f"{STOPS[what]}.stop"})
            case StopAllocator(serial=serial):
                self.take(Outcome(self.now, serial, self.stop_allocator()))
            case DeleteOwned():
                self.delete_owned(command)
            case RecoveryMode():
                self.recovery = self.recovery or "true"
            case _:
                pass  # said to machines that do not play here

    def mark(self, command: MarkPods) -> None:
        executors = list(map(str, command.executors))
        code = self.api.code("GET pods")
        self.say({"list": "pods", "labelSelector": self.api.selector(executors), "code": code})
        if code != OK:
            return
        kind = f"{command.kind}s"
        for name in self.api.select(executors, None):
            code = self.api.code("PATCH pods", name)
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {kind: {command.key: command.value}}}
            self.say({"patch": f"pods/{name}", "body": body, "code": code})
            if code != OK:
                return
            if command.kind == "label":
                pod = self.api.pods[name]
                self.api.pods[name] = pod._replace(labels={**pod.labels, command.key: command.value})

    def delete(self, command: DeletePods) -> None:
        """The forced deletion: list, and delete if there is anything."""
        executors = None if command.executors is None else list(map(str, command.executors))
        selected = {"labelSelector": self.api.selector(executors), "fieldSelector": f"status.phase={command.phase}"}
        code = self.api.code("GET pods")
        self.say({"list": "pods", **selected, "code": code})
        found = self.api.select(executors, command.phase) if code == OK else []
        if found:
            self.delete_collection("pods", selected)
            if self.api.code("DELETE pods") == OK:
                for name in found:
                    del self.api.pods[name]

    def stop_allocator(self) -> CallFailure | None:
        if not self.direct:
            self.say({"call": "allocator.stop", "appId": self.app_id})
            return SCRIPTED if "allocator" in self.stop_throws else None
        self.delete_collection("pods", {"labelSelector": self.api.selector(None)})
        if self.api.code("DELETE pods") == OK:
            for name in self.api.select(None, None):
                del self.api.pods[name]
        return None

    def delete_owned(self, command: DeleteOwned) -> None:
        terms = [f"{APP_LABEL}={self.app_id}"]
        if command.kind == "configmaps":
            terms.append(f"{ROLE_LABEL}={EXECUTOR_ROLE}")
        self.delete_collection(command.kind, {"labelSelector": terms})

    def delete_collection(self, plural: str, selected: Line) -> None:
        code = self.api.code(f"DELETE {plural}")
        self.say({"deleteCollection": plural, **selected, "propagationPolicy": "Background", "code": code})

    # answers

    def state_line(self) -> Line:
        state = self.state
        scheduled = sorted([*(at for at, _ in self.tasks), *(grace.due for grace in state.graces)])
        shutdown = state.phase in (BackendPhase.DRAINING, BackendPhase.STOPPED)
        line: Line = {"scheduled": scheduled, "shutdown": shutdown}
        if self.recovery is not None:
            line["recoveryMode"] = self.recovery
        line["pods"] = sorted(self.api.pods)
        return line


def answers(lines: Sequence[Line]) -> Iterator[Line]:
    """Everything that Spark would have said to a scenario. Raises ShapeError."""
    return played(_Runner, lines)


def _ids(line: Line, key: str) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(java_text(executor)) for executor in line.get(key, ()))
