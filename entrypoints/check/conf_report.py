"""What a configuration amounts to: the settings in force, what Spark would refuse, and what deserves a remark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import read_properties_file
from podtide.adapters.text.format import some
from podtide.adapters.views.conf import ConfEntry, Report
from podtide.domain.conf.advice.effects import TABLE, ManagerKind, place_of
from podtide.domain.conf.advice.start_checks import read_by, start_errors, whole_cpus
from podtide.domain.conf.entries import KEYS, RENAMED
from podtide.domain.conf.entry_types import LIST, REGEX, STRING, Key, Use
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.review import conflicts, review
from podtide.domain.conf.scaling_config import (
    BOTH_MECHANISMS,
    INITIAL,
    MIGRATED_WITHOUT_SERVICE,
    SERVICE,
    TRACKED_WITHOUT_SERVICE,
    ScalingSettings,
    scaling_config,
)
from podtide.domain.conf.settings import ConfNotice, NoticeLevel, settled
from podtide.domain.conf.spark_conf import ConfError, SparkConf, check, from_arguments, from_mapping, layered, read
from podtide.domain.conf.spark_versions import SparkVersion
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.protocol.cluster_config import YarnConfig
from podtide.entrypoints.common.output import UnreadableInput
from podtide.entrypoints.common.platform import on_yarn

NAMED_MAX: Final = 3
_FAMILIES: Final = {
    ManagerKind.KUBERNETES: "spark.kubernetes.", ManagerKind.YARN: "spark.yarn.", ManagerKind.STANDALONE: "",
}  # fmt: skip
_OF_SHUFFLE: Final = frozenset({TRACKED_WITHOUT_SERVICE, MIGRATED_WITHOUT_SERVICE, BOTH_MECHANISMS})
"""What 4.3.0 says where it starts; no word of it where another release does not."""

ALWAYS_SHOWN: Final = (
    "spark.master",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.task.cpus",
    "spark.shuffle.service.enabled",
    "spark.shuffle.service.fetch.rdd.enabled",
    "spark.decommission.enabled",
    "spark.storage.decommission.shuffleBlocks.enabled",
)
"""What dynamic allocation reads besides its own keys, shown even if nobody set it."""


SHOWN_ON_YARN: Final = (
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.maxNumFailures",
    "spark.executor.failuresValidityInterval",
    "spark.yarn.executor.launch.excludeOnFailure.enabled",
    "spark.yarn.scheduler.heartbeat.interval-ms",
    "spark.yarn.scheduler.initial-allocation.interval",
)
"""What decides there besides, shown even if nobody set it, where the master is YARN."""


def report_of(pairs: Sequence[str], file: Path | None, version: SparkVersion, *, everything: bool) -> Report:
    """Read settings over a properties file. ``everything``: also keys whose default is in force. Raises UnreadableInput."""
    layers = [from_mapping({}, "", version)]
    notices: list[ConfNotice] = []
    errors: list[ConfError] = []
    if file is not None:
        from_file = read_properties_file(file, version)
        if not is_successful(from_file):
            raise UnreadableInput(str(from_file.failure()))
        layers.append(from_file.unwrap().conf)
        notices += [ConfNotice(NoticeLevel.WARNING, remark) for remark in from_file.unwrap().remarks]
    given = from_arguments(pairs, version=version)
    if is_successful(given):
        layers.append(given.unwrap())
    else:
        errors += given.failure()
        usable = from_arguments([pair for pair in pairs if pair.partition("=")[0] and "=" in pair], version=version)
        layers.append(usable.unwrap())
    merged = layered(*layers)
    notices += [
        ConfNotice(NoticeLevel.WARNING, f"--conf {name} does not begin with spark.: spark-submit ignores it")
        for name in sorted(layers[-1].settings)
        if not name.startswith("spark.")
    ]
    settings = _settings(merged, notices, errors)
    errors += [error for error in (*check(merged), *conflicts(merged)) if error not in errors]
    errors = read_by(errors, version.release)
    unreadable = {*check(merged), *whole_cpus(merged)}
    readable = is_successful(given) and not any(error in unreadable for error in errors)
    yarn = _yarn(merged, notices, errors) if on_yarn(merged) else None
    notices += [*review(merged), *_of_the_other(merged)]
    entries = tuple(_entries(merged, everything=everything))
    unlisted = len(set(merged.settings) - {entry.key for entry in entries})
    found = tuple(errors)
    return Report(merged, settings, entries, unlisted, tuple(notices), found, redaction_of(merged), yarn, readable)


def _yarn(conf: SparkConf, notices: list[ConfNotice], errors: list[ConfError]) -> YarnConfig:
    """What the application master makes of the conf; what it would refuse joins the errors, once."""
    settings, refused = settled(yarn_config(conf))
    known = {(error.key, error.value) for error in errors}
    errors += [one for one in refused if (one.key, one.value) not in known]
    notices += [notice for notice in settings.notices if notice not in notices]
    return settings.config


def _of_the_other(conf: SparkConf) -> list[ConfNotice]:
    """Settings that the cluster manager of the master does not read."""
    manager = place_of(conf).manager
    if manager not in _FAMILIES:
        return []
    others = tuple(family for other, family in _FAMILIES.items() if family and other is not manager)
    names = sorted(name for name in conf.settings if name.startswith(others) or _unread(name, manager))
    if not names:
        return []
    verb = "has" if len(names) == 1 else "have"
    text = f"{some(names, NAMED_MAX)} {verb} no effect on {manager.value}, which the master is"
    return [ConfNotice(NoticeLevel.WARNING, text)]


def _unread(name: str, manager: ManagerKind) -> bool:
    """Whether the table says so. On Kubernetes Spark does read whether there is a shuffle service, though there is none."""
    return name in TABLE and name != SERVICE and manager not in TABLE[name].on


def _settings(conf: SparkConf, notices: list[ConfNotice], errors: list[ConfError]) -> ScalingSettings:
    """What dynamic allocation makes of the conf. While it is off, Spark does not check how its keys go together."""
    settings, newest = settled(scaling_config(conf))
    refused = start_errors(conf, newest)
    if not settings.enabled:
        notices.append(
            ConfNotice(NoticeLevel.INFO, "Dynamic allocation is off: this is what would be in force with it.")
        )
    notices += [one for one in settings.notices if one.text not in _OF_SHUFFLE or refused == newest]
    unreadable = set(check(conf))
    for error in refused:
        of_dynamic = error.key == SERVICE or error.key.startswith("spark.dynamicAllocation.")
        if settings.enabled or error in unreadable or not of_dynamic:
            errors.append(error)
        else:
            text = f"With dynamic allocation Spark would refuse {error.key}: expected {error.expected}"
            notices.append(ConfNotice(NoticeLevel.WARNING, text))
    if settings.backend_fault is not None and settings.enabled and not errors:
        reading = read(conf, INITIAL)
        origin = reading.unwrap().origin if is_successful(reading) else "unset"
        expected = f"{settings.config.executors_min} to {settings.config.executors_max} executors to begin with"
        errors.append(
            ConfError(INITIAL, str(settings.config.executors_initial), origin, expected, settings.backend_fault)
        )
    return settings


def _entries(conf: SparkConf, *, everything: bool) -> Iterator[ConfEntry]:
    """The settings to show, in alphabetical order: with ``everything`` all of the table and all that is set."""
    redaction = redaction_of(conf)
    names = set(conf.settings) if everything else {n for n in conf.settings if n in KEYS or n in RENAMED}
    names.update(
        row.name
        for row in KEYS.values()
        if row.known_to(conf.version.release) and not row.internal and (everything or _of_interest(row, conf))
    )
    for name in sorted(names):
        row = KEYS.get(name)
        setting = conf.settings.get(name)
        if row is None:
            assert setting is not None
            yield ConfEntry(name, redaction.shown(name, setting.value), setting.origin, None, True)
            continue
        reading = read(conf, name)
        if not is_successful(reading):
            error = reading.failure()
            yield ConfEntry(name, redaction.shown(name, error.value), f"{error.origin}, unusable", row, True)
            continue
        _, text, origin = reading.unwrap()
        written = conf.setting(name)
        if written is not None and row.type in (STRING, LIST, REGEX):
            text = written.value  # a reference may lead to what is not to be shown: texts stay as they were written
        shown = None if text is None else redaction.shown(name, text)
        if row.type is REGEX and text is not None:
            shown = text  # the pattern that says what to hide names it, but hides nothing itself
        yield ConfEntry(name, shown, origin, row, written is not None)


def _of_interest(row: Key, conf: SparkConf) -> bool:
    if row.name in SHOWN_ON_YARN:
        return on_yarn(conf)
    return row.name in ALWAYS_SHOWN or (row.name.startswith("spark.dynamicAllocation.") and row.use is Use.DECIDES)
