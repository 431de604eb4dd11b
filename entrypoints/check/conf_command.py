"""``podtide conf``: is this configuration what you think it is?

What is in force goes to standard output: a table on a terminal, ``key<TAB>value<TAB>origin`` lines in a pipe, one JSON
object with ``--json``. What is wrong or odd goes to standard error (with ``--json`` into the object). Nothing that a
setting contains can move the terminal's cursor, and what Spark would not show is not shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click
from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import read_properties_file
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.safe import escaped
from podtide.domain.conf.entries import KEYS, RENAMED
from podtide.domain.conf.entry_types import LIST, REGEX, STRING, Key, Use
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.review import conflicts, review
from podtide.domain.conf.scaling_config import INITIAL, ScalingSettings, scaling_config
from podtide.domain.conf.settings import Level, Notice, settled
from podtide.domain.conf.spark_conf import ConfError, SparkConf, check, from_arguments, from_mapping, layered, read
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, SparkVersion, parse_version
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.jvm.values import LONG_MAX, convert_time, parse_time
from podtide.domain.protocol.config import INT_MAX, YarnConfig
from podtide.domain.protocol.resource_profiles import default_profile, tasks_per_executor
from podtide.entrypoints.common.platform import MASTER_KEY, on_yarn, side_name

FORMAT: Final = 1
BAD_CONFIG: Final = 2
UNREADABLE: Final = 3

CELL_CHARS_MAX: Final = 80
LINE_CHARS_MAX: Final = 100_000
NAMED_MAX: Final = 3
WIDE: Final = 150
"""Columns from which on a table has room for the meaning of each setting."""

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


class Entry(NamedTuple):
    """A setting in force: ``value`` as it may be shown, None when unset."""

    key: str
    value: str | None
    origin: str
    row: Key | None
    chosen: bool


@dataclass(frozen=True)
class Report:
    """All that the command has to say."""

    conf: SparkConf
    settings: ScalingSettings
    entries: tuple[Entry, ...]
    unlisted: int
    notices: tuple[Notice, ...]
    errors: tuple[ConfError, ...]
    redaction: Redaction
    yarn: YarnConfig | None = None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--conf", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting; wins over the file. Repeatable.")
@click.option(
    "--properties-file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Such as spark-defaults.conf."
)
@click.option(
    "--spark-version", "version", metavar="VERSION", help="Whose defaults apply, 2.4 to 4.3. [default: 4.3.0]"
)
@click.option("--all", "everything", is_flag=True, help="Every known key, also where its default is in force.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def conf(
    ctx: click.Context, pairs: tuple[str, ...], file: Path | None, version: str | None, everything: bool, as_json: bool
) -> None:
    """Check a configuration and show what is in force, and where each value comes from.

    Settings are read with the types, checks and defaults of Spark; behaviour is that of Spark 4.3.0 whatever the
    version. All mistakes are reported at once. Exit code 2 if Spark would not start with it, 3 if the file cannot be
    read.
    """
    chosen = parse_version(version) if version is not None else DEFAULT_VERSION
    if version is not None and (not version.strip() or (chosen.remark and "no Spark version" in chosen.remark)):
        raise click.BadParameter(f"{escaped(version)!r} is no version such as 3.5.1", param_hint="--spark-version")
    report = _report(ctx, pairs, file, chosen, everything=everything)
    if as_json:
        click.echo(json.dumps(_plain(report), indent=2))
    else:
        _show(report)
    ctx.exit(BAD_CONFIG if report.errors else 0)


def _report(
    ctx: click.Context, pairs: Sequence[str], file: Path | None, version: SparkVersion, *, everything: bool
) -> Report:
    layers = [from_mapping({}, "", version)]
    notices: list[Notice] = []
    errors: list[ConfError] = []
    if file is not None:
        from_file = read_properties_file(file, version)
        if not is_successful(from_file):
            _give_up(ctx, str(from_file.failure()))
        layers.append(from_file.unwrap().conf)
        notices += [Notice(Level.WARNING, remark) for remark in from_file.unwrap().remarks]
    given = from_arguments(pairs, version=version)
    if is_successful(given):
        layers.append(given.unwrap())
    else:
        errors += given.failure()
        usable = from_arguments([pair for pair in pairs if pair.partition("=")[0] and "=" in pair], version=version)
        layers.append(usable.unwrap())
    merged = layered(*layers)
    notices += [
        Notice(Level.WARNING, f"--conf {name} does not begin with spark.: spark-submit ignores it")
        for name in sorted(layers[-1].settings)
        if not name.startswith("spark.")
    ]
    settings = _settings(merged, notices, errors)
    errors += [error for error in (*check(merged), *conflicts(merged)) if error not in errors]
    yarn = _yarn(merged, notices, errors) if on_yarn(merged) else None
    notices += [*review(merged), *_of_the_other(merged)]
    entries = tuple(_entries(merged, everything=everything))
    unlisted = len(set(merged.settings) - {entry.key for entry in entries})
    return Report(merged, settings, entries, unlisted, tuple(notices), tuple(errors), redaction_of(merged), yarn)


def _yarn(conf: SparkConf, notices: list[Notice], errors: list[ConfError]) -> YarnConfig:
    """What the application master makes of the conf; what it would refuse joins the errors, once."""
    settings, refused = settled(yarn_config(conf))
    known = {(error.key, error.value) for error in errors}
    errors += [one for one in refused if (one.key, one.value) not in known]
    notices += [notice for notice in settings.notices if notice not in notices]
    return settings.config


def _of_the_other(conf: SparkConf) -> list[Notice]:
    """Settings of the cluster manager that the master does not choose; nobody reads them."""
    master = conf.setting(MASTER_KEY)
    if master is None:
        return []
    there = on_yarn(conf)
    if not there and not master.value.strip().startswith("k8s://"):
        return []
    family = "spark.kubernetes." if there else "spark.yarn."
    names = sorted(name for name in conf.settings if name.startswith(family))
    if not names:
        return []
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    verb = "has" if len(names) == 1 else "have"
    shown = ", ".join(names[:NAMED_MAX])
    return [Notice(Level.WARNING, f"{shown}{more} {verb} no effect on {side_name(yarn=there)}, which the master is")]


def _give_up(ctx: click.Context, message: str) -> NoReturn:
    click.echo(f"podtide: {message}", err=True)
    ctx.exit(UNREADABLE)


def _settings(conf: SparkConf, notices: list[Notice], errors: list[ConfError]) -> ScalingSettings:
    """What dynamic allocation makes of the conf. While it is off, Spark does not check how its keys go together."""
    settings, refused = settled(scaling_config(conf))
    if not settings.enabled:
        notices.append(Notice(Level.INFO, "Dynamic allocation is off: this is what would be in force with it."))
    notices += settings.notices
    unreadable = set(check(conf))
    for error in refused:
        if settings.enabled or error in unreadable or not error.key.startswith("spark.dynamicAllocation."):
            errors.append(error)
        else:
            text = f"With dynamic allocation Spark would refuse {error.key}: expected {error.expected}"
            notices.append(Notice(Level.WARNING, text))
    if settings.backend_fault is not None and settings.enabled and not errors:
        reading = read(conf, INITIAL)
        origin = reading.unwrap().origin if is_successful(reading) else "unset"
        expected = f"{settings.config.executors_min} to {settings.config.executors_max} executors to begin with"
        errors.append(
            ConfError(INITIAL, str(settings.config.executors_initial), origin, expected, settings.backend_fault)
        )
    return settings


def _entries(conf: SparkConf, *, everything: bool) -> Iterator[Entry]:
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
            yield Entry(name, redaction.shown(name, setting.value), setting.origin, None, True)
            continue
        reading = read(conf, name)
        if not is_successful(reading):
            error = reading.failure()
            yield Entry(name, redaction.shown(name, error.value), f"{error.origin}, unusable", row, True)
            continue
        _, text, origin = reading.unwrap()
        written = conf.setting(name)
        if written is not None and row.type in (STRING, LIST, REGEX):
            text = written.value  # a reference may lead to what is not to be shown: texts stay as they were written
        shown = None if text is None else redaction.shown(name, text)
        if row.type is REGEX and text is not None:
            shown = text  # the pattern that says what to hide names it, but hides nothing itself
        yield Entry(name, shown, origin, row, written is not None)


def _of_interest(row: Key, conf: SparkConf) -> bool:
    if row.name in SHOWN_ON_YARN:
        return on_yarn(conf)
    return row.name in ALWAYS_SHOWN or (row.name.startswith("spark.dynamicAllocation.") and row.use is Use.DECIDES)


def _plain(report: Report) -> dict[str, Any]:
    """The report as one JSON object."""
    version = report.conf.version
    return {
        "podtide": FORMAT,
        "spark": {"version": version.text, "defaults": version.name, "behaviour": "4.3.0"},
        "dynamic_allocation": _amounts_to(report.settings),
        **({} if report.yarn is None else {"yarn": _amounts_on_yarn(report.yarn)}),
        "conf": {
            entry.key: {"value": entry.value, "origin": entry.origin}
            | ({"type": entry.row.type.name, "meaning": entry.row.meaning} if entry.row else {})
            for entry in report.entries
        },
        "unlisted": report.unlisted,
        "notices": [
            {"level": notice.level.value, "text": notice.text, "by": "spark" if notice.spark else "podtide"}
            for notice in report.notices
        ],
        "errors": [_plain_error(error, report.redaction) for error in report.errors],
    }


def _plain_error(error: ConfError, redaction: Redaction) -> dict[str, Any]:
    value = redaction.shown(error.key, error.value)
    plain = {"key": error.key, "value": value, "origin": error.origin, "expected": error.expected}
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


def _told_of_yarn(config: YarnConfig) -> str:
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


def _show(report: Report) -> None:
    if sys.stdout.isatty():
        _show_table(report)
    else:
        for entry in report.entries:
            value = "" if entry.value is None else escaped(entry.value, LINE_CHARS_MAX)
            click.echo(f"{escaped(entry.key)}\t{value}\t{escaped(entry.origin)}")
    for notice in report.notices:
        speaker = "Spark: " if notice.spark else ""
        click.echo(f"{notice.level.value}: {speaker}{escaped(notice.text, LINE_CHARS_MAX)}", err=True)
    for error in report.errors:
        value = escaped(report.redaction.shown(error.key, error.value))
        setting = f"{escaped(error.key)} = {value}" if error.value else escaped(error.key)
        place = f"{setting} ({escaped(error.origin)})"
        click.echo(f"error: {place}: expected {escaped(error.expected)}", err=True)
    if report.errors:
        count = len(report.errors)
        click.echo(f"podtide: {count} error{'s' if count > 1 else ''}: Spark would not start with this", err=True)


def _friendly(entry: Entry) -> str:
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


def _show_table(report: Report) -> None:
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
        console.print(Text(_told_of_yarn(report.yarn)))
    if report.unlisted:
        others = "1 other setting plays" if report.unlisted == 1 else f"{report.unlisted} other settings play"
        console.print(Text(f"{others} no part in this; --all shows what is set."))
