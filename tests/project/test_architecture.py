"""ARCHITECTURE.md is true: its picture of the rooms is that of the folders and of the import contracts, its paths exist."""

from __future__ import annotations

import configparser
import re
from collections import Counter

import pytest

from tests.support.project import PROJECT

PAGE = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TOPS = ("domain", "adapters", "entrypoints")
FILES_MAX = 3
MODULES_MAX = 18


def picture(top: str) -> list[set[str]]:
    """The floors of a top-level folder as ARCHITECTURE.md draws them, from the top."""
    block = re.search(rf"```\n{top}/\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None, f"no picture of {top}/"
    floors = [line.partition("#")[0].strip() for line in block[1].splitlines() if line.startswith("  ")]
    return [{room.strip() for room in floor.split("|")} for floor in floors if floor]


def contract(top: str) -> list[set[str]]:
    """The same from the import contracts."""
    contracts = configparser.ConfigParser()
    contracts.read(PROJECT / ".importlinter", encoding="utf-8")
    layers = contracts[f"importlinter:contract:{top}"]["layers"].strip().splitlines()
    return [{room.strip() for room in layer.split("|")} for layer in layers]


@pytest.mark.parametrize("top", TOPS)
def test_the_picture_of_the_rooms_is_that_of_the_folders_and_of_the_contracts(top: str) -> None:
    folder = PROJECT / top
    modules = {module.stem for module in folder.glob("*.py")} - {"__init__"}
    packages = {package.parent.name for package in folder.glob("*/__init__.py")}
    assert set().union(*picture(top)) == modules | packages
    assert picture(top) == contract(top)


@pytest.mark.parametrize("top", TOPS)
def test_every_room_is_explained(top: str) -> None:
    for package in (PROJECT / top).rglob("__init__.py"):
        theory = package.read_text(encoding="utf-8")
        assert len(theory) > 40, f"{package}: what is this room for?"
        room = str(package.parent.relative_to(PROJECT))
        if room != top:
            assert f"| `{room}` |" in PAGE, f"{room} is missing in the tables of rooms"


@pytest.mark.parametrize("top", TOPS)
def test_no_room_is_crowded(top: str) -> None:
    for package in (PROJECT / top).rglob("__init__.py"):
        modules = [module for module in package.parent.glob("*.py") if module.name != "__init__.py"]
        assert len(modules) <= MODULES_MAX, f"{package.parent} holds {len(modules)} modules"


def test_a_public_class_has_a_name_of_its_own() -> None:
    modules = [path.read_text(encoding="utf-8") for top in TOPS for path in (PROJECT / top).rglob("*.py")]
    classes = Counter(name for module in modules for name in re.findall(r"^class ([A-Za-z]\w*)", module, re.MULTILINE))
    assert len(classes) > 500
    assert [name for name, count in classes.items() if count > 1] == []


def test_every_path_that_the_page_names_exists() -> None:
    for path in re.findall(r"`((?:domain|adapters|entrypoints|tests|docs|benchmarks|scripts|deploy)/[\w/.-]+)`", PAGE):
        assert (PROJECT / path).exists(), path


def test_five_changes_touch_three_files_each() -> None:
    section = re.search(r"## Five changes\n(.*?)\n## ", PAGE, re.DOTALL)
    assert section is not None
    rows = [row for row in section[1].splitlines() if row.startswith("| ") and "`" in row]
    assert len(rows) == 5
    for row in rows:
        files = re.findall(r"`([\w/]+\.py)`", row)
        assert 1 <= len(files) <= FILES_MAX, row
