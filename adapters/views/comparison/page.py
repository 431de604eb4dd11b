"""A comparison of two runs as one HTML file, in the style of the other reports (``views.report``), which loads nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.text.format import setting_text
from podtide.adapters.views.comparison import words
from podtide.adapters.views.comparison.document import CORE_HOURS, ComparisonDocument
from podtide.adapters.views.report.bars import Amounts, Bar
from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import element, prose, visible
from podtide.adapters.views.report.page import framed
from podtide.adapters.views.whatif.figures import CAUSES, change, number, percent, took, whole

WHY: Final = "From the first run time to the second one, a step for each cause."
ROWS_MAX: Final = 60


class CauseRow(NamedTuple):
    """A cause in words. ``way``: the class of its figure."""

    title: str
    where: str
    seconds: str
    share: str
    way: str
    seen: tuple[str, ...]
    because: tuple[str, ...]


def render(document: ComparisonDocument) -> str:
    """The page as a text."""
    from podtide.adapters.views.comparison import page  # noqa: PLC0415 - the template calls what stands here

    title = document.second.name or document.second.id or "two runs"
    return framed("comparison.html", "compare", title, document=document, words=words, page=page)


def key_figures(document: ComparisonDocument) -> list[tuple[str, str, str]]:
    """The figures at the top: what it is, the second run's, and the first one's below."""
    one, two, changed = document.first, document.second, document.change
    seconds = two.executor_seconds / one.executor_seconds - 1 if one.executor_seconds else None
    return [
        ("Run time", took(two.runtime_s), f"{change(changed.runtime)} from {took(one.runtime_s)}"),
        ("Executor-seconds", whole(two.executor_seconds), f"{change(seconds)} from {whole(one.executor_seconds)}"),
        ("Core-hours", number(two.cost), f"{change(changed.cost_share)} from {number(one.cost)}")
        if changed.unit == CORE_HOURS
        else (
            "Bill",
            words.cost(document, two.cost),
            f"{change(changed.cost_share)} from {words.cost(document, one.cost)}",
        ),
        ("Executors at once", number(two.peak_executors), f"from {number(one.peak_executors)}"),
        ("Executors lost", number(two.lost_executors), f"from {number(one.lost_executors)}"),
    ]


def causes(document: ComparisonDocument) -> list[CauseRow]:
    """The causes that are worth a row, and the sum of the rest."""
    large, rest, many = words.large_causes(document)
    rows = [
        CauseRow(
            words.titled(one),
            ", ".join(f"{part.name} {words.signed_time(part.runtime_s)}" for part in one.stages[:2] if part.name),
            words.signed_time(one.runtime_s),
            "" if one.share is None or one.share < 0 else percent(one.share),
            "more" if one.runtime_s > 0 else "less",
            tuple(map(words.evidence, one.evidence)),
            tuple(map(words.setting, one.because[:6])),
        )
        for one in large[:ROWS_MAX]
    ]
    if many:
        way = "more" if rest > 0 else "less"
        rows.append(CauseRow("smaller causes", f"{many} of them", words.signed_time(rest), "", way, (), ()))
    return rows


def stalls(document: ComparisonDocument) -> list[tuple[Markup, ...]]:
    """When nothing moved: the run, when and why, what it means and what to do."""
    rows = words.stalls(document)[:ROWS_MAX]
    return [
        (prose(which), prose(words.stall(one), 200), prose(f"{one.meaning} {one.advice}", 600)) for which, one in rows
    ]


STEP_HEIGHT: Final = 14


class WaterfallStep(NamedTuple):
    """A step of the way from one run time to the other, with its drawing, ``STEP_HEIGHT`` pixels high."""

    title: str
    figure: str
    svg: Markup


def waterfall(document: ComparisonDocument) -> Markup:
    """From the first run time to the second one, a step for each cause."""
    rows = (
        element(
            "div",
            element("p", element("b", visible(one.title, 120)), element("span", one.figure)),
            one.svg,
            class_="bar",
        )
        for one in waterfall_steps(document)
    )
    return element("div", *rows, class_="bars", role="group", aria_label=WHY)


def waterfall_steps(document: ComparisonDocument) -> list[WaterfallStep]:
    """The run times and what lies between them."""
    large, rest, many = words.large_causes(document)
    steps = [(words.titled(one), one.runtime_s) for one in large[:12]]
    left = sum(one.runtime_s for one in large[12:]) + rest
    if many or len(large) > 12:
        steps.append(("smaller causes", left))
    first, second = document.first.runtime_s, document.second.runtime_s
    places, at = [first], first
    for _, seconds in steps:
        at += seconds
        places.append(at)
    low, high = min(0.0, *places), max(*places, 1e-9)
    rows = [_row("first run", 0.0, first, took(first), "s-busy", low, high)]
    at = first
    for title, seconds in steps:
        kind = "whisker more" if seconds > 0 else "whisker less"
        rows.append(_row(title, at, at + seconds, words.signed_time(seconds), kind, low, high))
        at += seconds
    rows.append(_row("second run", 0.0, second, took(second), "s-busy", low, high))
    return rows


def _row(title: str, begin: float, end: float, figure: str, kind: str, low: float, high: float) -> WaterfallStep:
    left, right = sorted(((begin - low) / (high - low), (end - low) / (high - low)))
    text = f"{visible(title, 120)}: {figure}"
    place, width = percentage(left), percentage(max(0.002, right - left))
    bar = element("rect", element("title", text), x=place, width=width, height=STEP_HEIGHT, class_="step")
    svg = element("svg", bar, width="100%", height=STEP_HEIGHT, role="img", aria_label=text, class_=kind)
    return WaterfallStep(title, figure, svg)


def bill_lead(document: ComparisonDocument) -> str:
    """The bill in a sentence."""
    both = f"{words.cost(document, document.first.cost)}, then {words.cost(document, document.second.cost)}"
    return f"{both}: every executor-second from request to end, by what it was spent on."


def ledger(document: ComparisonDocument) -> Amounts:
    """The bills of both by cause."""
    both = [
        Bar("first run", {one.cause: one.before_s for one in document.ledger}, whole(document.first.billed_seconds)),
        Bar("second run", {one.cause: one.after_s for one in document.ledger}, whole(document.second.billed_seconds)),
    ]
    caption = "Executor-seconds by cause."
    return Amounts("The bill", "The bill of both runs by cause", caption, "Cause", both, both, CAUSES, CAUSES, whole)


def stages(document: ComparisonDocument) -> list[tuple[Markup | str, ...]]:
    """Stages in rows."""
    return [
        (
            prose(f"{one.name} ({one.first if one.second is None else one.second})", 120),
            _tasks(one.tasks_before, one.tasks_after),
            "added" if one.first is None else took(one.before_s),
            "gone" if one.second is None else took(one.after_s),
            words.signed_time(one.after_s - one.before_s),
        )
        for one in document.stages
    ]


def _tasks(before: int | None, after: int | None) -> str:
    if before is None or after is None or before == after:
        return number(after if before is None else before)
    return f"{number(before)} → {number(after)}"


def settings(document: ComparisonDocument) -> list[tuple[Markup, ...]]:
    """Settings in rows."""
    return [
        (prose(one.key, 200), prose(setting_text(one.before, 200)), prose(setting_text(one.after, 200)))
        for one in document.conf
    ]


def notes(document: ComparisonDocument) -> list[Markup]:
    """What the logs do not tell."""
    return [prose(note, 1000) for note in document.notes]
