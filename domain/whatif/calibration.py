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
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.0, 0.02, 0.0, 0.1, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-11.93, -8.545, 4.748, 7.276),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-13.73, -10.75, 7.188, 9.956),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-13.24, -11.14, 8.173, 9.73),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-11.46, -8.46, 6.78, 7.858),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-13.73, -11.14, 8.173, 9.956),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-6.231, -5.134, 1.643, 2.891),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-6.934, -6.069, 3.588, 4.542),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-9.269, -7.263, 4.947, 6.622),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-5.331, -4.663, 2.987, 4.724),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-9.269, -7.263, 4.947, 6.622),
    },
)
