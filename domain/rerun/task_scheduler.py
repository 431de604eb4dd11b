"""The task scheduler of a rerun: Spark's (``scheduler.task_scheduler``), with the luck of the log and the books of its cost.

When tasks come or executors do, all free slots are offered, one for each executor and round, in an order drawn by the seed.
A task takes as long as in the log. The first tasks on an executor, one for each slot, take longer
(``behaviour.fresh_ms``), and so do tasks that read cached partitions that nobody holds any more.

A task that will not get what it reads asks as soon as it runs. If the driver knows that the output is gone, that is all;
else it asks again and again (RetryingBlockTransferor), until the driver knows it or its patience is at an end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, NamedTuple

from podtide.domain.base.randomness import split, stream
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol import stimuli
from podtide.domain.rerun.behaviour import Behaviour, sampled
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import RerunStage
from podtide.domain.rerun.start_up import SETTLED, WarmUp
from podtide.domain.scheduler.locality import LocalityLevel
from podtide.domain.scheduler.rows import NOBODY, CachedRdd, DueKind, ExecutorSlots, Fetching, Stage, Standing, TaskSet
from podtide.domain.scheduler.task_ends import TaskEnds

_LCG: Final = 6364136223846793005
_STEP: Final = 1442695040888963407
_MASK: Final = 2**64 - 1

_FRESH: Final = 13


def _alone(now: Millis, work: Millis) -> WarmUp:  # noqa: ARG001 - others are in its way at some times
    """What a fresh executor adds, where nobody is in its way."""
    return WarmUp(SETTLED, work)


def _settled(now: Millis, number: int) -> Millis:  # noqa: ARG001 - the same
    """How long it still does, where that was settled when it began."""
    return 0


class Warming(NamedTuple):
    """A task that takes longer as long as its executor is fresh. ``body_ms``: what it takes after that."""

    number: int
    began_ms: Millis
    body_ms: Millis


class RerunTaskScheduler(TaskEnds):
    """Executors and tasks of a rerun. ``flips``: executors that fell idle or to work, kept for whoever wants to know (None:
    nobody does). ``lost``: by stage and partition, the executor (its key) that had computed output that is lost, and for how
    long. ``registered_cores``: CoarseGrainedSchedulerBackend.totalCoreCount.
    """

    def __init__(self, plan: Plan, behaviour: Behaviour, turnaround_ms: Millis, seed: int, ledger: Ledger) -> None:
        super().__init__(plan, turnaround_ms, tracking=plan.dynamic is not None and plan.dynamic.shuffle_tracking)
        self.plan = plan
        self.ledger = ledger
        self.registered_cores = 0
        self.flips: list[ExecutorSlots] | None = None
        self.lost: dict[tuple[Stage, int], tuple[int, Millis]] = {}
        self.slots_registered = 0
        self._names: set[ExecutorId] = set()
        self._idle_ms = NEVER if plan.dynamic is None else plan.dynamic.idle_timeout_ms
        self.is_open = False
        self._fresh = behaviour.fresh_ms
        self.parallel = behaviour.startup.parallel if behaviour.startup.machines == 1 else inf
        self.warm_up: Callable[[Millis, Millis], WarmUp] = _alone
        self.warms: Callable[[Millis, int], Millis] = _settled
        self.warming: dict[int, Warming] = {}  # by slot; of a task that is not there any more until another comes
        self._freshened = 0
        self._fresh_on: dict[int, int] = {}  # by executor of several slots: the number of its warm-up
        self._seed = seed
        self._fresh_luck = split(stream(seed), _FRESH)
        self._random = stream(seed) | 1
        self._cached: set[tuple[int, int]] = set()
        self.hosts: list[int] = []
        self._afoot: dict[TaskSet, None] = {}  # were given slots to wait for, and may still run tasks

    # executors

    def cores_of(self, profile: ProfileId) -> int:
        """The cores of an executor of a profile."""
        shapes = self.plan.shapes
        return shapes.get(profile, shapes[DEFAULT_PROFILE]).cores

    def join(self, executor: ExecutorId, profile: ProfileId, slots: int, at: Millis, *, key: int) -> ExecutorSlots:
        """An executor registered. Tasks come when it is ``ready``. ``key``: the ledger's."""
        known = self.add(executor, profile, slots, at, key=key)
        self.ledger.registered(key, at, slots)
        self.ledger.idle(key, at, self._timeout_at(at))
        self.registered_cores += self.cores_of(profile)
        self.slots_registered += slots
        self._names.add(executor)
        return known

    def ready(self, executor: ExecutorSlots, at: Millis) -> None:
        """The executor can be given tasks."""
        self.now = max(self.now, at)
        if self.is_open:
            self.ledger.ready(executor.key, self.now)
        self.into_free(executor)
        self.offer(at)

    def settle(self, executor: ExecutorSlots, at: Millis) -> None:
        """Say in the ledger what an executor's tasks came to, at its end or the application's."""
        if executor.standing is not Standing.GONE:
            executor.until = at
            for slot in range(executor.first, executor.first + executor.slots):
                if self.slot_end[slot] >= 0:
                    executor.work_ms += max(0, at - self.slot_began[slot])
        if executor.work_ms:
            self.ledger.worked(executor.key, executor.work_ms, executor.wasted_ms)

    def host_of(self, executor: int) -> int:
        """The host of an executor (its row): as those of the log share hosts, or each has its own."""
        return self.hosts[executor % len(self.hosts)] if self.hosts else executor

    def was(self, executor: ExecutorId) -> bool:
        """Whether an executor of this id ever registered."""
        return executor in self._names

    # offers

    def enqueue(self, attempt: TaskSet) -> None:
        """The task set is offered slots from now on, if tasks of it wait."""
        self._afoot[attempt] = None
        super().enqueue(attempt)

    def draw(self, below: int) -> int:
        """A number from 0 to below ``below``."""
        self._random = (self._random * _LCG + _STEP) & _MASK
        return (self._random >> 33) * below >> 31

    def offer(self, now: Millis) -> None:
        """makeOffers: all free slots, one for each executor and round, in an order drawn anew."""
        if self._barriers:
            self.offer_barriers(now)
        if self.preferring:
            self._offer_near(now)
            return
        for profile, free in self.free.items():
            while free:
                wanted = min(self._offered(profile), len(free))
                if not wanted:
                    break
                last, state = len(free) - 1, self._random
                for place in range(last, last - wanted, -1):  # draw, without the call
                    state = (state * _LCG + _STEP) & _MASK
                    other = (state >> 33) * (place + 1) >> 31
                    if other != place:
                        one, two = free[place], free[other]
                        free[place], free[other] = two, one
                        one.place, two.place = other, place
                self._random = state
                self._start_on(free[last - wanted + 1 :], profile, now)

    def _offer_near(self, now: Millis) -> None:
        """The same, where task sets turn executors away: each in its turn is offered all of them, level by level."""
        self.begin_offer()
        for profile, free in self.free.items():
            queues = [pool.queues.get(profile, ()) for pool in sorted(self.pools.values(), key=lambda pool: pool.turn)]
            for attempt in [one for queue in queues for one in queue if not one.barrier]:
                for level in (LocalityLevel.ANY,) if attempt.local is None else attempt.local.levels:
                    turn = self._shuffled(free)
                    while turn:
                        turn = [executor for executor in turn if self._start_near(attempt, executor, now, level)]
        self.end_offer(now, everybody=True)

    def _shuffled(self, free: Sequence[ExecutorSlots]) -> list[ExecutorSlots]:
        deck = list(free)
        for place in range(len(deck) - 1, 0, -1):
            other = self.draw(place + 1)
            deck[place], deck[other] = deck[other], deck[place]
        return deck

    def _start_near(self, attempt: TaskSet, executor: ExecutorSlots, now: Millis, level: LocalityLevel) -> bool:
        """One task on an executor, if the task set gives it one."""
        if not executor.free or not attempt.waiting:
            return False
        if attempt.local is not None and not attempt.local.has(executor.row, now, level):
            return False
        self.start(attempt, (executor,), now)
        return True

    def _start_on(self, executors: list[ExecutorSlots], profile: ProfileId, now: Millis) -> None:
        """One task on each, of whichever task set is next."""
        begun = 0
        while begun < len(executors):
            attempt = self.choose(profile, executors[begun], now)
            if attempt is None:
                return
            alone = self.only_pool is not None and not attempt.again
            some = executors[begun : begun + (attempt.waiting if alone else 1)]
            self.start(attempt, some, now)
            begun += len(some)

    def _offered(self, profile: ProfileId) -> int:
        """How many tasks of the profile are to be had."""
        return sum(
            one.waiting for pool in self.pools.values() for one in pool.queues.get(profile, ()) if not one.barrier
        )

    # how long a task takes

    def lasts(
        self, attempt: TaskSet, slot: int, index: int, part: int, executor: ExecutorSlots, began: Millis
    ) -> Millis:
        """As long as in the log, and what is in its way here."""
        if attempt.torn and (dead := self.lacks(attempt)) is not None:
            return self._fetch_in_vain(slot, executor, began, dead) - began
        fails = attempt.fails
        if fails and fails.get(index):
            executor.fresh = max(0, executor.fresh - 1)
            return fails[index][0]  # as logged, with all that it took
        body = attempt.bodies[part]
        if attempt.reads:
            body += self._computed_again(attempt, part)
        if executor.fresh:
            executor.fresh -= 1
            warm_up = self._fresh_ms(executor)
            if warm_up.number != SETTLED:
                self.warming[slot] = Warming(warm_up.number, began, body)
                self.agenda.later(began + max(0, warm_up.lasts_ms - 1), DueKind.WARM, attempt, slot)
            body += warm_up.lasts_ms
        elif attempt.opening_ms and attempt.opened.get(executor.row, 0) < executor.slots:
            body += self._opening_ms(attempt)
        if attempt.opening_ms:
            attempt.opened[executor.row] = attempt.opened.get(executor.row, 0) + 1
        return body

    def _opening_ms(self, attempt: TaskSet) -> Millis:
        """What the first task of a stage in a slot adds: on one machine the more, the more slots begin it at once."""
        row, alone = attempt.stage, self.parallel
        assert isinstance(row, RerunStage)
        if alone == inf:
            return attempt.opening_ms
        here = max(alone, min(self.slots_registered, attempt.total))
        return round(attempt.opening_ms * here / max(alone, row.recorded.opened))

    def _fetch_in_vain(self, slot: int, executor: ExecutorSlots, began: Millis, dead: frozenset[int]) -> Millis:
        """A task begins that will not get what it reads; returns when it gives up, as things are."""
        if executor.fresh:
            executor.fresh -= 1
            began += self._fresh_ms(executor).lasts_ms
        retries = self.rules.retries
        ends = began + (retries.fetches * retries.fetch_wait_ms if dead else 0)
        self.fetching[slot] = Fetching(began, ends, dead)
        return ends

    def _fresh_ms(self, executor: ExecutorSlots) -> WarmUp:
        """What the next first task on an executor takes longer."""
        samples = self._fresh
        if not samples:
            return WarmUp(SETTLED, 0)
        number = self._fresh_on.get(executor.row)
        if number is not None:  # the slots of an executor load its classes together
            return WarmUp(number, self.warms(self.now, number))
        self._freshened += 1
        work = sampled(samples, self._freshened - 1, self._fresh_luck, self._seed)
        warm_up = self.warm_up(self.now, work)
        if warm_up.number != SETTLED and executor.fresh:
            self._fresh_on[executor.row] = warm_up.number
        return warm_up

    # cached partitions

    def _computed_again(self, attempt: TaskSet, part: int) -> Millis:
        """What it takes to compute the cached partitions that the task reads and that nobody holds any more."""
        return sum(max(0, one.source.bodies[part]) for one in attempt.reads if not self.is_held(one, part))

    def is_held(self, cached: CachedRdd, part: int) -> bool:
        """Whether an executor that is there holds a partition; of a stage that was cut anew it is taken to be so."""
        if part >= len(cached.holder):
            return True
        holder = cached.holder[part]
        return holder != NOBODY and self.executors[holder].standing is not Standing.GONE

    def holds_all(self, row: Stage) -> bool:
        """Whether somebody holds each cached partition that a stage reads."""
        return all(self.is_held(one, part) for one in row.reads for part in range(len(one.holder)))

    def _store(self, run: TaskSet, executor: ExecutorSlots, part: int, at: Millis) -> None:
        """A task cached its partitions where it ran, those that nobody held.

        It is said once for each executor and RDD, which is all that matters to the listeners.
        """
        for cached in (*run.stores, *run.reads):
            if self.is_held(cached, part):
                continue
            cached.holder[part] = executor.row
            if (executor.row, cached.rdd) not in self._cached:
                self._cached.add((executor.row, cached.rdd))
                block = stimuli.RddBlock(cached.rdd, executor.row)
                self.say(stimuli.BlockUpdated(at, executor.id, block, True, False))

    # the books

    def works(self, executor: ExecutorSlots, at: Millis) -> None:
        """An executor has its first task."""
        self.busy += 1
        self.ledger.busy(executor.key, at)
        if self.busy == 1:
            self.note_phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def rests(self, executor: ExecutorSlots, at: Millis) -> None:
        """An executor has no task any more."""
        self.busy -= 1
        self.ledger.idle(executor.key, at, self._timeout_at(at))
        if not self.busy:
            self.note_phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def _timeout_at(self, at: Millis) -> Millis:
        return NEVER if self._idle_ms >= NEVER - at else at + self._idle_ms

    def note_phase(self, at: Millis) -> None:
        """Tell the ledger whether tasks run or wait."""
        running, waiting = sum(self.running.values()), sum(self.waiting.values())
        alone = self._alone() if running and not waiting else SpendCause.LAST_TASK
        self.ledger.phase(max(at, self.now), running, waiting, alone)

    def _alone(self) -> SpendCause:
        """What an executor without a task waits for, where tasks run and none waits."""
        found = SpendCause.SERIAL
        for one in list(self._afoot):
            row = one.stage
            assert isinstance(row, RerunStage)
            if not one.running:
                del self._afoot[one]
            elif row.skewed:
                return SpendCause.LAST_TASK
            elif row.tasks > 1:
                found = SpendCause.FEW_TASKS
        return found

    def note_lost(self, row: Stage, part: int, executor: ExecutorSlots) -> None:
        """What it took to compute it has come to nothing once it is computed again."""
        self.lost[row, part] = executor.key, max(0, row.bodies[part])
