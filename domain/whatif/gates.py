"""Gates: conditions under which a comparison fails, as ``--fail-if`` writes them.

    gate    = metric compare change | "any(" metric ")" compare change
    metric  = runtime | executor_seconds | billed_seconds | core_hours | gb_hours | cost | peak_executors | requests | waited
    compare = ">" | ">="
    change  = [ "+" | "-" ] number [ "%" | unit ]
    unit    = "s" | "m" | "h" (of metrics in seconds)

``cost>+2%`` fails when all applications together cost over two percent more than under the base; ``any(runtime)>+30s`` when
any one of them takes over thirty seconds longer; ``cost>-10%`` unless the change saves ten percent. A number without percent
is a change in the metric's own unit. Blanks make no difference.

Figures are forecasts, and a gate decides by what nine of ten real runs would show (``whatif.prediction``). A gate against a
loss (its change is not below zero) fails where the loss is that sure; a gate that demands a gain fails unless the gain is
that sure. Sums are over the applications that could be compared; of
``peak_executors`` the largest counts.

An application that comes to its end under the base and not under the candidate, or that Spark would not start, fails every
gate: there is no figure to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final, NamedTuple, NoReturn

from podtide.domain.whatif.comparison import LARGEST, Metric, Sums, share

GATES_MAX: Final = 100
TEXT_MAX: Final = 100
NUMBER_MAX: Final = 1e12
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0}
_SECONDS: Final = frozenset({Metric.RUNTIME, Metric.EXECUTOR_SECONDS, Metric.BILLED_SECONDS, Metric.WAITED})
_SLACK: Final = 1e-9
"""Relative: what arithmetic may be off by and still be equal."""


class GateError(ValueError):
    """A gate that cannot be read; ``at``: the character, from 0, where something else was expected."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        shown = f"{text[:at]}⟨here⟩{text[at:]}"
        super().__init__(f"{shown!r}: expected {expected}, as in 'cost>+2%' or 'any(runtime)>+30s'")
        self.at = at
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Gate:
    """``every``: each application by itself; ``equal``: also at the bound; ``relative``: ``change`` is a share."""

    text: str
    metric: Metric
    change: float
    every: bool = False
    equal: bool = False
    relative: bool = True

    def fails(self, base: float, candidate: Bounded) -> bool:
        """Whether a change trips it."""
        takes = candidate.most if self.change < 0 else candidate.least
        change = share(base, takes) if self.relative else takes - base
        if change == self.change or abs(change - self.change) <= _SLACK * max(1.0, abs(self.change)):
            return self.equal
        return change > self.change


class Bounded(NamedTuple):
    """A forecast, and what nine of ten real runs lie above (``least``) and below (``most``)."""

    forecast: float
    least: float
    most: float


class Pair(NamedTuple):
    """An application by its name, and what it takes under base and candidate; ``why``: it has no figures to compare."""

    name: str
    base: Sums
    candidate: Mapping[Metric, Bounded]
    why: str | None = None


class Breach(NamedTuple):
    """What tripped a gate: an application, or all of them together (None); ``why``: without figures."""

    application: str | None
    base: float = 0.0
    candidate: float = 0.0
    why: str | None = None


def parse(text: str) -> Gate:
    """A gate as it is written. Raises GateError."""
    if len(text) > TEXT_MAX:
        raise GateError(text[:TEXT_MAX], TEXT_MAX, f"a gate of at most {TEXT_MAX} characters")
    reader = _Reader(text)
    every = reader.take("any") and (reader.take("(") or reader.fail("'(' after any"))
    metric = reader.metric()
    if every and not reader.take(")"):
        reader.fail("')'")
    if not reader.take(">"):
        reader.fail("'>' or '>='")
    equal = reader.take("=")
    sign = -1.0 if reader.take("-") else 1.0
    if sign > 0:
        reader.take("+")
    number = reader.number()
    relative = reader.take("%")
    if relative:
        number /= 100
    elif metric in _SECONDS:
        number *= next((size for unit, size in _UNITS.items() if reader.take(unit)), 1.0)
    reader.end()
    return Gate(text.strip(), metric, sign * number, every, equal, relative)


def breaches(gate: Gate, pairs: Sequence[Pair]) -> tuple[Breach, ...]:
    """What trips a gate; () where it holds. Sums are over the pairs that have figures."""
    found = [Breach(pair.name, why=pair.why) for pair in pairs if pair.why is not None]
    measured = [(one.name, one.base[gate.metric], one.candidate[gate.metric]) for one in pairs if one.why is None]
    if gate.every:
        found += [Breach(name, base, takes.forecast) for name, base, takes in measured if gate.fails(base, takes)]
    elif measured:
        gather = max if gate.metric in LARGEST else fsum
        base = gather([one for _, one, _ in measured])
        takes = Bounded(*(gather(column) for column in zip(*(one for _, _, one in measured), strict=True)))
        if gate.fails(base, takes):
            found.append(Breach(None, base, takes.forecast))
    return tuple(found)


class _Reader:
    """Reads a text from left to right; blanks between its parts do not count."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, part: str) -> bool:
        """Whether the text goes on with this; if so it is behind."""
        self._blanks()
        if not self.text.startswith(part, self.at):
            return False
        after = self.at + len(part)
        if part[-1].isalpha() and (self.text[after : after + 1].isalnum() or self.text[after : after + 1] == "_"):
            return False
        self.at = after
        return True

    def metric(self) -> Metric:
        self._blanks()
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name = self.text[self.at : end]
        found = _METRICS.get(name)
        if found is None:
            self.fail(f"one of {', '.join(_METRICS)}")
        self.at = end
        return found

    def number(self) -> float:
        self._blanks()
        end = self.at
        while end < len(self.text) and self.text[end] in "0123456789.":
            end += 1
        digits = self.text[self.at : end]
        if not digits.replace(".", "", 1).isdigit() or float(digits) > NUMBER_MAX:
            self.fail("a number")
        self.at = end
        return float(digits)

    def end(self) -> None:
        self._blanks()
        if self.at < len(self.text):
            self.fail("the end")

    def fail(self, expected: str) -> NoReturn:
        """Raises GateError."""
        raise GateError(self.text, self.at, expected)

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1


_METRICS: Final[Mapping[str, Metric]] = {metric.value: metric for metric in Metric}
