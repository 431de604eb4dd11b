"""What fitting a description to observations is made of, of every kind of cluster: samples, and what a figure rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Final, Generic, NamedTuple, TypeVar

from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, LogNormal, Quantiles, exp, log, normal
from podtide.domain.base.units import Millis

D = TypeVar("D")

SAMPLES_MAX: Final = 100_000
QUANTILES_FROM: Final = 20
"""So many samples have a form of their own; fewer say how long and how spread, and nothing of the longest there can be."""

_PERCENTS: Final = (0, 5, 10, 25, 50, 75, 90, 95, 99, 100)
_P90: Final = normal(0.9)


class Evidence(NamedTuple):
    """What a number of the description rests on. ``key``: its path in a cluster file."""

    key: str
    observations: int
    note: str = ""

    @property
    def text(self) -> str:
        """A remark for the file."""
        what = f"{self.observations} observation{'' if self.observations == 1 else 's'}"
        if not self.observations:
            what = "not seen: the default"
        return f"{what}; {self.note}" if self.note else what


class Fitted(NamedTuple, Generic[D]):
    """A description and what it rests on."""

    description: D
    evidence: tuple[Evidence, ...]


class DurationSample:
    """Durations, at most ``SAMPLES_MAX`` of them: when it is full, every other one goes and every other one comes."""

    __slots__ = ("_skip", "count", "values")

    def __init__(self) -> None:
        self.values: list[Millis] = []
        self.count = 0
        self._skip = 1

    def add(self, ms: Millis) -> None:
        """One more."""
        if self.count % self._skip == 0:
            self.values.append(min(max(ms, 0), DELAY_MAX))
            if len(self.values) >= SAMPLES_MAX:
                del self.values[1::2]
                self._skip *= 2
        self.count += 1

    def delay(self) -> Delay:
        """The distribution of the samples: their quantiles, or of a few a log-normal one; there is at least one."""
        values = sorted(self.values)
        last = len(values) - 1
        if last < 2 or values[0] == values[-1]:
            return Constant(values[last // 2])
        if len(values) < QUANTILES_FROM:
            return log_normal_of(values)
        return Quantiles(tuple((float(p), values[(p * last + 50) // 100]) for p in _PERCENTS))

    def moments(self) -> tuple[float, float]:
        """The mean and the variance of the samples; there is at least one."""
        mean = sum(self.values) / len(self.values)
        return mean, plain_sum((value - mean) ** 2 for value in self.values) / max(1, len(self.values) - 1)

    def median(self) -> Millis:
        """The middle of the samples (the upper one of two); there is at least one."""
        return sorted(self.values)[len(self.values) // 2]


def log_normal(mean: float, deviation: float) -> LogNormal:
    """The log-normal distribution of this mean (above 0) and standard deviation, in ms."""
    variance = log(1.0 + (deviation / mean) ** 2)
    return _with(log(mean) - variance / 2, sqrt(variance))


def log_normal_of(values: Sequence[Millis], wider: float = 1.0) -> LogNormal:
    """The log-normal distribution that these values, two or more, come from, its deviation so much ``wider``."""
    logs = [log(max(1, value)) for value in values]
    middle = plain_sum(logs) / len(logs)
    deviation = sqrt(plain_sum((one - middle) ** 2 for one in logs) / (len(logs) - 1))
    return _with(middle, deviation * wider * (1 + 0.25 / (len(logs) - 1)))  # that of few values is a little short


def _with(middle: float, deviation: float) -> LogNormal:
    median = min(DELAY_MAX, max(1, round(exp(middle))))
    return LogNormal(median, min(DELAY_MAX, max(median, round(exp(middle + _P90 * deviation)))))


def plain_sum(values: Iterable[float]) -> float:
    """The sum, added one by one: what sum() makes of floats is another on Python 3.12 and later."""
    total = 0.0
    for value in values:
        total += value
    return total


def share(part: int, whole: int) -> float:
    """A part of the whole, to six places; 0 of nothing."""
    return round(part / whole, 6) if whole else 0.0


def rest(whole: DurationSample, mean: float, variance: float) -> Delay:
    """What a whole takes beyond a part of this mean and variance that is drawn by itself; the whole has samples."""
    mean_left, variance_left = (a - b for a, b in zip(whole.moments(), (mean, variance), strict=True))
    if mean_left < 1 or variance_left <= 1:
        return Constant(max(0, round(mean_left)))
    return log_normal(mean_left, sqrt(variance_left))
