"""Which process this is, so that another one can tell, and whether a process that said so can still be alive.

A name and a process id are not enough: both come back after a restart. A process is named by its host, the boot of that
host's kernel, its process id namespace, its id therein and the tick at which it began (field 22 of ``/proc/PID/stat``).
No two processes ever agree on all five.

The question matters to whoever finds a lease held by somebody. If the boot and the namespace are our own and no process
of that id began at that tick, the holder is dead; that needs no waiting and no trust in clocks. Everything else is
unknown: a process elsewhere, or one that this kernel does not show us, may well be alive. So the answer is "dead" or
"perhaps alive", and never a guess. A process that ended and was not yet collected by its parent (a zombie without
threads) does nothing any more, and counts as dead.

Where there is no ``/proc`` a process still has a name, but nobody can prove it dead.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
UNKNOWN: Final = "x"
"""Stands for a part that this system does not tell. It never equals anything."""

HOST_MAX: Final = 253
_PART: Final = re.compile(r"[^A-Za-z0-9.-]")
_WRITTEN: Final = re.compile(
    r"([A-Za-z0-9.-]{1,253})_(0|[1-9][0-9]{0,9})_(x|[0-9]{1,20})_(x|[0-9]{1,20})_(x|[0-9a-f-]{1,64})\Z"
)
_ENDED: Final = ("Z", "X", "x")
"""States of a process that has ended: a zombie, or one just vanishing."""


class Identity(NamedTuple):
    """A process, named so that no other is ever named the same."""

    host: str
    pid: int
    started: str
    """Clock ticks between the kernel's boot and the process's beginning."""
    namespace: str
    """The inode of its process id namespace: a container has its own."""
    boot: str

    def __str__(self) -> str:
        """As it is written down, for ``parse``."""
        return f"{self.host}_{self.pid}_{self.started}_{self.namespace}_{self.boot}"

    @property
    def spoken(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.host}"


def parse(text: str) -> Identity | None:
    """The identity written as ``text``, or None if it is none of ours (another program's holder identity)."""
    found = _WRITTEN.match(text)
    if found is None:
        return None
    host, pid, started, namespace, boot = found.groups()
    return Identity(host, int(pid), started, namespace, boot)


def own_identity(proc: Path = PROC) -> Identity:
    """This process."""
    pid = os.getpid()
    host = _PART.sub("-", socket.gethostname())[:HOST_MAX] or "localhost"
    stat = _stat(proc, pid)
    return Identity(host, pid, stat.started if stat else UNKNOWN, _namespace(proc), _boot(proc))


def is_dead(other: Identity, here: Identity, proc: Path = PROC) -> bool:
    """Whether ``other`` has certainly ended. ``here``: the process that asks. False where it cannot be known."""
    if UNKNOWN in (other.boot, other.namespace, other.started):
        return False
    if (other.boot, other.namespace) != (here.boot, here.namespace):
        return False
    if not _exists(other.pid):
        return True
    stat = _stat(proc, other.pid)
    if stat is None:  # hidden from us (hidepid), or it ended just now: the next look will tell
        return False
    return stat.started != other.started or (stat.state in _ENDED and stat.threads <= 1)


class _Stat(NamedTuple):
    """What ``/proc/PID/stat`` says of a process."""

    state: str
    threads: int
    started: str


def _stat(proc: Path, pid: int) -> _Stat | None:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold blanks and brackets itself: count behind the last.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not (fields[17].isdigit() and fields[19].isdigit()):
        return None
    return _Stat(fields[0], int(fields[17]), fields[19])


def _exists(pid: int) -> bool:
    """By a signal that is none: it also finds processes that ``/proc`` hides from us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's: it exists
        return True
    return True


def _namespace(proc: Path) -> str:
    try:
        return str((proc / "self" / "ns" / "pid").stat().st_ino)
    except OSError:
        return UNKNOWN


def _boot(proc: Path) -> str:
    try:
        text = (proc / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return UNKNOWN
    return text if re.fullmatch(r"[0-9a-f-]{1,64}", text) else UNKNOWN
