"""Drawings of many runs: a trend with what was normal, the bill of each run by cause, and a small line for tables.

Inline SVG that follows the width of the page; every run is a link and says what it is, also to those who do not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.views.report.bars import colour_class
from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import EMPTY, element
from podtide.adapters.views.report.scales import ticks
from podtide.adapters.views.whatif.figures import CAUSES, parts_of

HEIGHT: Final = 180.0
_HEAD: Final = 1.08
_SMALL: Final = (120.0, 28.0)


class RunPoint(NamedTuple):
    """A run: where it leads, what it says, its value (None: it has none), what was normal then, and its class."""

    link: str
    text: str
    value: float | None
    normal: float | None
    kind: str


class BillColumn(NamedTuple):
    """A run: where it leads, what it says, and its bill by cause."""

    link: str
    text: str
    amounts: Mapping[str, float]


def trend(points: Sequence[RunPoint], words: Callable[[float], str], label: str) -> Markup:
    """Values of runs, the first one left, with a dashed line of what was normal."""
    most = max((max(one.value or 0.0, one.normal or 0.0) for one in points), default=0.0) * _HEAD
    if most <= 0:
        return EMPTY

    def height(value: float) -> float:
        return HEIGHT * (1.0 - value / most)

    def line(values: Sequence[float | None], kind: str) -> Markup:
        pairs = [
            f"{100 * _place(at, len(points)):.3f},{height(value):.2f}"
            for at, value in enumerate(values)
            if value is not None
        ]
        return element("polyline", points=" ".join(pairs), class_=f"line {kind}")

    lines = element(
        "svg", line([one.normal for one in points], "s-normal"), line([one.value for one in points], "s-value"),
        x=0, y=0, width="100%", height=HEIGHT, viewBox=f"0 0 100 {HEIGHT:g}", preserveAspectRatio="none",
    )  # fmt: skip
    dots = [
        element(
            "a",
            element(
                "circle", element("title", one.text), cx=percentage(_place(at, len(points))), cy=height(one.value), r=4.5,
                class_=f"dot {one.kind}",
            ),
            href=one.link, aria_label=one.text,
        )
        for at, one in enumerate(points)
        if one.value is not None
    ]  # fmt: skip
    return _drawing(label, *_grid(most, words), lines, *dots)


def bills(columns: Sequence[BillColumn], words: Callable[[float], str], label: str) -> Markup:
    """The bill of each run as a column of its causes."""
    most = max((sum(one.amounts.values()) for one in columns), default=0.0) * _HEAD
    if most <= 0:
        return EMPTY
    width = min(0.06, 0.9 / len(columns))
    drawn = []
    for at, one in enumerate(columns):
        left, top = _place(at, len(columns)) - width / 2, HEIGHT
        parts = []
        for cause, amount in parts_of(one.amounts, CAUSES):
            tall = HEIGHT * amount / most
            top -= tall
            parts.append(
                element(
                    "rect", x=percentage(left), y=top, width=percentage(width), height=tall,
                    class_=f"part thin {colour_class(cause)}",
                )
            )  # fmt: skip
        drawn.append(element("a", element("title", one.text), *parts, href=one.link, aria_label=one.text))
    return _drawing(label, *_grid(most, words), *drawn)


def small_line(values: Sequence[float], label: str) -> Markup:
    """The last values of an application, for a cell of a table."""
    most = max(values, default=0.0) * _HEAD
    if most <= 0 or len(values) < 2:
        return EMPTY
    wide, tall = _SMALL
    pairs = " ".join(
        f"{wide * _place(at, len(values)):.1f},{tall * (1.0 - value / most):.1f}" for at, value in enumerate(values)
    )
    return element(
        "svg", element("polyline", points=pairs, class_="line s-value"),
        width=wide, height=tall, viewBox=f"0 0 {wide:g} {tall:g}", role="img", aria_label=label,
    )  # fmt: skip


def _place(at: int, count: int) -> float:
    """Where the ``at``-th of so many stands, as a share of the width."""
    return (at + 0.5) / count


def _grid(most: float, words: Callable[[float], str]) -> list[Markup]:
    drawn = []
    for value in ticks(0.0, most, 4):
        y = HEIGHT * (1.0 - value / most)
        drawn.append(element("line", x1="0", x2="100%", y1=y, y2=y, class_="ground" if value == 0 else "grid"))
        if value:
            drawn.append(element("text", words(value), x="0", y=y - 4, class_="tick halo"))
    return drawn


def _drawing(label: str, *parts: Markup) -> Markup:
    return element("svg", *parts, width="100%", height=HEIGHT, role="group", aria_label=label, class_="chart")
