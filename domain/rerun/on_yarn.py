"""Where the executors of a rerun come from on YARN: the production YARN allocator and a fake resource manager.

``Yarn`` steps the engine of a whole application (``engine.advance``: dynamic allocation, scheduler backend, allocator and
the reporter thread with its heartbeats) and a world (``fakes.yarn.cluster``) beside the tasks. What the engine commands
goes to the world, what the world says to the engine, both at the moment at which it happens. An executor is paid for from
the moment at which the application master has its container to the moment at which the driver knows that it is gone: a
request that waits costs nothing on YARN.

Two kinds of place (``plans.Plan.hadoop``):

- A cluster that was given: its nodes, queue, latencies and faults are the world's.
- None: containers come and go as they did in the log (``rerun.logged_cluster``). The resource manager has room up to the
  bound that
  was seen and answers at once; what the log knows of start-ups, stops and losses is played here, in the log's order, so that
  the same luck is met again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtide.domain import engine
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.yarn.cluster import Said
from podtide.domain.protocol.commands import Command, Decommission, Kill, RequestTotal, Step
from podtide.domain.protocol.containers import ContainerId, Resource
from podtide.domain.protocol.pod_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor
from podtide.domain.protocol.pod_stimuli import ExecutorBusy, ExecutorDisconnected, PodStimulus, RegisterExecutor, Wake
from podtide.domain.protocol.yarn_messages import (
    CancelRequests,
    EndApplication,
    LaunchExecutor,
    ReleaseContainers,
    RequestContainers,
    ResourcesAnswered,
    UpdateExclusions,
)
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.heartbeats import Beats, Given, is_client
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import Book
from podtide.domain.rerun.logged_cluster import AsLogged
from podtide.domain.rerun.plain_manager import LIMITS, NO_END, Core, Needs, missing_by_limit, needs_of, profiles_of
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import ExecutorRow, Standing
from podtide.domain.rerun.tasks import Tasks

_CALLS: Final = (RequestContainers, CancelRequests, ReleaseContainers, LaunchExecutor, UpdateExclusions)
_INSIDE: Final = (RequestTotal, Kill, Decommission)
_ROUNDS_MAX: Final = 10_000


class Yarn:
    """Executors from YARN. Keys in the ledger are ordinals of launches."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, book: Book) -> None:
        assert plan.yarn is not None
        assert plan.yarn.yarn is not None
        self.plan = plan
        self.config = plan.yarn
        self.side = plan.yarn.yarn
        self.book = book
        self._boot = behaviour.boot_ms
        self._place = _place(plan, behaviour, seed, self.side.allocator.containers.resource)
        self._beats = Beats(self.config, self._place)
        self._thinking = self._place.shares_driver
        homes = None if self.config.dynamic else {DEFAULT_PROFILE: plan.static}  # tasks of any profile run on them
        self.tasks = Tasks(app, plan, behaviour, seed, book, thinks=self._thinking, homes=homes)
        self.tasks.flips = []
        self.core = Core(self.config.scaling, self.tasks, book)
        self.stopped: str | None = None
        self.requests = 0
        self.started = 0
        self.lost = 0
        self.registered = 0
        self.peak = 0
        self.there: dict[ProfileId, int] = {}
        self.coming: dict[ProfileId, int] = {}
        self.profiles: list[ProfileId] = []  # by order of launches
        self._key_of: dict[ExecutorId, int] = {}  # -1: it will not come, or not again
        self._profile_of: dict[ExecutorId, ProfileId] = {}
        self._executor_in: dict[ContainerId, ExecutorId] = {}
        self._at: dict[str, ExecutorId] = {}  # by address
        self._ready: list[ExecutorId] = []  # up before the driver knows them
        self._slots = {profile: shape.slots for profile, shape in plan.shapes.items()}
        self._due: Millis = self._boot

    def target(self) -> dict[ProfileId, int]:
        """What is asked for, by profile."""
        if not self._beats.begun:
            return {}
        return self.core.targets if self.config.dynamic else {DEFAULT_PROFILE: self.plan.static}

    def due(self) -> Millis:
        """When it next does something by itself."""
        return self._due

    def slack(self) -> int:
        """How many tasks may end before a decision may depend on it."""
        return NO_END if not self._beats.begun or not self.config.dynamic else self.core.slack(self._slots)

    # ------------------------------------------------------------------------------------------------------ through time

    def take(self, now: Millis) -> None:
        """All that is due at ``now``: what was heard goes to the engine, its commands to the world, and so on."""
        beats = self._beats
        if not beats.begun:
            if now < self._boot:
                self.tasks.said, self.tasks.flips = [], []
                return
            self.tasks.grid = now
            for step in beats.begin(now, client=is_client(self.plan.conf)):
                self._follow(step, now)
            self.tasks.said[:0] = profiles_of(self.tasks.app, now)
        beats.resume(now)
        for _ in range(_ROUNDS_MAX):
            heard = self._place.advance(now)
            self._contacts(heard, now)
            self._make_ready(now)
            stimuli: list[engine.AnyStimulus] = [*self.tasks.hear(), *self._flips(now), *heard]
            if not stimuli:
                if not beats.wakes(now):
                    break
                stimuli.append(Wake(now))
            self._follow(beats.advance(stimuli, now), now)
            self._over(stimuli, now)
            self._make_ready(now)
        if self._thinking and self._place.thought():
            self._thinking = False
            self.tasks.thought(now)
        if beats.state.scaling.add_time == NEVER:
            self.core.ramped = False
        self._due = beats.rest(now)

    def _follow(self, step: Step[engine.State, Command], now: Millis) -> None:
        self.core.reported(step.reports)
        self._obey(step.commands, now)

    def _flips(self, now: Millis) -> list[PodStimulus]:
        """Who became busy or idle, for kills without force."""
        flips, self.tasks.flips = self.tasks.flips, []
        if not flips:
            return []
        rows = {row.row: row for row in flips if row.standing is not Standing.GONE}
        busy = tuple(row.id for row in rows.values() if row.running)
        idle = tuple(row.id for row in rows.values() if not row.running)
        said: list[PodStimulus] = []
        if busy:
            said.append(ExecutorBusy(now, busy, True))
        if idle:
            said.append(ExecutorBusy(now, idle, False))
        return said

    # ------------------------------------------------------------------------------------------------------- executors

    def _obey(self, commands: Sequence[Command], now: Millis) -> None:
        self.core.note(commands, now)
        for command in commands:
            match command:
                case LaunchExecutor():
                    self._launched(command, now)
                case AnswerRegistration():
                    if command.accepted:
                        self._register(command.executor, now)
                case RemoveExecutor():
                    self._remove(command.executor, now)
                case Kill() | Decommission():
                    for executor in command.executors:
                        self._let_go(executor, now)
                case DecommissionExecutors():
                    for executor in command.executors:
                        self._stand_aside(executor, now)
                case ReleaseContainers():
                    self._ended(command.containers, now)
                case EndApplication():
                    self.stopped = f"Spark ends it: {command.message}"
                case _:
                    pass
            self.requests += isinstance(command, _CALLS)
            if not isinstance(command, _INSIDE):
                self._place.apply(command, now)

    def _contacts(self, heard: Iterable[Said], now: Millis) -> None:
        """Who begins to be heard, and who is heard no longer: with the process go its tasks, whatever the driver knows."""
        for one in heard:
            if isinstance(one, RegisterExecutor):
                self._at[one.address] = one.executor
            elif isinstance(one, ExecutorDisconnected):
                known = self.tasks.by_id.get(self._at.pop(one.address, ExecutorId("")))
                if known is not None:
                    self._gone(known, now)

    def _over(self, stimuli: Iterable[engine.AnyStimulus], now: Millis) -> None:
        """Containers that ended before the driver knew their executors."""
        for one in stimuli:
            if isinstance(one, ResourcesAnswered):
                self._ended((completion.container for completion in one.completed), now)

    def _ended(self, containers: Iterable[ContainerId], now: Millis) -> None:
        for container in containers:
            executor = self._executor_in.get(container)
            if executor is not None and executor not in self.tasks.by_id:
                self._cancelled(executor, now)

    def _launched(self, command: LaunchExecutor, now: Millis) -> None:
        """The master has a container: from now on it costs."""
        key = len(self.profiles)
        self._key_of[command.executor] = key
        self._profile_of[command.executor] = command.profile
        self._executor_in[command.container] = command.executor
        self.profiles.append(command.profile)
        self.coming[command.profile] = self.coming.get(command.profile, 0) + 1
        self.started += 1
        self.book.requested(key, now)

    def _register(self, executor: ExecutorId, now: Millis) -> None:
        key = self._key_of.get(executor, -1)
        if executor in self.tasks.by_id or key < 0:
            return
        profile = self._profile_of[executor]
        self.coming[profile] -= 1
        self.there[profile] = self.there.get(profile, 0) + 1
        self.registered += 1
        self.peak = max(self.peak, self.registered)
        row = len(self.tasks.executors)
        self.tasks.join(row, executor, profile, self._slots.get(profile, 0), now, key=key)
        self._place.registered(executor, now)
        first = self.config.scaling.executors_initial if self.config.dynamic else self.plan.static
        if self.registered >= first * self.plan.registered_ratio:
            self.tasks.open(now)

    def _make_ready(self, now: Millis) -> None:
        """Executors that can be given tasks, as soon as the driver knows them."""
        waiting: list[ExecutorId] = []
        for executor in (*self._ready, *self._place.ready()):
            known = self.tasks.by_id.get(executor)
            if known is not None:
                self.tasks.ready(known, now)
            elif self._key_of.get(executor, -1) >= 0:
                waiting.append(executor)
        self._ready = waiting

    def _remove(self, executor: ExecutorId, now: Millis) -> None:
        known = self.tasks.by_id.get(executor)
        if known is None:
            self._cancelled(executor, now)
        else:
            self._gone(known, now)

    def _gone(self, known: ExecutorRow, now: Millis) -> None:
        lost = known.standing is Standing.ACTIVE
        if lost:
            self.there[known.profile] -= 1
            self.lost += 1
        self.registered -= 1
        self._key_of[known.id] = -1
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
        """A container ended in which nobody ever registered."""
        key = self._key_of.get(executor, -1)
        if key >= 0 and not self.tasks.was(executor):
            self.book.cancelled(key, now)
            self.coming[self._profile_of[executor]] -= 1
            self._key_of[executor] = -1

    # ------------------------------------------------------------------------------------------------ what tasks wait for

    def needs(self) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming and there."""
        ratio = self.config.scaling.ratio if self.config.dynamic else 1.0
        return needs_of(self.tasks, ratio, self.target(), self.coming, self.there, self._slots)

    def shortage(self) -> tuple[int, ...]:
        """How many executors each limit keeps away: of those asked for without a container, what YARN says."""
        if not any(self.tasks.waiting.values()):
            return (0,) * len(LIMITS)
        most = self.plan.static if not self.config.dynamic else self.config.scaling.executors_max
        counts = dict(zip(LIMITS, missing_by_limit(self.needs(), most, ramped=self.core.ramped), strict=True))
        left, counts[Limit.CAPACITY] = counts[Limit.CAPACITY], 0
        if left:
            seen = self._place.outlook()
            for limit, count in (
                (Limit.CAPACITY, seen.full),
                (Limit.EXCLUSION, seen.barred),
                (Limit.SCHEDULER, seen.soon),
            ):
                part = min(left, count)
                counts[limit] += part
                left -= part
            counts[Limit.HEARTBEAT] += left
        return tuple(counts.values())


def _place(plan: Plan, behaviour: Behaviour, seed: int, container: Resource) -> Given:
    """Where its containers are: the cluster that was given, or what the log knows."""
    if plan.hadoop is not None:
        return Given(plan.hadoop, seed, behaviour.boot_ms)
    return AsLogged(behaviour, plan.faults, container, seed, behaviour.boot_ms)
