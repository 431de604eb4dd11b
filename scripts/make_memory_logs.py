"""Prove what the log says of memory: ``python -m scripts.make_memory_logs [--spark-python PYTHON] [APPLICATION...]``.

Every application of tests/memory/app.py runs on real Spark 4.3.0 with two executors of two cores: first with ``FIRST``, too
little or too much of a heap; then with the heap that is recommended from that log (``domain.whatif.memory``); then with half
of it. The logs are kept as ``tests/memory/<application>-<which>.zstd`` (first, recommended, half), scrubbed as the demo's.
A test says what must come of them: with the recommended heap nothing spills and nothing is lost; with half, something is.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.whatif.memory import HEAP_KEY, MemoryFinding, memory_finding
from podtide.domain.whatif.planning import recorded_conf
from podtide.entrypoints.whatif.logs import read_log
from podtide.entrypoints.whatif.run import study
from scripts.make_demo_log import LOG4J, PROJECT, neutral_paths, run, spark_home, traces
from scripts.make_truth_logs import scrub_log

PLACE: Final = PROJECT / "tests" / "memory"
FIRST: Final = {"sorted": 640, "joined": 640, "ample": 3_072}
"""MiB of heap: too little for two of them, too much for the last."""

LIMIT_S: Final = 300
CONF: Final = {
    "spark.master": "local-cluster[2,2,4096]",
    "spark.executor.instances": "2",
    "spark.executor.cores": "2",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.metrics.pollingInterval": "100ms",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.eventLog.enabled": "true",
}


def found_in(log: Path) -> MemoryFinding:
    """What a log says of memory. Ends the program where it says nothing."""
    application = read_log(str(log))
    conf = recorded_conf(application).unwrap().conf
    shape = study(application, seeds=1).unwrap().replay.plan.shapes[DEFAULT_PROFILE]
    found = memory_finding(application, conf, shape)
    assert found is not None
    return found


def recorded(application: str, which: str, heap_mib: int, spark_python: Path, work: Path) -> Path:
    """Run an application, and keep its log; returns where."""
    home = work / "spark" if (work / "spark").exists() else spark_home(spark_python, work)
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as name:
        folder = Path(name)
        conf = {"spark.app.name": application, **CONF, HEAP_KEY: f"{heap_mib}m"}
        log, _ = run(spark_python, folder, PLACE / "app.py", conf, home=home, log4j=LOG4J, limit_s=LIMIT_S)
        paths = {**neutral_paths(log, folder, spark_python), str(home): "/opt/spark"}
        lines = scrub_log(log, folder / "out", paths)
        if left := traces(lines, paths):
            raise SystemExit("the log still names this machine:\n" + "\n".join(left[:20]))
        [made] = (folder / "out").glob("*.zstd")
        kept = PLACE / f"{application}-{which}.zstd"
        kept.write_bytes(made.read_bytes())
        return kept


def main() -> None:
    """Run what was asked for, one after the other."""
    parser = argparse.ArgumentParser(description="Prove what the log says of memory, with real Spark.")
    parser.add_argument("--spark-python", type=Path, default=PROJECT / ".venv-spark" / "bin" / "python")
    parser.add_argument("applications", nargs="*", default=list(FIRST))
    arguments = parser.parse_args()
    spark_python = Path.cwd() / arguments.spark_python
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        work = Path(name).resolve()
        for application in arguments.applications:
            first = found_in(recorded(application, "first", FIRST[application], spark_python, work))
            print(f"{application} first: {first}", flush=True)
            heap = int(first.changes.get(HEAP_KEY, f"{first.heap_mib}m").removesuffix("m"))
            for which, mib in (("recommended", heap), ("half", heap // 2)):
                print(
                    f"{application} {which}: {found_in(recorded(application, which, mib, spark_python, work))}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
