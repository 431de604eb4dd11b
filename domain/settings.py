"""From a SparkConf to the ScalingConfig, as starting an application with executor allocation would do it.

SparkContext first builds the default resource profile and has ResourceProfileManager check it, then constructs
ExecutorAllocationManager, which reads its keys, validates them (``validateSettings``) and creates ExecutorMonitor.
``scaling_config`` walks the same way in the same order. Spark stops at the first failure; here all of them are
collected, and the first one is the one Spark would have thrown (``Refused.construct``). A refusal still carries the
settings with defaults in the place of what cannot be read, because an application that ran under another Spark or
without dynamic allocation is worth replaying whatever 4.3.0 thinks of its conf.

Rules that are easily got wrong:

- The first target is max(minExecutors, initialExecutors or else minExecutors, spark.executor.instances or else 0).
- Shuffle tracking is effective only without an external shuffle service.
- Cores bound the tasks of an executor if spark.executor.cores is set, or the master is Kubernetes or "yarn". That is
  4.3's rule to the letter: the "yarn-client" and "yarn-cluster" of old logs do not count. It makes no difference
  unless spark.task.cpus exceeds 1 without spark.executor.cores, which those Sparks could not run with either.
- spark.storage.decommission.enabled is not asked for by the check that shuffle data outlives executors.
- ExecutorAllocationManager does not compare the first target with the maximum; the scheduler backends of YARN and
  Kubernetes do, when they start (``ScalingSettings.backend_fault``).
- A ratio that is no number (NaN) passes Spark's check, so it passes here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.config import ProfileRules, ScalingConfig
from podtide.domain.confkeys import KEYS
from podtide.domain.conftypes import Value
from podtide.domain.javavalues import BYTE_UNITS, LONG_MAX, double_text, parse_double, parse_int, parse_size, to_int
from podtide.domain.profiles import (
    ASSERTION_ERROR,
    BUILT_IN,
    CPUS,
    ILLEGAL_ARGUMENT,
    SPARK_EXCEPTION,
    SparkFault,
    concurrent_map_order,
    cpus_in_range,
    cpus_out_of_range,
    default_profile,
    immutable_map_order,
    tasks_per_executor,
)
from podtide.domain.sparkconf import ConfError, Setting, SparkConf, read
from podtide.domain.sparkversions import SparkVersion
from podtide.domain.units import NEVER, Millis
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

NUMBER_FORMAT: Final = "java.lang.NumberFormatException"
LONG_DIGITS: Final = 19

ENABLED: Final = "spark.dynamicAllocation.enabled"
TESTING: Final = "spark.dynamicAllocation.testing"
MIN: Final = "spark.dynamicAllocation.minExecutors"
MAX: Final = "spark.dynamicAllocation.maxExecutors"
INITIAL: Final = "spark.dynamicAllocation.initialExecutors"
INSTANCES: Final = "spark.executor.instances"
BACKLOG: Final = "spark.dynamicAllocation.schedulerBacklogTimeout"
SUSTAINED: Final = "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout"
RATIO: Final = "spark.dynamicAllocation.executorAllocationRatio"
TRACKING: Final = "spark.dynamicAllocation.shuffleTracking.enabled"
DECOMMISSION: Final = "spark.decommission.enabled"
SHUFFLE_BLOCKS: Final = "spark.storage.decommission.shuffleBlocks.enabled"
SERVICE: Final = "spark.shuffle.service.enabled"
CORES_KEY: Final = "spark.executor.cores"
MEMORY_KEY: Final = "spark.executor.memory"

REQUIRED_CONDITIONS: Final = (
    "Dynamic allocation of executors requires one of the following conditions: "
    f"1) enabling external shuffle service through {SERVICE}. "
    f"2) enabling shuffle tracking through {TRACKING}. "
    f"3) enabling shuffle blocks decommission through {DECOMMISSION} and {SHUFFLE_BLOCKS}. "
    "4) (Experimental) configuring spark.shuffle.sort.io.plugin.class to use a custom ShuffleDataIO who's "
    "ShuffleDriverComponents supports reliable storage."
)
BOTH_MECHANISMS: Final = (
    "You are enabling both shuffle tracking and other DA supported mechanism, which will cause idle executors not to "
    "be released in a timely, please check the configurations."
)


class Level(Enum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"


class Notice(NamedTuple):
    """Something to say about a conf that is no error. ``spark``: these are the words of Spark's own log."""

    level: Level
    text: str
    spark: bool = False


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """What the conf amounts to.

    ``enabled``: Spark would allocate executors dynamically (switched on, and not with a local master). ``notices``:
    what Spark logs on the way. ``backend_fault``: what the scheduler backend of YARN or Kubernetes throws at its start.
    """

    config: ScalingConfig
    enabled: bool
    version: SparkVersion
    notices: tuple[Notice, ...] = ()
    backend_fault: SparkFault | None = None


