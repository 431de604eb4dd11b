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
from podtide.domain.fakes.driver.books import Books
from podtide.domain.fakes.driver.jobs import close_job, open_job
from podtide.domain.fakes.driver.rows import (
    AttemptRow,
    Due,
    Ending,
    ExecutorRow,
    Fate,
    Kind,
    Phase,
    StageRow,
    TaskRow,
    attempt_key,
)
from podtide.domain.fakes.driver.script import Storage
from podtide.domain.protocol.stimuli import BlockUpdated, RddBlock, StageCompleted, StageSubmitted

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""

# stages


def start_job(books: Books, place: int, run: int, now: Millis) -> None:
    """The driver's program runs a job of the script."""
    submit(books, open_job(books, place, run, now), now)


def submit(books: Books, number: int, now: Millis) -> None:
    """submitStage: the stage if its parents are there, else these first."""
    todo = [number]
    while todo:
        one = todo.pop()
        row = books.stages.rows[one]
        if row.phase is not Phase.IDLE:
            continue
        missing = [parent for parent in row.parents if books.missing.rows[books.stages.rows[parent].array]]
        if missing:
            books.stages.put(one, row._replace(phase=Phase.WAITING))
            todo.extend(reversed(missing))
        else:
            _submit_missing_tasks(books, one, row, now)


def _submit_missing_tasks(books: Books, number: int, row: StageRow, now: Millis) -> None:
    script, attempt = books.plan.stage(row), row.attempt + 1
    books.stages.put(number, row._replace(phase=Phase.RUNNING, attempt=attempt))
    count = books.missing.rows[row.array]
    books.left.put(number, count)
    books.count("stage attempts")
    partitions = None
    if count < script.tasks:
        partitions = tuple(at for at, holder in enumerate(books.outputs.rows[row.array]) if holder is None)
    locality = None
    if script.data is not None:
        locality = tuple(map(script.data.of, range(count) if partitions is None else partitions))
    books.said.append(StageSubmitted(now, number, attempt, count, script.profile, locality))
    if count:
        tasks.submit(books, AttemptRow(min(row.jobs), number, attempt, count, script.profile, partitions))
    else:
        _complete(books, number, now)


def _complete(books: Books, number: int, now: Millis) -> None:
    """A map stage has nothing left to wait for."""
    row = books.stages.rows[number]
    _finish(books, number, row, now)
    row = books.stages.rows[number]
    books.stages.put(number, row._replace(failed=frozenset()))
    if books.missing.rows[row.array]:
        submit(books, number, now)
        return
    for job in sorted(row.jobs):
        if books.jobs.rows[job].stages[-1] == number:
            close_job(books, job, Ending.SUCCEEDED, now)
    waiting = []
    for one in {one for job in row.jobs for one in books.jobs.rows[job].stages}:
        child = books.stages.rows.get(one)
        if child is not None and child.phase is Phase.WAITING and number in child.parents:
            waiting.append((min(child.jobs), one))
            books.stages.put(one, child._replace(phase=Phase.IDLE))
    for _, one in sorted(waiting):
        submit(books, one, now)


def _finish(books: Books, number: int, row: StageRow, now: Millis, phase: Phase = Phase.IDLE) -> None:
    """markStageAsFinished: the latest attempt is over."""
    books.stages.put(number, row._replace(phase=phase))
    tasks.retire(books, attempt_key(number, row.attempt))
    books.said.append(StageCompleted(now, number, row.attempt))


def resubmit(books: Books, now: Millis) -> None:
    """resubmitFailedStages: all that failed are submitted again, the oldest job's first."""
    failed = sorted((min(row.jobs), one) for one, row in books.stages.rows.items() if row.phase is Phase.FAILED)
    for _, one in failed:
        books.stages.put(one, books.stages.rows[one]._replace(phase=Phase.IDLE))
    for _, one in failed:
        if one in books.stages.rows:
            submit(books, one, now)


def _abort(books: Books, number: int, now: Millis) -> None:
    """abortStage: the jobs that need the stage fail."""
    for job in sorted(books.stages.rows[number].jobs):
        _cancel(books, job, now)
        close_job(books, job, Ending.FAILED, now)


def _cancel(books: Books, job: int, now: Millis) -> None:
    """cancelRunningIndependentStages."""
    for number in sorted(books.jobs.rows[job].stages):
        row = books.stages.rows[number]
        if len(row.jobs) == 1 and (row.phase is Phase.RUNNING or row.failed):
            for attempt in range(row.attempt + 1):
                tasks.kill(books, attempt_key(number, attempt), now)
            _finish(books, number, row, now)


# tasks


def task_over(books: Books, task: TaskRow, executor: ExecutorRow, now: Millis) -> None:
    """handleTaskCompletion: a task ended by itself, or was killed. Its slot has been released."""
    attempt = tasks.leave_set(books, task)
    if task.fate is Fate.SUCCESS:
        _succeeded(books, task, attempt, executor, now)
        return
    tasks.say_end(books, task, executor, now)
    books.count("wasted_ms", now - task.began)
    match task.fate:
        case Fate.FAILURE:
            books.count("tasks.failed")
            try_again(books, task, attempt, now, counts=True)
        case Fate.FETCH_FAILURE:
            books.count("tasks.fetch failed")
            _fetch_failed(books, task, now)
        case _:
            books.count("tasks.killed")


