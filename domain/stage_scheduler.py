"""What becomes of jobs and stages as tasks end and executors go: a small DAGScheduler.

A job is its last stage and all that this one is made of; a stage whose output is there is skipped. Rules, as Spark 4.3.0 has
them:

- A stage is submitted when the outputs of all its parents are there, else its parents are, lowest id first. An attempt
  computes the partitions that are missing when it is submitted.
- With a map stage's last awaited task it is complete; if parts of its output were lost meanwhile, it begins another attempt,
  else the stages that wait for it are submitted, the oldest job's first.
- With an executor goes the output that it holds. What the living attempt of a running map stage had computed there is
  resubmitted at once: it ends a second time, as Resubmitted, and waits. All else is only noticed when it is missed.
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

from podtide.domain import task_scheduler as tasks
from podtide.domain.pod_commands import ExitReason
from podtide.domain.randomness import draw, split
from podtide.domain.stimuli import (
    BlockUpdated,
    JobEnd,
    JobStage,
    JobStart,
    RddBlock,
    ResourceProfileAdded,
    ShuffleCleaned,
    ShuffleDataBlock,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    UnpersistRDD,
)
from podtide.domain.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.workload_books import Books
from podtide.domain.workload_checks import Node
from podtide.domain.workload_rows import (
    AttemptRow,
    Due,
    Ending,
    ExecutorRow,
    Fate,
    Holder,
    JobRow,
    Kind,
    Phase,
    Standing,
    StageRow,
    TaskRow,
    attempt_key,
)
from podtide.domain.workload_script import Outputs, Storage

RESUBMIT_MS: Final[Millis] = 200
"""DAGScheduler.RESUBMIT_TIMEOUT."""

_THINKS: Final = 2**64 - 2
"""The key of the stream that think times are drawn from."""

_MOVED: Final = -1
_KILLED: Final = "ExecutorKilled"


# jobs


def start_job(books: Books, place: int, run: int, now: Millis) -> None:
    """The driver's program runs a job of the script."""
    _announce_profiles(books, place, now)
    job = books.next("jobs")
    ids: dict[Node, int] = {}
    listed = []
    for node in books.plan.lineages[place]:
        number, shuffle = _stage_of(books, node, job, place, run, ids)
        ids[node] = number
        listed.append(JobStage(number, shuffle))
    books.jobs.put(job, JobRow(place, run, now, tuple(ids.values())))
    books.unstarted.add(job)
    books.count("jobs.started")
    books.said.append(JobStart(now, job, tuple(listed)))
    submit(books, listed[-1].stage, now)


def _announce_profiles(books: Books, place: int, now: Millis) -> None:
    """Profiles are known to the listeners before the first job that uses them."""
    plan = books.plan
    used = {plan.job(node.job).stages[node.stage].profile for node in plan.lineages[place]}
    for profile in sorted(used - {DEFAULT_PROFILE}):
        name = f"profile {profile}"
        if not books.number(name):
            books.numbers.put(name, 1)
            row = plan.profiles[profile]
            executor = tuple((resource, float(amount)) for resource, amount in row.executor)
            books.said.append(ResourceProfileAdded(now, profile, executor, row.task))


