"""What the document says without a variant, in sentences: the same in a terminal and in the report."""

from __future__ import annotations

from typing import Final

from podtide.adapters.text.format import count
from podtide.adapters.views.whatif.figures import (
    change,
    difference,
    money,
    number,
    percent,
    share_of,
    span,
    took,
    whole,
)
from podtide.adapters.views.whatif.model import Document
from podtide.adapters.views.whatif.overview_entries import (
    CountCurveEntry,
    FailedStageEntry,
    FailureReasonEntry,
    PathStageEntry,
    PointEntry,
    SkewEntry,
    Span,
    TrialEntry,
)
from podtide.domain.conf.scaling_config import MAX
from podtide.domain.recorded.failures import STAGE_FAILED

REASONS_NAMED: Final = 3
NAME_MAX: Final = 60
"""Characters of a stage's name: its beginning, and its end, which says where."""

WORTH_SAYING: Final = 1.05
"""How many times as fast is worth a word."""

ALMOST: Final = 0.05
"""By how much longer than the shortest time of a curve a count may take and be called enough."""


def ideal_words(document: Document) -> str:
    """``Ideal: 1m40s (−62%), with unlimited executors from the start: 1m10s in the longest tasks of 4 stages, ...``"""
    ideal = document.ideal
    if ideal is None:
        return ""
    stages = count(ideal.path_stages, "stage")
    return (
        f"Ideal time {took(ideal.runtime_s)} ({change(difference(ideal.runtime_s, document.recorded.runtime_s))} to the "
        f"record), with unlimited executors from the start: {took(ideal.tasks_s)} in the longest tasks of {stages} that "
        f"wait for one another, {took(ideal.driver_s)} in the driver between them. No count of executors goes below it."
    )


def single_words(document: Document) -> str:
    """``With one executor it would take 12m04s (11m30s–12m50s): simulated.``"""
    overview = document.overview
    if overview is None or overview.single is None:
        return ""
    single = overview.single
    if single.how == "bound":
        return f"With one executor it takes {took(single.runtime_s)} at least: all tasks, one slot after the other."
    gain = None
    if document.ideal is not None and single.runtime_s and document.ideal.runtime_s > 0:
        gain = single.runtime_s / document.ideal.runtime_s
    times = (
        f"; more executors make it {number(round(gain, 1))} times as fast at most"
        if gain and gain >= WORTH_SAYING
        else ""
    )
    between = _between(single.runtime_range_s)
    return f"With one executor from start to end it takes {took(single.runtime_s)}{between}{times}."


def path_stages(document: Document, most: int) -> list[PathStageEntry]:
    """The longest steps of the critical path, the longest first."""
    steps = () if document.ideal is None else document.ideal.path
    return sorted(steps, key=lambda one: (-(one.longest_s + one.driver_s), one.stage))[:most]


def path_words(one: PathStageEntry, ideal_s: float) -> str:
    """``stage 5 (collect at Etl.scala:40, 200 tasks): longest task 42.0 s, driver 1.2 s before it, 38% of it``."""
    share = share_of(one.longest_s + one.driver_s, ideal_s)
    driver = f", driver {took(one.driver_s)} before it" if one.driver_s >= 0.05 else ""
    return (
        f"{_stage(one.stage, one.name, one.tasks)}: longest task {took(one.longest_s)}{driver}, {percent(share)} of it"
    )


def curve_title(curve: CountCurveEntry, document: Document) -> str:
    """What the counts of a curve are."""
    if curve.setting != MAX:
        return "Static counts"
    return "maxExecutors" if document.self_replay.decided else "maxExecutors, with dynamic allocation"


def time_span(one: PointEntry) -> str:
    """``11m20s–12m40s``."""
    return "" if one.runtime_range_s is None else span(took(one.runtime_range_s[0]), took(one.runtime_range_s[1]))


