"""The default resource profile, as ResourceProfile.getOrCreateDefaultProfile makes it of the conf.

Spark builds the profile before anything of dynamic allocation, so a conf that it cannot be built of fails here first:
cpus and custom resources of tasks, then cores, memory and custom resources of executors, then the arithmetic of
``resource_profiles.tasks_per_executor``. Memory decides nothing; it is read because Spark reads it.

Cores bound the tasks of an executor if spark.executor.cores is set, or the master is Kubernetes or "yarn". That is
4.3's rule to the letter: the "yarn-client" and "yarn-cluster" of old logs do not count. It makes no difference unless
spark.task.cpus exceeds 1 without spark.executor.cores, which those Sparks could not run with either.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import Setting, SparkConf
from podtide.domain.jvm.exceptions import (
    ASSERTION_ERROR,
    ILLEGAL_ARGUMENT,
    NUMBER_FORMAT,
    SPARK_EXCEPTION,
    SparkFault,
    illegal,
)
from podtide.domain.jvm.hash_order import concurrent_map_order, immutable_map_order
from podtide.domain.jvm.values import BYTE_UNITS, LONG_MAX, double_text, parse_double, parse_int, parse_size, to_int
from podtide.domain.protocol import resource_profiles
from podtide.domain.protocol.config import ProfileRules

CORES_KEY: Final = "spark.executor.cores"
MEMORY_KEY: Final = "spark.executor.memory"

LONG_DIGITS: Final = 19


def profile_rules(reads: Reads, *, enabled: bool) -> ProfileRules:
    """ResourceProfile.getOrCreateDefaultProfile and ResourceProfileManager's check of it."""
    conf = reads.conf
    master = conf.master
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
        task_resources=tuple(
            (name, task[name]) for name in _walk([resource_profiles.CPUS], list(task), filtered=False)
        ),
        # Without dynamic allocation, or with a master that nobody recorded, there is nothing to refuse.
        profiles_supported=not enabled or not master or kubernetes or master == "yarn" or standalone,
    )
    if len(reads.errors) == errors_before:
        fault = resource_profiles.tasks_per_executor(resource_profiles.default_profile(rules), rules)
        if isinstance(fault, SparkFault):
            name = _blamed(conf, rules, fault)
            reads.refuse(name, _expected(fault), fault.exception_class, fault.message)
    return rules


def _expected(fault: SparkFault) -> str:
    """What an executor lacks that has no room for one task."""
    if _of_cores(fault):
        return "cores for one task at least: spark.executor.cores no smaller than spark.task.cpus"
    return "an amount of which an executor has enough for one task at least"


def _of_cores(fault: SparkFault) -> bool:
    return fault.message.startswith(("The number of cores", "assertion failed: CPUs"))


def _blamed(conf: SparkConf, rules: ProfileRules, fault: SparkFault) -> str:
    """The key to name for a default profile that does not work."""
    if _of_cores(fault):
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
        ordered = immutable_map_order([name for name in names if name not in resource_profiles.BUILT_IN])
        ordered += [name for name in custom if name in resource_profiles.BUILT_IN]
    else:
        ordered = immutable_map_order(names)
    return [name for name in ordered if name in custom]


def _resource_settings(reads: Reads, prefix: str) -> dict[str, Setting]:
    """NAME -> its amount, for every ``prefix.NAME.something`` (ResourceUtils.listResourceIds)."""
    amounts: dict[str, Setting] = {}
    entries = reads.conf.with_prefix(f"{prefix}.")
    for rest, _ in entries:
        name, dot, _ = rest.partition(".")
        if not dot:
            message = f"You must specify an amount config for resource: {rest} config: {prefix}.{rest}"
            fault = SparkFault(SPARK_EXCEPTION, message)
            reads.refuse_setting(f"{prefix}.{rest}", f"{prefix}.{rest}.amount", fault)
    given = dict(entries)
    for name in dict.fromkeys(rest.partition(".")[0] for rest, _ in entries if "." in rest):
        amount = given.get(f"{name}.amount")
        if amount is None:
            fault = SparkFault(SPARK_EXCEPTION, f"You must specify an amount for {name}")
            reads.refuse_setting(f"{prefix}.{name}.amount", "an amount", fault)
        else:
            amounts[name] = amount
    return amounts


def _task_resources(reads: Reads) -> dict[str, float]:
    """ResourceUtils.addTaskResourceRequests: amounts above zero; then TaskResourceRequest's own conditions."""
    written: dict[str, float] = {}
    for name, setting in _resource_settings(reads, "spark.task.resource").items():
        try:
            amount = parse_double(setting.value)
        except ValueError:
            fault = SparkFault(NUMBER_FORMAT, _number_message(setting.value))
            reads.refuse_setting(f"spark.task.resource.{name}.amount", "a number", fault)
        else:
            if amount > 0.0:
                written[name] = amount
    amounts: dict[str, float] = {}
    for name, amount in written.items():
        key = f"spark.task.resource.{name}.amount"
        if name == resource_profiles.CPUS and not resource_profiles.cpus_in_range(amount):
            fault = illegal(resource_profiles.cpus_out_of_range(amount))
            reads.refuse_setting(key, "1e-9 to 2147483647", fault)
        elif name != resource_profiles.CPUS and amount > 1.0 and amount % 1 != 0:
            text = f"The resource amount {double_text(amount)} must be either <= 1.0, or a whole number."
            fault = SparkFault(ASSERTION_ERROR, f"assertion failed: {text}")
            reads.refuse_setting(key, "at most 0.5, or a whole number", fault)
        else:
            amounts[name] = amount
    return amounts


def _executor_resources(reads: Reads) -> dict[str, int]:
    """ResourceUtils.parseAllResourceRequests: whole amounts above zero."""
    amounts: dict[str, int] = {}
    for name, setting in _resource_settings(reads, "spark.executor.resource").items():
        try:
            amount = parse_int(setting.value)
        except ValueError:
            fault = SparkFault(NUMBER_FORMAT, f'For input string: "{setting.value}"')
            reads.refuse_setting(f"spark.executor.resource.{name}.amount", "a whole number", fault)
            continue
        if amount > 0:
            amounts[name] = amount
    return amounts


def _number_message(text: str) -> str:
    return f'For input string: "{text}"' if text.strip() else "empty String"


def _executor_cores(reads: Reads, *, standalone: bool) -> int | None:
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
        reads.refuse_setting(CORES_KEY, KEYS[CORES_KEY].type.expected, fault)
        return None


def _memory_requests(reads: Reads, *, standalone: bool) -> list[str]:
    """The memory part of the default profile: nothing depends on it but whether Spark can read it."""
    requests = ["memory"]
    if not standalone:
        _not_negative(reads, MEMORY_KEY)
    elif (setting := reads.conf.setting(MEMORY_KEY)) is not None:
        # A standalone cluster takes a number without suffix for bytes, not for MiB.
        try:
            parse_size(setting.value, "b")
        except ValueError:
            reads.refuse_setting(MEMORY_KEY, KEYS[MEMORY_KEY].type.expected, _size_fault(setting.value))
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


def _not_negative(reads: Reads, name: str) -> None:
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
            return illegal(f"{message}of KiB).")
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
