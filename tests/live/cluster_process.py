"""``podtide cluster`` as a process that stays, with a cluster file and a record: real clients meet its faults.

``with ClusterProcess(folder, python, file) as process:``; ``cluster`` is what tests do to it. SIGTERM ends it, and then
``record`` says what happened: every call and the fault that it met, every change of an object.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.live.cluster import USER, Cluster
from tests.live.waiting import until
from tests.support.project import PROJECT

UP_S = 60.0
END_S = 60.0


class ClusterProcess:
    """The process. ``python``: has the pyspark that is the image of its pods. ``description``: a cluster file's text."""

    def __init__(self, folder: Path, python: str, description: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._record = folder / "record.jsonl"
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        file = folder / "cluster.yaml"
        file.write_text(description)
        self.places = folder / "places"
        self.places.mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {"PYTHONPATH": str(PROJECT / ".typing"), "TMPDIR": str(self.places), "PYTHONUNBUFFERED": "1"}
        environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"
        command = ["cluster", "--no-view", "--cluster", str(file), "--record", str(self._record)]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "podtide", *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> Self:
        try:
            kubeconfig = Path(until(self._kubeconfig, UP_S, "a cluster that is up"))
            self.cluster = Cluster(kubeconfig, kubeconfig, USER, self.folder)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        if problem is not None:
            print(self.said())  # pytest shows it

    def _kubeconfig(self) -> str:
        assert self._process.poll() is None, self.said()
        lines = self._out.read_text().splitlines()
        exports = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
        return exports.get("KUBECONFIG", "") if lines and lines[-1].startswith("#") else ""

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def said(self) -> str:
        """What it printed on standard error: its complaints and, at its end, its summary."""
        return self._err.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """SIGTERM; it ends in order and leaves no folder."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(END_S)
        assert not list(self.places.iterdir())

    def record(self) -> Iterator[dict[str, Any]]:
        """The lines of its record, after the end."""
        with self._record.open() as lines:
            yield from map(json.loads, lines)
