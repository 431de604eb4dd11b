"""Map output: which executor holds it, what is lost with it, and who notices.

Map output goes with its executor, unless a shuffle service keeps it or, being decommissioned, the executor hands it to
others first (BlockManagerDecommissioner). Tasks of a running map stage that had ended there run again (Resubmitted).
Otherwise the loss is noticed by a task that fails to fetch it, or when a stage that reads it is to be submitted. A task
fetches when it begins: what is lost while it runs it has already. What is lost before, it fails for, at once if the driver
knows of the loss (executorLost). An executor that was killed is dead at once, and the driver knows of it when it removes it:
a task that begins in between asks in vain and asks again every ``retryWait`` (RetryingBlockTransferor), until the driver
says that the executor is gone (BlockManagerMasterEndpoint, IsExecutorAlive), ``maxRetries`` times at most.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import BlockUpdated, ShuffleDataBlock
from podtide.domain.scheduler.rows import FALLBACK, NOBODY, DueKind, ExecutorSlots, Stage, StagePhase, Standing, TaskSet
from podtide.domain.scheduler.task_scheduler import TaskScheduler


class MapOutput:
    """The map output of all stages. ``dead``: executors that are, and the driver has not noticed; ``moved``: partitions that
    others took over."""

    def __init__(self, stages: Mapping[int, Stage], scheduler: TaskScheduler) -> None:
        self.stages = stages
        self.rules = scheduler.rules
        self.dead: set[int] = set()
        self.moved = 0
        self._scheduler = scheduler

    def lacks(self, run: TaskSet) -> frozenset[int] | None:
        """The dead executors that a task would ask for what it reads; none if it is known to be lost; None: all is there."""
        parents = run.stage.parents
        if any(parent.missing for parent in parents):
            return frozenset()
        dead = frozenset(one for parent in parents for one in parent.on if one in self.dead)
        return dead or None

    def died(self, executor: ExecutorSlots) -> None:
        """The executor does not answer any more, and the driver has not noticed."""
        self.dead.add(executor.row)
        for row in self.stages.values():
            if row.holder is not None and executor.row in row.on:
                if executor.row not in row.holder:
                    row.on.discard(executor.row)
                    continue
                tear_readers(row)

    def gone(self, executor: ExecutorSlots, at: Millis, *, lost: bool) -> None:
        """handleExecutorLost: the driver knows that the executor is gone, and those know it that wait for its blocks."""
        rules = self.rules
        self.dead.discard(executor.row)
        if not rules.shuffle_kept and not (rules.shuffle_migrates and not lost and self._migrate_output(executor, at)):
            self.lose(executor, at, spares=rules.retries.spares_decommissioned and not lost)
        wait = rules.retries.fetch_wait_ms
        for slot, fetching in self._scheduler.fetching.items():
            if executor.row in fetching.dead:
                waits = -(-max(0, at - fetching.began) // wait) if wait else 0
                ends = max(at, fetching.began + waits * wait)
                if ends < fetching.at:
                    fetching.at = ends
                    self._scheduler.agenda.later(ends, DueKind.FETCH, self._scheduler.slot_run[slot], slot)

    def _output_of(self, executor: ExecutorSlots) -> Iterator[tuple[Stage, array[int], list[int]]]:
        """The map output on an executor by stage: who holds each partition, and those that it held; it does no more."""
        for row in self.stages.values():
            holder = row.holder
            if holder is not None and executor.row in row.on:
                row.on.discard(executor.row)
                yield row, holder, [part for part, who in enumerate(holder) if who == executor.row]

    def _migrate_output(self, executor: ExecutorSlots, at: Millis) -> bool:
        """Others take over the map output of an executor that was told to go, in turn; False if it has nowhere to go."""
        peers = [one for one in self._scheduler.by_id.values() if one.standing is Standing.ACTIVE]
        if not peers and not self.rules.shuffle_fallback:
            return False
        turns = cycle(peers)
        for row, holder, parts in self._output_of(executor):
            self.moved += len(parts)
            for part in parts:
                peer = next(turns, None)
                holder[part] = FALLBACK if peer is None else peer.row
                if peer is not None and (peer.row not in row.on or self._scheduler.each):
                    assert row.shuffle is not None
                    row.on.add(peer.row)
                    block = ShuffleDataBlock(row.shuffle)
                    self._scheduler.say(BlockUpdated(at, peer.id, block, valid=True, on_disk=True))
        return True

    def lose(self, executor: ExecutorSlots, at: Millis, *, repeats: bool = True, spares: bool = False) -> None:
        """Map output is lost. ``repeats``: tasks of running map stages that made it run again; ``spares``: whoever fails for
        it may fail as often as he likes."""
        for row, _, lost in self._output_of(executor):
            if not lost:
                continue
            self.unregister(row, lost, executor)
            row.spares = spares
            running = row.attempt if row.phase is StagePhase.RUNNING else None
            if running is not None and not running.zombie and repeats:
                under_way = self._scheduler.under_way(running)
                for part in lost:
                    if running.index(part) not in under_way:
                        self._scheduler.repeat(running, part, executor, at)

    def unregister(self, row: Stage, parts: Sequence[int], executor: ExecutorSlots | None = None) -> None:
        """MapOutputTracker forgets about these partitions of a stage."""
        assert row.holder is not None
        for part in parts:
            row.holder[part] = NOBODY
            if row.done[part]:
                row.done[part] = 0
                row.missing += 1
                if executor is not None:
                    self._scheduler.note_lost(row, part, executor)
        if row.attempt is not None:
            row.attempt.simple = False
        tear_readers(row)

    def unregister_all(self, row: Stage) -> None:
        """unregisterAllMapAndMergeOutput: the stage has no output any more."""
        assert row.holder is not None
        held: dict[int, list[int]] = {}
        for part, who in enumerate(row.holder):
            if row.done[part]:
                held.setdefault(who, []).append(part)
        for who, parts in held.items():
            self.unregister(row, parts, self._scheduler.executors[who] if who >= 0 else None)
        row.on.clear()


def tear(run: TaskSet) -> None:
    """Whether a task of it finds what it reads has to be looked at from now on."""
    run.torn, run.simple = True, False


def tear_readers(row: Stage) -> None:
    """The same of the task sets under way that read a stage's output."""
    for child in row.children:
        if child.phase is StagePhase.RUNNING and child.attempt is not None:
            tear(child.attempt)
