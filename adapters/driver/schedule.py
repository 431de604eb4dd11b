"""A schedule of targets, read: executors wanted over time, from the beginning of a run on.

It is one line (``0:10,60:50,5m:0``), a file of lines (``TIME N`` or ``TIME PROFILE N`` in order of time, ``#`` begins a
comment), or a workload file's ``targets`` (docs/reference/workload.md); which of the two a file is, its first line
tells. What it cannot mean is refused with the file, the line and what was expected there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from podtide.adapters.files import workload as workload_file
from podtide.adapters.files.bounded_file import FileNotUsable, text_of
from podtide.adapters.files.schema import FileError
from podtide.adapters.files.values import duration
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.fakes.driver.script import Targets

EXECUTORS_MAX: Final = 2**31 - 1
PROFILE_MAX: Final = 2**31 - 1
STEPS_MAX: Final = 100_000
FILE_MAX: Final = 4 * 1024**2


class TargetError(Exception):
    """A target or a schedule that cannot be used; the message says where and what was expected."""


def read_schedule(given: str) -> Targets:
    """The schedule that is given: as one line, or as the name of a file. Raises TargetError."""
    if re.match(r"\s*[0-9][0-9a-z.]*:", given) is not None:
        try:
            return workload_file.targets(given, "the schedule")
        except FileError as problem:
            raise TargetError(str(problem)) from None
    unreadable = "cannot be read as a schedule, and is none in itself (0:10,60:50): {why}"
    try:
        text = text_of(Path(given), "a schedule", FILE_MAX, unreadable)
    except FileNotUsable as problem:
        raise TargetError(problem.of(given)) from None
    return understand_schedule(text, given)


def understand_schedule(text: str, name: str) -> Targets:
    """The schedule in a file's text: lines, or YAML. Raises TargetError."""
    first = next((line for line in map(_bare, text.splitlines()) if line), "")
    if _LINE.match(first) is not None:
        return _lines(text, name)
    try:
        workload = workload_file.understand(text, name)
    except FileError as problem:
        raise TargetError(f"{problem} (or expected lines TIME EXECUTORS, as 60s 50)") from None
    if not isinstance(workload, Targets):
        raise TargetError(f"{name}: expected targets over time, got jobs: they need a driver to run in")
    return workload


_LINE: Final = re.compile(r"[0-9]\S*\s+\S")
_TIME: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,3})?")
_COUNT: Final = re.compile(r"[0-9]{1,10}")
_EXPECTED: Final = "TIME EXECUTORS or TIME PROFILE EXECUTORS, as 60s 50 or 60s 1 5"


def _bare(line: str) -> str:
    return line.partition("#")[0].strip()


def _lines(text: str, name: str) -> Targets:
    steps: dict[Millis, dict[ProfileId, int]] = {}
    last = -1
    for number, line in enumerate(text.splitlines(), 1):
        words = _bare(line).split()
        if not words:
            continue
        where = f"{name}:{number}"
        if len(words) not in (2, 3):
            raise TargetError(f"{where}: expected {_EXPECTED}, got {line.strip()[:60]!r}")
        at = _moment(words[0])
        if at is None:
            raise TargetError(f"{where}: expected a time such as 90, 90s or 1h30m, got {words[0][:60]!r}")
        if at < last:
            raise TargetError(f"{where}: expected a time that is not before the line above it, got {words[0][:60]!r}")
        last = at
        executors = _whole(words[-1], EXECUTORS_MAX)
        if executors is None:
            raise TargetError(f"{where}: expected 0 to {EXECUTORS_MAX} executors, got {words[-1][:60]!r}")
        profile = 0 if len(words) == 2 else _whole(words[1], PROFILE_MAX)
        if profile is None:
            raise TargetError(f"{where}: expected a profile from 0 to {PROFILE_MAX}, got {words[1][:60]!r}")
        step = steps.setdefault(at, {})
        if profile in step:
            raise TargetError(f"{where}: expected one target of profile {profile} at {words[0][:60]}, got a second")
        step[ProfileId(profile)] = executors
        if len(steps) > STEPS_MAX:
            raise TargetError(f"{where}: more than {STEPS_MAX} times")
    return Targets(tuple((at, tuple(step.items())) for at, step in steps.items()))


def _moment(text: str) -> Millis | None:
    try:
        return duration(f"{text}s" if _TIME.fullmatch(text) else text)
    except (ValueError, ArithmeticError):
        return None


def _whole(text: str, most: int) -> int | None:
    return int(text) if _COUNT.fullmatch(text) is not None and int(text) <= most else None