class ConstructFailure(NamedTuple):
    """The exception in which constructing ExecutorAllocationManager ends."""

    exception_class: str
    message: str

    def __str__(self) -> str:
        return f"construct: {self.exception_class}: {self.message}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Spark would not start with this conf. ``errors`` in Spark's order, at least one; ``settings``: the best guess."""

    errors: tuple[ConfError, ...]
    construct: ConstructFailure
    settings: ScalingSettings


def scaling_config(conf: SparkConf, *, reliable_shuffle_storage: bool = False) -> Result[ScalingSettings, Refused]:
    """The configuration of dynamic allocation. ``reliable_shuffle_storage``: the shuffle plugin says that it is.

    Executor allocation is assumed to be wanted even where spark.dynamicAllocation.enabled is false.
    """
    reads = _Reads(conf)
    notices: list[Notice] = []
    enabled = _dynamic_allocation_enabled(reads)
    reads.flag("spark.testing.resourceProfileManager")
    rules = _profile_rules(reads, enabled=enabled)
    least, most = reads.int(MIN), reads.int(MAX)
    initial = _initial_executors(reads, notices)
    backlog_s, sustained_s = reads.int(BACKLOG), reads.int(SUSTAINED)
    testing = reads.flag(TESTING)
    ratio = reads.double(RATIO)
    decommission = reads.flag(DECOMMISSION)
    _validate_bounds(reads, least, most)
    if backlog_s <= 0:
        reads.refuse(BACKLOG, "more than 0", SPARK_EXCEPTION, f"{BACKLOG} must be > 0!")
    if sustained_s <= 0:
        # The stray "s" is Spark's.
        reads.refuse(SUSTAINED, "more than 0", SPARK_EXCEPTION, f"s{SUSTAINED} must be > 0!")
    tracking = _validate_shuffle(
        reads, notices, reliable=reliable_shuffle_storage, decommission=decommission, testing=testing
    )
    if ratio > 1.0 or ratio <= 0.0:
        reads.refuse(RATIO, "more than 0 and at most 1", SPARK_EXCEPTION, f"{RATIO} must be > 0 and <= 1.0")
    # ExecutorMonitor
    service = reads.flag(SERVICE)
    config = ScalingConfig(
        executors_min=least,
        executors_max=most,
        executors_initial=initial,
        backlog_timeout_ms=_millis(backlog_s),
        sustained_backlog_timeout_ms=_millis(sustained_s),
        idle_timeout_ms=_millis(reads.int("spark.dynamicAllocation.executorIdleTimeout")),
        cached_idle_timeout_ms=_millis(reads.int("spark.dynamicAllocation.cachedExecutorIdleTimeout")),
        shuffle_timeout_ms=reads.int("spark.dynamicAllocation.shuffleTracking.timeout"),
        shuffle_tracking=tracking and not service,
        rdd_from_service=service and reads.flag("spark.shuffle.service.fetch.rdd.enabled"),
        decommission=decommission,
        ratio=ratio,
        testing=testing,
        profile_rules=rules,
    )
    settings = ScalingSettings(config, enabled, conf.version, tuple(notices), _backend_fault(conf, config))
    if not reads.errors:
        return Success(settings)
    raised = next(error.raised for error in reads.errors if error.raised is not None)
    construct = ConstructFailure(raised.exception_class, raised.message)
    return Failure(Refused(tuple(reads.errors), construct, settings))


