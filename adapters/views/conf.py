"""A configuration in force, for people and as JSON: each setting, where it comes from, and what Spark thinks of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.safe import escaped
from podtide.domain.conf.entry_types import Key
from podtide.domain.conf.redaction import Redaction
from podtide.domain.conf.scaling_config import ScalingSettings
from podtide.domain.conf.settings import ConfNotice
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.jvm.values import LONG_MAX, convert_time, parse_time
from podtide.domain.protocol.cluster_config import INT_MAX, YarnConfig
from podtide.domain.protocol.resource_profiles import default_profile, tasks_per_executor

FORMAT: Final = 1
CELL_CHARS_MAX: Final = 80
LINE_CHARS_MAX: Final = 100_000
WIDE: Final = 150
"""Columns from which on a table has room for the meaning of each setting."""


class ConfEntry(NamedTuple):
    """A setting in force: ``value`` as it may be shown, None when unset."""

    key: str
    value: str | None
    origin: str
    row: Key | None
    chosen: bool


@dataclass(frozen=True)
class Report:
    """A configuration and what was found out about it. ``unlisted``: settings that are not among ``entries``; ``readable``:
    each setting by itself can be read, so the errors are what Spark refuses when it starts."""

    conf: SparkConf
    settings: ScalingSettings
    entries: tuple[ConfEntry, ...]
    unlisted: int
    notices: tuple[ConfNotice, ...]
    errors: tuple[ConfError, ...]
    redaction: Redaction
    yarn: YarnConfig | None = None
    readable: bool = True


class ConfVersion(TypedDict):
    """Of which Spark: as it was given, whose defaults fill the conf, and whose behaviour is checked."""

    version: str | None
    defaults: str
    behaviour: str


class ConfSetting(TypedDict):
    """A setting that is in force. ``origin``: where it comes from."""

    value: str | None
    origin: str
    type: NotRequired[str]
    meaning: NotRequired[str]


class ConfRemark(TypedDict):
    """What is to be known. ``by``: who says so, spark or podtide."""

    level: str
    text: str
    by: str


class ConfFault(TypedDict):
    """What cannot be used. ``raised``: what Spark throws."""

    key: str
    value: str
    origin: str
    expected: str
    raised: NotRequired[str]


class ConfDocument(TypedDict):
    """A configuration that was checked. ``unlisted``: settings that are not in ``conf``."""

    schema: str
    spark: ConfVersion
    dynamic_allocation: dict[str, Any]
    yarn: NotRequired[dict[str, Any]]
    conf: dict[str, ConfSetting]
    unlisted: int
    notices: list[ConfRemark]
    errors: list[ConfFault]


def document(report: Report) -> ConfDocument:
    """The report as one JSON object."""
    version = report.conf.version
    made: ConfDocument = {
        "schema": schema_name("conf"),
        "spark": {"version": version.text, "defaults": version.name, "behaviour": "4.3.0"},
        "dynamic_allocation": _amounts_to(report.settings),
        "conf": {entry.key: _setting(entry) for entry in report.entries},
        "unlisted": report.unlisted,
        "notices": [
            {"level": notice.level.value, "text": notice.text, "by": "spark" if notice.spark else "podtide"}
            for notice in report.notices
        ],
        "errors": [_error_document(error, report.redaction) for error in report.errors],
    }
    if report.yarn is not None:
        made["yarn"] = _amounts_on_yarn(report.yarn)
    return made


def _setting(entry: ConfEntry) -> ConfSetting:
    if entry.row is None:
        return {"value": entry.value, "origin": entry.origin}
    return {"value": entry.value, "origin": entry.origin, "type": entry.row.type.name, "meaning": entry.row.meaning}


def _error_document(error: ConfError, redaction: Redaction) -> ConfFault:
    value = redaction.shown(error.key, error.value)
    plain: ConfFault = {"key": error.key, "value": value, "origin": error.origin, "expected": error.expected}
    # Spark's message repeats the value, references replaced.
    if error.raised is not None and value == error.value and "${" not in value:
        plain["raised"] = str(error.raised)
    return plain


def _amounts_to(settings: ScalingSettings) -> dict[str, Any]:
    config = settings.config
    tasks = tasks_per_executor(default_profile(config.profile_rules), config.profile_rules)
    return {
        "enabled": settings.enabled,
        "executors_min": config.executors_min,
        "executors_max": config.executors_max,
        "executors_initial": config.executors_initial,
        "tasks_per_executor": tasks if isinstance(tasks, int) else None,
        "ratio": config.ratio if config.ratio == config.ratio and abs(config.ratio) != float("inf") else None,
        "shuffle_tracking": config.shuffle_tracking,
        "decommission": config.decommission,
    }


def _amounts_on_yarn(config: YarnConfig) -> dict[str, Any]:
    """What an executor's container is, and when the application master speaks to the resource manager and gives up."""
    allocator, reporter = config.allocator, config.reporter
    containers = allocator.containers
    return {
        "container_memory_mib": containers.resource.memory_mib,
        "container_vcores": containers.resource.vcores,
        "container_resources": dict(containers.resource.custom),
        "executor_heap_mib": containers.heap_mib,
        "executors_initial": allocator.executors_initial,
        "failures_max": allocator.failures_max,
        "excludes_nodes": allocator.exclusion.enabled,
        "node_label": allocator.label,
        "decommission": allocator.decommission,
        "heartbeat_ms": reporter.heartbeat_ms,
        "heartbeat_waiting_ms": reporter.initial_ms,
    }


