"""A what-if in a notebook: the figures of the report, as the value of a cell.

``WhatIf(document)`` shows itself as HTML where a notebook asks for that (``_repr_html_``), and as its sentences anywhere
else. There is no script in it, and its style is confined to its own element, so that many of them can stand in one notebook
and none of them touches it. The notebook's own dark themes (JupyterLab, VS Code, Colab) are followed. Names from the log are
escaped as they are in the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.views.report.bars import Bar, colour_class, stacked
from podtide.adapters.views.report.executors_chart import executors_chart
from podtide.adapters.views.report.markup import EMPTY, Markup, element, join, name, visible
from podtide.adapters.views.report.page import hatches, page
from podtide.adapters.views.report.sections import answers, key_figures
from podtide.adapters.views.report.style import scoped_style
from podtide.adapters.views.report.variants import variants_table
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS, executor_seconds, number, parts_of, took
from podtide.adapters.views.whatif.findings import featured, headlines
from podtide.adapters.views.whatif.model import Document, Run, read

SCOPE: Final = "podtide-whatif"
DARK_UNDER: Final = ('[data-jp-theme-light="false"]', ".vscode-dark", "html[theme=dark]")
"""How the pages of JupyterLab, VS Code and Colab say that they are dark."""

BARS: Final = 6

_OWN: Final = (
    f".{SCOPE}{{background:var(--surface);color:var(--ink);padding:1rem 1.25rem;border:1px solid var(--rule);"
    "border-radius:8px;font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;max-width:62rem}"
    f".{SCOPE} h3{{font-size:1rem;margin:1.5rem 0 .6rem}}.{SCOPE} .head{{font-size:1.2rem;font-weight:650;margin:0 0 1rem}}"
    f".{SCOPE} .wide{{overflow-x:auto}}.{SCOPE} table{{background:none}}"
)


class WhatIf:
    """The document of ``podtide whatif --json`` or ``podtide tune --json``, to look at.

    Raises ``views.whatif.model.DocumentError`` if it is none. ``document``: the records, for whoever computes with them.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document: Document = read(document)

    def __repr__(self) -> str:
        """The sentences."""
        app, words = self.document.app, headlines(self.document)
        return "\n".join([visible(app.name or app.id or "an application"), *(visible(one, 2_000) for one in words)])

    def _repr_html_(self) -> str:
        document = self.document
        app, run = document.app, document.self_replay
        chart = None
        if run.curve or document.recorded.curve:
            chart = join(
                element("h3", "Executors over time"),
                executors_chart(run, document.recorded, "", "the recorded config, simulated", still=True),
            )
        variants = None
        if document.variants:
            variants = join(
                element("h3", "Variants against the record"), element("div", variants_table(document), class_="wide")
            )
        return element(
            "div",
            element("style", Markup(scoped_style(f".{SCOPE}", *DARK_UNDER) + _OWN)),
            hatches(),
            element("p", name(app.name or app.id or "an application"), class_="head"),
            key_figures(document),
            answers(document, headlines(document), links=False),
            chart,
            self._amounts(),
            variants,
            class_=SCOPE,
        )

    def report(self) -> str:
        """The whole report, as one HTML page; write it to a file or show it in a frame."""
        return page(self.document)

    def _amounts(self) -> Markup:
        """The ledger and the waiting as bars, each with its key."""
        runs: list[Run] = [self.document.self_replay, *featured(self.document, BARS - 1)]
        spent = [Bar(one.name, one.ledger, f"{executor_seconds(one.billed)} billed") for one in runs if one.ledger]
        waited = [Bar(one.name, one.waiting, f"{took(one.waited_s)} waited") for one in runs]
        return join(
            _bars("Where every executor-second went", spent, CAUSES, lambda value: f"{number(value)} s"),
            _bars("Which limit held executors back", waited, LIMITS, took),
        )


def _bars(title: str, bars: list[Bar], order: Mapping[str, object], told: Any) -> Markup:
    drawn = stacked(bars, order, told, title, still=True)
    if not drawn:
        return EMPTY
    most: dict[str, float] = {}
    for one in bars:
        for part, amount in one.amounts.items():
            most[part] = max(most.get(part, 0.0), amount)
    keys = (
        element("span", element("i", class_=f"key {colour_class(part)}"), name(part, 60))
        for part, _ in parts_of(most, order)
    )
    return join(element("h3", title), element("p", *keys, class_="legend"), drawn)
