"""The manifests of a live run: what its executors' pods are made from, gathered once at its start.

The conf is completed as a running driver has it; the template and SPARK_CONF_DIR are read; the driver's pod, if the conf
names one, is looked up for its uid, because pods belong to it and go when it goes. What cannot be built is found here,
before anything was asked of the cluster. Resource profiles become known while the application runs.
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient, Unreachable
from podtide.adapters.kubernetes.apply.create import ManifestRefused
from podtide.adapters.kubernetes.calls import path_of
from podtide.adapters.kubernetes.executor_pod.manifests import ExecutorManifests
from podtide.adapters.kubernetes.executor_pod.spark_conf_dir import ConfDirError, read_conf_dir
from podtide.adapters.kubernetes.executor_pod.template import PodTemplateError, read_template
from podtide.domain.base.units import ProfileId
from podtide.domain.executor_pod.builder import DriverPod, PodFacts, executor_pods
from podtide.domain.executor_pod.driver import as_driver_has_it
from podtide.domain.executor_pod.facts import Owner
from podtide.domain.protocol.pod_commands import CreateClaim, CreatePod, CreateSet
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.resource_profiles import ResourceProfile
from podtide.entrypoints.common.app_config import AppSettings
from podtide.entrypoints.common.output import UnreadableInput, refused_as, usable

TEMPLATE_KEY: Final = "spark.kubernetes.executor.podTemplateFile"
USER_KEY: Final = "spark.kubernetes.driverEnv.SPARK_USER"


class DriverPodRefused(Exception):
    """The driver's pod cannot be looked up; the message says why."""


class _Meta(msgspec.Struct):
    name: str
    uid: str


class _Named(msgspec.Struct):
    metadata: _Meta


def driver_pod(api: ApiClient, namespace: str, name: str) -> DriverPod:
    """The driver's pod by its name. Raises DriverPodRefused."""
    try:
        answer = api.call("get", "pods", path_of("pods", namespace, name))
    except Unreachable as problem:
        raise DriverPodRefused(problem.why) from None
    if not answer.ok:
        raise DriverPodRefused(f"driver pod {name} in namespace {namespace}: the cluster answers {answer.status}")
    try:
        found = msgspec.json.decode(answer.body, type=_Named).metadata
    except (msgspec.MsgspecError, RecursionError):
        raise DriverPodRefused(f"driver pod {name}: the cluster's answer cannot be read") from None
    return DriverPod(found.name, found.uid)


class NoManifests:
    """Those of a shadow, which creates nothing."""

    def pod(self, command: CreatePod) -> bytes:
        """Nothing. Raises ManifestRefused."""
        raise _nothing(command)

    def claim(self, command: CreateClaim, owner: Owner) -> bytes:
        """Nothing. Raises ManifestRefused."""
        raise _nothing(command, owner)

    def replica_set(self, command: CreateSet) -> bytes:
        """Nothing. Raises ManifestRefused."""
        raise _nothing(command)

    def config_map(self) -> bytes:
        """Nothing. Raises ManifestRefused."""
        raise _nothing()

    def pod_name(self, executor: PodNumber) -> str:
        """A name that is none."""
        return str(executor)


def _nothing(*_: object) -> ManifestRefused:
    return ManifestRefused("a shadow creates nothing")


def live_manifests(
    settings: AppSettings,
    driver: DriverPod | None,
    conf_dir: str | None,
    clock: Clock,
    environment: Mapping[str, str] = os.environ,
) -> ExecutorManifests:
    """Everything that pods are made from. Raises Misused, UnreadableInput."""
    conf, config = settings.conf, settings.config.kubernetes
    app_id = config.backend.app_id
    conf = as_driver_has_it(conf, app_id, config.allocation.pod_name_prefix)
    with refused_as(UnreadableInput, ConfDirError, PodTemplateError):
        files = {} if conf_dir is None else read_conf_dir(conf_dir).texts
        location = conf.setting(TEMPLATE_KEY)
        template = None if location is None else read_template(location.value).tree
    # The same again after a restart: what is made of the application's id needs nobody's memory.
    mark = uuid.uuid5(uuid.NAMESPACE_OID, app_id)
    user = conf.setting(USER_KEY)
    facts = PodFacts(
        app_id,
        environment.get("SPARK_USER") or (_user() if user is None else user.value),
        driver,
        f"spark-exec-{mark.hex[:16]}-conf-map" if config.backend.config_map else None,
        tuple(files),
        template,
        str(mark),
        config.allocation.pod_name_prefix,
    )
    profiles: dict[ProfileId, ResourceProfile] = {}
    pods = usable(executor_pods(conf, facts, profiles))
    return ExecutorManifests(pods, files, clock.now, profiles)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in many containers
        return "spark"
