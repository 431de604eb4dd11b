"""The bill of a run: its parts by hand, and by chance that no rule ever makes it smaller."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.rerun.outcome import ExecutorSpan
from podtide.domain.rerun.plan import ExecutorShape, Plan
from podtide.domain.whatif.bill.containers import rounded
from podtide.domain.whatif.bill.rules import NO_RULES, BillRules, ContainerRounding, NodeShape, ResourceCalculator
from podtide.domain.whatif.bill.run_bill import BilledWork, bill, cost_factors, work_of
from podtide.domain.whatif.prediction import Certainty, Factors
from podtide.domain.whatif.prices import Prices, Usage
from tests.support.whatif_play import outcome

HOUR = 3_600_000
YARN = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
WORK = [BilledWork(2, 3_000, 2 * HOUR, ((0, HOUR), (0, HOUR)))]
DOMINANT = ContainerRounding(1_024, 512, 2, 2, ResourceCalculator.DOMINANT)


@pytest.mark.parametrize(
    ("rounding", "asked", "given_"),
    [
        (ContainerRounding(), (3, 1_408), (3, 2_048)),
        (ContainerRounding(), (3, 100), (3, 1_024)),
        (ContainerRounding(1_024, 512), (3, 1_408), (3, 1_536)),
        (ContainerRounding(1_000, 512), (1, 1), (1, 1_024)),
        (DOMINANT, (3, 1_408), (4, 1_536)),
        (DOMINANT, (1, 1_024), (2, 1_024)),
    ],
)
def test_containers_are_rounded_up(
    rounding: ContainerRounding, asked: tuple[int, int], given_: tuple[int, int]
) -> None:
    assert rounded(*asked, rounding) == given_


def test_the_parts_of_a_bill() -> None:
    rules = BillRules(driver=True, node=NodeShape(8, 16_384), containers=ContainerRounding())
    made = bill(WORK, YARN.get, HOUR, rules)
    assert made.executors == Usage(4.0, 6.0)
    assert made.unused == Usage(4.0, 10.0)
    assert made.driver == Usage(1.0, 2.0)
    prices = Prices(1.0, 0.1, spot_share=0.5, spot_discount=0.5, rules=rules)
    assert made.parts(prices) == pytest.approx((4.6 * 0.75, 5.0 * 0.75, 1.2))
    assert made.cost(prices) == pytest.approx(sum(made.parts(prices)))


def test_rounding_is_yarns_alone() -> None:
    rules = BillRules(containers=ContainerRounding())
    assert bill(WORK, {"spark.master": "k8s://https://api"}.get, HOUR, rules).executors == Usage(4.0, 6_000 / 1_024)


def test_executors_whose_times_are_not_known_have_no_nodes() -> None:
    assert bill([WORK[0]._replace(spans=())], YARN.get, HOUR, BillRules(node=NodeShape(8, 16_384))).unused == Usage()


def test_the_drivers_part_of_a_cost_is_as_sure_as_the_run_time() -> None:
    """A third of the bill is the driver's."""
    conf = from_mapping({"spark.master": "yarn", "spark.submit.deployMode": "cluster"}, "test")
    plan = Plan("plan", conf, {DEFAULT_PROFILE: ExecutorShape(1, 2, 1_024)})
    one = replace(outcome(), runtime_ms=HOUR, lives=(0, HOUR, 0))
    sure = Certainty(Factors(0.9, 0.95, 1.5, 2.0), Factors(0.6, 0.8, 1.2, 1.4))
    with_driver = Prices(1.0, rules=BillRules(driver=True))
    assert cost_factors(one, plan, with_driver, sure) == pytest.approx((0.7, 0.85, 1.3, 1.6))
    assert cost_factors(one, plan, Prices(1.0), sure) == sure.executor_seconds


RULES = st.builds(
    BillRules,
    st.booleans(),
    st.none() | st.builds(NodeShape, st.integers(1, 64), st.integers(512, 65_536), st.just(0.25), st.integers(0, 256)),
    st.none()
    | st.builds(
        ContainerRounding, st.integers(1, 4_096), st.none() | st.integers(1, 2_048), st.integers(1, 4),
        st.none() | st.integers(1, 4), st.sampled_from(ResourceCalculator),
    ),
)  # fmt: skip
LIVES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 2)), max_size=25)
SHAPES = {DEFAULT_PROFILE: ExecutorShape(1, 4, 4_505), ProfileId(1): ExecutorShape(1, 1, 700)}
PRICES = st.builds(Prices, st.floats(0.001, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


@given(LIVES, RULES, PRICES, st.sampled_from(["yarn", "k8s://https://api", "local[2]"]))
def test_no_rule_makes_a_bill_smaller(
    lives: list[tuple[int, int, int]], rules: BillRules, prices: Prices, master: str
) -> None:
    spans = [ExecutorSpan(began, began + length, ProfileId(profile)) for began, length, profile in lives]
    conf = {"spark.master": master, "spark.submit.deployMode": "cluster"}
    work = work_of(spans, SHAPES)
    plain = bill(work, conf.get, 20_000, NO_RULES).cost(prices)
    assert bill(work, conf.get, 20_000, rules).cost(prices) >= plain * (1 - 1e-9)
    assert plain == pytest.approx(
        sum(
            (shape.cores * prices.core_hour + shape.memory_mib / 1_024 * prices.gb_hour) * one.billed_ms / HOUR
            for one in work
            for shape in (ExecutorShape(1, one.cores, one.memory_mib),)
        )
        * prices.factor
    )


@given(LIVES, PRICES)
def test_where_nothing_is_rounded_the_bill_is_the_plain_one(lives: list[tuple[int, int, int]], prices: Prices) -> None:
    spans = [ExecutorSpan(began, began + length, DEFAULT_PROFILE) for began, length, _ in lives]
    work = work_of(spans, SHAPES)
    ones = BillRules(node=NodeShape(4, 4_505), containers=ContainerRounding(1, 1))
    plain = bill(work, YARN.get, 20_000, NO_RULES).cost(prices)
    assert bill(work, YARN.get, 20_000, ones).cost(prices) == pytest.approx(plain)
