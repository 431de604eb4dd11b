"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
1344 forecasts of 110 real runs of 16 applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={
        Quantity.RUNTIME: Scale(0.01, 0.0, 0.0, 0.0, 0.05, 0.005),
        Quantity.EXECUTOR_SECONDS: Scale(0.01, 0.1, 0.0, 0.0, 0.02, 0.005),
    },
    tails={
        (Quantity.RUNTIME, ChangeKind.NOTHING): Tails(-10.67, -10.18, 6.565, 9.103),
        (Quantity.RUNTIME, ChangeKind.COUNTS): Tails(-12.84, -11.13, 9.563, 12.03),
        (Quantity.RUNTIME, ChangeKind.STATIC): Tails(-16.23, -11.2, 9.99, 11.79),
        (Quantity.RUNTIME, ChangeKind.SHAPE): Tails(-11.11, -8.994, 9.062, 10.84),
        (Quantity.RUNTIME, ChangeKind.MASTER): Tails(-16.23, -11.2, 9.99, 12.03),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.NOTHING): Tails(-10.06, -7.724, 4.165, 4.622),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.COUNTS): Tails(-11.21, -8.089, 6.829, 9.634),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.STATIC): Tails(-17.82, -12.41, 7.929, 9.492),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.SHAPE): Tails(-9.123, -6.679, 6.631, 8.46),
        (Quantity.EXECUTOR_SECONDS, ChangeKind.MASTER): Tails(-17.82, -12.41, 7.929, 9.634),
    },
)
