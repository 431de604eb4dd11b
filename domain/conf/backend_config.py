"""What Spark reads of a conf whatever the cluster manager: its scheduler backends have some of their code in common.

The values are *effective* ones, which is where a rule is easily got wrong:

- the failures that stop an application are twice the executors (maxExecutors, or spark.executor.instances, 0 when unset),
  at least 3; streaming's own dynamic allocation comes first;
- the first executors are max(minExecutors, initialExecutors, instances), or without dynamic allocation
  spark.executor.instances, 2 when unset;
- 80 % of the first executors count as enough unless spark.scheduler.minRegisteredResourcesRatio says otherwise.

Source: ExecutorFailureTracker, SchedulerBackendUtils and CoarseGrainedSchedulerBackend of Spark 4.3.0.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import INSTANCES, MAX, MIN, dynamic_allocation_enabled, first_executors
from podtide.domain.conf.settings import ConfNotice
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT
from podtide.domain.jvm.values import INT_MAX, to_int, to_long

RATIO: Final = "spark.scheduler.minRegisteredResourcesRatio"
DEFAULT_EXECUTORS: Final = 2
REGISTERED_RATIO: Final = 0.8


def failures_max(reads: Reads) -> int:
    """ExecutorFailureTracker.maxNumExecutorFailures."""
    given = reads.value("spark.executor.maxNumFailures")
    if isinstance(given, int):
        return given
    if _streaming_allocation(reads):
        executors = reads.int("spark.streaming.dynamicAllocation.maxExecutors")
    elif dynamic_allocation_enabled(reads):
        executors = reads.int(MAX)
    else:
        executors = reads.int(INSTANCES)
    return max(3, INT_MAX if executors > INT_MAX // 2 else 2 * executors)


def _streaming_allocation(reads: Reads) -> bool:
    switch = "spark.streaming.dynamicAllocation."
    return reads.flag(switch + "enabled") and (not reads.conf.is_local or reads.flag(switch + "testing"))


def failures_window(reads: Reads) -> Millis | None:
    """For how long a failure counts; None: for ever."""
    window = reads.value("spark.executor.failuresValidityInterval")
    return window if isinstance(window, int) and window > 0 else None


def executors_initial(reads: Reads, notices: list[ConfNotice]) -> int:
    """SchedulerBackendUtils.getInitialTargetExecutorNumber."""
    if not dynamic_allocation_enabled(reads):
        instances = reads.value(INSTANCES)
        return instances if isinstance(instances, int) else DEFAULT_EXECUTORS
    least, most = reads.int(MIN), reads.int(MAX)
    first = first_executors(reads, notices)
    if not least <= first <= most:
        message = (
            f"requirement failed: initial executor number {first} must between min executor number {least} and max "
            f"executor number {most}"
        )
        reads.refuse(MAX, f"at least the first executors ({first})", ILLEGAL_ARGUMENT, message)
    return first


def registered_ratio(reads: Reads) -> float:
    """Which share of the first executors is enough to begin with."""
    ratio = reads.value(RATIO)
    return min(1.0, ratio) if isinstance(ratio, float) else REGISTERED_RATIO


def force_kill_timeout(reads: Reads) -> Millis | None:
    """After what time an executor that does not finish decommissioning is killed."""
    seconds = reads.value("spark.executor.decommission.forceKillTimeout")
    return to_long(1_000 * seconds) if isinstance(seconds, int) else None


def off_heap_mib(reads: Reads) -> int:
    """Utils.executorOffHeapMemorySizeAsMb."""
    if not reads.flag("spark.memory.offHeap.enabled"):
        return 0
    return to_int(reads.int("spark.memory.offHeap.size") // 1024**2)


def app_id_of(conf: SparkConf) -> str:
    """spark.app.id; Spark makes up another where nobody set one, which only a record of the run knows."""
    return conf.raw("spark.app.id") or ""
