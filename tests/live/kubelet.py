"""A hollow kubelet as a process: it runs no container and moves the pods of a namespace through their life.

Its program is ``hollow_kubelet.py`` beside this file. Options are its flags (``start_delay=0.1`` is ``--start-delay 0.1``);
what a pod should do otherwise stands in its annotations (``hollow/hold``, ``hollow/run-for``, ...).
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from tests.support.project import PROJECT

PROGRAM: Final = Path(__file__).with_name("hollow_kubelet.py")
ANSWER_TIMEOUT_S: Final = 60.0


class Kubelet:
    """The process. Use ``Cluster.kubelet``."""

    def __init__(self, kubeconfig: Path, namespace: str, work: Path, options: Mapping[str, object]) -> None:
        command = [sys.executable, str(PROGRAM), "--kubeconfig", str(kubeconfig), "--namespace", namespace]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            if value is True:
                command.append(flag)
            elif value is not False:
                command += [flag, str(value)]
        self.log = work / f"kubelet-{namespace}.log"
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={"PYTHONPATH": str(PROJECT / ".typing"), "PATH": "/usr/bin:/bin"},
            )
        self._answers: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def _listen(self, out: IO[str]) -> None:
        for line in out:
            self._answers.put(line)
        self._answers.put("")

    def command(self, line: str) -> dict[str, int]:
        """Send it a command (``hollow_kubelet`` says which); returns the counts after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=ANSWER_TIMEOUT_S)
        assert answer, f"the hollow kubelet ended: {self.errors()}"
        counts: dict[str, int] = json.loads(answer)
        return counts

    def ready(self) -> None:
        """Wait until it watches."""
        self.command("stat")

    def finish(self, pod: str, phase: str = "Succeeded", code: int = 0) -> None:
        """Let a pod end."""
        self.command(f"finish {pod} {phase} {code}")

    def evict(self, pod: str) -> None:
        """Let a pod fail as an evicted one does."""
        self.command(f"evict {pod}")

    def hold(self, on: bool) -> None:
        """Start no pod from now on, or go on."""
        self.command(f"hold {'on' if on else 'off'}")

    def errors(self) -> str:
        """The last it said of its troubles."""
        return self.log.read_text(errors="replace")[-1_000:]

    def stop(self) -> None:
        """End it; its pods stay as they are."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
            return
        self._process.kill()
        self._process.wait()
