"""A Java home whose executors start as a cluster's do: late, each by a time of its own, and then quickly.

On a machine of two cores an executor's JVM takes what its neighbours leave, so that start-ups say more of the machine than
of Spark. Here ``bin/java`` is a wrapper:

- for an executor (CoarseGrainedExecutorBackend, or KubernetesExecutorBackend) it waits a time that was drawn beforehand by
  executor id, as a cluster manager, an image and a container take their time; notes the process id, so that an application
  may kill the executor; and starts the real JVM with a class-data archive, which takes half the processor time of a start
  away;
- the driver gets an archive, too, and as little of compiler and collector as the executors, but no wait;
- everything else is passed on.

Archives are made once for a Spark home: a run with ``CLASSES_LISTED`` set lists the classes, ``make_archives`` archives
them. The JVM refuses archives whose class path has folders, so the conf folder is taken out of it, and log4j gets its file
by a property.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Final

MEDIAN_S: Final = 3.2
SIGMA: Final = 0.4
SHORTEST_S: Final = 1.5
LONGEST_S: Final = 9.0
EXECUTORS: Final = 60
"""More executors than any run starts."""

_WRAPPER: Final = """\
#!/bin/bash
real={real}
case " $* " in
*" org.apache.spark.launcher.Main "*) exec "$real" "$@" ;;
*" org.apache.spark.executor.CoarseGrainedExecutorBackend "*) role=executor ;;
*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend "*) role=executor ;;
*" org.apache.spark.deploy.SparkSubmit "*) role=driver ;;
*) exec "$real" "$@" ;;
esac
arguments=()
while [ $# -gt 0 ]; do
    case "$1" in
    -cp)
        classpath=$(echo "$2" | tr ':' '\\n' | grep 'jars/' | paste -sd:)
        arguments+=(-cp "$classpath")
        shift
        ;;
    --executor-id) executor=$2; arguments+=("$1" "$2"); shift ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
archive={archives}/$role
if [ -n "$CLASSES_LISTED" ]; then
    if mkdir "$archive.listed" 2> /dev/null; then
        archived=-XX:DumpLoadedClassList=$archive.classes
        echo "$classpath" > "$archive.classpath"
    fi
else
    archived="-XX:SharedArchiveFile=$archive.jsa -Xshare:auto"
fi
if [ $role = driver ]; then
    log4j=-Dlog4j2.configurationFile=file:$SPARK_CONF_DIR/log4j2.properties
    exec "$real" $archived -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "$log4j" "${{arguments[@]}}"
fi
echo $$ > "$EXECUTOR_PROCESSES/$executor"
sleep "$(cat "$EXECUTOR_DELAYS/$executor")"
exec "$real" $archived "${{arguments[@]}}"
"""


def java_home(folder: Path, real: Path) -> Path:
    """Make the Java home in ``folder``. ``real``: the java that it stands for."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "archives").mkdir(exist_ok=True)
    wrapper = folder / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(real=real, archives=folder / "archives"), encoding="utf-8")
    wrapper.chmod(0o755)
    return folder


def has_archives(home: Path) -> bool:
    """Whether both archives are there."""
    return all((home / "archives" / f"{role}.jsa").exists() for role in ("driver", "executor"))


def make_archives(home: Path, real: Path) -> None:
    """Archive the classes that a run listed. Ends the program where Java refuses."""
    for role in ("driver", "executor"):
        stem = home / "archives" / role
        done = subprocess.run(
            [
                real,
                "-Xshare:dump",
                "-XX:+UseSerialGC",
                f"-XX:SharedClassListFile={stem}.classes",
                f"-XX:SharedArchiveFile={stem}.jsa",
                "-cp",
                Path(f"{stem}.classpath").read_text(encoding="utf-8").strip(),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"Java made no class-data archive:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def start_delays(seed: str) -> list[float]:
    """Seconds that each executor waits before its JVM starts, by executor id: lognormal, within bounds."""
    draws = random.Random(seed)
    return [
        round(min(LONGEST_S, max(SHORTEST_S, draws.lognormvariate(log(MEDIAN_S), SIGMA))), 3) for _ in range(EXECUTORS)
    ]


def environment(folder: Path, home: Path, delays: Sequence[float], *, classes_listed: bool = False) -> dict[str, str]:
    """Write the delays into ``folder``; return the variables that the wrapper, and an application that kills, read."""
    waiting, processes = folder / "delays", folder / "processes"
    waiting.mkdir()
    processes.mkdir()
    for executor, delay in enumerate(delays):
        (waiting / str(executor)).write_text(f"{delay}\n", encoding="utf-8")
    given = {"JAVA_HOME": str(home), "EXECUTOR_DELAYS": str(waiting), "EXECUTOR_PROCESSES": str(processes)}
    return {**given, "CLASSES_LISTED": "yes"} if classes_listed else given


def real_java() -> Path:
    """The java of this machine."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    for folder in os.environ["PATH"].split(os.pathsep):
        if (java := Path(folder) / "java").exists():
            return java.resolve()
    sys.exit("no java on the PATH")
