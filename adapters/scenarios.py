"""Recorded scenarios: what was put to real Spark's dynamic allocation, re-decided here and compared.

A scenario is JSON lines: a header (``conf``, ``startAt``, ``options``, ``client``) and then events, ticks, what the
cluster will answer from now on, shuffles cleaned, resets. Real Spark's answers are lines too: every call that it
made on the scheduler backend and, after each tick, its state. ``answers`` produces the same lines from the core,
playing the scripted cluster; ``compare`` finds where they part.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from podtide.adapters import spark_events
from podtide.domain import engine
from podtide.domain.commands import Decommission, Kill, RequestTotal, ScalingCommand, ScheduleThrew, Step
from podtide.domain.config import ScalingConfig
from podtide.domain.engine import State
from podtide.domain.profiles import SparkFault, from_added, refusal
from podtide.domain.scaling import needed_executors
from podtide.domain.settings import ConstructFailure, oracle_config
from podtide.domain.stimuli import (
    Answer,
    BlockUpdated,
    ExecutorsActive,
    ExecutorsInactive,
    Reset,
    ResourceProfileAdded,
    ShuffleCleaned,
    Stimulus,
    TaskStart,
    Tick,
)
from podtide.domain.units import NEVER, ExecutorId, Millis, java_order

REQUEST_FAILED: Final = "java.lang.RuntimeException: scripted: request failed"
KILL_FAILED: Final = "java.lang.RuntimeException: scripted: kill failed"

_KEYS: Final = frozenset({"at", "event", "tick", "client", "shuffleCleaned", "reset", "state"})


class ScenarioError(Exception):
    """A scenario that cannot be run: which file, which line, and why."""


class UnknownKind(ScenarioError):
    """A scenario of a kind that this version does not decide."""


@dataclass
class ScriptedCluster:
    """The scheduler backend as the scenario scripts it."""

    always_active: bool = False
    ack_requests: bool = True
    throw_on_request: bool = False
    throw_on_kill: bool = False
    refuse_all: bool = False
    refused: set[str] = field(default_factory=set)

    def apply(self, client: dict[str, Any], at: Millis) -> list[Stimulus]:
        """Take a ``client`` object; returns what it says about active executors."""
        self.ack_requests = client.get("ackRequests", self.ack_requests)
        self.throw_on_request = client.get("throwOnRequest", self.throw_on_request)
        self.throw_on_kill = client.get("throwOnKill", self.throw_on_kill)
        if "refuseKills" in client:
            refusal = client["refuseKills"]
            self.refuse_all = refusal is True
            self.refused = set(refusal) if isinstance(refusal, list) else set()
        stimuli: list[Stimulus] = []
        if "active" in client:
            stimuli.append(ExecutorsActive(at, tuple(map(ExecutorId, client["active"]))))
        if "inactive" in client:
            stimuli.append(ExecutorsInactive(at, tuple(map(ExecutorId, client["inactive"]))))
        return stimuli

    def granted(self, executors: Iterable[ExecutorId]) -> tuple[ExecutorId, ...]:
        """Which of these kills or decommissions are accepted."""
        return () if self.refuse_all else tuple(e for e in executors if e not in self.refused)


class Runner:
    """One scenario under way."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.cluster = ScriptedCluster(always_active=header.get("options", {}).get("active") == "always")
        self.now: Millis = header.get("startAt", 0)
        self.lines: list[dict[str, Any]] = []
        self._decoder = spark_events.LineDecoder()
        self.state: State | None = None
        active = self.cluster.apply(header.get("client", {}), self.now)
        reliable = bool(header.get("options", {}).get("reliableShuffleStorage", False))
        config = oracle_config(header["conf"], reliable_shuffle_storage=reliable)
        if isinstance(config, ConstructFailure):
            self.lines.append({"error": f"construct: {config}"})
            return
        self.config: ScalingConfig = config
        begun = engine.start(self.config, self.now)
        if self.cluster.throw_on_request:  # start() does not catch it: there is no manager
            self._call(begun.commands[0])
            self.lines.append({"error": f"construct: {REQUEST_FAILED}"})
            return
        self.state = begun.state
        self._carry_out(begun)
        if active:
            self._take(*active)

    def step(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        """Take one line of the scenario; returns the lines that Spark would answer."""
        self.lines = []
        if self.state is None:
            return self.lines
        self.now = line.get("at", self.now)
        if "client" in line:
            self._take(*self.cluster.apply(line["client"], self.now))
        if "event" in line:
            self._event(line["event"])
        if "shuffleCleaned" in line:
            self._take(ShuffleCleaned(self.now, line["shuffleCleaned"]))
        if line.get("reset"):
            self._take(Reset(self.now))
        if line.get("tick"):
            self._take(Tick(self.now))
        if line.get("tick") or line.get("state"):
            self.lines.append({"at": self.now, "state": state_line(self.state, self.config)})
        return self.lines

    def _event(self, event: dict[str, Any]) -> None:
        stimulus = spark_events.stimulus(self._decoder.line(json.dumps(event).encode()), self.now)
        if stimulus is None:
            return
        if isinstance(stimulus, ResourceProfileAdded):
            refused = refusal(from_added(stimulus), self.config.profile_rules)
            if refused is not None:
                self.lines.append({"at": self.now, "call": "error", "what": str(refused)})
        if self.cluster.always_active and isinstance(stimulus, TaskStart | BlockUpdated):
            self._take(ExecutorsActive(self.now, (stimulus.executor,)))
        self._take(stimulus)

    def _take(self, *stimuli: Stimulus) -> None:
        assert self.state is not None
        for stimulus in stimuli:
            self._carry_out(engine.step(self.state, stimulus, self.config, self.now))

    def _carry_out(self, step: Step[State, ScalingCommand]) -> None:
        self.state = step.state
        for command in step.commands:
            self._take(*self._call(command))
        for report in step.reports:
            if isinstance(report, ScheduleThrew):
                self.lines.append({"at": report.at, "call": "scheduleThrew", "what": report.what})

    def _call(self, command: ScalingCommand) -> list[Stimulus]:
        """Carry a command out as the scenario scripts it: the line of the call, and what came back."""
        cluster = self.cluster
        match command:
            case RequestTotal():
                acked = cluster.ack_requests and not cluster.throw_on_request
                self.lines.append({"at": command.at, "call": "requestTotalExecutors", **_totals(command), "ack": acked})
                threw = REQUEST_FAILED if cluster.throw_on_request else None
                return [Answer(self.now, command.serial, acked, threw)]
            case Kill():
                granted = cluster.granted(command.executors)
                flags = {"adjustTargetNumExecutors": False, "countFailures": False, "force": False}
                ids = list(command.executors)
                self.lines.append(
                    {"at": command.at, "call": "killExecutors", "ids": ids, **flags, "acked": list(granted)}
                )
                threw = KILL_FAILED if cluster.throw_on_kill else None
                return [ExecutorsInactive(self.now, granted), Answer(self.now, command.serial, granted, threw)]
            case Decommission():
                granted = cluster.granted(command.executors)
                ids = list(command.executors)
                self.lines.append(
                    {"at": command.at, "call": "decommissionExecutors", "ids": ids, "adjustTargetNumExecutors": False,
                     "triggeredByExecutor": False, "messages": [command.message] * len(ids), "acked": list(granted)}
                )  # fmt: skip
                return [ExecutorsInactive(self.now, granted), Answer(self.now, command.serial, granted)]


def _totals(command: RequestTotal) -> dict[str, Any]:
    return {
        "targets": {str(p): n for p, n in command.targets.items()},
        "localityAwareTasks": {str(p): n for p, n in command.locality_tasks.items()},
        "hostToLocalTaskCount": {str(p): dict(hosts) for p, hosts in command.host_tasks.items()},
    }


def state_line(state: State, config: ScalingConfig) -> dict[str, Any]:
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


def answers(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Everything that Spark would have said to a scenario, header first."""
    runner = Runner(lines[0])
    yield from runner.lines
    for line in lines[1:]:
        yield from runner.step(line)


class Divergence(NamedTuple):
    """Where two lists of answers part: the line of the expectations (from 1), and both sides (None: missing)."""

    line: int
    expected: dict[str, Any] | None
    got: dict[str, Any] | None


def compare(expected: Iterable[dict[str, Any]], got: Iterable[dict[str, Any]]) -> Divergence | None:
    """The first difference between what Spark said and what the core says, or None."""
    theirs, ours = iter(expected), iter(got)
    number = 0
    while True:
        number += 1
        one, other = next(theirs, None), next(ours, None)
        if one is None and other is None:
            return None
        if one != other:
            return Divergence(number, one, other)


class Scenario(NamedTuple):
    """A scenario file and the file with Spark's answers."""

    path: Path
    expected: Path

    def check(self) -> Divergence | None:
        """Re-decide the scenario and compare. Raises ScenarioError when a file cannot be used."""
        lines = _read(self.path)
        kind = _kind(lines)
        if kind is not None:
            raise UnknownKind(f"{self.path}: {kind}")
        try:
            return compare(_read(self.expected), answers(lines))
        except spark_events.DecodeError as fault:
            raise ScenarioError(f"{self.path}: an event is not what Spark's JsonProtocol reads: {fault}") from fault


def _kind(lines: list[dict[str, Any]]) -> str | None:
    """Why these lines are not a dynamic allocation scenario; None when they are."""
    if not lines or not isinstance(lines[0].get("conf"), dict):
        return "no header line with a conf object: not a scenario of dynamic allocation"
    for number, line in enumerate(lines[1:], start=2):
        unknown = line.keys() - _KEYS
        if unknown:
            return f"line {number} has {', '.join(sorted(map(repr, unknown)))}: a kind of scenario not known here"
    return None


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            lines = []
            for number, text in enumerate(file, start=1):
                if text.strip():
                    line = json.loads(text)
                    if not isinstance(line, dict):
                        raise ScenarioError(f"{path}:{number}: expected a JSON object")
                    lines.append(line)
            return lines
    except (OSError, EOFError, UnicodeDecodeError) as fault:
        raise ScenarioError(f"{path}: cannot be read: {fault}") from fault
    except (json.JSONDecodeError, RecursionError) as fault:
        raise ScenarioError(f"{path}: not JSON lines: {fault}") from fault


def find(path: Path) -> Iterator[Scenario]:
    """The scenarios of a file or a folder (not below it), sorted by name. Raises ScenarioError."""
    if path.is_dir():
        names = sorted(p for p in path.iterdir() if _stem(p) is not None)
        if not names:
            raise ScenarioError(f"{path}: no scenario here (X.jsonl or X.jsonl.gz beside X.expect.jsonl[.gz])")
        for name in names:
            yield from find(name)
        return
    if not path.is_file():
        raise ScenarioError(f"{path}: no such file or folder")
    stem = _stem(path)
    if stem is None:
        raise ScenarioError(f"{path}: not a scenario (X.jsonl or X.jsonl.gz, with its answers in X.expect.jsonl[.gz])")
    for suffix in (".expect.jsonl", ".expect.jsonl.gz"):
        expected = path.with_name(stem + suffix)
        if expected.is_file():
            yield Scenario(path, expected)
            return
    raise ScenarioError(f"{path}: no answers beside it ({stem}.expect.jsonl or {stem}.expect.jsonl.gz)")


def _stem(path: Path) -> str | None:
    for suffix in (".jsonl.gz", ".jsonl"):
        if path.name.endswith(suffix):
            stem = path.name.removesuffix(suffix)
            return None if stem.endswith((".expect", ".out")) else stem
    return None
