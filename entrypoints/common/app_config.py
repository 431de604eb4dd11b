"""The configuration of a whole application, on Kubernetes or on YARN: dynamic allocation, and all of the side below it.

``spark.master`` chooses the side: ``yarn`` (and yarn-client, yarn-cluster, as Sparks before 2.0 had it) is YARN, everything
else Kubernetes. On YARN the racks of the hosts belong to the configuration, too: Spark asks the topology script for them.

Used wherever the engine runs against a cluster, fake or real, or a recording of one. All of it has to be valid, or nothing
runs: an application that Spark would refuse has no decisions to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from podtide.domain.conf.kubernetes_config import KubernetesSettings, kubernetes_config
from podtide.domain.conf.scaling_config import scaling_config
from podtide.domain.conf.settings import ConfNotice, settled
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping, layered
from podtide.domain.conf.yarn_config import NO_RACKS, YarnSettings, yarn_config
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, BackOff, Policies
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.entrypoints.common.log_config import SettingsError
from podtide.entrypoints.common.platform import MASTER_KEY, on_yarn

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

OF_PODS: Final = ("SPARK-34519", "SPARK-52589", "excess-running")
"""Fixes that change nothing on YARN."""


@dataclass(frozen=True)
class AppSettings:
    """What an application runs under."""

    config: EngineConfig
    conf: SparkConf
    policies: Policies
    notices: tuple[ConfNotice, ...]

    @property
    def backend(self) -> BackendConfig:
        """The scheduler backend's part, whichever side it stands on."""
        return self.config.kubernetes.backend if self.config.yarn is None else self.config.yarn.backend


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


def app_settings(
    conf: SparkConf,
    policies: Policies = SPARK_POLICIES,
    *,
    remarks: bool = False,
    racks: Mapping[str, str] = NO_RACKS,
) -> AppSettings:
    """The configuration that a conf amounts to; the master is Kubernetes unless it says so itself. Raises SettingsError.

    ``racks``: on YARN, where hosts are.
    """
    if conf.setting(MASTER_KEY) is None:
        conf = layered(from_mapping({MASTER_KEY: MASTER}, ASSUMED, conf.version), conf)
    errors: list[ConfError] = []
    scaling, refused = settled(scaling_config(conf))
    if scaling.enabled:  # what dynamic allocation would refuse is of no interest while it is off
        errors.extend(refused)
    allocation = replace(scaling.config, repair_pending=policies.repair_pending)
    side: KubernetesSettings | YarnSettings
    if on_yarn(conf):
        side = _yarn(conf, racks, errors, remarks=remarks)
        config = EngineConfig(allocation, dynamic=side.enabled, yarn=side.config)
    else:
        side = _kubernetes(conf, policies, errors, remarks=remarks)
        config = EngineConfig(allocation, side.config, side.enabled)
    if errors:
        raise SettingsError(errors)
    # What dynamic allocation would say is of no interest while it is off; what both say is said once.
    notices = (*(scaling.notices if side.enabled else ()), *side.notices)
    return AppSettings(config, conf, policies, tuple(dict.fromkeys(notices)))


def _kubernetes(conf: SparkConf, policies: Policies, errors: list[ConfError], *, remarks: bool) -> KubernetesSettings:
    """The Kubernetes side; what is wrong with it joins the errors."""
    kubernetes, refused = settled(kubernetes_config(conf, policies=policies, remarks=remarks))
    _join(errors, refused)
    allocator = kubernetes.config.backend.allocator
    if allocator not in ALLOCATORS:
        setting = conf.setting(ALLOCATOR_KEY)
        origin = "" if setting is None else setting.origin
        expected = f"one of {', '.join(ALLOCATORS)}; what a class decides is not known"
        errors.append(ConfError(ALLOCATOR_KEY, allocator, origin, expected))
    return kubernetes


def _yarn(conf: SparkConf, racks: Mapping[str, str], errors: list[ConfError], *, remarks: bool) -> YarnSettings:
    """The YARN side; what is wrong with it joins the errors."""
    settings, refused = settled(yarn_config(conf, racks=racks, remarks=remarks))
    _join(errors, refused)
    return settings


def _join(errors: list[ConfError], more: Sequence[ConfError]) -> None:
    """Errors that are not there yet; both halves read some keys."""
    known = {(error.key, error.value) for error in errors}
    errors.extend(error for error in more if (error.key, error.value) not in known)
