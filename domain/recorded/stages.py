"""What a log says of one stage, put together: attempts merged, each task once, copies and failures told apart.

*Tasks.* The tasks of the first attempt that the log has are the stage's; later attempts run some of them again under other
indices. Partition ids (since Spark 3.3) say which; without them the n-th task of a later attempt is taken for the n-th one
that had not succeeded when the attempt was submitted, and the tasks beyond those for work done again. The first success of a
task gives its length; whatever succeeds after that was computed again for a loss.

*Copies.* A speculative copy is known by its flag. If it wins, the original is killed: the task's length is then from the
original's launch to the copy's finish, which is what the stage waited for.

*Size.* Eight bytes a task. A stage may claim two billion tasks, and an event may name task two billion: the array grows
with the tasks that were seen, out of a ``Room`` that all stages share and that grows with the log; places beyond it wait in
a dict and come to the array's end.
"""

from __future__ import annotations

from array import array
from dataclasses import InitVar, dataclass, field
from typing import Final, NamedTuple

from podtide.domain.base.samples import Pairs
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.recorded.application import NO_TASK, Copy, Failure, RecordedStage
from podtide.domain.recorded.shuffles import ListedStage, RddReader

ROOM_TASKS: Final = 1_000_000
"""Tasks that may be claimed in all without having been seen, and ..."""
ROOM_PER_TASK: Final = 64
"""... so many more for each one that was."""

OVERLAP_MS: Final[Millis] = 20
"""A driver notes a launch some time before the end that made room for it; what overlaps by more began in another slot."""

RARE_MAX: Final = 100_000
"""Failures, and copies, that are kept of one stage; more are counted."""


class LoggedStage(NamedTuple):
    """Stage Info, as an event carries it. ``rdd``: the stage's own; ``stores``: those with a storage level;
    ``readers``: its RDDs that depend on others, in the listing of a job;
    ``exchanged``: one of them reads an exchange of SQL; ``scanned``: one scans files for it; ``indeterminate``: its own may
    come out otherwise when it is computed again, and nothing but that tells (Stage.isStaticallyIndeterminate)."""

    stage: int
    attempt: int
    tasks: int
    name: str = ""
    profile: int = 0
    parents: tuple[int, ...] = ()
    rdd: int | None = None
    stores: tuple[int, ...] = ()
    barrier: bool = False
    shuffle: int | None = None
    readers: tuple[RddReader, ...] = ()
    exchanged: bool = False
    scanned: bool = False
    indeterminate: bool = False

    @property
    def listed(self) -> ListedStage:
        """What matters of it in the listing of a job."""
        return ListedStage(self.stage, self.parents, self.rdd, self.readers, self.shuffle)


@dataclass(slots=True, eq=False)
class Room:
    """How many places all arrays together may have."""

    left: int = ROOM_TASKS

    def take(self, places: int) -> bool:
        """Take so many places, if they are there."""
        if places > self.left:
            return False
        self.left -= places
        return True


@dataclass(slots=True, eq=False)
class StageAttempt:
    """One attempt. ``last_end``: of its tasks, -1 before the first; ``slot_free``: when it was submitted."""

    number: int
    submitted: Millis
    completed: Millis | None = None
    failed: bool = False
    first_launch: Millis = -1
    last_end: Millis = -1
    slot_free: bool = False
    missing: list[int] | None = None


class FreshTask(NamedTuple):
    """A task that began on a fresh executor (the place of its life in the order of coming). ``run``: -1 if not logged."""

    life: int
    place: int
    duration: Millis
    run: Millis


