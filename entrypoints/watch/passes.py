"""One pass over the places: find what is new, take it up, judge it, tell of it. What a cron job does once, a watch repeats.

1. Every place is walked; a log whose size, time of change and etag are as they were is passed over, and one that Spark
   writes still. What is left is new, or has changed.
2. An engine (processes here, or a Spark cluster) answers for each log, in any order. Log, run and event are kept in one
   transaction each.
3. The new runs are judged in the order of their starts, a transaction each.
4. Events go where they are wanted (``adapters.history.sinks``).

Whatever ends the process in between, the next pass goes on: 1 finds what was not taken up, 3 and 4 go by what the history
says is left to do. A place that cannot be listed is reported, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.fleet.discovery import Finder, FoundLog
from podtide.adapters.fleet.journal import Log
from podtide.adapters.fleet.rows import RowStatus, shortened, shown_place
from podtide.adapters.history.history_server import applications, is_history_server
from podtide.adapters.history.sinks import Sink, SinkError
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import EventKind, KeptRun, LogOutcome, RunStalled, WatchedRun, run_of
from podtide.adapters.process_pool import Ended, Work
from podtide.domain.base.units import Millis
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.fleet.run import Answers
from podtide.entrypoints.fleet.work import FleetOptions, failed, request
from podtide.entrypoints.watch.judging import Sinks, judge_all, run_entry
from podtide.entrypoints.watch.take_up import TakeUpOptions, take_up

TakeUp = Callable[[TakeUpOptions, bytes], bytes]
"""A worker's work (``take_up``, or what a test has instead); found by its name in its module."""

WatchEngine = Callable[[Work], Answers]

STALLS_TOLD: Final = 10
"""Stalls of a run that an event names."""

_TAKEN: Final = frozenset({RowStatus.OK, RowStatus.REFUSED})


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """What is watched, and how. ``sinks``: which sink wants which events; ``shared``: workers reach the history's file;
    ``again``: logs that could not be taken up are tried again though nothing has changed."""

    places: tuple[str, ...]
    options: FleetOptions = field(default_factory=FleetOptions)
    sinks: Sinks = field(default_factory=dict)
    shared: bool = True
    again: bool = False

    @property
    def prices(self) -> Prices | None:
        """What money is reckoned by."""
        return self.options.prices


@dataclass(slots=True)
class PassTally:
    """What a pass came to. ``found``: logs that lie there; ``writing``: of them those that Spark writes still;
    ``stalled``: runs in which nothing moved for a while; ``problems``: of places and of sinks, a line each."""

    found: int = 0
    writing: int = 0
    entered: int = 0
    done: int = 0
    taken: int = 0
    known: int = 0
    broken: int = 0
    skipped: int = 0
    regressions: int = 0
    stalled: int = 0
    unseen: int = 0
    problems: list[str] = field(default_factory=list)


def watch_once(
    history: RunHistory,
    terms: WatchTerms,
    engine: WatchEngine,
    sinks: Sequence[Sink],
    now: Callable[[], Millis],
    progress: Callable[[PassTally], None] = lambda _tally: None,
    work: TakeUp = take_up,
) -> PassTally:
    """One pass. Raises HistoryError and what the engine raises."""
    tally = PassTally()
    history.begin_pass()
    for place in terms.places:
        _find(history, place, terms, tally, progress)
    if tally.entered:
        options = TakeUpOptions(terms.options, str(history.path) if terms.shared else None)
        with engine(partial(work, options)) as answers:
            for log, reply in answers.run(_requests(history, terms, tally, now)):
                _keep(history, log.found, _answered(log.found, reply), terms.sinks, tally, now())
                progress(tally)
    tally.regressions = judge_all(history, terms.prices, terms.sinks, now())
    deliver(history, sinks, now(), tally)
    return tally


def deliver(history: RunHistory, sinks: Sequence[Sink], now: Millis, tally: PassTally) -> None:
    """Have events go where they are wanted; what does not work is a problem of the pass."""
    for sink in sinks:
        try:
            sink.deliver(history, now)
        except SinkError as problem:
            tally.problems.append(str(problem))


