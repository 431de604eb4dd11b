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
  (``whatif.planning_yarn``).
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

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.entries import KEYS, RENAMED, suspect
from podtide.domain.conf.kubernetes_config import KubernetesSettings, kubernetes_config
from podtide.domain.conf.kubernetes_sections import ALLOCATOR, DIRECT, REPLICA_KINDS
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import (
    DECOMMISSION,
    ENABLED,
    INITIAL,
    INSTANCES,
    REQUIRED_CONDITIONS,
    SERVICE,
    ScalingSettings,
    scaling_config,
)
from podtide.domain.conf.settings import NoticeLevel, settled
from podtide.domain.conf.spark_conf import EVENT_LOG, ConfError, Setting, SparkConf, from_mapping, layered, read
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.fakes.kubernetes.description import KIND, Description
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.recorded.application import Application, main_profile, peaks
from podtide.domain.recorded.lifetimes import CAME_UNASKED
from podtide.domain.rerun.assumed_kubernetes import assumed_cluster, fitted_to, with_faults
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.plan import AnyCluster, ExecutorShape, Faults, Plan, Variant
from podtide.domain.whatif.executor_shapes import CORES_KEY, recorded_cores, shapes
from podtide.domain.whatif.planning_notes import CORES_MAX, change_notes, touches
from podtide.domain.whatif.planning_yarn import on_yarn

ASSUMED: Final = "assumed: the log does not say"
CAME: Final = "the log: executors that came unasked"
STATIC_MAX: Final = 1_000_000
"""More executors than any application has: a bound on what a plan can ask for."""

REGISTERED_RATIO: Final = 0.8
DEFAULT_EXECUTORS: Final = 2

_DYNAMIC: Final = "spark.dynamicAllocation."
_MODE: Final = "spark.scheduler.mode"
_TASK_FAILURES: Final = "spark.task.maxFailures"
_STAGE_ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
_RATIO: Final = "spark.scheduler.minRegisteredResourcesRatio"
_WAIT: Final = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_MANAGER: Final = "spark.shuffle.manager"
_REMOTE_SHUFFLE: Final = ("celeborn", "uniffle", "rssshuffle")
_FOR_KUBERNETES: Final = {
    "spark.app.id": "simulated",
    "spark.app.name": "simulated",
    "spark.kubernetes.container.image": "spark",
    "spark.kubernetes.executor.podNamePrefix": "simulated",
    "spark.kubernetes.driver.pod.name": "simulated-driver",
}
"""What a Kubernetes application has and a log of another cluster manager lacks."""


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
    scaling = _scaling(changed, reliable=_ran_without_keeping(changed))
    came = application.counts.get(CAME_UNASKED, 0)
    if scaling.settings.enabled and INITIAL not in given:
        asked, most = scaling.settings.config.executors_initial, scaling.settings.config.executors_max
        first = min(came, most)
        if first > asked:
            changed = layered(changed, from_mapping({INITIAL: str(first)}, CAME, version))
            notes.append(
                f"{came} executors came at the start where the config asks for {asked}: the platform's own, taken for "
                f"{INITIAL}={first}."
            )
    if scaling.settings.enabled:
        if _ran_without_keeping(changed):
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
) -> Result[Plan, tuple[ConfError, ...]]:
    """The plan of a variant over ``conf`` (``recorded_conf``'s), or what the variant gets wrong: key, value, expected.

    ``cluster``: where variants on Kubernetes, or on YARN, run. Without one for Kubernetes it is made from ``behaviour``, and
    without both it is the default cluster of ``fakes.kubernetes.description``.
    """
    origin = f"variant {variant.name}"
    after, errors = _changed(conf, variant, origin)
    changed = {**variant.changes} if variant.static is None else {**variant.changes, INSTANCES: str(variant.static)}
    change = _Change(application, conf, after, variant, changed, origin)
    reliable = _ran_without_keeping(conf)
    scaling, known = _scaling(after, reliable=reliable), _scaling(conf, reliable=reliable)
    dynamic = scaling.settings.config if scaling.settings.enabled else None
    errors += _scaling_errors(change, scaling, known, errors)
    reads = Reads(after)
    executors = _executors(change, reads, scaling, known)
    errors += [error for error in executors.errors if not _among(error, errors)]
    if change.counted and dynamic is None:
        after = layered(
            after, from_mapping({INSTANCES: str(executors.static)}, ASSUMED if executors.remark else origin)
        )
        change = change._replace(after=after)
    side = _side(change, scaling.settings, executors, cluster, behaviour, decommission=reads.flag(DECOMMISSION))
    if side.yarn is not None and any(error.key.startswith(_DYNAMIC) for error in errors):
        # The first executors follow from these keys.
        side = side._replace(errors=tuple(error for error in side.errors if not error.key.startswith(_DYNAMIC)))
    errors += [error for error in side.errors if not _among(error, errors)]
    mode, tasks, stages = reads.value(_MODE), reads.int(_TASK_FAILURES), reads.int(_STAGE_ATTEMPTS)
    errors += _too_small(after, changed, {_TASK_FAILURES: tasks, _STAGE_ATTEMPTS: stages})
    if errors:
        return Failure(tuple(errors))
    notes = [
        *_warnings(scaling.settings),
        *executors.notes,
        *side.notes,
        *change_notes(conf, after, variant.changes, master=change.master, dynamic=dynamic is not None),
    ]
    if change.after.is_local and reads.flag(ENABLED):
        notes.append(f"Spark allocates no executors with master {change.master[:40]}: the driver does all the work.")
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
            registered_ratio=_registered_ratio(reads, change.master),
            registered_wait_ms=max(0, reads.int(_WAIT)),
            speculation=reads.flag("spark.speculation"),
            shuffle_kept=reliable or reads.flag(SERVICE) or _remote_shuffle(after),
            faults=executors.faults,
            notes=tuple(dict.fromkeys(notes)),
        )
    )


