"""Amounts by cause: stacked bars over one scale, and the table that says the same in numbers.

The ledger (executor-seconds by cause) and the waiting (seconds by limit) look alike: a bar for each config, all on the
scale of the longest, so that the lengths are the bills; and a table whose first column is the key to the colours. A
colour stands for one cause wherever it is shown, causes of one family share a hue, and the second of a family is
hatched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from podtide.adapters.views.report.executors_chart import percentage
from podtide.adapters.views.report.markup import EMPTY, Markup, breakable, element, join, name, visible
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS, parts_of, percent, share_of

SLIVER: Final = 0.0004
"""Shares of the scale below which a part is not drawn."""


WORD_MAX: Final = 14
"""Letters of a word that a column has room for."""


class Bar(NamedTuple):
    """Amounts of one config. ``name`` is as in the document, ``total`` in words."""

    name: str
    amounts: Mapping[str, float]
    total: str


def colour_class(part: str) -> str:
    """The class of a cause's or a limit's colour."""
    if part in CAUSES:
        return f"c{list(CAUSES).index(part)}"
    return f"l{list(LIMITS).index(part)}" if part in LIMITS else "cx"


def stacked(
    bars: Sequence[Bar], order: Mapping[str, object], told: Callable[[float], str], label: str, *, still: bool = False
) -> Markup:
    """The bars, one below the other. ``told``: an amount in words; ``still``: for a page without the script."""
    scale = max((sum(one.amounts.values()) for one in bars), default=0.0)
    if scale <= 0:
        return EMPTY
    rows = (_bar(one, order, told, scale, still=still) for one in bars)
    return element("div", *rows, class_="bars", role="group", aria_label=label)


def amounts_table(
    bars: Sequence[Bar],
    order: Mapping[str, object],
    meanings: Mapping[str, str],
    told: Callable[[float], str],
    caption: str,
    first: str,
) -> Markup:
    """A row for each cause that occurs, a column for each config, the sum at the foot."""
    present = {part: 0.0 for one in bars for part in one.amounts}
    parts = [
        part for part, _ in parts_of({part: max(one.amounts.get(part, 0.0) for one in bars) for part in present}, order)
    ]
    sums = [sum(one.amounts.values()) for one in bars]
    labels = [visible(one.name, 40) for one in bars]
    body = (
        element(
            "tr",
            element(
                "th", element("i", class_=f"key {colour_class(part)}"), name(part, 60),
                element("small", breakable(meanings[part])) if part in meanings else None, scope="row", role="rowheader",
            ),
            *(
                _cell(one.amounts.get(part, 0.0), whole, told, label)
                for one, whole, label in zip(bars, sums, labels, strict=True)
            ),
            role="row",
        )
        for part in parts
    )  # fmt: skip
    foot = element(
        "tr", element("th", "Sum", scope="row", role="rowheader"),
        *(element("td", told(whole), role="cell", data_label=label) for whole, label in zip(sums, labels, strict=True)),
        role="row",
    )  # fmt: skip
    head = element(
        "tr", element("th", first, scope="col", role="columnheader"),
        *(
            element("th", name(one.name, 40), scope="col", role="columnheader", class_=_long(label))
            for one, label in zip(bars, labels, strict=True)
        ),
        role="row",
    )  # fmt: skip
    return element(
        "table", element("caption", caption), element("thead", head, role="rowgroup"),
        element("tbody", *body, role="rowgroup"), element("tfoot", foot, role="rowgroup"),
        class_="amounts wide" if len(bars) > 3 else "amounts", role="table",
    )  # fmt: skip


def _bar(bar: Bar, order: Mapping[str, object], told: Callable[[float], str], scale: float, *, still: bool) -> Markup:
    whole = sum(bar.amounts.values())
    place = 0.0
    drawn: list[Markup] = []
    for part, amount in parts_of(bar.amounts, order):
        if amount / scale >= SLIVER:
            words = f"{visible(part, 60)}: {told(amount)}, {percent(amount / whole)}"
            drawn.append(
                element(
                    "rect", element("title", words) if still else None,
                    x=percentage(place / scale), width=percentage(amount / scale), height=26, role="img", aria_label=words,
                    class_=f"part {colour_class(part)}", tabindex=None if still else "-1" if drawn else "0",
                )
            )  # fmt: skip
        place += amount
    svg = element("svg", *drawn, width="100%", height=26, role="group", data_rove=True, aria_label=visible(bar.name))
    return element("div", element("p", element("b", name(bar.name)), element("span", bar.total)), svg, class_="bar")


def _long(label: str) -> str | None:
    """A name without blanks that is wider than a column may break anywhere; others keep their words."""
    return "long" if max(map(len, label.split()), default=0) > WORD_MAX else None


def _cell(amount: float, whole: float, told: Callable[[float], str], label: str) -> Markup:
    if amount <= 0:
        return element("td", element("span", "–", class_="quiet"), role="cell", data_label=label)
    return element(
        "td", join(told(amount), " ", element("small", percent(share_of(amount, whole)))), role="cell", data_label=label
    )
