"""What a load knows of stage attempts, and the sums that follow from it.

``LoadAttempt`` holds what ExecutorAllocationListener's maps say of one stage attempt. ``LoadTables`` holds all attempts,
their locality hints and the announced profiles, and notes how each change is taken back (``base.tables``). The sums per
profile are kept up to date instead of being recounted: a rule takes an attempt's share out (``remove_share``), changes the
attempt and puts the share back (``add_share``); the two hot events in ``load.fold`` do both in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, assert_never, get_args

from podtide.domain.base.tables import ABSENT, Field, Members, Table, Tables
from podtide.domain.base.units import DEFAULT_PROFILE, AttemptKey, ProfileId
from podtide.domain.base.versioned import UndoEntry
from podtide.domain.protocol.resource_profiles import ResourceProfile

INDEX_SETS: Final = ("started", "spec_started", "spec_pending")
"""The fields of an attempt that are sets of task indices."""


class Placement(NamedTuple):
    """Locality hints for the cluster manager: per profile, tasks with preferences, and tasks per host."""

    tasks: dict[ProfileId, int]
    hosts: dict[ProfileId, dict[str, int]]


class Hint(NamedTuple):
    """stageAttemptToExecutorPlacementHints: tasks with preferences, how many per host, and the profile."""

    tasks: int
    hosts: tuple[tuple[str, int], ...]
    profile: ProfileId


@dataclass(slots=True, eq=False)
class Tally:
    """Sums over the attempts of one profile."""

    pending: int = 0
    speculative: int = 0
    unschedulable: int = 0
    running: int = 0


@dataclass(slots=True, eq=False)
class LoadAttempt:
    """One stage attempt. ``None`` means that Spark's map has no entry for it."""

    key: AttemptKey
    tasks: int | None = None
    running: int = 0
    started: set[int] | None = None
    spec_started: set[int] | None = None
    spec_pending: set[int] | None = None
    profiles: tuple[ProfileId, ...] = ()
    unschedulable: bool = False
    # Derived: tasks - started, and the tallies of the profiles, side by side for the hot path.
    pending: int = 0
    tallies: tuple[Tally, ...] = ()

    def unused(self) -> bool:
        """Spark's condition for forgetting an attempt."""
        return not self.running and not self.listed() and self.started is None

    def listed(self) -> bool:
        """Whether one of the three maps that StageCompleted looks at has an entry."""
        return self.tasks is not None or self.spec_pending is not None or self.spec_started is not None

    def indices(self, field: str) -> set[int]:
        """The set of that name, which exists."""
        indices: set[int] = getattr(self, field)
        return indices

    def copy(self) -> LoadAttempt:
        """Return an independent attempt; what is derived is left to ``add_share``."""
        sets = (_copied(self.started), _copied(self.spec_started), _copied(self.spec_pending))
        return LoadAttempt(self.key, self.tasks, self.running, *sets, self.profiles, self.unschedulable)


def _copied(indices: Iterable[int] | None) -> set[int] | None:
    return None if indices is None else set(indices)


AttemptChange: TypeAlias = Literal["task started", "running", "field", "index", "indices"]
"""Changes of an attempt, in an undo log instead of a table's name: (change, key, old). Texts, as the garbage collector does
not follow a tuple of texts and numbers; these tuples are the most frequent ones of a replay."""

STARTED: Final = "task started"  # old: the index that joined ``started``; running went up by one
RUNNING: Final = "running"  # old: running
FIELD: Final = "field"  # old: the field's name and its value
INDEX: Final = "index"  # old: the set's name, an index, whether it was a member
INDICES: Final = "indices"  # old: indices that joined ``started``
_CHANGES: Final = frozenset(get_args(AttemptChange))


class _Attempts(Table[AttemptKey, LoadAttempt]):
    """The attempts. What is put back is a copy: an undo log may be read again, for another version."""

    __slots__ = ()

    def undo(self, key: AttemptKey, old: LoadAttempt) -> None:
        super().undo(key, old if old is ABSENT else old.copy())

    def twin(self) -> Self:
        return type(self)((key, attempt.copy()) for key, attempt in self.items())


