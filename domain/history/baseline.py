"""What is normal for an application, learned from its runs: one measure (run time, money) of one application at a time.

A run is compared with the median of the last healthy runs. How far a healthy run may be from it is learned, too: the spread
is the median absolute deviation of the logarithms (noise of run times is a factor), mixed with what is known of all
applications before their first run. Two real runs of one config differ by 1 to 13% (docs/truth.md), which is a standard
deviation of about ``PRIOR``; it counts as much as ``PRIOR_RUNS`` runs of the application's own.

Two things are no noise: a run that is ``FAR`` spreads from the median, and ``STEP`` runs in a row that are ``NEAR`` spreads
from it on the same side. Either is reported, once: while the application stays on that side, nothing more is said. After
``STEP`` such runs the level has changed, and these runs are the new baseline. If a run is normal again before that, runs
that were far were outliers and do not count, those that were not far were noise and count. An outlier is remembered for
``RUNS_MAX`` runs: one like it, or less far, is not reported again (an application may have its Mondays).

An application that becomes faster by a step has a new baseline in the same way, so that the way back is a regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import exp, log, sqrt
from statistics import median
from typing import Final, NamedTuple

RUNS_MAX: Final = 20
"""Healthy runs that are remembered."""

RUNS_MIN: Final = 3
"""Healthy runs without which nothing is judged."""

STEP: Final = 3
"""Runs in a row, apart from the others on one side, that are a new level."""

FAR: Final = 4.0
NEAR: Final = 2.0
"""Spreads from the median."""

PRIOR: Final = 0.06
"""Standard deviation of the logarithm of a run time, of applications in general."""

PRIOR_RUNS: Final = 4.0
_MAD: Final = 1.4826  # of the normal distribution: standard deviation over median absolute deviation
_MEDIAN: Final = 1.57  # pi/2: variance of a median over that of a mean


class Judgement(Enum):
    """What a run is, next to the runs before it."""

    LEARNING = "learning"
    """Too few runs are known."""
    NORMAL = "normal"
    WORSE = "worse"
    """To be reported: it took or cost more than noise explains."""
    BETTER = "better"
    STILL_WORSE = "still worse"
    """As the run before it, or another one of late, which was reported."""
    STILL_BETTER = "still better"


class RunSample(NamedTuple):
    """A run and its measure, above 0."""

    run: int
    value: float


class Outlier(NamedTuple):
    """A value that was far from the median, and how many runs had been judged before it."""

    at: int
    value: float


@dataclass(frozen=True, slots=True)
class LearnedBaseline:
    """What is known of one measure. ``unit``: what it is counted in; values of another unit are not comparable.

    ``healthy``: the last ones, in order; ``apart``: the last runs in a row that were ``NEAR`` spreads or more from the
    median, all on one side; ``reported``: whether that was said; ``outliers``: of the last ``RUNS_MAX`` runs; ``count``: of
    runs that were judged.
    """

    unit: str
    healthy: tuple[RunSample, ...] = ()
    apart: tuple[RunSample, ...] = ()
    reported: bool = False
    outliers: tuple[Outlier, ...] = ()
    count: int = 0


class Judged(NamedTuple):
    """``normal``: the median; ``limit``: a share of it, beyond which one run alone is no noise; ``runs``: how many are in
    it; ``typical``: the healthy run nearest to it; ``new_level``: this run made the last few the new baseline."""

    judgement: Judgement
    normal: float = 0.0
    limit: float = 0.0
    runs: int = 0
    typical: int | None = None
    new_level: bool = False


def judge(known: LearnedBaseline, sample: RunSample, unit: str, prior: float = PRIOR) -> tuple[LearnedBaseline, Judged]:
    """Judge the next run and learn from it. Runs come in the order of time. ``prior``: as ``PRIOR``, of this measure."""
    assert sample.value > 0
    if unit != known.unit:
        known = LearnedBaseline(unit)
    count = known.count + 1
    known = replace(known, count=count, outliers=tuple(one for one in known.outliers if count - one.at < RUNS_MAX))
    if len(known.healthy) < RUNS_MIN:
        return _grown(known, (sample,)), Judged(Judgement.LEARNING, runs=len(known.healthy))
    normal, spread = _normal(known.healthy, prior)
    away = log(sample.value / normal) / spread
    typical = min(reversed(known.healthy), key=lambda one: abs(one.value - normal)).run
    limit = exp(FAR * spread) - 1.0

    def judged(judgement: Judgement, *, new_level: bool = False) -> Judged:
        return Judged(judgement, normal, limit, len(known.healthy), typical, new_level)

    noise = tuple(one for one in known.apart if abs(log(one.value / normal)) <= FAR * spread)
    if abs(away) <= NEAR:
        return _grown(known, (*noise, sample)), judged(Judgement.NORMAL)
    side = 1.0 if away > 0 else -1.0
    other_side = bool(known.apart) and (known.apart[-1].value > normal) != (away > 0)
    before = _grown(known, noise) if other_side else known
    apart = (*before.apart, sample)
    new_level, far = len(apart) >= STEP, abs(away) > FAR
    reported = before.reported
    if not reported and not far and not new_level:
        return replace(before, apart=apart), judged(Judgement.NORMAL)
    alike = (one for one in before.outliers if _side(one, normal) == side)
    # A new level is told in any case: what was like it was taken for an outlier.
    quiet = (
        not reported and not new_level and any(side * log(sample.value / one.value) <= NEAR * spread for one in alike)
    )
    if new_level:
        after = LearnedBaseline(unit, apart, count=before.count)
    else:
        outliers = (*before.outliers, Outlier(before.count, sample.value)) if far else before.outliers
        after = replace(before, apart=apart, reported=not quiet, outliers=outliers)
    reported = reported or quiet
    if away > 0:
        return after, judged(Judgement.STILL_WORSE if reported else Judgement.WORSE, new_level=new_level)
    return after, judged(Judgement.STILL_BETTER if reported else Judgement.BETTER, new_level=new_level)


def _side(one: Outlier, normal: float) -> float:
    return 1.0 if one.value > normal else -1.0


def _grown(known: LearnedBaseline, samples: Sequence[RunSample]) -> LearnedBaseline:
    return replace(known, healthy=(*known.healthy, *samples)[-RUNS_MAX:], apart=(), reported=False)


def _normal(samples: Sequence[RunSample], prior: float) -> tuple[float, float]:
    """The median, and the standard deviation of the logarithm of a healthy run's ratio to it."""
    normal = median([one.value for one in samples])
    own = _MAD * median([abs(log(one.value / normal)) for one in samples])
    runs = len(samples)
    variance = (PRIOR_RUNS * prior**2 + runs * own**2) / (PRIOR_RUNS + runs)
    return normal, sqrt(variance * (1.0 + _MEDIAN / runs))
