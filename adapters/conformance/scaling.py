"""Scenarios of dynamic allocation: what was put to real Spark's ExecutorAllocationManager, re-decided here.

A header (``conf``, ``startAt``, ``options``, ``client``) and then events, ticks, what the cluster will answer from now on,
shuffles cleaned, resets. Real Spark's answers are every call that it made on the scheduler backend and, after each tick, its
state. ``answers`` produces the same lines from the core, playing the scripted cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from podtide.adapters.conformance.manifests import ShapeError
from podtide.adapters.conformance.scenario_configs import scaling_scenario
from podtide.adapters.conformance.scripted import Line, Scripted, constructed, played
from podtide.adapters.eventlog import events as spark_events
from podtide.domain.base.units import NEVER, ExecutorId, Millis, java_order
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol import stimuli as st
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, ScalingCommand, ScheduleThrew, Step
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.resource_profiles import from_added, refusal
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.rules import needed_executors

REQUEST_FAILED: Final = "java.lang.RuntimeException: scripted: request failed"
KILL_FAILED: Final = "java.lang.RuntimeException: scripted: kill failed"


@dataclass
class ScriptedCluster:
    """The scheduler backend as the scenario scripts it."""

    always_active: bool = False
    ack_requests: bool = True
    throw_on_request: bool = False
    throw_on_kill: bool = False
    refuse_all: bool = False
    refused: set[str] = field(default_factory=set)

    def apply(self, client: Line, at: Millis) -> list[st.Stimulus]:
        """Take a ``client`` object; returns what it says about active executors."""
        self.ack_requests = client.get("ackRequests", self.ack_requests)
        self.throw_on_request = client.get("throwOnRequest", self.throw_on_request)
        self.throw_on_kill = client.get("throwOnKill", self.throw_on_kill)
        if "refuseKills" in client:
            refusal = client["refuseKills"]
            self.refuse_all = refusal is True
            self.refused = set(refusal) if isinstance(refusal, list) else set()
        stimuli: list[st.Stimulus] = []
        if "active" in client:
            stimuli.append(st.ExecutorsActive(at, tuple(map(ExecutorId, client["active"]))))
        if "inactive" in client:
            stimuli.append(st.ExecutorsInactive(at, tuple(map(ExecutorId, client["inactive"]))))
        return stimuli

    def granted(self, executors: Iterable[ExecutorId]) -> tuple[ExecutorId, ...]:
        """Which of these kills or decommissions are accepted."""
        return () if self.refuse_all else tuple(e for e in executors if e not in self.refused)


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.cluster = ScriptedCluster(always_active=self.options.get("active") == "always")
        self._decoder = spark_events.LineDecoder()
        self.state: State | None = None
        active = self.cluster.apply(header.get("client", {}), self.now)
        reliable = bool(self.options.get("reliableShuffleStorage", False))
        self.config = constructed(scaling_scenario(header["conf"], reliable_shuffle_storage=reliable))
        begun = dynamic_allocation.start(self.config, self.now)
        if self.cluster.throw_on_request:  # start() does not catch it: there is no manager
            self._call(begun.commands[0])
            self.lines.append({"error": f"construct: {REQUEST_FAILED}"})
            return
        self.state = begun.state
        self._carry_out(begun)
        if active:
            self._take(*active)

    def step(self, line: Line) -> None:
        if self.state is None:
            return
        self.now = line.get("at", self.now)
        if "client" in line:
            self._take(*self.cluster.apply(line["client"], self.now))
        if "event" in line:
            self._event(line["event"])
        if "shuffleCleaned" in line:
            self._take(st.ShuffleCleaned(self.now, line["shuffleCleaned"]))
        if line.get("reset"):
            self._take(st.Reset(self.now))
        if line.get("tick"):
            self._take(st.Tick(self.now))
        if line.get("tick") or line.get("state"):
            self.say({"state": state_line(self.state, self.config)})

    def _event(self, event: Line) -> None:
        try:
            stimulus = spark_events.stimulus(self._decoder.line(json.dumps(event).encode()), self.now)
        except spark_events.DecodeError as fault:
            raise ShapeError(f"an event is not what Spark's JsonProtocol reads: {fault}") from fault
        if stimulus is None:
            return
        if isinstance(stimulus, st.ResourceProfileAdded):
            refused = refusal(from_added(stimulus), self.config.profile_rules)
            if refused is not None:
                self.say({"call": "error", "what": str(refused)})
        if self.cluster.always_active and isinstance(stimulus, st.TaskStart | st.BlockUpdated):
            self._take(st.ExecutorsActive(self.now, (stimulus.executor,)))
        self._take(stimulus)

    def _take(self, *stimuli: st.Stimulus) -> None:
        assert self.state is not None
        for stimulus in stimuli:
            self._carry_out(dynamic_allocation.step(self.state, stimulus, self.config, self.now))

    def _carry_out(self, step: Step[State, ScalingCommand]) -> None:
        self.state = step.state
        for command in step.commands:
            self._take(*self._call(command))
        for report in step.reports:
            if isinstance(report, ScheduleThrew):
                self.lines.append({"at": report.at, "call": "scheduleThrew", "what": report.what})

    def _call(self, command: ScalingCommand) -> list[st.Stimulus]:
        """Carry a command out as the scenario scripts it: the line of the call, and what came back."""
        cluster = self.cluster
        match command:
            case RequestTotal():
                acked = cluster.ack_requests and not cluster.throw_on_request
                self.lines.append({"at": command.at, "call": "requestTotalExecutors", **_totals(command), "ack": acked})
                threw = REQUEST_FAILED if cluster.throw_on_request else None
                return [st.Answer(self.now, command.serial, acked, threw)]
            case Kill():
                granted = cluster.granted(command.executors)
                flags = {"adjustTargetNumExecutors": False, "countFailures": False, "force": False}
                ids = list(command.executors)
                self.lines.append(
                    {"at": command.at, "call": "killExecutors", "ids": ids, **flags, "acked": list(granted)}
                )
                threw = KILL_FAILED if cluster.throw_on_kill else None
                return [st.ExecutorsInactive(self.now, granted), st.Answer(self.now, command.serial, granted, threw)]
            case Decommission():
                granted = cluster.granted(command.executors)
                ids = list(command.executors)
                self.lines.append(
                    {"at": command.at, "call": "decommissionExecutors", "ids": ids, "adjustTargetNumExecutors": False,
                     "triggeredByExecutor": False, "messages": [command.message] * len(ids), "acked": list(granted)}
                )  # fmt: skip
                return [st.ExecutorsInactive(self.now, granted), st.Answer(self.now, command.serial, granted)]


def _totals(command: RequestTotal) -> Line:
    return {
        "targets": {str(p): n for p, n in command.targets.items()},
        "localityAwareTasks": {str(p): n for p, n in command.locality_tasks.items()},
        "hostToLocalTaskCount": {str(p): dict(hosts) for p, hosts in command.host_tasks.items()},
    }


def state_line(state: State, config: ScalingConfig) -> Line:
    """The state as the judge prints it after each tick."""
    scaling, load = state.scaling, state.load
    idleness = scaling.idleness
    profiles = sorted(scaling.targets)
    demands = {p: load.demand(p) for p in profiles}
    needed = {p: needed_executors(scaling, load, config, p) for p in profiles}
    trackers = idleness.trackers().values()
    return {
        "numExecutorsTarget": {str(p): scaling.targets[p] for p in profiles},
        "numExecutorsToAdd": {str(p): n for p, n in scaling.to_add.items()},
        "addTime": None if scaling.add_time == NEVER else scaling.add_time,
        "initializing": scaling.initializing,
        "maxNeeded": {str(p): n.message if isinstance(n, SparkFault) else n for p, n in needed.items()},
        "pending": {str(p): d.pending for p, d in demands.items()},
        "pendingSpeculative": {str(p): d.speculative for p, d in demands.items()},
        "unschedulable": {str(p): d.unschedulable for p, d in demands.items()},
        "running": {str(p): d.running for p, d in demands.items()},
        "executorCount": idleness.total(),
        "executorsPerRp": {str(p): idleness.roster(p).count for p in profiles},
        "pendingRemoval": sorted((t.id for t in trackers if t.pending_removal), key=java_order),
        "decommissioning": sorted((t.id for t in trackers if t.decommissioning), key=java_order),
        "timedOut": sorted((e for ids in idleness.timed_out().values() for e in ids), key=java_order),
    }


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""