class _Reads:
    """Reads keys in Spark's order and keeps what fails; a key that fails counts as unset from then on."""

    def __init__(self, conf: SparkConf) -> None:
        self.conf = conf
        self.errors: list[ConfError] = []
        self._failed: dict[str, Value | None] = {}

    def value(self, name: str) -> Value | None:
        if name in self._failed:
            return self._failed[name]
        reading = read(self.conf, name)
        if is_successful(reading):
            return reading.unwrap().value
        error = reading.failure()
        if all((error.key, error.origin) != (known.key, known.origin) for known in self.errors):
            self.errors.append(error)
        row = KEYS[name]
        default = row.default(self.conf.version.release)
        if default is not None:
            self._failed[name] = row.type.parse(default)
        else:
            self._failed[name] = self.value(row.fallback) if row.fallback is not None else None
        return self._failed[name]

    def flag(self, name: str) -> bool:
        return self.value(name) is True

    def int(self, name: str) -> int:
        value = self.value(name)
        return value if isinstance(value, int) else 0

    def double(self, name: str) -> float:
        value = self.value(name)
        return value if isinstance(value, float) else 0.0

    def decimal(self, name: str) -> Decimal:
        value = self.value(name)
        return value if isinstance(value, Decimal) else Decimal(0)

    def refuse(self, name: str, expected: str, exception_class: str, message: str) -> None:
        """A value that can be read but not used."""
        setting = self.conf.setting(name)
        if setting is None:
            reading = read(self.conf, name) if name in KEYS else None
            known = reading.unwrap() if reading is not None and is_successful(reading) else None
            setting = Setting(known.text or "" if known else "", known.origin if known else "unset")
        self.refuse_setting(name, setting, expected, SparkFault(exception_class, message))

    def refuse_setting(self, name: str, setting: Setting, expected: str, raised: SparkFault) -> None:
        self.errors.append(ConfError(name, setting.value, setting.origin, expected, raised))


def _dynamic_allocation_enabled(reads: _Reads) -> bool:
    """Utils.isDynamicAllocationEnabled: a local master has no executors to allocate, unless in tests."""
    master = _master(reads.conf)
    local = master == "local" or master.startswith("local[")
    return reads.flag(ENABLED) and (not local or reads.flag(TESTING))


def _master(conf: SparkConf) -> str:
    setting = conf.setting("spark.master")
    return setting.value if setting else ""


def _initial_executors(reads: _Reads, notices: list[Notice]) -> int:
    """Utils.getDynamicAllocationInitialExecutors."""
    initial, least = reads.int(INITIAL), reads.int(MIN)
    instances = reads.value(INSTANCES)
    count = instances if isinstance(instances, int) else 0
    ignored = f"less than {MIN} is invalid, ignoring its setting, please update your configs."
    if initial < least:
        notices.append(Notice(Level.WARNING, f"{INITIAL} {ignored}", spark=True))
    if count < least:
        notices.append(Notice(Level.WARNING, f"{INSTANCES} {ignored}", spark=True))
    first = max(least, initial, count)
    text = f"Using initial executors = {first}, max of {INITIAL}, {MIN} and {INSTANCES}"
    notices.append(Notice(Level.INFO, text, spark=True))
    return first


def _validate_bounds(reads: _Reads, least: int, most: int) -> None:
    if least < 0 or most < 0:
        name, expected = (MIN, "0 or more") if least < 0 else (MAX, "1 or more")
        reads.refuse(name, expected, SPARK_EXCEPTION, f"{MIN} and {MAX} must be positive!")
    if most == 0:
        reads.refuse(MAX, "1 or more", SPARK_EXCEPTION, f"{MAX} cannot be 0!")
    if least > most:
        message = f"{MIN} ({least}) must be less than or equal to {MAX} ({most})!"
        reads.refuse(MIN, f"at most {MAX} ({most})", SPARK_EXCEPTION, message)


