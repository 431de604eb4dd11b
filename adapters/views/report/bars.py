"""Amounts by cause: stacked bars over one scale, and the table that says the same in numbers.

The ledger (executor-seconds by cause) and the waiting (seconds by limit) look alike: a bar for each config, all on the
scale of the longest, so that the lengths are the bills; and a table whose first column is the key to the colours. A
colour stands for one cause wherever it is shown, causes of one family share a hue, and the second of a family is
hatched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import EMPTY, element, name, visible
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS, parts_of, percent

SLIVER: Final = 0.0004
"""Shares of the scale below which a part is not drawn."""


BAR_HEIGHT: Final = 26
"""Pixels."""

WORD_MAX: Final = 14
"""Letters of a word that a column has room for."""


BESIDE: Final = {"nodes beside their executors": "cn", "driver": "cd"}
"""Classes of what a bill has besides executors."""


class Bar(NamedTuple):
    """Amounts of one config. ``name`` is as in the document, ``total`` in words."""

    name: str
    amounts: Mapping[str, float]
    total: str

    @property
    def whole(self) -> float:
        """The sum of the amounts."""
        return sum(self.amounts.values())


class Amounts(NamedTuple):
    """Bars and the table beside them, for which ``columns`` are those that it has room for. ``words``: an amount in words;
    ``first``: the head of the first column."""

    title: str
    label: str
    caption: str
    first: str
    bars: Sequence[Bar]
    columns: Sequence[Bar]
    order: Mapping[str, object]
    meanings: Mapping[str, str]
    words: Callable[[float], str]


def colour_class(part: str) -> str:
    """The class of a cause's or a limit's colour."""
    if part in BESIDE:
        return BESIDE[part]
    if part in CAUSES:
        return f"c{list(CAUSES).index(part)}"
    return f"l{list(LIMITS).index(part)}" if part in LIMITS else "cx"


def stacked(
    bars: Sequence[Bar], order: Mapping[str, object], words: Callable[[float], str], label: str, *, still: bool = False
) -> Markup:
    """The bars, one below the other. ``words``: an amount in words; ``still``: for a page without the script."""
    scale = max((one.whole for one in bars), default=0.0)
    if scale <= 0:
        return EMPTY
    rows = (_bar(one, order, words, scale, still=still) for one in bars)
    return element("div", *rows, class_="bars", role="group", aria_label=label)


def present(bars: Sequence[Bar], order: Mapping[str, object]) -> list[str]:
    """The causes that occur in any of the bars, in their order."""
    most: dict[str, float] = {}
    for one in bars:
        for part, amount in one.amounts.items():
            most[part] = max(most.get(part, 0.0), amount)
    return [part for part, _ in parts_of(most, order)]


def column_titles(bars: Sequence[Bar]) -> list[tuple[Markup, str]]:
    """The heads of the columns, each with its class: a long name without blanks may break anywhere."""
    words = [visible(one.name, 40).split() for one in bars]
    kinds = ["long" if max(map(len, one), default=0) > WORD_MAX else "" for one in words]
    return [(name(one.name, 40), kind) for one, kind in zip(bars, kinds, strict=True)]


def _bar(bar: Bar, order: Mapping[str, object], words: Callable[[float], str], scale: float, *, still: bool) -> Markup:
    svg = bar_svg(bar, order, words, scale, still=still)
    return element("div", element("p", element("b", name(bar.name)), element("span", bar.total)), svg, class_="bar")


def bar_svg(
    bar: Bar, order: Mapping[str, object], words: Callable[[float], str], scale: float, *, still: bool
) -> Markup:
    """One bar, ``BAR_HEIGHT`` pixels high; ``scale``: what the whole width stands for."""
    place = 0.0
    drawn: list[Markup] = []
    for part, amount in parts_of(bar.amounts, order):
        if amount / scale >= SLIVER:
            text = f"{visible(part, 60)}: {words(amount)}, {percent(amount / bar.whole)}"
            drawn.append(
                element(
                    "rect", element("title", text) if still else None,
                    x=percentage(place / scale), width=percentage(amount / scale), height=BAR_HEIGHT,
                    role="img", aria_label=text,
                    class_=f"part {colour_class(part)}", tabindex=None if still else "-1" if drawn else "0",
                )
            )  # fmt: skip
        place += amount
    return element(
        "svg", *drawn, width="100%", height=BAR_HEIGHT, role="group", data_rove=True, aria_label=visible(bar.name)
    )
