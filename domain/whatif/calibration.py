"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
2168 forecasts of 148 real runs of 19 applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={
        Quantity.RUNTIME: Scale(0.01, 0.0, 0.0, 0.0, 0.02, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.02, 0.0, 0.0, 0.05, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-11.06, -8.811, 7.993, 8.408),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-11.94, -10.27, 10.61, 11.09),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-11.3, -9.249, 8.296, 11.08),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-11.28, -7.619, 7.987, 9.862),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-20.84, -15.95, 17.4, 18.97),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-6.993, -3.901, 4.465, 6.925),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-7.386, -6.367, 5.865, 7.587),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-9.936, -7.265, 6.984, 9.35),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-6.741, -5.265, 6.75, 8.222),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-10.78, -8.287, 11.22, 13.51),
    },
)
