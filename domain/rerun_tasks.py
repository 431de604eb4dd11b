"""The driver of a rerun: its program, a small DAGScheduler and a small TaskScheduler over an application as recorded.

It gives the tasks of the recorded stages to whatever executors are there, and says what Spark's listeners would hear. How
long a task takes is known (``recorded.Stage.body_ms``); when it runs is decided here, by Spark's rules:

- A job is submitted ``think_ms`` after the last of the jobs that it comes after; its stages when the output of their
  parents is there, each after the lag that the log shows.
- An executor with a free slot is offered tasks of its own resource profile: of the pool that runs the fewest tasks (FAIR
  with equal weights; FIFO is a single pool), within a pool of the oldest job's lowest stage, lowest task first. A slot that
  a task leaves is offered again ``turnaround_ms`` later; when tasks come or executors do, all free slots are offered, one
  for each executor and round, in an order drawn by the seed.
- The first tasks on an executor, one for each slot, take longer (``behaviour.fresh_ms``).
- A barrier stage starts when it has room for all of its tasks at once.
- With an executor go its running tasks, which wait again, and its map output unless a shuffle service keeps it. Tasks of
  a running map stage that had ended there run again (Resubmitted). A stage that reads lost output stops giving out tasks;
  200 ms later (DAGScheduler.RESUBMIT_TIMEOUT) what is missing is computed again, and then what is left of it.

A long stretch in which every slot that ends a task begins another one is the bulk of every simulation, so it costs little:
one heap operation a task, and a summary (``TasksMoved``) instead of two events. ``advance`` runs such a stretch through to
the end; as soon as something happens that a decision may depend on, it stops at the next place on the allocation
manager's 100 ms grid, where the next decision can be.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from enum import IntEnum
from heapq import heappop, heappush, heapreplace
from operator import attrgetter
from typing import Final, NamedTuple

from podtide.domain.behaviour import Behaviour
from podtide.domain.config import TICK_INTERVAL_MS
from podtide.domain.ledger import Book
from podtide.domain.plans import Plan
from podtide.domain.randomness import stream
from podtide.domain.recorded import Application, Job
from podtide.domain.rerun_rows import NOBODY, Attempt, ExecutorRow, JobRow, Phase, Pool, StageRow, Standing
from podtide.domain.stimuli import (
    JobEnd,
    JobStart,
    ListenerEvent,
    Move,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
    Turn,
    UnpersistRDD,
)
from podtide.domain.units import NEVER, ExecutorId, Millis, ProfileId

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""

_SHIFT: Final = 24
_SLOT: Final = (1 << _SHIFT) - 1
SLOTS_MAX: Final = 1 << _SHIFT
"""Slots of all executors that ever were."""

_LCG: Final = 6364136223846793005
_STEP: Final = 1442695040888963407
_MASK: Final = 2**64 - 1

_KEY = attrgetter("key")


class Kind(IntEnum):
    """What is due; those due at once happen in this order."""

    COMPLETE = 0
    JOB_ENDS = 1
    JOB = 2
    SUBMIT = 3
    READY = 4
    COPY = 5
    RESUBMIT = 6
    OPEN = 7


class Due(NamedTuple):
    """Something that happens at a time: ``what`` is a job, a stage or an attempt, ``task`` one of its tasks."""

    at: Millis
    kind: Kind
    serial: int
    what: JobRow | StageRow | Attempt | None
    task: int = 0


class Tasks:
    """Jobs, stages and tasks under way. ``said``: what the listeners hear, since it was last taken (``hear``).

    ``grid``: a place on the allocation manager's timer, None where nothing is decided on it. ``thinks``: the first jobs wait
    until the driver has ``thought``, which starting executors may delay. ``flips``: executors that fell idle or to work,
    kept for whoever wants to know (None: nobody does).
    """

    def __init__(
        self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, book: Book, *, thinks: bool = False
    ) -> None:
        self.app = app
        self.plan = plan
        self.book = book
        self.now: Millis = 0
        self.grid: Millis | None = None
        self.said: list[ListenerEvent] = []
        self.executors: list[ExecutorRow] = []
        self.by_id: dict[ExecutorId, ExecutorRow] = {}
        self._names: set[ExecutorId] = set()
        self.waiting: dict[ProfileId, int] = {}
        self.running: dict[ProfileId, int] = {}
        self.tasks_run = 0
        self.tasks_again = 0
        self.jobs_left = len(app.jobs)
        self.ended_ms: Millis | None = None
        self.busy = 0
        self.flips: list[ExecutorRow] | None = None
        self._idle_ms = NEVER if plan.dynamic is None else plan.dynamic.idle_timeout_ms
        self._open = plan.registered_ratio <= 0
        self._turnaround = app.turnaround_ms
        self._fresh = behaviour.fresh_ms
        self._freshened = 0
        self._seed = seed
        self._thinks = thinks
        self._random = stream(seed) | 1
        self._serial = 0
        self._heap: list[int] = []
        self._slot_end: list[int] = []
        self._slot_began: list[Millis] = []
        self._slot_index: list[int] = []
        self._slot_run: list[Attempt | None] = []
        self._slot_executor: list[ExecutorRow] = []
        self._free: dict[ProfileId, list[ExecutorRow]] = {}
        self._moved: list[Attempt] = []
        self._turned: list[ExecutorRow] = []
        self._outputs: list[tuple[ExecutorId, int]] = []
        self._tracking = plan.dynamic is not None and plan.dynamic.shuffle_tracking
        self._pools: dict[str, Pool] = {}
        self._barriers = 0
        self._agenda: list[Due] = []
        self._stages = {row.stage: StageRow(row) for row in app.stages}
        self._writers: dict[int, list[StageRow]] = {}
        self._jobs = {job.job: JobRow(job) for job in app.jobs}
        self._followers: dict[int, list[JobRow]] = {}
        self._link(behaviour.boot_ms)

    # the application

    def _link(self, boot_ms: Millis) -> None:
        for row in self._stages.values():
            if row.recorded.shuffle is not None:
                self._writers.setdefault(row.recorded.shuffle, []).append(row)
        shuffles: dict[int, int] = {}
        for job in self.app.jobs:
            shuffles.update((need.stage, need.shuffle) for need in job.needs if need.shuffle is not None)
        for row in self._stages.values():
            row.parents = tuple(
                parent for stage in row.recorded.parents for parent in self._parents_of(stage, shuffles, row)
            )
            for parent in row.parents:
                parent.children.append(row)
        first: list[JobRow] = []
        for job in self.app.jobs:
            state = self._jobs[job.job]
            state.rows = tuple(self._stages[stage] for stage in job.stages if stage in self._stages)
            state.left = {row.recorded.stage for row in state.rows}
            for row in state.rows:
                row.priority = job.job
            before = [one for one in job.after if one in self._jobs and one != job.job]
            state.waits = len(before)
            for one in before:
                self._followers.setdefault(one, []).append(state)
            if not before:
                first.append(state)
        self._first = first
        if not self._thinks:
            self.thought(0)
        started = self.app.started_ms
        self._unpersist = sorted((max(0, at - started), rdd) for at, rdd in self.app.unpersisted)
        self._unpersist.reverse()
        if not self._open:
            self._later(boot_ms + self.plan.registered_wait_ms, Kind.OPEN, None)

    def thought(self, now: Millis) -> None:
        """The driver is ready for its first jobs: at their time in the log, or now where its start is part of the model."""
        first, self._first = self._first, []
        least = min((job.recorded.think_ms for job in first), default=0) if self._thinks else 0
        for job in first:
            self._later(max(now, now + job.recorded.think_ms - least), Kind.JOB, job)

    def _parents_of(self, stage: int, shuffles: Mapping[int, int], child: StageRow) -> tuple[StageRow, ...]:
        """The rows that write what a parent stage stands for: itself, or (it was skipped) who wrote its shuffle before."""
        if stage in self._stages:
            return (self._stages[stage],)
        shuffle = shuffles.get(stage)
        rows = () if shuffle is None else self._writers.get(shuffle, ())
        earlier = [row for row in rows if row.recorded.stage < child.recorded.stage]
        return tuple(earlier[-1:])

    def _later(self, at: Millis, kind: Kind, what: JobRow | StageRow | Attempt | None, task: int = 0) -> None:
        self._serial += 1
        heappush(self._agenda, Due(at, kind, self._serial, what, task))

    # time

    @property
    def done(self) -> bool:
        """Whether the application's last job has ended."""
        return self.jobs_left == 0

    def due(self) -> Millis:
        """When something happens next by itself."""
        heap, ends = self._heap, self._slot_end
        while heap and ends[heap[0] & _SLOT] != heap[0]:
            heappop(heap)
        first = heap[0] >> _SHIFT if heap else NEVER
        return min(first, self._agenda[0].at) if self._agenda else first

    def open(self, now: Millis) -> None:
        """Enough executors are registered: tasks may start."""
        if not self._open:
            self._open = True
            self.offer(now)

    def advance(self, until: Millis, slack: int) -> Millis:
        """Live up to and including ``until``, or up to the next place on the grid after something to decide upon.

        ``slack``: how many tasks may end before the need for executors can fall below the target. Returns where time stands.
        """
        agenda = self._agenda
        while True:
            first = agenda[0].at if agenda else NEVER
            until, slack = self._run(min(until, first), until, slack)
            if agenda and agenda[0].at <= until:
                due = heappop(agenda)
                self.now = max(self.now, due.at)
                if self._happen(due):
                    until = self._next_place(due.at, until)
            elif not self._heap or self._heap[0] >> _SHIFT > until:
                break
            if self.done:
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
        heap = self._heap
        if not heap:
            return until, slack
        slot_end, slot_began, slot_index = self._slot_end, self._slot_began, self._slot_index
        slot_run, slot_executor = self._slot_run, self._slot_executor
        moved, outputs, turnaround = self._moved, self._outputs, self._turnaround
        waiting, running = self.waiting, self.running
        only = next(iter(self._pools.values())) if len(self._pools) == 1 else None
        active, ran = Standing.ACTIVE, 0
        horizon = ((min(stop, until) + 1) << _SHIFT) - 1
        at = self.now
        while heap:
            key = heap[0]
            if key > horizon:
                break
            slot = key & _SLOT
            if slot_end[slot] != key:
                heappop(heap)
                continue
            at = key >> _SHIFT
            run, executor = slot_run[slot], slot_executor[slot]
            assert run is not None
            if not run.simple:
                heappop(heap)
                self.now = at
                if self._ended(slot, run, executor, at):
                    until = self._next_place(at, until)
                only = next(iter(self._pools.values())) if len(self._pools) == 1 else None
                stop = min(stop, self._agenda[0].at) if self._agenda else stop
                horizon = ((min(stop, until) + 1) << _SHIFT) - 1
                continue
            # a task of a plain attempt ended well
            index = slot_index[slot]
            executor.work_ms += at - slot_began[slot]
            executor.fresh = 0
            profile = run.profile
            running[profile] -= 1
            run.running -= 1
            run.pool.running -= 1
            if not run.ended and run.told == run.next:
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
            if not run.stage.missing:
                self.now = at
                self._all_there(run.stage, at)
                stop = min(stop, self._agenda[0].at)
                horizon = ((min(stop, until) + 1) << _SHIFT) - 1
            slack -= 1
            if slack == 0:
                until = self._next_place(at, until)
                horizon = ((min(stop, until) + 1) << _SHIFT) - 1
            # its slot goes on
            after = None
            if executor.standing is active:
                if only is not None:
                    queue = only.queues.get(profile)
                    if queue:
                        after = queue[0]
                        if after.barrier:
                            after = self._choose(profile)
                else:
                    after = self._choose(profile)
            if after is None:
                heappop(heap)
                self.now = at
                self._leave_slot(slot, executor, at)
                until = self._next_place(at, until)
                horizon = ((min(stop, until) + 1) << _SHIFT) - 1
            elif after.simple and not after.again:
                index = after.next
                if after.told == index and not after.ended:
                    moved.append(after)
                after.next = index + 1
                began = at + turnaround
                end = (began + after.bodies[index]) << _SHIFT | slot
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
                if after.next == after.total:
                    self.now = at
                    self._unqueue(after)
                    self._phase(at)
                    until = self._next_place(at, until)
                    horizon = ((min(stop, until) + 1) << _SHIFT) - 1
            else:
                heappop(heap)
                self.now = at
                self._leave_slot(slot, executor, at, goes_on=True)
                self._start(after, executor, at + turnaround)
                until = self._next_place(at, until)
                stop = min(stop, self._agenda[0].at) if self._agenda else stop
                horizon = ((min(stop, until) + 1) << _SHIFT) - 1
        self.now = max(self.now, at)
        self.tasks_run += ran
        return until, slack

    # what happens by itself

    def _happen(self, due: Due) -> bool:
        """Whether a decision may depend on it."""
        what = due.what
        match due.kind:
            case Kind.JOB:
                assert isinstance(what, JobRow)
                self._start_job(what, due.at)
            case Kind.SUBMIT:
                assert isinstance(what, StageRow)
                self._submit(what, due.at)
            case Kind.READY:
                assert isinstance(what, Attempt)
                self._enqueue(what)
                self.offer(due.at)
            case Kind.COMPLETE:
                assert isinstance(what, StageRow)
                self._complete(what, due.at)
            case Kind.JOB_ENDS:
                assert isinstance(what, JobRow)
                self._end_job(what, due.at)
            case Kind.COPY:
                assert isinstance(what, Attempt)
                return self._want_copy(what, due.task, due.at)
            case Kind.RESUBMIT:
                assert isinstance(what, StageRow)
                if what.phase is Phase.FAILED:
                    what.phase = Phase.IDLE
                    self._want(what, due.at, lag_ms=0)
            case Kind.OPEN:
                self.open(due.at)
        return True

    def _start_job(self, job: JobRow, at: Millis) -> None:
        job.started_ms = at
        self.say(JobStart(at, job.recorded.job, job.recorded.needs))
        for row in job.rows:
            if row.phase is Phase.IDLE:
                self._want(row, at, lag_ms=row.recorded.submit_lag_ms)
        if not job.left:
            self._finish_job(job, at)

    def _finish_job(self, job: JobRow, at: Millis) -> None:
        recorded = job.recorded
        lag = recorded.end_lag_ms
        if not job.rows and recorded.ended_ms is not None:
            lag = recorded.ended_ms - recorded.submitted_ms  # nothing ran: it took what it took
        self._later(at + max(0, lag), Kind.JOB_ENDS, job)

    def _end_job(self, job: JobRow, at: Millis) -> None:
        job.ended_ms = at
        self.jobs_left -= 1
        self.say(JobEnd(at, job.recorded.job))
        self._drop_unpersisted(job.recorded, at)
        for follower in self._followers.get(job.recorded.job, ()):
            follower.waits -= 1
            if not follower.waits:
                self._later(at + max(0, follower.recorded.think_ms), Kind.JOB, follower)
        if self.done:
            self.ended_ms = at

    def _drop_unpersisted(self, job: Job, at: Millis) -> None:
        """RDDs that were dropped in the log before the job's end are dropped at its end here, at the latest."""
        ended = (job.ended_ms or job.submitted_ms) - self.app.started_ms
        while self._unpersist and self._unpersist[-1][0] <= ended:
            self.say(UnpersistRDD(at, self._unpersist.pop()[1]))

    def _want(self, row: StageRow, at: Millis, *, lag_ms: Millis) -> None:
        """submitStage: the stage when its parents are there, else whatever of these nobody has asked for."""
        missing = [parent for parent in row.parents if parent.missing]
        if not missing:
            row.phase = Phase.COMING
            self._later(at + max(0, lag_ms), Kind.SUBMIT, row)
            return
        row.phase = Phase.WAITING
        for parent in missing:
            if parent.phase is Phase.IDLE and (parent.ever or self._is_due(parent)):
                self._want(parent, at, lag_ms=0)

    def _is_due(self, row: StageRow) -> bool:
        job = self._jobs.get(row.priority)
        return job is not None and job.started_ms != NEVER

    def _submit(self, row: StageRow, at: Millis) -> None:
        if any(parent.missing for parent in row.parents):  # lost on the way
            row.phase = Phase.IDLE
            self._want(row, at, lag_ms=0)
            return
        recorded = row.recorded
        row.phase = Phase.RUNNING
        row.submitted_ms = min(row.submitted_ms, at)
        first = row.attempts == 0
        parts: list[int] | None = None
        if not first or row.missing != recorded.tasks:
            parts = [part for part, body in enumerate(recorded.body_ms) if body >= 0 and not row.done[part]]
        pool = self._pool_of(row)
        attempt = Attempt(row, row.attempts, parts, pool)
        row.attempts += 1
        row.attempt = attempt
        tasks = recorded.tasks if first else attempt.total
        if first and (recorded.failures or (recorded.copies and self.plan.speculation)):
            attempt.simple = False
            fails: dict[int, list[Millis]] = {}
            for task, after in recorded.failures:
                fails.setdefault(task, []).append(after)
            attempt.fails = fails
            attempt.copies = dict(recorded.copies) if self.plan.speculation else None
        self.say(StageSubmitted(at, recorded.stage, attempt.number, tasks, recorded.profile))
        self.waiting[recorded.profile] = self.waiting.get(recorded.profile, 0) + attempt.total
        self.running.setdefault(recorded.profile, 0)
        if not first:
            self.tasks_again += attempt.total
        if attempt.total:
            self._later(at + max(0, recorded.launch_lag_ms if first else 0), Kind.READY, attempt)
        else:
            # No task of it ended well in the log: it takes the time that it took there.
            self._later(at + max(0, recorded.completed_ms - recorded.submitted_ms), Kind.COMPLETE, row)
        self._phase(at)

    def _pool_of(self, row: StageRow) -> Pool:
        job = self._jobs.get(row.priority)
        name = (job.recorded.pool or "default") if self.plan.fair and job is not None else ""
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = Pool(name)
        return pool

    def _all_there(self, row: StageRow, at: Millis) -> None:
        self._later(at + max(0, row.recorded.finish_lag_ms), Kind.COMPLETE, row)

    def _complete(self, row: StageRow, at: Millis) -> None:
        attempt = row.attempt
        if attempt is None or row.phase is not Phase.RUNNING:
            return
        self._retire(attempt)
        self.say(StageCompleted(at, row.recorded.stage, attempt.number))
        row.phase = Phase.IDLE
        if row.missing:  # lost while the driver thought about it
            self._want(row, at, lag_ms=0)
            return
        row.ever = True
        row.completed_ms = at
        for child in row.children:
            if child.phase is Phase.WAITING:
                child.phase = Phase.IDLE
                self._want(child, at, lag_ms=0 if child.attempts else child.recorded.submit_lag_ms)
        job = self._jobs.get(row.priority)
        if job is not None and row.recorded.stage in job.left:
            job.left.discard(row.recorded.stage)
            if not job.left and job.started_ms != NEVER:
                self._finish_job(job, at)
        self._phase(at)

    def _retire(self, attempt: Attempt) -> None:
        """A task set gives out nothing more."""
        if not attempt.zombie:
            self.waiting[attempt.profile] -= attempt.waiting
            attempt.zombie = True
        self._unqueue(attempt)

    # task sets and slots

    def _enqueue(self, attempt: Attempt) -> None:
        if attempt.waiting and not attempt.queued:
            attempt.queued = True
            insort(attempt.pool.queues.setdefault(attempt.profile, []), attempt, key=_KEY)
            self._barriers += attempt.barrier

    def _unqueue(self, attempt: Attempt) -> None:
        if attempt.queued:
            attempt.queued = False
            attempt.pool.queues[attempt.profile].remove(attempt)
            self._barriers -= attempt.barrier

    def _choose(self, profile: ProfileId) -> Attempt | None:
        """The task set that is next to be offered a slot of the profile; barrier stages wait for room of their own."""
        best: Attempt | None = None
        fewest: tuple[int, str] | None = None
        for pool in self._pools.values():
            queue = pool.queues.get(profile)
            if queue and (fewest is None or (pool.running, pool.name) < fewest):
                found = next((one for one in queue if not one.barrier), None)
                if found is not None:
                    best, fewest = found, (pool.running, pool.name)
        return best

    def _draw(self, below: int) -> int:
        self._random = (self._random * _LCG + _STEP) & _MASK
        return (self._random >> 33) * below >> 31

    def offer(self, now: Millis) -> None:
        """makeOffers: all free slots, one for each executor and round, in an order drawn anew."""
        if not self._open:
            return
        if self._barriers:
            self._offer_barriers(now)
        for profile, free in self._free.items():
            while free:
                wanted = min(self._offered(profile), len(free))
                if not wanted:
                    break
                last = len(free) - 1
                for place in range(last, last - wanted, -1):
                    self._swap(free, place, self._draw(place + 1))
                for executor in free[last - wanted + 1 :]:
                    attempt = self._choose(profile)
                    if attempt is None:
                        break
                    self._start(attempt, executor, now)

    def _offered(self, profile: ProfileId) -> int:
        """How many tasks of the profile are to be had."""
        return sum(
            one.waiting for pool in self._pools.values() for one in pool.queues.get(profile, ()) if not one.barrier
        )

    def _offer_barriers(self, now: Millis) -> None:
        waiting = [
            one for pool in self._pools.values() for queue in pool.queues.values() for one in queue if one.barrier
        ]
        for attempt in sorted(waiting, key=_KEY):
            free = self._free.get(attempt.profile, [])
            if sum(len(executor.free) for executor in free) >= attempt.waiting:
                while attempt.waiting:
                    for executor in tuple(free):
                        if attempt.waiting and executor.free:
                            self._start(attempt, executor, now)

    @staticmethod
    def _swap(free: list[ExecutorRow], a: int, b: int) -> None:
        one, other = free[a], free[b]
        free[a], free[b] = other, one
        one.place, other.place = b, a

    def _start(self, attempt: Attempt, executor: ExecutorRow, began: Millis) -> None:
        """A task of an attempt begins in a free slot of an executor."""
        slot = executor.free.pop()
        if not executor.free:
            self._out_of_free(executor)
        again = bool(attempt.again)
        if again:
            index = attempt.again.pop()
        else:
            if attempt.told == attempt.next and not attempt.ended:
                self._moved.append(attempt)
            index = attempt.next
            attempt.next = index + 1
        after: Millis | None = None
        if attempt.fails:
            tries = attempt.fails.get(index)
            if tries:
                after = tries[0]
        body = attempt.bodies[attempt.part(index)] if after is None else after
        if executor.fresh:
            executor.fresh -= 1
            body += self._fresh_ms()
        end = (began + max(0, body)) << _SHIFT | slot
        heappush(self._heap, end)
        self._slot_end[slot] = end
        self._slot_began[slot] = began
        self._slot_index[slot] = index
        self._slot_run[slot] = attempt
        attempt.running += 1
        attempt.pool.running += 1
        self.waiting[attempt.profile] -= 1
        self.running[attempt.profile] += 1
        executor.running += 1
        if executor.running == 1:
            self._works(executor, self.now)
        if again:
            self.say(TaskStart(self.now, attempt.key[1], attempt.number, index, executor.id))
        else:
            self._turn(executor, 1)
        if attempt.copies and index in attempt.copies:
            self._later(began + attempt.copies.pop(index), Kind.COPY, attempt, index)
        if attempt.next == attempt.total and not attempt.again:
            self._unqueue(attempt)
            self._phase(self.now)

    def _fresh_ms(self) -> Millis:
        """What the next first task on an executor takes longer: the samples in order, or drawn where the seed is not 0."""
        samples = self._fresh
        if not samples:
            return 0
        self._freshened += 1
        return samples[self._draw(len(samples)) if self._seed else (self._freshened - 1) % len(samples)]

    def _works(self, executor: ExecutorRow, at: Millis) -> None:
        self.busy += 1
        self.book.busy(executor.key, at)
        if self.busy == 1:
            self._phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def _rests(self, executor: ExecutorRow, at: Millis) -> None:
        self.busy -= 1
        self.book.idle(executor.key, at, self._timeout_at(at))
        if not self.busy:
            self._phase(at)
        if self.flips is not None:
            self.flips.append(executor)

    def _turn(self, executor: ExecutorRow, change: int) -> None:
        if not executor.change:
            self._turned.append(executor)
        executor.change += change

    def _out_of_free(self, executor: ExecutorRow) -> None:
        if executor.place >= 0:
            free = self._free[executor.profile]
            self._swap(free, executor.place, len(free) - 1)
            free.pop()
            executor.place = NOBODY

    def _into_free(self, executor: ExecutorRow) -> None:
        if executor.place < 0 and executor.standing is Standing.ACTIVE and executor.free:
            free = self._free.setdefault(executor.profile, [])
            executor.place = len(free)
            free.append(executor)

    def _leave_slot(
        self, slot: int, executor: ExecutorRow, at: Millis, *, goes_on: bool = False, told: bool = True
    ) -> None:
        """A slot is empty. ``told``: the end that emptied it is told in sum; ``goes_on``: it is filled again at once."""
        self._slot_end[slot] = -1
        self._slot_run[slot] = None
        executor.free.append(slot)
        executor.running -= 1
        executor.ended = at
        executor.fresh = 0
        if told:
            self._turn(executor, -1)
        if not executor.running:
            self._rests(executor, at)
        self._into_free(executor)
        if self._barriers and not goes_on:
            self.offer(at)

    def _ended(self, slot: int, run: Attempt, executor: ExecutorRow, at: Millis) -> bool:
        """A task of an attempt that needs a second look ended: a failure, a task with a copy, a zombie, a retry."""
        index, spent = self._slot_index[slot], at - self._slot_began[slot]
        copy = run.copying.get(index) == slot
        executor.work_ms += spent
        run.running -= 1
        run.pool.running -= 1
        self.running[run.profile] -= 1
        self.tasks_run += 1
        part = run.part(index)
        failed = bool(run.fails and run.fails.get(index)) and not copy
        if failed:
            assert run.fails is not None
            run.fails[index].pop(0)
            executor.wasted_ms += spent
            self.tasks_again += 1
        outcome = TaskOutcome.FAILED if failed else TaskOutcome.SUCCESS
        self._leave_slot(slot, executor, at, told=False)
        if not failed:
            if run.done[part]:
                executor.wasted_ms += spent
            else:
                run.done[part] = 1
                run.stage.missing -= 1
                if run.holder is not None:
                    run.holder[part] = executor.row
                    run.stage.on.add(executor.row)
            self._end_copy(run, index, slot, at)
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, copy, outcome))
        if failed and not run.zombie:
            run.again.append(index)
            self.waiting[run.profile] += 1
            self._enqueue(run)
        if not run.stage.missing and run.stage.phase is Phase.RUNNING:
            self._all_there(run.stage, at)
        self.offer_one(executor, at)
        self._phase(at)
        return True

    def offer_one(self, executor: ExecutorRow, at: Millis) -> None:
        """makeOffers(executor): its free slots alone."""
        if executor.standing is Standing.ACTIVE and self._open:
            while executor.free:
                attempt = self._choose(executor.profile)
                if attempt is None:
                    break
                self._start(attempt, executor, at + self._turnaround)

    # speculative copies

    def _want_copy(self, run: Attempt, index: int, at: Millis) -> bool:
        """checkSpeculatableTasks, when the log says so: a copy of a task that still runs, if there is a slot for it."""
        if run.zombie or run.done[run.part(index)]:
            return False
        self.say(SpeculativeTaskSubmitted(at, run.key[1], run.number, index))
        free = self._free.get(run.profile)
        original = next((slot for slot, end in self._slots_of(run, index) if end >= 0), None)
        if not free or original is None:
            return True
        executor = free[self._draw(len(free))]
        slot = executor.free.pop()
        if not executor.free:
            self._out_of_free(executor)
        end = (self._slot_end[original] >> _SHIFT) << _SHIFT | slot
        heappush(self._heap, end)
        self._slot_end[slot], self._slot_began[slot], self._slot_index[slot] = end, at, index
        self._slot_run[slot] = run
        run.copying[index] = slot
        run.running += 1
        run.pool.running += 1
        self.running[run.profile] += 1
        executor.running += 1
        if executor.running == 1:
            self._works(executor, at)
        self.say(TaskStart(at, run.key[1], run.number, index, executor.id, speculative=True))
        return True

    def _slots_of(self, run: Attempt, index: int) -> list[tuple[int, int]]:
        return [
            (slot, self._slot_end[slot])
            for slot, one in enumerate(self._slot_run)
            if one is run and self._slot_index[slot] == index
        ]

    def _end_copy(self, run: Attempt, index: int, slot: int, at: Millis) -> None:
        """One of two copies ended well: the other one is killed."""
        if index not in run.copying:
            return
        copy = run.copying.pop(index)
        for other, end in self._slots_of(run, index):
            if other != slot and end >= 0:
                executor = self._slot_executor[other]
                spent = at - self._slot_began[other]
                executor.work_ms += spent
                executor.wasted_ms += spent
                run.running -= 1
                run.pool.running -= 1
                self.running[run.profile] -= 1
                self._leave_slot(other, executor, at, told=False)
                end_event = (at, run.key[1], run.number, index, executor.id, other == copy, TaskOutcome.KILLED)
                self.say(TaskEnd(*end_event))

    # executors

    def join(self, row: int, executor: ExecutorId, profile: ProfileId, slots: int, at: Millis, *, key: int) -> None:
        """An executor registered. Tasks come when it is ``ready``. ``row``: its number, ascending; ``key``: the ledger's."""
        assert row == len(self.executors)
        first = len(self._slot_end)
        if first + slots > SLOTS_MAX:
            raise OverflowError("more slots than a simulation has room for")
        self.book.registered(key, at, slots)
        self.book.idle(key, at, self._timeout_at(at))
        known = ExecutorRow(row, key, executor, profile, range(first, first + slots), at)
        known.free.reverse()
        self.executors.append(known)
        self.by_id[executor] = known
        self._names.add(executor)
        self._slot_end.extend([-1] * slots)
        self._slot_began.extend([0] * slots)
        self._slot_index.extend([0] * slots)
        self._slot_run.extend([None] * slots)
        self._slot_executor.extend([known] * slots)

    def ready(self, executor: ExecutorRow, at: Millis) -> None:
        """The executor can be given tasks."""
        self.now = max(self.now, at)
        self._into_free(executor)
        self.offer(at)

    def stand_aside(self, executor: ExecutorRow) -> None:
        """It is offered nothing any more."""
        if executor.standing is Standing.ACTIVE:
            executor.standing = Standing.LEAVING
            self._out_of_free(executor)

    def settle(self, executor: ExecutorRow, at: Millis) -> None:
        """Say in the ledger what an executor's tasks came to, at its end or the application's."""
        if executor.standing is not Standing.GONE:
            executor.until = at
            for slot in range(executor.first, executor.first + executor.slots):
                if self._slot_end[slot] >= 0:
                    executor.work_ms += max(0, at - self._slot_began[slot])
        if executor.work_ms:
            self.book.worked(executor.key, executor.work_ms, executor.wasted_ms)

    def was(self, executor: ExecutorId) -> bool:
        """Whether an executor of this id ever registered."""
        return executor in self._names

    def rows(self) -> Iterable[StageRow]:
        """All stages."""
        return self._stages.values()

    def remove(self, executor: ExecutorRow, at: Millis, *, lost: bool) -> None:
        """The executor is gone, and with it what ran on it and what it held."""
        self.now = max(self.now, at)
        self.stand_aside(executor)
        executor.standing = Standing.GONE
        self._tell_moves(at)
        for slot in range(executor.first, executor.first + executor.slots):
            if self._slot_end[slot] >= 0:
                self._lose_task(slot, executor, at)
        if not self.plan.shuffle_kept:
            self._lose_output(executor, at)
        self.by_id.pop(executor.id, None)
        executor.until = at
        self.book.removed(executor.key, at, lost)
        self._phase(at)
        self.offer(at)

    def _lose_task(self, slot: int, executor: ExecutorRow, at: Millis) -> None:
        run, index = self._slot_run[slot], self._slot_index[slot]
        assert run is not None
        spent = max(0, at - self._slot_began[slot])
        executor.work_ms += spent
        executor.wasted_ms += spent
        run.running -= 1
        run.pool.running -= 1
        self.running[run.profile] -= 1
        copy = run.copying.get(index) == slot
        if copy:
            del run.copying[index]
        self._slot_end[slot] = -1
        self._slot_run[slot] = None
        executor.running -= 1
        if not executor.running:
            self._rests(executor, at)
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, copy, TaskOutcome.FAILED))
        self.tasks_again += 1
        if not run.zombie and not copy and not run.done[run.part(index)]:
            self._give_back(run, index)

    def _give_back(self, run: Attempt, index: int) -> None:
        run.simple = False
        run.again.append(index)
        self.waiting[run.profile] += 1
        self._enqueue(run)

    def _lose_output(self, executor: ExecutorRow, at: Millis) -> None:
        """Map output that somebody may still read is lost; running map stages repeat it, those that read it stop."""
        for row in self._stages.values():
            holder = row.holder
            if holder is None or executor.row not in row.on or not self._is_wanted(row):
                continue
            row.on.discard(executor.row)
            lost = [part for part, who in enumerate(holder) if who == executor.row]
            if not lost:
                continue
            running = row.attempt if row.phase is Phase.RUNNING else None
            for part in lost:
                holder[part] = NOBODY
                row.done[part] = 0
                row.missing += 1
                self.book.worked(executor.key, 0, max(0, row.recorded.body_ms[part]))
                if running is not None and not running.zombie:
                    self._repeat(running, part, executor, at)
            if running is None:
                for child in row.children:
                    if child.phase is Phase.RUNNING:
                        self._fail(child, at)

    def _repeat(self, run: Attempt, part: int, executor: ExecutorRow, at: Millis) -> None:
        """Resubmitted: a task of a running map stage that had ended is needed again."""
        index = part if run.parts is None else (run.parts.index(part) if part in run.parts else NOBODY)
        if index < 0:
            return
        self.say(TaskEnd(at, run.key[1], run.number, index, executor.id, False, TaskOutcome.FAILED))
        self.tasks_again += 1
        self._give_back(run, index)

    def _fail(self, row: StageRow, at: Millis) -> None:
        """A stage's next task would find the output of its parents gone (FetchFailed)."""
        attempt = row.attempt
        assert attempt is not None
        if not attempt.waiting:
            return  # all of its tasks run and have what they need
        self._retire(attempt)
        attempt.simple = False
        self.say(StageCompleted(at, row.recorded.stage, attempt.number))
        row.phase = Phase.FAILED
        self._later(at + RESUBMIT_MS, Kind.RESUBMIT, row)

    def _is_wanted(self, row: StageRow) -> bool:
        """Whether a stage that has not completed reads it, or it runs itself."""
        return row.phase is Phase.RUNNING or any(child.missing for child in row.children)

    # what is said

    def say(self, event: ListenerEvent) -> None:
        """Tell the listeners, after all that happened before."""
        if self._moved or self._turned or self._outputs:
            self._tell_moves(self.now)
        self.said.append(event)

    def _tell_moves(self, at: Millis) -> None:
        moves = []
        for run in self._moved:
            if run.told != run.next or run.ended:
                moves.append(Move(run.key[1], run.number, run.told, run.next, run.ended))
                run.told, run.ended = run.next, 0
        turns = []
        for executor in self._turned:
            if executor.change:
                turns.append(Turn(executor.id, executor.change, executor.ended))
                executor.change = 0
        outputs = tuple(self._outputs) if self._tracking else ()
        self._moved.clear()
        self._turned.clear()
        self._outputs.clear()
        if moves or turns or outputs:
            self.said.append(TasksMoved(at, tuple(moves), tuple(turns), outputs))

    def hear(self) -> list[ListenerEvent]:
        """What the listeners heard since the last time."""
        if self._moved or self._turned or self._outputs:
            self._tell_moves(self.now)
        said, self.said = self.said, []
        return said

    def _timeout_at(self, at: Millis) -> Millis:
        return NEVER if self._idle_ms >= NEVER - at else at + self._idle_ms

    def _phase(self, at: Millis) -> None:
        self.book.phase(max(at, self.now), sum(self.running.values()), sum(self.waiting.values()))
