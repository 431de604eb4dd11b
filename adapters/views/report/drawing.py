"""The report's drawings as SVG files of their own: what a notebook shows for a plot, and what can be saved.

A drawing is made of parts, one below the other: lines of text, keys to the colours, and the pictures of the report as they
are. The style is inside and confined to the drawing, so that many of them can stand in one notebook; it follows the dark
themes of JupyterLab, VS Code and Colab. There is no script in it, it loads nothing, and texts of a log are escaped
(``views.report.markup``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.views.comparison.document import ComparisonDocument
from podtide.adapters.views.comparison.page import STEP_HEIGHT, WHY, waterfall_steps
from podtide.adapters.views.comparison.words import headline
from podtide.adapters.views.report import advice, counts, plots
from podtide.adapters.views.report.bars import BAR_HEIGHT, Amounts, bar_svg, colour_class, present
from podtide.adapters.views.report.curves import peak
from podtide.adapters.views.report.executors_chart import (
    AXIS,
    HEIGHT,
    LANE_HEIGHT,
    SERIES,
    decisions_lane,
    executors_canvas,
    summary,
)
from podtide.adapters.views.report.markup import EMPTY, element, join, trusted, visible
from podtide.adapters.views.report.style import DARK_UNDER, scoped_style
from podtide.adapters.views.whatif.model import Document, RecordedEntry, RunEntry

SCOPE: Final = "podtide-drawing"
WIDTH: Final = 960
_PAD: Final = 16
_INNER: Final = WIDTH - 2 * _PAD
_LINE: Final = 22
_KEY: Final = 18
_SIGN: Final = 7.2
"""Pixels of a letter, about; keys are placed by it."""

_ONE_WIDTH: Final = f".{SCOPE} .narrow{{display:none}}"
"""A page chooses between labels by its width; a drawing has one."""

_STYLE: Final = "max-width:100%;height:auto;font:13px system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif"


class Part(NamedTuple):
    """SVG as wide as the drawing and so many pixels high."""

    height: float
    svg: Markup


class Picture:
    """A picture as SVG; a notebook shows it. ``label``: the picture in words."""

    def __init__(self, label: str, parts: Iterable[Part]) -> None:
        self.label = label
        self.svg: str = _document(label, [part for part in parts if part.svg])

    def __repr__(self) -> str:
        """The picture in words."""
        return f"picture: {visible(self.label)}"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file, over what is there. Raises OSError."""
        Path(path).write_text(self.svg, encoding="utf-8")


def executors_drawing(run: RunEntry, recorded: RecordedEntry, label: str) -> Picture:
    """Executors over time, with the decisions below. ``label``: whose curves they are."""
    text = summary(run, recorded, label)
    made = executors_canvas(run, recorded, label)
    if made is None:
        return Picture(text, [_text("There are no curves of this run.")])
    keys = [(_swatch(name), word) for name, word, _ in SERIES if peak(made.curves.get(name, [])) > 0]
    lane = decisions_lane(run, made.span, label)
    return Picture(
        text, [*_keys(keys), Part(HEIGHT + AXIS, made.canvas), Part(LANE_HEIGHT if lane else 0, lane or EMPTY)]
    )


def amounts_drawing(shown: Amounts) -> Picture:
    """Amounts by cause: a bar for each config, all over one scale."""
    scale = max((one.whole for one in shown.bars), default=0.0)
    if scale <= 0:
        return Picture(shown.title, [_text(f"{shown.title}: nothing to draw.")])
    keys = [
        (element("rect", y=3, width=12, height=12, class_=f"part {colour_class(part)}"), part)
        for part in present(shown.bars, shown.order)
    ]
    parts = [_text(shown.title, strong=True), *_keys(keys)]
    for bar in shown.bars:
        parts.append(_text(visible(bar.name, 80), bar.total))
        parts.append(Part(BAR_HEIGHT + 8, bar_svg(bar, shown.order, shown.words, scale, still=True)))
    return Picture(shown.title, parts)


def counts_drawing(document: Document) -> Picture:
    """Run time and price over counts of executors."""
    parts: list[Part] = []
    for title, picture in counts.count_pictures(document):
        parts += [_text(title, strong=True), Part(counts.HEIGHT + 40, picture)]
    return Picture("Run time and price over counts of executors", [*parts, *_keys(counts.count_keys(document))])


def frontier_drawing(document: Document) -> Picture:
    """Time against money: what ran, what was tried and what is recommended."""
    plane = advice.frontier_plane(document)
    title = f"Run time to the right, {plane.unit} upwards; the lower left is better"
    picture = plots.frontier_picture(*plane) if plane.spots else EMPTY
    return Picture(
        title,
        [_text(title), Part(plots.FRONTIER_HEIGHT + 40, picture), *_keys(plots.frontier_keys(plane.spots))],
    )


def waterfall_drawing(document: ComparisonDocument) -> Picture:
    """From the first run time to the second one, a step for each cause."""
    parts = [_text(WHY, strong=True)]
    for step in waterfall_steps(document):
        parts += [_text(visible(step.title, 100), step.figure), Part(STEP_HEIGHT + 8, step.svg)]
    return Picture(headline(document), parts)


def _text(text: str, right: str = "", *, strong: bool = False) -> Part:
    """A line; ``right``: what stands at its right end."""
    weight = "650" if strong else None
    end = element("text", right, x="100%", y=15, text_anchor="end", class_="tick") if right else EMPTY
    return Part(_LINE, join(element("text", text, y=15, class_="label", font_weight=weight), end))


def _swatch(name: str) -> Markup:
    """The colour of a curve: a box for an area, a line for a line."""
    if name in ("busy", "running", "pending"):
        return element("rect", y=3, width=12, height=12, class_=f"area s-{name}")
    return element("line", x2=14, y1=9, y2=9, class_=f"line s-{name}")


def _keys(keys: Sequence[tuple[Markup, str]]) -> list[Part]:
    """Keys to colours and marks, in as many lines as they take."""
    lines: list[list[Markup]] = [[]]
    place = 0.0
    for mark, word in keys:
        shown = visible(word, 60)
        wide = _KEY + 6 + len(shown) * _SIGN + 16
        if place and place + wide > _INNER:
            lines.append([])
            place = 0.0
        text = element("text", shown, x=_KEY + 6, y=14, class_="tick")
        lines[-1].append(element("g", mark, text, transform=f"translate({place:.0f} 0)"))
        place += wide
    return [Part(_LINE, join(*line)) for line in lines if line]


def _document(label: str, parts: Sequence[Part]) -> str:
    """The SVG document."""
    placed, down = [], float(_PAD)
    for part in parts:
        placed.append(element("svg", part.svg, x=_PAD, y=down, width=_INNER, height=part.height, overflow="visible"))
        down += part.height
    height = down + _PAD
    style = element("style", trusted(scoped_style(f".{SCOPE}", *DARK_UNDER) + _ONE_WIDTH))
    ground = element("rect", width="100%", height="100%", style="fill:var(--surface)")
    return str(
        element(
            "svg", style, plots.hatches(), ground, *placed,
            xmlns="http://www.w3.org/2000/svg", width=WIDTH, height=height, viewBox=f"0 0 {WIDTH} {height:g}",
            class_=SCOPE, role="img", aria_label=visible(label, 400), style=_STYLE,
        )
    )  # fmt: skip
