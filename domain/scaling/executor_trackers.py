"""What the executor monitor knows of executors: one tracker per executor, and what is derived from all of them.

``Tracker`` holds what ExecutorMonitor.Tracker holds. ``MonitorTables`` holds all trackers, the cached list of timed-out
executors, shuffles and jobs, and notes how each change is taken back (``base.tables``). Which event changes what stands in
``executor_monitor``; here is how a change is made, and everything that would cost a walk over all executors is kept up to
date instead: counts per profile, who holds which shuffle and which RDD, which executors were touched since the last look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, assert_never, get_args

from podtide.domain.base.tables import ABSENT, Field, Members, Table, Tables
from podtide.domain.base.units import ALWAYS, LAST_MS, NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.base.versioned import UndoEntry
from podtide.domain.protocol.reasons import Bound


class IdleTimeouts(NamedTuple):
    """The part of ScalingConfig that deadlines depend on; milliseconds."""

    idle: Millis
    cached: Millis
    shuffle: Millis
    tracking: bool
    rdd_from_service: bool


class Removals(NamedTuple):
    """How executors left: the counters of ExecutorAllocationManagerSource."""

    gracefully_decommissioned: int = 0
    decommission_unfinished: int = 0
    killed_by_driver: int = 0
    exited_unexpectedly: int = 0


@dataclass(slots=True)
class Roster:
    """Counts of one profile's executors; inside the tables kept up to date, outside a copy."""

    count: int = 0
    busy: int = 0
    pending_removal: int = 0
    decommissioning: int = 0

    @property
    def remaining(self) -> int:
        """Executors that no removal is under way for, as removeExecutors counts them."""
        return self.count - self.pending_removal - self.decommissioning

    def copy(self) -> Roster:
        """Return the counts as they are now."""
        return Roster(self.count, self.busy, self.pending_removal, self.decommissioning)


@dataclass(slots=True, eq=False)
class Tracker:
    """ExecutorMonitor.Tracker: one executor. ``shuffles``: how many it holds data of; the tables know which, by ``mark``."""

    id: ExecutorId
    profile: ProfileId
    running: int = 0
    idle_start: Millis = -1
    timeout_at: Millis = NEVER
    timed_out: bool = False
    pending_removal: bool = False
    decommissioning: bool = False
    active_shuffle: bool = False
    cached: dict[int, set[int]] = field(default_factory=dict)
    shuffles: int = 0
    mark: int = 0
    # Derived: whether it is reported as kept by data, the timeout that applies once idle, its profile's counts.
    kept: bool = False
    idle_timeout: Millis = 0
    roster: Roster = field(default_factory=Roster)

    @property
    def eligible(self) -> bool:
        """Whether a look at the deadlines takes the executor into account."""
        return not (self.pending_removal or self.active_shuffle or self.decommissioning)

    def copy(self) -> Tracker:
        """Return an independent tracker; what is derived is left to ``recount``."""
        twin = Tracker(self.id, self.profile, *(getattr(self, name) for name in SCALARS))
        twin.cached = {rdd: set(splits) for rdd, splits in self.cached.items()}
        twin.shuffles = self.shuffles
        twin.mark = self.mark
        return twin


SCALARS: Final = (
    "running",
    "idle_start",
    "timeout_at",
    "timed_out",
    "pending_removal",
    "decommissioning",
    "active_shuffle",
)


TrackerChange: TypeAlias = Literal["ran", "field", "block", "rdd"]
"""Changes of a tracker, in an undo log instead of a table's name: (change, executor, old ...). Texts, as the garbage
collector does not follow a tuple of texts and numbers."""

RAN: Final = "ran"  # old: running, idle_start and timeout_at, side by side
FIELD: Final = "field"  # old: the field's name and its value
BLOCK: Final = "block"  # old: an RDD, a split of it, whether that was cached
RDD: Final = "rdd"  # old: an RDD and its cached splits
_CHANGES: Final = frozenset(get_args(TrackerChange))


