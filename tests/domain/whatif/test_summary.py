"""Several seeds to one answer, and the model's own error."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from returns.pipeline import is_successful

from podtide.domain.rerun.outcome import CurvePoint, RerunOutcome
from podtide.domain.rerun.plan import Plan, Variant
from podtide.domain.whatif.misfit import deviations, misfit
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.prediction import Certainty, Factors
from podtide.domain.whatif.summary import OwnError, answer, own_error, own_typical, typical
from tests.support.whatif_play import application, outcome

SELF = Variant("v")


def a_plan() -> Plan:
    app = application()
    made = plan(app, recorded_conf(app).unwrap().conf, SELF)
    assert is_successful(made)
    return made.unwrap()


PLAN = a_plan()


@pytest.mark.parametrize(
    ("runtimes", "middle"),
    [([5], 5), ([5, 9], 5), ([9, 5, 7], 7), ([1, 2, 3, 4, 100], 4), ([4, 4, 4], 4), ([44, 62, 58, 46, 60], 58)],
)
def test_the_typical_run_is_nearest_to_the_mean(runtimes: list[int], middle: int) -> None:
    """Of two kinds of runs one that lies between them, not the median of the more frequent kind."""
    assert typical([outcome(1_000 * one) for one in runtimes]).runtime_ms == 1_000 * middle


def test_both_quantities_count() -> None:
    runs = [outcome(10_000, 90_000), outcome(11_000, 40_000), outcome(12_000, 10_000), outcome(11_000, 39_000)]
    assert typical(runs) is runs[1]


def test_ranges_are_around_the_typical_run() -> None:
    sure = Certainty(Factors(0.9, 0.95, 1.1, 1.2), Factors(0.8, 0.9, 1.2, 1.5))
    made = replace(answer(SELF, PLAN, [outcome(10_000, 40_000)] * 3), certainty=sure)
    assert made.runtime_ms == (9_000, 12_000)
    assert made.executor_ms == (32_000, 60_000)
    assert made.billed_ms == (0.8 * made.typical.billed_ms, 1.5 * made.typical.billed_ms)


def test_the_recorded_luck_has_no_part_in_the_own_error() -> None:
    lucky, slow, slower = outcome(10_000), outcome(12_000), outcome(12_100)
    assert own_typical([lucky, slow, slower]) is slow
    assert own_typical([lucky]) is lucky


def test_the_ledger_of_the_answer_is_its_bill() -> None:
    made = answer(SELF, PLAN, [outcome(10_000 + seed, 40_000 + seed) for seed in range(5)])
    assert sum(made.typical.ledger.values()) == made.typical.billed_ms
    assert made.idle_share == 0.5
    assert pickle.loads(pickle.dumps(made)) == made


def test_one_seed_that_does_not_end_is_told() -> None:
    made = answer(SELF, PLAN, [outcome(), outcome(unfinished="no executor came")])
    assert made.unfinished == "no executor came"


# ---------------------------------------------------------------------------------------------------- the own error


def test_the_same_run_has_no_error() -> None:
    again = outcome(20_000, 36_000)
    same = replace(again, curve=(CurvePoint(0, 0, 0, 0, 0, 0), CurvePoint(2_000, 2, 2, 0, 2, 2)))
    assert own_error(application(), same) == OwnError(0.0, 0.0, 0, 0.0)


def test_errors_are_signed_shares_of_the_record() -> None:
    error = own_error(application(), outcome(25_000, 27_000, peak=5))
    assert (error.runtime, error.executor_seconds, error.peak_executors) == (0.25, -0.25, 3)
    assert error.worst == 0.25


@pytest.mark.parametrize(
    ("curve", "runtime", "expected"),
    [
        ((CurvePoint(2_000, 0, 0, 0, 2, 0),), 20_000, 0.0),
        ((CurvePoint(2_000, 0, 0, 0, 4, 0),), 20_000, 1.0),
        ((CurvePoint(2_000, 0, 0, 0, 0, 0),), 20_000, 1.0),
        ((CurvePoint(11_000, 0, 0, 0, 2, 0),), 20_000, 0.5),
        ((CurvePoint(2_000, 0, 0, 0, 2, 0),), 38_000, 1.0),  # beyond the record's end
        ((CurvePoint(2_000, 0, 0, 0, 2, 0),), 11_000, 0.5),  # before it
    ],
)
def test_the_distance_of_the_curves(curve: tuple[CurvePoint, ...], runtime: int, expected: float) -> None:
    made = replace(outcome(runtime), curve=curve)
    assert own_error(application(), made).curve == pytest.approx(expected)


def test_without_executors_in_the_log_something_is_infinitely_more_than_nothing() -> None:
    assert own_error(application(executors=0), outcome()).executor_seconds == 1.0


# ------------------------------------------------------------------------------------------------ what does not fit


def refused(made: RerunOutcome, executors: int = 2) -> str:
    app = application(executors=executors)
    return "\n".join(misfit(app, made, own_error(app, made), 0.25))


def test_what_fits_is_not_refused() -> None:
    assert refused(outcome()) == ""


def test_an_application_that_does_not_end_is_refused() -> None:
    assert "does not end: stuck" in refused(outcome(unfinished="stuck"))


def test_the_stage_that_is_farthest_off_is_named() -> None:
    said = refused(outcome(40_000, 76_000))
    assert "+100% in run time" in said
    assert "stage 0 (count at nightly.py:3) is farthest off: 17.0 s in the log, 37.0 s simulated" in said


@pytest.mark.parametrize(
    ("made", "executors", "likely"),
    [
        (outcome(8_000, 32_000, peak=6), 2, "the cluster gave fewer executors"),
        (outcome(60_000, 36_000, peak=1), 4, "a platform's own scaling"),
        (outcome(8_000, 14_000, peak=2), 2, "waited for something that a log does not show"),
        (outcome(20_000, 90_000, peak=5), 2, "fewer executors than this config asks for"),
        (outcome(20_000, 70_000, peak=2), 2, "taken away or let go earlier"),
        (outcome(20_000, 18_000, peak=1), 4, "a platform's own scaling"),
        (outcome(20_000, 18_000, peak=2), 2, "kept longer than this config says"),
    ],
)
def test_what_it_points_to(made: RerunOutcome, executors: int, likely: str) -> None:
    assert likely in refused(made, executors)


def test_deviations_are_the_farthest_first_and_count_executors() -> None:
    worst = deviations(application(), outcome(30_000))[0]
    assert (worst.ms, worst.recorded_executors) == (10_000, 2.0)
