"""Plans on YARN whose reruns can be worked out by hand: heartbeats, and clusters in which little takes time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.scaling_config import scaling_config
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.fakes.yarn.description import Manager, Master, Nodes, Queue, YarnDescription, YarnExecutors
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.rerun.plan import ExecutorShape, Plan

NOW: Final = Constant(0)
STATIC: Final = {"dynamicAllocation.enabled": "false"}
DYNAMIC: Final = {"dynamicAllocation.enabled": "true", "dynamicAllocation.shuffleTracking.enabled": "true"}


def containers(conf: dict[str, str], **more: Any) -> Plan:
    """A plan on YARN: this conf (keys without "spark."), with one slot for each executor core."""
    cores = int(conf.get("executor.cores", "1"))
    keys = {"master": "yarn", **conf}
    settled = from_mapping({f"spark.{key}": value for key, value in keys.items()}, "a test")
    settings = yarn_config(settled, racks=more.pop("racks", {})).unwrap()
    scaling = scaling_config(settled).unwrap()
    config = EngineConfig(scaling.config, dynamic=settings.enabled, yarn=settings.config)
    return Plan(
        "containers",
        settled,
        more.pop("shapes", {DEFAULT_PROFILE: ExecutorShape(cores, cores, 1_408)}),
        dynamic=config.scaling if config.dynamic else None,
        static=0 if config.dynamic else int(conf.get("executor.instances", "2")),
        yarn=config,
        **more,
    )


def fixed(executors: int, **more: Any) -> Plan:
    """So many executors from the start."""
    return containers({**STATIC, "executor.instances": str(executors)}, **more)


def dynamic(conf: dict[str, str] | None = None, **more: Any) -> Plan:
    """Dynamic allocation with Spark's defaults, but for what is said (keys behind "dynamicAllocation.")."""
    keys = {f"dynamicAllocation.{key}": value for key, value in (conf or {}).items()}
    return containers({**DYNAMIC, **keys}, **more)


def with_beats(plan: Plan, heartbeat_ms: int, initial_ms: int) -> Plan:
    """The same with other heartbeats."""
    assert plan.yarn is not None
    assert plan.yarn.yarn is not None
    reporter = replace(plan.yarn.yarn.reporter, heartbeat_ms=heartbeat_ms, initial_ms=initial_ms)
    return replace(plan, yarn=replace(plan.yarn, yarn=replace(plan.yarn.yarn, reporter=reporter)))


def cluster(*nodes: Nodes, start_ms: int = 0, queue: Queue | None = None, **executors: Any) -> YarnDescription:
    """A cluster in which nothing takes time but a container's start, and whose nodes beat every millisecond."""
    quick = YarnExecutors(
        launch=NOW, localize=NOW, localized=NOW, start=Constant(start_ms), drain=NOW, exit=NOW, rpc=NOW
    )
    return YarnDescription(
        nodes or (Nodes("n", 1, 2**40, 100_000),),
        queue=queue or Queue(),
        manager=Manager(latency=NOW, heartbeat_ms=1, anywhere_per_heartbeat=1_000, minimum_mib=1),
        executors=replace(quick, **executors),
        master=Master(registers=NOW),
    )
