"""What can go wrong with a log before anything in it is understood, one class per answer to the user.

Every class is one situation that calls for another action: give another path, ask for permission, choose one
of several logs, install a package, fetch the file again. All of them carry the path as it was given and read
as one line - ``path: what is wrong and what was expected`` - with nothing in it that could move a terminal's
cursor: file names and the messages of other libraries are input like any other, so whatever is not printable
is escaped the way ``repr`` escapes it, and anything long is cut in the middle. Credentials and signatures
inside a URL (``user:secret@``, ``?X-Amz-Signature=...``) are never shown.
"""

from __future__ import annotations

import re
from typing import Final

SHOWN_MAX: Final = 300
"""Characters of one name or foreign message that are shown; a ZIP member's name may have 65,535."""

LISTED_MAX: Final = 10
"""Candidates that are listed by name; a history folder may hold a hundred thousand."""

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


def cause(problem: BaseException) -> str:
    """Another library's exception in a few words: its first line, or its class where it has no text."""
    if isinstance(problem, OSError) and problem.strerror:
        return display(problem.strerror)
    text = str(problem).strip()
    return display(text.splitlines()[0]) if text else type(problem).__name__
