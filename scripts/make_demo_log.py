"""Make the demo's event log with real Spark: ``python scripts/make_demo_log.py [--spark-python PYTHON]``.

Runs demo/app.py for about a minute and a half on Spark 4.3.0, executors as separate JVMs (local-cluster), with
dynamic allocation and shuffle tracking on, and keeps two things in demo/:

- ``eventlog_v2_<app>/``: the event log as Spark writes it by default, a rolled folder of zstd files;
- ``driver-decisions.log``: what the driver's ExecutorAllocationManager, ExecutorMonitor and scheduler backend
  said at DEBUG and INFO while they decided. A test replays the log and compares.

A log names the machine that it was made on. So that the demo speaks of Spark alone, the run gets a neutral
environment (user ``demo``, host 127.0.0.1, a Spark home of its own, an application without a path), and the
one event that still lists the machine, SparkListenerEnvironmentUpdate, is edited afterwards:

- ``System Properties`` keep the few of SYSTEM_PROPERTIES_KEPT; ``Hadoop Properties`` and ``Classpath Entries``
  are emptied, which also takes nine tenths of the line away;
- paths of this machine in ``JVM Information`` and ``Spark Properties`` become /opt/... paths.

Every other line stays as it was, byte by byte, and the frames of the compressed file are kept apart as Spark
kept them. The run is refused if any trace of the machine is left. From the decisions log go only the lines that
repeat at every 100 ms tick (DROPPED, and repetitions of one of the last two lines).

Needs Java 17 and an interpreter with pyspark 4.3.0 (``make conformance`` makes .venv-spark), and zstandard in
the interpreter that runs this script.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import zstandard

PROJECT: Final = Path(__file__).resolve().parent.parent
DEMO: Final = PROJECT / "demo"
SPARK_VERSION: Final = "4.3.0"
EXIT_S: Final = 15
"""What the JVMs of an application that has ended get to leave."""

CONF: Final = {
    "spark.app.name": "podtide-demo",
    "spark.master": "local-cluster[6,1,512]",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "5",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "30s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "15s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.logBlockUpdates.enabled": "true",
}

RUN_WITHOUT_PATH: Final = "import sys; exec(compile(sys.stdin.read(), 'app.py', 'exec'), {'__name__': '__main__'})"
"""PySpark writes the caller's file and line into every stage: let the file be called ``app.py``."""

SYSTEM_PROPERTIES_KEPT: Final = (
    "file.encoding",
    "java.specification.version",
    "java.vm.name",
    "os.arch",
    "os.name",
    "user.timezone",
)

LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
appender.decisions.type = File
appender.decisions.name = decisions
appender.decisions.fileName = ${env:DEMO_DECISIONS}
appender.decisions.layout.type = PatternLayout
appender.decisions.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n
logger.manager.name = org.apache.spark.ExecutorAllocationManager
logger.manager.level = debug
logger.manager.additivity = false
logger.manager.appenderRef.decisions.ref = decisions
logger.monitor.name = org.apache.spark.scheduler.dynalloc.ExecutorMonitor
logger.monitor.level = debug
logger.monitor.additivity = false
logger.monitor.appenderRef.decisions.ref = decisions
logger.backend.name = org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
logger.backend.level = info
logger.backend.additivity = false
logger.backend.appenderRef.decisions.ref = decisions
logger.client.name = org.apache.spark.deploy.client.StandaloneAppClient
logger.client.level = info
logger.client.additivity = false
logger.client.appenderRef.decisions.ref = decisions
"""

DROPPED: Final = (
    "No change in number of executors",
    "Not adding executors because our current target",
    "max needed for rpId",
)
"""Said at every tick; nothing is decided by them."""


def neutral_paths(log: Path, folder: Path, spark_python: Path) -> dict[str, str]:
    """What the paths of this machine are called in a log that is kept."""
    raw = b"".join(b"".join(frames(f.read_bytes())) for f in sorted(log.glob("*.zstd"))).decode()
    java_home = json.loads(next(x for x in raw.splitlines() if "EnvironmentUpdate" in x))["JVM Information"]
    return {
        str(folder / "spark"): "/opt/spark",
        str(folder): "/opt/demo",
        str(spark_python.parent.parent): "/opt/python",
        java_home["Java Home"]: "/opt/java",
        str(PROJECT): "/opt/demo/src",
    }


def spark_home(spark_python: Path, folder: Path) -> Path:
    """Return a Spark home made of links into the pyspark package; workers write below it, not into the package."""
    found = subprocess.run(
        [spark_python, "-c", "import pyspark; print(pyspark.__version__, pyspark.__path__[0])"],
        capture_output=True,
        text=True,
        check=False,
    )
    version, _, package = found.stdout.strip().partition(" ")
    if found.returncode or version != SPARK_VERSION:
        sys.exit(f"{spark_python} has no pyspark {SPARK_VERSION} (it has {version or 'none'})")
    home = folder / "spark"
    home.mkdir()
    for entry in Path(package).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


def run(
    spark_python: Path,
    folder: Path,
    app: Path = DEMO / "app.py",
    conf_given: Mapping[str, str] = CONF,
    *,
    home: Path | None = None,
    log4j: str = LOG4J,
    variables: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
    priority: int = 0,
    limit_s: float | None = None,
) -> tuple[Path, Path]:
    """Run the application; return the event log's folder and the raw decisions log.

    ``home``: a Spark home that is there already. ``variables``: more of the environment. ``launcher``: a command that runs
    the application's. ``priority``: a negative value asks for more of the processor, where the user may. After ``limit_s``
    the run is ended. Ends the program on a failure.
    """
    home = home or spark_home(spark_python, folder)
    conf, events, decisions = folder / "conf", folder / "events", folder / "decisions.log"
    conf.mkdir()
    events.mkdir()
    (conf / "log4j2.properties").write_text(log4j)
    settings = {**conf_given, "spark.eventLog.dir": events.as_uri(), "spark.local.dir": str(folder / "local")}
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_USER": "demo",
        "HADOOP_USER_NAME": "demo",
        "PYSPARK_PYTHON": str(spark_python),
        "DEMO_DECISIONS": str(decisions),
    }
    if java := os.environ.get("JAVA_HOME"):
        environment["JAVA_HOME"] = java
    environment.update(variables or {})
    console = folder / "console.log"
    with console.open("w") as output, app.open() as program:
        process = subprocess.Popen(
            [*launcher, spark_python, "-c", RUN_WITHOUT_PATH],
            stdin=program,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        if priority:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, process.pid, priority)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = 1
        finally:
            end_group(process, 0 if process.returncode is None else EXIT_S)
    if code:
        sys.exit(f"the application failed:\n{console.read_text()[-4000:]}")
    logs = sorted(events.glob("eventlog_v2_*"))
    if len(logs) != 1:
        sys.exit(f"expected one rolled event log, found {[log.name for log in logs]}")
    return logs[0], decisions


def end_group(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """End what the program started and left behind: the driver's JVM leaves a moment after Python, executors after that."""
    deadline = time.monotonic() + patience_s
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def frames(compressed: bytes) -> Iterator[bytes]:
    """Yield the content of each zstd frame: Spark closes one at every flush."""
    while compressed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(compressed)
        compressed = frame.unused_data


def scrub_environment(line: str, paths: dict[str, str]) -> str:
    """Return the SparkListenerEnvironmentUpdate line without the machine; key order and format are Spark's."""
    event = json.loads(line)
    system: dict[str, str] = event["System Properties"]
    event["System Properties"] = {key: system[key] for key in SYSTEM_PROPERTIES_KEPT if key in system}
    event["Hadoop Properties"] = {}
    event["Classpath Entries"] = {}
    for section in ("JVM Information", "Spark Properties"):
        for key, value in event[section].items():
            event[section][key] = replaced(value, paths)
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)


def replaced(text: str, paths: dict[str, str]) -> str:
    """Return the text with each path of this machine (longest first) given its neutral name."""
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    return text


