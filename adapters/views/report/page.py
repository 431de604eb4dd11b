"""The report: one HTML file that needs nothing else, made of the document of a what-if or a tune.

It answers in the order in which people ask: what happened, what it cost, why, what to change, and how sure that is; the
answers stand together at the top, with the model's own error, and each is a link to what it is made of. The page loads
nothing: its style and its script are inside and named by hash in its content security policy, which forbids everything
else. Texts from the log are escaped wherever they go (``views.report.markup``); the figures that the script needs are JSON
that nothing runs.

The templates are Jinja2's, escaped by construction: everything that one prints goes through ``html.escape`` unless it is
``Markup``. A line break in a template is layout, not text: lines are joined without what is blank at their ends, so a tag
with its attributes stands on one line. Templates may stand in a ZIP.

Size: the drawings depend on the width of a screen, not on the run, and tables are cut, so a report of a hundred
thousand tasks is a few hundred kilobytes; ``SIZE_MAX`` is what a test holds it to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from podtide.adapters.text.format import count
from podtide.adapters.views.report import advice, bars, counts, markup, plots, sections, variants
from podtide.adapters.views.report.decisions import kept, words_of
from podtide.adapters.views.report.executors_chart import executors_chart
from podtide.adapters.views.report.markup import join, prose, trusted
from podtide.adapters.views.report.style import hash_source, page_style, resource
from podtide.adapters.views.whatif import figures, findings
from podtide.adapters.views.whatif.findings import headlines
from podtide.adapters.views.whatif.memory import memory_lines
from podtide.adapters.views.whatif.model import Document, read

SIZE_MAX: Final = 2_000_000
"""Bytes that a report stays below."""

SCRIPT: Final = f"\n{resource('script.js')}"
"""Themes, what is under the pointer or the keyboard's cursor, switches of curves, copying; without it the page is whole."""

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%231b87dd' "
    "d='M1 15V9h3V5h4V1h3v7h4v7z'/%3E%3C/svg%3E"
)


def render(document: Mapping[str, Any] | Document) -> str:
    """The report as a text. Raises ``DocumentError`` if this is no document of a what-if or a tune."""
    return page(read(document))


def page(document: Document) -> str:
    """The report of a document that was read."""
    return framed(
        "page.html",
        "tune" if document.searched is not None else "what-if",
        document.app.name or document.app.id or "an application",
        document=document,
        words=headlines(document),
        memory=[prose(line, 1000) for line in memory_lines(document)],
    )


def framed(template: str, kind: str, title: str, **values: object) -> str:
    """A page: its content by its template, and what every page has around it (layout.html): style and script, and the policy
    that allows nothing else."""
    style = page_style()
    policy = (
        f"default-src 'none'; style-src {hash_source(style)}; script-src {hash_source(SCRIPT)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    frame = {"policy": policy, "icon": _ICON, "style": trusted(style), "script": trusted(SCRIPT)}
    return filled(template, kind=kind, title=title, **frame, **values)


class _JoinedLines(Extension):
    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - Jinja2's own
        """A template's source as one line."""
        return "".join(line.strip() for line in source.splitlines())


def _printed(value: object) -> Markup:
    return join(value if isinstance(value, str) else str(value))


ENVIRONMENT: Final = Environment(
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_printed,
    extensions=[_JoinedLines],
    loader=FunctionLoader(resource),
)
ENVIRONMENT.globals.update(
    advice=advice, bars=bars, counts=counts, figures=figures, findings=findings, plots=plots, sections=sections,
    variants=variants, executors_chart=executors_chart, kept=kept, words_of=words_of, count=count, name=markup.name,
    visible=markup.visible, prose=markup.prose, breakable=markup.breakable, pasted=markup.pasted,
    number=figures.number, took=figures.took,
)  # fmt: skip


def filled(template: str, **values: object) -> str:
    """A template, filled in."""
    return ENVIRONMENT.get_template(template).render(**values)
