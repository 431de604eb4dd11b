"""The user's program as a child: it has the terminal and the standard streams, and nothing of it outlives the command.

It stays in our process group, so that the terminal treats both as one job: Ctrl-C and Ctrl-Z reach it by themselves. A
signal that only this process got is passed on. What the program started and left behind (a JVM of PySpark, a daemon) is
found by a variable of its environment that no other process has; that needs /proc, so it is done on Linux.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "PODTIDE_CLUSTER_RUN"
GRACE_S: Final = 10.0
"""How long the program has to end after a signal, and what it left behind after SIGTERM."""

WAIT_S: Final = 1.0

_PROC: Final = Path("/proc")
_LOOK_S: Final = 0.05


class CannotStart(Exception):
    """The program did not begin; says why in one line. ``code``: a shell's, 127 for not found, 126 otherwise."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


def run_program(command: Sequence[str], environment: Mapping[str, str], grace_s: float = GRACE_S) -> int:
    """Run it to its end and return its exit code, 128 and the signal's number where one ended it. Raises CannotStart.

    An exception of this process (Ctrl-C, SIGTERM) goes on after the program has ended.
    """
    mark = secrets.token_hex(16)
    child: subprocess.Popen[bytes] | None = None
    try:
        # A signal may strike while it is being started: the mark finds it then.
        child = subprocess.Popen(list(command), env={**environment, MARK: mark})  # noqa: S603 - the user's own command
        code = _waited(child)
    except FileNotFoundError:
        raise CannotStart(f"{command[0]}: command not found", 127) from None
    except OSError as problem:
        raise CannotStart(f"{command[0]}: {problem.strerror or problem}", 126) from None
    except BaseException as interruption:
        if child is not None:
            _end(child, interruption, grace_s)
        raise
    finally:
        end_marked(mark, grace_s)
    return code if code >= 0 else 128 - code


def _waited(child: subprocess.Popen[bytes]) -> int:
    """The exit code. A signal that comes just before a wait does not end it, so no wait is long."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(WAIT_S)


def _end(child: subprocess.Popen[bytes], interruption: BaseException, grace_s: float) -> None:
    """Pass the signal on and wait; a second signal, or the end of the grace, kills."""
    try:
        if not isinstance(interruption, KeyboardInterrupt):
            child.terminate()
        elif not sys.stdin.isatty():  # a terminal sends Ctrl-C to the whole job
            child.send_signal(signal.SIGINT)
        child.wait(grace_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


def end_marked(mark: str, grace_s: float) -> None:
    """End every process that carries the mark: SIGTERM, and SIGKILL after the grace."""
    if not _PROC.is_dir():
        return
    left = list(_marked(mark))
    for number in left:
        _signal(number, signal.SIGTERM)
    end = time.monotonic() + grace_s
    while left and time.monotonic() < end:
        time.sleep(_LOOK_S)
        left = list(_marked(mark))
    while left:
        for number in left:
            _signal(number, signal.SIGKILL)
        time.sleep(_LOOK_S)
        left = list(_marked(mark))


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            # Processes of others cannot be read; those that end meanwhile, and zombies, have no environment.
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
