"""Under which conf a live run decides: what the user gave, what the driver says of itself, and what a live run assumes.

In rising precedence: what is assumed; the driver's own conf, where its REST API is asked (values that Spark redacts are
missing there and never matter to a decision; nor does, acting, what keeps the driver from acting itself, ``PARKED``); the
properties file; ``--conf``; and what the command line itself says (the application's id, the namespace, whether dynamic
allocation decides).

Acting, a few assumptions differ from Spark's defaults, because what Spark needs them for does not exist here: the watch is
repaired by itself, so the full list that makes up for a broken one is taken every five minutes instead of every thirty
seconds; the driver's services are the driver's, so they stay when this run deletes its executors; nobody can tell an
executor to go, so its pod is deleted at once instead of after the five seconds that Spark gives it to go by itself, in which
the driver would only start more tasks on it; and without a driver there is no application that failures could end. Whoever
sets these keys gets what they set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from podtide.domain.conf.spark_conf import SparkConf, from_mapping, layered
from podtide.domain.protocol.allocation_policies import Policies
from podtide.entrypoints.common.app_config import AppSettings, app_settings
from podtide.entrypoints.common.log_config import SettingsError
from podtide.entrypoints.common.output import Misused, refused_as
from podtide.entrypoints.common.platform import kubernetes_only

ASSUMED: Final = "assumed: a live run"
COMMAND_LINE: Final = "the command line"
DRIVER: Final = "the driver"

PREFIX_KEY: Final = "spark.kubernetes.executor.podNamePrefix"
DYNAMIC_KEY: Final = "spark.dynamicAllocation.enabled"
INSTANCES_KEY: Final = "spark.executor.instances"
POLL_KEY: Final = "spark.kubernetes.executor.apiPollingInterval"
SERVICES_KEY: Final = "spark.kubernetes.driver.service.deleteOnTermination"
GRACE_KEY: Final = "spark.kubernetes.dynamicAllocation.deleteGracePeriod"
FAILURES_KEY: Final = "spark.executor.maxNumFailures"
PARKED: Final = (
    DYNAMIC_KEY,
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.schedulerBacklogTimeout",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.kubernetes.allocation.maximum",
    FAILURES_KEY,
    INSTANCES_KEY,
)
"""What a driver that is acted for sets so that it leaves executors alone (docs/how-to/live.md).

None of it says what is wanted of whoever acts for it, so it is not taken over from the driver."""

NO_LIVE_YARN: Final = (
    "podtide run has no adapter for a live resource manager, only for the API server of Kubernetes; podtide simulate runs "
    "the YARN side against a fake one, and its decisions are functions to import (podtide.domain.engine, "
    "podtide.domain.yarn; docs/explanation/yarn.md)"
)
"""Why a live run is refused where the master is YARN."""

NAME_MAX: Final = 180
"""Characters of the application's name in a derived prefix of pod names; Spark allows 237 in all."""

_TIME: Final = re.compile(r"([0-9]{1,18})\s*(us|ms|s|m|min|h|d)?")
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_NOT_NAME: Final = re.compile(r"[^a-z0-9-]+")
_DASHES: Final = re.compile(r"-+")


def awake(driver: Mapping[str, str]) -> list[str]:
    """Why a driver with this conf makes executors of its own, a line each; nothing where it leaves them to others.

    Two allocators of one application count executor ids each for itself: both give out the same ones.
    """
    if _java_flag(driver.get(DYNAMIC_KEY, "false")):
        zeros = ("spark.dynamicAllocation.initialExecutors", "spark.dynamicAllocation.minExecutors", INSTANCES_KEY)
        wrong = [f"{key}={driver[key]}, 0 was expected" for key in zeros if driver.get(key, "0").strip() != "0"]
        key = "spark.dynamicAllocation.schedulerBacklogTimeout"
        if not _years(driver.get(key, "1s")):
            wrong.append(f"{key}={driver.get(key, '1s')}, 3650d was expected")
    else:
        key = "spark.kubernetes.allocation.maximum"
        there = driver.get(key)
        wrong = [] if there == "1" else [f"{key}={there}, 1 was expected where {DYNAMIC_KEY} is false"]
    key = "spark.dynamicAllocation.executorIdleTimeout"
    if not _years(driver.get(key, "60s")):
        wrong.append(f"{key}={driver.get(key, '60s')}, 3650d was expected")
    return wrong


def _java_flag(text: str) -> bool:
    return text.strip().lower() == "true"


def _years(text: str) -> bool:
    """Whether a Spark time (bare numbers are seconds) is longer than any application: 30 days or more."""
    found = _TIME.fullmatch(text.strip().lower())
    return found is not None and int(found[1]) * _SECONDS[found[2] or "s"] >= 30 * 86_400


def derived_prefix(app_name: str, app_id: str) -> str:
    """The prefix of pod names where nobody set one: as Spark derives it, with a mark of the application's id for chance.

    The same application gets the same prefix again, so a restart names its pods as before.
    """
    clean = _DASHES.sub("-", _NOT_NAME.sub("-", app_name.lower())).strip("-")[:NAME_MAX].strip("-")
    mark = hashlib.sha256(app_id.encode()).hexdigest()[:12]
    name = f"{clean}-{mark}" if clean else f"spark-{mark}"
    return f"x{name}" if name[0].isdigit() else name


def live_settings(
    layers: list[SparkConf],
    policies: Policies,
    *,
    app_id: str,
    namespace: str,
    acting: bool,
    dynamic: bool | None,
    target: int | None,
    driver_conf: Mapping[str, str] | None = None,
    prefix: str | None = None,
) -> AppSettings:
    """The settings of a live run. ``dynamic``: whether dynamic allocation decides; None: as the conf says.

    ``target``: the number asked for at the start, where there is one. ``prefix``: of pod names, as an earlier run had it.
    Raises Misused.
    """
    driven = {key: value for key, value in (driver_conf or {}).items() if not (acting and key in PARKED)}
    driver_layers = layered(from_mapping(driven, DRIVER), *layers)
    name = driver_layers.setting("spark.app.name")
    assumed = {
        "spark.app.name": app_id,
        PREFIX_KEY: prefix or derived_prefix(app_id if name is None else name.value, app_id),
        "spark.kubernetes.container.image": "spark",
    }
    if acting:
        del assumed["spark.kubernetes.container.image"]
        assumed[POLL_KEY] = "5min"
        assumed[SERVICES_KEY] = "false"
        assumed[GRACE_KEY] = "0ms"
        if not dynamic:
            assumed[FAILURES_KEY] = str(2**31 - 1)
    arguments = {"spark.app.id": app_id, "spark.kubernetes.namespace": namespace}
    if dynamic is not None:
        arguments[DYNAMIC_KEY] = "true" if dynamic else "false"
        if not dynamic:
            arguments[INSTANCES_KEY] = str(target or 0)
    conf = layered(from_mapping(assumed, ASSUMED), driver_layers, from_mapping(arguments, COMMAND_LINE))
    kubernetes_only(conf, NO_LIVE_YARN)
    with refused_as(Misused, SettingsError):
        return app_settings(conf, policies)
