"""Which stage of one run is which of the other: by what they do, and by their order.

Stage ids differ from run to run, under adaptive execution even their number. A stage is known by the plan of its RDDs, its
name and its job's; of several that look the same the first is the first. What is left is matched by plan alone, then by
name alone, each in order. O(n log n) in the stages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

from podtide.domain.comparison.account import StageAccount, WorkUnit

CLEARLY: Final = 0.5
"""How much better stages have to fit by their amounts than in their order."""

_NUMBERS: Final = re.compile(r"\d+")


class StageMatch(NamedTuple):
    """The stages of two runs: ``pairs``, those of the first that have none, those of the second."""

    pairs: tuple[tuple[StageAccount, StageAccount], ...]
    gone: tuple[StageAccount, ...]
    added: tuple[StageAccount, ...]


def matched(first: Sequence[StageAccount], second: Sequence[StageAccount]) -> StageMatch:
    """Every stage of both once."""
    pairs: list[tuple[StageAccount, StageAccount]] = []
    for known_by in (_by_all, _by_plan, _by_name):
        alike: dict[object, list[StageAccount]] = defaultdict(list)
        for two in second:
            alike[known_by(two)].append(two)
        own: dict[object, list[StageAccount]] = defaultdict(list)
        for one in first:
            own[known_by(one)].append(one)
        found = [pair for key, ones in own.items() for pair in _paired(ones, alike.get(key, ()))]
        pairs += found
        gone, taken = {one.stage for one, _ in found}, {two.stage for _, two in found}
        first = [one for one in first if one.stage not in gone]
        second = [two for two in second if two.stage not in taken]
    pairs.sort(key=lambda pair: (pair[0].submitted_ms, pair[0].stage))
    return StageMatch(tuple(pairs), tuple(first), tuple(second))


def _paired(ones: Sequence[StageAccount], twos: Sequence[StageAccount]) -> Sequence[tuple[StageAccount, StageAccount]]:
    """Stages that look the same, in order; or by their amounts of work, where as many of both fit clearly better so: the
    sides of a join come in any order."""
    in_order = list(zip(ones, twos, strict=False))
    if len(ones) != len(twos) or len(ones) < 2:
        return in_order
    by_amount = list(zip(sorted(ones, key=_amount), sorted(twos, key=_amount), strict=True))
    return by_amount if _misfit(by_amount) < CLEARLY * _misfit(in_order) else in_order


def _misfit(pairs: Sequence[tuple[StageAccount, StageAccount]]) -> float:
    return sum(abs(log((1 + _amount(two)) / (1 + _amount(one)))) for one, two in pairs)


def _amount(one: StageAccount) -> int:
    return next((one.amounts[measure] for measure in WorkUnit if one.amounts.get(measure)), 0)


def _by_all(one: StageAccount) -> object:
    return one.plan, _plain(one.name), _plain(one.job)


def _by_plan(one: StageAccount) -> object:
    return one.plan or _plain(one.name)


def _by_name(one: StageAccount) -> object:
    return _plain(one.name)


def _plain(text: str) -> str:
    """Without numbers: line numbers and dates differ from run to run."""
    return _NUMBERS.sub("#", text)
