"""How fast an application could be, other counts of executors, settings worth trying, and stages in trouble, in a terminal.

Every list is short here and says how much more there is; the JSON document has more. A bar stands for the time or the price
of a count, on the scale of the largest in its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif import figures, overview_words as words
from podtide.adapters.views.whatif.model import Document
from podtide.adapters.views.whatif.overview_entries import CountCurveEntry

BAR: Final = 16
BAR_MIN: Final = 5
"""Columns of the longest bar; with fewer there is none."""

GAP: Final = 2
"""Columns between two of a table."""

PATH_SHOWN: Final = 3
SKEWS_SHOWN: Final = 5
FAILED_SHOWN: Final = 5


def show_overview(page: Page, document: Document) -> None:
    """Print how fast it could be, both curves, and what is worth trying, as far as the document has them."""
    overview = document.overview
    if overview is None:
        return
    page.title("How fast it could be")
    for sentence in (words.ideal_words(document), words.single_words(document)):
        if sentence:
            page.bullet("·", escaped(sentence, 1000))
    ideal_s = 0.0 if document.ideal is None else document.ideal.runtime_s
    for step in words.path_stages(document, PATH_SHOWN):
        page.bullet(" ", page.text(escaped(words.path_words(step, ideal_s), 500), "dim"))
    for curve in overview.curves:
        _curve(page, document, curve)
    page.title("Worth trying", "one setting each; podtide tune searches them together")
    if overview.verdict is not None:
        page.bullet("·", escaped(overview.verdict, 1000))
    for place, trial in enumerate(overview.trials):
        page.bullet(f"{place + 1}", escaped(f"{trial.name}: {trial.text}", 1000))
        page.bullet(" ", page.text(escaped(words.settings_words(trial), 1000), "dim"))
    for note in overview.notes:
        page.bullet("!", escaped(note, 1000), "held")


def show_troubles(page: Page, document: Document) -> None:
    """Print stages with skew, retries and failures."""
    found = document.troubles
    if found is None:
        return
    if found.skewed:
        page.title("Skew", "what it costs: the run against one with the same work spread evenly over the stage's tasks")
        for one in found.skewed[:SKEWS_SHOWN]:
            page.bullet("·", escaped(words.skew_words(one), 1000))
        page.more(found.skewed_stages - SKEWS_SHOWN, in_json=True)
    if found.failed:
        page.title("Retries and failures")
        for failed in found.failed[:FAILED_SHOWN]:
            page.bullet("·", escaped(words.failed_words(failed), 1000))
        page.more(found.failed_stages - FAILED_SHOWN, in_json=True)


def _curve(page: Page, document: Document, curve: CountCurveEntry) -> None:
    """A row for each count: time and price with their ranges, and a bar for each where there is room."""
    priced = all(one.cost is not None for one in curve.points)
    heads = ("", "run time", "nine of ten", "money" if priced else "executor-s", "nine of ten")
    rows = [[page.text(head, "dim") for head in heads]]
    for one in curve.points:
        price = figures.money(one.cost, document.currency) if priced else figures.whole(one.executor_seconds)
        cells = (
            (figures.number(one.executors), ""), (figures.took(one.runtime_s), ""), (words.time_span(one), "dim"),
            (price, ""), (words.price_span(one, document.currency), "dim"),
        )  # fmt: skip
        rows.append([page.text(text, style) for text, style in cells])
    taken = sum(max(cell_len(row[place].plain) for row in rows) for place in range(len(heads))) + GAP * (len(heads) + 2)
    room = min(BAR, (page.width - taken) // 2)
    columns = [True, True, False, True, False]
    if room >= BAR_MIN:
        times = _bars(page, [one.runtime_s or 0.0 for one in curve.points], room, "busy")
        paid = _bars(page, [one.cost or 0.0 if priced else one.executor_seconds for one in curve.points], room, "need")
        rows = [[*row[:3], time, *row[3:], price] for row, time, price in zip(rows, times, paid, strict=True)]
        columns = [True, True, False, False, True, False, False]
    page.title(words.curve_title(curve, document), words.curve_words(curve))
    page.lines(page.table(rows, columns))


def _bars(page: Page, amounts: Sequence[float], room: int, style: str) -> list[Text]:
    """A bar for each amount on the scale of the largest, and before them nothing, for the head."""
    most = max(amounts, default=0.0) or 1.0
    bars = ["█" * max(1, round(amount / most * room)) if amount > 0 else "" for amount in amounts]
    return [Text(), *(page.text(bar, style) for bar in bars)]
