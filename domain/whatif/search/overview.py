"""What is answered of an application without a variant: counts of executors, settings worth trying, the cost of skew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.whatif.search.recommendation import TuneVerdict
from podtide.domain.whatif.search.skew import SkewCost
from podtide.domain.whatif.summary import VariantAnswer


class CountPoint(NamedTuple):
    """A count of executors and what comes of it."""

    executors: int
    answer: VariantAnswer


@dataclass(frozen=True, slots=True)
class Overview:
    """``statics``, ``maxima``: by rising count, ``maxima`` empty where there is no maximum to turn; ``floor_ms``: what one
    executor takes at the least; ``measure``: by what configs were compared besides time; ``trials``: what is worth trying,
    the best first; ``verdict``: of the search, which says why where nothing is; ``candidates``: how many configs it tried;
    ``seeds``: runs of each count; ``simulations``: all that were made."""

    statics: tuple[CountPoint, ...]
    maxima: tuple[CountPoint, ...]
    floor_ms: Millis
    measure: str
    trials: tuple[tuple[TuneVerdict, VariantAnswer], ...]
    verdict: TuneVerdict
    candidates: int
    skews: tuple[SkewCost, ...]
    seeds: int
    simulations: int
    notes: tuple[str, ...] = ()
