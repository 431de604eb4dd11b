"""Builds the document of a what-if: what ran, how sure the model is, and what each variant would have been.

The report, the terminal view, ``tune`` and ``diff`` are made of this document and nothing else (``views.whatif.model``).
Durations are rounded to milliseconds; money and hours are rounded to a millionth. The ledger's causes add up to
``billed_seconds``. Values under keys that Spark redacts are redacted; names from the log are as they are: whoever shows
them escapes them.

Curves, stages and decisions are those of the typical run of a variant, bounded: of a longer curve every so many points are
left out, but never a highest one of its stretch; of more decisions the first are kept and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from msgspec import UNSET, convert, structs

from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.safe import display
from podtide.adapters.views.bill import bill_notes
from podtide.adapters.views.whatif import model
from podtide.adapters.views.whatif.memory import memory_entry
from podtide.adapters.views.whatif.overview_document import ideal_entry, overview_entry, troubles_entry
from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import CurvePoint, ExecutorSpan, RerunOutcome
from podtide.domain.rerun.plan import NO_FAULTS, Faults, Plan
from podtide.domain.whatif.bill.rules import NO_RULES
from podtide.domain.whatif.bill.run_bill import RunBill, bill, bill_of, cost_factors, cost_of, work_of
from podtide.domain.whatif.memory import memory_finding
from podtide.domain.whatif.prediction import Range
from podtide.domain.whatif.prices import Prices, Usage, usage_of
from podtide.domain.whatif.search.overview import Overview
from podtide.domain.whatif.summary import OwnError, VariantAnswer

CURVE_MAX: Final = 2_000
"""Points of one curve."""

DECISIONS_MAX: Final = 5_000
STAGES_MAX: Final = 20_000
NOTES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """What was asked for: the log as it was named, prices (None: no money), bound of the own error, number of seeds."""

    log: str
    prices: Prices | None = None
    max_error: float = 0.25
    seeds: int = 1
    command: str = "whatif"
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def document(
    application: Application,
    conf: SparkConf,
    replay: VariantAnswer,
    error: OwnError,
    answers: Iterable[VariantAnswer],
    request: WhatIfRequest,
    overview: Overview | None = None,
) -> model.Document:
    """The whole document. ``conf``: the log's own; ``replay``: its run again, ``error`` away from the log;
    ``overview``: what is said where no variant was asked for."""
    redaction = redaction_of(conf)
    prices = request.prices
    own = _run(replay, application, redaction, prices)
    recorded = _recorded(application, replay.plan, prices)
    remembered = memory_finding(application, conf, replay.plan.shapes[DEFAULT_PROFILE])
    return model.Document(
        schema=schema_name(request.command),
        app=app_entry(application, request.log),
        recorded=recorded,
        self_replay=model.SelfReplay(**structs.asdict(own), error=error_entry(error)),
        variants=tuple(_run(one, application, redaction, prices) for one in answers),
        prices=prices_entry(prices),
        max_error=request.max_error,
        seeds=request.seeds,
        memory=None if remembered is None else memory_entry(remembered, recorded.gb_hours, prices),
        ideal=ideal_entry(application),
        troubles=troubles_entry(application, overview),
        overview=None if overview is None else overview_entry(overview, redaction, prices),
        unknowns=tuple(model.UnknownEntry(*one) for one in application.unknowns),
        notes=(*bill_notes(prices), *request.notes)[:NOTES_MAX],
        refused=request.refused,
    )


def app_entry(application: Application, log: str) -> model.AppEntry:
    """Whose log it is. ``log``: as it was named; credentials and signatures are left out."""
    return model.AppEntry(
        application.id,
        application.name,
        application.spark_version,
        application.started_ms,
        application.ended_ms,
        display(log),
        len(application.jobs),
        len(application.stages),
        application.tasks,
        len(application.executors),
    )


def error_entry(error: OwnError) -> model.OwnErrorEntry:
    """The own error."""
    return model.OwnErrorEntry(
        _fine(error.runtime), _fine(error.executor_seconds), error.peak_executors, _fine(error.curve)
    )


def prices_entry(prices: Prices | None) -> model.PricesEntry | None:
    """The prices."""
    if prices is None:
        return None
    given = asdict(prices)
    rules = given.pop("rules")
    return model.PricesEntry(**given, bill=convert(rules, model.BillRulesEntry) if prices.rules.asked else None)


def seconds(ms: float) -> float:
    """Milliseconds as seconds, rounded to a millisecond."""
    return round(ms / 1000, 3)


def _recorded(application: Application, plan: Plan, prices: Prices | None) -> model.RecordedEntry:
    """What happened. Executors are billed from their request, as far as that is known, else from their registration."""
    spans = []
    for one in application.executors:
        begin = one.added_ms if one.requested_ms is None else min(one.requested_ms, one.added_ms)
        end = application.ended_ms if one.removed_ms is None else min(one.removed_ms, application.ended_ms)
        spans.append(ExecutorSpan(begin, max(begin, end), one.profile))
    work = work_of(spans, plan.shapes)
    taken = bill(work, plan.conf.raw, application.runtime_ms, NO_RULES).executors
    paid = None if prices is None else bill(work, plan.conf.raw, application.runtime_ms, prices.rules)
    return model.RecordedEntry(
        runtime_s=seconds(application.runtime_ms),
        executor_seconds=seconds(application.executor_ms),
        billed_seconds=seconds(sum(one.billed_ms for one in work)),
        peak_executors=application.peak_executors,
        curve=tuple((seconds(at), count) for at, count in _thin(application.executors_over_time(), 1)),
        **_usage(taken, paid, prices),
    )


def _run(
    answer: VariantAnswer,
    application: Application,
    redaction: Redaction,
    prices: Prices | None,
) -> model.RunEntry:
    """A variant, or the log's own config run again. ``application``: for the names of its stages."""
    outcome, variant, plan = answer.typical, answer.variant, answer.plan
    paid = None if prices is None else bill_of(outcome, plan, prices.rules)
    left_out = len(outcome.decisions) - DECISIONS_MAX
    return model.RunEntry(
        name=variant.name,
        conf={
            key: None if value is None else redaction.shown(key, value)
            for key, value in sorted(variant.changes.items())
        },
        static=variant.static,
        faults=_faults(variant.faults),
        runtime_s=None if answer.unfinished is not None else seconds(outcome.runtime_ms),
        runtime_range_s=None if answer.unfinished is not None else _range(answer.runtime_ms),
        executor_seconds=seconds(outcome.executor_ms),
        executor_seconds_range=_range(answer.executor_ms),
        billed_seconds=seconds(outcome.billed_ms),
        billed_seconds_range=_range(answer.billed_ms),
        filled_seconds=seconds(outcome.filled_ms),
        peak_executors=outcome.peak_executors,
        executors_started=outcome.executors_started,
        executors_lost=outcome.executors_lost,
        **_usage(usage_of(outcome, plan.shapes), paid, prices),
        cost_range=_cost_range(answer, prices),
        changes=answer.change.value,
        idle_share=_fine(answer.idle_share),
        requests=outcome.requests,
        waited_s=seconds(outcome.waited_ms),
        ledger={cause.value: seconds(outcome.ledger.get(cause, 0)) for cause in SpendCause},
        waiting={limit.value: seconds(outcome.waiting.get(limit, 0)) for limit in Limit},
        tasks_again=outcome.tasks_again,
        unfinished=answer.unfinished,
        notes=tuple(dict.fromkeys((*plan.notes, *outcome.notes)))[:NOTES_MAX],
        curve=tuple(
            (seconds(point.at_ms), *point[1:]) for point in _thin(outcome.curve, CurvePoint._fields.index("running"))
        ),
        stages=_stages(outcome, application),
        decisions=tuple(
            model.DecisionEntry(
                seconds(at_ms), kind, cause, dict(sorted(facts.items())), profile, before, after, executors
            )
            for at_ms, kind, cause, facts, profile, before, after, executors in outcome.decisions[:DECISIONS_MAX]
        ),
        decisions_left_out=left_out if left_out > 0 else UNSET,
    )


