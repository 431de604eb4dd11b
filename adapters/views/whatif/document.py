"""The JSON document of a what-if: what ran, how sure the model is, and what each variant would have been.

The report, the terminal view, ``tune``, ``diff`` and ``fleet`` are made of this document and nothing else; docs/whatif.md
tells its keys in prose, docs/schema/whatif.json is its schema. Times and durations are seconds, rounded to milliseconds;
money and hours are rounded to a millionth. The ledger's causes add up to ``billed_seconds``. Values under keys that Spark
redacts are redacted; names from the log are as they are: whoever shows them escapes them.

Curves, stages and decisions are those of the typical run of a variant, bounded: of a longer curve every so many points are
left out, but never a highest one of its stretch; of more decisions the first are kept and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podtide.adapters.text.safe import display
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import Cause, Limit
from podtide.domain.rerun.outcome import Decision, Outcome, Point
from podtide.domain.rerun.plan import NO_FAULTS, Faults, Shape
from podtide.domain.whatif.prices import Prices, Usage, usage, usage_of
from podtide.domain.whatif.summary import Answer, OwnError, Span

SCHEMA: Final = 1

CURVE_MAX: Final = 2_000
"""Points of one curve."""

DECISIONS_MAX: Final = 5_000
STAGES_MAX: Final = 20_000
NOTES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: the log as it was named, prices (None: no money), bound of the own error, number of seeds."""

    log: str
    prices: Prices | None = None
    max_error: float = 0.25
    seeds: int = 1
    command: str = "whatif"
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = field(default=())


def document(
    application: Application, conf: SparkConf, replay: Answer, error: OwnError, answers: Iterable[Answer], asked: Asked
) -> dict[str, Any]:
    """The whole document. ``conf``: the log's own; ``replay``: its run again, ``error`` away from the log."""
    redaction = redaction_of(conf)
    prices = asked.prices
    return {
        "schema": SCHEMA,
        "command": asked.command,
        "app": app_entry(application, asked.log),
        "recorded": recorded_entry(application, replay.plan.shapes, prices),
        "self_replay": {**answer_entry(replay, application, redaction, prices, error), "error": error_entry(error)},
        "variants": [answer_entry(one, application, redaction, prices, error) for one in answers],
        "prices": None if prices is None else prices_entry(prices),
        "max_error": asked.max_error,
        "seeds": asked.seeds,
        "unknowns": [{"what": one.what, "effect": one.effect} for one in application.unknowns],
        "notes": list(asked.notes[:NOTES_MAX]),
        "refused": list(asked.refused),
    }


def app_entry(application: Application, log: str) -> dict[str, Any]:
    """Whose log it is. ``log``: as it was named; credentials and signatures are left out."""
    return {
        "id": application.id,
        "name": application.name,
        "spark_version": application.spark_version,
        "started_ms": application.started_ms,
        "ended_ms": application.ended_ms,
        "log": display(log),
        "jobs": len(application.jobs),
        "stages": len(application.stages),
        "tasks": application.tasks,
        "executors": len(application.executors),
    }


def recorded_entry(
    application: Application, shapes: Mapping[ProfileId, Shape], prices: Prices | None
) -> dict[str, Any]:
    """What happened. Executors are billed from their request, as far as that is known, else from their registration."""
    billed = recorded_billed_ms(application)
    used = usage(billed, shapes)
    return {
        "runtime_s": seconds(application.runtime_ms),
        "executor_seconds": seconds(application.executor_ms),
        "billed_seconds": seconds(sum(billed.values())),
        "peak_executors": application.peak_executors,
        "curve": [[seconds(at), count] for at, count in _thin(application.executors_over_time(), 1)],
        **_usage_entry(used, prices),
    }


def recorded_billed_ms(application: Application) -> dict[ProfileId, Millis]:
    """From request (or registration) to removal or the application's end, by profile."""
    billed: dict[ProfileId, Millis] = {}
    for one in application.executors:
        begin = one.added_ms if one.requested_ms is None else min(one.requested_ms, one.added_ms)
        end = application.ended_ms if one.removed_ms is None else min(one.removed_ms, application.ended_ms)
        billed[one.profile] = billed.get(one.profile, 0) + max(0, end - begin)
    return billed


