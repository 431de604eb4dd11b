"""The parts of the document that need no variant: the ideal time, counts of executors, settings worth trying, troubles.

Lists are bounded and say how long they were. Durations are rounded to milliseconds, money to a millionth, as in the rest of
the document. A sentence about a setting says what nine of ten runs would show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from podtide.adapters.views.whatif.figures import MEASURES, change, percent
from podtide.adapters.views.whatif.overview_entries import (
    CountCurveEntry,
    FailedStageEntry,
    FailureReasonEntry,
    IdealEntry,
    OverviewEntry,
    PathStageEntry,
    PointEntry,
    SingleEntry,
    SkewEntry,
    Span,
    TrialEntry,
    TroublesEntry,
)
from podtide.domain.conf.redaction import Redaction
from podtide.domain.conf.scaling_config import MAX
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.critical_path import critical_path
from podtide.domain.recorded.failures import StageFailures
from podtide.domain.whatif.bill.run_bill import cost_factors, cost_of
from podtide.domain.whatif.prediction import Range
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.search.overview import Overview
from podtide.domain.whatif.search.recommendation import Reason, TuneVerdict
from podtide.domain.whatif.search.skew import SkewCost, skews
from podtide.domain.whatif.summary import VariantAnswer

PATH_MAX: Final = 200
STAGES_MAX: Final = 100
REASONS_MAX: Final = 50
STATIC: Final = "static"


def ideal_entry(application: Application) -> IdealEntry:
    """The critical path."""
    path = critical_path(application)
    return IdealEntry(
        runtime_s=_seconds(path.runtime_ms),
        tasks_s=_seconds(path.tasks_ms),
        driver_s=_seconds(path.driver_ms),
        after_s=_seconds(path.after_ms),
        path_stages=len(path.stages),
        path=tuple(
            PathStageEntry(
                one.stage.stage, one.stage.name, one.stage.tasks, _seconds(one.longest_ms), _seconds(one.driver_ms)
            )
            for one in path.stages[:PATH_MAX]
        ),
    )


def overview_entry(overview: Overview, redaction: Redaction, prices: Prices | None) -> OverviewEntry:
    """Counts of executors, and settings."""
    curves = ((STATIC, overview.statics), (MAX, overview.maxima))
    return OverviewEntry(
        single=_single(overview),
        curves=tuple(
            CountCurveEntry(setting=name, points=tuple(_point(one.executors, one.answer, prices) for one in points))
            for name, points in curves
            if len(points) > 1
        ),
        measure=overview.measure,
        trials=tuple(_trial(verdict, one, overview.measure, redaction, prices) for verdict, one in overview.trials),
        verdict=None if overview.trials else _nothing(overview),
        seeds=overview.seeds,
        simulations=overview.simulations,
        notes=overview.notes,
    )


def troubles_entry(application: Application, overview: Overview | None) -> TroublesEntry | None:
    """Stages with skew, retries and failures; None where there are none."""
    uneven = tuple(SkewCost(one) for one in skews(application)) if overview is None else overview.skews
    failed = _failed(application)
    if not uneven and not failed:
        return None
    totals: Counter[tuple[str, str]] = Counter()
    for one in application.failures:
        totals.update({(reason.reason, reason.detail): reason.times for reason in one.reasons})
    return TroublesEntry(
        skewed=tuple(
            SkewEntry(
                stage=one.stage.stage,
                name=one.stage.name,
                tasks=one.stage.tasks,
                longest_s=_seconds(one.longest_ms),
                median_s=_seconds(one.median_ms),
                costs_s=None if costs_ms is None else _seconds(costs_ms),
            )
            for one, costs_ms in uneven[:STAGES_MAX]
        ),
        skewed_stages=len(uneven),
        failed=tuple(failed[:STAGES_MAX]),
        failed_stages=len(failed),
        reasons=_reasons((*key, count) for key, count in totals.most_common(REASONS_MAX)),
    )


def _failed(application: Application) -> list[FailedStageEntry]:
    """Stages with failures or with work that was done again, the most first."""
    known = {one.stage: one for one in application.failures}
    found: dict[int, FailedStageEntry] = {}
    for stage in application.stages:
        if stage.stage in known or stage.attempts > 1 or stage.recomputed:
            failures = known.get(stage.stage, StageFailures(stage.stage, stage.name, stage.tasks, ()))
            found[stage.stage] = _failed_stage(failures, stage.attempts, stage.recomputed)
    for one in application.failures:
        found.setdefault(one.stage, _failed_stage(one, 1 + one.failed_attempts, 0))
    return sorted(found.values(), key=lambda one: (-one.failed_attempts, -one.tries, -one.recomputed, one.stage))


def _failed_stage(one: StageFailures, attempts: int, recomputed: int) -> FailedStageEntry:
    return FailedStageEntry(
        stage=one.stage,
        name=one.name,
        tasks=one.tasks,
        attempts=attempts,
        failed_attempts=one.failed_attempts,
        tries=one.tries,
        recomputed=recomputed,
        reasons=_reasons(one.reasons),
    )


def _reasons(reasons: Iterable[tuple[str, str, int]]) -> tuple[FailureReasonEntry, ...]:
    return tuple(FailureReasonEntry(*one) for one in reasons)


def _single(overview: Overview) -> SingleEntry:
    first = overview.statics[0] if overview.statics else None
    if first is None or first.executors != 1 or first.answer.unfinished is not None:
        return SingleEntry(how="bound", runtime_s=_seconds(overview.floor_ms))
    answer = first.answer
    return SingleEntry(
        how="rerun", runtime_s=_seconds(answer.typical.runtime_ms), runtime_range_s=_range(answer.runtime_ms)
    )


def _point(executors: int, answer: VariantAnswer, prices: Prices | None) -> PointEntry:
    outcome, ended = answer.typical, answer.unfinished is None
    cost = span = None
    if prices is not None:
        cost = cost_of(outcome, answer.plan, prices)
        span = cost_factors(outcome, answer.plan, prices, answer.certainty).around(cost)
    return PointEntry(
        executors=executors,
        runtime_s=_seconds(outcome.runtime_ms) if ended else None,
        runtime_range_s=_range(answer.runtime_ms) if ended else None,
        executor_seconds=_seconds(outcome.executor_ms),
        executor_seconds_range=_range(answer.executor_ms),
        cost=None if cost is None else round(cost, 6),
        cost_range=None if span is None else (round(span.low, 6), round(span.high, 6)),
        peak_executors=outcome.peak_executors,
        idle_share=round(answer.idle_share, 6),
        unfinished=answer.unfinished,
    )


def _trial(
    verdict: TuneVerdict, answer: VariantAnswer, measure: str, redaction: Redaction, prices: Prices | None
) -> TrialEntry:
    changes = sorted(answer.variant.changes.items())
    return TrialEntry(
        name=answer.variant.name,
        reason=verdict.reason.value,
        text=_text(verdict, measure),
        conf={key: None if value is None else redaction.shown(key, value) for key, value in changes},
        static=answer.variant.static,
        saving={
            "measure": measure,
            "share": round(verdict.saving, 6),
            "least_share": round(verdict.least, 6),
            "longer_share": round(verdict.longer, 6),
            "longest_share": round(verdict.longest, 6),
        },
        point=_point(answer.typical.peak_executors, answer, prices),
    )


def _text(verdict: TuneVerdict, measure: str) -> str:
    """``saves 30% of the executor-seconds (at least 21% in nine of ten runs), run time +2.1% (at most +9.3%)``."""
    what = MEASURES[measure]
    time = f"run time {change(verdict.longer)} (at most {change(verdict.longest)})"
    if verdict.reason is Reason.SAVES:
        sure = f"at least {percent(verdict.least)} in nine of ten runs"
        return f"saves {percent(verdict.saving)} of the {what}, {sure}; {time}"
    return f"{time} in nine of ten runs; {what} {change(-verdict.saving)} (at most {change(-verdict.least)})"


def _nothing(overview: Overview) -> str:
    verdict, what = overview.verdict, MEASURES[overview.measure]
    if not overview.candidates:
        return "No setting could be tried: none of those that podtide knows has an effect where the application ran."
    match verdict.reason:
        case Reason.UNSURE:
            return (
                f"No setting by itself is worth trying: the best would save {percent(verdict.saving)} of the {what}, but "
                "not in nine of ten runs."
            )
        case Reason.TOO_LITTLE:
            return f"No setting by itself is worth trying: the best would save {percent(verdict.saving)} of the {what}."
        case _:
            return (
                f"No setting by itself is worth trying: none takes less {what} and hardly more time, or surely less time, "
                "in nine of ten runs."
            )


def _range(span: Range) -> Span:
    return _seconds(span.low), _seconds(span.high)


def _seconds(ms: float) -> float:
    return round(ms / 1000, 3)
