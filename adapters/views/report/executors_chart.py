"""The chart of executors over time: needed, target, pending, running, busy, the record beside them, and the decisions.

It is SVG without a view box of its own: text and strokes keep their size at every width, places along the time axis are
percentages, and only the curves are stretched. The page's script reads the figures beside it (``data``) for the moment
under the pointer or the keyboard's cursor; without a script the drawing and the tables remain. What tasks could use
(needed) is often far more than anybody asks for: the scale follows what there was, and the caption says how far the
need went beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.text.format import clock, count
from podtide.adapters.views.report.curves import Steps, added, area, line, moments, peak, steps_of, value_at
from podtide.adapters.views.report.decisions import Mark, marks
from podtide.adapters.views.report.markup import EMPTY, data, element, join, short
from podtide.adapters.views.report.scales import count_ticks, time_ticks
from podtide.adapters.views.whatif.figures import at, number, took
from podtide.adapters.views.whatif.model import RecordedEntry, RunEntry

HEIGHT: Final = 260
"""Pixels of the plot; the time axis stands below."""

AXIS: Final = 26
LANE_HEIGHT: Final = 44
EXTENT: Final = 1000
"""Units of the stretched drawing, both ways."""

SERIES: Final = (
    ("busy", "busy", "running, with a task"),
    ("running", "running", "registered and not gone"),
    ("pending", "pending", "asked for, on the way"),
    ("target", "target", "asked for in all"),
    ("needed", "needed", "what the tasks could keep busy"),
    ("recorded", "recorded", "running executors in the log"),
)
"""Class, name, meaning."""

_COLUMN: Final = {"needed": 1, "target": 2, "pending": 3, "running": 4, "busy": 5}


class ExecutorsCanvas(NamedTuple):
    """The drawing itself, and what it was drawn from: curves by name, the names that are drawn, seconds, executors."""

    canvas: Markup
    curves: dict[str, Steps]
    drawn: list[str]
    span: float
    top: float


def executors_chart(
    run: RunEntry, recorded: RecordedEntry, identity: str, label: str, *, still: bool = False
) -> Markup:
    """The chart of one run. ``identity``: names its parts in the page; ``label``: whose curves they are, in plain text;
    ``still``: for a page without the script."""
    made = executors_canvas(run, recorded, label)
    if made is None:
        return element("p", "There are no curves of this run.", class_="quiet")
    canvas, curves, drawn, span, top = made
    cursor = element(
        "div", element("span", class_="hair"),
        class_="cursor", role="slider", tabindex="0", hidden=True, aria_label=f"Executors at a moment, {label}",
        aria_orientation="horizontal", aria_valuemin="0", aria_valuemax="0", aria_valuenow="0", aria_valuetext="",
    )  # fmt: skip
    if still:
        return element(
            "div", legend(drawn, still=True), canvas, _lane(run, span, label, still=True), _caption(curves, span, top)
        )
    return element(
        "div",
        legend(drawn), element("div", canvas, cursor, class_="plot"), _lane(run, span, label),
        _caption(curves, span, top), data(_figures(curves, drawn, span), f"{identity}-data"),
        class_="chart", data_chart=f"{identity}-data",
    )  # fmt: skip


def executors_canvas(run: RunEntry, recorded: RecordedEntry, label: str) -> ExecutorsCanvas | None:
    """The curves of one run as SVG, ``HEIGHT + AXIS`` pixels high; None where there are none."""
    curves = {name: steps_of(run.curve, index) for name, index in _COLUMN.items()} if run.curve else {}
    if recorded.curve:
        curves["recorded"] = steps_of(recorded.curve, 1)
    span = max(run.span_s if run.curve else 0.0, recorded.runtime_s if recorded.curve else 0.0)
    if not curves or span <= 0:
        return None
    there = added(curves["running"], curves["pending"]) if run.curve else []
    held = max([peak(there), peak(curves.get("target", [])), peak(curves.get("recorded", [])), 1.0])
    scale = count_ticks(held * 1.04)
    top = scale[-1]
    ends = {name: recorded.runtime_s if name == "recorded" else run.span_s for name in curves}
    drawn = [name for name, _, _ in SERIES if name in curves]
    paths = join(
        _area(there, "pending", ends["running"], span, top) if run.curve else EMPTY,
        *(_area(curves[name], name, ends[name], span, top) for name in ("running", "busy") if name in curves),
        *(
            _line(curves[name], name, ends[name], span, top)
            for name in ("needed", "target", "recorded")
            if name in curves
        ),
    )
    stretched = element(
        "svg",
        paths,
        y=0,
        width="100%",
        height=HEIGHT,
        viewBox=f"0 0 {EXTENT} {EXTENT}",
        preserveAspectRatio="none",
        class_="clipped",
    )
    canvas = element(
        "svg",
        _grid(scale, top), stretched, _levels(scale, top), _times(span),
        class_="canvas", width="100%", height=HEIGHT + AXIS, role="img", aria_label=summary(run, recorded, label),
    )  # fmt: skip
    return ExecutorsCanvas(canvas, curves, drawn, span, top)


def summary(run: RunEntry, recorded: RecordedEntry, label: str) -> str:
    """The chart in a sentence, for who cannot see it."""
    text = f"Executors over time, {label}: "
    if run.curve:
        text += f"up to {number(run.peak_executors)} running in {took(run.span_s)}; "
    return text + f"in the log up to {number(recorded.peak_executors)} in {took(recorded.runtime_s)}."


def legend(drawn: Sequence[str], *, still: bool = False) -> Markup:
    """What the colours mean; each is a switch where there is a script."""
    keys = []
    for name, word, meaning in SERIES:
        if name in drawn:
            inside = element("i", class_=f"key k-{name}"), word, element("small", meaning)
            keys.append(
                element("span", *inside) if still
                else element("button", *inside, type="button", aria_pressed="true", data_series=name)
            )  # fmt: skip
    return element("div", *keys, class_="legend", role="group", aria_label="Curves")


def percentage(share: float) -> str:
    """A place along the axis."""
    return f"{short(100 * share)}%"


def _area(steps: Steps, name: str, end: float, span: float, top: float) -> Markup:
    shape = _path(area(steps, end), end, span, top)
    if not shape:
        return EMPTY
    return element("path", d=f"{shape}V{EXTENT}Z", class_=f"area s-{name}")


def _line(steps: Steps, name: str, end: float, span: float, top: float) -> Markup:
    shape = _path(line(steps, end), end, span, top, closed=False)
    return element("path", d=shape, class_=f"line s-{name}") if shape else EMPTY


def _path(steps: Steps, end: float, span: float, top: float, *, closed: bool = True) -> str:
    """The steps as a path, from the ground where it is to be closed."""
    parts: list[str] = []
    for moment, value in steps:
        if moment > end:
            break
        place, level = short(round(EXTENT * moment / span, 1)), short(round(EXTENT * (1 - value / top)))
        if not parts:
            parts.append(f"M{place} {EXTENT}V{level}" if closed else f"M{place} {level}")
        else:
            parts.append(f"H{place}V{level}")
    return "".join(parts) + f"H{short(round(EXTENT * end / span, 1))}" if parts else ""


def _grid(scale: Sequence[float], top: float) -> Markup:
    lines = (
        element("line", x1="0", x2="100%", y1=level, y2=level, class_="grid" if value else "ground")
        for value in scale
        for level in [_level(value, top)]
    )
    return element("g", *lines, aria_hidden="true")


def _levels(scale: Sequence[float], top: float) -> Markup:
    """Numbers of the vertical axis, on their lines; the highest names the unit."""
    words = (
        element("text", number(value) + (" executors" if value == scale[-1] else ""),
                x=2, y=_level(value, top) + (13 if value == top else -4), class_="tick halo")
        for value in scale if value
    )  # fmt: skip
    return element("g", *words, aria_hidden="true")


def _level(value: float, top: float) -> float:
    """Whole pixels and a half, so that a line is sharp."""
    return min(HEIGHT - 0.5, round(HEIGHT * (1 - value / top)) + 0.5)


def _times(span: float) -> Markup:
    words = []
    for moment in time_ticks(span):
        share = moment / span
        anchor = "start" if share < 0.03 else "end" if share > 0.96 else "middle"
        words.append(
            element("line", x1=percentage(share), x2=percentage(share), y1=HEIGHT, y2=HEIGHT + 4, class_="ground")
        )
        text = clock(round(moment * 1000), tenths=span < 6)
        words.append(element("text", text, x=percentage(share), y=HEIGHT + 19, class_="tick", text_anchor=anchor))
    return element("g", *words, aria_hidden="true")


_SHAPES: Final = {
    "up": "M0-5L5 4H-5Z",
    "down": "M0 5L5-4H-5Z",
    "release": "M-4-4L4 4M4-4L-4 4",
    "even": "M0-5L5 0L0 5L-5 0Z",
}


def _lane(run: RunEntry, span: float, label: str, *, still: bool = False) -> Markup:
    """The decisions in a lane of their own, and what its marks mean."""
    lane = decisions_lane(run, span, label, still=still)
    if not lane:
        return EMPTY
    kinds = {mark.kind for mark in _placed(run, span)}
    keys = (
        element("span", element("svg", element("path", d=_SHAPES[kind], transform="translate(7 7)"),
                                width=14, height=14, class_=f"mark m-{kind}", aria_hidden="true"), word)
        for kind, word in (("up", "target raised"), ("down", "target lowered"), ("release", "executors let go"),
                           ("even", "as before"))
        if kind in kinds
    )  # fmt: skip
    return join(lane, element("p", element("b", count(run.decided, "decision")), *keys, class_="marks"))


def _placed(run: RunEntry, span: float) -> list[Mark]:
    return marks([one for one in run.decisions if one.at_s <= span], span)


def decisions_lane(run: RunEntry, span: float, label: str, *, still: bool = True) -> Markup:
    """The decisions on the same time axis, ``LANE_HEIGHT`` pixels high; nothing where there are none."""
    placed = _placed(run, span)
    if not placed:
        return EMPTY
    drawn = (
        element(
            "svg", element("title", mark.text) if still else None, element("path", d=_SHAPES[mark.kind]),
            x=percentage(mark.at_s / span), y=32 if mark.kind == "release" else 13, overflow="visible",
            class_=f"mark m-{mark.kind}",
            tabindex=None if still else "-1" if index else "0", role="img", aria_label=mark.text,
        )
        for index, mark in enumerate(placed)
    )  # fmt: skip
    return element(
        "svg", *drawn, class_="lane", width="100%", height=LANE_HEIGHT, role="group", data_rove=True,
        aria_label=f"Decisions, {label}: {count(run.decided, 'decision')}; arrow keys go from one to the next",
    )  # fmt: skip


def _caption(curves: dict[str, Steps], span: float, top: float) -> Markup:
    remarks = []
    most = peak(curves.get("needed", []))
    if most > top:
        first = next(moment for moment, value in curves["needed"] if value == most)
        remarks.append(f"Needed went up to {number(most)} executors (at {at(first)}), beyond the scale.")
    if any(len(steps) > len(line(steps, span)) for steps in curves.values()):
        remarks.append("Thinned to the width of a screen: lines keep every peak, areas keep their executor-seconds.")
    return element("p", " ".join(remarks), class_="note") if remarks else EMPTY


def _figures(curves: dict[str, Steps], drawn: Sequence[str], span: float) -> dict[str, object]:
    """The curves read off at moments, for the script."""
    when = moments(list(curves.values()), span)
    words = {name: word for name, word, _ in SERIES}
    return {
        "span": round(span, 3),
        "t": [round(moment, 2) for moment in when],
        "s": [[words[name], [round(value_at(curves[name], moment), 1) for moment in when]] for name in drawn],
    }