def _stage_of(books: Books, node: Node, job: int, place: int, run: int, ids: dict[Node, int]) -> tuple[int, int | None]:
    """The stage that a job has for a stage of the script, and its shuffle; a new one, or another running job's."""
    plan, own = books.plan, node.job == place
    script = plan.job(node.job).stages[node.stage]
    shuffle = None
    if script.writes_shuffle or node != plan.lineages[node.job][-1]:
        name = f"{node.job}.{run if own else 0}.{node.stage}"
        shuffle = books.shuffles.rows.get(name)
        if shuffle is None:
            shuffle = books.next("shuffles")
            books.shuffles.put(name, shuffle)
            books.users.put(shuffle, 1 + plan.readers.get(node, 0))
            _new_output(books, shuffle, script.tasks)
        shared = books.sharers.rows.get(shuffle)
        if shared is not None:
            row = books.stages.rows[shared]
            books.stages.put(shared, row._replace(jobs=row.jobs | {job}))
            return shared, shuffle
    number = books.next("stages")
    array = ~number if shuffle is None else shuffle
    if shuffle is None:
        _new_output(books, array, script.tasks)
    else:
        books.sharers.put(shuffle, number)
    parents = tuple(sorted(ids[parent] for parent in plan.parents[node]))
    books.stages.put(number, StageRow(frozenset({job}), node.job, run if own else 0, node.stage, array, parents))
    if script.cached is not None and own:
        _cache(books, number, place, script.cached.until)
    return number, shuffle


def _new_output(books: Books, array: int, size: int) -> None:
    books.outputs.add(array, size)
    books.missing.put(array, size)


def _cache(books: Books, number: int, place: int, until: str | None) -> None:
    """A stage's RDD is marked as cached; it is unpersisted with the end of a job, or never."""
    rdd = books.next("rdds")
    books.rdds.put(number, rdd)
    if until is not None:
        end = books.plan.places[until]
        books.kept.put(end, (rdd, books.kept.rows.get(end)))


def _end_job(books: Books, job: int, ending: Ending, now: Millis) -> None:
    """cleanupStateForJobAndIndependentStages, JobEnd, and what the script has follow."""
    row = books.jobs.rows[job]
    books.jobs.put(job, row._replace(ended=now, ending=ending))
    books.unstarted.discard(job)
    for number in row.stages:
        stage = books.stages.rows[number]
        if len(stage.jobs) > 1:
            books.stages.put(number, stage._replace(jobs=stage.jobs - {job}))
            continue
        for attempt in range(stage.attempt + 1):
            tasks.retire(books, attempt_key(number, attempt))
        books.stages.drop(number)
        books.left.drop(number)
        books.streams.pop(number, None)
        books.rdds.drop(number)
        if stage.array < 0:
            books.drop_output(stage.array)
        else:
            books.sharers.drop(stage.array)
    books.count(f"jobs.{ending.value}")
    books.said.append(JobEnd(now, job))
    _follow(books, row, now)


def _follow(books: Books, row: JobRow, now: Millis) -> None:
    """The next run of a job, or what comes after its last one."""
    plan, place = books.plan, row.place
    script = plan.job(place)
    for stage in range(len(script.stages)):
        _unused(books, f"{place}.{row.run}.{stage}", now)
    last = row.run + 1 == script.times
    if last or any(stage.cached and stage.cached.until == script.name for stage in script.stages):
        _unpersist(books, place, now)
    if not last:
        books.later(Due(now + _think(books, place, row.run + 1), Kind.JOB, place, row.run + 1))
        return
    books.numbers.put(f"ended {place}", 1)
    books.next("ended")
    for node in plan.lineages[place]:
        if node.job != place:
            _unused(books, f"{node.job}.0.{node.stage}", now)
    for follower in plan.followers[place]:
        if all(books.number(f"ended {one}") for one in plan.before[follower]):
            at = max(now + _think(books, follower, 0), books.began + plan.job(follower).start_ms)
            books.later(Due(at, Kind.JOB, follower, 0))


def _think(books: Books, place: int, run: int) -> Millis:
    rng = split(split(split(books.seed, _THINKS), place), run)
    return draw(rng, books.plan.job(place).think)[0]


def _unused(books: Books, name: str, now: Millis) -> None:
    """One job less may read a shuffle. With the last one it is forgotten, and cleaned if the script says so."""
    shuffle = books.shuffles.rows.get(name)
    if shuffle is None:
        return
    users = books.users.rows[shuffle] - 1
    books.users.put(shuffle, users)
    if not users:
        books.drop_output(shuffle)
        books.shuffles.drop(name)
        books.users.drop(shuffle)
        if books.plan.script.clean_ms is not None:
            books.later(Due(now + books.plan.script.clean_ms, Kind.CLEAN, shuffle))


