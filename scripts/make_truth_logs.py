"""Record truth of our own: ``python scripts/make_truth_logs.py [--spark-python PYTHON] [--only APPLICATION/CONFIG]``.

Runs the applications of tests/truth on real Spark 4.3.0 under several configs, one after the other (ten minutes), and
keeps of each run what ``make accuracy`` compares: ``tests/truth/<application>/<config>/run<k>/`` with the log, scrubbed
as the demo's is (scripts/make_demo_log.py), and ``manifest.json``: conf, run time, executor-seconds, and when each executor
was granted, registered and removed, in seconds after the application's start.

The model was fitted to other runs; these were recorded afterwards, to be predicted. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.entrypoints.whatif.recorded_log import read_application
from scripts.make_demo_log import CONF, PROJECT, neutral_paths, run, scrub, traces

TRUTH: Final = PROJECT / "tests" / "truth"

_COMMON: Final = {
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


CONFIGS: Final = {
    "eager4": (4, {**_dynamic(maxExecutors="4", executorIdleTimeout="3s")}),
    "patient3": (3, {**_dynamic(maxExecutors="3", executorIdleTimeout="20s", schedulerBacklogTimeout="3s")}),
    "kept2_5": (5, {**_dynamic(minExecutors="2", initialExecutors="3", maxExecutors="5", executorIdleTimeout="6s")}),
    "static3": (3, {}),
    "double2": (2, {**_dynamic(maxExecutors="2", executorIdleTimeout="8s"), "spark.executor.cores": "2"}),
}
"""Name to workers (each with room for one executor) and settings."""

APPS: Final = {"reports": "FIFO", "side_by_side": "FAIR"}

_GRANTED: Final = re.compile(r"^(\S+ \S+) INFO \S+: Granted executor ID \S+/(\d+) on")


def settings_of(application: str, config: str) -> dict[str, str]:
    """The conf of a run."""
    workers, own = CONFIGS[config]
    cores = own.get("spark.executor.cores", "1")
    return {
        **_COMMON,
        "spark.app.name": f"truth-{application}",
        "spark.master": f"local-cluster[{workers},{cores},512]",
        "spark.scheduler.mode": APPS[application],
        **own,
    }


def manifest_of(application: str, config: str, log: Path, decisions: Path, settings: dict[str, str]) -> dict[str, Any]:
    """What is known of a run besides its log."""
    with open_log(str(log)) as source:
        recorded = read_application(source).application
    start = recorded.started_ms
    granted: dict[str, float] = {}
    for line in decisions.read_text(encoding="utf-8").splitlines():
        if hit := _GRANTED.match(line):
            at = datetime.strptime(hit[1], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
            granted[hit[2]] = (round(at.timestamp() * 1000) - start) / 1000

    def since(at: int | None) -> float | None:
        return None if at is None else (at - start) / 1000

    return {
        "workload": application,
        "config": config,
        "log": f"log/{log.name}",
        "spark_version": recorded.spark_version,
        "workers": CONFIGS[config][0],
        "app_s": recorded.runtime_ms / 1000,
        "executor_seconds": recorded.executor_ms / 1000,
        "peak_executors": recorded.peak_executors,
        "tasks": recorded.tasks,
        "conf": settings,
        "executors": [
            {
                "id": one.executor,
                "granted": granted.get(one.executor),
                "added": since(one.added_ms),
                "registered": since(one.added_ms),
                "removed": since(one.removed_ms),
                "first_task": since(one.first_task_ms),
            }
            for one in recorded.executors
        ],
    }


def record(spark_python: Path, application: str, config: str) -> str:
    """Run, scrub, check, install; a line about it."""
    settings = settings_of(application, config)
    place = TRUTH / application / config
    number = 1 + max((int(one.name.removeprefix("run")) for one in place.glob("run*")), default=0)
    with tempfile.TemporaryDirectory(prefix="truth-") as name:
        folder = Path(name).resolve()
        log, decisions = run(spark_python, folder, TRUTH / f"{application}.py", settings)
        paths = neutral_paths(log, folder, spark_python)
        out = folder / "out"
        lines = scrub(log, out / "log" / log.name, paths)
        manifest = manifest_of(application, config, out / "log" / log.name, decisions, settings)
        text = json.dumps(manifest, indent=1) + "\n"
        if left := traces([*lines, *text.splitlines()], paths):
            sys.exit("the log still names this machine:\n" + "\n".join(left[:20]))
        (out / "manifest.json").write_text(text, encoding="utf-8")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(out, place / f"run{number}")
    return (
        f"{application}/{config}/run{number}: {manifest['app_s']:.1f} s, {manifest['executor_seconds']:.1f} "
        f"executor-seconds, {manifest['peak_executors']} executors at most"
    )


def main() -> None:
    """Record what was asked for."""
    parser = argparse.ArgumentParser(description="Record real runs of the applications of tests/truth.")
    default = PROJECT / ".venv-spark" / "bin" / "python"
    parser.add_argument("--spark-python", type=Path, default=default, help="interpreter that has pyspark 4.3.0")
    parser.add_argument("--only", action="append", help="APPLICATION/CONFIG; may be repeated")
    arguments = parser.parse_args()
    spark_python = Path.cwd() / arguments.spark_python
    wanted = arguments.only or [f"{application}/{config}" for application in APPS for config in CONFIGS]
    for one in wanted:
        application, _, config = one.partition("/")
        if application not in APPS or config not in CONFIGS:
            sys.exit(f"{one}: expected one of {', '.join(APPS)}, a slash, and one of {', '.join(CONFIGS)}")
        print(record(spark_python, application, config), flush=True)


if __name__ == "__main__":
    main()
