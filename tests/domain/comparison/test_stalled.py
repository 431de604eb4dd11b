"""Stalls in a comparison: their time is named for what it was, whatever else the stage's change was put down to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.comparison.account import RunStall
from podtide.domain.comparison.causes import ChangeCause
from podtide.domain.comparison.comparison import compare
from podtide.domain.comparison.stalled import StalledTime, stalled_time, with_stall
from podtide.domain.stalls.causes import StallCause
from tests.support.account_play import PLAIN, run_of

M = 60_000
HUNG = replace(PLAIN, last_launch_ms=10 * M, last_end_ms=10 * M + 41_000, completed_ms=10 * M + 41_000, slot_ms=40 * M)
DRIVER = RunStall(StallCause.DRIVER, 0, 20_000, 10 * M)


def test_time_in_which_nothing_moved_is_counted_once_and_executors_that_are_kept_make_nobody_wait() -> None:
    stalls = (
        RunStall(StallCause.QUOTA, 1, 5_000, 9_000), RunStall(StallCause.DRIVER, 0, 1_000, 6_000),
        RunStall(StallCause.SHUFFLES, 0, 0, 90_000),
    )  # fmt: skip
    run = run_of([PLAIN], stalls=stalls)
    assert stalled_time(run, 0, 60_000) == StalledTime(8_000, "driver does nothing")
    assert stalled_time(run, 5_000, 8_000) == StalledTime(3_000, "quota")
    assert stalled_time(run, 20_000, 60_000) == StalledTime(0)


@pytest.mark.parametrize(
    ("stalled", "left"),
    [
        pytest.param(
            3.0, {ChangeCause.SCHEDULING: 1.0, ChangeCause.GC: 2.0, ChangeCause.STALL: 3.0}, id="of the largest"
        ),
        pytest.param(5.0, {ChangeCause.GC: 1.0, ChangeCause.STALL: 5.0}, id="of the next, too"),
        pytest.param(9.0, {ChangeCause.STALL: 6.0}, id="no more than there is"),
        pytest.param(-2.0, {ChangeCause.SCHEDULING: 4.0, ChangeCause.GC: 2.0}, id="nothing the other way"),
    ],
)
def test_it_is_taken_from_the_largest_parts_of_its_direction(stalled: float, left: dict[ChangeCause, float]) -> None:
    parts = {(ChangeCause.SCHEDULING, ""): 4.0, (ChangeCause.GC, ""): 2.0, (ChangeCause.INPUT, ""): -1.0}
    parts = {part: ms for part, ms in parts.items() if stalled > 0 or ms > 0}
    found = with_stall(parts, StalledTime(int(stalled), "quota"))
    assert sum(found.values()) == sum(parts.values())
    assert {cause: ms for (cause, _), ms in found.items() if ms > 0} == left


def test_a_run_that_stood_still_took_longer_because_nothing_moved() -> None:
    healthy, hung = run_of([PLAIN]), run_of([HUNG], stalls=(DRIVER,), conf={"spark.locality.wait": "10m"})
    first = compare(healthy, hung).causes[0]
    assert (first.cause, first.details) == (ChangeCause.STALL, (("driver does nothing", 9 * M + 40_000.0),))
    assert first.evidence[0][:3] == ("nothing moved for", 0, 9 * M + 40_000)
    assert [one.key for one in first.because] == ["spark.locality.wait"]
    back = compare(hung, healthy).causes[0]
    assert (back.cause, back.ms) == (ChangeCause.STALL, -first.ms)
