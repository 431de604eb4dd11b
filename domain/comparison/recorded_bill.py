"""The bill of the run that a log tells of: the ledger's causes, kept from what happened instead of from a simulation.

What a log does not say is taken as follows. An executor whose request is not known was asked for when it registered. Idle
beyond spark.dynamicAllocation.executorIdleTimeout it was kept by shuffle data if it had ended a task that writes a shuffle
and shuffles are tracked, else by the minimum. A stage waits for executors from its submission to its last launch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.comparison.task_accounts import TaskAccounts
from podtide.domain.recorded.application import SKEW, Application, Leave, RecordedExecutor
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.rerun.ledger.ledger import Ledger

_REQUESTED, _REGISTERED, _IDLE, _BUSY, _REMOVED, _WAITS, _RUNS, _RAN, _WAITED = range(9)
"""What happens; at one moment in this order."""


class Keeping(NamedTuple):
    """What keeps idle executors: the plain idle timeout (NEVER: a static count), and whether shuffles are tracked."""

    idle_timeout_ms: Millis
    tracked: bool


class StageSpan(NamedTuple):
    """A stage while it waits and while it runs; ``tasks`` of it; ``skewed``: one of them is waited for."""

    submitted: Millis
    first_launch: Millis
    last_launch: Millis
    last_end: Millis
    tasks: int
    skewed: bool


def skewed(longest_ms: Millis, tasks: int, all_ms: Millis) -> bool:
    """Whether the longest task takes ``SKEW`` times as long as the others on average, or longer."""
    return tasks > 1 and longest_ms * (tasks - 1) >= SKEW * max(1, all_ms - longest_ms)


def recorded_bill(
    application: Application, tasks: TaskAccounts, spans: Sequence[StageSpan], keeping: Keeping
) -> dict[SpendCause, Millis]:
    """Every executor-millisecond, from request to end, under one cause.

    O(n log n) in the turns of executors and stages.
    """
    end = application.ended_ms
    lives = [one for one in application.executors if one.added_ms <= end]
    begin = min((_requested(one) for one in lives), default=application.started_ms)
    ledger = Ledger(min(begin, application.started_ms), tick_ms=100)
    places = _lives_by_executor(lives)
    busy: set[int] = set()
    started: set[int] = set()
    running = waiting = skew = single = 0
    for at, kind, which in heapq.merge(
        sorted(_of_executors(lives, end)), sorted(_of_turns(tasks, places, lives, end)), sorted(_of_stages(spans, end))
    ):
        if kind == _REQUESTED:
            ledger.requested(which, at)
        elif kind == _REGISTERED:
            ledger.registered(which, at, max(1, lives[which].cores))
            ledger.idle(which, at, _timeout(at, keeping))
            started.add(which)
        elif kind == _BUSY and which in started and which not in busy:
            ledger.busy(which, at)
            busy.add(which)
        elif kind == _IDLE and which in busy:
            ledger.idle(which, at, _timeout(at, keeping))
            if keeping.tracked and tasks.wrote.get(lives[which].executor, NEVER) <= at:
                ledger.held(which, at, SpendCause.SHUFFLE)
            busy.discard(which)
        elif kind == _REMOVED:
            work, waste = tasks.worked.get(lives[which].executor, (0, 0))
            ledger.worked(which, work, waste)
            if at < end:
                ledger.removed(which, at, lives[which].leave is Leave.LOST)
            started.discard(which)
            busy.discard(which)
        elif kind >= _WAITS:
            change = 1 if kind in (_WAITS, _RUNS) else -1
            if kind in (_WAITS, _WAITED):
                waiting += change
            else:
                running += change
                skew += change * spans[which].skewed
                single += change * (spans[which].tasks == 1)
            alone = SpendCause.LAST_TASK if skew else SpendCause.SERIAL if single == running else SpendCause.FEW_TASKS
            ledger.phase(at, running, waiting, alone)
    return dict(ledger.close(end).ledger)


def _requested(one: RecordedExecutor) -> Millis:
    return one.added_ms if one.requested_ms is None else min(one.requested_ms, one.added_ms)


def _timeout(at: Millis, keeping: Keeping) -> Millis:
    return NEVER if keeping.idle_timeout_ms >= NEVER - at else at + keeping.idle_timeout_ms


def _lives_by_executor(lives: Sequence[RecordedExecutor]) -> Mapping[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, one in enumerate(lives):
        places.setdefault(one.executor, []).append(place)
    return places


def _of_executors(lives: Sequence[RecordedExecutor], end: Millis) -> Iterator[tuple[Millis, int, int]]:
    for place, one in enumerate(lives):
        yield min(_requested(one), end), _REQUESTED, place
        yield min(one.added_ms, end), _REGISTERED, place
        yield end if one.removed_ms is None else max(one.added_ms, min(one.removed_ms, end)), _REMOVED, place


def _of_turns(
    tasks: TaskAccounts, places: Mapping[str, list[int]], lives: Sequence[RecordedExecutor], end: Millis
) -> Iterator[tuple[Millis, int, int]]:
    names = list(tasks.turns.executors)
    since: dict[int, Millis] = {}
    for at, who in zip(tasks.turns.at, tasks.turns.who, strict=True):
        place = _living(lives, places.get(names[who if who >= 0 else ~who], ()), at)
        if place is None:
            continue
        if who >= 0:
            since.setdefault(place, at)
        elif (began := since.pop(place, at)) < at:
            yield min(began, end), _BUSY, place
            yield min(at, end), _IDLE, place
    for place, began in since.items():
        yield min(began, end), _BUSY, place


def _living(lives: Sequence[RecordedExecutor], places: Sequence[int], at: Millis) -> int | None:
    for place in places:
        one = lives[place]
        if one.added_ms <= at and (one.removed_ms is None or at <= one.removed_ms):
            return place
    return None


def _of_stages(spans: Sequence[StageSpan], end: Millis) -> Iterator[tuple[Millis, int, int]]:
    for place, one in enumerate(spans):
        yield min(one.submitted, end), _WAITS, place
        yield min(max(one.submitted, one.last_launch), end), _WAITED, place
        yield min(one.first_launch, end), _RUNS, place
        yield min(max(one.first_launch, one.last_end), end), _RAN, place
