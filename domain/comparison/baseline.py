"""The run that stands for many, and how far these are apart: what a new run is compared with.

The *typical* run is the one whose run time and executor-time lie nearest to the medians of both (as for seeds,
``whatif.summary``): a run that happened, so that its parts sum. The *noise* is what nine of ten runs differ from the median
by; of fewer than ``ENOUGH`` it is what the truth says of two runs of one config.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Final, NamedTuple

from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.comparison import NOISE

RUNS_MAX: Final = 10
"""Runs that a baseline is made of: the last ones."""

ENOUGH: Final = 5
"""Runs whose own spread says more than that of others."""

LEAST: Final = 0.01
"""No two runs are nearer than this."""


class Baseline(NamedTuple):
    """``typical``: of ``runs``; ``median_ms``: of the run times; ``noise``: as a share of it."""

    typical: RunAccount
    runs: int
    median_ms: float
    noise: float


def baseline_of(accounts: Sequence[RunAccount]) -> Baseline:
    """Of the last ``RUNS_MAX`` accounts, at least one, in the order of time."""
    last = accounts[-RUNS_MAX:]
    times, billed = [float(one.runtime_ms) for one in last], [float(one.billed_ms) for one in last]
    time, bill = median(times), median(billed)
    typical = min(
        reversed(last),
        key=lambda one: abs(one.runtime_ms - time) / max(1.0, time) + abs(one.billed_ms - bill) / max(1.0, bill),
    )
    return Baseline(typical, len(last), time, _noise(times, time))


def _noise(times: Sequence[float], middle: float) -> float:
    if len(times) < ENOUGH or middle <= 0:
        return NOISE
    apart = sorted(abs(one - middle) / middle for one in times)
    return max(LEAST, apart[ceil(0.9 * len(apart)) - 1])
