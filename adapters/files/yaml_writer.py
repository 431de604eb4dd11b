"""YAML as it is written: texts that are read back as the same, sections in blocks, what is in them in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from typing import Final

from podtide.adapters.files.yaml_reader import NULLS

Written = str | dict[str, "Written"] | list["Written"]
"""What a value is written as: a scalar's YAML text, a mapping or a sequence."""

NOTHING: Final = "null"


def quoted(text: str) -> str:
    """A text as a YAML scalar that is read back as the same text."""
    if _is_plain(text):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _is_plain(text: str) -> bool:
    words = text.split(" ")
    fine = all(word and all(c.isascii() and (c.isalnum() or c in "_./-") for c in word) for word in words)
    return fine and text[0].isalpha() and text not in NULLS


def _escaped(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    code = ord(c)
    if 0x20 <= code < 0x7F:
        return c
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def flow(value: Written) -> str:
    """A value in one line."""
    match value:
        case str():
            return value
        case dict():
            return "{" + ", ".join(f"{key}: {flow(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(flow, value)) + "]"


def document(
    top: Mapping[str, Written], blocks: AbstractSet[str], notes: Mapping[str, str] | None = None, heading: str = ""
) -> str:
    """The text of a file with these sections; those that are empty are left out.

    ``blocks``: the paths of what gets lines of its own. ``notes``: remarks by the path of a key, put behind it.
    ``heading``: comment lines at the top.
    """
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    _emit({key: value for key, value in top.items() if value != {}}, "", "", notes or {}, blocks, lines)
    return "".join(f"{line}\n" for line in lines)


def _emit(
    mapping: Mapping[str, Written],
    path: str,
    indent: str,
    notes: Mapping[str, str],
    blocks: AbstractSet[str],
    lines: list[str],
) -> None:
    for key, value in mapping.items():
        where = f"{path}.{key}" if path else key
        if where in blocks and value and not isinstance(value, str):
            lines.append(f"{indent}{key}:{_note(notes, where)}")
            if isinstance(value, dict):
                _emit(value, where, indent + "  ", notes, blocks, lines)
            else:
                for place, item in enumerate(value):
                    lines.append(f"{indent}  - {flow(item)}{_note(notes, f'{where}[{place}]')}")
        else:
            lines.append(f"{indent}{key}: {flow(value)}{_note(notes, where)}")


def _note(notes: Mapping[str, str], where: str) -> str:
    return f"  # {' '.join(notes[where].split())}" if where in notes else ""
