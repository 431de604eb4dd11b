"""The command line as a whole: help in groups, names of today and of the last release, files that stay, completion."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from podtide.entrypoints.cli import COMMANDS, GROUPS, podtide
from podtide.entrypoints.common.old_names import OLD_NAMES
from tests.support.project import DEMO
from tests.support.schemas import validate


def command(name: str) -> click.Command:
    found = podtide.get_command(click.Context(podtide), name)
    assert found is not None
    return found


def names(name: str) -> set[str]:
    return {option for parameter in command(name).params for option in (*parameter.opts, *parameter.secondary_opts)}


def asked(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(podtide, [str(one) for one in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_help_lists_every_command_once_in_its_group() -> None:
    shown = asked("--help")[1]
    for group, members in GROUPS.items():
        section = shown.split(f"\n{group}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines() if line[2] != " "] == list(members)
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


@pytest.mark.parametrize("name", ["run", "pod", "whatif", "tune", "fleet", "watch"])
def test_options_for_experts_stand_apart(name: str) -> None:
    usual, expert = asked(name, "--help")[1].split("\nExpert options:\n")
    assert "--help" in usual
    assert {"run": "--lease", "pod": "--local-dir-id", "fleet": "--spark-conf", "watch": "--spark-conf"}.get(
        name, "--recorded-conf"
    ) in expert


@pytest.mark.parametrize(("name", "old"), [(name, old) for name, pairs in OLD_NAMES.items() for old in pairs])
def test_an_old_name_stands_for_an_option_of_today(name: str, old: str) -> None:
    assert OLD_NAMES[name][old] in names(name)
    assert old not in names(name)


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (("simulate", "--targets", "0:1", "--until=20s"), ["--targets is now --schedule", "--until is now --duration"]),
        (("simulate", "--schedule", "0:1", "--duration", "20s"), []),
        (("pod", "--conf", "spark.kubernetes.container.image=i", "--driver", "d", "--driver-uid", "u"),
         ["--driver is now --driver-pod"]),
        (("pod", "--conf", "spark.kubernetes.container.image=i", "--driver-pod", "d", "--driver-uid", "u"), []),
    ],
)  # fmt: skip
def test_an_old_name_works_with_a_warning(arguments: tuple[str, ...], warned: list[str]) -> None:
    code, out, err = asked(*arguments)
    assert code == 0
    assert out
    assert err.count(" is now ") == len(warned)
    assert all(one in err for one in warned)


def test_an_old_name_behind_the_end_of_options_is_left_alone() -> None:
    code, _, err = asked("tune", "--", "--processes")
    assert code == 3
    assert "is now" not in err
    assert "--processes" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", DEMO, "--decisions"),
        ("replay", DEMO, "--spark-log"),
        ("simulate", "--schedule", "0:1", "--duration", "20s", "--spark-log"),
        ("simulate", "--schedule", "0:1", "--duration", "20s", "--record"),
        ("whatif", DEMO, "--static", "2", "--seeds", "1", "--report"),
        ("tune", DEMO, "--budget", "1", "--seeds", "1", "--report"),
        ("compare", DEMO, DEMO, "--report"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_a_file_is_replaced_only_where_that_is_asked_for(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    code, _, err = asked(*arguments, kept)
    assert code == 2
    assert "--overwrite" in err
    assert kept.read_text() == "as it was"
    assert asked(*arguments, kept, "--overwrite")[0] == 0
    assert kept.read_text() != "as it was"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_asks_podtide(shell: str) -> None:
    code, out, _ = asked("completion", shell)
    assert code == 0
    assert f"_PODTIDE_COMPLETE={shell}_complete" in out


def test_the_shell_is_answered_with_commands_and_options(tmp_path: Path) -> None:
    def completed(words: str, place: int) -> list[str]:
        answer = subprocess.run(
            [sys.executable, "-m", "podtide"],
            env={"_PODTIDE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place),
                 "PYTHONPATH": ":".join(sys.path)},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [line.partition(",")[2] for line in answer.stdout.splitlines()]

    assert completed("podtide whatif --rec", 2) == ["--recorded-conf", "--recorded-properties-file"]
    assert completed("podtide s", 1) == ["serve", "simulate", "stop", "shuffle-service", "stage"]


ENVELOPES = {
    "replay": ("replay", DEMO, "--json"),
    "whatif": ("whatif", DEMO, "--static", "2", "--seeds", "1", "--json"),
    "tune": ("tune", DEMO, "--budget", "2", "--seeds", "1", "--jobs", "1", "--json"),
    "diff": ("diff", DEMO, "--candidate", "static=2", "--seeds", "1", "--jobs", "1", "--json"),
    "compare": ("compare", DEMO, DEMO, "--json"),
    "fleet": ("fleet", DEMO, "--out", "t.csv", "--static", "2", "--jobs", "1", "--json"),
    "watch": ("watch", DEMO, "--once", "--history", "h.db", "--jobs", "1", "--json"),
    "conf": ("conf", "--conf", "spark.executor.cores=4", "--json"),
    "simulate": ("simulate", "--schedule", "0:2", "--duration", "20s", "--json"),
}
SCHEMAS = {"tune": "whatif", "simulate": "simulation"}
"""Schemas that go by another name than their command."""


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_document_names_its_schema_and_is_as_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = asked(*ENVELOPES[name])
    assert code == 0, err
    document = json.loads(out)
    assert next(iter(document.items())) == ("schema", f"podtide/{name}/1")
    validate(document, SCHEMAS.get(name, name))
    for words in ("ledger", "waiting", "by_cause", "calls", "cluster_tally"):
        assert all(re.fullmatch("[a-z0-9_]+", key) for key in found(document, words))


def found(document: object, name: str) -> Iterator[str]:
    """The keys of every object of this name in a document."""
    if isinstance(document, list):
        for one in document:
            yield from found(one, name)
    elif isinstance(document, dict):
        for key, one in document.items():
            yield from one if key == name and isinstance(one, dict) else found(one, name)