class _Trackers(Table[ExecutorId, Tracker]):
    """The trackers. What is put back is a copy: an undo log may be read again, for another version."""

    __slots__ = ()

    def undo(self, key: ExecutorId, old: Tracker) -> None:
        super().undo(key, old if old is ABSENT else old.copy())

    def twin(self) -> Self:
        return type(self)((executor, tracker.copy()) for executor, tracker in self.items())


class MonitorTables(Tables):
    """The inside of an Idleness."""

    limits = Field(IdleTimeouts(0, 0, 0, tracking=False, rdd_from_service=False))
    next_timeout = Field[Millis](NEVER)
    removals = Field(Removals())

    def __init__(self, limits: IdleTimeouts) -> None:
        self.trackers: Table[ExecutorId, Tracker] = _Trackers()
        self.active: Members[ExecutorId] = Members()
        self.listed: Table[ExecutorId, ProfileId] = Table()  # the cached list, with the profile it had when listed
        # Who holds data of a shuffle: a bit for each executor that ever was, by its place in ``names``. Long
        # applications leave thousands of shuffles on hundreds of executors; sets of pairs would outgrow the rest.
        self.holders: Table[int, int] = Table()
        self.names: list[ExecutorId] = []
        self.shuffle_jobs: Table[int, tuple[int, ...]] = Table()
        self.stage_shuffle: Table[int, int] = Table()
        self.job_stages: Table[int, tuple[int, ...]] = Table()
        self.kept: Table[ExecutorId, tuple[Bound, ProfileId]] = Table()  # reported as kept by data, and by which
        super().__init__()
        self.limits = limits
        self.undo_log.clear()

    # -- versions ---------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return independent tables with the same content; what is derived is left to ``recount``."""
        twin = super().copy()
        twin.names = list(self.names)
        return twin

    def undo(self, log: Sequence[UndoEntry]) -> None:
        """Take one step's changes back, the last one first."""
        for entry in reversed(log):
            if entry[0] in _CHANGES:
                self._undo_change(*entry)
            else:
                super().undo((entry,))

    def _undo_change(self, change: TrackerChange, executor: ExecutorId, *old: Any) -> None:
        tracker = self.trackers[executor]
        match change:
            case "ran":
                tracker.running, tracker.idle_start, tracker.timeout_at = old
            case "field":
                name, value = old
                setattr(tracker, name, value)
            case "block":
                rdd, split, was_cached = old
                splits = tracker.cached.setdefault(rdd, set())
                (splits.add if was_cached else splits.discard)(split)
                if not splits:
                    del tracker.cached[rdd]
            case "rdd":
                rdd, splits = old
                tracker.cached[rdd] = set(splits)
            case _:
                assert_never(change)

    def recount(self) -> None:
        """Derive anew what is derived: counts, heaps, holders, sorted lists."""
        self.rosters: dict[ProfileId, Roster] = {}
        self.heap: list[tuple[Millis, ExecutorId]] = []
        self.kept_heap: list[tuple[Millis, ExecutorId]] = []
        self.dirty: dict[ExecutorId, None] = dict.fromkeys([*self.trackers, *self.kept])  # since the last pass
        self.unseen: dict[ExecutorId, None] = dict.fromkeys(self.listed)  # touched since the last look
        self.kept_touched = bool(self.kept)  # not more: what is due must not differ in a version that was rebuilt
        self.next_report: Millis = NEVER
        self.rdd_holders: dict[int, set[ExecutorId]] = {}
        self.idle_shuffles = 0
        self.job_shuffles: dict[int, list[int]] = {}
        self.suspects: set[ExecutorId] = set()
        self.lists: dict[ProfileId, list[ExecutorId]] = {}
        self.frozen_lists: Mapping[ProfileId, tuple[ExecutorId, ...]] | None = None  # of ``lists``, once asked for
        for executor in sorted(self.listed, key=java_order):
            self.lists.setdefault(self.listed[executor], []).append(executor)
        for shuffle, jobs in self.shuffle_jobs.items():
            self.idle_shuffles += not jobs
            for job in jobs:
                self.job_shuffles.setdefault(job, []).append(shuffle)
        for executor, tracker in self.trackers.items():
            tracker.roster = self.roster(tracker.profile)
            tracker.kept = executor in self.kept
            self.enlist(tracker, 1)
            tracker.idle_timeout = self.timeout_of(tracker)
            for rdd in tracker.cached:
                self.rdd_holders.setdefault(rdd, set()).add(executor)
            if tracker.active_shuffle and not self.needed(tracker):
                self.suspects.add(executor)
            self.expect_report(tracker)

    # -- reading ----------------------------------------------------------------------------------------------

    def roster(self, profile: ProfileId) -> Roster:
        """The counts of a profile, begun if it has none."""
        roster = self.rosters.get(profile)
        if roster is None:
            roster = self.rosters[profile] = Roster()
        return roster

    def timed_out(self) -> Mapping[ProfileId, tuple[ExecutorId, ...]]:
        """The cached list as a value: per profile the ids, sorted as strings. It is made anew once the list has changed."""
        lists = self.frozen_lists
        if lists is None:
            lists = MappingProxyType({profile: tuple(ids) for profile, ids in self.lists.items()})
            self.frozen_lists = lists
        return lists

    def enlist(self, tracker: Tracker, sign: int) -> None:
        """Count a tracker among its profile's, or out of them."""
        roster = tracker.roster
        roster.count += sign
        roster.busy += sign * (tracker.running > 0)
        roster.pending_removal += sign * tracker.pending_removal
        roster.decommissioning += sign * tracker.decommissioning

    def timeout_of(self, tracker: Tracker) -> Millis:
        """The timeout that applies to an idle executor: the longest that has a reason."""
        limits = self.limits
        return max(
            limits.idle,
            limits.cached if tracker.cached else 0,
            limits.shuffle if tracker.shuffles else 0,
        )

    def needed(self, tracker: Tracker) -> bool:
        """Whether a running job may read shuffle data of the executor."""
        holders, mark = self.holders, tracker.mark
        return any(holders.get(s, 0) & mark for shuffles in self.job_shuffles.values() for s in shuffles)

    def holders_of(self, shuffle: int) -> Iterator[Tracker]:
        """The executors that hold data of a shuffle, in the order in which they came."""
        bits = self.holders.get(shuffle, 0)
        while bits:
            mark = bits & -bits
            bits ^= mark
            tracker = self.trackers.get(self.names[mark.bit_length() - 1])
            if tracker is not None and tracker.mark == mark:  # not one that has gone since
                yield tracker

    def keeper(self, tracker: Tracker | None, now: Millis) -> Bound | None:
        """What data, if any, keeps an executor that has been idle for the plain idle timeout."""
        if (
            tracker is None
            or tracker.idle_start < 0
            or tracker.pending_removal
            or tracker.decommissioning
            or tracker.idle_start + self.limits.idle > now
        ):
            return None
        if tracker.active_shuffle:
            return Bound.SHUFFLE_DATA
        if tracker.timeout_at <= now:
            return None
        if tracker.shuffles and (not tracker.cached or self.limits.shuffle >= self.limits.cached):
            return Bound.SHUFFLE_DATA
        return Bound.CACHED_DATA

    def expect_report(self, tracker: Tracker, now: Millis = -1) -> None:
        """Note when, after ``now``, an idle executor comes to be kept by data alone."""
        if (
            tracker.idle_start >= 0
            and not tracker.kept
            and (tracker.active_shuffle or tracker.idle_timeout != self.limits.idle)
        ):
            plain = tracker.idle_start + self.limits.idle
            if plain > now:
                heappush(self.kept_heap, (plain, tracker.id))
                self.next_report = min(self.next_report, plain)

    # -- changing ---------------------------------------------------------------------------------------------

    def set(self, tracker: Tracker, field: str, value: object) -> None:
        """Change a scalar of a tracker, journalled, and have it looked at again."""
        if getattr(tracker, field) != value:
            self.undo_log.append((FIELD, tracker.id, field, getattr(tracker, field)))
            setattr(tracker, field, value)
            self.touch(tracker)

    def touch(self, tracker: Tracker) -> None:
        """Have the executor re-examined at the next pass."""
        self.dirty[tracker.id] = None
        if tracker.kept:
            self.kept_touched = True
        elif tracker.idle_start >= 0:
            self.next_report = min(self.next_report, tracker.idle_start + self.limits.idle)

    def turn(self, executor: ExecutorId, active: bool) -> None:
        """Note what the scheduler backend holds of an executor."""
        (self.active.add if active else self.active.discard)(executor)

    def track(self, executor: ExecutorId, profile: ProfileId) -> Tracker:
        """ensureExecutorIsTracked: begin a tracker, or give an unknown profile its name."""
        tracker = self.trackers.get(executor)
        if tracker is None:
            tracker = Tracker(executor, profile)
            tracker.idle_timeout = self.limits.idle
            tracker.roster = self.roster(profile)
            tracker.kept = executor in self.kept
            self.name(tracker)
            self.trackers.put(executor, tracker)
            self.enlist(tracker, 1)
        elif tracker.profile == UNKNOWN_PROFILE and profile != UNKNOWN_PROFILE:
            self.enlist(tracker, -1)
            self.set(tracker, "profile", profile)
            tracker.roster = self.roster(profile)
            self.enlist(tracker, 1)
        return tracker

    def name(self, tracker: Tracker) -> None:
        """Give a tracker the mark by which shuffles know it."""
        tracker.mark = 1 << len(self.names)
        self.names.append(tracker.id)

    def count_running(self, tracker: Tracker, change: int) -> None:
        """Count tasks of an executor that is busy before and after: its timer does not matter."""
        self.undo_log.append((RAN, tracker.id, tracker.running, tracker.idle_start, tracker.timeout_at))
        tracker.running += change

    def run(self, tracker: Tracker, delta: int, now: Millis) -> None:
        """updateRunningTasks: idle from now on whenever no task is left, even if none ran before."""
        self.undo_log.append((RAN, tracker.id, tracker.running, tracker.idle_start, tracker.timeout_at))
        running = max(0, tracker.running + delta)
        tracker.roster.busy += (running > 0) - (tracker.running > 0)
        tracker.running = running
        tracker.idle_start = -1 if running else now
        self.renew(tracker)

    def renew(self, tracker: Tracker) -> None:
        """updateTimeout: the deadline from when the executor fell idle; a later one unlists it."""
        old = tracker.timeout_at
        new = NEVER if tracker.idle_start < 0 else deadline(tracker.idle_start, tracker.idle_timeout)
        if new != old:
            self.undo_log.append((RAN, tracker.id, tracker.running, tracker.idle_start, old))
            tracker.timeout_at = new
        self.touch(tracker)
        if new > old and tracker.timed_out:
            self.next_timeout = ALWAYS
        elif new < self.next_timeout:
            self.next_timeout = new

    def count_shuffles(self, tracker: Tracker, change: int) -> None:
        """The executor holds data of one shuffle more or less."""
        self.undo_log.append((FIELD, tracker.id, "shuffles", tracker.shuffles))
        tracker.shuffles += change

    def add_shuffle(self, tracker: Tracker, shuffle: int) -> None:
        """addShuffle: new shuffle data makes the executor shuffle-active, needed or not; no deadline moves."""
        held = self.holders.get(shuffle, 0)
        if not held & tracker.mark:
            self.count_shuffles(tracker, 1)
            self.holders.put(shuffle, held | tracker.mark)
            tracker.idle_timeout = self.timeout_of(tracker)
            self.set(tracker, "active_shuffle", True)
            if not self.shuffle_jobs.get(shuffle):
                self.suspects.add(tracker.id)

    def weigh_shuffles(self, tracker: Tracker, active: Sequence[int] | None) -> None:
        """updateActiveShuffles against the given shuffles, or against all that a job needs (None)."""
        had = tracker.active_shuffle
        now_active = (
            self.needed(tracker) if active is None else any(self.holders.get(s, 0) & tracker.mark for s in active)
        )
        self.set(tracker, "active_shuffle", now_active)
        if had and tracker.idle_start >= 0 and not now_active:
            self.renew(tracker)


def deadline(start: Millis, timeout: Millis) -> Millis:
    """The end of a timeout, in 64-bit nanoseconds: one that overflows never comes."""
    end = start + timeout
    return end if timeout <= LAST_MS and end <= LAST_MS else NEVER
