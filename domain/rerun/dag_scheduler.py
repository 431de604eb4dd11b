"""The driver's program and a small DAGScheduler: which jobs and stages of a rerun there are at a time.

A job is submitted ``think_ms`` after the last of the jobs that it comes after; its stages when the output of their parents
is there, each after the lag that the log shows. A stage is complete when the last of its partitions is there that ever
ended well in the log, and a job with the last of its stages. Where output is missing when a stage is to be submitted,
whoever makes it comes first; for a later job it is made by a stage of another id.

Map output is lost with its executor (``rerun.outputs``). A fetch that fails ends the stage attempt. Its running tasks run
on, as zombies, and what they compute counts; 200 ms later (RESUBMIT_TIMEOUT) the stage is submitted again, what it misses
first. The executor's other output counts as lost, too. A failed task of a barrier stage ends the attempt with all of its
tasks and output. After so many attempts in a row, or so many failures of one task, Spark gives up (``Plan.retries``).

*An indeterminate stage* may come out otherwise when it is computed again (RecordedStage.indeterminate). When a fetch of its
output fails, and once more when it is submitted again, then with all of its tasks, what the jobs under way made from that
output is thrown away (rollbackSucceedingStages): output is unregistered, running map stages are cancelled and follow 200 ms
later, and what still runs of failed attempts does not count. A result stage that runs or has results cannot be rolled back:
Spark gives up. A stage that repeats the one of another job under its own id is new to Spark: its first attempt rolls nothing
back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobEnd, JobStart, StageCompleted, StageSubmitted
from podtide.domain.recorded.application import Application, RecordedStage
from podtide.domain.recorded.partitions_by_cores import StageByCores, cut_anew
from podtide.domain.rerun.outputs.map_output import MapOutput, tear
from podtide.domain.rerun.plan import EQUAL
from podtide.domain.rerun.rows import NOBODY, CachedRdd, Pool, RerunJob, RerunKind, RerunStage, StagePhase, TaskSet
from podtide.domain.rerun.task_scheduler import TaskScheduler

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""


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


class DagScheduler:
    """Jobs and stages under way. ``ended_ms``: when the last job ended; ``aborted``: why Spark gave one of them up.

    ``thinks``: the first jobs wait until the driver has ``thought``, which starting executors may delay.
    ``by_cores``: stages that are cut for the cores that are registered when they are first submitted; ``cut_anew``: how
    many of them came to another number of tasks. ``priorities``: of the jobs whose own is not their id.
    ``profiles_served``: the profiles that there are executors of, the first for tasks of any other; None: each has its own.
    """

    def __init__(
        self,
        app: Application,
        scheduler: TaskScheduler,
        boot_ms: Millis,
        *,
        thinks: bool = False,
        profiles_served: Mapping[ProfileId, int] | None = None,
        by_cores: Sequence[StageByCores] = (),
        priorities: Mapping[int, int] | None = None,
    ) -> None:
        self.app = app
        self._priorities = priorities or {}
        self.jobs_left = len(app.jobs)
        self.ended_ms: Millis | None = None
        self.aborted: str | None = None
        self._scheduler = scheduler
        self._plan = scheduler.plan
        self._later = scheduler.agenda.later
        self._thinks = thinks
        self.stages = {
            row.stage: RerunStage(_with_tries(row), _profile_served(row.profile, profiles_served)) for row in app.stages
        }
        self.output = MapOutput(self.stages, scheduler)
        self._by_cores = {one.stage: one for one in by_cores}
        self.cut_anew = 0
        self._writers: dict[int, list[RerunStage]] = {}
        self._jobs = {job.job: RerunJob(job) for job in app.jobs}
        self._followers: dict[int, list[RerunJob]] = {}
        self._unpersists: dict[int, list[tuple[Millis, int]]] = {}
        self._link(boot_ms)

    @property
    def done(self) -> bool:
        """Whether the application's last job has ended."""
        return self.jobs_left == 0

    def _link(self, boot_ms: Millis) -> None:
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
        if not self._thinks:
            self.thought(0)
        self._plan_unpersists()
        self._link_caches()
        if not self._scheduler.is_open:
            self._later(boot_ms + self._plan.registered_wait_ms, RerunKind.OPEN, None)

    def thought(self, now: Millis) -> None:
        """The driver is ready for its first jobs: at their time in the log, or now where its start is part of the model."""
        first, self._first = self._first, []
        least = min((job.recorded.think_ms for job in first), default=0) if self._thinks else 0
        for job in first:
            self._later(max(now, now + job.recorded.think_ms - least), RerunKind.JOB, job)

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
        self._scheduler.say(JobStart(at, job.recorded.job, job.recorded.needs))
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
        self._later(at + max(0, lag), RerunKind.JOB_ENDS, job)

    def end_job(self, job: RerunJob, at: Millis) -> None:
        """The driver has the result of the job: those that come after it follow."""
        job.ended_ms = at
        self.jobs_left -= 1
        self._scheduler.say(JobEnd(at, job.recorded.job))
        for after, rdd in self._unpersists.get(job.recorded.job, ()):
            self._later(at + after, RerunKind.UNPERSIST, None, rdd)
        for follower in self._followers.get(job.recorded.job, ()):
            follower.waits -= 1
            if not follower.waits:
                self._later(at + max(0, follower.recorded.think_ms), RerunKind.JOB, follower)
        if self.done:
            self.ended_ms = at

    def _plan_unpersists(self) -> None:
        """An RDD is dropped as long after the end of the last job before it as in the log, or after the start."""
        ends = sorted((job.ended_ms, job.job) for job in self.app.jobs if job.ended_ms is not None)
        for at, rdd in self.app.unpersisted:
            place = bisect_right(ends, (at, NEVER)) - 1
            if place < 0:
                self._later(max(0, at - self.app.started_ms), RerunKind.UNPERSIST, None, rdd)
            else:
                ended, job = ends[place]
                self._unpersists.setdefault(job, []).append((at - ended, rdd))

    def want(self, row: RerunStage, at: Millis, *, lag_ms: Millis) -> None:
        """submitStage: the stage when its parents are there, else whatever of these nobody has asked for."""
        todo = [(row, lag_ms)]
        while todo:
            one, lag = todo.pop()
            if one.phase is not StagePhase.IDLE:
                continue
            missing = [parent for parent in one.parents if not parent.there]
            if not missing:
                one.phase = StagePhase.COMING
                self._later(at + max(0, lag), RerunKind.SUBMIT, one)
                continue
            one.phase = StagePhase.WAITING
            for parent in reversed(missing):
                if parent.phase is StagePhase.IDLE and (parent.ever or self._is_due(parent)):
                    self._adopt(parent, one)
                    todo.append((parent, 0))

    def _adopt(self, row: RerunStage, child: RerunStage) -> None:
        """A stage whose job is over runs again for the job of its child, which lists it under an id of its own."""
        own, job = self._jobs.get(row.priority), self._jobs.get(child.priority)
        if row.ever and own is not None and own.ended_ms != NEVER and job is not None:
            row.priority, row.rank = child.priority, child.rank
            assert row.recorded.shuffle is not None
            listed = job.ids.get(row.recorded.shuffle, row.id)
            if listed != row.id:
                row.id, row.number = listed, 0

    def _is_due(self, row: RerunStage) -> bool:
        job = self._jobs.get(row.priority)
        return job is not None and job.started_ms != NEVER

    def submit(self, row: RerunStage, at: Millis) -> None:
        """submitMissingTasks: a new attempt of the stage, unless output of its parents was lost meanwhile."""
        if not all(parent.there for parent in row.parents):  # lost on the way
            row.phase = StagePhase.IDLE
            self.want(row, at, lag_ms=0)
            return
        if row.recorded.indeterminate and row.holder is not None and row.number and row.missing:
            self._roll_back(row, at, itself=True)
        first = row.attempts == 0
        by_cores = self._by_cores.get(row.recorded.stage)
        if first and by_cores is not None and (cores := self._scheduler.registered_cores):
            tasks = by_cores.tasks_on(cores)
            if tasks != row.recorded.tasks:
                row.cut(cut_anew(row.recorded, tasks))
                for cached in row.stores:
                    cached.holder = array("i", [NOBODY]) * tasks
                self.cut_anew += 1
        recorded = row.recorded
        row.phase = StagePhase.RUNNING
        row.submitted_ms = min(row.submitted_ms, at)
        parts: list[int] | None = None
        if not first or row.missing != recorded.tasks:
            parts = [part for part, body in enumerate(recorded.body_ms) if body >= 0 and not row.done[part]]
        pool = self._pool_of(row)
        attempt = TaskSet(row, row.number, parts, pool)
        row.attempts += 1
        row.number += 1
        row.attempt = attempt
        tasks = recorded.tasks if first else attempt.total
        if first and (recorded.failures or (recorded.copies and self._plan.speculation)):
            # Tasks are named by partition; where some never succeeded the attempt counts without them.
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
        if row.reads and not self._scheduler.holds_all(row):
            attempt.simple = False
        dead = self.output.dead
        if dead and any(not dead.isdisjoint(parent.on) for parent in row.parents):
            tear(attempt)
        self._scheduler.say(StageSubmitted(at, row.id, attempt.number, tasks, row.profile))
        self._scheduler.waiting[row.profile] = self._scheduler.waiting.get(row.profile, 0) + attempt.total
        self._scheduler.running.setdefault(row.profile, 0)
        if not first:
            self._scheduler.tasks_again += attempt.total
        if attempt.total:
            self._later(at + max(0, recorded.launch_lag_ms if first else 0), RerunKind.READY, attempt)
        else:
            # No task of it ended well in the log: it takes the time that it took there. Or nothing is left to do.
            self._later(
                at + (max(0, recorded.completed_ms - recorded.submitted_ms) if first else 0), RerunKind.COMPLETE, row
            )
        self._scheduler.note_phase(at)

    def _pool_of(self, row: RerunStage) -> Pool:
        job = self._jobs.get(row.priority)
        name = (job.recorded.pool or "default") if self._plan.fair and job is not None else ""
        pool = self._scheduler.pools.get(name)
        if pool is None:
            pool = self._scheduler.pools[name] = Pool(name, self._plan.pools.get(name, EQUAL))
        return pool

    def all_there(self, row: RerunStage, at: Millis) -> None:
        """All of its partitions are there: the stage completes a moment later."""
        self._later(at + max(0, row.recorded.finish_lag_ms), RerunKind.COMPLETE, row)

    def complete(self, row: RerunStage, at: Millis) -> None:
        """markStageAsFinished: the stages that read its output follow, and perhaps its job ends."""
        attempt = row.attempt
        if attempt is None or row.phase is not StagePhase.RUNNING:
            return
        if row.missing and (attempt.running or attempt.waiting):
            return  # lost while the driver thought about it, and on its way again
        self.retire(attempt)
        if not attempt.over:
            attempt.over = True
            self._scheduler.say(StageCompleted(at, row.id, attempt.number))
        row.phase = StagePhase.IDLE
        if row.missing:  # lost while the driver thought about it
            self.want(row, at, lag_ms=0)
            return
        row.ever = True
        row.completed_ms = at
        row.failed.clear()
        if row.holder is None and row.attempts > 1:
            self._scheduler.kill(row, at)
            self._scheduler.offer(at)
        for child in row.children:
            if child.phase is StagePhase.WAITING:
                child.phase = StagePhase.IDLE
                self.want(child, at, lag_ms=0 if child.attempts else child.recorded.submit_lag_ms)
        job = self._jobs.get(row.priority)
        if job is not None and row.recorded.stage in job.left:
            job.left.discard(row.recorded.stage)
            if not job.left and job.started_ms != NEVER:
                self._finish_job(job, at)
        self._scheduler.note_phase(at)

    def retire(self, attempt: TaskSet) -> None:
        """A task set gives out nothing more."""
        if not attempt.zombie:
            self._scheduler.waiting[attempt.profile] -= attempt.waiting
            attempt.zombie = True
        self._scheduler.unqueue(attempt)

    def done_by_others(self, row: RerunStage, at: Millis) -> None:
        """The last partition of a result stage was computed by an attempt that had failed: nobody waits for another one."""
        if row.phase in (StagePhase.FAILED, StagePhase.WAITING):
            row.phase = StagePhase.RUNNING
            self.all_there(row, at)

    # what fails

    def fetch_failed(self, run: TaskSet, dead: frozenset[int], at: Millis) -> None:
        """A task gave up fetching; ``dead``: the executors that did not answer and that the driver took for alive."""
        row, retries = run.stage, self._plan.retries
        if run.barrier:
            self.barrier_failed(run, at)
        else:
            self.retire(run)
        if unanswered := dead & self.output.dead:  # what else it holds is unregistered with what was asked for
            self.output.lose(self._scheduler.executors[min(unanswered)], at, repeats=False)
        lost = [parent for parent in row.parents if parent.missing]
        for parent in lost:
            if parent.recorded.barrier:
                self.output.unregister(parent, range(parent.recorded.tasks))
        if run is not row.attempt or run.barrier:
            return
        if not (retries.spares_decommissioned and lost and all(parent.spares for parent in lost)):
            row.failed.add(row.attempts)
        self._fail(row, run, at, "failed to fetch what its parents wrote")
        for parent in lost:
            if parent.recorded.indeterminate and self.aborted is None:
                self._roll_back(parent, at, itself=False)

    def barrier_failed(self, run: TaskSet, at: Millis) -> None:
        """A task of a barrier stage failed, or its executor did: all of its tasks begin anew."""
        row = run.stage
        if run is not row.attempt or run.over:
            return
        self.retire(run)
        self._scheduler.kill(row, at)
        if row.holder is not None:
            self.output.unregister(row, range(row.recorded.tasks))
        elif any(row.done):
            self.abort(f"stage {row.id}, a barrier stage with results, failed, and Spark gives up then")
        row.failed.add(row.attempts)
        self._fail(row, run, at, "failed")

    def _roll_back(self, row: RerunStage, at: Millis, *, itself: bool) -> None:
        """rollbackSucceedingStages: what was made from the output of an indeterminate stage comes to nothing, and, if
        ``itself``, so does what is left of that output."""
        succeeding = {row: None}
        for one in (todo := [row]):
            todo.extend(child for child in one.children if child not in succeeding)
            succeeding.update(dict.fromkeys(one.children))
        stages = [one for one in succeeding if self._is_under_way(one) and (itself or one is not row)]
        for one in stages:
            if one.holder is None and (any(one.done) or one.phase is StagePhase.RUNNING):
                self.abort(
                    f"stage {one.id} has results that were made from what stage {row.id} wrote before it was lost, which may"
                    " come out otherwise this time (DeterministicLevel INDETERMINATE), and Spark gives up then"
                )
                return
        for one in sorted(stages, key=lambda one: one.phase is not StagePhase.RUNNING):
            attempt = one.attempt
            if not one.number or attempt is None:
                continue
            if one.phase is StagePhase.RUNNING:
                self.retire(attempt)
                self._scheduler.kill(one, at)
                one.failed.add(one.attempts)
                self._fail(one, attempt, at, f"was rolled back with stage {row.id}")
            for run in self._scheduler.slot_run:
                if run is not None and run.stage is one:
                    run.stale, run.simple = True, False
            if one.holder is not None:
                self.output.unregister_all(one)
        self._scheduler.offer(at)

    def _is_under_way(self, row: RerunStage) -> bool:
        """Whether the stage belongs to a job that has begun, and has not come to its results."""
        job = self._jobs.get(row.priority)
        results = row.holder is None and not row.missing
        return job is not None and job.started_ms != NEVER and job.ended_ms == NEVER and not results

    def _fail(self, row: RerunStage, run: TaskSet, at: Millis, how: str) -> None:
        """The attempt of a stage is over; another one follows."""
        most = self._plan.retries.stage_attempts_max
        if len(row.failed) >= most:
            times = "once" if most == 1 else f"{most} times in a row"
            self.abort(
                f"stage {row.id} {how} {times}, and Spark gives up then (spark.stage.maxConsecutiveAttempts={most})"
            )
        if row.phase is StagePhase.RUNNING and not run.over:
            run.over = True
            self._scheduler.say(StageCompleted(at, row.id, run.number))
            row.phase = StagePhase.FAILED
            self._later(at + RESUBMIT_MS, RerunKind.RESUBMIT, row)

    def count_failure(self, run: TaskSet, index: int) -> None:
        """TaskSetManager.handleFailedTask: one failure more of a task that may not have too many."""
        if run.tries is None:
            run.tries = {}
        run.tries[index] = run.tries.get(index, 0) + 1
        most = self._plan.retries.task_failures_max
        if run.tries[index] >= most:
            times = "once" if most == 1 else f"{most} times"
            self.abort(
                f"a task of stage {run.key[1]} failed {times}, and Spark gives up then (spark.task.maxFailures={most})"
            )

    def abort(self, why: str) -> None:
        """abortStage: a job fails, and with it the application."""
        if self.aborted is None:
            self.aborted = why
