"""A scenario under way, as all kinds have it: the clock, the answers so far, and Spark's refusal to be constructed.

The lines of a scenario were checked against the shapes of its kind (``conformance.detect``) before they come here, so
they are read as they are; only ids, which may be numbers, become the text that Java makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from podtide.domain.base.units import Millis
from podtide.domain.conf.settings import ConstructFailure

Line = dict[str, Any]
T = TypeVar("T")

OK: Final = 200
FORBIDDEN: Final = 403


class ConstructionRefused(Exception):
    """Spark's class cannot be constructed with the conf of the scenario: there is nothing to drive."""


class Runner(Protocol):
    """Plays one scenario. ``lines``: the answers to the header, after construction."""

    lines: list[Line]

    def step(self, line: Line) -> Iterable[Line]:
        """Take one line of the scenario; returns the lines that Spark would answer. Raises ShapeError."""
        ...


class Scripted:
    """What runners have in common."""

    def __init__(self, header: Line) -> None:
        self.now: Millis = header.get("startAt", 0)
        self.app_id: str = header.get("appId", "app-1")
        self.lines: list[Line] = []

    def say(self, line: Line) -> None:
        """Answer a line, now."""
        self.lines.append({"at": self.now, **line})


def constructed(config: T | ConstructFailure) -> T:
    """The config. Raises Refused where Spark's constructor ends in an exception."""
    if isinstance(config, ConstructFailure):
        raise ConstructionRefused(f"construct: {config}")
    return config


def played(make: Callable[[Line], Runner], lines: Sequence[Line]) -> Iterator[Line]:
    """Everything that Spark would have said to a scenario, header first. Raises ShapeError."""
    try:
        runner = make(lines[0])
    except ConstructionRefused as refused:
        yield {"error": str(refused)}
        return
    yield from runner.lines
    for line in lines[1:]:
        yield from runner.step(line)
