"""The process that a Spark executor's pod becomes: the entrypoint of Spark's image, with the local Spark as the image.

The environment is that of the pod's Spark container and the command its ``executor`` branch: ``java ...
KubernetesExecutorBackend``. There is no image: jars and Python packages are those of the local installation. The heap is the
pod's, and an executor needs at least 450 MB of it, or it refuses to start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from podtide.adapters.kubelet.processes import begin_session
from podtide.domain.jvm.quantities import parse_quantity

Pod: TypeAlias = dict[str, Any]

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ROLES: Final = frozenset({"executor", "driver"})
_ASK: Final = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"
_ASK_S: Final = 60
_PASSED: Final = ("PATH", "JAVA_HOME", "LANG", "TZ", "HOME")


class NoSpark(Exception):
    """There is no Spark here that executors could run from; says why in one line."""


class NoExecutor(Exception):
    """A pod that this kubelet cannot run; says why in one line."""


@dataclass(frozen=True)
class LocalSpark:
    """A Spark installation: its folder, and the Python for its workers (None: python3 of the path)."""

    home: Path
    python: Path | None = None


def local_spark(command: tuple[str, ...], environment: Mapping[str, str]) -> LocalSpark:
    """The Spark of a command: $SPARK_HOME, that of its Python or of its own folder, or python3's. Raises NoSpark."""
    path = environment.get("PATH")
    if home := environment.get("SPARK_HOME"):
        return _checked(LocalSpark(Path(home)))
    candidates = []
    program = shutil.which(command[0], path=path) if command else None
    if program is not None:
        folder = Path(program).parent
        if Path(program).name.startswith(("python", "pypy")):
            candidates.append(program)
        elif (folder.parent / "jars").is_dir():
            return _checked(LocalSpark(folder.parent))
        else:
            candidates.append(str(folder / "python"))
    candidates += filter(None, (shutil.which(name, path=path) for name in ("python3", "python")))
    for python in candidates:
        if (found := pyspark_of(python)) is not None:
            return _checked(LocalSpark(found, Path(python)))
    raise NoSpark("no Spark was found: neither $SPARK_HOME nor a Python with pyspark (pip install pyspark)")


def pyspark_of(python: str) -> Path | None:
    """The folder of a Python's pyspark; None where it has none."""
    try:
        ran = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_S, check=False)  # noqa: S603 - a Python
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(ran.stdout.strip()) if ran.returncode == 0 else None


def _checked(spark: LocalSpark) -> LocalSpark:
    if not (spark.home / "jars").is_dir():
        raise NoSpark(f"{spark.home} is no Spark installation: it has no folder jars")
    if java() is None:
        raise NoSpark("no Java was found: neither $JAVA_HOME nor java on the path")
    return spark


def java() -> str | None:
    """The java program, as Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def spark_container(pod: Pod) -> Pod:
    """The container that runs the executor or the driver."""
    containers: list[Pod] = pod["spec"]["containers"]
    return next((one for one in containers if _role(one) in ROLES), containers[-1])


def is_driver(pod: Pod) -> bool:
    """Whether it is a driver's pod, in cluster mode."""
    return _role(spark_container(pod)) == "driver"


def _role(container: Pod) -> str:
    """What the image's entrypoint is told to be."""
    return next(iter(container.get("args") or ("",)), "")


def refuse_others(pod: Pod) -> None:
    """Raise NoExecutor for a pod of which something would be left out."""
    if _role(spark_container(pod)) not in ROLES:
        raise NoExecutor("only pods of Spark's executors and drivers are run as processes")
    if pod["spec"].get("initContainers"):
        raise NoExecutor("init containers are not run")
    if len(pod["spec"]["containers"]) > 1:
        raise NoExecutor("containers beside Spark's are not run")


def begun(spark: LocalSpark, pod: Pod, ip: str, folder: Path, log: int) -> subprocess.Popen[bytes]:
    """Start the process of an executor's pod; ``folder`` is its own, ``log`` a file descriptor."""
    env = pod_environment(spark, pod, ip, folder)
    options = [env[key] for key in sorted((k for k in env if k.startswith("SPARK_JAVA_OPT_")), key=_last_number)]
    command = [
        java() or "java", *options, "-Xms64m", f"-Xmx{env['SPARK_EXECUTOR_MEMORY']}", "-XX:+UseSerialGC",
        "-cp", f"{env.get('SPARK_CLASSPATH', '')}:{spark.home / 'jars'}/*", BACKEND,
        "--driver-url", env["SPARK_DRIVER_URL"], "--executor-id", env["SPARK_EXECUTOR_ID"],
        "--cores", env["SPARK_EXECUTOR_CORES"], "--app-id", env["SPARK_APPLICATION_ID"], "--hostname", ip,
        "--resourceProfileId", env["SPARK_RESOURCE_PROFILE_ID"], "--podName", pod["metadata"]["name"],
    ]  # fmt: skip
    return begin_session(command, env, folder, log)


def memory_limit(pod: Pod) -> int | None:
    """What the executor's container may have, in bytes; None: as much as there is."""
    limit = spark_container(pod).get("resources", {}).get("limits", {}).get("memory")
    amount = None if limit is None else parse_quantity(str(limit))
    return None if amount is None else int(amount)


def pod_environment(spark: LocalSpark, pod: Pod, ip: str, folder: Path) -> dict[str, str]:
    """The environment of the pod's Spark container, with the local Spark in the place of the image's."""
    env = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if spark.python is not None:
        # Workers are started as the driver's "python3": that of the installation comes first.
        env["PATH"] = f"{spark.python.absolute().parent}:{env.get('PATH', '')}"
    fields: Mapping[str, str] = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "status.podIP": ip,
        "status.hostIP": "127.0.0.1",
    }
    for entry in spark_container(pod).get("env", ()):
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        env[entry["name"]] = fields.get(field, "") if field else entry.get("value", "")
    sources = sorted((spark.home / "python").glob("lib/*.zip"))
    env["PYTHONPATH"] = ":".join(filter(None, [*map(str, sources), env.get("PYTHONPATH", "")]))
    return env | {"SPARK_HOME": str(spark.home), "SPARK_LOCAL_DIRS": str(folder / "local")}


def _last_number(name: str) -> int:
    return int(name.rpartition("_")[2])