def _succeeded(books: Books, task: TaskRow, attempt: AttemptRow, executor: ExecutorRow, now: Millis) -> None:
    number, partition = task.stage, tasks.partition_of(attempt, task.task_index)
    row = books.stages.rows.get(number)
    rdd = books.rdds.rows.get(number)
    if row is not None and rdd is not None:
        cached = books.plan.stage(row).cached
        on_disk = cached is not None and cached.storage is Storage.DISK
        books.said.append(BlockUpdated(now, executor.executor, RddBlock(rdd, partition), True, on_disk))
    tasks.say_end(books, task, executor, now)
    books.count("tasks.succeeded")
    if row is None:  # its job is over
        books.count("wasted_ms", now - task.began)
        return
    first = books.outputs.rows[row.array][partition] is None
    tries = books.again.rows.get(row.array)
    repeated = not first or (tries is not None and tries.get(partition, 0) & 1)
    books.count("wasted_ms" if repeated else "useful_ms", now - task.began)
    key = attempt_key(number, row.attempt)
    latest = books.attempts.rows.get(key)
    awaited = first and latest is not None and _awaits(latest, partition)
    if task.attempt < row.attempt and latest is not None and first and not latest.zombie:
        index = index_of(latest, partition)
        if index is not None:
            tasks.computed_elsewhere(books, key, latest, index)
    elif latest is not None and task.attempt == row.attempt:
        _clear(books, key, latest, task.task_index)
    if first or row.array >= 0:
        books.hold(row.array, partition, books.holder(task))
    if awaited:
        books.left.put(number, books.left.rows[number] - 1)
    if row.array < 0:
        if first and not books.missing.rows[row.array]:
            _succeed(books, number, now)
    elif row.phase is Phase.RUNNING and not books.left.rows[number]:
        _complete(books, number, now)


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


def _clear(books: Books, key: int, attempt: AttemptRow, index: int) -> None:
    """A task that succeeded in its own task set has no failures any more."""
    if (attempt.failures or attempt.elsewhere) and (index in attempt.failures or index in attempt.elsewhere):
        books.attempts.put(
            key,
            attempt._replace(failures=attempt.failures.discard(index), elsewhere=attempt.elsewhere.discard(index)),
        )


def _succeed(books: Books, number: int, now: Millis) -> None:
    """The last partition of a result stage is there: its job is done."""
    row = books.stages.rows[number]
    _finish(books, number, row, now)
    books.stages.put(number, books.stages.rows[number]._replace(failed=frozenset()))
    (job,) = row.jobs
    _cancel(books, job, now)
    for attempt in range(row.attempt + 1):
        tasks.kill(books, attempt_key(number, attempt), now)
    close_job(books, job, Ending.SUCCEEDED, now)


def try_again(books: Books, task: TaskRow, attempt: AttemptRow, now: Millis, *, counts: bool) -> None:
    """A task failed, by itself or with its executor."""
    row = books.stages.rows.get(task.stage)
    if row is None:
        return
    note_try(books, row.array, tasks.partition_of(attempt, task.task_index), lost=False)
    if not attempt.zombie and tasks.failed(books, attempt, task.task_index, counts=counts):
        _abort(books, task.stage, now)


def note_try(books: Books, array: int, partition: int, *, lost: bool) -> None:
    """One try more of a partition; ``lost``: it had succeeded."""
    tries = books.again.rows.get(array, pmap())
    before = tries.get(partition, 0)
    books.again.put(array, tries.set(partition, before + 2 | int(lost)))


def _fetch_failed(books: Books, task: TaskRow, now: Millis) -> None:
    row = books.stages.rows.get(task.stage)
    if row is None:
        return
    tasks.retire(books, attempt_key(task.stage, task.attempt))
    if row.attempt != task.attempt:
        return
    row = row._replace(failed=row.failed | {task.attempt})
    books.stages.put(task.stage, row)
    aborts = len(row.failed) >= books.plan.script.stage_attempts_max
    if row.phase is Phase.RUNNING:
        _finish(books, task.stage, row, now, Phase.IDLE if aborts else Phase.FAILED)
        if not aborts:
            books.later(Due(now + RESUBMIT_MS, Kind.RESUBMIT))
    if aborts:
        _abort(books, task.stage, now)
    elif row.phase in (Phase.RUNNING, Phase.FAILED):
        _fail_with(books, row)


def _fail_with(books: Books, row: StageRow) -> None:
    """The parent that a failed stage misses first is submitted again with it, and not before."""
    for parent in row.parents:
        above = books.stages.rows[parent]
        if books.missing.rows[above.array]:
            if above.phase is Phase.IDLE:
                books.stages.put(parent, above._replace(phase=Phase.FAILED))
            return
