"""The closed list of reasons for which tasks wait and nothing moves, and what is said about each.

A row of ``ROWS`` has how long the state has to last before it is worth a word, what it means in one sentence, and what to do
in one sentence with Spark's own keys. The patience of a cause is the longest time that a healthy application may spend in
that state: an executor takes minutes where a node has to be started first; the rest follows timeouts of Spark's.
docs/how-to/stalls.md says the same in prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis

_MINUTE: Final[Millis] = 60_000


class StallCause(Enum):
    """Why nothing moves. Where several apply, the first of the list. The texts are the names in every output."""

    PENDING_BELOW_ZERO = "pending below zero"
    UNSCHEDULABLE = "unschedulable task sets"
    EXECUTORS_DIE = "executors start and die"
    GHOST = "ghost executor"
    QUOTA = "quota"
    NODES = "no nodes"
    DRIVER = "driver does nothing"
    MAXIMUM = "maximum"
    NOT_COMING = "executors do not come"
    NOT_ASKED = "executors are not asked for"
    SHUFFLES = "kept by old shuffles"


class StallCauseRow(NamedTuple):
    """What stands behind a cause. ``patience_ms``: how long it lasts before it is reported."""

    patience_ms: Millis
    meaning: str
    advice: str


ROWS: Final[Mapping[StallCause, StallCauseRow]] = {
    StallCause.PENDING_BELOW_ZERO: StallCauseRow(
        2 * _MINUTE,
        "Tasks of a completed stage that were heard of late make the count of pending tasks too low (SPARK-58446).",
        "Set spark.dynamicAllocation.minExecutors to 1 or more, or restart the driver; podtide run --fix SPARK-58446.",
    ),
    StallCause.UNSCHEDULABLE: StallCauseRow(
        2 * _MINUTE,
        "Every executor is excluded for a task set.",
        "Look why its tasks fail on every host; spark.excludeOnFailure.timeout brings excluded executors back, a higher "
        "spark.dynamicAllocation.maxExecutors lets new ones come.",
    ),
    StallCause.EXECUTORS_DIE: StallCauseRow(
        2 * _MINUTE,
        "Executors start and die, and no task ends well in between.",
        "Read the log of one of these executors; memory (spark.executor.memoryOverhead), image and class path are the usual "
        "reasons. spark.executor.maxNumFailures ends such an application.",
    ),
    StallCause.GHOST: StallCauseRow(
        5 * _MINUTE,
        "An executor that registered and was gone before its pod was seen counts towards the target for ever (SPARK-52589).",
        "Set spark.dynamicAllocation.minExecutors to 1 or more, leave spark.kubernetes.executor.enableApiWatcher on, or "
        "restart the driver; podtide run --fix SPARK-52589.",
    ),
    StallCause.QUOTA: StallCauseRow(
        5 * _MINUTE,
        "The API server refuses new pods.",
        "Raise the ResourceQuota or LimitRange of the namespace, or lower spark.executor.cores, spark.executor.memory or "
        "spark.dynamicAllocation.maxExecutors to what it allows.",
    ),
    StallCause.NODES: StallCauseRow(
        10 * _MINUTE,
        "Pods wait for a node.",
        "Compare spark.executor.cores, spark.executor.memory and spark.kubernetes.node.selector.* with the nodes that there "
        "are, and ask the cluster autoscaler why it adds none.",
    ),
    StallCause.DRIVER: StallCauseRow(
        5 * _MINUTE,
        "Tasks wait, executors are free, and the driver starts nothing.",
        "Take a thread dump of the driver (jstack); a long spark.locality.wait, a barrier stage that needs more slots than "
        "there are, executors excluded by spark.excludeOnFailure.*, and a driver without memory look like this.",
    ),
    StallCause.MAXIMUM: StallCauseRow(
        10 * _MINUTE,
        "As many executors as may be are there, and none of their tasks ends.",
        "Raise spark.dynamicAllocation.maxExecutors (without dynamic allocation spark.executor.instances; on Kubernetes "
        "also spark.kubernetes.allocation.maximum), or cut the work into smaller tasks.",
    ),
    StallCause.NOT_COMING: StallCauseRow(
        10 * _MINUTE,
        "Executors were asked for and do not come.",
        "Ask the cluster manager: pods that stay pending, a ResourceQuota, a YARN queue (spark.yarn.queue) without room, or "
        "executors that cannot reach the driver (spark.driver.host, spark.driver.port).",
    ),
    StallCause.NOT_ASKED: StallCauseRow(
        2 * _MINUTE,
        "Tasks wait and no more executors are asked for.",
        "Read the driver's log for exceptions of ExecutorAllocationManager; spark.dynamicAllocation.minExecutors above 0 "
        "gets the application going again.",
    ),
    StallCause.SHUFFLES: StallCauseRow(
        60 * _MINUTE,
        "Executors stay idle because of shuffle data that no job has used since; Connect and Thrift servers remove shuffle "
        "files without telling the executor monitor.",
        "Set spark.dynamicAllocation.shuffleTracking.timeout to a time, for instance 30min; see also "
        "spark.cleaner.periodicGC.interval.",
    ),
}  # fmt: skip
"""Of SHUFFLES twice spark.cleaner.periodicGC.interval (30 min): by then the driver's ContextCleaner has had its turn."""

LEAST_MS: Final[Millis] = min(row.patience_ms for row in ROWS.values())
"""The shortest patience: nothing is a stall before."""
