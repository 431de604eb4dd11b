"""What a history holds, as values: a run as its log describes it, events for others, and the outcome for each log.

A run is known by its application's id, its attempt and its start. The attempt is "" where Spark gave none (client mode), the
start 0 where the log has none; ids of local and standalone masters are unique on one machine only, so the start tells
two runs with one id apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from podtide.adapters.fleet.rows import FleetRow, Stamp
from podtide.adapters.text.documents import schema_name
from podtide.domain.base.units import Millis
from podtide.domain.whatif.prices import Usage

SCHEMA: Final = schema_name("watch-event")
"""Of the events."""

EXIT_SINK: Final = "exit code"
"""Where regressions wait until they have become an exit code."""


class LogOutcome(StrEnum):
    """The outcome for a log."""

    TAKEN = "taken"
    """It is a run of the history."""
    KNOWN = "known"
    """Its run had been taken up from another place."""
    BROKEN = "broken"
    """It cannot be read, holds nothing, or the work on it was ended; tried again when it has changed."""
    SKIPPED = "skipped"
    """It is no event log."""


class EventKind(StrEnum):
    """What an event reports."""

    RUN = "run"
    """A run was taken up."""
    BROKEN = "broken"
    """A log could not be taken up."""
    REGRESSION = "regression"
    """A run took longer, or cost more, than noise explains."""
    IMPROVEMENT = "improvement"
    STALL = "stall"
    """Tasks of a run waited and nothing moved."""


class RunStalled(msgspec.Struct, frozen=True):
    """When and why nothing moved in a run (``domain.stalls``); ``began_s``: since its start; ``lasts``: to the end of its
    log."""

    cause: str
    profile: int
    began_s: float
    seconds: float
    lasts: bool
    meaning: str
    advice: str


class RunKey(NamedTuple):
    """By what a run is known."""

    app_id: str
    attempt: str
    started_ms: Millis


class WatchedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer for one log. ``finished``: the log has the application's end, and nothing is missing of it;
    ``healthy``: besides, its last job succeeded; ``known``: the history has the run whole, so nothing was computed;
    ``core_hours``, ``gb_hours``: billed, as recorded (the row's are as simulated); ``account``: what comparisons need of it
    (``history.accounts``); ``stalls``: alarms."""

    row: FleetRow
    attempt: str = ""
    core_hours: float = 0.0
    gb_hours: float = 0.0
    ended_ms: Millis | None = None
    finished: bool = False
    healthy: bool = False
    known: bool = False
    account: bytes | None = None
    stalls: tuple[RunStalled, ...] = ()

    @property
    def key(self) -> RunKey | None:
        """By what the run is known; None where the log does not say whose it is."""
        row = self.row
        return None if not row.app_id else RunKey(row.app_id, self.attempt, row.started_ms or 0)


class KeptRun(NamedTuple):
    """A run of the history. ``place``: where its log lay; ``usage``: what it took of executors, as recorded;
    ``verdict``: by measure, what it was judged to be."""

    id: int
    key: RunKey
    name: str
    ended_ms: Millis | None
    finished: bool
    healthy: bool
    usage: Usage
    row: FleetRow
    place: str
    stamp: Stamp
    verdict: Mapping[str, Any]


class WatchEvent(NamedTuple):
    """Something to be told. ``body``: JSON, one line without its end."""

    id: int
    kind: EventKind
    body: bytes


class HistoryTotals(NamedTuple):
    """Of a whole history."""

    runs: int
    applications: int
    broken: int
    events: Mapping[str, int]
    waiting: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(WatchedRun)


def run_bytes(run: WatchedRun) -> bytes:
    """A worker's answer on its way to the parent."""
    return _encoder.encode(run)


def run_of(data: bytes) -> WatchedRun:
    """What ``run_bytes`` wrote. Raises msgspec.DecodeError."""
    return _decoder.decode(data)