def _cost_range(answer: VariantAnswer, prices: Prices | None) -> model.Range | None:
    if prices is None:
        return None
    cost = cost_of(answer.typical, answer.plan, prices)
    low, high = cost_factors(answer.typical, answer.plan, prices, answer.certainty).around(cost)
    return _fine(low), _fine(high)


def _fine(value: float) -> float:
    return round(value, 6)


def _usage(used: Usage, paid: RunBill | None, prices: Prices | None) -> dict[str, Any]:
    hours = {"core_hours": _fine(used.core_hours), "gb_hours": _fine(used.gb_hours)}
    if paid is None or prices is None:
        return hours
    parts = model.BillPartsEntry(*map(_fine, paid.parts(prices))) if prices.rules.asked else None
    return {**hours, "cost": _fine(paid.cost(prices)), "bill": parts}


def _range(span: Range) -> model.Range:
    return seconds(span.low), seconds(span.high)


def _faults(faults: Faults) -> model.FaultsEntry | None:
    if faults == NO_FAULTS:
        return None
    return model.FaultsEntry(faults.spot_per_hour, seconds(faults.start_extra_ms), faults.quota)


def _stages(outcome: RerunOutcome, application: Application) -> tuple[model.StageEntry, ...]:
    known = {stage.stage: (stage.name, stage.tasks) for stage in application.stages}
    return tuple(
        model.StageEntry(
            times.stage, *known.get(times.stage, ("", 0)), seconds(times.submitted_ms), seconds(times.completed_ms)
        )
        for times in outcome.stages[:STAGES_MAX]
    )


def _thin(curve: Sequence[Any], height: int) -> Sequence[Any]:
    """At most ``CURVE_MAX`` points (and one): of each stretch the highest by the field ``height``, and the last."""
    if len(curve) <= CURVE_MAX:
        return curve
    kept: list[Any] = []
    stretch = -(-len(curve) * 2 // CURVE_MAX)
    for begin in range(0, len(curve), stretch):
        points = curve[begin : begin + stretch]
        highest = max(range(len(points)), key=lambda place: points[place][height])
        kept.extend(points[place] for place in sorted({highest, len(points) - 1}))
    return kept
