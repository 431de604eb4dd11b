"""What becomes of jobs and stages as tasks end and executors go: a small DAGScheduler.

A job is its last stage and all that this one is made of; a stage whose output is there is skipped. Rules, as Spark 4.3.0 has
them:

- A stage is submitted when the outputs of all its parents are there, else its parents are, lowest id first. An attempt
  computes the partitions that are missing when it is submitted.
- With a map stage's last awaited task it is complete; if parts of its output were lost meanwhile, it begins another attempt,
  else the stages that wait for it are submitted, the oldest job's first.
- A failed fetch ends the stage attempt; its other tasks run on as zombies, and what they compute still counts.
  ``RESUBMIT_MS`` later the stage is submitted again, its parents first. After ``stage_attempts_max`` attempts in a row that
  ended so, the jobs that need the stage fail.
- A job that fails takes its running stages with it, unless another job needs them; their tasks are killed. The result stage
  of a job that succeeded has its remaining copies killed.

Listener events come in the order in which Spark posts them: the last TaskEnd, StageCompleted, then StageSubmitted of the
next stage, or JobEnd.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from pyrsistent import pmap

from podtide.domain.base.units import Millis
from podtide.domain.fakes.driver import task_scheduler as tasks
from podtide.domain.fakes.driver.jobs import close_job, open_job
from podtide.domain.fakes.driver.rows import (
    AttemptRow,
    DagPhase,
    DriverAgenda,
    DriverExecutorRow,
    DriverStageRow,
    Ending,
    Fate,
    TaskRow,
    attempt_key,
)
from podtide.domain.fakes.driver.script import Storage
from podtide.domain.fakes.driver.tables import DriverTables
from podtide.domain.protocol.stimuli import BlockUpdated, RddBlock, StageCompleted, StageSubmitted

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""

# stages


def start_job(tables: DriverTables, place: int, run: int, now: Millis) -> None:
    """The driver's program runs a job of the script."""
    submit(tables, open_job(tables, place, run, now), now)


def submit(tables: DriverTables, number: int, now: Millis) -> None:
    """submitStage: the stage if its parents are there, else these first."""
    todo = [number]
    while todo:
        one = todo.pop()
        row = tables.stages[one]
        if row.phase is not DagPhase.IDLE:
            continue
        missing = [parent for parent in row.parents if tables.missing[tables.stages[parent].array]]
        if missing:
            tables.stages.put(one, row._replace(phase=DagPhase.WAITING))
            todo.extend(reversed(missing))
        else:
            _submit_missing_tasks(tables, one, row, now)


def _submit_missing_tasks(tables: DriverTables, number: int, row: DriverStageRow, now: Millis) -> None:
    script, attempt = tables.plan.stage(row), row.attempt + 1
    tables.stages.put(number, row._replace(phase=DagPhase.RUNNING, attempt=attempt))
    count = tables.missing[row.array]
    tables.left.put(number, count)
    tables.count("stage attempts")
    partitions = None
    if count < script.tasks:
        partitions = tuple(at for at, holder in enumerate(tables.outputs[row.array]) if holder is None)
    locality = None
    if script.data is not None:
        locality = tuple(map(script.data.of, range(count) if partitions is None else partitions))
    tables.events.append(StageSubmitted(now, number, attempt, count, script.profile, locality))
    if count:
        tasks.submit(tables, AttemptRow(min(row.jobs), number, attempt, count, script.profile, partitions))
    else:
        _complete(tables, number, now)


def _complete(tables: DriverTables, number: int, now: Millis) -> None:
    """A map stage has nothing left to wait for."""
    row = tables.stages[number]
    _finish(tables, number, row, now)
    row = tables.stages[number]
    tables.stages.put(number, row._replace(failed=frozenset()))
    if tables.missing[row.array]:
        submit(tables, number, now)
        return
    for job in sorted(row.jobs):
        if tables.jobs[job].stages[-1] == number:
            close_job(tables, job, Ending.SUCCEEDED, now)
    waiting = []
    for one in {one for job in row.jobs for one in tables.jobs[job].stages}:
        child = tables.stages.get(one)
        if child is not None and child.phase is DagPhase.WAITING and number in child.parents:
            waiting.append((min(child.jobs), one))
            tables.stages.put(one, child._replace(phase=DagPhase.IDLE))
    for _, one in sorted(waiting):
        submit(tables, one, now)


