"""Record truth of our own: ``python -m scripts.make_truth_logs --missing [--spark-python PYTHON]``.

Runs the applications of tests/truth (scripts/truth_configs.py says which, and under which conf) on real Spark 4.3.0, one
after the other, and keeps of each run ``tests/truth/<application>/<config>/run<k>/``:

- ``log/``: the event log, scrubbed as the demo's is (scripts/make_demo_log.py), as one zstd frame;
- ``driver-decisions.log.zst``: what the driver's ExecutorAllocationManager, ExecutorMonitor and scheduler backend logged;
- ``manifest.json``: conf, run time, executor-seconds, and when each executor was granted, registered and removed, in seconds
  after the application's start; where executors start as a cluster's do (scripts/cluster_java.py), how long each waited.

Runs that are there are left alone, so a recording that was broken off goes on where it was. A run that fails is named, and
the next one begins; so is one during which a virtual machine was not given its time, which is not kept. Let nothing else run
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import zstandard

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.entrypoints.whatif.recorded_log import NothingToRun, read_application
from scripts import cluster_java
from scripts.make_demo_log import (
    LOG4J,
    PROJECT,
    lines_per_frame,
    neutral_paths,
    replaced,
    run,
    scrub_decisions,
    scrub_environment,
    spark_home,
    traces,
)
from scripts.truth_configs import APPS, settings_of, whole_set

TRUTH: Final = PROJECT / "tests" / "truth"
DECISIONS: Final = "driver-decisions.log.zst"
PRIORITY: Final = -10
LIMIT_S: Final = 240
STOLEN_MAX: Final = 0.03
"""The share of the processors' time that others may take of a virtual machine: with more, a run tells of them."""
ARCHIVED: Final = ("python_functions", "double3")
"""The run whose classes are archived: SQL, Python workers, a join of nothing."""
_CLUSTER: Final = (sys.executable, "-m", "podtide", "cluster", "--no-tls")
_TOLD: Final = ("EXECUTOR_DELAYS", "EXECUTOR_PROCESSES")
"""What the wrapper around java reads: a pod has the environment that the application gives it."""

_LOG4J: Final = (
    LOG4J
    + """\
logger.cluster.name = org.apache.spark.scheduler.cluster
logger.cluster.level = info
logger.cluster.additivity = false
logger.cluster.appenderRef.decisions.ref = decisions
"""
)

_GRANTED: Final = re.compile(r"^(\S+ \S+) INFO \S+: Granted executor ID \S+/(\d+) on")


class TruthRun(NamedTuple):
    """A run to record: the application with this conf, on so many workers. ``delays``: what its executors wait before they
    start, by id; None: they start as quickly as they can."""

    application: str
    config: str
    number: int
    settings: Mapping[str, str]
    workers: int
    program: Path
    delays: Sequence[float] | None = None
    kubernetes: bool = False

    @property
    def name(self) -> str:
        """As its folder in the truth."""
        return f"{self.application}/{self.config}/run{self.number}"


def run_of(application: str, config: str, number: int) -> TruthRun:
    """A run of the set."""
    app = APPS[application]
    made = app.configs[config]
    # Drawn by executor: every run of an application meets the same luck, so that what differs is its config.
    delays = cluster_java.start_delays(application) if app.cluster_start else None
    program = TRUTH / f"{app.program}.py"
    settings = settings_of(application, config)
    return TruthRun(application, config, number, settings, made.workers, program, delays, made.kubernetes)


