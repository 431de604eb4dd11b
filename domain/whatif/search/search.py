"""A search over configs: which simulations to make, and when enough are made.

``search`` is a conversation without input or output of its own: it yields batches of ``Trial``s and is sent the ``Figures``
of each, in their order, until it returns what it ``Found``. Batches depend on what was answered before and on the terms
alone, so the answer is the same however many processes carry them out.

1. The config that each run had, with every seed: what all others are compared with. Then the static counts.
2. *Explore*, on one run (the pilot) and with the recorded luck: each setting by itself where several answers are asked for
   (``TuneDemand.answers``), which then are what to try; the whole grid where the budget allows. Otherwise each
   setting by itself, then a share of the budget on points spread evenly over the grid, and the rest on neighbours of the
   best so far (the frontier, about as long as it ran first), near and far in turn, until it has none that are new.
3. *Halve*: on every further run, the better half of what is left (whole fronts first), but never fewer than a few.
4. *Confirm*: the cheapest that is worth it by all that is known gets as many seeds as confirm an answer, and so does the
   config that ran, until the answer stands; then the knee beside it.
5. *Simplify*: a change that makes no difference to time and price on any run is left out of both.
6. The frontier, thinned out to what can be looked at, and the static counts get their seeds: for ranges.

What is spared: a candidate that its ``Floor`` rules out is not simulated at all; a simulation is stopped when it has run for
longer than something known that costs no more than this one's floor, or for ``slowest`` times as long as it ran. Time and
price that decide what is better are those with the recorded luck (seed 0); other seeds decide what is robust. So the set
of candidates does not depend on the bound of time, and a wider one never costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import fsum
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import Millis
from podtide.domain.whatif.search.pareto import ParetoPoint, frontier, fronts, spread
from podtide.domain.whatif.search.recommendation import (
    Figures,
    Row,
    RunSeed,
    TuneDemand,
    TuneVerdict,
    confirmed,
    knee,
    verdict,
    worth_trying,
)
from podtide.domain.whatif.search.space import (
    AS_RAN,
    CORES,
    MEMORY_KEYS,
    Candidate,
    Place,
    Space,
    alone,
    candidate,
    neighbours,
    places,
    same,
    spread_out,
    static,
    sweep,
    without,
)

BATCH: Final = 16
"""Simulations between two looks at what is known: enough to keep a few processes busy."""

EXPLORED_SHARE: Final = 0.6
"""Of the budget, for points spread over the grid; the rest goes to neighbours of the best."""

SWEPT: Final = 5
"""Values of an axis that are tried by themselves, everything else as it ran; together at most half of the budget."""

ALONE: Final = 3
"""Values of an axis where several answers are asked for."""

ROUND: Final = 8
"""Neighbours that are tried before the frontier is looked at again."""

REACHES: Final = (0.25, 0.125, 0.0625, 0.0)
"""Steps of the climb in turn, as shares of an axis; the last is from one value to the next."""

FINALISTS: Final = 12
"""So many candidates at least reach the last run, and so many of the frontier get every seed."""

TRIES_PER_POINT: Final = 50
"""Points of the sequence that are looked at for each that is wanted; others repeat or make no config."""

SLOWEST: Final = 2.0


class Trial(NamedTuple):
    """A simulation to make; it may be stopped when its run time passes ``limit_ms``."""

    candidate: Candidate
    run: int
    seed: int
    limit_ms: Millis | None = None


class Floor(NamedTuple):
    """What a candidate takes on a run at the very least."""

    runtime_ms: Millis = 0
    price: float = 0.0


Floors: TypeAlias = Callable[[Candidate, int], Floor | None]
"""The floor of a candidate on a run (by its place); None: it cannot be run there at all."""

Dialogue: TypeAlias = Generator[tuple[Trial, ...], Sequence[Figures], "Found"]


@dataclass(frozen=True, slots=True)
class Terms:
    """``budget``: candidates to consider; ``seed``: of the search's own chance; ``pilot``: the run to explore with."""

    budget: int
    demand: TuneDemand
    seed: int = 0
    pilot: int = 0
    slowest: float = SLOWEST


@dataclass(slots=True)
class SearchCounts:
    """What was done. ``candidates``: configs that were looked at, with the static ones, without the one that ran; of these
    ``impossible``: refused by Spark, ``by_floor``: not simulated, ``stopped``: stopped, ``halved``: not simulated on every
    run; ``full``: simulations that ran to their end, of ``simulations``."""

    candidates: int = 0
    impossible: int = 0
    by_floor: int = 0
    stopped: int = 0
    halved: int = 0
    simulations: int = 0
    full: int = 0

    @property
    def pruned(self) -> int:
        """Candidates that were not simulated to the end on every run."""
        return self.impossible + self.by_floor + self.stopped + self.halved


