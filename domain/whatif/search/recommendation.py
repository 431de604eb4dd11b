"""Which config to recommend: the cheapest that holds a bound of time on every run, in nine of ten real runs.

A ``Row`` is what is known of a config: for each run and seed its run time and its price, and what nine of ten real runs
would stay below (``whatif.prediction``). Each run is compared with the config that it had (the row ``base``); of several
seeds the median speaks. A config *holds* the bound ``within`` when on every run

    time that nine of ten of its runs stay below / time that nine of ten runs as it ran stay below  <=  1 + within

where a change never makes a run surer than no change. Luck, which both meet, is no reason against a config.

Its *saving* is 1 - price / price as it ran, both summed over the runs; its *least* saving the same with the price that
nine of ten runs stay below. It is *worth* changing for when the least saving exceeds zero and the saving what the user calls
worth it. A bound below zero asks for speed: then the cheapest that is so much faster is the answer, whatever it costs.

Of the configs that hold the bound and are worth it the cheapest is recommended (price with the recorded luck, seed 0,
summed over the runs; of equals the faster, then the one that changes least). With a wider bound the answer never costs more,
and the order of runs and rows does not matter.

The cheapest may wait long for its last percent. The *knee* stands beside it: of the configs that hold the bound 0 (no slower
than it ran), keep ``NEARLY`` of the saving and are faster than the recommended one by ``FASTER`` at least, the one with the
least product of time and price; there, a percent of the one costs a percent of the other. Beside a recommended config
that is no slower than it ran either it has to have the smaller product.

Where several answers are asked for (``worth_trying``), a config is one that is worth it as above, or that is faster by what
is worth a change in nine of ten runs, none of which takes longer than the run that is known, and that costs at most
``within`` more in nine of ten. The one with the least product of time and price comes
first; of configs that come to the same, or of which one changes all that the other does, only the first is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import fsum, prod
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import Millis
from podtide.domain.whatif.search.pareto import ParetoPoint
from podtide.domain.whatif.search.space import Candidate

SLACK: Final = 1e-9
"""Relative: what arithmetic may be off by and still be equal."""

STATIC_COUNT: Final = frozenset({"static"})
"""What stands for the settings of a config that is a static count."""

NEARLY: Final = 0.8
"""Of the recommended config's saving: what the knee keeps at least."""

FASTER: Final = 0.02
"""By how much the knee is faster at least, else it is not worth a second name."""

RunSeed: TypeAlias = tuple[int, int]
"""A run (its place) and a seed."""


