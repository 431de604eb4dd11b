"""The workload file: what an application asks for, in YAML, read and written; and targets as one line of text.

A file has either ``targets`` or ``jobs``. Every other key has a default. What a file cannot mean is refused with the file,
the line, the key and what was expected there; a file that is too large, too deep or full of aliases is refused before it
costs anything, as are workloads that nobody could wait for. ``write`` gives back a file that reads as the same workload.

docs/workload.md describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files.schema import (
    DELAY,
    DURATION,
    FLAG,
    INTEGER,
    NAME,
    NUMBER,
    Key,
    ListOf,
    Maybe,
    PairsOf,
    Reader,
    Record,
    Unreadable,
    Written,
    choice,
    duration,
    refuse,
    show_duration,
    unknown,
)
from podtide.adapters.files.yaml_reader import SIZE_MAX, Mapping, Node, Scalar, YamlError, parse, quoted
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.fakes.driver.checks import Problem, problems
from podtide.domain.fakes.driver.script import (
    Cached,
    Data,
    Job,
    Jobs,
    Outputs,
    Profile,
    Stage,
    Storage,
    Targets,
    Workload,
)
from podtide.domain.protocol.config import ProfileRules

TARGETS_LENGTH_MAX: Final = 64 * 1024
"""Characters of targets in one line."""


class WorkloadFileError(Exception):
    """A workload that cannot be used: which file, which line, which key, and what was expected."""

    def __init__(self, name: str, line: int | None, why: str) -> None:
        super().__init__(f"{name}: {why}" if line is None else f"{name}:{line}: {why}")
        self.line = line


_AMOUNTS: Final = PairsOf(NAME, NUMBER, "amounts by resource, as {cpus: 2, gpu: 0.5}")
_WHOLE_AMOUNTS: Final = PairsOf(NAME, INTEGER, "whole amounts by resource, as {cores: 4, gpu: 1}")
_NAMES: Final = ListOf(NAME, "a list of names, as [map]")
CACHED: Final = Record(
    Cached,
    (Key("storage", "storage", choice(Storage)), Key("until", "until", Maybe(NAME))),
    Cached(),
    "what is cached, as {storage: memory, until: report}",
)
DATA: Final = Record(
    Data,
    (
        Key("hosts", "hosts", ListOf(NAME, "a list of host names, as [worker-1, worker-2]"), required=True),
        Key("copies", "copies", INTEGER),
    ),
    Data(()),
    "where the tasks' data is, as {hosts: [worker-1, worker-2], copies: 2}",
)
STAGE: Final = Record(
    Stage,
    (
        Key("tasks", "tasks", INTEGER, required=True),
        Key("duration", "duration", DELAY),
        Key("parents", "parents", _NAMES),
        Key("profile", "profile", INTEGER),
        Key("writes-shuffle", "writes_shuffle", FLAG),
        Key("cached", "cached", CACHED),
        Key("failure", "failure", NUMBER),
        Key("data", "data", DATA),
    ),
    Stage("", 0),
    "a stage, as {tasks: 200, duration: 2s, parents: [map]}",
)
JOB: Final = Record(
    dict,
    (
        Key("start", "start_ms", DURATION),
        Key("after", "after", _NAMES),
        Key("think", "think", DELAY),
        Key("times", "times", INTEGER),
    ),
    Job("", ()),
    "a job, as {start: 10s, stages: {map: {tasks: 200}}}",
)
PROFILE: Final = Record(
    dict,
    (Key("executor", "executor", _WHOLE_AMOUNTS), Key("task", "task", _AMOUNTS)),
    Profile(ProfileId(0)),
    "a resource profile, as {executor: {cores: 4}, task: {cpus: 2}}",
)
DRIVER: Final = Record(
    dict,
    (
        Key("outputs", "outputs", choice(Outputs)),
        Key("task-failures", "task_failures_max", INTEGER),
        Key("stage-attempts", "stage_attempts_max", INTEGER),
        Key("shuffled-offers", "shuffled_offers", FLAG),
        Key("clean", "clean_ms", Maybe(DURATION)),
    ),
    Jobs(),
    "the driver's keys",
)
_TOP: Final = ("targets", "jobs", "profiles", *(key.name for key in DRIVER.keys))
_STAGES: Final = "stages"


# reading


def read(path: Path, rules: ProfileRules | None = None) -> Workload:
    """The workload in a file. ``rules``: what executors are like by the application's conf. Raises WorkloadFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as fault:
        raise WorkloadFileError(str(path), None, f"cannot be read: {fault.strerror or fault}") from fault
    if len(data) > SIZE_MAX:
        raise WorkloadFileError(str(path), None, f"too long for a workload file: more than {SIZE_MAX} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise WorkloadFileError(str(path), line, "expected UTF-8 text") from fault
    return understand(text, str(path), rules)


def understand(text: str, name: str = "workload", rules: ProfileRules | None = None) -> Workload:
    """The workload that a text describes; ``name`` is for the messages. Raises WorkloadFileError."""
    reader = Reader()
    try:
        workload = _workload(parse(text), reader)
    except (YamlError, Unreadable) as fault:
        key = f"{fault.key}: " if isinstance(fault, Unreadable) else ""
        raise WorkloadFileError(name, fault.line, f"{key}{fault.why}") from None
    found = problems(workload, rules)
    if found:
        raise WorkloadFileError(name, _line(reader, found[0].where), _said(found))
    return workload


def targets(text: str, name: str = "targets") -> Targets:
    """Targets in one line, as ``0:10,60:50,300:0``: from 0 s on 10 executors, and so on; only the default profile's.

    A time is a number of seconds, or a duration such as ``5m``. Raises WorkloadFileError.
    """
    if len(text) > TARGETS_LENGTH_MAX:
        raise WorkloadFileError(name, None, f"too long: more than {TARGETS_LENGTH_MAX} characters")
    steps = []
    for place, step in enumerate(text.split(","), 1):
        at, colon, executors = step.strip().partition(":")
        at_ms = _time(at)
        if at_ms is None or not colon or re.fullmatch("[0-9]{1,10}", executors) is None:
            expected = "TIME:EXECUTORS, as 60:50 or 5m:50"
            raise WorkloadFileError(name, None, f"step {place}: expected {expected}, got {step.strip()[:60]!r}")
        steps.append((at_ms, ((DEFAULT_PROFILE, int(executors)),)))
    workload = Targets(tuple(steps))
    found = problems(workload)
    if found:
        raise WorkloadFileError(name, None, _said(found))
    return workload


def _time(text: str) -> Millis | None:
    """A time on the command line: seconds where no unit is given."""
    try:
        return duration(f"{text}s" if re.fullmatch(r"[0-9.]+", text) else text)
    except ValueError:
        return None


def _said(found: Sequence[Problem]) -> str:
    where, expected = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}: expected {expected}{more}"


