"""What a fresh executor adds to its first tasks, told apart from the tasks themselves.

The first tasks on an executor (one for each slot, launched before any task on it had ended) load classes, fetch jars and
broadcasts and run cold code. Two parts of that can be seen:

- *overhead*: what lies between launch and finish besides the executor's run time, beyond the median of the stage's other
  tasks (of all stages' where there are fewer than ``ENOUGH``). It is taken for each task as it is.
- *run time*: a first task's own work may differ from its neighbours' for better reasons. Only where stages are even (the
  spread around the median is a quarter of it or less) are first tasks compared with the others, and only if that is clear
  the median difference is taken, for all first tasks alike: at least ``FEW`` of them, three of four slower, and by twice the
  spread unless they are ``MANY``.

Without metrics the whole length stands in for the run time, under the same conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from podtide.domain.base.samples import median, spread
from podtide.domain.base.units import Millis
from podtide.domain.recorded.stages import FreshTask, StageWork

ENOUGH: Final = 3
"""Tasks of a stage that make a median."""

FEW: Final = 4
MANY: Final = 12
"""First tasks that make a case about run times: where they stand out, and where they do not."""

LEAST_MS: Final[Millis] = 10
"""A median difference below this is noise."""


class Extra(NamedTuple):
    """What a task took longer: on which executor (by its place in the order of coming), and how long."""

    life: int
    extra_ms: Millis


def take_out(stages: Iterable[StageWork]) -> list[Extra]:
    """Take what fresh executors add out of the stages' tasks; return it, in the order of the stages."""
    works = [work for work in stages if work.fresh]
    usual = _usual_overhead(works)
    slower = _slower(works)
    extras: list[Extra] = []
    for work in works:
        overheads = _overheads(work)
        base = median(overheads) if len(overheads) >= ENOUGH else usual
        for task in work.fresh:
            extra = slower if task.run < 0 else slower + max(0, task.duration - task.run - base)
            extra = min(extra, task.duration)
            if extra:
                work.lengthen(task.place, task.duration - extra)
            extras.append(Extra(task.life, extra))
        work.fresh = []
    return extras


def _overheads(work: StageWork) -> list[Millis]:
    pairs = zip(work.typical.first, work.typical.second, strict=True)
    return [duration - run for duration, run in pairs if run >= 0]


def _usual_overhead(works: Sequence[StageWork]) -> Millis:
    """The overhead of tasks that were not the first, over all stages; that of the least first task without them."""
    middles = [median(overheads) for work in works if (overheads := _overheads(work))]
    if middles:
        return median(middles)
    return min((task.duration - task.run for work in works for task in work.fresh if task.run >= 0), default=0)


def _slower(works: Sequence[StageWork]) -> Millis:
    """How much longer first tasks run, if that is clear; else nothing."""
    differences: list[Millis] = []
    spreads: list[Millis] = []
    for work in works:
        typical = work.typical
        runs = [run if run >= 0 else length for length, run in zip(typical.first, typical.second, strict=True)]
        if len(runs) < ENOUGH:
            continue
        middle, around = median(runs), spread(runs)
        if 4 * around > middle:
            continue
        spreads.extend([around] * len(work.fresh))
        differences.extend(_work_of(task) - middle for task in work.fresh)
    if len(differences) < FEW or 4 * sum(one > 0 for one in differences) < 3 * len(differences):
        return 0
    middle = median(differences)
    stands_out = len(differences) >= MANY or middle >= 2 * median(spreads)
    return middle if middle >= LEAST_MS and stands_out else 0


def _work_of(task: FreshTask) -> Millis:
    return task.run if task.run >= 0 else task.duration
