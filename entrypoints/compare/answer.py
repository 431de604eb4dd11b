"""The answer of a comparison, for whoever asks: the command line, the library, an assistant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from podtide.adapters.views.comparison.document import ComparisonDocument, GateEntry, document
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.baseline import baseline_of
from podtide.domain.comparison.comparison import Comparison, compare as compare_accounts
from podtide.domain.whatif.comparison import Metric
from podtide.domain.whatif.gates import Bounded, Gate
from podtide.domain.whatif.prices import Prices


class AccountOf(NamedTuple):
    """The account of a run, and the log that tells it, as it was named."""

    log: str
    account: RunAccount


def comparison_document(
    runs: Sequence[AccountOf], prices: Prices | None = None, gates: Sequence[Gate] = ()
) -> ComparisonDocument:
    """The last run compared with the one before it; with more than two, with the typical one of those before it."""
    assert len(runs) >= 2
    logs = {id(one.account): one.log for one in runs}
    *before, last = (one.account for one in runs)
    base = baseline_of(before) if len(before) > 1 else None
    first = before[0] if base is None else base.typical
    found = (
        compare_accounts(first, last, prices=prices)
        if base is None
        else compare_accounts(first, last, prices=prices, noise=base.noise)
    )
    entries = [GateEntry(gate.text, _fails(gate, found)) for gate in gates]
    return document(found, (logs[id(first)], logs[id(last)]), prices, base, entries)


def _fails(gate: Gate, found: Comparison) -> bool:
    measured = [_measured(run, cost) for run, cost in zip((found.first, found.second), found.cost, strict=True)]
    value = measured[1][gate.metric]
    return gate.fails(measured[0][gate.metric], Bounded(value, value, value))


def _measured(run: RunAccount, cost: float) -> dict[Metric, float]:
    return {
        Metric.RUNTIME: run.runtime_ms / 1000,
        Metric.EXECUTOR_SECONDS: run.executors.executor_ms / 1000,
        Metric.BILLED_SECONDS: run.billed_ms / 1000,
        Metric.COST: cost,
        Metric.PEAK: float(run.executors.peak),
    }
