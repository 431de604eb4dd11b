"""The closed list of what makes one run longer than another, and which settings act on each.

docs/how-to/compare.md says the same in prose. Where a conf key acts on a cause and changed between two runs, the cause
is said to be because of it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from podtide.domain.comparison.account import TaskTime


class ChangeCause(Enum):
    """What the difference of two run times is divided among."""

    INPUT = "more or less data"
    """The stages had more, or fewer, records (or bytes) to work on."""
    SLOW_HOST = "a slow host"
    """Tasks took longer on a host than on the others for the same amount."""
    LOCALITY = "tasks away from their data"
    """Tasks that ran far from their data took longer than the others."""
    CPU = "more computing per record"
    GC = "garbage collection"
    FETCH = "waiting for shuffle data"
    WRITE = "writing shuffle data"
    BLOCKED = "tasks that wait"
    """Time in tasks that is neither computing nor garbage collection nor shuffle: sources, sinks, Python, locks."""
    DESERIALIZE = "deserializing tasks, serializing results"
    DELAY = "between driver and executor"
    SPILL = "spilling"
    """Tasks took longer and spilled more."""
    SKEW = "skew"
    """A task with far more records than the others was waited for."""
    STRAGGLER = "a task that took longer than others like it"
    PARTITIONS = "fewer tasks than slots"
    """The number of tasks changed, so that more, or fewer, slots stood empty."""
    EXECUTORS = "fewer or more executors"
    """``detail`` says what kept them away: a ``Limit``."""
    SHAPE = "executors of another size"
    LOST = "lost work"
    """Work that was lost or done again, and slots of lost executors until others took their place."""
    SHARED = "other stages in the same slots"
    SCHEDULING = "free slots while tasks waited"
    """Locality wait, exclusion, or a driver that was busy."""
    STALL = "nothing moved"
    """Tasks waited and nothing moved; ``detail`` says why: a ``StallCause``."""
    ADDED = "stages that were added"
    GONE = "stages that are gone"
    BESIDE = "other stages that ended last"
    """Of stages that ran side by side another one was waited for."""
    DRIVER = "the driver between stages"
    STARTING = "the driver before the first job"
    FIRST_EXECUTORS = "the first executors"
    """The driver was ready and waited for executors before its first job."""


OF_TASK_TIME: Final = {
    TaskTime.CPU: ChangeCause.CPU,
    TaskTime.GC: ChangeCause.GC,
    TaskTime.FETCH: ChangeCause.FETCH,
    TaskTime.WRITE: ChangeCause.WRITE,
    TaskTime.BLOCKED: ChangeCause.BLOCKED,
    TaskTime.DESERIALIZE: ChangeCause.DESERIALIZE,
    TaskTime.DELAY: ChangeCause.DELAY,
}

SLOWER: Final = frozenset(OF_TASK_TIME.values())
"""Causes by which tasks take longer for the same amount."""

_COUNTS: Final = (ChangeCause.EXECUTORS, ChangeCause.FIRST_EXECUTORS)
_PLAN: Final = (
    ChangeCause.PARTITIONS,
    ChangeCause.SKEW,
    ChangeCause.STRAGGLER,
    ChangeCause.ADDED,
    ChangeCause.GONE,
    ChangeCause.BESIDE,
    ChangeCause.INPUT,
)
_MEMORY: Final = (ChangeCause.GC, ChangeCause.SPILL, ChangeCause.CPU, ChangeCause.BLOCKED, ChangeCause.LOST)
_SHUFFLE: Final = (ChangeCause.FETCH, ChangeCause.WRITE, ChangeCause.CPU, ChangeCause.BLOCKED, ChangeCause.LOST)

ACTS_ON: Final = (
    ("spark.dynamicAllocation.", (*_COUNTS, ChangeCause.LOST, ChangeCause.STALL)),
    ("spark.executor.instances", (*_COUNTS, ChangeCause.STALL)),
    ("spark.executor.cores", (ChangeCause.SHAPE, *_COUNTS, ChangeCause.PARTITIONS, *_MEMORY)),
    ("spark.task.cpus", (ChangeCause.SHAPE, *_COUNTS, ChangeCause.PARTITIONS)),
    ("spark.task.resource.", (ChangeCause.SHAPE, *_COUNTS)),
    ("spark.executor.memory", _MEMORY),
    ("spark.executor.pyspark.memory", (ChangeCause.BLOCKED, ChangeCause.LOST)),
    ("spark.executor.extraJavaOptions", SLOWER),
    ("spark.memory.", _MEMORY),
    ("spark.sql.shuffle.partitions", (*_PLAN, ChangeCause.SPILL, ChangeCause.FETCH, ChangeCause.GC)),
    ("spark.sql.adaptive.", (*_PLAN, *SLOWER)),
    ("spark.sql.autoBroadcastJoinThreshold", (*_PLAN, *SLOWER)),
    ("spark.sql.", (*_PLAN, *SLOWER)),
    ("spark.default.parallelism", _PLAN),
    ("spark.locality.", (ChangeCause.SCHEDULING, ChangeCause.LOCALITY, ChangeCause.STALL)),
    ("spark.speculation", (ChangeCause.STRAGGLER, ChangeCause.SLOW_HOST)),
    ("spark.scheduler.", (ChangeCause.SCHEDULING, ChangeCause.SHARED, ChangeCause.FIRST_EXECUTORS)),
    ("spark.shuffle.", _SHUFFLE),
    ("spark.reducer.", _SHUFFLE),
    ("spark.io.", _SHUFFLE),
    ("spark.serializer", (*_SHUFFLE, ChangeCause.DESERIALIZE)),
    ("spark.kryo", (*_SHUFFLE, ChangeCause.DESERIALIZE)),
    ("spark.rdd.compress", SLOWER),
    ("spark.decommission.", (ChangeCause.LOST,)),
    ("spark.storage.decommission.", (ChangeCause.LOST,)),
    ("spark.excludeOnFailure.", (ChangeCause.LOST, ChangeCause.SCHEDULING, ChangeCause.STALL)),
    ("spark.kubernetes.allocation.", (*_COUNTS, ChangeCause.STALL)),
    ("spark.kubernetes.", (*_COUNTS, ChangeCause.LOST, ChangeCause.STALL)),
    ("spark.yarn.", (*_COUNTS, ChangeCause.LOST, ChangeCause.STALL)),
    ("spark.driver.", (ChangeCause.DRIVER, ChangeCause.STARTING)),
    ("spark.master", (*_COUNTS, ChangeCause.STARTING, ChangeCause.SHAPE)),
)
"""Of conf keys that begin so, the causes that they act on; the longest beginning counts."""

NO_EFFECT: Final = (
    "spark.app.", "spark.driver.port", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.", "spark.eventLog.",
    "spark.yarn.historyServer", "spark.history.", "spark.executor.id", "spark.submit.", "spark.repl.", "spark.jars",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.driver.master", "spark.kubernetes.submission", "spark.kubernetes.executor.podNamePrefix",
    "spark.kubernetes.resource.", "spark.sql.warehouse.dir", "spark.local.dir", "spark.logConf", "spark.log.",
    "spark.org.", "spark.yarn.app.", "spark.yarn.dist.", "spark.driver.appUIAddress", "spark.home", "spark.pyspark.",
    "spark.proxyBase", "spark.yarn.keytab", "spark.yarn.principal", "spark.blockManager.port", "spark.authenticate",
    "spark.extraListeners", "spark.sql.queryExecutionListeners", "spark.files", "spark.archives", "spark.hadoop.fs.",
    "spark.metrics.",
)  # fmt: skip
"""Keys that begin so differ from run to run, or say nothing of its length."""


def acts_on(key: str) -> tuple[ChangeCause, ...]:
    """The causes that a conf key acts on."""
    found = max((one for one in ACTS_ON if key.startswith(one[0])), key=lambda one: len(one[0]), default=None)
    return () if found is None else tuple(found[1])