def _unpersist(books: Books, place: int, now: Millis) -> None:
    kept = books.kept.drop(place)
    rdds = []
    while kept is not None:
        rdd, kept = kept
        rdds.append(rdd)
    books.said.extend(UnpersistRDD(now, rdd) for rdd in reversed(rdds))


def clean(books: Books, shuffle: int, now: Millis) -> None:
    """The context cleaner removes a shuffle."""
    books.said.append(ShuffleCleaned(now, shuffle))


# stages


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
    books.said.append(StageSubmitted(now, number, attempt, count, script.profile))
    partitions = None
    if count < script.tasks:
        partitions = tuple(at for at, holder in enumerate(books.outputs.rows[row.array]) if holder is None)
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
            _end_job(books, job, Ending.SUCCEEDED, now)
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
        _end_job(books, job, Ending.FAILED, now)


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
            _try_again(books, task, attempt, now, counts=True)
        case Fate.FETCH_FAILURE:
            books.count("tasks.fetch failed")
            _fetch_failed(books, task, now)
        case _:
            books.count("tasks.killed")


def _succeeded(books: Books, task: TaskRow, attempt: AttemptRow, executor: ExecutorRow, now: Millis) -> None:
    number, partition = task.stage, tasks.partition_of(attempt, task.index)
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
        index = _index_of(latest, partition)
        if index is not None:
            tasks.computed_elsewhere(books, key, latest, index)
    elif latest is not None and task.attempt == row.attempt:
        _clear(books, key, latest, task.index)
    if first or row.array >= 0:
        books.hold(row.array, partition, books.holder(task))
    if awaited:
        books.left.put(number, books.left.rows[number] - 1)
    if row.array < 0:
        if first and not books.missing.rows[row.array]:
            _succeed(books, number, now)
    elif row.phase is Phase.RUNNING and not books.left.rows[number]:
        _complete(books, number, now)


def _index_of(attempt: AttemptRow, partition: int) -> int | None:
    """A partition's place in a task set."""
    if attempt.partitions is None:
        return partition
    place = bisect_left(attempt.partitions, partition)
    return place if place < attempt.tasks and attempt.partitions[place] == partition else None


def _awaits(attempt: AttemptRow, partition: int) -> bool:
    """Whether the stage waits for a partition that nobody holds. What another attempt's task computed, and was lost
    again, it does not wait for: it finds out when it is complete."""
    index = _index_of(attempt, partition)
    return index is not None and index not in attempt.elsewhere


def _clear(books: Books, key: int, attempt: AttemptRow, index: int) -> None:
    """A task that succeeded in its own task set has no failures any more."""
    if index in attempt.failures or index in attempt.elsewhere:
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
    _end_job(books, job, Ending.SUCCEEDED, now)


def _try_again(books: Books, task: TaskRow, attempt: AttemptRow, now: Millis, *, counts: bool) -> None:
    """A task failed, by itself or with its executor."""
    row = books.stages.rows.get(task.stage)
    if row is None:
        return
    _note(books, row.array, tasks.partition_of(attempt, task.index), lost=False)
    if not attempt.zombie and tasks.failed(books, attempt, task.index, counts=counts):
        _abort(books, task.stage, now)


def _note(books: Books, array: int, partition: int, *, lost: bool) -> None:
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
        return
    for parent in row.parents:  # the first one that is missed is submitted again with the stage, and not before
        above = books.stages.rows[parent]
        if books.missing.rows[above.array]:
            if above.phase is Phase.IDLE:
                books.stages.put(parent, above._replace(phase=Phase.FAILED))
            break


# executors


