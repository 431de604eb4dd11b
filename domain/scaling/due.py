"""When a tick of schedule() could decide or report anything, so that nobody has to tick in vain.

A tick changes something if a target or an increment moves, if a timed-out executor may go, if the exception that a round
ends in is another one than the last round's, or if a bound began, changed or ended. All of that is asked of the rules of the
round itself (``rules``, ``bounds``). What only time changes has a deadline: the backlog timer's, and the executor monitor's.
"""

from __future__ import annotations

from podtide.domain.base.units import ALWAYS, NEVER, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling.bounds import bounds_in_force
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.rules import ProfileRow, departures, grows, is_written, moved, profile_rows
from podtide.domain.scaling.state import ScalingState


def due(state: ScalingState, load: Load, config: ScalingConfig) -> Millis:
    """The earliest time at which a tick could decide or report anything; ALWAYS for "the next one", or NEVER.

    Holds until the next stimulus. A tick before that time, and every tick that ``due`` lets pass, changes
    nothing, so skipping it decides exactly what ticking every 100 ms would.
    """
    if state.stopped or state.awaiting is not None:
        return NEVER
    at = state.idleness.due()
    if at == ALWAYS:
        return ALWAYS
    listed = state.idleness.timed_out()
    if state.initializing:
        return ALWAYS if listed else at
    growing = grows(state)
    fault: SparkFault | None = None
    rows = profile_rows(state, load, config)
    for row in rows:
        if isinstance(row, SparkFault):  # the round ends here
            fault = row
            break
        if _changes(row, config, growing=growing, expired=False):
            return ALWAYS
        if state.add_time < at and _changes(row, config, growing=growing, expired=True):
            at = state.add_time
    if fault is None and listed:
        leaving, fault = departures(state, config)
        if leaving:
            return ALWAYS
    if (None if fault is None else str(fault)) != state.thrown:
        return ALWAYS
    if fault is None and bounds_in_force(state, rows, config) is not state.bounds:
        return ALWAYS
    return at


def _changes(row: ProfileRow, config: ScalingConfig, *, growing: bool, expired: bool) -> bool:
    if growing and is_written(row, config, expired=expired):
        return True
    return moved(row, config, expired=expired) != (row.target, row.increment)
