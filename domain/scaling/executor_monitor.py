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

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podtide.domain.base.units import ALWAYS, LAST_MS, NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned import Versioned
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Held
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
    ShuffleRegistered,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
    UnpersistRDD,
)
from podtide.domain.scaling import timed_out_list
from podtide.domain.scaling.executor_trackers import (
    BLOCK,
    RAN,
    RDD,
    IdleTimeouts,
    MonitorTables,
    Removals,
    Roster,
    Tracker,
    deadline,
)

DECOMMISSION_FINISHED: Final = "Finished decommissioning"
"""ExecutorLossMessage.decommissionFinished."""

DECOMMISSION_PREFIX: Final = "Executor decommission: "
"""ExecutorDecommission.msgPrefix."""


class Idleness(Versioned[MonitorTables]):
    """All executors at a moment, as far as letting them go is concerned. What it answers stays as it is."""

    __slots__ = ()

    def roster(self, profile: ProfileId) -> Roster:
        """The counts of one profile."""
        roster = self._tables.rosters.get(profile)
        return Roster() if roster is None else roster.copy()

    def counts(self, profile: ProfileId) -> tuple[int, int, int]:
        """How many executors a profile has, how many are busy, and for how many no removal is under way."""
        roster = self._tables.rosters.get(profile)
        if roster is None:
            return 0, 0, 0
        return roster.count, roster.busy, roster.count - roster.pending_removal - roster.decommissioning

    def rosters(self) -> dict[ProfileId, Roster]:
        """The counts of every profile that has or had executors."""
        return {profile: roster.copy() for profile, roster in self._tables.rosters.items()}

    def busy_of_all(self) -> tuple[int, int]:
        """How many executors are busy, and how many there are, of all profiles."""
        busy = count = 0
        for roster in self._tables.rosters.values():
            busy += roster.busy
            count += roster.count
        return busy, count

    def total(self) -> int:
        """executorCount: every tracked executor, those on their way out included."""
        return len(self._tables.trackers)

    def timed_out(self) -> Mapping[ProfileId, tuple[ExecutorId, ...]]:
        """The cached list: per profile (as of the last look) the ids sorted as strings."""
        return self._tables.timed_out()

    def tracker(self, executor: ExecutorId) -> Tracker | None:
        """A copy of one executor's tracker."""
        tracker = self._tables.trackers.get(executor)
        return None if tracker is None else tracker.copy()

    def trackers(self) -> dict[ExecutorId, Tracker]:
        """A copy of every executor's tracker: this costs all of them."""
        return {executor: tracker.copy() for executor, tracker in self._tables.trackers.items()}

    def tables(self) -> MonitorTables:
        """A copy of all that is known, for whoever stores or checks it."""
        tables = self._tables.copy()
        tables.recount()
        return tables

    def kept_by_shuffles(self, before: Millis) -> list[Tracker]:
        """Copies of the trackers that shuffle data keeps which no running job needs, idle since ``before`` or earlier.

        Costs the executors that any data keeps.
        """
        tables = self._tables
        kept = (tables.trackers[one] for one, (bound, _) in tables.kept.items() if bound is Bound.SHUFFLE_DATA)
        return [one.copy() for one in kept if one.eligible and 0 <= one.idle_start <= before]

    def removals(self) -> Removals:
        """How executors left so far."""
        return self._tables.removals

    def stale(self) -> bool:
        """Whether the cached list is known to be out of date: the next look draws it up anew, whenever it comes."""
        return self._tables.next_timeout == ALWAYS

    def due(self) -> Millis:
        """When a pass could list, unlist or report an executor; ALWAYS for at once."""
        tables = self._tables
        return ALWAYS if tables.kept_touched else min(tables.next_timeout, tables.next_report)


def limits_of(config: ScalingConfig) -> IdleTimeouts:
    """The limits that a config sets."""
    return IdleTimeouts(
        config.idle_timeout_ms,
        config.cached_idle_timeout_ms,
        config.shuffle_timeout_ms,
        config.shuffle_tracking,
        config.rdd_from_service,
    )


