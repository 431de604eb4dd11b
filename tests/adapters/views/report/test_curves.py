"""Thinned curves keep what they must: extremes, executor-seconds, values that were there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.views.report import curves
from podtide.adapters.views.report.scales import count_ticks, nice, ticks, time_ticks

POINTS = st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 500)), max_size=300)
COLUMNS = st.integers(1, 50)
SPAN = 1000.0


def integral(steps: curves.Steps) -> float:
    ends = [*steps[1:], (SPAN, 0.0)][: len(steps)]
    return sum(value * max(0.0, min(end, SPAN) - at) for (at, value), (end, _) in zip(steps, ends, strict=True))


@given(POINTS)
def test_steps_are_in_order_and_change(points: list[tuple[float, int]]) -> None:
    steps = curves.steps_of(points, 1)
    assert [at for at, _ in steps] == sorted({at for at, _ in steps})
    assert all(one[1] != other[1] for one, other in pairwise(steps))
    for at, _ in points:
        last = [value for when, value in points if when == at][-1]
        assert curves.value_at(steps, at) == last


@given(POINTS, COLUMNS)
def test_an_area_keeps_its_executor_seconds(points: list[tuple[float, int]], columns: int) -> None:
    steps = curves.steps_of(points, 1)
    thin = curves.area(steps, SPAN, columns)
    assert len(thin) <= max(columns, 1)
    assert integral(thin) == pytest.approx(integral(steps), abs=0.01 * SPAN)


@given(POINTS, COLUMNS)
def test_a_line_keeps_its_peaks(points: list[tuple[float, int]], columns: int) -> None:
    steps = curves.steps_of(points, 1)
    thin = curves.line(steps, SPAN, columns)
    assert len(thin) <= max(columns, 4 * columns)
    assert set(thin) <= set(steps)
    if steps:
        assert curves.peak(thin) == curves.peak(steps)
        assert min(value for _, value in thin) == min(value for _, value in steps)
        assert thin[-1][1] == steps[-1][1]


@given(POINTS, POINTS, COLUMNS)
def test_moments_are_moments_of_the_curves(
    first: list[tuple[float, int]], second: list[tuple[float, int]], columns: int
) -> None:
    both = [curves.steps_of(first, 1), curves.steps_of(second, 1)]
    when = curves.moments(both, SPAN, columns)
    assert when == sorted(when)
    assert len(when) <= columns
    assert set(when) <= {0.0} | {at for steps in both for at, _ in steps}


@given(POINTS, POINTS, st.floats(0, 1000))
def test_a_sum_is_the_sum_at_every_moment(
    first: list[tuple[float, int]], second: list[tuple[float, int]], at: float
) -> None:
    one, other = curves.steps_of(first, 1), curves.steps_of(second, 1)
    assert curves.value_at(curves.added(one, other), at) == curves.value_at(one, at) + curves.value_at(other, at)


@given(st.floats(1e-6, 1e9), st.integers(1, 10))
def test_a_scale_holds_its_top_in_few_whole_steps(top: float, most: int) -> None:
    marks = count_ticks(top, most)
    assert marks[0] == 0
    assert marks[-1] >= top * (1 - 1e-6)
    assert len(marks) <= most + 2
    assert all(mark == int(mark) for mark in marks)


@given(st.floats(0, 1e7), st.floats(0.01, 1e7), st.integers(2, 8))
def test_times_on_an_axis_are_few_and_within(low: float, extent: float, most: int) -> None:
    marks = time_ticks(low + extent, most, low)
    assert len(marks) <= most + 1
    assert all(low - 1e-3 <= mark <= (low + extent) * (1 + 1e-6) for mark in marks)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_lie_between(low: float, extent: float) -> None:
    marks = ticks(low, low + extent)
    assert len(marks) <= 7
    assert marks == sorted(marks)


@pytest.mark.parametrize(
    ("step", "found"), [(0, 1), (0.3, 0.5), (1, 1), (2.2, 5), (12, 20), (21, 25), (7, 10), (float("inf"), 1)]
)
def test_nice_steps(step: float, found: float) -> None:
    assert nice(step) == found
