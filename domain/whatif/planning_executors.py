"""The executors of a plan: their shapes, and how many there are without dynamic allocation.

``VariantChange`` is a variant over the conf that was recorded, ``Scaling`` what dynamic allocation makes of a conf. By which
rules executors are counted, ``whatif.planning`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.backend_config import DEFAULT_EXECUTORS
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import INSTANCES, REQUIRED_CONDITIONS, ScalingSettings, scaling_config
from podtide.domain.conf.settings import settled
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.recorded.application import Application, main_profile, peaks
from podtide.domain.rerun.plan import EXECUTORS_MAX, ExecutorShape, Faults, Variant
from podtide.domain.whatif.executor_shapes import CORES_KEY, recorded_cores, shapes
from podtide.domain.whatif.planning_notes import CORES_MAX, touches


class Scaling(NamedTuple):
    """What dynamic allocation makes of a conf, and what it refuses."""

    settings: ScalingSettings
    errors: tuple[ConfError, ...]


def scaling_of(conf: SparkConf, *, reliable: bool = False) -> Scaling:
    """What dynamic allocation makes of the conf, with the best guess where it refuses, and why it does."""
    settings, errors = settled(scaling_config(conf, reliable_shuffle_storage=reliable))
    if not settings.enabled:
        # That shuffle data outlives executors is asked for where there is dynamic allocation, and nowhere else.
        errors = tuple(e for e in errors if e.raised is None or e.raised.message != REQUIRED_CONDITIONS)
    return Scaling(settings, errors)


def ran_without_keeping(conf: SparkConf) -> bool:
    """Whether Spark would have refused the log's conf for want of anything that keeps shuffle data; and yet it ran."""
    settings, errors = settled(scaling_config(conf))
    return settings.enabled and any(
        error.raised is not None and error.raised.message == REQUIRED_CONDITIONS for error in errors
    )


class VariantChange(NamedTuple):
    """A variant over the conf that was recorded. ``changed``: its keys, a static count included."""

    application: Application
    before: SparkConf
    after: SparkConf
    variant: Variant
    changed: Mapping[str, str | None]
    origin: str

    @property
    def counted(self) -> bool:
        """Whether Spark asks for a count of executors there: on YARN and Kubernetes."""
        return self.after.master.startswith(("k8s://", "yarn"))


class PlannedExecutors(NamedTuple):
    """The executors of a plan. ``remark``: why a ``static`` count is what it is."""

    shapes: dict[ProfileId, ExecutorShape]
    static: int
    faults: Faults
    errors: tuple[ConfError, ...]
    notes: list[str]
    remark: str | None


def executors_of(change: VariantChange, reads: Reads, scaling: Scaling, known: Scaling) -> PlannedExecutors:
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
    static, remark = (0, None) if dynamic else _static(change)
    faults = variant.faults
    room = _standalone_room(change, reads, each, dynamic=dynamic)
    if room is not None and dynamic:
        faults = replace(faults, quota=room if faults.quota is None else min(room, faults.quota))
    elif room is not None and variant.static is None:
        static = room
        remark = f"A standalone master gives executors until its cores are used up: {room} of {each} cores."
    if remark is not None:
        notes.append(remark)
    return PlannedExecutors(made, static, faults, wrong, notes, remark)


def _static(change: VariantChange) -> tuple[int, str | None]:
    """How many executors are asked for without dynamic allocation, and what to say about it."""
    application, counted = change.application, change.counted
    if change.variant.static is not None:
        return min(max(1, change.variant.static), EXECUTORS_MAX), None
    instances = Reads(change.after).value(INSTANCES)
    count = instances if isinstance(instances, int) and instances > 0 else None
    if count is not None and INSTANCES in change.changed:
        return min(count, EXECUTORS_MAX), None
    peak = peaks(application).get(main_profile(application), 1)
    if scaling_of(change.before).settings.enabled:
        if counted:
            count = DEFAULT_EXECUTORS if count is None else min(count, EXECUTORS_MAX)
            return count, f"Without dynamic allocation Spark asks for spark.executor.instances executors: {count}."
        return peak, f"Without dynamic allocation: {peak} executors from the start, the most that were there at once."
    if change.after.is_local:
        return 1, None
    if count is not None and (count == peak or (counted and not application.executors)):
        return count if count == peak else min(count, EXECUTORS_MAX), None
    if count is not None and counted and peak < count:
        return peak, f"{INSTANCES} is {count}, and no more than {peak} executors came: so many are asked for."
    setting = f"{INSTANCES} is not set" if count is None else f"{INSTANCES} is {count}"
    return peak, f"{setting}, and {peak} executors were there at once: so many are asked for at the start."


def _standalone_room(change: VariantChange, reads: Reads, cores: int, *, dynamic: bool) -> int | None:
    """How many executors a standalone master gives at the most: spark.cores.max over their cores.

    Without that setting, or as long as a variant leaves it and the shape alone, it is what was there: None where that is
    known otherwise (``_static``, the log's own capacity).
    """
    application, changed = change.application, change.changed
    if not change.after.master.startswith("spark://"):
        return None
    most = reads.value(CORES_MAX)
    if isinstance(most, int) and most > 0 and (dynamic or touches(changed, (CORES_MAX,))):
        return max(1, most // max(1, cores))
    if dynamic or not touches(changed, (CORES_KEY,)):
        return None
    had = application.peak_executors * recorded_cores(application).get(main_profile(application), cores)
    return max(1, had // max(1, cores))


def _moves(before: SparkConf, after: SparkConf) -> bool:
    """Whether the variant runs on another cluster manager, which has its own idea of an executor without a size."""
    was, now = (conf.master.partition(":")[0].partition("[")[0].lower() for conf in (before, after))
    return was != now
