"""What an assistant is answered: a few sentences, totals, and the first rows. An answer fits into a conversation.

Every list has a bound and says how much it leaves out; every text is cut and shows what could not be seen (``bounded``), for
texts of a log are a stranger's. Whole documents are what the commands' ``--json`` prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.adapters.text.documents import snake_case
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.comparison.words import evidence, setting, titled
from podtide.adapters.views.replay_document import TimelineEntry
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.entrypoints.library.results import CompareResult, ExplainResult, ReplayResult, TuneResult, WhatIfResult

ROWS_MAX: Final = 20
LOGS_MAX: Final = 50
SENTENCES_MAX: Final = 40
NOTES_MAX: Final = 8
EVIDENCE_MAX: Final = 3
TEXT_MAX: Final = 600


class FoundEntry(Struct, frozen=True):
    """A log. ``modified_ms``: milliseconds since 1970."""

    log: str
    bytes: int | None
    modified_ms: int | None


class LogsAnswer(Struct, frozen=True):
    """The logs, the newest first; ``left_out``: more that are not listed."""

    logs: list[FoundEntry]
    left_out: int


class DecisionRow(Struct, frozen=True):
    """A decision, ``at_s`` seconds after the start."""

    at_s: float
    what: str
    why: str


class ReplayBrief(Struct, frozen=True, kw_only=True):
    """How an application scaled. ``decisions``: those that moved most, in the order of time."""

    name: str
    id: str
    spark_version: str
    summary: list[str]
    ran_s: float
    peak_target: int
    peak_executors: int
    tasks_could_use: int
    executor_seconds: float
    idle_executor_seconds: float
    waited_for_executors_s: float
    decisions_by_cause: dict[str, int]
    held_by: dict[str, int]
    decisions: list[DecisionRow]
    decisions_left_out: int
    notes: list[str]


class ExplainBrief(Struct, frozen=True, kw_only=True):
    """A story in sentences. ``decisions``: the first that belong to it."""

    about: str
    story: list[str]
    sentences_left_out: int
    decisions: list[DecisionRow]
    decisions_left_out: int


class ConfigRow(Struct, frozen=True, kw_only=True):
    """A config. ``runtime_low_s``, ``runtime_high_s``: nine of ten real runs lie between them; null: not known."""

    name: str
    settings: str
    runtime_s: float | None
    runtime_low_s: float | None
    runtime_high_s: float | None
    executor_seconds: float | None
    core_hours: float | None
    cost: float | None
    peak_executors: float | None
    recommended: bool
    unfinished: str | None


class ForecastBrief(Struct, frozen=True, kw_only=True):
    """What other settings would do. ``configs``: what happened, the same simulated, then the others; ``own_error_*``: how
    far the simulation of what ran is from what happened; ``recommended``: what to set, null unsets."""

    name: str
    summary: list[str]
    configs: list[ConfigRow]
    configs_left_out: int
    currency: str | None
    own_error_runtime: float
    own_error_executor_seconds: float
    recommended: dict[str, str | None]
    notes: list[str]


class ChangeRow(Struct, frozen=True, kw_only=True):
    """A cause of the difference; ``seconds``: that the second run took longer because of it."""

    cause: str
    seconds: float
    share: float | None
    evidence: list[str]
    settings_that_act: list[str]


class CompareBrief(Struct, frozen=True, kw_only=True):
    """Why the second run took longer, or less long. The seconds of all causes sum to ``runtime_change_s``."""

    first: str
    second: str
    summary: list[str]
    first_runtime_s: float
    second_runtime_s: float
    runtime_change_s: float
    within_noise: bool
    cost_change: float
    cost_unit: str
    causes: list[ChangeRow]
    causes_left_out: int
    settings_that_differ: list[str]
    notes: list[str]


class FleetLogRow(Struct, frozen=True, kw_only=True):
    """A log. ``did_work``: the share of the bill in which a task ran; ``best``: the setting that would save most."""

    log: str
    name: str
    runtime_s: float | None
    core_hours: float | None
    cost: float | None
    did_work: float | None
    best: str | None
    best_settings: dict[str, str | None]
    saving_share: float | None


class UnusedLogRow(Struct, frozen=True):
    """A log that has no figures, and why."""

    log: str
    why: str


class FleetBrief(Struct, frozen=True, kw_only=True):
    """Many logs. ``logs``: the dearest first; savings are of those that have a setting worth a change."""

    looked_at: int
    not_looked_at: int
    usable: int
    core_hours: float
    cost: float | None
    saving_core_hours: float
    saving_cost: float | None
    executor_seconds_by_cause: dict[str, float]
    logs: list[FleetLogRow]
    logs_left_out: int
    unusable: list[UnusedLogRow]
    unusable_left_out: int


ANSWERS: Final[dict[str, type[Struct]]] = {
    "logs": LogsAnswer,
    "replay": ReplayBrief,
    "explain": ExplainBrief,
    "whatif": ForecastBrief,
    "tune": ForecastBrief,
    "compare": CompareBrief,
    "fleet": FleetBrief,
}
"""What each tool answers with."""


def replay_brief(found: ReplayResult) -> ReplayBrief:
    """A replay in brief."""
    app, actual, replayed = found.document.app, found.document.actual, found.document.replayed
    moved = [one for one in found.timeline if one.after is not None or one.kind in ("killed", "proposed", "threw")]
    ranked = sorted(range(len(moved)), key=lambda place: (-_weight(moved[place]), place))[:ROWS_MAX]
    return ReplayBrief(
        name=app.name or "",
        id=app.id or "",
        spark_version=app.spark_version or "",
        summary=found.sentences,
        ran_s=(app.last_ms - app.first_ms) / 1000,
        peak_target=replayed.peak_target,
        peak_executors=actual.peak,
        tasks_could_use=replayed.peak_need,
        executor_seconds=actual.executor_seconds,
        idle_executor_seconds=actual.idle_executor_seconds,
        waited_for_executors_s=actual.backlog_waited_for_executors_s,
        decisions_by_cause={snake_case(cause): number for cause, number in replayed.by_cause.items()},
        held_by={snake_case(bound): number for bound, number in replayed.held.items()},
        decisions=[_decision(moved[place]) for place in sorted(ranked)],
        decisions_left_out=max(0, len(moved) - ROWS_MAX) + found.left_out,
        notes=[*found.document.notes, *found.document.limits][:NOTES_MAX],
    )


def _weight(one: TimelineEntry) -> int:
    return len(one.executors) if one.after is None else abs(one.after - (one.before or 0))


def _decision(one: TimelineEntry) -> DecisionRow:
    return DecisionRow(one.at_s, one.what, one.why)


def explain_brief(found: ExplainResult) -> ExplainBrief:
    """A story in brief."""
    story, events = found.sentences, found.document.events
    return ExplainBrief(
        about=found.document.about,
        story=story[:SENTENCES_MAX],
        sentences_left_out=max(0, len(story) - SENTENCES_MAX),
        decisions=[_decision(one) for one in events[:ROWS_MAX]],
        decisions_left_out=max(0, len(events) - ROWS_MAX),
    )


def forecast_brief(found: WhatIfResult | TuneResult) -> ForecastBrief:
    """A what-if or a tune in brief."""
    document, rows = found.document, found.rows
    advice = document.recommendation
    trials = document.overview.trials if document.overview is not None else ()
    tried = [f"Worth trying: {one.name}: {one.text}." for one in trials]
    return ForecastBrief(
        name=document.app.name,
        summary=[*found.sentences[1:], *tried],
        configs=[_config(row) for row in rows[:ROWS_MAX]],
        configs_left_out=max(0, len(rows) - ROWS_MAX),
        currency=document.currency,
        own_error_runtime=document.self_replay.error.runtime,
        own_error_executor_seconds=document.self_replay.error.executor_seconds,
        recommended={} if advice is None or advice.name is None else _settings(advice.conf, advice.static),
        notes=list(document.notes[:NOTES_MAX]),
    )


def _settings(conf: Mapping[str, str | None], static: int | None) -> dict[str, str | None]:
    return {**conf, **({} if static is None else {"static executors": str(static)})}


def _config(row: Mapping[str, Any]) -> ConfigRow:
    settings = row["conf"] or ("" if row["static"] is None else f"{row['static']} executors from start to end")
    return ConfigRow(
        settings=settings,
        **{key: row[key] for key in ConfigRow.__struct_fields__ if key not in ("settings",)},
    )


def compare_brief(found: CompareResult) -> CompareBrief:
    """A comparison in brief."""
    document = found.document
    return CompareBrief(
        first=document.first.log,
        second=document.second.log,
        summary=found.sentences,
        first_runtime_s=document.first.runtime_s,
        second_runtime_s=document.second.runtime_s,
        runtime_change_s=document.change.runtime_s,
        within_noise=document.change.within_noise,
        cost_change=document.change.cost,
        cost_unit=document.change.unit,
        causes=[
            ChangeRow(
                cause=titled(one),
                seconds=one.runtime_s,
                share=one.share,
                evidence=[evidence(seen) for seen in one.evidence[:EVIDENCE_MAX]],
                settings_that_act=[setting(acts) for acts in one.because[:EVIDENCE_MAX]],
            )
            for one in document.causes[:ROWS_MAX]
        ],
        causes_left_out=max(0, len(document.causes) - ROWS_MAX),
        settings_that_differ=[setting(one) for one in document.conf[:ROWS_MAX]],
        notes=list(document.notes[:NOTES_MAX]),
    )


def fleet_brief(rows: Sequence[FleetRow], not_looked_at: int) -> FleetBrief:
    """The rows of a fleet in brief; what turned out to be no event log is not counted."""
    logs = [row for row in rows if row.status is not RowStatus.SKIPPED]
    usable = [row for row in logs if row.status is RowStatus.OK]
    bad = [row for row in logs if row.status is not RowStatus.OK]
    priced = any(row.cost is not None for row in usable)
    ranked = sorted(usable, key=lambda row: (-(row.cost or row.core_hours or 0.0), row.log))
    causes = {cause.value: sum(row.ledger.get(cause.value, 0.0) for row in usable) for cause in SpendCause}
    return FleetBrief(
        looked_at=len(logs),
        not_looked_at=not_looked_at,
        usable=len(usable),
        core_hours=_sum(row.core_hours for row in usable),
        cost=_sum(row.cost for row in usable) if priced else None,
        saving_core_hours=_sum(row.saving_core_hours for row in usable),
        saving_cost=_sum(row.saving_cost for row in usable) if priced else None,
        executor_seconds_by_cause={
            snake_case(cause): round(seconds, 3) for cause, seconds in causes.items() if seconds
        },
        logs=[_fleet_row(row) for row in ranked[:ROWS_MAX]],
        logs_left_out=max(0, len(ranked) - ROWS_MAX),
        unusable=[UnusedLogRow(row.log, row.reason or row.status.value) for row in bad[:ROWS_MAX]],
        unusable_left_out=max(0, len(bad) - ROWS_MAX),
    )


def _sum(values: Iterable[float | None]) -> float:
    return round(math.fsum(value for value in values if value is not None), 6)


def _fleet_row(row: FleetRow) -> FleetLogRow:
    work = row.filled_seconds / row.billed_seconds if row.filled_seconds is not None and row.billed_seconds else None
    return FleetLogRow(
        log=row.log,
        name=row.app_name or "",
        runtime_s=row.runtime_s,
        core_hours=row.core_hours,
        cost=row.cost,
        did_work=None if work is None else round(work, 4),
        best=row.best,
        best_settings=dict(row.best_conf or {}),
        saving_share=row.saving_share,
    )


def bounded(answer: Struct) -> Any:
    """An answer as plain data, every text cut and made visible."""
    return _cut(msgspec.to_builtins(answer))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value, TEXT_MAX)
    if isinstance(value, dict):
        return {escaped(key, TEXT_MAX): _cut(one) for key, one in list(value.items())[:LOGS_MAX]}
    return [_cut(one) for one in value] if isinstance(value, list) else value
