"""What the application asks for: a pure ExecutorAllocationListener.

The load counts, per resource profile, the tasks that wait, run, wait as speculative copies, and the attempts
whose task set cannot be scheduled anywhere. It reflects events and decides nothing; what an event means to the
allocation manager besides (the backlog began, the queue ran empty, a stage came) leaves as *signals*, in order.

The rules are section 6 of the dynamic allocation spec, the ones that surprise included:
- an attempt is (stage, attempt number); a retry is another attempt, and tasks of a finished attempt still running
  count on (zombies);
- ``pending = tasks - started``, both of which vanish with StageCompleted, so a task of a finished attempt that
  starts late makes it negative, and sums take it as it is;
- a successful regular task stays started; a killed one as well; any other failure makes it pending again;
- whether tasks wait at all is asked over attempts that are registered with a profile, one by one.

The third rule can hang an application for good: a negative count outlives its stage and swallows the tasks of the next
one, so that no executor is asked for (SPARK-58446, open in 4.3.0). ``repair_pending`` mends it: of an attempt without a
submitted stage, tasks that start or end count as running alone, speculative copies are not waited for, and a failure does
not begin a backlog.

Scala's maps tell "no entry" from "empty entry", and some rules ask for the former; hence ``None`` beside sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.domain.base.units import DEFAULT_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned import Versioned
from podtide.domain.protocol.resource_profiles import ResourceProfile, from_added
from podtide.domain.protocol.stimuli import (
    MOVED_MAX,
    Answer,
    Move,
    Reset,
    ResourceProfileAdded,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    Stop,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
    Tick,
    UnschedulableTaskSetAdded,
    UnschedulableTaskSetRemoved,
)
from podtide.domain.scaling.load_tables import (
    INDEX_SETS,
    INDICES,
    RUNNING,
    STARTED,
    Hint,
    LoadAttempt,
    LoadTables,
    Placement,
)

ANNOUNCED_MAX: Final = 16
"""Profiles under one id that are remembered; Spark announces each id once."""


class StageCame(NamedTuple):
    """A stage was submitted. ``placement`` is given with the first stage of a profile, as of that moment."""

    at: Millis
    profile: ProfileId
    placement: Placement | None


class Backlogged(NamedTuple):
    """onSchedulerBacklogged: tasks wait, the timer starts unless it runs."""

    at: Millis


class QueueEmptied(NamedTuple):
    """onSchedulerQueueEmpty: nothing waits any more."""

    at: Millis


Signal: TypeAlias = StageCame | Backlogged | QueueEmptied | Tick | Answer | Reset | Stop
"""What the allocation manager has to act upon, in the order it happened."""


class Demand(NamedTuple):
    """The tasks of one profile: counts as ExecutorAllocationListener gives them (32-bit sums may be negative)."""

    pending: int = 0
    speculative: int = 0
    unschedulable: int = 0
    running: int = 0


class Backlog(NamedTuple):
    """Regular tasks of a profile that wait, attempt by attempt: how many in all, and some of the attempts, the first of them
    first. ``hidden``: what other attempts take off the sum, whose count is below zero, as a positive number.
    """

    pending: int
    hidden: int
    attempts: tuple[AttemptKey, ...]


class Load(Versioned[LoadTables]):
    """The demand at a moment, what has just happened (``recent``) and what it signalled (``signals``)."""

    __slots__ = ("_base", "recent", "signals")

    def __init__(
        self,
        tables: LoadTables | None,
        recent: Sequence[Stimulus] = (),
        signals: tuple[Signal, ...] = (),
        base: Load | None = None,
    ) -> None:
        super().__init__(tables)
        self._base = base
        self.recent = recent
        self.signals = signals

    @property
    def _tables(self) -> LoadTables:
        version = self._base or self
        own = version._own
        return own if own is not None else version._rebuild()

    def tables(self) -> LoadTables:
        """A copy of all that is known, for whoever stores or checks it."""
        tables = self._tables.copy()
        tables.recount()
        return tables

    @property
    def version(self) -> Load:
        """The version whose demand this is: itself, or the one that it adds signals to."""
        return self if self._base is None else self._base

    def with_signals(self, recent: Sequence[Stimulus], signals: tuple[Signal, ...]) -> Load:
        """The same demand beside other events: what a timer, an answer or another world's events mean."""
        return Load(None, recent, signals, self.version)

    def demand(self, profile: ProfileId) -> Demand:
        """The counts of one profile; zeroes for a profile without stages."""
        tally = self._tables.tallies.get(profile)
        if tally is None:
            return Demand()
        counts = (tally.pending, tally.speculative, tally.unschedulable, tally.running)
        return tuple.__new__(Demand, counts)  # for a third of what Demand(...) costs: asked at every batch of events

    def backlogs(self, named: int) -> dict[ProfileId, Backlog]:
        """What waits, of each profile for which anything waits; at most ``named`` attempts each. Costs all attempts."""
        found: dict[ProfileId, Backlog] = {}
        below: dict[ProfileId, int] = {}
        for attempt in self._tables.attempts.values():
            for profile in attempt.profiles if attempt.pending else ():
                if attempt.pending < 0:
                    below[profile] = below.get(profile, 0) - attempt.pending
                    continue
                pending, _, keys = found.get(profile, (0, 0, ()))
                keys = (*keys, attempt.key) if len(keys) < named else keys
                found[profile] = Backlog(pending + attempt.pending, 0, keys)
        return {profile: one._replace(hidden=below.get(profile, 0)) for profile, one in found.items()}

    def placement(self) -> Placement:
        """The locality hints that go with a request."""
        return self._tables.placement()

    def resource_profiles(self, profile: ProfileId) -> tuple[ResourceProfile, ...]:
        """The profiles announced under an id by ResourceProfileAdded, in order; nearly always one."""
        return self._tables.profiles.get(profile, ())

    def tasks_wait(self) -> bool:
        """Spark's hasPendingTasks: some registered attempt has regular or speculative tasks pending."""
        tables = self._tables
        return tables.waiting > 0 or tables.spec_waiting > 0


