"""What Spark reads of a conf whatever the cluster manager: its scheduler backends have some of their code in common.

The values are *effective* ones, which is where a rule is easily got wrong:

- the failures that stop an application are twice the executors (maxExecutors, or spark.executor.instances, 0 when unset),
  at least 3; streaming's own dynamic allocation comes first;
- the first executors are max(minExecutors, initialExecutors, instances), or without dynamic allocation
  spark.executor.instances, 2 when unset;
- 80 % of the first executors count as enough unless spark.scheduler.minRegisteredResourcesRatio says otherwise;
- an executor may be silent for spark.storage.blockManagerHeartbeatTimeoutMs, or spark.network.timeout when unset, and not
  for less than the interval of its heartbeats, or than that of the looks.

Source: ExecutorFailureTracker, SchedulerBackendUtils, CoarseGrainedSchedulerBackend, HeartbeatReceiver and
SparkConf.validateSettings of Spark 4.3.0.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import INSTANCES, MAX, MIN, dynamic_allocation_enabled, first_executors
from podtide.domain.conf.settings import ConfNotice
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, SPARK_ILLEGAL_ARGUMENT
from podtide.domain.jvm.values import INT_MAX, to_int, to_long
from podtide.domain.protocol.cluster_config import HeartbeatConfig

RATIO: Final = "spark.scheduler.minRegisteredResourcesRatio"
NETWORK_TIMEOUT: Final = "spark.network.timeout"
LOOKS: Final = "spark.network.timeoutInterval"
SILENCE: Final = "spark.storage.blockManagerHeartbeatTimeoutMs"
BEATS: Final = "spark.executor.heartbeatInterval"
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


def heartbeat_config(reads: Reads, *, remarks: bool = False) -> HeartbeatConfig:
    """SparkConf.validateSettings, of the network's timeout, and HeartbeatReceiver's constructor."""
    network, beats = reads.seconds(NETWORK_TIMEOUT), reads.int(BEATS)
    if network <= beats:
        message = (
            "[INVALID_SPARK_CONFIG.INVALID_EXECUTOR_HEARTBEAT_INTERVAL] Invalid Spark config: The value of "
            f"{NETWORK_TIMEOUT}={network}ms must be greater than the value of {BEATS}={beats}ms. SQLSTATE: 42616"
        )
        reads.refuse(NETWORK_TIMEOUT, f"more than {BEATS} ({beats} ms)", SPARK_ILLEGAL_ARGUMENT, message)
    silence, looks = reads.value(SILENCE), reads.int(LOOKS)
    timeout = silence if isinstance(silence, int) else network
    if looks > timeout:
        limit = SILENCE if isinstance(silence, int) else NETWORK_TIMEOUT
        message = f"requirement failed: {LOOKS} should be less than or equal to {limit}."
        reads.refuse(LOOKS, f"at most {limit} ({timeout} ms)", ILLEGAL_ARGUMENT, message)
    if beats > timeout:
        message = f"requirement failed: {BEATS} should be less than or equal to {SILENCE}"
        reads.refuse(BEATS, f"at most {SILENCE} ({timeout} ms)", ILLEGAL_ARGUMENT, message)
    return HeartbeatConfig(timeout, looks, beats, remarks=remarks)


def off_heap_mib(reads: Reads) -> int:
    """Utils.executorOffHeapMemorySizeAsMb."""
    if not reads.flag("spark.memory.offHeap.enabled"):
        return 0
    return to_int(reads.int("spark.memory.offHeap.size") // 1024**2)


def app_id_of(conf: SparkConf) -> str:
    """spark.app.id; Spark makes up another where nobody set one, which only a record of the run knows."""
    return conf.raw("spark.app.id") or ""
