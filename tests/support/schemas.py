"""The published schemas (docs/schema), each with its validator made once: checking a schema anew for each record is slow."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from tests.support.project import DOCS


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema ``docs/schema/NAME.json``."""
    loaded: dict[str, Any] = json.loads((DOCS / "schema" / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@cache
def _validator(name: str) -> Any:
    kind = jsonschema.validators.validator_for(schema(name), jsonschema.Draft202012Validator)
    kind.check_schema(schema(name))
    return kind(schema(name))


def validate(document: object, name: str) -> None:
    """Raise jsonschema.ValidationError if ``document`` is not as the schema of this name says."""
    _validator(name).validate(document)
