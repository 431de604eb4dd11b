"""Where the executors of a rerun come from: a plain resource manager, asked by dynamic allocation or for a static count.

``Plain`` gives what it is asked for, as far as there is room: each executor takes its start-up (``start_up``), stays
until it is killed or lost, and for a moment after that. An executor that is starting stays when the target falls: it
registers, idles and is let go, as on a standalone cluster. A standalone master forgets an executor that it is told to kill;
one that is decommissioned ends by itself, and the master counts it until then (startExecutorsOnWorkers compares the
executors of an application with its limit), so no other starts in its place. The decisions are the production core's
(``rerun.decisions``); nothing here decides how many executors there should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from podtide.domain.base.randomness import split, stream
from podtide.domain.base.units import DEFAULT_PROFILE, LAST_MS, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.stimuli import Answer, ExecutorAdded, ExecutorRemoved, ListenerEvent, Tick
from podtide.domain.recorded.application import Application, main_profile, peaks
from podtide.domain.rerun.behaviour import Behaviour, interrupted_after, sampled
from podtide.domain.rerun.decisions import NO_END, Core, profiles_of
from podtide.domain.rerun.executor_accounts import ExecutorAccounts, Needs
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.start_up import Starts
from podtide.domain.rerun.tasks import Tasks
from podtide.domain.scheduler.rows import Standing

_SPOT: Final = 11
_REMOVAL: Final = 12


class PlainRemoval(NamedTuple):
    """An executor's removal to come. ``lost``: by nobody's wish."""

    at: Millis
    row: int
    lost: bool


def static_counts(app: Application, count: int) -> dict[ProfileId, int]:
    """How many executors of each profile a static count amounts to.

    Without dynamic allocation all executors are of one profile, which a log names as it likes; tasks of any other run on
    them (TaskResourceProfile). A log with executors of several keeps as many of the others as it had at once.
    """
    most = main_profile(app)
    return {most: count, **{profile: held for profile, held in peaks(app).items() if profile != most}}


class Plain:
    """Executors from a plain resource manager."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, ledger: Ledger) -> None:
        self._starts = Starts(behaviour.startup, seed, extra_ms=plan.faults.start_extra_ms)
        self._thinking = self._starts.shares_driver
        think = self._starts.think if self._thinking else None
        static = static_counts(app, plan.static) if plan.dynamic is None else None
        tasks = Tasks(app, plan, behaviour, seed, ledger, think=think, profiles_served=static)
        tasks.warm_up, tasks.warms = self._starts.warm_up, self._starts.warms
        self._static = static or {}
        self.plan = plan
        self.behaviour = behaviour
        self.tasks = tasks
        self.accounts = ExecutorAccounts(plan, plan.dynamic, tasks, ledger)
        self.requests = 0
        self.stopped: str | None = None  # why Spark itself ended the application
        self.present = 0  # room that is taken: by those on their way or there
        self.core = None if plan.dynamic is None else Core(plan.dynamic, tasks, ledger)
        self._boot = behaviour.boot_ms
        self._booted = False
        self._row: dict[int, int] = {}  # ordinal of request to row
        self._leaving: list[PlainRemoval] = []
        self._losses = {loss.ordinal: loss.after_ms for loss in behaviour.losses}
        self._removals = 0
        self._removal_luck = split(stream(seed), _REMOVAL)
        self._seed = seed
        self._spot_luck = split(stream(seed), _SPOT)
        bounds = [bound for bound in (behaviour.capacity, plan.faults.quota) if bound is not None]
        self.capacity = min(bounds) if bounds else NO_END

    def target(self) -> dict[ProfileId, int]:
        """What is asked for, by profile."""
        if not self._booted:
            return {}
        return self._static if self.core is None else self.core.targets

    def due(self) -> Millis:
        """When it next does something by itself."""
        if not self._booted:
            return self._boot
        first = self._starts.due()
        if self._leaving:
            first = min(first, self._leaving[0].at)
        return first if self.core is None else min(first, self.core.next_tick)

    def slack(self) -> int:
        """How many tasks may end before a decision may depend on it."""
        return NO_END if self.core is None or not self._booted else self.core.slack(self.accounts.slots)

    def take(self, now: Millis) -> None:
        """All that is due at ``now``: what was heard is folded, executors come and go, the timer runs."""
        core, tasks = self.core, self.tasks
        if not self._booted and now >= self._boot:
            self._booted = True
            tasks.grid = now  # of a static count nothing is decided, but the books are kept
            if core is not None:
                self._obey(core.begin(now), now)
                self._obey(core.hear(profiles_of(tasks.dag.app, now), now), now)
            self._provide(now)
            tasks.boot(now, self.accounts.enough)
        events: list[ListenerEvent] = tasks.hear()
        if self._booted:
            events.extend(self._register(ordinal, now) for ordinal in self._starts.advance(now))
            if self._thinking and self._starts.thought_ms is not None:
                self._thinking = False
                tasks.dag.thought(now)
            for ordinal in self._starts.ready():
                row = self._row.get(ordinal)
                if row is not None and tasks.executors[row].standing is not Standing.GONE:
                    tasks.ready(tasks.executors[row], now)
                    events.extend(tasks.hear())
            while self._leaving and self._leaving[0].at <= now:
                events.extend(self._remove(heappop(self._leaving), now))
        if core is not None and self._booted:
            if events:
                self._obey(core.hear(events, now), now)
                core.plan(now)
            if core.next_tick <= now:
                self._obey(core.hear((Tick(now),), now), now)
                core.ticked(now)
                core.plan(now)
        if self._booted:
            self._provide(now)

    def _obey(self, commands: Sequence[Command], now: Millis) -> None:
        """Carry out what the core commands, and answer it."""
        core = self.core
        assert core is not None
        queue = list(commands)
        while queue:
            command = queue.pop(0)
            self.requests += 1
            match command:
                case RequestTotal():
                    answer = Answer(now, command.serial)
                case Kill() | Decommission():
                    decommissioned = isinstance(command, Decommission)
                    granted = tuple(
                        one for one in command.executors if self._let_go(one, now, decommissioned=decommissioned)
                    )
                    if (
                        not decommissioned
                    ):  # the worker kills it at once, and its room is free; the driver hears of it later
                        self.present -= len(granted)
                        for one in granted:
                            self.tasks.died(self.tasks.by_id[one], now)
                    answer = Answer(now, command.serial, granted)
                case _:
                    continue
            queue.extend(core.hear((answer,), now))

    def _let_go(self, executor: ExecutorId, now: Millis, *, decommissioned: bool) -> bool:
        """killExecutors(force = false): not one that is at work."""
        known = self.tasks.by_id.get(executor)
        if known is None or known.running or known.standing is not Standing.ACTIVE:
            return False
        self.accounts.stop_offering(known, now, decommissioned=decommissioned)
        heappush(self._leaving, PlainRemoval(now + self._removal_ms(), known.row, lost=False))
        return True

    def _removal_ms(self) -> Millis:
        samples = self.behaviour.removal_ms
        if not samples:
            return 1
        self._removals += 1
        return max(1, sampled(samples, self._removals - 1, self._removal_luck, self._seed))

    def _provide(self, now: Millis) -> None:
        """Begin the starts that are asked for and that there is room for."""
        there, coming = self.accounts.there, self.accounts.coming
        for profile, target in self.target().items():
            wanted = target - self.accounts.ending.get(profile, 0)
            while there.get(profile, 0) + coming.get(profile, 0) < wanted and self.present < self.capacity:
                self.present += 1
                self._starts.request(now, self.accounts.request(profile, now))

    def _register(self, ordinal: int, now: Millis) -> ListenerEvent:
        row = len(self.tasks.executors)
        self._row[ordinal] = row
        slots = self.accounts.slots
        profile = self.accounts.profiles[ordinal]
        executor = ExecutorId(str(row))
        self.accounts.register(ordinal, executor, now, slots=slots.get(profile, slots[DEFAULT_PROFILE]))
        loss = self._losses.get(row)
        if self.plan.faults.spot_per_hour > 0:
            spot = interrupted_after(row, self.plan.faults.spot_per_hour, self._spot_luck)
            loss = spot if loss is None else min(loss, spot)
        if loss is not None and now + loss < LAST_MS:
            heappush(self._leaving, PlainRemoval(now + max(1, loss), row, lost=True))
        return ExecutorAdded(now, executor, profile)

    def _remove(self, leaving: PlainRemoval, now: Millis) -> list[ListenerEvent]:
        tasks = self.tasks
        executor = tasks.executors[leaving.row]
        if executor.standing is Standing.GONE:
            return []
        self.present -= self.accounts.takes_room(executor)
        self.accounts.remove(executor, now, lost=leaving.lost)
        return [*tasks.hear(), ExecutorRemoved(now, executor.id, "lost" if leaving.lost else "released")]

    def needs(self) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming and there."""
        return self.accounts.needs(self.target())

    def shortage(self) -> tuple[int, ...]:
        """How many executors each limit keeps away from tasks that wait."""
        return self.accounts.missing(self.target(), ramped=self.core is not None and self.core.ramped)
