"""What Spark of an earlier release refuses when an application with dynamic allocation starts, and what it does not.

``scaling_config`` refuses what 4.3.0 does. Earlier releases check the same bounds, timeouts and ratio
(ExecutorAllocationManager.validateSettings); they differ in what keeps shuffle data when an executor goes:

| from | dynamic allocation starts with | source |
|---|---|---|
| 2.4 | an external shuffle service | validateSettings in branch-2.4 |
| 3.0 | or shuffle tracking | SPARK-27963 |
| 3.1 | or decommissioning with migrated shuffle blocks | SPARK-31198 |
| 3.5 | or shuffle storage that says it is reliable | SPARK-42689; the message names all since SPARK-44727 |

2.4 alone divides spark.executor.cores by spark.task.cpus there, both 1 unless set, whatever the master; from 3.0 on the
default resource profile is checked instead, as in 4.3.0. Cores of a task are whole numbers before 4.3. A key that a release
does not have is not read by it: no value of it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtide.domain.conf.advice.effects import CORES
from podtide.domain.conf.entries import KEYS, RENAMED
from podtide.domain.conf.entry_types import release
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import (
    DECOMMISSION,
    REQUIRED_CONDITIONS,
    SERVICE,
    SHUFFLE_BLOCKS,
    TESTING,
    TRACKING,
    dynamic_allocation_enabled,
)
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.conf.spark_versions import NEWEST, Release
from podtide.domain.jvm.exceptions import NUMBER_FORMAT, SPARK_EXCEPTION, SparkFault

CPUS: Final = "spark.task.cpus"
RESOURCES: Final = ("spark.executor.resource.", "spark.task.resource.")

TRACKED: Final = release("3.0")
MIGRATED: Final = release("3.1")
RELIABLE: Final = release("3.5")

SERVICE_REQUIRED: Final = (
    "Dynamic allocation of executors requires the external shuffle service. You may enable this through "
    "spark.shuffle.service.enabled."
)


def start_errors(conf: SparkConf, errors: Iterable[ConfError]) -> tuple[ConfError, ...]:
    """What is wrong with the conf for Spark of its release. ``errors``: what is for 4.3.0 (``scaling_config``)."""
    if conf.version.release >= NEWEST:
        return tuple(errors)
    kept = [error for error in errors if error.raised is None or REQUIRED_CONDITIONS not in error.raised.message]
    found = [*read_by(kept, conf.version.release), *whole_cpus(conf)]
    if dynamic_allocation_enabled(Reads(conf)) and not any(error.key in (CORES, CPUS) for error in found):
        found += _cores(conf)
    return (*found, *_shuffle(conf))


def read_by(errors: Iterable[ConfError], known: Release) -> list[ConfError]:
    """The errors of settings that Spark of this release reads at all."""
    return [error for error in errors if _read(error.key, known)]


def whole_cpus(conf: SparkConf) -> tuple[ConfError, ...]:
    """The cores of a task, where they are no whole number and Spark of the conf's release takes only such."""
    cpus = Reads(conf).decimal(CPUS)
    if conf.version.release >= NEWEST or cpus == int(cpus):
        return ()
    fault = SparkFault(NUMBER_FORMAT, f"{CPUS} should be int, but was {conf.raw(CPUS)}")
    return (conf.refused(CPUS, f"a whole number, as Spark takes them before 4.3, not {conf.version.name}", fault),)


def _read(key: str, known: Release) -> bool:
    if key in RENAMED or key not in KEYS:
        return known >= TRACKED or not key.startswith(RESOURCES)
    return KEYS[key].known_to(known)


def _shuffle(conf: SparkConf) -> tuple[ConfError, ...]:
    """What is missing where nothing keeps the shuffle data of an executor that goes."""
    reads, known, name = Reads(conf), conf.version.release, f"Spark {conf.version.name}"
    tracked = known >= TRACKED and reads.flag(TRACKING)
    migrated = known >= MIGRATED and reads.flag(DECOMMISSION) and reads.flag(SHUFFLE_BLOCKS)
    if reads.flag(SERVICE) or tracked or migrated or reads.flag(TESTING):
        return ()
    if known < TRACKED:
        expected = f"true: {name} allocates dynamically with an external shuffle service only"
        return (conf.refused(SERVICE, expected, SparkFault(SPARK_EXCEPTION, SERVICE_REQUIRED)),)
    others = [SERVICE]
    others += [f"{DECOMMISSION} with {SHUFFLE_BLOCKS}"] if known >= MIGRATED else []
    others += ["reliable shuffle storage"] if known >= RELIABLE else []
    fault = SparkFault(SPARK_EXCEPTION, REQUIRED_CONDITIONS if known >= RELIABLE else SERVICE_REQUIRED)
    return (conf.refused(TRACKING, f"true, or {', or '.join(others)}, with {name}", fault),)


def _cores(conf: SparkConf) -> tuple[ConfError, ...]:
    """An executor of 2.4 without room for one task."""
    if conf.version.release >= TRACKED:
        return ()
    reads = Reads(conf)
    if reads.int(CORES) >= reads.decimal(CPUS):
        return ()
    fault = SparkFault(SPARK_EXCEPTION, f"{CORES} must not be < {CPUS}.")
    named = CORES if conf.setting(CORES) is not None else CPUS
    return (conf.refused(named, f"{CORES} (1 unless set) no smaller than {CPUS}, with Spark 2.4", fault),)
