"""The history of one executor, gathered from a recording as its steps go by.

What belongs to the executor is kept, in order: that it was asked for, why and as which one of a batch, what was holding its
profile back then; every call about it and how that went; every state its pod was seen in; that it registered, was let
go, failed, was deleted and by what rule; and what the driver's books said of it, wherever that changed. Between these
lies waiting: the stages that it went through, each with how long it took.

Of a pod that flaps for ever only the first and the last entries are kept, and how many lie between. The books are read from
the state that the same steps lead to when they are decided again; without a state nothing is said of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from podtide.adapters.recording.codec import RecordedStimulus, decided_record
from podtide.adapters.recording.comparison import HoldBook
from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.recording.records.codec import Plain
from podtide.domain.backend.registry import Registry
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.engine import EngineState
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.pods import (
    EXECUTOR_LABEL,
    INACTIVE_LABEL,
    Pod,
    PodManifest,
    PodNumber,
    PodRules,
    PodState,
    pod_number,
)
from podtide.domain.protocol.reasons import Held, Phase
from podtide.domain.protocol.stimuli import TaskEnd, TaskStart

HEAD: Final = 150
TAIL: Final = 150
"""Entries at the beginning and at the end that are kept."""

ROUND_MAX: Final[Millis] = 10_000
"""How long after a creation the end of its round still tells what cut the batch."""

STAGES_MAX: Final = 100
CALLS_MAX: Final = 1_000
BATCH_SHOWN: Final = 3

REQUESTED: Final = "asked for, the call is under way"
UNSEEN: Final = "created, its pod not seen yet"
UNPLACED: Final = "pending, on no node"
STARTING: Final = "pending on a node"
UNREGISTERED: Final = "running, not registered"
REGISTERED: Final = "registered"
LEAVING: Final = "told to go"
ENDED: Final = "over, its pod still there"
GONE: Final = "gone"
REFUSED: Final = "never created"

WAITS: Final = {
    UNSEEN: "no snapshot showed it",
    UNPLACED: "a snapshot does not say what it waits for: room, quota, a volume or the scheduler",
    STARTING: "a snapshot does not say what it waits for: images, volumes or the start of its containers",
    UNREGISTERED: "the executor started, and had not reached the driver",
}
"""What is known of waiting, and what is not."""

_ABOUT: Final = (
    pc.CreateClaim,
    pc.DeletePod,
    pc.MarkInactive,
    pc.ResizePod,
    pc.ResizeClaim,
    pc.AssignExecutorId,
    ec.RemoveExecutor,
    ec.AnswerRegistration,
)
"""Commands about one executor."""

_ABOUT_SOME: Final = (pc.DeletePods, pc.MarkPods, ec.DecommissionExecutors)
"""Commands about several, or all."""

_OVER: Final = (PodState.FAILED, PodState.SUCCEEDED, PodState.DELETED)


class ExecutorHistory:
    """Watches the steps of a recording for one executor. ``rules``: by which its pods are read.

    ``found``: whether anything was about it. ``known``: the lowest and the highest number of an executor that was created.
    """

    made: ClassVar[str] = "created"
    """What is said of executors that came to be."""

    def __init__(self, executor: str, rules: PodRules) -> None:
        self.executor = executor
        self.rules = rules
        self.entries_total = 0
        self.known: tuple[int, int] | None = None
        self.stages: list[Plain] = []
        self.tasks = [0, 0]
        self.books: dict[str, str] = {}
        self._number = pod_number(executor)
        self._head: list[Plain] = []
        self._tail: deque[Plain] = deque(maxlen=TAIL)
        self._calls: dict[int, Plain] = {}
        self._holds = HoldBook()
        self._targets: dict[int, Plain] = {}
        self._line = 0
        self._stage: tuple[str, Millis, str] | None = None
        self._requested = self._created = self._refused = self._registered = self._leaving = False
        self._pod: PodManifest | None = None
        self._state: PodState | None = None
        self._shown: tuple[Any, ...] | None = None
        self._seen_ever = False
        self._address: str | None = None
        self._host: str | None = None
        self._last_task: Millis | None = None
        self._creating: Plain | None = None

    @property
    def found(self) -> bool:
        """Whether anything in the recording is about this executor."""
        return self.entries_total > 0

    def step(self, step: RecordedStep, state: EngineState | None) -> None:
        """See one step, and the state after it where it is known."""
        self._line = step.line
        for stimulus in step.stimuli:
            self._hear(step.at, stimulus)
        for report in step.reports:
            if isinstance(report, Held):
                self._holds.take(report)
                if self.executor in report.executors:
                    self._tell(step.at, "kept", decided_record(report))
                self._bind(report)
        creations = [command for command in step.commands if isinstance(command, pc.CreatePod)]
        for command in step.commands:
            self._decided(step.at, command, creations)
        if state is not None and (self.found or self._number is not None):
            self._read_books(step.at, state)
        self._stand(step.at)

    def finish(self, end: Millis) -> None:
        """The recording ends."""
        if self._stage is not None:
            name, since, node = self._stage
            self._stages(name, since, end, node, over=False)
            self._stage = None

    def entries(self) -> tuple[list[Plain], int, list[Plain]]:
        """The first entries, how many are left out, the last ones."""
        return self._head, self.entries_total - len(self._head) - len(self._tail), list(self._tail)

    def document(self) -> Plain:
        """The history as plain data; times in milliseconds since the epoch."""
        head, left, tail = self.entries()
        return {
            "executor": self.executor,
            "stages": self.stages,
            "entries": [*head, *tail],
            "left_out": left,
            "tasks": {"started": self.tasks[0], "ended": self.tasks[1], "last_ended_ms": self._last_task},
            "books": dict(self.books),
        }

    # ---------------------------------------------------------------------------------------------------- what is heard

    def _hear(self, at: Millis, stimulus: RecordedStimulus) -> None:
        match stimulus:
            case ps.PodsUpdated(pods=pods):
                for pod in pods:
                    if pod.labels.get(EXECUTOR_LABEL) == self.executor:
                        self._see(at, pod)
            case ps.PodsReplaced(pods=pods):
                self._list(at, pods)
            case ps.Outcome(pods=pods):
                self._answered(at, stimulus)
                if pods or (stimulus.version is not None and stimulus.failure is None):
                    self._list(at, pods)
            case es.TargetsSet(targets=targets):
                for profile, target in targets:
                    self._aim(at, profile, target, "set from outside", {})
            case es.RegisterExecutor(executor=executor) if executor == self.executor:
                self._address = stimulus.address or None
                self._host = stimulus.host
                self._tell(
                    at, "registers", {"profile": stimulus.profile, "host": stimulus.host, "address": stimulus.address}
                )
            case es.ExecutorDisconnected(address=address) if address and address == self._address:
                self._tell(at, "disconnected", {"address": address})
            case es.HeartbeatsStopped(executor=executor) if executor == self.executor:
                self._tell(at, "silent", {"last_ms": stimulus.last_ms})
            case es.Heartbeat(executor=executor) if executor == self.executor:
                self._tell(at, "heard again", {})
            case es.ExecutorExiting(executor=executor) if executor == self.executor:
                self._tell(at, "exits", {"message": stimulus.message})
            case es.KillExecutorsOnHost(host=host) | es.DecommissionExecutorsOnHost(host=host) if host == self._host:
                verb = "kill" if isinstance(stimulus, es.KillExecutorsOnHost) else "decommission"
                self._tell(at, f"{verb} of its host asked for", {"host": host})
            case es.KillRequested(executors=executors) if self.executor in executors:
                options = {"adjust_target": stimulus.adjust_target, "force": stimulus.force}
                self._tell(at, "kill asked for", {**options, "executors": len(executors)})
            case es.DecommissionRequested(executors=executors) if self.executor in executors:
                source = {"message": stimulus.message, "by_executor": stimulus.triggered_by_executor}
                self._tell(at, "decommission asked for", {**source, "executors": len(executors)})
            case TaskStart(executor=executor) if executor == self.executor:
                if not self.tasks[0]:
                    self._tell(at, "first task", {"stage": stimulus.stage, "task": stimulus.task_index})
                self.tasks[0] += 1
            case TaskEnd(executor=executor) if executor == self.executor:
                self.tasks[1] += 1
                self._last_task = at
            case es.Stopping() if self._requested and self._stage is not None and self._stage[0] != GONE:
                self._tell(at, "application stops", {})
            case _:
                pass

    def _list(self, at: Millis, pods: Sequence[PodManifest]) -> None:
        """A full list: the executor's pod is in it, or no longer."""
        listed = False
        for pod in pods:
            if pod.labels.get(EXECUTOR_LABEL) == self.executor:
                self._see(at, pod)
                listed = True
        if not listed and self._pod is not None:
            self._tell(at, "not listed", {"pod": self._pod.name, "pods": len(pods)})
            self._pod = self._state = self._shown = None

    def _see(self, at: Millis, pod: PodManifest) -> None:
        read = snapshots.read(pod, self.rules)
        state = read.state if isinstance(read, Pod) else None
        inactive = pod.labels.get(INACTIVE_LABEL)
        shown = (pod.name, pod.phase, pod.reason, pod.deleted_at, pod.node, pod.containers, state, inactive)
        self._pod, self._state, self._seen_ever = pod, state, True
        if shown == self._shown:
            return
        self._shown = shown
        ended = [
            {"container": c.name, "state": c.state.kind, "exit_code": c.state.exit_code, "reason": c.state.reason}
            for c in pod.containers
            if c.state is not None and c.state.kind not in (None, "running")
        ]
        entry: Plain = {
            "pod": pod.name,
            "phase": pod.phase,
            "state": None if state is None else state.value,
            "node": pod.node,
            "reason": pod.reason,
            "message": pod.message,
            "deleted_at": pod.deleted_at,
            "containers": ended,
        }
        if isinstance(read, SparkFault):
            entry["unreadable"] = f"{read.exception_class}: {read.message}"
        self._tell(at, "seen", {key: value for key, value in entry.items() if value not in (None, [])})

    def _answered(self, at: Millis, outcome: ps.Outcome) -> None:
        call = self._calls.pop(outcome.serial, None)
        if call is None:
            return
        failure = outcome.failure
        entry = {"call": call["call"], "took_ms": at - call["at_ms"]}
        if call["call"] == "createPod":
            self._created, self._refused = failure is None, failure is not None
        if failure is not None:
            entry |= {"status": failure.status, "message": failure.message, "exception": failure.exception_class}
        self._tell(at, "call succeeded" if failure is None else "call failed", entry)

    # -------------------------------------------------------------------------------------------------- what is decided

    def _decided(self, at: Millis, command: Command, creations: Sequence[pc.CreatePod]) -> None:
        match command:
            case RequestTotal():
                for change in command.changes:
                    self._aim(at, change.profile, change.after, change.why.cause.value, dict(change.why.facts))
                return
            case Kill() | Decommission():
                if self.executor in command.executors:
                    departure = next(d for d in command.departures if d.executor == self.executor)
                    name = "killed" if isinstance(command, Kill) else "decommissioned"
                    self._leaving = True
                    facts = {"cause": departure.why.cause.value, "facts": dict(departure.why.facts)}
                    self._tell(at, name, {**facts, "executors": len(command.departures)})
                return
            case pc.CreatePod(executor=number):
                self.known = (
                    (min(self.known[0], number), max(self.known[1], number)) if self.known else (number, number)
                )
                if str(number) != self.executor:
                    return
                self._requested, self._created, self._refused = True, False, False
                self._creating = self._tell(at, "asked for", self._creation(command, creations, at))
            case ec.StopApplication() if self._requested:
                self._tell(at, "decided", decided_record(command))
                return
            case _ if isinstance(command, _ABOUT) and str(command.executor) == self.executor:
                if isinstance(command, ec.AnswerRegistration):
                    self._registered = command.accepted or self._registered
                elif isinstance(command, ec.RemoveExecutor):
                    self._registered = False
                elif isinstance(command, pc.DeletePod):
                    self._leaving = True
                self._tell(at, "decided", decided_record(command))
            case _ if isinstance(command, _ABOUT_SOME):
                if not self._concerns(command):
                    return
                self._leaving = self._leaving or not isinstance(command, pc.MarkPods)
                self._tell(at, "decided", _narrowed(decided_record(command)))
            case _:
                return
        serial = getattr(command, "serial", None)
        if serial is not None and len(self._calls) < CALLS_MAX:
            self._calls[serial] = {"call": decided_record(command)["command"], "at_ms": at}

    def _concerns(self, command: pc.DeletePods | pc.MarkPods | ec.DecommissionExecutors) -> bool:
        if command.executors is None:
            return self._requested and (self._pod is not None or not self._seen_ever)
        return any(str(executor) == self.executor for executor in command.executors)

    def _creation(self, command: pc.CreatePod, creations: Sequence[pc.CreatePod], at: Millis) -> Plain:
        """Why it was asked for, as which of a batch, and what holds its profile back."""
        batch = [other.executor for other in creations if other.profile == command.profile]
        record = decided_record(command)
        target = self._targets.get(command.profile)
        return {
            "profile": command.profile,
            "cause": record["cause"],
            "facts": record["facts"],
            "claims": list(command.claims),
            "reused": list(command.reused),
            "batch": {
                "pods": len(batch),
                "first": batch[0],
                "last": batch[-1],
                "place": batch.index(command.executor) + 1,
            },
            "target": target,
            "waited_ms": None if target is None else at - target["at_ms"],
            "held": [hold for hold in self._holds.document() if hold["profile"] == command.profile and "facts" in hold],
        }

    def _bind(self, report: Held) -> None:
        """The round that asked for the executor ends, and says what cut its batch."""
        entry = self._creating
        if entry is None or report.profile != entry["profile"] or report.phase is Phase.ENDED:
            return
        if "batch" in report.facts and "bound" not in entry and report.at - entry["at_ms"] <= ROUND_MAX:
            entry["bound"] = {"bound": report.bound.value, "facts": dict(report.facts)}

    def _aim(self, at: Millis, profile: int, target: int, cause: str, facts: Mapping[str, Any]) -> None:
        known = self._targets.get(profile)
        if known is None or known["target"] != target:
            self._targets[profile] = {"at_ms": at, "target": target, "cause": cause, "facts": dict(facts)}

    # ------------------------------------------------------------------------------------------------ books and stages

    def _read_books(self, at: Millis, state: EngineState) -> None:
        books = self._books(state)
        if books == self.books:
            return
        changed = {name: text for name, text in books.items() if self.books.get(name) != text}
        changed |= {name: "nothing is known of it any more" for name in self.books if name not in books}
        if self.found or books:
            self._tell(at, "books", {"books": changed})
        self.books = books

    def _books(self, state: EngineState) -> dict[str, str]:
        return books_of(state, self.executor, self._number)

    def _place(self) -> str:
        return "" if self._pod is None or self._pod.node is None else self._pod.node

    def _stand(self, at: Millis) -> None:
        """The stage after a step; a new one ends the one before."""
        name, node = self._where(), self._place()
        if name is None or (self._stage is not None and self._stage[0] == name):
            return
        if self._stage is not None:
            self._stages(self._stage[0], self._stage[1], at, self._stage[2], over=True)
        self._stage = (name, at, node)

    def _where(self) -> str | None:
        if self._state in _OVER:
            return ENDED
        if self._pod is None and (self._seen_ever or (self._leaving and not self._registered)):
            return GONE if not self._registered else REGISTERED
        if self._leaving:
            return LEAVING
        if self._registered:
            return REGISTERED
        if self._pod is not None:
            if self._state is PodState.RUNNING:
                return UNREGISTERED
            return UNPLACED if self._pod.node is None else STARTING
        if self._refused:
            return REFUSED
        return None if not self._requested else UNSEEN if self._created else REQUESTED

    def _stages(self, name: str, since: Millis, until: Millis, node: str, *, over: bool) -> None:
        if len(self.stages) >= STAGES_MAX:
            return
        stage: Plain = {"stage": name, "since_ms": since, "lasted_ms": until - since, "over": over}
        if node and name not in (GONE, REQUESTED, UNSEEN):
            stage["node"] = node
        self.stages.append(stage)

    def _tell(self, at: Millis, what: str, fields: Mapping[str, Any], line: int | None = None) -> Plain:
        entry: Plain = {
            "at_ms": at,
            "line": self._line if line is None else line,
            "what": what,
            **{k: v for k, v in fields.items() if k != "at_ms"},
        }
        self.entries_total += 1
        if len(self._head) < HEAD:
            self._head.append(entry)
        else:
            self._tail.append(entry)
        return entry


