"""Recorded scenarios of the lifecycle manager: what was put to real Spark's, re-decided here.

A scenario's header has a conf; its lines say who is registered and active, what the API will answer, and bring batches
of snapshots, each a round. ``answers`` gives the lines that real Spark's manager gave: every removal, every call to the
API and its result, and after each line the state. Formats: the LifecycleOracle section of the judge's notes.

The scripted API knows the newest manifest that any line has shown of an executor, unless a line says that the pod is gone
or being deleted. Within a snapshot Spark meets pods in the order of a hash; its lines are sorted by executor, and so
are these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from podtide.adapters.conformance.manifests import ShapeError, java_text, manifest
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario
from podtide.adapters.conformance.scripted import Line, Scripted, constructed, played, thrown
from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import NULL_POINTER, SparkFault
from podtide.domain.jvm.hash_order import SMALL
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.exit_reasons import UNKNOWN_EXIT_CODE
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import ActiveExecutors, Delivery, LifecycleInput
from podtide.domain.kubernetes.snapshots import View
from podtide.domain.protocol.executor_commands import RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import DeletePod, MarkInactive
from podtide.domain.protocol.pod_stimuli import CallFailure, CreationFailed, KnownExecutors, Outcome
from podtide.domain.protocol.pods import INACTIVE_LABEL, Pod, PodManifest, PodNumber, Snapshot

_EVERY: Final = "*"
_DELETING: Final = "1970-01-01T00:00:00Z"
_PATCH: Final = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {INACTIVE_LABEL: "true"}}}
_NUMBER: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_LAST: Final = 2**63
"""Sorts after every snapshot and every executor."""


class _Answer(NamedTuple):
    """A line, and what it is sorted by: which snapshot, which executor, and whether the executor's last."""

    phase: int
    executor: int
    late: int
    line: Line


