"""A hook of mkdocs: links from docs/ to files of the project that are no pages become the names of these files.

In a checkout such a link works; on the site there is nothing behind it. tests/project/test_readme.py checks that the files
exist, mkdocs checks the links between pages.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
_TEXTS: Final = ("docs/schema/",)


def on_page_markdown(markdown: str, *, page: Any, **_given: Any) -> str:
    """The text of a page, as mkdocs goes on with it."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def named(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target.startswith("docs/") and not target.startswith(_TEXTS):
            return link[0]
        return f"{link[1]} (`{target}`)" if link[1] != target else f"`{target}`"

    return _LINK.sub(named, markdown)
