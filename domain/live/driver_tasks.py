"""Tasks told apart that the driver's REST API only counts: who ends where, who starts where, between two looks.

A look says how many tasks of each stage run and how many run on each executor, not which where. So the tasks that
were made up at the look before are kept as far as both counts allow; what is too much on an executor or of a stage
ends, what is missing starts. Where the two lists contradict one another (they were read one after the other, and
Spark writes each entry at its own time), tasks too many of stages run on NOBODY, and executors that are busy with
nothing run a task of the stage UNSEEN: the load then shows the stages' figures and the idleness the executors', each
exactly.

Within a stage attempt, an index is waiting, running or done. So many end with success as indices were done since;
others of a stage that goes on fail, which is how a task comes to wait again (a killed one would never, in Spark's
books, so that is how a task ends that goes on elsewhere at once). Tasks that began and ended unseen are started and
ended at once, on executors that finished something unseen. Running tasks beyond the indices that are left are
speculative copies. A stage first seen half-way is submitted with what is left of it; one whose figures go backwards
is ended and begun anew. A completed attempt whose tasks still run keeps them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from podtide.domain.base.units import UNKNOWN_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.live.driver_snapshot import StageSeen, StageStatus, ViewConfig
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted, Stimulus, TaskEnd, TaskOutcome, TaskStart

NOBODY: Final = ExecutorId("")
"""Runs the tasks that no executor was seen to run."""

UNSEEN: Final[AttemptKey] = (-1, 0)
"""The stage of tasks that executors were seen to run and no stage."""

_OVER: Final = frozenset({StageStatus.COMPLETE, StageStatus.FAILED})


class Task(NamedTuple):
    """A running task and its index. ``copy``: a speculative one, nobody knows of which; then any number that is its
    own."""

    key: AttemptKey
    number: int
    copy: bool = False


@dataclass(slots=True)
class SeenAttempt:
    """One attempt of a stage as it was last made to look. A look changes copies.

    ``tasks``: as the driver says; ``base``: done before it was first seen; ``done``: since. ``proper`` and
    ``copies``: running. ``next_index``, ``free``: indices never started, and those that wait again. ``next_copy``:
    what tells copies apart. ``open``: not completed yet.
    """

    key: AttemptKey
    profile: ProfileId
    tasks: int = 0
    base: int = 0
    done: int = 0
    proper: int = 0
    copies: int = 0
    next_index: int = 0
    next_copy: int = 0
    free: list[int] = field(default_factory=list)
    failed: int = 0
    open: bool = True

    @property
    def running(self) -> int:
        """Running attempts of tasks."""
        return self.proper + self.copies

    @property
    def size(self) -> int:
        """Tasks that it was submitted with."""
        return self.tasks - self.base

    def copy(self) -> SeenAttempt:
        """An independent one."""
        return replace(self, free=list(self.free))

    def take_index(self) -> int:
        """An index that waits."""
        if self.free:
            return self.free.pop()
        self.next_index += 1
        return self.next_index - 1


Attempts = Mapping[AttemptKey, SeenAttempt]
Running = Mapping[ExecutorId, Mapping[Task, None]]
"""Who runs what, in the order of their starts; nobody without tasks is in it."""

_NOTHING: Final[Mapping[Task, None]] = {}


def _done(stage: StageSeen) -> int:
    return min(max(stage.complete, 0), max(stage.tasks, 0))


class TaskLook:
    """The tasks within one look: ``plan``, then what ends (``ends``), what begins (``starts``), what is over
    (``closes``).

    ``ended_on``: executors on which something ended.
    """

    def __init__(self, attempts: Attempts, running: Running, config: ViewConfig, now: Millis) -> None:
        self.attempts: dict[AttemptKey, SeenAttempt] = dict(attempts)
        self.running: dict[ExecutorId, Mapping[Task, None]] = dict(running)
        self.ended_on: set[ExecutorId] = set()
        self._config, self._now = config, now
        self._own: set[AttemptKey] = set()
        self._closed: set[AttemptKey] = set()  # completed before this look
        self._seen: dict[AttemptKey, StageSeen] = {}
        self._wanted: dict[AttemptKey, int] = {}
        self._submitted: list[Stimulus] = []
        self._ends: list[Stimulus] = []
        self._again: dict[AttemptKey, None] = {}
        self._leaving: dict[AttemptKey, list[tuple[ExecutorId, Task]]] = {}
        self._coming: dict[AttemptKey, list[ExecutorId]] = {}
        self._unseen_ends: dict[AttemptKey, int] = {}
        self._by_attempt: dict[AttemptKey, list[tuple[ExecutorId, Task]]] | None = None
        self._loads: dict[ExecutorId, dict[Task, None]] = {}  # the values of ``running`` that are this look's own

    # ------------------------------------------------------------------------------------------------------ planning

    def plan(
        self, stages: Iterable[StageSeen], active: Mapping[ExecutorId, int], profiles: Mapping[ExecutorId, ProfileId]
    ) -> None:
        """Decide which tasks end and where others start. ``active``: running tasks by live executor."""
        self._expect(stages)
        slots = self._slots(active)
        need = {key: self._wanted[key] - attempt.running for key, attempt in self.attempts.items()}
        self._lift_from_executors(slots, need)
        self._lift_from_stages(need)
        self._place(slots, need, profiles)

    def _expect(self, stages: Iterable[StageSeen]) -> None:
        room = self._config.tasks_max
        for stage in {stage.key: stage for stage in stages}.values():
            key, over = stage.key, stage.status in _OVER
            if (not over and stage.status is not StageStatus.ACTIVE) or key == UNSEEN:
                continue
            known = self.attempts.get(key)
            if known is not None and not self._goes_on(known, stage):
                self._abandon(known)
                known = None
            if known is None:
                if over and stage.active <= 0:
                    continue
                self._begin(stage, over)
            elif not known.open:
                self._closed.add(key)
            self._wanted[key] = min(max(stage.active, 0), room)
            room -= self._wanted[key]
            self._seen[key] = stage
        for key in self.attempts:
            self._wanted.setdefault(key, 0)

    def _goes_on(self, known: SeenAttempt, stage: StageSeen) -> bool:
        if not known.open:
            return stage.status in _OVER and stage.profile == known.profile
        more = _done(stage) - known.base - known.done
        same = max(stage.tasks, 0) == known.tasks and stage.profile == known.profile
        return same and 0 <= more <= self._config.tasks_max

    def _begin(self, stage: StageSeen, over: bool) -> None:
        tasks, done = max(stage.tasks, 0), _done(stage)
        book = SeenAttempt(stage.key, stage.profile, tasks, done, open=not over)
        book.failed = stage.failed
        self.attempts[stage.key] = book
        self._own.add(stage.key)
        self._submitted.append(StageSubmitted(self._now, *stage.key, tasks - done, stage.profile))
        if over:
            self._again[stage.key] = None

    def _abandon(self, known: SeenAttempt) -> None:
        """An attempt whose figures went backwards, or jumped: it is over, whatever comes now is another story."""
        for executor, task in self._tasks_of(known.key):
            self._drop(executor, task)
            self._end(executor, task, TaskOutcome.KILLED)
        if known.open:
            self._ends.append(StageCompleted(self._now, *known.key))
        del self.attempts[known.key]

    def _slots(self, active: Mapping[ExecutorId, int]) -> dict[ExecutorId, int]:
        """Tasks that each executor runs, with NOBODY and UNSEEN so that both sides have the same sum."""
        room = self._config.tasks_max
        slots: dict[ExecutorId, int] = {}
        for executor, count in active.items():
            if count > 0 and room:
                slots[executor] = min(count, room)
                room -= slots[executor]
        excess = sum(self._wanted.values()) - sum(slots.values())
        if excess > 0:
            slots[NOBODY] = excess
        if excess < 0 and UNSEEN not in self.attempts:
            self.attempts[UNSEEN] = SeenAttempt(UNSEEN, UNKNOWN_PROFILE)
            self._own.add(UNSEEN)
        if UNSEEN in self.attempts:
            self._wanted[UNSEEN] = max(0, -excess)
        return slots

    def _lift_from_executors(self, slots: Mapping[ExecutorId, int], need: dict[AttemptKey, int]) -> None:
        for executor, tasks in list(self.running.items()):
            surplus = len(tasks) - slots.get(executor, 0)
            if surplus <= 0:
                continue
            chosen = list(tasks)
            if surplus < len(tasks):
                chosen = []
                excess = Counter({task.key: -need[task.key] for task in tasks if need[task.key] < 0})
                rest: list[Task] = []
                for task in tasks:
                    fits = excess[task.key] > 0
                    excess[task.key] -= fits
                    (chosen if fits else rest).append(task)
                rest.sort(key=lambda task: task.copy)  # copies, the last ones here, are the first to go
                chosen = (chosen + rest[::-1])[:surplus]
            for task in chosen:
                self._leave(executor, task, need)

    def _lift_from_stages(self, need: dict[AttemptKey, int]) -> None:
        for key in [key for key, missing in need.items() if missing < 0]:
            for executor, task in self._tasks_of(key)[: -need[key]]:
                self._leave(executor, task, need)

    def _place(
        self, slots: Mapping[ExecutorId, int], need: dict[AttemptKey, int], profiles: Mapping[ExecutorId, ProfileId]
    ) -> None:
        """Pair stages that lack tasks with executors that do, by profile as far as that goes; the sums are equal."""
        vacant: dict[ProfileId, list[ExecutorId]] = {}
        for executor, count in slots.items():
            missing = count - len(self.running.get(executor, ()))
            if missing > 0:
                vacant.setdefault(profiles.get(executor, UNKNOWN_PROFILE), []).extend([executor] * missing)
        left: list[AttemptKey] = []
        for key, missing in need.items():
            fitting = vacant.get(self.attempts[key].profile, [])
            for _ in range(missing):
                if fitting and key != UNSEEN:
                    self._coming.setdefault(key, []).append(fitting.pop())
                else:
                    left.append(key)
        anywhere = [executor for executors in vacant.values() for executor in executors]
        for key, executor in zip(left, anywhere, strict=True):
            self._coming.setdefault(key, []).append(executor)

    def _leave(self, executor: ExecutorId, task: Task, need: dict[AttemptKey, int]) -> None:
        need[task.key] += 1
        self._drop(executor, task)
        self._leaving.setdefault(task.key, []).append((executor, task))

    # --------------------------------------------------------------------------------------------------------- events

    def ends(self) -> list[Stimulus]:
        """Tasks that ended and stages that completed, in the order of Spark: a stage after its tasks."""
        for key in list(self.attempts):
            attempt = self.attempts[key]
            stage = self._seen.get(key)
            leaving = self._leaving.get(key, [])
            if key == UNSEEN:
                for executor, task in leaving:
                    self._finish(executor, task, TaskOutcome.SUCCESS)
                    self._book(key).free.append(task.number)
            elif not attempt.open:
                if key in self._closed:  # before any of its others ends, or the load would have forgotten it
                    for executor in self._coming.pop(key, ()):
                        self._start(self._book(key), executor, self._ends, copy=True)
                for executor, task in leaving:
                    self._finish(executor, task, TaskOutcome.KILLED)
            elif stage is None or stage.status in _OVER:
                self._complete(key, stage, leaving)
            else:
                self._go_on(key, stage, leaving)
            if not self.attempts[key].open and not self._wanted[key]:
                del self.attempts[key]
        return self._ends

    def _complete(self, key: AttemptKey, stage: StageSeen | None, leaving: Sequence[tuple[ExecutorId, Task]]) -> None:
        """The attempt is over. One that is no longer listed succeeded, as far as anybody knows."""
        book = self._book(key)
        succeeded = len(leaving) if stage is None else _done(stage) - book.base - book.done
        failed = 0 if stage is None else stage.failed - book.failed
        for executor, task in sorted(leaving, key=lambda one: one[1].copy):
            if succeeded > 0:
                outcome, succeeded = TaskOutcome.SUCCESS, succeeded - 1
            elif failed > 0:
                outcome, failed = TaskOutcome.FAILED, failed - 1
            else:
                outcome = TaskOutcome.KILLED
            self._finish(executor, task, outcome)
        book.open = False
        if key in self._coming:
            self._again[key] = None  # it is only now that these tasks are seen: they come before its end
        else:
            self._ends.append(StageCompleted(self._now, *key))

    def _go_on(self, key: AttemptKey, stage: StageSeen, leaving: Sequence[tuple[ExecutorId, Task]]) -> None:
        book = self.attempts[key]
        done = _done(stage) - book.base
        if not leaving and done == book.done and stage.failed == book.failed and key not in self._coming:
            return
        book = self._book(key)
        more, failed = done - book.done, stage.failed - book.failed
        book.failed = stage.failed
        cap = book.size - done
        unfinished: list[tuple[ExecutorId, Task]] = []
        for executor, task in leaving:
            if task.copy:
                self._finish(executor, task, TaskOutcome.KILLED)
            elif more:
                more -= 1
                book.done += 1
                self._finish(executor, task, TaskOutcome.SUCCESS)
            else:
                unfinished.append((executor, task))
        # The stage's figures are older than the executors': a task seems to have moved, its index to run on elsewhere.
        moved = min(self._wanted[key], cap) - (book.proper - len(unfinished))
        moved = max(0, min(moved, len(unfinished) - max(0, failed)))
        for place, (executor, task) in enumerate(unfinished):
            book.free.append(task.number)  # the last ones are the first to be taken again
            stays = place >= len(unfinished) - moved
            self._finish(executor, task, TaskOutcome.KILLED if stays else TaskOutcome.FAILED)
        # What runs on may have changed its nature: more indices are done than the tasks that were seen to end ...
        for executor, task in self._some(key, book.proper - cap, copies=False):
            more -= 1
            book.done += 1
            self._finish(executor, task, TaskOutcome.SUCCESS)
            self._coming.setdefault(key, []).append(executor)
        # ... or the first of two attempts at a task is gone, and its copy is all that is left of it.
        spare = book.copies - max(0, self._wanted[key] - cap)
        for executor, task in self._some(key, spare, copies=True):
            self._finish(executor, task, TaskOutcome.KILLED)
            self._coming.setdefault(key, []).append(executor)
        if more:
            self._unseen_ends[key] = more

    def _some(self, key: AttemptKey, count: int, *, copies: bool) -> list[tuple[ExecutorId, Task]]:
        """Take so many running tasks of an attempt off their executors."""
        if count <= 0:
            return []
        found = [(executor, task) for executor, task in self._tasks_of(key) if task.copy == copies][:count]
        for executor, task in found:
            self._drop(executor, task)
        return found

    def starts(self, finished: Mapping[ExecutorId, int], profiles: Mapping[ExecutorId, ProfileId]) -> list[Stimulus]:
        """Stages that were submitted, tasks that came and went unseen, tasks that run now.

        ``finished``: tasks that live executors finished since the look before.
        """
        out = list(self._submitted)
        pool = _Pool(finished, profiles, self.ended_on)
        for key, count in self._unseen_ends.items():
            book = self._book(key)
            for _ in range(count):
                executor = pool.take(book.profile)
                self._pass_by(executor, Task(key, book.take_index()), out)
                book.done += 1
        for key, executors in self._coming.items():
            book = self._book(key)
            cap = book.size - book.done
            for executor in executors:
                self._start(book, executor, out, copy=key != UNSEEN and (book.proper >= cap or not book.open))
        for executor in pool.all():
            if not self.running.get(executor) and executor not in self.ended_on:
                if UNSEEN not in self.attempts:
                    self.attempts[UNSEEN] = SeenAttempt(UNSEEN, UNKNOWN_PROFILE)
                book = self._book(UNSEEN)
                index = book.take_index()
                self._pass_by(executor, Task(UNSEEN, index), out)
                book.free.append(index)
        return out

    def closes(self) -> list[Stimulus]:
        """Attempts that are over although something of them was started after that."""
        unseen = self.attempts.get(UNSEEN)
        if unseen is not None and not unseen.running:
            del self.attempts[UNSEEN]
            self._again[UNSEEN] = None
        return [StageCompleted(self._now, *key) for key in self._again]

    def _start(self, book: SeenAttempt, executor: ExecutorId, out: list[Stimulus], *, copy: bool) -> None:
        if copy:
            task = Task(book.key, book.next_copy, copy=True)
            book.next_copy += 1
            book.copies += 1
            if not book.open:
                self._again[book.key] = None  # or the load would remember its start for ever
        else:
            task = Task(book.key, book.take_index())
            book.proper += 1
        self._load(executor)[task] = None
        out.append(TaskStart(self._now, *task.key, task.number, executor, task.copy))

    def _pass_by(self, executor: ExecutorId, task: Task, out: list[Stimulus]) -> None:
        self.ended_on.add(executor)
        out.append(TaskStart(self._now, *task.key, task.number, executor))
        out.append(TaskEnd(self._now, *task.key, task.number, executor))

    def _finish(self, executor: ExecutorId, task: Task, outcome: TaskOutcome) -> None:
        book = self._book(task.key)
        if task.copy:
            book.copies -= 1
        else:
            book.proper -= 1
        self._end(executor, task, outcome)

    def _end(self, executor: ExecutorId, task: Task, outcome: TaskOutcome) -> None:
        self.ended_on.add(executor)
        self._ends.append(TaskEnd(self._now, *task.key, task.number, executor, task.copy, outcome))

    # ---------------------------------------------------------------------------------------------------------- books

    def _book(self, key: AttemptKey) -> SeenAttempt:
        """The attempt, to be changed."""
        if key not in self._own:
            self._own.add(key)
            self.attempts[key] = self.attempts[key].copy()
        return self.attempts[key]

    def _tasks_of(self, key: AttemptKey) -> list[tuple[ExecutorId, Task]]:
        """The running tasks of an attempt, but for those that were started in this look."""
        if self._by_attempt is None:
            self._by_attempt = {}
            for executor, tasks in self.running.items():
                for task in tasks:
                    self._by_attempt.setdefault(task.key, []).append((executor, task))
        found = self._by_attempt.get(key, [])
        return [(executor, task) for executor, task in found if task in self.running.get(executor, _NOTHING)]

    def _load(self, executor: ExecutorId) -> dict[Task, None]:
        """What an executor runs, to be changed."""
        load = self._loads.get(executor)
        if load is None:
            load = self._loads[executor] = dict(self.running.get(executor, _NOTHING))
        self.running[executor] = load
        return load

    def _drop(self, executor: ExecutorId, task: Task) -> None:
        load = self._load(executor)
        del load[task]
        if not load:
            del self.running[executor]


class _Pool:
    """Executors that finished tasks which nobody saw: each in turn, those first on which nothing was seen to end."""

    def __init__(
        self, finished: Mapping[ExecutorId, int], profiles: Mapping[ExecutorId, ProfileId], ended_on: set[ExecutorId]
    ) -> None:
        self._finished = {executor: count for executor, count in finished.items() if count > 0}
        self._queues: dict[ProfileId, deque[ExecutorId]] = {}
        self._left = dict(self._finished)
        for executor in sorted(self._finished, key=lambda one: one in ended_on):
            self._queues.setdefault(profiles.get(executor, UNKNOWN_PROFILE), deque()).append(executor)

    def take(self, profile: ProfileId) -> ExecutorId:
        """One of the profile; NOBODY if none finished anything. The last one stays for all the rest."""
        queue = self._queues.get(profile)
        if queue is None:
            return NOBODY
        executor = queue.popleft()
        self._left[executor] -= 1
        if self._left[executor] > 0 or not queue:
            queue.append(executor)
        return executor

    def all(self) -> Iterable[ExecutorId]:
        """Everyone who finished something."""
        return self._finished
