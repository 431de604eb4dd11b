"""The slots of a rerun: a small TaskSchedulerImpl that offers what executors have free to the task sets that wait.

An executor with a free slot is offered tasks of its own resource profile: of the pool that has the least of what it is owed
(FAIR; FIFO is a single pool), within a pool of the oldest job's lowest stage, lowest task first. When tasks come or
executors do, all free slots are offered, one for each executor and round, in an order drawn by the seed. The first tasks
on an executor, one for each slot, take longer (``behaviour.fresh_ms``). A barrier stage starts when it has room for all of
its tasks at once.

What the listeners are to hear is kept in order. Starts and ends of plain tasks are not said one by one: they are summed up
(``TasksMoved``) until something else is said.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from heapq import heappush
from operator import attrgetter
from typing import Final

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import (
    MOVED_MAX,
    ExecutorTurn,
    ListenerEvent,
    Move,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
)
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import (
    NOBODY,
    Agenda,
    CachedRdd,
    Fetching,
    Pool,
    RerunExecutor,
    RerunKind,
    RerunStage,
    Standing,
    TaskSet,
)

SHIFT: Final = 24
"""A task's end in the heap is one number: its time, and in the lowest bits its slot."""

SLOT: Final = (1 << SHIFT) - 1
SLOTS_MAX: Final = 1 << SHIFT
"""Slots of all executors that ever were."""

_LCG: Final = 6364136223846793005
_STEP: Final = 1442695040888963407
_MASK: Final = 2**64 - 1

_KEY = attrgetter("key")


def _alone(now: Millis, work: Millis) -> Millis:  # noqa: ARG001 - others are in its way at some times
    """What a fresh executor adds, where nobody is in its way."""
    return work


def _finds_all(_: TaskSet) -> frozenset[int] | None:
    """What a task lacks of what it reads, where nothing is ever lost."""
    return None


