"""Processes that work on one thing at a time, and are replaced when a thing is the end of one.

A log can be endless work, or take more memory than there is, or bring down the interpreter. None of that may stop the
others, so each log is worked on by a process of its own kind: it gets a request (bytes), answers (bytes), and gets the next.
The parent holds a deadline for each; a process that misses it is killed with all that it started, one that dies is noticed
by its closed connection, and either way another takes its place and the request has an ``Ended`` for an answer. Memory is
bounded by the operating system (RLIMIT_AS: address space, on Linux); a request that meets the bound is distinguished from
other deaths, and its process is replaced as well, since its state is unknown.

The processes are this interpreter with this import path, each the leader of a session: an interrupt from the keyboard
reaches the parent alone, which ends them. They end by themselves when the parent is gone, whatever they are doing, since a
thread of theirs waits for the end of the connection. What the work prints goes nowhere.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Final, Generic, NamedTuple, NoReturn, Self, TypeAlias, TypeVar

from podtide.adapters.text.format import lasting, size

try:
    import resource
except ImportError:  # not on Windows: memory is not bounded there
    resource = None  # type: ignore[assignment]

K = TypeVar("K")

Work: TypeAlias = Callable[[bytes], bytes]
"""What is done: from a request to an answer. It is sent by pickle, so it is found by its name in its module."""

STARTS_MAX: Final = 3
"""Processes in a row that may die before they are ready; then the fault is not a log's."""

PATIENCE_S: Final = 60.0
"""How long a process may take until it is ready."""

_ANSWER, _READY, _MEMORY, _ERROR = b"A", b"R", b"M", b"E"
_CHILD: Final = "from podtide.adapters.process_pool import child; child()"


class Ended(NamedTuple):
    """The work on a request was ended, or ended its process: why, in words."""

    why: str


class WorkersError(Exception):
    """No process can be started; the message is one printable line."""


@dataclass(eq=False)
class _Worker(Generic[K]):
    process: subprocess.Popen[bytes]
    connection: Connection
    deadline: float
    ready: bool = False
    busy: bool = False
    token: K | None = None

    def send(self, body: bytes) -> None:
        with suppress(OSError):  # it has died: its end of the connection says so in a moment
            self.connection.send_bytes(body)

    def end(self) -> int:
        """Kill it with all that it started; its exit status (negative: a signal)."""
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)  # the leader of its own session, so the group is its own
            with suppress(OSError):
                self.process.kill()
        self.connection.close()
        return self.process.wait()