def empty() -> Load:
    """The load of an application that has not begun."""
    return Load(LoadTables())


def restored(tables: LoadTables) -> Load:
    """The load that has these tables, and nothing else to undo or to signal."""
    tables.undo_log.clear()
    tables.recount()
    return Load(tables)


def fold(load: Load, events: Sequence[Stimulus], *, repair_pending: bool = False) -> Load:
    """Reflect a batch of stimuli, in order, at the times they carry. ``load`` still answers as before.

    ``repair_pending`` (ScalingConfig's): late news of completed attempts moves no pending task.
    """
    load = load.version
    tables = load._tables
    try:
        signals = _fold(tables, events, repair_pending)
        return load.hand_over(Load(tables, events, tuple(signals)))
    except BaseException:  # what ``with load.step()`` does, for less: this runs at every batch of events
        tables.roll_back()
        raise


def _fold(tables: LoadTables, events: Sequence[Stimulus], repair: bool) -> list[Signal]:
    """Change the tables, and return the signals. The two hot events are worked out here, the rest in ``_reflect``."""
    attempt_of = tables.attempts.get
    log = tables.undo_log.append
    signals: list[Signal] = []
    emptied = False  # the last signal was QueueEmptied: repeating it at once changes nothing
    success = TaskOutcome.SUCCESS
    event: Any
    for event in events:
        kind = type(event)
        if kind is TaskStart:
            at, stage, number, index, _, speculative = event
            attempt = attempt_of((stage, number))
            if attempt is None or speculative or attempt.started is None:
                _start_rare(tables, event, repair)
            else:
                started = attempt.started
                if index in started:
                    log((RUNNING, attempt.key, attempt.running))
                    attempt.running += 1
                    for tally in attempt.tallies:
                        tally.running += 1
                else:
                    log((STARTED, attempt.key, index))
                    attempt.running += 1
                    started.add(index)
                    left = attempt.pending = attempt.pending - 1
                    for tally in attempt.tallies:
                        tally.running += 1
                        tally.pending -= 1
                        if not left:
                            tables.waiting -= 1
            if not tables.waiting and not tables.spec_waiting and not emptied:
                signals.append(QueueEmptied(at))
                emptied = True
        elif kind is TaskEnd:
            _, stage, number, _, _, speculative, outcome = event
            attempt = attempt_of((stage, number))
            if outcome is success and not speculative:
                if attempt is None:
                    continue
                if attempt.spec_pending is None and attempt.tasks is not None:
                    if attempt.running:
                        log((RUNNING, attempt.key, attempt.running))
                        attempt.running -= 1
                        for tally in attempt.tallies:
                            tally.running -= 1
                    continue
            backlog = _end_rare(tables, event, repair)
            if backlog is not None:
                signals.append(backlog)
                emptied = False
        else:
            count = len(signals)
            _reflect(tables, event, signals, repair)
            if len(signals) != count:
                emptied = type(signals[-1]) is QueueEmptied
    return signals


