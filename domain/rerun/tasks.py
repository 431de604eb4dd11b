"""The tasks of a rerun through time: how they end, what goes on in their slots, and what is lost with an executor.

How long a task takes is known (``RecordedStage.body_ms``); when it runs is decided by Spark's rules
(``rerun.task_scheduler``, ``rerun.dag_scheduler``). A slot that a task leaves is offered again ``turnaround_ms`` later.
With an executor go its running tasks, which wait again, and its map output (``scheduler.map_output``).

A long stretch in which every slot that ends a task begins another one is the bulk of every simulation, so it costs little:
one heap operation a task, and a summary (``TasksMoved``) instead of two events. ``advance`` runs such a stretch through to
the end; as soon as something happens that a decision may depend on, it stops at the next place on the allocation
manager's 100 ms grid, where the next decision can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush, heapreplace

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import TICK_INTERVAL_MS
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.jobs import drawn_priorities
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.dag_scheduler import RerunDagScheduler
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import RerunJob
from podtide.domain.rerun.task_scheduler import RerunTaskScheduler
from podtide.domain.scheduler.rows import Due, DueKind, ExecutorSlots, Stage, StagePhase, Standing, TaskSet
from podtide.domain.scheduler.task_scheduler import SHIFT, SLOT


def _horizon(stop: Millis, until: Millis) -> int:
    """The last key of the heap up to and including the earlier of two moments."""
    return ((min(stop, until) + 1) << SHIFT) - 1


class Tasks(RerunTaskScheduler):
    """Tasks under way. ``grid``: a place on the allocation manager's timer; None: nothing is decided.

    ``dag``: the jobs and stages that they are of.
    """

    dag: RerunDagScheduler

    def __init__(
        self,
        app: Application,
        plan: Plan,
        behaviour: Behaviour,
        seed: int,
        ledger: Ledger,
        *,
        think: Callable[[Millis], None] | None = None,
        profiles_served: Mapping[ProfileId, int] | None = None,
    ) -> None:
        super().__init__(plan, behaviour, app.turnaround_ms, seed, ledger)
        self.dag = RerunDagScheduler(
            app,
            self,
            behaviour.boot_ms,
            awaited_ms=behaviour.awaited_ms,
            think=think,
            profiles_served=profiles_served,
            by_cores=behaviour.by_cores,
            priorities=drawn_priorities(app.jobs, seed) if seed else None,
        )
        self.grid: Millis | None = None
        # Of a host that is taken back, or of a pod that is deleted, Spark does not say that the application caused it.
        self._losses_count = plan.kubernetes is None and plan.yarn is None and not plan.faults.spot_per_hour
        self.lacks = self.dag.output.lacks
        hosts = list(dict.fromkeys(executor.host for executor in app.executors))
        self.hosts = [] if len(hosts) == len(app.executors) else [hosts.index(one.host) for one in app.executors]

    def boot(self, now: Millis, enough: float) -> None:
        """The first executors are asked for: the driver goes on when ``enough`` of them are there, or after so long."""
        if enough <= 0:
            self.open(now)
        else:
            self.agenda.later(now + self.plan.registered_wait_ms, DueKind.OPEN, None)

    def open(self, now: Millis) -> None:
        """waitBackendReady lets the driver go on: TaskSchedulerImpl.postStartHook ends."""
        if not self.is_open:
            self.is_open = True
            self.now = max(self.now, now)
            for executor in self.executors:
                if executor.place >= 0:  # up already: until now nothing could be given to it
                    self.ledger.ready(executor.key, self.now)
            self.dag.opened(self.now)

    def advance(self, until: Millis, slack: int) -> Millis:
        """Live up to and including ``until``, or up to the next place on the grid after something to decide upon.

        ``slack``: how many tasks may end before the need for executors can fall below the target. Returns where time stands.
        """
        agenda = self.agenda
        while True:
            first = agenda[0].at if agenda else NEVER
            until, slack = self._run(min(until, first), until, slack)
            if agenda and agenda[0].at <= until:
                due = heappop(agenda)
                self.now = max(self.now, due.at)
                if self._happen(due):
                    until = self._next_place(due.at, until)
            elif not self.heap or self.heap[0] >> SHIFT > until:
                break
            if self.dag.done or self.dag.aborted is not None:
                until = min(until, self.now)
        self.now = max(self.now, until if until != NEVER else self.now)
        return self.now

    def _next_place(self, at: Millis, until: Millis) -> Millis:
        """The first place of the grid at or after ``at``, if that is before ``until``."""
        if self.grid is None:
            return until
        return min(until, at + (self.grid - at) % TICK_INTERVAL_MS)

    def _run(self, stop: Millis, until: Millis, slack: int) -> tuple[Millis, int]:  # noqa: PLR0915 - one loop
        """Tasks end, and others begin in their slots, up to and including ``stop``. This is where the time goes."""
        heap = self.heap
        if not heap:
            return until, slack
        slot_end, slot_began, slot_index = self.slot_end, self.slot_began, self.slot_index
        slot_run, slot_executor = self.slot_run, self.slot_executor
        moved, outputs, turnaround = self.moved, self.outputs, self.turnaround
        waiting, running = self.waiting, self.running
        only = self.only_pool
        active, ran, near = Standing.ACTIVE, 0, False  # near: until is the next place of the grid, for whatever comes
        horizon = _horizon(stop, until)
        at = self.now
        while heap:
            key = heap[0]
            if key > horizon:
                break
            slot = key & SLOT
            if slot_end[slot] != key:
                heappop(heap)
                continue
            at = key >> SHIFT
            run, executor = slot_run[slot], slot_executor[slot]
            assert run is not None
            if not run.simple or (run.special is not None and slot_index[slot] in run.special):
                heappop(heap)
                self.now = at
                if self._ended(slot, run, executor, at):
                    until = self._next_place(at, until)
                only = self.only_pool
                stop = min(stop, self.agenda[0].at) if self.agenda else stop
                horizon = _horizon(stop, until)
                continue
            # a task of a plain attempt ended well
            index = slot_index[slot]
            executor.work_ms += at - slot_began[slot]
            executor.fresh = 0
            profile = run.profile
            running[profile] -= 1
            run.running -= 1
            run.pool.running -= 1
            if not run.ended and run.first_unsent == run.next:
                moved.append(run)
            run.ended += 1
            ran += 1
            if not run.done[index]:
                run.done[index] = 1
                run.stage.missing -= 1
            if run.holder is not None:
                row = executor.row
                run.holder[index] = row
                if row not in run.stage.on:
                    run.stage.on.add(row)
                    outputs.append((executor.id, run.key[1]))
            if run.stores:
                self.now = at
                self._store(run, executor, index, at)
            if not run.stage.missing:
                self.now = at
                self.dag.all_there(run.stage, at)
                stop = min(stop, self.agenda[0].at)
                horizon = _horizon(stop, until)
            slack -= 1
            if slack == 0:
                until = self._next_place(at, until)
                horizon = _horizon(stop, until)
            # its slot goes on
            after = None
            if executor.standing is active:
                if only is not None:
                    queue = only.queues.get(profile)
                    if queue:
                        after = queue[0]
                        if after.barrier or (
                            after.local is not None and not (after.simple and after.local.prefers(executor.row))
                        ):
                            after = self._offered_by(executor, at)
                elif self.preferring:
                    after = self._offered_by(executor, at)
                else:
                    after = self.choose(profile, executor, at)
            if after is None:
                heappop(heap)
                self.now = at
                self.leave_slot(slot, executor, at)
                if not near:
                    until, near = self._next_place(at, until), True
                    horizon = _horizon(stop, until)
            elif (
                after.simple
                and not after.again
                and (after is run or not after.opening_ms)
                and (after.special is None or after.next not in after.special)
            ):
                if after.first_unsent == after.next and not after.ended:
                    moved.append(after)
                index = after.next
                if after.local is not None:
                    if only is not None and after.local.prefers(executor.row):
                        index = after.local.take_near(executor.row, at)
                    else:
                        index = after.local.take(executor.row, at)
                        self.end_offer(at, everybody=False)
                after.next += 1
                began = at + turnaround
                end = (began + after.bodies[index]) << SHIFT | slot
                heapreplace(heap, end)
                slot_end[slot] = end
                slot_began[slot] = began
                slot_index[slot] = index
                if after is not run:
                    slot_run[slot] = after
                after.running += 1
                after.pool.running += 1
                waiting[profile] -= 1
                running[profile] += 1
                if after.next == after.total or (after.local is not None and not after.local):
                    self.now = at
                    self.unqueue(after)
                    self.note_phase(at)
                    until = self._next_place(at, until)
                    horizon = _horizon(stop, until)
            else:
                heappop(heap)
                self.now = at
                self.leave_slot(slot, executor, at, goes_on=True)
                self.start(after, (executor,), at + turnaround)
                if after.local is not None:
                    self.end_offer(at, everybody=False)
                until = self._next_place(at, until)
                stop = min(stop, self.agenda[0].at) if self.agenda else stop
                horizon = _horizon(stop, until)
        self.now = max(self.now, at)
        self.tasks_run += ran
        return until, slack

    def _offered_by(self, executor: ExecutorSlots, at: Millis) -> TaskSet | None:
        """The task set that goes on in the slot that an executor is about to offer."""
        self.now = at
        self.begin_offer()
        found = self.choose(executor.profile, executor, at)
        if found is None or found.local is None:
            self.end_offer(at, everybody=False)
        return found

    def _happen(self, due: Due) -> bool:
        """Whether a decision may depend on it."""
        what = due.what
        match due.kind:
            case DueKind.JOB:
                assert isinstance(what, RerunJob)
                self.dag.start_job(what, due.at)
            case DueKind.SUBMIT:
                assert isinstance(what, Stage)
                self.dag.submit(what, due.at)
            case DueKind.READY:
                assert isinstance(what, TaskSet)
                self.enqueue(what)
                self.offer(due.at)
            case DueKind.COMPLETE:
                assert isinstance(what, Stage)
                self.dag.complete(what, due.at)
            case DueKind.JOB_ENDS:
                assert isinstance(what, RerunJob)
                self.dag.end_job(what, due.at)
            case DueKind.COPY:
                assert isinstance(what, TaskSet)
                return self._want_copy(what, due.task, due.at)
            case DueKind.RESUBMIT:
                assert isinstance(what, Stage)
                self.dag.resubmit(what, due.at)
            case DueKind.UNPERSIST:
                self.say(stimuli.UnpersistRDD(due.at, due.task))
                self._cached = {held for held in self._cached if held[1] != due.task}
            case DueKind.WARM:
                assert isinstance(what, TaskSet)
                self._look_at_warming(what, due.task, due.at)
                return False
            case DueKind.OPEN:
                self.open(due.at)
            case DueKind.REVIVE:
                self.revive(due.at)
            case DueKind.FETCH:
                fetching = self.fetching.get(due.task)
                if fetching is not None and fetching.at == due.at and self.slot_run[due.task] is what:
                    self._fetch_failed(due.task, due.at)
        return True

    def _look_at_warming(self, run: TaskSet, slot: int, at: Millis) -> None:
        """What a first task takes longer should soon be over; it is not if others have come to its machine meanwhile."""
        warming = self.warming.get(slot)
        if warming is None or self.slot_began[slot] != warming.began_ms or self.slot_end[slot] < 0:
            return
        left = self.warms(at, warming.number)
        end = (at + left + warming.body_ms) << SHIFT | slot
        if end > self.slot_end[slot]:
            heappush(self.heap, end)
            self.slot_end[slot] = end
            self.agenda.later(at + max(1, left - 1), DueKind.WARM, run, slot)
        else:
            del self.warming[slot]

    def _ended(self, slot: int, run: TaskSet, executor: ExecutorSlots, at: Millis) -> bool:
        """A task of an attempt that needs a second look ended: a failure, a task with a copy, a zombie, a retry."""
        if slot in self.fetching:
            self._fetch_failed(slot, at)
            return True
        index, spent = self.slot_index[slot], at - self.slot_began[slot]
        copy = run.copying.get(index) == slot
        executor.work_ms += spent
        self.runs_no_more(run)
        self.tasks_run += 1
        part = run.part(index)
        failed = bool(run.fails and run.fails.get(index)) and not copy
        if failed:
            assert run.fails is not None
            run.fails[index].pop(0)
            executor.wasted_ms += spent
            self.tasks_again += 1
        outcome = stimuli.TaskOutcome.FAILED if failed else stimuli.TaskOutcome.SUCCESS
        self.leave_slot(slot, executor, at, in_sum=False)
        if not failed:
            if run.stale or not self.computed(run, index, executor):
                executor.wasted_ms += spent
            elif (before := self.lost.pop((run.stage, part), None)) is not None:
                self.ledger.worked(before[0], 0, before[1])  # what was computed first has come to nothing
            self._end_copy(run, index, slot, at)
            if run.stores or run.reads:
                self._store(run, executor, part, at)
        self.say(stimuli.TaskEnd(at, run.key[1], run.number, run.told(index), executor.id, copy, outcome))
        if failed and not run.zombie:
            self.try_again(run, index, at, counts=True)
        self.look_at_stage(run, at)
        if run.barrier and failed:
            self.offer(at)
        self.offer_one(executor, at)
        self.note_phase(at)
        return True

    def _fetch_failed(self, slot: int, at: Millis) -> None:
        """A task gives up fetching what it reads."""
        run, executor, index = self.ends_in_vain(slot, at), self.slot_executor[slot], self.slot_index[slot]
        dead = self.fetching[slot].dead
        self.tasks_run += 1
        copy = self.copy_ends(slot)
        self.leave_slot(slot, executor, at, goes_on=True, in_sum=False)
        del self.fetching[slot]
        self.say(
            stimuli.TaskEnd(at, run.key[1], run.number, run.told(index), executor.id, copy, stimuli.TaskOutcome.FAILED)
        )
        self.dag.fetch_failed(run, dead, at)
        if self._barriers:
            self.offer(at)
        self.offer_one(executor, at)
        self.note_phase(at)

    # speculative copies

    def _want_copy(self, run: TaskSet, index: int, at: Millis) -> bool:
        """checkSpeculatableTasks, when the log says so: a copy of a task that still runs, if there is a slot for it."""
        if run.zombie or run.done[run.part(index)]:
            return False
        self.say(stimuli.SpeculativeTaskSubmitted(at, run.key[1], run.number, run.told(index)))
        free = self.free.get(run.profile)
        original = next((slot for slot, end in self._slots_of(run, index) if end >= 0), None)
        if not free or original is None:
            return True
        executor = free[self.draw(len(free))]
        slot = executor.free.pop()
        if not executor.free:
            self.out_of_free(executor)
        end = (self.slot_end[original] >> SHIFT) << SHIFT | slot
        heappush(self.heap, end)
        self.slot_end[slot], self.slot_began[slot], self.slot_index[slot] = end, at, index
        self.slot_run[slot] = run
        run.copying[index] = slot
        run.running += 1
        run.pool.running += 1
        self.running[run.profile] += 1
        executor.running += 1
        if executor.running == 1:
            self.works(executor, at)
        self.say(stimuli.TaskStart(at, run.key[1], run.number, run.told(index), executor.id, speculative=True))
        return True

    def _slots_of(self, run: TaskSet, index: int) -> list[tuple[int, int]]:
        return [
            (slot, self.slot_end[slot])
            for slot, one in enumerate(self.slot_run)
            if one is run and self.slot_index[slot] == index
        ]

    def _end_copy(self, run: TaskSet, index: int, slot: int, at: Millis) -> None:
        """One of two copies ended well: the other one is killed."""
        if index not in run.copying:
            return
        copy = run.copying.pop(index)
        for other, end in self._slots_of(run, index):
            if other != slot and end >= 0:
                self.kill_task(other, at, copying=other == copy)
                if self._barriers:
                    self.offer(at)

    def remove(self, executor: ExecutorSlots, at: Millis, *, lost: bool) -> None:
        """The executor is gone, and with it what ran on it and what it held."""
        self.now = max(self.now, at)
        self.stop_offering(executor)
        executor.standing = Standing.GONE
        self.tell_moves(at)
        for slot in range(executor.first, executor.first + executor.slots):
            if self.slot_end[slot] >= 0:
                self._lose_task(slot, executor, at, counts=lost and self._losses_count)
        self.dag.output.gone(executor, at, lost=lost)
        for run in self._readers():
            run.simple = False  # it may have lost a cached partition
        if self.by_id.pop(executor.id, None) is not None:
            self.registered_cores -= self.cores_of(executor.profile)
            self.slots_registered -= executor.slots
        executor.until = at
        self.ledger.removed(executor.key, at, lost)
        self.note_phase(at)
        self.offer(at)

    def _readers(self) -> list[TaskSet]:
        """The task sets under way that read cached partitions."""
        return [row.attempt for row in self.dag.readers if row.attempt is not None and row.phase is StagePhase.RUNNING]

    def died(self, executor: ExecutorSlots, at: Millis) -> None:
        """The executor was killed; the driver takes it for alive until it is told otherwise (``remove``)."""
        self.now = max(self.now, at)
        if executor.standing is Standing.LEAVING and not self.plan.shuffle_kept:
            self.dag.output.died(executor)
