"""From a SparkConf to the ScalingConfig, as starting an application with executor allocation would do it.

SparkContext first builds the default resource profile and has ResourceProfileManager check it, then constructs
ExecutorAllocationManager, which reads its keys, validates them (``validateSettings``) and creates ExecutorMonitor.
``scaling_config`` walks the same way in the same order. Spark stops at the first failure; here all of them are
collected, and the first one is the one Spark would have thrown (``Refused.construct``). A refusal still carries the
settings with defaults in the place of what cannot be read, because an application that ran under another Spark or
without dynamic allocation is worth replaying whatever 4.3.0 thinks of its conf.

Rules that are easily got wrong:

- The first target is max(minExecutors, initialExecutors or else minExecutors, spark.executor.instances or else 0).
- Shuffle tracking is effective only without an external shuffle service.
- spark.storage.decommission.enabled is not asked for by the check that shuffle data outlives executors.
- ExecutorAllocationManager does not compare the first target with the maximum; the scheduler backends of YARN and
  Kubernetes do, when they start (``ScalingSettings.backend_fault``).
- A ratio that is no number (NaN) passes Spark's check, so it passes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from returns.result import Result

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.conf.default_profile import profile_rules
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.settings import ConfNotice, NoticeLevel, Refused, Settings, result_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault, illegal
from podtide.domain.jvm.values import LONG_MAX
from podtide.domain.protocol.config import ScalingConfig

ENABLED: Final = "spark.dynamicAllocation.enabled"
TESTING: Final = "spark.dynamicAllocation.testing"
MIN: Final = "spark.dynamicAllocation.minExecutors"
MAX: Final = "spark.dynamicAllocation.maxExecutors"
INITIAL: Final = "spark.dynamicAllocation.initialExecutors"
INSTANCES: Final = "spark.executor.instances"
BACKLOG: Final = "spark.dynamicAllocation.schedulerBacklogTimeout"
SUSTAINED: Final = "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout"
RATIO: Final = "spark.dynamicAllocation.executorAllocationRatio"
TRACKING: Final = "spark.dynamicAllocation.shuffleTracking.enabled"
DECOMMISSION: Final = "spark.decommission.enabled"
STORAGE_DECOMMISSION: Final = "spark.storage.decommission.enabled"
SHUFFLE_BLOCKS: Final = "spark.storage.decommission.shuffleBlocks.enabled"
SERVICE: Final = "spark.shuffle.service.enabled"

REQUIRED_CONDITIONS: Final = (
    "Dynamic allocation of executors requires one of the following conditions: "
    f"1) enabling external shuffle service through {SERVICE}. "
    f"2) enabling shuffle tracking through {TRACKING}. "
    f"3) enabling shuffle blocks decommission through {DECOMMISSION} and {SHUFFLE_BLOCKS}. "
    "4) (Experimental) configuring spark.shuffle.sort.io.plugin.class to use a custom ShuffleDataIO who's "
    "ShuffleDriverComponents supports reliable storage."
)
TRACKED_WITHOUT_SERVICE: Final = "Dynamic allocation is enabled without a shuffle service."
MIGRATED_WITHOUT_SERVICE: Final = "Shuffle data decommission is enabled without a shuffle service."
BOTH_MECHANISMS: Final = (
    "You are enabling both shuffle tracking and other DA supported mechanism, which will cause idle executors not to "
    "be released in a timely, please check the configurations."
)


@dataclass(frozen=True, slots=True)
class ScalingSettings(Settings[ScalingConfig]):
    """What the conf amounts to. ``backend_fault``: what the scheduler backend of YARN or Kubernetes throws at its start."""

    backend_fault: SparkFault | None = None


def scaling_config(
    conf: SparkConf, *, reliable_shuffle_storage: bool = False
) -> Result[ScalingSettings, Refused[ScalingSettings]]:
    """The configuration of dynamic allocation. ``reliable_shuffle_storage``: the shuffle plugin says that it is.

    Executor allocation is assumed to be wanted even where spark.dynamicAllocation.enabled is false.
    """
    reads = Reads(conf)
    notices: list[ConfNotice] = []
    enabled = dynamic_allocation_enabled(reads)
    reads.flag("spark.testing.resourceProfileManager")
    rules = profile_rules(reads, enabled=enabled)
    least, most = reads.int(MIN), reads.int(MAX)
    initial = first_executors(reads, notices)
    backlog_s, sustained_s = reads.int(BACKLOG), reads.int(SUSTAINED)
    testing = reads.flag(TESTING)
    ratio = reads.double(RATIO)
    decommission = reads.flag(DECOMMISSION)
    _validate_bounds(reads, least, most)
    if backlog_s <= 0:
        reads.refuse(BACKLOG, "more than 0", SPARK_EXCEPTION, f"{BACKLOG} must be > 0!")
    if sustained_s <= 0:
        # The stray "s" is Spark's.
        reads.refuse(SUSTAINED, "more than 0", SPARK_EXCEPTION, f"s{SUSTAINED} must be > 0!")
    tracking = _validate_shuffle(
        reads, notices, reliable=reliable_shuffle_storage, decommission=decommission, testing=testing
    )
    if ratio > 1.0 or ratio <= 0.0:
        reads.refuse(RATIO, "more than 0 and at most 1", SPARK_EXCEPTION, f"{RATIO} must be > 0 and <= 1.0")
    # ExecutorMonitor
    service = reads.flag(SERVICE)
    config = ScalingConfig(
        executors_min=least,
        executors_max=most,
        executors_initial=initial,
        backlog_timeout_ms=_millis(backlog_s),
        sustained_backlog_timeout_ms=_millis(sustained_s),
        idle_timeout_ms=_millis(reads.int("spark.dynamicAllocation.executorIdleTimeout")),
        cached_idle_timeout_ms=_millis(reads.int("spark.dynamicAllocation.cachedExecutorIdleTimeout")),
        shuffle_timeout_ms=reads.int("spark.dynamicAllocation.shuffleTracking.timeout"),
        shuffle_tracking=tracking and not service,
        rdd_from_service=service and reads.flag("spark.shuffle.service.fetch.rdd.enabled"),
        decommission=decommission,
        ratio=ratio,
        testing=testing,
        profile_rules=rules,
    )
    settings = ScalingSettings(config, enabled, conf.version, tuple(notices), _backend_fault(conf, config))
    return result_of(reads, settings)


def dynamic_allocation_enabled(reads: Reads) -> bool:
    """Utils.isDynamicAllocationEnabled: a local master has no executors to allocate, unless in tests."""
    return reads.flag(ENABLED) and (not reads.conf.is_local or reads.flag(TESTING))


def first_executors(reads: Reads, notices: list[ConfNotice]) -> int:
    """Utils.getDynamicAllocationInitialExecutors."""
    initial, least = reads.int(INITIAL), reads.int(MIN)
    instances = reads.value(INSTANCES)
    count = instances if isinstance(instances, int) else 0
    ignored = f"less than {MIN} is invalid, ignoring its setting, please update your configs."
    if initial < least:
        notices.append(ConfNotice(NoticeLevel.WARNING, f"{INITIAL} {ignored}", spark=True))
    if count < least:
        notices.append(ConfNotice(NoticeLevel.WARNING, f"{INSTANCES} {ignored}", spark=True))
    first = max(least, initial, count)
    text = f"Using initial executors = {first}, max of {INITIAL}, {MIN} and {INSTANCES}"
    notices.append(ConfNotice(NoticeLevel.INFO, text, spark=True))
    return first


def _validate_bounds(reads: Reads, least: int, most: int) -> None:
    if least < 0 or most < 0:
        name, expected = (MIN, "0 or more") if least < 0 else (MAX, "1 or more")
        reads.refuse(name, expected, SPARK_EXCEPTION, f"{MIN} and {MAX} must be positive!")
    if most == 0:
        reads.refuse(MAX, "1 or more", SPARK_EXCEPTION, f"{MAX} cannot be 0!")
    if least > most:
        message = f"{MIN} ({least}) must be less than or equal to {MAX} ({most})!"
        reads.refuse(MIN, f"at most {MAX} ({most})", SPARK_EXCEPTION, message)


def _validate_shuffle(
    reads: Reads, notices: list[ConfNotice], *, reliable: bool, decommission: bool, testing: bool
) -> bool:
    """Whether shuffle data outlives an executor, one way or another; returns shuffleTracking.enabled."""
    tracking = reads.flag(TRACKING)
    migrating = decommission and reads.flag(SHUFFLE_BLOCKS)
    if not reads.flag(SERVICE) and not reliable:
        if tracking:
            notices.append(ConfNotice(NoticeLevel.INFO, TRACKED_WITHOUT_SERVICE, spark=True))
        elif migrating:
            notices.append(ConfNotice(NoticeLevel.INFO, MIGRATED_WITHOUT_SERVICE, spark=True))
        elif not testing:
            expected = f"true, or {SERVICE}, or {DECOMMISSION} with {SHUFFLE_BLOCKS}, or reliable shuffle storage"
            reads.refuse(TRACKING, expected, SPARK_EXCEPTION, REQUIRED_CONDITIONS)
    if tracking and (migrating or reliable):
        notices.append(ConfNotice(NoticeLevel.WARNING, BOTH_MECHANISMS, spark=True))
    return tracking


def _backend_fault(conf: SparkConf, config: ScalingConfig) -> SparkFault | None:
    """SchedulerBackendUtils.getInitialTargetExecutorNumber, which YARN and Kubernetes ask at their start."""
    least, first, most = config.executors_min, config.executors_initial, config.executors_max
    if not conf.master.startswith(("k8s://", "yarn")) or least <= first <= most:
        return None
    message = (
        f"requirement failed: initial executor number {first} must between min executor number {least} and max "
        f"executor number {most}"
    )
    return illegal(message)


def _millis(seconds: int) -> Millis:
    """Seconds as milliseconds; what TimeUnit.SECONDS.toNanos saturates is NEVER."""
    return seconds * 1_000 if seconds <= LONG_MAX // 1_000_000_000 else NEVER
