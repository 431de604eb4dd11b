"""What fitting a description to observations is made of, of every kind of cluster: samples, and what a figure rests on."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, Quantiles
from podtide.domain.base.units import Millis

D = TypeVar("D")

SAMPLES_MAX: Final = 100_000
_FINE: Final = (0, 5, 10, 25, 50, 75, 90, 95, 99, 100)
_COARSE: Final = (0, 50, 100)


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
        """The distribution of the samples; there is at least one."""
        values = sorted(self.values)
        last = len(values) - 1
        if last < 2 or values[0] == values[-1]:
            return Constant(values[last // 2])
        percents = _FINE if last >= 19 else _COARSE
        return Quantiles(tuple((float(p), values[(p * last + 50) // 100]) for p in percents))

    def median(self) -> Millis:
        """The middle of the samples (the upper one of two); there is at least one."""
        return sorted(self.values)[len(self.values) // 2]


def share(part: int, whole: int) -> float:
    """A part of the whole, to six places; 0 of nothing."""
    return round(part / whole, 6) if whole else 0.0
