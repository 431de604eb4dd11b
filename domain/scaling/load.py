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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.domain.base.units import DEFAULT_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned import JournalEntry, Versioned
from podtide.domain.protocol.resource_profiles import ResourceProfile, from_added
from podtide.domain.protocol.stimuli import (
    MOVED_MAX,
    Answer,
    ListenerEvent,
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


class Placement(NamedTuple):
    """Locality hints for the cluster manager: per profile, tasks with preferences, and tasks per host."""

    tasks: dict[ProfileId, int]
    hosts: dict[ProfileId, dict[str, int]]


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


class Attempt:
    """One stage attempt. ``None`` means that Spark's map has no entry for it."""

    __slots__ = (
        "key",
        "pending",
        "profiles",
        "running",
        "spec_pending",
        "spec_started",
        "started",
        "tallies",
        "tasks",
        "unschedulable",
    )

    def __init__(self, key: AttemptKey) -> None:
        self.key = key
        self.tasks: int | None = None
        self.running = 0
        self.started: set[int] | None = None
        self.spec_started: set[int] | None = None
        self.spec_pending: set[int] | None = None
        self.profiles: tuple[ProfileId, ...] = ()
        self.unschedulable = False
        # Derived: tasks - started, and the tallies of the profiles, side by side for the hot path.
        self.pending = 0
        self.tallies: tuple[Tally, ...] = ()

    def unused(self) -> bool:
        """Spark's condition for forgetting an attempt."""
        return (
            not self.running
            and self.tasks is None
            and self.started is None
            and self.spec_started is None
            and self.spec_pending is None
        )

    def listed(self) -> bool:
        """Whether one of the three maps that StageCompleted looks at has an entry."""
        return self.tasks is not None or self.spec_pending is not None or self.spec_started is not None

    def member(self, field: str) -> set[int]:
        """The set of that name, which exists."""
        indices: set[int] = getattr(self, field)
        return indices

    def copy(self) -> Attempt:
        """Return an independent attempt; what is derived is left to ``lay``."""
        twin = Attempt(self.key)
        twin.tasks = self.tasks
        twin.running = self.running
        twin.started = None if self.started is None else set(self.started)
        twin.spec_started = None if self.spec_started is None else set(self.spec_started)
        twin.spec_pending = None if self.spec_pending is None else set(self.spec_pending)
        twin.profiles = self.profiles
        twin.unschedulable = self.unschedulable
        return twin


class Tally:
    """Sums over the attempts of one profile, kept up to date instead of being recounted."""

    __slots__ = ("pending", "running", "speculative", "unschedulable")

    def __init__(self) -> None:
        self.pending = 0
        self.speculative = 0
        self.unschedulable = 0
        self.running = 0


class Hint(NamedTuple):
    """stageAttemptToExecutorPlacementHints: tasks with preferences, how many per host, and the profile."""

    tasks: int
    hosts: tuple[tuple[str, int], ...]
    profile: ProfileId


ANNOUNCED_MAX: Final = 16
"""Profiles under one id that are remembered; Spark announces each id once."""

# Journal codes. An entry names the attempt by key: undoing works on a copy.
_STARTED: Final = 0  # (code, key, index): running + 1, index joined started
_RESTARTED: Final = 1  # (code, key): running + 1
_ENDED: Final = 2  # (code, key): running - 1
_JOINED: Final = 3  # (code, key, field, index): index joined the set
_LEFT: Final = 4  # (code, key, field, index): index left the set
_SET: Final = 5  # (code, key, field, old value)
_BORN: Final = 6  # (code, key)
_DIED: Final = 7  # (code, key, attempt)
_HINTED: Final = 8  # (code, key, old hint or None)
_BOOK: Final = 9  # (code, field, old value): a field of the books themselves
_MOVED: Final = 10  # (code, key, started indices, ended)


Log: TypeAlias = Callable[[JournalEntry], None]


class LoadBooks:
    """The mutable inside of a Load. Only ``fold`` below and the codec touch it."""

    __slots__ = (
        "attempts",
        "hinted",
        "hints",
        "open",
        "profiles",
        "seen",
        "spec_waiting",
        "tallies",
        "waiting",
    )

    def __init__(self) -> None:
        self.attempts: dict[AttemptKey, Attempt] = {}
        self.hints: dict[AttemptKey, Hint] = {}
        self.hinted = False  # updateExecutorPlacementHints ran at least once
        self.seen: frozenset[ProfileId] = frozenset()  # profiles a stage was submitted with
        self.profiles: dict[ProfileId, tuple[ResourceProfile, ...]] = {}  # as announced, under one id
        # Derived from the attempts.
        self.tallies: dict[ProfileId, Tally] = {}
        self.waiting = 0  # registrations (attempt, profile) with pending > 0
        self.spec_waiting = 0  # registrations with speculative copies pending
        self.open = 0  # attempts with an entry in numTasks, pendingSpec or specStartedIndices

    def copy(self) -> LoadBooks:
        """Return independent books with the same content."""
        twin = LoadBooks()
        twin.attempts = {key: attempt.copy() for key, attempt in self.attempts.items()}
        twin.hints = dict(self.hints)
        twin.hinted = self.hinted
        twin.seen = self.seen
        twin.profiles = self.profiles
        twin.recount()
        return twin

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one fold's changes back, the last one first."""
        entry: Any
        attempts = self.attempts
        for entry in reversed(journal):
            match entry:
                case (code, key, index) if code == _STARTED:
                    attempts[key].running -= 1
                    attempts[key].member("started").discard(index)
                case (code, key) if code == _RESTARTED:
                    attempts[key].running -= 1
                case (code, key) if code == _ENDED:
                    attempts[key].running += 1
                case (code, key, indices, ended) if code == _MOVED:
                    attempts[key].running += ended - len(indices)
                    if indices:
                        attempts[key].member("started").difference_update(indices)
                case (code, key, field, index) if code == _JOINED:
                    attempts[key].member(field).discard(index)
                case (code, key, field, index) if code == _LEFT:
                    attempts[key].member(field).add(index)
                case (code, key, field, old) if code == _SET:
                    setattr(attempts[key], field, set(old) if isinstance(old, set) else old)
                case (code, key) if code == _BORN:
                    del attempts[key]
                case (code, key, attempt) if code == _DIED:
                    attempts[key] = attempt.copy()
                case (code, key, hint) if code == _HINTED:
                    if hint is None:
                        del self.hints[key]
                    else:
                        self.hints[key] = hint
                case (_, field, old):
                    setattr(self, field, old)

    def recount(self) -> None:
        """Derive the sums anew from the attempts."""
        self.tallies = {}
        self.waiting = self.spec_waiting = self.open = 0
        for attempt in self.attempts.values():
            self.lay(attempt)

    def lay(self, attempt: Attempt) -> None:
        """Add an attempt's share to the sums of its profiles."""
        attempt.pending = (attempt.tasks or 0) - len(attempt.started or ())
        attempt.tallies = tuple(self.tallies.setdefault(p, Tally()) for p in attempt.profiles)
        self._weigh(attempt, 1)

    def lift(self, attempt: Attempt) -> None:
        """Take an attempt's share out of the sums, before it is changed by anything but the hot events."""
        self._weigh(attempt, -1)

    def _weigh(self, attempt: Attempt, sign: int) -> None:
        speculative = len(attempt.spec_pending or ())
        self.open += sign * attempt.listed()
        for tally in attempt.tallies:
            tally.pending += sign * attempt.pending
            tally.running += sign * attempt.running
            tally.speculative += sign * speculative
            tally.unschedulable += sign * attempt.unschedulable
            self.waiting += sign * (attempt.pending > 0)
            self.spec_waiting += sign * (speculative > 0)

    def placement(self) -> Placement:
        """Sum the hints up per profile (updateExecutorPlacementHints)."""
        if not self.hinted:
            return Placement({DEFAULT_PROFILE: 0}, {})
        tasks: dict[ProfileId, int] = {}
        hosts: dict[ProfileId, dict[str, int]] = {}
        for hint in self.hints.values():
            tasks[hint.profile] = tasks.get(hint.profile, 0) + hint.tasks
            for host, count in hint.hosts:
                per_host = hosts.setdefault(hint.profile, {})
                per_host[host] = per_host.get(host, 0) + count
        return Placement(tasks, hosts)


class Load(Versioned[LoadBooks]):
    """The demand at a moment, what has just happened (``recent``) and what it signalled (``signals``)."""

    __slots__ = ("_base", "recent", "signals")

    def __init__(
        self,
        books: LoadBooks | None,
        recent: Sequence[Stimulus] = (),
        signals: tuple[Signal, ...] = (),
        base: Load | None = None,
    ) -> None:
        super().__init__(books)
        self._base = base
        self.recent = recent
        self.signals = signals

    @property
    def books(self) -> LoadBooks:
        """The books of this version, to be read."""
        return super().books if self._base is None else self._base.books

    @property
    def version(self) -> Load:
        """The version whose demand this is: itself, or the one that it adds signals to."""
        return self if self._base is None else self._base

    def saying(self, recent: Sequence[Stimulus], signals: tuple[Signal, ...]) -> Load:
        """The same demand with other news: what a timer, an answer or another world's events mean beside it."""
        return Load(None, recent, signals, self.version)

    def demand(self, profile: ProfileId) -> Demand:
        """The counts of one profile; zeroes for a profile without stages."""
        tally = self.books.tallies.get(profile)
        if tally is None:
            return Demand()
        return Demand(tally.pending, tally.speculative, tally.unschedulable, tally.running)

    def placement(self) -> Placement:
        """The locality hints that go with a request."""
        return self.books.placement()

    def resource_profiles(self, profile: ProfileId) -> tuple[ResourceProfile, ...]:
        """The profiles announced under an id by ResourceProfileAdded, in order; nearly always one."""
        return self.books.profiles.get(profile, ())

    def tasks_wait(self) -> bool:
        """Spark's hasPendingTasks: some registered attempt has regular or speculative tasks pending."""
        books = self.books
        return books.waiting > 0 or books.spec_waiting > 0


def empty() -> Load:
    """The load of an application that has not begun."""
    return Load(LoadBooks())


def fold(load: Load, events: Sequence[Stimulus], *, repair_pending: bool = False) -> Load:
    """Reflect a batch of stimuli, in order, at the times they carry. ``load`` still answers as before.

    ``repair_pending`` (ScalingConfig's): late news of completed attempts moves no pending task.
    """
    load = load.version
    books = load.books
    attempts = books.attempts
    journal: list[JournalEntry] = []
    log = journal.append
    signals: list[Signal] = []
    emptied = False  # the last signal was QueueEmptied: repeating it at once changes nothing
    success = TaskOutcome.SUCCESS
    event: Any
    for event in events:
        kind = type(event)
        if kind is TaskStart:
            at, stage, number, index, _, speculative = event
            attempt = attempts.get((stage, number))
            if attempt is None or speculative or attempt.started is None:
                _start_rare(books, event, log, repair_pending)
            else:
                attempt.running += 1
                started = attempt.started
                if index in started:
                    log((_RESTARTED, attempt.key))
                    for tally in attempt.tallies:
                        tally.running += 1
                else:
                    log((_STARTED, attempt.key, index))
                    started.add(index)
                    left = attempt.pending = attempt.pending - 1
                    for tally in attempt.tallies:
                        tally.running += 1
                        tally.pending -= 1
                        if not left:
                            books.waiting -= 1
            if not books.waiting and not books.spec_waiting and not emptied:
                signals.append(QueueEmptied(at))
                emptied = True
        elif kind is TaskEnd:
            _, stage, number, _, _, speculative, outcome = event
            attempt = attempts.get((stage, number))
            if outcome is success and not speculative:
                if attempt is None:
                    continue
                if attempt.spec_pending is None and attempt.tasks is not None:
                    if attempt.running:
                        log((_ENDED, attempt.key))
                        attempt.running -= 1
                        for tally in attempt.tallies:
                            tally.running -= 1
                    continue
            backlog = _end_rare(books, event, log, repair_pending)
            if backlog is not None:
                signals.append(backlog)
                emptied = False
        else:
            count = len(signals)
            _reflect(books, event, log, signals, repair_pending)
            if len(signals) != count:
                emptied = type(signals[-1]) is QueueEmptied
    successor = Load(books, events, tuple(signals))
    load.hand_over(successor, journal)
    return successor


def _lifted(books: LoadBooks, key: AttemptKey) -> Attempt | None:
    """The attempt with its share taken out of the sums, so that a rule may change it; ``_settle`` it after."""
    attempt = books.attempts.get(key)
    if attempt is not None:
        books.lift(attempt)
    return attempt


def _opened(books: LoadBooks, key: AttemptKey, log: Log) -> Attempt:
    attempt = _lifted(books, key)
    if attempt is None:
        log((_BORN, key))
        attempt = books.attempts[key] = Attempt(key)
    return attempt


def _settle(books: LoadBooks, attempt: Attempt) -> None:
    if attempt.key in books.attempts:
        books.lay(attempt)


def _assign(attempt: Attempt, field: str, value: object, log: Log) -> None:
    log((_SET, attempt.key, field, getattr(attempt, field)))
    setattr(attempt, field, value)


def _join(attempt: Attempt, field: str, index: int, log: Log) -> None:
    if getattr(attempt, field) is None:
        _assign(attempt, field, set(), log)
    indices = attempt.member(field)
    if index not in indices:
        log((_JOINED, attempt.key, field, index))
        indices.add(index)


def _leave(attempt: Attempt, field: str, index: int, log: Log) -> None:
    indices: set[int] | None = getattr(attempt, field)
    if indices is not None and index in indices:
        log((_LEFT, attempt.key, field, index))
        indices.discard(index)


def _forget_if_unused(books: LoadBooks, attempt: Attempt, log: Log) -> None:
    """removeStageFromResourceProfileIfUnused; the attempt's share is lifted.

    Spark unregisters from exactly one profile and warns otherwise: two registrations stay.
    """
    if attempt.unused():
        if len(attempt.profiles) == 1:
            _assign(attempt, "profiles", (), log)
        if not attempt.profiles and not attempt.unschedulable:
            log((_DIED, attempt.key, attempt))
            del books.attempts[attempt.key]


def _late(attempt: Attempt | None) -> bool:
    """Whether no stage is under way for an attempt: it was completed (or never announced)."""
    return attempt is None or attempt.tasks is None


def _start_rare(books: LoadBooks, event: TaskStart, log: Log, repair: bool) -> None:
    """onTaskStart for speculative copies and for attempts that have no started set yet."""
    attempt = _opened(books, (event.stage, event.attempt), log)
    _assign(attempt, "running", attempt.running + 1, log)
    if repair and _late(attempt):
        pass  # it runs, but it was not waited for any more
    elif event.speculative:
        _join(attempt, "spec_started", event.task_index, log)
        _leave(attempt, "spec_pending", event.task_index, log)
    else:
        _join(attempt, "started", event.task_index, log)
    books.lay(attempt)


def _end_rare(books: LoadBooks, event: TaskEnd, log: Log, repair: bool) -> Backlogged | None:
    """onTaskEnd in full: speculative copies, failures, and tasks of attempts that Spark let go."""
    attempt = _lifted(books, (event.stage, event.attempt))
    nobody_waits = repair and _late(attempt)
    if attempt is not None:
        if attempt.running:
            _assign(attempt, "running", attempt.running - 1, log)
            if not attempt.running:
                _forget_if_unused(books, attempt, log)
        if event.speculative:
            _leave(attempt, "spec_started", event.task_index, log)
        if event.outcome is TaskOutcome.SUCCESS:
            _leave(attempt, "spec_pending", event.task_index, log)
        _settle(books, attempt)
    if event.outcome is not TaskOutcome.FAILED or nobody_waits:
        return None
    # Asked before the task becomes pending again: only then does the timer start.
    signal = None if books.waiting or books.spec_waiting else Backlogged(event.at)
    if attempt is not None and not event.speculative and attempt.key in books.attempts:
        books.lift(attempt)
        _leave(attempt, "started", event.task_index, log)
        books.lay(attempt)
    return signal


def _reflect(books: LoadBooks, event: Stimulus, log: Log, signals: list[Signal], repair: bool) -> None:
    """Reflect every stimulus but the two hot ones; those that concern executors alone pass through."""
    match event:
        case StageSubmitted():
            signals.append(_submitted(books, event, log))
        case StageCompleted():
            _completed(books, event, log)
            if not books.open:
                signals.append(QueueEmptied(event.at))
        case SpeculativeTaskSubmitted() if repair and _late(books.attempts.get((event.stage, event.attempt))):
            pass
        case SpeculativeTaskSubmitted():
            attempt = _opened(books, (event.stage, event.attempt), log)
            _join(attempt, "spec_pending", event.task_index, log)
            books.lay(attempt)
            signals.append(Backlogged(event.at))
        case UnschedulableTaskSetAdded():
            attempt = _opened(books, (event.stage, event.attempt), log)
            _assign(attempt, "unschedulable", True, log)
            books.lay(attempt)
            signals.append(Backlogged(event.at))
        case UnschedulableTaskSetRemoved():
            completed = _lifted(books, (event.stage, event.attempt))
            if completed is not None:
                _assign(completed, "unschedulable", False, log)
                _forget_if_unused(books, completed, log)
                _settle(books, completed)
        case TasksMoved():
            _moved(books, event, log, signals, repair)
        case ResourceProfileAdded():
            announced = books.profiles.get(event.profile, ())
            profile = from_added(event)
            if event.profile != DEFAULT_PROFILE and profile not in announced and len(announced) < ANNOUNCED_MAX:
                log((_BOOK, "profiles", books.profiles))
                books.profiles = {**books.profiles, event.profile: (*announced, profile)}
        case Tick() | Answer() | Reset() | Stop():
            signals.append(event)
        case _:
            pass  # executors, jobs and blocks concern the idleness alone


def _moved(books: LoadBooks, event: TasksMoved, log: Log, signals: list[Signal], repair: bool) -> None:
    """Many starts and ends at once: for each attempt what as many events would have come to."""
    for given in event.moves:
        move = given._replace(last=min(given.last, given.first + MOVED_MAX), ended=max(0, min(given.ended, MOVED_MAX)))
        key = (move.stage, move.attempt)
        attempt = books.attempts.get(key)
        if attempt is None or attempt.tasks is None or attempt.spec_pending is not None:
            _one_by_one(books, event.at, move, log, repair)
            continue
        books.lift(attempt)
        fresh: Sequence[int] = range(move.first, move.last)
        if attempt.started is None and fresh:
            _assign(attempt, "started", set(), log)
        started = attempt.started or set()
        if not started.isdisjoint(fresh):
            books.lay(attempt)
            _one_by_one(books, event.at, move, log, repair)
            continue
        ended = min(move.ended, attempt.running + len(fresh))
        log((_MOVED, key, fresh, ended))
        if fresh:
            attempt.member("started").update(fresh)
        attempt.running += len(fresh) - ended
        books.lay(attempt)
    if not books.waiting and not books.spec_waiting and any(move.first < move.last for move in event.moves):
        signals.append(QueueEmptied(event.at))


def _one_by_one(books: LoadBooks, at: Millis, move: Move, log: Log, repair: bool) -> None:
    """The same for attempts that are no longer, or not only, what was submitted."""
    nobody = ExecutorId("")
    for index in range(move.first, move.last):
        _start_rare(books, TaskStart(at, move.stage, move.attempt, index, nobody), log, repair)
    for _ in range(move.ended):
        backlog = _end_rare(books, TaskEnd(at, move.stage, move.attempt, -1, nobody), log, repair)
        assert backlog is None  # only what fails is waited for again


def _completed(books: LoadBooks, event: StageCompleted, log: Log) -> None:
    """onStageCompleted: everything but the running tasks is let go."""
    key = (event.stage, event.attempt)
    _hinted(books, log)
    if key in books.hints:
        log((_HINTED, key, books.hints.pop(key)))
    attempt = _lifted(books, key)
    if attempt is not None:
        for field in ("tasks", "started", "spec_started", "spec_pending"):
            if getattr(attempt, field) is not None:
                _assign(attempt, field, None, log)
        _forget_if_unused(books, attempt, log)
        _settle(books, attempt)


def _hinted(books: LoadBooks, log: Log) -> None:
    if not books.hinted:
        log((_BOOK, "hinted", False))
        books.hinted = True


def _submitted(books: LoadBooks, event: StageSubmitted, log: Log) -> StageCame:
    """onStageSubmitted: the attempt's tasks, its profile, its hints."""
    key = (event.stage, event.attempt)
    attempt = _opened(books, key, log)
    _assign(attempt, "tasks", event.tasks, log)
    if event.profile not in attempt.profiles:
        _assign(attempt, "profiles", (*attempt.profiles, event.profile), log)
    books.lay(attempt)
    _hinted(books, log)
    log((_HINTED, key, books.hints.get(key)))
    books.hints[key] = _hint(event)
    if event.profile in books.seen:
        return StageCame(event.at, event.profile, None)
    log((_BOOK, "seen", books.seen))
    books.seen |= {event.profile}
    return StageCame(event.at, event.profile, books.placement())


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


def to_plain(load: Load) -> dict[str, Any]:
    """The load as dicts, lists and scalars, for a codec. Signals and recent stimuli are of the past: left out."""
    books = load.books
    return {
        "attempts": [
            [*a.key, a.tasks, a.running, _listed(a.started), _listed(a.spec_started), _listed(a.spec_pending),
             list(a.profiles), a.unschedulable]
            for a in books.attempts.values()
        ],
        "hints": [[*key, h.tasks, [list(pair) for pair in h.hosts], h.profile] for key, h in books.hints.items()],
        "hinted": books.hinted,
        "seen": sorted(books.seen),
        "profiles": [
            [p.id, [list(x) for x in p.executor], [list(x) for x in p.task]]
            for announced in books.profiles.values()
            for p in announced
        ],
    }  # fmt: skip


def from_plain(plain: dict[str, Any]) -> Load:
    """Read what ``to_plain`` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    books = LoadBooks()
    for row in plain["attempts"]:
        stage, number, tasks, running, started, spec_started, spec_pending, profiles, unschedulable = row
        attempt = books.attempts[stage, number] = Attempt((stage, number))
        attempt.tasks, attempt.running, attempt.unschedulable = tasks, running, unschedulable
        attempt.started, attempt.spec_started = _set(started), _set(spec_started)
        attempt.spec_pending = _set(spec_pending)
        attempt.profiles = tuple(ProfileId(p) for p in profiles)
    for stage, number, tasks, hosts, profile in plain["hints"]:
        books.hints[stage, number] = Hint(tasks, tuple((h, n) for h, n in hosts), ProfileId(profile))
    books.hinted = plain["hinted"]
    books.seen = frozenset(ProfileId(p) for p in plain["seen"])
    for profile, executor, task in plain["profiles"]:
        added = ResourceProfileAdded(
            0, ProfileId(profile), tuple((n, a) for n, a in executor), tuple((n, a) for n, a in task)
        )
        identity = ProfileId(profile)
        books.profiles[identity] = (*books.profiles.get(identity, ()), from_added(added))
    books.recount()
    return Load(books)


def _listed(indices: Iterable[int] | None) -> list[int] | None:
    return None if indices is None else sorted(indices)


def _set(indices: Iterable[int] | None) -> set[int] | None:
    return None if indices is None else set(indices)


__all__ = [
    "Backlogged", "Demand", "ListenerEvent", "Load", "Placement", "QueueEmptied", "Signal", "StageCame",
    "empty", "fold", "from_plain", "to_plain",
]  # fmt: skip
