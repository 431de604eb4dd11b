"""How a command ends that has something to refuse, and how it treats standard output.

Refusals are ``click`` exceptions with the exit codes of docs/reference/formats.md: a usage or configuration that cannot
be used, or an output that cannot be written (2); an input that cannot be read (3); a cluster that refuses (4); an
application that the model does not fit (5). Their lines go to standard error, escaped. A reader of standard output that
has gone (``| head``) is no fault; a disk that is full is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click
from returns.pipeline import is_successful
from returns.result import Result

from podtide.adapters.recording.records.decision_file import STDOUT, DecisionFileError
from podtide.adapters.recording.records.jsonl import RecordSpool
from podtide.adapters.text.documents import with_plain_keys
from podtide.adapters.text.safe import cause, display, escaped
from podtide.entrypoints.common.interruption import check_wanted, silence

ERRORS_SHOWN: Final = 20
ERROR_CHARS_MAX: Final = 2_000

T = TypeVar("T")


class Refusal(click.ClickException):
    """An end before the answer: lines for standard error and an exit code."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the lines, each under the program's name."""
        for line in self.lines[:ERRORS_SHOWN]:
            click.echo(f"podtide: {escaped(line, ERROR_CHARS_MAX)}", file=file, err=file is None)
        if (more := len(self.lines) - ERRORS_SHOWN) > 0:
            click.echo(f"podtide: and {more} more", file=file, err=file is None)


class Misused(Refusal):
    """The command line or the configuration cannot be used, or an output cannot be written."""

    exit_code = 2


class UnreadableInput(Refusal):
    """The log, the recording or the expectation cannot be read."""

    exit_code = 3


class ClusterRefused(Refusal):
    """The cluster or its API: it cannot be reached, refuses, or somebody else is in charge."""

    exit_code = 4


class ModelRefused(Refusal):
    """The model does not fit the application."""

    exit_code = 5


@contextlib.contextmanager
def printed() -> Iterator[None]:
    """Standard output that refuses (a full disk) ends the run; one that nobody reads (``| head``) is no fault."""
    check_wanted()
    try:
        yield
    except BrokenPipeError:
        silence()
    except OSError as problem:
        silence()
        raise Misused(f"standard output cannot be written: {cause(problem)}") from None


@contextlib.contextmanager
def refused_as(refusal: type[Refusal], *kinds: type[Exception], prefix: str = "") -> Iterator[None]:
    """Errors of these kinds end the run: as this refusal, in their own words, behind the prefix.

    An error that holds several (``errors``) is told in a line for each.
    """
    try:
        yield
    except kinds as problem:
        raise refusal(*(f"{prefix}{error}" for error in getattr(problem, "errors", (problem,)))) from None


@contextlib.contextmanager
def needing_kubernetes() -> Iterator[None]:
    """Where an import finds a package missing, the run ends and names the extra to install. Raises Misused."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Misused(f"the package {missing.name} is not installed; install podtide[kubernetes]") from None


def unreadable() -> contextlib.AbstractContextManager[None]:
    """A file of decisions that cannot be read ends the run."""
    return refused_as(UnreadableInput, DecisionFileError)


def misused() -> contextlib.AbstractContextManager[None]:
    """A file of decisions that cannot be written ends the run."""
    return refused_as(Misused, DecisionFileError)


def usable(result: Result[T, Any], refusal: type[Refusal] = Misused) -> T:
    """The value of a result; what is wrong with it ends the run as this refusal, in a line for each error."""
    if is_successful(result):
        return result.unwrap()
    failure = result.failure()
    raise refusal(*map(str, failure if isinstance(failure, tuple) else (failure,)))


def check_streams(*, stdin: bool = False) -> None:
    """Refuse a standard output that is closed, and a standard input where it is to be read."""
    if sys.stdout is None:
        raise Misused("standard output is closed")
    if stdin and sys.stdin is None:
        raise UnreadableInput("standard input is closed")


def check_replaceable(option: str, path: str, *, overwrite: bool) -> None:
    """Refuse an output that would replace what a file holds, unless ``overwrite`` says that it may. Raises Misused."""
    if overwrite or path == STDOUT:
        return
    with contextlib.suppress(OSError):  # what cannot be looked at is refused where it is written
        place = Path(path)
        if place.is_file() and place.stat().st_size:
            raise Misused(f"{option} {display(path)}: the file exists; choose another name, or add --overwrite")


def write_files(folder: Path, texts: Mapping[str, str], *, private: bool = False) -> None:
    """Write files into a folder, which is made where it is missing; ``private``: for their owner alone. Raises Misused."""
    mode = 0o600 if private else 0o666
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                if private:
                    os.fchmod(file.fileno(), mode)
                file.write(text)
    except OSError as problem:
        raise Misused(f"{escaped(str(folder))} cannot be written: {cause(problem)}") from None


def print_document(
    document: Mapping[str, Any], first: Sequence[str], lists: Mapping[str, RecordSpool], rest: Mapping[str, Any]
) -> None:
    """One object, a record a line, so that it can be read by machines as a whole and by people with ``grep``.

    The keys ``first`` of ``document``, then the ``lists``, then its other keys and those of ``rest``.
    """
    document, rest = with_plain_keys(document), with_plain_keys(rest)
    sys.stdout.flush()
    out = sys.stdout.buffer  # UTF-8 whatever the terminal speaks
    out.write(b"{\n" + b",\n".join(_entry(key, document[key]) for key in first if key in document))
    for key, spool in lists.items():
        out.write(f',\n"{key}": ['.encode())
        separator = b"\n"
        for line in spool.lines():
            out.write(separator + line)
            separator = b",\n"
        out.write(b"]" if separator == b"\n" else b"\n]")
    others = {key: value for key, value in document.items() if key not in first} | dict(rest)
    out.write(b"".join(b",\n" + _entry(key, value) for key, value in others.items()) + b"\n}\n")
    out.flush()


def print_object(document: Mapping[str, Any]) -> None:
    """One object, a key a line."""
    print_document(document, list(document), {}, {})


def _entry(key: str, value: Any) -> bytes:
    return f"{json.dumps(key)}: {json.dumps(value)}".replace("\x7f", "\\u007f").encode()
