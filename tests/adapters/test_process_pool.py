"""Worker processes: every request has an answer, in whatever way its process ends, and none outlives its parent."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from podtide.adapters.process_pool import Ended, Workers, WorkersError
from tests.support.project import PROJECT


def work(request: bytes) -> bytes:
    match request:
        case b"pid":
            return str(os.getpid()).encode()
        case b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"exit":
            raise SystemExit(3)
        case b"hang":
            threading.Event().wait()
        case b"memory":
            bytearray(4 << 30)
        case b"error":
            raise KeyError("what")
        case b"noise":
            print("to nobody")
            sys.stdout.flush()
        case b"child":
            # Something that the work has started goes with it.
            return str(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE).pid).encode()
        case _:
            pass
    return request * 2


def unready(_request: bytes) -> bytes:
    raise AssertionError


class Unfit:
    """What cannot be unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (5,)


def answers(*requests: bytes, jobs: int = 1, limit_s: float | None = None) -> dict[bytes, bytes | Ended]:
    with Workers(work, jobs, limit_s=limit_s, memory_bytes=1 << 30) as workers:
        return dict(workers.run((request, request) for request in requests))


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_request_has_an_answer(jobs: int) -> None:
    said = answers(b"a", b"die", b"b", b"exit", b"error", b"memory", b"noise", b"c" * 500_000, jobs=jobs)
    assert said == {
        b"a": b"aa",
        b"die": Ended("its process died: SIGKILL (out of memory, as a rule)"),
        b"b": b"bb",
        b"exit": Ended("its process died: exit code 3"),
        b"error": Ended("KeyError: 'what'"),
        b"memory": Ended("needs more memory than the bound of 1.1 GB: its process was ended"),
        b"noise": b"noisenoise",
        b"c" * 500_000: b"c" * 1_000_000,
    }


def test_what_hangs_is_ended_and_the_others_go_on() -> None:
    said = answers(b"hang", b"a", b"b", jobs=2, limit_s=0.5)
    assert said == {b"hang": Ended("not done within 500 ms: its process was ended"), b"a": b"aa", b"b": b"bb"}


def test_requests_are_taken_only_as_they_are_worked_on() -> None:
    taken = []

    def endless() -> Iterator[tuple[int, bytes]]:
        number = 0
        while True:
            taken.append(number)
            yield number, b"x"
            number += 1

    with Workers(work, 2) as workers:
        said = workers.run(endless())
        for _ in range(20):
            next(said)
        assert len(taken) <= 24
        another = dict(workers.run((n, b"y") for n in range(-5, 0)))  # what was left under way is forgotten
        assert sorted(another) == [-5, -4, -3, -2, -1]


def test_processes_that_never_start_are_no_fault_of_a_request() -> None:
    with Workers(partial(work, Unfit()), 2) as workers, pytest.raises(WorkersError, match="exit code 5"):  # type: ignore[arg-type]
        list(workers.run([(1, b"a")]))


def test_what_the_work_started_goes_with_its_process() -> None:
    with Workers(work, 1, limit_s=5) as workers:
        ((_, said),) = workers.run([(1, b"child")])
    assert isinstance(said, bytes)
    assert gone(int(said))


def test_no_process_outlives_its_parent() -> None:
    script = (
        "import os, signal, sys\n"
        "from tests.adapters.test_process_pool import Workers, work\n"
        "workers = Workers(work, 1)\n"
        "said = workers.run([(1, b'pid'), (2, b'hang')])\n"
        "print(next(said)[1].decode(), flush=True)\n"
        "next(said)\n"
    )
    path = os.pathsep.join((str(PROJECT), str(PROJECT / ".typing")))
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    assert gone(pid)


def gone(pid: int) -> bool:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    return bool(select.select([watch], [], [], 30)[0])
