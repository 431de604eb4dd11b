"""The driver's program as the log has it, on Spark's DAGScheduler (``scheduler.dag_scheduler``): jobs and their stages.

A job is submitted ``think_ms`` after the last of the jobs that it comes after; its stages when the output of their parents
is there, each after the lag that the log shows. A stage is complete when the last of its partitions is there that ever
ended well in the log, and a job with the last of its stages. Where output is missing when a stage is to be submitted,
whoever makes it comes first; for a later job it is made by a stage of another id. With one job that fails, the application
ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobEnd, JobStart
from podtide.domain.recorded.application import Application, RecordedStage
from podtide.domain.recorded.job_dependencies import DEFAULT_POOL
from podtide.domain.recorded.partitions_by_cores import StageByCores, cut_anew
from podtide.domain.rerun.rows import RerunJob, RerunStage, stage_of
from podtide.domain.rerun.task_scheduler import RerunTaskScheduler
from podtide.domain.scheduler.dag_scheduler import DagScheduler
from podtide.domain.scheduler.locality import PendingTasks
from podtide.domain.scheduler.rows import NOBODY, CachedRdd, DueKind, Pool, Stage, StagePhase, TaskSet
from podtide.domain.scheduler.rules import EQUAL


def _profile_served(profile: ProfileId, profiles_served: Mapping[ProfileId, int] | None) -> ProfileId:
    return profile if profiles_served is None or profile in profiles_served else next(iter(profiles_served))


def _with_tries(stage: RecordedStage) -> RecordedStage:
    """The stage in which the last try of a task that never succeeded is its length: its tries held their slots, too."""
    last = {task: after for task, after in stage.failures if task < stage.tasks and stage.body_ms[task] < 0}
    if not last:
        return stage
    bodies = stage.body_ms[:]
    for task, after in last.items():
        bodies[task] = after
    left = [one for one in reversed(stage.failures) if last.pop(one.task, None) is None]
    return replace(stage, body_ms=bodies, failures=tuple(reversed(left)))


def _recorded(row: Stage) -> RecordedStage:
    assert isinstance(row, RerunStage)
    return row.recorded


class RerunDagScheduler(DagScheduler):
    """Jobs and stages under way. ``ended_ms``: when the last job ended; ``aborted``: why Spark gave one of them up.

    ``boot_ms``: when the driver may ask for executors; ``awaited_ms``: how long that of the log waited for them before it
    went its own way to its first jobs. ``think``: begins that way where starting executors may delay it; the first jobs
    come when the driver has ``thought``.
    ``by_cores``: stages that are cut for the cores that are registered when they are first submitted; ``cut_anew``: how
    many of them came to another number of tasks. ``priorities``: of the jobs whose own is not their id.
    ``profiles_served``: the profiles that there are executors of, the first for tasks of any other; None: each has its own.
    """

    def __init__(
        self,
        app: Application,
        scheduler: RerunTaskScheduler,
        boot_ms: Millis,
        *,
        awaited_ms: Millis = 0,
        think: Callable[[Millis], None] | None = None,
        profiles_served: Mapping[ProfileId, int] | None = None,
        by_cores: Sequence[StageByCores] = (),
        priorities: Mapping[int, int] | None = None,
    ) -> None:
        self.app = app
        self._priorities = priorities or {}
        self.jobs_left = len(app.jobs)
        self.ended_ms: Millis | None = None
        self.aborted: str | None = None
        self._tasks = scheduler
        self._plan = scheduler.plan
        self._think = think
        self.stages = {
            row.stage: stage_of(_with_tries(row), _profile_served(row.profile, profiles_served)) for row in app.stages
        }
        super().__init__(scheduler, self.stages)
        self._by_cores = {one.stage: one for one in by_cores}
        self.cut_anew = 0
        self._writers: dict[int, list[RerunStage]] = {}
        self._jobs = {job.job: RerunJob(job) for job in app.jobs}
        self._followers: dict[int, list[RerunJob]] = {}
        self._unpersists: dict[int, list[tuple[Millis, int]]] = {}
        self._ready_ms = boot_ms + awaited_ms
        self._link()
        if self._plan.registered_ratio <= 0 and think is None:  # nothing that the rerun decides keeps them back
            self._begin_jobs(0, awaited_ms)

    @property
    def done(self) -> bool:
        """Whether the application's last job has ended."""
        return self.jobs_left == 0

    def _link(self) -> None:
        for row in self.stages.values():
            if row.recorded.shuffle is not None:
                self._writers.setdefault(row.recorded.shuffle, []).append(row)
        shuffles: dict[int, int] = {}
        for job in self.app.jobs:
            shuffles.update((need.stage, need.shuffle) for need in job.needs if need.shuffle is not None)
        for row in self.stages.values():
            row.parents = tuple(
                parent for stage in row.recorded.parents for parent in self._parents_of(stage, shuffles, row)
            )
            for parent in row.parents:
                parent.children.append(row)
        first: list[RerunJob] = []
        for job in self.app.jobs:
            state = self._jobs[job.job]
            state.rows = tuple(self.stages[stage] for stage in job.stages if stage in self.stages)
            state.left = {row.recorded.stage for row in state.rows}
            state.ids = {need.shuffle: need.stage for need in job.needs if need.shuffle is not None}
            for row in state.rows:
                row.priority = job.job
                row.rank = self._priorities.get(job.job, job.job)
            before = [one for one in job.after if one in self._jobs and one != job.job]
            state.waits = len(before)
            for one in before:
                self._followers.setdefault(one, []).append(state)
            if not before:
                first.append(state)
        self._first = first
        self._plan_unpersists()
        self._link_caches()

    def opened(self, now: Millis) -> None:
        """Enough executors are there, or were waited for long enough: the driver goes its own way to its first jobs."""
        if self._think is not None:
            self._think(now)
        else:
            self._begin_jobs(now, self._ready_ms)

    def thought(self, now: Millis) -> None:
        """The driver has gone its way, where its start is part of the model."""
        self._begin_jobs(now, min((job.recorded.think_ms for job in self._first), default=0))

    def _begin_jobs(self, now: Millis, since: Millis) -> None:
        """The first jobs come as long after ``now`` as they came after ``since`` in the log."""
        first, self._first = self._first, []
        for job in first:
            self.later(now + max(0, job.recorded.think_ms - since), DueKind.JOB, job)

    def _link_caches(self) -> None:
        """The first stage with an RDD computes and caches it; later ones read what is left of it, until it is dropped.

        Which task reads which partition is known where there are as many tasks as partitions.
        """
        known: dict[int, CachedRdd] = {}
        dropped = sorted(self.app.unpersisted, reverse=True)
        for row in sorted(self.stages.values(), key=lambda row: (row.recorded.submitted_ms, row.recorded.stage)):
            tasks = row.recorded.tasks
            while dropped and dropped[-1][0] <= row.recorded.submitted_ms:
                known.pop(dropped.pop()[1], None)
            seen = [known[rdd] for rdd in row.recorded.stores if rdd in known]
            row.reads = tuple(one for one in seen if len(one.holder) == tasks)
            new = [CachedRdd(rdd, row, array("i", [NOBODY]) * tasks) for rdd in row.recorded.stores if rdd not in known]
            row.stores = tuple(new)
            known.update((one.rdd, one) for one in new)
        self.readers = [row for row in self.stages.values() if row.reads]

    def _parents_of(self, stage: int, shuffles: Mapping[int, int], child: RerunStage) -> tuple[RerunStage, ...]:
        """The rows that write what a parent stage stands for: itself, or (it was skipped) who wrote its shuffle before."""
        if stage in self.stages:
            return (self.stages[stage],)
        shuffle = shuffles.get(stage)
        rows = () if shuffle is None else self._writers.get(shuffle, ())
        earlier = [row for row in rows if row.recorded.stage < child.recorded.stage]
        return tuple(earlier[-1:])

    def start_job(self, job: RerunJob, at: Millis) -> None:
        """The job is submitted, and those of its stages whose parents are there."""
        job.started_ms = at
        self._tasks.say(JobStart(at, job.recorded.job, job.recorded.needs))
        for row in job.rows:
            if row.phase is StagePhase.IDLE:
                self.want(row, at, lag_ms=row.recorded.submit_lag_ms)
        if not job.left:
            self._finish_job(job, at)

    def _finish_job(self, job: RerunJob, at: Millis) -> None:
        recorded = job.recorded
        lag = recorded.end_lag_ms
        if not job.rows and not recorded.repeated and recorded.ended_ms is not None:
            lag = recorded.ended_ms - recorded.submitted_ms  # nothing ran: it took what it took
        self.later(at + max(0, lag), DueKind.JOB_ENDS, job)

    def end_job(self, job: RerunJob, at: Millis) -> None:
        """The driver has the result of the job: those that come after it follow."""
        job.ended_ms = at
        self.jobs_left -= 1
        self._tasks.say(JobEnd(at, job.recorded.job))
        for after, rdd in self._unpersists.get(job.recorded.job, ()):
            self.later(at + after, DueKind.UNPERSIST, None, rdd)
        for follower in self._followers.get(job.recorded.job, ()):
            follower.waits -= 1
            if not follower.waits:
                self.later(at + max(0, follower.recorded.think_ms), DueKind.JOB, follower)
        if self.done:
            self.ended_ms = at

    def _plan_unpersists(self) -> None:
        """An RDD is dropped as long after the end of the last job before it as in the log, or after the start."""
        ends = sorted((job.ended_ms, job.job) for job in self.app.jobs if job.ended_ms is not None)
        for at, rdd in self.app.unpersisted:
            place = bisect_right(ends, (at, NEVER)) - 1
            if place < 0:
                self.later(max(0, at - self.app.started_ms), DueKind.UNPERSIST, None, rdd)
            else:
                ended, job = ends[place]
                self._unpersists.setdefault(job, []).append((at - ended, rdd))

    def may_come(self, row: Stage) -> bool:
        """Whether a job that has begun is to run it."""
        job = self._jobs.get(row.priority)
        return row.ever or (job is not None and job.started_ms != NEVER)

    def adopt(self, row: Stage, child: Stage) -> None:
        """A stage whose job is over runs again for the job of its child, which lists it under an id of its own."""
        own, job = self._jobs.get(row.priority), self._jobs.get(child.priority)
        if row.ever and own is not None and own.ended_ms != NEVER and job is not None:
            row.priority, row.rank = child.priority, child.rank
            assert row.shuffle is not None
            listed = job.ids.get(row.shuffle, row.id)
            if listed != row.id:
                row.id, row.number = listed, 0

    # what the log has besides Spark's rules

    def lag(self, row: Stage) -> Millis:
        """As in the log."""
        return _recorded(row).submit_lag_ms

    def come(self, row: Stage, at: Millis, lag_ms: Millis) -> None:
        """A stage is submitted a moment later."""
        self.later(at + max(0, lag_ms), DueKind.SUBMIT, row)

    def cut(self, row: Stage) -> None:
        """Its tasks are those of the log, or as many as the registered cores make."""
        assert isinstance(row, RerunStage)
        by_cores = self._by_cores.get(row.recorded.stage)
        if by_cores is not None and (cores := self._tasks.registered_cores):
            tasks = by_cores.tasks_on(cores)
            if tasks != row.tasks:
                row.recorded = cut_anew(row.recorded, tasks)
                row.cut(tasks, row.recorded.body_ms)
                for cached in row.stores:
                    cached.holder = array("i", [NOBODY]) * tasks
                self.cut_anew += 1

    def equip(self, attempt: TaskSet, *, first: bool) -> None:
        """The failures and the speculative copies of the log belong to its first attempt."""
        row, recorded = attempt.stage, _recorded(attempt.stage)
        if first and (recorded.failures or (recorded.copies and self._plan.speculation)):
            # Tasks are named by partition; where some never succeeded the attempt counts without them.
            parts = attempt.parts
            place = range(recorded.tasks) if parts is None else {part: at for at, part in enumerate(parts)}
            fails: dict[int, list[Millis]] = {}
            for task, after in recorded.failures:
                if task in place:
                    fails.setdefault(place[task], []).append(after)
            if recorded.attempts > 1:  # failures of several attempts, none of which had too many
                fails = {task: some[: self._plan.retries.task_failures_max - 1] for task, some in fails.items()}
            attempt.fails = fails
            if self._plan.speculation:
                attempt.copies = {place[task]: after for task, after in recorded.copies if task in place}
            attempt.special = frozenset((*fails, *(attempt.copies or ())))
        if row.reads:
            attempt.simple &= self._tasks.holds_all(row)
            self._prefer(attempt)

    def _prefer(self, attempt: TaskSet) -> None:
        """Its tasks prefer the executors that hold the cached partitions that they read; of several RDDs the latest
        (DAGScheduler.getPreferredLocs)."""
        waits = self._plan.locality
        if attempt.barrier or not any(waits):
            return
        tasks, latest = self._tasks, sorted(attempt.reads, key=attrgetter("rdd"), reverse=True)
        wants = {}
        for index in range(attempt.total):
            part = attempt.part(index)
            holder = next(
                (one.holder[part] for one in latest if part < len(one.holder) and tasks.is_held(one, part)), NOBODY
            )
            if holder != NOBODY:
                wants[index] = holder
        if wants:
            attempt.local = PendingTasks(attempt.total, wants, tasks.host_of, waits, tasks.now)
            attempt.simple &= attempt.special is None

    def offer_to(self, attempt: TaskSet, at: Millis, *, first: bool) -> None:
        """Its tasks wait for slots a moment later."""
        self.later(at + max(0, _recorded(attempt.stage).launch_lag_ms if first else 0), DueKind.READY, attempt)

    def has_no_tasks(self, row: Stage, at: Millis, *, first: bool) -> None:
        """No task of it ended well in the log: it takes the time that it took there. Or nothing is left to do."""
        recorded = _recorded(row)
        took = max(0, recorded.completed_ms - recorded.submitted_ms) if first else 0
        self.later(at + took, DueKind.COMPLETE, row)

    def all_there(self, row: Stage, at: Millis) -> None:
        """The stage completes a moment later."""
        self.later(at + max(0, _recorded(row).finish_lag_ms), DueKind.COMPLETE, row)

    def completed(self, row: Stage, at: Millis) -> None:
        """With the last of its stages a job ends."""
        job, number = self._jobs.get(row.priority), _recorded(row).stage
        if job is not None and number in job.left:
            job.left.discard(number)
            if not job.left and job.started_ms != NEVER:
                self._finish_job(job, at)

    def pool_of(self, row: Stage) -> Pool:
        """The pool of its job."""
        job = self._jobs.get(row.priority)
        name = (job.recorded.pool or DEFAULT_POOL) if self._plan.fair and job is not None else ""
        pools = self._tasks.pools
        if name not in pools:
            pools[name] = Pool(name, self._plan.pools.get(name, EQUAL))
        return pools[name]

    def is_under_way(self, row: Stage) -> bool:
        """Whether the stage belongs to a job that has begun, and has not come to its results."""
        job = self._jobs.get(row.priority)
        results = row.holder is None and not row.missing
        return job is not None and job.started_ms != NEVER and job.ended_ms == NEVER and not results

    def abort(self, row: Stage, why: str, at: Millis) -> None:  # noqa: ARG002 - with one job the application ends
        """A job fails, and with it the application."""
        if self.aborted is None:
            self.aborted = why
