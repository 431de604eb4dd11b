"""Generate the pages of docs/reference that say what the code says: ``make reference``.

``commands.md``: every command with its arguments, options and help. ``events.md``: the events of a log that are read, and
their fields.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import click
import msgspec

from podtide.adapters.eventlog.application import ACCOUNT_SHAPES
from podtide.entrypoints.cli import COMMANDS

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
_MADE: Final = "<!-- Made by scripts/reference.py (make reference). -->\n\n"


def pages() -> dict[str, str]:
    """The text of each generated page, by its name."""
    return {"commands.md": _MADE + "".join(_commands()), "events.md": _MADE + "".join(_events())}


def main() -> None:
    """Write the files."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _commands() -> Iterator[str]:
    yield "# Commands\n\nEvery command says the same with `--help`. Exit codes: [formats](formats.md).\n"
    for name, (module, line) in COMMANDS.items():
        command: click.Command = getattr(importlib.import_module(module), name.replace("-", "_"))
        yield from _command(f"podtide {name}", command, 2, line)


def _command(name: str, command: click.Command, depth: int, line: str = "") -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n{'#' * depth} {name}\n\n{line or command.get_short_help_str(200)}\n\n```\n{name} {usage}\n```\n"
    if text := _prose(command.help or ""):
        yield f"\n{text}\n"
    rows = [record for one in command.params if (record := one.get_help_record(context)) is not None]
    if rows:
        yield "\n| option | |\n|---|---|\n"
        yield "".join(f"| `{_cell(option)}` | {_cell(text)} |\n" for option, text in rows)
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                yield from _command(f"{name} {sub}", found, depth + 1)


def _prose(help_text: str) -> str:
    """Help as Markdown: what is laid out by hand is code."""
    parts = []
    for part in re.split(r"\n\s*\n", help_text.strip()):
        laid_out = part.startswith("\b")
        lines = [line.strip() for line in part.lstrip("\b\n").splitlines()]
        parts.append("\n".join(["```", *lines, "```"]) if laid_out else " ".join(lines).replace("<", "&lt;"))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _events() -> Iterator[str]:
    yield (
        "# Events that are read\n\nOf an event log these events and fields are read; everything else is checked to be JSON "
        "and skipped. A field that a log lacks has the value that Spark gives it when it reads an old log.\n"
    )
    shapes = {str(one.__struct_config__.tag).rpartition(".")[2]: one for one in get_args(ACCOUNT_SHAPES.union)}
    for _, shape in sorted(shapes.items()):
        tag = str(shape.__struct_config__.tag)
        yield f"\n## {tag.rpartition('.')[2]}\n\n" + (f"`{tag}`\n\n" if "." in tag else "")
        yield "| field | |\n|---|---|\n"
        yield "".join(f"| `{path}` | {kind} |\n" for path, kind in _fields(shape))


def _fields(shape: Any, before: str = "") -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(shape):
        path = f"{before}{field.encode_name}"
        inner = _struct(msgspec.inspect.type_info(field.type))
        if inner is None:
            yield path, _kind(msgspec.inspect.type_info(field.type))
        else:
            yield from _fields(inner[0], f"{path}{inner[1]} › ")


def _struct(kind: Any) -> tuple[Any, str] | None:
    """The record behind a type, and how many there are of it."""
    if isinstance(kind, msgspec.inspect.StructType):
        return kind.cls, ""
    if isinstance(kind, msgspec.inspect.ListType) and (inner := _struct(kind.item_type)) is not None:
        return inner[0], "[]"
    if isinstance(kind, msgspec.inspect.DictType) and (inner := _struct(kind.value_type)) is not None:
        return inner[0], "{}"
    if isinstance(kind, msgspec.inspect.UnionType):
        return next((found for one in kind.types if (found := _struct(one)) is not None), None)
    return None


_WORDS: Final = {
    "IntType": "number",
    "StrType": "text",
    "BoolType": "true or false",
    "FloatType": "number",
    "ListType": "list",
    "DictType": "map",
}


def _kind(kind: Any) -> str:
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    names = (_WORDS.get(type(one).__name__) for one in kinds)
    return next((name for name in names if name), "")


if __name__ == "__main__":
    main()
