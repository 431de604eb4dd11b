"""What is counted: calls in the audit log of the API server, processor time and memory of a process, pods on the cluster.

Both rivals are counted by the same rules and by somebody else: the server's log says when a creation came and when it was
answered, the kernel says what a process used, and bytes are counted by a proxy that cannot read them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.live.audit import Request
from tests.live.cluster import Cluster

ADMIN: Final = "admin"
"""The user of the kubelet and of the benchmark itself; the rivals are another."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What a process used so far: seconds of processor time, bytes in memory now and at most."""

    cpu_s: float
    rss: int
    peak: int


def usage(pid: int) -> Usage:
    """What the process used so far, its threads included, its children not. Raises OSError when it is gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return Usage(cpu_s, _kib(status["VmRSS"]), _kib(status["VmHWM"]))


def _kib(text: str) -> int:
    return int(text.split(maxsplit=1)[0]) * 1024


def descendant(program: str, root: int | None = None) -> int | None:
    """A process below ``root`` (this one) whose program has this name; None if there is none."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:  # it ended meanwhile
                continue
            pid = int(entry.name)
            names[pid] = head.partition("(")[2]
            children.setdefault(int(rest.split()[1]), []).append(pid)
    below = [os.getpid() if root is None else root]
    while below:
        pid = below.pop()
        if names.get(pid) == program:
            return pid
        below.extend(children.get(pid, ()))
    return None


class Creates(NamedTuple):
    """The creations up to a target: how many, and how long from the first call to the last answer.

    ``more``: pods that were asked for beyond it, though none had failed. ``refused``: calls that created nothing.
    """

    pods: int
    seconds: float
    more: int
    refused: int

    @property
    def per_second(self) -> float:
        """Pods created a second."""
        return self.pods / self.seconds if self.seconds else 0.0


def creations(requests: Iterable[Request]) -> list[Request]:
    """The pods that a rival asked for, by when the call came."""
    return sorted(one for one in requests if one.verb == "create" and one.resource == "pods" and one.user != ADMIN)


def creates(requests: Iterable[Request], target: int) -> Creates:
    """From the first creation's arrival to the answer with which the target was reached."""
    asked = creations(requests)
    made = sorted((one for one in asked if one.status == 201), key=lambda one: one.ended)
    counted = made[:target]
    seconds = counted[-1].ended - min(one.at for one in counted) if counted else 0.0
    return Creates(len(counted), seconds, len(made) - len(counted), len(asked) - len(made))


def noticed(deleted: Sequence[float], requests: Iterable[Request]) -> list[float]:
    """Seconds from each pod's end (epoch seconds) until its replacement was asked for: the first creation for the first.

    Nobody knows which pod replaces which. In order of time they are paired so that no wait comes out shorter in sum.
    """
    since = min(deleted)
    asked = [one.at for one in creations(requests) if one.at >= since]
    return [after - gone for gone, after in zip(sorted(deleted), asked, strict=False)]


class Traffic(NamedTuple):
    """Calls and bytes of a stretch of time, per minute."""

    calls: float
    kinds: Counter[tuple[str, str]]
    sent: float
    received: float


def traffic(requests: Iterable[Request], began: float, ended: float, sent: int, received: int) -> Traffic:
    """Per minute: the calls of everybody but the administrator that came between two moments, and the bytes given."""
    minutes = (ended - began) / 60
    kinds = Counter((one.verb, one.resource) for one in requests if began <= one.at < ended and one.user != ADMIN)
    return Traffic(kinds.total() / minutes, kinds, sent / minutes, received / minutes)


class Left(NamedTuple):
    """Executor pods on the cluster: how many, and how many of them nobody has asked to go."""

    pods: int
    abandoned: int


def left(cluster: Cluster, namespace: str) -> Left:
    """What is there now."""
    pods = cluster.pods(namespace, "spark-role=executor")
    return Left(len(pods), sum("deletionTimestamp" not in pod["metadata"] for pod in pods))


def settled(cluster: Cluster, namespace: str, within_s: float) -> Left:
    """What is there when nothing is terminating any more, or after so many seconds."""
    end = time.monotonic() + within_s
    while True:
        found = left(cluster, namespace)
        if found.pods == found.abandoned or time.monotonic() >= end:
            return found
        time.sleep(0.5)