def price_span(one: PointEntry, currency: str | None) -> str:
    """The range of the money; without prices of the executor-seconds."""
    if one.cost_range is not None:
        low, high = one.cost_range
        return span(money(low, currency, scale=high), money(high, currency, scale=high))
    extent = one.executor_seconds_range
    return "" if extent is None else span(whole(extent[0]), whole(extent[1]))


def settings_words(trial: TrialEntry) -> str:
    """``spark.dynamicAllocation.maxExecutors=8: 1m46s (1m30s–2m00s)``: what to set, and the run time."""
    lines = (
        [f"{count(trial.static, 'executor')} from start to end, no dynamic allocation"]
        if trial.static
        else [f"{key} unset" if value is None else f"{key}={value}" for key, value in trial.conf.items()]
    )
    return f"{', '.join(lines)}: {took(trial.point.runtime_s)} ({time_span(trial.point)})"


def enough(curve: CountCurveEntry) -> PointEntry | None:
    """The least count whose run time is about the shortest."""
    done = [one for one in curve.points if one.runtime_s is not None]
    least = min((one.runtime_s or 0.0 for one in done), default=0.0)
    return next((one for one in done if (one.runtime_s or 0.0) <= (1 + ALMOST) * least), None)


def curve_words(curve: CountCurveEntry) -> str:
    """``Beyond 12 it gets at most 5% faster.``"""
    point = enough(curve)
    if point is None or point is curve.points[-1]:
        return ""
    return f"Beyond {number(point.executors)} it gets at most {percent(ALMOST)} faster."


def skew_words(one: SkewEntry) -> str:
    """``stage 7 (save at Etl.scala:12, 200 tasks): longest task 42.0 s, median 3.1 s (13.5 times); costs 31.0 s``."""
    times = f" ({number(round(one.times, 1))} times)" if one.times else ""
    costs = (
        ""
        if one.costs_s is None
        else f"; costs the run {took(one.costs_s)}"
        if one.costs_s
        else "; costs the run nothing"
    )
    longest = f"longest task {took(one.longest_s)}, median {took(one.median_s)}{times}"
    return f"{_stage(one.stage, one.name, one.tasks)}: {longest}{costs}"


def failed_words(one: FailedStageEntry) -> str:
    """``stage 3 (...): 3 attempts (2 failed), 12 tries of tasks did not count: 8 × FetchFailed; ...``."""
    parts = []
    if one.attempts > 1 or one.failed_attempts:
        failed = f" ({number(one.failed_attempts)} failed)" if one.failed_attempts else ""
        parts.append("its attempt failed" if one.attempts == 1 else f"{count(one.attempts, 'attempt')}{failed}")
    if one.tries:
        parts.append(f"{count(one.tries, 'try', 'tries')} of tasks did not count")
    if one.recomputed:
        parts.append(f"{count(one.recomputed, 'task')} computed again for lost output")
    reasons = [reason_words(reason) for reason in one.reasons[:REASONS_NAMED]]
    more = len(one.reasons) - REASONS_NAMED
    reasons += [f"and {more} more"] if more > 0 else []
    listed = f": {'; '.join(reasons)}" if reasons else ""
    return f"{_stage(one.stage, one.name, one.tasks)}: {', '.join(parts)}{listed}"


def reason_words(one: FailureReasonEntry) -> str:
    """``8 × ExceptionFailure (java.io.IOException)``."""
    name = "stage attempt failed" if one.reason == STAGE_FAILED else one.reason
    return f"{number(one.count)} × {name}{f' ({one.detail})' if one.detail else ''}"


def _stage(stage: int, name: str, tasks: int) -> str:
    if len(name) > NAME_MAX:
        name = f"{name[: NAME_MAX // 3]}…{name[-NAME_MAX // 2 :]}"
    named = f"{name}, " if name else ""
    return f"stage {stage} ({named}{count(tasks, 'task')})"


def _between(span: Span | None) -> str:
    return "" if span is None else f" ({took(span[0])}–{took(span[1])})"
