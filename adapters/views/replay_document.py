"""The document of a replay as typed records, and its decisions one by one, in words: for the library and for assistants.

``read`` makes a ``ReplayDocument`` of what ``podtide replay --json`` prints (docs/reference/formats.md): keys that it does
not name are ignored. A ``TimelineEntry`` is one decision, or one bound that began or ceased to hold. Texts of the log are
as they are: every view escapes them, and the words of an entry are escaped already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

import msgspec
from msgspec import Struct

from podtide.adapters.text.format import count, joined, lasting
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.stalls import stall_words
from podtide.adapters.views.timeline.reasons import BOUNDS
from podtide.adapters.views.timeline.scaling import Moment, MomentKind, single
from podtide.adapters.views.timeline.scaling_rows import Rows
from podtide.adapters.views.whatif.model import DecisionEntry, RecordedEntry, RunEntry
from podtide.domain.base.units import ExecutorId, Millis

DRAWN_MAX: Final = 5_000
"""Decisions that a drawing is given."""


class ReplayApp(Struct, frozen=True, kw_only=True):
    """Whose log it is. Times are milliseconds since 1970; ``first_ms`` to ``last_ms`` is what was replayed."""

    id: str | None = None
    name: str | None = None
    attempt: str | None = None
    spark_version: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    first_ms: int
    last_ms: int
    tasks: int = 0
    stages: int = 0
    jobs: int = 0


class ActualExecutors(Struct, frozen=True, kw_only=True):
    """The executors that the log tells of. Backlog: time in which tasks waited, and in which they waited for executors."""

    added: int
    removed: int
    peak: int
    peak_ms: int | None = None
    executor_seconds: float
    idle_executor_seconds: float
    backlog_s: float
    backlog_waited_for_executors_s: float


class ReplayedDecisions(Struct, frozen=True, kw_only=True):
    """What Spark would have decided. ``by_cause``: decisions; ``held``: how often each bound began to hold."""

    decisions: int
    peak_target: int
    peak_target_ms: int | None = None
    peak_need: int
    target_changes: int
    kills_proposed: int
    kills_confirmed: int
    kills_disproved: int
    kills_unconfirmed: int
    schedule_threw: int
    by_cause: dict[str, int] = {}
    held: dict[str, int] = {}


class StallEntry(Struct, frozen=True, kw_only=True):
    """Tasks waited and nothing moved. ``ended_ms``: None where it lasted to the end of the log."""

    cause: str
    blocked: bool
    began_ms: int
    ended_ms: int | None = None
    facts: dict[str, Any] = {}
    executors: tuple[str, ...] = ()
    stage_attempts: tuple[str, ...] = ()
    meaning: str = ""
    advice: str = ""


class SeriesEntry(Struct, frozen=True, kw_only=True):
    """Target, need, executors and busy executors over time: means over bins of ``width_ms``, and the peaks of each bin."""

    start_ms: int
    width_ms: int
    fields: tuple[str, ...]
    mean: tuple[tuple[float, ...], ...] = ()
    peak: tuple[tuple[int, ...], ...] = ()


class ReplayDocument(Struct, frozen=True, kw_only=True):
    """One replay. ``notes``: what is odd about log or conf; ``limits``: what the log cannot tell."""

    app: ReplayApp
    behaviour: str
    defaults: str
    dynamic_allocation: bool
    platform: str | None = None
    conf: dict[str, dict[str, Any]] = {}
    actual: ActualExecutors
    replayed: ReplayedDecisions
    stalls: tuple[StallEntry, ...] = ()
    stalls_left_out: int = 0
    series: SeriesEntry
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """One decision or bound. ``at_s``: since the start of the replay; ``kind``: raised, lowered, killed, proposed (a kill
    that the log does not confirm), held, quiet, threw; ``before``, ``after``: the target, where it moved."""

    at_s: float
    kind: str
    what: str
    why: str
    cause: str = ""
    profile: int = 0
    before: int | None = None
    after: int | None = None
    executors: tuple[str, ...] = ()


def read(document: Mapping[str, Any]) -> ReplayDocument:
    """The typed document of a replay."""
    return msgspec.convert(document, ReplayDocument)


def timeline_entries(
    records: Iterable[Mapping[str, Any]],
    start: Millis,
    waits: Mapping[str, Millis],
    profiles: Set[int],
    proposed: Mapping[ExecutorId, Millis],
) -> list[TimelineEntry]:
    """Every record in words. ``waits``: cause to the timeout behind it; ``profiles``: those that have a target;
    ``proposed``: the kills that the log neither confirmed nor disproved."""
    rows = Rows(waits, set(profiles), proposed)
    return [_entry(one, rows, start) for record in records for one in single(record)]


def _entry(one: Moment, rows: Rows, start: Millis) -> TimelineEntry:
    row = rows.of(one, steps=True)[0]
    moved = one.kind in (MomentKind.RAISED, MomentKind.LOWERED)
    return TimelineEntry(
        at_s=(row.at - start) / 1000,
        kind=row.mark,
        what=row.what,
        why=joined(row.why),
        cause=one.last.cause if one.last else one.cause,
        profile=one.profile,
        before=one.before if moved else None,
        after=one.after if moved else None,
        executors=tuple(map(escaped, one.ids)),
    )


def sentences(document: ReplayDocument) -> list[str]:
    """The answer in short: how it went, what held executors back, and whether anything stood still. Texts are escaped."""
    app, actual, replayed = document.app, document.actual, document.replayed
    span = lasting(app.last_ms - app.first_ms)
    if not document.dynamic_allocation:
        first = f"It ran {span} on up to {count(actual.peak, 'executor')}, without dynamic allocation."
    else:
        first = (
            f"It ran {span} on up to {count(actual.peak, 'executor')}; the target went up to {replayed.peak_target:,}."
        )
    short = actual.backlog_waited_for_executors_s * 1000
    waited = f" Tasks waited for executors for {lasting(short)}." if short else ""
    lines = [f"{first} Its tasks could have used {replayed.peak_need:,} at once.{waited}"]
    if document.dynamic_allocation and replayed.held:
        held = sorted(replayed.held.items(), key=lambda item: -item[1])
        named = ", ".join(f"{BOUNDS.get(bound, escaped(bound))} ({count(times, 'time')})" for bound, times in held)
        lines.append(f"What held executors back, or kept them: {named}.")
    if actual.executor_seconds > 0:
        share = min(1.0, actual.idle_executor_seconds / actual.executor_seconds)
        lines.append(f"Of {actual.executor_seconds:,.0f} executor-seconds, {share:.0%} were idle.")
    for stall in document.stalls:
        if stall.blocked:
            end = app.last_ms if stall.ended_ms is None else stall.ended_ms
            facts = stall_words({**msgspec.structs.asdict(stall)})
            lines.append(
                f"Nothing moved for {lasting(end - stall.began_ms)}, from {lasting(stall.began_ms - app.first_ms)} after "
                f"the start on: {stall.cause} ({facts}). {stall.meaning} {stall.advice}"
            )
    return lines


def as_run(document: ReplayDocument, timeline: Iterable[TimelineEntry]) -> tuple[RunEntry, RecordedEntry]:
    """The replay as the entries that the chart of executors over time draws."""
    app, series = document.app, document.series
    width = series.width_ms / 1000
    span = (app.last_ms - app.first_ms) / 1000
    curve = tuple(
        (min(span, place * width), need, target, 0.0, running, busy)
        for place, (target, need, running, busy) in enumerate(series.mean)
    )
    decided = [one for one in timeline if one.after is not None or one.kind in ("killed", "proposed")]
    run = RunEntry(
        name="replayed",
        runtime_s=span,
        executor_seconds=document.actual.executor_seconds,
        peak_executors=document.actual.peak,
        curve=curve,
        decisions=tuple(_decision(one) for one in decided[:DRAWN_MAX]),
        decisions_left_out=max(0, len(decided) - DRAWN_MAX),
    )
    recorded = RecordedEntry(
        runtime_s=span, executor_seconds=document.actual.executor_seconds, peak_executors=document.actual.peak
    )
    return run, recorded


def _decision(one: TimelineEntry) -> DecisionEntry:
    kind = "release" if one.after is None else "target"
    return DecisionEntry(one.at_s, kind, one.cause, {}, one.profile, one.before or 0, one.after or 0, one.executors)
