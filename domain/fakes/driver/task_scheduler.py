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
from podtide.domain.fakes.driver.books import Books
from podtide.domain.fakes.driver.rows import (
    AttemptRow,
    ExecutorRow,
    Fate,
    QueueRow,
    StageRow,
    Standing,
    TaskRow,
    attempt_key,
)
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


def submit(books: Books, attempt: AttemptRow) -> None:
    """A new task set; its tasks wait for the next offers to its profile."""
    books.attempts.put(attempt_key(attempt.stage, attempt.attempt), attempt)
    books.put_queue(attempt, QueueRow(0, None, attempt.tasks, 0))
    books.wanting.add(attempt.profile)


def partition_of(attempt: AttemptRow, index: int) -> int:
    """The partition that a task computes."""
    return index if attempt.partitions is None else attempt.partitions[index]


def retire(books: Books, key: int) -> None:
    """Nothing of a task set starts any more; it is forgotten with its last task."""
    attempt = books.attempts.rows.get(key)
    if attempt is None:
        return
    queue = books.queues.rows[key]
    books.put_queue(attempt, QueueRow(attempt.tasks, None, 0, queue.running))
    if queue.running:
        books.attempts.put(key, attempt._replace(zombie=True))
    else:
        books.drop_attempt(key)


def wait_again(books: Books, attempt: AttemptRow, index: int) -> None:
    """A task of a living task set has to run once more."""
    queue = books.queues.rows[attempt_key(attempt.stage, attempt.attempt)]
    returned = (index, queue.returned)
    books.put_queue(attempt, QueueRow(queue.fresh, returned, queue.pending + 1, queue.running))
    books.wanting.add(attempt.profile)


def computed_elsewhere(books: Books, key: int, attempt: AttemptRow, index: int) -> None:
    """Another attempt computed this task's partition: if it waits, it need not run."""
    books.attempts.put(key, attempt._replace(elsewhere=attempt.elsewhere.add(index)))
    queue = books.queues.rows[key]
    if index not in books.flying.get(key, ()):
        books.put_queue(attempt, queue._replace(pending=queue.pending - 1))


def kill(books: Books, key: int, now: Millis) -> None:
    """Tell the running tasks of a task set to end, and start none any more."""
    for serial in books.flying.get(key, {}).values():
        task = books.tasks.rows[serial]
        heard = books.executors.rows[task.executor].standing is not Standing.SILENT
        if heard and task.ends > now + KILL_MS:
            _reschedule(books, serial, task._replace(ends=now + KILL_MS, fate=Fate.KILLED))
    retire(books, key)


def _reschedule(books: Books, serial: int, task: TaskRow) -> None:
    books.tasks.put(serial, task)
    if task.ends != NEVER:
        heapq.heappush(books.heap, (task.ends, serial))


# offers


def offer_all(books: Books, now: Millis) -> None:
    """Offer the free slots of every profile for which something changed."""
    while books.wanting:
        profile = min(books.wanting)
        books.wanting.discard(profile)
        offer(books, profile, now)


def offer(books: Books, profile: ProfileId, now: Millis) -> None:
    """Start what can start on the executors of a profile."""
    ready, free = books.ready.get(profile), books.free.get(profile)
    if not ready or not free:
        return
    deck = list(free)
    if books.plan.script.shuffled_offers and len(deck) > 1:
        _shuffle(books, deck)
    executors = books.executors.rows
    while ready and deck:
        _, stage, number = ready[0]
        key = attempt_key(stage, number)
        while deck and key in books.queues.rows and books.queues.rows[key].pending:
            for executor in deck:
                _start(books, key, executor, now)
                if not books.queues.rows[key].pending:
                    break
            deck = [executor for executor in deck if executors[executor].free]


def _shuffle(books: Books, deck: list[int]) -> None:
    rng: Stream = split(split(books.seed, _OFFERS), books.next("offers"))
    for place in range(len(deck) - 1, 0, -1):
        value, rng = bits(rng)
        other = value % (place + 1)
        deck[place], deck[other] = deck[other], deck[place]