def _finish(
    tables: DriverTables, number: int, row: DriverStageRow, now: Millis, phase: DagPhase = DagPhase.IDLE
) -> None:
    """markStageAsFinished: the latest attempt is over."""
    tables.stages.put(number, row._replace(phase=phase))
    tasks.retire(tables, attempt_key(number, row.attempt))
    tables.events.append(StageCompleted(now, number, row.attempt))


def resubmit(tables: DriverTables, now: Millis) -> None:
    """resubmitFailedStages: all that failed are submitted again, the oldest job's first."""
    failed = sorted((min(row.jobs), one) for one, row in tables.stages.items() if row.phase is DagPhase.FAILED)
    for _, one in failed:
        tables.stages.put(one, tables.stages[one]._replace(phase=DagPhase.IDLE))
    for _, one in failed:
        if one in tables.stages:
            submit(tables, one, now)


def _abort(tables: DriverTables, number: int, now: Millis) -> None:
    """abortStage: the jobs that need the stage fail."""
    for job in sorted(tables.stages[number].jobs):
        _cancel(tables, job, now)
        close_job(tables, job, Ending.FAILED, now)


def _cancel(tables: DriverTables, job: int, now: Millis) -> None:
    """cancelRunningIndependentStages."""
    for number in sorted(tables.jobs[job].stages):
        row = tables.stages[number]
        if len(row.jobs) == 1 and (row.phase is DagPhase.RUNNING or row.failed):
            for attempt in range(row.attempt + 1):
                tasks.kill(tables, attempt_key(number, attempt), now)
            _finish(tables, number, row, now)


# tasks


def task_over(tables: DriverTables, task: TaskRow, executor: DriverExecutorRow, now: Millis) -> None:
    """handleTaskCompletion: a task ended by itself, or was killed. Its slot has been released."""
    attempt = tasks.leave_set(tables, task)
    if task.fate is Fate.SUCCESS:
        _succeeded(tables, task, attempt, executor, now)
        return
    tasks.say_end(tables, task, executor, now)
    tables.count("wasted_ms", now - task.began)
    match task.fate:
        case Fate.FAILURE:
            tables.count("tasks.failed")
            try_again(tables, task, attempt, now, counts=True)
        case Fate.FETCH_FAILURE:
            tables.count("tasks.fetch failed")
            _fetch_failed(tables, task, now)
        case _:
            tables.count("tasks.killed")


def _succeeded(
    tables: DriverTables, task: TaskRow, attempt: AttemptRow, executor: DriverExecutorRow, now: Millis
) -> None:
    number, partition = task.stage, tasks.partition_of(attempt, task.task_index)
    row = tables.stages.get(number)
    rdd = tables.rdds.get(number)
    if row is not None and rdd is not None:
        cached = tables.plan.stage(row).cached
        on_disk = cached is not None and cached.storage is Storage.DISK
        tables.events.append(BlockUpdated(now, executor.executor, RddBlock(rdd, partition), True, on_disk))
    tasks.say_end(tables, task, executor, now)
    tables.count("tasks.succeeded")
    if row is None:  # its job is over
        tables.count("wasted_ms", now - task.began)
        return
    first = tables.outputs[row.array][partition] is None
    tries = tables.again.get(row.array)
    repeated = not first or (tries is not None and tries.get(partition, 0) & 1)
    tables.count("wasted_ms" if repeated else "useful_ms", now - task.began)
    key = attempt_key(number, row.attempt)
    latest = tables.attempts.get(key)
    awaited = first and latest is not None and _awaits(latest, partition)
    if task.attempt < row.attempt and latest is not None and first and not latest.zombie:
        index = index_of(latest, partition)
        if index is not None:
            tasks.computed_elsewhere(tables, key, latest, index)
    elif latest is not None and task.attempt == row.attempt:
        _clear(tables, key, latest, task.task_index)
    if first or row.array >= 0:
        tables.hold(row.array, partition, tables.holder(task))
    if awaited:
        tables.left.put(number, tables.left[number] - 1)
    if row.array < 0:
        if first and not tables.missing[row.array]:
            _succeed(tables, number, now)
    elif row.phase is DagPhase.RUNNING and not tables.left[number]:
        _complete(tables, number, now)