def _find(
    history: RunHistory, place: str, terms: WatchTerms, tally: PassTally, progress: Callable[[PassTally], None]
) -> None:
    try:
        logs = applications(place) if is_history_server(place) else Finder().argument(place)
        for found in logs:
            tally.found += 1
            if found.in_progress:
                tally.writing += 1
            elif history.offer(_absolute(found), again=terms.again):
                tally.entered += 1
            progress(tally)
    except LogError as problem:
        tally.unseen += 1
        tally.problems.append(str(problem))


def _absolute(found: FoundLog) -> FoundLog:
    """The log under a name that holds wherever the next pass is started, and where workers stand."""
    place = found.place
    return found if is_url(place) or place.startswith("file:") else found._replace(place=str(Path.cwd() / place))


def _requests(
    history: RunHistory, terms: WatchTerms, tally: PassTally, now: Callable[[], Millis]
) -> Iterator[tuple[Log, bytes]]:
    for found in history.todo():
        if found.problem is not None:
            row = failed(found, found.problem, RowStatus.UNREADABLE)
            _keep(history, found, WatchedRun(row=row), terms.sinks, tally, now())
        else:
            yield Log(found, ""), request(found, found.place)


def _answered(found: FoundLog, reply: bytes | Ended) -> WatchedRun:
    if isinstance(reply, Ended):
        return WatchedRun(row=failed(found, reply.why))
    try:
        run = run_of(reply)
    except msgspec.DecodeError as problem:  # a worker of another podtide
        return WatchedRun(row=failed(found, f"its worker's answer cannot be understood: {problem}"))
    return msgspec.structs.replace(run, row=msgspec.structs.replace(run.row, log=shown_place(found.place)))


def _keep(history: RunHistory, found: FoundLog, run: WatchedRun, sinks: Sinks, tally: PassTally, now: Millis) -> None:
    """Take up a log: one transaction, whatever became of it."""
    tally.done += 1
    row, key = run.row, run.key
    with history.change():
        if row.status is RowStatus.SKIPPED:
            tally.skipped += 1
            history.put_log(found, LogOutcome.SKIPPED, now)
        elif key is None or row.status not in _TAKEN:
            tally.broken += 1
            reason = shortened(row.reason or "the log does not say whose it is")
            history.put_log(found, LogOutcome.BROKEN, now, reason)
            body = {"log": shown_place(found.place), "status": row.status.value, "reason": reason}
            history.tell(EventKind.BROKEN, sinks, now, None, body)
        elif run.known or ((known := history.find(key)) is not None and known[1]):
            tally.known += 1
            history.put_log(found, LogOutcome.KNOWN, now)
        else:
            tally.taken += 1
            number = history.put_run(run, found.place)
            history.put_log(found, LogOutcome.TAKEN, now, run=number)
            kept = history.run(number)
            assert kept is not None
            history.tell(EventKind.RUN, sinks, now, kept, _run_body(kept))
            if run.stalls:
                tally.stalled += 1
                history.tell(EventKind.STALL, sinks, now, kept, _stall_body(kept, run.stalls))


def _stall_body(run: KeptRun, stalls: Sequence[RunStalled]) -> dict[str, object]:
    return {
        **run_entry(run),
        "finished": run.finished,
        "stalls": [msgspec.to_builtins(one) for one in stalls[:STALLS_TOLD]],
        "stalls_left_out": max(0, len(stalls) - STALLS_TOLD),
    }


def _run_body(run: KeptRun) -> dict[str, object]:
    row = run.row
    return {
        **run_entry(run),
        "finished": run.finished,
        "healthy": run.healthy,
        "status": row.status.value,
        "reason": row.reason,
        "runtime_s": row.runtime_s,
        "executor_seconds": row.executor_seconds,
        "core_hours": run.usage.core_hours,
        "gb_hours": run.usage.gb_hours,
        "waste_s": row.waste_s,
        "best": row.best,
        "saving_core_hours": row.saving_core_hours,
        "saving_cost": row.saving_cost,
    }
