"""From events to an application: what happened on the executors that were there is turned into what there is to do.

``LogReading`` is told every event of a log in the log's order and keeps, for each stage and executor, what the records of
``recorded`` need; ``application`` puts them together. Nothing is kept of a task but its length.

Rules that no event states:

- *Job of a stage*: the active job with the lowest id that lists it, as in Spark's scheduler; stages that no job lists (a log
  that begins in the middle) form jobs of their own, with negative ids.
- *Shuffles*: ``recorded.shuffles`` says which stages write one, and which of them write the same.
- *Lags*. A stage was ready when its job had been submitted and the parents that it ran in this log were complete; what
  passed until its submission is the driver's. What passed from submission to the first launch is the driver's too, but only
  where a slot was free on an executor that was there; elsewhere the median of those stages is taken.
- *Lengths* of tasks are finish minus launch, less what a fresh executor added (``recorded.executors``).

A failure counts as the task's own only if it ended in an exception of its own: a lost executor, a failed fetch, a denied
commit or a kill say nothing of the task.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from podtide.domain.base.samples import Sample, median
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobStage, ResourceProfileAdded
from podtide.domain.recorded import executors as recorded_executors, opening_tasks
from podtide.domain.recorded.application import (
    Application,
    Fresh,
    RecordedExecutor,
    RecordedJob,
    RecordedStage,
    Unknown,
)
from podtide.domain.recorded.failures import STAGE_FAILED, FailureReading
from podtide.domain.recorded.job_dependencies import JobTraits, LoggedJob, SqlSpan, Waited, waited_for
from podtide.domain.recorded.jobs import JobWork, complete
from podtide.domain.recorded.lifetimes import STRAY_TASKS, STRAYS, Times, place
from podtide.domain.recorded.memory import MemoryReading
from podtide.domain.recorded.repeated_stages import merged
from podtide.domain.recorded.shuffles import MAP_TASK, LoggedShuffles
from podtide.domain.recorded.stages import ROOM_PER_TASK, FreshTask, LoggedStage, Room, StageWork
from podtide.domain.recorded.unknowns import HOLES

BLOCK_MANAGERS: Final = "block manager removed"
"""The reason of executors that are known by their block managers alone."""

DRIVERS: Final = frozenset({"driver", "<driver>"})
NOBODY: Final = -1
NAME_MAX: Final = 200
EXECUTOR_MAX: Final = 1_000
CPUS_MAX: Final = 1_000_000.0
SUCCESS: Final = "Success"
RESUBMITTED: Final = "Resubmitted"
OWN_FAILURE: Final = "ExceptionFailure"
KILLED: Final = frozenset({"TaskKilled", "TaskCommitDenied"})
"""What Spark ends as killed: no failure of anything."""


class Facts(NamedTuple):
    """What the log says of the application as a whole."""

    id: str
    name: str
    spark_version: str
    started_ms: Millis
    ended_ms: Millis
    end_known: bool
    properties: Mapping[str, str]


class Nothing(NamedTuple):
    """Why there is nothing to run again."""

    why: str


class LogReading:
    """What a log has told so far. ``partitioned``: whether tasks have partition ids; ``timeless``: jobs whose events do not
    say when they were submitted; ``strays``: executors that are no part of the application's life."""

    def __init__(self) -> None:
        self.times = Times()
        self.timeless: set[int] = set()
        self.strays: frozenset[int] = frozenset()
        self.block_updates = 0
        self.driver_ready_ms: Millis | None = None
        self.profiles: dict[ProfileId, ResourceProfileAdded] = {}
        self.unpersists: list[tuple[Millis, int]] = []
        self.counts: Counter[str] = Counter()
        self.fleet = recorded_executors.Fleet()
        self.turnaround = Sample()
        self.memory = MemoryReading()
        self.failures = FailureReading()
        self.works: dict[int, StageWork] = {}
        self.executors_announced = False
        self.partitioned = False
        self._jobs: dict[int, JobWork] = {}
        self._active: set[int] = set()
        self._listing: dict[int, list[int]] = {}
        self._infos: dict[int, LoggedStage] = {}
        self._executions: dict[int, SqlSpan] = {}
        self._shuffles = LoggedShuffles()
        self._written: dict[int, int] = {}  # the shuffle of each map stage
        self._room = Room()
        self._holders: dict[int, array[int]] = {}  # of a cached RDD: the executor (its life) that holds each partition
        self._caching: dict[int, int] = {}  # the stage that computed it first

    # tasks: called for nearly every line of a log

    def task_started(
        self, stage: int, attempt: int, index: int, executor: str, launch: Millis, speculative: bool
    ) -> None:
        """A task was launched."""
        life = self.fleet.current.get(executor) or self.fleet.implied(executor, launch)
        work = self.works.get(stage) or self._unheard(stage, attempt, launch)
        current = work.last if work.last.number == attempt else work.attempt(attempt, launch)
        free_since = life.launched(stage, attempt, index, launch)
        if current.submitted <= free_since < recorded_executors.SLOT_TAKEN:
            self.turnaround.add(launch - free_since)
        if current.first_launch < 0:
            current.first_launch = launch
            current.slot_free = life.added <= current.submitted >= free_since
        if speculative:
            self.counts["speculative copies"] += 1
            work.copy_began(index, launch)

    def task_ended(
        self, stage: int, attempt: int, index: int, partition: int, executor: str, launch: Millis, finish: Millis,
        speculative: bool, reason: str, run: Millis, kind: str,
    ) -> StageWork | None:  # fmt: skip
        """A task ended. Returns its stage if it succeeded, for the first time: then its metrics count.

        ``run``: its executor run time, -1 if that is not logged; ``partition``: -1 likewise; ``kind``: Task Type.
        """
        work = self.works.get(stage) or self._unheard(stage, attempt, launch)
        if reason == RESUBMITTED:  # of a task that had ended: its output was lost, and it will run again
            self.counts["resubmitted"] += 1
            return None
        life = self.fleet.current.get(executor) or self.fleet.implied(executor, launch)
        if finish < launch or launch < 0:  # no times: the run time is all there is
            launch = max(launch, finish - max(run, 0), 0)
            finish = launch + max(run, 0)
        life.finished(launch, finish, self.turnaround)
        self._room.left += ROOM_PER_TASK
        current = work.last if work.last.number == attempt else work.attempt(attempt, launch)
        if work.maps is None and kind:
            work.maps = kind == MAP_TASK
            if work.maps and stage in self._shuffles.unnamed:
                self._written.update((stage, shuffle) for _, shuffle in self._shuffles.map_task_ended(stage))
            self.partitioned |= partition >= 0
        place = index if partition == index and attempt == work.base else work.place(current, index, partition)
        length = finish - launch
        copied = not speculative and index in work.open_copies
        counted = None
        if reason == SUCCESS:
            if finish > current.last_end:
                current.last_end = finish
            if work.success(place, length):
                counted = work
                if work.seen.stores:
                    self._stored(work, place, life)
                fresh = bool(life.fresh) and (stage, attempt, index) in life.fresh
                if fresh:
                    work.fresh.append(FreshTask(life.number, place, length, run))
                elif not speculative:
                    work.typical.add(length, run)
                if not speculative:
                    work.succeeded_on(life.number, place, launch, finish, run, fresh=fresh)
                if speculative and index in work.open_copies:
                    work.won[index] = finish
        elif reason == OWN_FAILURE:
            self.counts["failed"] += 1
            work.fail(place, length)
        else:
            self.counts["taken away"] += 1  # killed, denied, or lost with its executor or another's output
            self.counts["killed"] += reason in KILLED
        if copied:
            work.copied_ended(index, launch)
        if life.fresh:
            life.fresh.discard((stage, attempt, index))
        return counted

    def _stored(self, work: StageWork, place: int, life: recorded_executors.ExecutorRecord) -> None:
        """A task of a stage with cached RDDs ended well: it has computed its partition of each that nobody holds."""
        if place >= len(work.body):
            return
        for rdd in work.seen.stores:
            holders = self._holders.setdefault(rdd, array("i"))
            if place >= len(holders):
                holders.extend(array("i", [NOBODY]) * (len(work.body) - len(holders)))
            holder = holders[place]
            if holder != NOBODY and self.fleet.lives[holder].removed is None:
                continue
            if holder == NOBODY:
                self._caching.setdefault(rdd, work.seen.stage)
            else:
                work.recached.setdefault(self._caching[rdd], array("q")).append(place)
                self.counts["cached again"] += 1
            holders[place] = life.number

    def _without_caching(self, works: Sequence[StageWork]) -> None:
        """Take out of tasks what it took to compute lost cached partitions again: what it had taken the first time.

        What is left is no more than what tasks took whose partitions were there: some asked an executor in vain before that,
        which had been killed and was not removed yet (RetryingBlockTransferor, spark.shuffle.io.retryWait).
        """
        for work in works:
            for stage, tasks in work.recached.items():
                first = self.works.get(stage)
                if first is None or first is work:
                    continue
                again = frozenset(tasks)
                others = [length for place, length in enumerate(work.body) if length >= 0 and place not in again]
                most = median(others) if len(others) >= recorded_executors.ENOUGH else None
                for task in tasks:
                    left = max(0, work.length(task) - max(0, first.length(task)))
                    work.lengthen(task, left if most is None else min(left, most))

    @staticmethod
    def task_metered(
        work: StageWork, run: Millis, gc: Millis, read: int, shuffle_read: int, shuffle_written: int
    ) -> None:
        """The metrics of a task that counts."""
        if run > 0:
            work.run_ms += run
        work.gc_ms += gc
        work.read_bytes += read
        work.shuffle_read_bytes += shuffle_read
        work.shuffle_write_bytes += shuffle_written

    # stages and jobs

    def stage_submitted(self, seen: LoggedStage, at: Millis) -> None:
        """A stage attempt was submitted."""
        seen = _clipped(seen)
        work = self.works.get(seen.stage)
        if work is None:
            self.works[seen.stage] = StageWork(seen, at, self._job_of(seen.stage), self._room)
        else:
            work.submit(seen, at)
        self.counts["attempts"] += 1

    def stage_completed(self, seen: LoggedStage, submitted: Millis | None, at: Millis, failure: str | None) -> None:
        """A stage attempt was completed; ``failure``: why it failed, if it did. Logs before 2.3 say only here when it had
        been submitted."""
        seen = _clipped(seen)
        work = self.works.get(seen.stage)
        if work is None:
            began = at if submitted is None else submitted
            work = self.works[seen.stage] = StageWork(seen, began, self._job_of(seen.stage), self._room)
        current = work.attempts.get(seen.attempt) or work.attempt(seen.attempt, at)
        if submitted is not None and 0 <= submitted <= at:
            current.submitted = submitted
        if seen.attempt == work.base:
            work.seen = seen
        current.completed = at
        work.begun = {}
        current.failed = failure is not None
        if failure is not None:
            self.counts["failed attempts"] += 1
            self.failures.ended(seen.stage, STAGE_FAILED, failure)

    def job_started(
        self, job: int, at: Millis, stages: Sequence[LoggedStage], traits: JobTraits, ids: Sequence[int] = ()
    ) -> None:
        """A job was submitted. ``ids``: its stages, where that is all that is said of them."""
        listed = tuple(ids) or tuple(seen.stage for seen in stages)
        self._jobs.setdefault(job, JobWork(job, at, traits, listed))
        self._active.add(job)
        needs = self._shuffles.job_started(job, [seen.listed for seen in stages], traits.execution)
        self._written.update((need.stage, need.shuffle) for need in needs if need.shuffle is not None)
        for seen in stages:
            self._infos[seen.stage] = _clipped(seen)._replace(readers=())
        for stage in listed:
            self._listing.setdefault(stage, []).append(job)

    def job_ended(self, job: int, at: Millis, *, succeeded: bool) -> None:
        """A job ended."""
        self._active.discard(job)
        self._shuffles.job_ended(job)
        work = self._jobs.get(job)
        if work is not None and work.ended is None:
            work.ended = max(at, work.submitted)
            work.succeeded = succeeded

    def _job_of(self, stage: int) -> int | None:
        listing = self._listing.get(stage, ())
        return min((job for job in listing if job in self._active), default=min(listing, default=None))

    def _unheard(self, stage: int, attempt: int, at: Millis) -> StageWork:
        """A stage whose submission the log does not have, or not yet."""
        seen = self._infos.get(stage, LoggedStage(stage, attempt, 0))._replace(attempt=attempt)
        work = self.works[stage] = StageWork(seen, at, self._job_of(stage), self._room)
        return work

    # executors, and the application

    def executor_added(
        self, executor: str, at: Millis, host: str, cores: int, profile: int, requested: Millis | None
    ) -> None:
        """An executor registered."""
        self.executors_announced = True
        self.fleet.add(executor, at, host[:NAME_MAX], cores, profile).requested = requested

    def executor_removed(self, executor: str, at: Millis, reason: str) -> None:
        """An executor was removed. Block managers stand for executors where these are not logged."""
        if reason != BLOCK_MANAGERS or not (self.executors_announced or executor in DRIVERS):
            self.fleet.remove(executor, at, reason)

    def block_manager_added(self, executor: str, at: Millis, host: str) -> None:
        """A block manager registered: the driver's, or, in logs before 1.3, all that is said of an executor."""
        if executor in DRIVERS:
            if self.driver_ready_ms is None:
                self.driver_ready_ms = at
        elif executor and not self.executors_announced:
            self.fleet.add(executor[:EXECUTOR_MAX], at, host[:NAME_MAX], 0, 0).implied = True

    def profile_added(self, profile: ResourceProfileAdded) -> None:
        """A resource profile was defined."""
        self.profiles.setdefault(profile.profile, profile)
        cpus = dict(profile.task).get("cpus")
        if cpus is not None and cpus > 0:
            self.fleet.profile_cpus[profile.profile] = cpus

    def environment(self, cores: str | None, task_cpus: str | None) -> None:
        """spark.executor.cores and spark.task.cpus, if they are set."""
        cpus = _amount(task_cpus)
        if cpus is not None:
            self.fleet.task_cpus = cpus
        given = _amount(cores)
        if given is not None and not self.fleet.lives:
            self.fleet.slots_usual = max(1, min(recorded_executors.SLOTS_MAX, int(given / self.fleet.task_cpus)))

    def unpersisted(self, rdd: int, at: Millis) -> None:
        """An RDD was unpersisted."""
        self.unpersists.append((at, rdd))
        self._holders.pop(rdd, None)
        self._caching.pop(rdd, None)

    def execution_began(self, execution: int, root: int | None, at: Millis) -> None:
        """An SQL execution began; nested ones belong to their root."""
        if root is None or root == execution:
            self._executions.setdefault(execution, SqlSpan(at, None))

    def execution_ended(self, execution: int, at: Millis) -> None:
        """An SQL execution ended."""
        span = self._executions.get(execution)
        if span is not None:
            self._executions[execution] = span._replace(ended_ms=at)

    # what came of it

    def settle(self, started: Millis, ended: Millis) -> Sequence[recorded_executors.ExecutorRecord]:
        """Once all has been heard, put executors in their time (``place``); returns those that the application had."""
        self.strays = place(self.fleet.lives, started, ended)
        return self.lives

    @property
    def lives(self) -> Sequence[recorded_executors.ExecutorRecord]:
        """The executors that the application had, in the order in which they were heard of."""
        return [life for life in self.fleet.lives if life.number not in self.strays]

    @property
    def metered(self) -> bool:
        """Whether tasks have metrics."""
        return any(work.run_ms or any(run >= 0 for run in work.typical.second) for work in self.works.values())

    def nothing(self, *, compacted: bool) -> Nothing | None:
        """Why this cannot be run again, if it cannot."""
        ended = sum(life.ended for life in self.fleet.lives)
        if any(work.succeeded for work in self.works.values()):
            return None
        if ended:
            return Nothing(f"none of the {ended} tasks that ended in it succeeded: there is nothing to run again")
        if compacted:
            return Nothing("the log is compacted and no task is left in it: there is nothing to run again")
        if any(life.started for life in self.fleet.lives):
            return Nothing("no task ended in it: there is nothing to run again")
        return Nothing("no task in it: there is nothing to run again")

    def application(
        self, facts: Facts, requested: Sequence[Millis | None], unknowns: Sequence[Unknown] = ()
    ) -> Application:
        """The application, once all has been heard. ``requested``: for each of ``lives``, when it was asked for.

        There must be something to run again (``nothing``). The reading is used up.
        """
        self._leave_out(facts)
        works = sorted(self.works.values(), key=lambda work: (work.attempts[work.base].submitted, work.seen.stage))
        if len({life.host for life in self.fleet.lives if life.executor not in DRIVERS}) == 1:
            opening_tasks.take_out(works)
        extras = recorded_executors.take_out(works)
        self._without_caching(works)
        jobs, made_up = complete(self._jobs, works, self._job_of, self.timeless)
        self.counts["jobs made up"] += made_up
        parents = frozenset(parent for seen in self._infos.values() for parent in seen.parents)
        parents |= frozenset(parent for work in works for parent in work.seen.parents)
        repeated = merged(works, lambda work: self._shuffle_written(work, parents))
        self.counts["repeated stages"] = len(repeated)
        stages = self._stages(works, jobs, parents, repeated)
        waits = waited_for(
            (LoggedJob(job.job, job.submitted, job.ended, job.traits) for job in jobs.values()),
            self._executions,
            facts.started_ms,
        )
        worked = max((job.ended for job in jobs.values() if job.ended is not None), default=facts.ended_ms)
        executors = [
            life.record(worked, facts.ended_ms, at, self.fleet.task_cpus)
            for life, at in zip(self.lives, requested, strict=True)
        ]
        profiles = recorded_executors.all_profiles(
            self.profiles, (stage.profile for stage in stages), executors, facts.started_ms
        )
        self.counts[recorded_executors.UNANNOUNCED] = len(profiles) - len(self.profiles)
        gap = median(self.turnaround.values) if self.turnaround.values else 0
        known = {work.seen.stage: (work.seen.name, work.seen.tasks) for work in works}
        return Application(
            facts.id, facts.name, facts.spark_version, facts.started_ms, facts.ended_ms, facts.end_known,
            facts.properties, self._jobs_done(jobs, stages, waits, repeated), tuple(stages),
            tuple(sorted(executors, key=lambda one: (one.added_ms, one.executor))), profiles,
            self.driver_ready_ms, max(0, gap), self._fresh(extras), tuple(self.unpersists), tuple(unknowns),
            self._totals(works, executors), self.memory.evidence(), self.failures.evidence(known),
        )  # fmt: skip

    def _leave_out(self, facts: Facts) -> None:
        """Stages of no job whose every claim lies outside of the application's time are no part of it."""
        for stage, work in list(self.works.items()):
            first = work.attempts[work.base]
            if self._job_of(stage) is None and not facts.started_ms <= first.submitted <= facts.ended_ms:
                del self.works[stage]
                self.counts[STRAY_TASKS] += work.succeeded

    def _stages(
        self,
        works: Sequence[StageWork],
        jobs: Mapping[int, JobWork],
        parents: frozenset[int],
        repeated: Collection[int],
    ) -> list[RecordedStage]:
        """The stages, by submission, without those that only repeated another."""
        lags = [
            first.first_launch - first.submitted
            for work in works
            if (first := work.attempts[work.base]).slot_free and first.first_launch >= first.submitted
        ]
        usual = median(lags) if lags else 0
        stages = []
        for work in works:
            if work.seen.stage in repeated:
                continue
            first = work.attempts[work.base]
            job = work.job if work.job is not None else 0
            ready = jobs[job].submitted
            for parent in work.seen.parents:
                before = self.works.get(parent)
                if before is not None:
                    ready = max(ready, max((t for t in before.completions() if t <= first.submitted), default=0))
            lag = first.first_launch - first.submitted if first.slot_free and first.first_launch >= 0 else usual
            submit_lag = max(0, first.submitted - ready)
            stages.append(work.stage(job, self._shuffle_written(work, parents), submit_lag, max(0, lag)))
        return stages

    def _shuffle_written(self, work: StageWork, parents: frozenset[int]) -> int | None:
        """The shuffle that a stage writes; of a stage that no job lists it is known by its RDD."""
        seen = work.seen
        if work.maps is False:
            return None
        if seen.stage in self._written or seen.shuffle is not None:
            return self._written.get(seen.stage, seen.shuffle)
        if not work.maps and seen.stage not in parents:
            return None
        return -1 - seen.stage if seen.rdd is None else seen.rdd

    def _jobs_done(
        self,
        jobs: Mapping[int, JobWork],
        stages: Sequence[RecordedStage],
        waits: Mapping[int, Waited],
        repeated: Mapping[int, Millis | None],
    ) -> tuple[RecordedJob, ...]:
        """The jobs as they are kept, by submission."""
        by_job: dict[int, list[RecordedStage]] = {}
        by_id = {stage.stage: stage for stage in stages}
        for stage in stages:
            by_job.setdefault(stage.job, []).append(stage)
        again: dict[int, list[int]] = {}
        for one in repeated:
            listing = self.works[one].job
            again.setdefault(0 if listing is None else listing, []).append(one)
        done: list[RecordedJob] = []
        for job in jobs.values():
            own = by_job.get(job.job, [])
            ends = [one.completed_ms for one in own]
            ends.extend(end for one in again.get(job.job, ()) if (end := repeated[one]) is not None)
            last = max((end for end in ends if job.ended is None or end <= job.ended), default=None)
            end_lag = 0 if last is None or job.ended is None else job.ended - last
            needs = tuple(
                JobStage(one, by_id[one].shuffle if one in by_id else self._written.get(one)) for one in job.listed
            )
            waited, traits = waits[job.job], job.traits
            pool = None if traits.pool is None else traits.pool[:NAME_MAX]
            record = RecordedJob(
                job.job, job.submitted, job.ended, job.succeeded, tuple(one.stage for one in own), needs, waited.after,
                waited.think_ms, end_lag, pool, waited.thread, traits.description[:NAME_MAX], tuple(again.get(job.job, ())),
            )  # fmt: skip
            done.append(record)
        self.counts["streamed jobs"] = sum(one.clocked for one in waits.values())
        return tuple(done)

    def _fresh(self, extras: Sequence[recorded_executors.Extra]) -> tuple[Fresh, ...]:
        lives = self.fleet.lives
        known = (extra for extra in extras if extra.life not in self.strays)
        ordered = sorted(known, key=lambda extra: (lives[extra.life].added, extra.life))
        return tuple(Fresh(ExecutorId(lives[extra.life].executor), extra.extra_ms) for extra in ordered)

    def _totals(self, works: Sequence[StageWork], executors: Sequence[RecordedExecutor]) -> dict[str, int]:
        """What was counted, for people and reports."""
        counts = self.counts
        counts["tasks started"] = sum(life.started for life in self.fleet.lives)
        counts["tasks ended"] = sum(life.ended for life in self.fleet.lives)
        counts["succeeded"] = sum(work.succeeded for work in works)
        counts["recomputed"] = sum(work.recomputed for work in works)
        counts["skipped stages"] = sum(stage not in self.works for stage in self._infos)
        counts["requests known"] = sum(one.requested_ms is not None for one in executors)
        counts["executors not announced"] = sum(life.implied for life in self.lives)
        counts[STRAYS] = len(self.strays)
        counts[HOLES] = sum(work.holes for work in works)
        counts["turnarounds"] = self.turnaround.count
        return {name: count for name, count in sorted(counts.items()) if count}


def _clipped(seen: LoggedStage) -> LoggedStage:
    return seen if len(seen.name) <= NAME_MAX else seen._replace(name=seen.name[:NAME_MAX])


def _amount(text: str | None) -> float | None:
    """A number of cores; None for what is none."""
    try:
        amount = float(text) if text is not None and len(text) < NAME_MAX else 0.0
    except ValueError:
        return None
    return amount if 0 < amount < CPUS_MAX else None
