"""One section of the YarnConfig at a time, read as the class that uses it reads its keys.

Each function walks its class's keys in that class's order and leaves what cannot be used in ``Reads.errors``; what Spark
reads under any cluster manager stands in ``conf.backend_config``. Rules that are easily got wrong:

- the heartbeat is at most half of the resource manager's expiry (spark.hadoop.yarn.am.liveness-monitor.expiry-interval-ms,
  600000 in Hadoop's defaults), and the first one at most the heartbeat;
- executors are decommissioned with their nodes only without an external shuffle service: with both switched on Spark warns
  and leaves it;
- the memory overhead is spark.executor.memoryOverhead, or a share of the heap, at least spark.executor.minMemoryOverhead;
  spark.kubernetes.memoryOverheadFactor means nothing here;
- spark.yarn.executor.resource.NAME.amount may have a unit of YARN's; memory and cores may not be asked for that way;
- an exclusion lasts spark.excludeOnFailure.timeout, or spark.scheduler.executorTaskExcludeOnFailureTime, or an hour.

Source: ApplicationMaster, YarnAllocator, YarnAllocatorNodeHealthTracker and ResourceRequestHelper of Spark 4.3.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.conf.backend_config import (
    app_id_of,
    executors_initial,
    failures_max,
    failures_window,
    force_kill_timeout,
    off_heap_mib,
    registered_ratio,
)
from podtide.domain.conf.default_profile import profile_rules
from podtide.domain.conf.entries_yarn import EXECUTOR_RESOURCES
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION, SERVICE
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.conf.spark_conf import Setting
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NUMBER_FORMAT, SPARK_EXCEPTION, SparkFault, illegal
from podtide.domain.jvm.values import LONG_MAX, double_to_int, parse_boolean, parse_int, trim
from podtide.domain.protocol import cluster_config as configs
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.containers import one_label
from podtide.domain.protocol.resource_profiles import default_profile
from podtide.domain.yarn.container_specs import container_spec

YARN: Final = "yarn"
"""What the backend's configuration says of where executors come from."""
EXPIRY: Final = "spark.hadoop.yarn.am.liveness-monitor.expiry-interval-ms"
EXPIRY_MS: Final[Millis] = 600_000
"""Hadoop's default, as its yarn-default.xml has it."""
LABEL: Final = "spark.yarn.executor.nodeLabelExpression"
LAUNCH: Final = "spark.yarn.launchContainers"
LAUNCHERS: Final = "spark.yarn.containerLauncherMaxThreads"
EXCLUSION_MS: Final[Millis] = 3_600_000
NO_DECOMMISSION: Final = (
    f"Yarn Executor Decommissioning is supported only when {SERVICE} is set to false. See: SPARK-39018."
)
_AMOUNT: Final = re.compile("([0-9]+)([A-Za-z]*)")
_DIGITS_MAX: Final = 19
_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "": (1, 1),
    "p": (1, 1000**4),
    "n": (1, 1000**3),
    "u": (1, 1000**2),
    "m": (1, 1000),
    "k": (1000, 1),
    "M": (1000**2, 1),
    "G": (1000**3, 1),
    "T": (1000**4, 1),
    "P": (1000**5, 1),
    "Ki": (1024, 1),
    "Mi": (1024**2, 1),
    "Gi": (1024**3, 1),
    "Ti": (1024**4, 1),
    "Pi": (1024**5, 1),
}
"""YARN's units, as fractions of one."""
_SPARK_UNITS: Final = {"g": "G", "t": "T", "p": "P"}
"""Spark takes these for the larger ones."""
_NOT_HERE: Final = (
    ("spark.executor.memory", "memory"),
    ("spark.executor.memory", "mb"),
    ("spark.executor.memory", "memory-mb"),
    ("spark.executor.cores", "cores"),
    ("spark.executor.cores", "vcores"),
    ("spark.executor.cores", "cpu-vcores"),
)
"""What has a key of its own."""


# ------------------------------------------------------------------------------------------------------------ the driver


