"""Tasks whose end a log lacks: Spark's listener queues drop events when they are full.

A task that started and never ended keeps its executor busy for ever. Its end is missing for sure

- when its stage completed well without it: every partition was there then. Stages with speculative copies or several
  attempts are left out: a copy that lost, or a task of an earlier attempt, runs on for a while;
- when the last running job that lists its stage has ended well: what is left then are losers, and these are killed. Tasks of
  a job that failed or was cancelled may run to their end.

Such a task is taken to have ended at that moment. If its end comes all the same, later, it is passed over and not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.stimuli import TaskEnd, TaskOutcome

Place: TypeAlias = int | tuple[int, int, bool]
"""A task of a stage: its index, or (attempt, index, speculative) of a later attempt or a copy."""


def place(attempt: int, index: int, speculative: bool) -> Place:
    """The task among those of its stage."""
    return (attempt, index, speculative) if attempt or speculative else index


@dataclass(slots=True, eq=False)
class MissingEnds:
    """What runs, as far as the log has told. ``running``: executors by stage and task; ``count``: ends that were missing."""

    running: dict[int, dict[Place, ExecutorId]] = field(default_factory=dict)
    passed_over: set[tuple[int, Place]] = field(default_factory=set)
    count: int = 0
    _repeated: set[int] = field(default_factory=set)  # stages with copies or several attempts
    _jobs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _listing: dict[int, int] = field(default_factory=dict)  # how many running jobs list a stage

    def started(self, stage: int, attempt: int, index: int, executor: ExecutorId, speculative: bool) -> None:
        """A task started."""
        if attempt or speculative:
            self._repeated.add(stage)
        self.running.setdefault(stage, {})[place(attempt, index, speculative)] = executor

    def ended(self, event: TaskEnd) -> bool:
        """A task ended; whether it is to be passed over, because it was taken to have ended before."""
        where = place(event.attempt, event.task_index, event.speculative)
        self.running.get(event.stage, {}).pop(where, None)
        if (event.stage, where) in self.passed_over:
            self.passed_over.discard((event.stage, where))
            self.count -= 1
            return True
        return False

    def stage_completed(self, stage: int, at: Millis, *, well: bool) -> list[TaskEnd]:
        """The ends that are missing of a stage that completes now."""
        running = self.running.get(stage)
        if not running or not well or stage in self._repeated:
            return []
        return list(self._taken_to_end(stage, at, TaskOutcome.SUCCESS))

    def job_started(self, job: int, stages: Iterable[int]) -> None:
        """A job lists these stages."""
        self.job_ended(job, 0, well=False)
        listed = self._jobs[job] = tuple(dict.fromkeys(stages))
        for stage in listed:
            self._listing[stage] = self._listing.get(stage, 0) + 1

    def job_ended(self, job: int, at: Millis, *, well: bool) -> list[TaskEnd]:
        """The ends that are missing of stages that no running job lists any more."""
        ends: list[TaskEnd] = []
        for stage in self._jobs.pop(job, ()):
            left = self._listing.pop(stage) - 1
            if left:
                self._listing[stage] = left
                continue
            if well:
                ends.extend(self._taken_to_end(stage, at, TaskOutcome.KILLED))
            if not self.running.get(stage):
                self.running.pop(stage, None)
                self._repeated.discard(stage)
        return ends

    def _taken_to_end(self, stage: int, at: Millis, outcome: TaskOutcome) -> Iterator[TaskEnd]:
        for where, executor in self.running.pop(stage, {}).items():
            attempt, index, speculative = where if isinstance(where, tuple) else (0, where, False)
            self.passed_over.add((stage, where))
            self.count += 1
            yield TaskEnd(at, stage, attempt, index, executor, speculative, outcome)
