"""Skew: which stages are named, by how much, and the same work spread evenly."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from podtide.domain.base.units import ProfileId
from podtide.domain.recorded.application import Application, RecordedStage
from podtide.domain.whatif.search.skew import evened, skews
from tests.support.search_play import START, application


def with_stages(*bodies: list[int], runtime_s: int = 60) -> Application:
    stages = tuple(
        RecordedStage(number, 0, f"s{number}", ProfileId(0), START, START, array("q", body))
        for number, body in enumerate(bodies)
    )
    return replace(application(runtime_s=runtime_s), stages=stages)


def test_the_longest_against_the_median_the_worst_first() -> None:
    found = skews(with_stages([10_000, 1_000, 1_000, 2_000], [1_000] * 4, [40_000, 2_000, -1, 3_000]))
    assert [(one.stage.stage, one.longest_ms, one.median_ms) for one in found] == [
        (2, 40_000, 3_000),
        (0, 10_000, 1_000),
    ]
    assert [one.longer_ms for one in found] == [40_000 - 15_000, 10_000 - 3_500]


@pytest.mark.parametrize(
    ("body", "runtime_s", "named"),
    [
        ([2_100, 1_000, 1_000], 60, True),
        ([1_900, 1_000, 1_000], 60, False),  # not twice as long as the others
        ([1_500, 600, 600], 60, False),  # less than a second
        ([9_000, 1_000, 1_000], 900, False),  # less than a hundredth of the run
        ([9_000], 60, False),
        ([-1, -1], 60, False),
    ],
)
def test_what_is_worth_naming(body: list[int], runtime_s: int, named: bool) -> None:
    assert bool(skews(with_stages(body, runtime_s=runtime_s))) is named


def test_an_even_stage_has_the_same_work_and_the_others_stay() -> None:
    before = with_stages([10_000, 1_000, -1, 1_000], [5_000, 1_000])
    after = evened(before, 0)
    assert list(after.stages[0].body_ms) == [4_000, 4_000, -1, 4_000]
    assert after.stages[1] == before.stages[1]
    assert list(before.stages[0].body_ms) == [10_000, 1_000, -1, 1_000]