def _without_share(tables: LoadTables, key: AttemptKey) -> LoadAttempt | None:
    """The attempt with its share taken out of the sums, so that a rule may change it; ``_settle`` it after."""
    attempt = tables.attempts.get(key)
    if attempt is not None:
        tables.remove_share(attempt)
    return attempt


def _opened(tables: LoadTables, key: AttemptKey) -> LoadAttempt:
    attempt = _without_share(tables, key)
    if attempt is None:
        attempt = LoadAttempt(key)
        tables.attempts.put(key, attempt)
    return attempt


def _settle(tables: LoadTables, attempt: LoadAttempt) -> None:
    if attempt.key in tables.attempts:
        tables.add_share(attempt)


def _forget_if_unused(tables: LoadTables, attempt: LoadAttempt) -> None:
    """removeStageFromResourceProfileIfUnused; the attempt's share is taken out.

    Spark unregisters from exactly one profile and warns otherwise: two registrations stay.
    """
    if attempt.unused():
        if len(attempt.profiles) == 1:
            tables.assign(attempt, "profiles", ())
        if not attempt.profiles and not attempt.unschedulable:
            tables.attempts.drop(attempt.key)


def _late(attempt: LoadAttempt | None) -> bool:
    """Whether no stage is under way for an attempt: it was completed (or never announced)."""
    return attempt is None or attempt.tasks is None


def _start_rare(tables: LoadTables, event: TaskStart, repair: bool) -> None:
    """onTaskStart for speculative copies and for attempts that have no started set yet."""
    attempt = _opened(tables, (event.stage, event.attempt))
    tables.assign(attempt, "running", attempt.running + 1)
    if repair and _late(attempt):
        pass  # it runs, but it was not waited for any more
    elif event.speculative:
        tables.join(attempt, "spec_started", event.task_index)
        tables.leave(attempt, "spec_pending", event.task_index)
    else:
        tables.join(attempt, "started", event.task_index)
    tables.add_share(attempt)


def _end_rare(tables: LoadTables, event: TaskEnd, repair: bool) -> Backlogged | None:
    """onTaskEnd in full: speculative copies, failures, and tasks of attempts that Spark let go."""
    attempt = _without_share(tables, (event.stage, event.attempt))
    nobody_waits = repair and _late(attempt)
    if attempt is not None:
        if attempt.running:
            tables.assign(attempt, "running", attempt.running - 1)
            if not attempt.running:
                _forget_if_unused(tables, attempt)
        if event.speculative:
            tables.leave(attempt, "spec_started", event.task_index)
        if event.outcome is TaskOutcome.SUCCESS:
            tables.leave(attempt, "spec_pending", event.task_index)
        _settle(tables, attempt)
    if event.outcome is not TaskOutcome.FAILED or nobody_waits:
        return None
    # Asked before the task becomes pending again: only then does the timer start.
    signal = None if tables.waiting or tables.spec_waiting else Backlogged(event.at)
    if attempt is not None and not event.speculative and attempt.key in tables.attempts:
        tables.remove_share(attempt)
        tables.leave(attempt, "started", event.task_index)
        tables.add_share(attempt)
    return signal


def _reflect(tables: LoadTables, event: Stimulus, signals: list[Signal], repair: bool) -> None:
    """Reflect every stimulus but the two hot ones; those that concern executors alone pass through."""
    match event:
        case StageSubmitted():
            signals.append(_submitted(tables, event))
        case StageCompleted():
            _completed(tables, event)
            if not tables.open:
                signals.append(QueueEmptied(event.at))
        case SpeculativeTaskSubmitted() if repair and _late(tables.attempts.get((event.stage, event.attempt))):
            pass
        case SpeculativeTaskSubmitted():
            attempt = _opened(tables, (event.stage, event.attempt))
            tables.join(attempt, "spec_pending", event.task_index)
            tables.add_share(attempt)
            signals.append(Backlogged(event.at))
        case UnschedulableTaskSetAdded():
            attempt = _opened(tables, (event.stage, event.attempt))
            tables.assign(attempt, "unschedulable", True)
            tables.add_share(attempt)
            signals.append(Backlogged(event.at))
        case UnschedulableTaskSetRemoved():
            completed = _without_share(tables, (event.stage, event.attempt))
            if completed is not None:
                tables.assign(completed, "unschedulable", False)
                _forget_if_unused(tables, completed)
                _settle(tables, completed)
        case TasksMoved():
            _moved(tables, event, signals, repair)
        case ResourceProfileAdded():
            announced = tables.profiles.get(event.profile, ())
            profile = from_added(event)
            if event.profile != DEFAULT_PROFILE and profile not in announced and len(announced) < ANNOUNCED_MAX:
                tables.profiles.put(event.profile, (*announced, profile))
        case Tick() | Answer() | Reset() | Stop():
            signals.append(event)
        case _:
            pass  # executors, jobs and blocks concern the idleness alone


