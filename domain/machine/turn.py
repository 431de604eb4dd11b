"""What one call of a decision works with: the machine's state as it is by now, and what it has said.

A decision is ``f(state, snapshots, config, now) -> Step``. Within it a machine takes its inputs one by one. ``Turn`` holds
what every machine needs for that; a machine adds its rules. At the end ``step`` hands the new state over with the commands
and reports, in the order in which they were said.

The ``state`` of a turn is a copy (``copied``) that belongs to the turn alone. The turn sets its fields by name and nobody
writes to it after ``step``; so an old state answers as before, and a step costs one copy of the fields, however many of
them change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from pyrsistent import pmap

from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.pod_stimuli import CallFailure
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw, Why

UTILS: Final = "Utils"
"""Who logs an exception that nobody catches (Utils.tryLogNonFatalError)."""

S = TypeVar("S")
C = TypeVar("C")


class Remarking(Protocol):
    """A machine's config says whether to report what only Spark's log says."""

    @property
    def remarks(self) -> bool:
        """Whether to report that."""
        ...


G = TypeVar("G", bound=Remarking)


class Turn(Generic[S, G, C]):
    """One call of a machine's decision under way. ``machine``: the Spark class that speaks in reports."""

    machine: str

    def __init__(self, state: S, config: G, now: Millis) -> None:
        self.state = copied(state)
        self.config = config
        self.now = now
        self.commands: list[C] = []
        self.reports: list[Report] = []

    def step(self) -> Step[S, C]:
        """The state as it is now, and all that was said."""
        return Step(self.state, tuple(self.commands), tuple(self.reports))

    def remark(self, topic: str, machine: str | None = None, **facts: Fact) -> None:
        """Report a line of Spark's log that no command says, if remarks are wanted."""
        if self.config.remarks:
            self.reports.append(Remark(self.now, machine or self.machine, topic, pmap(facts)))

    def uncaught(self, thread: str, what: str) -> None:
        """Report an exception that Spark logs and forgets (Utils.tryLogNonFatalError)."""
        self.remark("uncaught", UTILS, thread=thread, what=what)

    def threw(self, fault: SparkFault | str, *, fatal: bool = False) -> None:
        """Report an exception that leaves the machine."""
        self.reports.append(Threw(self.now, self.machine, str(fault), fatal))


def copied(state: S) -> S:
    """A copy of a dataclass, field by field, for a turn to change."""
    kind: Any = type(state)
    made: S = kind(*_values_of(kind)(state))
    return made


@cache
def _values_of(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(field.name for field in fields(kind)))


def why(cause: Cause, **facts: Fact) -> Why:
    """A cause with its facts."""
    return Why(cause, pmap(facts))


def thrown(failure: CallFailure) -> SparkFault:
    """What Spark throws where a call fails."""
    return SparkFault(failure.exception_class, failure.message)
