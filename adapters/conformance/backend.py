"""Scenarios of the scheduler backend: the Kubernetes half of real Spark's backend was driven by them, and so is the core.

Lines say which pods the API server has, which requests fail, which executors are killed, decommissioned or reported
lost, and when the backend stops. The answers are the messages to the driver, the requests in order, and the backend's
timers after every line. The judge drove the backend's own half alone: it kills without asking who is registered, and
its task scheduler knows no executor. So executors register here, unseen, before they are killed.

What the maintenance thread is given runs at the end of a line, or with the next one (``later``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import Final

from podtide.adapters.conformance.manifests import java_text
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario
from podtide.adapters.conformance.scripted import OK, Line, Scripted, ScriptedApi, constructed, played, thrown
from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.state import DIRECT, BackendPhase, BackendState, supports_hold
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.protocol import (
    backend_messages as bm,
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, ROLE_LABEL

RECORDED: Final = "recorded"
"""The judge's allocator that only records its calls."""
SCRIPTED: Final = ps.CallFailure(None, "scripted", "java.lang.IllegalStateException")
RECOVERY_KEY: Final = "spark.kubernetes.allocation.recoveryMode.enabled"
STOPS: Final = {"store": "snapshotsStore", "watch": "watch", "poll": "poll"}


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.api = ScriptedApi(self.app_id)
        self.tasks: deque[tuple[Millis, pc.MarkPods]] = deque()
        self.deleted: tuple[ExecutorId, ...] = ()
        self.stop_throws: frozenset[str] = frozenset()
        self.threw = False
        self.recovery: str | None = None
        config = constructed(kubernetes_scenario("backend", header["conf"], {**self.options, "appId": self.app_id}))
        if RECOVERY_KEY in header["conf"]:
            self.recovery = java_text(header["conf"][RECOVERY_KEY])
        self.holds = supports_hold(config.backend)
        self.direct = self.options.get("allocator", RECORDED) == DIRECT
        # The judge's core is cut off: no request is parked, no timeout ends.
        self.config: BackendConfig = replace(
            config.backend, unknown_decommissions_max=0, force_kill_timeout_ms=None, remarks=False
        )
        if self.direct:
            self.config = replace(self.config, allocator=DIRECT)
        elif self.config.allocator == DIRECT:
            self.config = replace(self.config, allocator=RECORDED)
        self.state: BackendState = backend.begin(self.config, self.now)

    def step(self, line: Line) -> None:
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

    # what a line asks for

    def kill(self, line: Line) -> None:
        if "kill" not in line:
            return
        executors = _ids(line, "kill")
        for executor in executors:
            self.take(es.RegisterExecutor(self.now, executor, DEFAULT_PROFILE))
        self.take(es.KillRequested(self.now, executors, force=True))

    def decommission(self, line: Line) -> None:
        if "decommission" in line:
            by_executor = line.get("byExecutor", False)
            executors = _ids(line, "decommission")
            self.take(es.DecommissionRequested(self.now, executors, "scripted", triggered_by_executor=by_executor))

    def lose(self, line: Line) -> None:
        for loss in line.get("remove", ()):
            executor = ExecutorId(java_text(loss["id"]))
            reason = ec.ExitReason("ExecutorExited", loss.get("message", "m"), loss.get("exitCode", 1), True)
            self.take(bm.LossReported(self.now, executor, reason))

    def ask(self, line: Line) -> None:
        if "excluded" in line:
            self.take(bm.Excluded(self.now, added=self.deleted))
            answers = {executor: self.state.is_excluded(executor) for executor in _ids(line, "excluded")}
            self.take(bm.Excluded(self.now, gone=self.deleted))  # the exclusion ends here
            self.say({"isExecutorExcluded": answers})
        if line.get("hold"):
            self.say({"supportsExecutorHold": self.holds})

    def stop(self, line: Line) -> None:
        if not line.get("stop"):
            return
        self.take(es.Stopping(self.now))
        while self.state.phase is BackendPhase.DRAINING:  # stop() waits, and moves the clock
            self.advance(backend.due(self.state, self.config))

    # time

    def advance(self, until: Millis) -> None:
        """Let time pass: what the maintenance thread was given, then its timers."""
        self.run_tasks()
        while (due := backend.due(self.state, self.config)) <= until:
            self.now = max(self.now, due)
            self.take(es.Wake(self.now))
        self.now = max(self.now, until)

    def run_tasks(self) -> None:
        while self.tasks:
            self.mark(self.tasks.popleft()[1])

    # the core, and the calls that it makes

    def take(self, item: bm.BackendInput) -> None:
        step = backend.manage(self.state, (item,), self.config, self.now)
        self.state = step.state
        faults = thrown(step.reports)
        self.threw = self.threw or bool(faults)
        for command in step.commands:
            self.carry_out(command)
        for fault in faults:
            self.say({"threw": fault.partition(":")[0]})

    def carry_out(self, command: bm.BackendCommand) -> None:
        match command:
            case ec.RemoveExecutor(executor=executor, reason=reason):
                self.say({"call": "removeExecutor", "id": executor, "reason": reason.kind, "message": reason.message})
            case bm.Killed(threw=None):
                self.say({"killResult": "Some(Success(true))"})
            case bm.Decommissioned(threw=None):
                self.say({"core": "decommissionExecutors"})
            case pc.MarkPods():
                self.tasks.append((self.now, command))
            case pc.DeletePods():
                self.delete(command)
            case ec.StopSource(what=what):
                if what == "timers":
                    self.run_tasks()
                elif what in STOPS:
                    self.say({"call": f"{STOPS[what]}.stop"})
            case bm.StopAllocator(serial=serial):
                self.take(ps.Outcome(self.now, serial, self.stop_allocator()))
            case pc.DeleteOwned():
                self.delete_owned(command)
            case bm.RecoveryMode():
                self.recovery = self.recovery or "true"
            case _:
                pass  # said to machines that do not play here

    def mark(self, command: pc.MarkPods) -> None:
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

    def delete(self, command: pc.DeletePods) -> None:
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

    def stop_allocator(self) -> ps.CallFailure | None:
        if not self.direct:
            self.say({"call": "allocator.stop", "appId": self.app_id})
            return SCRIPTED if "allocator" in self.stop_throws else None
        self.delete_collection("pods", {"labelSelector": self.api.selector(None)})
        if self.api.code("DELETE pods") == OK:
            for name in self.api.select(None, None):
                del self.api.pods[name]
        return None

    def delete_owned(self, command: pc.DeleteOwned) -> None:
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


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""


def _ids(line: Line, key: str) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(java_text(executor)) for executor in line.get(key, ()))
