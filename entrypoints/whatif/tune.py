"""Tuning, without a command line: runs of an application in, a frontier and a recommendation out.

What is minimised besides time is a *measure*: money where prices are given; otherwise executor-seconds, as long as every
config has executors of the shape that ran, and core-hours where shapes differ, since an executor of four cores is not one
of two. The search itself is ``domain.search``; here its candidates become plans, its trials simulations, its floors what
``whatif.search.bounds`` says in the measure's unit. Runs are put into an order of their own (by application, start and
name), so that the order in which logs are given makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.bill.run_bill import cost_factors, cost_of
from podtide.domain.whatif.prices import Prices, usage, usage_of
from podtide.domain.whatif.search.bounds import Work, work_of
from podtide.domain.whatif.search.recommendation import Figures, TuneDemand
from podtide.domain.whatif.search.search import Floor, Found, Terms, Trial, search
from podtide.domain.whatif.search.space import AS_RAN, CORES, Candidate, Space
from podtide.domain.whatif.summary import VariantAnswer, answer, typical
from podtide.entrypoints.whatif.logs import UsableLog
from podtide.entrypoints.whatif.run import RerunFunction, planned, sure
from podtide.entrypoints.whatif.workers import Errand, Runner, processes_for, runner

WITHIN: Final = 0.10
WORTH: Final = 0.02
BUDGET: Final = 100
BUDGET_MAX: Final = 100_000
SEEDS: Final = 3
CONFIRMING: Final = 10
"""Seeds of what is recommended, and of the config that ran beside it."""


class Measure(Enum):
    """What is minimised besides time."""

    COST = "cost"
    EXECUTOR_SECONDS = "executor_seconds"
    CORE_HOURS = "core_hours"


@dataclass(frozen=True, slots=True)
class TuneWish:
    """What is asked for. ``within``, ``worth``: shares; ``seed``: of the search's own chance; ``processes``: None: as many
    as are worth it."""

    within: float = WITHIN
    worth: float = WORTH
    budget: int = BUDGET
    seed: int = 0
    prices: Prices | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of it. ``cases``: in their own order; ``answers``: for each candidate that is shown or on the frontier, by
    case. What ran, what is recommended and the knee were watched: their answers have curve, stages and decisions."""

    cases: tuple[UsableLog, ...]
    space: Space
    wish: TuneWish
    measure: Measure
    found: Found
    answers: dict[Candidate, tuple[VariantAnswer, ...]] = field(default_factory=dict)


def in_order(cases: Sequence[UsableLog]) -> tuple[UsableLog, ...]:
    """The cases in an order that does not depend on how they were given."""
    return tuple(sorted(cases, key=lambda one: (one.study.application.id, one.study.application.started_ms, one.log)))


def measure_for(space: Space, prices: Prices | None) -> Measure:
    """The measure in which all configs of a space can be compared."""
    if prices is not None:
        return Measure.COST
    shaped = any(axis.key == CORES and len(axis.values) > 1 for axis in space.axes)
    return Measure.CORE_HOURS if shaped else Measure.EXECUTOR_SECONDS


def amount(measure: Measure, outcome: RerunOutcome, plan: Plan, prices: Prices | None) -> float:
    """What a run takes of the measure: money, seconds or hours."""
    match measure:
        case Measure.COST:
            assert prices is not None
            return cost_of(outcome, plan, prices)
        case Measure.CORE_HOURS:
            return usage_of(outcome, plan.shapes).core_hours
        case Measure.EXECUTOR_SECONDS:
            return outcome.executor_ms / 1000


def _dearer(measure: Measure, outcome: RerunOutcome, alone: VariantAnswer, prices: Prices | None) -> float:
    """By what factor nine of ten real runs stay below its amount."""
    if measure is not Measure.COST or prices is None:
        return alone.certainty.executor_seconds.most
    return cost_factors(outcome, alone.plan, prices, alone.certainty).most


def tune(
    cases: Sequence[UsableLog],
    space: Space,
    wish: TuneWish,
    *,
    rerun: RerunFunction = run_again,
    progress: Callable[[int], None] = lambda _simulations: None,
) -> Tuned:
    """Search. ``cases``: at least one, in the order of ``in_order``, which is that of the space's confs, each studied with
    the same seeds; ``progress``: told the number of simulations so far. Raises BenchError."""
    measure = measure_for(space, wish.prices)
    work = Tuning(tuple(cases), measure, wish.prices)
    studies = [case.study for case in cases]
    seeds = len(studies[0].seeds)
    demand = TuneDemand(wish.within, wish.worth, len(cases), seeds, max(seeds, CONFIRMING))
    terms = Terms(wish.budget, demand, wish.seed, work.pilot())
    processes = processes_for(studies, wish.budget) if wish.processes is None else wish.processes
    made = 0

    def done() -> None:
        nonlocal made
        made += 1
        progress(made)

    with runner(studies, processes, rerun=rerun, done=done) as run:
        found = work.search(space, terms, run)
        for row in (found.verdict.recommended, found.knee.row if found.knee else None):
            if row is not None:
                work.watch(row.candidate, run)
    shown = dict.fromkeys([row.candidate for row in (*found.shown, *found.frontier)])
    answers = {one: work.answers(one) for one in shown}
    return Tuned(tuple(cases), space, wish, measure, found, answers)


