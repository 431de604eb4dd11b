"""When an application began and ended, and which executors were there: what events claim, and whom to believe.

The work of an application is its jobs, stages, tasks and SQL executions. Their times are those that their events claim; one
that claims none, or a time before the application's start, happened at the latest time that the work had claimed by then
(``Times.of_work``). What executors claim never moves that clock: logs are put together and edited, and a single executor
that claims to have come two years later would carry all that follows it there.

- *Start and end* are ApplicationStart's and ApplicationEnd's own. Without an end it is the last time that the work claims,
  or an executor's coming or going up to a day later (an application that idles is still there). Several applications in one
  log end with the last of them.
- *Strays*: an executor that claims to have come before the start or after the end was there if tasks say so, from the first
  of them on; else it is no part of the application's life (``place``). One that ran a task before it came, came with it.
  So it is with a stage that no job lists and that was submitted outside of this time.
- *Came unasked*: where most of the executors that came together at the start were asked for by nobody that the replay knows
  of (a platform's own initial executors), all of these were asked for at the start (``came_unasked``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.recorded.executors import ExecutorRecord
from podtide.domain.recorded.request_times import Registration

IDLE_MAX_MS: Final[Millis] = 86_400_000
"""So long after the last work an executor's coming or going still tells that an application without an end was there."""

TOGETHER_MS: Final[Millis] = 10_000
"""Executors that come within so long of the first one came with the start."""

UNASKED_MIN: Final = 2
"""One executor that nothing explains may be an accident of the replay."""

CAME_UNASKED: Final = "executors at the start unasked"
"""In ``Application.counts``: how many executors there were from the start, whatever the conf says."""

STRAYS: Final = "executors out of time"
"""In ``Application.counts``: executors that are no part of the application's life."""

STRAY_TASKS: Final = "tasks out of time"
"""In ``Application.counts``: tasks of stages that no job knows, outside of the application's time."""


@dataclass(slots=True, eq=False)
class Times:
    """What the events of a log claimed so far. ``clock``: the latest time that the work claimed."""

    clock: Millis = 0
    started: Millis | None = None
    ended: Millis | None = None
    first: Millis | None = None

    def of_work(self, claimed: Millis, clock: Millis) -> Millis:
        """When something of the work happened that claims ``claimed`` (-1: nothing), ``clock`` being the latest so far."""
        if claimed <= 0 or (self.started is not None and claimed < self.started):
            return clock
        if self.first is None or claimed < self.first:
            self.first = claimed
        return claimed

    def start(self, claimed: Millis) -> None:
        """ApplicationStart. Logs that were put together hold several: the first one counts."""
        if self.started is None and claimed >= 0:
            self.started = claimed

    def end(self, claimed: Millis) -> None:
        """ApplicationEnd."""
        if claimed >= 0:
            self.ended = claimed if self.ended is None else max(self.ended, claimed)

    def begins(self, first_event_at: Millis) -> Millis:
        """When the application began. ``first_event_at``: the first time that any event of the log claims."""
        if self.started is not None:
            return self.started
        return first_event_at if self.first is None else min(first_event_at, self.first)

    def ends(self, started: Millis, lives: Iterable[ExecutorRecord], *, several: bool) -> Millis:
        """When the application ended. ``several``: the log holds more than one."""
        if self.ended is not None and self.ended >= started and not several:
            return self.ended
        claims = (t for life in lives for t in (life.added, life.removed) if t is not None)
        tail = max((t for t in claims if t <= self.clock + IDLE_MAX_MS), default=0)
        return max(started, self.clock, tail, self.ended or 0)


def place(lives: Iterable[ExecutorRecord], started: Millis, ended: Millis) -> frozenset[int]:
    """Put executors where their tasks say that they were; returns the numbers of those that are strays."""
    strays = set()
    for life in lives:
        first = life.first_task
        if first is not None and started <= first <= ended and (first < life.added or life.added < started):
            life.added = first
        if not started <= life.added <= ended:
            strays.add(life.number)
        elif life.removed is not None:
            life.removed = max(life.removed, life.added)
    return frozenset(strays)


def came_unasked(executors: Sequence[Registration], requested_ms: Sequence[Millis | None]) -> tuple[int, ...]:
    """The executors (places in both sequences) that were there from the start, if most of them came unasked; else ()."""
    if not executors:
        return ()
    first = min(one.added_ms for one in executors)
    began = [place for place, one in enumerate(executors) if one.added_ms <= first + TOGETHER_MS]
    unasked = sum(requested_ms[place] is None for place in began)
    return tuple(began) if unasked >= UNASKED_MIN and 2 * unasked >= len(began) else ()
