"""Which task runs where: task sets in a queue, executors with slots, and what happens to tasks when these come and go.

A small TaskSchedulerImpl with its TaskSetManagers, in FIFO mode. Rules, as Spark 4.3.0 has them:

- Task sets are served by job, then stage, then attempt. To each, every executor of its profile with a free slot is offered
  one task after the other, round by round, until nothing waits or nothing is free. Within a set the lowest index starts
  first, but what waits again goes before what never started, the latest first.
- A slot is offered again the moment its task ends, before the driver looks at the result: the listeners hear of the next
  task's start before the last one's end. A task that failed waits from then on, so another may take its slot.
- ``task_failures_max`` failures of one task abort its stage. What is lost with an executor counts only where Spark holds the
  application to be the cause; kills, decommissions and exits from outside do not.
- What a fetch failure or an abort leaves of a task set is a zombie: its tasks run on, and nothing of it starts any more.
- A task reads its shuffle input when it starts. If a part of it is gone then, it finds out ``FETCH_FAILS_MS`` later; those
  that run already have read theirs.

What the DAG scheduler makes of an ended task is none of this module's business (``fakes.driver.dag_scheduler``).
"""

from __future__ import annotations

import heapq
from math import floor
from typing import Final

from podtide.domain.base.randomness import Stream, bits, chance, draw, split, unit
from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.fakes.driver.rows import (
    AttemptRow,
    DriverExecutorRow,
    DriverStageRow,
    Fate,
    OfferState,
    QueueRow,
    TaskRow,
    attempt_key,
)
from podtide.domain.fakes.driver.tables import DriverTables
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome, TaskStart

FETCH_FAILS_MS: Final[Millis] = 100
"""How long a task takes to find out that shuffle output is missing."""

KILL_MS: Final[Millis] = 100
"""How long a task that is told to end takes to do so."""

_OFFERS: Final = 2**64 - 1
"""The key of the stream that offers are shuffled by."""

_OUTCOMES: Final = {
    Fate.SUCCESS: TaskOutcome.SUCCESS,
    Fate.FAILURE: TaskOutcome.FAILED,
    Fate.FETCH_FAILURE: TaskOutcome.FAILED,
    Fate.KILLED: TaskOutcome.KILLED,
}


# task sets


def submit(tables: DriverTables, attempt: AttemptRow) -> None:
    """A new task set; its tasks wait for the next offers to its profile."""
    tables.attempts.put(attempt_key(attempt.stage, attempt.attempt), attempt)
    tables.put_queue(attempt, QueueRow(0, None, attempt.tasks, 0))
    tables.wanting.add(attempt.profile)


def partition_of(attempt: AttemptRow, index: int) -> int:
    """The partition that a task computes."""
    return index if attempt.partitions is None else attempt.partitions[index]


def retire(tables: DriverTables, key: int) -> None:
    """Nothing of a task set starts any more; it is forgotten with its last task."""
    attempt = tables.attempts.get(key)
    if attempt is None:
        return
    queue = tables.queues[key]
    tables.put_queue(attempt, QueueRow(attempt.tasks, None, 0, queue.running))
    if queue.running:
        tables.attempts.put(key, attempt._replace(zombie=True))
    else:
        tables.drop_attempt(key)


def wait_again(tables: DriverTables, attempt: AttemptRow, index: int) -> None:
    """A task of a living task set has to run once more."""
    queue = tables.queues[attempt_key(attempt.stage, attempt.attempt)]
    returned = (index, queue.returned)
    tables.put_queue(attempt, QueueRow(queue.fresh, returned, queue.pending + 1, queue.running))
    tables.wanting.add(attempt.profile)


def computed_elsewhere(tables: DriverTables, key: int, attempt: AttemptRow, index: int) -> None:
    """Another attempt computed this task's partition: if it waits, it need not run."""
    tables.attempts.put(key, attempt._replace(elsewhere=attempt.elsewhere.add(index)))
    queue = tables.queues[key]
    if index not in tables.flying.get(key, ()):
        tables.put_queue(attempt, queue._replace(pending=queue.pending - 1))


def kill(tables: DriverTables, key: int, now: Millis) -> None:
    """Tell the running tasks of a task set to end, and start none any more."""
    for serial in tables.flying.get(key, {}).values():
        task = tables.tasks[serial]
        row = tables.executors[task.executor]
        reachable = row.standing is not OfferState.SILENT and row.hung_at < 0
        if reachable and task.ends > now + KILL_MS:
            _reschedule(tables, serial, task._replace(ends=now + KILL_MS, fate=Fate.KILLED))
    retire(tables, key)


