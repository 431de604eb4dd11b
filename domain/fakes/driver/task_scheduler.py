"""The tasks of a script on Spark's task scheduler (``scheduler.task_scheduler``): how long they take, and how they end.

Rules that are this driver's own:

- To each task set in turn, every executor of its profile with a free slot is offered one task after the other, round by
  round, until nothing waits or nothing is free.
- A slot is offered again the moment its task ends, before the driver looks at the result: the listeners hear of the next
  task's start before the last one's end. A task that failed waits from then on, so another may take its slot.
- What is lost with an executor counts against its tasks only where Spark holds the application to be the cause; kills,
  decommissions and exits from outside do not.
- A task reads its shuffle input when it starts. If a part of it is gone then, it finds out ``FETCH_FAILS_MS`` later; those
  that run already have read theirs. A task that is told to end takes ``KILL_MS`` to do so.
- An executor that decommissioned may have moved its output to others by the time it goes; one that was killed or that failed
  has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import floor
from operator import attrgetter
from typing import Final

from podtide.domain.base.randomness import Stream, bits, chance, draw, split, unit
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.driver.dag_scheduler import DriverDagScheduler, of_script
from podtide.domain.fakes.driver.plan import ScriptPlan
from podtide.domain.fakes.driver.rows import DriverStage, PendingExecutorRow
from podtide.domain.fakes.driver.script import Storage
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.stimuli import BlockUpdated, RddBlock, ShuffleCleaned, TaskEnd, TaskOutcome
from podtide.domain.scheduler.rows import Due, DueKind, ExecutorSlots, Fetching, Stage, Standing, TaskSet
from podtide.domain.scheduler.task_ends import TaskEnds
from podtide.domain.scheduler.task_scheduler import SHIFT, SLOT

FETCH_FAILS_MS: Final[Millis] = 100
"""How long a task takes to find out that shuffle output is missing."""

KILL_MS: Final[Millis] = 100
"""How long a task that is told to end takes to do so."""

_OFFERS: Final = 2**64 - 1
"""The key of the stream that offers are shuffled by."""

_KILLED: Final = "ExecutorKilled"
_ROW = attrgetter("row")


class DriverTaskScheduler(TaskEnds):
    """Executors and tasks of a driver. ``was_busy``: which executors were, of those for which that may have changed.

    ``hung``: executors on which nothing goes on, since when, which the driver does not know: tasks start there as before.
    ``silent``: executors whose connection is lost: nothing more is heard of what runs there.
    """

    dag: DriverDagScheduler
    each = True

    def __init__(self, plan: ScriptPlan, seed: Stream, began: Millis) -> None:
        super().__init__(plan.rules, 0, tracking=False)
        self.dag = DriverDagScheduler(plan, self, seed, began)
        self.tally = self.dag.tally
        self.stopped = False
        self.was_busy: dict[int, bool] = {}
        self.pods: dict[str, PendingExecutorRow] = {}  # by executor, until it is accepted or gone
        self.slots = plan.slots
        self.addresses: dict[str, ExecutorSlots] = {}
        self.hung: dict[int, Millis] = {}
        self.silent: set[int] = set()
        self._shuffled = plan.script.shuffled_offers
        self._seed = seed
        self._offers = 0
        self._wanting: set[ProfileId] = set()
        # By slot, of the tasks that run: those that will fail, those that were told to end, and when one would on an
        # executor that hangs.
        self._failing: set[int] = set()
        self._killed: set[int] = set()
        self._held_up: dict[int, Millis] = {}

    # offers

    def enqueue(self, attempt: TaskSet) -> None:
        """The task set is offered slots with the next offers."""
        super().enqueue(attempt)
        self._wanting.add(attempt.profile)

    def into_free(self, executor: ExecutorSlots) -> None:
        """Its slots are offered with the next offers."""
        super().into_free(executor)
        self._wanting.add(executor.profile)

    def offer(self, now: Millis) -> None:
        """Nothing is offered before all that happens at once has been taken in (``offer_all``)."""

    def offer_all(self, now: Millis) -> None:
        """makeOffers: the free slots of every profile for which something changed."""
        self.now = now
        while self._wanting:
            profile = min(self._wanting)
            self._wanting.discard(profile)
            self._offer(profile, now)

    def _offer(self, profile: ProfileId, now: Millis) -> None:
        """Start what can start on the executors of a profile."""
        free = self.free.get(profile)
        if not free:
            return
        deck = sorted(free, key=_ROW)
        attempt = self.choose(profile, deck[0], now)
        if attempt is None:
            return
        if self._shuffled and len(deck) > 1:
            self._shuffle(deck)
        while deck and attempt is not None:
            while deck and attempt.waiting:
                for executor in deck:
                    self.start(attempt, (executor,), now)
                    if not attempt.waiting:
                        break
                deck = [executor for executor in deck if executor.free]
            attempt = self.choose(profile, deck[0], now) if deck else None

    def _shuffle(self, deck: list[ExecutorSlots]) -> None:
        rng: Stream = split(split(self._seed, _OFFERS), self._offers)
        self._offers += 1
        for place in range(len(deck) - 1, 0, -1):
            value, rng = bits(rng)
            other = value % (place + 1)
            deck[place], deck[other] = deck[other], deck[place]

    def lasts(
        self,
        attempt: TaskSet,
        slot: int,
        index: int,  # noqa: ARG002 - chance goes by partition
        part: int,
        executor: ExecutorSlots,
        began: Millis,
    ) -> Millis:
        """As long as the script says."""
        job = self.dag.jobs[attempt.key[0]]
        if job.first_task is None:
            job.first_task = began
        took = self._fate(of_script(attempt.stage), attempt, slot, part, began)
        if executor.row in self.hung:
            self._held_up[slot] = began + took
            return NEVER - began
        return took

    def _fate(self, row: DriverStage, attempt: TaskSet, slot: int, part: int, began: Millis) -> Millis:
        """How long a task takes, and whether it fails. Each try of each partition has luck of its own."""
        if any(parent.missing for parent in row.parents):
            self.fetching[slot] = Fetching(began, began + FETCH_FAILS_MS, frozenset())
            return FETCH_FAILS_MS
        rng = split(row.luck, part)
        before = row.tries.get(part, 0) >> 1
        if before or attempt.number:
            rng = split(split(rng, before), attempt.number)
        duration, rng = draw(rng, row.script.duration)
        if row.script.failure:
            fails, rng = chance(rng, row.script.failure)
            if fails:
                share, rng = unit(rng)
                self._failing.add(slot)
                return floor(share * duration)
        return duration

    # time

    def live(self, until: Millis) -> None:
        """All that happens by itself up to and including ``until``."""
        heap, agenda = self.heap, self.agenda
        while (at := self.due()) <= until and at != NEVER:
            self.now = at
            if heap and heap[0] >> SHIFT == at:
                self._ended(heappop(heap) & SLOT, at)
            else:
                self._happen(heappop(agenda))
            self.offer_all(at)

    def _happen(self, due: Due) -> None:
        match due.kind, due.what:
            case DueKind.JOB, (int(place), int(run)):
                self.dag.start_job(place, run, due.at)
            case DueKind.RESUBMIT, DriverStage() as row:
                self.dag.resubmit(row, due.at)
            case DueKind.CLEAN, _:
                self.say(ShuffleCleaned(due.at, due.task))
            case _:
                raise AssertionError(f"{due} is nothing that a driver waits for")

    def _ended(self, slot: int, at: Millis) -> None:
        """A task ended by itself, or was killed."""
        run, executor, index = self.slot_run[slot], self.slot_executor[slot], self.slot_index[slot]
        assert run is not None
        in_vain, failed, killed = slot in self.fetching, slot in self._failing, slot in self._killed
        self._forget(slot)
        spent = at - self.slot_began[slot]
        self.runs_no_more(run)
        self.leave_slot(slot, executor, at, goes_on=True, in_sum=False)
        self._offer(executor.profile, at)
        row, needed = of_script(run.stage), self.dag.is_needed(run)
        if not (in_vain or failed or killed):
            self._succeeded(run, row, index, executor, spent, at, needed=needed)
            return
        outcome = TaskOutcome.KILLED if killed else TaskOutcome.FAILED
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, False, outcome))
        self.tally["wasted_ms"] += spent
        if killed:
            self.tally["tasks.killed"] += 1
        elif in_vain:
            self.tally["tasks.fetch failed"] += 1
            if needed:
                self.dag.fetch_failed(run, frozenset(), at)
        else:
            self.tally["tasks.failed"] += 1
            if needed:
                row.note_try(run.part(index))
                if not run.zombie:
                    self.try_again(run, index, at, counts=True)

    def _succeeded(
        self,
        run: TaskSet,
        row: DriverStage,
        index: int,
        executor: ExecutorSlots,
        spent: Millis,
        at: Millis,
        *,
        needed: bool,
    ) -> None:
        part = run.part(index)
        if needed and row.rdd is not None:
            on_disk = row.script.cached is not None and row.script.cached.storage is Storage.DISK
            self.say(BlockUpdated(at, executor.id, RddBlock(row.rdd, part), True, on_disk))
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id))
        self.tally["tasks.succeeded"] += 1
        if not needed:  # its job is over
            self.tally["wasted_ms"] += spent
            return
        repeated = run.done[part] or row.tries.get(part, 0) & 1
        self.tally["wasted_ms" if repeated else "useful_ms"] += spent
        self.computed(run, index, executor)
        self.look_at_stage(run, at)

    def _forget(self, slot: int) -> None:
        """The task of a slot is over."""
        self.fetching.pop(slot, None)
        self._failing.discard(slot)
        self._killed.discard(slot)
        self._held_up.pop(slot, None)

    def kill_task(self, slot: int, at: Millis, *, copying: bool) -> None:  # noqa: ARG002 - there are no copies
        """A task is told to end, which it does in a moment, if it can hear it."""
        row = self.slot_executor[slot].row
        if row in self.hung:
            self._killed.add(slot)
        elif row not in self.silent and self.slot_end[slot] >> SHIFT > at + KILL_MS:
            self._killed.add(slot)
            self._end_at(slot, at + KILL_MS)

    def _end_at(self, slot: int, ends: Millis) -> None:
        self.slot_end[slot] = end = ends << SHIFT | slot
        if ends != NEVER:
            heappush(self.heap, end)

    # executors

    def works(self, executor: ExecutorSlots, at: Millis) -> None:
        """It is busy."""
        super().works(executor, at)
        self.was_busy.setdefault(executor.row, False)

    def rests(self, executor: ExecutorSlots, at: Millis) -> None:
        """It is idle."""
        super().rests(executor, at)
        self.was_busy.setdefault(executor.row, True)

    def join(self, executor: ExecutorId, profile: ProfileId, slots: int, address: str, at: Millis) -> None:
        """An executor was accepted; its slots are offered."""
        known = self.add(executor, profile, slots, at, key=0)
        if address:
            self.addresses[address] = known
        self.tally["executors.joined"] += 1
        self.into_free(known)

    def _busy_slots(self, executor: ExecutorSlots) -> Iterator[int]:
        return (slot for slot in range(executor.first, executor.first + executor.slots) if self.slot_end[slot] >= 0)

    def disconnect(self, executor: ExecutorSlots) -> None:
        """Its connection is lost: it is offered nothing any more, and nothing is heard of its tasks."""
        self.stop_offering(executor)
        self.silent.add(executor.row)
        for slot in self._busy_slots(executor):
            self._end_at(slot, NEVER)

    def hang(self, executor: ExecutorSlots, now: Millis) -> None:
        """An executor hangs, which the driver does not know: tasks start there as before, and none ends."""
        if executor.row in self.hung or executor.row in self.silent:
            return
        self.hung[executor.row] = now
        for slot in self._busy_slots(executor):
            self._held_up[slot] = self.slot_end[slot] >> SHIFT
            self._end_at(slot, NEVER)

    def go_on(self, executor: ExecutorSlots, now: Millis) -> bool:
        """An executor goes on: its tasks take as much longer as it hung while they ran. Returns whether it hung."""
        since = self.hung.pop(executor.row, None)
        if since is None:
            return False
        for slot in () if executor.row in self.silent else self._busy_slots(executor):
            run = self.slot_run[slot]
            assert run is not None
            if slot in self._killed or not self.dag.is_needed(run):  # it was told to end meanwhile
                self._killed.add(slot)
                self._end_at(slot, now + KILL_MS)
            else:
                hung = now - max(since, self.slot_began[slot])
                self._end_at(slot, max(now, self._held_up.pop(slot) + hung))
        return True

    def remove(self, executor: ExecutorSlots, reason: ExitReason, now: Millis) -> None:
        """An executor is gone, with what ran on it and, as the script has it, with what it holds."""
        leaving = executor.standing is Standing.LEAVING and executor.row not in self.silent
        leaving = leaving or reason.kind == "ExecutorDecommission"
        moves = leaving and reason.kind != _KILLED and not reason.exit_code
        self._leave(executor, now)
        lost = sorted(
            (run.key, slot) for slot in self._busy_slots(executor) if (run := self.slot_run[slot]) is not None
        )
        self.dag.output.gone(executor, now, lost=not moves)
        for _, slot in lost:
            self.tally["tasks.lost"] += 1
            self._lose_task(slot, executor, now, counts=reason.caused_by_app and not leaving)
        self.was_busy.pop(executor.row, None)

    def _leave(self, executor: ExecutorSlots, now: Millis) -> None:
        self.stop_offering(executor)
        executor.standing, executor.until = Standing.GONE, now
        self.hung.pop(executor.row, None)
        self.silent.discard(executor.row)
        del self.by_id[executor.id]
        for address in [address for address, one in self.addresses.items() if one is executor]:
            del self.addresses[address]
        self.tally["executors.left"] += 1
        self.tally["slot_ms"] += executor.slots * (now - executor.since)

    def _lose_task(self, slot: int, executor: ExecutorSlots, at: Millis, *, counts: bool) -> None:
        run = self.slot_run[slot]
        assert run is not None
        self._forget(slot)
        self.tally["wasted_ms"] += at - self.slot_began[slot]
        if self.dag.is_needed(run):
            of_script(run.stage).note_try(run.part(self.slot_index[slot]))
        super()._lose_task(slot, executor, at, counts=counts)

    def repeat(self, run: TaskSet, part: int, executor: ExecutorSlots, at: Millis) -> None:
        """Resubmitted, and counted."""
        before = self.tasks_again
        super().repeat(run, part, executor, at)
        self.tally["tasks.resubmitted"] += self.tasks_again - before

    def note_lost(self, row: Stage, part: int, executor: ExecutorSlots) -> None:  # noqa: ARG002 - whoever it was
        """The next try of the partition repeats one that had succeeded."""
        self.tally["outputs.lost"] += 1
        of_script(row).note_try(part, lost=True)

    def stop(self, now: Millis) -> None:
        """The application ends."""
        self.stopped = True
        self.dag.stop(now)
        for slot, run in enumerate(self.slot_run):
            if run is not None:
                self.runs_no_more(run)
                self._forget(slot)
                self.tally["tasks.stopped"] += 1
        for executor in tuple(self.by_id.values()):
            self._leave(executor, now)
        self.slot_run = [None] * len(self.slot_run)
        self.slot_end = [-1] * len(self.slot_end)
        self.heap.clear()
        self.agenda.clear()
        self.was_busy.clear()
        self._wanting.clear()
