"""The configuration keys of YARN and of what excludes nodes there: rows of the table in ``conf.entries``, which see.

``YARN_NAMES`` are the other spark.yarn keys of Spark 4.3.0 and those that earlier releases had: nothing here reads them, but
they are no mistakes. Distributions add keys of their own to this family.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.conf.entry_types import BOOLEAN, INT, LIST, MILLIS, STRING, Key, Use, key

D = Use.DECIDES
O = Use.OTHER  # noqa: E741 - a column of the table, not a number

EXECUTOR_RESOURCES: Final = "spark.yarn.executor.resource."
"""spark.yarn.executor.resource.NAME.amount: resources by YARN's names, for the default profile."""

# fmt: off
YARN_KEYS: Final[tuple[Key, ...]] = (
    key("spark.excludeOnFailure.application.maxFailedExecutorsPerNode", INT, "2", "3.1.0", D,
        "YARN: own exclusion after more failures than this per host",
        alternatives={"spark.blacklist.application.maxFailedExecutorsPerNode": "4.1"}),
    key("spark.excludeOnFailure.timeout", MILLIS, None, "3.1.0", D,
        "exclusion duration, 1 h if unset", alternatives={"spark.blacklist.timeout": "4.1"}),
    key("spark.scheduler.executorTaskExcludeOnFailureTime", MILLIS, None, "3.1.0", D,
        "exclusion duration where spark.excludeOnFailure.timeout is unset", internal=True,
        alternatives={"spark.scheduler.executorTaskBlacklistTime": "4.1"}),
    key("spark.yarn.containerLauncherMaxThreads", INT, "25", "1.2.0", O, "launch pool size"),
    key("spark.yarn.exclude.nodes", LIST, "", "3.0.0", D, "YARN: always excluded hosts"),
    key("spark.yarn.executor.launch.excludeOnFailure.enabled", BOOLEAN, "false", "3.1.0", D,
        "YARN: exclude hosts with launch failures",
        alternatives={"spark.yarn.blacklist.executor.launch.blacklisting.enabled": "4.1"}),
    key("spark.yarn.executor.nodeLabelExpression", STRING, None, "1.4.0", D, "node label of requests"),
    key("spark.yarn.isPython", BOOLEAN, "false", "1.5.0", D,
        "a Python application: executors get spark.executor.pyspark.memory", internal=True),
    key("spark.yarn.resourceFpgaDeviceName", STRING, "yarn.io/fpga", "3.2.1", D, "YARN's name of Spark's resource fpga"),
    key("spark.yarn.resourceGpuDeviceName", STRING, "yarn.io/gpu", "3.2.1", D, "YARN's name of Spark's resource gpu"),
    key("spark.yarn.scheduler.heartbeat.interval-ms", MILLIS, "3s", "0.8.1", D, "AM heartbeat"),
    key("spark.yarn.scheduler.initial-allocation.interval", MILLIS, "200ms", "1.4.0", D,
        "AM heartbeat while requests are pending (doubles)"),
    key("spark.yarn.scheduler.reporterThread.maxFailures", INT, "5", "1.2.0", D,
        "consecutive heartbeat exceptions tolerated"),
)
# fmt: on

YARN_PREFIXES: Final = (
    "spark.yarn.am.resource.",
    "spark.yarn.appMasterEnv.",
    "spark.yarn.driver.resource.",
    EXECUTOR_RESOURCES,
    "spark.yarn.security.credentials.",
    "spark.yarn.security.tokens.",
)
"""Families whose last part the user chooses."""

# fmt: off
YARN_NAMES: Final = frozenset({
    "spark.yarn.access.hadoopFileSystems", "spark.yarn.access.namenodes", "spark.yarn.am.attemptFailuresValidityInterval",
    "spark.yarn.am.clientModeExitOnError", "spark.yarn.am.clientModeTreatDisconnectAsFailed", "spark.yarn.am.cores",
    "spark.yarn.am.defaultJavaOptions", "spark.yarn.am.extraJavaOptions", "spark.yarn.am.extraLibraryPath",
    "spark.yarn.am.finalMessageLimit", "spark.yarn.am.limitActiveProcessorCount.enabled", "spark.yarn.am.memory",
    "spark.yarn.am.memoryOverhead", "spark.yarn.am.nodeLabelExpression", "spark.yarn.am.port",
    "spark.yarn.am.tokenConfRegex", "spark.yarn.am.waitTime", "spark.yarn.app.container.log.dir", "spark.yarn.app.id",
    "spark.yarn.applicationMaster.waitTries", "spark.yarn.applicationType", "spark.yarn.archive",
    "spark.yarn.cache.confArchive", "spark.yarn.cache.filenames", "spark.yarn.cache.sizes",
    "spark.yarn.cache.timestamps", "spark.yarn.cache.types", "spark.yarn.cache.visibilities",
    "spark.yarn.client.statCache.preload.enabled", "spark.yarn.client.statCache.preload.perDirectoryThreshold",
    "spark.yarn.clientLaunchMonitorInterval", "spark.yarn.config.gatewayPath", "spark.yarn.config.replacementPath",
    "spark.yarn.credentials.file", "spark.yarn.credentials.file.retention.count",
    "spark.yarn.credentials.file.retention.days", "spark.yarn.credentials.renewalTime",
    "spark.yarn.credentials.updateTime", "spark.yarn.dist.archives", "spark.yarn.dist.files",
    "spark.yarn.dist.forceDownloadSchemes", "spark.yarn.dist.jars", "spark.yarn.dist.pyFiles",
    "spark.yarn.driver.memoryOverhead", "spark.yarn.executor.oomKill.enabled", "spark.yarn.historyServer.address",
    "spark.yarn.historyServer.allowTracking", "spark.yarn.includeDriverLogsLink", "spark.yarn.isHadoopProvided",
    "spark.yarn.jar", "spark.yarn.jars", "spark.yarn.kerberos.relogin.period",
    "spark.yarn.kerberos.renewal.excludeHadoopFileSystems", "spark.yarn.keytab", "spark.yarn.launchContainers",
    "spark.yarn.max.worker.failures", "spark.yarn.maxAppAttempts", "spark.yarn.metrics.namespace",
    "spark.yarn.populateHadoopClasspath", "spark.yarn.preserve.staging.files", "spark.yarn.principal",
    "spark.yarn.priority", "spark.yarn.queue", "spark.yarn.report.interval", "spark.yarn.report.loggingFrequency",
    "spark.yarn.rolledLog.excludePattern", "spark.yarn.rolledLog.includePattern", "spark.yarn.secondary.jars",
    "spark.yarn.services", "spark.yarn.shuffle.server.recovery.disabled", "spark.yarn.stagingDir",
    "spark.yarn.submit.file.replication", "spark.yarn.submit.waitAppCompletion", "spark.yarn.tags",
    "spark.yarn.unmanagedAM.enabled", "spark.yarn.user.classpath.first", "spark.yarn.user.jar",
})
# fmt: on