def _reschedule(tables: DriverTables, serial: int, task: TaskRow) -> None:
    tables.tasks.put(serial, task)
    if task.ends != NEVER:
        heapq.heappush(tables.heap, (task.ends, serial))


# offers


def offer_all(tables: DriverTables, now: Millis) -> None:
    """Offer the free slots of every profile for which something changed."""
    while tables.wanting:
        profile = min(tables.wanting)
        tables.wanting.discard(profile)
        offer(tables, profile, now)


def offer(tables: DriverTables, profile: ProfileId, now: Millis) -> None:
    """Start what can start on the executors of a profile."""
    ready, free = tables.ready.get(profile), tables.free.get(profile)
    if not ready or not free:
        return
    deck = list(free)
    if tables.plan.script.shuffled_offers and len(deck) > 1:
        _shuffle(tables, deck)
    executors = tables.executors
    while ready and deck:
        _, stage, number = ready[0]
        key = attempt_key(stage, number)
        while deck and key in tables.queues and tables.queues[key].pending:
            for executor in deck:
                _start(tables, key, executor, now)
                if not tables.queues[key].pending:
                    break
            deck = [executor for executor in deck if executors[executor].free]


def _shuffle(tables: DriverTables, deck: list[int]) -> None:
    rng: Stream = split(split(tables.seed, _OFFERS), tables.offer_draws.next())
    for place in range(len(deck) - 1, 0, -1):
        value, rng = bits(rng)
        other = value % (place + 1)
        deck[place], deck[other] = deck[other], deck[place]


def _start(tables: DriverTables, key: int, executor: int, now: Millis) -> None:
    """Start the next task of a task set, of which at least one waits."""
    attempt, queue = tables.attempts[key], tables.queues[key]
    fresh, returned = queue.fresh, queue.returned
    while True:
        if returned is not None:
            index, returned = returned
        else:
            index, fresh = fresh, fresh + 1
        if not attempt.elsewhere or index not in attempt.elsewhere:
            break
    tables.put_queue(attempt, QueueRow(fresh, returned, queue.pending - 1, queue.running + 1))
    row = tables.executors[executor]
    aboard = tables.aboard.setdefault(executor, {})
    if executor not in tables.was_busy:
        tables.was_busy[executor] = bool(aboard)
    tables.put_executor(executor, row._replace(free=row.free - 1))
    ends, fate = _destiny(tables, attempt, partition_of(attempt, index), now)
    if row.hung_at >= 0:
        ends = NEVER
    serial = tables.serials.next()
    _reschedule(tables, serial, TaskRow(attempt.stage, attempt.attempt, index, executor, now, ends, fate))
    aboard[serial] = None
    tables.flying.setdefault(key, {})[index] = serial
    if attempt.job in tables.unstarted:
        tables.unstarted.discard(attempt.job)
        tables.jobs.put(attempt.job, tables.jobs[attempt.job]._replace(first_task=now))
    tables.events.append(TaskStart(now, attempt.stage, attempt.attempt, index, row.executor))


def _destiny(tables: DriverTables, attempt: AttemptRow, partition: int, now: Millis) -> tuple[Millis, Fate]:
    """When and how a task that starts now will end. Each try of each partition has luck of its own."""
    stage: DriverStageRow = tables.stages[attempt.stage]
    missing = tables.missing
    for parent in stage.parents:
        if missing[tables.stages[parent].array]:
            return now + FETCH_FAILS_MS, Fate.FETCH_FAILURE
    script = tables.plan.stage(stage)
    rng = split(tables.task_stream(attempt.stage, stage), partition)
    tries = tables.again.get(stage.array)
    if tries is not None or attempt.attempt:
        before = 0 if tries is None else tries.get(partition, 0) >> 1
        if before or attempt.attempt:
            rng = split(split(rng, before), attempt.attempt)
    duration, rng = draw(rng, script.duration)
    if script.failure:
        fails, rng = chance(rng, script.failure)
        if fails:
            share, rng = unit(rng)
            return now + floor(share * duration), Fate.FAILURE
    return now + duration, Fate.SUCCESS


# ends


