"""Prediction intervals: what counts as a change, what makes a forecast hard, and what comes of both."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given, strategies as st
from returns.pipeline import is_successful

from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.plan import Plan, Variant
from podtide.domain.whatif.calibration import CALIBRATION
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.prediction import (
    Calibration,
    ChangeKind,
    Difficulty,
    Quantity,
    Scale,
    Tails,
    change_of,
    difficulty,
)
from tests.support.whatif_play import application, outcome

DYNAMIC = "spark.dynamicAllocation"


def planned(static: int | None = None, **changes: str) -> Plan:
    app = application()
    wish = Variant("v", {key.replace("_", "."): text for key, text in changes.items()}, static)
    made = plan(app, recorded_conf(app).unwrap().conf, wish)
    assert is_successful(made), made
    return made.unwrap()


def dynamic(**changes: str) -> Plan:
    return planned(
        None, spark_dynamicAllocation_enabled="true", spark_dynamicAllocation_shuffleTracking_enabled="true", **changes
    )


@pytest.mark.parametrize(
    ("own", "other", "change"),
    [
        (dynamic(), dynamic(), ChangeKind.NOTHING),
        (planned(3), planned(3), ChangeKind.NOTHING),
        (dynamic(), dynamic(spark_dynamicAllocation_maxExecutors="4"), ChangeKind.COUNTS),
        (dynamic(), dynamic(spark_scheduler_mode="FAIR"), ChangeKind.COUNTS),
        (dynamic(), planned(3), ChangeKind.STATIC),
        (planned(3), dynamic(), ChangeKind.STATIC),
        (planned(3), planned(4), ChangeKind.STATIC),
        (dynamic(), dynamic(spark_executor_cores="4"), ChangeKind.SHAPE),
        (dynamic(), planned(3, spark_executor_cores="4"), ChangeKind.SHAPE),
        (dynamic(), dynamic(spark_master="spark://host:7077", spark_executor_cores="4"), ChangeKind.MASTER),
    ],
)
def test_what_a_plan_changes(own: Plan, other: Plan, change: ChangeKind) -> None:
    assert change_of(other, own) is change
    assert change_of(own, other) is change


def test_what_makes_a_forecast_hard() -> None:
    runs = [
        replace(
            outcome(length, 40_000),
            waiting={Limit.START_UP: 2_000.0, Limit.MAXIMUM: 5_000.0},
            ledger={SpendCause.RUNNING: 30_000, SpendCause.STARTING: 9_000},
        )
        for length in (20_000, 25_000, 40_000)
    ]
    hard = difficulty(Quantity.RUNTIME, runs, runs[0], 10_000, -0.05)
    assert hard == pytest.approx((0.1, 0.25, log(2), log(2), 0.05))
    work = difficulty(Quantity.EXECUTOR_SECONDS, runs, runs[0], 80_000, 0.2)
    assert work == pytest.approx((0.1, 0.25, log(2), 0.0, 0.2))


def test_a_forecast_of_nothing_is_not_hard() -> None:
    assert difficulty(Quantity.EXECUTOR_SECONDS, [outcome(0, 0)], outcome(0, 0), 0, 0.0)[2:] == (0.0, 0.0, 0.0)


def test_factors_are_the_scaled_tails() -> None:
    scale, tails = Scale(0.01, starting=0.1, own=1.0), Tails(-2.0, -1.0, 3.0, 4.0)
    made = Calibration({Quantity.RUNTIME: scale}, {(Quantity.RUNTIME, ChangeKind.SHAPE): tails})
    factors = made.factors(Quantity.RUNTIME, ChangeKind.SHAPE, Difficulty(starting=0.5, idle=0.9, own=0.04))
    assert factors == pytest.approx((exp(-0.2), exp(-0.1), exp(0.3), exp(0.4)))
    assert factors.around(100.0) == pytest.approx((100 * exp(-0.2), 100 * exp(0.4)))


HARD = st.builds(Difficulty, *(st.floats(0, 1),) * 5)


@given(st.sampled_from(Quantity), st.sampled_from(ChangeKind), HARD, HARD)
def test_the_forecast_is_within_its_interval_and_the_harder_the_wider(
    quantity: Quantity, change: ChangeKind, hard: Difficulty, more: Difficulty
) -> None:
    one = CALIBRATION.factors(quantity, change, hard)
    other = CALIBRATION.factors(quantity, change, Difficulty(*map(sum, zip(hard, more, strict=True))))
    assert 0 < one.low <= one.least <= 1.0 <= one.most <= one.high
    assert other.low <= one.low
    assert one.high <= other.high
