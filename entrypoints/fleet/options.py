"""Bounds as the command line of a fleet writes them: times such as ``5m``, amounts of memory such as ``2g``.

Where no memory is given it is nine tenths of what this machine (or its container) has, divided among the processes.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from podtide.adapters.files.values import duration
from podtide.adapters.text.safe import escaped

LIMIT_MAX_S: Final = 7 * 24 * 3600.0
"""The longest limit; a log that takes longer is for a machine of its own."""

MEMORY_MIN: Final = 256 * 1024 * 1024
"""The least bound that lets a process start; what Python and its libraries map counts as well."""

MEMORY_DEFAULT_MIN: Final = 1024 * 1024 * 1024
"""The least that is set where nothing was given."""

SHARE: Final = 0.9

_SIZE: Final = re.compile(r"([0-9]{1,12})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CGROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class TermError(ValueError):
    """A bound that cannot be understood; one line that says what was expected."""


def limit_seconds(text: str) -> float | None:
    """Seconds of ``5m``, ``90s``, ``1h``; None for 0. Raises TermError."""
    if text.strip() == "0":
        return None
    try:
        seconds = duration(text.strip()) / 1000
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= LIMIT_MAX_S:
        raise TermError(f"--limit {escaped(text, 60)!r}: expected a time such as 90s, 5m or 1h, or 0 for no bound")
    return seconds


def memory_bytes(text: str | None, jobs: int) -> int | None:
    """Bytes of ``2g`` or ``500m``; None for 0. Without a text the default for so many processes. Raises TermError."""
    if text is None:
        whole = machine_memory()
        return None if whole is None else max(MEMORY_DEFAULT_MIN, int(whole * SHARE) // max(1, jobs))
    found = _SIZE.fullmatch(text.strip())
    size = -1 if found is None else int(found[1]) * _UNITS[found[2].lower()]
    if size == 0:
        return None
    if not MEMORY_MIN <= size < 1 << 62:
        least = f"{MEMORY_MIN >> 20}m"
        raise TermError(
            f"--memory {escaped(text, 60)!r}: expected a size of at least {least} such as 2g, or 0 for no bound"
        )
    return size


def machine_memory() -> int | None:
    """Bytes of memory that this machine has, or its container may use; None where nothing tells."""
    found = []
    with suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))  # "max" is no number: no bound
    return min((size for size in found if size > 0), default=None)
