"""A moment of a recording: targets, pods, what was held and by what, calls under way, the last and the next decisions.

``MomentHistory`` is given every step up to the moment and some after it, and keeps of them only what the moment needs: which
bounds are in force, which calls are not answered yet, the last decisions. How the pods are counted it reads from the state
that the steps lead to when they are decided again (``state`` None: nothing is said of them).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Any, Final

from podtide.adapters.recording.codec import decided_record
from podtide.adapters.recording.comparison import HoldBook
from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.recording.records.codec import Plain
from podtide.domain import engine
from podtide.domain.backend.registry import Registry
from podtide.domain.base.units import ALWAYS, NEVER, Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.application import Command, EngineConfig
from podtide.domain.protocol.cluster_config import YarnConfig
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.container_requests import count_of
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PROFILE_LABEL
from podtide.domain.protocol.reasons import Held
from podtide.domain.yarn.allocator_state import YarnState
from podtide.domain.yarn.side import YarnSideState

LAST: Final = 5
NEXT: Final = 5
"""Steps with decisions before and after the moment that are told."""

RECORDS_KEPT: Final = 12
CALLS_MAX: Final = 100_000
PROFILES_SHOWN: Final = 100
HOSTS_SHOWN: Final = 12
EXCLUDED_SHOWN: Final = 100

CALL: Final = "call"
HEARTBEAT: Final = "heartbeat"
LAUNCH: Final = "launch"
"""Calls by what answers them, because each family counts its own serials."""


class MomentHistory:
    """Watches the steps of a recording for the moment ``at``; ``complete`` once nothing more is needed."""

    def __init__(self, at: Millis) -> None:
        self.at = at
        self.before: Plain | None = None
        self.next: list[Plain] = []
        self.passed = False
        self._last: deque[Plain] = deque(maxlen=LAST)
        self._holds = HoldBook()
        self._calls: OrderedDict[tuple[str, Any], tuple[str, Millis]] = OrderedDict()
        self._targets: dict[int, int] = {}

    @property
    def complete(self) -> bool:
        """Whether the moment and what comes after it are known."""
        return len(self.next) >= NEXT

    def step(self, step: RecordedStep) -> None:
        """See one step that is not after the moment."""
        for stimulus in step.stimuli:
            if isinstance(stimulus, Outcome):
                self._calls.pop((CALL, stimulus.serial), None)
            elif isinstance(stimulus, ym.ResourcesAnswered | ym.ResourcesRefused):
                self._calls.pop((HEARTBEAT, stimulus.serial), None)
            elif isinstance(stimulus, ym.LaunchEnded):
                self._calls.pop((LAUNCH, stimulus.executor), None)
            elif isinstance(stimulus, TargetsSet):
                self._targets.update(stimulus.targets)
        for report in step.reports:
            if isinstance(report, Held):
                self._holds.take(report)
        for command in step.commands:
            if isinstance(command, RequestTotal):
                self._targets.update((int(profile), target) for profile, target in command.targets.items())
            key = _call_of(command)
            if key is not None:
                self._calls[key] = (type(command).__name__, step.at)
                if len(self._calls) > CALLS_MAX:
                    self._calls.popitem(last=False)
        if step.commands:
            self._last.append(_step_row(step))

    def settle(self, step: RecordedStep, state: EngineState | None, config: EngineConfig) -> None:
        """The moment has come: ``step`` is the last one before it, ``state`` what it led to."""
        self.passed = True
        calls: dict[str, Plain] = {}
        for (_, serial), (call, since) in self._calls.items():
            known = calls.setdefault(call, {"call": call, "calls": 0, "since_ms": since, "serial": serial})
            known["calls"] += 1
        self.before = {
            "at_ms": self.at,
            "step": {"line": step.line, "at_ms": step.at},
            "asked": {str(profile): target for profile, target in sorted(self._targets.items())},
            **({} if state is None else standing(state, config, self.at)),
            "held": self._holds.document(),
            "calls": list(calls.values()),
            "last": list(self._last),
        }

    def after(self, step: RecordedStep) -> None:
        """See one step after the moment."""
        if step.commands and not self.complete:
            self.next.append(_step_row(step))

    def document(self) -> Plain:
        """The moment as plain data; times in milliseconds since the epoch."""
        assert self.before is not None
        return {**self.before, "next": self.next}


def standing(state: EngineState, config: EngineConfig, now: Millis) -> Plain:
    """How an application stands: targets and pods by profile, executors, failures, the next timer.

    Costs one pass over the pods.
    """
    if state.yarn is not None and config.yarn is not None:
        return {**_yarn_standing(state.yarn, config.yarn, now), "next_timer_ms": _timer(state, config, now)}
    side = state.kubernetes
    if side is None:
        return {}
    profiles: dict[int, Plain] = {}
    if side.allocator is not None:
        index, targets = side.allocator.fleet, side.allocator.targets
        for profile, target in sorted(targets.items())[:PROFILES_SHOWN]:
            census = index.census(profile, alone=len(targets) <= 1)
            profiles[profile] = {"target": target, "counted": census.counted, **census._asdict()}
    seen: Counter[tuple[str, str]] = Counter()
    for pod in side.store.view.pods():
        seen[pod.manifest.labels.get(PROFILE_LABEL, ""), pod.state.value] += 1
    registry = side.backend.registry
    moving: dict[str, Any] = {}
    if side.allocator is not None and side.allocator.round is not None:
        current = side.allocator.round
        moving["round"] = {"since_ms": current.at, "asked": current.requests, "waits": len(current.flights) or 1}
    return {
        "profiles": {str(profile): figures for profile, figures in profiles.items()},
        "seen": [
            {"profile": profile, "state": name, "pods": number}
            for (profile, name), number in sorted(seen.items())[: 8 * PROFILES_SHOWN]
        ],
        "executors": {**_executors(registry), "excluded": len(registry.excluded)},
        "failures": side.lifecycle.failures(config.kubernetes.lifecycle, now).count,
        "next_timer_ms": _timer(state, config, now),
        **moving,
    }


def _yarn_standing(side: YarnSideState, config: YarnConfig, now: Millis) -> dict[str, Any]:
    """Targets, requests and containers by profile, hosts, executors, failures. Costs one pass over hosts and requests."""
    allocator, registry = side.allocator, side.backend.registry
    rows = allocator.rows
    hosts: Counter[str] = Counter()
    for (_, host), containers in rows.host_counts.items():
        hosts[host] += containers
    first = sorted(hosts.items(), key=lambda item: (-item[1], item[0]))[:HOSTS_SHOWN]
    sent = sorted(allocator.health.sent)
    return {
        "profiles": {
            str(profile): _profile(allocator, profile) for profile in sorted(allocator.targets)[:PROFILES_SHOWN]
        },
        "hosts": [{"host": host, "containers": number} for host, number in first],
        "hosts_total": len(hosts),
        "executors": _executors(registry),
        "failures": {
            "counted": allocator.health.failures_at(config.allocator.exclusion, now),
            "maximum": config.allocator.failures_max,
        },
        "excluded": sent[:EXCLUDED_SHOWN],
        "excluded_total": len(sent),
        "released": len(rows.released),
        "loss_reasons_asked": allocator.loss_requests,
        "cluster_nodes": allocator.health.nodes,
    }


def _executors(registry: Registry) -> dict[str, int]:
    return {
        "registered": len(registry.executors),
        "asked_to_go": len(registry.killed),
        "decommissioning": len(registry.leaving),
        "lost": len(registry.lost),
    }


def _profile(allocator: YarnState, profile: Any) -> dict[str, int]:
    """One profile: what runs, starts and waits, and what its requests are worth by the hints of now."""
    running, starting, table = allocator.containers.counts_of(profile)
    parts = table.split(allocator.host_tasks.get(profile, {}).keys())
    return {
        "target": allocator.targets[profile],
        "running": running,
        "starting": starting,
        "pending": table.waiting,
        "local": sum(batch.size for batch in parts.local),
        "stale": count_of(parts.stale),
        "anywhere": count_of(parts.anywhere),
        "tasks_with_wishes": allocator.locality_tasks.get(profile, 0),
    }


def _timer(state: EngineState, config: EngineConfig, now: Millis) -> Millis | None:
    """When a timer runs next; None if only news can change anything."""
    due = engine.wake_due(state, config)
    return None if due == NEVER else now if due == ALWAYS else max(due, now)


def _call_of(command: Command) -> tuple[str, Any] | None:
    """What a call is answered by; None for what nobody answers from outside."""
    match command:
        case RequestTotal() | Kill() | Decommission():
            return None
        case ym.CallResourceManager(serial=serial):
            return HEARTBEAT, serial
        case ym.LaunchExecutor(executor=executor):
            return LAUNCH, executor
        case _:
            other = getattr(command, "serial", None)
            return None if other is None else (CALL, other)


def _step_row(step: RecordedStep) -> Plain:
    """The commands of a step; of many only the first."""
    return {
        "at_ms": step.at,
        "line": step.line,
        "commands": len(step.commands),
        "decided": [decided_record(command) for command in step.commands[:RECORDS_KEPT]],
    }
