"""Which executors have been idle for long enough: a pure ExecutorMonitor.

The idleness tracks every executor it has heard of: running tasks, since when it is idle, cached blocks, shuffle
data, and whether it is on its way out. From these follow the deadline of each executor and the list that
``schedule()`` is offered. The rules are section 7 of the dynamic allocation spec; where two apply:

- an executor with a running task has no deadline; an idle one has ``idle since + max(idle timeout, cached timeout
  if it holds cached blocks, shuffle timeout if it holds shuffle data)``;
- an executor whose shuffle data a running job may need is passed over, whatever its deadline;
- the list of timed-out executors is *cached*: it is drawn up anew only when ``next_timeout`` has come, and until
  then the same executors are offered again and again. When that happens follows Spark to the letter, because a
  stale list is visible in what gets killed.

Spark walks over all executors whenever it looks. Here a look costs what changed since the last one: deadlines wait
in a heap, executors that were touched are noted and re-examined at the next look, shuffles and RDDs know their
holders. All of that is derived and can be rebuilt from the trackers.

Besides, the idleness notes when data keeps an executor alive that would otherwise be let go (``kept``), which
Spark does not say.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Final

from pyrsistent import pmap

from podtide.domain.base.units import ALWAYS, LAST_MS, NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.base.versioned import JournalEntry, Versioned
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Held, Phase
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    ExecutorsActive,
    ExecutorsInactive,
    JobEnd,
    JobStart,
    KillDisproved,
    ShuffleCleaned,
    ShuffleDataBlock,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
    UnpersistRDD,
)
from podtide.domain.scaling.executor_trackers import (
    J_BLOCK_JOINED,
    J_BLOCK_LEFT,
    J_BOOK,
    J_DIED,
    J_RAN,
    J_RDD_LEFT,
    J_SET,
    J_SHUFFLE_LEFT,
    NOWHERE,
    SCALARS,
    IdlenessBooks,
    Limits,
    Log,
    Removals,
    Roster,
    Tracker,
    deadline,
)

DECOMMISSION_FINISHED: Final = "Finished decommissioning"
"""ExecutorLossMessage.decommissionFinished."""

DECOMMISSION_PREFIX: Final = "Executor decommission: "
"""ExecutorDecommission.msgPrefix."""


class Idleness(Versioned[IdlenessBooks]):
    """All executors at a moment, as far as letting them go is concerned."""

    __slots__ = ()

    def roster(self, profile: ProfileId) -> Roster:
        """The counts of one profile; read only."""
        return self.books.rosters.get(profile, NOWHERE)

    def rosters(self) -> dict[ProfileId, Roster]:
        """The counts of every profile that has or had executors; read only."""
        return self.books.rosters

    def total(self) -> int:
        """executorCount: every tracked executor, those on their way out included."""
        return len(self.books.trackers)

    def timed_out(self) -> dict[ProfileId, list[ExecutorId]]:
        """The cached list: per profile (as of the last look) the ids sorted as strings; read only."""
        return self.books.lists

    def tracker(self, executor: ExecutorId) -> Tracker | None:
        """One executor; read only."""
        return self.books.trackers.get(executor)

    def trackers(self) -> dict[ExecutorId, Tracker]:
        """All executors; read only."""
        return self.books.trackers

    def removals(self) -> Removals:
        """How executors left so far."""
        return self.books.removals

    def stale(self) -> bool:
        """Whether the cached list is known to be out of date: the next look draws it up anew, whenever it comes."""
        return self.books.next_timeout == ALWAYS

    def due(self) -> Millis:
        """When a pass could list, unlist or report an executor; ALWAYS for at once."""
        books = self.books
        return ALWAYS if books.kept_touched else min(books.next_timeout, books.next_report)


def limits_of(config: ScalingConfig) -> Limits:
    """The limits that a config sets."""
    return Limits(
        config.idle_timeout_ms,
        config.cached_idle_timeout_ms,
        config.shuffle_timeout_ms,
        config.shuffle_tracking,
        config.rdd_from_service,
    )


def empty(config: ScalingConfig) -> Idleness:
    """No executor has been heard of."""
    idleness = Idleness(IdlenessBooks(limits_of(config)))
    idleness.books.kept_touched = False
    return idleness


def _begin(idleness: Idleness, limits: Limits, log: Log) -> IdlenessBooks:
    """The books, under the limits of the config that this step was given."""
    books = idleness.books
    if books.limits != limits:
        books.book("limits", limits, log)
        for tracker in books.trackers.values():
            tracker.hold = books.hold(tracker)
    return books


def fold(idleness: Idleness, events: Sequence[Stimulus], config: ScalingConfig) -> Idleness:
    """Reflect a batch of stimuli, in order, at the times they carry. ``idleness`` still answers as before."""
    journal: list[JournalEntry] = []
    log = journal.append
    books = _begin(idleness, limits_of(config), log)
    trackers, active, dirty = books.trackers, books.active, books.dirty
    stage_shuffle, holders = books.stage_shuffle, books.holders
    tracking, idle = books.limits.tracking, books.limits.idle
    success = TaskOutcome.SUCCESS
    event: Any
    for event in events:
        kind = type(event)
        if kind is TaskStart:
            executor = event[4]
            tracker = trackers.get(executor)
            if executor not in active:
                continue
            if tracker is None or tracker.timed_out or tracker.kept:
                books.run(books.track(executor, UNKNOWN_PROFILE, log), 1, event[0], log)
                continue
            log((J_RAN, executor, tracker.running, tracker.idle_start, tracker.timeout_at))
            if not tracker.running:
                tracker.roster.busy += 1
                tracker.idle_start = -1
                tracker.timeout_at = NEVER
            tracker.running += 1
        elif kind is TaskEnd:
            tracker = trackers.get(event[4])
            if tracker is None:
                continue
            if tracking and event[6] is success and event[1] in stage_shuffle:
                shuffle = stage_shuffle[event[1]]
                if not holders.get(shuffle, 0) & tracker.mark:
                    books.add_shuffle(tracker, shuffle, log)
            running = tracker.running
            if running > 1:
                log((J_RAN, tracker.id, running, -1, NEVER))
                tracker.running = running - 1
                continue
            if not running or tracker.timed_out or tracker.kept:
                books.run(tracker, -1, event[0], log)
                continue
            at = event[0]
            log((J_RAN, tracker.id, 1, tracker.idle_start, tracker.timeout_at))
            tracker.roster.busy -= 1
            tracker.running = 0
            tracker.idle_start = at
            hold = tracker.hold
            end = at + hold
            if hold > LAST_MS or end > LAST_MS:
                end = NEVER
            tracker.timeout_at = end
            if end < books.next_timeout:
                log((J_BOOK, "next_timeout", books.next_timeout))
                books.next_timeout = end
            dirty[tracker.id] = None
            if hold != idle or tracker.active_shuffle:
                plain = at + idle
                books.next_report = min(books.next_report, plain)
        else:
            _reflect(books, event, log)
    successor = Idleness(books)
    idleness.hand_over(successor, journal)
    return successor


def _reflect(books: IdlenessBooks, event: Stimulus, log: Log) -> None:
    """Reflect every stimulus but the two hot ones; those that concern tasks alone pass through."""
    match event:
        case ExecutorAdded():
            books.turn(event.executor, True, log)
            books.run(books.track(event.executor, event.profile, log), 0, event.at, log)
        case ExecutorRemoved():
            books.turn(event.executor, False, log)
            _removed(books, event, log)
        case ExecutorsActive():
            for executor in event.executors:
                books.turn(executor, True, log)
        case ExecutorsInactive():
            for executor in event.executors:
                books.turn(executor, False, log)
        case JobStart():
            if books.limits.tracking:
                _job_started(books, event, log)
        case JobEnd():
            if books.limits.tracking:
                _job_ended(books, event, log)
        case BlockUpdated():
            if event.executor in books.active:
                _block_updated(books, event, log)
        case UnpersistRDD():
            _unpersisted(books, event.rdd, log)
        case ShuffleCleaned():
            if books.limits.tracking:
                _shuffle_cleaned(books, event.shuffle, log)
        case TasksMoved():
            _tasks_moved(books, event, log)
        case KillDisproved():
            _kill_disproved(books, event, log)
        case _:
            pass  # tasks, stages and profiles concern the load alone


def _tasks_moved(books: IdlenessBooks, event: TasksMoved, log: Log) -> None:
    """Output that is there for the first time, and executors that run more or fewer tasks than before."""
    trackers, active = books.trackers, books.active
    for executor, change, _ in event.turns:
        if change < 0 or executor not in active:
            continue
        tracker = trackers.get(executor)
        if tracker is None:
            tracker = books.track(executor, UNKNOWN_PROFILE, log)
        if not change:
            continue
        if tracker.running:  # it works on: nothing but the count
            log((J_RAN, executor, tracker.running, tracker.idle_start, tracker.timeout_at))
            tracker.running += change
        else:
            books.run(tracker, change, event.at, log)
    if books.limits.tracking:
        for executor, stage in event.outputs:
            holder = trackers.get(executor)
            if holder is not None and stage in books.stage_shuffle:
                books.add_shuffle(holder, books.stage_shuffle[stage], log)
    for executor, change, ended in event.turns:
        known = trackers.get(executor)
        if known is None or change > 0:
            continue
        if known.running > -change:
            if change:
                log((J_RAN, executor, known.running, known.idle_start, known.timeout_at))
                known.running += change
        elif change:
            books.run(known, change, ended, log)
        elif executor in active:
            books.run(known, 1, event.at, log)
            books.run(known, -1, ended, log)


def _removed(books: IdlenessBooks, event: ExecutorRemoved, log: Log) -> None:
    """onExecutorRemoved: forget the executor and count why it went."""
    tracker = books.trackers.get(event.executor)
    if tracker is None:
        return
    books.touch(tracker)
    books.enlist(tracker, -1)
    log((J_DIED, event.executor, tracker))
    del books.trackers[event.executor]
    for rdd in tracker.cached:
        books.rdd_holders[rdd].discard(event.executor)
    books.suspects.discard(event.executor)
    counts = books.removals
    if event.reason == DECOMMISSION_FINISHED or event.reason.startswith(DECOMMISSION_PREFIX):
        counts = counts._replace(gracefully_decommissioned=counts.gracefully_decommissioned + 1)
    elif tracker.decommissioning:
        counts = counts._replace(decommission_unfinished=counts.decommission_unfinished + 1)
    elif tracker.pending_removal:
        counts = counts._replace(killed_by_driver=counts.killed_by_driver + 1)
    else:
        counts = counts._replace(exited_unexpectedly=counts.exited_unexpectedly + 1)
    books.book("removals", counts, log)
    if not (tracker.pending_removal and tracker.decommissioning):
        books.book("next_timeout", ALWAYS, log)


def _job_started(books: IdlenessBooks, event: JobStart, log: Log) -> None:
    """onJobStart: the job needs its shuffles; executors that hold re-used ones are needed again."""
    writers = [(s.stage, s.shuffle) for s in event.stages if s.shuffle is not None]
    reused = False
    for _, shuffle in writers:
        jobs = books.shuffle_jobs.get(shuffle)
        reused |= jobs is not None
        books.idle_shuffles -= jobs == ()
        books.entry("shuffle_jobs", shuffle, (*(jobs or ()), event.job), log)
        books.job_shuffles.setdefault(event.job, []).append(shuffle)
    if reused:
        shuffles = [shuffle for _, shuffle in writers]
        woken = False
        for tracker in {t.id: t for shuffle in shuffles for t in books.holders_of(shuffle)}.values():
            if not tracker.active_shuffle:
                books.weigh_shuffles(tracker, shuffles, log)
                woken = True
        if woken:
            books.book("next_timeout", ALWAYS, log)
    for stage, shuffle in writers:
        books.entry("stage_shuffle", stage, shuffle, log)
    books.entry("job_stages", event.job, tuple(stage for stage, _ in writers), log)


def _job_ended(books: IdlenessBooks, event: JobEnd, log: Log) -> None:
    """onJobEnd: its shuffles lose a job; executors whose data no job needs fall back to their idle timer.

    Spark re-examines every shuffle-active executor once any shuffle has no job. Only those can change that
    hold a shuffle which lost its last job just now, or that were active without a reason (suspects).
    """
    left = books.job_shuffles.pop(event.job, [])
    candidates: set[ExecutorId] = set()
    again: list[int] = []
    for shuffle in dict.fromkeys(left):
        jobs = list(books.shuffle_jobs.get(shuffle, ()))
        if event.job in jobs:
            jobs.remove(event.job)
            books.entry("shuffle_jobs", shuffle, tuple(jobs), log)
            again.extend(shuffle for job in jobs if job == event.job)
            if not jobs:
                books.idle_shuffles += 1
                candidates.update(tracker.id for tracker in books.holders_of(shuffle))
    if again:
        books.job_shuffles[event.job] = again
    if books.idle_shuffles:
        candidates |= books.suspects
        books.suspects = set()
        for executor in sorted(candidates):
            tracker = books.trackers.get(executor)
            if tracker is not None and tracker.active_shuffle:
                books.weigh_shuffles(tracker, None, log)
    for stage in books.job_stages.get(event.job, ()):
        if stage in books.stage_shuffle:
            books.entry("stage_shuffle", stage, None, log)
    if event.job in books.job_stages:
        books.entry("job_stages", event.job, None, log)


def _block_updated(books: IdlenessBooks, event: BlockUpdated, log: Log) -> None:
    """onBlockUpdated: cached RDD blocks come and go, shuffle data arrives by migration."""
    tracker = books.track(event.executor, UNKNOWN_PROFILE, log)
    block = event.block
    if block is None:
        return
    if isinstance(block, ShuffleDataBlock):
        if books.limits.tracking:
            books.add_shuffle(tracker, block.shuffle, log)
        return
    splits = tracker.cached.get(block.rdd)
    if event.valid and not (books.limits.rdd_from_service and event.on_disk):
        had = bool(tracker.cached)
        if splits is None:
            splits = tracker.cached[block.rdd] = set()
            books.rdd_holders.setdefault(block.rdd, set()).add(tracker.id)
        if block.split not in splits:
            log((J_BLOCK_JOINED, tracker.id, block.rdd, block.split))
            splits.add(block.split)
        if not had:
            tracker.hold = books.hold(tracker)
            books.renew(tracker, log)
    elif splits is not None:
        if block.split in splits:
            log((J_BLOCK_LEFT, tracker.id, block.rdd, block.split))
            splits.discard(block.split)
        if not splits:
            del tracker.cached[block.rdd]
            books.rdd_holders[block.rdd].discard(tracker.id)
        if not tracker.cached:
            tracker.hold = books.hold(tracker)
            books.renew(tracker, log)


def _unpersisted(books: IdlenessBooks, rdd: int, log: Log) -> None:
    """onUnpersistRDD: every executor drops the RDD, and every one without cached blocks renews its deadline.

    The latter is Spark's and touches the whole fleet; only who holds the RDD, or is idle with shuffle data that
    came without a renewal, can get another deadline. The rest may only pull the next look forward.
    """
    holders = books.rdd_holders.pop(rdd, set())
    for executor in sorted(holders):
        tracker = books.trackers[executor]
        log((J_RDD_LEFT, executor, rdd, tracker.cached.pop(rdd)))
        tracker.hold = books.hold(tracker)
        books.touch(tracker)
    soonest = NEVER
    for tracker in books.trackers.values():
        if tracker.idle_start >= 0 and not tracker.cached:
            if tracker.timeout_at != deadline(tracker.idle_start, tracker.hold):
                books.renew(tracker, log)
            soonest = min(soonest, tracker.timeout_at)
    if soonest < books.next_timeout:
        books.book("next_timeout", soonest, log)


def _shuffle_cleaned(books: IdlenessBooks, shuffle: int, log: Log) -> None:
    """cleanupShuffle: the shuffle is forgotten; an executor without any other is no longer shuffle-active."""
    jobs = books.shuffle_jobs.get(shuffle)
    if jobs is not None:
        books.idle_shuffles -= not jobs
        books.entry("shuffle_jobs", shuffle, None, log)
        for job in dict.fromkeys(jobs):
            books.job_shuffles[job] = [s for s in books.job_shuffles[job] if s != shuffle]
    holding = list(books.holders_of(shuffle))
    if shuffle in books.holders:
        books.entry("holders", shuffle, None, log)
    for tracker in holding:
        log((J_SHUFFLE_LEFT, tracker.id, shuffle))
        tracker.shuffles -= 1
        tracker.hold = books.hold(tracker)
        if tracker.shuffles:
            books.suspects.add(tracker.id)  # active for this shuffle alone, perhaps
        else:
            books.set(tracker, "active_shuffle", False, log)
            if tracker.idle_start >= 0:
                books.renew(tracker, log)


def _kill_disproved(books: IdlenessBooks, event: KillDisproved, log: Log) -> None:
    """The kill did not happen: the executor is active again and neither pending removal nor decommissioning."""
    for executor in event.executors:
        tracker = books.trackers.get(executor)
        if tracker is not None:
            books.turn(executor, True, log)
            books.enlist(tracker, -1)
            books.set(tracker, "pending_removal", False, log)
            books.set(tracker, "decommissioning", False, log)
            books.enlist(tracker, 1)
            books.renew(tracker, log)


def look(idleness: Idleness, now: Millis) -> tuple[Idleness, tuple[Held, ...]]:
    """timedOutExecutors() at ``now``, and what data keeps alive; the same idleness when nothing is due."""
    books = idleness.books
    if now < books.next_timeout and now < books.next_report and not books.kept_touched:
        return idleness, ()
    journal: list[JournalEntry] = []
    log = journal.append
    touched = books.dirty
    books.dirty = {}
    books.unseen.update(touched)
    if now >= books.next_timeout:
        touched |= _relist(books, now, log)
    reports = _rekeep(books, touched, now, log)
    successor = Idleness(books)
    idleness.hand_over(successor, journal)
    return successor, reports


def _relist(books: IdlenessBooks, now: Millis, log: Log) -> dict[ExecutorId, None]:
    """Draw the cached list up anew; returns the executors listed. Costs what was touched since the last time."""
    listed: dict[ExecutorId, None] = {}
    trackers = books.trackers
    for executor in books.unseen:
        tracker = trackers.get(executor)
        if tracker is None or not tracker.eligible:
            _unlist(books, executor, log)
        elif tracker.timeout_at <= now:
            if books.listed.get(executor) != tracker.profile:
                _unlist(books, executor, log)
                _list(books, tracker, log)
            listed[executor] = None
        else:
            _unlist(books, executor, log)
            if tracker.timed_out:
                log((J_SET, executor, "timed_out", True))
                tracker.timed_out = False
            if tracker.timeout_at != NEVER:
                heappush(books.heap, (tracker.timeout_at, executor))
    books.unseen = {}
    heap = books.heap
    soonest = NEVER
    while heap:
        end, executor = heap[0]
        tracker = trackers.get(executor)
        if tracker is not None and tracker.timeout_at == end and tracker.eligible:
            if end > now:
                soonest = end
                break
            if executor not in books.listed:
                _list(books, tracker, log)
                listed[executor] = None
        heappop(heap)
    if len(heap) > 4 * len(trackers) + 64:  # entries of deadlines that have moved on
        alive = {e for e in heap if (t := trackers.get(e[1])) is not None and t.timeout_at == e[0]}
        books.heap = sorted(alive)
    books.book("next_timeout", soonest, log)
    return listed


def _list(books: IdlenessBooks, tracker: Tracker, log: Log) -> None:
    if not tracker.timed_out:
        log((J_SET, tracker.id, "timed_out", False))
        tracker.timed_out = True
    books.entry("listed", tracker.id, tracker.profile, log)
    insort(books.lists.setdefault(tracker.profile, []), tracker.id, key=java_order)


def _unlist(books: IdlenessBooks, executor: ExecutorId, log: Log) -> None:
    profile = books.listed.get(executor)
    if profile is not None:
        books.entry("listed", executor, None, log)
        ids = books.lists[profile]
        del ids[bisect_left(ids, java_order(executor), key=java_order)]
        if not ids:
            del books.lists[profile]


def _rekeep(books: IdlenessBooks, touched: dict[ExecutorId, None], now: Millis, log: Log) -> tuple[Held, ...]:
    """Compare what data keeps alive with what was reported before."""
    heap = books.kept_heap
    while heap and heap[0][0] <= now:
        touched[heappop(heap)[1]] = None
    books.kept_touched = False
    changes: dict[tuple[Phase, Bound, ProfileId], list[ExecutorId]] = {}
    for executor in touched:
        tracker = books.trackers.get(executor)
        before = books.kept.get(executor)
        keeper = books.keeper(tracker, now)
        after = None if keeper is None or tracker is None else (keeper, tracker.profile)
        if after != before:
            if after is None:
                assert before is not None
                changes.setdefault((Phase.ENDED, *before), []).append(executor)
            else:
                phase = Phase.BEGAN if before is None else Phase.CHANGED
                changes.setdefault((phase, *after), []).append(executor)
            books.entry("kept", executor, after, log)
            if tracker is not None:
                tracker.kept = after is not None
        if tracker is not None:
            if after is None:
                books.expect_report(tracker, now)
            elif tracker.timeout_at != NEVER and not tracker.active_shuffle:
                heappush(heap, (tracker.timeout_at, executor))
    books.next_report = heap[0][0] if heap else NEVER
    return tuple(
        Held(now, phase, bound, profile, tuple(sorted(ids)), pmap({"executors": len(ids)}))
        for (phase, bound, profile), ids in sorted(
            changes.items(), key=lambda change: (change[0][2], change[0][0].value, change[0][1].value)
        )
    )


def deactivate(idleness: Idleness, executors: Sequence[ExecutorId]) -> Idleness:
    """The scheduler backend granted the removal of these: it no longer holds them for active."""
    books = idleness.books
    journal: list[JournalEntry] = []
    for executor in executors:
        books.turn(executor, False, journal.append)
    successor = Idleness(books)
    idleness.hand_over(successor, journal)
    return successor


def mark(idleness: Idleness, executors: Sequence[ExecutorId], *, decommissioned: bool) -> Idleness:
    """executorsKilled or executorsDecommissioned: these are on their way out; look again at once."""
    books = idleness.books
    journal: list[JournalEntry] = []
    log = journal.append
    for executor in executors:
        tracker = books.trackers.get(executor)
        if tracker is not None:
            books.enlist(tracker, -1)
            books.set(tracker, "decommissioning" if decommissioned else "pending_removal", True, log)
            books.enlist(tracker, 1)
    books.book("next_timeout", ALWAYS, log)
    successor = Idleness(books)
    idleness.hand_over(successor, journal)
    return successor


def reset(idleness: Idleness) -> Idleness:
    """ExecutorMonitor.reset(): every executor is forgotten; shuffles and jobs are not."""
    books = idleness.books.copy()
    books.trackers = {}
    books.holders = {}
    books.names = []
    books.listed = {}
    books.next_timeout = NEVER
    books.recount()
    return Idleness(books)


def to_plain(idleness: Idleness) -> dict[str, Any]:
    """The idleness as dicts, lists and scalars, for a codec."""
    books = idleness.books
    shuffles: dict[ExecutorId, list[int]] = {executor: [] for executor in books.trackers}
    for shuffle in sorted(books.holders):
        for tracker in books.holders_of(shuffle):
            shuffles[tracker.id].append(shuffle)
    return {
        "limits": list(books.limits),
        "trackers": [
            [t.id, t.profile, t.running, t.idle_start, t.timeout_at, t.timed_out, t.pending_removal, t.decommissioning,
             t.active_shuffle, [[rdd, sorted(splits)] for rdd, splits in t.cached.items()], shuffles[t.id]]
            for t in books.trackers.values()
        ],
        "active": sorted(books.active),
        "next_timeout": books.next_timeout,
        "listed": [[e, p] for e, p in books.listed.items()],
        "shuffle_jobs": [[s, list(jobs)] for s, jobs in books.shuffle_jobs.items()],
        "stage_shuffle": [list(pair) for pair in books.stage_shuffle.items()],
        "job_stages": [[job, list(stages)] for job, stages in books.job_stages.items()],
        "removals": list(books.removals),
        "kept": [[e, bound.value, p] for e, (bound, p) in books.kept.items()],
    }  # fmt: skip


def from_plain(plain: dict[str, Any]) -> Idleness:
    """Read what ``to_plain`` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    books = IdlenessBooks(Limits(*plain["limits"]))
    for row in plain["trackers"]:
        executor, profile, *scalars, cached, shuffles = row
        tracker = books.trackers[ExecutorId(executor)] = Tracker(ExecutorId(executor), ProfileId(profile))
        for name, value in zip(SCALARS, scalars, strict=True):
            setattr(tracker, name, value)
        tracker.cached = {rdd: set(splits) for rdd, splits in cached}
        tracker.shuffles = len(shuffles)
        books.name(tracker)
        for shuffle in shuffles:
            books.holders[shuffle] = books.holders.get(shuffle, 0) | tracker.mark
    books.active = {ExecutorId(e) for e in plain["active"]}
    books.next_timeout = plain["next_timeout"]
    books.listed = {ExecutorId(e): ProfileId(p) for e, p in plain["listed"]}
    books.shuffle_jobs = {s: tuple(jobs) for s, jobs in plain["shuffle_jobs"]}
    books.stage_shuffle = dict(plain["stage_shuffle"])
    books.job_stages = {job: tuple(stages) for job, stages in plain["job_stages"]}
    books.removals = Removals(*plain["removals"])
    books.kept = {ExecutorId(e): (Bound(bound), ProfileId(p)) for e, bound, p in plain["kept"]}
    books.recount()
    return Idleness(books)
