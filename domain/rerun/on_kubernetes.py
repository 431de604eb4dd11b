"""Where the executors of a rerun come from on Kubernetes: the production pods allocator on a fake cluster.

``Pods`` steps the engine of a whole application (``engine.advance``: dynamic allocation, pods allocator, lifecycle,
backend) and a world (``world``) beside the tasks. What the engine commands goes to the world, what the world says to the
engine, both at the moment at which it happens. An executor is paid for from the creation of its pod to the moment at which
the driver knows that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from podtide.domain import engine
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.protocol.commands import Command, Decommission, Kill, Report, RequestTotal
from podtide.domain.protocol.pod_commands import (
    AnswerRegistration,
    AssignExecutorId,
    AwaitDriverReady,
    CreatePod,
    DecommissionExecutors,
    DeletePod,
    DeletePods,
    PodCommand,
    RemoveExecutor,
    StopApplication,
    StopSource,
)
from podtide.domain.protocol.pod_stimuli import (
    UNKNOWN_OUTCOME,
    ExecutorBusy,
    Outcome as CallOutcome,
    PodStimulus,
    RegisterExecutor,
    Wake,
)
from podtide.domain.protocol.reasons import Bound, Held, Phase
from podtide.domain.protocol.stimuli import ListenerEvent
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import Book
from podtide.domain.rerun.plain_manager import LIMITS, NO_END, Core, Needs, missing_by_limit, needs_of, profiles_of
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import Standing
from podtide.domain.rerun.tasks import Tasks

_PENDING: Final = frozenset({Bound.PENDING_LIMIT, Bound.PENDING_LIMIT_PROFILE})
_NO_CALLS: Final = (
    RequestTotal, Kill, Decommission, AnswerRegistration, AssignExecutorId, AwaitDriverReady, DecommissionExecutors,
    RemoveExecutor, StopApplication, StopSource,
)  # fmt: skip
_ROUNDS_MAX: Final = 10_000


class Pods:
    """Executors from Kubernetes. Keys in the ledger are executor ids as numbers."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, book: Book) -> None:
        assert plan.kubernetes is not None
        assert plan.cluster is not None
        self.plan = plan
        self.config = plan.kubernetes
        self.book = book
        homes = None if self.config.dynamic else {DEFAULT_PROFILE: plan.static}  # tasks of any profile run on them
        self.tasks = Tasks(app, plan, behaviour, seed, book, homes=homes)
        self.stopped: str | None = None
        self.tasks.flips = []
        self.core = Core(self.config.scaling, self.tasks, book)
        self.requests = 0
        self.started = 0
        self.lost = 0
        self.registered = 0
        self.peak = 0
        self.there: dict[ProfileId, int] = {}
        self.coming: dict[ProfileId, int] = {}
        self.profiles: list[ProfileId] = []  # by order of creation
        self._key_of: dict[ExecutorId, int] = {}
        self._creating: dict[int, ExecutorId] = {}  # by the serial of the call
        self._refused: set[ProfileId] = set()  # whose last creation the API refused
        self._profile_of: dict[ExecutorId, ProfileId] = {}
        self._state: engine.State | None = None
        self._boot = behaviour.boot_ms
        self._held: dict[tuple[Bound, ProfileId], None] = {}
        self._slots = {profile: shape.slots for profile, shape in plan.shapes.items()}
        allocation = self.config.kubernetes.allocation
        self._world = worlds.begin(
            plan.cluster,
            seed,
            self._boot,
            sources=self.config.kubernetes.sources,
            application=worlds.Application("rerun", allocation.pod_name_prefix, allocation.namespace),
        )
        self._due: Millis = self._boot

    def target(self) -> dict[ProfileId, int]:
        """What is asked for, by profile."""
        if self._state is None:
            return {}
        return self.core.targets if self.config.dynamic else {DEFAULT_PROFILE: self.plan.static}

    def due(self) -> Millis:
        """When it next does something by itself."""
        return self._due

    def slack(self) -> int:
        """How many tasks may end before a decision may depend on it."""
        return NO_END if self._state is None or not self.config.dynamic else self.core.slack(self._slots)

    def take(self, now: Millis) -> None:
        """All that is due at ``now``: what was heard goes to the engine, its commands to the world, and so on."""
        if self._state is None:
            if now < self._boot:
                self.tasks.said, self.tasks.flips = [], []
                return
            self.tasks.grid = now
            begun = engine.launch(self.config, now)
            self._state = begun.state
            self._obey(begun.commands, begun.reports, now)
            self.tasks.said[:0] = profiles_of(self.tasks.app, now)
        for _ in range(_ROUNDS_MAX):
            stimuli: list[ListenerEvent | PodStimulus] = list(self.tasks.hear())
            stimuli.extend(self._flips(now))
            self._world, heard = worlds.advance(self._world, now)
            for one in heard:
                if isinstance(one, RegisterExecutor):
                    self._profile_of.setdefault(one.executor, one.profile)
                elif isinstance(one, CallOutcome):
                    self._answered(one)
            stimuli.extend(heard)
            if not stimuli:
                if engine.due(self._state, self.config) > now:
                    break
                stimuli.append(Wake(now))
            taken = engine.advance(self._state, stimuli, self.config, now)
            self._state = taken.state
            self._obey(taken.commands, taken.reports, now)
        if self._state.scaling.add_time == NEVER:
            self.core.ramped = False
        self._due = min(worlds.due(self._world), max(now + 1, engine.due(self._state, self.config)))

    def _flips(self, now: Millis) -> list[PodStimulus]:
        """Who became busy or idle, for kills without force."""
        flips, self.tasks.flips = self.tasks.flips, []
        if not flips:
            return []
        rows = {row.row: row for row in flips or () if row.standing is not Standing.GONE}
        busy = tuple(row.id for row in rows.values() if row.running)
        idle = tuple(row.id for row in rows.values() if not row.running)
        said: list[PodStimulus] = []
        if busy:
            said.append(ExecutorBusy(now, busy, True))
        if idle:
            said.append(ExecutorBusy(now, idle, False))
        return said

    def _obey(self, commands: Sequence[Command], reports: Iterable[Report], now: Millis) -> None:
        self._note(reports)
        self.core.note(commands, now)
        for command in commands:
            match command:
                case CreatePod():
                    self._created(command, now)
                case AnswerRegistration():
                    if command.accepted:
                        self._register(command.executor, now)
                case RemoveExecutor():
                    self._remove(command, now)
                case Kill() | Decommission():
                    for executor in command.executors:
                        self._let_go(executor, now)
                case DecommissionExecutors():
                    for executor in command.executors:
                        self._stand_aside(executor, now)
                case DeletePods() if command.executors is not None:
                    for one in command.executors:
                        self._cancelled(ExecutorId(str(one)), now)
                case StopApplication() if command.exit_code is not None:
                    self.stopped = f"Spark ends it with exit code {command.exit_code}"
                case DeletePod():
                    self._cancelled(ExecutorId(str(command.executor)), now)
                case _:
                    pass
            self.requests += not isinstance(command, _NO_CALLS)
            if not isinstance(command, RequestTotal | Kill | Decommission):
                self._world = worlds.apply(self._world, cast(PodCommand, command), now)

    def _note(self, reports: Iterable[Report]) -> None:
        self.core.reported(reports)
        for report in reports:
            if isinstance(report, Held):
                if report.phase is Phase.ENDED:
                    self._held.pop((report.bound, report.profile), None)
                else:
                    self._held[report.bound, report.profile] = None

    def _created(self, command: CreatePod, now: Millis) -> None:
        executor = ExecutorId(str(command.executor))
        if executor in self._key_of:
            return  # the same pod, asked for once more
        key = len(self.profiles)
        self._key_of[executor] = key
        self._creating[command.serial] = executor
        self._profile_of[executor] = command.profile
        self.profiles.append(command.profile)
        self.coming[command.profile] = self.coming.get(command.profile, 0) + 1
        self.started += 1
        self.book.requested(key, now)

    def _answered(self, outcome: CallOutcome) -> None:
        """A call came back; of creations, a refused one (a quota, a webhook) never was a pod: nobody pays for it."""
        executor = self._creating.pop(outcome.serial, None)
        if executor is None:
            return
        profile = self._profile_of[executor]
        if outcome.failure is None:
            self._refused.discard(profile)
        elif outcome.failure.exception_class != UNKNOWN_OUTCOME:
            self._refused.add(profile)
            key = self._key_of[executor]
            if key >= 0 and not self.tasks.was(executor):
                self.book.never_was(key)
                self.coming[profile] -= 1
                self.started -= 1
                self._key_of[executor] = -1

    def _register(self, executor: ExecutorId, now: Millis) -> None:
        profile = self._profile_of.get(executor, DEFAULT_PROFILE)
        if executor not in self._key_of:  # a pod that somebody else creates (a StatefulSet's)
            self._key_of[executor] = len(self.profiles)
            self.profiles.append(profile)
            self.started += 1
            self.book.requested(self._key_of[executor], now)
            self.coming[profile] = self.coming.get(profile, 0) + 1
        if executor in self.tasks.by_id or self._key_of[executor] < 0:
            return
        self.coming[profile] -= 1
        self.there[profile] = self.there.get(profile, 0) + 1
        self.registered += 1
        self.peak = max(self.peak, self.registered)
        row = len(self.tasks.executors)
        self.tasks.join(row, executor, profile, self._slots.get(profile, 0), now, key=self._key_of[executor])
        first = self.config.scaling.executors_initial if self.config.dynamic else self.plan.static
        if self.registered >= first * self.plan.registered_ratio:
            self.tasks.open(now)
        self.tasks.ready(self.tasks.executors[row], now)

    def _remove(self, command: RemoveExecutor, now: Millis) -> None:
        known = self.tasks.by_id.get(command.executor)
        if known is None:
            self._cancelled(command.executor, now)
            return
        lost = known.standing is Standing.ACTIVE
        if lost:
            self.there[known.profile] -= 1
            self.lost += 1
        self.registered -= 1
        self.tasks.remove(known, now, lost=lost)

    def _let_go(self, executor: ExecutorId, now: Millis) -> None:
        """A kill without force: the backend spares who is at work."""
        known = self.tasks.by_id.get(executor)
        if known is not None and not known.running:
            self._stand_aside(executor, now)

    def _stand_aside(self, executor: ExecutorId, now: Millis) -> None:
        known = self.tasks.by_id.get(executor)
        if known is not None and known.standing is Standing.ACTIVE:
            self.tasks.stand_aside(known)
            self.there[known.profile] -= 1
            self.book.told_to_go(known.key, now)

    def _cancelled(self, executor: ExecutorId, now: Millis) -> None:
        """A pod that never registered is deleted."""
        key = self._key_of.get(executor, -1)
        if key >= 0 and executor not in self.tasks.by_id and not self.tasks.was(executor):
            self.book.cancelled(key, now)
            self.coming[self._profile_of[executor]] -= 1
            self._key_of[executor] = -1

    def needs(self) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming and there."""
        ratio = self.config.scaling.ratio if self.config.dynamic else 1.0
        return needs_of(self.tasks, ratio, self.target(), self.coming, self.there, self._slots)

    def shortage(self) -> tuple[int, ...]:
        """How many executors each limit keeps away: of those asked for without a pod, the allocator's limits do."""
        if not any(self.tasks.waiting.values()):
            return (0,) * len(LIMITS)
        most = self.plan.static if not self.config.dynamic else self.config.scaling.executors_max
        counts = dict(zip(LIMITS, missing_by_limit(self.needs(), most, ramped=self.core.ramped), strict=True))
        held = {bound for bound, _ in self._held}
        unmade, counts[Limit.CAPACITY] = counts[Limit.CAPACITY], 0
        if unmade:
            short = Bound.BACK_OFF in held or self._refused
            limit = Limit.CAPACITY if short else Limit.PENDING if held & _PENDING else Limit.BATCH
            counts[limit] += unmade
        homeless = min(counts[Limit.START_UP], worlds.census(self._world).waiting)
        counts[Limit.START_UP] -= homeless
        counts[Limit.CAPACITY] += homeless
        return tuple(counts.values())
