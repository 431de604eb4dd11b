"""The units every module speaks: ids as Spark has them, times as integer milliseconds.

Spark keeps its deadlines in nanoseconds (``Clock.nanoTime``, a signed 64-bit number) and spells "no deadline"
as ``Long.MAX_VALUE``. Every duration that enters a decision is a whole number of milliseconds, so
milliseconds lose nothing; what has to be kept is the *range*: a deadline that does not fit 64-bit nanoseconds
overflows in Spark. ``NEVER`` stands for ``Long.MAX_VALUE`` and ``LAST_MS`` is the last millisecond before it.
"""

from __future__ import annotations

from typing import Final, NewType, TypeAlias

ExecutorId = NewType("ExecutorId", str)
"""Spark's executor id: a string, "driver" included; dynamic allocation sorts ids as strings."""

ProfileId = NewType("ProfileId", int)
"""Spark's ResourceProfile id."""

Millis: TypeAlias = int
"""Milliseconds: a moment since the epoch in logs and live, since any origin in scenarios; or a duration."""

AttemptKey: TypeAlias = tuple[int, int]
"""One attempt of a stage: (stage id, attempt number)."""


def next_on_grid(first: Millis, step: Millis, at: Millis) -> Millis:
    """The first of ``first``, ``first + step``, ``first + 2 * step``... that is not before ``at``."""
    return first if at <= first else first + -(-(at - first) // step) * step


def java_order(text: str) -> bytes:
    """The key by which Java and Scala order strings: UTF-16 code units. Python's own order is by code points."""
    return text.encode("utf-16-be", "surrogatepass")


DEFAULT_PROFILE: Final = ProfileId(0)
"""ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID."""

UNKNOWN_PROFILE: Final = ProfileId(-1)
"""ResourceProfile.UNKNOWN_RESOURCE_PROFILE_ID: an executor first heard of through a task."""

NEVER: Final[Millis] = 2**63 - 1
"""No deadline: Spark's Long.MAX_VALUE (NOT_SET in ExecutorAllocationManager)."""

LAST_MS: Final[Millis] = (2**63 - 1) // 1_000_000
"""The last millisecond whose nanoseconds fit a signed 64-bit number; later deadlines overflow in Spark."""

ALWAYS: Final[Millis] = -(2**63)
"""Already due: Spark's Long.MIN_VALUE, which forces ExecutorMonitor to look again."""
