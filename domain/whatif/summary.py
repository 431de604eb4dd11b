"""From runs again to answers: the figures of a variant over several seeds, its ranges, and the model's own error.

A variant is run once for each seed: the same application, other luck. The *typical* run speaks for all of them: the one
whose run time and executor-seconds lie nearest to the means of both. It is a run that could have happened, so its ledger
sums to its bill and its curve belongs to its figures, which means of each figure by itself would not. Means and not
medians: where chance makes two kinds of runs (which of two jobs is served first), the median is a run of the more frequent
kind, and the mean lies between both.

A range is the 90% prediction interval around the typical run (``whatif.prediction``).

The own error compares the log's own config, run again, with what the log says: run time, executor-seconds, the peak, and
the curve of running executors: the mean absolute difference over the longer of both runs, over the recorded
executor-seconds (0: the same curve; 1: as much difference as there were executors). Seed 0 has no part in it: it meets the
recorded luck again, and would be right for that reason alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from podtide.domain.recorded.application import Application
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan, Variant
from podtide.domain.whatif.prediction import SURE, Amounts, Certainty, ChangeKind, Quantity, Range

MAX_ERROR: Final = 0.25
"""The own error beyond which the model does not fit, unless somebody says otherwise."""

SEEDS: Final = 5
"""How many seeds a variant is run with, unless somebody says otherwise; the first is 0, the recorded luck."""

OWN_SEEDS: Final = 5
"""How many seeds the log's own config is run with at least, for its error: the recorded luck and others."""


class OwnError(NamedTuple):
    """What the model gets wrong about the run that the log tells of.

    ``runtime``, ``executor_seconds``: (simulated - recorded) / recorded; ``peak_executors``: simulated - recorded;
    ``curve``: as the module says, never negative.
    """

    runtime: float = 0.0
    executor_seconds: float = 0.0
    peak_executors: int = 0
    curve: float = 0.0

    @property
    def worst(self) -> float:
        """The larger of the two relative errors that ``--max-error`` bounds."""
        return max(abs(self.runtime), abs(self.executor_seconds))

    @property
    def shares(self) -> Amounts:
        """The two relative errors by quantity."""
        return {Quantity.RUNTIME: self.runtime, Quantity.EXECUTOR_SECONDS: self.executor_seconds}


@dataclass(frozen=True, slots=True)
class VariantAnswer:
    """What comes of a variant. ``outcomes``: by seed, in order, never empty; the ``typical`` one is the one to show.

    ``change``: what it changes of the run that is known; ``certainty``: how sure its figures are for that reason.
    ``runtime_ms``, ``executor_ms``, ``billed_ms``: 90% prediction intervals of real runs.
    """

    variant: Variant
    plan: Plan
    outcomes: tuple[RerunOutcome, ...]
    typical: RerunOutcome
    change: ChangeKind = ChangeKind.NOTHING
    certainty: Certainty = SURE

    @property
    def runtime_ms(self) -> Range:
        """Of the run time."""
        return self.certainty.runtime.around(self.typical.runtime_ms)

    @property
    def executor_ms(self) -> Range:
        """Of the executor-seconds."""
        return self.certainty.executor_seconds.around(self.typical.executor_ms)

    @property
    def billed_ms(self) -> Range:
        """Of what is billed."""
        return self.certainty.executor_seconds.around(self.typical.billed_ms)

    @property
    def idle_share(self) -> float:
        """The share of the time that executors offered to tasks in which no task ran."""
        offered = self.typical.slot_ms
        return 0.0 if offered <= 0 else min(1.0, max(0.0, 1.0 - self.typical.task_ms / offered))

    @property
    def unfinished(self) -> str | None:
        """Why it did not come to its end, with the seed for which it did not; None where it always did."""
        return next((one.unfinished for one in (self.typical, *self.outcomes) if one.unfinished is not None), None)


def typical(outcomes: Sequence[RerunOutcome]) -> RerunOutcome:
    """The run nearest to the means of run time and executor-seconds; of equals the first. At least one."""
    runtime = fmean(one.runtime_ms for one in outcomes)
    executors = fmean(one.executor_ms for one in outcomes)

    def distance(one: RerunOutcome) -> float:
        return abs(one.runtime_ms - runtime) / max(1.0, runtime) + abs(one.executor_ms - executors) / max(
            1.0, executors
        )

    return min(outcomes, key=distance)


def answer(variant: Variant, plan: Plan, outcomes: Sequence[RerunOutcome]) -> VariantAnswer:
    """The answer that these runs (by seed, at least one) give, before it is known how sure it is."""
    return VariantAnswer(variant, plan, tuple(outcomes), typical(outcomes))


def own_typical(outcomes: Sequence[RerunOutcome]) -> RerunOutcome:
    """The typical one of the log's own config, run again (by seed from 0, at least one): without the recorded luck, where
    there are others."""
    return typical(outcomes[1:] or outcomes)


def own_error(application: Application, outcome: RerunOutcome) -> OwnError:
    """How far the log's own config, run again, is from what the log says; ``curve`` needs an outcome that was watched."""
    return OwnError(
        _relative(outcome.runtime_ms, application.runtime_ms),
        _relative(outcome.executor_ms, application.executor_ms),
        outcome.peak_executors - application.peak_executors,
        _curve_error(application, outcome),
    )


def _relative(simulated: float, recorded: float) -> float:
    """The signed relative error; 1 where something came of what was nothing."""
    if recorded <= 0:
        return 0.0 if simulated <= 0 else 1.0
    return (simulated - recorded) / recorded


def _curve_error(application: Application, outcome: RerunOutcome) -> float:
    """The area between both curves of running executors, over that under the recorded one."""
    if not outcome.curve or application.executor_ms <= 0:
        return 0.0
    end = max(application.runtime_ms, outcome.runtime_ms)
    recorded = [*application.executors_over_time(), (application.runtime_ms, 0)]
    simulated = [(point.at_ms, point.running) for point in outcome.curve]
    simulated.append((outcome.runtime_ms, 0))
    moments = sorted({at for at, _ in recorded} | {at for at, _ in simulated} | {end})
    between, was, would, first, second, before = 0.0, 0, 0, 0, 0, moments[0]
    for now in moments:
        between += abs(was - would) * max(0, min(now, end) - before)
        before = min(now, end)
        while first < len(recorded) and recorded[first][0] <= now:
            was, first = recorded[first][1], first + 1
        while second < len(simulated) and simulated[second][0] <= now:
            would, second = simulated[second][1], second + 1
    return between / application.executor_ms