def _start(books: Books, key: int, executor: int, now: Millis) -> None:
    """Start the next task of a task set, of which at least one waits."""
    attempt, queue = books.attempts.rows[key], books.queues.rows[key]
    fresh, returned = queue.fresh, queue.returned
    while True:
        if returned is not None:
            index, returned = returned
        else:
            index, fresh = fresh, fresh + 1
        if not attempt.elsewhere or index not in attempt.elsewhere:
            break
    books.put_queue(attempt, QueueRow(fresh, returned, queue.pending - 1, queue.running + 1))
    row = books.executors.rows[executor]
    aboard = books.aboard.setdefault(executor, {})
    if executor not in books.was_busy:
        books.was_busy[executor] = bool(aboard)
    books.put_executor(executor, row._replace(free=row.free - 1))
    ends, fate = _destiny(books, attempt, partition_of(attempt, index), now)
    serial = books.next("serial")
    books.tasks.put(serial, TaskRow(attempt.stage, attempt.attempt, index, executor, now, ends, fate))
    heapq.heappush(books.heap, (ends, serial))
    aboard[serial] = None
    books.flying.setdefault(key, {})[index] = serial
    if attempt.job in books.unstarted:
        books.unstarted.discard(attempt.job)
        books.jobs.put(attempt.job, books.jobs.rows[attempt.job]._replace(first_task=now))
    books.said.append(TaskStart(now, attempt.stage, attempt.attempt, index, row.executor))


def _destiny(books: Books, attempt: AttemptRow, partition: int, now: Millis) -> tuple[Millis, Fate]:
    """When and how a task that starts now will end. Each try of each partition has luck of its own."""
    stage: StageRow = books.stages.rows[attempt.stage]
    missing = books.missing.rows
    for parent in stage.parents:
        if missing[books.stages.rows[parent].array]:
            return now + FETCH_FAILS_MS, Fate.FETCH_FAILURE
    script = books.plan.stage(stage)
    rng = split(books.stream(attempt.stage, stage), partition)
    tries = books.again.rows.get(stage.array)
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


def release(books: Books, serial: int, task: TaskRow) -> ProfileId:
    """A task is over and its slot is free; returns the profile to offer it to."""
    books.tasks.drop(serial)
    aboard = books.aboard[task.executor]
    if task.executor not in books.was_busy:
        books.was_busy[task.executor] = True
    del aboard[serial]
    row = books.executors.rows[task.executor]
    books.put_executor(task.executor, row._replace(free=row.free + 1))
    return row.profile


def say_end(books: Books, task: TaskRow, executor: ExecutorRow, now: Millis) -> None:
    """Tell the listeners that a task ended."""
    outcome = _OUTCOMES[task.fate]
    books.said.append(TaskEnd(now, task.stage, task.attempt, task.task_index, executor.executor, False, outcome))


def leave_set(books: Books, task: TaskRow) -> AttemptRow:
    """A task no longer runs in its task set, which is forgotten if it was the last of a zombie's."""
    key = attempt_key(task.stage, task.attempt)
    attempt, queue = books.attempts.rows[key], books.queues.rows[key]
    del books.flying[key][task.task_index]
    books.put_queue(attempt, QueueRow(queue.fresh, queue.returned, queue.pending, queue.running - 1))
    if attempt.zombie and queue.running == 1:
        books.drop_attempt(key)
    return attempt


def failed(books: Books, attempt: AttemptRow, index: int, *, counts: bool) -> bool:
    """A task failed in a task set that lives: it waits again, or it did so once too often, which is what is returned."""
    if counts:
        failures = attempt.failures.get(index, 0) + 1
        attempt = attempt._replace(failures=attempt.failures.set(index, failures))
        books.attempts.put(attempt_key(attempt.stage, attempt.attempt), attempt)
        if failures >= books.plan.script.task_failures_max:
            return True
    if index not in attempt.elsewhere:
        wait_again(books, attempt, index)
    return False


# executors


def join(books: Books, row: ExecutorRow) -> None:
    """An executor was accepted; its slots are offered."""
    key = books.next("executors")
    books.put_executor(key, row)
    books.count("executors.joined")
    books.wanting.add(row.profile)


def stand_aside(books: Books, key: int, standing: Standing) -> None:
    """An executor is offered nothing any more; if it is silent, nothing is heard of its tasks either."""
    row = books.executors.rows[key]
    if row.standing >= standing:
        return
    books.put_executor(key, row._replace(standing=standing))
    if standing is Standing.SILENT:
        for serial in books.aboard.get(key, ()):
            _reschedule(books, serial, books.tasks.rows[serial]._replace(ends=NEVER))


def evict(books: Books, key: int, now: Millis) -> tuple[ExecutorRow, list[TaskRow]]:
    """An executor is gone: it and the tasks that ran on it, in the order in which they started, off the books."""
    row = books.drop_executor(key)
    books.count("executors.left")
    books.count("slot_ms", row.slots * (now - row.since))
    tasks = []
    for serial in sorted(books.aboard.pop(key, ())):
        task = books.tasks.drop(serial)
        assert task is not None
        tasks.append(task)
    return row, tasks
