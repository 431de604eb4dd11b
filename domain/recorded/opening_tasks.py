"""What the first task of a stage on an executor takes longer than those after it, told apart from the tasks themselves.

An executor that has run tasks of other stages is not fresh, and yet the first task of a stage in each of its slots takes
longer: it fetches the stage's closure and broadcasts, asks the driver where map output is, and compiles what SQL generated.
With more executors more of a stage's tasks are such first ones, and with fewer executors fewer. That is told apart where all
executors share one host, as in the runs that it was found in; elsewhere tasks keep it, wherever they run.

Two parts of that can be told from the data of a task. Its *overhead* is what lies between launch and finish besides the
executor's run time, beyond the median of the stage's later tasks (of all stages' where there are fewer than ``ENOUGH``). The
rest is *run time*. In a stage that is even (its later tasks spread around their median by a quarter of it or less) the run
times of first and of later tasks are compared. Where the stage has a ``PAIR`` of first tasks or more, they have overhead,
and each ran longer than the later ones by ``SURE`` spreads, the stage speaks for itself: Python workers that start,
generated code that is compiled. The medians of both parts are then the stage's. Elsewhere run time is taken to be
proportional: the median of what first tasks of all even stages ran longer, set against the median of the overheads of the
same tasks. Where fewer than three of four of them ran longer nothing is added, and where there are fewer than ``FEW`` what
is usual. What tasks read or compute does not move the overhead, so a stage whose first tasks are its longest keeps them
long. At most half of a first task is taken for that, unless the stage speaks for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from podtide.domain.base.samples import median, spread
from podtide.domain.base.units import Millis
from podtide.domain.recorded.stages import StageWork

ENOUGH: Final = 2
"""Later tasks of a stage that make a median."""

PAIR: Final = 2
SURE: Final = 3
"""Of one stage alone: so many first tasks, each longer than the later ones by so many spreads."""

FEW: Final = 8
"""First tasks that make a case about run times."""

RATIO_USUAL: Final = 1.0
"""How much longer first tasks run, for each millisecond of overhead, where a log has too few to tell: the median of the
ten runs of the first truth that tell it is 1.05."""

RATIO_MOST: Final = 2.0
"""Run time is added up to so many times the overhead."""

LEAST_MS: Final[Millis] = 5
"""What stages add in the median that is below this is noise."""


class Later(NamedTuple):
    """The later tasks of a stage. ``run``: the median of their run times if they are alike, else None; ``around``: how far
    they are from it."""

    overhead: Millis
    run: Millis | None
    around: Millis

    def clear(self, runs: Sequence[Millis]) -> Millis:
        """What first tasks with these run times ran longer alike, where each of them stands out; else 0."""
        if self.run is None or len(runs) < PAIR:
            return 0
        return median(runs) - self.run if min(runs) - self.run >= max(LEAST_MS, SURE * self.around) else 0


def take_out(works: Sequence[StageWork]) -> None:
    """Take what the first tasks of a stage add out of the stages' tasks, and keep it with the stage."""
    later = {work.seen.stage: known for work in works if (known := _later(work)) is not None}
    if not later:
        return
    usual = median([one.overhead for one in later.values()])
    overheads: list[Millis] = []
    runs: list[Millis] = []
    for work in works:
        known = later.get(work.seen.stage)
        if known is not None and known.run is not None:
            overheads.extend(one - known.overhead for one in work.openings.first)
            runs.extend(one - known.run for one in work.openings.second)
    times = 1.0 + _ratio(overheads, runs)
    for work in works:
        if not work.opened or not work.openings.first:
            continue
        known = later.get(work.seen.stage)
        base = usual if known is None else known.overhead
        longer = median(work.openings.first) - base
        more = 0 if known is None or longer < LEAST_MS else known.clear(work.openings.second)
        if more:
            usually = more + longer
        else:
            usually = median([round(max(0, overhead - base) * times) for overhead in work.openings.first])
            usually = min(usually, median([max(0, work.length(place)) for place in work.opened]) // 2)
        if usually < LEAST_MS:
            continue
        work.opening_ms, work.opening_slots = usually, len(work.opened) + len(work.fresh)
        for place in work.opened:
            work.lengthen(place, max(0, work.length(place) - usually))


def _later(work: StageWork) -> Later | None:
    pairs = [(length - run, run) for length, run in zip(work.later.first, work.later.second, strict=True) if run >= 0]
    if len(pairs) < ENOUGH:
        return None
    runs = [run for _, run in pairs]
    middle = median(runs)
    around = spread(runs) if len(runs) > ENOUGH else max(runs) - min(runs)
    even = 4 * around <= middle
    return Later(median([overhead for overhead, _ in pairs]), middle if even else None, around)


def _ratio(overheads: Sequence[Millis], runs: Sequence[Millis]) -> float:
    """How much longer first tasks run, for each millisecond of their overhead, if that is clear; else 0."""
    if 4 * sum(one > 0 for one in runs) < 3 * len(runs):
        return 0.0
    if len(runs) < FEW:
        return RATIO_USUAL
    if median(overheads) <= 0:
        return 0.0
    return min(RATIO_MOST, max(0.0, median(runs) / median(overheads)))
