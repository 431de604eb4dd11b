"""Stages that only computed again what had been lost: no work of the application's own.

A job lists each shuffle that it reads under a new stage id, even if an earlier job wrote it: once no job needs a stage any
more it is forgotten (DAGScheduler.getOrCreateShuffleMapStage, cleanupStateForJobAndIndependentStages). As long as the output
is there such a stage is skipped. Where output was lost with its executors, it is submitted, with the tasks whose output is
missing: as many as there were, or fewer, or none if it came back meanwhile. Under adaptive execution, where every exchange
is a job of its own, all map output that is lost once it is complete is computed again in this way.

While a shuffle's stage is under way, jobs that need the shuffle share it. So a later stage that writes the shuffle of one
that had completed repeats it. A stage that never completed well (its job was cancelled) has left work to do: what comes
after it is work of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podtide.domain.base.units import Millis
from podtide.domain.recorded.stages import StageWork


def merged(works: Sequence[StageWork], shuffle_of: Callable[[StageWork], int | None]) -> dict[int, Millis | None]:
    """Count what was computed again to the stage that had computed it first; returns the stages that did so.

    ``works``: by submission; ``shuffle_of``: the shuffle that a stage writes, if any. Returned is, by stage, when it was
    completed, as far as that is known.
    """
    first: dict[int, StageWork] = {}
    repeated: dict[int, Millis | None] = {}
    for work in works:
        shuffle = shuffle_of(work)
        if shuffle is None:
            continue
        before = first.setdefault(shuffle, work)
        if before is work:
            continue
        completions = before.completions()
        if (
            not completions
            or min(completions) > work.attempts[work.base].submitted
            or work.seen.tasks > before.seen.tasks
        ):
            first[shuffle] = work
            continue
        before.repeats += len(work.attempts)
        before.recomputed += work.succeeded + work.recomputed
        work.succeeded = work.recomputed = 0
        repeated[work.seen.stage] = work.done().completed
    return repeated