class Workers:
    """A number of processes that do the same work; a context manager.

    ``jobs``: how many; ``limit_s``: seconds for one request, None without bound; ``memory_bytes``: address space of one
    process, None without bound. ``replaced``: how many processes were given up so far.
    """

    def __init__(
        self, work: Work, jobs: int, *, limit_s: float | None = None, memory_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._work = pickle.dumps((work, memory_bytes))
        self._jobs = max(1, jobs)
        self._limit_s = limit_s
        self._memory = memory_bytes
        self._clock = clock
        self._workers: dict[Connection, _Worker[Any]] = {}
        self._stillborn = 0
        self._runs = 0
        self.replaced = 0

    def run(self, requests: Iterable[tuple[K, bytes]]) -> Iterator[tuple[K, bytes | Ended]]:
        """Answer every request, in the order in which the answers come. ``requests`` is asked only for as many as are
        worked on, so it may be endless. What another run has under way is forgotten. Raises ``WorkersError``."""
        self._runs += 1
        this = self._runs
        self._forget()
        source = iter(requests)
        waiting: deque[tuple[K, bytes]] = deque()
        more = True
        try:
            while True:
                idle = [worker for worker in self._workers.values() if worker.ready and not worker.busy]
                busy = sum(1 for worker in self._workers.values() if worker.busy)
                while more and len(waiting) < self._jobs - busy:
                    taken = next(source, None)
                    if taken is None:
                        more = False
                    else:
                        waiting.append(taken)
                while waiting and idle:
                    self._give(idle.pop(), *waiting.popleft())
                starting = sum(1 for worker in self._workers.values() if not worker.ready)
                for _ in range(min(len(waiting) - starting, self._jobs - len(self._workers))):
                    self._start()
                if not waiting and not more and not any(worker.busy for worker in self._workers.values()):
                    return
                yield from self._next()
        finally:
            if self._runs == this:
                self._forget()

    def _forget(self) -> None:
        """End the processes that are busy: their answers are not needed any more."""
        for worker in [worker for worker in self._workers.values() if worker.busy]:
            self._drop(worker)

    def _give(self, worker: _Worker[K], token: K, request: bytes) -> None:
        worker.busy, worker.token = True, token
        worker.deadline = float("inf") if self._limit_s is None else self._clock() + self._limit_s
        worker.send(request)

    def _next(self) -> Iterator[tuple[K, bytes | Ended]]:
        """Wait until a process answers, ends or misses its deadline; returns the answers."""
        bound = min((worker.deadline for worker in self._workers.values()), default=float("inf"))
        timeout = None if bound == float("inf") else max(0.0, bound - self._clock())
        for connection in wait(list(self._workers), timeout):
            assert isinstance(connection, Connection)
            yield from self._take(self._workers[connection])
        now = self._clock()
        for worker in [worker for worker in self._workers.values() if worker.deadline <= now]:
            if worker.busy:
                limit = lasting(1000 * (self._limit_s or 0.0))
                yield self._gone(worker, f"not done within {limit}: its process was ended")
            elif not worker.ready:
                self._dead_start(worker)

    def _take(self, worker: _Worker[K]) -> Iterator[tuple[K, bytes | Ended]]:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            if worker.busy:
                yield self._gone(worker, None)
            elif worker.ready:
                self._drop(worker)
            else:
                self._dead_start(worker)
            return
        kind, body = message[:1], message[1:]
        if kind == _READY:
            worker.ready, worker.deadline = True, float("inf")
            self._stillborn = 0
        elif kind == _ANSWER:
            yield self._answered(worker, body)
        elif kind == _ERROR:
            yield self._answered(worker, Ended(body.decode("utf-8", "replace")))
        else:
            bound = f" of {size(self._memory)}" if self._memory else ""
            yield self._gone(worker, f"needs more memory than the bound{bound}: its process was ended")

    def _answered(self, worker: _Worker[K], answer: bytes | Ended) -> tuple[K, bytes | Ended]:
        token: Any = worker.token
        worker.busy, worker.token, worker.deadline = False, None, float("inf")
        return token, answer

    def _gone(self, worker: _Worker[K], why: str | None) -> tuple[K, bytes | Ended]:
        """A process is given up over its request."""
        token: Any = worker.token
        status = self._drop(worker)
        self.replaced += 1
        return token, Ended(why if why is not None else f"its process died: {_death(status)}")

    def _drop(self, worker: _Worker[K]) -> int:
        self._workers.pop(worker.connection, None)
        return worker.end()

    def _dead_start(self, worker: _Worker[K]) -> None:
        status = self._drop(worker)
        self._stillborn += 1
        if self._stillborn >= STARTS_MAX:
            how = _death(status) if status != -signal.SIGKILL else f"not ready within {lasting(1000 * PATIENCE_S)}"
            raise WorkersError(f"no process for the work can be started: {how}")

    def _start(self) -> None:
        # -P: nothing is imported from the working directory.
        command = [sys.executable, "-P", "-c", _CHILD]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                process = subprocess.Popen(  # noqa: S603 - this very interpreter
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environment, start_new_session=True
                )
                connection = Connection(ours.detach())
        except OSError as problem:
            raise WorkersError(f"no process for the work can be started: {problem.strerror or problem}") from None
        worker: _Worker[Any] = _Worker(process, connection, self._clock() + PATIENCE_S)
        self._workers[connection] = worker
        worker.send(self._work)

    def close(self) -> None:
        """End every process at once."""
        for worker in list(self._workers.values()):
            self._drop(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _death(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name} (out of memory, as a rule)" if name == "SIGKILL" else name


def child() -> NoReturn:
    """The other end: take the work, then requests from the connection that stands in for standard input; answer there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Connection(os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(parent, requests), daemon=True).start()
    work, memory = pickle.loads(requests.get())  # noqa: S301 - written by this program's own other end
    if memory is not None and resource is not None:
        with suppress(ValueError, OSError):  # a lower bound from outside holds as well
            resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    parent.send_bytes(_READY)
    # From here on whatever goes wrong has a way to be told; what libraries write would only disturb a progress line.
    os.dup2(nowhere, 2)
    while True:
        request = requests.get()
        try:
            answer = _ANSWER + work(request)
        except MemoryError:
            parent.send_bytes(_MEMORY)
            os._exit(1)
        except Exception as problem:
            lines = str(problem).strip().splitlines()
            text = f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
            answer = _ERROR + text[:1000].encode("utf-8", "backslashreplace")
        parent.send_bytes(answer)


def _listen(parent: Connection, requests: SimpleQueue[bytes]) -> None:
    """Hand requests over until the parent is gone; then end this process and all that it started, at once."""
    with suppress(EOFError, OSError):
        while True:
            requests.put(parent.recv_bytes())
    os.killpg(0, signal.SIGKILL)
