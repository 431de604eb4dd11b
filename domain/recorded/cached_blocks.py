"""Which executors hold cached partitions, told from storage levels where a log has no block updates.

Block updates are logged only with spark.eventLog.logBlockUpdates.enabled. Storage levels and UnpersistRDD always are. A
stage lists every RDD that it may compute, with its storage level. A task of it that ends well has computed its partition of
each persisted RDD that nobody held, and stored it where it ran. A partition that somebody holds is read from there and
stays. With an executor its partitions are gone. Partitions are taken for the indices of tasks, which they are in the first
attempt of a stage over narrow dependencies; what did not fit into memory, or was evicted, cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.stimuli import BlockUpdated, RddBlock


class PersistedRdd(NamedTuple):
    """An RDD with a storage level. ``on_disk``: whether its blocks are on disk from the start (DISK_ONLY)."""

    rdd: int
    on_disk: bool


@dataclass(slots=True, eq=False)
class CachedBlocks:
    """The blocks so far. ``stages``: the persisted RDDs of each stage that has any."""

    stages: dict[int, tuple[PersistedRdd, ...]] = field(default_factory=dict)
    _held: dict[int, set[int]] = field(default_factory=dict)  # the partitions of an RDD that somebody holds
    _of: dict[ExecutorId, list[RddBlock]] = field(default_factory=dict)

    def stage_submitted(self, stage: int, rdds: Iterable[PersistedRdd]) -> None:
        """A stage may compute these."""
        persisted = tuple(rdds)
        if persisted:
            self.stages[stage] = persisted

    def stage_completed(self, stage: int) -> None:
        """Its tasks store nothing more, as far as is known."""
        self.stages.pop(stage, None)

    def task_succeeded(self, stage: int, index: int, executor: ExecutorId, at: Millis) -> list[BlockUpdated]:
        """What a task of such a stage stored, as the block manager said before the task ended."""
        stored = []
        for persisted in self.stages[stage]:
            held = self._held.setdefault(persisted.rdd, set())
            if index not in held:
                held.add(index)
                block = RddBlock(persisted.rdd, index)
                self._of.setdefault(executor, []).append(block)
                stored.append(BlockUpdated(at, executor, block, True, persisted.on_disk))
        return stored

    def executor_removed(self, executor: ExecutorId) -> None:
        """Its blocks are gone."""
        for block in self._of.pop(executor, ()):
            self._held.get(block.rdd, set()).discard(block.split)

    def unpersisted(self, rdd: int) -> None:
        """Nobody holds the RDD any more."""
        self._held.pop(rdd, None)
