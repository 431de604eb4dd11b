"""Managers of a rerun whose executors come from the engine of a whole application and a fake cluster.

``EngineSteps`` is such an application through time: its engine (``engine.advance``) and the cluster. ``drive`` lets both
speak to each other until nothing more happens at a moment: what the engine commands goes to the cluster, what the cluster
says to the engine. ``EngineManager`` does so beside the tasks of a rerun, and keeps accounts of the executors;
``rerun.on_kubernetes`` and ``rerun.on_yarn`` add what is their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from podtide.domain import engine
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, Step
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, Wake
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.decisions import NO_END, Core, profiles_of
from podtide.domain.rerun.executor_accounts import NONE_MISSING, ExecutorAccounts, Needs
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import LIMITS, Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.tasks import Tasks
from podtide.domain.scheduler.rows import ExecutorSlots, Standing

_INSIDE: Final = (RequestTotal, Kill, Decommission)
"""Commands of dynamic allocation, which the engine itself passes on to its cluster manager's side."""

_ROUNDS_MAX: Final = 10_000


class Cluster(Protocol):
    """A fake cluster: it hears commands, and says what reaches the application."""

    def due(self) -> Millis:
        """When something happens there next."""

    def apply(self, command: Any, now: Millis) -> None:
        """The application asks for something."""

    def advance(self, now: Millis) -> Iterable[AnyStimulus]:
        """Let time pass; returns what reaches the application."""


class EngineSteps:
    """An application's engine and its cluster."""

    def __init__(self, config: EngineConfig, cluster: Cluster) -> None:
        self.config = config
        self.cluster = cluster
        self._state: engine.EngineState | None = None

    @property
    def state(self) -> engine.EngineState:
        """The engine's state; the application has begun."""
        assert self._state is not None
        return self._state

    @property
    def begun(self) -> bool:
        """Whether it has begun."""
        return self._state is not None

    def begin(self, now: Millis) -> Sequence[Step[engine.EngineState, Command]]:
        """The driver starts."""
        step = engine.launch(self.config, now)
        self._state = step.state
        return (step,)

    def advance(self, stimuli: Sequence[AnyStimulus], now: Millis) -> Step[engine.EngineState, Command]:
        """Take what came, and decide."""
        taken = engine.advance(self.state, stimuli, self.config, now)
        self._state = taken.state
        return taken

    def wakes(self, now: Millis) -> bool:
        """Whether a Wake at ``now`` would change anything."""
        return engine.wake_due(self.state, self.config) <= now

    def resume(self, now: Millis) -> None:
        """Time is ``now``."""

    def rest(self, now: Millis) -> Millis:
        """Nothing else happens at ``now``; returns when something does."""
        return min(self.cluster.due(), max(now + 1, engine.wake_due(self.state, self.config)))


def drive(
    steps: EngineSteps,
    now: Millis,
    hear: Callable[[Millis], list[AnyStimulus]],
    follow: Callable[[Step[engine.EngineState, Command], Sequence[AnyStimulus], Millis], None],
) -> Millis:
    """Step the engine with what it hears, and follow its commands, until nothing more happens at ``now``.

    Returns when something happens next.
    """
    for _ in range(_ROUNDS_MAX):
        stimuli = hear(now)
        if not stimuli:
            if not steps.wakes(now):
                break
            stimuli.append(Wake(now))
        follow(steps.advance(stimuli, now), stimuli, now)
    return steps.rest(now)


