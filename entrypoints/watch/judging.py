"""Each run of a history is judged once, by the runs of its application before it; what is more than noise becomes an event.

Judged are the run time and the money: what the executors cost from request to end as recorded, in core-hours where no
prices are given. Only healthy runs are judged and learned from. A run with an event is compared with the healthy run that
is nearest to the median, and the event names the causes (``domain.comparison``).

Runs are judged in the order of their starts; one that is found after a later one was judged changes nothing any more and is
kept as it is (``late``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import to_builtins

from podtide.adapters.fleet.journal import digest
from podtide.adapters.fleet.rows import shown_place
from podtide.adapters.history.accounts import account_from
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import EventKind, KeptRun
from podtide.adapters.views.comparison import words
from podtide.adapters.views.comparison.document import document
from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.comparison import account_bill, compare
from podtide.domain.history.baseline import PRIOR, Judged, Judgement, LearnedBaseline, RunSample, judge
from podtide.domain.whatif.prices import Prices

Sinks = Mapping[str, frozenset[EventKind]]
"""Which sink wants which events."""


class JudgedMeasure(Enum):
    """What is judged of a run."""

    RUNTIME = "run time"
    MONEY = "money"


PRIORS: Final = {JudgedMeasure.RUNTIME: PRIOR, JudgedMeasure.MONEY: 0.09}
"""What is expected of the noise before an application's own is known; executors that start late move the bill more."""

CAUSES: Final = 4
STAGES: Final = 2
EVIDENCE: Final = 4
SETTINGS: Final = 10
"""How much of a comparison an event holds."""

_TOLD: Final = {Judgement.WORSE: EventKind.REGRESSION, Judgement.BETTER: EventKind.IMPROVEMENT}
_decoder: Final = msgspec.json.Decoder(dict[str, LearnedBaseline])


def judge_all(history: RunHistory, prices: Prices | None, sinks: Sinks, now: Millis) -> int:
    """Judge every run that was not judged yet, a transaction each; how many regressions were found."""
    found = 0
    for run in history.unjudged():
        with history.change():
            found += _judge(history, run, prices, sinks, now)
    return found


def _judge(history: RunHistory, run: KeptRun, prices: Prices | None, sinks: Sinks, now: Millis) -> int:
    latest, kept = history.baseline(run.name) or (-1, b"{}")
    start = run.key.started_ms
    if not run.healthy or start < latest:
        history.put_verdict(run, {"left_out": "late" if run.healthy else "not healthy"})
        return 0
    baselines = _decoder.decode(kept)
    verdict: dict[str, Any] = {}
    regressions = 0
    for measure, value, unit in measures(run, prices, _bill_account(history, run, prices)):
        known = baselines.get(measure.value, LearnedBaseline(unit))
        baselines[measure.value], judged = judge(known, RunSample(run.id, value), unit, PRIORS[measure])
        verdict[measure.value] = _entry(judged, _unit(measure, prices))
        kind = _TOLD.get(judged.judgement)
        if kind is not None:
            history.tell(kind, sinks, now, run, _body(history, run, measure, value, prices, judged))
            regressions += kind is EventKind.REGRESSION
    history.put_verdict(run, verdict)
    history.put_baseline(run.name, start, msgspec.json.encode(baselines))
    return regressions


def _bill_account(history: RunHistory, run: KeptRun, prices: Prices | None) -> RunAccount | None:
    """The account of a run, where its bill is made of more than its executors."""
    return None if prices is None or not prices.rules.asked else account_from(history.account(run.id))


def measures(
    run: KeptRun, prices: Prices | None, account: RunAccount | None = None
) -> Iterator[tuple[JudgedMeasure, float, str]]:
    """What is judged of a run: the measure, its value, and what it is counted in; values of 0 say nothing."""
    if run.row.runtime_s:
        yield JudgedMeasure.RUNTIME, run.row.runtime_s, "s"
    if spent := money(run, prices, account):
        yield JudgedMeasure.MONEY, spent, "core-hours" if prices is None else f"{prices.currency} at {digest(prices)}"


def money(run: KeptRun, prices: Prices | None, account: RunAccount | None = None) -> float:
    """What a run took: money, or core-hours without prices. ``account``: needed where the prices ask for more than
    executors; without it that is 0, which is not judged."""
    if prices is None:
        return run.usage.core_hours
    if not prices.rules.asked:
        return run.usage.cost(prices)
    return 0.0 if account is None else account_bill(account, prices.rules).cost(prices)


def _unit(measure: JudgedMeasure, prices: Prices | None) -> str:
    return "s" if measure is JudgedMeasure.RUNTIME else "core-hours" if prices is None else prices.currency


def _entry(judged: Judged, unit: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"judgement": judged.judgement.value, "unit": unit}
    if judged.judgement is not Judgement.LEARNING:
        entry |= {"normal": round(judged.normal, 6), "limit": round(judged.limit, 4), "runs": judged.runs}
    return entry | ({"new_level": True} if judged.new_level else {})


def run_entry(run: KeptRun) -> dict[str, Any]:
    """Which run it is, as every event of a run begins."""
    return {
        "app": {"name": run.name, "id": run.key.app_id, "attempt": run.key.attempt or None},
        "run": run.id,
        "log": shown_place(run.place),
        "started_ms": run.key.started_ms,
    }


def _body(
    history: RunHistory, run: KeptRun, measure: JudgedMeasure, value: float, prices: Prices | None, judged: Judged
) -> dict[str, Any]:
    """The event of a regression or an improvement."""
    typical = None if judged.typical is None else history.run(judged.typical)
    return {
        **run_entry(run),
        "measure": measure.value,
        "unit": _unit(measure, prices),
        "value": round(value, 6),
        "normal": round(judged.normal, 6),
        "change_share": round(value / judged.normal - 1.0, 4),
        "limit_share": round(judged.limit, 4),
        "baseline_runs": judged.runs,
        "compared_with": None if typical is None else {"run": typical.id, "log": shown_place(typical.place)},
        "spark_version": {"before": typical.row.spark_version if typical else None, "now": run.row.spark_version},
        **({} if typical is None else _explained(history, typical, run, prices, judged.limit)),
    }


def _explained(
    history: RunHistory, typical: KeptRun, run: KeptRun, prices: Prices | None, noise: float
) -> dict[str, Any]:
    """Why a run differs from a typical one, as ``podtide compare`` says it; {} where an account of them is not kept."""
    first, second = (account_from(history.account(one.id)) for one in (typical, run))
    if first is None or second is None:
        return {}
    found = document(compare(first, second, prices=prices, noise=noise), (typical.place, run.place), prices)
    causes = [
        {
            "cause": one.cause,
            "text": words.titled(one),
            "runtime_s": round(one.runtime_s, 3),
            "share": None if one.share is None else round(one.share, 4),
            "stages": [stage.name for stage in one.stages[:STAGES]],
            "evidence": [words.evidence(figure) for figure in one.evidence[:EVIDENCE]],
            "settings": [words.setting(setting) for setting in one.because[:SETTINGS]],
        }
        for one in words.large_causes(found)[0][:CAUSES]
    ]
    bill = [
        {"cause": one.cause, "executor_seconds": round(one.executor_seconds, 3), "cost": round(one.cost, 6)}
        for one in found.bill[:CAUSES]
    ]
    settings = [to_builtins(one) for one in found.conf[:SETTINGS]]
    return {"causes": causes, "bill": bill, "settings": settings}