Flags = Sequence[tuple[bool, str]]
"""What may hold of an executor: whether it does, and how that reads."""


def books_of(state: EngineState, executor: str, number: PodNumber | None) -> dict[str, str]:
    """What the driver's books say of an executor, by whose books they are; costs nothing but look-ups."""
    side = state.kubernetes
    if side is None:
        return {}
    allocator: Flags = ()
    lifecycle: Flags = ()
    if number is not None and side.allocator is not None:
        counts = side.allocator.fleet.standing(number)
        pod = None if counts.deleted else counts.pod
        allocator = (
            (counts.created is not None, "asked for and not seen: counts as newly created"),
            (counts.joined is not None, "registered and not seen: counts as known newly created"),
            (counts.deleted, "deleted as excess: counts nowhere"),
            (pod is not None, f"counts as {pod.state.value}" if pod else ""),
            (counts.known, "known to the scheduler"),
        )
    if number is not None:
        memory = side.lifecycle.memory(number)
        lifecycle = (
            (memory.removed, "its removal is remembered"),
            (memory.inactivated, "labelled inactive"),
            (memory.failed, "counted as a failure"),
        )
    registry = registry_flags(side.backend.registry, ExecutorId(executor))
    return flag_words({"allocator": allocator, "backend": registry, "lifecycle": lifecycle})


def registry_flags(registry: Registry, executor: ExecutorId) -> Flags:
    """What the scheduler backend's books say of an executor."""
    return (
        (executor in registry.executors, "registered"),
        (registry.active(executor), "active"),
        (executor in registry.killed, "asked to go"),
        (executor in registry.leaving, "decommissioning"),
        (executor in registry.lost, "its connection is lost"),
        (executor in registry.excluded, "excluded: deleted as excess"),
    )


def flag_words(books: Mapping[str, Flags]) -> dict[str, str]:
    """What holds, by whose books; books in which nothing holds are left out."""
    words = {name: ", ".join(text for holds, text in flags if holds) for name, flags in books.items()}
    return {name: text for name, text in words.items() if text}


def _narrowed(record: Plain) -> Plain:
    """A command about many executors, as it is told of one: how many, and the first of them."""
    named = record.get("ids")
    if not isinstance(named, list):
        return record
    return {**record, "ids": named[:BATCH_SHOWN], "executors": len(named)}