def _line(reader: Reader, where: str) -> int | None:
    """The line of a key, or of the nearest one around it that stands in the file."""
    while where:
        if where in reader.lines:
            return reader.lines[where]
        where = where[: max(where.rfind("."), where.rfind("["), 0)]
    return None


def _workload(node: Node | None, reader: Reader) -> Workload:
    if node is None or (isinstance(node, Scalar) and node.null):
        raise Unreadable(1, "the file", "expected targets or jobs, got nothing")
    reader.enter(node, "")
    if not isinstance(node, Mapping):
        raise refuse(node, "", f"a mapping with the keys {', '.join(_TOP)}")
    for name, (line, _) in node.items.items():
        if name not in _TOP:
            raise Unreadable(line, name, unknown(name, list(_TOP)))
    if ("targets" in node.items) == ("jobs" in node.items):
        raise Unreadable(node.line, "the file", "expected either targets or jobs")
    if "targets" in node.items:
        for name, (line, _) in node.items.items():
            if name != "targets":
                raise Unreadable(line, name, "this key belongs to jobs, and the file has targets")
        return _targets(*node.items["targets"], reader)
    line, jobs = node.items["jobs"]
    profiles = _profiles(*node.items["profiles"], reader) if "profiles" in node.items else ()
    rest = Mapping(node.line, {name: item for name, item in node.items.items() if name not in ("jobs", "profiles")})
    return Jobs(jobs=_jobs(line, jobs, reader), profiles=profiles, **DRIVER.fields(rest, "", reader))


def _targets(line: int, node: Node, reader: Reader) -> Targets:
    steps: list[tuple[Millis, tuple[tuple[ProfileId, int], ...]]] = []
    for name, where, at, value in _named(
        "targets", line, node, reader, "targets by time, as {0s: 10, 60s: {0: 20, 1: 5}}"
    ):
        at_ms = DURATION.read(Scalar(at, name, True), where, reader)
        reader.lines.setdefault(f"targets.{at_ms}ms", at)
        if isinstance(value, Mapping):
            pairs = PairsOf(INTEGER, INTEGER, "").read(value, where, reader)
            steps.append((at_ms, tuple((ProfileId(profile), executors) for profile, executors in pairs)))
        elif isinstance(value, Scalar) and not value.null:
            steps.append((at_ms, ((DEFAULT_PROFILE, INTEGER.read(value, where, reader)),)))
        else:
            raise refuse(value, where, "a number of executors, or one by resource profile, as {0: 20, 1: 5}")
    return Targets(tuple(sorted(steps, key=lambda step: step[0])))


