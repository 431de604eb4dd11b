"""A plot of a replay in characters: the target that was decided against the executors that really were there.

The executors are an area, split into those that ran tasks and those that idled; the target is a line drawn over it;
the need of the tasks is dotted where it fits. Levels, not areas, stand behind the rows: row ``k`` is the value
``k * top / (rows - 1)``, so that with few executors a line runs exactly at its number. A column shows the averages of
its stretch of time, so that the area is what it seems to be: executor-seconds.

``draw`` makes spans of text with the name of a style, ``show`` prints them on a page. Without any colour the plot still
reads, because area, line and dots are different characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, NamedTuple, TypeAlias

from rich.text import Text

from podtide.adapters.text.format import clock
from podtide.adapters.text.page import STYLES, Page
from podtide.domain.base.units import Millis

COLUMNS_MIN: Final = 24
"""Columns of the plotting area below which there is no plot."""

ROWS_MAX: Final = 13


class StyledSpan(NamedTuple):
    """Text in one style: ``axis``, ``target``, ``need``, ``busy``, ``idle`` or ``blank``."""

    text: str
    style: str


Line: TypeAlias = list[StyledSpan]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a plot. ``edges``: the upper end of an area, from one eighth of a row to a whole."""

    busy: str
    idle: str
    edges: str
    level: str
    vertical: str
    rise: tuple[str, str]
    fall: tuple[str, str]
    need: str
    tick: str
    side: str
    corner: str
    floor: str
    mark: str
    cut: str


COLOURED: Final = Glyphs("█", "█", "▁▂▃▄▅▆▇█", "━", "┃", ("┛", "┏"), ("┓", "┗"), "·", "┤", "│", "└", "─", "┴", "…")
PLAIN: Final = Glyphs("▓", "░", "", "━", "┃", ("┛", "┏"), ("┓", "┗"), "·", "┤", "│", "└", "─", "┴", "…")
ASCII: Final = Glyphs("#", ":", "", "=", "|", ("'", "."), (".", "'"), "o", "+", "|", "+", "-", "+", "~")

_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)
"""Distances of the marks on the time axis, in seconds, that people can read."""


def show(page: Page, series: Mapping[str, Any], span_ms: Millis, remark: str, legend: Mapping[str, str]) -> list[Text]:
    """Print the plot below its title; what the styles of ``legend`` stand for, nothing where there is no room for a plot."""
    coloured = page.coloured and page.unicode
    glyphs = COLOURED if coloured else PLAIN if page.unicode else ASCII
    lines = draw(series, span_ms, page.width, glyphs)
    if not lines:
        return []

    def style_of(name: str) -> str:
        """``target on busy``: the colour of the line before that of the area."""
        front, _, back = name.partition(" on ")
        return f"{STYLES[front]} on {STYLES[back]}" if back in ("busy", "idle") and coloured else STYLES[front]

    page.title("Executors", remark)
    page.lines([Text.assemble(*((span.text, style_of(span.style)) for span in line)) for line in lines])
    signs = {"target": glyphs.level * 2, "busy": glyphs.busy * 2, "idle": glyphs.idle * 2, "need": glyphs.need}
    return [Text.assemble((signs[style], STYLES[style]), f" {words}") for style, words in legend.items()]


def draw(series: Mapping[str, Any], span_ms: Millis, width: int, glyphs: Glyphs) -> list[Line]:
    """The plot as lines of at most ``width`` columns; none if there is no room or nothing to show.

    ``series``: ``width_ms`` of a bin, and under ``mean`` the averages of each bin, from the start on, of target, need,
    executors and busy executors.
    """
    bins: Sequence[Sequence[float]] = series["mean"]
    if not bins or span_ms <= 0:
        return []
    # The highest point of few columns is no higher than that of many: the margin is known before the points.
    highest = max(max(one[0], one[2]) for one in bins)
    columns = width - len(f"{_scale(ceil(highest))[0]:,}") - 3 if highest > 0 else 0
    if columns < COLUMNS_MIN:
        return []
    points = _resampled(bins, series["width_ms"], span_ms, columns)
    top, rows, every = _scale(ceil(round(max(max(one[0], one[2]) for one in points), 2)) or 1)
    margin = width - columns - 1
    grid = _grid(points, top, rows, glyphs)
    lines: list[Line] = []
    for row in range(rows - 1, -1, -1):
        labelled = row % every == 0
        label = f"{round(row * top / (rows - 1)):,}" if labelled else ""
        lines.append(
            [
                StyledSpan(f"{label:>{margin - 1}} {glyphs.tick if labelled else glyphs.side}", "axis"),
                *joined(grid[row]),
            ]
        )
    lines.extend(_time_axis(span_ms, columns, margin, glyphs))
    return lines


