"""What a report says without a variant: other counts of executors as charts and tables, the critical path, troubles.

A chart has the counts to the right, each so many times the one before (a logarithmic scale), and the run time or the price
upwards, from nothing: a mark is what is forecast, the line through it the 90% prediction interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.text.format import count
from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import EMPTY, element, join, name, prose, visible
from podtide.adapters.views.report.scales import ticks, time_ticks
from podtide.adapters.views.whatif import overview_words as words
from podtide.adapters.views.whatif.figures import UNKNOWN, money, number, percent, share_of, took, whole
from podtide.adapters.views.whatif.model import Document
from podtide.adapters.views.whatif.overview_entries import CountCurveEntry, PointEntry, Span

HEIGHT: Final = 240
ROWS_MAX: Final = 12
PATH_MAX: Final = 40

PATH_TITLES: Final = ("Stage", "Tasks", "Longest task", "Driver before it", "Of the ideal time")
SKEW_TITLES: Final = ("Stage", "Tasks", "Longest task", "Median task", "Costs the run")

_PAD: Final = 0.05
_MARKS: Final = {"static": ("static", "M-5-5H5V5H-5Z"), "maximum": ("front", "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0")}
"""Of static counts and of maxima: the class of a mark and its shape."""


class _Axis(NamedTuple):
    """What is drawn upwards: its name, a point's value and range, a value in words, round values up to one."""

    title: str
    value: Callable[[PointEntry], float | None]
    extent: Callable[[PointEntry], Span | None]
    shown: Callable[[float], str]
    ticks: Callable[[float], list[float]] = lambda top: ticks(0.0, top, 4)


def sentences(document: Document) -> list[str]:
    """The ideal time, and the time with one executor."""
    return [one for one in (words.ideal_words(document), words.single_words(document)) if one]


def notes(document: Document) -> list[Markup]:
    """What is to be said of the settings that were tried."""
    return [prose(note, 600) for note in (document.overview.notes if document.overview else ())]


def charts(document: Document) -> Markup:
    """Run time and price over counts of executors."""
    keys = (element("span", mark, word) for mark, word in count_keys(document))
    drawn = [
        join(element("p", element("b", title), class_="note"), element("div", picture, class_="plot"))
        for title, picture in count_pictures(document)
    ]
    note = element("p", "Executors to the right, each step as many times more. The lines are 90% prediction intervals.",
                   class_="note")  # fmt: skip
    return join(*drawn, element("p", *keys, class_="marks"), note)


def count_pictures(document: Document) -> list[tuple[str, Markup]]:
    """Run time and price over counts of executors, ``HEIGHT + 26`` pixels high each, under their names."""
    kinds, (time, paid) = _kinds(document), _axes(document)
    ideal_s = document.ideal.runtime_s if document.ideal else None
    drawn = [(time.title, _picture(time, kinds, ideal_s)), (paid.title, _picture(paid, kinds))]
    return [(title, picture) for title, picture in drawn if picture]


def count_keys(document: Document) -> list[tuple[Markup, str]]:
    """The marks that are drawn, 18 pixels high each, and what they mean."""
    return [
        (
            element("svg", element("path", d=_MARKS[kind][1], transform="translate(9 9)"), width=18, height=18,
                    class_=f"mark spot p-{_MARKS[kind][0]}", aria_hidden="true"),
            words.curve_title(curve, document),
        )
        for kind, curve in _kinds(document)
    ]  # fmt: skip


def _kinds(document: Document) -> list[tuple[str, CountCurveEntry]]:
    curves = document.overview.curves if document.overview else ()
    return [("static" if curve.setting == "static" else "maximum", curve) for curve in curves]


def _axes(document: Document) -> tuple[_Axis, _Axis]:
    points = [one for curve in (document.overview.curves if document.overview else ()) for one in curve.points]
    time = _Axis(
        "Run time", lambda one: one.runtime_s, lambda one: one.runtime_range_s, took, lambda top: time_ticks(top, 4)
    )
    if points and all(one.cost is not None for one in points):
        scale = max(one.cost or 0.0 for one in points)
        return time, _Axis(
            "Cost",
            lambda one: one.cost,
            lambda one: one.cost_range,
            lambda value: money(value, document.currency, scale=scale),
        )
    seconds = _Axis("Executor-seconds", lambda one: one.executor_seconds, lambda one: one.executor_seconds_range, whole)
    return time, seconds


def _picture(axis: _Axis, kinds: Sequence[tuple[str, CountCurveEntry]], ideal_s: float | None = None) -> Markup:
    """``ideal_s``: the ideal time, as a line that nothing goes below."""
    points = [one for _, curve in kinds for one in curve.points if axis.value(one) is not None]
    if not points:
        return EMPTY
    widest = max(2, *(one.executors for one in points))
    top = max(max(axis.value(one) or 0.0, *(axis.extent(one) or (0.0,))) for one in points) or 1.0

    def across(executors: int) -> float:
        return _PAD + (1 - 2 * _PAD) * math.log(executors) / math.log(widest)

    def down(value: float) -> float:
        return round(HEIGHT * (1 - 0.94 * value / top), 1)

    grid = [
        part
        for value in axis.ticks(top)
        for part in (
            element("line", x1="0", x2="100%", y1=down(value), y2=down(value), class_="grid" if value else "ground"),
            element("text", axis.shown(value), x=2, y=down(value) - 4, class_="tick halo"),
        )
    ]
    if ideal_s:
        grid.append(element("line", x1="0", x2="100%", y1=down(ideal_s), y2=down(ideal_s), class_="edge"))
        label = f"ideal {axis.shown(ideal_s)}"
        grid.append(element("text", label, x="50%", y=down(ideal_s) - 6, text_anchor="middle", class_="tick halo"))
    counts = sorted({one.executors for one in points})
    grid += [
        element("text", number(one), x=percentage(across(one)), y=HEIGHT + 19, class_="tick", text_anchor="middle")
        for at, one in enumerate(counts)
        if not at or at == len(counts) - 1 or across(one) - across(counts[at - 1]) > _PAD
    ]
    marks = [mark for kind, curve in kinds for mark in _marks(axis, kind, curve, across, down)]
    return element(
        "svg", element("g", *grid, aria_hidden="true"), *marks,
        width="100%", height=HEIGHT + 26, class_="canvas", role="group", data_rove=True,
        aria_label=f"{axis.title} over counts of executors: {len(points)} counts; arrow keys go from one to the next",
    )  # fmt: skip


