"""By what the logs of a fleet are worked on, and within which bounds: the options that ``fleet`` and ``watch`` share.

Where no memory is given it is nine tenths of what this machine (or its container) has, divided among the processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from podtide.domain.base.units import Millis
from podtide.entrypoints.common.option_groups import Command, ExpertOption, together
from podtide.entrypoints.common.types import DAY, SecondsType, SizeType

TIMEOUT: Final = "5m"
TIMEOUT_MAX_MS: Final[Millis] = 7 * DAY
"""The longest time limit; a log that takes longer is for a machine of its own."""

MEMORY_MIN: Final = 256 * 1024 * 1024
"""The least bound that lets a process start; what Python and its libraries map counts as well."""

MEMORY_DEFAULT_MIN: Final = 1024 * 1024 * 1024
"""The least that is set where nothing was given."""

SHARE: Final = 0.9
JOBS_MAX: Final = 1_024

_CGROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def worked(command: Command) -> Command:
    """``--jobs``, ``--timeout``, ``--memory``, ``--engine`` and ``--spark-conf``: by what, and within which bounds."""
    return together(
        click.option(
            "--jobs", type=click.IntRange(1, JOBS_MAX), metavar="N", help="Parallel processes (one for each processor)."
        ),
        click.option(
            "--timeout", "timeout_s", type=SecondsType(1, TIMEOUT_MAX_MS, endless=True), default=TIMEOUT,
            show_default=True, metavar="DURATION", help="Time limit for one log; 0: no limit.",
        ),
        click.option(
            "--memory", cls=ExpertOption, type=SizeType(MEMORY_MIN, endless=True), metavar="SIZE",
            help="Memory limit for one log, such as 2g (if not given, the machine's, divided); 0: no limit.",
        ),
        click.option(
            "--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True,
            help="Work in processes here, or in tasks of Spark.",
        ),
        click.option(
            "--spark-conf", cls=ExpertOption, multiple=True, metavar="KEY=VALUE",
            help="With --engine spark: a setting of its session.",
        ),
    )(command)  # fmt: skip


def memory_bytes(given: int | None, jobs: int) -> int | None:
    """The memory limit of a log in bytes; None for 0. Without one given the default for so many processes."""
    if given is None:
        whole = machine_memory()
        return None if whole is None else max(MEMORY_DEFAULT_MIN, int(whole * SHARE) // max(1, jobs))
    return given or None


def machine_memory() -> int | None:
    """Bytes of memory that this machine has, or its container may use; None where nothing tells."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))  # "max" is no number: no bound
    return min((size for size in found if size > 0), default=None)
