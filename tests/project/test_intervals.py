"""The prediction intervals hold what they promise, on applications that they were not made of."""

from __future__ import annotations

import random
from functools import cache

import pytest

from podtide.domain.whatif.calibration import CALIBRATION
from podtide.domain.whatif.prediction import ChangeKind, Quantity
from podtide.entrypoints.whatif.run import study
from scripts import accuracy, calibrate

PROMISED = 0.85
"""The least share of real values inside, for each change and each quantity."""

FOUND = calibrate.read(calibrate.FORECASTS)


@cache
def _fit(quantity: Quantity) -> calibrate.Fit:
    return calibrate.fit([one for one in FOUND if one.quantity is quantity])


def test_the_calibration_is_that_of_the_table() -> None:
    fits = {quantity: _fit(quantity) for quantity in Quantity}
    assert calibrate.module(FOUND, calibrate.calibration(fits)) == calibrate.CALIBRATION.read_text(encoding="utf-8")
    assert calibrate.report(fits) == calibrate.REPORT.read_text(encoding="utf-8")


@pytest.mark.parametrize("quantity", Quantity)
@pytest.mark.parametrize("change", [one for one in ChangeKind if one is not ChangeKind.MASTER])  # no truth changes it
def test_real_runs_of_applications_that_were_left_out_are_inside(quantity: Quantity, change: ChangeKind) -> None:
    held = [one for one in _fit(quantity).held if one[0].change is change]
    assert len({one.application for one, _ in held}) >= calibrate.FEW
    assert calibrate.coverage(held) >= PROMISED


@pytest.mark.parametrize("application", ["reports", "skewed_join"])
def test_the_table_is_what_podtide_forecasts(application: str) -> None:
    """A few pairs of the table, forecast again: the model has not moved away from its calibration."""
    runs = {
        one.name: one
        for one in accuracy.real_runs(accuracy.PROJECT / "tests" / "truth")
        if one.application == application
    }
    listed = [one for one in FOUND if one.application == application and one.quantity is Quantity.RUNTIME]
    for known in random.Random(0).sample(listed, 3):
        source = runs[known.source]
        studied = study(accuracy.application(source.log), seeds=calibrate.SEEDS).unwrap()
        (again, work) = calibrate.forecast(studied, source, runs[known.target])
        assert again.forecast == pytest.approx(known.forecast, rel=0.02)
        assert again.change is known.change
        factors = CALIBRATION.factors(work.quantity, work.change, work.hard)
        assert factors.low < factors.high
