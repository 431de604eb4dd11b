"""The last minutes of a live run in a few rows of characters: executors that run as an area, the target as a line over it.

``text.plot`` draws a whole run at the height that its numbers ask for; a live view has the height that is left, from
one row up, and time that moves. Row ``k`` of ``rows`` ends at ``(k + 1) / rows`` of the top. With eighths of a block the
area is exact to an eighth of a row; without colours or Unicode it is whole characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from podtide.adapters.text.plot import Glyphs, Line, Span
from podtide.adapters.views.live.status import Point

COLUMNS_MIN = 16


def columns_of(points: Sequence[Point], columns: int, length: int) -> list[Point]:
    """``length`` points, the newest at the right end, brought to so many columns; what lies before the first is zero.

    A column shows the most executors of its stretch of time and the target at its end.
    """
    padded = [Point(0, 0, 0)] * max(0, length - len(points)) + list(points[-length:])
    drawn = []
    for column in range(columns):
        begin = column * length // columns
        some = padded[begin : max(begin + 1, (column + 1) * length // columns)]
        drawn.append(Point(some[-1].target, max(one.running for one in some), max(one.registered for one in some)))
    return drawn


def top_of(points: Sequence[Point]) -> int:
    """The highest value that is drawn, at least 1."""
    return max((max(point.target, point.running) for point in points), default=1) or 1


def graph(points: Sequence[Point], rows: int, glyphs: Glyphs) -> list[Line]:
    """One column for each point, ``rows`` rows, the top one first; spans name ``busy``, ``target`` or ``blank``."""
    top = top_of(points)
    cells = [[Span(" ", "blank")] * len(points) for _ in range(rows)]
    for column, point in enumerate(points):
        height = point.running / top * rows
        for row in range(ceil(height)):
            share = min(1.0, height - row)
            if share == 1 or not glyphs.edges:
                if share >= 0.5 or row == 0:
                    cells[row][column] = Span(glyphs.busy, "busy")
            else:
                cells[row][column] = Span(glyphs.edges[max(0, min(7, round(share * 8) - 1))], "busy")
        if point.target and rows > 1:
            row = ceil(point.target / top * rows) - 1
            whole = cells[row][column].text == glyphs.busy
            cells[row][column] = Span(glyphs.level, "target on busy" if whole else "target on blank")
    return [_joined(row) for row in reversed(cells)]


def _joined(cells: Sequence[Span]) -> Line:
    line: Line = []
    for cell in cells:
        if line and line[-1].style == cell.style:
            line[-1] = Span(line[-1].text + cell.text, cell.style)
        else:
            line.append(cell)
    return line