def _validate_shuffle(
    reads: _Reads, notices: list[Notice], *, reliable: bool, decommission: bool, testing: bool
) -> bool:
    """Whether shuffle data outlives an executor, one way or another; returns shuffleTracking.enabled."""
    tracking = reads.flag(TRACKING)
    migrating = decommission and reads.flag(SHUFFLE_BLOCKS)
    if not reads.flag(SERVICE) and not reliable:
        if tracking:
            text = "Dynamic allocation is enabled without a shuffle service."
            notices.append(Notice(Level.INFO, text, spark=True))
        elif migrating:
            text = "Shuffle data decommission is enabled without a shuffle service."
            notices.append(Notice(Level.INFO, text, spark=True))
        elif not testing:
            expected = f"true, or {SERVICE}, or {DECOMMISSION} with {SHUFFLE_BLOCKS}, or reliable shuffle storage"
            reads.refuse(TRACKING, expected, SPARK_EXCEPTION, REQUIRED_CONDITIONS)
    if tracking and (migrating or reliable):
        notices.append(Notice(Level.WARNING, BOTH_MECHANISMS, spark=True))
    return tracking


def _backend_fault(conf: SparkConf, config: ScalingConfig) -> SparkFault | None:
    """SchedulerBackendUtils.getInitialTargetExecutorNumber, which YARN and Kubernetes ask at their start."""
    master = _master(conf)
    least, first, most = config.executors_min, config.executors_initial, config.executors_max
    if not (master.startswith("k8s://") or master.startswith("yarn")) or least <= first <= most:
        return None
    message = (
        f"requirement failed: initial executor number {first} must between min executor number {least} and max "
        f"executor number {most}"
    )
    return SparkFault(ILLEGAL_ARGUMENT, message)


def _profile_rules(reads: _Reads, *, enabled: bool) -> ProfileRules:
    """ResourceProfile.getOrCreateDefaultProfile and ResourceProfileManager's check of it."""
    conf = reads.conf
    master = _master(conf)
    kubernetes, yarn = master.startswith("k8s://"), master.lower() == "yarn"
    standalone = master.startswith(("spark://", "local-cluster"))
    errors_before = len(reads.errors)
    cpus = reads.decimal("spark.task.cpus").quantize(Decimal("1e-9"), ROUND_HALF_UP, Context(prec=40))
    task = _task_resources(reads)
    cores = _executor_cores(reads, standalone=standalone)
    memory_requests = _memory_requests(reads, standalone=standalone)
    executor = _executor_resources(reads)
    sizes = [*(["cores"] if cores is not None else []), *memory_requests]
    rules = ProfileRules(
        executor_cores=cores if cores is not None else 1,
        cores_limit_known=conf.setting(CORES_KEY) is not None or kubernetes or yarn,
        task_cpus=cpus,
        executor_resources=tuple((name, executor[name]) for name in _walk(sizes, list(executor), filtered=True)),
        task_resources=tuple((name, task[name]) for name in _walk([CPUS], list(task), filtered=False)),
        # Without dynamic allocation, or with a master that nobody recorded, there is nothing to refuse.
        profiles_supported=not enabled or not master or kubernetes or master == "yarn" or standalone,
    )
    if len(reads.errors) == errors_before:
        fault = tasks_per_executor(default_profile(rules), rules)
        if isinstance(fault, SparkFault):
            name = _blamed(conf, rules, fault)
            reads.refuse(name, "a default profile that Spark accepts", fault.exception_class, fault.message)
    return rules


def _blamed(conf: SparkConf, rules: ProfileRules, fault: SparkFault) -> str:
    """The key to name for a default profile that does not work."""
    if fault.message.startswith(("The number of cores", "assertion failed: CPUs")):
        return CORES_KEY if conf.setting(CORES_KEY) is not None else "spark.task.cpus"
    words = fault.message.replace(",", " ").split()
    named = [name for name, _ in rules.task_resources if name in words] or [rules.task_resources[0][0]]
    return f"spark.task.resource.{named[0]}.amount"


