"""DAGScheduler: when a stage is submitted, when it is complete, and what follows when something of it fails.

A stage is submitted when the output of all its parents is there, else these are, and an attempt computes what is missing
then. It is complete with the last of its partitions, whoever computed it; if output was lost meanwhile, it begins another
attempt, else those follow that wait for it.

A fetch that fails ends the stage attempt. Its running tasks run on, as zombies, and what they compute counts; 200 ms later
(RESUBMIT_TIMEOUT) the stage is submitted again, what it misses first. The executor's other output counts as lost, too. A
failed task of a barrier stage ends the attempt with all of its tasks and output. After so many attempts in a row, or so
many failures of one task, Spark gives up (``Retries``).

*An indeterminate stage* may come out otherwise when it is computed again. When a fetch of its output fails, and once more
when it is submitted again, then with all of its tasks, what the jobs under way made from that output is thrown away
(rollbackSucceedingStages): output is unregistered, running map stages are cancelled and follow 200 ms later, and what still
runs of failed attempts does not count. A result stage that runs or has results cannot be rolled back: Spark gives up. A
stage that repeats the one of another job under its own id is new to Spark: its first attempt rolls nothing back.

Which jobs there are is the subclass's business, and whatever takes time besides tasks: here all follows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted
from podtide.domain.scheduler.map_output import MapOutput, tear
from podtide.domain.scheduler.rows import DueKind, Pool, Stage, StagePhase, TaskSet
from podtide.domain.scheduler.task_scheduler import TaskScheduler

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""


class DagScheduler(ABC):
    """Stages under way. ``output``: what they write."""

    def __init__(self, scheduler: TaskScheduler, stages: Mapping[int, Stage]) -> None:
        self.scheduler = scheduler
        self.later = scheduler.agenda.later
        self.output = MapOutput(stages, scheduler)

    # what a subclass says

    @abstractmethod
    def pool_of(self, row: Stage) -> Pool:
        """The pool that the task sets of a stage are in."""

    @abstractmethod
    def is_under_way(self, row: Stage) -> bool:
        """Whether the stage belongs to a job that has begun, and has not come to its results."""

    @abstractmethod
    def abort(self, row: Stage, why: str, at: Millis) -> None:
        """abortStage: the jobs that need the stage fail."""

    @abstractmethod
    def completed(self, row: Stage, at: Millis) -> None:
        """All of a stage is there, and those that waited for it follow: perhaps its job ends."""

    def may_come(self, row: Stage) -> bool:  # noqa: ARG002 - a stage of a job that has begun may
        """Whether a stage may be submitted because another one misses its output."""
        return True

    def adopt(self, row: Stage, child: Stage) -> None:  # noqa: B027 - here a stage has its id
        """A stage is submitted because a child misses its output."""

    def lag(self, row: Stage) -> Millis:  # noqa: ARG002 - here nothing takes time
        """How long after its parents a stage is submitted."""
        return 0

    def come(self, row: Stage, at: Millis, lag_ms: Millis) -> None:  # noqa: ARG002 - the same
        """A stage is to be submitted: its parents are there."""
        self.submit(row, at)

    def cut(self, row: Stage) -> None:  # noqa: B027 - here it does not
        """A stage is submitted for the first time: how many tasks it is made of may depend on that moment."""

    def equip(self, attempt: TaskSet, *, first: bool) -> None:  # noqa: B027 - here nothing is
        """An attempt is made: what of its tasks is known before they start."""

    def announce(self, attempt: TaskSet, tasks: int, at: Millis) -> None:
        """Tell the listeners of an attempt."""
        row = attempt.stage
        self.scheduler.say(StageSubmitted(at, row.id, attempt.number, tasks, row.profile))

    def offer_to(self, attempt: TaskSet, at: Millis, *, first: bool) -> None:  # noqa: ARG002 - nothing takes time
        """The tasks of an attempt wait for slots."""
        self.scheduler.enqueue(attempt)

    def has_no_tasks(self, row: Stage, at: Millis, *, first: bool) -> None:  # noqa: ARG002 - the same
        """A stage was submitted that has nothing left to do."""
        self.complete(row, at)

    def all_there(self, row: Stage, at: Millis) -> None:
        """All of its partitions are there, or nothing of its attempt is left to do."""
        self.complete(row, at)

    # stages

    def want(self, row: Stage, at: Millis, *, lag_ms: Millis = 0) -> None:
        """submitStage: the stage when its parents are there, else whatever of these nobody has asked for."""
        todo = [(row, lag_ms)]
        while todo:
            one, lag = todo.pop()
            if one.phase is not StagePhase.IDLE:
                continue
            missing = [parent for parent in one.parents if not parent.there]
            if not missing:
                one.phase = StagePhase.COMING
                self.come(one, at, lag)
                continue
            one.phase = StagePhase.WAITING
            for parent in reversed(missing):
                if parent.phase is StagePhase.IDLE and self.may_come(parent):
                    self.adopt(parent, one)
                    todo.append((parent, 0))

    def submit(self, row: Stage, at: Millis) -> None:
        """submitMissingTasks: a new attempt of the stage, unless output of its parents was lost meanwhile."""
        if not all(parent.there for parent in row.parents):  # lost on the way
            row.phase = StagePhase.IDLE
            self.want(row, at)
            return
        if row.indeterminate and row.holder is not None and row.number and row.missing:
            self._roll_back(row, at, itself=True)
        first = row.attempts == 0
        if first:
            self.cut(row)
        row.phase = StagePhase.RUNNING
        row.submitted_ms = min(row.submitted_ms, at)
        parts = None if first and row.missing == row.tasks else row.absent()
        attempt = TaskSet(row, row.number, parts, self.pool_of(row))
        row.attempts += 1
        row.number += 1
        row.attempt = attempt
        self.equip(attempt, first=first)
        dead = self.output.dead
        if dead and any(not dead.isdisjoint(parent.on) for parent in row.parents):
            tear(attempt)
        self.announce(attempt, row.tasks if first else attempt.total, at)
        scheduler = self.scheduler
        scheduler.waiting[row.profile] = scheduler.waiting.get(row.profile, 0) + attempt.total
        scheduler.running.setdefault(row.profile, 0)
        if not first:
            scheduler.tasks_again += attempt.total
        if attempt.total:
            self.offer_to(attempt, at, first=first)
        else:
            self.has_no_tasks(row, at, first=first)
        scheduler.note_phase(at)

    def complete(self, row: Stage, at: Millis) -> None:
        """markStageAsFinished: the stages that read its output follow, and perhaps its job ends."""
        attempt = row.attempt
        if attempt is None or row.phase is not StagePhase.RUNNING:
            return
        if row.missing and (attempt.running or attempt.waiting):
            return  # lost while the driver thought about it, and on its way again
        self.retire(attempt)
        self.finish(attempt, at)
        row.phase = StagePhase.IDLE
        if row.missing:  # lost while the driver thought about it
            self.want(row, at)
            return
        row.ever = True
        row.completed_ms = at
        row.failed.clear()
        if row.holder is None and row.attempts > 1:
            self.scheduler.kill(row, at)
            self.scheduler.offer(at)
        for child in tuple(row.children):
            if child.phase is StagePhase.WAITING:
                child.phase = StagePhase.IDLE
                self.want(child, at, lag_ms=0 if child.attempts else self.lag(child))
        self.completed(row, at)
        self.scheduler.note_phase(at)

    def finish(self, attempt: TaskSet, at: Millis) -> None:
        """The listeners hear that an attempt is over, once."""
        if not attempt.over:
            attempt.over = True
            self.scheduler.say(StageCompleted(at, attempt.stage.id, attempt.number))

    def retire(self, attempt: TaskSet) -> None:
        """A task set gives out nothing more."""
        if not attempt.zombie:
            self.scheduler.waiting[attempt.profile] -= attempt.waiting
            attempt.zombie = True
        self.scheduler.unqueue(attempt)

    def done_by_others(self, row: Stage, at: Millis) -> None:
        """The last partition of a result stage was computed by an attempt that had failed: nobody waits for another one."""
        if row.phase in (StagePhase.FAILED, StagePhase.WAITING):
            row.phase = StagePhase.RUNNING
            self.all_there(row, at)

    # what fails

    def fetch_failed(self, run: TaskSet, dead: frozenset[int], at: Millis) -> None:
        """A task gave up fetching; ``dead``: the executors that did not answer and that the driver took for alive."""
        row, retries = run.stage, self.scheduler.rules.retries
        if run.barrier:
            self.barrier_failed(run, at)
        else:
            self.retire(run)
        if unanswered := dead & self.output.dead:  # what else it holds is unregistered with what was asked for
            self.output.lose(self.scheduler.executors[min(unanswered)], at, repeats=False)
        lost = [parent for parent in row.parents if parent.missing]
        for parent in lost:
            if parent.barrier:
                self.output.unregister(parent, range(parent.tasks))
        if run is not row.attempt or run.barrier:
            return
        if not (retries.spares_decommissioned and lost and all(parent.spares for parent in lost)):
            row.failed.add(row.attempts)
        gave_up = self._fail(row, run, at, "failed to fetch what its parents wrote")
        for parent in lost:
            if parent.indeterminate and not gave_up:
                gave_up = self._roll_back(parent, at, itself=False)

    def barrier_failed(self, run: TaskSet, at: Millis) -> None:
        """A task of a barrier stage failed, or its executor did: all of its tasks begin anew."""
        row = run.stage
        if run is not row.attempt or run.over:
            return
        self.retire(run)
        self.scheduler.kill(row, at)
        if row.holder is not None:
            self.output.unregister(row, range(row.tasks))
        elif any(row.done):
            self.abort(row, f"stage {row.id}, a barrier stage with results, failed, and Spark gives up then", at)
        row.failed.add(row.attempts)
        self._fail(row, run, at, "failed")

    def _roll_back(self, row: Stage, at: Millis, *, itself: bool) -> bool:
        """rollbackSucceedingStages: what was made from the output of an indeterminate stage comes to nothing, and, if
        ``itself``, so does what is left of that output. Returns whether Spark gave up instead."""
        succeeding = {row: None}
        for one in (todo := [row]):
            todo.extend(child for child in one.children if child not in succeeding)
            succeeding.update(dict.fromkeys(one.children))
        stages = [one for one in succeeding if self.is_under_way(one) and (itself or one is not row)]
        for one in stages:
            if one.holder is None and (any(one.done) or one.phase is StagePhase.RUNNING):
                why = (
                    f"stage {one.id} has results that were made from what stage {row.id} wrote before it was lost, which may"
                    " come out otherwise this time (DeterministicLevel INDETERMINATE), and Spark gives up then"
                )
                self.abort(one, why, at)
                return True
        gave_up = False
        for one in sorted(stages, key=lambda one: one.phase is not StagePhase.RUNNING):
            attempt = one.attempt
            if not one.number or attempt is None:
                continue
            if one.phase is StagePhase.RUNNING:
                self.retire(attempt)
                self.scheduler.kill(one, at)
                one.failed.add(one.attempts)
                gave_up |= self._fail(one, attempt, at, f"was rolled back with stage {row.id}")
            for run in self.scheduler.slot_run:
                if run is not None and run.stage is one:
                    run.stale, run.simple = True, False
            if one.holder is not None:
                self.output.unregister_all(one)
        self.scheduler.offer(at)
        return gave_up

    def _fail(self, row: Stage, run: TaskSet, at: Millis, how: str) -> bool:
        """The attempt of a stage is over; another one follows, unless Spark gives up, which is what is returned."""
        if row.phase is StagePhase.RUNNING and not run.over:
            self.finish(run, at)
            row.phase = StagePhase.FAILED
            self.later(at + RESUBMIT_MS, DueKind.RESUBMIT, row)
        most = self.scheduler.rules.retries.stage_attempts_max
        if len(row.failed) < most:
            return False
        times = "once" if most == 1 else f"{most} times in a row"
        self.abort(
            row,
            f"stage {row.id} {how} {times}, and Spark gives up then (spark.stage.maxConsecutiveAttempts={most})",
            at,
        )
        return True

    def resubmit(self, row: Stage, at: Millis) -> None:
        """resubmitFailedStages: a stage whose attempt failed is submitted again."""
        if row.phase is StagePhase.FAILED:
            row.phase = StagePhase.IDLE
            self.want(row, at)

    def count_failure(self, run: TaskSet, index: int, at: Millis) -> None:
        """TaskSetManager.handleFailedTask: one failure more of a task that may not have too many."""
        if run.tries is None:
            run.tries = {}
        run.tries[index] = run.tries.get(index, 0) + 1
        most = self.scheduler.rules.retries.task_failures_max
        if run.tries[index] >= most:
            times = "once" if most == 1 else f"{most} times"
            why = (
                f"a task of stage {run.key[1]} failed {times}, and Spark gives up then (spark.task.maxFailures={most})"
            )
            self.abort(run.stage, why, at)
