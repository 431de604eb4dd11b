"""The two rivals: a real Spark driver in client mode, and ``podtide run --mode act``, each as a process of its own.

Both get the same settings and the same kubeconfig, of a user who may do what a driver may and nothing else. The driver's
web interface, event log and DEBUG lines are off, so that nothing but its executors occupies it. Its executors never
register, because hollow pods run nothing; its allocator does not wait for that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Protocol, Self

from tests.live.spark_driver import SparkDriver

from .counting import descendant

PROJECT: Final = Path(__file__).resolve().parents[2]
PODTIDE: Final = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main()"]
START_S: Final = 240.0
STOP_S: Final = 300.0

RIGHTS: Final[Sequence[Mapping[str, Sequence[str]]]] = [
    {"apiGroups": [group], "resources": resources, "verbs": verbs}
    for verbs in [["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]]
    for group, resources in (
        ("", ["pods", "configmaps", "services", "persistentvolumeclaims"]),
        ("apps", ["statefulsets", "deployments"]),
        ("coordination.k8s.io", ["leases"]),
    )
]
"""What the user of both may do in a namespace."""


def settings(batch_size: int) -> dict[str, str]:
    """The Spark settings that both get. Everything else is as Spark has it by default."""
    return {
        "spark.kubernetes.allocation.batch.size": str(batch_size),
        "spark.kubernetes.container.image": "busybox",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.dynamicAllocation.enabled": "false",
    }


class Rival(Protocol):
    """Somebody in charge of executor pods, as long as the block runs."""

    name: str
    app_id: str

    def __enter__(self) -> Self:
        """Start."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever it does."""
        ...

    @property
    def pid(self) -> int:
        """The process that decides."""
        ...

    def stop(self) -> float:
        """Let it end as it should and delete its pods; the seconds that took."""
        ...


class Spark:
    """A Spark driver with a static number of executors: ``with Spark(...) as spark:``."""

    name = "Spark"

    def __init__(self, python: str, kubeconfig: Path, namespace: str, folder: Path, target: int, batch: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        quiet = folder / "quiet.properties"
        quiet.write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.file.ref = file\nappender.file.type = File\n"
            f"appender.file.name = file\nappender.file.fileName = {folder / 'driver.log'}\n"
            "appender.file.layout.type = PatternLayout\nappender.file.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex\n"
        )
        conf = {
            **settings(batch),
            "spark.executor.instances": str(target),
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet}",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "false",
        }
        self._driver = SparkDriver(python, str(kubeconfig), namespace, folder, conf, "bench")
        self.app_id = self._driver.app_id
        self._jvm: int | None = None

    def __enter__(self) -> Self:
        try:
            self._driver.answer("up", START_S)  # longer than tests wait: with 1,000 pods under way it is busy
        except BaseException:
            self.kill()
            raise
        self._jvm = descendant("java")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The JVM."""
        assert self._jvm is not None, "the driver has no JVM"
        return self._jvm

    def stop(self) -> float:
        """SparkSession.stop, to the end of the process."""
        began = time.monotonic()
        self._driver.quit(STOP_S)
        return time.monotonic() - began

    def die(self) -> None:
        """Let its JVM end as by a node that fails: nothing is deleted."""
        os.kill(self.pid, signal.SIGKILL)
        self.kill()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._driver.kill()


class Podtide:
    """``podtide run`` with a number for a target: ``with Podtide(...) as podtide:``."""

    name = "podtide"

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path, target: int, batch: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.app_id = f"podtide-bench-{os.getpid()}-{namespace[-8:]}"
        conf = {**settings(batch), "spark.driver.host": "127.0.0.1", "spark.driver.port": "7078"}
        self._command = [
            *PODTIDE, "run", "--app-id", self.app_id, "--namespace", namespace, "--kubeconfig", str(kubeconfig),
            "--mode", "act", "--target", str(target), "--on-exit", "delete", "--log-format", "json", "--no-view",
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
        ]  # fmt: skip
        self.log = folder / "podtide.jsonl"
        self._out: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._out = self.log.open("wb")
        self._process = subprocess.Popen(
            self._command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The one process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> float:
        """SIGTERM, to the end of the process."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        assert code == 0, f"podtide ended with {code}: {self.log.read_text(errors='replace')[-2000:]}"
        return time.monotonic() - began

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        if self._out is not None:
            self._out.close()


def environment() -> dict[str, str]:
    """That of this process, with the checkout's own podtide."""
    return {**os.environ, "PYTHONPATH": str(PROJECT / ".typing"), "COLUMNS": "200"}


def podtide_stop(app_id: str, kubeconfig: Path, namespace: str) -> float:
    """``podtide stop`` on what somebody left behind; the seconds that took. Raises CalledProcessError."""
    began = time.monotonic()
    subprocess.run(
        [*PODTIDE, "stop", "--app-id", app_id, "--namespace", namespace, "--kubeconfig", str(kubeconfig)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=STOP_S,
    )
    return time.monotonic() - began
