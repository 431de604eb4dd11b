"""A worker's work on one log of a history: whose run it is, its row as in a fleet, and what comparisons need of it.

Errors, limits and what is no event log are those of ``fleet.work``. A log on this machine is first asked whose it is, by its
first lines; where the history has that run whole, it is not read further: size and time of change are hints, and a copy,
or a file that was only touched, costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from podtide.adapters.eventlog.application import SHAPES
from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.adapters.fleet.rows import FleetRow, RowStatus, row_of, shortened
from podtide.adapters.history.accounts import account_bytes
from podtide.adapters.history.store import HistoryError, RunHistory
from podtide.adapters.history.values import RunKey, RunStalled, WatchedRun, run_bytes
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import RunStall
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.unknowns import lost_parts
from podtide.domain.stalls.causes import ROWS
from podtide.domain.whatif.prices import Usage
from podtide.entrypoints.compare.accounts import read_account
from podtide.entrypoints.fleet.assess import assess_application
from podtide.entrypoints.fleet.work import FleetOptions, answer, clean
from podtide.entrypoints.whatif.recorded_log import NothingToRun

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class TakeUpOptions:
    """What is asked of every log. ``history``: a file where workers see what is known; None where they do not reach it."""

    fleet: FleetOptions = field(default_factory=FleetOptions)
    history: str | None = None


def take_up(options: TakeUpOptions, request: bytes) -> bytes:
    """A worker's work: the ``WatchedRun`` of the log that ``request`` (``fleet.work.request``) names, as bytes."""
    place: str = json.loads(request)[0]
    if options.history is not None and not is_url(place) and (known := _known(place, options.history)) is not None:
        return run_bytes(known)
    found: list[WatchedRun] = []

    def assess(path: str, wish: FleetOptions) -> FleetRow:
        row, run = _assessed(path, wish)
        found.append(run)
        return row

    row = row_of(answer(assess, options.fleet, request))
    run = found[0] if found else WatchedRun(row=row)
    return run_bytes(msgspec.structs.replace(run, row=row))


def _assessed(path: str, wish: FleetOptions) -> tuple[FleetRow, WatchedRun]:
    try:
        with open_log(path) as source:
            read, account = read_account(source)
    except NothingToRun as nothing:
        row = FleetRow(log=path, status=RowStatus.REFUSED, reason=shortened(clean(str(nothing))))
        return row, WatchedRun(row=row)
    application = read.application
    row = assess_application(path, application, wish)
    whole = application.end_known and lost_parts(application) is None
    used = usage_as_billed(account.executors.shapes)
    run = WatchedRun(
        row=row,
        core_hours=round(used.core_hours, 6),
        gb_hours=round(used.gb_hours, 6),
        account=account_bytes(account),
        attempt=clean(read.attempt or ""),
        ended_ms=application.ended_ms,
        finished=whole,
        healthy=whole and _succeeded(application),
        stalls=tuple(map(_stalled, account.stalls)),
    )
    return row, run


def usage_as_billed(shapes: Iterable[tuple[int, int, Millis]]) -> Usage:
    """What executors of these shapes (cores, memory in MiB, billed milliseconds) took."""
    known = list(shapes)
    core_ms = sum(cores * ms for cores, _, ms in known)
    mib_ms = sum(memory * ms for _, memory, ms in known)
    return Usage(core_ms / HOUR_MS, mib_ms / 1024 / HOUR_MS)


def _stalled(one: RunStall) -> RunStalled:
    row, seconds = ROWS[one.cause], (one.ended_ms - one.began_ms) / 1000
    return RunStalled(one.cause.value, one.profile, one.began_ms / 1000, seconds, one.lasts, row.meaning, row.advice)


def _succeeded(application: Application) -> bool:
    """Whether the job that ended last did well: a program may survive others that fail."""
    ended = [job for job in application.jobs if job.ended_ms is not None]
    last = max(ended, key=lambda job: (job.ended_ms, job.job), default=None)
    return last is None or last.succeeded


def _known(place: str, history: str) -> WatchedRun | None:
    """The answer for a log whose run the history has; None where it has not, or the log does not begin like one."""
    try:
        with open_log(place) as source:
            prologue = EventLogSensor(source, shapes=SHAPES).prologue()
        if not prologue.id:
            return None
        app_id, attempt, started = (
            shortened(clean(escaped(prologue.id))),
            clean(prologue.attempt or ""),
            prologue.started_ms,
        )
        with RunHistory(history, write=False) as base:
            if not base.has_whole(RunKey(app_id, attempt, started or 0)):
                return None
    except (LogError, HistoryError):  # whatever is wrong with a log is told by reading all of it
        return None
    row = FleetRow(log="", status=RowStatus.OK, app_id=app_id, started_ms=started)
    return WatchedRun(row=row, attempt=attempt, known=True)