class LoadTables(Tables):
    """The inside of a Load. ``hinted``: updateExecutorPlacementHints ran at least once."""

    hinted = Field(False)

    def __init__(self) -> None:
        self.attempts: Table[AttemptKey, LoadAttempt] = _Attempts()
        self.hints: Table[AttemptKey, Hint] = Table()
        self.seen: Members[ProfileId] = Members()  # profiles that a stage was submitted with
        self.profiles: Table[ProfileId, tuple[ResourceProfile, ...]] = Table()  # as announced, under one id
        super().__init__()

    def recount(self) -> None:
        """Derive the sums anew from the attempts."""
        self.tallies: dict[ProfileId, Tally] = {}
        self.waiting = 0  # registrations (attempt, profile) with pending > 0
        self.spec_waiting = 0  # registrations with speculative copies pending
        self.open = 0  # attempts with an entry in numTasks, pendingSpec or specStartedIndices
        for attempt in self.attempts.values():
            self.add_share(attempt)

    def undo(self, log: Sequence[UndoEntry]) -> None:
        """Take the changes of one step back, the last one first."""
        for entry in reversed(log):
            change, key, old = entry
            if change in _CHANGES:
                _undo_change(change, self.attempts[key], old)
            else:
                super().undo((entry,))

    def add_share(self, attempt: LoadAttempt) -> None:
        """Add an attempt's share to the sums of its profiles."""
        attempt.pending = (attempt.tasks or 0) - len(attempt.started or ())
        attempt.tallies = tuple(self.tallies.setdefault(p, Tally()) for p in attempt.profiles)
        self._weigh(attempt, 1)

    def remove_share(self, attempt: LoadAttempt) -> None:
        """Take an attempt's share out of the sums, before it is changed by anything but the hot events."""
        self._weigh(attempt, -1)

    def _weigh(self, attempt: LoadAttempt, sign: int) -> None:
        speculative = len(attempt.spec_pending or ())
        self.open += sign * attempt.listed()
        for tally in attempt.tallies:
            tally.pending += sign * attempt.pending
            tally.running += sign * attempt.running
            tally.speculative += sign * speculative
            tally.unschedulable += sign * attempt.unschedulable
            self.waiting += sign * (attempt.pending > 0)
            self.spec_waiting += sign * (speculative > 0)

    def assign(self, attempt: LoadAttempt, field: str, value: object) -> None:
        """Change a field of an attempt whose share is taken out."""
        self.undo_log.append((FIELD, attempt.key, (field, getattr(attempt, field))))
        setattr(attempt, field, value)

    def join(self, attempt: LoadAttempt, field: str, index: int) -> None:
        """Add a task index to a set of an attempt, which is begun if there is none."""
        if getattr(attempt, field) is None:
            self.assign(attempt, field, set())
        indices = attempt.indices(field)
        if index not in indices:
            self.undo_log.append((INDEX, attempt.key, (field, index, False)))
            indices.add(index)

    def leave(self, attempt: LoadAttempt, field: str, index: int) -> None:
        """Take a task index out of a set of an attempt, where it is a member."""
        indices: set[int] | None = getattr(attempt, field)
        if indices is not None and index in indices:
            self.undo_log.append((INDEX, attempt.key, (field, index, True)))
            indices.discard(index)

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


def _undo_change(change: AttemptChange, attempt: LoadAttempt, old: Any) -> None:
    match change:
        case "task started":
            attempt.running -= 1
            attempt.indices("started").discard(old)
        case "running":
            attempt.running = old
        case "field":
            field, value = old
            setattr(attempt, field, set(value) if field in INDEX_SETS and value is not None else value)
        case "index":
            field, index, was_member = old
            (set.add if was_member else set.discard)(attempt.indices(field), index)
        case "indices":
            attempt.indices("started").difference_update(old)
        case _:
            assert_never(change)
