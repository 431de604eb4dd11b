"""What an event log says of memory: peaks of executors, what tasks needed and spilled, tasks that ended for want of it.

*Peaks* are those of ExecutorMetrics ("Task Executor Metrics" of TaskEnd, StageExecutorMetrics): the largest value that
was polled while a task ran, at heartbeats (every ten seconds) or every spark.executor.metrics.pollingInterval. A short task
meets no poll and has zeros, which say nothing. JVMHeapMemory is heap in use, garbage included. The process tree is there
only under spark.executor.processTreeMetrics.enabled.

*Need* of a task is its Peak Execution Memory and, where it spilled, the Memory Bytes Spilled besides: what it held when it
had to give memory back was that much larger in the end. Both are exact, not polled. A task that spilled without a peak did
so in its Python worker, whose memory is no part of the JVM's (spark.python.worker.memory).

Everything is kept by stage; a stage costs two hundred bytes, and a task nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis

OUT_OF_MEMORY: Final = ("java.lang.OutOfMemoryError", "org.apache.spark.memory.SparkOutOfMemoryError")
"""Classes of exceptions of tasks that found no memory."""


class Peaks(NamedTuple):
    """The largest of each metric, in bytes, each at a moment of its own.

    ``heap``: JVMHeapMemory; ``non_heap``: JVMOffHeapMemory (metaspace, compiled code); ``execution``, ``storage``,
    ``unified``: OnHeap...Memory; ``direct``: DirectPoolMemory; ``..._resident``: ProcessTree...RSSMemory.
    """

    heap: int = 0
    non_heap: int = 0
    execution: int = 0
    storage: int = 0
    unified: int = 0
    off_heap_storage: int = 0
    off_heap_unified: int = 0
    direct: int = 0
    jvm_resident: int = 0
    python_resident: int = 0
    other_resident: int = 0

    @property
    def resident(self) -> int:
        """What the processes of an executor held of the machine's memory at most; 0 where it is not logged."""
        return self.jvm_resident + self.python_resident + self.other_resident if self.jvm_resident else 0


NO_PEAKS: Final = Peaks()


def highest(peaks: Iterable[Peaks]) -> Peaks:
    """The largest of each."""
    return Peaks(*map(max, zip(*peaks, NO_PEAKS, strict=True)))


class StageMemory(NamedTuple):
    """The memory of one stage. Bytes; sums over its tasks, or the largest of one.

    ``tasks``: that ended and have metrics; ``polled``: those of them with peaks; ``run_ms``, ``gc_ms``: of all of them;
    ``spilling``: those that spilled; ``need``: the largest need of a task, and ``need_sum`` that of all; ``peak``: the
    largest peak alone; ``spill_need``: the largest need of one that spilled; ``failed``: tasks that found no memory.
    """

    stage: int
    tasks: int = 0
    polled: int = 0
    run_ms: Millis = 0
    polled_ms: Millis = 0
    gc_ms: Millis = 0
    spilling: int = 0
    memory_spilled: int = 0
    disk_spilled: int = 0
    peak: int = 0
    spill_need: int = 0
    need_sum: int = 0
    failed: int = 0
    peaks: Peaks = NO_PEAKS

    @property
    def need(self) -> int:
        """What the largest task would have needed not to spill."""
        return max(self.peak, self.spill_need)

    @property
    def in_python(self) -> bool:
        """Whether it was Python workers that spilled."""
        return self.spilling > 0 and self.peak == 0

    @property
    def uneven(self) -> float:
        """How many times the mean need the largest is; 1 where nothing is known."""
        return self.need * self.tasks / self.need_sum if self.need_sum else 1.0


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """What a log says of memory. ``pool``: the largest memory that the executors' memory managers said to have on the heap
    (Maximum Onheap Memory of BlockManagerAdded; bytes, 0 where not logged)."""

    stages: tuple[StageMemory, ...] = ()
    pool: int = 0

    @property
    def spilled(self) -> int:
        """Bytes of memory that were spilled, as they had been in memory."""
        return sum(one.memory_spilled for one in self.stages)


NO_MEMORY: Final = MemoryEvidence()


@dataclass(slots=True, eq=False)
class _Stage:
    """One stage while the log is read; the fields are those of ``StageMemory``."""

    tasks: int = 0
    polled: int = 0
    run_ms: Millis = 0
    polled_ms: Millis = 0
    gc_ms: Millis = 0
    spilling: int = 0
    memory_spilled: int = 0
    disk_spilled: int = 0
    peak: int = 0
    spill_need: int = 0
    need_sum: int = 0
    failed: int = 0
    peaks: tuple[int, ...] = NO_PEAKS

    def rise(self, seen: tuple[int, ...]) -> None:
        """Take peaks."""
        self.peaks = tuple(map(max, self.peaks, seen))


class MemoryReading:
    """What a log has said of memory so far."""

    def __init__(self) -> None:
        self._stages: dict[int, _Stage] = {}
        self.pool = 0

    def _of(self, stage: int) -> _Stage:
        found = self._stages.get(stage)
        if found is None:
            found = self._stages[stage] = _Stage()
        return found

    def task_ended(
        self, stage: int, run: Millis, gc: Millis, peak: int, memory_spilled: int, disk_spilled: int,
        polled: tuple[int, ...] | None,
    ) -> None:  # fmt: skip
        """A task with metrics ended, however. ``peak``: Peak Execution Memory; ``polled``: the fields of ``Peaks``."""
        found = self._stages.get(stage) or self._of(stage)
        found.tasks += 1
        found.gc_ms += gc
        if run > 0:
            found.run_ms += run
        if peak > found.peak:
            found.peak = peak
        need = peak
        if memory_spilled > 0 or disk_spilled > 0:
            found.spilling += 1
            found.memory_spilled += memory_spilled
            found.disk_spilled += disk_spilled
            need += memory_spilled
            if peak and need > found.spill_need:
                found.spill_need = need
        found.need_sum += need
        if polled is not None:
            found.polled += 1
            found.polled_ms += max(0, run)
            found.rise(polled)

    def task_failed(self, stage: int, exception: str) -> None:
        """A task ended in an exception of this class."""
        if exception in OUT_OF_MEMORY:
            self._of(stage).failed += 1

    def executor_peaks(self, stage: int, polled: tuple[int, ...]) -> None:
        """An executor's peaks while a stage ran, that are not of one task."""
        self._of(stage).rise(polled)

    def evidence(self) -> MemoryEvidence:
        """All of it, by stage."""
        return MemoryEvidence(
            tuple(
                StageMemory(
                    number, one.tasks, one.polled, one.run_ms, one.polled_ms, one.gc_ms, one.spilling,
                    one.memory_spilled, one.disk_spilled, one.peak, one.spill_need, one.need_sum, one.failed,
                    Peaks(*one.peaks),
                )
                for number, one in sorted(self._stages.items())
            ),
            self.pool,
        )  # fmt: skip
