"""The plot: what it shows, and that whatever the numbers it stays within its width."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.text.plot import ASCII, COLOURED, PLAIN, Glyphs, Line, draw
from podtide.adapters.views.stats.series import BINS_MAX, History


def series(*bins: tuple[int, int, int, int], width_ms: int = 1000) -> dict[str, Any]:
    return {"width_ms": width_ms, "mean": bins}


def text(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def test_a_line_over_an_area() -> None:
    told = series(*[(0, 0, 0, 0)] * 10, *[(2, 2, 1, 1)] * 10, *[(1, 0, 2, 1)] * 10)
    assert text(draw(told, 30_000, 34, PLAIN)) == [
        " 2 ┤          ┏━━━━━━━━━┓░░░░░░░░░",
        "   │          ┃         ┃░░░░░░░░░",
        " 1 ┤          ┃▓▓▓▓▓▓▓▓▓┗━━━━━━━━━",
        "   │          ┃▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓",
        " 0 ┤━━━━━━━━━━┛▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓",
        "   └┴──────────────┴─────────────┴",
        "   0:00           0:15        0:30",
    ]


def test_need_is_dotted_where_it_is_more_than_there_is() -> None:
    (top, *_) = text(draw(series(*[(1, 90, 1, 1)] * 5, *[(3, 1, 3, 3)] * 5), 10_000, 34, PLAIN))
    assert top.count("·") == 15


@pytest.mark.parametrize(
    ("highest", "top", "labels"),
    [
        (1, 1, 2),
        (2, 2, 3),
        (5, 5, 6),
        (8, 8, 9),
        (12, 12, 7),
        (13, 16, 5),
        (100, 100, 5),
        (1001, 1200, 5),
        (10**6, 10**6, 5),
    ],
)
def test_the_axis_has_round_numbers(highest: int, top: int, labels: int) -> None:
    found = [line.split()[0] for line in text(draw(series((highest, 0, 0, 0)), 1000, 80, ASCII)) if "+" in line][:-1]
    assert found[0] == f"{top:,}"
    assert len(found) == labels


@pytest.mark.parametrize("told", [series(), series((0, 5, 0, 0))], ids=["no bins", "no executors"])
def test_nothing_to_show_is_no_plot(told: dict[str, Any]) -> None:
    assert draw(told, 1000, 80, PLAIN) == []
    assert draw(series((1, 1, 1, 1)), 1000, 20, PLAIN) == []


@given(
    st.lists(st.tuples(*[st.integers(0, 2**31 - 1)] * 4), min_size=1, max_size=60),
    st.integers(1, 10**13),
    st.integers(0, 300),
    st.sampled_from([COLOURED, PLAIN, ASCII]),
)
def test_no_numbers_break_it(bins: list[tuple[int, ...]], span_ms: int, width: int, glyphs: Glyphs) -> None:
    lines = draw({"width_ms": max(1, -(-span_ms // len(bins))), "mean": bins}, span_ms, width, glyphs)
    assert all(sum(len(span.text) for span in line) <= width for line in lines)
    assert len(lines) <= 16


spans = st.tuples(st.integers(1, 10**6), st.tuples(*[st.integers(0, 1000)] * 4))


@given(st.integers(0, 10**12), st.lists(spans, max_size=50))
def test_a_history_loses_no_executor_second(start: int, told: list[tuple[int, tuple[int, ...]]]) -> None:
    history, now = History(start), start
    for span, values in told:
        history.hold(now, now + span, values)
        now += span
    found = history.document()
    assert len(found["mean"]) == len(found["peak"]) <= BINS_MAX
    for field in range(4):
        area = sum(
            one[field] * min(found["width_ms"], now - start - place * found["width_ms"])
            for place, one in enumerate(found["mean"])
        )
        assert area == pytest.approx(
            sum(span * values[field] for span, values in told), rel=1e-6, abs=0.001 * (now - start) + 1
        )
        assert max((one[field] for one in found["peak"]), default=0) == max(
            (values[field] for _, values in told), default=0
        )


def test_a_history_takes_a_jump_of_centuries() -> None:
    history = History(0)
    history.hold(0, 9_000_000_000_000, (1, 1, 1, 1))
    assert 0 < len(history.document()["mean"]) <= BINS_MAX
