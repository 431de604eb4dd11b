"""From runs again to answers: the figures of a variant over several seeds, its ranges, and the model's own error.

A variant is run once for each seed: the same application, other luck. The *typical* run speaks for all of them: the one
whose run time and executor-seconds lie nearest to the medians of both. It is a run that could have happened, so its ledger
sums to its bill and its curve belongs to its figures, which medians of each figure by itself would not.

A range covers all seeds, and is widened by the own error: what the model got wrong about the run that it knows, it may get
wrong about the one that it does not. With a relative error ``e`` (of either sign) the range goes from the lowest divided by
``1 + e`` to the highest multiplied by it, each quantity by its own error.

The own error compares the log's own config, run again, with what the log says: run time, executor-seconds, the peak, and
the curve of running executors: the mean absolute difference over the longer of both runs, over the recorded
executor-seconds (0: the same curve; 1: as much difference as there were executors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan, Variant

MAX_ERROR: Final = 0.25
"""The own error beyond which the model does not fit, unless somebody says otherwise."""

SEEDS: Final = 5
"""How many seeds a variant is run with, unless somebody says otherwise; the first is 0, the recorded luck."""


class Range(NamedTuple):
    """A range, both ends included."""

    low: float
    high: float

    def widened(self, error: float) -> Range:
        """With a relative error of either sign on both sides."""
        factor = 1.0 + abs(error)
        return Range(self.low / factor, self.high * factor)


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


@dataclass(frozen=True, slots=True)
class VariantAnswer:
    """What comes of a variant. ``outcomes``: by seed, in order, never empty; the ``typical`` one is the one to show.

    ``runtime_ms``, ``executor_ms``, ``billed_ms``: ranges over all seeds, widened by the own error.
    """

    variant: Variant
    plan: Plan
    outcomes: tuple[RerunOutcome, ...]
    typical: RerunOutcome
    runtime_ms: Range
    executor_ms: Range
    billed_ms: Range

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
    """The run nearest to the medians of run time and executor-seconds; of equals the first. At least one."""
    runtime = _median([one.runtime_ms for one in outcomes])
    executors = _median([one.executor_ms for one in outcomes])

    def distance(one: RerunOutcome) -> float:
        return abs(one.runtime_ms - runtime) / max(1.0, runtime) + abs(one.executor_ms - executors) / max(
            1.0, executors
        )

    return min(outcomes, key=distance)


def answer(
    variant: Variant, plan: Plan, outcomes: Sequence[RerunOutcome], error: OwnError | None = None
) -> VariantAnswer:
    """The answer that these runs (by seed, at least one) give; ``error``: the model's own, None before it is known."""
    error = OwnError() if error is None else error
    return VariantAnswer(
        variant,
        plan,
        tuple(outcomes),
        typical(outcomes),
        _span([one.runtime_ms for one in outcomes]).widened(error.runtime),
        _span([one.executor_ms for one in outcomes]).widened(error.executor_seconds),
        _span([one.billed_ms for one in outcomes]).widened(error.executor_seconds),
    )


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


def _median(values: Sequence[Millis]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _span(values: Sequence[Millis]) -> Range:
    return Range(min(values), max(values))
