"""What goes with an executor: the tasks that run on it, and the shuffle output that it holds.

With its output (``Outputs``) goes this: what the living task set of a running map stage had computed there is resubmitted at
once: it ends a second time, as Resubmitted, and waits again. All other losses are only noticed when somebody misses the
output: by a task that fails to fetch it, or when the stage is needed again. An executor that decommissioned may have moved
its output to others by the time it goes; one that was killed or that failed has not.

The tasks that ran on it fail, and wait again; whether that counts against them, the reason says. Where the executor was
decommissioning it does not.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.fakes.driver import task_scheduler as tasks
from podtide.domain.fakes.driver.dag_scheduler import index_of, note_try, try_again
from podtide.domain.fakes.driver.rows import DagPhase, DriverExecutorRow, Fate, Holder, OfferState, TaskRow, attempt_key
from podtide.domain.fakes.driver.script import Outputs
from podtide.domain.fakes.driver.tables import DriverTables
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.stimuli import BlockUpdated, ShuffleDataBlock, TaskEnd, TaskOutcome

_MOVED: Final = -1
_KILLED: Final = "ExecutorKilled"


def executor_lost(tables: DriverTables, key: int, reason: ExitReason, now: Millis) -> None:
    """An executor is gone, with what ran on it and, as the script has it, with what it holds."""
    held = tables.held.pop(key, {})
    executor, running = tasks.evict(tables, key, now)
    leaving = executor.standing is OfferState.LEAVING or reason.kind == "ExecutorDecommission"
    counts = reason.caused_by_app and not leaving
    moves = tables.plan.script.outputs is Outputs.MIGRATED and leaving
    moves = moves and reason.kind != _KILLED and not reason.exit_code
    again: dict[tuple[int, int, int], list[int]] = {}
    for array in sorted(held):
        lost = sorted(held[array])
        if not (moves and _migrate(tables, array, lost, now)):
            _lose(tables, array, lost, again)
    by_set: dict[tuple[int, int, int], list[TaskRow]] = {place: [] for place in again}
    for task in running:
        attempt = tasks.leave_set(tables, task)
        by_set.setdefault((attempt.job, task.stage, task.attempt), []).append(task)
    for place in sorted(by_set):
        _report_lost(tables, place, again.get(place, []), by_set[place], executor, counts, now)


def _lose(
    tables: DriverTables, array: int, partitions: list[int], again: dict[tuple[int, int, int], list[int]]
) -> None:
    """Output is lost. What the living task set of a running stage had computed waits again: its place and indexes."""
    number = tables.sharers.get(array)
    row = None if number is None else tables.stages[number]
    attempt = None
    if number is not None and row is not None and row.phase is DagPhase.RUNNING:
        attempt = tables.attempts.get(attempt_key(number, row.attempt))
    for partition in partitions:
        holder = tables.outputs[array][partition]
        assert holder is not None
        tables.hold(array, partition, None)
        tables.count("outputs.lost")
        note_try(tables, array, partition, lost=True)
        if attempt is not None and not attempt.zombie and (holder.stage, holder.attempt) == (number, attempt.attempt):
            index = index_of(attempt, partition)
            assert index is not None
            again.setdefault((attempt.job, attempt.stage, attempt.attempt), []).append(index)


def _report_lost(
    tables: DriverTables,
    place: tuple[int, int, int],
    resubmitted: list[int],
    running: list[TaskRow],
    executor: DriverExecutorRow,
    counts: bool,
    now: Millis,
) -> None:
    """TaskSetManager.executorLost."""
    _, number, attempt_number = place
    key = attempt_key(number, attempt_number)
    for index in resubmitted:
        attempt = tables.attempts.get(key)
        if attempt is None or attempt.zombie:  # its job failed a moment ago, of what else was lost
            break
        end = TaskEnd(now, number, attempt_number, index, executor.executor, False, TaskOutcome.FAILED)
        tables.events.append(end)
        tables.left.put(number, tables.left[number] + 1)
        tables.count("tasks.resubmitted")
        tasks.wait_again(tables, attempt, index)
    for task in running:
        tasks.say_end(tables, task._replace(fate=Fate.FAILURE), executor, now)
        tables.count("tasks.lost")
        tables.count("wasted_ms", now - task.began)
        living = tables.attempts.get(key)
        if living is not None:
            try_again(tables, task, living, now, counts=counts)


def _migrate(tables: DriverTables, array: int, partitions: list[int], now: Millis) -> bool:
    """Others take over what an executor held, in turn; returns whether there are any."""
    peers = [key for key, row in tables.executors.items() if row.standing is OfferState.ACTIVE]
    for partition in partitions if peers else ():
        peer = peers[tables.moves.next() % len(peers)]
        holder = tables.outputs[array][partition]
        assert holder is not None
        tables.hold(array, partition, Holder(peer, holder.stage, _MOVED))
        tables.count("outputs.moved")
        name = tables.executors[peer].executor
        tables.events.append(BlockUpdated(now, name, ShuffleDataBlock(array), True, True))
    return bool(peers)
