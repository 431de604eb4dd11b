"""Prediction intervals: how far a forecast may be from what a real run would take.

Seeds and the own error say little about that: the next run of the same config differs from the last, and another config
asks of the model what the log did not show. So an interval is made of what past forecasts of real runs were off. It is a
split conformal interval with normalised scores (Lei et al., "Distribution-free predictive inference for regression", 2018):

    score = ln(real / forecast) / scale        scale = base + starting * s + idle * i + distance * d + spread * p + own * e

The ``Difficulty`` of a forecast has what the scale is made of, ``Scale`` the coefficients, and ``Tails`` the quantiles of
the scores, for each ``ChangeKind``: what differs from the run that is known. ``calibration`` holds both, written by
scripts/calibrate.py from every pair of real runs. docs/explanation/model.md shows what the intervals hold on
applications that they were not made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, log
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan


class ChangeKind(Enum):
    """What a forecast changes of the run that is known: of several the last."""

    NOTHING = "nothing"
    """The same config once more."""
    COUNTS = "counts and timeouts"
    """Settings of dynamic allocation or of scheduling."""
    STATIC = "static"
    """With a fixed count instead of dynamic allocation, the other way round, or with another fixed count."""
    SHAPE = "shape"
    """Executors of other cores or memory."""
    MASTER = "master"
    """Another cluster manager."""


class Quantity(Enum):
    """What is forecast."""

    RUNTIME = "run time"
    EXECUTOR_SECONDS = "executor-seconds"


class Range(NamedTuple):
    """A range, both ends included."""

    low: float
    high: float


class Difficulty(NamedTuple):
    """What makes a forecast less sure; each is 0 or more.

    ``starting``: the share of the run time in which tasks waited for executors that were on their way; ``idle``: the share
    of the executors' time in which they ran nothing; ``distance``: between forecast and recorded run, as the size of the
    logarithm of their ratio; ``spread``: between the seeds, as the logarithm of highest over lowest; ``own``: the size
    of the own error.
    """

    starting: float = 0.0
    idle: float = 0.0
    distance: float = 0.0
    spread: float = 0.0
    own: float = 0.0


class Scale(NamedTuple):
    """The coefficients of a scale: the ``base``, then those of a ``Difficulty``."""

    base: float
    starting: float = 0.0
    idle: float = 0.0
    distance: float = 0.0
    spread: float = 0.0
    own: float = 0.0

    def of(self, difficulty: Difficulty) -> float:
        """The scale of a forecast, above 0."""
        return self.base + sum(weight * one for weight, one in zip(self[1:], difficulty, strict=True))


class Tails(NamedTuple):
    """Quantiles of the scores: nine of ten lie from ``low`` to ``high``, nine of ten above ``least``, nine of ten below
    ``most``."""

    low: float
    least: float
    most: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How scores are scaled, by quantity, and how they are distributed, by quantity and change."""

    scales: Mapping[Quantity, Scale]
    tails: Mapping[tuple[Quantity, ChangeKind], Tails]

    def factors(self, quantity: Quantity, change: ChangeKind, difficulty: Difficulty) -> Factors:
        """What a forecast has to be multiplied with for its interval and bounds."""
        scale = self.scales[quantity].of(difficulty)
        return Factors(*(exp(scale * one) for one in self.tails[quantity, change]))


class Factors(NamedTuple):
    """By what a forecast is multiplied: nine of ten real runs lie from ``low`` to ``high`` times the forecast, nine of ten
    above ``least`` times, nine of ten below ``most`` times."""

    low: float = 1.0
    least: float = 1.0
    most: float = 1.0
    high: float = 1.0

    def around(self, forecast: float) -> Range:
        """The 90% prediction interval of a forecast."""
        return Range(self.low * forecast, self.high * forecast)


CERTAIN: Final = Factors()
"""Of what is the same whatever happens."""


class Certainty(NamedTuple):
    """The factors of each quantity. What is billed, and what it costs, goes with the executor-seconds."""

    runtime: Factors = CERTAIN
    executor_seconds: Factors = CERTAIN


SURE: Final = Certainty()
"""Of what cannot differ."""


def change_of(plan: Plan, own: Plan) -> ChangeKind:
    """What a plan changes of that of the run that is known."""
    if _manager(plan) is not _manager(own):
        return ChangeKind.MASTER
    if plan.shapes != own.shapes:
        return ChangeKind.SHAPE
    if plan.dynamic is None or own.dynamic is None:
        same = plan.dynamic is own.dynamic and plan.static == own.static
        return _other_settings(plan, own) if same else ChangeKind.STATIC
    return _other_settings(plan, own)


def _manager(plan: Plan) -> str:
    return "kubernetes" if plan.kubernetes is not None else "yarn" if plan.yarn is not None else "plain"


def _other_settings(plan: Plan, own: Plan) -> ChangeKind:
    """Of plans that differ in no more than settings."""
    return ChangeKind.NOTHING if plan.conf == own.conf and plan.faults == own.faults else ChangeKind.COUNTS


Amounts: TypeAlias = Mapping[Quantity, float]
"""Of each quantity an amount in milliseconds, or a share of it."""


def amounts(of: Application | RerunOutcome) -> Amounts:
    """What a run took, in milliseconds."""
    return {Quantity.RUNTIME: of.runtime_ms, Quantity.EXECUTOR_SECONDS: of.executor_ms}


def difficulty(
    quantity: Quantity, outcomes: Sequence[RerunOutcome], typical: RerunOutcome, known: float, own: float
) -> Difficulty:
    """What makes the forecast of a quantity less sure. ``outcomes``: by seed, at least one; ``known``: what the run took
    that the forecast starts from (ms); ``own``: the own error of the quantity, of either sign."""
    by_seed = [amounts(one)[quantity] for one in outcomes]
    return Difficulty(
        starting=_share(typical.waiting.get(Limit.START_UP, 0.0), typical.runtime_ms),
        idle=_share(typical.executor_ms - typical.ledger.get(SpendCause.RUNNING, 0), typical.executor_ms),
        distance=abs(_log_ratio(amounts(typical)[quantity], known)),
        spread=_log_ratio(max(by_seed), min(by_seed)),
        own=abs(own),
    )


def certainty(
    calibration: Calibration,
    change: ChangeKind,
    outcomes: Sequence[RerunOutcome],
    typical: RerunOutcome,
    known: Amounts,
    own: Amounts,
) -> Certainty:
    """How sure a forecast is; arguments as of ``difficulty``, ``known`` and ``own`` by quantity."""
    return Certainty(
        *(
            calibration.factors(one, change, difficulty(one, outcomes, typical, known[one], own[one]))
            for one in Quantity
        )
    )


def _share(part: float, whole: float) -> float:
    return 0.0 if whole <= 0 else min(1.0, max(0.0, part / whole))


def _log_ratio(one: float, other: float) -> float:
    """ln(one / other); what is nothing counts as a millisecond."""
    return log(max(1.0, one) / max(1.0, other))