@dataclass
class _Api:
    """The API server as the scenario scripts it: its answers to a GET, DELETE or PATCH of a pod."""

    known: dict[str, PodManifest] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)  # by executor: present, deleting or gone
    failing: dict[str, frozenset[str]] = field(default_factory=dict)
    fail_code: int = 403
    pods: dict[str, str | None] = field(default_factory=dict)  # by name: the deletionTimestamp

    def script(self, line: Line) -> None:
        for key, method in (("failGets", "GET"), ("failDeletes", "DELETE"), ("failPatches", "PATCH")):
            if key in line:
                texts = [java_text(text) for text in line[key]]
                self.failing[method] = frozenset(t if t == _EVERY else f"exec-{t}" for t in texts)
        self.fail_code = line.get("failCode", self.fail_code)
        self.states.update(line.get("api", {}))

    def refresh(self) -> None:
        """A round begins: what is there now."""
        self.pods = {}
        for executor, pod in self.known.items():
            state = self.states.get(executor, "present")
            if state != "gone":
                self.pods[pod.name] = pod.deleted_at or (_DELETING if state == "deleting" else None)

    def call(self, method: str, name: str) -> int:
        failing = self.failing.get(method, frozenset())
        if _EVERY in failing or name in failing:
            return self.fail_code
        if name not in self.pods:
            return 404
        if method == "DELETE":
            del self.pods[name]
            self.states[str(_executor_of(name))] = "gone"
        return 200


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self._api = _Api()
        self._view = snapshots.empty()
        self._shown = self._view  # what the manager has seen of it; out of date while behind
        self._behind = False
        self._registered: dict[PodNumber, Millis] = {}
        self._active: set[PodNumber] = set()
        self._exits = 0
        self._state = lifecycle.empty()
        found = constructed(kubernetes_scenario("lifecycle", header["conf"], {"appId": self.app_id}))
        self._config, self._rules = found.lifecycle, found.pods
        self.say({"interval": self._config.interval_ms, "maxNumExecutorFailures": self._config.failures_max})

    def step(self, line: Line) -> None:
        self.now = line.get("at", self.now)
        self._api.script(line)
        self._backend(line)
        for _ in range(line.get("registerFailures", 0)):
            self._take(CreationFailed(self.now, PodNumber(0)))
        if "snapshots" in line:
            self._round(line["snapshots"])
        self.say({"state": self._state_line()})

    def _backend(self, line: Line) -> None:
        if "registered" in line:
            registered = {_number(e): at for e, at in line["registered"].items()}
            self._take(KnownExecutors(self.now, tuple(registered.items()), tuple(self._registered)))
            self._registered = registered
        if "active" in line:
            active = {_number(java_text(executor)) for executor in line["active"]}
            self._take(ActiveExecutors(self.now, tuple(active - self._active), tuple(self._active - active)))
            self._active = active

    def _take(self, item: LifecycleInput) -> list[_Answer]:
        """Take one input and everything that follows from it; returns the answers."""
        step = lifecycle.reap(self._state, [item], self._config, self.now)
        self._state = step.state
        answers: list[_Answer] = []
        for command in step.commands:
            match command:
                case RemoveExecutor():
                    answers.extend(self._removed(command))
                case DeletePod():
                    answers.extend(self._delete(command))
                case MarkInactive():
                    answers.append(self._patch(command))
                case StopApplication():
                    self._exits += 1
                    line = {"at": self.now, "exit": command.exit_code}
                    answers.append(_Answer(_LAST, _LAST, 0, line))
        for fault in thrown(step.reports):
            what = NULL_POINTER if fault.startswith(NULL_POINTER) else fault  # its message is the JVM's: it is left out
            answers.append(_Answer(_LAST, _LAST, 0, {"at": self.now, "threw": what}))
        return answers

    def _removed(self, command: RemoveExecutor) -> Iterable[_Answer]:
        number, phase = int(command.executor), command.round_index
        code = command.reason.exit_code
        yield self._answer(
            phase,
            number,
            remove=command.executor,
            exitCode=UNKNOWN_EXIT_CODE if code is None else code,
            exitCausedByApp=command.reason.caused_by_app,
            message=command.reason.message,
        )
        if command.active is not None:
            question = self._answer(phase, number, isExecutorActive=command.executor, answer=command.active)
            yield question._replace(late=1)  # after what is done at the API

    def _delete(self, command: DeletePod) -> Iterable[_Answer]:
        name, number = command.name, _executor_of(command.name)
        phase = _phase(command)
        code = self._api.call("GET", name)
        yield self._answer(phase, number, podGet=name, code=code)
        if code == 200 and self._api.pods[name] is None:
            yield self._answer(phase, number, podDelete=name, code=self._api.call("DELETE", name))

    def _patch(self, command: MarkInactive) -> _Answer:
        code = self._api.call("PATCH", command.name)
        failure = None if code == 200 else CallFailure(code, f"scripted: {code}")
        self._take(Outcome(self.now, command.serial, failure))
        return self._answer(_phase(command), _executor_of(command.name), podPatch=command.name, body=_PATCH, code=code)

    def _answer(self, phase: int | None, executor: int, **line: Any) -> _Answer:
        within = "lost" if phase is None else str(phase)
        return _Answer(_LAST - 1 if phase is None else phase, executor, 0, {"at": self.now, **line, "in": within})

    def _round(self, batch: list[Any]) -> None:
        taken: list[Snapshot] = []
        for item in batch:
            snapshot = self._snapshot(self._manifests(item), item.get("full"))
            if isinstance(snapshot, SparkFault):
                self.say({"snapshotThrew": snapshot.exception_class})
                return
            if not taken and self._behind:
                snapshot = _difference(self._shown, self._view)
            taken.append(snapshot)
        if taken:
            self._shown, self._behind = self._view, False
        self._api.refresh()
        answers = self._take(Delivery(self.now, tuple(taken)))
        self.lines.extend(one.line for one in sorted(answers, key=lambda one: one[:3]))

    def _manifests(self, item: Mapping[str, Any]) -> list[PodManifest]:
        manifests = []
        for pod in item.get("pods", ()):
            manifests.append(manifest(pod, self.app_id))
            if pod.get("id") is not None:
                self._api.known[java_text(pod["id"])] = manifests[-1]
        return manifests

    def _snapshot(self, manifests: list[PodManifest], full: Millis | None) -> Snapshot | SparkFault:
        """One snapshot more: a full list, or the one before with each pod updated.

        Where one cannot be read, the round does not take place, but the view has moved on as far as it was read.
        """
        if full is not None:
            listed = snapshots.replace(self._view, manifests, self._rules, full)
            if isinstance(listed, SparkFault):
                self._behind = True
                return listed
            self._view = listed.view
            return self._in_order(listed.snapshot, manifests)
        changed: list[Pod] = []
        for pod in manifests:
            taken = snapshots.update(self._view, pod, self._rules)
            if isinstance(taken, SparkFault):
                self._behind = True
                return taken
            self._view = taken.view
            changed.extend(taken.snapshot.changed)
        return Snapshot(self._view.full_ts, tuple(changed))

    def _in_order(self, snapshot: Snapshot, manifests: list[PodManifest]) -> Snapshot:
        """A list of few pods, told whole: then its order is known, in which Spark meets them."""
        if len(self._view) > SMALL:
            return snapshot
        pods = [snapshots.read(pod, self._rules) for pod in manifests]
        listed = {pod.number: pod for pod in pods if isinstance(pod, Pod)}
        return snapshot._replace(changed=tuple(listed.values()))

    def _state_line(self) -> Line:
        state, config = self._state, self._config
        return {
            "removedCache": list(state.removed(config, self.now)),
            "inactivated": list(state.inactivated()),
            "failedIds": list(state.failed()),
            "numFailed": state.failures(config, self.now).count,
            "lastFullSnapshotTs": state.polled_at,
            "exits": self._exits,
        }


def _difference(old: View, new: View) -> Snapshot:
    """One view as a change of another. One pass over both."""
    changed = tuple(pod for pod in new.pods() if old.get(pod.number) != pod)
    return Snapshot(new.full_ts, changed, tuple(pod.number for pod in old.pods() if pod.number not in new))


def _phase(command: DeletePod | MarkInactive) -> int | None:
    snapshot = command.why.facts.get("snapshot")
    return snapshot if isinstance(snapshot, int) else None


def _executor_of(name: str) -> int:
    """The number that the judge reads in a pod's name; -1 where there is none."""
    text = name.removeprefix("exec-")
    return int(text) if _NUMBER.fullmatch(text) else -1


def _number(text: str) -> PodNumber:
    if not _NUMBER.fullmatch(text):
        raise ShapeError(f"expected the number of an executor, got {text!r:.60}")
    return PodNumber(int(text))


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""
