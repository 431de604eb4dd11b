"""Which executors hold cached partitions, told from storage levels."""

from __future__ import annotations

from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.stimuli import BlockUpdated, RddBlock
from podtide.domain.recorded.cached_blocks import CachedBlocks, PersistedRdd

A, B = ExecutorId("1"), ExecutorId("2")


def block(executor: ExecutorId, rdd: int, split: int, at: int = 0, on_disk: bool = False) -> BlockUpdated:
    return BlockUpdated(at, executor, RddBlock(rdd, split), True, on_disk)


def caching() -> CachedBlocks:
    blocks = CachedBlocks()
    blocks.stage_submitted(0, [PersistedRdd(7, False), PersistedRdd(8, True)])
    return blocks


def test_a_task_stores_its_partition_of_every_persisted_rdd() -> None:
    assert caching().task_succeeded(0, 3, A, 9) == [block(A, 7, 3, 9), block(A, 8, 3, 9, on_disk=True)]


def test_a_partition_that_somebody_holds_is_read_and_stays() -> None:
    blocks = caching()
    blocks.task_succeeded(0, 3, A, 0)
    blocks.stage_completed(0)
    assert not blocks.stages
    blocks.stage_submitted(1, [PersistedRdd(7, False)])
    assert blocks.task_succeeded(1, 3, B, 0) == []
    assert blocks.task_succeeded(1, 4, B, 0) == [block(B, 7, 4)]


def test_what_was_lost_or_dropped_is_stored_anew() -> None:
    blocks = caching()
    blocks.task_succeeded(0, 3, A, 0)
    blocks.executor_removed(A)
    assert blocks.task_succeeded(0, 3, B, 0) == [block(B, 7, 3), block(B, 8, 3, on_disk=True)]
    blocks.unpersisted(8)
    blocks.executor_removed(B)
    assert blocks.task_succeeded(0, 3, A, 0) == [block(A, 7, 3), block(A, 8, 3, on_disk=True)]


def test_a_stage_without_persisted_rdds_is_none_of_them() -> None:
    blocks = CachedBlocks()
    blocks.stage_submitted(0, [])
    assert not blocks.stages