def index_of(attempt: AttemptRow, partition: int) -> int | None:
    """A partition's place in a task set."""
    if attempt.partitions is None:
        return partition
    place = bisect_left(attempt.partitions, partition)
    return place if place < attempt.tasks and attempt.partitions[place] == partition else None


def _awaits(attempt: AttemptRow, partition: int) -> bool:
    """Whether the stage waits for a partition that nobody holds. What another attempt's task computed, and was lost
    again, it does not wait for: it finds out when it is complete."""
    index = index_of(attempt, partition)
    return index is not None and index not in attempt.elsewhere


def _clear(tables: DriverTables, key: int, attempt: AttemptRow, index: int) -> None:
    """A task that succeeded in its own task set has no failures any more."""
    if (attempt.failures or attempt.elsewhere) and (index in attempt.failures or index in attempt.elsewhere):
        tables.attempts.put(
            key,
            attempt._replace(failures=attempt.failures.discard(index), elsewhere=attempt.elsewhere.discard(index)),
        )


def _succeed(tables: DriverTables, number: int, now: Millis) -> None:
    """The last partition of a result stage is there: its job is done."""
    row = tables.stages[number]
    _finish(tables, number, row, now)
    tables.stages.put(number, tables.stages[number]._replace(failed=frozenset()))
    (job,) = row.jobs
    _cancel(tables, job, now)
    for attempt in range(row.attempt + 1):
        tasks.kill(tables, attempt_key(number, attempt), now)
    close_job(tables, job, Ending.SUCCEEDED, now)


def try_again(tables: DriverTables, task: TaskRow, attempt: AttemptRow, now: Millis, *, counts: bool) -> None:
    """A task failed, by itself or with its executor."""
    row = tables.stages.get(task.stage)
    if row is None:
        return
    note_try(tables, row.array, tasks.partition_of(attempt, task.task_index), lost=False)
    if not attempt.zombie and tasks.failed(tables, attempt, task.task_index, counts=counts):
        _abort(tables, task.stage, now)


def note_try(tables: DriverTables, array: int, partition: int, *, lost: bool) -> None:
    """One try more of a partition; ``lost``: it had succeeded."""
    tries = tables.again.get(array, pmap())
    before = tries.get(partition, 0)
    tables.again.put(array, tries.set(partition, before + 2 | int(lost)))


def _fetch_failed(tables: DriverTables, task: TaskRow, now: Millis) -> None:
    row = tables.stages.get(task.stage)
    if row is None:
        return
    tasks.retire(tables, attempt_key(task.stage, task.attempt))
    if row.attempt != task.attempt:
        return
    row = row._replace(failed=row.failed | {task.attempt})
    tables.stages.put(task.stage, row)
    aborts = len(row.failed) >= tables.plan.script.stage_attempts_max
    if row.phase is DagPhase.RUNNING:
        _finish(tables, task.stage, row, now, DagPhase.IDLE if aborts else DagPhase.FAILED)
        if not aborts:
            tables.later(now + RESUBMIT_MS, DriverAgenda.RESUBMIT)
    if aborts:
        _abort(tables, task.stage, now)
    elif row.phase in (DagPhase.RUNNING, DagPhase.FAILED):
        _fail_with(tables, row)


def _fail_with(tables: DriverTables, row: DriverStageRow) -> None:
    """The parent that a failed stage misses first is submitted again with it, and not before."""
    for parent in row.parents:
        above = tables.stages[parent]
        if tables.missing[above.array]:
            if above.phase is DagPhase.IDLE:
                tables.stages.put(parent, above._replace(phase=DagPhase.FAILED))
            return
