"""One container under way: begun, begun again after it ended, stopped by its hook, SIGTERM and SIGKILL.

A container is a session of processes that ends with its first one. It is told what to do by its pod's thread (``pod_life``),
which is also the thread that begins processes; anybody may kill it. A container that is stopped gets its preStop hook first,
then SIGTERM, and SIGKILL at the end of the grace, of which two seconds are SIGTERM's in any case, as a kubelet does. Spark's
own hook, ``decom.sh``, sends SIGPWR to the executor and waits for it; that is done here without the script.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from podtide.adapters.kubelet.pod_facts import Pod
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.pod_status import BACK_OFF, WAITING, ContainerReport, State, now_text, running, terminated
from podtide.adapters.kubelet.processes import begin_session, kill_rest, kill_session, stop_session
from podtide.adapters.kubelet.sandbox import ContainerStart
from podtide.adapters.kubelet.spark_process import decommissions
from podtide.domain.jvm.quantities import parse_quantity

TERM_S: Final = 2.0
"""What SIGTERM has after a hook that used the grace up."""

BACK_OFF_MAX: Final = 30
"""The longest wait before a container is begun again, in first waits: 300 s for 10 s."""

QUIET: Final = 60
"""A container that ran for so many first waits (10 minutes) is begun again as if it were the first time."""

KILLED: Final = 137
NOT_STARTED: Final = 128


class ContainerExit(NamedTuple):
    """News: a process has ended; ``hook``: not the container's own but that of its hook."""

    container: KubeletContainer
    process: subprocess.Popen[bytes]
    hook: bool


class KubeletContainer:
    """A container. Times are monotonic seconds, given by the caller."""

    def __init__(self, spec: Pod, pod: str, *, init: bool) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.init = init
        self.sidecar = init and spec.get("restartPolicy") == "Always"
        self.memory_limit = _memory_limit(spec)
        self.code: int | None = None
        """Its last exit code, while it does not run."""

        self.process: subprocess.Popen[bytes] | None = None
        self.again_at: float | None = None
        """When it is begun again."""

        self._pod = pod
        self._state: State = WAITING
        self._last: State | None = None
        self._restarts = 0
        self._tries = 0
        self._began_at = 0.0
        self._began = ""
        self._oom = False
        self._hook: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None
        self._term_sent = False
        self.stopping = False

    @property
    def runs(self) -> bool:
        """Whether its process runs, as far as it was heard."""
        return self.process is not None

    @property
    def begun(self) -> bool:
        """Whether it was ever begun."""
        return bool(self._began)

    @property
    def due(self) -> float | None:
        """When the time alone has an effect."""
        return self._deadline if self.stopping and self.runs else self.again_at

    def report(self) -> ContainerReport:
        """What is known of it."""
        done = self.init and not self.sidecar and self.code == 0
        return ContainerReport(self.spec, self._state, self._restarts, self._last, done)

    # by the pod's thread

    def begin(self, start: ContainerStart, logs: PodLogs, news: Callable[[ContainerExit], None], now: float) -> None:
        """Begin it, or begin it again. A program that cannot be started has ended with a code, as in a container."""
        if self.begun:
            self._restarts += 1
            self._last = self._state if "terminated" in self._state else self._last
        self.again_at = self.code = None
        self._began_at, self._began, self._oom = now, now_text(), False
        try:
            with logs.open(self._pod, self.name) as log:
                self.process = begin_session(start.command, start.env, start.folder, log.fileno())
        except (OSError, ValueError) as problem:
            logs.ended(self._pod, self.name)
            self.code = NOT_STARTED
            self._state = terminated(NOT_STARTED, "StartError", self._began, str(problem))
            return
        self._state = running(self._began)
        self._wait(self.process, news, hook=False)

    def _wait(self, process: subprocess.Popen[bytes], news: Callable[[ContainerExit], None], *, hook: bool) -> None:
        def waited() -> None:
            process.wait()
            news(ContainerExit(self, process, hook))

        threading.Thread(target=waited, name=f"{self._pod}/{self.name}", daemon=True).start()

    def ended(self, logs: PodLogs) -> None:
        """Its process has ended."""
        assert self.process is not None
        status = self.process.wait()
        kill_rest(self.process.pid)
        self.process = None
        self._end_hook()
        logs.ended(self._pod, self.name)
        code = self.code = 128 - status if status < 0 else status  # as a container reports a signal
        reason = "OOMKilled" if self._oom and code == KILLED else "Error" if code else "Completed"
        self._state = terminated(code, reason, self._began)

    def begin_again_later(self, now: float, back_off_s: float) -> None:
        """It is to be begun again: at once the first time, then after a wait that doubles."""
        if now - self._began_at >= QUIET * back_off_s:
            self._tries = 0
        wait = 0.0 if self._tries == 0 else min(back_off_s * 2 ** (self._tries - 1), back_off_s * BACK_OFF_MAX)
        self._tries += 1
        self.again_at = now + wait
        if wait:
            self._last, self._state = self._state, BACK_OFF

    def stop(self, start: ContainerStart, news: Callable[[ContainerExit], None], now: float, deadline: float) -> None:
        """Begin to end it; once counts."""
        if self.stopping or self.process is None:
            return
        self.stopping = True
        self._deadline = deadline
        if decommissions(self.spec):
            self.process.send_signal(signal.SIGPWR)
        elif start.hook is not None and deadline > now:
            try:
                self._hook = begin_session(start.hook, start.env, start.folder, subprocess.DEVNULL)
            except OSError:  # a hook that fails holds nothing up
                self._terminate(now)
            else:
                self._wait(self._hook, news, hook=True)
        else:
            self._terminate(now)

    def hook_ended(self, now: float) -> None:
        """Its hook is through."""
        self._end_hook()
        if self.process is not None and not self._term_sent:
            self._terminate(now)

    def late(self, now: float) -> None:
        """Do what the time asks for while it is being stopped."""
        if self.process is None or self._deadline is None or now < self._deadline:
            return
        if self._term_sent:
            self._deadline = None
            kill_session(self.process.pid)
        else:
            self._end_hook()
            self._terminate(now)

    def _terminate(self, now: float) -> None:
        assert self.process is not None
        assert self._deadline is not None
        self._term_sent = True
        self._deadline = max(self._deadline, now + TERM_S)
        self.process.send_signal(signal.SIGTERM)

    def _end_hook(self) -> None:
        if self._hook is not None:
            kill_session(self._hook.pid)
            self._hook = None

    # by anybody

    def pause(self, stopped: bool) -> None:
        """Have its processes stand still, or go on."""
        process = self.process
        if process is not None and process.poll() is None:
            stop_session(process.pid, stopped=stopped)

    def kill(self, *, out_of_memory: bool = False) -> bool:
        """SIGKILL to all its processes. Whether there was one."""
        process, hook = self.process, self._hook
        if hook is not None and hook.poll() is None:
            kill_session(hook.pid)
        if process is None or process.poll() is not None:
            return False
        self._oom = out_of_memory
        kill_session(process.pid)
        return True


def _memory_limit(container: Pod) -> int | None:
    """What the container may have, in bytes; None: as much as there is."""
    limit = (container.get("resources", {}).get("limits") or {}).get("memory")
    amount = None if limit is None else parse_quantity(str(limit))
    return None if amount is None else int(amount)
