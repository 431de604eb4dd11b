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
        Quantity.RUNTIME: Scale(0.01, 0.02, 0.0, 0.0, 0.05, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.05, 0.0, 0.0, 0.05, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-11.13, -8.222, 4.492, 6.482),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-12.55, -9.693, 6.448, 9.381),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-12.61, -10.74, 7.492, 8.463),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-9.962, -8.317, 6.51, 7.903),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-15.74, -11.82, 13.54, 16.21),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-10.51, -8, 2.478, 4.289),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-10.08, -8.521, 5.541, 7.062),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-14.16, -10.81, 7.189, 8.449),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-8.253, -6.829, 5.617, 7.241),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-10.43, -7.518, 10.9, 12.57),
    },
)