def backend_config(reads: Reads, executors: int, *, remarks: bool) -> configs.BackendConfig:
    """CoarseGrainedSchedulerBackend's constructor, then YarnSchedulerBackend's. ``executors``: the first ones."""
    wait, unknown = (
        reads.int("spark.scheduler.maxRegisteredResourcesWaitingTime"),
        reads.int("spark.scheduler.maxRetainedUnknownDecommissionExecutors"),
    )
    kill_after, ratio = force_kill_timeout(reads), registered_ratio(reads)
    answers_within = reads.int("spark.rpc.askTimeout")
    return configs.BackendConfig(
        app_id=app_id_of(reads.conf),
        allocator=YARN,
        executors_initial=executors,
        registered_ratio=ratio,
        registered_wait_ms=wait,
        unknown_decommissions_max=unknown,
        force_kill_timeout_ms=kill_after,
        ask_timeout_ms=1_000 * answers_within,
        remarks=remarks,
    )


def check_resources(reads: Reads) -> None:
    """ResourceRequestHelper.validateResources, of executors, as the client does it at submission."""
    fpga, gpu = reads.text("spark.yarn.resourceFpgaDeviceName"), reads.text("spark.yarn.resourceGpuDeviceName")
    devices = (("spark.executor.resource.fpga.amount", fpga or ""), ("spark.executor.resource.gpu.amount", gpu or ""))
    wrong = [
        (f"{EXECUTOR_RESOURCES}{name}.amount", instead)
        for instead, name in (*_NOT_HERE, *devices)
        if reads.conf.setting(f"{EXECUTOR_RESOURCES}{name}.amount") is not None
    ]
    if wrong:
        message = "".join(f"Error: Do not use {name}, please use {instead} instead!\n" for name, instead in wrong)
        reads.refuse(wrong[0][0], f"no such setting: {wrong[0][1]} is the one", SPARK_EXCEPTION, message)


# ------------------------------------------------------------------------------------------------ the application master


