"""TaskSetManager: what happens to a task set when its tasks end, well or not.

A partition counts once, whoever computed it: the latest attempt of its stage or an earlier one, a zombie. The last to
compute it holds it (MapOutputTracker.registerMapOutput). A task that failed waits again, unless its partition is there by
now; a failure of a task of a barrier stage ends the attempt.
"""

from __future__ import annotations

from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome
from podtide.domain.scheduler.dag_scheduler import DagScheduler
from podtide.domain.scheduler.rows import ExecutorSlots, StagePhase, TaskSet
from podtide.domain.scheduler.task_scheduler import TaskScheduler


class TaskEnds(TaskScheduler):
    """Tasks under way. ``dag``: the stages that they are of."""

    dag: DagScheduler

    def computed(self, run: TaskSet, index: int, executor: ExecutorSlots) -> bool:
        """handleSuccessfulTask: a task ended well; returns whether its partition was not there before."""
        part, row = run.part(index), run.stage
        if run.tries:
            run.tries.pop(index, None)
        first = not run.done[part]
        if run.holder is not None:
            run.holder[part] = executor.row
            row.on.add(executor.row)
        if first:
            run.done[part] = 1
            row.missing -= 1
            latest = row.attempt
            if latest is not None and latest is not run and not latest.zombie:
                self.computed_elsewhere(latest, part)
        return first

    def look_at_stage(self, run: TaskSet, at: Millis) -> None:
        """A task of a stage is over: perhaps the stage is, too.

        An attempt that has nothing left to do is over, even if parts that are none of its own were lost meanwhile: then the
        stage is submitted once more (DAGScheduler.processShuffleMapStageCompletion).
        """
        row, latest = run.stage, run.stage.attempt
        over = latest is not None and not latest.zombie and not latest.running and not latest.waiting
        if row.phase is StagePhase.RUNNING and (over or not row.missing):
            self.dag.all_there(row, at)
        elif not row.missing and row.holder is None:
            self.dag.done_by_others(row, at)

    def try_again(self, run: TaskSet, index: int, at: Millis, *, counts: bool) -> None:
        """A task of a live task set failed, or its executor did. ``counts``: against the failures that it may have."""
        if run.barrier:
            self.dag.barrier_failed(run, at)
            return
        if counts:
            self.dag.count_failure(run, index, at)
        if run.zombie:
            return
        if run.done[run.part(index)]:
            self.look_at_stage(run, at)
        else:
            self.give_back(run, index)

    def _lose_task(self, slot: int, executor: ExecutorSlots, at: Millis, *, counts: bool) -> None:
        """A task ends with its executor."""
        run, index = self.ends_in_vain(slot, at), self.slot_index[slot]
        copy = self.copy_ends(slot)
        self.slot_end[slot] = -1
        self.slot_run[slot] = None
        self.fetching.pop(slot, None)
        executor.running -= 1
        if not executor.running:
            self.rests(executor, at)
        self.say(TaskEnd(at, run.key[1], run.number, run.told(index), executor.id, copy, TaskOutcome.FAILED))
        self.tasks_again += 1
        if not run.zombie and not copy:
            self.try_again(run, index, at, counts=counts)
