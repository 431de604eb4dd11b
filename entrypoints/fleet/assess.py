"""The row of one log of a fleet: read it, run it again as it ran and under a few settings, and sum it up.

``assess`` stands on ``whatif``: the same study, the same own error and refusal, the same answers; only that a fleet uses one
seed unless told otherwise and keeps no curve.

The best setting is the cheapest (by cost where there is a price, by core-hours otherwise) of those that finish and that
take at most ``within`` longer than the log's own config, and cost less, in nine of ten runs. A saving of less than
``WORTH`` is no setting worth a change. Before a setting is named, it is confirmed with ``CONFIRMING`` seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec
from returns.pipeline import is_successful

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.fleet.rows import FleetRow, RowStatus, shortened
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.conf.advice.effects import place_of, static_settings
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.unknowns import lost_parts, nothing_to_run
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.whatif.bill.run_bill import bill_of, cost_factors, cost_of
from podtide.domain.whatif.memory import memory_finding
from podtide.domain.whatif.prices import Prices, usage_of
from podtide.domain.whatif.summary import VariantAnswer
from podtide.entrypoints.fleet.candidates import chosen_settings
from podtide.entrypoints.fleet.work import FleetOptions, clean
from podtide.entrypoints.whatif.recorded_log import NothingToRun, read_application
from podtide.entrypoints.whatif.run import Study, ask, refusal, study

WORTH: Final = 0.01
"""The least share of the bill that is called a saving."""

CONFIRMING: Final = 10
"""Seeds of a setting that is named."""

NOTES_MAX: Final = 1_000
"""Characters of what was left out."""

QUICK: Final = 24
"""Settings that a quick search looks at."""


def assess(path: str, options: FleetOptions) -> FleetRow:
    """The row of the log at ``path``. Raises ``LogError`` where it cannot be read; a refusal is a row."""
    try:
        with open_log(path) as source:
            application = read_application(source).application
    except NothingToRun as nothing:
        return FleetRow(log=path, status=RowStatus.REFUSED, reason=shortened(clean(str(nothing))))
    return assess_application(path, application, options)


def assess_application(path: str, application: Application, options: FleetOptions) -> FleetRow:
    """The row of an application that was read from the log at ``path``."""
    if (why := lost_parts(application) or nothing_to_run(application)) is not None:
        return _row_of(path, application, RowStatus.REFUSED, why)
    made = study(application, seeds=options.seeds)
    if not is_successful(made):  # only what a user lays over the log's conf can be wrong, and here nobody does
        return _row_of(path, application, RowStatus.REFUSED, "; ".join(map(str, made.failure())))
    found = made.unwrap()
    if reasons := refusal(found, options.max_error):
        return _row_of(path, application, RowStatus.REFUSED, reasons[0], found)
    compared = _tuned(path, found, options) if options.tune else _default_answers(found, options)
    return _answered(path, found, compared, options)


class _Compared(NamedTuple):
    """Answers to settings, how many were looked at, and what was left out, and why."""

    answers: Sequence[VariantAnswer]
    looked: int
    notes: Sequence[str]


def _default_answers(found: Study, options: FleetOptions) -> _Compared:
    """The answers to the settings; one that a log's conf refuses is left out, as it would not start."""
    wishes, notes = chosen_settings(found, options.variants)
    results = [ask(found, wish, watch=False) for wish in wishes]
    answers = [result.unwrap() for result in results if is_successful(result)]
    return _Compared(answers, len(answers), notes)


