"""One application under two configs: what each takes, what that changes, and which decisions differ.

Both are simulated with the same seeds, so that they meet the same luck; a ``Sum`` of a side is the mean over its seeds. A
*change* is candidate over base minus one. Where the base has nothing a share says nothing: no change where the candidate has
nothing either, infinite otherwise.

Decisions are compared as what was decided, not when: two sides that raise the target by the same steps a moment apart
decide the same. What one side decides and the other does not, as often, counts as differing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import fsum, inf
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.rerun.outcome import Decision, RerunOutcome
from podtide.domain.rerun.plan import Plan
from podtide.domain.whatif.bill.run_bill import cost_of
from podtide.domain.whatif.prediction import CERTAIN, Certainty, Factors
from podtide.domain.whatif.prices import Prices, usage_of


class Metric(Enum):
    """What is compared. Times are seconds, money is in the currency of the prices."""

    RUNTIME = "runtime"
    EXECUTOR_SECONDS = "executor_seconds"
    BILLED_SECONDS = "billed_seconds"
    CORE_HOURS = "core_hours"
    GB_HOURS = "gb_hours"
    COST = "cost"
    PEAK = "peak_executors"
    REQUESTS = "requests"
    WAITED = "waited"


Sums: TypeAlias = Mapping[Metric, float]
"""What a side takes; without prices there is no cost in it."""

_SURE: Final = frozenset({Metric.PEAK, Metric.REQUESTS, Metric.WAITED})
"""No truth says how far forecasts of these are off: they count as they are."""

LARGEST: Final = frozenset({Metric.PEAK})
"""Of several applications the largest counts; everything else is added up."""


class DecisionsCompared(NamedTuple):
    """How many decisions each side took, how many of them the other did not, and the first place where they part."""

    base: int
    candidate: int
    differing: int
    first: tuple[Decision | None, Decision | None] | None = None


def taken(outcome: RerunOutcome, plan: Plan, prices: Prices | None) -> dict[Metric, float]:
    """What one run takes."""
    used = usage_of(outcome, plan.shapes)
    sums = {
        Metric.RUNTIME: outcome.runtime_ms / 1000,
        Metric.EXECUTOR_SECONDS: outcome.executor_ms / 1000,
        Metric.BILLED_SECONDS: outcome.billed_ms / 1000,
        Metric.CORE_HOURS: used.core_hours,
        Metric.GB_HOURS: used.gb_hours,
        Metric.PEAK: float(outcome.peak_executors),
        Metric.REQUESTS: float(outcome.requests),
        Metric.WAITED: outcome.waited_ms / 1000,
    }
    if prices is not None:
        sums[Metric.COST] = cost_of(outcome, plan, prices)
    return sums


def factors_of(metric: Metric, certainty: Certainty) -> Factors:
    """How sure the forecast of a metric is: what is paid for goes with the executor-seconds."""
    if metric is Metric.RUNTIME:
        return certainty.runtime
    return CERTAIN if metric in _SURE else certainty.executor_seconds


def mean(sums: Sequence[Sums]) -> dict[Metric, float]:
    """The mean of at least one."""
    return {metric: fsum(one[metric] for one in sums) / len(sums) for metric in Metric if metric in sums[0]}


def total(sums: Iterable[Sums]) -> dict[Metric, float]:
    """Over several applications; {} over none."""
    listed = list(sums)
    if not listed:
        return {}
    return {
        metric: max(one[metric] for one in listed) if metric in LARGEST else fsum(one[metric] for one in listed)
        for metric in Metric
        if metric in listed[0]
    }


def share(base: float, candidate: float) -> float:
    """The change as a share of the base; infinite where something came of nothing."""
    if base == 0:
        return 0.0 if candidate == 0 else inf
    return candidate / base - 1.0


def decisions_compared(base: Sequence[Decision], candidate: Sequence[Decision]) -> DecisionsCompared:
    """Which decisions differ, whenever they were taken."""
    counts, others = Counter(map(_what, base)), Counter(map(_what, candidate))
    both = (counts & others).total()
    first = next(
        (place for place, (one, other) in enumerate(zip(base, candidate, strict=False)) if _what(one) != _what(other)),
        min(len(base), len(candidate)),
    )
    parted = None
    if first < max(len(base), len(candidate)):
        parted = (base[first] if first < len(base) else None, candidate[first] if first < len(candidate) else None)
    return DecisionsCompared(len(base), len(candidate), len(base) + len(candidate) - 2 * both, parted)


def _what(decision: Decision) -> tuple[str, str, int, int, int, int]:
    return (
        decision.kind,
        decision.cause,
        decision.profile,
        decision.before,
        decision.after,
        len(decision.executors),
    )
