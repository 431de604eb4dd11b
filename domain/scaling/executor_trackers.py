"""The books of the executor monitor: one tracker per executor, and what is derived from all of them.

``Tracker`` holds what ExecutorMonitor.Tracker holds. ``IdlenessBooks`` holds all trackers, the cached list of
timed-out executors, shuffles and jobs, and keeps every change of them in a journal, so that an older version can
be rebuilt (see ``base.versioned``). Which event changes what is told in ``idleness``; here is how a change is made, and
everything that would cost a walk over the fleet is kept up to date instead: counts per profile, who holds which
shuffle and which RDD, which executors were touched since somebody looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappush
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.domain.base.units import ALWAYS, LAST_MS, NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.base.versioned import JournalEntry
from podtide.domain.protocol.reasons import Bound


class Limits(NamedTuple):
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


class Roster:
    """Counts of one profile's executors, kept up to date."""

    __slots__ = ("busy", "count", "decommissioning", "pending_removal")

    def __init__(self) -> None:
        self.count = 0
        self.busy = 0
        self.pending_removal = 0
        self.decommissioning = 0

    @property
    def remaining(self) -> int:
        """Executors that no removal is under way for, as removeExecutors counts them."""
        return self.count - self.pending_removal - self.decommissioning


class Tracker:
    """ExecutorMonitor.Tracker: one executor."""

    __slots__ = (
        "active_shuffle",
        "cached",
        "decommissioning",
        "hold",
        "id",
        "idle_start",
        "kept",
        "mark",
        "pending_removal",
        "profile",
        "roster",
        "running",
        "shuffles",
        "timed_out",
        "timeout_at",
    )

    def __init__(self, executor: ExecutorId, profile: ProfileId) -> None:
        self.id = executor
        self.profile = profile
        self.running = 0
        self.idle_start: Millis = -1
        self.timeout_at: Millis = NEVER
        self.timed_out = False
        self.pending_removal = False
        self.decommissioning = False
        self.active_shuffle = False
        self.cached: dict[int, set[int]] = {}
        self.shuffles = 0  # how many it holds data of; which ones, the books know by its mark
        self.mark = 0
        # Derived: whether it is reported as kept by data, the timeout that applies once idle, its profile's counts.
        self.kept = False
        self.hold: Millis = 0
        self.roster: Roster = NOWHERE

    @property
    def eligible(self) -> bool:
        """Whether a look at the deadlines takes the executor into account."""
        return not (self.pending_removal or self.active_shuffle or self.decommissioning)

    def copy(self) -> Tracker:
        """Return an independent tracker; what is derived is left to ``recount``."""
        twin = Tracker(self.id, self.profile)
        for name in SCALARS:
            setattr(twin, name, getattr(self, name))
        twin.cached = {rdd: set(splits) for rdd, splits in self.cached.items()}
        twin.shuffles = self.shuffles
        twin.mark = self.mark
        return twin


NOWHERE: Final = Roster()
SCALARS: Final = (
    "running",
    "idle_start",
    "timeout_at",
    "timed_out",
    "pending_removal",
    "decommissioning",
    "active_shuffle",
)

# Journal codes (J_). An entry names the executor by id: undoing works on a copy.
J_RAN: Final = 0  # (code, id, running, idle_start, timeout_at)
J_SET: Final = 1  # (code, id, field, old value)
J_SHUFFLE_JOINED: Final = 2  # (code, id, shuffle)
J_SHUFFLE_LEFT: Final = 3  # (code, id, shuffle)
J_BORN: Final = 4  # (code, id)
J_DIED: Final = 5  # (code, id, tracker)
J_BOOK: Final = 6  # (code, field, old value): a field of the books themselves
J_KEY: Final = 7  # (code, field, key, old value or None): an entry of a dict of the books
J_TURN: Final = 8  # (code, id, was active)
J_BLOCK_JOINED: Final = 9  # (code, id, rdd, split)
J_BLOCK_LEFT: Final = 10  # (code, id, rdd, split)
J_RDD_LEFT: Final = 11  # (code, id, rdd, splits)

Log: TypeAlias = Callable[[JournalEntry], None]


