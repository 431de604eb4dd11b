"""The closed lists behind the bill: why an executor-second was spent, and what tasks waited for.

Every executor-second, from the pod's request (on YARN: from the moment at which its container was given) to its end, has
exactly one ``SpendCause``; the causes sum to the bill. Every
second in which tasks waited for executors is shared among the ``Limit``s that kept them away, by the number of executors
that each kept away; the limits sum to the wait. docs/explanation/model.md says the same in prose; ``ledger`` keeps the
books.
"""

from __future__ import annotations

from enum import Enum


class SpendCause(Enum):
    """What an executor-second was spent on. Where several apply, the first of the list."""

    RUNNING = "running"
    """It ran a task whose result counted."""
    LOST_WORK = "lost work"
    """It ran tasks that failed, were lost with an executor, or computed again what had been lost."""
    LEAVING = "leaving"
    """It was told to go and is still there."""
    OVER_REQUESTED = "over-requested"
    """It never ran a task, from its request to its end."""
    STARTING = "starting"
    """It was asked for and cannot be given tasks yet: scheduling, image, JVM, the first words with the driver."""
    CACHED = "kept by cached data"
    """Idle beyond the idle timeout, kept for the cached blocks it holds."""
    SHUFFLE = "kept by shuffle data"
    """Idle beyond the idle timeout, kept for the shuffle data it holds."""
    MINIMUM = "kept by minimum"
    """Idle beyond every timeout, kept because the target (the minimum, as a rule) does not let it go."""
    IDLE_TIMEOUT = "idle before the timeout"
    """Idle within the idle timeout, and then let go: the price of waiting to be sure."""
    LAST_TASK = "waiting for the last task"
    """Idle while other executors ran the last tasks of a stage with skew and none waited."""
    SERIAL = "serial work"
    """Idle while stages of a single task ran and none waited."""
    FEW_TASKS = "fewer tasks than slots"
    """Idle while a stage without skew had fewer tasks, or fewer left, than there were slots, and none waited."""
    DRIVER = "waiting for the driver"
    """Idle while no stage was under way: the driver's program thought, planned or collected."""
    OTHER = "other"
    """Idle while tasks waited that it could not, or was not yet offered to, take."""


class Limit(Enum):
    """What kept executors away from tasks that waited."""

    BACKLOG_TIMEOUT = "backlog timeout"
    """spark.dynamicAllocation.schedulerBacklogTimeout had not passed."""
    RAMP = "doubling ramp"
    """The target was doubling, every sustainedSchedulerBacklogTimeout."""
    MAXIMUM = "maximum"
    """spark.dynamicAllocation.maxExecutors, or the static count."""
    RATIO = "ratio"
    """spark.dynamicAllocation.executorAllocationRatio."""
    BATCH = "batch size and delay"
    """spark.kubernetes.allocation.batch.size and batch.delay."""
    PENDING = "pending limit"
    """spark.kubernetes.allocation.maxPendingPods, per profile or in all."""
    HEARTBEAT = "heartbeat"
    """spark.yarn.scheduler.heartbeat.interval-ms and initial-allocation.interval: the application master had not told the
    resource manager yet, or not heard what it gave."""
    SCHEDULER = "resource manager"
    """The resource manager had room and had not placed the containers yet."""
    EXCLUSION = "exclusion"
    """There was room only on nodes that the application does not use: spark.yarn.exclude.nodes, or too many failures."""
    START_UP = "start-up"
    """Executors were on their way: pods that start, containers that were given."""
    CAPACITY = "capacity"
    """The cluster had no room: pods unschedulable, a quota, a full queue."""
    OTHER = "other"