def _marks(
    axis: _Axis, kind: str, curve: CountCurveEntry, across: Callable[[int], float], down: Callable[[float], float]
) -> list[Markup]:
    """The line from point to point, the ranges, and the marks."""
    look, shape = _MARKS[kind]
    known = [(one, value) for one in curve.points if (value := axis.value(one)) is not None]
    line = [
        element("line", x1=percentage(across(one.executors)), y1=down(value), x2=percentage(across(other.executors)),
                y2=down(beside), class_=f"edge p-{look}")
        for (one, value), (other, beside) in pairwise(known)
    ]  # fmt: skip
    ranges = [
        element("line", x1=percentage(across(one.executors)), x2=percentage(across(one.executors)),
                y1=down(extent[0]), y2=down(extent[1]), class_=f"extent p-{look}")
        for one, _ in known if (extent := axis.extent(one)) is not None
    ]  # fmt: skip
    marks: list[Markup] = []
    for one, value in known:
        extent = axis.extent(one)
        between = "" if extent is None else f", nine of ten {axis.shown(extent[0])} to {axis.shown(extent[1])}"
        counted = count(one.executors, "executor") if kind == "static" else f"maxExecutors {number(one.executors)}"
        marks.append(
            element(
                "svg", element("path", d=shape), x=percentage(across(one.executors)), y=down(value), overflow="visible",
                class_=f"mark spot p-{look}", tabindex="-1" if marks else "0", role="img",
                aria_label=f"{counted}\n{axis.shown(value)}{between}",
            )
        )  # fmt: skip
    return [element("g", *line, *ranges, aria_hidden="true"), *marks]


def curve_caption(curve: CountCurveEntry, document: Document) -> str:
    """What the counts are, and from which on more are of little use."""
    return f"{words.curve_title(curve, document)}. {words.curve_words(curve)}".strip()


def point_titles(document: Document) -> tuple[str, ...]:
    """The heads of the tables of counts."""
    return ("Executors", "Run time", "Nine of ten runs", _axes(document)[1].title, "Nine of ten runs ", "Slots unused")


def point_rows(curve: CountCurveEntry, document: Document) -> list[tuple[str, ...]]:
    """A row for each count."""
    paid = _axes(document)[1]
    return [
        (
            number(one.executors), took(one.runtime_s), words.time_span(one), paid.shown(paid.value(one) or 0.0),
            words.price_span(one, document.currency), percent(one.idle_share),
        )
        for one in curve.points
    ]  # fmt: skip


def trials(document: Document) -> list[Markup]:
    """What is worth trying: the setting, what it does, and the lines."""
    found = document.overview.trials if document.overview else ()
    return [
        join(
            element("b", name(one.name, 120)), ": ", prose(f"{one.text}.", 400), " ",
            element("small", prose(words.settings_words(one), 600)),
        )
        for one in found
    ]  # fmt: skip


def path_rows(document: Document) -> list[tuple[str, ...]]:
    """The critical path, its longest steps first."""
    ideal_s = 0.0 if document.ideal is None else document.ideal.runtime_s
    return [
        (
            _stage(one.stage, one.name), number(one.tasks), took(one.longest_s), took(one.driver_s),
            percent(share_of(one.longest_s + one.driver_s, ideal_s)),
        )
        for one in words.path_stages(document, PATH_MAX)
    ]  # fmt: skip


def path_caption(document: Document) -> str:
    """How many stages are on it."""
    stages = 0 if document.ideal is None else document.ideal.path_stages
    return f"The longest steps of {count(stages, 'stage')} that wait for one another."


def skew_rows(document: Document) -> list[tuple[str, ...]]:
    """The stages with skew."""
    return [
        (
            _stage(one.stage, one.name), number(one.tasks), took(one.longest_s), took(one.median_s),
            UNKNOWN if one.costs_s is None else took(one.costs_s),
        )
        for one in (document.troubles.skewed if document.troubles else ())[:ROWS_MAX]
    ]  # fmt: skip


def failed(document: Document) -> list[Markup]:
    """The stages with retries or failures."""
    found = document.troubles.failed if document.troubles else ()
    return [prose(f"{words.failed_words(one)}.", 600) for one in found[:ROWS_MAX]]


def left_out(document: Document) -> str:
    """What the tables of troubles do not show."""
    found = document.troubles
    if found is None:
        return ""
    more = [(found.skewed_stages - ROWS_MAX, "with skew"), (found.failed_stages - ROWS_MAX, "with retries or failures")]
    listed = [f"{count(left, 'stage')} {what}" for left, what in more if left > 0]
    return f"{' and '.join(listed)} more in the JSON document." if listed else ""


def _stage(stage: int, name: str) -> str:
    return f"{stage} {visible(name, 70)}".strip()