@dataclass(slots=True, eq=False)
class StageWork:
    """One stage while the log is read. ``maps``: whether its tasks write a shuffle; None before the first one ended.

    ``recached``: tasks that computed a cached partition again, which had gone with its executor, by the stage that had
    cached it first; ``repeats``: attempts of other stages that computed its output again. ``begun``: by executor (its life),
    when the first of its tasks ended there; ``opened``: tasks that were the first in a slot of an executor that was not
    fresh, ``openings``: (overhead, run time) of them, ``later``: (duration, run time) of those after them.
    """

    seen: LoggedStage
    at: InitVar[Millis]
    job: int | None
    room: Room
    base: int = field(init=False)
    last: StageAttempt = field(init=False)
    attempts: dict[int, StageAttempt] = field(init=False)
    body: array[int] = field(default_factory=lambda: array("q"))
    far: dict[int, Millis] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed_tasks: int = 0
    copies: list[Copy] = field(default_factory=list)
    open_copies: dict[int, Millis] = field(default_factory=dict)
    won: dict[int, Millis] = field(default_factory=dict)
    fresh: list[FreshTask] = field(default_factory=list)
    typical: Pairs = field(default_factory=Pairs)
    begun: dict[int, Millis] = field(default_factory=dict)
    opened: array[int] = field(default_factory=lambda: array("q"))
    openings: Pairs = field(default_factory=Pairs)
    later: Pairs = field(default_factory=Pairs)
    opening_ms: Millis = 0
    opening_slots: int = 0
    maps: bool | None = None
    recached: dict[int, array[int]] = field(default_factory=dict)
    succeeded: int = 0
    recomputed: int = 0
    repeats: int = 0
    run_ms: int = 0
    gc_ms: int = 0
    read_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0

    def __post_init__(self, at: Millis) -> None:
        self.base = self.seen.attempt
        self.last = StageAttempt(self.base, at)
        self.attempts = {self.base: self.last}

    def submit(self, seen: LoggedStage, at: Millis) -> StageAttempt:
        """An attempt was submitted; or one that is known already, if events are out of order."""
        attempt = self.attempts.get(seen.attempt)
        if attempt is None:
            attempt = self.attempts[seen.attempt] = StageAttempt(seen.attempt, at)
        elif attempt.number == self.base:
            self.seen = seen
            attempt.submitted = at
        self.last = attempt
        return attempt

    def attempt(self, number: int, at: Millis) -> StageAttempt:
        """The attempt of that number, known or not."""
        attempt = self.attempts.get(number)
        if attempt is None:
            attempt = self.attempts[number] = StageAttempt(number, at)
        self.last = attempt
        return attempt

    def _missing(self) -> list[int]:
        """Tasks without a success, in order; not too many of those that were never seen."""
        known = len(self.body)
        missing = [place for place, length in enumerate(self.body) if length == NO_TASK]
        missing.extend(range(known, min(self.seen.tasks, known + RARE_MAX)))
        return missing

    def place(self, attempt: StageAttempt, index: int, partition: int) -> int:
        """Where in the stage a task of an attempt belongs; -1 if that is none of its tasks."""
        if index < 0:
            return -1
        if attempt.number == self.base:
            if partition >= 0 and partition != index and len(self.places) < self.room.left:
                self.places[partition] = index
            return index
        if partition >= 0:
            return self.places.get(partition, partition)
        if attempt.missing is None:
            attempt.missing = self._missing()
        return attempt.missing[index] if index < len(attempt.missing) else -1

    def success(self, place: int, length: Millis) -> bool:
        """A task succeeded after ``length``; False if it had before, or is none of the stage's."""
        body = self.body
        if place < 0 or place >= self.seen.tasks > 0:
            self.recomputed += 1
            return False
        if place >= len(body) and not self._grow(place):
            if place in self.far:
                self.recomputed += 1
                return False
            self.far[place] = length
        elif body[place] == NO_TASK:
            body[place] = length
        else:
            self.recomputed += 1
            return False
        self.succeeded += 1
        return True

    def _grow(self, place: int) -> bool:
        body = self.body
        more = place + 1 - len(body)
        if not self.room.take(more):
            return False
        body.extend(array("q", [NO_TASK]) * more)
        return True

    def lengthen(self, place: int, length: Millis) -> None:
        """Set the length of a task that has succeeded."""
        if 0 <= place < len(self.body):
            self.body[place] = length
        elif place in self.far:
            self.far[place] = length

    def length(self, place: int) -> Millis:
        """How long a task took; NO_TASK where it has not succeeded."""
        return self.body[place] if 0 <= place < len(self.body) else self.far.get(place, NO_TASK)

    def succeeded_on(self, life: int, place: int, launch: Millis, finish: Millis, run: Millis, *, fresh: bool) -> None:
        """A task succeeded on an executor: perhaps it was the first in its slot there (``recorded.opening_tasks``)."""
        first = self.begun.get(life)
        if first is None:
            self.begun[life] = finish
        elif launch + OVERLAP_MS > first:
            if not fresh:
                self.later.add(finish - launch, run)
            return
        if not fresh and run >= 0:
            self.opened.append(place)
            self.openings.add(finish - launch - run, run)

    def fail(self, place: int, after: Millis) -> None:
        """A try of a task failed by itself."""
        self.failed_tasks += 1
        if place >= 0 and len(self.failures) < RARE_MAX:
            self.failures.append(Failure(place, after))

    def copy_began(self, index: int, at: Millis) -> None:
        """A speculative copy was launched."""
        if len(self.open_copies) < RARE_MAX:
            self.open_copies.setdefault(index, at)

    def copied_ended(self, index: int, launch: Millis) -> None:
        """The original of a copy has ended, however; a win of the copy is then the task's length."""
        began = self.open_copies.pop(index)
        if len(self.copies) < RARE_MAX:
            self.copies.append(Copy(index, max(0, began - launch)))
        won = self.won.pop(index, None)
        if won is not None:
            self.lengthen(index, max(0, won - launch))

    def tasks(self) -> array[int]:
        """The lengths of all tasks, those without a success included as far as there is room."""
        body = self.body
        if self.far:
            for place in sorted(self.far):
                if place >= len(body) and not self._grow(place):
                    body.append(self.far[place])  # its number is lost, its work is not
                else:
                    body[place] = self.far[place]
            self.far = {}
        more = self.seen.tasks - len(body)
        if more > 0 and self.room.take(more):
            body.extend(array("q", [NO_TASK]) * more)
        return body

    @property
    def oversized(self) -> bool:
        """Whether the stage claims more tasks than there was room for."""
        return len(self.body) < self.seen.tasks

    @property
    def holes(self) -> int:
        """Tasks whose success the log lacks although the stage completed well, once ``tasks`` has been asked for."""
        return self.body.count(NO_TASK) if self.completions() else 0

    def done(self) -> StageAttempt:
        """The attempt that finished the stage: the first that completed well, or the last."""
        attempts = self.attempts.values()
        done = [one for one in attempts if one.completed is not None and not one.failed]
        return min(done, key=lambda one: one.completed or 0) if done else max(attempts, key=lambda one: one.number)

    def completions(self) -> list[Millis]:
        """When its attempts were completed, as far as they were, failed ones left out."""
        return [one.completed for one in self.attempts.values() if one.completed is not None and not one.failed]

    def stage(self, job: int, shuffle: int | None, submit_lag: Millis, launch_lag: Millis) -> RecordedStage:
        """The stage as it is kept."""
        seen, first, done = self.seen, self.attempts[self.base], self.done()
        ends = [one.completed for one in self.attempts.values() if one.completed is not None]
        last_end = max((one.last_end for one in self.attempts.values()), default=-1)
        completed = max(ends) if ends else max(last_end, first.submitted)
        finish_lag = 0
        # Logs that were edited have ends long before the stage was submitted: they say nothing of its completion.
        if done.completed is not None and max(0, done.submitted) <= done.last_end <= done.completed:
            finish_lag = done.completed - done.last_end
        return RecordedStage(
            seen.stage, job, seen.name, ProfileId(seen.profile), first.submitted, max(completed, first.submitted),
            self.tasks(), seen.parents, shuffle, seen.stores, seen.barrier, submit_lag, launch_lag, finish_lag,
            tuple(sorted(self.failures)), tuple(sorted(self.copies)), len(self.attempts) + self.repeats, self.recomputed,
            self.run_ms, self.gc_ms, self.read_bytes, self.shuffle_read_bytes, self.shuffle_write_bytes,
            seen.exchanged, seen.scanned, seen.indeterminate, self.opening_ms, self.opening_slots,
        )  # fmt: skip
