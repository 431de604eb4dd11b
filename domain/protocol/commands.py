"""What the core says: commands to carry out, and reports of what was held back; each with its reasons.

A command asks somebody else for something and may be answered (``Answer``, by ``serial``). A report asks for
nothing: it says that a bound began to hold something back, changed or let go, so that silence means that
nothing was held. Reasons are values: a cause from a closed list and the numbers behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pyrsistent import PMap

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.reasons import Held, Remark, Threw, Why


class TargetChange(NamedTuple):
    """One profile's target as it was and as it is asked for now."""

    profile: ProfileId
    before: int
    after: int
    why: Why


class Departure(NamedTuple):
    """One executor to let go."""

    executor: ExecutorId
    profile: ProfileId
    why: Why


@dataclass(frozen=True, slots=True)
class RequestTotal:
    """requestTotalExecutors: the executors wanted in all, per profile, with locality hints.

    ``targets`` names every profile that has a target. ``changes`` holds what differs from the last request;
    it is empty when Spark repeats itself (after a removal). ``why`` is the leading reason.
    """

    at: Millis
    serial: int
    targets: PMap[ProfileId, int]
    locality_tasks: Mapping[ProfileId, int]
    host_tasks: Mapping[ProfileId, Mapping[str, int]]
    changes: tuple[TargetChange, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Kill:
    """killExecutors(adjustTargetNumExecutors = false, countFailures = false, force = false)."""

    at: Millis
    serial: int
    departures: tuple[Departure, ...]

    @property
    def executors(self) -> tuple[ExecutorId, ...]:
        """The ids, in Spark's order: sorted as strings."""
        return tuple(d.executor for d in self.departures)


@dataclass(frozen=True, slots=True)
class Decommission:
    """decommissionExecutors(adjustTargetNumExecutors = false, triggeredByExecutor = false)."""

    at: Millis
    serial: int
    departures: tuple[Departure, ...]
    message: str = "spark scale down"

    @property
    def executors(self) -> tuple[ExecutorId, ...]:
        """The ids, in Spark's order: sorted as strings."""
        return tuple(d.executor for d in self.departures)


ScalingCommand: TypeAlias = RequestTotal | Kill | Decommission
"""Everything dynamic allocation tells the scheduler backend (all of the notify family)."""


@dataclass(frozen=True, slots=True)
class ScheduleThrew:
    """schedule() ended in an exception, as Spark's would; the loop survives and tries again every tick.

    ``repeated``: the round before ended in the same one.
    """

    at: Millis
    what: str
    repeated: bool = False


Report: TypeAlias = Held | ScheduleThrew | Threw | Remark
"""What happened inside, for people and records; nobody has to act upon it."""

S = TypeVar("S")
C = TypeVar("C")


class Step(NamedTuple, Generic[S, C]):
    """One step forward: the new state, what to do, and what was held back."""

    state: S
    commands: tuple[C, ...] = ()
    reports: tuple[Report, ...] = ()
