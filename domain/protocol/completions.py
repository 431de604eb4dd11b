"""Why a container ended: YARN's exit status, whose fault it was, whether it counts, and Spark's words for it.

Negative statuses are YARN's. Exceeding memory is the application's fault and yet no failure that counts; -108 and -1000 are
not in Spark's list and count like any other. Source: YarnAllocator.processCompletedContainers and ExecutorExitCode of 4.3.0
(spec: yarn, section 7; quirk 69), checked against runs.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SUCCESS: Final = 0
PREEMPTED: Final = -102
VMEM_EXCEEDED: Final = -103
PMEM_EXCEEDED: Final = -104
NOT_BLAMED: Final = frozenset({-106, -105, -107, -100, -101})
"""Killed by the resource manager, by the application master, after the application's end; aborted; disks failed."""

_MEMORY: Final = r"[0-9.]+ [KMG]B"
# A number is looked at once, from its beginning: strangers may write very long ones.
_VIRTUAL: Final = re.compile(rf"(?<![0-9.]){_MEMORY} of {_MEMORY} virtual memory used")
_PHYSICAL: Final = re.compile(rf"(?<![0-9.]){_MEMORY} of {_MEMORY} physical memory used")
DIAGNOSTICS_MAX: Final = 100_000
"""Characters of diagnostics that are looked at: they come from strangers."""

_EXIT_CODES: Final = {
    50: "Uncaught exception",
    51: "Uncaught exception, and logging the exception failed",
    52: "OutOfMemoryError",
    53: "Failed to create local directory (bad spark.local.dir?)",
    54: "ExternalBlockStore failed to initialize.",
    55: "ExternalBlockStore failed to create a local temporary directory.",
    56: "Unable to send heartbeats to driver.",
    57: "Executor killed by TaskReaper.",
    58: "Executor killed due to a failure of block manager re-registration.",
}


class Verdict(NamedTuple):
    """``blamed``: the application caused it. ``counted``: it is a failure. ``text``: Spark's words."""

    blamed: bool
    counted: bool
    text: str


def judge(container: str, host: str | None, status: int, diagnostics: str, *, ending: bool) -> Verdict:
    """What Spark makes of a completed container that nobody released. ``ending``: the application is ending anyway."""
    where = "" if host is None else f" on host: {host}"
    if ending:
        return Verdict(False, False, f"Executor for container {container} exited after Application shutdown.")
    if status == SUCCESS:
        text = (
            f"Executor for container {container} exited because of a YARN event (e.g., preemption) and not because of an "
            "error in the running job."
        )
        return Verdict(False, False, text)
    if status == PREEMPTED:
        return Verdict(False, False, f"Container {container}{where} was preempted.")
    if status == VMEM_EXCEEDED:
        text = (
            f"Container killed by YARN for exceeding virtual memory limits. {_extract(_VIRTUAL, diagnostics)} Consider "
            "boosting spark.executor.memoryOverhead or boosting yarn.nodemanager.vmem-pmem-ratio or disabling "
            "yarn.nodemanager.vmem-check-enabled because of YARN-4714."
        )
        return Verdict(True, False, text)
    if status == PMEM_EXCEEDED:
        text = (
            f"Container killed by YARN for exceeding physical memory limits. {_extract(_PHYSICAL, diagnostics)} Consider "
            "boosting spark.executor.memoryOverhead."
        )
        return Verdict(True, False, text)
    rest = (
        f"{container}{where}. Exit status: {status}. Possible causes: {explain(status)} "
        f"Diagnostics: {diagnostics[:DIAGNOSTICS_MAX]}."
    )
    if status in NOT_BLAMED:
        return Verdict(False, False, f"Container marked as failed: {rest}")
    return Verdict(True, True, f"Container from a bad node: {rest}")


def explain(status: int) -> str:
    """ExecutorExitCode.explainExitCode."""
    known = _EXIT_CODES.get(status)
    if known is not None:
        return known
    signal = f" (died from signal {status - 128}?)" if status > 128 else ""
    return f"Unknown executor exit code ({status}){signal}"


def _extract(pattern: re.Pattern[str], diagnostics: str) -> str:
    found = pattern.search(diagnostics[:DIAGNOSTICS_MAX])
    return "" if found is None else f"{found[0]}."
