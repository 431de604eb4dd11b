"""The documents are true: samples run and print what they say, generated pages are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scripts.reference import FOLDER, pages
from tests.support import commands
from tests.support.project import DOCS, PROJECT

SAMPLE = re.compile(r"```sh\n(podtide .*?)\n```(.*?)(?=```sh\n|\Z)", re.DOTALL)
SHOWN = re.compile(r"```text\n(.*?)\n```", re.DOTALL)
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def samples() -> list[tuple[str, str, tuple[str, ...]]]:
    """Of each tutorial the commands, and the lines that they are said to print."""
    found = []
    for page in TUTORIALS:
        for command, after in SAMPLE.findall(page.read_text(encoding="utf-8")):
            lines = [line for block in SHOWN.findall(after) for line in block.splitlines()]
            found.append((page.stem, command, tuple(lines)))
    return found


@pytest.mark.parametrize(("page", "command", "lines"), samples())
def test_a_tutorial_prints_what_it_says(
    page: str, command: str, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    program, *arguments = shlex.split(command)
    assert program == "podtide"
    found = commands.answer(*arguments)
    assert found.code == 0, found.err
    printed = found.out.splitlines()
    for line in lines:
        assert any(line in one for one in printed), f"{page}: {command} does not print {line!r}"


PYTHON = re.compile(r"```python\n(import podtide\n.*?)```(.*?)(?=```python\n|\Z)", re.DOTALL)


@pytest.mark.parametrize("page", [PROJECT / "README.md", DOCS / "how-to" / "notebook.md"], ids=lambda page: page.stem)
def test_a_sample_of_the_library_runs_and_prints_what_its_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo").symlink_to(PROJECT / "demo")
    monkeypatch.chdir(tmp_path)  # what a sample writes goes there
    found = PYTHON.search(page.read_text(encoding="utf-8"))
    assert found is not None
    program, after = found.groups()
    exec(program, {})
    printed = capsys.readouterr().out
    for block in SHOWN.findall(after):
        for line in block.splitlines():
            assert line in printed, f"{page.name}: its sample does not print {line!r}"


def test_there_are_samples_to_run() -> None:
    assert len(samples()) >= 4


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_that_of_the_code(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pages()[name], "run make reference"


def test_every_command_of_the_readme_is_one_and_every_command_is_there() -> None:
    from podtide.entrypoints.cli import COMMANDS  # noqa: PLC0415 - the list of the program

    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`podtide ([a-z-]+)", text))
    assert named <= COMMANDS.keys()
    assert {"replay", "whatif", "tune", "compare", "diff", "fleet", "cluster", "simulate", "run"} <= named
    assert len(text.splitlines()) < 150


def test_tutorials_name_files_that_are_there() -> None:
    for page in TUTORIALS:
        for name in re.findall(r"\bdemo/[\w./-]+\w", page.read_text(encoding="utf-8")):
            assert (PROJECT / name).exists(), f"{page.name}: {name}"
            assert Path(name).parts[0] == "demo"
