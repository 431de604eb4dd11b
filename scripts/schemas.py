"""Generate the JSON Schemas in docs/schema that have records to be generated from: ``make schemas``.

A document is printed whole: every key is there, and no other. Defaults serve only the reading of older documents, so a field
with a default is required, too; only keys that a document may leave out are not.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from podtide.adapters.fleet.summary import FleetDocument
from podtide.adapters.text.documents import schema_name
from podtide.adapters.views.comparison.document import ComparisonDocument
from podtide.adapters.views.conf import ConfDocument
from podtide.adapters.views.whatif import model
from podtide.adapters.views.whatif.diff_document import ComparedRow, DiffDocument, DiffRow
from podtide.entrypoints.live.stop_command import StopDocument
from podtide.entrypoints.watch.command import WatchDocument

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "schema"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
WIDTH: Final = 118


def schemas() -> dict[str, str]:
    """The text of each generated file, by its name."""
    return {
        "whatif.json": _text(_schema(model.Document, ("whatif", "tune"), model.TUNE_KEYS)),
        "diff.json": _text(_schema(DiffDocument, ("diff",), (), {DiffRow: ComparedRow})),
        "compare.json": _text(_schema(ComparisonDocument, ("compare",), ())),
        "conf.json": _text(_schema(ConfDocument, ("conf",), ())),
        "fleet.json": _text(_schema(FleetDocument, ("fleet",), ("out", "podtide", "duplicates", "reused"))),
        "stop.json": _text(_schema(StopDocument, ("stop",), ())),
        "watch.json": _text(_schema(WatchDocument, ("watch",), ())),
    }


def main() -> None:
    """Write the files."""
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _schema(
    kind: type, commands: Sequence[str], optional: Collection[str], more: Mapping[type, type] = MappingProxyType({})
) -> dict[str, Any]:
    """The schema of a record that ``commands`` print. ``optional``: keys that the whole document may leave out; ``more``: of
    a kind, the one that may stand in its place in a list."""
    title = f"The document of {' and '.join(f'podtide {one} --json' for one in commands)}, version 1"
    template = "#/$defs/{name}"
    (whole, *_), records = msgspec.json.schema_components((kind, *more.values()), ref_template=template)
    made = {**whole, "$defs": records}
    for usual, other in more.items():
        either = [{"$ref": template.format(name=one.__name__)} for one in (usual, other)]
        for record in records.values():
            for field in record.get("properties", {}).values():
                if field.get("items") == either[0]:
                    field["items"] = {"anyOf": either}
    for record in made["$defs"].values():
        if "properties" not in record:  # a list of words
            continue
        fields = record["properties"]
        needed = {*record["required"], *(name for name, field in fields.items() if "default" in field)}
        left_out = optional if record["title"] == kind.__name__ else ()
        del record["title"]
        record["description"] = " ".join(record["description"].split())
        record["properties"] = {
            name: {key: value for key, value in field.items() if key != "default"} for name, field in fields.items()
        }
        record["required"] = [name for name in fields if name in needed and name not in left_out]
        record["additionalProperties"] = False
    made["$defs"][kind.__name__]["properties"]["schema"] = {"enum": [schema_name(one) for one in commands]}
    return {"$schema": DIALECT, "title": title, **made}


def _text(schema: object) -> str:
    return f"{_pretty(schema, 0)}\n"


def _pretty(value: object, depth: int, before: int = 0) -> str:
    """JSON in which what fits on a line stands on one. ``before``: signs that stand before it on its line."""
    line = json.dumps(value, ensure_ascii=False)
    if before + 2 * depth + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    margin = "  " * (depth + 1)
    if isinstance(value, list):
        items = [margin + _pretty(one, depth + 1) for one in value]
        if all(isinstance(one, str) for one in value):
            items = [textwrap.fill(line[1:-1], WIDTH, initial_indent=margin, subsequent_indent=margin)]
        begin, end = "[]"
    else:
        items = [f"{margin}{json.dumps(key)}: {_pretty(one, depth + 1, len(key) + 4)}" for key, one in value.items()]
        begin, end = "{}"
    return "\n".join([begin, ",\n".join(items), "  " * depth + end])


if __name__ == "__main__":
    main()