class EngineManager(ABC):
    """Executors that the engine of a whole application asks a fake cluster for. ``stopped``: why Spark itself ended it."""

    def __init__(
        self,
        app: Application,
        plan: Plan,
        behaviour: Behaviour,
        seed: int,
        ledger: Ledger,
        steps: EngineSteps,
        *,
        think: Callable[[Millis], None] | None = None,
    ) -> None:
        self.config = steps.config
        self.steps = steps
        self._static = None if self.config.dynamic else {DEFAULT_PROFILE: plan.static}
        # Of a static count, tasks of any profile run on the executors of the default one.
        self.tasks = Tasks(app, plan, behaviour, seed, ledger, think=think, profiles_served=self._static)
        self.tasks.flips = []
        self.core = Core(self.config.scaling, self.tasks, ledger)
        scaling = self.config.scaling if self.config.dynamic else None
        self.accounts = ExecutorAccounts(plan, scaling, self.tasks, ledger)
        self.stopped: str | None = None
        self.requests = 0
        self._key_of: dict[ExecutorId, int] = {}  # -1: it will not come, or not again
        self._boot = behaviour.boot_ms
        self._due: Millis = self._boot

    def target(self) -> dict[ProfileId, int]:
        """What is asked for, by profile."""
        if not self.steps.begun:
            return {}
        return self.core.targets if self._static is None else self._static

    def due(self) -> Millis:
        """When it next does something by itself."""
        return self._due

    def slack(self) -> int:
        """How many tasks may end before a decision may depend on it."""
        return NO_END if not self.steps.begun or not self.config.dynamic else self.core.slack(self.accounts.slots)

    def needs(self) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming and there."""
        return self.accounts.needs(self.target())

    def shortage(self) -> tuple[int, ...]:
        """How many executors each limit keeps away: of those asked for and not there, what the cluster manager says."""
        missing = self.accounts.missing(self.target(), ramped=self.core.ramped)
        if missing is NONE_MISSING:
            return missing
        counts = dict(zip(LIMITS, missing, strict=True))
        self._divide(counts)
        return tuple(counts.values())

    def take(self, now: Millis) -> None:
        """All that is due at ``now``: what was heard goes to the engine, its commands to the cluster, and so on."""
        if not self.steps.begun:
            if now < self._boot:
                self.tasks.news, self.tasks.flips = [], []
                return
            self.tasks.grid = now
            for step in self.steps.begin(now):
                self._follow(step, (), now)
            self.tasks.news[:0] = profiles_of(self.tasks.dag.app, now)
            self.tasks.boot(now, self.accounts.enough)
        self.steps.resume(now)
        self._due = drive(self.steps, now, self._hear, self._follow)
        if self.steps.state.scaling.add_time == NEVER:
            self.core.ramped = False

    # ------------------------------------------------------------------------------------------- of a cluster manager

    def _arrivals(self, now: Millis) -> Sequence[AnyStimulus]:
        """What the cluster says at ``now``."""
        return tuple(self.steps.cluster.advance(now))

    @abstractmethod
    def _carry_out(self, command: Command, now: Millis) -> None:
        """Keep account of a command of the cluster manager's own; ``requests`` counts its calls."""

    def _note(self, reports: Sequence[Report]) -> None:
        """What was held back."""
        self.core.reported(reports)

    @abstractmethod
    def _divide(self, counts: dict[Limit, int]) -> None:
        """Say of the missing executors that were asked for what keeps them away."""

    # ------------------------------------------------------------------------------------------------------ executors

    def _hear(self, now: Millis) -> list[AnyStimulus]:
        arrivals = self._arrivals(now)
        return [*self.tasks.hear(), *self._flips(now), *arrivals]

    def _flips(self, now: Millis) -> list[ExecutorBusy]:
        """Who became busy or idle, for kills without force."""
        flips, self.tasks.flips = self.tasks.flips, []
        if not flips:
            return []
        rows = {row.row: row for row in flips if row.standing is not Standing.GONE}
        busy = tuple(row.id for row in rows.values() if row.running)
        idle = tuple(row.id for row in rows.values() if not row.running)
        return [ExecutorBusy(now, ids, is_busy) for ids, is_busy in ((busy, True), (idle, False)) if ids]

    def _follow(self, step: Step[engine.EngineState, Command], stimuli: Sequence[AnyStimulus], now: Millis) -> None:  # noqa: ARG002 - YARN's looks at them
        """Carry out what the engine commands."""
        self._note(step.reports)
        self.core.note(step.commands, now)
        for command in step.commands:
            match command:
                case RequestTotal():
                    continue
                case AnswerRegistration():
                    if command.accepted:
                        self._register(command.executor, now)
                case RemoveExecutor():
                    self._remove(command.executor, now)
                case Kill() | Decommission():
                    for executor in command.executors:
                        self._let_go(executor, now, decommissioned=isinstance(command, Decommission))
                case DecommissionExecutors():
                    for executor in command.executors:
                        self._stop_offering(executor, now, decommissioned=True)
                case _:
                    self._carry_out(command, now)
            if not isinstance(command, _INSIDE):
                self.steps.cluster.apply(command, now)

    def _register(self, executor: ExecutorId, now: Millis) -> ExecutorSlots | None:
        """The driver takes an executor in; None for one that it knows, or that is not to come."""
        key = self._key_of.get(executor, -1)
        if executor in self.tasks.by_id or key < 0:
            return None
        slots = self.accounts.slots.get(self.accounts.profiles[key], 0)
        return self.accounts.register(key, executor, now, slots=slots)

    def _remove(self, executor: ExecutorId, now: Millis) -> None:
        known = self.tasks.by_id.get(executor)
        if known is None:
            self._cancelled(executor, now)
        else:
            self._gone(known, now)

    def _gone(self, known: ExecutorSlots, now: Millis) -> None:
        self._key_of[known.id] = -1
        self.accounts.remove(known, now, lost=known.standing is Standing.ACTIVE)

    def _let_go(self, executor: ExecutorId, now: Millis, *, decommissioned: bool) -> None:
        """A kill without force: the backend spares who is at work."""
        known = self.tasks.by_id.get(executor)
        if known is not None and not known.running:
            self._stop_offering(executor, now, decommissioned=decommissioned)

    def _stop_offering(self, executor: ExecutorId, now: Millis, *, decommissioned: bool) -> None:
        known = self.tasks.by_id.get(executor)
        if known is not None and known.standing is Standing.ACTIVE:
            self.accounts.stop_offering(known, now, decommissioned=decommissioned)

    def _cancelled(self, executor: ExecutorId, now: Millis) -> None:
        """Its pod or container ended, and it never registered."""
        key = self._key_of.get(executor, -1)
        if key >= 0 and not self.tasks.was(executor):
            self.accounts.cancel(key, now)
            self._key_of[executor] = -1
