"""Which stages of a log are cut as the registered cores have it, and would be cut otherwise on others.

A stage of adaptive execution counts if it reads an exchange of SQL, and has as many tasks as the rule gives for the cores
that were registered when it was submitted, give or take a task or an eighth. A stage that is cut otherwise
(``repartition(7)``, a skewed join, a query with settings of its own, which the log's environment does not show) stays as it
was.

A scan of files counts if it has as many tasks as cores were registered, give or take as much, and at least ``SURE_CORES`` of
them: two tasks may as well be two small files. Sizes of files are not in the log, but what was read of them is: more than
fits into splits of the largest size makes more tasks than cores, and such a scan follows its data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtide.domain.base.units import LAST_MS
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.jvm.values import parse_boolean, parse_bytes, parse_int
from podtide.domain.recorded.application import Application, SumOverTime
from podtide.domain.recorded.partitions_by_cores import CoalescedStage, ScannedStage, StageByCores

SINCE: Final = (3, 2)
"""Adaptive execution is on by default, and parallelismFirst there, from this release on."""

OFF_SHARE: Final = 8
"""The rule holds for partitions of equal size: one part in so many may be off, or one task."""

SURE_CORES: Final = 3
"""Cores from which on a scan with a task for each is taken to follow them."""

_FILES: Final = "spark.sql.files."
_LARGEST_DEFAULT: Final = 128 << 20
_PARALLELISM: Final = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism", f"{_FILES}minPartitionNum")
_ADAPTIVE: Final = "spark.sql.adaptive."
_COALESCE: Final = f"{_ADAPTIVE}coalescePartitions."
_ADVISORY: Final = (f"{_ADAPTIVE}advisoryPartitionSizeInBytes", f"{_ADAPTIVE}shuffle.targetPostShuffleInputSize")
_PARTITIONS: Final = (f"{_COALESCE}initialPartitionNum", "spark.sql.shuffle.partitions")
_PARTITIONS_DEFAULT: Final = 200
_ADVISORY_DEFAULT: Final = 64 << 20
_LEAST_DEFAULT: Final = 1 << 20


def stages_by_cores(application: Application, conf: SparkConf) -> tuple[StageByCores, ...]:
    """The stages that follow the cores; none of a kind where the conf has it follow something else, or cannot be read."""
    cores_at = SumOverTime(
        (one.added_ms, LAST_MS if one.removed_ms is None else max(one.added_ms, one.removed_ms) - 1, one.cores)
        for one in application.executors
    )
    return (*_coalesced(application, conf, cores_at), *_scanned(application, conf, cores_at))


def _scanned(application: Application, conf: SparkConf, cores_at: SumOverTime) -> tuple[ScannedStage, ...]:
    if any(conf.raw(key) is not None for key in _PARALLELISM):
        return ()
    text = conf.raw(f"{_FILES}maxPartitionBytes")
    try:
        largest = _LARGEST_DEFAULT if text is None else parse_bytes(text, "b")
    except ValueError:
        return ()
    found = []
    for stage in application.stages:
        if stage.scanned and not stage.exchanged and not stage.stores and largest > 0:
            cores = cores_at(stage.submitted_ms)
            if cores >= SURE_CORES and _about(stage.tasks, cores):
                found.append(ScannedStage(stage.stage, stage.tasks, cores, -(-stage.read_bytes // largest)))
    return tuple(found)


def _about(tasks: int, expected: int) -> bool:
    return abs(expected - tasks) <= max(1, expected // OFF_SHARE)


def _coalesced(application: Application, conf: SparkConf, cores_at: SumOverTime) -> tuple[CoalescedStage, ...]:
    if conf.version.release[:2] < SINCE or conf.raw("spark.default.parallelism") is not None:
        return ()
    try:
        flags = (f"{_ADAPTIVE}enabled", f"{_COALESCE}enabled", f"{_COALESCE}parallelismFirst")
        if not all(parse_boolean(conf.raw(flag) or "true") for flag in flags):
            return ()
        if conf.raw(f"{_COALESCE}minPartitionNum") is not None:
            return ()
        partitions = _first(conf, _PARTITIONS)
        before = _PARTITIONS_DEFAULT if partitions is None else parse_int(partitions)
        advised, least = _first(conf, _ADVISORY), conf.raw(f"{_COALESCE}minPartitionSize")
        advisory_bytes = _ADVISORY_DEFAULT if advised is None else parse_bytes(advised, "b")
        least_bytes = _LEAST_DEFAULT if least is None else parse_bytes(least, "b")
    except ValueError:
        return ()
    if before < 1 or advisory_bytes < 1 or least_bytes < 1:
        return ()
    found = []
    for stage in application.stages:
        if stage.exchanged and stage.shuffle_read_bytes > least_bytes and 0 < stage.tasks <= before:
            cores = cores_at(stage.submitted_ms)
            sizes = (stage.shuffle_read_bytes, least_bytes, advisory_bytes)
            one = CoalescedStage(stage.stage, stage.tasks, cores, before, *sizes)
            if cores and _about(stage.tasks, one.expected_on(cores)):
                found.append(one)
    return tuple(found)


def _first(conf: SparkConf, keys: Iterable[str]) -> str | None:
    return next((text for key in keys if (text := conf.raw(key)) is not None), None)
