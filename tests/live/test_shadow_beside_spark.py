"""``podtide run`` in shadow beside a real Spark driver with dynamic allocation: it decides what Spark decides.

The truth is the driver's own log at DEBUG (``scripts/shadow_truth.py`` reads and compares it). Once with hollow pods, of
which none ever registers: targets climb, pods are created, some wait, and the excess is deleted. Once with executors that
are processes: idle ones are killed, a crashed one is replaced. Once with SQL under adaptive execution, whose map stages are
jobs of their own: what shuffle data keeps is kept on both sides. Needs PODTIDE_SPARK_PYTHON.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podtide.adapters.kubelet.hollow import HollowConfig, hollow_kubelet
from podtide.domain.fakes.kubernetes.real_pods import uniform
from scripts import shadow_truth
from tests.live.cluster import Cluster
from tests.live.real_run import Run, replays
from tests.live.spark_driver import SparkDriver, SparkFailed, executors, spark_python
from tests.live.test_sql_driver import JOIN, SORT_MERGE, WIDE, map_stages
from tests.live.waiting import until

DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "4s",
    "spark.executor.maxNumFailures": "100",
    "spark.ui.liveUpdate.period": "0",
}

LAST_CREATED = re.compile(r"create pods? (?:[0-9, -]*[ -])?12\b")


def compared(run: Run, driver: SparkDriver) -> shadow_truth.Compared:
    found = shadow_truth.compare(
        shadow_truth.shadow_deeds(str(run.recording)), shadow_truth.driver_deeds(driver.log_lines())
    )
    print("\n".join(shadow_truth.table(found)))
    return found


def test_hollow_pods(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    python = spark_python()
    conf = {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "12", "spark.kubernetes.allocation.batch.size": "3"}
    kubelets = hollow_kubelet(cluster.api(), HollowConfig(namespace, uniform(1, 8, start_ms=300)))
    with (
        kubelets,
        SparkDriver(python, str(cluster.admin), namespace, tmp_path / "driver", conf) as driver,
        Run(cluster, namespace, tmp_path / "run", driver, {}) as run,
    ):
        driver.tell("start 1 40 1")
        until(lambda: len(cluster.pods(namespace)) == 12, 90, "12 pods")
        until(lambda: LAST_CREATED.search(run.said()), 10, "the shadow's decision for the last of them, a look later")
        driver.tell("cancel")
        with pytest.raises(SparkFailed, match="cancelled"):
            driver.answer("job", 30)
        until(lambda: len(cluster.pods(namespace)) == 8, 90, "no pod that waits")
        assert run.stop() == 0, run.said()
    found = compared(run, driver)
    assert found.agrees(shadow_truth.LIMIT_MS)
    assert replays(run.recording)


def test_executors_that_are_processes(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    python = spark_python()
    conf = {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "3"}
    kubelets = executors(python, cluster, namespace, tmp_path / "kubelet", 3)
    with (
        kubelets as kubelet,
        SparkDriver(python, str(cluster.admin), namespace, tmp_path / "driver", conf) as driver,
        Run(cluster, namespace, tmp_path / "run", driver, {}) as run,
    ):
        assert driver.job(40, 0.5, 180) == 820
        until(lambda: not driver.executors(), 90, "an application without executors")
        until(lambda: not cluster.pods(namespace), 90, "a namespace without pods")
        driver.tell("start 1 30 0.5")
        until(driver.executors, 90, "an executor for the second job")
        assert kubelet.crash(driver.executors()[0])
        assert driver.answer("job", 180)["answer"] == 465
        until(lambda: not cluster.pods(namespace), 90, "a namespace without pods again")
        assert run.stop() == 0, run.said()
    found = compared(run, driver)
    assert found.agrees(shadow_truth.LIMIT_MS)
    assert replays(run.recording)


def test_sql_under_adaptive_execution(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """The join's first side is ready within a second and read more than a minute later: idle executors hold it meanwhile.

    When a shuffle is cleaned the driver's garbage collector decides, and no look at the driver tells: the driver may let go
    whom the shadow keeps. The shadow lets nobody go whom the driver keeps.
    """
    python = spark_python()
    conf = {**DYNAMIC, **SORT_MERGE, "spark.dynamicAllocation.maxExecutors": "3"}
    kubelets = executors(python, cluster, namespace, tmp_path / "kubelet", 3)
    with (
        kubelets,
        SparkDriver(python, str(cluster.admin), namespace, tmp_path / "driver", conf) as driver,
        Run(cluster, namespace, tmp_path / "run", driver, {}) as run,
    ):
        driver.tell(f"sql {WIDE}\nsql {JOIN}")
        assert len(driver.answer("sql", 120)["rows"]) == 60
        assert driver.answer("sql", 180)["rows"] == [[36 * 30]]
        driver.tell(f"sql {WIDE}")
        assert len(driver.answer("sql", 120)["rows"]) == 60
        assert run.stop() == 0, run.said()
        driver.quit()
    found = compared(run, driver)
    assert not any(row.only_ours for row in found.rows if row.kind == "kills")
    (targets,) = (row for row in found.rows if row.kind == "targets")
    assert targets.agrees(shadow_truth.LIMIT_MS)
    assert all(len(attempts) == 1 for attempts in map_stages(driver).values())
    assert replays(run.recording)