def _walk(others: list[str], custom: list[str], *, filtered: bool) -> list[str]:
    """``custom`` in the order in which Spark walks them among the ``others`` of the default profile.

    They were put into a ConcurrentHashMap, then into an immutable map: up to four keep their order there, more
    become a trie. ``filtered``: the others were taken out of the trie before the walk.
    """
    if len(custom) < 2:
        return custom
    names = list(dict.fromkeys([*others, *custom]))
    if len(names) <= 4:
        ordered = concurrent_map_order(names)
    elif filtered:
        ordered = immutable_map_order([name for name in names if name not in BUILT_IN])
        ordered += [name for name in custom if name in BUILT_IN]
    else:
        ordered = immutable_map_order(names)
    return [name for name in ordered if name in custom]


def _resource_settings(reads: _Reads, prefix: str) -> dict[str, Setting]:
    """NAME -> its amount, for every ``prefix.NAME.something`` (ResourceUtils.listResourceIds)."""
    amounts: dict[str, Setting] = {}
    entries = reads.conf.with_prefix(f"{prefix}.")
    for rest, setting in entries:
        name, dot, _ = rest.partition(".")
        if not dot:
            message = f"You must specify an amount config for resource: {rest} config: {prefix}.{rest}"
            fault = SparkFault(SPARK_EXCEPTION, message)
            reads.refuse_setting(f"{prefix}.{rest}", setting, f"{prefix}.{rest}.amount", fault)
    given = dict(entries)
    for name in dict.fromkeys(rest.partition(".")[0] for rest, _ in entries if "." in rest):
        amount = given.get(f"{name}.amount")
        if amount is None:
            fault = SparkFault(SPARK_EXCEPTION, f"You must specify an amount for {name}")
            reads.refuse_setting(f"{prefix}.{name}.amount", Setting("", "unset"), "an amount", fault)
        else:
            amounts[name] = amount
    return amounts


def _task_resources(reads: _Reads) -> dict[str, float]:
    """ResourceUtils.addTaskResourceRequests: amounts above zero; then TaskResourceRequest's own conditions."""
    written: dict[str, tuple[float, Setting]] = {}
    for name, setting in _resource_settings(reads, "spark.task.resource").items():
        try:
            amount = parse_double(setting.value)
        except ValueError:
            fault = SparkFault(NUMBER_FORMAT, _number_message(setting.value))
            reads.refuse_setting(f"spark.task.resource.{name}.amount", setting, "a number", fault)
        else:
            if amount > 0.0:
                written[name] = amount, setting
    amounts: dict[str, float] = {}
    for name, (amount, setting) in written.items():
        key = f"spark.task.resource.{name}.amount"
        if name == CPUS and not cpus_in_range(amount):
            fault = SparkFault(ILLEGAL_ARGUMENT, cpus_out_of_range(amount))
            reads.refuse_setting(key, setting, "1e-9 to 2147483647", fault)
        elif name != CPUS and amount > 1.0 and amount % 1 != 0:
            text = f"The resource amount {double_text(amount)} must be either <= 1.0, or a whole number."
            fault = SparkFault(ASSERTION_ERROR, f"assertion failed: {text}")
            reads.refuse_setting(key, setting, "at most 0.5, or a whole number", fault)
        else:
            amounts[name] = amount
    return amounts


def _executor_resources(reads: _Reads) -> dict[str, int]:
    """ResourceUtils.parseAllResourceRequests: whole amounts above zero."""
    amounts: dict[str, int] = {}
    for name, setting in _resource_settings(reads, "spark.executor.resource").items():
        try:
            amount = parse_int(setting.value)
        except ValueError:
            fault = SparkFault(NUMBER_FORMAT, f'For input string: "{setting.value}"')
            reads.refuse_setting(f"spark.executor.resource.{name}.amount", setting, "a whole number", fault)
            continue
        if amount > 0:
            amounts[name] = amount
    return amounts