def _tuned(path: str, found: Study, options: FleetOptions) -> _Compared:
    """The answer to the setting that a short search recommends (none, if none is worth it)."""
    from podtide.domain.whatif.search.defaults import default_space, footing  # noqa: PLC0415 - only a search needs it
    from podtide.domain.whatif.search.in_effect import in_effect  # noqa: PLC0415 - the same
    from podtide.entrypoints.whatif.logs import UsableLog  # noqa: PLC0415 - the same
    from podtide.entrypoints.whatif.tune import TuneWish, tune  # noqa: PLC0415 - the same

    space, notes = in_effect(
        default_space([footing(found.application, found.conf.conf)], priced=options.prices is not None)
    )
    wish = TuneWish(within=options.within, worth=WORTH, budget=QUICK, prices=options.prices, processes=1)
    tuned = tune([UsableLog(path, found)], space, wish)
    recommended = tuned.found.verdict.recommended
    looked = tuned.found.counts.candidates
    if recommended is None or recommended.candidate.as_ran:
        return _Compared((), looked, notes)
    return _Compared(tuned.answers.get(recommended.candidate, ()), looked, notes)


def _row_of(
    path: str, application: Application, status: RowStatus, reason: str | None, found: Study | None = None
) -> FleetRow:
    """What the log itself says, and how far the simulation is from it."""
    error = None if found is None else found.error
    counts = application.counts
    killed = counts.get("killed", 0)
    return FleetRow(
        log=path,
        status=status,
        reason=None if reason is None else shortened(clean(reason)),
        app_id=shortened(clean(application.id)),
        app_name=shortened(clean(application.name)),
        spark_version=shortened(clean(application.spark_version)),
        started_ms=application.started_ms,
        tasks_started=counts.get("tasks started", 0),
        tasks_ended=counts.get("tasks ended", 0) + counts.get("resubmitted", 0),
        tasks_failed=counts.get("failed", 0) + counts.get("taken away", 0) - killed,
        tasks_killed=killed,
        runtime_s=_seconds(application.runtime_ms),
        executor_seconds=_seconds(application.executor_ms),
        peak_executors=application.peak_executors,
        simulated_runtime_s=None if found is None else _seconds(found.replay.typical.runtime_ms),
        error_runtime=None if error is None else round(error.runtime, 6),
        error_executor_seconds=None if error is None else round(error.executor_seconds, 6),
    )


def _answered(path: str, found: Study, compared: _Compared, options: FleetOptions) -> FleetRow:
    base, outcome = found.replay, found.replay.typical
    usage = usage_of(outcome, base.plan.shapes)
    parts = None if options.prices is None else bill_of(outcome, base.plan, options.prices.rules).parts(options.prices)
    cost = None if parts is None else sum(parts)
    beside = parts if options.prices is not None and options.prices.rules.asked else None
    row = msgspec.structs.replace(
        _row_of(path, found.application, RowStatus.OK, None, found),
        billed_seconds=_seconds(outcome.billed_ms),
        filled_seconds=_seconds(outcome.filled_ms),
        core_hours=round(usage.core_hours, 6),
        gb_hours=round(usage.gb_hours, 6),
        cost=None if cost is None else round(cost, 6),
        cost_unused=None if beside is None else round(beside[1], 6),
        cost_driver=None if beside is None else round(beside[2], 6),
        currency=None if options.prices is None else options.prices.currency,
        ledger={cause.value: _seconds(outcome.ledger.get(cause, 0)) for cause in SpendCause},
        waited_s=_seconds(outcome.waited_ms),
        waiting={limit.value: _seconds(outcome.waiting.get(limit, 0.0)) for limit in Limit},
        compared=compared.looked,
        left_out=shortened(clean(" ".join(compared.notes)), NOTES_MAX) or None,
        **_memory(found, usage.gb_hours, options.prices),
    )
    best = _best(found, compared.answers, options)
    if best is None:
        return row
    whole, least = _measure(base, options.prices), _measure(best, options.prices)
    best_usage = usage_of(best.typical, best.plan.shapes)
    best_cost = None if options.prices is None else cost_of(best.typical, best.plan, options.prices)
    most = best.certainty.executor_seconds.most
    dearest = _most(best, options.prices)
    return msgspec.structs.replace(
        row,
        best=shortened(clean(best.variant.name)),
        best_conf=_settings(found, best) or None,
        best_static=best.variant.static,
        best_runtime_s=_seconds(best.typical.runtime_ms),
        best_billed_seconds=_seconds(best.typical.billed_ms),
        best_core_hours=round(best_usage.core_hours, 6),
        best_cost=None if best_cost is None else round(best_cost, 6),
        saving_billed_seconds=_seconds(outcome.billed_ms - best.typical.billed_ms),
        saving_core_hours=round(usage.core_hours - best_usage.core_hours, 6),
        saving_cost=None if cost is None or best_cost is None else round(cost - best_cost, 6),
        saving_share=round(1.0 - least / whole, 6),
        saving_least_core_hours=round(usage.core_hours - most * best_usage.core_hours, 6),
        saving_least_cost=None if cost is None or best_cost is None else round(cost - dearest * best_cost, 6),
    )


