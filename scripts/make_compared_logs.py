"""Record runs that differ in one thing each: ``python -m scripts.make_compared_logs [--spark-python PYTHON]``.

Runs tests/compared/nightly.py on real Spark 4.3.0, once for each entry of ``RUNS`` that is not there, and keeps of each
``tests/compared/nightly/<entry>/run1/``, as scripts/make_truth_logs.py does. ``CAUSES`` says of each pair what was changed:
``podtide compare`` has to name it first (tests/entrypoints/compare).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from podtide.domain.comparison.causes import ChangeCause
from scripts import cluster_java
from scripts.make_demo_log import PROJECT
from scripts.make_truth_logs import Recorder, TruthRun
from scripts.truth_configs import COMMON, kubernetes_settings

COMPARED: Final = PROJECT / "tests" / "compared"
APPLICATION: Final = "nightly"
BASE: Final = "base"
BASE_AGAIN: Final = "base_again"
KUBERNETES_BASE: Final = "kubernetes_base"

STOLEN_MAX: Final = 0.4
"""The share of the processors' time that others may take: rows sleep, and what is compared differs by much more."""

_CONF: Final = {
    **COMMON,
    "spark.app.name": "nightly",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "15s",
    "spark.dynamicAllocation.maxExecutors": "4",
}


class Changed(NamedTuple):
    """A run: what differs from the base's conf, and the workers it has. ``later_s``: its executors start so much later."""

    settings: Mapping[str, str] = {}
    workers: int = 4
    later_s: float = 0.0
    kubernetes: bool = False


RUNS: Final[Mapping[str, Changed]] = {
    BASE: Changed(),
    BASE_AGAIN: Changed(),
    "more_data": Changed({"spark.nightly.rows": "1280"}),
    "two_workers": Changed(workers=2),
    "maximum": Changed({"spark.dynamicAllocation.maxExecutors": "2"}),
    "few_partitions": Changed({"spark.sql.shuffle.partitions": "2"}),
    "skewed_key": Changed({"spark.nightly.skew": "yes"}),
    "lost_executors": Changed({"spark.nightly.kill": "13 17 24"}),
    "slower_rows": Changed({"spark.nightly.millis": "70"}),
    "slower_driver": Changed({"spark.nightly.think": "12"}),
    "late_executors": Changed(later_s=12.0),
    "backlog": Changed({"spark.dynamicAllocation.schedulerBacklogTimeout": "15s"}),
    "one_more_stage": Changed({"spark.nightly.again": "yes"}),
    KUBERNETES_BASE: Changed(kubernetes=True),
    "slow_host": Changed({"spark.nightly.slow": "4"}, kubernetes=True),
}

CAUSES: Final[Mapping[str, tuple[ChangeCause, ...]]] = {
    "more_data": (ChangeCause.INPUT,),
    "two_workers": (ChangeCause.EXECUTORS,),
    "maximum": (ChangeCause.EXECUTORS,),
    "few_partitions": (ChangeCause.PARTITIONS,),
    "skewed_key": (ChangeCause.SKEW,),
    "lost_executors": (ChangeCause.LOST,),
    "slower_rows": (ChangeCause.BLOCKED,),
    "slower_driver": (ChangeCause.DRIVER,),
    "late_executors": (ChangeCause.EXECUTORS, ChangeCause.FIRST_EXECUTORS),
    "backlog": (ChangeCause.EXECUTORS,),
    "one_more_stage": (ChangeCause.ADDED,),
    "slow_host": (ChangeCause.SLOW_HOST,),
}
"""What was changed in each run, as a comparison with its base has it; of several any."""


def run_of(name: str) -> TruthRun:
    """A run to record."""
    changed = RUNS[name]
    delays = [delay + changed.later_s for delay in cluster_java.start_delays(APPLICATION)]
    place = (
        kubernetes_settings(None) if changed.kubernetes else {"spark.master": f"local-cluster[{changed.workers},1,512]"}
    )
    settings = {**_CONF, **place, **changed.settings}
    program = COMPARED / f"{APPLICATION}.py"
    return TruthRun(APPLICATION, name, 1, settings, changed.workers, program, delays, changed.kubernetes)


def main() -> int:
    """Record what is missing. Exit code 1 if a run failed."""
    parser = argparse.ArgumentParser(description="Record runs that differ in one thing each.")
    default = PROJECT / ".venv-spark" / "bin" / "python"
    parser.add_argument("--spark-python", type=Path, default=default, help="interpreter that has pyspark 4.3.0")
    parser.add_argument(
        "--work", type=Path, required=True, help="scratch folder to keep (class-data archives) and use again"
    )
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    recorder = Recorder(Path.cwd() / given.spark_python, given.work.resolve(), COMPARED, STOLEN_MAX)
    failed = []
    for name in RUNS:
        if (COMPARED / APPLICATION / name).exists():
            continue
        try:
            print(recorder.record(run_of(name)), flush=True)
        except SystemExit as fault:
            failed.append(name)
            print(f"{name} FAILED: {fault}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
