"""Small drawings: a stage along the run, a variant against the record, and the frontier of time against money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import EMPTY, element, join, visible
from podtide.adapters.views.report.scales import ticks, time_ticks
from podtide.adapters.views.report.style import HATCHED
from podtide.adapters.views.whatif.figures import took
from podtide.adapters.views.whatif.findings import Compared, FigureVerdict

SPREAD_MAX: Final = 1.0
"""Differences beyond this (twice as much, or nothing left) stand at the edge of the scale."""

FRONTIER_HEIGHT: Final = 320
_PAD: Final = 0.06
_NARROW: Final = 250.0
_WIDE: Final = 900.0
_SIGN: Final = 6.6
"""Pixels of a plot on a phone and on a desk, and of a letter of its labels."""


def hatches() -> Markup:
    """The patterns of hatched parts, and the light one of what is pending; they take their colours from the theme."""
    drawn = [(hue, slant, f"hatch {hue}", 2.0) for hue, slant in HATCHED] + [("amber", "w", "hatch amber light", 1.2)]
    patterns = (
        element(
            "pattern",
            element("rect", width=6, height=6, class_="base"), element("rect", width=gap, height=6, class_="gap"),
            id=f"pt-{hue}-{slant}", width=6, height=6, patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({-45 if slant == 'b' else 45})", class_=kind,
        )
        for hue, slant, kind, gap in drawn
    )  # fmt: skip
    return element("svg", element("defs", *patterns), class_="defs", aria_hidden="true", width=0, height=0)


def gantt(start: float, end: float, span: float) -> Markup:
    """When a stage ran, of the whole run."""
    if span <= 0:
        return EMPTY
    left, width = max(0.0, min(1.0, start / span)), max(0.0, min(1.0, (end - start) / span))
    return element(
        "svg",
        element("rect", width="100%", height=2, y=5, class_="rail"),
        element("rect", x=percentage(left), width=percentage(max(width, 0.004)), height=12, rx=1.5, class_="stage"),
        width="100%", height=12, aria_hidden="true",
    )  # fmt: skip


def spread(figures: Sequence[Compared]) -> float:
    """The scale of differences that all variants fit on."""
    reach = (abs(end) for one in figures for end in (one.change, one.low, one.high) if end is not None)
    return min(SPREAD_MAX, max(0.02, *reach, 0.02) * 1.08)


def whisker(one: Compared, scale: float) -> Markup:
    """A difference (the line in the middle is none): the point and its range."""
    if one.change is None:
        return EMPTY

    def place(share: float) -> str:
        return percentage(0.5 + 0.5 * max(-1.0, min(1.0, share / scale)) * 0.97)

    low, high = one.low if one.low is not None else one.change, one.high if one.high is not None else one.change
    tone = {FigureVerdict.LESS: "less", FigureVerdict.MORE: "more"}.get(one.verdict, "alike")
    return element(
        "svg",
        element("line", x1="0", x2="100%", y1=8, y2=8, class_="rail"),
        element("line", x1="50%", x2="50%", y1=0, y2=16, class_="record"),
        element("line", x1=place(low), x2=place(high), y1=8, y2=8, class_="range"),
        element("circle", cx=place(one.change), cy=8, r=4.5),
        width="100%", height=16, class_=f"whisker {tone}", aria_hidden="true",
    )  # fmt: skip


class Spot(NamedTuple):
    """A config on the plane of time and money. ``kind``: a key of ``_MEANINGS``; ``label``: what
    stands beside it, if anything (as in the document); ``text``: all about it, in plain text; ``front``: on the frontier."""

    time: float
    cost: float
    kind: str
    label: str
    text: str
    front: bool = False


_ORDER: Final = ("recommended", "recorded", "simulated", "static", "front", "other")
_MARKED: Final = ("recommended", "recorded", "simulated")
_DRAWN: Final = {
    "recommended": "M0-8L2.4-2.6L8-2.4L3.6 1.4L5 7L0 3.8L-5 7L-3.6 1.4L-8-2.4L-2.4-2.6Z",
    "recorded": "M0-7L7 0L0 7L-7 0Z",
    "simulated": "M0-7L7 0L0 7L-7 0Z",
    "static": "M-5-5H5V5H-5Z",
    "front": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0",
    "other": "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0-3 0",
}
_MEANINGS: Final = {
    "recommended": "recommended", "recorded": "as recorded", "simulated": "the same, simulated", "static": "static count",
    "front": "on the frontier", "other": "other candidates",
}  # fmt: skip


def frontier(spots: Sequence[Spot], money: Callable[[float], str], unit: str) -> Markup:
    """Run time to the right, ``unit`` upwards; the frontier is the line below which nothing was found."""
    if not spots:
        return EMPTY
    keys = (element("span", mark, word) for mark, word in frontier_keys(spots))
    axes = element("p", f"Run time to the right, {unit} upwards; the lower left is better. Both scales begin beyond zero.",
                   class_="note")  # fmt: skip
    picture = frontier_picture(spots, money, unit)
    return join(element("div", picture, class_="plot"), element("p", *keys, class_="marks"), axes)


def frontier_keys(spots: Sequence[Spot]) -> list[tuple[Markup, str]]:
    """The marks that are drawn, 18 pixels high each, and what they mean."""
    return [
        (
            element("svg", element("path", d=_DRAWN[kind], transform="translate(9 9)"), width=18, height=18,
                    class_=f"mark spot p-{kind}", aria_hidden="true"),
            _MEANINGS[kind],
        )
        for kind in _ORDER if any(one.kind == kind for one in spots)
    ]  # fmt: skip


def frontier_picture(spots: Sequence[Spot], money: Callable[[float], str], unit: str) -> Markup:
    """The plane itself, ``FRONTIER_HEIGHT + 26`` pixels high."""
    times, costs = [one.time for one in spots], [one.cost for one in spots]
    left, right = _padded(min(times), max(times))
    low, high = _padded(min(costs), max(costs))

    def across(time: float) -> float:
        return _PAD + (1 - 2 * _PAD) * (time - left) / (right - left)

    def down(cost: float) -> float:
        return round(FRONTIER_HEIGHT * (0.94 - 0.86 * (cost - low) / (high - low)), 1)

    grid = [
        element("line", x1="0", x2="100%", y1=down(value), y2=down(value), class_="grid")
        for value in ticks(low, high, 4)
    ]
    grid += [element("text", money(value), x=2, y=down(value) - 4, class_="tick halo") for value in ticks(low, high, 4)]
    grid.append(element("line", x1="0", x2="100%", y1=FRONTIER_HEIGHT, y2=FRONTIER_HEIGHT, class_="ground"))
    grid += [
        element("text", took(value), x=percentage(across(value)), y=FRONTIER_HEIGHT + 19, class_="tick",
                text_anchor="middle")
        for value in time_ticks(right, 4, left)
    ]  # fmt: skip
    drawn = sorted(spots, key=lambda one: (_ORDER.index(one.kind), one.time))
    marks = [
        element(
            "svg", element("path", d=_DRAWN[one.kind]),
            x=percentage(across(one.time)), y=down(one.cost), overflow="visible", class_=f"mark spot p-{one.kind}",
            tabindex="-1" if index else "0", role="img", aria_label=one.text,
        )
        for index, one in enumerate(drawn)
    ]  # fmt: skip
    labels = [_labels(drawn, across, down, width, kind) for width, kind in ((_NARROW, "narrow"), (_WIDE, "broad"))]
    return element(
        "svg", element("g", *grid, aria_hidden="true"), _edge(spots, across, down),
        element("g", *labels, aria_hidden="true"), *reversed(marks),
        width="100%", height=FRONTIER_HEIGHT + 26, class_="canvas", role="group", data_rove=True,
        aria_label=f"Run time against {unit}: {len(spots)} configs; arrow keys go from one to the next",
    )  # fmt: skip


def _edge(spots: Sequence[Spot], across: Callable[[float], float], down: Callable[[float], float]) -> Markup:
    """The frontier as a line from point to point; stretched drawing would bend strokes, so it is made of segments."""
    front = sorted((one.time, one.cost) for one in spots if one.front)
    segments = (
        element("line", x1=percentage(across(first[0])), y1=down(first[1]), x2=percentage(across(second[0])),
                y2=down(second[1]), class_="edge")
        for first, second in pairwise(front)
    )  # fmt: skip
    return element("g", *segments, aria_hidden="true")


def _labels(
    spots: Sequence[Spot], across: Callable[[float], float], down: Callable[[float], float], width: float, kind: str
) -> Markup:
    """Names beside the points, the important ones first, as far as none covers another or an important mark; names of less
    importance cover no mark of a config that has a name."""
    marks = {
        id(one): (across(one.time) * width - 7, down(one.cost) - 7, across(one.time) * width + 7, down(one.cost) + 7)
        for one in spots
        if one.kind != "other"
    }
    taken = [marks[id(one)] for one in spots if one.kind in _MARKED]
    words = []
    for one in spots:
        if not one.label:
            continue
        text = visible(one.label, 28 if width > _NARROW else 20)
        x, y, wide = across(one.time) * width, down(one.cost), len(text) * _SIGN
        for anchor, left, dx, dy in (
            ("start", x + 10, 10, 4), ("end", x - 10 - wide, -10, 4), ("start", x + 4, 4, -10), ("start", x + 4, 4, 20),
            ("end", x - 4 - wide, -4, 20), ("end", x - 4 - wide, -4, -10),
        ):  # fmt: skip
            box = (left, y + dy - 11, left + wide, y + dy + 3)
            around = [] if one.kind in _MARKED else [mark for key, mark in marks.items() if key != id(one)]
            if box[0] < 0 or box[2] > width or any(_meet(box, other) for other in (*taken, *around)):
                continue
            taken.append(box)
            words.append(
                element("text", text, x=percentage(across(one.time)), dx=dx, y=y + dy, text_anchor=anchor,
                        class_=f"label p-{one.kind}")
            )  # fmt: skip
            break
    return element("g", *words, class_=kind)


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _padded(low: float, high: float) -> tuple[float, float]:
    """A scale that has some extent."""
    room = (high - low) * 0.08 or max(abs(high) * 0.05, 1e-6)
    return low - room, high + room
