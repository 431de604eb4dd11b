"""Real Spark drivers for tests: PySpark in client mode against the API server, told what to do line by line.

``PODTIDE_SPARK_PYTHON`` names a Python that has pyspark 4.3; without it whoever asks for a driver is skipped, loudly. The
driver runs in a process of its own (``spark_program.py``), with its web interface and REST API on, an event log, and a
log file in which those who allocate speak at DEBUG, with milliseconds, in UTC.

``ASLEEP`` and ``SWITCHED_OFF`` are the two confs under which a driver leaves its executors to somebody else;
docs/how-to/live.md says why each line is there.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest
import yaml

from podtide.adapters.kubelet.kubelet import Kubelet, KubeletConfig, process_kubelet
from podtide.adapters.kubelet.spark_process import LocalSpark, pyspark_of
from podtide.domain.fakes.kubernetes.real_pods import uniform
from tests.live.cluster import Cluster
from tests.support.project import PROJECT

PROGRAM: Final = Path(__file__).with_name("spark_program.py")
VARIABLE: Final = "PODTIDE_SPARK_PYTHON"
START_S: Final = 120.0
RELEASES: Final = ("4.3", "4.0", "3.5")
"""Of Spark; the first is the one whose decisions podtide makes."""

ASLEEP: Final[Mapping[str, str]] = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "3650d",
    "spark.dynamicAllocation.executorIdleTimeout": "3650d",
    "spark.executor.maxNumFailures": "2147483647",
    "spark.decommission.enabled": "true",
    "spark.ui.liveUpdate.period": "0",
}
"""The conf of a driver for which somebody else acts: dynamic allocation that never wakes up."""

SWITCHED_OFF: Final[Mapping[str, str]] = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.executor.instances": "1",
    "spark.kubernetes.allocation.maximum": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "3650d",
    "spark.executor.maxNumFailures": "2147483647",
    "spark.decommission.enabled": "true",
    "spark.ui.liveUpdate.period": "0",
}
"""The same with dynamic allocation off: the driver wants one executor and may not create any."""

OUTSPOKEN: Final = (
    "org.apache.spark.ExecutorAllocationManager",
    "org.apache.spark.scheduler.dynalloc.ExecutorMonitor",
    "org.apache.spark.scheduler.cluster.k8s",
)
"""Loggers at DEBUG."""


def spark_python(release: str = RELEASES[0]) -> str:
    """The Python that has pyspark of a release, or skip."""
    if release == RELEASES[0]:
        python = os.environ.get(VARIABLE)
        if not python:
            pytest.skip(f"{VARIABLE} names no Python with pyspark {release}: nothing was tried with real Spark")
        return python
    older = PROJECT / f".venv-spark-{release}" / "bin" / "python"
    if not older.exists():
        pytest.skip(f"no Python with pyspark {release}, which make live makes: nothing was tried with Spark {release}")
    return str(older)


def cluster_run(folder: Path, python: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``podtide cluster`` with a program, which ended well. ``folder``: for temporary files; ``python``: has pyspark."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": f"{PROJECT}/.typing", "TMPDIR": str(folder)}
    environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"
    command = [sys.executable, "-m", "podtide", "cluster", *words]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    return ran


class SparkFailed(Exception):
    """The driver did not do what it was told; the end of its output is in the message."""


class SparkDriver:
    """A driver under way: ``with SparkDriver(...) as driver: driver.job(60, 0.5)``.

    ``conf`` overrides the defaults below. ``folder`` gets the driver's log (``driver.log``), its output and its event log.
    """

    def __init__(
        self, python: str, kubeconfig: str, namespace: str, folder: Path, conf: Mapping[str, str], name: str = "truth"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / "driver.log"
        self.events = folder / "events"
        self.events.mkdir(exist_ok=True)
        self.ui_port, self.driver_port, blocks = free_ports(3)
        self.app_id = f"spark-{name}-{os.getpid()}-{self.driver_port}"
        self.conf = {
            "spark.app.name": name,
            "spark.app.id": self.app_id,
            "spark.master": f"k8s://{_server(kubeconfig)}",
            "spark.kubernetes.namespace": namespace,
            "spark.kubernetes.container.image": "none",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.port": str(self.driver_port),
            "spark.driver.blockManager.port": str(blocks),
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{self._log4j()} -XX:+UseSerialGC",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self.ui_port),
            "spark.ui.showConsoleProgress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "0s",
            **conf,
        }
        self.app_id = self.conf["spark.app.id"]
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        conf_file = folder / "conf.json"
        conf_file.write_text(json.dumps(self.conf, indent=1))
        env = {**os.environ, "KUBECONFIG": kubeconfig, "PYSPARK_PYTHON": python, "TZ": "UTC"}
        self._err = (folder / "driver.err").open("wb")
        self._process = subprocess.Popen(
            [python, str(PROGRAM), str(conf_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            env=env,
            text=True,
            start_new_session=True,
            cwd=folder,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> SparkDriver:
        try:
            self.up = self.answer("up", START_S)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """Where its web interface and REST API are."""
        return f"http://127.0.0.1:{self.ui_port}"

    def tell(self, line: str) -> None:
        """Give one command to the program."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise SparkFailed(f"the driver is gone: {self._last_words()}") from None

    def answer(self, event: str, timeout_s: float) -> dict[str, Any]:
        """The next answer, which must be of this kind."""
        try:
            said = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise SparkFailed(f"no {event!r} within {timeout_s} s: {self._last_words()}") from None
        if said.get("event") != event or "error" in said:
            raise SparkFailed(f"expected {event!r}, got {said}: {self._last_words()}")
        return said

    def job(self, tasks: int, seconds: float, timeout_s: float = 120.0) -> int:
        """Run one job to its end; its answer, the sum of 1..tasks."""
        self.tell(f"job 1 {tasks} {seconds}")
        return int(self.answer("job", timeout_s)["answer"])

    def executors(self) -> list[str]:
        """The ids of registered executors."""
        self.tell("executors")
        return list(self.answer("executors", 30)["ids"])

    def rest(self, path: str) -> Any:
        """What the REST API says below the application."""
        with urllib.request.urlopen(f"{self.url}/api/v1/applications/{self.app_id}/{path}", timeout=10) as said:
            return json.load(said)

    def quit(self, timeout_s: float = 60.0) -> None:
        """Stop the context and wait for the end of the process."""
        self.tell("quit")
        self.answer("stopped", timeout_s)
        self._process.wait(timeout_s)

    def kill(self) -> None:
        """End the process, whatever it does; its JVM ends with it."""
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, 15)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, 9)
                self._process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._err.close()

    def log_lines(self) -> list[str]:
        """What the driver's log holds so far."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._answers.put(json.loads(line))
        self._answers.put({"event": "end", "error": "the driver ended"})

    def _last_words(self) -> str:
        errors = (self.folder / "driver.err").read_text(errors="replace")[-2000:]
        return "\n".join([errors, *self.log_lines()[-15:]])

    def _log4j(self) -> Path:
        file = self.folder / "log4j2.properties"
        lines = [
            "rootLogger.level = info",
            "rootLogger.appenderRef.file.ref = file",
            "appender.file.type = File",
            "appender.file.name = file",
            f"appender.file.fileName = {self.log}",
            "appender.file.layout.type = PatternLayout",
            "appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS}{UTC} %p %c{1}: %m%n%ex",
        ]
        for number, name in enumerate(OUTSPOKEN):
            lines += [f"logger.n{number}.name = {name}", f"logger.n{number}.level = debug"]
        file.write_text("\n".join(lines) + "\n")
        return file


@contextmanager
def executors(python: str, cluster: Cluster, namespace: str, folder: Path, most: int) -> Iterator[Kubelet]:
    """Kubelets that run executors as processes of a Python's Spark, ``most`` at once."""
    home = pyspark_of(python)
    assert home is not None
    api = cluster.api()
    config = KubeletConfig(namespace, folder, uniform(1, most))
    with closing(api), process_kubelet(api, config, LocalSpark(home, Path(python))) as kubelet:
        yield kubelet


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _server(kubeconfig: str) -> str:
    document = yaml.safe_load(Path(kubeconfig).read_text())
    current = next(one for one in document["contexts"] if one["name"] == document["current-context"])
    cluster = next(one for one in document["clusters"] if one["name"] == current["context"]["cluster"])
    return str(cluster["cluster"]["server"])
