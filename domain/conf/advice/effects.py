"""Which settings exist and have an effect where an application ran: the table that advice has to keep to.

A row says from which release on Spark has a key, which cluster managers it has an effect with (and where that began later
than the key), in which releases its default moved, and where each of that stands. All keys that podtide recommends, or
checks as Spark does when dynamic allocation starts, have a row. ``why_not`` puts it together with the place: the release of
the log, the manager of its master, its platform (``advice.platforms``). What is not known is not taken for granted: without
a readable version only what Spark 2.4 has already is there, without a master only what every manager knows.

Sources: CONFIGURATION is https://spark.apache.org/docs/latest/configuration.html, whose tables have "Since Version";
STANDALONE .../spark-standalone.html, YARN_PAGE .../running-on-yarn.html, KUBERNETES_PAGE .../running-on-kubernetes.html;
SPARK-n is an issue of Spark's JIRA. Releases are those of ConfigBuilder.version in 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.conf.advice.platforms import HOSTED, Platform, platform_of
from podtide.domain.conf.entry_types import release
from podtide.domain.conf.scaling_config import (
    BACKLOG,
    DECOMMISSION,
    ENABLED,
    INITIAL,
    INSTANCES,
    MAX,
    MIN,
    RATIO,
    SERVICE,
    SHUFFLE_BLOCKS,
    SUSTAINED,
    TRACKING,
)
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.conf.spark_versions import OLDEST, Release

DYNAMIC: Final = "spark.dynamicAllocation."
CORES: Final = "spark.executor.cores"
CORES_MAX: Final = "spark.cores.max"
LISTED_MAX: Final = 2
"""Keys that a line names one by one."""


class ManagerKind(Enum):
    """Who starts executors, by the master's URL. ``HOSTED``: a platform's own (EMR Serverless); ``UNKNOWN``: not logged."""

    YARN = "YARN"
    KUBERNETES = "Kubernetes"
    STANDALONE = "a standalone master"
    MESOS = "Mesos"
    HOSTED = "the platform's own cluster manager"
    LOCAL = "a local master"
    UNKNOWN = "an unknown cluster manager"


_ANY: Final = frozenset({
    ManagerKind.YARN, ManagerKind.KUBERNETES, ManagerKind.STANDALONE, ManagerKind.MESOS, ManagerKind.HOSTED,
})  # fmt: skip
_COUNTED: Final = frozenset({ManagerKind.YARN, ManagerKind.KUBERNETES, ManagerKind.HOSTED})
"""Those that are asked for containers: a count of them, of a size."""

_BASICS: Final = (ManagerKind.YARN, ManagerKind.KUBERNETES, ManagerKind.STANDALONE)
"""What an unknown manager may be."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A key: the release that brought it, where it has an effect, and the sources. ``later``: managers where its effect
    began with a later release; ``moves``: releases that moved its default, each with what it became and its source."""

    key: str
    since: Release
    on: frozenset[ManagerKind]
    source: str
    later: Mapping[ManagerKind, Release] = field(default_factory=dict)
    moves: Mapping[Release, str] = field(default_factory=dict)


def _row(
    key: str,
    since: str,
    on: Iterable[ManagerKind],
    source: str,
    later: Mapping[ManagerKind, str] | None = None,
    moves: Mapping[str, str] | None = None,
) -> SettingRow:
    return SettingRow(
        key,
        release(since),
        frozenset(on),
        source,
        {manager: release(text) for manager, text in (later or {}).items()},
        {release(text): what for text, what in (moves or {}).items()},
    )


_MANAGED: Final = {
    ManagerKind.STANDALONE: "1.4",  # SPARK-4751
    ManagerKind.MESOS: "1.5",  # SPARK-6287
    ManagerKind.KUBERNETES: "3.0",  # SPARK-27963: Spark has no external shuffle service there
}
"""Where dynamic allocation works with a release later than 1.2, which has it on YARN alone."""

_DYNAMIC_PAGE: Final = "CONFIGURATION, dynamic allocation; SPARK-3174, SPARK-4751, SPARK-6287, SPARK-27963"
_MIGRATION: Final = "core-migration-guide.html"

ROWS: Final[tuple[SettingRow, ...]] = (
    _row(ENABLED, "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(MIN, "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(MAX, "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(INITIAL, "1.3.0", _ANY, "CONFIGURATION, dynamic allocation; SPARK-4585", _MANAGED),
    _row(f"{DYNAMIC}executorIdleTimeout", "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(f"{DYNAMIC}cachedExecutorIdleTimeout", "1.4.0", _ANY, "CONFIGURATION, dynamic allocation; SPARK-7955", _MANAGED),
    _row(BACKLOG, "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(SUSTAINED, "1.2.0", _ANY, _DYNAMIC_PAGE, _MANAGED),
    _row(RATIO, "2.4.0", _ANY, "CONFIGURATION, dynamic allocation; SPARK-22683", _MANAGED),
    _row(TRACKING, "3.0.0", _ANY, "CONFIGURATION, dynamic allocation; SPARK-27963",
         moves={"3.4": f"true; SPARK-39846, {_MIGRATION}#upgrading-from-core-33-to-34"}),
    _row(f"{DYNAMIC}shuffleTracking.timeout", "3.0.0", _ANY, "CONFIGURATION, dynamic allocation; SPARK-27963"),
    _row(SERVICE, "1.2.0", _ANY - {ManagerKind.KUBERNETES, ManagerKind.HOSTED},
         "CONFIGURATION, dynamic allocation; SPARK-3797 (YARN), SPARK-4277 (standalone); KUBERNETES_PAGE, Future Work"),
    _row(DECOMMISSION, "3.1.0", _ANY - {ManagerKind.MESOS}, "CONFIGURATION, executor decommission; SPARK-31198"),
    _row(SHUFFLE_BLOCKS, "3.1.0", _ANY - {ManagerKind.MESOS}, "CONFIGURATION; SPARK-20629",
         moves={"3.4": f"true; SPARK-40198, {_MIGRATION}#upgrading-from-core-33-to-34"}),
    _row("spark.shuffle.sort.io.plugin.class", "3.0.0", _ANY,
         "SPARK-28209; satisfies the check at the start from 3.5 on, SPARK-42689"),
    _row(INSTANCES, "1.0.0", _COUNTED, "YARN_PAGE; STANDALONE, Executors Scheduling: spark.cores.max counts there"),
    _row(CORES_MAX, "0.6.0", {ManagerKind.STANDALONE, ManagerKind.MESOS}, "CONFIGURATION, scheduling; STANDALONE"),
    _row(CORES, "1.0.0", _ANY, "CONFIGURATION, execution behavior"),
    _row("spark.task.cpus", "0.5.0", _ANY, "CONFIGURATION, scheduling; a decimal from 4.3 on"),
    _row("spark.executor.memory", "0.7.0", _ANY, "CONFIGURATION, application properties"),
    _row("spark.executor.memoryOverhead", "2.3.0", _COUNTED,
         "CONFIGURATION, application properties: supported on YARN and Kubernetes"),
    _row("spark.executor.pyspark.memory", "2.4.0", _ANY, "CONFIGURATION, application properties; SPARK-25004"),
    _row("spark.memory.offHeap.enabled", "1.6.0", _ANY, "CONFIGURATION, memory management; SPARK-11389"),
    _row("spark.memory.offHeap.size", "1.6.0", _ANY, "CONFIGURATION, memory management; SPARK-11389"),
    _row("spark.kubernetes.allocation.batch.size", "2.3.0", {ManagerKind.KUBERNETES}, "KUBERNETES_PAGE; SPARK-18278",
         moves={"4.0": f"10; {_MIGRATION}#upgrading-from-core-35-to-40",
                "4.2": f"20; {_MIGRATION}#upgrading-from-core-41-to-42"}),
    _row("spark.kubernetes.allocation.batch.delay", "2.3.0", {ManagerKind.KUBERNETES}, "KUBERNETES_PAGE; SPARK-18278"),
    _row("spark.yarn.scheduler.heartbeat.interval-ms", "0.8.1", {ManagerKind.YARN}, "YARN_PAGE"),
    _row("spark.executor.metrics.pollingInterval", "3.0.0", _ANY, "CONFIGURATION, execution behavior; SPARK-26329"),
    _row("spark.executor.processTreeMetrics.enabled", "3.0.0", _ANY, "CONFIGURATION, executor metrics; SPARK-24958"),
    _row("spark.sql.shuffle.partitions", "1.1.0", _ANY | {ManagerKind.LOCAL}, "CONFIGURATION, runtime SQL configuration"),
    _row("spark.python.worker.memory", "1.1.0", _ANY | {ManagerKind.LOCAL}, "CONFIGURATION, execution behavior"),
)  # fmt: skip

TABLE: Final = {row.key: row for row in ROWS}

MESOS_UNTIL: Final = release("4.0")
"""Mesos was removed: core-migration-guide.html#upgrading-from-core-35-to-40."""

