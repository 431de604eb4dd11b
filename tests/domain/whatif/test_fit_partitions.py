"""Which stages of a log follow the registered cores."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.conf.spark_conf import EVENT_LOG, from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor
from podtide.domain.recorded.partitions_by_cores import CoalescedStage, ScannedStage, StageByCores
from podtide.domain.whatif.fit_partitions import stages_by_cores
from tests.support.rerun_play import app, stage

MIB = 1 << 20
SQL = {"spark.sql.shuffle.partitions": "48"}
ADAPTIVE = "spark.sql.adaptive."


def executor(name: str, added_ms: int, removed_ms: int | None = None) -> RecordedExecutor:
    return RecordedExecutor(ExecutorId(name), "h", DEFAULT_PROFILE, 3, added_ms, removed_ms, Leave.STAYED)


def application(tasks: int, *, exchanged: bool = True, read_bytes: int = 12 * MIB) -> Application:
    """Six cores while the stage is submitted; three had gone before, three come later."""
    one = replace(
        stage(1, [1_000]), body_ms=array("q", [1_000] * tasks), submitted_ms=50, completed_ms=90,
        shuffle_read_bytes=read_bytes, exchanged=exchanged,
    )  # fmt: skip
    executors = (executor("1", 0), executor("2", 10), executor("3", 0, 50), executor("4", 51))
    return replace(app(one), executors=executors)


def found(log: Application, conf: dict[str, str] | None = None, version: str = "4.3.0") -> tuple[StageByCores, ...]:
    return stages_by_cores(log, from_mapping({**SQL, **(conf or {})}, EVENT_LOG, parse_version(version)))


@pytest.mark.parametrize("tasks", [5, 6, 7])
def test_a_stage_with_about_a_task_for_every_core_follows_the_cores(tasks: int) -> None:
    assert found(application(tasks)) == (CoalescedStage(1, tasks, 6, 48, 12 * MIB, MIB, 64 * MIB),)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(application(12), id="twice as many tasks"),
        pytest.param(application(3), id="half as many"),
        pytest.param(application(6, exchanged=False), id="no exchange of SQL"),
        pytest.param(application(1, read_bytes=MIB // 2), id="too little to be divided"),
        pytest.param(replace(application(1), executors=()), id="no core was there"),
    ],
)
def test_any_other_stage_does_not(log: Application) -> None:
    assert found(log) == ()


@pytest.mark.parametrize(
    ("conf", "version"),
    [
        ({"spark.default.parallelism": "6"}, "4.3.0"),
        ({f"{ADAPTIVE}enabled": "false"}, "4.3.0"),
        ({f"{ADAPTIVE}coalescePartitions.enabled": "false"}, "4.3.0"),
        ({f"{ADAPTIVE}coalescePartitions.parallelismFirst": "false"}, "4.3.0"),
        ({f"{ADAPTIVE}coalescePartitions.minPartitionNum": "6"}, "4.3.0"),
        ({f"{ADAPTIVE}advisoryPartitionSizeInBytes": "large"}, "4.3.0"),
        ({f"{ADAPTIVE}coalescePartitions.minPartitionSize": "0"}, "4.3.0"),
        ({"spark.sql.shuffle.partitions": "5"}, "4.3.0"),
        ({}, "3.1.2"),
    ],
)
def test_a_conf_under_which_nothing_follows_the_cores(conf: dict[str, str], version: str) -> None:
    assert found(application(6), conf, version) == ()


def test_sizes_and_partitions_are_the_confs() -> None:
    conf = {
        f"{ADAPTIVE}coalescePartitions.initialPartitionNum": "96",
        f"{ADAPTIVE}advisoryPartitionSizeInBytes": "32m",
        f"{ADAPTIVE}coalescePartitions.minPartitionSize": "512k",
    }
    assert found(application(6), conf) == (CoalescedStage(1, 6, 6, 96, 12 * MIB, MIB // 2, 32 * MIB),)


# scans of files


def scan(tasks: int, cores: int, read_bytes: int = MIB) -> Application:
    """A scan while so many cores are registered."""
    one = replace(
        stage(1, [1_000]), body_ms=array("q", [1_000] * tasks), submitted_ms=50, completed_ms=90, read_bytes=read_bytes,
        scanned=True,
    )  # fmt: skip
    return replace(app(one), executors=(replace(executor("1", 0), cores=cores),))


@pytest.mark.parametrize(
    ("tasks", "cores", "least"),
    [(4, 4, 1), (5, 6, 1), (15, 14, 1), (9, 8, 8)],
    ids=["as many", "less", "more", "large"],
)
def test_a_scan_with_a_task_for_every_core_follows_the_cores(tasks: int, cores: int, least: int) -> None:
    assert found(scan(tasks, cores, least * 128 * MIB)) == (ScannedStage(1, tasks, cores, least),)


@pytest.mark.parametrize(
    ("log", "conf"),
    [
        pytest.param(scan(2, 2), {}, id="too few cores to be sure"),
        pytest.param(scan(40, 4), {}, id="it follows its data"),
        pytest.param(scan(4, 4), {"spark.sql.files.minPartitionNum": "4"}, id="the conf says how many"),
        pytest.param(scan(4, 4), {"spark.sql.leafNodeDefaultParallelism": "4"}, id="or what stands for the cores"),
        pytest.param(scan(4, 4), {"spark.sql.files.maxPartitionBytes": "large"}, id="a size that is none"),
    ],
)
def test_any_other_scan_does_not(log: Application, conf: dict[str, str]) -> None:
    assert found(log, conf) == ()
