"""Which stage of one run is which of the other."""

from __future__ import annotations

from dataclasses import replace

from podtide.domain.comparison.account import StageAccount, WorkUnit
from podtide.domain.comparison.matching import matched
from tests.support.account_play import PLAIN


def stage(number: int, plan: str, records: int = 100, name: str = "collect at job.py:1") -> StageAccount:
    return replace(PLAIN, stage=number, plan=plan, name=name, amounts={WorkUnit.RECORDS_READ: records})


def ids(first: list[StageAccount], second: list[StageAccount]) -> list[tuple[int, int]]:
    return [(one.stage, two.stage) for one, two in matched(first, second).pairs]


def test_ids_and_line_numbers_do_not_matter() -> None:
    first = [stage(0, "scan"), stage(1, "join"), stage(2, "scan")]
    second = [stage(4, "scan", name="collect at job.py:7"), stage(6, "scan"), stage(8, "join")]
    assert ids(first, second) == [(0, 4), (1, 8), (2, 6)]


def test_stages_that_look_the_same_are_told_by_their_work() -> None:
    """The sides of a join come in any order; where the work says nothing clear, the order does."""
    assert ids([stage(0, "scan", 10), stage(1, "scan", 900)], [stage(5, "scan", 2_000), stage(6, "scan", 20)]) == [
        (0, 6),
        (1, 5),
    ]
    assert ids([stage(0, "scan", 100), stage(1, "scan", 90)], [stage(5, "scan", 95), stage(6, "scan", 105)]) == [
        (0, 5),
        (1, 6),
    ]


def test_what_one_run_has_alone() -> None:
    found = matched([stage(0, "scan"), stage(1, "old", name="old")], [stage(0, "new", name="new"), stage(1, "scan")])
    assert [one.stage for one in found.gone] == [1]
    assert [one.stage for one in found.added] == [0]
    assert len(found.pairs) == 1
