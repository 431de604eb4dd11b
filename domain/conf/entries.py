"""The configuration keys that executor allocation knows, one row each, and how to find them.

The rows are facts of Spark 4.3.0's ConfigEntry registrations; defaults that moved between releases from 2.4 on are those
of Spark's migration guides ("Upgrading from Core ..."). ``Use.DECIDES`` marks what allocation, removal and failure
handling read. The rows of Kubernetes stand in ``conf.entries_kubernetes``, those of YARN in ``conf.entries_yarn``; here
are all others, the whole table ``KEYS`` and what tells an unknown key from a known one.
"""

from __future__ import annotations

from decimal import Decimal
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from podtide.domain.conf.entries_kubernetes import KUBERNETES_KEYS, KUBERNETES_NAMES, KUBERNETES_PREFIXES
from podtide.domain.conf.entries_yarn import YARN_KEYS, YARN_NAMES, YARN_PREFIXES
from podtide.domain.conf.entry_types import (
    BOOLEAN,
    BYTES,
    DECIMAL,
    DOUBLE,
    ENUM,
    INT,
    LIST,
    MIB,
    MILLIS,
    REGEX,
    SECONDS,
    STRING,
    Check,
    Key,
    Use,
    key,
    more_than,
    no_less,
)

D, P, T, O = Use.DECIDES, Use.SHAPES, Use.TESTS, Use.OTHER  # noqa: E741 - columns of the table, not numbers

TIMEOUT: Final = no_less(0, "Timeout must be >= 0.")
CONSOLE_STREAMS: Final = Check(
    lambda streams: set(streams) <= {"stdout", "stderr"},
    "The value only can be one or more of 'stdout, stderr'.",
)