def empty(config: ScalingConfig) -> Idleness:
    """No executor has been heard of."""
    return Idleness(MonitorTables(limits_of(config)))


def restored(tables: MonitorTables) -> Idleness:
    """The idleness that has these tables, and nothing else to undo."""
    tables.undo_log.clear()
    tables.recount()
    return Idleness(tables)


def fold(idleness: Idleness, events: Sequence[Stimulus], config: ScalingConfig) -> Idleness:
    """Reflect a batch of stimuli, in order, at the times they carry. ``idleness`` still answers as before."""
    with idleness.step() as tables:
        limits = limits_of(config)
        if tables.limits != limits:
            tables.limits = limits
            for tracker in tables.trackers.values():
                tracker.idle_timeout = tables.timeout_of(tracker)
        _fold(tables, events)
        return idleness.hand_over(Idleness(tables))


def _fold(tables: MonitorTables, events: Sequence[Stimulus]) -> None:
    """Change the tables. The two hot events are worked out here, the rest in ``_reflect``."""
    log = tables.undo_log.append
    fields = vars(tables)  # reading a Field as an attribute costs four times as much
    tracker_of, active, dirty = tables.trackers.get, tables.active, tables.dirty
    stage_shuffle, holders = tables.stage_shuffle, tables.holders
    tracking, idle = tables.limits.tracking, tables.limits.idle
    success = TaskOutcome.SUCCESS
    event: Any
    for event in events:
        kind = type(event)
        if kind is TaskStart:
            executor = event[4]
            tracker = tracker_of(executor)
            if executor not in active:
                continue
            if tracker is None or tracker.timed_out or tracker.kept:
                tables.run(tables.track(executor, UNKNOWN_PROFILE), 1, event[0])
                continue
            log((RAN, executor, tracker.running, tracker.idle_start, tracker.timeout_at))
            if not tracker.running:
                tracker.roster.busy += 1
                tracker.idle_start = -1
                tracker.timeout_at = NEVER
            tracker.running += 1
        elif kind is TaskEnd:
            tracker = tracker_of(event[4])
            if tracker is None:
                continue
            if tracking and event[6] is success and event[1] in stage_shuffle:
                shuffle = stage_shuffle[event[1]]
                if not holders.get(shuffle, 0) & tracker.mark:
                    tables.add_shuffle(tracker, shuffle)
            running = tracker.running
            if running > 1:
                log((RAN, tracker.id, running, -1, NEVER))
                tracker.running = running - 1
                continue
            if not running or tracker.timed_out or tracker.kept:
                tables.run(tracker, -1, event[0])
                continue
            at = event[0]
            log((RAN, tracker.id, 1, tracker.idle_start, tracker.timeout_at))
            tracker.roster.busy -= 1
            tracker.running = 0
            tracker.idle_start = at
            timeout = tracker.idle_timeout
            end = at + timeout
            if timeout > LAST_MS or end > LAST_MS:
                end = NEVER
            tracker.timeout_at = end
            if end < fields["next_timeout"]:
                tables.next_timeout = end
            dirty[tracker.id] = None
            if timeout != idle or tracker.active_shuffle:
                plain = at + idle
                tables.next_report = min(tables.next_report, plain)
        else:
            _reflect(tables, event)


