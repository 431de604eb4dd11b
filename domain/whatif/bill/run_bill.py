"""The bill of a run: what its executors take, what whole nodes have beside them, and the driver.

Every command that names a price asks here. The amounts are core-hours and GB-hours that are *paid for*; a run's
core-hours in the answers stay what its executors took. The spot discount is for executors and their nodes, the driver
pays the list price. Whole nodes are those of the executors alone: the driver is taken to stand elsewhere, as on a
pool that is never interrupted.

YARN's rounding applies to runs on YARN (by spark.master), to their executors and to the application master.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.rerun.outcome import ExecutorSpan, RerunOutcome
from podtide.domain.rerun.plan import ExecutorShape, Plan
from podtide.domain.whatif.bill.containers import rounded
from podtide.domain.whatif.bill.driver import DriverShape, Settings, driver_shape
from podtide.domain.whatif.bill.nodes import PlacedSpan, node_ms
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding
from podtide.domain.whatif.prediction import Certainty, Factors
from podtide.domain.whatif.prices import Prices, Usage, usage_of

_HOUR_MS = 3_600_000
_MIB_OF_GB = 1_024


class RunBill(NamedTuple):
    """What is paid for. ``executors``: as large as they are given; ``unused``: of whole nodes, beside them; ``driver``."""

    executors: Usage
    unused: Usage = Usage()
    driver: Usage = Usage()

    def parts(self, prices: Prices) -> tuple[float, float, float]:
        """What executors, the rest of their nodes, and the driver cost."""
        return self.executors.cost(prices), self.unused.cost(prices), self.driver.list_cost(prices)

    def cost(self, prices: Prices) -> float:
        """What it costs in all."""
        return sum(self.parts(prices))


class BilledWork(NamedTuple):
    """Executors of one size and how long they were there. ``spans``: from request to end, needed for whole nodes only."""

    cores: int
    memory_mib: int
    billed_ms: Millis
    spans: Sequence[tuple[Millis, Millis]] = ()


def bill(work: Iterable[BilledWork], setting: Settings, runtime_ms: Millis, rules: BillRules) -> RunBill:
    """The bill of executors, and of the driver of a run that took so long. ``setting``: the run's conf."""
    rounding = rules.containers if (setting("spark.master") or "").strip().startswith("yarn") else None
    core_ms = mib_ms = placed_core_ms = placed_mib_ms = 0
    placed: list[PlacedSpan] = []
    for one in work:
        cores, mib = one[:2] if rounding is None else rounded(one.cores, one.memory_mib, rounding)
        core_ms += one.billed_ms * cores
        mib_ms += one.billed_ms * mib
        if rules.node is not None:
            placed.extend(PlacedSpan(began, ended, cores, mib) for began, ended in one.spans)
            placed_ms = sum(ended - began for began, ended in one.spans)
            placed_core_ms += placed_ms * cores
            placed_mib_ms += placed_ms * mib
    unused = Usage()
    if rules.node is not None:
        paid = node_ms(placed, rules.node)
        unused = _usage(paid * rules.node.cores - placed_core_ms, paid * rules.node.memory_mib - placed_mib_ms)
    shape = driver_shape(setting) if rules.driver else None
    driver = Usage() if shape is None else _driver(shape, rounding, runtime_ms)
    return RunBill(_usage(core_ms, mib_ms), unused, driver)


def bill_of(outcome: RerunOutcome, plan: Plan, rules: BillRules) -> RunBill:
    """The bill of a simulated run."""
    if not rules.asked:
        return RunBill(usage_of(outcome, plan.shapes))
    return bill(work_of(outcome.spans, plan.shapes), plan.conf.raw, outcome.runtime_ms, rules)


def cost_of(outcome: RerunOutcome, plan: Plan, prices: Prices) -> float:
    """What a simulated run costs."""
    return bill_of(outcome, plan, prices.rules).cost(prices)


def cost_factors(outcome: RerunOutcome, plan: Plan, prices: Prices, certainty: Certainty) -> Factors:
    """How sure the cost of a simulated run is: the driver's part as the run time, the others as the executor-seconds."""
    *_, driver = parts = bill_of(outcome, plan, prices.rules).parts(prices)
    if not driver:
        return certainty.executor_seconds
    share = driver / sum(parts)
    both = zip(certainty.executor_seconds, certainty.runtime, strict=True)
    return Factors(*((1.0 - share) * executors + share * runtime for executors, runtime in both))


def work_of(spans: Iterable[ExecutorSpan], shapes: Mapping[ProfileId, ExecutorShape]) -> list[BilledWork]:
    """Executors by profile. One without a shape has the default profile's."""
    lives: dict[ProfileId, list[tuple[Millis, Millis]]] = {}
    for began, ended, profile in spans:
        lives.setdefault(profile, []).append((began, max(began, ended)))
    return [
        BilledWork(shape.cores, shape.memory_mib, sum(ended - began for began, ended in own), own)
        for profile, own in lives.items()
        for shape in (shapes.get(profile, shapes[DEFAULT_PROFILE]),)
    ]


def _driver(shape: DriverShape, rounding: ContainerRounding | None, runtime_ms: Millis) -> Usage:
    cores, mib = shape.cores, shape.memory_mib
    if rounding is not None:
        cores, mib = rounded(int(cores), mib, rounding)
    return _usage(runtime_ms * cores, runtime_ms * mib)


def _usage(core_ms: float, mib_ms: float) -> Usage:
    return Usage(core_ms / _HOUR_MS, mib_ms / _MIB_OF_GB / _HOUR_MS)
