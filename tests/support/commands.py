"""The command line as tests call it: in this process, and as a program of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.testing import CliRunner

from podtide.entrypoints import cli
from tests.support.project import environment

PROGRAM = (sys.executable, "-c", "from podtide.entrypoints.cli import main; main()")
PLAIN: Mapping[str, str | None] = {"COLUMNS": "100", "FORCE_COLOR": None, "NO_COLOR": None, "TERM": "dumb"}


class Answer(NamedTuple):
    """What a command left: its exit code and its two outputs."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Standard output with a blank between two words, however the lines were broken."""
        return " ".join(self.out.split())

    @property
    def document(self) -> Any:
        """Standard output as the JSON that it is."""
        return json.loads(self.out)


def answer(*arguments: str | Path, stdin: bytes | None = None, columns: int = 100) -> Answer:
    """A command in this process."""
    runner = CliRunner(env={**PLAIN, "COLUMNS": str(columns)})
    result = runner.invoke(cli.podtide, [str(one) for one in arguments], stdin, standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        complaint = io.StringIO()
        result.exception.show(complaint)
        return Answer(result.exception.exit_code, result.stdout, result.stderr + complaint.getvalue())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.return_value or 0, result.stdout, result.stderr)


def document(*arguments: str | Path) -> Any:
    """The JSON document of a command that succeeds."""
    given = answer(*arguments, "--json")
    assert given.code == 0, given.err
    return given.document


def program(
    arguments: Sequence[str | Path], env: Mapping[str, str] | None = None, **pipes: Any
) -> subprocess.Popen[bytes]:
    """A command as a program."""
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], env=environment(COLUMNS="100", **(env or {})), **pipes)


def ran(*arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
    """A program that has ended."""
    pipe = subprocess.PIPE
    with program(arguments, env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        out, err = process.communicate(stdin, timeout=120)
    return Answer(process.returncode, out.decode(), err.decode())