def _profiles(line: int, node: Node, reader: Reader) -> tuple[Profile, ...]:
    found = []
    for name, where, at, value in _named(
        "profiles", line, node, reader, "profiles by id, as {1: {executor: {cores: 4}}}"
    ):
        number = INTEGER.read(Scalar(at, name, True), where, reader)
        found.append(Profile(id=ProfileId(number), **PROFILE.fields(value, where, reader)))
    return tuple(found)


def _jobs(line: int, node: Node, reader: Reader) -> tuple[Job, ...]:
    found = []
    for name, where, at, value in _named(
        "jobs", line, node, reader, "jobs by name, as {load: {stages: {map: {tasks: 9}}}}"
    ):
        if not isinstance(value, Mapping):
            raise refuse(value, where, JOB.expected)
        if _STAGES not in value.items:
            raise Unreadable(at, where, f"expected the key {_STAGES} ({JOB.expected})")
        known = [*(key.name for key in JOB.keys), _STAGES]
        for key, (key_line, _) in value.items.items():
            if key not in known:
                raise Unreadable(key_line, f"{where}.{key}", unknown(key, known))
        rest = Mapping(value.line, {key: item for key, item in value.items.items() if key != _STAGES})
        stages = _stages(f"{where}.{_STAGES}", *value.items[_STAGES], reader)
        found.append(Job(name=name, stages=stages, **JOB.fields(rest, where, reader)))
    return tuple(found)


def _stages(path: str, line: int, node: Node, reader: Reader) -> tuple[Stage, ...]:
    named = _named(path, line, node, reader, "stages by name, as {map: {tasks: 200, duration: 2s}}")
    return tuple(Stage(name=name, **STAGE.fields(value, where, reader)) for name, where, _, value in named)


def _named(path: str, line: int, node: Node, reader: Reader, expected: str) -> Iterable[tuple[str, str, int, Node]]:
    """The entries of a mapping whose keys are names: name, path, line and value."""
    reader.enter(node, path, line)
    if not isinstance(node, Mapping):
        raise refuse(node, path, expected)
    for name, (at, value) in node.items.items():
        if "." in name and path != "targets":
            raise Unreadable(at, f"{path}.{name}"[:200], "expected a name without a dot")
        where = f"{path}.{name}"
        reader.enter(value, f"{path}[]", at)  # a name may hold what would count as depth
        reader.lines[where] = at
        yield name, where, at, value


# writing


def write(workload: Workload, heading: str = "") -> str:
    """The text of a workload file that reads as this workload. What has its default is left out.

    ``heading``: comment lines at the top. Profiles and jobs keep their order, targets are in order of time.
    """
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    if isinstance(workload, Targets):
        _block(lines, 0, "targets", [(show_duration(at), _target(step)) for at, step in workload.steps])
        return _text(lines)
    for key, value in DRIVER.differing(workload, Jobs()).items():
        lines.append(f"{key}: {_flow(value)}")
    if workload.profiles:
        profiles = [(str(one.id), _flow(PROFILE.differing(one, PROFILE.base))) for one in workload.profiles]
        _block(lines, 0, "profiles", profiles)
    if not workload.jobs:
        lines.append("jobs: {}")
        return _text(lines)
    lines.append("jobs:")
    for job in workload.jobs:
        lines.append(f"  {quoted(job.name)}:")
        lines.extend(f"    {key}: {_flow(value)}" for key, value in JOB.differing(job, JOB.base).items())
        _block(lines, 4, _STAGES, [(quoted(stage.name), _flow(_stage(stage))) for stage in job.stages])
    return _text(lines)


def _target(step: Iterable[tuple[ProfileId, int]]) -> str:
    pairs = list(step)
    if [profile for profile, _ in pairs] == [DEFAULT_PROFILE]:
        return str(pairs[0][1])
    return _flow({str(profile): str(executors) for profile, executors in pairs})


def _stage(stage: Stage) -> dict[str, Written]:
    written: Any = STAGE.write(stage)
    if stage.cached is not None:
        written["cached"] = CACHED.differing(stage.cached, CACHED.base)
    return dict(written)


def _block(lines: list[str], indent: int, name: str, items: Sequence[tuple[str, str]]) -> None:
    lines.append(" " * indent + (f"{name}:" if items else f"{name}: {{}}"))
    lines.extend(f"{' ' * indent}  {key}: {value}" for key, value in items)


def _flow(value: Written) -> str:
    match value:
        case str():
            return value
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