class _Change(NamedTuple):
    """A variant over the conf that was recorded. ``changed``: its keys, a static count included."""

    application: Application
    before: SparkConf
    after: SparkConf
    variant: Variant
    changed: Mapping[str, str | None]
    origin: str

    @property
    def master(self) -> str:
        """The master of the variant."""
        return self.after.master

    @property
    def counted(self) -> bool:
        """Whether Spark asks for a count of executors there: on YARN and Kubernetes."""
        return self.master.startswith(("k8s://", "yarn"))


class _Executors(NamedTuple):
    """The executors of a plan. ``remark``: why a ``static`` count is what it is."""

    shapes: dict[ProfileId, ExecutorShape]
    static: int
    faults: Faults
    errors: tuple[ConfError, ...]
    notes: list[str]
    remark: str | None


def _executors(change: _Change, reads: Reads, scaling: _Scaling, known: _Scaling) -> _Executors:
    """Their shapes, and how many there are without dynamic allocation."""
    application, variant, after = change.application, change.variant, change.after
    as_logged = change.after.is_local or not (touches(change.changed, (CORES_KEY,)) or _moves(change.before, after))
    made, wrong = shapes(application, after, scaling.settings.config.profile_rules, as_logged=as_logged)
    if wrong:
        before = shapes(application, change.before, known.settings.config.profile_rules, as_logged=True)[1]
        raised = {error.raised for error in before}
        wrong = tuple(error for error in wrong if error.raised not in raised)
    each = made[DEFAULT_PROFILE].cores
    notes = []
    if not as_logged and after.setting(CORES_KEY) is None and application.executors:
        notes.append(f"{CORES_KEY} is not set: executors have {each} of them, as Spark's default says.")
    dynamic = scaling.settings.enabled
    static, remark = (0, None) if dynamic else _static(application, change.before, after, variant, change.changed)
    faults = variant.faults
    room = _standalone_room(application, reads, change.master, each, change.changed, dynamic=dynamic)
    if room is not None and dynamic:
        faults = replace(faults, quota=room if faults.quota is None else min(room, faults.quota))
    elif room is not None and variant.static is None:
        static = room
        remark = f"A standalone master gives executors until its cores are used up: {room} of {each} cores."
    if remark is not None:
        notes.append(remark)
    return _Executors(made, static, faults, wrong, notes, remark)


