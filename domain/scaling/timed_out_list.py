"""The cached list of timed-out executors, and the reports of what data keeps alive.

``look`` is ExecutorMonitor.timedOutExecutors(): the list is drawn up anew only when ``next_timeout`` has come, and until
then the same executors are offered again. It costs the executors that were touched since the last look, and those whose
deadline has come since.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

from pyrsistent import pmap

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.protocol.reasons import Bound, Held, Phase
from podtide.domain.scaling.executor_trackers import FIELD, MonitorTables, Tracker


def look(tables: MonitorTables, now: Millis) -> tuple[Held, ...]:
    """Draw the list up anew if that is due, and report what data keeps alive from now on, or no longer."""
    touched = tables.dirty
    tables.dirty = {}
    tables.unseen.update(touched)
    if now >= tables.next_timeout:
        touched |= _relist(tables, now)
    return _rekeep(tables, touched, now)


def _relist(tables: MonitorTables, now: Millis) -> dict[ExecutorId, None]:
    """Draw the cached list up anew; returns the executors listed. Costs what was touched since the last time."""
    listed: dict[ExecutorId, None] = {}
    trackers = tables.trackers
    for executor in tables.unseen:
        tracker = trackers.get(executor)
        if tracker is None or not tracker.eligible:
            _unlist(tables, executor)
        elif tracker.timeout_at <= now:
            if tables.listed.get(executor) != tracker.profile:
                _unlist(tables, executor)
                _list(tables, tracker)
            listed[executor] = None
        else:
            _unlist(tables, executor)
            if tracker.timed_out:
                _set_timed_out(tables, tracker, False)
            if tracker.timeout_at != NEVER:
                heappush(tables.heap, (tracker.timeout_at, executor))
    tables.unseen = {}
    heap = tables.heap
    soonest = NEVER
    while heap:
        end, executor = heap[0]
        tracker = trackers.get(executor)
        if tracker is not None and tracker.timeout_at == end and tracker.eligible:
            if end > now:
                soonest = end
                break
            if executor not in tables.listed:
                _list(tables, tracker)
                listed[executor] = None
        heappop(heap)
    if len(heap) > 4 * len(trackers) + 64:  # entries of deadlines that have moved on
        alive = {e for e in heap if (t := trackers.get(e[1])) is not None and t.timeout_at == e[0]}
        tables.heap = sorted(alive)
    tables.next_timeout = soonest
    return listed


def _set_timed_out(tables: MonitorTables, tracker: Tracker, timed_out: bool) -> None:
    tables.undo_log.append((FIELD, tracker.id, "timed_out", tracker.timed_out))
    tracker.timed_out = timed_out


def _list(tables: MonitorTables, tracker: Tracker) -> None:
    if not tracker.timed_out:
        _set_timed_out(tables, tracker, True)
    tables.frozen_lists = None
    tables.listed.put(tracker.id, tracker.profile)
    insort(tables.lists.setdefault(tracker.profile, []), tracker.id, key=java_order)


def _unlist(tables: MonitorTables, executor: ExecutorId) -> None:
    profile = tables.listed.get(executor)
    if profile is not None:
        tables.frozen_lists = None
        tables.listed.drop(executor)
        ids = tables.lists[profile]
        del ids[bisect_left(ids, java_order(executor), key=java_order)]
        if not ids:
            del tables.lists[profile]


def _rekeep(tables: MonitorTables, touched: dict[ExecutorId, None], now: Millis) -> tuple[Held, ...]:
    """Compare what data keeps alive with what was reported before."""
    heap = tables.kept_heap
    while heap and heap[0][0] <= now:
        touched[heappop(heap)[1]] = None
    tables.kept_touched = False
    changes: dict[tuple[Phase, Bound, ProfileId], list[ExecutorId]] = {}
    for executor in touched:
        tracker = tables.trackers.get(executor)
        before = tables.kept.get(executor)
        keeper = tables.keeper(tracker, now)
        after = None if keeper is None or tracker is None else (keeper, tracker.profile)
        if after != before:
            if after is None:
                assert before is not None
                changes.setdefault((Phase.ENDED, *before), []).append(executor)
                tables.kept.drop(executor)
            else:
                phase = Phase.BEGAN if before is None else Phase.CHANGED
                changes.setdefault((phase, *after), []).append(executor)
                tables.kept.put(executor, after)
            if tracker is not None:
                tracker.kept = after is not None
        if tracker is not None:
            if after is None:
                tables.expect_report(tracker, now)
            elif tracker.timeout_at != NEVER and not tracker.active_shuffle:
                heappush(heap, (tracker.timeout_at, executor))
    tables.next_report = heap[0][0] if heap else NEVER
    return tuple(
        Held(now, phase, bound, profile, tuple(sorted(ids)), pmap({"executors": len(ids)}))
        for (phase, bound, profile), ids in sorted(
            changes.items(), key=lambda change: (change[0][2], change[0][0].value, change[0][1].value)
        )
    )
