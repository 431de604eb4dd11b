"""TaskSchedulerImpl: executors with slots, pools of task sets that wait for them, and tasks as they begin and stop.

An executor with a free slot is offered tasks of its own resource profile: of the pool that has the least of what it is owed
(FAIR; FIFO is a single pool), within a pool of the oldest job's lowest stage. What waits again goes before what never
started, the latest first; else the lowest task. A barrier stage starts when it has room for all of its tasks at once.

Task sets whose tasks prefer executors (``scheduler.locality``) may turn an executor away, and it is offered to the next
ones; all are offered again when they have waited (ReviveOffers, every second).

A subclass says how long a task takes (``lasts``), in which order executors are offered tasks (``offer``), and what it
keeps books of (``works``, ``rests``, ``note_phase``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome, TaskStart
from podtide.domain.scheduler.listener_news import ListenerNews
from podtide.domain.scheduler.locality import PendingTasks
from podtide.domain.scheduler.rows import (
    NOBODY,
    NOT_KNOWN,
    Agenda,
    DueKind,
    ExecutorSlots,
    Fetching,
    Pool,
    Stage,
    Standing,
    TaskSet,
)
from podtide.domain.scheduler.rules import SchedulerRules

SHIFT: Final = 24
"""A task's end in the heap is one number: its time, and in the lowest bits its slot."""

SLOT: Final = (1 << SHIFT) - 1
REVIVE_MS: Final = 1_000
"""CoarseGrainedSchedulerBackend offers all executors so often (spark.scheduler.revive.interval)."""
SLOTS_MAX: Final = 1 << SHIFT
"""Slots of all executors that ever were."""

_KEY = attrgetter("key")


def _finds_all(_: TaskSet) -> frozenset[int] | None:
    """What a task lacks of what it reads, where nothing is ever lost."""
    return None