class Found(NamedTuple):
    """``rows``: what was simulated to the end on every run, ``base`` among them, by rising price; ``frontier``: those that
    nobody beats in time and price, by rising time; ``shown``: of these and of the static ones, what got every seed;
    ``knee``: what stands beside the recommended one; ``answers``: what is worth trying, where that was asked for."""

    rows: tuple[Row, ...]
    base: Row
    frontier: tuple[Row, ...]
    shown: tuple[Row, ...]
    verdict: TuneVerdict
    counts: SearchCounts
    whole_grid: bool
    knee: TuneVerdict | None = None
    answers: tuple[TuneVerdict, ...] = ()


def search(space: Space, terms: Terms, floors: Floors) -> Dialogue:
    """The conversation; see the module. The space has a conf for each run."""
    work = _Search(space, terms, floors)
    yield from work.begin()
    whole_grid = space.size <= terms.budget
    yield from work.explore(whole_grid=whole_grid)
    yield from work.halve()
    yield from work.confirm()
    yield from work.simplify()
    return (yield from work.end(whole_grid=whole_grid))


Talk: TypeAlias = Generator[tuple[Trial, ...], Sequence[Figures], None]


@dataclass(slots=True)
class _Search:
    """What is known so far."""

    space: Space
    terms: Terms
    floors: Floors
    known: dict[Candidate, dict[RunSeed, Figures]] = field(default_factory=dict)
    counts: SearchCounts = field(default_factory=SearchCounts)
    seen: set[Place] = field(default_factory=set)
    at: dict[Candidate, Place] = field(default_factory=dict)
    out: set[Candidate] = field(default_factory=set)
    base: dict[RunSeed, Figures] = field(default_factory=dict)
    verdict: TuneVerdict | None = None
    knee: TuneVerdict | None = None
    answers: tuple[TuneVerdict, ...] = ()

    @property
    def runs(self) -> range:
        return range(self.terms.demand.runs)

    # ------------------------------------------------------------------------------------------------- the steps

    def begin(self) -> Talk:
        """The config that ran, and the static ones."""
        seeds = range(self.terms.demand.seeds)
        yield from self._ask([Trial(AS_RAN, run, seed) for run in self.runs for seed in seeds])
        self.base = self.known[AS_RAN]
        statics = []
        for count in self.space.statics:
            one = static(count)
            self.counts.candidates += 1
            if self._possible(one):
                statics.append(one)
            else:
                self.counts.impossible += 1
        yield from self._ask([Trial(one, run, 0, self._slowest(run, 0)) for one in statics for run in self.runs])
        self._sort_out(statics)

    def explore(self, *, whole_grid: bool) -> Talk:
        """Candidates of the grid on the pilot run."""
        budget = max(0, self.terms.budget - len(self.space.statics))
        if self.terms.demand.answers:
            yield from self._try(islice(self._new(alone(self.space, ALONE)), budget))
            return
        if whole_grid:
            yield from self._try(self._fresh(places(self.space)))
            return
        if (home := self._home()) is not None:
            yield from self._try(islice(self._fresh([home, *sweep(self.space, home, SWEPT)]), budget // 2))
        first = max(1, int((self.terms.budget - self.counts.candidates) * EXPLORED_SHARE))
        tried = islice(spread_out(self.space, self.terms.seed), first * TRIES_PER_POINT)
        yield from self._try(islice(self._fresh(tried), first))
        idle, rounds = 0, cycle(REACHES)
        while idle < len(REACHES) and (left := self.terms.budget - self.counts.candidates) > 0:
            near = self._fresh(self._around_the_best(next(rounds)))
            some = list(islice(near, min(left, ROUND)))
            idle = 0 if some else idle + 1
            yield from self._try(iter(some))

    def halve(self) -> Talk:
        """What is left on all further runs."""
        pilot = self.terms.pilot
        done = [pilot]
        for run in self.runs:
            if run == pilot:
                continue
            alive = [one for one in self._alive() if one.static is None and not one.as_ran]
            ranks = fronts([self._sum(one, done) for one in alive])
            best = sorted(zip(ranks, (self._sum(one, done).price for one in alive), range(len(alive)), strict=True))
            kept = max(FINALISTS, -(-len(alive) // 2))
            for _, _, place in best[kept:]:
                self.out.add(alive[place])
                self.counts.halved += 1
            chosen = [alive[place] for _, _, place in best[:kept]]
            yield from self._ask([Trial(one, run, 0, self._slowest(run, 0)) for one in chosen])
            self._sort_out(chosen)
            done.append(run)

    def confirm(self) -> Talk:
        """The missing seeds of the answer and of the knee, until there are ones that have them all."""
        demand = self.terms.demand
        while True:
            rows, base = self._rows(), self._row(AS_RAN)
            self.verdict = verdict(rows, base, demand)
            self.knee = knee(rows, base, demand, self.verdict)
            if demand.answers:
                self.answers = worth_trying(rows, base, demand)
            answers = [one.row for one in self._verdicts() if one.row is not None]
            missing = next((row for row in answers if not confirmed(row, demand)), None)
            if missing is None:
                return
            yield from self._seeds([AS_RAN, missing.candidate], demand.confirming)

    def simplify(self) -> Talk:
        """Leave out of the answer and of the knee what makes no difference."""
        assert self.verdict is not None
        if self.terms.demand.answers:
            return  # each changes one setting
        if (row := self.verdict.recommended) is not None:
            self.verdict = self.verdict._replace(row=(yield from self._simplified(row)))
        if self.knee is not None and self.knee.row is not None:
            self.knee = self.knee._replace(row=(yield from self._simplified(self.knee.row)))

    def _simplified(self, row: Row) -> Generator[tuple[Trial, ...], Sequence[Figures], Row]:
        """The same answer without the changes that make no difference."""
        if row.candidate.static is not None:
            return row
        whole = row.candidate
        kept = {key for key, text in self.space.always if text is not None}  # they go with all others
        if CORES in dict(whole.changes):
            kept.update(MEMORY_KEYS)  # without prices they would seem to make no difference
        rows = {known.candidate for known in self._rows()}
        for key in [key for key, _ in row.candidate.changes]:
            simpler = without(whole, key)
            if key in kept or simpler == whole or simpler.as_ran or not self._possible(simpler):
                continue
            limits = [self.known[whole][run, 0].runtime_ms for run in self.runs]
            yield from self._ask([Trial(simpler, run, 0, limits[run]) for run in self.runs if simpler not in self.out])
            yield from self._seeds([simpler], self.terms.demand.confirming)
            if self.known[simpler] == self.known[whole]:
                self.out.add(whole)
                self.out.discard(simpler)
                whole = simpler
            elif simpler not in rows:
                self.out.add(simpler)  # it was tried for this answer alone
        return self._row(whole)

    def end(self, *, whole_grid: bool) -> Generator[tuple[Trial, ...], Sequence[Figures], Found]:
        """Seeds for what is shown."""
        assert self.verdict is not None
        rows = sorted(
            self._rows(), key=lambda row: (len(row.candidate.changes), row.candidate.name)
        )  # of equals the simplest
        points = [row.point(len(self.runs)) for row in rows]
        best = [rows[place].candidate for place in frontier(points)]
        chosen = {best[place] for place in spread(range(len(best)), FINALISTS)}
        answers = [one.row.candidate for one in self._verdicts() if one.row is not None]
        chosen.update(answers)
        shown = [AS_RAN, *(one for one in self._alive() if one in chosen or one.static is not None)]
        shown = [AS_RAN, *answers] if self.terms.demand.answers else list(dict.fromkeys(shown))
        yield from self._seeds(shown)
        made = {row.candidate: row for row in self._rows()}
        in_order = sorted(made.values(), key=lambda row: (row.point(len(self.runs))[::-1], row.candidate.name))
        if self.verdict.row is not None:
            self.verdict = self.verdict._replace(row=made[self.verdict.row.candidate])
        if self.knee is not None and self.knee.row is not None:
            self.knee = self.knee._replace(row=made[self.knee.row.candidate])
        return Found(
            tuple(in_order),
            made[AS_RAN],
            tuple(made[one] for one in best),
            tuple(made[one] for one in shown),
            self.verdict,
            self.counts,
            whole_grid,
            self.knee,
            self.answers,
        )

    def _verdicts(self) -> list[TuneVerdict]:
        """Everything that is said of a config: it has to be known with all seeds."""
        if self.terms.demand.answers:
            return list(self.answers)
        return [one for one in (self.verdict, self.knee) if one is not None]

    # ---------------------------------------------------------------------------------------- candidates and trials

    def _fresh(self, wanted: Iterable[Place]) -> Iterator[Candidate]:
        """The configs of points that were not looked at."""
        for place in wanted:
            if place in self.seen:
                continue
            self.seen.add(place)
            one = candidate(self.space, place)
            if one is None or one.as_ran or one in self.at:
                continue
            self.at[one] = place
            self.counts.candidates += 1
            yield one

    def _new(self, wanted: Iterable[Candidate]) -> Iterator[Candidate]:
        """Configs that were not tried, each once."""
        for one in dict.fromkeys(wanted):
            if one not in self.known:
                self.counts.candidates += 1
                yield one

    def _try(self, wanted: Iterator[Candidate]) -> Talk:
        """Candidates on the pilot run, as far as their floors let them."""
        run = self.terms.pilot
        while batch := list(islice(wanted, BATCH)):
            trials = []
            beaten = self._beaten(run)
            for one in batch:
                floor = self.floors(one, run)
                if floor is None or not self._possible(one):
                    self.counts.impossible += 1
                    continue
                limit = min(self._slowest(run, 0), beaten(floor.price))
                if floor.runtime_ms > limit:
                    self.counts.by_floor += 1
                else:
                    trials.append(Trial(one, run, 0, limit))
            yield from self._ask(trials)
            self._sort_out([trial.candidate for trial in trials])

    def _home(self) -> Place | None:
        """The point that is nearest to what ran: the value that the first run has, on each axis that has it."""
        conf, home = self.space.confs[0], []
        for axis in self.space.axes:
            at = next((at for at, text in enumerate(axis.values) if same(conf, axis.key, text)), None)
            if at is None:
                return None
            home.append(at)
        return tuple(home)

    def _around_the_best(self, reach: float) -> Iterator[Place]:
        """Neighbours of the frontier of the pilot run, of those first that take about as long as it ran."""
        run = self.terms.pilot
        alive = [one for one in self._alive() if one in self.at]
        base = max(1, self.base[run, 0].runtime_ms)

        def distance(one: Candidate) -> float:
            ratio = max(1, self.known[one][run, 0].runtime_ms) / base
            return max(ratio, 1 / ratio)

        best = [alive[place] for place in frontier([self._sum(one, [run]) for one in alive])]
        for one in sorted(best, key=distance):
            yield from neighbours(self.space, self.at[one], reach)

    def _ask(self, trials: Sequence[Trial]) -> Talk:
        """Have simulations made; what is known already is not asked again."""
        new = [trial for trial in trials if (trial.run, trial.seed) not in self.known.get(trial.candidate, {})]
        for start in range(0, len(new), BATCH):
            batch = tuple(new[start : start + BATCH])
            answers = yield batch
            for trial, figures in zip(batch, answers, strict=True):
                self.known.setdefault(trial.candidate, {})[trial.run, trial.seed] = figures
                self.counts.simulations += 1
                self.counts.full += figures.finished

    def _seeds(self, wanted: Sequence[Candidate], seeds: int | None = None) -> Talk:
        """Every seed on every run, for those that came to their end so far; ``seeds``: None: as many as are shown."""
        yield from self._ask(
            [
                Trial(one, run, seed)
                for one in wanted
                if self._finished(one)
                for run in self.runs
                for seed in range(self.terms.demand.seeds if seeds is None else seeds)
            ]
        )

    # ----------------------------------------------------------------------------------------------- what is known

    def _possible(self, one: Candidate) -> bool:
        return all(self.floors(one, run) is not None for run in self.runs)

    def _slowest(self, run: int, seed: int) -> Millis:
        """When a simulation is stopped whatever it is."""
        allowed = max(self.terms.slowest, 1.0 + self.terms.demand.within)
        return int(self.base[run, seed].runtime_ms * allowed)

    def _beaten(self, run: int) -> Callable[[float], Millis]:
        """For a price: the least time for which somebody is known on this run who costs no more."""
        known = [figures[run, 0] for one, figures in self.known.items() if (run, 0) in figures and one not in self.out]
        finished = sorted((one.price, one.runtime_ms) for one in known if one.finished)

        def least(price: float) -> Millis:
            return min((time for cost, time in finished if cost <= price), default=2**62)

        return least

    def _sort_out(self, tried: Iterable[Candidate]) -> None:
        for one in tried:
            if one not in self.out and not self._finished(one):
                self.out.add(one)
                self.counts.stopped += 1

    def _finished(self, one: Candidate) -> bool:
        return all(figures.finished for (_, seed), figures in self.known[one].items() if seed == 0)

    def _alive(self) -> list[Candidate]:
        """What was simulated and not sorted out, in order."""
        return [one for one in self.known if one not in self.out]

    def _sum(self, one: Candidate, runs: Sequence[int]) -> ParetoPoint:
        figures = [self.known[one][run, 0] for run in runs]
        return ParetoPoint(fsum(each.runtime_ms for each in figures), fsum(each.price for each in figures))

    def _row(self, one: Candidate) -> Row:
        return Row(one, dict(self.known[one]))

    def _rows(self) -> list[Row]:
        """What is known with the recorded luck on every run."""
        return [self._row(one) for one in self._alive() if all((run, 0) in self.known[one] for run in self.runs)]
