"""The templates of the report: Jinja2, escaped by construction.

Autoescape is on and everything that a template prints goes through ``html.escape`` unless it is ``Markup``; texts from the
log go through ``views.report.markup`` before. A line break in a template is layout, not text: lines are joined without what
is blank at their ends, so a tag with its attributes stands on one line. Templates may stand in a ZIP.
"""

from __future__ import annotations

from typing import Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from podtide.adapters.text.format import count
from podtide.adapters.views.report import advice, bars, markup, plots, sections, variants
from podtide.adapters.views.report.decisions import kept, words_of
from podtide.adapters.views.report.executors_chart import executors_chart
from podtide.adapters.views.report.markup import join
from podtide.adapters.views.report.style import resource
from podtide.adapters.views.whatif import figures, findings


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
    advice=advice, bars=bars, figures=figures, findings=findings, plots=plots, sections=sections, variants=variants,
    executors_chart=executors_chart, kept=kept, words_of=words_of, count=count, name=markup.name, visible=markup.visible,
    prose=markup.prose, breakable=markup.breakable, pasted=markup.pasted, number=figures.number, took=figures.took,
)  # fmt: skip


def filled(template: str, **values: object) -> str:
    """A template, filled in."""
    return ENVIRONMENT.get_template(template).render(**values)
