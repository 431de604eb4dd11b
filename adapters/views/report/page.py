"""The report: one HTML file that needs nothing else, made of the document of a what-if or a tune.

It answers in the order in which people ask: what happened, what it cost, why, what to change, and how sure that is; the
answers stand together at the top, with the model's own error, and each is a link to what it is made of. The page loads
nothing: its style and its script are inside and named by hash in its content security policy, which forbids everything
else. Texts from the log are escaped wherever they go (``views.report.markup``); the figures that the script needs are JSON
that nothing runs.

Size: the drawings depend on the width of a screen, not on the run, and tables are cut, so a report of a hundred
thousand tasks is a few hundred kilobytes; ``SIZE_MAX`` is what a test holds it to.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.recording.records.decision_file import DecisionWriter
from podtide.adapters.text.format import moment
from podtide.adapters.views.report.advice import how_computed, how_sure, what_to_change
from podtide.adapters.views.report.markup import Markup, element, join, name, prose, visible
from podtide.adapters.views.report.sections import in_short, what_happened, what_it_cost, why_so
from podtide.adapters.views.report.style import HATCHED, page_style, resource
from podtide.adapters.views.whatif.findings import about, headlines
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


def write(document: Mapping[str, Any] | Document, path: str) -> None:
    """Write the report to a file, which is in its place whole or not at all; ``-`` is standard output.

    Raises ``DocumentError`` as ``render`` does, and ``DecisionFileError`` if the file cannot be written.
    """
    text = render(document)
    with DecisionWriter(path) as file:
        file.write(text.encode())
        file.commit()


def page(document: Document) -> str:
    """The report of a document that was read."""
    words = headlines(document)
    style = page_style()
    kind = "tune" if document.command == "tune" else "what-if"
    title = visible(document.app.name or document.app.id or "an application", 80)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(SCRIPT)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · podtide {kind}"),
        element("link", rel="icon", href=_ICON),
        element("style", Markup(style)),
    )
    main = element(
        "main",
        in_short(document, words), what_happened(document, words.happened), what_it_cost(document, words.cost),
        why_so(document, words.why), what_to_change(document, words.change), how_sure(document, words.sure),
        how_computed(document), id="content", tabindex="-1",
    )  # fmt: skip
    body = element(
        "body",
        element("a", "Skip to the answer", href="#content", class_="skip"), hatches(), _masthead(document, kind), main,
        _foot(document, kind), element("div", id="tip", hidden=True, aria_hidden="true"),
        element("div", id="status", role="status", class_="hidden"), element("script", Markup(SCRIPT)),
    )  # fmt: skip
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def hatches() -> Markup:
    """The patterns of hatched parts, and the light one of what is pending; they take their colours from the theme."""
    drawn = [(hue, slant, f"hatch {hue}", 2.0) for hue, slant in HATCHED] + [("amber", "w", "hatch amber light", 1.2)]
    patterns = (
        element(
            "pattern",
            element("rect", width=6, height=6, class_="base"), element("rect", width=gap, height=6, class_="gap"),
            id=f"pt-{hue}-{slant}", width=6, height=6, patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({-45 if slant == 'b' else 45})", class_=kind,
        )
        for hue, slant, kind, gap in drawn
    )  # fmt: skip
    return element("svg", element("defs", *patterns), class_="defs", aria_hidden="true", width=0, height=0)


def _masthead(document: Document, kind: str) -> Markup:
    app = document.app
    facts = [
        element("span", name(app.id, 80)) if app.id else None,
        f"Spark {visible(app.spark_version, 30)}" if app.spark_version else None,
        moment(app.started_ms) if app.started_ms is not None else None,
        about(document),
    ]
    told: list[str] = []
    for one in facts:
        if one:
            told += ([" · "] if told else []) + [one]
    return element(
        "header",
        element("p", element("b", "podtide"), f" {kind}", class_="brand"),
        element("button", "Dark theme", type="button", id="theme", hidden=True),
        element("h1", name(app.name or app.id or "an application", 160)), element("p", *told, class_="about"),
    )  # fmt: skip


def _foot(document: Document, kind: str) -> Markup:
    log = join("Made from ", name(document.app.log, 300), ". ") if document.app.log else None
    told = "Everything on this page is in this file; it loads nothing and sends nothing."
    return element("footer", element("p", log, prose(f"podtide {kind}. {told}")))


def _hash(text: str) -> str:
    """The source expression of an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
