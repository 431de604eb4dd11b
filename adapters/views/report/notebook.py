"""A result in a notebook: the figures of the report, as the value of a cell.

``WhatIf(document)`` shows itself as HTML where a notebook asks for that (``_repr_html_``), and as its sentences anywhere
else. There is no script in it, and its style is confined to its own element, so that many of them can stand in one notebook
and none of them touches it. The notebook's own dark themes (JupyterLab, VS Code, Colab) are followed. Names from the log are
escaped as they are in the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.views.report.drawing import Picture
from podtide.adapters.views.report.markup import trusted, visible
from podtide.adapters.views.report.page import filled, page
from podtide.adapters.views.report.sections import ledger, waiting
from podtide.adapters.views.report.style import DARK_UNDER, scoped_style
from podtide.adapters.views.whatif.findings import headlines
from podtide.adapters.views.whatif.model import Document, read

SCOPE: Final = "podtide-whatif"
ROWS_MAX: Final = 200
"""Rows of a cell's table."""

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
        spent = ledger(document, BARS)._replace(title="Where every executor-second went")
        waited = waiting(document, BARS)._replace(title="Which limit held executors back")
        return filled(
            "cell.html",
            document=document,
            words=headlines(document),
            amounts=(spent, waited),
            scope=SCOPE,
            style=_cell_style(),
        )

    def report(self) -> str:
        """The whole report, as one HTML page; write it to a file or show it in a frame."""
        return page(self.document)


class ResultCell(NamedTuple):
    """Any other result: a title, sentences, key figures (title, value, what stands below), a drawing, and a table.

    Texts are as they are in the log; they are escaped here. ``opened``: the table is seen at once.
    """

    title: str
    sentences: Sequence[str]
    figures: Sequence[tuple[str, str, str]] = ()
    drawing: Picture | None = None
    caption: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    opened: bool = False

    def html(self) -> str:
        """The cell as HTML."""
        rows = [tuple(visible(text, 400) for text in row) for row in self.rows[:ROWS_MAX]]
        more = (
            f"{self.caption}; the first {ROWS_MAX} of {len(self.rows):,}" if len(self.rows) > ROWS_MAX else self.caption
        )
        return filled(
            "result.html",
            cell=self._replace(rows=rows, caption=more),
            heads=[(title, "text") for title in self.columns],
            drawing=trusted(self.drawing.svg) if self.drawing else "",
            scope=SCOPE,
            style=_cell_style(),
        )


def _cell_style() -> Markup:
    return trusted(scoped_style(f".{SCOPE}", *DARK_UNDER) + _OWN)
