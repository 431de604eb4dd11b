"""The processes of a pod as the operating system has them: begun, measured, killed as one.

All processes of a pod are one session, whatever groups they make (PySpark's daemon makes one of its own). On Linux the first
one is killed when the thread that began it ends, with the whole of podtide, too (``PR_SET_PDEATHSIG``): an executor whose
kubelet was killed does not stay. A small Python sets that and becomes the command, with the same process id.

Memory counts as a container's does: what no file is behind (anonymous and shared memory), a page that several processes
share once. Resident memory is an upper bound of that and read first, for it is cheap.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_LINUX: Final = sys.platform == "linux"
_PROC: Final = Path("/proc")
_BECOME: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""1 is PR_SET_PDEATHSIG. The parent may have ended before it was set."""

_SESSION, _RESIDENT = 3, 21
"""Fields of /proc/PID/stat after the name of the program (proc(5))."""

_COUNTED: Final = (b"Pss_Anon:", b"Pss_Shmem:")


def begin_session(command: list[str], env: Mapping[str, str], folder: Path, log: int) -> subprocess.Popen[bytes]:
    """Start a command as a session of its own. Raises OSError. The calling thread has to live as long as the process."""
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError(f"{command[0]}: there is no such program")
    command = [program, *command[1:]]
    if _LINUX:
        command = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
    return subprocess.Popen(  # noqa: S603 - what the pod says
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd=folder,
    )


def kill_session(first: int) -> None:
    """SIGKILL to every process of a session, by the id of its first one, which nobody has waited for yet."""
    with suppress(ProcessLookupError):
        os.killpg(first, signal.SIGKILL)
    _kill(_sessions().get(first, ()))


def stop_session(first: int, *, stopped: bool) -> None:
    """Have every process of a session stand still, or go on, by the id of its first one, which nobody has waited for yet."""
    for process in _sessions().get(first, (first,)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGSTOP if stopped else signal.SIGCONT)


def kill_rest(first: int) -> None:
    """SIGKILL to what is left of a session whose first process has ended, as a container ends with its first process."""
    rest = _sessions().get(first, {})
    if first not in rest:  # it would be a stranger with the same id
        _kill(rest)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def over_limit(limits: Mapping[int, int]) -> Iterator[int]:
    """The sessions whose memory is above their limit in bytes. Nothing where there is no /proc."""
    if not limits:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for session, members in _sessions().items():
        limit = limits.get(session)
        if limit is None or sum(members.values()) * page <= limit:
            continue
        if sum(map(_unshared, members)) > limit:
            yield session


def _sessions() -> dict[int, dict[int, int]]:
    """By session: processes and the pages that each has resident."""
    sessions: defaultdict[int, dict[int, int]] = defaultdict(dict)
    if _PROC.is_dir():
        for folder in _PROC.iterdir():
            if folder.name.isdigit():
                with suppress(OSError):  # it ended meanwhile
                    fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                    sessions[int(fields[_SESSION])][int(folder.name)] = int(fields[_RESIDENT])
    return dict(sessions)


def _unshared(process: int) -> int:
    """Bytes of memory that no file is behind, a shared page in equal parts; 0 for a process that ended."""
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED))