# ------------------------------------------------------------------------------------------- the cluster manager's side


class _Side(NamedTuple):
    """The cluster manager's part of a plan: none of a plain one."""

    kubernetes: EngineConfig | None = None
    cluster: Description | None = None
    yarn: EngineConfig | None = None
    hadoop: YarnDescription | None = None
    errors: tuple[ConfError, ...] = ()
    notes: tuple[str, ...] = ()


def _side(
    change: _Change,
    scaling: ScalingSettings,
    executors: _Executors,
    cluster: AnyCluster | None,
    behaviour: Behaviour | None,
    *,
    decommission: bool,
) -> _Side:
    """What the master is: YARN, Kubernetes, or a plain resource manager."""
    if change.master.startswith("yarn"):
        given = cluster if isinstance(cluster, YarnDescription) else None
        part = on_yarn(change.before, change.after, scaling.config, executors.shapes, given, executors.faults)
        return _Side(yarn=part.config, hadoop=part.cluster, errors=part.errors, notes=part.notes)
    if not change.master.startswith("k8s://"):
        return _Side()
    settings, errors, notes = _kubernetes(change.before, change.after)
    config = EngineConfig(scaling.config, settings.config, settings.enabled)
    if not isinstance(cluster, Description):
        cluster = KIND if behaviour is None else assumed_cluster(behaviour)
    cluster = fitted_to(
        with_faults(cluster, change.variant.faults), change.after, executors.shapes, decommission=decommission
    )
    return _Side(kubernetes=config, cluster=cluster, errors=tuple(errors), notes=tuple(notes))


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
    if count is not None and not 1 <= count <= STATIC_MAX:
        errors.append(ConfError(INSTANCES, str(count), origin, f"a static count from 1 to {STATIC_MAX}"))
    if count is not None and (variant.changes.get(ENABLED) or "").strip().lower() == "true":
        errors.append(ConfError(ENABLED, "true", origin, "false, or nothing: the variant has a static count"))
    return after, errors


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


def _too_small(conf: SparkConf, changes: Mapping[str, str | None], values: Mapping[str, int]) -> list[ConfError]:
    """Limits that let nothing run at all."""
    errors = []
    for key, value in values.items():
        if value < 1 and key in changes and conf.setting(key) is not None:
            errors.append(conf.refused(key, "1 or more"))
    return errors


def _among(error: ConfError, errors: Sequence[ConfError]) -> bool:
    return any((error.key, error.value) == (known.key, known.value) for known in errors)


# --------------------------------------------------------------------------------------------------- the machines


class _Scaling(NamedTuple):
    settings: ScalingSettings
    errors: tuple[ConfError, ...]


def _scaling(conf: SparkConf, *, reliable: bool = False) -> _Scaling:
    """What dynamic allocation makes of the conf, with the best guess where it refuses, and why it does."""
    settings, errors = settled(scaling_config(conf, reliable_shuffle_storage=reliable))
    if not settings.enabled:
        # That shuffle data outlives executors is asked for where there is dynamic allocation, and nowhere else.
        errors = tuple(e for e in errors if e.raised is None or e.raised.message != REQUIRED_CONDITIONS)
    return _Scaling(settings, errors)


