"""HTML and SVG from Python, escaped by construction.

``element`` makes markup of text and of other markup; only ``Markup`` passes as it is, every other text is escaped on
the way. Texts of a log are untrusted: ``visible`` shows what could not be seen or could rearrange the line (control
characters, changes of direction, lone surrogates) as its escape, keeps marks from piling up over one sign, and cuts the
middle out of what is too long; ``name`` also keeps a text's direction to itself. Attributes are escaped as well, and
their names are ours.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any, Final

from markupsafe import Markup

from podtide.adapters.text.safe import escaped

TEXT_MAX: Final = 240
"""Characters of one text that are shown."""

NAME_MAX: Final = 80
"""Characters of one name."""

PASTED_MAX: Final = 20_000
"""Characters of lines to paste."""

MARKS_MAX: Final = 3
"""Marks (accents and the like) over one sign."""

_VOID: Final = frozenset({"meta", "link", "br", "hr", "input"})
_DOTS: Final = re.compile(r"((?<=[A-Za-z])\.(?=[A-Za-z]))")
_MARKS: Final = re.compile(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}")


EMPTY: Final = Markup("")


def trusted(text: str) -> Markup:
    """Our own style or script, as it is."""
    return Markup(text)


def visible(text: str, shown_max: int = TEXT_MAX) -> str:
    """An untrusted text on one line, all of it visible; not escaped for HTML."""
    return escaped(_MARKS.sub(lambda match: match[0][:MARKS_MAX] + "…", text[: 16 * shown_max]), shown_max)


def name(text: str, shown_max: int = NAME_MAX) -> Markup:
    """An untrusted name, whose direction of writing stays its own."""
    return Markup(f"<bdi>{html.escape(visible(text, shown_max))}</bdi>")


def prose(text: str, shown_max: int = 2_000) -> Markup:
    """A sentence that may hold untrusted names."""
    return Markup(html.escape(visible(text, shown_max)))


def breakable(text: str, shown_max: int = TEXT_MAX) -> Markup:
    """A text with names of settings in it, which may break after their dots and not within their words."""
    return Markup(_DOTS.sub(r"\1<wbr>", html.escape(visible(text, shown_max))))


def pasted(text: str) -> Markup:
    """Lines to paste: their breaks stay, everything else is as ``visible`` has it."""
    lines = text[:PASTED_MAX].replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return Markup("\n".join(html.escape(escaped(line, PASTED_MAX)) for line in lines))


def join(*parts: str | None) -> Markup:
    """Markup and texts, one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts if part))


def element(kind: str, *children: str | None, **attributes: str | float | bool | None) -> Markup:
    """An element. Attributes: underscores stand for hyphens, one at the end is dropped; None and False leave it out, True is
    written as an empty text, which XML takes as well."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ('=""' if value is True else f'="{html.escape(value if isinstance(value, str) else short(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if kind in _VOID:
        return Markup(f"<{kind}{written}>")
    return Markup(f"<{kind}{written}>{join(*children)}</{kind}>")


def short(value: float) -> str:
    """A coordinate in as few signs as it takes."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def data(value: Any, identity: str) -> Markup:
    """Figures for the page's script: JSON in an element that is never run, from which nothing can break out."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    for sign, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, escape)
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{text}</script>')
