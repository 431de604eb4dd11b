"""What the core says: commands to carry out, and reports of what was held back; each with its reasons.

A command asks somebody else for something and may be answered (``Answer``, by ``serial``). A report asks for
nothing: it says that a bound began to hold something back, changed or let go, so that silence means that
nothing was held. Reasons are values: a cause from a closed list and the numbers behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pyrsistent import PMap, pmap

from podtide.domain.units import ExecutorId, Millis, ProfileId

Fact: TypeAlias = int | float | str | None
"""One number (or name) behind a decision; times in milliseconds, executors and tasks as counts."""


class Cause(Enum):
    """Why a command was given. The texts are the names in every output."""

    INITIAL = "initial"
    NEW_PROFILE = "new profile"
    BACKLOG = "backlog"
    SUSTAINED_BACKLOG = "sustained backlog"
    LOWERED_NEED = "lowered need"
    MINIMUM = "minimum"
    RESYNC = "resync after removal"
    IDLE = "idle"
    CACHED_IDLE = "cached idle"
    SHUFFLE_IDLE = "shuffle idle"


class Bound(Enum):
    """What held executors back, kept them alive, or cut an increase. The texts are the names in every output."""

    NEED = "need"
    RAMP = "ramp"
    RATIO = "ratio"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    TARGET = "target"
    RUNNING_TASK = "running task"
    CACHED_DATA = "cached data"
    SHUFFLE_DATA = "shuffle data"
    UNKNOWN_PROFILE = "unknown profile"
    REFUSED_KILL = "refused kill"


class Phase(Enum):
    """A report's place in the life of what it reports."""

    BEGAN = "began"
    CHANGED = "changed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Why:
    """A cause and the numbers behind it."""

    cause: Cause
    facts: Mapping[str, Fact] = field(default_factory=pmap)


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


Command: TypeAlias = RequestTotal | Kill | Decommission
"""Everything dynamic allocation tells the scheduler backend (all of the notify family)."""


@dataclass(frozen=True, slots=True)
class Held:
    """A bound holds something back (or no longer): growth of a profile, or executors that could have gone.

    ``executors`` names the executors where the bound is theirs (cached data, shuffle data); where it is the
    profile's (minimum, maximum, target, ...) ``facts["executors"]`` counts them.
    """

    at: Millis
    phase: Phase
    bound: Bound
    profile: ProfileId
    executors: tuple[ExecutorId, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=pmap)


@dataclass(frozen=True, slots=True)
class ScheduleThrew:
    """schedule() ended in an exception, as Spark's would; the loop survives and tries again every tick.

    ``repeated``: the round before ended in the same one.
    """

    at: Millis
    what: str
    repeated: bool = False


Report: TypeAlias = Held | ScheduleThrew
"""What happened inside, for people and records; nobody has to act upon it."""

S = TypeVar("S")


class Step(NamedTuple, Generic[S]):
    """One step forward: the new state, what to do, and what was held back."""

    state: S
    commands: tuple[Command, ...] = ()
    reports: tuple[Report, ...] = ()
