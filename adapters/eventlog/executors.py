"""The executors of a log as they come and go while it is read: how many there are, and how many there were at most."""

from __future__ import annotations

from podtide.domain.base.units import Millis


class LogExecutors:
    """The executors of the log, as they really came and went."""

    def __init__(self) -> None:
        self.added = 0
        self.removed = 0
        self.peak = 0
        self.peak_ms: Millis | None = None
        self.finished_ms: Millis = 0
        self.alive: dict[str, Millis] = {}

    def add(self, executor: str, claimed: Millis, logged: Millis) -> None:
        """An executor registered at ``claimed``, by its own word; the event was logged at ``logged``."""
        if executor in self.alive:
            return
        self.added += 1
        self.alive[executor] = claimed if 0 <= claimed <= logged else logged
        if len(self.alive) > self.peak:
            self.peak, self.peak_ms = len(self.alive), logged

    def remove(self, executor: str, claimed: Millis, logged: Millis) -> None:
        """An executor was removed."""
        began = self.alive.pop(executor, None)
        if began is not None:
            self.removed += 1
            self.finished_ms += max(0, (claimed if claimed >= began else logged) - began)

    def executor_ms(self, end: Millis) -> Millis:
        """Executor-milliseconds from added to removed, or to ``end`` for those that were never removed."""
        return self.finished_ms + sum(max(0, end - began) for began in self.alive.values())
