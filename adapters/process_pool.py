"""Processes that work on one thing at a time, and are replaced when a thing is the end of one.

A log can be endless work, or take more memory than there is, or bring down the interpreter. None of that may stop the
others, so each log is worked on by a process of its own kind: it gets a request (bytes), answers (bytes), and gets the next.
The parent holds a deadline for each; a process that misses it is killed with all that it started, one that dies is noticed
by its closed pipe, and either way another takes its place and the request has an ``Ended`` for an answer. Memory is bounded
by the operating system (RLIMIT_AS: address space, on Linux); a request that meets the bound is told apart from other deaths,
and its process is replaced as well, since nobody knows what is left of it.

The processes are this interpreter with this import path, each the leader of a session: an interrupt from the keyboard
reaches the parent alone, which ends them. They end by themselves when the parent is gone, whatever they are doing, since a
thread of theirs waits for the end of the pipe. Requests and answers are framed by their length; what the work prints goes
nowhere.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import IO, Any, Final, Generic, NamedTuple, NoReturn, Self, TypeAlias, TypeVar

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

_LENGTH: Final = struct.Struct(">I")
_ANSWER, _READY, _MEMORY, _ERROR = b"A", b"R", b"M", b"E"
_CHILD: Final = "from podtide.adapters.process_pool import child; child()"
_PIPE_BYTES: Final = 1 << 18


class Ended(NamedTuple):
    """The work on a request was ended, or ended its process: why, in words."""

    why: str


class WorkersError(Exception):
    """No process can be started; the message is one printable line."""


@dataclass(eq=False)
class _Worker(Generic[K]):
    process: subprocess.Popen[bytes]
    deadline: float
    ready: bool = False
    busy: bool = False
    token: K | None = None
    received: bytearray = field(default_factory=bytearray)

    @property
    def pipe(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it has died: its other pipe says so in a moment
            self.process.stdin.write(_LENGTH.pack(len(body)) + body)
            self.process.stdin.flush()

    def end(self) -> int:
        """Kill it with all that it started; its exit status (negative: a signal)."""
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)  # the leader of its own session, so the group is its own
            with suppress(OSError):
                self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
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
        self._selector = selectors.DefaultSelector()
        self._workers: set[_Worker[Any]] = set()
        self._stillborn = 0
        self.replaced = 0

    def run(self, requests: Iterable[tuple[K, bytes]]) -> Iterator[tuple[K, bytes | Ended]]:
        """Answer every request, in the order in which the answers come. ``requests`` is asked only for as many as are
        worked on, so it may be endless. Raises ``WorkersError``."""
        source = iter(requests)
        waiting: deque[tuple[K, bytes]] = deque()
        more = True
        try:
            while True:
                idle = [worker for worker in self._workers if worker.ready and not worker.busy]
                busy = sum(1 for worker in self._workers if worker.busy)
                while more and len(waiting) < self._jobs - busy:
                    taken = next(source, None)
                    if taken is None:
                        more = False
                    else:
                        waiting.append(taken)
                while waiting and idle:
                    self._give(idle.pop(), *waiting.popleft())
                starting = sum(1 for worker in self._workers if not worker.ready)
                for _ in range(min(len(waiting) - starting, self._jobs - len(self._workers))):
                    self._start()
                if not waiting and not more and not any(worker.busy for worker in self._workers):
                    return
                yield from self._next()
        finally:
            for worker in [worker for worker in self._workers if worker.busy]:
                self._drop(worker)  # nobody waits for its answer any more

    def _give(self, worker: _Worker[K], token: K, request: bytes) -> None:
        worker.busy, worker.token = True, token
        worker.deadline = float("inf") if self._limit_s is None else self._clock() + self._limit_s
        worker.send(request)

    def _next(self) -> Iterator[tuple[K, bytes | Ended]]:
        """Wait until something happens, and what came of it."""
        bound = min((worker.deadline for worker in self._workers), default=float("inf"))
        timeout = None if bound == float("inf") else max(0.0, bound - self._clock())
        for key, _ in self._selector.select(timeout):
            yield from self._hear(key.data)
        now = self._clock()
        for worker in [worker for worker in self._workers if worker.deadline <= now]:
            if worker.busy:
                limit = lasting(1000 * (self._limit_s or 0.0))
                yield self._gone(worker, f"not done within {limit}: its process was ended")
            elif not worker.ready:
                self._dead_start(worker)

    def _hear(self, worker: _Worker[K]) -> Iterator[tuple[K, bytes | Ended]]:
        data = os.read(worker.pipe.fileno(), _PIPE_BYTES)
        if not data:
            if worker.busy:
                yield self._gone(worker, None)
            elif worker.ready:
                self._drop(worker)
            else:
                self._dead_start(worker)
            return
        worker.received += data
        while (message := _message(worker.received)) is not None:
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
                return

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
        self._workers.discard(worker)
        self._selector.unregister(worker.pipe)
        return worker.end()

    def _dead_start(self, worker: _Worker[K]) -> None:
        status = self._drop(worker)
        self._stillborn += 1
        if self._stillborn >= STARTS_MAX:
            how = _death(status) if status != -signal.SIGKILL else f"not ready within {lasting(1000 * PATIENCE_S)}"
            raise WorkersError(f"no process for the work can be started: {how}")

    def _start(self) -> None:
        # -P: the folder that somebody stands in is no place to import from.
        command = [sys.executable, "-P", "-c", _CHILD]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            process = subprocess.Popen(  # noqa: S603 - this very interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
            )
        except OSError as problem:
            raise WorkersError(f"no process for the work can be started: {problem.strerror or problem}") from None
        worker: _Worker[Any] = _Worker(process, self._clock() + PATIENCE_S)
        self._workers.add(worker)
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        worker.send(self._work)

    def close(self) -> None:
        """End every process at once."""
        for worker in list(self._workers):
            self._drop(worker)
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _message(received: bytearray) -> bytes | None:
    """Take the first whole message out of what was received."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    message = bytes(received[_LENGTH.size : end])
    del received[:end]
    return message


def _death(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name} (out of memory, as a rule)" if name == "SIGKILL" else name


def child() -> NoReturn:
    """The other end: take the work, then requests from standard input, and answer on what was standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(nowhere, 0)
    threading.Thread(target=_listen, args=(source, requests), daemon=True).start()
    work, memory = pickle.loads(requests.get())  # noqa: S301 - written by this program's own other end
    if memory is not None and resource is not None:
        with suppress(ValueError, OSError):  # a lower bound from outside holds as well
            resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    _say(answers, _READY)
    # From here on whatever goes wrong has a way to be told; what libraries write would only disturb a progress line.
    os.dup2(nowhere, 2)
    while True:
        request = requests.get()
        try:
            answer = _ANSWER + work(request)
        except MemoryError:
            _say(answers, _MEMORY)
            os._exit(1)
        except Exception as problem:
            lines = str(problem).strip().splitlines()
            text = f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
            answer = _ERROR + text[:1000].encode("utf-8", "backslashreplace")
        _say(answers, answer)


def _listen(source: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    """Hand requests over until the parent is gone; then end this process and all that it started, at once."""
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        requests.put(source.read(_LENGTH.unpack(head)[0]))
    os.killpg(0, signal.SIGKILL)


def _say(answers: int, body: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(body)) + body)
    while left:
        left = left[os.write(answers, left) :]
