"""What has to hold of a run against a cluster that misbehaves: looked at after every step, and at the end.

``Watcher`` sees every step beside the truth (the cluster's own books) and keeps a memory of its own: which executor ids were
asked for, when, and what came of it; which pods the driver was ever shown; who registered and who was let go. From these it
holds, step by step:

- the truths of a state (``domain/invariants``);
- no executor id is given out twice, no batch is larger than its limit;
- what is deleted may be deleted: an excess pod neither runs nor is known, and is older than executorIdleTimeout; a pod
  that is given up was never shown for longer than its timeout; a pod deleted by force was let go before, for its grace;
- every pod of the cluster is in the books, or it is known why it is not (``Reason``): none is just lost;
- pods that do not start are not asked for again and again without end;
- an executor that falls silent is removed within spark.network.timeout and the interval of the looks, and nobody who beats
  is given up.

And at the end (``settled``), when the faults have stopped and the bound has passed: as many executors are registered as
the target says, and the books are the cluster. What does not hold gets a name (``Name``): those that Spark's rules are
known for, and ``UNNAMED`` for everything else, which nobody has explained and somebody has to look at.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.fakes.kubernetes.description import Life
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.kubernetes.allocator.state import AllocatorState
from podtide.domain.kubernetes.router import MACHINES, Machine
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Heartbeat, HeartbeatsStopped
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, INACTIVE_LABEL, TERMINATED, PodManifest, PodNumber, PodState
from podtide.domain.protocol.reasons import Cause, Fact, Threw
from tests.simulation import invariants
from tests.simulation.invariants import Truth

DEEP_EVERY = 64
"""Steps between two looks at the whole state."""

STORM_MS: Millis = 600_000
"""The window in which failed starts are counted."""


class Name(Enum):
    """What a violation is called (docs/reference/known-violations.md)."""

    GHOST_COUNTED = "GHOST_COUNTED"
    EXCESS_RUNNING_SURVIVES = "EXCESS_RUNNING_SURVIVES"
    LATE_TASK_PENDING = "LATE_TASK_PENDING"
    RESTART_STORM = "RESTART_STORM"
    SCALE_REFUSED = "SCALE_REFUSED"
    INACTIVE_POD_RESTARTS = "INACTIVE_POD_RESTARTS"
    LABEL_TOO_LATE = "LABEL_TOO_LATE"
    UNNAMED = "UNNAMED"


class Reason(Enum):
    """Why a pod of the cluster is not in the books, though nobody lost it."""

    UNDER_WAY = "its creation is not answered yet"
    LOST_ANSWER = "its creation succeeded and was answered with a failure"
    UNDONE = "its claim was refused, and it was deleted"
    GIVEN_UP = "it was not seen for so long that it was given up"
    RETIRED = "it was let go as excess before it was seen"
    OLDER_LIST = "a list from before it was there has replaced what was seen"
    GONE_EARLY = "its executor registered and left before it was seen"


class Broken(NamedTuple):
    """Something that does not hold: when, what rule, what it is called."""

    at: Millis
    rule: str
    name: Name
    facts: Mapping[str, Fact]

    def __str__(self) -> str:
        facts = ", ".join(f"{key}={value}" for key, value in self.facts.items())
        return f"{self.name.value} at {self.at} ms: {self.rule} ({facts})"


@dataclass
class _Made:
    """A pod that was asked for."""

    serial: int
    profile: ProfileId
    asked_at: Millis
    answered_at: Millis | None = None
    failed: bool = False
    given_up: bool = False
    retired: bool = False
    undone: bool = False
    registered: bool = False
    dead: bool = False
    left: bool = False


class Watcher:
    """An observer of one run."""

    def __init__(self, config: EngineConfig, look: Callable[[], KubernetesCluster]) -> None:
        """``look``: the cluster as it is now."""
        self.config = config
        self.look = look
        self.allocation = config.kubernetes.allocation
        self.broken: list[Broken] = []
        self.made: dict[int, _Made] = {}
        self.by_serial: dict[int, int] = {}
        self.shown: set[int] = set()
        self.shown_ended: set[int] = set()
        self.let_go: dict[int, Millis] = {}
        self.explained: Counter[Reason] = Counter()
        self.last_id = 0
        self.last_named = 0
        self.round: tuple[Millis, Counter[ProfileId]] = (-1, Counter())
        self.steps = 0
        self.ended: int | None = None
        self.threw: Counter[str] = Counter()
        self.failed_starts: deque[Millis] = deque()
        self.most_at_once = 0
        self.stormed = False
        self.refused_sets = False
        self.unlabelled_lost = 0
        self.rounds_ms = self.allocation.batch_delay_ms + 1_000
        self.round_open_at: Millis = 0
        self.snapshot_at: Millis = 0
        self.overrun_since: dict[PodNumber, Millis] = {}
        self.overrun_told: set[PodNumber] = set()
        self.pending_wrong = False
        self.silent: dict[ExecutorId, Millis] = {}

    # ------------------------------------------------------------------------------------------------------ every step

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """One step was taken."""
        self.steps += 1
        state = taken.state
        side = state.kubernetes
        assert side is not None
        for stimulus in stimuli:
            self._hear(stimulus, now)
        for command in taken.commands:
            self._look(command, now, side)
        for report in taken.reports:
            if isinstance(report, Threw):
                self.threw[f"{report.machine}: {report.what[:60]}"] += 1
        found = invariants.check if self.steps % DEEP_EVERY else invariants.check_whole
        for violation in found(state, self.config):
            self._break(now, violation.what.value, violation.facts)
        self._silences(side, now)
        self._pending_tasks(state, now)
        if side.allocator is not None:
            self._storm(side.allocator, now)
            self._survivors(side.allocator, now)
            self._account(side.allocator, now)

    def _break(self, at: Millis, rule: str, facts: Mapping[str, Fact], name: Name = Name.UNNAMED) -> None:
        self.broken.append(Broken(at, rule, name, facts))

    def _unless(self, holds: bool, at: Millis, rule: str, /, **facts: Fact) -> None:
        if not holds:
            self._break(at, rule, facts)

    def _hear(self, stimulus: AnyStimulus, now: Millis) -> None:
        match stimulus:
            case PodsUpdated() | PodsReplaced():
                self._show(stimulus.pods, now)
            case Outcome():
                self._show(stimulus.pods, now)
                if stimulus.failure is not None and stimulus.serial % MACHINES == Machine.REPLICAS:
                    self.refused_sets = True
                number = self.by_serial.pop(stimulus.serial, None)
                if number is not None:
                    made = self.made[number]
                    made.answered_at, made.failed = now, stimulus.failure is not None
                    if made.failed:
                        self.failed_starts.append(now)
            case HeartbeatsStopped():
                self.silent[stimulus.executor] = max(stimulus.last_ms, self.silent.get(stimulus.executor, 0))
            case Heartbeat():
                self.silent.pop(stimulus.executor, None)
            case _:
                pass

    def _silences(self, side: KubernetesState, now: Millis) -> None:
        """Nobody who is registered has been silent for longer than it may take to miss him."""
        heartbeats = self.config.kubernetes.heartbeats
        for executor, last in list(self.silent.items()):
            if executor not in side.backend.registry.executors or side.heartbeats.stopped:
                del self.silent[executor]
            elif side.backend.waiting is None:
                self._unless(
                    now - last <= heartbeats.timeout_ms + heartbeats.check_ms, now, "an executor that is silent and stays",
                    executor=executor, last=last,
                )  # fmt: skip

    def _show(self, pods: Iterable[PodManifest], now: Millis) -> None:
        for pod in pods:
            self.snapshot_at = now
            label = pod.labels.get(EXECUTOR_LABEL, "")
            if not label.isdigit():
                continue
            self.shown.add(int(label))
            if pod.phase in _FINAL or any(c.state is not None and c.state.kind == TERMINATED for c in pod.containers):
                self.shown_ended.add(int(label))
            made = self.made.get(int(label))
            if made is not None and pod.phase == "Failed" and not made.registered and not made.dead:
                made.dead = True
                self.failed_starts.append(now)

    def _look(self, command: Command, now: Millis, side: KubernetesState) -> None:
        match command:
            case pod_commands.CreatePod():
                self._asked(command, now)
            case pod_commands.AssignExecutorId():
                self._unless(int(command.executor) > self.last_named, now, "an executor id given out twice")
                self.last_named = int(command.executor)
            case pod_commands.DeletePods():
                self._deletes(command, now, side)
            case pod_commands.DeletePod():
                self._disposes(command, now)
            case executor_commands.AnswerRegistration() if command.accepted:
                made = self.made.get(_number(command.executor))
                if made is not None:
                    made.registered = True
                self.failed_starts.clear()
            case executor_commands.RemoveExecutor():
                if command.why.cause is Cause.HEARTBEAT_TIMEOUT:
                    silent_ms = now - self.silent.get(command.executor, now)
                    longer = silent_ms > self.config.kubernetes.heartbeats.timeout_ms
                    self._unless(longer, now, "an executor given up that beats", executor=command.executor)
                number = _number(command.executor)
                self.let_go.setdefault(number, now)
                if number in self.made:
                    self.made[number].left = True
                elif command.why.cause is Cause.POD_MISSING:  # of a StatefulSet or Deployment; perhaps of another name
                    speaking = self.look()._tables.speaking(command.executor)
                    self.unlabelled_lost += any(pod.label != command.executor for pod in speaking)
            case executor_commands.StopApplication():
                self.ended = command.exit_code
            case _:
                pass

    def _asked(self, command: pod_commands.CreatePod, now: Millis) -> None:
        number = command.executor
        self._unless(number > self.last_id, now, "an executor id given out twice", executor=number, last=self.last_id)
        self.last_id = number
        self.made[number] = _Made(command.serial, command.profile, now)
        self.by_serial[command.serial] = number
        if self.round[0] != command.at:
            self.round = (command.at, Counter())
        self.round[1][command.profile] += 1
        asked, most = self.round[1][command.profile], self.allocation.batch_size
        self._unless(
            asked <= most, now, Truth.BATCH_BEYOND_LIMIT.value, profile=command.profile, asked=asked, limit=most
        )
        self._unless(number < self.allocation.pods_max, now, Truth.ID_BEYOND_MAXIMUM.value, executor=number)

    # --------------------------------------------------------------------------------------------- what may be deleted

    def _deletes(self, command: pod_commands.DeletePods, now: Millis, side: KubernetesState) -> None:
        numbers = [_number(executor) for executor in command.executors or ()]
        match command.why.cause:
            case Cause.ABOVE_TARGET if side.allocator is not None:
                check = self._excess if command.phase == "Pending" else self._overrun
                for number in numbers:
                    check(number, command.at, now, side)
                    if command.phase is None:
                        self.overrun_told.add(PodNumber(number))
            case Cause.CREATION_TIMEOUT:
                for number in numbers:
                    self._gives_up(number, command.at, now)
            case Cause.STILL_RUNNING:
                grace = self.config.kubernetes.backend.grace_ms
                for number in numbers:
                    since = self.let_go.get(number)
                    kept = since is not None and since + grace <= now
                    self._unless(kept, now, "deleted by force before its grace was over", executor=number, let_go=since)
            case Cause.STOPPED:
                pass
            case cause:
                self._break(now, "deleted for no reason that is known", {"cause": cause.value})

    def _excess(self, number: int, at: Millis, now: Millis, side: KubernetesState) -> None:
        """An excess pod that goes neither runs nor is known, and is old enough."""
        assert side.allocator is not None
        books = side.allocator.fleet._tables
        key = PodNumber(number)
        pod, created = books.pods.get(key), books.created.get(key)
        self._unless(
            key not in books.known, now, "an executor that the scheduler knows deleted as excess", executor=number
        )
        if pod is not None and created is None:
            running = pod.state is PodState.PENDING
            self._unless(
                running, now, "a pod that is not pending deleted as excess", executor=number, state=pod.state.value
            )
            text = pod.manifest.created_at
            born = None if text is None else parse_instant(text)
        else:
            born = None if created is None else created.at
            self._unless(created is not None, now, "an unknown pod deleted as excess", executor=number)
        old = born is None or at - born > self.allocation.idle_timeout_ms
        self._unless(old, now, "a pod younger than executorIdleTimeout deleted as excess", executor=number, born=born)
        if number in self.made:
            self.made[number].retired = True

    def _overrun(self, number: int, at: Millis, now: Millis, side: KubernetesState) -> None:
        """Only with the fix: an excess pod that runs is deleted too, unless it registered meanwhile."""
        assert side.allocator is not None
        fleet = side.allocator.fleet
        key = PodNumber(number)
        pod = fleet.snapshot().get(key)
        fixed = self.allocation.policies.delete_excess_running
        self._unless(fixed, now, "a running pod deleted as excess without the fix", executor=number)
        ours = fleet.deleted(key) and pod is not None and pod.state is PodState.RUNNING
        self._unless(ours, now, "a pod that was not let go as excess deleted as such", executor=number)
        registered = str(number) in side.backend.registry.executors
        self._unless(not registered, now, "a registered executor deleted as excess", executor=number, at=at)

    def _gives_up(self, number: int, at: Millis, now: Millis) -> None:
        made = self.made.get(number)
        if made is None or made.answered_at is None or made.failed:
            self._break(now, "a pod given up that was never created", {"executor": number})
            return
        timeout = self.allocation.create_timeout_ms
        late = at - made.answered_at > timeout
        self._unless(late, now, "a pod given up before its time", executor=number, created_at=made.answered_at)
        self._unless(number not in self.shown, now, "a pod given up that was seen", executor=number)
        made.given_up = True
        self.failed_starts.append(now)

    def _disposes(self, command: pod_commands.DeletePod, now: Millis) -> None:
        """The lifecycle manager deletes what has ended, the allocator what lacks its claim."""
        if command.why.cause is Cause.CLAIM_FAILED:
            self.made[command.executor].undone = True
            return
        ended = command.executor in self.shown_ended
        self._unless(ended, now, "a pod deleted that has not ended", executor=command.executor)

    # -------------------------------------------------------------------------------------------- what must not be lost

    def _account(self, state: AllocatorState, now: Millis) -> None:
        """Every pod of the cluster is in the books, or it is known why not."""
        books = state.fleet._tables
        waits = None if state.round is None else getattr(state.round.wait, "number", None)  # for its claims
        cluster = self.look()._tables
        for label in cluster.labels:
            number = PodNumber(int(label))
            if number in books.pods or number in books.created or number in books.joined:
                continue
            if all(pod.finished for pod in cluster.labelled(label)):
                continue  # kept by deleteOnTermination=false, and labelled inactive: nobody looks at it any more
            reason = Reason.UNDER_WAY if number == waits else self._reason(number, now)
            if reason is None:
                self._break(now, "a pod lost from the books", {"executor": number})
            else:
                self.explained[reason] += 1

    def _reason(self, number: int, now: Millis) -> Reason | None:
        made = self.made.get(number)
        if made is None:
            return None
        if made.answered_at is None:
            return Reason.UNDER_WAY
        if made.failed:
            return Reason.LOST_ANSWER
        if number in self.shown:
            return Reason.OLDER_LIST
        if made.undone:
            return Reason.UNDONE
        silent = not self.allocation.delete_on_termination  # then nothing is said of it either
        if made.given_up or (silent and now - made.answered_at > self.allocation.create_timeout_ms):
            return Reason.GIVEN_UP
        if made.retired:
            return Reason.RETIRED
        return Reason.GONE_EARLY if made.left and self.allocation.policies.forget_ghosts else None

    def _pending_tasks(self, state: EngineState, now: Millis) -> None:
        if self.pending_wrong or self.config.scaling.repair_pending:
            return
        for profile, tally in state.load._tables.tallies.items():
            if tally.pending < 0:
                self.pending_wrong = True
                facts = {"profile": profile, "pending": tally.pending}
                self._break(now, Truth.NEGATIVE_PENDING.value, facts, Name.LATE_TASK_PENDING)

    def _survivors(self, state: AllocatorState, now: Millis) -> None:
        """An excess pod that turned Running is deleted too, as soon as a round has seen it; Spark forgets it there."""
        if state.round is not None:
            self.round_open_at = now
        overrun = state.fleet._tables.overrun
        for number in [n for n in self.overrun_since if n not in overrun]:
            del self.overrun_since[number]
        for number in overrun:
            since = self.overrun_since.setdefault(number, now)
            later = self.snapshot_at > since and now > max(self.snapshot_at, self.round_open_at) + 2 * self.rounds_ms
            if later and number not in self.overrun_told:
                self.overrun_told.add(number)
                fixed = self.allocation.policies.delete_excess_running
                name = Name.UNNAMED if fixed else Name.EXCESS_RUNNING_SURVIVES
                facts: dict[str, Fact] = {"executor": number, "since": since}
                self._break(now, "an excess pod that runs, and that nobody deletes", facts, name)

    # -------------------------------------------------------------------------------------------------- restart storms

    def _storm(self, state: AllocatorState, now: Millis) -> None:
        """Failed starts, within a window and without any executor that registers, are few."""
        round_ = state.round
        if round_ is not None:
            self.most_at_once = max(self.most_at_once, sum(target for _, target in round_.plan))
        failed = self.failed_starts
        while failed and failed[0] <= now - STORM_MS:
            failed.popleft()
        profiles = len(state.targets)
        few = self.most_at_once + profiles * (self.allocation.batch_size + PROBES) + 4 * (STORM_MS // 60_000)
        if len(failed) > few and not self.stormed:
            self.stormed = True
            fixed = self.allocation.policies.back_off is not None
            name = Name.UNNAMED if fixed else Name.RESTART_STORM
            facts = {"failed_starts": len(failed), "most": few, "window_ms": STORM_MS}
            self._break(now, "pods that do not start, asked for again and again", facts, name)

    # --------------------------------------------------------------------------------------------------------- the end

    def settled(self, state: EngineState) -> tuple[str, dict[str, Fact]] | None:
        """What is still to come, once all is calm: None where the target is reached and the books are the cluster."""
        side, world = state.kubernetes, self.look()
        assert side is not None
        rows = [pod for pod in world._tables.pods.values() if not pod.finished]
        registered = side.backend.registry.executors
        by_profile = Counter(data.profile for data in registered.values())
        targets = side.allocator.targets if side.allocator is not None else _set_targets(side)
        for profile, target in sorted(targets.items()):
            if by_profile[profile] != target:
                return "executors registered", {"profile": profile, "registered": by_profile[profile], "target": target}
        live = {pod.executor for pod in rows if pod.life is Life.REGISTERED}
        if live != set(registered) or len(rows) != len(registered):
            odd = sorted({pod.executor for pod in rows} ^ set(registered))
            return "executors of the cluster", {"pods": len(rows), "registered": len(registered), "odd": str(odd[:9])}
        if side.allocator is None:
            return None
        books = side.allocator.fleet._tables
        if books.created or books.joined or side.allocator.round is not None:
            return "pods not seen yet", {"created": len(books.created), "joined": str(sorted(books.joined)[:9])}
        counted = {str(n) for n, pod in books.pods.items() if n not in books.deleted and pod.state in _COUNTED}
        if counted != live:
            return "books and cluster", {"odd": str(sorted(counted ^ live)[:9])}
        return None

    def unsettled(self, state: EngineState, at: Millis, what: str, facts: Mapping[str, Fact]) -> None:
        """The bound has passed: say what it is called."""
        side, world = state.kubernetes, self.look()
        assert side is not None
        name = Name.UNNAMED
        if side.allocator is not None:
            fleet, policies = side.allocator.fleet, self.allocation.policies
            labels = world._tables.labels
            ghosts = [n for n, _ in fleet.joined() if str(n) not in labels and n not in fleet.known_numbers()]
            overrun = [n for n in fleet.deleted_numbers() if _runs(world, str(n))]
            if ghosts and not policies.forget_ghosts:
                name = Name.GHOST_COUNTED
            elif overrun and not policies.delete_excess_running:
                name = Name.EXCESS_RUNNING_SURVIVES
            elif self.pending_wrong and not self.config.scaling.repair_pending:
                name = Name.LATE_TASK_PENDING
        elif self.refused_sets:
            name = Name.SCALE_REFUSED
        elif any(pod.manifest.labels.get(INACTIVE_LABEL) and not pod.finished for pod in world._tables.pods.values()):
            name = Name.INACTIVE_POD_RESTARTS
        elif self.unlabelled_lost:
            name = Name.LABEL_TOO_LATE
        self._break(at, f"not reached in time: {what}", facts, name)


PROBES = 10
"""Probes of the back-off that fit into the window: 5 s apart, then twice as far each time up to 300 s."""

_FINAL = ("Failed", "Succeeded")
_COUNTED = (PodState.RUNNING, PodState.PENDING)


def _number(executor: object) -> int:
    text = str(executor)
    return int(text) if text.isdigit() else -1


def _runs(world: KubernetesCluster, label: str) -> bool:
    return any(pod.manifest.phase == "Running" and not pod.deleting for pod in world._tables.labelled(label))


def _set_targets(side: KubernetesState) -> Mapping[ProfileId, int]:
    """What the StatefulSets or Deployments are scaled to."""
    return dict(side.backend.requested)