def executor_lost(books: Books, key: int, reason: ExitReason, now: Millis) -> None:
    """An executor is gone, with what ran on it and, as the script has it, with what it holds."""
    held = books.held.pop(key, {})
    executor, running = tasks.evict(books, key, now)
    leaving = executor.standing is Standing.LEAVING or reason.kind == "ExecutorDecommission"
    counts = reason.caused_by_app and not leaving
    moves = books.plan.script.outputs is Outputs.MIGRATED and leaving
    moves = moves and reason.kind != _KILLED and not reason.exit_code
    again: dict[tuple[int, int, int], list[int]] = {}
    for array in sorted(held):
        lost = sorted(held[array])
        if not (moves and _migrate(books, array, lost, now)):
            _lose(books, array, lost, again)
    by_set: dict[tuple[int, int, int], list[TaskRow]] = {place: [] for place in again}
    for task in running:
        attempt = tasks.leave_set(books, task)
        by_set.setdefault((attempt.job, task.stage, task.attempt), []).append(task)
    for place in sorted(by_set):
        _tell_lost(books, place, again.get(place, []), by_set[place], executor, counts, now)


def _lose(books: Books, array: int, partitions: list[int], again: dict[tuple[int, int, int], list[int]]) -> None:
    """Output is lost. What the living task set of a running stage had computed waits again: its place and indexes."""
    number = books.sharers.rows.get(array)
    row = None if number is None else books.stages.rows[number]
    attempt = None
    if number is not None and row is not None and row.phase is Phase.RUNNING:
        attempt = books.attempts.rows.get(attempt_key(number, row.attempt))
    for partition in partitions:
        holder = books.outputs.rows[array][partition]
        assert holder is not None
        books.hold(array, partition, None)
        books.count("outputs.lost")
        _note(books, array, partition, lost=True)
        if attempt is not None and not attempt.zombie and (holder.stage, holder.attempt) == (number, attempt.attempt):
            index = _index_of(attempt, partition)
            assert index is not None
            again.setdefault((attempt.job, attempt.stage, attempt.attempt), []).append(index)


def _tell_lost(
    books: Books,
    place: tuple[int, int, int],
    resubmitted: list[int],
    running: list[TaskRow],
    executor: ExecutorRow,
    counts: bool,
    now: Millis,
) -> None:
    """TaskSetManager.executorLost."""
    _, number, attempt_number = place
    key = attempt_key(number, attempt_number)
    for index in resubmitted:
        attempt = books.attempts.rows.get(key)
        if attempt is None or attempt.zombie:  # its job failed a moment ago, of what else was lost
            break
        books.said.append(_resubmitted(number, attempt_number, index, executor.executor, now))
        books.left.put(number, books.left.rows[number] + 1)
        books.count("tasks.resubmitted")
        tasks.wait_again(books, attempt, index)
    for task in running:
        tasks.say_end(books, task._replace(fate=Fate.FAILURE), executor, now)
        books.count("tasks.lost")
        books.count("wasted_ms", now - task.began)
        living = books.attempts.rows.get(key)
        if living is not None:
            _try_again(books, task, living, now, counts=counts)


def _resubmitted(stage: int, attempt: int, index: int, executor: ExecutorId, now: Millis) -> TaskEnd:
    return TaskEnd(now, stage, attempt, index, executor, False, TaskOutcome.FAILED)


def _migrate(books: Books, array: int, partitions: list[int], now: Millis) -> bool:
    """Others take over what an executor held, in turn; returns whether there are any."""
    peers = [key for key, row in books.executors.rows.items() if row.standing is Standing.ACTIVE]
    for partition in partitions if peers else ():
        peer = peers[books.next("moved") % len(peers)]
        holder = books.outputs.rows[array][partition]
        assert holder is not None
        books.hold(array, partition, Holder(peer, holder.stage, _MOVED))
        books.count("outputs.moved")
        name = books.executors.rows[peer].executor
        books.said.append(BlockUpdated(now, name, ShuffleDataBlock(array), True, True))
    return bool(peers)
