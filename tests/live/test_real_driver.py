"""``podtide run --mode act`` in charge of a real Spark driver's executors, which really run.

The driver stands under one of the confs of docs/how-to/live.md; its executors are processes of this machine, two or
three at a time. A job runs to its end, the executors are let go when there is nothing to do, come back for the next
job, and nothing is left. Needs PODTIDE_SPARK_PYTHON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import shadow_truth
from tests.live.cluster import Cluster
from tests.live.real_run import Run, replays
from tests.live.spark_driver import ASLEEP, SWITCHED_OFF, SparkDriver, executors, spark_python
from tests.live.waiting import until

EXECUTORS = 3
OURS = {
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.kubernetes.executor.disableConfigMap": "true",
}


def sum_to(tasks: int) -> int:
    return tasks * (tasks + 1) // 2


def numbers(names: list[str]) -> list[int]:
    return [int(name.rpartition("-")[2]) for name in names]


@pytest.mark.parametrize("conf", [ASLEEP, SWITCHED_OFF], ids=["asleep", "switched-off"])
def test_jobs_of_a_real_driver_run_to_their_end(
    cluster: Cluster, namespace: str, tmp_path: Path, conf: Mapping[str, str]
) -> None:
    python = spark_python()
    kubelets = executors(python, cluster, namespace, tmp_path / "kubelet", EXECUTORS)
    with (
        kubelets as kubelet,
        SparkDriver(python, str(cluster.admin), namespace, tmp_path / "driver", conf) as driver,
        Run(cluster, namespace, tmp_path / "run", driver, OURS, "--mode", "act", "--on-exit", "delete") as run,
    ):
        assert driver.job(60, 0.5, 180) == sum_to(60)
        first = list(kubelet.started)
        assert len(first) == EXECUTORS

        # Nothing to do: every executor is told to go, drains, and is gone, from the driver and from the cluster.
        until(lambda: not driver.executors(), 90, "an application without executors")
        until(lambda: not cluster.pods(namespace), 60, "a namespace without pods")
        assert [kubelet.exits[name] for name in first] == [0] * EXECUTORS
        for name in first:
            assert "Decommission executor" in (kubelet.folder / f"{name}.spark-kubernetes-executor.log").read_text()

        # They come back for the next job, under new ids; one that crashes on the way is replaced.
        driver.tell("start 1 24 0.5")
        until(driver.executors, 90, "an executor for the second job")
        crashed = driver.executors()[0]
        assert kubelet.crash(crashed)
        assert driver.answer("job", 180)["answer"] == sum_to(24)
        second = kubelet.started[len(first) :]
        assert min(numbers(second)) > max(numbers(first))
        assert len(set(numbers(kubelet.started))) == len(kubelet.started)

        assert run.stop() == 0, run.said()
        driver.quit()
        until(lambda: not cluster.pods(namespace), 60, "a namespace without pods at the end")

    said = "\n".join(driver.log_lines())
    assert "Requested executor with id" not in said, "the driver created executors itself"
    assert "excess pod requests" not in said, "the driver deleted pods"
    assert "Max number of executor failures" not in said
    assert len(re.findall(r"Received executor \d+ decommissioned message", said)) >= EXECUTORS
    let_go = [deed.what for deed in shadow_truth.shadow_deeds(str(run.recording)).of["kills"]]
    assert len(set(let_go)) == len(let_go), "an executor was let go again and again"
    assert replays(run.recording)
