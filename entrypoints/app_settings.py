"""The configuration of a whole application on Kubernetes: dynamic allocation, allocator, lifecycle, backend, plugins.

Used wherever the engine runs against a cluster, fake or real, or a recording of one. All of it has to be valid, or nothing
runs: an application that Spark would refuse has no decisions to show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.config import EngineConfig
from podtide.domain.kubernetes_settings import KubernetesRefused, kubernetes_config
from podtide.domain.policies import SPARK_POLICIES, BackOff, Policies
from podtide.domain.settings import Notice, Refused, scaling_config
from podtide.domain.sparkconf import ConfError, SparkConf, from_mapping, layered
from podtide.entrypoints.replay_settings import SettingsError

ASSUMED: Final = "assumed: a simulated cluster"
MASTER: Final = "k8s://https://kubernetes.default.svc"

ALLOCATOR_KEY: Final = "spark.kubernetes.allocation.pods.allocator"
ALLOCATORS: Final = ("direct", "statefulset", "deployment")

FIXES: Final[dict[str, str]] = {
    "SPARK-34519": "back off after pods that do not start",
    "SPARK-52589": "forget executors that left before their pod was seen",
    "SPARK-58446": "late task events leave no negative pending tasks",
    "excess-running": "also delete excess pods that turned Running before their delete arrived",
}
"""The fixes that Spark 4.3.0 lacks, by the name that the command line takes."""


@dataclass(frozen=True)
class AppSettings:
    """What an application runs under."""

    config: EngineConfig
    conf: SparkConf
    policies: Policies
    notices: tuple[Notice, ...]


def policies_with(fixes: tuple[str, ...]) -> Policies:
    """Spark's policies with these fixes on; "all" is every one. Raises ValueError for a name that is none."""
    wanted = set(FIXES) if "all" in fixes else set(fixes)
    unknown = wanted - set(FIXES)
    if unknown:
        raise ValueError(f"no fix {sorted(unknown)[0]!r}: expected all or one of {', '.join(FIXES)}")
    return replace(
        SPARK_POLICIES,
        back_off=BackOff() if "SPARK-34519" in wanted else None,
        forget_ghosts="SPARK-52589" in wanted,
        repair_pending="SPARK-58446" in wanted,
        delete_excess_running="excess-running" in wanted,
    )


def app_settings(conf: SparkConf, policies: Policies = SPARK_POLICIES, *, remarks: bool = False) -> AppSettings:
    """The configuration that a conf amounts to; the master is Kubernetes unless it says so itself. Raises SettingsError."""
    if conf.setting("spark.master") is None:
        conf = layered(from_mapping({"spark.master": MASTER}, ASSUMED, conf.version), conf)
    errors: list[ConfError] = []
    scaled = scaling_config(conf)
    if is_successful(scaled):
        scaling = scaled.unwrap()
    else:
        refused: Refused = scaled.failure()
        scaling = refused.settings
        if scaling.enabled:  # what dynamic allocation would refuse is of no interest while it is off
            errors.extend(refused.errors)
    sided = kubernetes_config(conf, policies=policies, remarks=remarks)
    if is_successful(sided):
        kubernetes = sided.unwrap()
    else:
        fault: KubernetesRefused = sided.failure()
        kubernetes = fault.settings
        known = {(error.key, error.value) for error in errors}
        errors.extend(error for error in fault.errors if (error.key, error.value) not in known)
    allocator = kubernetes.config.backend.allocator
    if allocator not in ALLOCATORS:
        setting = conf.setting(ALLOCATOR_KEY)
        origin = "" if setting is None else setting.origin
        expected = f"one of {', '.join(ALLOCATORS)}; what a class decides is not known"
        errors.append(ConfError(ALLOCATOR_KEY, allocator, origin, expected))
    if errors:
        raise SettingsError(errors)
    config = EngineConfig(
        replace(scaling.config, repair_pending=policies.repair_pending), kubernetes.config, kubernetes.dynamic
    )
    # What dynamic allocation would say is of no interest while it is off; what both say is said once.
    notices = (*(scaling.notices if kubernetes.dynamic else ()), *kubernetes.notices)
    return AppSettings(config, conf, policies, tuple(dict.fromkeys(notices)))
