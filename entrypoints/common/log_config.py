"""Which configuration a replay decides with: the log's own, under what the user asked to change.

Defaults follow the Spark that wrote the log (or ``--spark-version``); behaviour is 4.3.0's. What the user gives must be
valid, all of it, or nothing is replayed. What the log itself holds is replayed whatever Spark 4.3.0 thinks of it: the
application did run. An application that ran without dynamic allocation, or with its platform's own scaler, is replayed
as what Spark's would have asked for. Every such departure is a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from returns.pipeline import is_successful

from podtide.adapters.eventlog.contents import LogApplication
from podtide.domain.conf.advice.platforms import platform_of
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Use
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.scaling_config import (
    INSTANCES,
    REQUIRED_CONDITIONS,
    SERVICE,
    TRACKING,
    ScalingSettings,
    scaling_config,
)
from podtide.domain.conf.settings import NoticeLevel, settled
from podtide.domain.conf.spark_conf import EVENT_LOG, ConfError, SparkConf, from_mapping, layered, read
from podtide.domain.conf.spark_versions import SparkVersion, parse_version
from podtide.domain.protocol.config import ScalingConfig

ASSUMED: Final = "assumed: dynamic allocation needs it"

_ALWAYS_SHOWN: Final = (
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout",
    "spark.dynamicAllocation.schedulerBacklogTimeout",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout",
    "spark.dynamicAllocation.executorAllocationRatio",
    TRACKING,
    "spark.dynamicAllocation.shuffleTracking.timeout",
    SERVICE,
    "spark.executor.cores",
    "spark.task.cpus",
)


class SettingsError(Exception):
    """The configuration that the user asked for cannot be used; ``errors`` says why, one by one."""

    def __init__(self, errors: Sequence[ConfError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in errors))


@dataclass(frozen=True)
class SettledConf:
    """The configuration of a replay, and what there is to say about it."""

    config: ScalingConfig
    conf: SparkConf
    version: SparkVersion
    enabled: bool
    platform: str | None
    notes: tuple[str, ...]

    @property
    def defaults(self) -> str:
        """Whose defaults fill the gaps: "Spark 3.5"."""
        return f"Spark {self.version.name}"

    def shown(self) -> dict[str, dict[str, Any]]:
        """What is in force: the keys that were set and decide something, and the most asked for, with origins."""
        redaction = redaction_of(self.conf)
        names = dict.fromkeys(_ALWAYS_SHOWN)
        names.update(dict.fromkeys(n for n in sorted(self.conf.settings) if n in KEYS and KEYS[n].use is Use.DECIDES))
        return {name: _entry(self.conf, name, redaction) for name in names}


def _entry(conf: SparkConf, name: str, redaction: Redaction) -> dict[str, Any]:
    reading = read(conf, name)
    if not is_successful(reading):
        fault = reading.failure()
        return {"value": redaction.shown(name, fault.value), "origin": fault.origin, "unusable": fault.expected}
    found = reading.unwrap()
    return {"value": None if found.text is None else redaction.shown(name, found.text), "origin": found.origin}


def settle(
    application: LogApplication, overrides: Sequence[SparkConf] = (), spark_version: str | None = None
) -> SettledConf:
    """Settle the configuration. ``overrides`` in rising precedence. Raises SettingsError."""
    version = parse_version(spark_version if spark_version is not None else application.spark_version)
    properties = application.properties or {}
    own = from_mapping(properties, EVENT_LOG, version)
    conf = layered(own, *overrides)
    notes = [] if version.remark is None else [version.remark]
    if application.properties is None:
        notes.append("The log has no environment: Spark's defaults are in force.")
    settings, conf = _settings(own, conf, bool(overrides), notes)
    platform = platform_of(properties, application.spark_version)
    if platform is not None:
        meaning = "this is what Spark's dynamic allocation would have asked for"
        notes.append(f"Ran on {platform.name}: {platform.scales}; {meaning}.")
    if not settings.enabled:
        notes.append(_without(redaction_of(conf).shown("spark.master", properties.get("spark.master", ""))))
    elif properties.get("spark.streaming.dynamicAllocation.enabled") == "true":
        notes.append("Streaming's own dynamic allocation was on: this is what Spark core's would have asked for.")
    notes.extend(
        notice.text
        for notice in settings.notices
        if notice.level is NoticeLevel.WARNING
        # Spark warns of unset instances too, as soon as there is a minimum.
        and not (notice.text.startswith(INSTANCES) and conf.setting(INSTANCES) is None)
    )
    if settings.backend_fault is not None:
        notes.append(f"The scheduler backend of Spark {version.name} may refuse this: {settings.backend_fault.message}")
    name = None if platform is None else platform.name
    return SettledConf(settings.config, conf, version, settings.enabled, name, tuple(dict.fromkeys(notes)))


def _settings(own: SparkConf, conf: SparkConf, overridden: bool, notes: list[str]) -> tuple[ScalingSettings, SparkConf]:
    """The settings in force. Only what the user changed may be refused; the log's own conf is made the best of."""
    result = scaling_config(conf)
    if is_successful(result):
        return result.unwrap(), conf
    refused = result.failure()
    if REQUIRED_CONDITIONS in refused.construct.message:
        if refused.settings.enabled:
            notes.append(
                "Nothing in the configuration keeps shuffle data beyond its executor, yet the application ran: "
                "its shuffle storage is taken for reliable."
            )
            result = scaling_config(conf, reliable_shuffle_storage=True)
        else:
            notes.append(f"{TRACKING} is taken for true, or dynamic allocation could not be switched on.")
            conf = layered(conf, from_mapping({TRACKING: "true"}, ASSUMED))
            result = scaling_config(conf)
        if is_successful(result):
            return result.unwrap(), conf
        refused = result.failure()
    if overridden:
        before = settled(scaling_config(own))[1]
        new = [error for error in refused.errors if error not in before]
        if new:
            redaction = redaction_of(conf)
            raise SettingsError([_shown(error, redaction) for error in new])
    redaction = redaction_of(conf)
    notes.extend(
        f"In the log's configuration: {_shown(error, redaction)}; replayed without it." for error in refused.errors
    )
    return refused.settings, conf


def _shown(error: ConfError, redaction: Redaction) -> ConfError:
    """An error without the secret that its value may be. What Spark would have thrown repeats the value: left out."""
    value = redaction.shown(error.key, error.value)
    return error if value == error.value else replace(error, value=value, raised=None)


def _without(master: str) -> str:
    where = f" (master {master})" if master.startswith("local") else ""
    return f"The application ran without dynamic allocation{where}: this is what it would have asked for."


class NothingToReplay(Exception):
    """The log is an event log, but holds nothing to decide upon; the text says what is missing."""