class Figures(NamedTuple):
    """What came of one simulation. ``finished``: False when it was stopped, or never came to its end. ``slower``,
    ``dearer``: by what factor nine of ten real runs stay below its run time and its price."""

    runtime_ms: Millis
    price: float
    finished: bool = True
    slower: float = 1.0
    dearer: float = 1.0


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
    ``worth``: the least saving; ``runs``: how many there are; ``seeds``: how many have to be known of what is shown,
    ``confirming``: of what is recommended; ``answers``: how many configs that are worth trying are wanted, each with
    settings of its own (0: the recommended one alone)."""

    within: float
    worth: float
    runs: int = 1
    seeds: int = 1
    confirming: int = 1
    answers: int = 0


class Reason(Enum):
    """Why a config is recommended, or none."""

    SAVES = "saves"
    FASTER = "faster"
    """It was asked for speed, and this is the cheapest that is fast enough."""
    NOTHING_CHEAPER = "nothing cheaper"
    """No config that was tried is cheaper and holds the bound."""
    TOO_LITTLE = "too little"
    """The best saves less than is worth it."""
    UNSURE = "unsure"
    """The best would save enough, but not in nine of ten runs."""
    NOTHING_FAST_ENOUGH = "nothing fast enough"


class TuneVerdict(NamedTuple):
    """``row``: what is recommended, or what came nearest; ``saving``: its share of the price, ``least``: what nine of ten
    runs save at least; ``longer``: the worst relative change of run time over the runs, ``longest``: what nine of ten runs
    stay below."""

    reason: Reason
    row: Row | None
    saving: float = 0.0
    least: float = 0.0
    longer: float = 0.0
    longest: float = 0.0

    @property
    def recommended(self) -> Row | None:
        """The row, if it is recommended."""
        return self.row if self.reason in (Reason.SAVES, Reason.FASTER) else None


def holds(row: Row, base: Row, demand: TuneDemand) -> bool:
    """Whether the config comes to its end, and nine of ten runs within the bound of time."""
    if not all(one.finished for one in row.figures.values()):
        return False
    worst = max(
        median(
            one.runtime_ms * max(1.0, one.slower / was.slower) / max(1, was.runtime_ms)
            for one, was in _with_same_luck(row, base, run)
        )
        for run in range(demand.runs)
    )
    return worst <= (1.0 + demand.within) * (1.0 + SLACK)


def affordable(row: Row, base: Row, demand: TuneDemand) -> bool:
    """The same of the price: whether nine of ten runs cost at most ``within`` more."""
    worst = max(
        median(
            one.price * max(1.0, one.dearer / was.dearer) / was.price if was.price > 0 else 1.0
            for one, was in _with_same_luck(row, base, run)
        )
        for run in range(demand.runs)
    )
    return worst <= (1.0 + demand.within) * (1.0 + SLACK)


def longer(row: Row, base: Row, demand: TuneDemand) -> float:
    """The worst relative change of run time over the runs: 0.05 is five percent longer."""
    return max(times(row, base, run) for run in range(demand.runs)) - 1.0


def longest(row: Row, base: Row, demand: TuneDemand) -> float:
    """The same of the time that nine of ten runs stay below, beside the run that is known."""
    return max(latest(row, base, run) for run in range(demand.runs)) - 1.0


def saving(row: Row, base: Row, demand: TuneDemand) -> float:
    """The share of the price, over all runs, that the config saves; below zero: it costs more."""
    return _saved(row, base, demand, _price)


def least_saving(row: Row, base: Row, demand: TuneDemand) -> float:
    """What nine of ten runs save at least."""
    return _saved(row, base, demand, _dearest)


def times(row: Row, base: Row, run: int) -> float:
    """How many times as long as it ran the config takes on a run."""
    return _times(row, base, run, lambda one: one.runtime_ms)


def latest(row: Row, base: Row, run: int) -> float:
    """The same of the time that nine of ten runs stay below."""
    return _times(row, base, run, lambda one: one.runtime_ms * one.slower)


def prices(row: Row, base: Row, run: int) -> tuple[float, float]:
    """The price of a run as it ran, and with the config."""
    return _prices(row, base, run, _price)


def _times(row: Row, base: Row, run: int, of: Callable[[Figures], float]) -> float:
    return median(of(one) / max(1, was.runtime_ms) for one, was in _with_same_luck(row, base, run))


def _prices(row: Row, base: Row, run: int, of: Callable[[Figures], float]) -> tuple[float, float]:
    pairs = _with_same_luck(row, base, run)
    return median(was.price for _, was in pairs), median(of(one) for one, _ in pairs)


def _saved(row: Row, base: Row, demand: TuneDemand, of: Callable[[Figures], float]) -> float:
    by_run = [_prices(row, base, run, of) for run in range(demand.runs)]
    was, takes = (fsum(column) for column in zip(*by_run, strict=True))
    return 0.0 if was <= 0 else 1.0 - takes / was


def _with_same_luck(row: Row, base: Row, run: int) -> list[tuple[Figures, Figures]]:
    """What is known of a run, seed by seed, beside the same as it ran."""
    return [(one, base.figures[key]) for key, one in row.figures.items() if key[0] == run]


def _price(one: Figures) -> float:
    return one.price


def _dearest(one: Figures) -> float:
    return one.price * one.dearer


def order(row: Row, runs: int) -> tuple[float, float, int, str]:
    """By price, then time, then what it changes."""
    point = row.point(runs)
    return point.price, point.time, len(row.candidate.changes), row.candidate.name


def confirmed(row: Row, demand: TuneDemand) -> bool:
    """Whether every run is known with every seed that confirms an answer."""
    return all((run, seed) in row.figures for run in range(demand.runs) for seed in range(demand.confirming))


def verdict(rows: Iterable[Row], base: Row, demand: TuneDemand) -> TuneVerdict:
    """What to recommend of these, by all that is known; each row is known for every run with seed 0.

    An answer whose row is not ``confirmed`` may fall with the seeds that are missing.
    """
    fast = [row for row in _ranked(rows, demand) if holds(row, base, demand)]
    about = partial(_about, base=base, demand=demand)
    if demand.within < 0:
        return about(Reason.FASTER, fast[0]) if fast else TuneVerdict(Reason.NOTHING_FAST_ENOUGH, None)
    cheaper = [row for row in fast if saving(row, base, demand) > 0]
    worth = [row for row in cheaper if saving(row, base, demand) >= demand.worth]
    for row in worth:
        if least_saving(row, base, demand) > 0:
            return about(Reason.SAVES, row)
    if not cheaper:
        return TuneVerdict(Reason.NOTHING_CHEAPER, None)
    return about(Reason.UNSURE, worth[0]) if worth else about(Reason.TOO_LITTLE, cheaper[0])


def knee(rows: Iterable[Row], base: Row, demand: TuneDemand, picked: TuneVerdict) -> TuneVerdict | None:
    """The config that stands beside ``picked``, the recommended one (see the module); None where there is none. A row that
    is not ``confirmed`` may fall."""
    if picked.reason is not Reason.SAVES or picked.row is None:
        return None
    no_slower = replace(demand, within=0.0)
    kept = max(demand.worth, NEARLY * picked.saving)
    point = picked.row.point(demand.runs)
    near = [
        row
        for row in _ranked(rows, demand)
        if row.point(demand.runs).time <= (1.0 - FASTER) * point.time
        and saving(row, base, demand) >= kept
        and least_saving(row, base, demand) > 0
        and holds(row, base, no_slower)
    ]
    if not near:
        return None
    best = min(near, key=lambda row: prod(row.point(demand.runs)))
    if holds(picked.row, base, no_slower) and prod(best.point(demand.runs)) >= prod(point):
        return None
    return _about(Reason.SAVES, best, base, demand)


def worth_trying(rows: Iterable[Row], base: Row, demand: TuneDemand) -> tuple[TuneVerdict, ...]:
    """The ``demand.answers`` configs that are most worth trying (see the module), the best first. A row that is not
    ``confirmed`` may fall."""
    faster = replace(demand, within=-demand.worth)
    best: list[TuneVerdict] = []
    points: dict[frozenset[str], ParetoPoint] = {}
    for row in sorted(_ranked(rows, demand), key=lambda row: prod(row.point(demand.runs))):
        worth = saving(row, base, demand) >= demand.worth and least_saving(row, base, demand) > 0
        if worth and holds(row, base, demand):
            reason = Reason.SAVES
        elif holds(row, base, faster) and longest(row, base, demand) < 0 and affordable(row, base, demand):
            reason = Reason.FASTER
        else:
            continue
        setting = frozenset(key for key, _ in row.candidate.changes) or STATIC_COUNT
        point = row.point(demand.runs)
        if not any(known <= setting or setting <= known or same == point for known, same in points.items()):
            best.append(_about(reason, row, base, demand))
        points[setting] = point
    return tuple(best[: demand.answers])


def _ranked(rows: Iterable[Row], demand: TuneDemand) -> Sequence[Row]:
    return sorted((row for row in rows if not row.candidate.as_ran), key=lambda row: order(row, demand.runs))


def _about(reason: Reason, row: Row, base: Row, demand: TuneDemand) -> TuneVerdict:
    shares = (one(row, base, demand) for one in (saving, least_saving, longer, longest))
    return TuneVerdict(reason, row, *shares)