def _scaling_errors(
    change: _Change, scaling: _Scaling, known: _Scaling, errors: Sequence[ConfError]
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


def _ran_without_keeping(conf: SparkConf) -> bool:
    """Whether Spark would have refused the log's conf for want of anything that keeps shuffle data; and yet it ran."""
    settings, errors = settled(scaling_config(conf))
    return settings.enabled and any(
        error.raised is not None and error.raised.message == REQUIRED_CONDITIONS for error in errors
    )


def _kubernetes(before: SparkConf, after: SparkConf) -> tuple[KubernetesSettings, list[ConfError], list[str]]:
    """The settings of the Kubernetes side, what the variant gets wrong there, and what to say about it."""
    notes = []
    assumed = from_mapping(_FOR_KUBERNETES, ASSUMED, after.version)
    conf = layered(assumed, after)
    settings, errors = settled(kubernetes_config(conf))
    known = settled(kubernetes_config(layered(assumed, before)))[1]
    new = [error for error in errors if error not in known]
    allocator = settings.config.backend.allocator
    if allocator not in (DIRECT, *REPLICA_KINDS):
        setting = conf.setting(ALLOCATOR)
        if before.setting(ALLOCATOR) != setting:
            origin = "" if setting is None else setting.origin
            expected = f"one of {', '.join((DIRECT, *REPLICA_KINDS))}; what a class decides is not known"
            new.append(ConfError(ALLOCATOR, allocator, origin, expected))
        notes.append("The application had a pods allocator of its own: simulated with Spark's direct one.")
        settings, _ = settled(kubernetes_config(layered(conf, from_mapping({ALLOCATOR: DIRECT}, ASSUMED))))
    return settings, new, notes


def _static(
    application: Application, before: SparkConf, after: SparkConf, variant: Variant, changed: Mapping[str, str | None]
) -> tuple[int, str | None]:
    """How many executors are asked for without dynamic allocation, and what to say about it."""
    if variant.static is not None:
        return min(max(1, variant.static), STATIC_MAX), None
    reads = Reads(after)
    asked = reads.value(INSTANCES)
    count = min(asked, STATIC_MAX) if isinstance(asked, int) and asked > 0 else None
    if count is not None and INSTANCES in changed:
        return count, None
    peak = peaks(application).get(main_profile(application), 1)
    master = after.master
    counted = master.startswith(("yarn", "k8s://"))
    if _scaling(before).settings.enabled:
        if counted:
            count = DEFAULT_EXECUTORS if count is None else count
            return count, f"Without dynamic allocation Spark asks for spark.executor.instances executors: {count}."
        return peak, f"Without dynamic allocation: {peak} executors from the start, the most that were there at once."
    if after.is_local:
        return 1, None
    if count is not None and (count == peak or (counted and not application.executors)):
        return count, None
    if count is not None and counted and peak < count:
        return peak, f"{INSTANCES} is {count}, and no more than {peak} executors came: so many are asked for."
    said = f"{INSTANCES} is not set" if count is None else f"{INSTANCES} is {count}"
    return peak, f"{said}, and {peak} executors were there at once: so many are asked for at the start."


def _standalone_room(
    application: Application, reads: Reads, master: str, cores: int, changed: Mapping[str, str | None], *, dynamic: bool
) -> int | None:
    """How many executors a standalone master gives at the most: spark.cores.max over their cores.

    Without that setting, or as long as a variant leaves it and the shape alone, it is what was there: None where that is
    known otherwise (``_static``, the log's own capacity).
    """
    if not master.startswith("spark://"):
        return None
    most = reads.value(CORES_MAX)
    if isinstance(most, int) and most > 0 and (dynamic or touches(changed, (CORES_MAX,))):
        return max(1, most // max(1, cores))
    if dynamic or not touches(changed, (CORES_KEY,)):
        return None
    had = application.peak_executors * recorded_cores(application).get(main_profile(application), cores)
    return max(1, had // max(1, cores))


def _registered_ratio(reads: Reads, master: str) -> float:
    """CoarseGrainedSchedulerBackend.minRegisteredRatio, with the defaults of YARN's and Kubernetes' backends."""
    ratio = reads.value(_RATIO)
    if not isinstance(ratio, float):
        ratio = REGISTERED_RATIO if master.startswith(("yarn", "k8s://")) else 0.0
    return min(1.0, max(0.0, ratio)) if ratio == ratio else 0.0  # noqa: PLR0124 - NaN


def _remote_shuffle(conf: SparkConf) -> bool:
    """Whether the shuffle manager is one that is known to keep map output outside of executors."""
    manager = (conf.raw(_MANAGER) or "").lower()
    return any(name in manager for name in _REMOTE_SHUFFLE)


def _moves(before: SparkConf, after: SparkConf) -> bool:
    """Whether the variant runs on another cluster manager, which has its own idea of an executor without a size."""
    was, now = (conf.master.partition(":")[0].partition("[")[0].lower() for conf in (before, after))
    return was != now