def manifest_of(wanted: TruthRun, log: Path, decisions: Sequence[str]) -> dict[str, Any]:
    """What is known of a run besides its log."""
    delays = wanted.delays
    with open_log(str(log)) as source:
        recorded = read_application(source).application
    start = recorded.started_ms
    granted: dict[str, float] = {}
    for line in decisions:
        if hit := _GRANTED.match(line):
            at = datetime.strptime(hit[1], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
            granted[hit[2]] = (round(at.timestamp() * 1000) - start) / 1000

    def since(at: int | None) -> float | None:
        return None if at is None else (at - start) / 1000

    return {
        "workload": wanted.application,
        "config": wanted.config,
        "log": f"log/{log.name}",
        "spark_version": recorded.spark_version,
        "workers": wanted.workers,
        "app_s": recorded.runtime_ms / 1000,
        "executor_seconds": recorded.executor_ms / 1000,
        "peak_executors": recorded.peak_executors,
        "tasks": recorded.tasks,
        "conf": dict(wanted.settings),
        "executors": [
            {
                "id": one.executor,
                "granted": granted.get(one.executor),
                "added": since(one.added_ms),
                "registered": since(one.added_ms),
                "removed": since(one.removed_ms),
                "first_task": since(one.first_task_ms),
                **({} if delays is None else {"start_delay": delays[int(one.executor)]}),
            }
            for one in recorded.executors
        ],
    }


def processor_times() -> tuple[int, ...]:
    """Of all processors, in ticks since the start, as Linux counts them by kind (the eighth: stolen); elsewhere nothing."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return ()
    return tuple(map(int, first.split()[1:]))


def stolen_share(before: Sequence[int], after: Sequence[int]) -> float:
    """The share of the time in between that the host of a virtual machine gave to others."""
    spent = [late - early for early, late in zip(before[:8], after[:8], strict=True)]
    whole = sum(spent)
    return spent[7] / whole if len(spent) == 8 and whole else 0.0


def scrub_log(log: Path, target: Path, paths: dict[str, str]) -> list[str]:
    """Write the events of a rolled log as one file of one frame, without the machine; return its lines."""
    target.mkdir(parents=True)
    lines = []
    for source in sorted(log.glob("events_*.zstd"), key=lambda path: int(path.name.split("_")[1])):
        for content in lines_per_frame(source.read_bytes()):
            for line in content:
                environment = '"SparkListenerEnvironmentUpdate"' in line
                lines.append(scrub_environment(line, paths) if environment else replaced(line, paths))
    written = "".join(line + "\n" for line in lines).encode()
    name = f"events_1_{log.name.removeprefix('eventlog_v2_')}"
    (target / f"{name}.zstd").write_bytes(zstandard.ZstdCompressor(level=22).compress(written))
    for status in log.glob("appstatus_*"):
        shutil.copy(status, target / status.name)
    return lines


class Recorder:
    """Starts runs, and keeps what comes of them. ``work`` is scratch, the same for all runs: archives name its paths."""

    def __init__(self, spark_python: Path, work: Path, truth: Path, stolen_max: float = STOLEN_MAX) -> None:
        self._stolen_max = stolen_max
        self._python = spark_python
        self._work = work
        self._truth = truth
        self._home = work / "spark" if (work / "spark").exists() else spark_home(spark_python, work)
        self._java: Path | None = None

    def record(self, wanted: TruthRun) -> str:
        """Run, scrub, check, install; a line about it. Ends the program where the run fails."""
        begun, before = time.monotonic(), processor_times()
        place = self._truth / wanted.name
        with tempfile.TemporaryDirectory(prefix="run-", dir=self._work) as name:
            folder = Path(name)
            log, raw = self._run(folder, wanted)
            stolen = stolen_share(before, processor_times())
            if stolen > self._stolen_max:
                sys.exit(f"others took {stolen:.0%} of the processors' time: not kept")
            paths = {
                **neutral_paths(log, folder, self._python),
                str(self._home): "/opt/spark",
                str(self._work): "/opt/work",
            }
            out = folder / "out"
            lines = scrub_log(log, out / "log" / log.name, paths)
            decisions = [replaced(line, paths) for line in scrub_decisions(raw, folder / "decisions.kept")]
            manifest = manifest_of(wanted, out / "log" / log.name, decisions)
            text = json.dumps(manifest, indent=1) + "\n"
            if left := traces([*lines, *decisions, *text.splitlines()], paths):
                sys.exit("the log still names this machine:\n" + "\n".join(left[:20]))
            (out / "manifest.json").write_text(text, encoding="utf-8")
            compressed = zstandard.ZstdCompressor(level=22).compress("".join(f"{one}\n" for one in decisions).encode())
            (out / DECISIONS).write_bytes(compressed)
            size = sum(one.stat().st_size for one in out.rglob("*") if one.is_file())
            place.parent.mkdir(parents=True, exist_ok=True)
            unfinished = place.with_name(f".{place.name}")
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(out, unfinished)
            unfinished.rename(place)
        return (
            f"{wanted.name}: {manifest['app_s']:.1f} s, {manifest['executor_seconds']:.1f} "
            f"executor-seconds, {manifest['peak_executors']} executors at most, {manifest['tasks']} tasks; "
            f"{time.monotonic() - begun:.0f} s of the clock, {size / 1000:.0f} kB"
        )

    def _run(self, folder: Path, wanted: TruthRun) -> tuple[Path, Path]:
        variables = None
        if wanted.delays is not None:
            variables = cluster_java.environment(folder, self._java_home(), wanted.delays)
        try:
            return self._start(folder, wanted, variables)
        finally:
            shutil.rmtree(self._home / "work", ignore_errors=True)

    def _start(self, folder: Path, wanted: TruthRun, variables: dict[str, str] | None) -> tuple[Path, Path]:
        settings, launcher = dict(wanted.settings), list[str]()
        if wanted.kubernetes:
            launcher = [*_CLUSTER, "--nodes", str(wanted.workers), "--pods-per-node", "1", "--"]
            settings.update(
                {f"spark.executorEnv.{key}": text for key, text in (variables or {}).items() if key in _TOLD}
            )
        return run(
            self._python,
            folder,
            wanted.program,
            settings,
            launcher=launcher,
            home=self._home,
            log4j=_LOG4J,
            variables=variables,
            priority=PRIORITY,
            limit_s=LIMIT_S,
        )

    def _java_home(self) -> Path:
        """The Java home with archives, made at the first call."""
        if self._java is None:
            home = cluster_java.java_home(self._work / "java", cluster_java.real_java())
            if not cluster_java.has_archives(home):
                self._make_archives(home)
            self._java = home
        return self._java

    def _make_archives(self, home: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="archives-", dir=self._work) as name:
            folder = Path(name)
            variables = cluster_java.environment(folder, home, cluster_java.start_delays(""), classes_listed=True)
            self._start(folder, run_of(*ARCHIVED, 1), variables)
        cluster_java.make_archives(home, cluster_java.real_java())


def wanted_runs(truth: Path, only: Sequence[str]) -> list[tuple[str, str, int]]:
    """The runs of the set that are not there; with ``only``, one more run of each application and config that fits."""
    if not only:
        return [one for one in whole_set() if not (truth / one[0] / one[1] / f"run{one[2]}").exists()]
    runs = []
    for pattern in only:
        fitting = [(name, config) for name, app in APPS.items() for config in app.configs]
        fitting = [one for one in fitting if fnmatch("/".join(one), pattern)]
        if not fitting:
            sys.exit(f"{pattern}: no application/config fits (scripts/truth_configs.py)")
        for application, config in fitting:
            there = (int(one.name.removeprefix("run")) for one in (truth / application / config).glob("run*"))
            runs.append((application, config, 1 + max(there, default=0)))
    return runs


def main() -> int:
    """Record what is missing or asked for. Exit code 1 if a run failed or was left out."""
    parser = argparse.ArgumentParser(description="Record real runs of the applications of tests/truth.")
    default = PROJECT / ".venv-spark" / "bin" / "python"
    parser.add_argument("--spark-python", type=Path, default=default, help="interpreter that has pyspark 4.3.0")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--missing", action="store_true", help="all runs of the set that are not there")
    what.add_argument("--only", action="append", help="one more run of APPLICATION/CONFIG (wildcards); may be repeated")
    parser.add_argument("--truth", type=Path, default=TRUTH, help="folder to keep runs in")
    parser.add_argument("--work", type=Path, help="scratch folder to keep (class-data archives) and use again")
    parser.add_argument("--minutes", type=float, default=inf, help="begin no run after so long")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that Spark ends with the recording
    wanted = wanted_runs(given.truth, given.only or ())
    failed = []
    left = 0
    deadline = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="truth-") as name:
        work: Path = given.work or Path(name)
        work.mkdir(exist_ok=True)
        recorder = Recorder(Path.cwd() / given.spark_python, work.resolve(), given.truth)
        for count, one in enumerate(wanted, 1):
            if time.monotonic() > deadline:
                left = len(wanted) - count + 1
                break
            try:
                line = recorder.record(run_of(*one))
            except (SystemExit, LogError, NothingToRun, OSError) as fault:
                failed.append("/".join(map(str, one)))
                line = f"{failed[-1]} FAILED: {fault}"
            print(f"{count}/{len(wanted)} {line}", flush=True)
    recorded = len(wanted) - left - len(failed)
    print(
        f"{recorded} runs recorded, {left} left out for want of time, {len(failed)} failed: {', '.join(failed) or 'none'}"
    )
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
