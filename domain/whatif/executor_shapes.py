"""What an executor of each resource profile is, under a conf: how many tasks it takes at once, and what of it is paid for.

Slots are Spark's own arithmetic (``resource_profiles.tasks_per_executor``), memory is that of ``executor_pod.resources``:
heap, overhead, off-heap memory, Python's. Two things the conf does not tell. Where nobody set spark.executor.cores, an
executor of a standalone or local master has all cores of its worker: the log's executors say how many those were. And
platforms start executors of another shape than the conf's: as long as the variant leaves the shape alone, the cores that
were logged count, because tasks did run on them. What is billed are the executor's cores and all of its memory, in MiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.executor_pod.resources import Sizes, application_sizes, executor_shape
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol import resource_profiles
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import ExecutorShape

CORES_KEY: Final = "spark.executor.cores"
PROFILES_MAX: Final = 10_000
"""Profiles of one application that get a shape of their own; a hostile log may name more."""

_PYTHON_ON_YARN: Final = "spark.yarn.isPython"


def recorded_cores(application: Application) -> dict[ProfileId, int]:
    """The cores of a profile's executors as logged: the most frequent number, of equals the larger."""
    counts: dict[ProfileId, Counter[int]] = {}
    for one in application.executors:
        if one.cores > 0:
            counts.setdefault(one.profile, Counter())[one.cores] += 1
    return {profile: max(seen, key=lambda cores: (seen[cores], cores)) for profile, seen in counts.items()}


def sizes_of(reads: Reads) -> Sizes:
    """What executors of the default profile are made of, on whichever cluster manager they run."""
    sizes = application_sizes(reads)
    on_yarn = (reads.conf.raw(_PYTHON_ON_YARN) or "").strip().lower() == "true"
    return sizes._replace(python=True) if on_yarn else sizes


def shapes(
    application: Application, conf: SparkConf, rules: ProfileRules, *, as_logged: bool
) -> tuple[dict[ProfileId, ExecutorShape], tuple[ConfError, ...]]:
    """The shape of every profile of the application, and what is wrong with any; the default profile is always there.

    ``rules``: of the same conf. ``as_logged``: the variant leaves cores alone, so the logged ones count.
    """
    reads = Reads(conf)
    sizes = sizes_of(reads)
    logged = recorded_cores(application)
    profiles = {DEFAULT_PROFILE: resource_profiles.default_profile(rules)}
    for event in application.profiles[:PROFILES_MAX]:
        if event.profile != DEFAULT_PROFILE:  # that one is the application's conf, whatever the event says
            profiles[event.profile] = resource_profiles.from_added(event)
    for known in sorted({*logged, *(stage.profile for stage in application.stages)} - set(profiles))[:PROFILES_MAX]:
        profiles[known] = replace(profiles[DEFAULT_PROFILE], id=known)  # nobody announced it
    made: dict[ProfileId, ExecutorShape] = {}
    errors: list[ConfError] = []
    for number, profile in profiles.items():
        cores = logged.get(number) if as_logged or _own_cores(profile) else None
        shape = _shape(conf, rules, sizes, profile, cores)
        if isinstance(shape, ConfError):
            errors.append(shape)
            shape = ExecutorShape(1, max(1, rules.executor_cores), max(0, sizes.heap_mib + sizes.overhead_mib))
        made[number] = shape
    return made, tuple(errors)


def _own_cores(profile: resource_profiles.ResourceProfile) -> bool:
    """Whether a profile other than the default one asks for cores of its own: the conf does not change them."""
    return profile.id != DEFAULT_PROFILE and any(name == resource_profiles.CORES for name, _ in profile.executor)


def _shape(
    conf: SparkConf, rules: ProfileRules, sizes: Sizes, profile: resource_profiles.ResourceProfile, logged: int | None
) -> ExecutorShape | ConfError:
    if logged is not None:
        rules = replace(rules, executor_cores=logged, cores_limit_known=True)
        others = tuple((name, amount) for name, amount in profile.executor if name != resource_profiles.CORES)
        profile = replace(profile, executor=((resource_profiles.CORES, logged), *others))
    slots = resource_profiles.tasks_per_executor(profile, rules)
    if isinstance(slots, SparkFault):
        expected = f"executors that can run the tasks of resource profile {profile.id} ({slots.message})"
        return conf.refused(CORES_KEY, expected, slots)
    # Custom resources are neither billed nor have vendors outside of Kubernetes.
    plain = replace(profile, executor=tuple(pair for pair in profile.executor if pair[0] in resource_profiles.BUILT_IN))
    vendors: Mapping[str, str] = {}
    made = executor_shape(conf, sizes._replace(custom=()), plain, vendors)
    if isinstance(made, ConfError):
        return made
    cores = dict(profile.executor).get(resource_profiles.CORES, rules.executor_cores)
    return ExecutorShape(max(1, slots), max(1, cores), max(0, made.total_mib))