class Tuning:
    """The bridge between the search and the simulation; it keeps what was simulated."""

    def __init__(self, cases: tuple[UsableLog, ...], measure: Measure, prices: Prices | None) -> None:
        self.cases = cases
        self.measure = measure
        self.prices = prices
        self.works: list[Work] = [work_of(case.study.application) for case in cases]
        self.plain = [
            all(stage.profile == DEFAULT_PROFILE for stage in case.study.application.stages) for case in cases
        ]
        self.plans: dict[tuple[Candidate, int], Plan | None] = {}
        self.seeds = range(max(CONFIRMING, *(len(case.study.replay.outcomes) for case in cases)))
        self.outcomes: dict[tuple[Candidate, int, int], RerunOutcome] = {}
        for run, case in enumerate(cases):  # the log's own config was run again already
            for seed, outcome in enumerate(case.study.replay.outcomes):
                self.outcomes[AS_RAN, run, seed] = outcome

    def pilot(self) -> int:
        """The run to explore with: the one with the median work."""
        by_work = sorted(range(len(self.cases)), key=lambda run: (self.works[run].work_ms, run))
        return by_work[(len(by_work) - 1) // 2]

    def plan(self, one: Candidate, run: int) -> Plan | None:
        """The plan of a candidate on a run; None where Spark would refuse it."""
        key = (one, run)
        if key not in self.plans:
            made = planned(self.cases[run].study, one.variant())
            self.plans[key] = made.unwrap() if is_successful(made) else None
        return self.plans[key]

    def floor(self, one: Candidate, run: int) -> Floor | None:
        """What it takes at the least, in milliseconds and in the measure."""
        plan = self.plan(one, run)
        if plan is None:
            return None
        work = self.works[run]
        if not self.plain[run]:
            return Floor(work.runtime_floor_ms(None), 0.0)
        shape = plan.shapes[DEFAULT_PROFILE]
        executors = plan.static if plan.dynamic is None else plan.dynamic.executors_max
        executor_ms = work.executor_floor_ms(shape.slots)
        used = usage({DEFAULT_PROFILE: executor_ms}, plan.shapes)
        match self.measure:
            case Measure.COST:
                assert self.prices is not None
                price = used.cost(self.prices)
            case Measure.CORE_HOURS:
                price = used.core_hours
            case Measure.EXECUTOR_SECONDS:
                price = executor_ms / 1000
        return Floor(work.runtime_floor_ms(max(1, executors) * shape.slots), price)

    def search(self, space: Space, terms: Terms, run: Runner) -> Found:
        """Carry out a search."""
        talk = search(space, terms, self.floor)
        try:
            batch = next(talk)
            while True:
                batch = talk.send(self.simulate(batch, run))
        except StopIteration as end:
            found: Found = end.value
        return found

    def simulate(self, batch: Sequence[Trial], run: Runner) -> list[Figures]:
        """The figures of a batch; what is known is not simulated again."""
        new = [trial for trial in batch if (trial.candidate, trial.run, trial.seed) not in self.outcomes]
        errands = [Errand(trial.run, trial.candidate.variant(), trial.seed, trial.limit_ms) for trial in new]
        for trial, outcome in zip(new, run(errands), strict=True):
            self.outcomes[trial.candidate, trial.run, trial.seed] = outcome
        return [self._figures(trial) for trial in batch]

    def watch(self, one: Candidate, run: Runner) -> None:
        """Run the typical run of a candidate once more, keeping what happens."""
        seeds = [typical(known).seed for known in map(partial(self._known, one), range(len(self.cases)))]
        errands = [Errand(case, one.variant(), seed, watch=True) for case, seed in enumerate(seeds)]
        for errand, outcome in zip(errands, run(errands), strict=True):
            self.outcomes[one, errand.study, errand.seed] = outcome

    def answers(self, one: Candidate) -> tuple[VariantAnswer, ...]:
        """What is known of a candidate, by run."""
        if one.as_ran:
            return tuple(replace(case.study.replay, variant=one.variant()) for case in self.cases)
        return tuple(self._answer(one, run, self._known(one, run)) for run in range(len(self.cases)))

    def _known(self, one: Candidate, run: int) -> list[RerunOutcome]:
        """By seed, from 0."""
        return [outcome for seed in self.seeds if (outcome := self.outcomes.get((one, run, seed))) is not None]

    def _answer(self, one: Candidate, run: int, known: Sequence[RerunOutcome]) -> VariantAnswer:
        plan = self.plan(one, run)
        assert plan is not None
        return sure(self.cases[run].study, answer(one.variant(), plan, known))

    def _figures(self, trial: Trial) -> Figures:
        outcome = self.outcomes[trial.candidate, trial.run, trial.seed]
        alone = self._answer(trial.candidate, trial.run, [outcome])
        price = amount(self.measure, outcome, alone.plan, self.prices)
        certainty = alone.certainty
        return Figures(
            outcome.runtime_ms,
            price,
            outcome.unfinished is None,
            certainty.runtime.most,
            _dearer(self.measure, outcome, alone, self.prices),
        )