def _settings(found: Study, best: VariantAnswer) -> dict[str, str | None]:
    """What to set for it: its changes and, where Spark's settings ask for a static count, those."""
    settings = dict(best.variant.changes)
    if best.variant.static is not None:
        place, cores = place_of(found.conf.conf), best.plan.shapes[DEFAULT_PROFILE].cores
        static_conf = static_settings(place, best.variant.static, cores)
        settings |= static_conf if isinstance(static_conf, dict) else {}
    return settings


def _memory(found: Study, gb_hours: float, prices: Prices | None) -> dict[str, Any]:
    """What the log says of memory; {} where it says nothing."""
    seen = memory_finding(found.application, found.conf.conf, found.replay.plan.shapes[DEFAULT_PROFILE])
    if seen is None:
        return {}
    saved = seen.saved_share * gb_hours
    return {
        "memory_spilled_bytes": seen.memory_spilled,
        "memory_losses": seen.losses.heap + seen.losses.container + seen.losses.tasks,
        "memory_conf": dict(seen.changes) or None,
        "memory_risk": None if seen.risk is None else seen.risk.value,
        "saving_memory_gb_hours": round(saved, 6) if seen.changes else None,
        "saving_memory_cost": round(saved * prices.gb_hour * prices.factor, 6) if seen.changes and prices else None,
    }


def _best(found: Study, answers: Sequence[VariantAnswer], options: FleetOptions) -> VariantAnswer | None:
    """The cheapest that holds with all seeds; None where none does."""
    for one in sorted(answers, key=lambda one: _measure(one, options.prices)):
        if _holds(found, one, options):
            sure = ask(replace(found, seeds=tuple(range(CONFIRMING))), one.variant, watch=False).unwrap()
            if _holds(found, sure, options):
                return sure
    return None


def _holds(found: Study, one: VariantAnswer, options: FleetOptions) -> bool:
    """Whether it finishes in time and saves something, in nine of ten runs, and saves enough in the typical one."""
    certainty, whole = one.certainty, _measure(found.replay, options.prices)
    takes = _measure(one, options.prices)
    less_sure = max(1.0, certainty.runtime.most / found.replay.certainty.runtime.most)
    bound = found.replay.typical.runtime_ms * (1.0 + options.within)
    return (
        one.unfinished is None
        and less_sure * one.typical.runtime_ms <= bound
        and _most(one, options.prices) * takes < whole
        and whole > 0
        and 1.0 - takes / whole >= WORTH
    )


def _most(one: VariantAnswer, prices: Prices | None) -> float:
    """By what factor nine of ten real runs stay below what settings are compared by."""
    if prices is None:
        return one.certainty.executor_seconds.most
    return cost_factors(one.typical, one.plan, prices, one.certainty).most


def _measure(one: VariantAnswer, prices: Prices | None) -> float:
    """What settings are compared by."""
    return (
        usage_of(one.typical, one.plan.shapes).core_hours if prices is None else cost_of(one.typical, one.plan, prices)
    )


def _seconds(ms: Millis | float) -> float:
    return round(ms / 1000, 3)