def _reflect(tables: MonitorTables, event: Stimulus) -> None:
    """Reflect every stimulus but the two hot ones; those that concern tasks alone pass through."""
    match event:
        case ExecutorAdded():
            tables.turn(event.executor, True)
            tables.run(tables.track(event.executor, event.profile), 0, event.at)
        case ExecutorRemoved():
            tables.turn(event.executor, False)
            _removed(tables, event)
        case ExecutorsActive():
            for executor in event.executors:
                tables.turn(executor, True)
        case ExecutorsInactive():
            for executor in event.executors:
                tables.turn(executor, False)
        case JobStart():
            if tables.limits.tracking:
                _job_started(tables, event)
        case JobEnd():
            if tables.limits.tracking:
                _job_ended(tables, event)
        case ShuffleRegistered():
            if tables.limits.tracking:
                _needed(tables, event.job, [(event.stage, event.shuffle)])
        case BlockUpdated():
            if event.executor in tables.active:
                _block_updated(tables, event)
        case UnpersistRDD():
            _unpersisted(tables, event.rdd)
        case ShuffleCleaned():
            if tables.limits.tracking:
                _shuffle_cleaned(tables, event.shuffle)
        case TasksMoved():
            _tasks_moved(tables, event)
        case KillDisproved():
            _kill_disproved(tables, event)
        case _:
            pass  # tasks, stages and profiles concern the load alone


def _tasks_moved(tables: MonitorTables, event: TasksMoved) -> None:
    """Output that is there for the first time, and executors that run more or fewer tasks than before."""
    trackers, active = tables.trackers, tables.active
    for executor, change, _ in event.turns:
        if change < 0 or executor not in active:
            continue
        tracker = trackers.get(executor)
        if tracker is None:
            tracker = tables.track(executor, UNKNOWN_PROFILE)
        if not change:
            continue
        if tracker.running:  # it works on: nothing but the count
            tables.count_running(tracker, change)
        else:
            tables.run(tracker, change, event.at)
    if tables.limits.tracking:
        for executor, stage in event.outputs:
            holder = trackers.get(executor)
            if holder is not None and stage in tables.stage_shuffle:
                tables.add_shuffle(holder, tables.stage_shuffle[stage])
    for executor, change, ended in event.turns:
        known = trackers.get(executor)
        if known is None or change > 0:
            continue
        if known.running > -change:
            if change:
                tables.count_running(known, change)
        elif change:
            tables.run(known, change, ended)
        elif executor in active:
            tables.run(known, 1, event.at)
            tables.run(known, -1, ended)


def _removed(tables: MonitorTables, event: ExecutorRemoved) -> None:
    """onExecutorRemoved: forget the executor and count why it went."""
    tracker = tables.trackers.get(event.executor)
    if tracker is None:
        return
    tables.touch(tracker)
    tables.enlist(tracker, -1)
    tables.trackers.drop(event.executor)
    for rdd in tracker.cached:
        tables.rdd_holders[rdd].discard(event.executor)
    tables.suspects.discard(event.executor)
    counts = tables.removals
    if event.reason == DECOMMISSION_FINISHED or event.reason.startswith(DECOMMISSION_PREFIX):
        counts = counts._replace(gracefully_decommissioned=counts.gracefully_decommissioned + 1)
    elif tracker.decommissioning:
        counts = counts._replace(decommission_unfinished=counts.decommission_unfinished + 1)
    elif tracker.pending_removal:
        counts = counts._replace(killed_by_driver=counts.killed_by_driver + 1)
    else:
        counts = counts._replace(exited_unexpectedly=counts.exited_unexpectedly + 1)
    tables.removals = counts
    if not (tracker.pending_removal and tracker.decommissioning):
        tables.next_timeout = ALWAYS


def _job_started(tables: MonitorTables, event: JobStart) -> None:
    """onJobStart: the job needs its shuffles; executors that hold re-used ones are needed again."""
    tables.job_stages.put(event.job, ())
    _needed(tables, event.job, [(s.stage, s.shuffle) for s in event.stages if s.shuffle is not None])