def answer_entry(
    answer: Answer, application: Application, redaction: Redaction, prices: Prices | None, error: OwnError
) -> dict[str, Any]:
    """A variant, or the log's own config run again. ``application``: for the names of its stages."""
    outcome, variant, plan = answer.typical, answer.variant, answer.plan
    used = usage_of(outcome, plan.shapes)
    entry: dict[str, Any] = {
        "name": variant.name,
        "conf": {
            key: None if value is None else redaction.shown(key, value)
            for key, value in sorted(variant.changes.items())
        },
        "static": variant.static,
        "faults": _faults_entry(variant.faults),
        "runtime_s": seconds(outcome.runtime_ms),
        "runtime_range_s": _span_entry(answer.runtime_ms),
        "executor_seconds": seconds(outcome.executor_ms),
        "executor_seconds_range": _span_entry(answer.executor_ms),
        "billed_seconds": seconds(outcome.billed_ms),
        "billed_seconds_range": _span_entry(answer.billed_ms),
        "peak_executors": outcome.peak_executors,
        "executors_started": outcome.executors_started,
        "executors_lost": outcome.executors_lost,
        **_usage_entry(used, prices),
        "cost_range": None,
        "idle_share": round(answer.idle_share, 6),
        "requests": outcome.requests,
        "waited_s": seconds(outcome.waited_ms),
        "ledger": {cause.value: seconds(outcome.ledger.get(cause, 0)) for cause in Cause},
        "waiting": {limit.value: seconds(outcome.waiting.get(limit, 0)) for limit in Limit},
        "tasks_again": outcome.tasks_again,
        "unfinished": answer.unfinished,
        "notes": list(dict.fromkeys((*plan.notes, *outcome.notes)))[:NOTES_MAX],
    }
    if prices is not None:
        costs = [usage_of(one, plan.shapes).cost(prices) for one in answer.outcomes]
        low, high = Span(min(costs), max(costs)).widened(error.executor_seconds)
        entry["cost_range"] = [_fine(low), _fine(high)]
    entry["curve"] = [[seconds(at), *rest] for at, *rest in _thin(outcome.curve, Point._fields.index("running"))]
    entry["stages"] = _stages(outcome, application)
    entry["decisions"] = [_decision(one) for one in outcome.decisions[:DECISIONS_MAX]]
    if (more := len(outcome.decisions) - DECISIONS_MAX) > 0:
        entry["decisions_left_out"] = more
    return entry


def error_entry(error: OwnError) -> dict[str, Any]:
    """The own error."""
    return {
        "runtime": round(error.runtime, 6),
        "executor_seconds": round(error.executor_seconds, 6),
        "peak_executors": error.peak_executors,
        "curve": round(error.curve, 6),
    }


def prices_entry(prices: Prices) -> dict[str, Any]:
    """The prices."""
    return {
        "core_hour": prices.core_hour,
        "gb_hour": prices.gb_hour,
        "spot_share": prices.spot_share,
        "spot_discount": prices.spot_discount,
        "currency": prices.currency,
    }


def seconds(ms: float) -> float:
    """Milliseconds as seconds, rounded to a millisecond."""
    return round(ms / 1000, 3)


def _fine(value: float) -> float:
    return round(value, 6)


def _usage_entry(used: Usage, prices: Prices | None) -> dict[str, Any]:
    return {
        "core_hours": _fine(used.core_hours),
        "gb_hours": _fine(used.gb_hours),
        "cost": None if prices is None else _fine(used.cost(prices)),
    }


def _span_entry(span: Span) -> list[float]:
    return [seconds(span.low), seconds(span.high)]


def _faults_entry(faults: Faults) -> dict[str, Any] | None:
    if faults == NO_FAULTS:
        return None
    return {
        "spot_per_hour": faults.spot_per_hour,
        "start_extra_s": seconds(faults.start_extra_ms),
        "quota": faults.quota,
    }


def _stages(outcome: Outcome, application: Application) -> list[dict[str, Any]]:
    known = {stage.stage: stage for stage in application.stages}
    entries = []
    for times in outcome.stages[:STAGES_MAX]:
        stage = known.get(times.stage)
        entries.append(
            {
                "stage": times.stage,
                "name": "" if stage is None else stage.name,
                "tasks": 0 if stage is None else stage.tasks,
                "submitted_s": seconds(times.submitted_ms),
                "completed_s": seconds(times.completed_ms),
            }
        )
    return entries


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "at_s": seconds(decision.at_ms),
        "kind": decision.kind,
        "cause": decision.cause,
        "facts": dict(decision.facts),
        "profile": decision.profile,
        "before": decision.before,
        "after": decision.after,
        "executors": list(decision.executors),
    }


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
