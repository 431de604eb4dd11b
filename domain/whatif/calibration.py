"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
1832 forecasts of 124 real runs of 16 applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={
        Quantity.RUNTIME: Scale(0.01, 0.0, 0.0, 0.0, 0.02, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.05, 0.0, 0.0, 0.0, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-12.06, -9.914, 5.359, 8.806),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-14.65, -11.16, 9.026, 11.76),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-12.59, -10.54, 9.935, 11.18),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-13.41, -9.263, 8.101, 9.844),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-19.71, -15.18, 16.54, 19.63),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-11.55, -8.867, 3.569, 4.589),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-10.06, -8.306, 6.615, 9.315),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-12.79, -10.1, 7.669, 9.96),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-9.863, -6.463, 6.363, 7.796),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-13.91, -10.66, 11.18, 13.3),
    },
)