class TaskScheduler:
    """Executors, their slots, and the task sets that wait for them. ``news``: what listeners hear, not taken yet.

    ``waiting`` and ``running``: tasks by profile; ``busy``: executors with a task. ``flips``: executors that fell idle or
    to work, kept for whoever wants to know (None: nobody does). ``fetching``: by slot, tasks that will not get what they
    read; ``lost``: by stage and partition, the executor (its key) that had computed output that is lost, and for how long.
    ``lacks``: the dead executors whose output the next task of a task set would ask for in vain; none where output of
    executors that are known to be gone is missing; None where nothing is.
    """

    def __init__(
        self, plan: Plan, behaviour: Behaviour, turnaround_ms: Millis, seed: int, ledger: Ledger, agenda: Agenda
    ) -> None:
        self.plan = plan
        self.ledger = ledger
        self.agenda = agenda
        self.now: Millis = 0
        self.news: list[ListenerEvent] = []
        self.executors: list[RerunExecutor] = []
        self.by_id: dict[ExecutorId, RerunExecutor] = {}
        self.registered_cores = 0  # CoarseGrainedSchedulerBackend.totalCoreCount
        self.waiting: dict[ProfileId, int] = {}
        self.running: dict[ProfileId, int] = {}
        self.tasks_run = 0
        self.tasks_again = 0
        self.busy = 0
        self.flips: list[RerunExecutor] | None = None
        self._names: set[ExecutorId] = set()
        self._idle_ms = NEVER if plan.dynamic is None else plan.dynamic.idle_timeout_ms
        self.is_open = plan.registered_ratio <= 0
        self.turnaround = turnaround_ms
        self._fresh = behaviour.fresh_ms
        self.warm_up: Callable[[Millis, Millis], Millis] = _alone
        self._freshened = 0
        self._seed = seed
        self._random = stream(seed) | 1
        self.heap: list[int] = []
        self.slot_end: list[int] = []
        self.slot_began: list[Millis] = []
        self.slot_index: list[int] = []
        self.slot_run: list[TaskSet | None] = []
        self.slot_executor: list[RerunExecutor] = []
        self.free: dict[ProfileId, list[RerunExecutor]] = {}
        self.moved: list[TaskSet] = []
        self.turned: list[RerunExecutor] = []
        self.fetching: dict[int, Fetching] = {}
        self.lost: dict[tuple[int, int], tuple[int, Millis]] = {}
        self.lacks: Callable[[TaskSet], frozenset[int] | None] = _finds_all
        self.outputs: list[tuple[ExecutorId, int]] = []
        self._tracking = plan.dynamic is not None and plan.dynamic.shuffle_tracking
        self.pools: dict[str, Pool] = {}
        self._barriers = 0
        self._afoot: dict[TaskSet, None] = {}  # were given slots to wait for, and may still run tasks

    def open(self, now: Millis) -> None:
        """Enough executors are registered: tasks may start."""
        if not self.is_open:
            self.is_open = True
            self.now = max(self.now, now)
            for executor in self.executors:
                if executor.place >= 0:  # up already: until now nothing could be given to it
                    self.ledger.ready(executor.key, self.now)
            self.offer(now)

    # executors

    def cores_of(self, profile: ProfileId) -> int:
        """The cores of an executor of a profile."""
        shapes = self.plan.shapes
        return shapes.get(profile, shapes[DEFAULT_PROFILE]).cores

    def join(self, row: int, executor: ExecutorId, profile: ProfileId, slots: int, at: Millis, *, key: int) -> None:
        """An executor registered. Tasks come when it is ``ready``. ``row``: its number, ascending; ``key``: the ledger's."""
        assert row == len(self.executors)
        first = len(self.slot_end)
        if first + slots > SLOTS_MAX:
            raise OverflowError("more slots than a simulation has room for")
        self.ledger.registered(key, at, slots)
        self.ledger.idle(key, at, self._timeout_at(at))
        known = RerunExecutor(row, key, executor, profile, first, slots, at)
        self.executors.append(known)
        self.by_id[executor] = known
        self.registered_cores += self.cores_of(profile)
        self._names.add(executor)
        self.slot_end.extend([-1] * slots)
        self.slot_began.extend([0] * slots)
        self.slot_index.extend([0] * slots)
        self.slot_run.extend([None] * slots)
        self.slot_executor.extend([known] * slots)

    def ready(self, executor: RerunExecutor, at: Millis) -> None:
        """The executor can be given tasks."""
        self.now = max(self.now, at)
        if self.is_open:
            self.ledger.ready(executor.key, self.now)
        self._into_free(executor)
        self.offer(at)

    def stop_offering(self, executor: RerunExecutor) -> None:
        """It is offered nothing any more."""
        if executor.standing is Standing.ACTIVE:
            executor.standing = Standing.LEAVING
            self.out_of_free(executor)

    def settle(self, executor: RerunExecutor, at: Millis) -> None:
        """Say in the ledger what an executor's tasks came to, at its end or the application's."""
        if executor.standing is not Standing.GONE:
            executor.until = at
            for slot in range(executor.first, executor.first + executor.slots):
                if self.slot_end[slot] >= 0:
                    executor.work_ms += max(0, at - self.slot_began[slot])
        if executor.work_ms:
            self.ledger.worked(executor.key, executor.work_ms, executor.wasted_ms)

    def was(self, executor: ExecutorId) -> bool:
        """Whether an executor of this id ever registered."""
        return executor in self._names

    # task sets and slots

    def enqueue(self, attempt: TaskSet) -> None:
        """The task set is offered slots from now on, if tasks of it wait."""
        if attempt.waiting and not attempt.queued:
            attempt.queued = True
            self._afoot[attempt] = None
            insort(attempt.pool.queues.setdefault(attempt.profile, []), attempt, key=_KEY)
            self._barriers += attempt.barrier

    def unqueue(self, attempt: TaskSet) -> None:
        """The task set is offered no slots any more."""
        if attempt.queued:
            attempt.queued = False
            attempt.pool.queues[attempt.profile].remove(attempt)
            self._barriers -= attempt.barrier

    def choose(self, profile: ProfileId) -> TaskSet | None:
        """The task set that is next to be offered a slot of the profile; barrier stages wait for room of their own."""
        only = self.only_pool
        if only is not None and not self._barriers:
            queue = only.queues.get(profile)
            return queue[0] if queue else None
        best: TaskSet | None = None
        first: tuple[bool, float, str] | None = None
        for pool in self.pools.values():
            queue = pool.queues.get(profile)
            if queue and (first is None or pool.turn < first):
                found = pool.next_of(queue)
                if found is not None:
                    best, first = found, pool.turn
        return best

    @property
    def only_pool(self) -> Pool | None:
        """The pool, if there is one alone and it is first in first out."""
        if len(self.pools) != 1:
            return None
        (pool,) = self.pools.values()
        return None if pool.share.fair else pool

    def draw(self, below: int) -> int:
        """A number from 0 to below ``below``."""
        self._random = (self._random * _LCG + _STEP) & _MASK
        return (self._random >> 33) * below >> 31

    def offer(self, now: Millis) -> None:
        """makeOffers: all free slots, one for each executor and round, in an order drawn anew."""
        if not self.is_open:
            return
        if self._barriers:
            self._offer_barriers(now)
        for profile, free in self.free.items():
            while free:
                wanted = min(self._offered(profile), len(free))
                if not wanted:
                    break
                last, state = len(free) - 1, self._random
                for place in range(last, last - wanted, -1):  # _draw and _swap, without the calls
                    state = (state * _LCG + _STEP) & _MASK
                    other = (state >> 33) * (place + 1) >> 31
                    if other != place:
                        one, two = free[place], free[other]
                        free[place], free[other] = two, one
                        one.place, two.place = other, place
                self._random = state
                self._start_on(free[last - wanted + 1 :], profile, now)

    def _start_on(self, executors: list[RerunExecutor], profile: ProfileId, now: Millis) -> None:
        """One task on each, of whichever task set is next."""
        begun = 0
        while begun < len(executors):
            attempt = self.choose(profile)
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

    def _offer_barriers(self, now: Millis) -> None:
        waiting = [
            one for pool in self.pools.values() for queue in pool.queues.values() for one in queue if one.barrier
        ]
        for attempt in sorted(waiting, key=_KEY):
            free = self.free.get(attempt.profile, [])
            if sum(len(executor.free) for executor in free) >= attempt.waiting:
                while attempt.waiting:
                    for executor in tuple(free):
                        if attempt.waiting and executor.free:
                            self.start(attempt, (executor,), now)

    @staticmethod
    def _swap(free: list[RerunExecutor], a: int, b: int) -> None:
        one, other = free[a], free[b]
        free[a], free[b] = other, one
        one.place, other.place = b, a

    def start(self, attempt: TaskSet, executors: Sequence[RerunExecutor], began: Millis) -> None:
        """The next tasks of a task set begin, one in a free slot of each executor. There are as many: those that wait once
        more, which are given one at a time, or those that never started.

        ``tasks.Tasks.advance`` has the same inlined, for a slot that goes on with the next task (benchmarks/test_rerun.py).
        """
        slot_end, slot_began, slot_index, slot_run = self.slot_end, self.slot_began, self.slot_index, self.slot_run
        heap, turned, fails, copies = self.heap, self.turned, attempt.fails, attempt.copies
        again = bool(attempt.again)
        if not again and attempt.first_unsent == attempt.next and not attempt.ended:
            self.moved.append(attempt)
        for executor in executors:
            slot = executor.free.pop()
            if not executor.free:
                self.out_of_free(executor)
            if again:
                index = attempt.again.pop()
            else:
                index = attempt.next if not attempt.elsewhere else self._next_of(attempt)
                attempt.next = index + 1
            part = index if attempt.parts is None else attempt.parts[index]
            if attempt.torn and (dead := self.lacks(attempt)) is not None:
                body = self._fetch_in_vain(slot, executor, began, dead) - began
            elif fails and fails.get(index):
                body = fails[index][0]  # as logged, with all that it took
                executor.fresh = max(0, executor.fresh - 1)
            else:
                body = attempt.bodies[part]
                if attempt.reads:
                    body += self._computed_again(attempt, part)
                if executor.fresh:
                    executor.fresh -= 1
                    body += self._fresh_ms()
            end = (began + (body if body > 0 else 0)) << SHIFT | slot
            heappush(heap, end)
            slot_end[slot] = end
            slot_began[slot] = began
            slot_index[slot] = index
            slot_run[slot] = attempt
            executor.running += 1
            if executor.running == 1:
                self.works(executor, self.now)
            if again:
                self.say(TaskStart(self.now, attempt.key[1], attempt.number, index, executor.id))
            else:
                if not executor.turned:
                    executor.turned = True
                    turned.append(executor)
                executor.change += 1
            if copies and index in copies:
                self.agenda.later(began + copies.pop(index), RerunKind.COPY, attempt, index)
        count = len(executors)
        attempt.running += count
        attempt.pool.running += count
        self.waiting[attempt.profile] -= count
        self.running[attempt.profile] += count
        if not attempt.again and attempt.next + len(attempt.elsewhere) == attempt.total:
            self.unqueue(attempt)
            self.note_phase(self.now)

    def _next_of(self, attempt: TaskSet) -> int:
        """The next task that nobody computed elsewhere. Those before it never start, so what is summed up ends there."""
        index = attempt.next
        while index in attempt.elsewhere:
            attempt.elsewhere.discard(index)
            index += 1
        if index != attempt.next:
            self.tell_moves(self.now)
            attempt.next = attempt.first_unsent = index
            self.moved.append(attempt)
        return index

    def _fetch_in_vain(self, slot: int, executor: RerunExecutor, began: Millis, dead: frozenset[int]) -> Millis:
        """A task begins that will not get what it reads; returns when it gives up, as things are.

        It asks as soon as it runs. If the driver knows that the output is gone, that is all; else it asks again and again
        (RetryingBlockTransferor), until the driver knows it or its patience is at an end.
        """
        if executor.fresh:
            executor.fresh -= 1
            began += self._fresh_ms()
        retries = self.plan.retries
        ends = began + (retries.fetches * retries.fetch_wait_ms if dead else 0)
        self.fetching[slot] = Fetching(began, ends, dead)
        return ends

    def give_back(self, run: TaskSet, index: int) -> None:
        """A task waits once more. What it does is said one by one, as of every task that needs a second look."""
        if run.special is None or index not in run.special:
            run.simple = False
        run.again.append(index)
        self.waiting[run.profile] += 1
        self.enqueue(run)

    def computed_elsewhere(self, run: TaskSet, part: int) -> None:
        """TaskSetManager.markPartitionCompleted: an earlier attempt computed a partition; no task begins for it here."""
        index = run.index(part)
        if index in run.again:
            run.again.remove(index)
        elif index >= run.next and index not in run.elsewhere:
            run.elsewhere.add(index)
        else:
            return
        self.waiting[run.profile] -= 1
        if not run.waiting:
            self.unqueue(run)

    def repeat(self, run: TaskSet, part: int, executor: RerunExecutor, at: Millis) -> None:
        """Resubmitted: a task of a running map stage that had ended is needed again."""
        index = run.index(part)
        if index < 0 or index in run.elsewhere or index in run.again:
            return
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, False, TaskOutcome.FAILED))
        self.tasks_again += 1
        self.give_back(run, index)

    def kill(self, row: RerunStage, at: Millis) -> None:
        """killAllTaskAttempts: whatever runs of a stage ends."""
        for slot, run in enumerate(self.slot_run):
            if run is not None and run.stage is row and self.slot_end[slot] >= 0:
                self.kill_task(slot, at, copying=self.copy_ends(slot))

    def kill_task(self, slot: int, at: Millis, *, copying: bool) -> None:
        """A task is killed; nobody is offered its slot yet."""
        run, executor, index = self.ends_in_vain(slot, at), self.slot_executor[slot], self.slot_index[slot]
        self.leave_slot(slot, executor, at, goes_on=True, in_sum=False)
        self.fetching.pop(slot, None)
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, copying, TaskOutcome.KILLED))

    def ends_in_vain(self, slot: int, at: Millis) -> TaskSet:
        """What a task has done so far came to nothing, and it runs no more; returns its task set. Its slot is as it was."""
        run, executor = self.slot_run[slot], self.slot_executor[slot]
        assert run is not None
        spent = max(0, at - self.slot_began[slot])  # it may have been about to begin again
        executor.work_ms += spent
        executor.wasted_ms += spent
        run.running -= 1
        run.pool.running -= 1
        self.running[run.profile] -= 1
        return run

    def copy_ends(self, slot: int) -> bool:
        """Whether the task of a slot is a speculative copy; it is none any more."""
        run, index = self.slot_run[slot], self.slot_index[slot]
        assert run is not None
        copying = run.copying.get(index) == slot
        if copying:
            del run.copying[index]
        return copying

    def _computed_again(self, attempt: TaskSet, part: int) -> Millis:
        """What it takes to compute the cached partitions that the task reads and that nobody holds any more."""
        return sum(max(0, one.source.recorded.body_ms[part]) for one in attempt.reads if not self.is_held(one, part))

    def is_held(self, cached: CachedRdd, part: int) -> bool:
        """Whether an executor that is there holds a partition; of a stage that was cut anew it is taken to be so."""
        if part >= len(cached.holder):
            return True
        holder = cached.holder[part]
        return holder != NOBODY and self.executors[holder].standing is not Standing.GONE

    def holds_all(self, row: RerunStage) -> bool:
        """Whether somebody holds each cached partition that a stage reads."""
        return all(self.is_held(one, part) for one in row.reads for part in range(len(one.holder)))

    def _fresh_ms(self) -> Millis:
        """What the next first task on an executor takes longer: the samples in order, or drawn where the seed is not 0."""
        samples = self._fresh
        if not samples:
            return 0
        self._freshened += 1
        work = samples[self.draw(len(samples)) if self._seed else (self._freshened - 1) % len(samples)]
        return self.warm_up(self.now, work)

    def works(self, executor: RerunExecutor, at: Millis) -> None:
        """An executor has its first task."""
        self.busy += 1
        self.ledger.busy(executor.key, at)
        if self.busy == 1:
            self.note_phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def rests(self, executor: RerunExecutor, at: Millis) -> None:
        """An executor has no task any more."""
        self.busy -= 1
        self.ledger.idle(executor.key, at, self._timeout_at(at))
        if not self.busy:
            self.note_phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def out_of_free(self, executor: RerunExecutor) -> None:
        """The executor is not among those with a free slot any more."""
        if executor.place >= 0:
            free = self.free[executor.profile]
            self._swap(free, executor.place, len(free) - 1)
            free.pop()
            executor.place = NOBODY

    def _into_free(self, executor: RerunExecutor) -> None:
        if executor.place < 0 and executor.standing is Standing.ACTIVE and executor.free:
            free = self.free.setdefault(executor.profile, [])
            executor.place = len(free)
            free.append(executor)

    def leave_slot(
        self, slot: int, executor: RerunExecutor, at: Millis, *, goes_on: bool = False, in_sum: bool = True
    ) -> None:
        """A slot is empty. ``in_sum``: the end that emptied it is told in sum; ``goes_on``: it is filled again at once."""
        self.slot_end[slot] = -1
        self.slot_run[slot] = None
        executor.free.append(slot)
        executor.running -= 1
        executor.ended = at
        executor.fresh = 0
        if in_sum:
            executor.change -= 1
            if not executor.turned:
                executor.turned = True
                self.turned.append(executor)
        if not executor.running:
            self.rests(executor, at)
        if executor.place < 0 and executor.standing is Standing.ACTIVE:
            self._into_free(executor)
        if self._barriers and not goes_on:
            self.offer(at)

    def offer_one(self, executor: RerunExecutor, at: Millis) -> None:
        """makeOffers(executor): its free slots alone."""
        if executor.standing is Standing.ACTIVE and self.is_open:
            while executor.free:
                attempt = self.choose(executor.profile)
                if attempt is None:
                    break
                self.start(attempt, (executor,), at + self.turnaround)

    # what is said

    def say(self, event: ListenerEvent) -> None:
        """Tell the listeners, after all that happened before."""
        if self.moved or self.turned or self.outputs:
            self.tell_moves(self.now)
        self.news.append(event)

    def tell_moves(self, at: Millis) -> None:
        """Sum up the starts and ends of plain tasks for the listeners."""
        moves = []
        for run in self.moved:
            if run.first_unsent != run.next or run.ended:
                while run.next - run.first_unsent > MOVED_MAX or run.ended > MOVED_MAX:
                    some, ended = min(run.next, run.first_unsent + MOVED_MAX), min(run.ended, MOVED_MAX)
                    moves.append(Move(run.key[1], run.number, run.first_unsent, some, ended))
                    run.first_unsent, run.ended = some, run.ended - ended
                moves.append(Move(run.key[1], run.number, run.first_unsent, run.next, run.ended))
                run.first_unsent, run.ended = run.next, 0
        turns = []
        for executor in self.turned:
            executor.turned = False
            if executor.change or not executor.running:
                turns.append(ExecutorTurn(executor.id, executor.change, executor.ended))
                executor.change = 0
        outputs = tuple(self.outputs) if self._tracking else ()
        self.moved.clear()
        self.turned.clear()
        self.outputs.clear()
        if moves or turns or outputs:
            self.news.append(TasksMoved(at, tuple(moves), tuple(turns), outputs))

    def hear(self) -> list[ListenerEvent]:
        """What the listeners heard since the last time."""
        if self.moved or self.turned or self.outputs:
            self.tell_moves(self.now)
        news, self.news = self.news, []
        return news

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
            if not one.running:
                del self._afoot[one]
            elif one.stage.skewed:
                return SpendCause.LAST_TASK
            elif one.stage.recorded.tasks > 1:
                found = SpendCause.FEW_TASKS
        return found