class TaskScheduler(ListenerNews, ABC):
    """Executors, their slots, and the task sets that wait for them.

    ``waiting`` and ``running``: tasks by profile; ``busy``: executors with a task. ``fetching``: by slot, tasks that will
    not get what they read. ``lacks``: the dead executors whose output the next task of a task set would ask for in vain;
    none where output of executors that are known to be gone is missing; None where nothing is. ``turnaround``: how long
    after a task's end the next one begins in its slot.
    """

    def __init__(self, rules: SchedulerRules, turnaround_ms: Millis, *, tracking: bool) -> None:
        super().__init__(tracking=tracking)
        self.rules = rules
        self.turnaround = turnaround_ms
        self.agenda = Agenda()
        self.executors: list[ExecutorSlots] = []
        self.by_id: dict[ExecutorId, ExecutorSlots] = {}
        self.waiting: dict[ProfileId, int] = {}
        self.running: dict[ProfileId, int] = {}
        self.tasks_run = 0
        self.tasks_again = 0
        self.busy = 0
        self.heap: list[int] = []
        self.slot_end: list[int] = []
        self.slot_began: list[Millis] = []
        self.slot_index: list[int] = []
        self.slot_run: list[TaskSet | None] = []
        self.slot_executor: list[ExecutorSlots] = []
        self.free: dict[ProfileId, list[ExecutorSlots]] = {}
        self.fetching: dict[int, Fetching] = {}
        self.lacks: Callable[[TaskSet], frozenset[int] | None] = _finds_all
        self.pools: dict[str, Pool] = {}
        self._barriers = 0
        self.preferring: dict[TaskSet, PendingTasks] = {}
        self._revives_at: Millis = NEVER

    # what a subclass says

    @abstractmethod
    def offer(self, now: Millis) -> None:
        """makeOffers: free slots are offered to the task sets that wait."""

    @abstractmethod
    def lasts(
        self, attempt: TaskSet, slot: int, index: int, part: int, executor: ExecutorSlots, began: Millis
    ) -> Millis:
        """How long the next task takes that begins in a slot, where its body alone does not say so."""

    def works(self, executor: ExecutorSlots, at: Millis) -> None:  # noqa: ARG002 - whoever keeps books wants to know
        """An executor has its first task."""
        self.busy += 1

    def rests(self, executor: ExecutorSlots, at: Millis) -> None:  # noqa: ARG002 - the same
        """An executor has no task any more."""
        self.busy -= 1

    def note_phase(self, at: Millis) -> None:
        """Whether tasks run or wait may have changed."""

    def note_lost(self, row: Stage, part: int, executor: ExecutorSlots) -> None:
        """Map output that an executor had computed is lost."""

    # executors

    def add(self, executor: ExecutorId, profile: ProfileId, slots: int, at: Millis, *, key: int) -> ExecutorSlots:
        """An executor registered. It is offered tasks as soon as it is among the free."""
        first = len(self.slot_end)
        if first + slots > SLOTS_MAX:
            raise OverflowError("more slots than a simulation has room for")
        known = ExecutorSlots(len(self.executors), key, executor, profile, first, slots, at)
        self.executors.append(known)
        self.by_id[executor] = known
        self.slot_end.extend([-1] * slots)
        self.slot_began.extend([0] * slots)
        self.slot_index.extend([0] * slots)
        self.slot_run.extend([None] * slots)
        self.slot_executor.extend([known] * slots)
        return known

    def stop_offering(self, executor: ExecutorSlots) -> None:
        """It is offered nothing any more."""
        if executor.standing is Standing.ACTIVE:
            executor.standing = Standing.LEAVING
            self.out_of_free(executor)

    def out_of_free(self, executor: ExecutorSlots) -> None:
        """The executor is not among those with a free slot any more."""
        if executor.place >= 0:
            free = self.free[executor.profile]
            last = free.pop()
            if last is not executor:
                free[executor.place], last.place = last, executor.place
            executor.place = NOBODY

    def into_free(self, executor: ExecutorSlots) -> None:
        """The executor is among those with a free slot, if it has one."""
        if executor.place < 0 and executor.standing is Standing.ACTIVE and executor.free:
            free = self.free.setdefault(executor.profile, [])
            executor.place = len(free)
            free.append(executor)

    # task sets

    def enqueue(self, attempt: TaskSet) -> None:
        """The task set is offered slots from now on, if tasks of it wait."""
        if attempt.waiting and not attempt.queued:
            attempt.queued = True
            insort(attempt.pool.queues.setdefault(attempt.profile, []), attempt, key=_KEY)
            self._barriers += attempt.barrier
            if attempt.local is not None:
                self.preferring[attempt] = attempt.local

    def unqueue(self, attempt: TaskSet) -> None:
        """The task set is offered no slots any more."""
        if attempt.queued:
            attempt.queued = False
            attempt.opened = {}
            attempt.pool.queues[attempt.profile].remove(attempt)
            self._barriers -= attempt.barrier
            self.preferring.pop(attempt, None)

    def choose(self, profile: ProfileId, executor: ExecutorSlots, at: Millis) -> TaskSet | None:
        """The task set that is next to be given a slot of an executor; barrier stages wait for room of their own."""
        if self.preferring:
            return self._choose_near(profile, executor.row, at)
        only = self.only_pool
        if only is not None and not self._barriers:
            queue = only.queues.get(profile)
            return queue[0] if queue else None
        if len(self.pools) == 1:
            (pool,) = self.pools.values()
            queue = pool.queues.get(profile)
            return pool.next_of(queue) if queue else None
        best: TaskSet | None = None
        first: tuple[bool, float, str] | None = None
        for pool in self.pools.values():
            queue = pool.queues.get(profile)
            if queue and (first is None or pool.turn < first):
                found = pool.next_of(queue)
                if found is not None:
                    best, first = found, pool.turn
        return best

    def _choose_near(self, profile: ProfileId, executor: int, at: Millis) -> TaskSet | None:
        """The same, where some turn executors away."""
        if (only := self.only_pool) is not None:
            for one in only.queues.get(profile, ()):
                if not one.barrier and (one.local is None or one.local.has(executor, at)):
                    return one
            return None
        for pool in sorted(self.pools.values(), key=lambda pool: pool.turn):
            queue = pool.queues.get(profile, [])
            found = pool.next_of([one for one in queue if one.local is None or one.local.has(executor, at)])
            if found is not None:
                return found
        return None

    def begin_offer(self) -> None:
        """One executor is offered, or all of them."""
        for pending in self.preferring.values():
            pending.begin_offer()

    def end_offer(self, at: Millis, *, everybody: bool) -> None:
        """Those that turned somebody away are asked again when they have waited."""
        again = NEVER
        for pending in self.preferring.values():
            pending.end_offer(at, everybody=everybody)
            again = min(again, pending.looks_again_at)
        if again != NEVER:
            again = max(at + 1, again)
            again += -again % REVIVE_MS
            if again < self._revives_at:
                self._revives_at = again
                self.agenda.later(again, DueKind.REVIVE, None)

    def revive(self, at: Millis) -> None:
        """ReviveOffers: all executors are offered again."""
        if at >= self._revives_at:
            self._revives_at = NEVER
            self.offer(at)

    @property
    def only_pool(self) -> Pool | None:
        """The pool, if there is one alone and it is first in first out."""
        if len(self.pools) != 1:
            return None
        (pool,) = self.pools.values()
        return None if pool.share.fair else pool

    def offer_barriers(self, now: Millis) -> None:
        """Start the barrier stages that there is room for."""
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

    def give_back(self, run: TaskSet, index: int) -> None:
        """A task waits once more. What it does is said one by one, as of every task that needs a second look."""
        if run.special is None or index not in run.special:
            run.simple = False
        if run.local is not None:
            run.local.append(index)
        else:
            run.again.append(index)
        self.waiting[run.profile] += 1
        self.enqueue(run)

    def computed_elsewhere(self, run: TaskSet, part: int) -> None:
        """TaskSetManager.markPartitionCompleted: an earlier attempt computed a partition; no task begins for it here."""
        index = run.index(part)
        if run.local is not None:
            if index not in run.local:
                return
            run.local.remove(index)
        elif index in run.again:
            run.again.remove(index)
        elif index >= run.next and index not in run.elsewhere:
            run.elsewhere.add(index)
        else:
            return
        self.waiting[run.profile] -= 1
        if not run.waiting:
            self.unqueue(run)

    def under_way(self, run: TaskSet) -> set[int]:
        """The tasks of a task set that run."""
        return {
            self.slot_index[slot] for slot, one in enumerate(self.slot_run) if one is run and self.slot_end[slot] >= 0
        }

    def repeat(self, run: TaskSet, part: int, executor: ExecutorSlots, at: Millis) -> None:
        """Resubmitted: a task of a running map stage that had ended is needed again."""
        index = run.index(part)
        if index < 0 or index in run.elsewhere or index in (run.again if run.local is None else run.local):
            return
        self.say(TaskEnd(at, run.key[1], run.number, run.told(index), executor.id, False, TaskOutcome.FAILED))
        self.tasks_again += 1
        self.give_back(run, index)

    # tasks in slots

    def start(self, attempt: TaskSet, executors: Sequence[ExecutorSlots], began: Millis) -> None:
        """The next tasks of a task set begin, one in a free slot of each executor. There are as many: those that wait once
        more, which are given one at a time, or those that never started.

        ``rerun.tasks.Tasks`` has the same inlined, for a slot that goes on with the next task (benchmarks/test_rerun.py).
        """
        slot_end, slot_began, slot_index, slot_run = self.slot_end, self.slot_began, self.slot_index, self.slot_run
        heap, turned, copies = self.heap, self.turned, attempt.copies
        again = bool(attempt.again)
        alone = again or self.each
        bodies = NOT_KNOWN if attempt.torn or attempt.fails or attempt.reads or attempt.opening_ms else attempt.bodies
        if not alone and attempt.first_unsent == attempt.next and not attempt.ended:
            self.moved.append(attempt)
        for executor in executors:
            slot = executor.free.pop()
            if not executor.free:
                self.out_of_free(executor)
            if attempt.local is not None:
                began_before = len(attempt.local.places)
                index = attempt.local.take(executor.row, self.now)
                attempt.next = len(attempt.local.places)
                alone = self.each or attempt.next == began_before
            elif again:
                index = attempt.again.pop()
            else:
                index = attempt.next if not attempt.elsewhere else self._next_of(attempt)
                attempt.next = index + 1
            part = index if attempt.parts is None else attempt.parts[index]
            plain = bodies and not executor.fresh
            body = bodies[part] if plain else self.lasts(attempt, slot, index, part, executor, began)
            end = (began + (body if body > 0 else 0)) << SHIFT | slot
            heappush(heap, end)
            slot_end[slot] = end
            slot_began[slot] = began
            slot_index[slot] = index
            slot_run[slot] = attempt
            executor.running += 1
            if executor.running == 1:
                self.works(executor, self.now)
            if alone:
                self.say(TaskStart(self.now, attempt.key[1], attempt.number, attempt.told(index), executor.id))
            else:
                if not executor.turned:
                    executor.turned = True
                    turned.append(executor)
                executor.change += 1
            if copies and index in copies:
                self.agenda.later(began + copies.pop(index), DueKind.COPY, attempt, index)
        count = len(executors)
        attempt.running += count
        attempt.pool.running += count
        self.waiting[attempt.profile] -= count
        self.running[attempt.profile] += count
        if not attempt.waiting:
            self.unqueue(attempt)
            self.note_phase(self.now)

    def _next_of(self, attempt: TaskSet) -> int:
        """The next task that nobody computed elsewhere. Those before it never start, so what is summed up ends there."""
        index = attempt.next
        while index in attempt.elsewhere:
            attempt.elsewhere.discard(index)
            index += 1
        if index != attempt.next and not self.each:
            self.tell_moves(self.now)
            attempt.next = attempt.first_unsent = index
            self.moved.append(attempt)
        return index

    def offer_one(self, executor: ExecutorSlots, at: Millis) -> None:
        """makeOffers(executor): its free slots alone."""
        if executor.standing is not Standing.ACTIVE:
            return
        self.begin_offer()
        while executor.free:
            attempt = self.choose(executor.profile, executor, at)
            if attempt is None:
                break
            self.start(attempt, (executor,), at + self.turnaround)
        self.end_offer(at, everybody=False)

    def kill(self, row: Stage, at: Millis) -> None:
        """killAllTaskAttempts: whatever runs of a stage ends."""
        for slot, run in enumerate(self.slot_run):
            if run is not None and run.stage is row and self.slot_end[slot] >= 0:
                self.kill_task(slot, at, copying=self.copy_ends(slot))

    def kill_task(self, slot: int, at: Millis, *, copying: bool) -> None:
        """A task is killed; nobody is offered its slot yet."""
        run, executor, index = self.ends_in_vain(slot, at), self.slot_executor[slot], self.slot_index[slot]
        self.leave_slot(slot, executor, at, goes_on=True, in_sum=False)
        self.fetching.pop(slot, None)
        self.say(TaskEnd(at, run.key[1], run.number, run.told(index), executor.id, copying, TaskOutcome.KILLED))

    def runs_no_more(self, run: TaskSet) -> None:
        """A task less of a task set runs."""
        run.running -= 1
        run.pool.running -= 1
        self.running[run.profile] -= 1

    def ends_in_vain(self, slot: int, at: Millis) -> TaskSet:
        """What a task has done so far came to nothing, and it runs no more; returns its task set. Its slot is as it was."""
        run, executor = self.slot_run[slot], self.slot_executor[slot]
        assert run is not None
        spent = max(0, at - self.slot_began[slot])  # it may have been about to begin again
        executor.work_ms += spent
        executor.wasted_ms += spent
        self.runs_no_more(run)
        return run

    def copy_ends(self, slot: int) -> bool:
        """Whether the task of a slot is a speculative copy; it is none any more."""
        run, index = self.slot_run[slot], self.slot_index[slot]
        assert run is not None
        copying = run.copying.get(index) == slot
        if copying:
            del run.copying[index]
        return copying

    def leave_slot(
        self, slot: int, executor: ExecutorSlots, at: Millis, *, goes_on: bool = False, in_sum: bool = True
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
            self.into_free(executor)
        if self._barriers and not goes_on:
            self.offer(at)

    def due(self) -> Millis:
        """When something happens next by itself."""
        heap, ends = self.heap, self.slot_end
        while heap and ends[heap[0] & SLOT] != heap[0]:
            heappop(heap)
        first = heap[0] >> SHIFT if heap else NEVER
        return min(first, self.agenda[0].at) if self.agenda else first
