"""Executor-time as hours and money."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding, NodeShape
from podtide.domain.whatif.prices import Prices, Usage, problems, usage, usage_of
from tests.support.whatif_play import outcome

HOUR = 3_600_000
SHAPES = {DEFAULT_PROFILE: ExecutorShape(2, 2, 4_096), ProfileId(1): ExecutorShape(1, 8, 1_024)}


def test_an_hour_of_an_executor() -> None:
    assert usage({DEFAULT_PROFILE: HOUR}, SHAPES) == Usage(2.0, 4.0)


def test_profiles_have_their_own_shapes_and_unknown_ones_the_default() -> None:
    assert usage({ProfileId(1): HOUR, ProfileId(7): HOUR}, SHAPES) == Usage(8.0 + 2.0, 1.0 + 4.0)


def test_spot_takes_its_discount_off_its_share() -> None:
    prices = Prices(0.04, 0.005, spot_share=0.7, spot_discount=0.65)
    assert prices.factor == pytest.approx(0.545)
    assert Usage(100.0, 400.0).cost(prices) == pytest.approx(6.0 * 0.545)


def test_what_is_not_divided_among_profiles_is_the_default_ones() -> None:
    one = outcome(profiles={ProfileId(1): 9_000})
    rest = one.billed_ms - 9_000
    assert usage_of(one, SHAPES) == usage({ProfileId(1): 9_000, DEFAULT_PROFILE: rest}, SHAPES)


@pytest.mark.parametrize(
    ("prices", "key"),
    [
        (Prices(-1.0, 1.0), "core-hour"),
        (Prices(1.0, float("nan")), "gb-hour"),
        (Prices(1e12), "core-hour"),
        (Prices(), "core-hour"),
        (Prices(1.0, spot_share=1.5), "spot-share"),
        (Prices(1.0, spot_discount=-0.1), "spot-discount"),
        (Prices(1.0, currency=""), "currency"),
        (Prices(1.0, currency="\x1b[31m"), "currency"),
        (Prices(1.0, currency="galleons and sickles"), "currency"),
        (Prices(1.0, rules=BillRules(node=NodeShape(0, 1_024))), "node-cores"),
        (Prices(1.0, rules=BillRules(node=NodeShape(1, 0))), "node-memory"),
        (Prices(1.0, rules=BillRules(node=NodeShape(4, 1_024, 2.5))), "node-reserved-cores"),
        (Prices(1.0, rules=BillRules(node=NodeShape(4, 1_024, float("nan")))), "node-reserved-cores"),
        (Prices(1.0, rules=BillRules(node=NodeShape(4, 1_024, 0, 513))), "node-reserved-memory"),
        (Prices(1.0, rules=BillRules(containers=ContainerRounding(0))), "yarn-minimum-allocation-mb"),
        (Prices(1.0, rules=BillRules(containers=ContainerRounding(1, -1))), "yarn-increment-allocation-mb"),
    ],
)
def test_what_is_no_price(prices: Prices, key: str) -> None:
    assert [where for where, _ in problems(prices)] == [key]


def test_a_price_is_one() -> None:
    assert problems(Prices(0.04)) == ()
    assert problems(Prices(gb_hour=0.005, spot_share=1.0, spot_discount=1.0, currency="€")) == ()


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 512), st.integers(1, 2**20))
def test_time_adds_up(one: int, other: int, cores: int, memory: int) -> None:
    shapes = {DEFAULT_PROFILE: ExecutorShape(1, cores, memory)}
    first, second = usage({DEFAULT_PROFILE: one}, shapes), usage({DEFAULT_PROFILE: other}, shapes)
    both = usage({DEFAULT_PROFILE: one + other}, shapes)
    assert both.core_hours == pytest.approx(first.core_hours + second.core_hours)
    assert both.gb_hours == pytest.approx(first.gb_hours + second.gb_hours)
