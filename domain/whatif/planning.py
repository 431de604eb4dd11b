"""From a variant to a plan: the log's conf with the changes over it, settled into what the simulation is told.

``recorded_conf`` is the conf that the application ran under, as far as its log tells: with the defaults of the Spark that
wrote it, and what the user knows better over it. ``plan`` layers a variant over that. Everything that the *variant* gets
wrong is an error: a key that Spark 4.3.0 does not know, a value that it cannot read, settings that it refuses together.
What the *log's own* conf has wrong is made the best of, as a replay does: the application did run. So errors are compared:
those that the log's conf has as well are no errors of the variant.

Rules worth knowing:

- A change of None unsets the key (and its older names): the default of the log's Spark version applies.
- ``static`` switches dynamic allocation off and asks for so many executors at the start.
- A log without dynamic allocation asked for spark.executor.instances on YARN and Kubernetes. Where another number was there
  at once (its peak) - fewer came, a platform scaled by itself, nobody set it, another cluster manager - that is what counts,
  unless the variant sets a count of its own.
- A local master has one executor, the driver; dynamic allocation is never on there.
- The cores that were logged count as long as the variant changes neither spark.executor.cores nor the cluster manager.
- No task starts before 80 % of the first executors are there on YARN and Kubernetes; elsewhere Spark does not wait.
- With YARN's master they are part of the plan as well (``Plan.yarn``), with a cluster only if one was given
  (``whatif.planning_sides``).
- With a Kubernetes master the production configs of all its machines are part of the plan (``Plan.kubernetes``), and the
  cluster that was given or, without one, one that starts executors as the log's did. Faults are built into that cluster
  (``rerun.assumed_kubernetes.with_faults``); whoever plays it has nothing to do for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from podtide.domain.conf.entries import KEYS, RENAMED, suspect
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import (
    DECOMMISSION,
    ENABLED,
    INITIAL,
    INSTANCES,
    MIN,
    SERVICE,
    SHUFFLE_BLOCKS,
    STORAGE_DECOMMISSION,
    ScalingSettings,
)
from podtide.domain.conf.settings import NoticeLevel
from podtide.domain.conf.spark_conf import EVENT_LOG, ConfError, Setting, SparkConf, from_mapping, layered, read
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.fakes.kubernetes.description import KIND, Description
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.job_dependencies import DEFAULT_POOL
from podtide.domain.recorded.lifetimes import CAME_UNASKED
from podtide.domain.rerun.assumed_kubernetes import assumed_cluster
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.plan import EXECUTORS_MAX, AnyCluster, Plan, Variant
from podtide.domain.scheduler.locality import LocalityWaits
from podtide.domain.scheduler.rules import FairPool
from podtide.domain.whatif.planning_executors import (
    PlannedExecutors,
    Scaling,
    VariantChange,
    executors_of,
    ran_without_keeping,
    scaling_of,
)
from podtide.domain.whatif.planning_notes import change_notes
from podtide.domain.whatif.planning_retries import retries_of
from podtide.domain.whatif.planning_sides import ASSUMED, ClusterSide, on_kubernetes, on_yarn

CAME: Final = "the log: executors that came unasked"
REGISTERED_RATIO: Final = 0.8

_DYNAMIC: Final = "spark.dynamicAllocation."
_MODE: Final = "spark.scheduler.mode"
_POOLS_FILE: Final = "spark.scheduler.allocation.file"
_FAIR_BY_ITSELF: Final = (3, 4, 0)
"""Since then FAIR without a file is fair (SPARK-42157): the default pool has the mode of spark.scheduler.mode, not FIFO."""
_RATIO: Final = "spark.scheduler.minRegisteredResourcesRatio"
REGISTERED_WAIT: Final = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_FALLBACK: Final = "spark.storage.decommission.fallbackStorage.path"
_MANAGER: Final = "spark.shuffle.manager"
_REMOTE_SHUFFLE: Final = ("celeborn", "uniffle", "rssshuffle")


class RecordedConf(NamedTuple):
    """The conf that an application ran under, and what is odd about it."""

    conf: SparkConf
    notes: tuple[str, ...] = ()


def recorded_conf(
    application: Application, overrides: Sequence[SparkConf] = (), spark_version: str | None = None
) -> Result[RecordedConf, tuple[ConfError, ...]]:
    """The log's own conf. ``overrides``: what the user knows better, in rising precedence; errors are theirs alone.

    ``spark_version``: whose defaults apply, instead of those of the Spark that wrote the log.
    """
    version = parse_version(application.spark_version or None if spark_version is None else spark_version)
    conf = from_mapping(application.properties, EVENT_LOG, version)
    changed = layered(conf, *overrides)
    given = {name: setting.value for layer in overrides for name, setting in layer.settings.items()}
    errors = [*_unknown(given, changed), *_unreadable(given, changed)]
    if errors:
        return Failure(tuple(errors))
    notes = [] if version.remark is None else [version.remark]
    if not application.properties:
        notes.append("The log has no environment: Spark's defaults are in force.")
    scaling = scaling_of(changed, reliable=ran_without_keeping(changed))
    came = application.counts.get(CAME_UNASKED, 0)
    if scaling.settings.enabled and INITIAL not in given:
        initial, most = scaling.settings.config.executors_initial, scaling.settings.config.executors_max
        first = min(came, most)
        if first > initial:
            changed = layered(changed, from_mapping({INITIAL: str(first)}, CAME, version))
            notes.append(
                f"{came} executors came at the start where the config asks for {initial}: the platform's own, taken for "
                f"{INITIAL}={first}."
            )
    if scaling.settings.enabled:
        if ran_without_keeping(changed):
            notes.append(
                "Nothing in the configuration keeps shuffle data beyond its executor, yet the application ran: "
                "its shuffle storage is taken for reliable."
            )
        notes.extend(f"In the log's configuration: {error.key}: expected {error.expected}." for error in scaling.errors)
    return Success(RecordedConf(changed, tuple(dict.fromkeys(notes))))


def plan(
    application: Application,
    conf: SparkConf,
    variant: Variant,
    *,
    cluster: AnyCluster | None = None,
    behaviour: Behaviour | None = None,
    pools: Mapping[str, FairPool] | None = None,
) -> Result[Plan, tuple[ConfError, ...]]:
    """The plan of a variant over ``conf`` (``recorded_conf``'s), or what the variant gets wrong: key, value, expected.

    ``cluster``: where variants on Kubernetes, or on YARN, run. Without one for Kubernetes it is made from ``behaviour``, and
    without both it is the default cluster of ``fakes.kubernetes.description``. ``pools``: those of FAIR scheduling, by name;
    without, all are equal, and the default one is as Spark makes it without a file.
    """
    origin = f"variant {variant.name}"
    after, errors = _changed(conf, variant, origin)
    changed = {**variant.changes} if variant.static is None else {**variant.changes, INSTANCES: str(variant.static)}
    change = VariantChange(application, conf, after, variant, changed, origin)
    reliable = ran_without_keeping(conf)
    scaling, known = scaling_of(after, reliable=reliable), scaling_of(conf, reliable=reliable)
    dynamic = scaling.settings.config if scaling.settings.enabled else None
    errors += _scaling_errors(change, scaling, known, errors)
    reads = Reads(after)
    errors += [error for error in _too_many(change, reads, dynamic) if not _among(error, errors)]
    executors = executors_of(change, reads, scaling, known)
    errors += [error for error in executors.errors if not _among(error, errors)]
    if change.counted and dynamic is None:
        after = layered(
            after, from_mapping({INSTANCES: str(executors.static)}, ASSUMED if executors.remark else origin)
        )
        change = change._replace(after=after)
    side = _side(change, scaling.settings.config, executors, cluster, behaviour)
    if side.yarn is not None and any(error.key.startswith(_DYNAMIC) for error in errors):
        # The first executors follow from these keys.
        side = side._replace(errors=tuple(error for error in side.errors if not error.key.startswith(_DYNAMIC)))
    errors += [error for error in side.errors if not _among(error, errors)]
    mode = reads.value(_MODE)
    retries, wrong = retries_of(after, reads, changed, application)
    errors += [error for error in wrong if not _among(error, errors)]
    if errors:
        return Failure(tuple(errors))
    notes = [
        *_warnings(scaling.settings),
        *executors.notes,
        *side.notes,
        *change_notes(conf, after, variant.changes, master=change.after.master, dynamic=dynamic is not None),
    ]
    if pools and mode != "FAIR":
        notes.append(f"The pools of --fair-scheduler decide nothing with {_MODE}={mode}.")
    if change.after.is_local and reads.flag(ENABLED):
        notes.append(
            f"Spark allocates no executors with master {change.after.master[:40]}: the driver does all the work."
        )
    return Success(
        Plan(
            variant.name,
            after,
            executors.shapes,
            dynamic=dynamic,
            static=executors.static,
            kubernetes=side.kubernetes,
            cluster=side.cluster,
            yarn=side.yarn,
            hadoop=side.hadoop,
            fair=mode == "FAIR",
            pools=pools or _pools_without_file(after),
            registered_ratio=registered_ratio(reads, change.after.master),
            registered_wait_ms=max(0, reads.int(REGISTERED_WAIT)),
            speculation=reads.flag("spark.speculation"),
            shuffle_kept=reliable or reads.flag(SERVICE) or _remote_shuffle(after),
            shuffle_migrates=all(map(reads.flag, (DECOMMISSION, STORAGE_DECOMMISSION, SHUFFLE_BLOCKS))),
            shuffle_fallback=after.setting(_FALLBACK) is not None,
            retries=retries,
            locality=LocalityWaits(
                *(max(0, reads.int(f"spark.locality.wait.{level}")) for level in ("process", "node"))
            ),
            faults=executors.faults,
            notes=tuple(dict.fromkeys(notes)),
        )
    )


def _pools_without_file(conf: SparkConf) -> dict[str, FairPool]:
    """The pools that Spark makes where it finds no fairscheduler.xml (FairSchedulableBuilder.buildPools)."""
    if conf.setting(_POOLS_FILE) is not None or conf.version.release < _FAIR_BY_ITSELF:
        return {}
    return {DEFAULT_POOL: FairPool(fair=True)}


def _side(
    change: VariantChange,
    scaling: ScalingConfig,
    executors: PlannedExecutors,
    cluster: AnyCluster | None,
    behaviour: Behaviour | None,
) -> ClusterSide:
    """What the master is: YARN, Kubernetes, or a plain resource manager."""
    before, after = change.before, change.after
    if after.master.startswith("yarn"):
        hadoop = cluster if isinstance(cluster, YarnDescription) else None
        return on_yarn(before, after, scaling, executors.shapes, hadoop, executors.faults)
    if after.master.startswith("k8s://"):
        if not isinstance(cluster, Description):
            cluster = KIND if behaviour is None else assumed_cluster(behaviour)
        return on_kubernetes(before, after, scaling, executors.shapes, cluster, change.variant.faults)
    return ClusterSide()


# ------------------------------------------------------------------------------------------------------ the conf


def _changed(conf: SparkConf, variant: Variant, origin: str) -> tuple[SparkConf, list[ConfError]]:
    """The conf with the variant's changes, and what is wrong with these by themselves."""
    settings = conf.settings.evolver()
    for key, value in variant.changes.items():
        if value is not None:
            settings.set(key, Setting(value, origin))
            continue
        names = [key, *(old for old, _ in KEYS[key].alternatives)] if key in KEYS else [key]
        for name in names:
            if name in conf.settings:
                settings.remove(name)
    if variant.static is not None:
        settings.set(ENABLED, Setting("false", origin))
        settings.set(INSTANCES, Setting(str(variant.static), origin))
    after = replace(conf, settings=settings.persistent())
    errors = [*_unknown(variant.changes, after), *_unreadable(variant.changes, after)]
    count = variant.static
    if count is not None and not 1 <= count <= EXECUTORS_MAX:
        errors.append(ConfError(INSTANCES, str(count), origin, f"a static count from 1 to {EXECUTORS_MAX:,}"))
    if count is not None and (variant.changes.get(ENABLED) or "").strip().lower() == "true":
        errors.append(ConfError(ENABLED, "true", origin, "false, or nothing: the variant has a static count"))
    return after, errors


def _too_many(change: VariantChange, reads: Reads, dynamic: ScalingConfig | None) -> list[ConfError]:
    """The settings of the variant that ask for more executors at the start than are simulated."""
    keys = (INSTANCES,) if dynamic is None else (INSTANCES, INITIAL, MIN)
    expected = f"at most {EXECUTORS_MAX:,} executors from the start: more are not simulated"
    counts = [(key, reads.value(key)) for key in keys if key in change.changed]
    return [
        ConfError(key, str(count), change.origin, expected)
        for key, count in counts
        if isinstance(count, int) and count > EXECUTORS_MAX
    ]


def _unknown(changes: Mapping[str, str | None], conf: SparkConf) -> list[ConfError]:
    """Keys that are no keys of Spark's, or look like mistakes."""
    errors = []
    for key, value in changes.items():
        setting = conf.settings.get(key)
        origin = "unset" if setting is None else setting.origin
        if not key.startswith("spark."):
            errors.append(ConfError(key, value or "", origin, "a key that begins with spark."))
            continue
        guess = suspect(key)
        if guess is not None:
            hint = f" (did you mean {guess}?)" if guess else ""
            errors.append(ConfError(key, value or "", origin, f"a key that Spark 4.3.0 knows{hint}"))
    return errors


def _unreadable(changes: Mapping[str, str | None], conf: SparkConf) -> list[ConfError]:
    errors: list[ConfError] = []
    for key, value in changes.items():
        name = RENAMED[key].name if key in RENAMED else key
        if value is None or name not in KEYS:
            continue
        reading = read(conf, name)
        if not is_successful(reading):
            error = reading.failure()
            if not _among(error, errors):
                errors.append(error)
    return errors


def _among(error: ConfError, errors: Sequence[ConfError]) -> bool:
    return any((error.key, error.value) == (known.key, known.value) for known in errors)


# --------------------------------------------------------------------------------------------------- the machines


def _scaling_errors(
    change: VariantChange, scaling: Scaling, known: Scaling, errors: Sequence[ConfError]
) -> list[ConfError]:
    """What dynamic allocation refuses of the variant and not of the log, besides ``errors``."""
    enabled = scaling.settings.enabled
    new = [
        error
        for error in scaling.errors
        if error not in known.errors and (enabled or error.key in change.changed) and not _among(error, errors)
    ]
    if enabled and not known.settings.enabled and any(stage.barrier for stage in change.application.stages):
        expected = (
            "false: the application has barrier stages, which Spark refuses under dynamic allocation (SPARK-24942)"
        )
        new.append(ConfError(ENABLED, "true", change.origin, expected))
    return new


def _warnings(settings: ScalingSettings) -> list[str]:
    """What Spark warns of when dynamic allocation starts; that a count is ignored is no news of a plan."""
    if not settings.enabled:
        return []
    return [
        notice.text
        for notice in settings.notices
        if notice.level is NoticeLevel.WARNING and not notice.text.startswith(INSTANCES)
    ]


def registered_ratio(reads: Reads, master: str) -> float:
    """CoarseGrainedSchedulerBackend.minRegisteredRatio, with the defaults of YARN's and Kubernetes' backends."""
    ratio = reads.value(_RATIO)
    if not isinstance(ratio, float):
        ratio = REGISTERED_RATIO if master.startswith(("yarn", "k8s://")) else 0.0
    return min(1.0, max(0.0, ratio)) if ratio == ratio else 0.0  # noqa: PLR0124 - NaN


def _remote_shuffle(conf: SparkConf) -> bool:
    """Whether the shuffle manager is one that is known to keep map output outside of executors."""
    manager = (conf.raw(_MANAGER) or "").lower()
    return any(name in manager for name in _REMOTE_SHUFFLE)
