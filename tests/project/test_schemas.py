"""The generated schemas are those of the records that stand in the program."""

from __future__ import annotations

import pytest

from scripts.schemas import FOLDER, schemas


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_schema_is_the_one_that_the_records_make(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == schemas()[name], "run make schemas"
