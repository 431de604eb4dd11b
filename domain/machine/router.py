"""One step of several machines: each tells the others values, and a router carries them, first come first served.

The machines of a cluster manager's side do not know one another. The router of a side has a handler for each of them; it
takes a stimulus from outside, hands it to the machines that it concerns, and goes on until the queue is empty. A handler is
typed by what its machine hears, and ``post`` takes no message that the handler does not. What is for the outside gathers in
``commands`` and ``reports``; who takes some of it out in between keeps it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Report, Step

T = TypeVar("T")
C = TypeVar("C")
M = TypeVar("M")
S = TypeVar("S")
D = TypeVar("D")


class Router(ABC, Generic[T, C]):
    """One step under way: what the machines still have to tell one another, and what goes out."""

    def __init__(self, now: Millis) -> None:
        self.now = now
        self.commands: list[C] = []
        self.reports: list[Report] = []
        self.queue: deque[tuple[Callable[[Any], None], Any]] = deque()

    @abstractmethod
    def receive(self, stimulus: T) -> None:
        """Post one stimulus to the machines that it concerns."""

    def take(self, stimulus: T) -> None:
        """Take one stimulus, and carry messages until the machines are silent."""
        self.receive(stimulus)
        while self.queue:
            handler, message = self.queue.popleft()
            handler(message)

    def post(self, handler: Callable[[M], None], message: M) -> None:
        """Queue a message for a machine."""
        self.queue.append((handler, message))

    def post_first(self, handler: Callable[[M], None], message: M) -> None:
        """Queue a message for a machine before all others."""
        self.queue.appendleft((handler, message))

    def decided(self, step: Step[S, D]) -> Step[S, D]:
        """What a machine decided; its reports go out."""
        self.reports.extend(step.reports)
        return step
