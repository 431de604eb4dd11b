"""One executor in the books of the ledger: its present spell, and what its spells before were booked as.

``ledger`` says what is booked when; here is what it is booked into, and what a whole life comes to at its end: only then is
it known whether it ever ran a task, and how much of its work came to nothing. ``CAUSES`` is the order in which they prevail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.rerun.ledger.causes import SpendCause

CAUSES: Final = (
    SpendCause.RUNNING,
    SpendCause.LOST_WORK,
    SpendCause.LEAVING,
    SpendCause.OVER_REQUESTED,
    SpendCause.STARTING,
    SpendCause.CACHED,
    SpendCause.SHUFFLE,
    SpendCause.MINIMUM,
    SpendCause.IDLE_TIMEOUT,
    SpendCause.LAST_TASK,
    SpendCause.SERIAL,
    SpendCause.FEW_TASKS,
    SpendCause.DRIVER,
    SpendCause.OTHER,
)
"""Every cause; where two apply, the first. The order of ``Bill.causes``."""

REQUESTED, IDLE, BUSY, GONE = range(4)
STATES: Final = ("not yet registered", "idle", "busy", "gone")


@dataclass(slots=True, eq=False)
class ExecutorLife:
    """One executor: its present spell, and what is booked of the spells before.

    ``since``: when the present spell began; ``phases_at``: the application's sums then (of an idle spell);
    ``timeout_at``: when its plain idle timeout passes; ``hold``: the data that keeps it, ``hold_since`` this spell;
    ``slots``: tasks that it runs at once.
    """

    requested: Millis
    registered: Millis | None = None
    slots: int = 0
    ended: Millis = field(init=False)
    since: Millis = field(init=False)
    state: int = REQUESTED
    going: bool = False
    ran: bool = False
    lost: bool = False
    fresh: bool = False
    timeout_at: Millis = NEVER
    hold: SpendCause | None = None
    hold_since: Millis = field(init=False)
    phases_at: tuple[Millis, ...] = ()
    starting: Millis = 0
    running: Millis = 0
    leaving: Millis = 0
    idle_timeout: Millis = 0
    driver: Millis = 0
    last_task: Millis = 0
    serial: Millis = 0
    few_tasks: Millis = 0
    other: Millis = 0
    cached: Millis = 0
    shuffle: Millis = 0
    minimum: Millis = 0
    task_ms: Millis = 0
    wasted_ms: Millis = 0

    def __post_init__(self) -> None:
        self.ended = self.since = self.hold_since = self.requested

    def keep(self, at: Millis) -> None:
        """Books what lies beyond the idle timeout, up to ``at``, under what keeps it now; ``at`` is later than both."""
        start = self.hold_since if self.hold_since > self.timeout_at else self.timeout_at
        if self.hold is None:
            self.minimum += at - start
        elif self.hold is SpendCause.CACHED:
            self.cached += at - start
        else:
            self.shuffle += at - start

    def filled(self) -> float:
        """Of the time in which it ran tasks, what those fill whose result counted: a slot is its share of the executor."""
        useful = self.task_ms - min(self.wasted_ms, self.task_ms)
        return useful / self.slots if self.slots else 0.0

    def causes(self) -> tuple[Millis, ...]:
        """Its whole life, once it has ended, in the order of ``CAUSES``."""
        if not self.ran:
            return 0, 0, self.leaving, self.ended - self.requested - self.leaving, *(0,) * 10
        wasted = min(self.wasted_ms, self.task_ms)
        lost_work = self.running * wasted // self.task_ms if wasted else 0
        return (
            self.running - lost_work,
            lost_work,
            self.leaving,
            0,
            self.starting,
            self.cached,
            self.shuffle,
            self.minimum,
            self.idle_timeout,
            self.last_task,
            self.serial,
            self.few_tasks,
            self.driver,
            self.other,
        )
