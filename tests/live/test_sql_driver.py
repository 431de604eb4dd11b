"""``podtide run --mode act`` in charge of a real driver that runs SQL under adaptive execution: no map output is lost.

A join whose first side is ready within a second, less than a look at the driver takes to come round, and is read more than a
minute later, when its second side is ready. Meanwhile two of three executors hold the first side and nothing else, and are
idle for much longer than their timeout. They stay, and nothing is computed twice. It takes about two minutes; it needs
PODTIDE_SPARK_PYTHON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.live.cluster import Cluster
from tests.live.real_run import Run, replays
from tests.live.spark_driver import ASLEEP, SparkDriver, executors, spark_python

EXECUTORS: Final = 3
OURS: Final = {
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.kubernetes.executor.disableConfigMap": "true",
}
SORT_MERGE: Final = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "4"}
NAP: Final = "java_method('java.lang.Thread', 'sleep', {}L) is not null"
WIDE: Final = f"select id from range(0, 60, 1, 12) where {NAP.format(100)}"
QUICK: Final = "select id % 10 as k from range(0, 300, 1, 3)"
SLOW: Final = f"select id % 10 as k from range(0, 36, 1, 1) where {NAP.format(2000)}"
JOIN: Final = f"select count(*) from ({QUICK}) join ({SLOW}) using (k)"


def events(driver: SparkDriver) -> Iterator[dict[str, Any]]:
    """What the driver's event log says."""
    for path in sorted(driver.events.rglob("events_*")):
        yield from map(json.loads, path.read_text().splitlines())


def map_stages(driver: SparkDriver) -> dict[int, set[tuple[int, int]]]:
    """The stage attempts that computed map output, by the RDD that they computed."""
    rdds: dict[int, int] = {}
    stages: dict[int, set[tuple[int, int]]] = {}
    for event in events(driver):
        if event["Event"] == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            rdds[info["Stage ID"]] = max(rdd["RDD ID"] for rdd in info["RDD Info"])
        elif event["Event"] == "SparkListenerTaskEnd" and event["Task Type"] == "ShuffleMapTask":
            attempt = event["Stage ID"], event["Stage Attempt ID"]
            stages.setdefault(rdds[event["Stage ID"]], set()).add(attempt)
    return stages


def test_no_map_output_is_lost_with_an_executor_that_was_let_go(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    python = spark_python()
    kubelets = executors(python, cluster, namespace, tmp_path / "kubelet", EXECUTORS)
    options = ("--mode", "act", "--on-exit", "delete", "--driver-interval", "3s")
    with (
        kubelets,
        SparkDriver(python, str(cluster.admin), namespace, tmp_path / "driver", {**ASLEEP, **SORT_MERGE}) as driver,
        Run(cluster, namespace, tmp_path / "run", driver, OURS, *options) as run,
    ):
        driver.tell(f"sql {WIDE}\nsql {JOIN}")  # nobody is idle for long between the two
        assert len(driver.answer("sql", 120)["rows"]) == 60
        assert len(driver.rest("executors")) == EXECUTORS + 1, "and the driver"
        assert driver.answer("sql", 180)["rows"] == [[36 * 30]]
        assert run.stop() == 0, run.said()
        driver.quit()
    stages = map_stages(driver)
    assert len(stages) >= 2
    assert all(len(attempts) == 1 for attempts in stages.values()), f"map output was computed again: {stages}"
    assert replays(run.recording)