def scrub(log: Path, target: Path, paths: dict[str, str]) -> list[str]:
    """Copy a rolled log file by file, its environment scrubbed; return all lines written."""
    target.mkdir(parents=True)
    written: list[str] = []
    for source in sorted(log.iterdir()):
        if source.name.startswith("."):
            continue  # checksums of Hadoop's local file system
        if source.suffix != ".zstd":
            shutil.copy(source, target / source.name)
            continue
        with (target / source.name).open("wb") as out:
            for content in lines_per_frame(source.read_bytes()):
                lines = [
                    scrub_environment(line, paths) if '"SparkListenerEnvironmentUpdate"' in line else line
                    for line in content
                ]
                written += lines
                text = "".join(line + "\n" for line in lines)
                out.write(zstandard.ZstdCompressor(level=19).compress(text.encode()))
    return written


def lines_per_frame(compressed: bytes) -> Iterator[list[str]]:
    """Yield the whole lines that ended in each frame (a line may begin in the frame before)."""
    rest = b""
    for content in frames(compressed):
        *whole, rest = (rest + content).split(b"\n")
        if whole:
            yield [line.decode() for line in whole]
    if rest:
        sys.exit("the event log ends in the middle of a line: was the application killed?")


def scrub_decisions(source: Path, target: Path) -> list[str]:
    """Copy the decisions without what repeats at every tick; return the lines written."""
    kept: list[str] = []
    recent: list[str] = []
    for line in source.read_text().splitlines():
        message = line.split(" ", 2)[2] if line.count(" ") > 2 else line
        if any(dropped in message for dropped in DROPPED):
            continue
        if message not in recent:
            kept.append(line)
            recent = [*recent[-1:], message]
    target.write_text("".join(line + "\n" for line in kept))
    return kept


def traces(lines: list[str], paths: dict[str, str]) -> list[str]:
    """Return what still names this machine, as ``trace: the text around it``."""
    names = [*paths, str(PROJECT)]
    patterns = [re.escape(name) for name in names if name != "/"]
    patterns += [
        rf"(?<![\w.])(?<!execution-){re.escape(word)}(?![\w.])"  # Spark's job tags: -execution-root-id-
        for word in {getpass.getuser(), socket.gethostname()} - {"demo"}
    ]
    suspect = re.compile("|".join(patterns))
    return [
        f"{hit.group()}: {line[max(0, hit.start() - 100) : hit.end() + 100]}"
        for line in lines
        if (hit := suspect.search(line))
    ]


def manifest(lines: list[str]) -> dict[str, Any]:
    """Return the counts that demo/README.md quotes."""
    events: dict[str, int] = {}
    for line in lines:
        name = json.loads(line)["Event"].rpartition(".")[2]
        events[name] = events.get(name, 0) + 1
    return dict(sorted(events.items()))


def main() -> None:
    """Run, scrub, check, install."""
    parser = argparse.ArgumentParser(description="Make the demo's event log with real Spark.")
    default = PROJECT / ".venv-spark" / "bin" / "python"
    parser.add_argument("--spark-python", type=Path, default=default, help="interpreter that has pyspark 4.3.0")
    parser.add_argument("--out", type=Path, default=DEMO, help="folder for the log and the decisions")
    arguments = parser.parse_args()
    spark_python = Path.cwd() / arguments.spark_python  # resolving links would leave the virtual environment
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        folder = Path(name).resolve()
        log, decisions = run(spark_python, folder)
        paths = neutral_paths(log, folder, spark_python)
        target = folder / "out" / log.name
        lines = scrub(log, target, paths)
        decision_lines = scrub_decisions(decisions, folder / "out" / "driver-decisions.log")
        if left := traces(lines + decision_lines, paths):
            sys.exit("the log still names this machine:\n" + "\n".join(left[:20]))
        for old in arguments.out.glob("eventlog_v2_*"):
            shutil.rmtree(old)
        arguments.out.mkdir(parents=True, exist_ok=True)
        shutil.copytree(target, arguments.out / target.name)
        shutil.copy(folder / "out" / "driver-decisions.log", arguments.out)
        print(f"{arguments.out / target.name}: {len(lines)} events, {len(decision_lines)} lines of decisions")
        print(json.dumps(manifest(lines), indent=1))


if __name__ == "__main__":
    main()