def _scale(highest: int) -> tuple[int, int, int]:
    """The value at the top, the number of rows, and every how many rows one is labelled."""
    if highest <= 6:
        each = 2 if highest >= 3 else 4 // highest
        return highest, highest * each + 1, each
    if highest < ROWS_MAX:
        return highest, highest + 1, 2 if highest > 8 else 1
    step, scale = 0, 1
    while not step:
        step = next((s * scale for s in (4, 5, 6, 8, 10, 15, 20, 25, 30) if s * scale * 4 >= highest), 0)
        scale *= 10
    return step * 4, ROWS_MAX, 3


def _resampled(
    bins: Sequence[Sequence[float]], width_ms: Millis, span_ms: Millis, columns: int
) -> list[tuple[float, ...]]:
    """For every column the averages over its stretch of time."""
    points = []
    for column in range(columns):
        begin, end = column * span_ms / columns, (column + 1) * span_ms / columns
        first = min(len(bins) - 1, int(begin // width_ms))
        last = max(first, min(len(bins) - 1, ceil(end / width_ms) - 1))
        spans = [
            max(1e-9, min(end, (place + 1) * width_ms) - max(begin, place * width_ms))
            for place in range(first, last + 1)
        ]
        points.append(
            tuple(
                sum(value * span for value, span in zip(values, spans, strict=True)) / sum(spans)
                for values in zip(*bins[first : last + 1], strict=True)
            )
        )
    return points


def _grid(points: Sequence[tuple[float, ...]], top: int, rows: int, glyphs: Glyphs) -> list[list[StyledSpan]]:
    grid = [[StyledSpan(" ", "blank")] * len(points) for _ in range(rows)]

    def level(value: float) -> float:
        return min(value, top) * (rows - 1) / top

    before: int | None = None
    for column, (target, need, executors, busy) in enumerate(points):
        filled, worked = level(executors), level(busy)
        for row in range(rows):
            share = 1.0 if row == 0 and executors else filled - row + 0.5
            if share <= 0 or not executors:
                break
            style = "busy" if busy and worked >= row else "idle"
            if share < 1 and glyphs.edges:
                grid[row][column] = StyledSpan(glyphs.edges[max(0, min(7, round(share * 8) - 1))], style)
            elif share >= 0.5:
                grid[row][column] = StyledSpan(glyphs.busy if style == "busy" else glyphs.idle, style)
        needed = round(level(need))
        if need > 0 and grid[needed][column].style == "blank":  # where executors are, the line says enough
            grid[needed][column] = StyledSpan(glyphs.need, "need")
        line = round(level(target))
        _line(grid, column, line if before is None else before, line, glyphs)
        before = line
    return grid


def _line(grid: list[list[StyledSpan]], column: int, before: int, line: int, glyphs: Glyphs) -> None:
    """The target's line in one column: level, or coming up or down from where it was."""

    def put(row: int, glyph: str) -> None:
        under = grid[row][column]
        # An area that ends in this row is no background: half of the cell would be painted too much.
        whole = under.text in (glyphs.busy, glyphs.idle)
        grid[row][column] = StyledSpan(glyph, f"target on {under.style}" if whole else "target on blank")

    if before == line:
        put(line, glyphs.level)
        return
    leave, arrive = glyphs.rise if line > before else glyphs.fall
    for row in range(min(before, line) + 1, max(before, line)):
        put(row, glyphs.vertical)
    put(before, leave)
    put(line, arrive)


def joined(cells: Sequence[StyledSpan]) -> Line:
    """The cells of a row, with neighbours of one style as one span."""
    runs: Line = []
    for cell in cells:
        if runs and runs[-1].style == cell.style:
            runs[-1] = StyledSpan(runs[-1].text + cell.text, cell.style)
        else:
            runs.append(cell)
    return runs


def _time_axis(span_ms: Millis, columns: int, margin: int, glyphs: Glyphs) -> list[Line]:
    """The axis with its marks, and their times below."""
    step_ms = _time_step(span_ms, columns)
    floor = [glyphs.floor] * columns
    labels = [" "] * (columns + margin + 1)
    free = 0
    for at in range(0, span_ms + 1, step_ms):
        column = min(columns - 1, at * columns // span_ms)
        floor[column] = glyphs.mark
        label = clock(at, tenths=step_ms < 1000)
        begin = max(0, min(margin + column - (len(label) - 1) // 2, len(labels) - 1 - len(label)))
        if begin >= free:
            labels[begin : begin + len(label)] = label
            free = begin + len(label) + 2
    return [
        [StyledSpan(" " * margin + glyphs.corner + "".join(floor), "axis")],
        [StyledSpan(" " + "".join(labels).rstrip(), "axis")],
    ]


def _time_step(span_ms: Millis, columns: int) -> Millis:
    """Milliseconds between marks, so that there are about six and their labels do not touch."""
    wanted = max(1, min(7, columns // 12))
    if span_ms < 1000 * wanted:
        return max(100, -(-span_ms // wanted // 100) * 100)
    for step in _STEPS:
        if span_ms <= step * 1000 * wanted:
            return step * 1000
    days = 1
    while span_ms > days * 86_400_000 * wanted:
        days *= 2
    return days * 86_400_000
