"""Recorded scenarios: what was put to real Spark, re-decided here and compared.

A scenario is JSON lines: a header and then what happens. Real Spark's answers are lines too, every call that it made and
its state after each step, in a file beside the scenario (``X.jsonl`` and ``X.expect.jsonl``, gzipped or not); a table of
pods carries them in its rows. There is a kind of scenario for each of Spark's classes that podtide decides for; the lines
tell of which kind a scenario is (``conformance.detect``), and a module for each kind produces the answers from the core,
playing the outside world. ``compare`` finds where the two part.

A file that cannot be used raises ``ScenarioError``, which names file, line and what was expected there; nothing that a file
may hold ends in anything else.
"""

from __future__ import annotations

import gzip
import importlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, overload

from podtide.adapters.conformance.detect import TABLE, Misfit, UnknownLines, kind_of
from podtide.adapters.conformance.manifests import ShapeError

Line = dict[str, Any]

MODULES: Final = {
    "eam": "podtide.adapters.conformance.scaling",
    "pods": "podtide.adapters.conformance.allocator",
    "lifecycle": "podtide.adapters.conformance.lifecycle",
    "store": "podtide.adapters.conformance.store",
    "poll": "podtide.adapters.conformance.polling",
    "podstates": "podtide.adapters.conformance.pod_states",
    "scale": "podtide.adapters.conformance.replicas",
    "backend": "podtide.adapters.conformance.backend",
    "yarn": "podtide.adapters.conformance.yarn",
}
"""Kind to the module whose ``answers(lines)`` re-decides it; imported when the first scenario of the kind comes."""

FILE_CHARS_MAX: Final = 200_000_000
LINE_CHARS_MAX: Final = 20_000_000
"""A scenario is read into memory; what is longer, as a small compressed file may be, is refused."""

_UNDECIDED: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What code that meets something unforeseen raises."""


class ScenarioError(Exception):
    """A scenario that cannot be run: which file, which line, and why."""


class UnknownKind(ScenarioError):
    """A scenario of a kind that this version does not decide."""


class AnswerDivergence(NamedTuple):
    """Where two lists of answers part: the line of the expectations (from 1), and both sides (None: missing)."""

    line: int
    expected: Line | None
    got: Line | None


def compare(expected: Iterable[Line], got: Iterable[Line]) -> AnswerDivergence | None:
    """The first difference between what Spark said and what the core says, or None."""
    theirs, ours = iter(expected), iter(got)
    number = 0
    while True:
        number += 1
        one, other = next(theirs, None), next(ours, None)
        if one is None and other is None:
            return None
        if one != other:
            return AnswerDivergence(number, one, other)


@dataclass
class _Mark:
    """The number of the line that was read last."""

    line: int = 1


class _Reading(Sequence[Line]):
    """Lines that remember which of them was looked at last, so that whatever goes wrong can be told by its line."""

    def __init__(self, rows: Sequence[tuple[int, Line]], mark: _Mark) -> None:
        self._rows = rows
        self._mark = mark

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> _Reading: ...
    def __getitem__(self, place: int | slice) -> Line | _Reading:
        if isinstance(place, slice):
            return _Reading(self._rows[place], self._mark)
        self._mark.line, line = self._rows[place]
        return line

    def __iter__(self) -> Iterator[Line]:
        for number, line in self._rows:
            self._mark.line = number
            yield line


class Scenario(NamedTuple):
    """A scenario file and the file with Spark's answers; None where there is none beside it."""

    path: Path
    expected: Path | None

    def kind(self) -> str:
        """Of which kind it is. Raises ScenarioError."""
        return _kind(self.path, _read(self.path))

    def check(self) -> AnswerDivergence | None:
        """Re-decide the scenario and compare. Raises ScenarioError when a file cannot be used."""
        rows = _read(self.path)
        kind = _kind(self.path, rows)
        if self.expected is not None:
            expected = [line for _, line in _read(self.expected)]
        elif kind == TABLE:
            expected = [line for _, line in rows]
        else:
            stem = _stem(self.path)
            raise ScenarioError(f"{self.path}: no answers beside it ({stem}.expect.jsonl or {stem}.expect.jsonl.gz)")
        mark = _Mark()
        try:
            return compare(expected, _answers(kind, _Reading(rows, mark)))
        except ShapeError as fault:
            raise ScenarioError(f"{self.path}:{mark.line}: {fault}") from fault
        except _UNDECIDED as fault:
            what = f"{type(fault).__name__}: {fault}"
            raise ScenarioError(f"{self.path}:{mark.line}: cannot be decided ({what[:500]})") from fault


