"""What a container's text says of paths and variables, said as it is for a process: nothing is mounted anywhere.

A container sees a volume at its mount path; a process sees the volume's folder. So the text that a program is given
(command, arguments, environment) names the folder where the manifest names the mount path. A path counts where it stands
whole: ``/data`` in ``/data/x`` and ``file:///data``, not in ``/database`` or ``/my/data``. What a program has written inside
of it, or reads from a file, does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_WORD: Final = r"[\w.-]"


def moved(text: str, places: Mapping[str, Path]) -> str:
    """The text with the folders of ``places`` for their mount paths; the longest path counts."""
    if not places:
        return text
    return _pattern(places).sub(lambda found: str(places[found[0]]), text)


def names(texts: Iterable[str], path: str) -> bool:
    """Whether one of the texts names a path or what lies below it."""
    pattern = _pattern((path,))
    return any(pattern.search(text) for text in texts)


def _pattern(paths: Iterable[str]) -> re.Pattern[str]:
    choices = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(f"(?<!{_WORD})(?:{choices})(?!{_WORD})")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` as its value, where there is such a variable; ``$$`` is a ``$`` (container.command of the API)."""
    return _REFERENCE.sub(
        lambda found: "$" if found[1] is None else variables.get(found[1], found[0]),
        text,
    )
