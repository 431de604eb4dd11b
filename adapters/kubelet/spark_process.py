"""The processes that Spark's containers become: the entrypoint of Spark's image, with the local Spark as the image.

An executor is ``java ... KubernetesExecutorBackend`` with the environment of its container, a driver in cluster mode
``spark-submit --deploy-mode client`` with its arguments. There is no image: jars and Python packages are those of the local
installation. The heap is the pod's, and an executor needs at least 450 MB of it, or it refuses to start.

The mounted spark.properties say that the driver listens at its Service; there is no cluster DNS, so it is the pod's address.
What they and the other files of the driver's config maps say of mount paths is said of the folders, but for what is about
the pods of executors, which have places of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtide.adapters.kubelet.container_paths import moved
from podtide.adapters.kubelet.pod_facts import Pod

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
EXECUTOR: Final = "executor"
DRIVER: Final = "driver"
PROPERTIES: Final = "spark.properties"
TEMPLATE: Final = "pod-spec-template.yml"
_OF_PODS: Final = re.compile(r"spark\.(executor\.|executorEnv\.|kubernetes\.(driver|executor)\.volumes\.)")
"""Settings whose paths are those of executors, or of manifests."""

_ASK: Final = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"
_ASK_S: Final = 60
_PASSED: Final = ("PATH", "JAVA_HOME", "LANG", "TZ", "HOME")


class NoSpark(Exception):
    """There is no Spark here that executors could run from; says why in one line."""


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


def spark_container(pod: Pod) -> Pod | None:
    """The container that runs the executor or the driver, if there is one."""
    return next((one for one in pod["spec"]["containers"] if spark_role(one)), None)


def spark_role(container: Pod) -> str:
    """What the image's entrypoint is told to be: executor, driver or, where it is something else, nothing."""
    role = next(iter(container.get("args") or ("",)), "")
    return role if role in {EXECUTOR, DRIVER} and not container.get("command") else ""


def decommissions(container: Pod) -> bool:
    """Whether the preStop hook is that of Spark's image."""
    hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command") or [""]
    return bool(spark_role(container)) and str(hook[-1]).endswith("decom.sh")


def executor_command(spark: LocalSpark, pod: str, env: Mapping[str, str], ip: str) -> list[str]:
    """The command of an executor's container. Raises KeyError for a variable that every executor has."""
    options = [env[key] for key in sorted((k for k in env if k.startswith("SPARK_JAVA_OPT_")), key=_last_number)]
    return [
        java() or "java", *options, "-Xms64m", f"-Xmx{env['SPARK_EXECUTOR_MEMORY']}", "-XX:+UseSerialGC",
        "-cp", f"{env.get('SPARK_CLASSPATH', '')}:{spark.home / 'jars'}/*", BACKEND,
        "--driver-url", env["SPARK_DRIVER_URL"], "--executor-id", env["SPARK_EXECUTOR_ID"],
        "--cores", env["SPARK_EXECUTOR_CORES"], "--app-id", env["SPARK_APPLICATION_ID"], "--hostname", ip,
        "--resourceProfileId", env["SPARK_RESOURCE_PROFILE_ID"], "--podName", pod,
    ]  # fmt: skip


def driver_command(spark: LocalSpark, arguments: list[str], ip: str) -> list[str]:
    """The command of a driver's container; ``arguments`` without the role."""
    return [
        str(spark.home / "bin" / "spark-submit"), "--conf", f"spark.driver.bindAddress={ip}",
        "--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={ip}", "--deploy-mode", "client", *arguments,
    ]  # fmt: skip


def base_environment(spark: LocalSpark) -> dict[str, str]:
    """What the image's environment would be: the local Spark, its Python first in the path."""
    env = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if spark.python is not None:
        # Workers are started as the driver's "python3": that of the installation comes first.
        env["PATH"] = f"{spark.python.absolute().parent}:{env.get('PATH', '')}"
    return env | {"SPARK_HOME": str(spark.home)}


def with_sources(spark: LocalSpark, env: Mapping[str, str]) -> dict[str, str]:
    """The environment with Spark's own Python packages before those that it names."""
    sources = sorted((spark.home / "python").glob("lib/*.zip"))
    python_path = ":".join(filter(None, [*map(str, sources), env.get("PYTHONPATH", "")]))
    return {**env, "PYTHONPATH": python_path, "SPARK_HOME": str(spark.home)}


def settle_driver_files(pod: Pod, container: Pod, places: Mapping[str, Path], ip: str) -> None:
    """Say in a driver's mounted config maps where it listens and where its volumes are. Raises OSError."""
    for file in config_files(pod, container, places):
        if file.name != TEMPLATE:
            mode = file.stat().st_mode
            lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            lines = [line if _OF_PODS.match(line) else moved(line, places) for line in lines]
            if file.name == PROPERTIES:
                # The last line of a key counts.
                lines += [f"spark.driver.host={ip}", f"spark.driver.bindAddress={ip}"]
            file.chmod(0o600)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
            file.chmod(mode & 0o7777)


def config_files(pod: Pod, container: Pod, places: Mapping[str, Path]) -> Iterator[Path]:
    """The files of the config maps that a container mounts."""
    config_maps = {volume["name"] for volume in pod["spec"].get("volumes", ()) if "configMap" in volume}
    for mount in container.get("volumeMounts", ()):
        if mount["name"] in config_maps:
            place = places[mount["mountPath"].rstrip("/") or "/"]
            yield from (file for file in ([place] if place.is_file() else sorted(place.rglob("*"))) if file.is_file())


def _last_number(name: str) -> int:
    return int(name.rpartition("_")[2])