def _answers(kind: str, lines: Sequence[Line]) -> Iterator[Line]:
    answers: Iterator[Line] = importlib.import_module(MODULES[kind]).answers(lines)
    return answers


def answers(lines: Sequence[Line]) -> Iterator[Line]:
    """Everything that Spark would have said to a scenario, header first.

    Raises ScenarioError for lines that do not fit, and ShapeError on the way for what their kind finds wrong.
    """
    kind = kind_of(list(enumerate(lines, start=1)))
    if isinstance(kind, UnknownLines):
        raise UnknownKind(kind.what)
    if isinstance(kind, Misfit):
        raise ScenarioError(f"line {kind.line}: {kind.what}")
    return _answers(kind, lines)


def _kind(path: Path, rows: Sequence[tuple[int, Line]]) -> str:
    names = (path.parent.name, path.parent.name.partition("-")[0], path.name.partition("-")[0])
    kind = kind_of(rows, names)
    if isinstance(kind, UnknownLines):
        raise UnknownKind(f"{path}: {kind.what}")
    if isinstance(kind, Misfit):
        raise ScenarioError(f"{path}:{kind.line}: {kind.what}")
    return kind


def _read(path: Path) -> list[tuple[int, Line]]:
    """The lines of a file that are not blank, with their numbers."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            rows: list[tuple[int, Line]] = []
            number = chars = 0
            while text := file.readline(LINE_CHARS_MAX):
                number += 1
                chars += len(text)
                if len(text) == LINE_CHARS_MAX or chars > FILE_CHARS_MAX:
                    raise ScenarioError(f"{path}:{number}: longer than a scenario may be")
                if text.strip():
                    rows.append((number, _line(path, number, text)))
            return rows
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as fault:
        raise ScenarioError(f"{path}: cannot be read: {fault}") from fault


def _line(path: Path, number: int, text: str) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as fault:  # a number of too many digits is a ValueError as well
        raise ScenarioError(f"{path}:{number}: not JSON lines: {fault}") from fault
    if not isinstance(line, dict):
        raise ScenarioError(f"{path}:{number}: expected a JSON object")
    return line


def find(path: Path) -> Iterator[Scenario]:
    """The scenarios of a file, or of a folder and the folders in it (one level), sorted. Raises ScenarioError."""
    if path.is_dir():
        found = False
        for folder in (path, *sorted(entry for entry in path.iterdir() if entry.is_dir())):
            for name in sorted(entry for entry in folder.iterdir() if _stem(entry) is not None):
                found = True
                yield _scenario(name)
        if not found:
            raise ScenarioError(f"{path}: no scenario here (X.jsonl or X.jsonl.gz beside X.expect.jsonl[.gz])")
        return
    if not path.is_file():
        raise ScenarioError(f"{path}: no such file or folder")
    if _stem(path) is None:
        raise ScenarioError(f"{path}: not a scenario (X.jsonl or X.jsonl.gz, with its answers in X.expect.jsonl[.gz])")
    yield _scenario(path)


def _scenario(path: Path) -> Scenario:
    stem = _stem(path)
    beside = (path.with_name(f"{stem}{suffix}") for suffix in (".expect.jsonl", ".expect.jsonl.gz"))
    return Scenario(path, next((expected for expected in beside if expected.is_file()), None))


def _stem(path: Path) -> str | None:
    for suffix in (".jsonl.gz", ".jsonl"):
        if path.name.endswith(suffix):
            stem = path.name.removesuffix(suffix)
            return None if stem.endswith((".expect", ".out")) else stem
    return None