class IdlenessBooks:
    """The mutable inside of an Idleness. Only this module touches it."""

    __slots__ = (
        "active",
        "dirty",
        "heap",
        "holders",
        "idle_shuffles",
        "job_shuffles",
        "job_stages",
        "kept",
        "kept_heap",
        "kept_touched",
        "limits",
        "listed",
        "lists",
        "names",
        "next_report",
        "next_timeout",
        "rdd_holders",
        "removals",
        "rosters",
        "shuffle_jobs",
        "stage_shuffle",
        "suspects",
        "trackers",
        "unseen",
    )

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.trackers: dict[ExecutorId, Tracker] = {}
        self.active: set[ExecutorId] = set()
        self.next_timeout: Millis = NEVER
        self.listed: dict[ExecutorId, ProfileId] = {}  # the cached list, with the profile it had when listed
        # Who holds data of a shuffle: a bit for each executor that ever was, by its place in ``names``. Long
        # applications leave thousands of shuffles on hundreds of executors; sets of pairs would outgrow the rest.
        self.holders: dict[int, int] = {}
        self.names: list[ExecutorId] = []
        self.shuffle_jobs: dict[int, tuple[int, ...]] = {}
        self.stage_shuffle: dict[int, int] = {}
        self.job_stages: dict[int, tuple[int, ...]] = {}
        self.removals = Removals()
        self.kept: dict[ExecutorId, tuple[Bound, ProfileId]] = {}  # reported as kept by data, and by which
        self.recount()

    # -- versions ---------------------------------------------------------------------------------------------

    def copy(self) -> IdlenessBooks:
        """Return independent books with the same content; what is derived is left to ``recount``."""
        twin = IdlenessBooks(self.limits)
        twin.trackers = {executor: tracker.copy() for executor, tracker in self.trackers.items()}
        twin.active = set(self.active)
        twin.next_timeout = self.next_timeout
        twin.listed = dict(self.listed)
        twin.holders = dict(self.holders)
        twin.names = list(self.names)
        twin.shuffle_jobs = dict(self.shuffle_jobs)
        twin.stage_shuffle = dict(self.stage_shuffle)
        twin.job_stages = dict(self.job_stages)
        twin.removals = self.removals
        twin.kept = dict(self.kept)
        return twin

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one step's changes back, the last one first."""
        entry: Any
        for entry in reversed(journal):
            code = entry[0]
            if code == J_RAN:
                tracker = self.trackers[entry[1]]
                _, _, tracker.running, tracker.idle_start, tracker.timeout_at = entry
            elif code == J_SET:
                setattr(self.trackers[entry[1]], entry[2], entry[3])
            elif code == J_SHUFFLE_JOINED:
                tracker = self.trackers[entry[1]]
                tracker.shuffles -= 1
                self.holders[entry[2]] &= ~tracker.mark
            elif code == J_SHUFFLE_LEFT:
                self.trackers[entry[1]].shuffles += 1  # the holders are restored as a whole
            elif code == J_BLOCK_JOINED:
                cached = self.trackers[entry[1]].cached
                cached[entry[2]].discard(entry[3])
                if not cached[entry[2]]:
                    del cached[entry[2]]
            elif code == J_BLOCK_LEFT:
                self.trackers[entry[1]].cached.setdefault(entry[2], set()).add(entry[3])
            elif code == J_RDD_LEFT:
                self.trackers[entry[1]].cached[entry[2]] = set(entry[3])
            elif code == J_BORN:
                del self.trackers[entry[1]]
            elif code == J_DIED:
                self.trackers[entry[1]] = entry[2].copy()
            elif code == J_BOOK:
                setattr(self, entry[1], entry[2])
            elif code == J_KEY:
                table = getattr(self, entry[1])
                if entry[3] is None:
                    table.pop(entry[2], None)
                else:
                    table[entry[2]] = entry[3]
            elif entry[2]:
                self.active.add(entry[1])
            else:
                self.active.discard(entry[1])

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
            tracker.hold = self.hold(tracker)
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

    def enlist(self, tracker: Tracker, sign: int) -> None:
        """Count a tracker in its roster, or out of it."""
        roster = tracker.roster
        roster.count += sign
        roster.busy += sign * (tracker.running > 0)
        roster.pending_removal += sign * tracker.pending_removal
        roster.decommissioning += sign * tracker.decommissioning

    def hold(self, tracker: Tracker) -> Millis:
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
            and (tracker.active_shuffle or tracker.hold != self.limits.idle)
        ):
            plain = tracker.idle_start + self.limits.idle
            if plain > now:
                heappush(self.kept_heap, (plain, tracker.id))
                self.next_report = min(self.next_report, plain)

    # -- changing ---------------------------------------------------------------------------------------------

    def set(self, tracker: Tracker, field: str, value: object, log: Log) -> None:
        """Change a scalar of a tracker, journalled, and have it looked at again."""
        if getattr(tracker, field) != value:
            log((J_SET, tracker.id, field, getattr(tracker, field)))
            setattr(tracker, field, value)
            self.touch(tracker)

    def touch(self, tracker: Tracker) -> None:
        """Have the executor re-examined at the next pass."""
        self.dirty[tracker.id] = None
        if tracker.kept:
            self.kept_touched = True
        elif tracker.idle_start >= 0:
            self.next_report = min(self.next_report, tracker.idle_start + self.limits.idle)

    def book(self, field: str, value: object, log: Log) -> None:
        """Change a field of the books, journalled."""
        old = getattr(self, field)
        if old != value:
            log((J_BOOK, field, old))
            setattr(self, field, value)

    def entry(self, table: str, key: int | ExecutorId, value: object, log: Log) -> None:
        """Set an entry of one of the dicts (or drop it: None), journalled."""
        entries = getattr(self, table)
        log((J_KEY, table, key, entries.get(key)))
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value

    def turn(self, executor: ExecutorId, active: bool, log: Log) -> None:
        """Note what the scheduler backend holds of an executor."""
        was = executor in self.active
        if was != active:
            log((J_TURN, executor, was))
            if active:
                self.active.add(executor)
            else:
                self.active.discard(executor)

    def track(self, executor: ExecutorId, profile: ProfileId, log: Log) -> Tracker:
        """ensureExecutorIsTracked: begin a tracker, or give an unknown profile its name."""
        tracker = self.trackers.get(executor)
        if tracker is None:
            tracker = Tracker(executor, profile)
            tracker.hold = self.limits.idle
            tracker.roster = self.roster(profile)
            tracker.kept = executor in self.kept
            self.name(tracker)
            log((J_BORN, executor))
            self.trackers[executor] = tracker
            self.enlist(tracker, 1)
        elif tracker.profile == UNKNOWN_PROFILE and profile != UNKNOWN_PROFILE:
            self.enlist(tracker, -1)
            self.set(tracker, "profile", profile, log)
            tracker.roster = self.roster(profile)
            self.enlist(tracker, 1)
        return tracker

    def name(self, tracker: Tracker) -> None:
        """Give a tracker the mark by which shuffles know it."""
        tracker.mark = 1 << len(self.names)
        self.names.append(tracker.id)

    def run(self, tracker: Tracker, delta: int, now: Millis, log: Log) -> None:
        """updateRunningTasks: idle from now on whenever no task is left, even if none ran before."""
        log((J_RAN, tracker.id, tracker.running, tracker.idle_start, tracker.timeout_at))
        running = max(0, tracker.running + delta)
        tracker.roster.busy += (running > 0) - (tracker.running > 0)
        tracker.running = running
        tracker.idle_start = -1 if running else now
        self.renew(tracker, log)

    def renew(self, tracker: Tracker, log: Log) -> None:
        """updateTimeout: the deadline from when the executor fell idle; a later one unlists it."""
        old = tracker.timeout_at
        new = NEVER if tracker.idle_start < 0 else deadline(tracker.idle_start, tracker.hold)
        if new != old:
            log((J_RAN, tracker.id, tracker.running, tracker.idle_start, old))
            tracker.timeout_at = new
        self.touch(tracker)
        if new > old and tracker.timed_out:
            self.book("next_timeout", ALWAYS, log)
        elif new < self.next_timeout:
            self.book("next_timeout", new, log)

    def add_shuffle(self, tracker: Tracker, shuffle: int, log: Log) -> None:
        """addShuffle: new shuffle data makes the executor shuffle-active, needed or not; no deadline moves."""
        held = self.holders.get(shuffle, 0)
        if not held & tracker.mark:
            log((J_SHUFFLE_JOINED, tracker.id, shuffle))
            tracker.shuffles += 1
            self.holders[shuffle] = held | tracker.mark
            tracker.hold = self.hold(tracker)
            self.set(tracker, "active_shuffle", True, log)
            if not self.shuffle_jobs.get(shuffle):
                self.suspects.add(tracker.id)

    def weigh_shuffles(self, tracker: Tracker, active: Sequence[int] | None, log: Log) -> None:
        """updateActiveShuffles against the given shuffles, or against all that a job needs (None)."""
        had = tracker.active_shuffle
        now_active = (
            self.needed(tracker) if active is None else any(self.holders.get(s, 0) & tracker.mark for s in active)
        )
        self.set(tracker, "active_shuffle", now_active, log)
        if had and tracker.idle_start >= 0 and not now_active:
            self.renew(tracker, log)


def deadline(start: Millis, timeout: Millis) -> Millis:
    """The end of a timeout, in 64-bit nanoseconds: one that overflows never comes."""
    end = start + timeout
    return end if timeout <= LAST_MS and end <= LAST_MS else NEVER