def _yarn_sentence(config: YarnConfig) -> str:
    """The same in a sentence or two."""
    amounts = _amounts_on_yarn(config)
    others = "".join(f", {escaped(name)} {number:,}" for name, number in amounts["container_resources"].items())
    label = "" if amounts["node_label"] is None else f" on nodes labelled {escaped(amounts['node_label'])}"
    limit = amounts["failures_max"]
    ends = "no number of failed executors ends the application"
    if limit < INT_MAX:
        ends = f"{count(limit, 'failed executor')} end the application"
    return (
        f"On YARN an executor is a container of {amounts['container_memory_mib']:,} MiB (a heap of "
        f"{amounts['executor_heap_mib']:,}) and {count(amounts['container_vcores'], 'vcore')}{others}{label}. The "
        f"application master speaks to the resource manager every {lasting(amounts['heartbeat_ms'])}, while requests wait "
        f"from {lasting(amounts['heartbeat_waiting_ms'])} on; {ends}."
    )


def lines(report: Report) -> Iterator[str]:
    """The settings for a pipe: key, value and origin, separated by tabs."""
    for entry in report.entries:
        value = "" if entry.value is None else escaped(entry.value, LINE_CHARS_MAX)
        yield f"{escaped(entry.key)}\t{value}\t{escaped(entry.origin)}"


def complaints(report: Report) -> Iterator[str]:
    """What is odd or wrong, for standard error."""
    for notice in report.notices:
        speaker = "Spark: " if notice.spark else ""
        yield f"{notice.level.value}: {speaker}{escaped(notice.text, LINE_CHARS_MAX)}"
    for error in report.errors:
        value = escaped(report.redaction.shown(error.key, error.value))
        setting = f"{escaped(error.key)} = {value}" if error.value else escaped(error.key)
        place = f"{setting} ({escaped(error.origin)})"
        yield f"error: {place}: expected {escaped(error.expected)}"
    if report.errors:
        yield f"podtide: {count(len(report.errors), 'error')}: Spark {report.conf.version.name} would not start with this"


def _friendly(entry: ConfEntry) -> str:
    """The value for a table cell; a default in the unit that shows it best."""
    if entry.value is None:
        return "unset"
    if entry.chosen or entry.row is None or not entry.row.type.name.startswith("time:"):
        return escaped(entry.value, CELL_CHARS_MAX)
    own_unit = entry.row.type.unit
    amount = parse_time(entry.value, own_unit)
    if amount == LONG_MAX:
        return "never"
    millis = convert_time(amount, own_unit, "ms")
    for unit in ("h", "min", "s"):
        size = convert_time(1, unit, "ms")
        if millis and millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"


def print_table(report: Report) -> None:
    """Print the settings as a table on a terminal, and what they amount to."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - a slow import that only a terminal needs
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    wide = console.width >= WIDE
    if wide:
        table.add_column("meaning", overflow="fold")
    for entry in report.entries:
        cells = [
            Text(escaped(entry.key)),
            Text(_friendly(entry), "bold" if entry.chosen else "dim"),
            Text(escaped(entry.origin) if entry.value is not None else "", "dim"),
        ]
        if wide:
            cells.append(Text(entry.row.meaning if entry.row else "", "dim"))
        table.add_row(*cells)
    console.print(table)
    amounts = _amounts_to(report.settings)
    tracking = "kept while their shuffle data is needed" if amounts["shuffle_tracking"] else "not held by shuffle data"
    tasks = amounts["tasks_per_executor"]
    console.print(
        Text(
            f"Dynamic allocation is {'on' if amounts['enabled'] else 'off'}: {amounts['executors_min']} to "
            f"{amounts['executors_max']} executors, {amounts['executors_initial']} to begin with, "
            f"{'?' if tasks is None else tasks} tasks each; executors are {tracking}. "
            f"Defaults of Spark {report.conf.version.name}, behaviour of Spark 4.3.0."
        )
    )
    if report.yarn is not None:
        console.print(Text(_yarn_sentence(report.yarn)))
    if report.unlisted:
        others = "1 other setting plays" if report.unlisted == 1 else f"{report.unlisted} other settings play"
        console.print(Text(f"{others} no part in this; --all shows what is set."))
