"""Stages whose number of tasks follows the cores that are registered: coalesced exchanges, and scans of files.

After a shuffle adaptive execution merges neighbouring partitions up to a target size. With
``spark.sql.adaptive.coalescePartitions.parallelismFirst`` (on by default) the target is small enough to keep every core busy
that is registered at that moment (ShufflePartitionsUtil.coalescePartitions of Spark 4.3.0)::

    target = max(min(ceil(bytes of the shuffle / default parallelism), advisory size), minimum size)

The default parallelism is the number of registered cores, at least 2 (CoarseGrainedSchedulerBackend.defaultParallelism). So
another number of executors gives the same work in another number of tasks.

A scan of files is split so that every core has some of it, too (FilePartition.maxSplitBytes of Spark 4.3.0)::

    split = min(spark.sql.files.maxPartitionBytes, max(spark.sql.files.openCostInBytes, bytes of the files / parallelism))

The parallelism is the default parallelism here as well, and the bytes of the files count the cost of opening each of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.recorded.application import NO_TASK, RecordedStage

PARALLELISM_LEAST: Final = 2
"""The least that CoarseGrainedSchedulerBackend.defaultParallelism is."""


class CoalescedStage(NamedTuple):
    """A stage that reads coalesced partitions. ``tasks`` on so many ``cores`` as recorded; ``partitions``: before they were
    coalesced; sizes in bytes, ``total_bytes`` over all partitions."""

    stage: int
    tasks: int
    cores: int
    partitions: int
    total_bytes: int
    least_bytes: int
    advisory_bytes: int

    def tasks_on(self, cores: int) -> int:
        """How many tasks it has where so many cores are registered: as recorded, in proportion to what the rule gives."""
        expected, recorded = self.expected_on(cores), self.expected_on(self.cores)
        return min(self.partitions, max(1, (2 * self.tasks * expected + recorded) // (2 * recorded)))

    def expected_on(self, cores: int) -> int:
        """What the rule gives for partitions of equal size."""
        share = -(-self.total_bytes // max(PARALLELISM_LEAST, cores))
        target = max(min(share, self.advisory_bytes), self.least_bytes)
        merged = max(1, target * self.partitions // max(1, self.total_bytes))
        return -(-self.partitions // merged)


class ScannedStage(NamedTuple):
    """A stage that scans files, which were split as its ``cores`` had it. ``tasks``: as recorded; ``tasks_least``: with
    fewer a split would be larger than the largest (spark.sql.files.maxPartitionBytes)."""

    stage: int
    tasks: int
    cores: int
    tasks_least: int

    def tasks_on(self, cores: int) -> int:
        """How many tasks it has where so many cores are registered: in proportion to what it had, as no file is known."""
        here, there = max(PARALLELISM_LEAST, cores), max(PARALLELISM_LEAST, self.cores)
        return max(1, self.tasks_least, (2 * self.tasks * here + there) // (2 * there))


StageByCores: TypeAlias = CoalescedStage | ScannedStage
"""A stage with other tasks on other cores."""


def cut_anew(stage: RecordedStage, tasks: int) -> RecordedStage:
    """The stage in so many tasks: the same total work, evenly divided within each recorded task."""
    if tasks == stage.tasks:
        return stage
    bodies = _divided([max(0, body) for body in stage.body_ms if body != NO_TASK], tasks)
    return replace(
        stage,
        body_ms=bodies,
        failures=tuple(one for one in stage.failures if one.task < tasks),
        copies=tuple(one for one in stage.copies if one.task < tasks),
    )


def _divided(bodies: Sequence[int], tasks: int) -> array[int]:
    """The same work in another number of pieces: each is what lies between two places of the sequence."""
    count = len(bodies)
    before = [0]
    for body in bodies:
        before.append(before[-1] + body)

    def upto(piece: int) -> int:
        """The work before a piece: whole bodies, and a part of the one that it begins in."""
        whole, part = divmod(piece * count, tasks)
        return before[whole] + (bodies[whole] * part // tasks if part else 0)

    ends = [upto(piece) for piece in range(tasks + 1)]
    return array("q", [after - begun for begun, after in pairwise(ends)])
