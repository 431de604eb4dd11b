"""What is answered without a variant: counts of executors, settings worth trying, and what skew costs - within a budget.

The counts are a geometric ladder from one executor to as many as the widest stages could keep busy, twice: as static counts,
and as maxExecutors over the config that ran. The settings are those of ``tune``, each by itself, and what it says of them
follows its rules (``whatif.search.recommendation.worth_trying``); what the counts were simulated for is not simulated again.

*Cost.* A simulation takes time by the application's tasks, so their product is what is bounded: a long log gets fewer seeds,
then fewer counts, then no settings but counts. Processes are those of ``tune``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.scaling_config import MAX
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.search.bounds import work_of
from podtide.domain.whatif.search.defaults import count_ladder, default_space, footing
from podtide.domain.whatif.search.in_effect import in_effect
from podtide.domain.whatif.search.overview import CountPoint, Overview
from podtide.domain.whatif.search.recommendation import TuneDemand
from podtide.domain.whatif.search.search import Found, Terms, Trial
from podtide.domain.whatif.search.skew import SkewCost, skews
from podtide.domain.whatif.search.space import Candidate, Space, at_most, static
from podtide.entrypoints.whatif.logs import UsableLog
from podtide.entrypoints.whatif.run import SELF, RerunFunction, Study
from podtide.entrypoints.whatif.tune import CONFIRMING, SEEDS, WITHIN, WORTH, Tuning, measure_for
from podtide.entrypoints.whatif.workers import Errand, Runner, processes_for, processors, runner

POINTS: Final = 7
POINTS_MIN: Final = 4
"""Counts of a curve."""

CURVE_TASKS: Final = 3_000_000
"""Tasks to simulate for both curves: about half a minute of one processor."""

SEARCH_TASKS: Final = 150_000
"""Of an application whose settings are tried one by one, each with the seeds that confirm an answer."""

CANDIDATES: Final = 40
TRIALS: Final = 3
SKEWS: Final = 5
"""Configs to consider, settings to name, and stages whose skew is simulated."""

MANAGED_PROCESSES: Final = 2
"""Processes at least where a cluster manager's machines decide: these take their time however few the tasks are."""


def overview(
    study: Study,
    prices: Prices | None,
    *,
    rerun: RerunFunction = run_again,
    processes: int | None = None,
    progress: Callable[[int], None] = lambda _simulations: None,
) -> Overview:
    """The answer for a study that fits its log. ``processes``: None: as many as are worth it; ``progress``: told the
    number of simulations so far. Raises BenchError."""
    ground = _Ground.of(study, prices)
    case = UsableLog("", study)
    work = Tuning((case,), measure_for(ground.space, prices), prices)
    made = 0

    def done() -> None:
        nonlocal made
        made += 1
        progress(made)

    if processes is None:
        managed = study.replay.plan.kubernetes is not None or study.replay.plan.yarn is not None
        least = min(processors(), MANAGED_PROCESSES) if managed else 1
        processes = max(least, processes_for([study], 4 * ground.points * ground.seeds))
    with runner([study], processes, rerun=rerun, done=done) as run:
        statics = _curve(work, ground, {count: static(count) for count in ground.counts}, run)
        maxima = _curve(work, ground, ground.maxima, run)
        found = _tried(work, ground, run)
        uneven = _skew_costs(study, run)
    shape = study.replay.plan.shapes[DEFAULT_PROFILE]
    floor_ms = work_of(study.application).runtime_floor_ms(shape.slots)
    answers = tuple((one, work.answers(one.row.candidate)[0]) for one in found.answers if one.row is not None)
    return Overview(
        statics,
        maxima,
        floor_ms,
        work.measure.value,
        answers,
        found.verdict,
        found.counts.candidates,
        uneven,
        ground.seeds,
        made,
        ground.notes,
    )


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is simulated. ``counts``: of the static curve; ``maxima``: configs of the other one by count; ``space``: what is
    searched."""

    counts: tuple[int, ...]
    maxima: dict[int, Candidate]
    space: Space
    points: int
    seeds: int
    confirming: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, study: Study, prices: Prices | None) -> _Ground:
        """By what the run shows of itself, within the bounds of cost."""
        application = study.application
        tasks = max(1, application.tasks)
        small = tasks <= SEARCH_TASKS
        points = POINTS if small else POINTS_MIN
        seeds = max(1, min(len(study.seeds), SEEDS, CURVE_TASKS // (2 * points * tasks)))
        shown = footing(application, study.conf.conf)
        space = default_space([shown], shaped=False, priced=prices is not None)
        counts = count_ladder(shown, points)
        axes = tuple(
            replace(axis, values=tuple(map(str, counts))) if axis.key == MAX else axis
            for axis in space.axes
            if small or axis.key == MAX
        )
        statics = tuple(sorted({*space.statics, *counts})) if small else counts
        space, notes = in_effect(replace(space, axes=axes, statics=statics))
        if not small:
            notes += (f"With {tasks:,} tasks only counts of executors were tried; podtide tune tries all settings.",)
        values = [text for axis in space.axes if axis.key == MAX for text in axis.values if text is not None]
        maxima = {int(text): one for text in values if (one := at_most(space, int(text))) is not None}
        return cls(counts, maxima, space, points, seeds, CONFIRMING if small else SEEDS, notes)


def _curve(work: Tuning, ground: _Ground, configs: Mapping[int, Candidate], run: Runner) -> tuple[CountPoint, ...]:
    """The configs that Spark takes, over all seeds."""
    possible = {count: one for count, one in configs.items() if one.as_ran or work.plan(one, 0) is not None}
    work.simulate([Trial(one, 0, seed) for one in possible.values() for seed in range(ground.seeds)], run)
    return tuple(CountPoint(count, work.answers(one)[0]) for count, one in possible.items())


def _tried(work: Tuning, ground: _Ground, run: Runner) -> Found:
    seeds = ground.seeds
    demand = TuneDemand(WITHIN, WORTH, 1, seeds, max(seeds, ground.confirming), TRIALS)
    return work.search(ground.space, Terms(CANDIDATES + len(ground.space.statics), demand), run)


def _skew_costs(study: Study, run: Runner) -> tuple[SkewCost, ...]:
    """The dearest first, then those that were not simulated."""
    found = skews(study.application)
    own = study.replay.outcomes[0]
    some = found[:SKEWS] if own.unfinished is None else ()
    outcomes = run([Errand(0, SELF, 0, even=one.stage.stage) for one in some])
    costs = [
        SkewCost(one, None if even.unfinished is not None else max(0, own.runtime_ms - even.runtime_ms))
        for one, even in zip(some, outcomes, strict=True)
    ]
    costs.sort(key=lambda one: -1 if one.costs_ms is None else one.costs_ms, reverse=True)
    return (*costs, *(SkewCost(one, None) for one in found[len(some) :]))