def release(tables: DriverTables, serial: int, task: TaskRow) -> ProfileId:
    """A task is over and its slot is free; returns the profile to offer it to."""
    tables.tasks.drop(serial)
    aboard = tables.aboard[task.executor]
    if task.executor not in tables.was_busy:
        tables.was_busy[task.executor] = True
    del aboard[serial]
    row = tables.executors[task.executor]
    tables.put_executor(task.executor, row._replace(free=row.free + 1))
    return row.profile


def say_end(tables: DriverTables, task: TaskRow, executor: DriverExecutorRow, now: Millis) -> None:
    """Tell the listeners that a task ended."""
    outcome = _OUTCOMES[task.fate]
    tables.events.append(TaskEnd(now, task.stage, task.attempt, task.task_index, executor.executor, False, outcome))


def leave_set(tables: DriverTables, task: TaskRow) -> AttemptRow:
    """A task no longer runs in its task set, which is forgotten if it was the last of a zombie's."""
    key = attempt_key(task.stage, task.attempt)
    attempt, queue = tables.attempts[key], tables.queues[key]
    del tables.flying[key][task.task_index]
    tables.put_queue(attempt, QueueRow(queue.fresh, queue.returned, queue.pending, queue.running - 1))
    if attempt.zombie and queue.running == 1:
        tables.drop_attempt(key)
    return attempt


def failed(tables: DriverTables, attempt: AttemptRow, index: int, *, counts: bool) -> bool:
    """A task failed in a task set that lives: it waits again, or it did so once too often, which is what is returned."""
    if counts:
        failures = attempt.failures.get(index, 0) + 1
        attempt = attempt._replace(failures=attempt.failures.set(index, failures))
        tables.attempts.put(attempt_key(attempt.stage, attempt.attempt), attempt)
        if failures >= tables.plan.script.task_failures_max:
            return True
    if index not in attempt.elsewhere:
        wait_again(tables, attempt, index)
    return False


# executors


def join(tables: DriverTables, row: DriverExecutorRow) -> None:
    """An executor was accepted; its slots are offered."""
    key = tables.executor_keys.next()
    tables.put_executor(key, row)
    tables.count("executors.joined")
    tables.wanting.add(row.profile)


def stop_offering(tables: DriverTables, key: int, standing: OfferState) -> None:
    """An executor is offered nothing any more; if it is silent, nothing is heard of its tasks either."""
    row = tables.executors[key]
    if row.standing >= standing:
        return
    tables.put_executor(key, row._replace(standing=standing))
    if standing is OfferState.SILENT:
        for serial in tables.aboard.get(key, ()):
            _reschedule(tables, serial, tables.tasks[serial]._replace(ends=NEVER))


def hang(tables: DriverTables, key: int, now: Millis) -> None:
    """An executor hangs, which the driver does not know: tasks start there as before, and none ends."""
    row = tables.executors[key]
    if row.hung_at >= 0 or row.standing is OfferState.SILENT:
        return
    tables.put_executor(key, row._replace(hung_at=now))
    for serial in tables.aboard.get(key, ()):
        _reschedule(tables, serial, tables.tasks[serial]._replace(ends=NEVER))


def go_on(tables: DriverTables, key: int, now: Millis) -> None:
    """An executor that hung goes on: its tasks take as much longer as it hung while they ran."""
    row = tables.executors[key]
    if row.hung_at < 0:
        return
    tables.put_executor(key, row._replace(hung_at=-1))
    if row.standing is OfferState.SILENT:
        return
    for serial in tables.aboard.get(key, ()):
        task = tables.tasks[serial]
        if task.fate is Fate.KILLED or task.stage not in tables.stages:  # it was told to end meanwhile
            _reschedule(tables, serial, task._replace(ends=now + KILL_MS, fate=Fate.KILLED))
            continue
        attempt = tables.attempts[attempt_key(task.stage, task.attempt)]
        ends, fate = _destiny(tables, attempt, partition_of(attempt, task.task_index), task.began)
        ends = max(now, ends + now - max(row.hung_at, task.began))
        _reschedule(tables, serial, task._replace(ends=ends, fate=fate))


def evict(tables: DriverTables, key: int, now: Millis) -> tuple[DriverExecutorRow, list[TaskRow]]:
    """An executor is gone: it and the tasks that ran on it, in the order in which they started, off the tables."""
    row = tables.drop_executor(key)
    tables.count("executors.left")
    tables.count("slot_ms", row.slots * (now - row.since))
    tasks = []
    for serial in sorted(tables.aboard.pop(key, ())):
        task = tables.tasks.drop(serial)
        assert task is not None
        tasks.append(task)
    return row, tasks
