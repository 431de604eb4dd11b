"""Untrusted text made fit for one line of a terminal: names, paths, URLs, and the messages of other libraries.

Whatever is not printable is escaped the way ``repr`` escapes it, so that nothing can move a terminal's cursor, and anything
long is cut in the middle. Credentials and signatures inside a URL (``user:secret@``, ``?X-Amz-Signature=...``) are never
shown.
"""

from __future__ import annotations

import re
from typing import Final

SHOWN_MAX: Final = 300
"""Characters of one name or foreign message that are shown; a ZIP member's name may have 65,535."""

_USERINFO: Final = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY: Final = re.compile(r"(://[^?\s]*)\?\S*")


def escaped(text: str, shown_max: int = SHOWN_MAX) -> str:
    r"""``text`` fit for one terminal line: unprintable characters as ``\x1b``, the middle of long text cut."""
    if len(text) > shown_max:
        half = (shown_max - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def display(path: str) -> str:
    """A path or URL as it is shown: escaped, without the credentials and a URL's signature."""
    if "://" in path:
        path = _QUERY.sub(r"\1?…", _USERINFO.sub("…@", path))
    return escaped(path)


def innermost(problem: BaseException) -> BaseException:
    """The reason below all others: HTTP libraries wrap and repeat."""
    for _ in range(8):
        below = getattr(problem, "reason", None) or problem.__cause__ or (problem.args[-1] if problem.args else None)
        if not isinstance(below, BaseException):
            break
        problem = below
    return problem


def cause(problem: BaseException) -> str:
    """Another library's exception in a few words: its first line, or its class where it has no text."""
    if isinstance(problem, OSError) and problem.strerror:
        return display(problem.strerror)
    text = str(problem).strip()
    return display(text.splitlines()[0]) if text else type(problem).__name__