def _needed(tables: MonitorTables, job: int, writers: Sequence[tuple[int, int]]) -> None:
    """A job needs the shuffles that these stages of it write."""
    reused = False
    for _, shuffle in writers:
        jobs = tables.shuffle_jobs.get(shuffle)
        reused |= jobs is not None
        tables.idle_shuffles -= jobs == ()
        tables.shuffle_jobs.put(shuffle, (*(jobs or ()), job))
        tables.job_shuffles.setdefault(job, []).append(shuffle)
    if reused:
        shuffles = [shuffle for _, shuffle in writers]
        woken = False
        for tracker in {t.id: t for shuffle in shuffles for t in tables.holders_of(shuffle)}.values():
            if not tracker.active_shuffle:
                tables.weigh_shuffles(tracker, shuffles)
                woken = True
        if woken:
            tables.next_timeout = ALWAYS
    for stage, shuffle in writers:
        tables.stage_shuffle.put(stage, shuffle)
    tables.job_stages.put(job, (*tables.job_stages.get(job, ()), *(stage for stage, _ in writers)))


def _job_ended(tables: MonitorTables, event: JobEnd) -> None:
    """onJobEnd: its shuffles lose a job; executors whose data no job needs fall back to their idle timer.

    Spark re-examines every shuffle-active executor once any shuffle has no job. Only those can change that
    hold a shuffle which lost its last job just now, or that were active without a reason (suspects).
    """
    left = tables.job_shuffles.pop(event.job, [])
    candidates: set[ExecutorId] = set()
    again: list[int] = []
    for shuffle in dict.fromkeys(left):
        jobs = list(tables.shuffle_jobs.get(shuffle, ()))
        if event.job in jobs:
            jobs.remove(event.job)
            tables.shuffle_jobs.put(shuffle, tuple(jobs))
            again.extend(shuffle for job in jobs if job == event.job)
            if not jobs:
                tables.idle_shuffles += 1
                candidates.update(tracker.id for tracker in tables.holders_of(shuffle))
    if again:
        tables.job_shuffles[event.job] = again
    if tables.idle_shuffles:
        candidates |= tables.suspects
        tables.suspects = set()
        for executor in sorted(candidates):
            tracker = tables.trackers.get(executor)
            if tracker is not None and tracker.active_shuffle:
                tables.weigh_shuffles(tracker, None)
    for stage in tables.job_stages.get(event.job, ()):
        if stage in tables.stage_shuffle:
            tables.stage_shuffle.drop(stage)
    if event.job in tables.job_stages:
        tables.job_stages.drop(event.job)


def _block_updated(tables: MonitorTables, event: BlockUpdated) -> None:
    """onBlockUpdated: cached RDD blocks come and go, shuffle data arrives by migration."""
    tracker = tables.track(event.executor, UNKNOWN_PROFILE)
    block = event.block
    if block is None:
        return
    if isinstance(block, ShuffleDataBlock):
        if tables.limits.tracking:
            tables.add_shuffle(tracker, block.shuffle)
        return
    splits = tracker.cached.get(block.rdd)
    if event.valid and not (tables.limits.rdd_from_service and event.on_disk):
        had = bool(tracker.cached)
        if splits is None:
            splits = tracker.cached[block.rdd] = set()
            tables.rdd_holders.setdefault(block.rdd, set()).add(tracker.id)
        if block.split not in splits:
            tables.undo_log.append((BLOCK, tracker.id, block.rdd, block.split, False))
            splits.add(block.split)
        if not had:
            tracker.idle_timeout = tables.timeout_of(tracker)
            tables.renew(tracker)
    elif splits is not None:
        if block.split in splits:
            tables.undo_log.append((BLOCK, tracker.id, block.rdd, block.split, True))
            splits.discard(block.split)
        if not splits:
            del tracker.cached[block.rdd]
            tables.rdd_holders[block.rdd].discard(tracker.id)
        if not tracker.cached:
            tracker.idle_timeout = tables.timeout_of(tracker)
            tables.renew(tracker)