def reporter_config(reads: Reads, *, remarks: bool) -> configs.ReporterConfig:
    """ApplicationMaster's intervals."""
    heartbeat = max(0, min(_expiry(reads) // 2, reads.int("spark.yarn.scheduler.heartbeat.interval-ms")))
    initial = min(heartbeat, reads.int("spark.yarn.scheduler.initial-allocation.interval"))
    return configs.ReporterConfig(
        heartbeat, initial, reads.int("spark.yarn.scheduler.reporterThread.maxFailures"), remarks
    )


def negotiation_config(
    reads: Reads,
    notices: list[ConfNotice],
    *,
    racks: Mapping[str, str],
    types: frozenset[str] | None = None,
    rules: ProfileRules | None = None,
    executors: int | None = None,
    remarks: bool,
) -> configs.NegotiationConfig:
    """YarnAllocator's constructor, key by key, and the failures that end the application.

    ``types``: custom resources that the cluster knows. ``rules`` and ``executors``: what the driver made of the default
    profile and of the first executors; read here if nobody did.
    """
    window = failures_window(reads)
    exclusion = configs.ExclusionConfig(
        timeout_ms=_exclusion_timeout(reads),
        enabled=reads.flag("spark.yarn.executor.launch.excludeOnFailure.enabled"),
        failures_per_node_max=reads.int("spark.excludeOnFailure.application.maxFailedExecutorsPerNode"),
        always=frozenset(reads.texts("spark.yarn.exclude.nodes")),
        window_ms=window,
    )
    python = reads.flag("spark.yarn.isPython")
    least = reads.int("spark.executor.minMemoryOverhead")
    factor = reads.double("spark.executor.memoryOverheadFactor")
    if reads.int(LAUNCHERS) <= 0:
        reads.refuse(LAUNCHERS, "1 or more", ILLEGAL_ARGUMENT, "")  # thrown without a message
    awaited = not _launches(reads)
    label = reads.text(LABEL)
    if label is not None and not one_label(label):
        text = f"{LABEL} is {label}: YARN takes one label, so every heartbeat that has something to ask for will fail"
        notices.append(ConfNotice(NoticeLevel.WARNING, text))
    gpu, fpga = reads.text("spark.yarn.resourceGpuDeviceName"), reads.text("spark.yarn.resourceFpgaDeviceName")
    wanted, service = reads.flag(DECOMMISSION), reads.flag(SERVICE)
    if wanted and service:
        notices.append(ConfNotice(NoticeLevel.WARNING, NO_DECOMMISSION, spark=True))
    if executors is None:
        executors = executors_initial(reads, notices)
    if rules is None:
        rules = profile_rules(reads, enabled=False)
    made_of = configs.ContainerRules(
        profile_rules=rules,
        heap_mib=reads.int("spark.executor.memory"),
        overhead_mib=_overhead(reads, factor, least),
        off_heap_mib=off_heap_mib(reads),
        off_heap_enabled=reads.flag("spark.memory.offHeap.enabled"),
        python_mib=reads.int("spark.executor.pyspark.memory"),
        python=python,
        names=(("gpu", gpu or ""), ("fpga", fpga or "")),
        extra=_extra(reads, types),
        types=types,
    )
    return configs.NegotiationConfig(
        executors_initial=executors,
        containers=container_spec(default_profile(rules), made_of),
        rules=made_of,
        exclusion=exclusion,
        failures_max=failures_max(reads),
        label=label,
        decommission=wanted and not service,
        racks=racks,
        launches_awaited=awaited,
        remarks=remarks,
    )


def _overhead(reads: Reads, factor: float, least: int) -> int:
    """ResourceProfile.calculateOverHeadMemory, for the default profile."""
    given = reads.value("spark.executor.memoryOverhead")
    if isinstance(given, int):
        return given
    return max(double_to_int(factor * reads.int("spark.executor.memory")), least)


def _exclusion_timeout(reads: Reads) -> Millis:
    """HealthTracker.getExcludeOnFailureTimeout."""
    for name in ("spark.excludeOnFailure.timeout", "spark.scheduler.executorTaskExcludeOnFailureTime"):
        given = reads.value(name)
        if isinstance(given, int):
            return given
    return EXCLUSION_MS


def _expiry(reads: Reads) -> Millis:
    """Hadoop's Configuration.getInt; spark.hadoop settings become Hadoop's."""
    setting = reads.conf.setting(EXPIRY)
    if setting is None or not trim(setting.value):
        return EXPIRY_MS
    try:
        return parse_int(trim(setting.value))
    except ValueError:
        fault = SparkFault(NUMBER_FORMAT, f'For input string: "{trim(setting.value)}"')
        reads.refuse_setting(EXPIRY, "a whole number of milliseconds", fault)
        return EXPIRY_MS


def _launches(reads: Reads) -> bool:
    """``conf.getBoolean``: the text itself."""
    setting = reads.conf.setting(LAUNCH)
    if setting is None:
        return True
    try:
        return parse_boolean(setting.value)
    except ValueError:
        message = f'Illegal value for config key {LAUNCH}: For input string: "{setting.value}"'
        reads.refuse_setting(LAUNCH, "true or false", illegal(message))
        return True


def _extra(reads: Reads, types: frozenset[str] | None) -> tuple[tuple[str, int], ...]:
    """ResourceRequestHelper.getYarnResourcesAndAmounts and setResourceRequests: amounts in units of one."""
    amounts: list[tuple[str, int]] = []
    for rest, setting in reads.conf.with_prefix(EXECUTOR_RESOURCES):
        name, dot, suffix = rest.rpartition(".")
        key = EXECUTOR_RESOURCES + rest
        if not dot:
            message = (
                f"Missing suffix for {key}, you must specify a suffix - amount is currently the only supported suffix."
            )
            reads.refuse_setting(key, f"the key {key}.amount", illegal(message))
        elif suffix != "amount":
            message = f"Unsupported suffix: {suffix} in: {key}, only .amount is supported."
            reads.refuse_setting(key, "a key that ends in .amount", illegal(message))
        else:
            amount = _amount(name, setting, known_to_yarn=types is None or name in types)
            if isinstance(amount, SparkFault):
                reads.refuse_setting(key, "a whole number, with a unit of YARN's if need be", amount)
            else:
                amounts.append((name, amount))
    return tuple(sorted(amounts))


def _amount(name: str, setting: Setting, *, known_to_yarn: bool) -> int | SparkFault:
    """How many units of one; 0 for what YARN drops unread."""
    found = _AMOUNT.fullmatch(setting.value)
    if found is None:
        message = f"Resource request for '{name}' ('{setting.value}') does not match pattern {_AMOUNT.pattern}."
        return illegal(message)
    digits, written = found[1], found[2]
    if len(digits.lstrip("0")) > _DIGITS_MAX or int(digits) > LONG_MAX:
        return illegal(f'Invalid request for {name}: For input string: "{digits}"')
    unit = _SPARK_UNITS.get(written, written)
    if unit not in _UNITS and not known_to_yarn:
        return 0
    if unit not in _UNITS:
        known = ", ".join(_UNITS)
        return SparkFault(
            ILLEGAL_ARGUMENT, f"Invalid request for {name}: Unknown unit '{unit}'. Known units are [{known}]"
        )
    times, parts = _UNITS[unit]
    return int(digits) * times // parts