_TRACKING: Final = frozenset({TRACKING, f"{DYNAMIC}shuffleTracking.timeout"})

_EVERYWHERE: Final = frozenset({"spark.sql.shuffle.partitions", "spark.python.worker.memory"})
"""What no platform takes over: they are the application's."""


class Place(NamedTuple):
    """Where settings would be set. ``release``: None where it is not known; ``dynamic``: dynamic allocation was on there;
    ``service``: there is an external shuffle service."""

    release: Release | None
    manager: ManagerKind
    platform: Platform | None
    dynamic: bool
    service: bool

    @property
    def operated(self) -> bool:
        """Whether a Kubernetes operator may read a manifest there."""
        return self.manager is ManagerKind.KUBERNETES and not self.own_rules

    @property
    def own_rules(self) -> bool:
        """Whether the platform decides on executors, whatever Spark's settings are."""
        return self.platform is not None and self.platform.own_rules


def manager_of(conf: SparkConf, platform: Platform | None = None) -> ManagerKind:
    """The cluster manager that the conf's master chooses."""
    master = conf.master.strip()
    if conf.is_local:
        return ManagerKind.LOCAL
    if master.startswith("k8s://"):
        return ManagerKind.KUBERNETES
    if master.startswith("yarn"):
        return ManagerKind.YARN
    if master.startswith(("spark://", "local-cluster")):
        return ManagerKind.STANDALONE
    if master.startswith("mesos://"):
        return ManagerKind.MESOS
    return ManagerKind.HOSTED if platform in HOSTED else ManagerKind.UNKNOWN


