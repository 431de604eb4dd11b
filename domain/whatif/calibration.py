"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
1400 forecasts of 112 real runs of 16 applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={
        Quantity.RUNTIME: Scale(0.01, 0.0, 0.0, 0.0, 0.05, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.05, 0.0, 0.0, 0.02, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-11.17, -8.08, 6.175, 8.689),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-12.26, -10.63, 8.876, 11.48),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-15.49, -10.69, 9.535, 11.26),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-10.47, -8.362, 8.391, 10.23),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-15.49, -10.69, 9.535, 11.48),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-10.91, -9.291, 4.292, 5.611),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-12.52, -8.623, 7.862, 11.37),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-18.09, -11.85, 9.204, 12.05),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-9.71, -7.361, 8.238, 10.15),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-18.09, -11.85, 9.204, 12.05),
    },
)
