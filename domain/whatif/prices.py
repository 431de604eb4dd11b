"""From executor-time to money: core-hours, GB-hours, and what they cost.

What is billed of an executor is the time from its request to its end, its cores and all of its memory. A GB is 2^30 bytes,
as the price lists of clouds mean it. A share of the executors may run on spot capacity, which costs less by a discount:
with 0.7 on spot at a discount of 0.65 the bill is 1 - 0.7 * 0.65 = 54.5 % of the list price. What an interruption does to
the run is no price but a fault (``plan.Faults.spot_per_hour``).

Disks and network are not in it. The driver, what a node leaves unused and YARN's rounding are where the prices ask for them:
``Prices.rules``, of which ``whatif.bill`` makes the bill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.whatif.bill.rules import NO_RULES, BillRules, rule_problems

CURRENCY: Final = "USD"
PRICE_MAX: Final = 1e9
"""No core costs more an hour, in any currency: a bound that keeps sums finite."""

CURRENCY_CHARS_MAX: Final = 8

_HOUR_MS: Final = 3_600_000
_MIB_OF_GB: Final = 1_024


@dataclass(frozen=True, slots=True)
class Prices:
    """``core_hour``, ``gb_hour``: list prices; ``spot_share``: of the executors, 0 to 1; ``spot_discount``: 0 to 1;
    ``rules``: what is paid for beside the executors."""

    core_hour: float = 0.0
    gb_hour: float = 0.0
    spot_share: float = 0.0
    spot_discount: float = 0.0
    currency: str = CURRENCY
    rules: BillRules = NO_RULES

    @property
    def factor(self) -> float:
        """What is left of the list price."""
        return 1.0 - self.spot_share * self.spot_discount


def problems(prices: Prices) -> tuple[tuple[str, str], ...]:
    """What is wrong with prices: (key, what was expected); () where nothing is."""
    found = []
    for key, value in (("core-hour", prices.core_hour), ("gb-hour", prices.gb_hour)):
        if not (math.isfinite(value) and 0 <= value <= PRICE_MAX):
            found.append((key, "a price of 0 or more, such as 0.04"))
    for key, value in (("spot-share", prices.spot_share), ("spot-discount", prices.spot_discount)):
        if not 0 <= value <= 1:
            found.append((key, "a share from 0 to 1, such as 0.7"))
    if prices.core_hour == 0 and prices.gb_hour == 0:
        found.append(("core-hour", "a price above 0, for the core-hour, the gb-hour or both"))
    if not (prices.currency.isprintable() and 0 < len(prices.currency.strip()) <= CURRENCY_CHARS_MAX):
        found.append(("currency", f"a name of 1 to {CURRENCY_CHARS_MAX} characters, such as EUR"))
    return (*found, *rule_problems(prices.rules))


class Usage(NamedTuple):
    """What was taken of a cluster, in core-hours and GB-hours."""

    core_hours: float = 0.0
    gb_hours: float = 0.0

    def cost(self, prices: Prices) -> float:
        """What executors of it cost."""
        return self.list_cost(prices) * prices.factor

    def list_cost(self, prices: Prices) -> float:
        """The same without what spot capacity takes off."""
        return self.core_hours * prices.core_hour + self.gb_hours * prices.gb_hour


def usage(billed_ms: Mapping[ProfileId, Millis], shapes: Mapping[ProfileId, ExecutorShape]) -> Usage:
    """What executors took that were there for so long, by profile. One without a shape has the default profile's."""
    core_ms = mib_ms = 0
    for profile, ms in billed_ms.items():
        shape = shapes.get(profile, shapes[DEFAULT_PROFILE])
        core_ms += ms * shape.cores
        mib_ms += ms * shape.memory_mib
    return Usage(core_ms / _HOUR_MS, mib_ms / _MIB_OF_GB / _HOUR_MS)


def usage_of(outcome: RerunOutcome, shapes: Mapping[ProfileId, ExecutorShape]) -> Usage:
    """What a run took. What is billed and not divided among profiles counts for the default one."""
    billed = dict(outcome.billed_by_profile)
    if (rest := outcome.billed_ms - sum(billed.values())) > 0:
        billed[DEFAULT_PROFILE] = billed.get(DEFAULT_PROFILE, 0) + rest
    return usage(billed, shapes)
