"""``podtide run`` as a process of its own, beside or in charge of a real driver; its recording, its end, its replay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.live.cluster import Cluster
from tests.live.life import figures
from tests.live.server import free_ports
from tests.live.spark_driver import SparkDriver
from tests.live.waiting import until
from tests.support.project import PROJECT

PROGRAM = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main()"]
ENVIRONMENT = {"PYTHONPATH": str(PROJECT / ".typing"), "COLUMNS": "200"}


class Run:
    """``with Run(cluster, namespace, folder, driver, conf, "--mode", "act") as run:``; ends with SIGTERM."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        folder: Path,
        driver: SparkDriver,
        conf: Mapping[str, str],
        *options: str,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.recording = folder / "run.jsonl"
        self._port = free_ports(1)
        self._said = folder / "said.txt"
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command = [
            *PROGRAM, "run", "--app-id", driver.app_id, "--namespace", namespace, "--kubeconfig", str(cluster.admin),
            "--driver-url", driver.url, "--record", str(self.recording), "--metrics-port", str(self._port),
            *settings, *options,
        ]  # fmt: skip
        self._out = self._said.open("wb")
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Run:
        try:
            until(self._begun, 90, "a run under way")
        except BaseException:
            self.kill()
            print(self.said())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if problem is not None:
            print(self.said()[-8000:])  # pytest shows it

    def _begun(self) -> bool:
        assert self._process.poll() is None, self.said()
        return self.recording.exists() and self.recording.stat().st_size > 0

    def said(self) -> str:
        """What it printed so far."""
        return self._said.read_text(errors="replace")

    def figures(self) -> dict[str, int]:
        """How things stand now: see ``life.figures``."""
        return figures(self._port)

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)
        self._out.close()


def replays(recording: Path) -> bool:
    """Whether a recording is decided again as it was decided."""
    checked = subprocess.run(
        [*PROGRAM, "replay", str(recording), "--check"],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if checked.returncode:
        print(checked.stdout[-4000:], checked.stderr[-4000:])
    return checked.returncode == 0
