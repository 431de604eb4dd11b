"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
1188 forecasts of 104 real runs of 16 applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={
        Quantity.RUNTIME: Scale(0.01, 0.0, 0.0, 0.0, 0.05, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.2, 0.02, 0.02, 0.02, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-10.13, -9.717, 6.266, 8.689),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-12.3, -10.73, 8.876, 11.48),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-16.05, -11.1, 9.535, 11.26),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-10.47, -8.585, 8.326, 10.35),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-16.05, -11.1, 9.535, 11.48),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-5.372, -4.127, 2.39, 2.742),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-6.151, -4.86, 3.612, 5.044),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-9.945, -7.186, 4.234, 5.242),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-3.769, -3.007, 2.778, 3.882),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-9.945, -7.186, 4.234, 5.242),
    },
)