def _places(value: Decimal) -> int:
    """BigDecimal.scale without trailing zeros."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return -(exponent + len(text) - len(text.rstrip("0")))


CPUS: Final = (
    Check(
        lambda cpus: Decimal("1e-9") <= cpus <= 2**31 - 1,
        "Number of cores to allocate for each task must be a positive value between 1E-9 and 2147483647 (inclusive).",
    ),
    Check(
        lambda cpus: _places(cpus) <= 9,
        "Number of cores to allocate for each task supports at most 9 decimal places.",
    ),
)

# fmt: off
CORE_KEYS: Final[tuple[Key, ...]] = (
    key("spark.dynamicAllocation.cachedExecutorIdleTimeout", SECONDS, "2147483647000ms", "1.4.0", D,
        "idle seconds before removal while RDD blocks are cached there", TIMEOUT),
    key("spark.dynamicAllocation.enabled", BOOLEAN, "false", "1.2.0", D, "switches executor allocation on"),
    key("spark.dynamicAllocation.executorAllocationRatio", DOUBLE, "1.0", "2.4.0", D,
        "share of the executors that full parallelism would take"),
    key("spark.dynamicAllocation.executorIdleTimeout", SECONDS, "60000ms", "1.2.0", D,
        "idle seconds before removal; also protects young pending pods", TIMEOUT),
    key("spark.dynamicAllocation.initialExecutors", INT, None, "1.3.0", D,
        "first target, if above the minimum and executor.instances", fallback="spark.dynamicAllocation.minExecutors"),
    key("spark.dynamicAllocation.maxExecutors", INT, "2147483647", "1.2.0", D,
        "upper bound of the target of each resource profile"),
    key("spark.dynamicAllocation.minExecutors", INT, "0", "1.2.0", D,
        "lower bound of the target of each resource profile"),
    key("spark.dynamicAllocation.schedulerBacklogTimeout", SECONDS, "1000ms", "1.2.0", D,
        "seconds of backlog before the first increase"),
    key("spark.dynamicAllocation.shuffleTracking.enabled", BOOLEAN, {"2.4": "false", "3.4": "true"}, "3.0.0", D,
        "keep executors that hold shuffle data of active jobs"),
    key("spark.dynamicAllocation.shuffleTracking.timeout", MILLIS, "9223372036854775807ms", "3.0.0", D,
        "idle limit in ms while holding shuffle data of finished jobs", TIMEOUT),
    key("spark.dynamicAllocation.sustainedSchedulerBacklogTimeout", SECONDS, None, "1.2.0", D,
        "seconds of backlog between further increases", fallback="spark.dynamicAllocation.schedulerBacklogTimeout"),
    key("spark.dynamicAllocation.testing", BOOLEAN, "false", "1.2.0", T,
        "test mode: cluster calls are faked, checks relaxed"),
    key("spark.decommission.enabled", BOOLEAN, "false", "3.1.0", D,
        "remove executors by decommissioning instead of killing"),
    key("spark.executor.allowSparkContext", BOOLEAN, "false", "3.0.1", O, "allow a context inside executors"),
    key("spark.executor.cores", INT, "1", "1.0.0", D,
        "cores per executor; off Kubernetes and YARN they bound tasks only when set"),
    key("spark.executor.decommission.forceKillTimeout", SECONDS, None, "3.2.0", D,
        "s after which Spark kills an executor that did not finish decommissioning"),
    key("spark.executor.decommission.killInterval", SECONDS, None, "3.1.0", O,
        "s after which an outside service kills a decommissioned executor (hint for speculation)"),
    key("spark.executor.decommission.signal", STRING, "PWR", "3.2.0", O,
        "signal starting decommission on the executor"),
    key("spark.executor.defaultExtraClassPath", STRING, "", "4.0.0", O,
        "default class path, prepended", internal=True),
    key("spark.executor.extraClassPath", STRING, None, "1.0.0", P, "class path of executors"),
    key("spark.executor.extraJavaOptions", STRING, None, "1.0.0", P,
        "user JVM options, one env var each; default options are prepended"),
    key("spark.executor.extraLibraryPath", STRING, None, "1.0.0", P, "library path of executors"),
    key("spark.network.timeout", SECONDS, "120000ms", "1.3.0", D,
        "what waits for others gives up after it, unless it has a key of its own; so does an executor's silence"),
    key("spark.network.timeoutInterval", MILLIS, "60s", "1.3.2", D,
        "how often the driver looks for executors that it has not heard from for too long"),
    key("spark.storage.blockManagerHeartbeatTimeoutMs", MILLIS, None, "0.7.0", D,
        "how long an executor may be silent before it is killed and replaced; unset: spark.network.timeout",
        alternatives={"spark.storage.blockManagerSlaveTimeoutMs": None}),
    key("spark.rpc.askTimeout", SECONDS, None, "1.4.0", D,
        "YARN: how long the driver waits to hear why an executor is gone", fallback="spark.network.timeout"),
    key("spark.executor.failuresValidityInterval", MILLIS, None, "3.5.0", D,
        "ms for which an executor failure counts; unset: for ever",
        alternatives={"spark.yarn.executor.failuresValidityInterval": None}),
    key("spark.executor.heartbeat.dropZeroAccumulatorUpdates", BOOLEAN, "true", "3.0.0", O,
        "thin heartbeats", internal=True),
    key("spark.executor.heartbeat.maxFailures", INT, "60", "1.6.2", O,
        "executor exits after this many failed heartbeats", internal=True),
    key("spark.executor.heartbeatInterval", MILLIS, "10s", "1.1.0", D,
        "how often an executor is heard from; longer than spark.network.timeout is refused"),
    key("spark.executor.id", STRING, None, "1.2.0", O, "id set inside an executor"),
    key("spark.executor.instances", INT, None, "1.0.0", D, "static executor count; floor of the first target"),
    key("spark.executor.isolatedSessionCache.size", INT, "100", "4.1.0", O, "session class-loader cache",
        more_than(0, "The cache size must be positive.")),
    key("spark.executor.killOnFatalError.depth", INT, "5", "3.1.0", O,
        "cause-chain depth for fatal errors",
        no_less(0, "needs to be a non-negative value"), internal=True),
    key("spark.executor.limitActiveProcessorCount.enabled", BOOLEAN, "false", "4.2.0", O,
        "YARN: JVM processor count = cores"),
    key("spark.executor.logs.redirectConsoleOutputs", LIST, "stdout,stderr", "4.1.0", O,
        "which console streams go to the log", CONSOLE_STREAMS),
    key("spark.executor.logs.rolling.enableCompression", BOOLEAN, "false", "2.0.2", O, "compress rolled logs"),
    key("spark.executor.logs.rolling.maxRetainedFiles", INT, "-1", "1.1.0", O, "rolled files kept"),
    key("spark.executor.logs.rolling.maxSize", STRING, "1048576", "1.4.0", O,
        "size at which an executor log rolls", alternatives={"spark.executor.logs.rolling.size.maxBytes": None}),
    key("spark.executor.logs.rolling.strategy", STRING, "", "1.1.0", O, "roll rule"),
    key("spark.executor.logs.rolling.time.interval", STRING, "daily", "1.1.0", O, "roll period"),
    key("spark.executor.maxNumFailures", INT, None, "3.5.0", D,
        "executor failures before the application stops; unset: max(3, 2 x executors)",
        alternatives={"spark.yarn.max.executor.failures": None}),
    key("spark.executor.memory", MIB, "1g", "0.7.0", D, "heap of an executor in MiB"),
    key("spark.executor.memoryOverhead", MIB, None, "2.3.0", D,
        "explicit non-heap MiB; overrides factor and minimum",
        alternatives={"spark.yarn.executor.memoryOverhead": None}),
    key("spark.executor.memoryOverheadFactor", DOUBLE, "0.1", "3.3.0", D,
        "overhead fraction; explicit presence beats the K8s factor",
        more_than(0, "Ensure that memory overhead is a double greater than 0")),
    key("spark.executor.metrics.fileSystemSchemes", STRING, "file,hdfs", "3.1.0", O, "fs schemes in metrics"),
    key("spark.executor.metrics.pollingInterval", MILLIS, "0", "3.0.0", O, "metric poll ms"),
    key("spark.executor.minMemoryOverhead", MIB, "384m", "4.0.0", D, "floor for computed overhead"),
    key("spark.executor.processTreeMetrics.enabled", BOOLEAN, "false", "3.0.0", O, "/proc metrics"),
    key("spark.executor.pyspark.memory", MIB, None, "2.4.0", D,
        "Python worker MiB added to the pod when a Python app"),
    key("spark.executor.python.worker.log.details", BOOLEAN, "false", "3.5.0", O, "extra Python worker log detail"),
    key("spark.executor.syncLogLevel.enabled", BOOLEAN, "false", "4.0.0", O, "push log level to executors"),
    key("spark.executor.userClassPathFirst", BOOLEAN, "false", "1.3.0", O,
        "user jars first", alternatives={"spark.files.userClassPathFirst": None}),
    key("spark.memory.offHeap.enabled", BOOLEAN, "false", "1.6.0", D,
        "off-heap memory adds to the size of an executor", alternatives={"spark.unsafe.offHeap": None}),
    key("spark.memory.offHeap.size", BYTES, "0b", "1.6.0", D,
        "off-heap memory in bytes", no_less(0, "The off-heap memory size must not be negative")),
    key("spark.scheduler.maxRegisteredResourcesWaitingTime", MILLIS, "30s", "1.1.1", D, "give up waiting after this"),
    key("spark.scheduler.maxRetainedUnknownDecommissionExecutors", INT, "0", "3.5.0", O,
        "remembered decommission requests for executors not yet registered",
        no_less(0, "needs to be a non-negative value"), internal=True),
    key("spark.scheduler.minRegisteredResourcesRatio", DOUBLE, None, "1.1.1", D,
        "share of initial executors needed before scheduling (K8s/YARN 0.8 if unset)"),
    key("spark.shuffle.service.db.backend", ENUM, {"2.4": "LEVELDB", "4.0": "ROCKSDB"}, "3.4.0", O,
        "store of the shuffle service's state", options=("LEVELDB", "ROCKSDB")),
    key("spark.shuffle.service.db.enabled", BOOLEAN, "true", "3.0.0", O, "standalone service state db"),
    key("spark.shuffle.service.enabled", BOOLEAN, "false", "1.2.0", D,
        "external shuffle service: shuffle data outlives executors"),
    key("spark.shuffle.service.fetch.rdd.enabled", BOOLEAN, "false", "3.0.0", D,
        "RDD blocks on disk no longer hold an executor"),
    key("spark.shuffle.service.name", STRING, "spark_shuffle", "3.2.0", O, "YARN aux service name"),
    key("spark.shuffle.service.port", INT, "7337", "1.2.0", O, "service port"),
    key("spark.shuffle.service.removeShuffle", BOOLEAN, {"2.4": "false", "4.0": "true"}, "3.3.0", O,
        "let the service delete shuffle files of removed executors"),
    key("spark.speculation", BOOLEAN, "false", "0.6.0", D, "speculative copies of slow tasks add to the demand"),
    key("spark.storage.decommission.fallbackStorage.path", STRING, None, "3.1.0", D,
        "where map output goes if no executor can take it over"),
    key("spark.storage.decommission.enabled", BOOLEAN, "false", "3.1.0", D,
        "migrate blocks of decommissioned executors"),
    key("spark.storage.decommission.shuffleBlocks.enabled", BOOLEAN, {"2.4": "false", "3.4": "true"}, "3.1.0", D,
        "migrate shuffle data of decommissioned executors"),
    key("spark.task.cpus", DECIMAL, "1", "0.5.0", D,
        "cores that one task takes, up to nine decimal places since 4.3", *CPUS),
    key("spark.task.maxFailures", INT, "4", "0.8.0", D, "failures of one task that end its stage and job"),
    key("spark.stage.maxConsecutiveAttempts", INT, "4", "2.2.0", D, "attempts of a stage in a row before its job fails"),
    key("spark.locality.wait", MILLIS, "3s", "0.5.0", D, "how long a task waits for the executor or host that it prefers"),
    key("spark.locality.wait.process", MILLIS, None, "0.8.0", D,
        "the same, for the executor that holds what it reads", fallback="spark.locality.wait"),
    key("spark.locality.wait.node", MILLIS, None, "0.8.0", D,
        "the same, for the host of that executor", fallback="spark.locality.wait"),
    key("spark.scheduler.mode", ENUM, "FIFO", "0.8.0", D,
        "whether jobs share executors fairly, in pools, or go one after another", options=("FAIR", "FIFO", "NONE")),
    key("spark.master", STRING, None, "0.9.0", D, "the cluster manager; decides whether cores bound tasks"),
    key("spark.cores.max", INT, None, "0.6.0", O, "cores of the whole application (standalone)"),
    key("spark.speculation.interval", MILLIS, "100ms", "0.6.0", O, "ms between looks for slow tasks"),
    key("spark.speculation.multiplier", DOUBLE, {"2.4": "1.5", "4.0": "3.0"}, "0.6.0", O,
        "how many times the median makes a task slow"),
    key("spark.speculation.quantile", DOUBLE, {"2.4": "0.75", "4.0": "0.9"}, "0.6.0", O,
        "share of a stage's tasks that must be done before speculation"),
    key("spark.storage.decommission.rddBlocks.enabled", BOOLEAN, {"2.4": "false", "3.4": "true"}, "3.1.0", O,
        "migrate cached RDD blocks of decommissioned executors"),
    key("spark.shuffle.sort.io.plugin.class", STRING, "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO",
        "3.0.0", D, "shuffle storage; one that is reliable satisfies the start check"),
    key("spark.scheduler.listenerbus.eventqueue.capacity", INT, "10000", "2.3.0", O,
        "events a listener queue holds before it drops some",
        more_than(0, "The capacity of listener bus event queue must be positive"),
        alternatives={"spark.scheduler.listenerbus.eventqueue.size": None}),
    key("spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout", SECONDS, "120000ms", "3.1.0", O,
        "seconds an unschedulable task set waits for an executor before it is aborted",
        no_less(0, "The value should be a non negative time value."),
        alternatives={"spark.scheduler.blacklist.unschedulableTaskSetTimeout": "4.1"}),
    key("spark.excludeOnFailure.enabled", BOOLEAN, None, "3.1.0", O, "exclude executors and hosts where tasks fail",
        alternatives={"spark.blacklist.enabled": "4.1"}),
    key("spark.excludeOnFailure.killExcludedExecutors", BOOLEAN, "false", "3.1.0", O, "kill excluded executors",
        alternatives={"spark.blacklist.killBlacklistedExecutors": "4.1"}),
    key("spark.excludeOnFailure.killExcludedExecutors.decommission", BOOLEAN, "false", "3.2.0", O,
        "decommission excluded executors instead"),
    key("spark.eventLog.enabled", BOOLEAN, "false", "1.0.0", O, "write an event log"),
    key("spark.eventLog.compress", BOOLEAN, {"2.4": "false", "4.0": "true"}, "1.0.0", O, "compress the event log"),
    key("spark.eventLog.rolling.enabled", BOOLEAN, {"2.4": "false", "4.0": "true"}, "3.0.0", O,
        "write the event log in pieces"),
    key("spark.eventLog.logBlockUpdates.enabled", BOOLEAN, "false", "2.3.0", O,
        "block updates in the event log: shows which executors cache data"),
    key("spark.redaction.regex", REGEX, "(?i)secret|password|token|access[.]?key|credential", "2.1.2", O,
        "settings whose key or value matches are not shown; the default of 4.3 whatever the version"),
    key("spark.redaction.string.regex", REGEX, None, "2.2.0", O, "parts of texts that are not shown"),
    key("spark.streaming.dynamicAllocation.enabled", BOOLEAN, "false", "2.0.0", D, "streaming's own allocation"),
    key("spark.streaming.dynamicAllocation.testing", BOOLEAN, "false", "2.0.0", T, "test mode of that"),
    key("spark.streaming.dynamicAllocation.minExecutors", INT, None, "2.0.0", O, "streaming's lower bound",
        more_than(0, "The min executor number of streaming dynamic allocation must be positive.")),
    key("spark.streaming.dynamicAllocation.maxExecutors", INT, "2147483647", "2.0.0", D, "streaming's upper bound",
        more_than(0, "The max executor number of streaming dynamic allocation must be positive.")),
    key("spark.streaming.dynamicAllocation.scalingInterval", SECONDS, "60000ms", "2.0.0", O,
        "seconds between decisions of streaming's allocation",
        more_than(0, "The scaling interval of streaming dynamic allocation must be positive.")),
    key("spark.streaming.dynamicAllocation.scalingUpRatio", DOUBLE, "0.9", "2.0.0", O,
        "processing time per interval above which streaming adds executors",
        more_than(0, "The scaling up ratio of streaming dynamic allocation must be positive.")),
    key("spark.streaming.dynamicAllocation.scalingDownRatio", DOUBLE, "0.3", "2.0.0", O,
        "processing time per interval below which streaming removes executors",
        more_than(0, "The scaling down ratio of streaming dynamic allocation must be positive.")),
    key("spark.testing.resourceProfileManager", BOOLEAN, "false", "3.1.0", T,
        "refuse unsupported resource profiles in tests too"),
)
# fmt: on

KEYS: Final[MappingProxyType[str, Key]] = MappingProxyType(
    {row.name: row for row in CORE_KEYS + KUBERNETES_KEYS + YARN_KEYS}
)
"""Every row by its key."""

RENAMED: Final[MappingProxyType[str, Key]] = MappingProxyType(
    {old: row for row in KEYS.values() for old, _ in row.alternatives}
)
"""The rows by the other names that Spark reads, or once read, in place of their keys."""

PREFIXES: Final[tuple[str, ...]] = (
    "spark.executor.resource.",
    "spark.task.resource.",
    *KUBERNETES_PREFIXES,
    *YARN_PREFIXES,
)
"""Families of keys whose last part the user chooses."""

OTHER_NAMES: Final = frozenset({
    "spark.executor.defaultJavaOptions", "spark.executor.plugins", "spark.executor.port",
    "spark.speculation.efficiency.enabled", "spark.speculation.efficiency.longRunTaskFactor",
    "spark.speculation.efficiency.processRateMultiplier", "spark.speculation.minTaskRuntime",
    "spark.speculation.task.duration.threshold", "spark.storage.decommission.fallbackStorage.cleanUp",
    "spark.storage.decommission.maxReplicationFailuresPerBlock",
    "spark.storage.decommission.replicationReattemptInterval",
    "spark.storage.decommission.shuffleBlocks.bufferRacingMigrations",
    "spark.storage.decommission.shuffleBlocks.maxDiskSize", "spark.storage.decommission.shuffleBlocks.maxThreads",
    "spark.task.maxDirectResultSize", "spark.task.reaper.enabled",
    "spark.task.reaper.killTimeout", "spark.task.reaper.pollingInterval", "spark.task.reaper.threadDump",
    *KUBERNETES_NAMES,
    *YARN_NAMES,
})  # fmt: skip
"""Keys of the same families that exist in Spark without a row of their own here."""

# Spark knows every key that begins so; elsewhere libraries and vendors add keys, so only a near miss is suspicious.
CLOSED_FAMILIES: Final = ("spark.dynamicallocation.", "spark.kubernetes.")
OPEN_FAMILIES: Final = (
    "spark.executor.", "spark.task.", "spark.decommission", "spark.storage.decommission", "spark.shuffle.service.",
    "spark.speculation", "spark.streaming.dynamicallocation.", "spark.yarn.",
)  # fmt: skip

SUGGESTED_CHARS_MAX: Final = 120

_NAMES: Final[MappingProxyType[str, str]] = MappingProxyType(
    {name.lower(): name for name in sorted({*KEYS, *RENAMED, *OTHER_NAMES})}
)


def is_known(name: str) -> bool:
    """Whether Spark has, or once had, the key: a row, an old name, or a member of a family."""
    return name in KEYS or name in RENAMED or name in OTHER_NAMES or name.startswith(PREFIXES)


def suspect(name: str) -> str | None:
    """For a key that looks like a mistake the likely key, or "" without a guess; None when nothing is suspicious.

    Letter case matters to Spark, so a known key in another case is a mistake too.
    """
    if is_known(name):
        return None
    lower = name.lower()
    if lower in _NAMES:
        return _NAMES[lower]
    closed = True
    family = next((prefix for prefix in CLOSED_FAMILIES if lower.startswith(prefix)), None)
    if family is None:
        closed = False
        family = next((prefix for prefix in OPEN_FAMILIES if lower.startswith(prefix)), None)
    if family is None:  # a key of somebody else's, or one whose family is misspelt
        alike = get_close_matches(lower, _NAMES, 1, 0.93) if len(name) <= SUGGESTED_CHARS_MAX else []
        return _NAMES[alike[0]] if alike else None
    near: list[str] = []
    if len(name) <= SUGGESTED_CHARS_MAX:
        # The family alone would make any two of its keys look alike.
        relatives = {known[len(family) :]: known for known in _NAMES if known.startswith(family)}
        near = [
            relatives[rest] for rest in get_close_matches(lower[len(family) :], relatives, 1, 0.75 if closed else 0.85)
        ]
    return _NAMES[near[0]] if near else ("" if closed else None)