def _moved(tables: LoadTables, event: TasksMoved, signals: list[Signal], repair: bool) -> None:
    """Many starts and ends at once: for each attempt what as many events would have come to."""
    for given in event.moves:
        move = given._replace(last=min(given.last, given.first + MOVED_MAX), ended=max(0, min(given.ended, MOVED_MAX)))
        key = (move.stage, move.attempt)
        attempt = tables.attempts.get(key)
        if attempt is None or attempt.tasks is None or attempt.spec_pending is not None:
            _one_by_one(tables, event.at, move, repair)
            continue
        tables.remove_share(attempt)
        fresh: Sequence[int] = range(move.first, move.last)
        if attempt.started is None and fresh:
            tables.assign(attempt, "started", set())
        started = attempt.started or set()
        if not started.isdisjoint(fresh):
            tables.add_share(attempt)
            _one_by_one(tables, event.at, move, repair)
            continue
        ended = min(move.ended, attempt.running + len(fresh))
        if fresh:
            tables.undo_log.append((INDICES, key, fresh))
            attempt.indices("started").update(fresh)
        tables.assign(attempt, "running", attempt.running + len(fresh) - ended)
        tables.add_share(attempt)
    if not tables.waiting and not tables.spec_waiting and any(move.first < move.last for move in event.moves):
        signals.append(QueueEmptied(event.at))


def _one_by_one(tables: LoadTables, at: Millis, move: Move, repair: bool) -> None:
    """The same for attempts that are no longer, or not only, what was submitted."""
    nobody = ExecutorId("")
    for index in range(move.first, move.last):
        _start_rare(tables, TaskStart(at, move.stage, move.attempt, index, nobody), repair)
    for _ in range(move.ended):
        backlog = _end_rare(tables, TaskEnd(at, move.stage, move.attempt, -1, nobody), repair)
        assert backlog is None  # only what fails is waited for again


def _completed(tables: LoadTables, event: StageCompleted) -> None:
    """onStageCompleted: everything but the running tasks is let go."""
    key = (event.stage, event.attempt)
    _mark_hinted(tables)
    tables.hints.drop(key)
    attempt = _without_share(tables, key)
    if attempt is not None:
        for field in ("tasks", *INDEX_SETS):
            if getattr(attempt, field) is not None:
                tables.assign(attempt, field, None)
        _forget_if_unused(tables, attempt)
        _settle(tables, attempt)


def _mark_hinted(tables: LoadTables) -> None:
    if not tables.hinted:
        tables.hinted = True


def _submitted(tables: LoadTables, event: StageSubmitted) -> StageCame:
    """onStageSubmitted: the attempt's tasks, its profile, its hints."""
    key = (event.stage, event.attempt)
    attempt = _opened(tables, key)
    tables.assign(attempt, "tasks", event.tasks)
    if event.profile not in attempt.profiles:
        tables.assign(attempt, "profiles", (*attempt.profiles, event.profile))
    tables.add_share(attempt)
    _mark_hinted(tables)
    tables.hints.put(key, _hint(event))
    if event.profile in tables.seen:
        return StageCame(event.at, event.profile, None)
    tables.seen.add(event.profile)
    return StageCame(event.at, event.profile, tables.placement())


def _hint(event: StageSubmitted) -> Hint:
    """Tasks with a non-empty preference count once; each host that they list counts once a mention."""
    hosts: dict[str, int] = {}
    tasks = 0
    for preferred in event.locality or ():
        if preferred:
            tasks += 1
            for host in preferred:
                hosts[host] = hosts.get(host, 0) + 1
    return Hint(tasks, tuple(hosts.items()), event.profile)
