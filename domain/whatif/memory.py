"""What memory would have sufficed, from the evidence of the log, and with what risk.

Spark's rules. The memory manager of an executor has (heap - 300 MiB) * spark.memory.fraction for execution and storage
together (UnifiedMemoryManager), and of what storage leaves a task gets a share of one by the number of tasks beside it
(ExecutionMemoryPool): as many as the executor has slots. A task that gets less than it needs spills. With
spark.memory.offHeap.enabled it is spark.memory.offHeap.size that SQL divides among its tasks.

Evidence (``recorded.memory``). What tasks needed is exact where they did not spill. Where they spilled it is what they held
and gave back together, and ``SPILL_MARGIN`` besides: an array of pointers that grows holds the old one, too, and pages are
not filled to their end. Heap in use, storage and the process tree are polled: ``POLLED_MARGIN`` at heartbeats, less under
spark.executor.metrics.pollingInterval. The heap in use has garbage in it, so a heap of that size is more than enough, and
nothing is known of one that is smaller: none is recommended.

- *More* is recommended where tasks spilled on the heap and four times the heap at most would have held it; what is beyond
  that is a matter of partitions, not of memory.
- *Less* is recommended where peaks were polled for at least half of the tasks' time, no task and no executor ended for want
  of memory, and less than a tenth of the time was garbage collection.
- Where executors or tasks ended for want of memory, the log tells that more is needed, not how much.

Only the application's default resource profile is judged: its memory is that of the conf. On Databricks and Glue an executor
is a whole node, whose type decides its memory: nothing is recommended there, but what was needed is told all the same. A
standalone master grants heaps alone: no overhead is recommended there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.conf.advice.effects import place_of, why_not
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import SparkConf, from_mapping, layered
from podtide.domain.executor_pod.resources import Sizes
from podtide.domain.recorded.application import Application, Leave
from podtide.domain.recorded.memory import Peaks, StageMemory, highest
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.whatif.executor_shapes import sizes_of

MIB: Final = 1 << 20
RESERVED_MIB: Final = 300
"""UnifiedMemoryManager.RESERVED_SYSTEM_MEMORY_BYTES."""

SPILL_MARGIN: Final = 1.4
MEASURED_MARGIN: Final = 1.1
POLLED_MARGIN: Final = 1.3
POLLED_OFTEN_MS: Final[Millis] = 1_000

HEAP_TIMES_MAX: Final = 4
POLLED_SHARE: Final = 0.5
GC_SHARE_MAX: Final = 0.1
LESS_WORTH: Final = 0.9
"""A heap, or an overhead, above this share of what there is is no change worth its risk."""

UNEVEN: Final = 3.0
"""A task that needs so many times the mean is alone: more partitions would leave it as it is."""

HEAP_LEAST_MIB: Final = 512
"""Spark refuses executors of less than 450 MiB (UnifiedMemoryManager.getMaxMemory)."""

OVERHEAD_LEAST_MIB: Final = 384
STAGES_MAX: Final = 20
SPILL_NOTABLE: Final = 64 * MIB
"""Bytes of one stage; less is no spill to speak of."""

HEAP_KEY: Final = "spark.executor.memory"
OVERHEAD_KEY: Final = "spark.executor.memoryOverhead"
OFF_HEAP_SIZE: Final = "spark.memory.offHeap.size"
_FRACTION: Final = ("spark.memory.fraction", 0.6)
_POLLING: Final = "spark.executor.metrics.pollingInterval"

_HEAP_ENDED: Final = re.compile(r"\b(?:code|status):? 52\b|OutOfMemoryError|JVM OOM", re.IGNORECASE)
_OVER_LIMIT: Final = re.compile(r"exceeding (?:\w+ )?memory limits|OOMKilled", re.IGNORECASE)
_KILLED: Final = re.compile(r"\b(?:code|status):? 137\b", re.IGNORECASE)


class Losses(NamedTuple):
    """What ended for want of memory. ``heap``: executors whose JVM said so (exit code 52); ``container``: executors that
    were killed for their limit; ``killed``: with SIGKILL (137), which is what the kernel does then, and
    others may; ``tasks``: that failed so."""

    heap: int = 0
    container: int = 0
    killed: int = 0
    tasks: int = 0

    @property
    def any(self) -> bool:
        """Whether there were any."""
        return any(self)


class MemoryRisk(Enum):
    """How sure it is that a recommended memory suffices."""

    LOW = "low"
    """It was measured: more than what was ever used."""
    MODERATE = "moderate"
    """It follows from what was spilled, or from peaks that were polled every ten seconds."""
    HIGH = "high"
    """Something ended for want of memory; how much more it wanted is not in the log."""


@dataclass(frozen=True, slots=True)
class SpillingStage:
    """A stage that spilled. ``need_mib``: of its largest task; ``heap_mib``: the heap (or off-heap memory) with which no
    task of it spills; ``partitions``: how many times as many would do at the memory that it had, None where they would not
    (one task stands out, ``uneven``, or it is Python's memory);
    ``exchanged``: spark.sql.shuffle.partitions says how many; ``run_share``: of all task time."""

    stage: int
    name: str
    tasks: int
    spilling: int
    memory_spilled: int
    disk_spilled: int
    need_mib: float
    heap_mib: int | None
    partitions: int | None
    exchanged: bool
    uneven: bool
    in_python: bool
    run_share: float


@dataclass(frozen=True, slots=True)
class MemoryFinding:
    """What the log says of memory. MiB of one executor; shares of the tasks' run time.

    ``heap_mib``, ``overhead_mib``, ``off_heap_mib``, ``total_mib``: what it had, ``pool_mib``: of that for execution and
    storage. ``needed_pool_mib``: with which nothing would have spilled. ``used_heap_mib``, ``storage_mib``,
    ``resident_mib``: peaks, 0 where nothing was polled. ``enough_mib``: the heap that would have sufficed; None where too
    little is known. ``enough_cores``: cores of an executor with which the heap that there was would have sufficed.
    ``overhead_needed_mib``: None without a process tree. ``of_node``: the type of the node decides the memory.
    ``changes``: what is recommended, of conf keys; with them an executor has ``total_after_mib``.
    """

    cores: int
    slots: int
    heap_mib: int
    overhead_mib: int
    off_heap_mib: int
    total_mib: int
    pool_mib: float
    needed_pool_mib: float
    used_heap_mib: float
    storage_mib: float
    resident_mib: float
    polled_share: float
    gc_share: float
    memory_spilled: int
    disk_spilled: int
    spill_share: float
    stages: tuple[SpillingStage, ...]
    losses: Losses
    enough_mib: int | None
    enough_cores: int | None
    overhead_needed_mib: int | None
    of_node: bool
    changes: Mapping[str, str]
    total_after_mib: int
    risk: MemoryRisk | None

    @property
    def saved_share(self) -> float:
        """The share of the memory that the recommendation saves; negative where it takes more."""
        return 1.0 - self.total_after_mib / self.total_mib if self.total_mib else 0.0


def memory_finding(application: Application, conf: SparkConf, shape: ExecutorShape) -> MemoryFinding | None:
    """What the log says of the memory of executors of the default profile; None where it says nothing of it.

    ``conf``: the log's own; ``shape``: of the default profile under it.
    """
    if conf.is_local:
        return None
    profiles = {one.stage: one.profile for one in application.stages}
    stages = [one for one in application.memory.stages if profiles.get(one.stage, DEFAULT_PROFILE) == DEFAULT_PROFILE]
    losses = _losses(application, stages)
    if not losses.any and not any(one.peak or one.spilling or one.polled for one in stages):
        return None
    return _Sizing(application, conf, shape, stages, losses).finding()


def _losses(application: Application, stages: Sequence[StageMemory]) -> Losses:
    reasons = [one.reason for one in application.executors if one.leave is Leave.LOST]
    heap = [bool(_HEAP_ENDED.search(one)) for one in reasons]
    over = [not first and bool(_OVER_LIMIT.search(one)) for first, one in zip(heap, reasons, strict=True)]
    killed = [
        not first and not second and bool(_KILLED.search(one))
        for first, second, one in zip(heap, over, reasons, strict=True)
    ]
    return Losses(sum(heap), sum(over), sum(killed), sum(one.failed for one in stages))


class _Sizing:
    """The arithmetic of one application. Sizes are MiB."""

    def __init__(
        self,
        application: Application,
        conf: SparkConf,
        shape: ExecutorShape,
        stages: Sequence[StageMemory],
        losses: Losses,
    ) -> None:
        self.application, self.conf, self.shape, self.stages, self.losses = application, conf, shape, stages, losses
        self.reads = Reads(conf)
        self.place = place_of(conf)
        self.sizes: Sizes = sizes_of(self.reads)
        self.fraction = _share(conf, *_FRACTION)
        self.run_ms = max(1, sum(one.run_ms for one in stages))
        self.peaks: Peaks = highest(one.peaks for one in stages)
        polled_every = self.reads.value(_POLLING)
        often = isinstance(polled_every, int) and 0 < polled_every <= POLLED_OFTEN_MS
        self.often = often
        self.polled_margin = MEASURED_MARGIN if often else POLLED_MARGIN
        self.off_heap = self.sizes.off_heap_enabled and self.sizes.off_heap_mib > 0
        self.jvm_share = self._jvm_share()
        self.pool = float(self.sizes.off_heap_mib) if self.off_heap else self._pool_of(self.sizes.heap_mib)
        self.storage = (self.peaks.off_heap_storage if self.off_heap else self.peaks.storage) / MIB

    def _jvm_share(self) -> float:
        """The part of the heap that Runtime.maxMemory counts: a survivor space less in some collectors."""
        logged = self.application.memory.pool / MIB
        if not logged or not self.sizes.heap_mib:
            return 1.0
        share = (logged / self.fraction + RESERVED_MIB) / self.sizes.heap_mib
        return share if 0.8 <= share <= 1.01 else 1.0

    def _pool_of(self, heap_mib: float) -> float:
        return max(0.0, heap_mib * self.jvm_share - RESERVED_MIB) * self.fraction

    def _heap_for(self, pool_mib: float) -> int:
        """The memory for execution and storage of this size: a heap, or off-heap memory."""
        if self.off_heap:
            return _rounded(pool_mib)
        return max(HEAP_LEAST_MIB, _rounded((pool_mib / self.fraction + RESERVED_MIB) / self.jvm_share))

    def _execution(self, stage: StageMemory) -> float:
        """What its tasks need of an executor, as many at once as there may be."""
        need = max(stage.peak * MEASURED_MARGIN, stage.spill_need * SPILL_MARGIN)
        return need * min(self.shape.slots, max(1, stage.tasks)) / MIB

    def _spilling(self) -> tuple[SpillingStage, ...]:
        known = {one.stage: one for one in self.application.stages}
        found = []
        for one in sorted(self.stages, key=lambda stage: (-stage.memory_spilled, stage.stage)):
            if one.memory_spilled < SPILL_NOTABLE:
                continue
            room = self.pool - self.storage
            execution, uneven = self._execution(one), one.uneven > UNEVEN
            helps = not one.in_python and not uneven and room > 0
            recorded = known.get(one.stage)
            made = SpillingStage(
                one.stage, "" if recorded is None else recorded.name, one.tasks, one.spilling, one.memory_spilled,
                one.disk_spilled, one.need / MIB, None if one.in_python else self._heap_for(execution + self.storage),
                max(2, ceil(execution / room)) if helps else None,
                recorded is not None and recorded.exchanged, uneven, one.in_python, one.run_ms / self.run_ms,
            )  # fmt: skip
            found.append(made)
        return tuple(found)

    def _overhead_needed(self) -> int | None:
        """What the processes need beyond heap, off-heap memory and Python's own share of the container."""
        peaks, sizes = self.peaks, self.sizes
        if not peaks.resident:
            return None
        off_heap = min(sizes.off_heap_mib, peaks.off_heap_unified / MIB)
        java = max(peaks.jvm_resident - peaks.heap, peaks.non_heap + peaks.direct) / MIB - off_heap
        python = max(0.0, peaks.python_resident / MIB - (sizes.python_mib if sizes.python else 0))
        needed = (max(0.0, java) + python + peaks.other_resident / MIB) * self.polled_margin
        return max(OVERHEAD_LEAST_MIB, _rounded(needed))

    def _enough_cores(self, needed: float) -> int | None:
        """Fewer cores with which the memory that there was would have sufficed; None where there are none, or no need."""
        if needed <= self.pool or self.shape.slots < 2:
            return None
        by_task = max(1, self.shape.cores // self.shape.slots)
        largest = max(
            (self._execution(one) / min(self.shape.slots, max(1, one.tasks)) for one in self.stages), default=0
        )
        slots = int((self.pool - self.storage) / largest) if largest else 0
        return by_task * slots if 0 < slots < self.shape.slots else None

    def finding(self) -> MemoryFinding:
        """All of it."""
        sizes, stages, losses = self.sizes, self.stages, self.losses
        spilling = self._spilling()
        polled_share = sum(one.polled_ms for one in stages) / self.run_ms
        gc_share = sum(one.gc_ms for one in stages) / self.run_ms
        execution = max((self._execution(one) for one in stages), default=0.0)
        unified = (self.peaks.off_heap_unified if self.off_heap else self.peaks.unified) * self.polled_margin / MIB
        needed = max(execution + self.storage, unified if not spilling else 0.0)
        polled = polled_share >= POLLED_SHARE
        used = self.peaks.heap / MIB
        by_use = used * self.polled_margin / self.jvm_share
        enough = None
        if polled or spilling:
            enough = _rounded(max(by_use, HEAP_LEAST_MIB if self.off_heap else self._heap_for(needed)))
        made = MemoryFinding(
            self.shape.cores, self.shape.slots, sizes.heap_mib, sizes.overhead_mib, sizes.off_heap_mib, _total(sizes),
            self.pool, needed, used, self.storage, self.peaks.resident / MIB, polled_share, gc_share,
            sum(one.memory_spilled for one in spilling), sum(one.disk_spilled for one in spilling),
            sum(one.run_share for one in spilling), spilling[:STAGES_MAX], losses, enough, self._enough_cores(needed),
            self._overhead_needed(), self.place.own_rules, {}, _total(sizes), None,
        )  # fmt: skip
        if made.of_node:
            return made
        return self._advised(made, quiet=polled and not losses.any and gc_share <= GC_SHARE_MAX)

    def _advised(self, found: MemoryFinding, *, quiet: bool) -> MemoryFinding:
        """The finding with what is recommended. ``quiet``: nothing speaks against less."""
        changes: dict[str, str] = {}
        risk = None
        heap = found.heap_mib
        short = any(not one.in_python for one in found.stages) and found.needed_pool_mib > self.pool
        if found.losses.heap or found.losses.tasks:
            heap = _rounded(max(heap * 1.5, self._heap_for(found.needed_pool_mib) if not self.off_heap else 0))
            changes[HEAP_KEY], risk = f"{heap}m", MemoryRisk.HIGH
        elif short:
            wanted = self._heap_for(found.needed_pool_mib)
            if wanted <= HEAP_TIMES_MAX * (found.off_heap_mib if self.off_heap else heap):
                changes[OFF_HEAP_SIZE if self.off_heap else HEAP_KEY], risk = f"{wanted}m", MemoryRisk.MODERATE
                heap = heap if self.off_heap else wanted
        elif quiet and not found.stages and found.enough_mib is not None and found.enough_mib <= LESS_WORTH * heap:
            heap = found.enough_mib
            changes[HEAP_KEY], risk = f"{heap}m", MemoryRisk.LOW if self.often else MemoryRisk.MODERATE
        after = self._sizes_with(changes)
        granted = why_not(OVERHEAD_KEY, self.place) is None
        needed = found.overhead_needed_mib if granted else None
        if needed is not None and found.losses.container + found.losses.killed == 0:
            lower = quiet and needed <= LESS_WORTH * after.overhead_mib
            if lower or needed > after.overhead_mib:
                changes[OVERHEAD_KEY] = f"{needed}m"
                risk = risk or (MemoryRisk.LOW if self.often else MemoryRisk.MODERATE)
        elif found.losses.container and granted:
            changes[OVERHEAD_KEY] = f"{_rounded(max(needed or 0, 2 * after.overhead_mib))}m"
            risk = MemoryRisk.HIGH
        return replace(found, changes=changes, total_after_mib=_total(self._sizes_with(changes)), risk=risk)

    def _sizes_with(self, changes: Mapping[str, str]) -> Sizes:
        return sizes_of(Reads(layered(self.conf, from_mapping(changes, "memory", self.conf.version))))


def _total(sizes: Sizes) -> int:
    return sizes.heap_mib + sizes.overhead_mib + sizes.off_heap_mib + (sizes.python_mib if sizes.python else 0)


def _rounded(mib: float) -> int:
    """Up to a multiple that people write: 64 MiB, 256 from 4 GiB, 1 GiB from 32 GiB."""
    step = 64 if mib <= 4_096 else 256 if mib <= 32_768 else 1_024
    return ceil(mib / step) * step


def _share(conf: SparkConf, key: str, default: float) -> float:
    """A share that Spark reads; its default where it cannot be read."""
    try:
        found = float(conf.raw(key) or default)
    except ValueError:
        return default
    return found if 0 < found <= 1 else default
