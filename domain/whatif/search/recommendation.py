"""Which config to recommend: the cheapest that holds a bound of time on every run, with the model's own error against it.

A ``Row`` is what is known of a config: for each run and seed its run time and its price. Each is compared with the config
that the run had (the row ``base``), on the same run and seed, so that both meet the same luck. A config *holds* the bound
``within`` when on no run and with no seed

    time / time as it ran * (1 + the own error of run time on that run)  >  1 + within

so a bound that is tighter than the model's own error can only be held by a config that is faster than what there was. Its
*saving* is 1 - price / price as it ran, both summed over the runs, in the seed that saves least; it is *worth* changing
for when it exceeds both what the user calls worth it and the model's own error (of the price, weighed by what the runs
cost): a threshold smaller than the own error cannot be told from the model's mistakes. A bound below zero asks for speed:
then the cheapest that is so much faster is the answer, whatever it costs.

Of the configs that hold the bound and are worth it the cheapest is recommended (price with the recorded luck, seed 0,
summed over the runs; of equals the faster, then the one that changes least). With a wider bound the answer never costs more,
and the order of runs and rows does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import fsum
from typing import NamedTuple, TypeAlias

from podtide.domain.base.units import Millis
from podtide.domain.whatif.search.pareto import ParetoPoint
from podtide.domain.whatif.search.space import Candidate

RunSeed: TypeAlias = tuple[int, int]
"""A run (its place) and a seed."""


class Figures(NamedTuple):
    """What came of one simulation. ``finished``: False when it was stopped, or never came to its end."""

    runtime_ms: Millis
    price: float
    finished: bool = True


class Miss(NamedTuple):
    """The model's own error on a run, relative, of either sign: of the run time and of the price."""

    runtime: float = 0.0
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A config and what is known of it."""

    candidate: Candidate
    figures: Mapping[RunSeed, Figures]

    def point(self, runs: int) -> ParetoPoint:
        """Run time (ms) and price with the recorded luck, summed over all runs; each run has to be known."""
        figures = [self.figures[run, 0] for run in range(runs)]
        return ParetoPoint(fsum(one.runtime_ms for one in figures), fsum(one.price for one in figures))


@dataclass(frozen=True, slots=True)
class TuneDemand:
    """What is asked of a recommendation. ``within``: 0.1 lets it take ten percent longer, -0.1 asks for ten percent less;
    ``worth``: the least saving; ``misses``: the own error on each run; ``seeds``: how many have to be known."""

    within: float
    worth: float
    misses: tuple[Miss, ...]
    seeds: int = 1

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.misses)


class Reason(Enum):
    """Why a config is recommended, or none."""

    SAVES = "saves"
    FASTER = "faster"
    """It was asked for speed, and this is the cheapest that is fast enough."""
    NOTHING_CHEAPER = "nothing cheaper"
    """No config that was tried is cheaper and holds the bound."""
    TOO_LITTLE = "too little"
    """The best saves less than is worth it."""
    OWN_ERROR = "own error"
    """The best saves less than the model's own error."""
    NOTHING_FAST_ENOUGH = "nothing fast enough"


class TuneVerdict(NamedTuple):
    """``row``: what is recommended, or what came nearest; ``saving``: its share of the price with the recorded luck,
    ``least``: with the worst; ``longer``: the worst relative change of run time over runs and seeds, own error left out;
    ``error``: the own error of the price over all runs."""

    reason: Reason
    row: Row | None
    saving: float = 0.0
    least: float = 0.0
    longer: float = 0.0
    error: float = 0.0

    @property
    def recommended(self) -> Row | None:
        """The row, if it is recommended."""
        return self.row if self.reason in (Reason.SAVES, Reason.FASTER) else None


def holds(row: Row, base: Row, demand: TuneDemand) -> bool:
    """Whether nothing that is known of the config breaks the bound of time."""
    for (run, seed), one in row.figures.items():
        if not one.finished:
            return False
        allowed = (1.0 + demand.within) * base.figures[run, seed].runtime_ms
        if one.runtime_ms * (1.0 + abs(demand.misses[run].runtime)) > allowed:
            return False
    return True


def longer(row: Row, base: Row) -> float:
    """The worst relative change of run time over what is known: 0.05 is five percent longer."""
    return max(one.runtime_ms / max(1, base.figures[key].runtime_ms) for key, one in row.figures.items()) - 1.0


def saving(row: Row, base: Row, demand: TuneDemand, seed: int = 0) -> float:
    """The share of the price, over all runs, that the config saves with this seed; below zero: it costs more."""
    was = fsum(base.figures[run, seed].price for run in range(demand.runs))
    takes = fsum(row.figures[run, seed].price for run in range(demand.runs))
    return 0.0 if was <= 0 else 1.0 - takes / was


def least_saving(row: Row, base: Row, demand: TuneDemand) -> float:
    """The same with the seed, of those that are known for all runs, that saves least."""
    known = [seed for seed in range(demand.seeds) if all((run, seed) in row.figures for run in range(demand.runs))]
    return min(saving(row, base, demand, seed) for seed in known)


def own_error(base: Row, demand: TuneDemand) -> float:
    """The model's error of the price, weighed by what the runs cost."""
    was = fsum(base.figures[run, 0].price for run in range(demand.runs))
    missed = fsum(base.figures[run, 0].price * abs(miss.price) for run, miss in enumerate(demand.misses))
    return 0.0 if was <= 0 else missed / was


def order(row: Row, runs: int) -> tuple[float, float, int, str]:
    """By price, then time, then what it changes."""
    point = row.point(runs)
    return point.price, point.time, len(row.candidate.changes), row.candidate.name


def confirmed(row: Row, demand: TuneDemand) -> bool:
    """Whether every run is known with every seed."""
    return all((run, seed) in row.figures for run in range(demand.runs) for seed in range(demand.seeds))


def verdict(rows: Iterable[Row], base: Row, demand: TuneDemand) -> TuneVerdict:
    """What to recommend of these, by all that is known; each row is known for every run with seed 0.

    An answer whose row is not ``confirmed`` may fall with the seeds that are missing.
    """
    ranked: Sequence[Row] = sorted(
        (row for row in rows if not row.candidate.as_ran), key=lambda row: order(row, demand.runs)
    )
    fast = [row for row in ranked if holds(row, base, demand)]
    error = own_error(base, demand)

    def about(reason: Reason, row: Row) -> TuneVerdict:
        least = least_saving(row, base, demand)
        return TuneVerdict(reason, row, saving(row, base, demand), least, longer(row, base), error)

    if demand.within < 0:
        return about(Reason.FASTER, fast[0]) if fast else TuneVerdict(Reason.NOTHING_FAST_ENOUGH, None, error=error)
    cheaper = [row for row in fast if least_saving(row, base, demand) > 0]
    for row in cheaper:
        if least_saving(row, base, demand) > max(demand.worth, error):
            return about(Reason.SAVES, row)
    if not cheaper:
        return TuneVerdict(Reason.NOTHING_CHEAPER, None, error=error)
    return about(Reason.OWN_ERROR if error >= demand.worth else Reason.TOO_LITTLE, cheaper[0])
