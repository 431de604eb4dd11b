"""Chance as arithmetic: streams that split, and delays drawn from distributions, the same on every machine.

A ``Stream`` is one 64-bit number, the state of a SplitMix64 generator (Steele, Lea and Flood, 2014): drawing returns
the value and the stream that comes after it, and nothing is changed in place. ``split`` names another stream by a key
without moving the first one. Whoever draws has a stream of its own (each pod, each call, each node), so that one more
draw here does not reshuffle the luck of everybody else: two runs that differ in one setting stay comparable.

A delay is a distribution that can say its quantile; a draw is the quantile of a uniform number. Results are whole
milliseconds. ``exp`` and ``log`` of the C library differ between platforms in the last bit, and a last bit can turn a
rounding; here both are computed with the four operations of IEEE 754, which are exact everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import floor, frexp, ldexp, sqrt
from typing import Final, TypeAlias

from podtide.domain.base.units import Millis

Stream: TypeAlias = int
"""The state of a generator: a number from 0 to 2**64 - 1."""

DELAY_MAX: Final[Millis] = 10 * 365 * 86_400_000
"""No draw is longer: ten years."""

HOUR_MS: Final[Millis] = 3_600_000

_MASK: Final = 2**64 - 1
_GAMMA: Final = 0x9E3779B97F4A7C15
_UNIT: Final = 2.0**-53
_LN2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476
_P90: Final = 1.2815515655446004  # how many standard deviations the 90th percentile is above the median


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream(seed: int) -> Stream:
    """The stream of a seed; every whole number is one, and those up to 64 bits lead to different streams."""
    state = _mix(seed & _MASK)
    seed >>= 64
    while seed not in (0, -1):
        state = _mix(state ^ (seed & _MASK))
        seed >>= 64
    return state


def split(parent: Stream, key: int) -> Stream:
    """Another stream, named by ``key``; the parent stays where it is."""
    return _mix((parent + _mix((key * _GAMMA + _GAMMA) & _MASK)) & _MASK)


def bits(state: Stream) -> tuple[int, Stream]:
    """64 random bits, and the stream after them."""
    state = (state + _GAMMA) & _MASK
    return _mix(state), state


def unit(state: Stream) -> tuple[float, Stream]:
    """A number from 0 (included) to 1 (not included), in steps of 2**-53, and the stream after it."""
    value, state = bits(state)
    return (value >> 11) * _UNIT, state


def chance(state: Stream, probability: float) -> tuple[bool, Stream]:
    """Whether something of this probability happens, and the stream after it."""
    value, state = unit(state)
    return value < probability, state


def pick(state: Stream, weights: tuple[float, ...]) -> tuple[int, Stream]:
    """Which of these happens, in proportion to its weight; 0 where all weights are 0. At least one weight."""
    value, state = unit(state)
    mark = 0.0
    for weight in weights:  # sum() adds differently from Python 3.12 on
        mark += weight
    mark *= value
    for place, weight in enumerate(weights):
        mark -= weight
        if mark < 0.0:
            return place, state
    return 0, state


def exp(x: float) -> float:
    """e**x by the four operations; x is held within -700 to 700."""
    x = min(700.0, max(-700.0, x))
    k = floor(x / _LN2 + 0.5)
    r = x - k * _LN2
    total = 1.0
    for n in range(18, 0, -1):
        total = 1.0 + total * r / n
    return ldexp(total, k)


def log(x: float) -> float:
    """The natural logarithm of a positive number, by the four operations."""
    m, e = frexp(x)
    if m < _SQRT_HALF:
        m, e = m * 2.0, e - 1
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    total = 0.0
    for n in range(25, 0, -2):
        total = 1.0 / n + total * square
    return 2.0 * s * total + e * _LN2


# Acklam's rational approximation of the inverse of the normal distribution, good to 1.2e-9.
_A: Final = (-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.3577518672690, -30.66479806614716,
             2.506628277459239)  # fmt: skip
_B: Final = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572)
_C: Final = (-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968,
             2.938163982698783)  # fmt: skip
_D: Final = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416)
_LOW: Final = 0.02425


def _horner(coefficients: tuple[float, ...], x: float, last: float = 0.0) -> float:
    total = 0.0
    for c in coefficients:
        total = total * x + c
    return total * x + last if last else total


def normal(u: float) -> float:
    """How many standard deviations from the mean the quantile ``u`` of a normal distribution is."""
    u = min(1.0 - _UNIT, max(_UNIT, u))
    if u > 1.0 - _LOW:
        return -normal(1.0 - u)
    if u < _LOW:
        q = sqrt(-2.0 * log(u))
        return _horner(_C, q) / _horner(_D, q, 1.0)
    q = u - 0.5
    r = q * q
    return _horner(_A, r) * q / _horner(_B, r, 1.0)


def _whole(value: float) -> Millis:
    return DELAY_MAX if value >= DELAY_MAX else max(0, floor(value + 0.5))


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    ms: Millis = 0

    def quantile(self, u: float) -> Millis:  # noqa: ARG002 - every quantile is the same
        """The delay below which a share ``u`` of all draws lies, in ms."""
        return self.ms


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every millisecond from ``low_ms`` to ``high_ms`` alike, both included."""

    low_ms: Millis
    high_ms: Millis

    def quantile(self, u: float) -> Millis:
        """The delay below which a share ``u`` of all draws lies, in ms."""
        return min(self.high_ms, self.low_ms + floor(u * (self.high_ms - self.low_ms + 1)))


@dataclass(frozen=True, slots=True)
class Exponential:
    """The time to the next of events that come at random, ``mean_ms`` apart on average."""

    mean_ms: Millis

    def quantile(self, u: float) -> Millis:
        """The delay below which a share ``u`` of all draws lies, in ms."""
        return _whole(-self.mean_ms * log(max(_UNIT, 1.0 - u)))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """What most latencies look like: half of them below ``median_ms``, nine of ten below ``p90_ms``, a long tail."""

    median_ms: Millis
    p90_ms: Millis

    def quantile(self, u: float) -> Millis:
        """The delay below which a share ``u`` of all draws lies, in ms."""
        if self.median_ms <= 0:
            return 0
        sigma = log(self.p90_ms / self.median_ms) / _P90
        return _whole(self.median_ms * exp(sigma * normal(u)))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """As measured: (percent, ms), rising in both, linear between the points and level outside them."""

    points: tuple[tuple[float, Millis], ...]

    def quantile(self, u: float) -> Millis:
        """The delay below which a share ``u`` of all draws lies, in ms."""
        points, percent = self.points, u * 100.0
        place = bisect_right(points, percent, key=_percent)
        if place == 0:
            return points[0][1]
        if place == len(points):
            return points[-1][1]
        (p, low), (q, high) = points[place - 1], points[place]
        return _whole(low + (high - low) * ((percent - p) / (q - p)))


def _percent(point: tuple[float, Millis]) -> float:
    return point[0]


Delay: TypeAlias = Constant | Uniform | Exponential | LogNormal | Quantiles
"""A distribution of durations."""


def draw(state: Stream, delay: Delay) -> tuple[Millis, Stream]:
    """A delay drawn at random, in ms, and the stream after it. A constant draws nothing."""
    if isinstance(delay, Constant):
        return delay.ms, state
    u, state = unit(state)
    return delay.quantile(u), state


def draw_active_ms(state: Stream, per_hour: float) -> tuple[Millis, Stream]:
    """How long until something happens that happens ``per_hour`` times an hour on average (more than 0), in ms."""
    u, state = unit(state)
    return _whole(-HOUR_MS / per_hour * log(max(_UNIT, 1.0 - u))), state