def _number_message(text: str) -> str:
    return f'For input string: "{text}"' if text.strip() else "empty String"


def _executor_cores(reads: _Reads, *, standalone: bool) -> int | None:
    """spark.executor.cores; a standalone cluster has no default and reads the text itself, neither trimmed nor
    expanded.
    """
    if not standalone:
        return reads.int(CORES_KEY)
    setting = reads.conf.setting(CORES_KEY)
    if setting is None:
        return None
    try:
        return parse_int(setting.value)
    except ValueError:
        fault = SparkFault(NUMBER_FORMAT, f'For input string: "{setting.value}"')
        reads.refuse_setting(CORES_KEY, setting, KEYS[CORES_KEY].type.expected, fault)
        return None


def _memory_requests(reads: _Reads, *, standalone: bool) -> list[str]:
    """The memory part of the default profile: nothing depends on it but whether Spark can read it."""
    requests = ["memory"]
    if not standalone:
        _not_negative(reads, MEMORY_KEY)
    elif (setting := reads.conf.setting(MEMORY_KEY)) is not None:
        # A standalone cluster takes a number without suffix for bytes, not for MiB.
        try:
            parse_size(setting.value, "b")
        except ValueError:
            reads.refuse_setting(MEMORY_KEY, setting, KEYS[MEMORY_KEY].type.expected, _size_fault(setting.value))
    for name, request in (
        ("spark.executor.memoryOverhead", "memoryOverhead"),
        ("spark.executor.pyspark.memory", "pyspark.memory"),
    ):
        if reads.value(name) is not None:
            requests.append(request)
            _not_negative(reads, name)
    size_mib = to_int(reads.int("spark.memory.offHeap.size") // 1024**2)
    if reads.flag("spark.memory.offHeap.enabled") and size_mib <= 0:
        message = (
            "requirement failed: spark.memory.offHeap.size must be at least 1MiB when spark.memory.offHeap.enabled "
            "== true"
        )
        reads.refuse("spark.memory.offHeap.size", "1m or more, and less than 2048t", ILLEGAL_ARGUMENT, message)
    return [*requests, "offHeap"]


def _not_negative(reads: _Reads, name: str) -> None:
    mib = reads.int(name)
    if mib < 0:
        fault = _size_fault(str(mib))
        reads.refuse(name, "a size that is not negative", fault.exception_class, fault.message)


def _size_fault(text: str) -> SparkFault:
    """What JavaUtils.byteStringAs throws."""
    lower = text.lower().strip()
    if found := re.fullmatch(r"([0-9]+)([a-z]+)?", lower):
        digits, suffix = found[1], found[2]
        if len(digits.lstrip("0")) > LONG_DIGITS or int(digits) > LONG_MAX:
            detail = f'For input string: "{digits}"'
        elif suffix in BYTE_UNITS:
            unit = f"{suffix[0].upper()}iB"
            message = f"Conversion of {int(digits)} {unit} exceeds Long.MAX_VALUE. Try a larger unit (e.g. MiB instead "
            return SparkFault(ILLEGAL_ARGUMENT, f"{message}of KiB).")
        else:
            detail = f'Invalid suffix: "{suffix}"'
    elif found := re.fullmatch(r"([0-9]+\.[0-9]+)([a-z]+)?", lower):
        detail = f"Fractional values are not supported. Input was: {found[1]}"
    else:
        detail = f"Failed to parse byte string: {text}"
    rules = (
        "Size must be specified as bytes (b), kibibytes (k), mebibytes (m), gibibytes (g), tebibytes (t), or "
        "pebibytes(p). E.g. 50b, 100k, or 250m."
    )
    return SparkFault(NUMBER_FORMAT, f"{rules}\n{detail}")


def _millis(seconds: int) -> Millis:
    """Seconds as milliseconds; what TimeUnit.SECONDS.toNanos saturates is NEVER."""
    return seconds * 1_000 if seconds <= LONG_MAX // 1_000_000_000 else NEVER
