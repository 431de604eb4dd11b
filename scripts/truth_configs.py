"""What scripts/make_truth_logs.py records: the applications of tests/truth and the conf of each of their runs.

The first two applications (RDD, plain starts) were recorded for the what-if's first model and have configs of their own.
The others share six configs; ``eager4`` is recorded three times. Some applications add settings to every config, or to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scripts.make_demo_log import CONF

COMMON: Final = {
    **{key: text for key, text in CONF.items() if not key.startswith("spark.dynamicAllocation.")},
    "spark.eventLog.logBlockUpdates.enabled": "false",
}
_DYNAMIC: Final = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}


def _dynamic(**settings: str) -> dict[str, str]:
    return {**_DYNAMIC, **{f"spark.dynamicAllocation.{key}": text for key, text in settings.items()}}


class Config(NamedTuple):
    """``workers`` have room for one executor each. ``repeats``: how often it is recorded. ``kubernetes``: on it."""

    workers: int
    settings: Mapping[str, str]
    repeats: int = 1
    kubernetes: bool = False


FIRST_CONFIGS: Final = {
    "eager4": Config(4, _dynamic(maxExecutors="4", executorIdleTimeout="3s")),
    "patient3": Config(3, _dynamic(maxExecutors="3", executorIdleTimeout="20s", schedulerBacklogTimeout="3s")),
    "kept2_5": Config(5, _dynamic(minExecutors="2", initialExecutors="3", maxExecutors="5", executorIdleTimeout="6s")),
    "static3": Config(3, {}),
    "double2": Config(2, {**_dynamic(maxExecutors="2", executorIdleTimeout="8s"), "spark.executor.cores": "2"}),
}
CONFIGS: Final = {
    "eager4": Config(4, _dynamic(maxExecutors="4", executorIdleTimeout="3s"), repeats=3),
    "patient4": Config(4, _dynamic(maxExecutors="4", executorIdleTimeout="25s", schedulerBacklogTimeout="2s")),
    "kept2_6": Config(6, _dynamic(minExecutors="2", initialExecutors="2", maxExecutors="6", executorIdleTimeout="5s")),
    "double3": Config(3, {**_dynamic(maxExecutors="3", executorIdleTimeout="4s"), "spark.executor.cores": "2"}),
    "half6": Config(
        6,
        _dynamic(
            maxExecutors="6",
            executorIdleTimeout="3s",
            executorAllocationRatio="0.5",
            **{"shuffleTracking.timeout": "5s"},
        ),
    ),
    "static3": Config(3, {}),
}
KUBERNETES_CONFIGS: Final = {
    f"kubernetes_{name}": CONFIGS[name]._replace(repeats=1, kubernetes=True)
    for name in ("eager4", "double3", "static3")
}
"""The same on another cluster manager: ``podtide cluster``, whose pods are processes."""
PLAIN_CONFIGS: Final = {
    name: CONFIGS[name]._replace(repeats=1) for name in ("eager4", "patient4", "double3", "static3")
}


@dataclass(frozen=True, slots=True)
class App:
    """``program``: its file, without ``.py``. ``own``: more settings, by config; those of ``*`` hold in every config."""

    program: str
    configs: Mapping[str, Config] = field(default_factory=lambda: CONFIGS)
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cluster_start: bool = True


_ON_BOTH: Final = {**CONFIGS, **KUBERNETES_CONFIGS}
_SQL: Final = {"spark.sql.shuffle.partitions": "12"}
_NO_BROADCAST: Final = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
_CACHED: Final = {"spark.dynamicAllocation.cachedExecutorIdleTimeout": "6s"}
_BLOCK_UPDATES: Final = {"spark.eventLog.logBlockUpdates.enabled": "true"}
_KEEP_ONE: Final = {"spark.dynamicAllocation.minExecutors": "1"}

APPS: Final = {
    "reports": App("reports", FIRST_CONFIGS, {"*": {"spark.scheduler.mode": "FIFO"}}, cluster_start=False),
    "side_by_side": App("side_by_side", FIRST_CONFIGS, {"*": {"spark.scheduler.mode": "FAIR"}}, cluster_start=False),
    "join_of_unequal_sides": App("join_of_unequal_sides", _ON_BOTH, own={"*": {**_SQL, **_NO_BROADCAST}}),
    "skewed_join": App(
        "skewed_join",
        _ON_BOTH,
        own={
            "*": {
                **_SQL,
                **_NO_BROADCAST,
                "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
                "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "256k",
                "spark.sql.adaptive.advisoryPartitionSizeInBytes": "256k",
                "spark.sql.adaptive.coalescePartitions.minPartitionSize": "128k",
            }
        },
    ),
    "cached_table": App(
        "cached_table",
        own={
            "*": _SQL,
            "eager4": _CACHED,
            "kept2_6": {**_CACHED, **_BLOCK_UPDATES},
            "double3": {**_CACHED, **_BLOCK_UPDATES},
            "half6": _CACHED,
        },
    ),
    "dashboard": App("dashboard", _ON_BOTH, {"*": {"spark.scheduler.mode": "FAIR"}}),
    "python_functions": App("python_functions", own={"*": _SQL}),
    "partitions_by_cores": App("partitions_by_cores", own={"*": {"spark.sql.shuffle.partitions": "48"}}),
    "short_stages": App("short_stages", _ON_BOTH),
    "decommissioning": App(
        "decommissioning",
        own={
            "*": {
                **_SQL,
                **_NO_BROADCAST,
                "spark.decommission.enabled": "true",
                "spark.storage.decommission.enabled": "true",
                "spark.storage.decommission.shuffleBlocks.enabled": "true",
                "spark.storage.decommission.rddBlocks.enabled": "true",
                "spark.storage.decommission.replicationReattemptInterval": "4s",  # an executor stays at least so long
                "spark.dynamicAllocation.shuffleTracking.enabled": "false",
            },
            "eager4": _KEEP_ONE,
            "patient4": _KEEP_ONE,
            "kept2_6": _BLOCK_UPDATES,
            "double3": _KEEP_ONE,
            "half6": _KEEP_ONE,
        },
    ),
    "killed_executors": App("killed_executors", own={"*": {**_SQL, "spark.reducer.maxReqsInFlight": "1"}}),
    "daily_loads": App("daily_loads", own={"*": _SQL}),
    "analyst": App("analyst", own={"*": _SQL}),
    "ranked_sessions": App("ranked_sessions", own={"*": {"spark.sql.shuffle.partitions": "24"}}),
    "dashboard_plain": App("dashboard", PLAIN_CONFIGS, {"*": {"spark.scheduler.mode": "FAIR"}}, cluster_start=False),
}
"""Name of the folder to what is run. ``dashboard_plain``: executors start as quickly as the machine lets them."""

RECORDED_BEFORE: Final = ("reports", "side_by_side")


def settings_of(application: str, config: str) -> dict[str, str]:
    """The conf of a run."""
    app = APPS[application]
    made = app.configs[config]
    cores = made.settings.get("spark.executor.cores", "1")
    return {
        **COMMON,
        "spark.app.name": f"truth-{application}",
        **(
            kubernetes_settings(made)
            if made.kubernetes
            else {"spark.master": f"local-cluster[{made.workers},{cores},512]"}
        ),
        **made.settings,
        **app.own.get("*", {}),
        **app.own.get(config.removeprefix("kubernetes_"), {}),
    }


def kubernetes_settings(static: Config | None) -> dict[str, str]:
    """What stands in the place of workers: the address is the cluster's, which says it when it is there. ``static``: of a
    config, unless executors are allocated dynamically."""
    dynamic = static is None or static.settings.get("spark.dynamicAllocation.enabled") == "true"
    return {
        "spark.master": "k8s://http://127.0.0.1",
        "spark.executor.memoryOverhead": "1g",  # a limit of memory that Python's processes do not meet
        **({} if static is None or dynamic else {"spark.executor.instances": str(static.workers)}),
    }


def whole_set() -> Iterator[tuple[str, str, int]]:
    """Application, config and number of every run that belongs to the truth, but for those that were recorded before."""
    # The first run of every config comes first: what is left out for want of time is a repeat.
    wanted = [
        (application, config, number)
        for application, app in APPS.items()
        if application not in RECORDED_BEFORE
        for config, one in app.configs.items()
        for number in range(1, one.repeats + 1)
    ]
    yield from sorted(wanted, key=lambda run: run[2])
