"""The jobs of a script on Spark's DAGScheduler (``scheduler.dag_scheduler``): how they begin and end, and what follows them.

A job has a stage for everything in its lineage, ancestors first. A stage that writes a shuffle belongs to the shuffle: as
long as a job that uses it runs, the next one shares it, and for a later job it has another id; it is skipped if the output
is still there. Output is forgotten when no job of the script can read it any more.

A job that fails takes its running stages with it, unless another job needs them; their tasks are killed. The result stage
of a job that succeeded has its remaining copies killed.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Final

from podtide.domain.base.randomness import Stream, draw, split
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.fakes.driver.checks import Node
from podtide.domain.fakes.driver.plan import ScriptPlan
from podtide.domain.fakes.driver.rows import DriverJob, DriverStage, Ending
from podtide.domain.fakes.driver.script import Cached
from podtide.domain.protocol.stimuli import (
    JobEnd,
    JobStage,
    JobStart,
    ResourceProfileAdded,
    StageSubmitted,
    UnpersistRDD,
)
from podtide.domain.scheduler.dag_scheduler import DagScheduler
from podtide.domain.scheduler.rows import NOT_KNOWN, DueKind, Pool, Stage, StagePhase, TaskSet
from podtide.domain.scheduler.task_scheduler import TaskScheduler

_THINKS: Final = 2**64 - 2
"""The key of the stream that think times are drawn from."""


def of_script(row: Stage) -> DriverStage:
    """A stage of a driver."""
    assert isinstance(row, DriverStage)
    return row


class DriverDagScheduler(DagScheduler):
    """Jobs under way. ``jobs``: all that started; ``ended``: the jobs of the script, by place, of which all runs have.

    ``tally``: what happened, counted by name.
    """

    def __init__(self, plan: ScriptPlan, scheduler: TaskScheduler, seed: Stream, began: Millis) -> None:
        self._rows: dict[int, DriverStage] = {}  # by shuffle; of a result stage by ~id
        super().__init__(scheduler, self._rows)
        self._plan = plan
        self._seed = seed
        self._began = began
        self.tally: Counter[str] = Counter()
        self.jobs: dict[int, DriverJob] = {}
        self.jobs_in_all = len(plan.script.jobs)
        self.runs_in_all = sum(job.times for job in plan.script.jobs)
        self.ended: set[int] = set()
        self._shuffles: dict[str, DriverStage] = {}  # by job, run and stage of the script
        self._users: dict[str, int] = {}  # of each of these: jobs of the script that may still read it
        self._cached: dict[int, list[int]] = {}  # RDDs to unpersist with a job's end (~: a run's)
        self._announced = {DEFAULT_PROFILE}
        self._stage_numbers, self._shuffle_numbers, self._rdd_numbers = count(), count(), count()
        self._fifo = scheduler.pools[""] = Pool("")
        for place, job in enumerate(plan.script.jobs):
            if not job.after:
                self.later(began + job.start_ms, DueKind.JOB, (place, 0))

    # jobs

    def start_job(self, place: int, run: int, now: Millis) -> None:
        """The driver's program runs a job of the script: JobStart with all its stages, and the last one is submitted."""
        self._announce_profiles(place, now)
        number = len(self.jobs)
        rows: dict[Node, DriverStage] = {}
        for node in self._plan.lineages[place]:
            rows[node] = self._stage_of(node, number, place, run, rows)
        job = self.jobs[number] = DriverJob(number, place, run, now, tuple(rows.values()))
        self.scheduler.say(JobStart(now, number, tuple(JobStage(row.id, row.shuffle) for row in job.rows)))
        self.want(job.rows[-1], now)

    def _announce_profiles(self, place: int, now: Millis) -> None:
        """Profiles are known to the listeners before the first job that uses them."""
        for profile in sorted(
            {self._plan.stage(node).profile for node in self._plan.lineages[place]} - self._announced
        ):
            self._announced.add(profile)
            row = self._plan.profiles[profile]
            executor = tuple((resource, float(amount)) for resource, amount in row.executor)
            self.scheduler.say(ResourceProfileAdded(now, profile, executor, row.task))

    def _stage_of(self, node: Node, job: int, place: int, run: int, rows: dict[Node, DriverStage]) -> DriverStage:
        """The stage that a job has for a stage of the script: a new one, another running job's, or one of old."""
        plan, own = self._plan, node.job == place
        script, own_run = plan.stage(node), run if own else 0
        luck = split(split(split(self._seed, node.job), own_run), node.stage)
        if script.writes_shuffle or node != plan.lineages[node.job][-1]:
            name = f"{node.job}.{own_run}.{node.stage}"
            row = self._shuffles.get(name)
            if row is not None and row.jobs:
                row.jobs.add(job)
                return row
            if row is None:
                shuffle, number = next(self._shuffle_numbers), next(self._stage_numbers)
                row = DriverStage(number, script.profile, script.tasks, shuffle, NOT_KNOWN, script=script, luck=luck)
                self._rows[shuffle] = self._shuffles[name] = row
                self._users[name] = 1 + plan.readers.get(node, 0)
            else:
                row.id, row.number = next(self._stage_numbers), 0
                row.failed.clear()
        else:
            number = next(self._stage_numbers)
            row = DriverStage(number, script.profile, script.tasks, None, NOT_KNOWN, script=script, luck=luck)
            self._rows[~number] = row
        row.jobs.add(job)
        row.rank = job
        row.parents = tuple(sorted((rows[parent] for parent in plan.parents[node]), key=lambda one: one.id))
        for parent in row.parents:
            if row not in parent.children:
                parent.children.append(row)
        if script.cached is not None and own:
            self._cache(row, place, script.cached)
        return row

    def _cache(self, row: DriverStage, place: int, cached: Cached) -> None:
        """A stage's RDD is marked as cached; it is unpersisted with the end of a job, of a run of its own job, or never."""
        row.rdd = next(self._rdd_numbers)
        if cached.until is not None:
            until = self._plan.places[cached.until]
            self._cached.setdefault(~place if until == place else until, []).append(row.rdd)

    def _close(self, job: DriverJob, ending: Ending, now: Millis) -> None:
        """cleanupStateForJobAndIndependentStages, JobEnd, and what the script has follow."""
        job.ended, job.ending = now, ending
        for row in job.rows:
            row.jobs.discard(job.number)
            if row.jobs:
                row.rank = min(row.jobs)
                continue
            if row.attempt is not None:
                self.retire(row.attempt)
            row.attempt, row.phase, row.rdd = None, StagePhase.IDLE, None
            if row.shuffle is None:
                self._forget(~row.id)
        job.rows = ()
        self.scheduler.say(JobEnd(now, job.number))
        self._follow(job, now)

    def _follow(self, job: DriverJob, now: Millis) -> None:
        """The next run of a job, or what comes after its last one."""
        plan, place = self._plan, job.place
        script = plan.job(place)
        for stage in range(len(script.stages)):
            self._unused(f"{place}.{job.run}.{stage}", now)
        self._unpersist(~place, now)
        if job.run + 1 < script.times:
            self.later(now + self._think(place, job.run + 1), DueKind.JOB, (place, job.run + 1))
            return
        self._unpersist(place, now)
        self.ended.add(place)
        for node in plan.lineages[place]:
            if node.job != place:
                self._unused(f"{node.job}.0.{node.stage}", now)
        for follower in plan.followers[place]:
            if self.ended.issuperset(plan.before[follower]):
                at = max(now + self._think(follower, 0), self._began + plan.job(follower).start_ms)
                self.later(at, DueKind.JOB, (follower, 0))

    def _think(self, place: int, run: int) -> Millis:
        rng = split(split(split(self._seed, _THINKS), place), run)
        return draw(rng, self._plan.job(place).think)[0]

    def _unused(self, name: str, now: Millis) -> None:
        """One job less may read a shuffle. With the last one it is forgotten, and cleaned if the script says so."""
        row = self._shuffles.get(name)
        if row is None:
            return
        self._users[name] -= 1
        if not self._users[name]:
            assert row.shuffle is not None
            self._forget(row.shuffle)
            del self._shuffles[name], self._users[name]
            if self._plan.script.clean_ms is not None:
                self.later(now + self._plan.script.clean_ms, DueKind.CLEAN, None, row.shuffle)

    def _forget(self, key: int) -> None:
        """Nobody will read what a stage made any more."""
        row = self._rows.pop(key)
        for parent in row.parents:
            parent.children.remove(row)

    def _unpersist(self, place: int, now: Millis) -> None:
        for rdd in self._cached.pop(place, ()):
            self.scheduler.say(UnpersistRDD(now, rdd))

    def stop(self, now: Millis) -> None:
        """The driver ends: its jobs end nowhere, and nothing more is said."""
        for job in self.jobs.values():
            if job.ended is None:
                job.ended, job.ending = now, Ending.STOPPED
                for row in job.rows:
                    if row.attempt is not None:
                        self.retire(row.attempt)

    def name_of(self, job: DriverJob) -> str:
        """What the script calls a job."""
        return self._plan.job(job.place).name

    # what Spark's rules ask

    def is_needed(self, run: TaskSet) -> bool:
        """Whether a job under way needs what a task set computes."""
        row = of_script(run.stage)
        return bool(row.jobs) and run.key[1] == row.id

    def announce(self, attempt: TaskSet, tasks: int, at: Millis) -> None:
        """Tell the listeners of an attempt, and where its tasks would like to run."""
        row = of_script(attempt.stage)
        self.tally["stage attempts"] += 1
        data, locality = row.script.data, None
        if data is not None:
            locality = tuple(data.of(attempt.part(index)) for index in range(attempt.total))
        self.scheduler.say(StageSubmitted(at, row.id, attempt.number, tasks, row.profile, locality))

    def completed(self, row: Stage, at: Millis) -> None:
        """The jobs that this is the last stage of are done."""
        for number in sorted(of_script(row).jobs):
            job = self.jobs[number]
            if job.rows[-1] is row:
                if row.holder is None:
                    self._cancel(job, at)
                self._close(job, Ending.SUCCEEDED, at)

    def abort(self, row: Stage, why: str, at: Millis) -> None:  # noqa: ARG002 - nobody reads why
        """abortStage: the jobs that need the stage fail."""
        for number in sorted(of_script(row).jobs):
            self._cancel(self.jobs[number], at)
            self._close(self.jobs[number], Ending.FAILED, at)

    def _cancel(self, job: DriverJob, now: Millis) -> None:
        """cancelRunningIndependentStages."""
        for row in sorted(job.rows, key=lambda row: row.id):
            if len(row.jobs) == 1 and row.attempt is not None and (row.phase is StagePhase.RUNNING or row.failed):
                self.retire(row.attempt)
                self.scheduler.kill(row, now)
                self.finish(row.attempt, now)
                row.phase = StagePhase.IDLE

    def pool_of(self, row: Stage) -> Pool:  # noqa: ARG002 - there is one
        """First in, first out."""
        return self._fifo

    def is_under_way(self, row: Stage) -> bool:
        """Whether a job under way needs it."""
        return bool(of_script(row).jobs)