def place_of(conf: SparkConf) -> Place:
    """Where an application with this conf, as its log tells it, runs."""
    properties = {name: setting.value for name, setting in conf.settings.items()}
    platform = platform_of(properties, conf.version.text)
    return Place(
        conf.version.written,
        manager_of(conf, platform),
        platform,
        properties.get(ENABLED, "").strip().lower() == "true",
        properties.get(SERVICE, "").strip().lower() == "true",
    )


def why_not(key: str, place: Place) -> str | None:
    """Why setting this key is no advice there; None where it exists and has an effect. Keys without a row have none."""
    row = TABLE.get(key)
    if row is None:
        return "it is not among the settings that podtide knows the effect of"
    if place.own_rules and key not in _EVERYWHERE:
        assert place.platform is not None
        return f"{place.platform.name} decides on executors by rules of its own"
    known = OLDEST if place.release is None else place.release
    if known < row.since:
        return f"it came with Spark {_named(row.since)}, and {_this(place)}"
    if place.manager is ManagerKind.UNKNOWN:
        known_to_all = row.on.issuperset(_BASICS)
        return None if known_to_all else "the log does not say its master, and not every cluster manager reads it"
    if place.manager not in row.on:
        return f"{place.manager.value} does not read it"
    if place.manager is ManagerKind.MESOS and known >= MESOS_UNTIL:
        return "Spark 4.0 removed Mesos"
    return None if not key.startswith(DYNAMIC) else _why_not_dynamic(row, known, place)


def _why_not_dynamic(row: SettingRow, known: Release, place: Place) -> str | None:
    """Why a setting of dynamic allocation is none; what an application ran with works there."""
    if place.service and row.key in _TRACKING:
        return "an external shuffle service keeps shuffle data, and Spark tracks none beside it"
    if place.dynamic:
        return None
    since = row.later.get(place.manager, row.since)
    if known < since:
        return f"dynamic allocation works on {place.manager.value} from Spark {_named(since)} on, and {_this(place)}"
    if known < TABLE[TRACKING].since and not place.service:
        return (
            f"before Spark 3.0 dynamic allocation needs an external shuffle service; there was none, and {_this(place)}"
        )
    return None


def _this(place: Place) -> str:
    if place.release is None:
        return "the log does not say its version (--spark-version does)"
    return f"this is {_named(place.release)}"


def _named(known: Release) -> str:
    return ".".join(map(str, known[:2]))


def left_out(reasons: Mapping[str, str]) -> str | None:
    """What was left out and why, by key, in one line; None where nothing was."""
    by_why: dict[str, list[str]] = {}
    for key in sorted(reasons, key=lambda name: (name != ENABLED, name)):
        by_why.setdefault(reasons[key], []).append(key)
    parts = []
    for why, keys in by_why.items():
        listed = ", ".join(keys[:LISTED_MAX]) + (
            f" and {len(keys) - LISTED_MAX} more" if len(keys) > LISTED_MAX else ""
        )
        parts.append(f"{listed} ({why})")
    return f"Not recommended: {'; '.join(parts)}." if parts else None


def knob_line(place: Place) -> str | None:
    """What a user of the platform turns, in one line; None where there is no platform."""
    if place.platform is None:
        return None
    lead = f"{place.platform.name} decides on executors itself" if place.own_rules else f"On {place.platform.name}"
    return f"{lead}: what to set is {place.platform.knob}."


def static_settings(place: Place, count: int, cores: int) -> dict[str, str] | str | None:
    """How so many executors of ``cores`` cores, from start to end, are asked for: settings, or a line for the platform's own
    place; None where nothing asks for them."""
    platform = place.platform
    if place.own_rules:
        assert platform is not None
        return None if platform.workers is None else platform.workers.format(count + platform.extra)
    match place.manager:
        case ManagerKind.YARN | ManagerKind.KUBERNETES | ManagerKind.HOSTED:
            return {ENABLED: "false", INSTANCES: str(count)}
        case ManagerKind.STANDALONE | ManagerKind.MESOS:
            return {ENABLED: "false", CORES: str(cores), CORES_MAX: str(count * cores)}
        case ManagerKind.LOCAL | ManagerKind.UNKNOWN:
            return None