def _unpersisted(tables: MonitorTables, rdd: int) -> None:
    """onUnpersistRDD: every executor drops the RDD, and every one without cached blocks renews its deadline.

    The latter is Spark's and touches the whole fleet; only who holds the RDD, or is idle with shuffle data that
    came without a renewal, can get another deadline. The rest may only pull the next look forward.
    """
    holders = tables.rdd_holders.pop(rdd, set())
    for executor in sorted(holders):
        tracker = tables.trackers[executor]
        tables.undo_log.append((RDD, executor, rdd, tracker.cached.pop(rdd)))
        tracker.idle_timeout = tables.timeout_of(tracker)
        tables.touch(tracker)
    soonest = NEVER
    for tracker in tables.trackers.values():
        if tracker.idle_start >= 0 and not tracker.cached:
            if tracker.timeout_at != deadline(tracker.idle_start, tracker.idle_timeout):
                tables.renew(tracker)
            soonest = min(soonest, tracker.timeout_at)
    if soonest < tables.next_timeout:
        tables.next_timeout = soonest


def _shuffle_cleaned(tables: MonitorTables, shuffle: int) -> None:
    """cleanupShuffle: the shuffle is forgotten; an executor without any other is no longer shuffle-active."""
    jobs = tables.shuffle_jobs.get(shuffle)
    if jobs is not None:
        tables.idle_shuffles -= not jobs
        tables.shuffle_jobs.drop(shuffle)
        for job in dict.fromkeys(jobs):
            tables.job_shuffles[job] = [s for s in tables.job_shuffles[job] if s != shuffle]
    holding = list(tables.holders_of(shuffle))
    if shuffle in tables.holders:
        tables.holders.drop(shuffle)
    for tracker in holding:
        tables.count_shuffles(tracker, -1)
        tracker.idle_timeout = tables.timeout_of(tracker)
        if tracker.shuffles:
            tables.suspects.add(tracker.id)  # active for this shuffle alone, perhaps
        else:
            tables.set(tracker, "active_shuffle", False)
            if tracker.idle_start >= 0:
                tables.renew(tracker)


def _kill_disproved(tables: MonitorTables, event: KillDisproved) -> None:
    """The kill did not happen: the executor is active again and neither pending removal nor decommissioning."""
    for executor in event.executors:
        tracker = tables.trackers.get(executor)
        if tracker is not None:
            tables.turn(executor, True)
            tables.enlist(tracker, -1)
            tables.set(tracker, "pending_removal", False)
            tables.set(tracker, "decommissioning", False)
            tables.enlist(tracker, 1)
            tables.renew(tracker)


def look(idleness: Idleness, now: Millis) -> tuple[Idleness, tuple[Held, ...]]:
    """timedOutExecutors() at ``now``, and what data keeps alive; the same idleness when nothing is due."""
    if now < idleness.due():
        return idleness, ()
    with idleness.step() as tables:
        reports = timed_out_list.look(tables, now)
        return idleness.hand_over(Idleness(tables)), reports


def deactivate(idleness: Idleness, executors: Sequence[ExecutorId]) -> Idleness:
    """The scheduler backend granted the removal of these: it no longer holds them for active."""
    with idleness.step() as tables:
        for executor in executors:
            tables.turn(executor, False)
        return idleness.hand_over(Idleness(tables))


def mark(idleness: Idleness, executors: Sequence[ExecutorId], *, decommissioned: bool) -> Idleness:
    """executorsKilled or executorsDecommissioned: these are on their way out; look again at once."""
    with idleness.step() as tables:
        for executor in executors:
            tracker = tables.trackers.get(executor)
            if tracker is not None:
                tables.enlist(tracker, -1)
                tables.set(tracker, "decommissioning" if decommissioned else "pending_removal", True)
                tables.enlist(tracker, 1)
        tables.next_timeout = ALWAYS
        return idleness.hand_over(Idleness(tables))


def reset(idleness: Idleness) -> Idleness:
    """ExecutorMonitor.reset(): every executor is forgotten; shuffles and jobs are not."""
    tables = idleness.tables()
    tables.trackers.drop_all()
    tables.holders.drop_all()
    tables.names = []
    tables.listed.drop_all()
    tables.next_timeout = NEVER
    return restored(tables)
