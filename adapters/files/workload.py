"""The workload file: what an application asks for, in YAML, read and written; and targets as one line of text.

A file has either ``targets`` or ``jobs``. Every other key has a default. What a file cannot mean is refused with the file,
the line, the key and what was expected there; a file that is too large, too deep or full of aliases is refused before it
costs anything, as are workloads that would run too long. ``write`` gives back a file that reads as the same workload.

docs/reference/workload.md describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from podtide.adapters.files import values
from podtide.adapters.files.schema import FileError, ListOf, PairsOf, first_of, record, text_of, understood
from podtide.adapters.files.values import FileReader, UnreadableValue
from podtide.adapters.files.yaml_reader import Mapping, Node, Scalar
from podtide.adapters.files.yaml_writer import Written, document, quoted
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.fakes.driver import script
from podtide.domain.fakes.driver.checks import problems
from podtide.domain.fakes.driver.script import Jobs, Profile, ScriptJob, ScriptStage, Targets, Workload
from podtide.domain.protocol.config import ProfileRules

TARGETS_LENGTH_MAX: Final = 64 * 1024
"""Characters of targets in one line."""

_NAMES: Final = ListOf(values.NAME, "a list of names, as [map]")
CACHED: Final = record(script.Cached, "what is cached, as {storage: memory, until: report}")
DATA: Final = record(
    script.Data,
    "where the tasks' data is, as {hosts: [worker-1, worker-2], copies: 2}",
    hosts=ListOf(values.NAME, "a list of host names, as [worker-1, worker-2]"),
)
STAGE: Final = record(
    ScriptStage,
    "a stage, as {tasks: 200, duration: 2s, parents: [map]}",
    "tasks duration parents profile writes_shuffle cached failure data",
    parents=_NAMES,
    cached=CACHED,
    data=DATA,
)
JOB: Final = record(
    ScriptJob,
    "a job, as {start: 10s, stages: {map: {tasks: 200}}}",
    "start_ms after think times",
    make=dict,
    after=_NAMES,
)
PROFILE: Final = record(
    Profile,
    "a resource profile, as {executor: {cores: 4}, task: {cpus: 2}}",
    "executor task",
    make=dict,
    executor=PairsOf(values.NAME, values.INTEGER, "whole amounts by resource, as {cores: 4, gpu: 1}"),
    task=PairsOf(values.NAME, values.NUMBER, "amounts by resource, as {cpus: 2, gpu: 0.5}"),
)
DRIVER: Final = record(
    Jobs,
    "the driver's keys",
    "outputs task-failures=task_failures_max stage-attempts=stage_attempts_max shuffled_offers clean_ms",
    make=dict,
)
_TOP: Final = ("targets", "jobs", "profiles", *(key.name for key in DRIVER.keys))
_STAGES: Final = "stages"


# reading


def read(path: Path, rules: ProfileRules | None = None) -> Workload:
    """The workload in a file. ``rules``: what executors are like by the application's conf. Raises FileError."""
    return understand(text_of(path, "a workload file"), str(path), rules)


def understand(text: str, name: str = "workload", rules: ProfileRules | None = None) -> Workload:
    """The workload that a text describes; ``name`` is for the messages. Raises FileError."""
    return understood(text, name, _workload, lambda workload: problems(workload, rules))


def targets(text: str, name: str = "targets") -> Targets:
    """Targets in one line, as ``0:10,60:50,300:0``: from 0 s on 10 executors, and so on; only the default profile's.

    A time is a number of seconds, or a duration such as ``5m``. Raises FileError.
    """
    if len(text) > TARGETS_LENGTH_MAX:
        raise FileError(name, None, f"too long: more than {TARGETS_LENGTH_MAX} characters")
    steps = []
    for place, step in enumerate(text.split(","), 1):
        at, colon, executors = step.strip().partition(":")
        at_ms = _time(at)
        if at_ms is None or not colon or re.fullmatch("[0-9]{1,10}", executors) is None:
            expected = "TIME:EXECUTORS, as 60:50 or 5m:50"
            raise FileError(name, None, f"step {place}: expected {expected}, got {step.strip()[:60]!r}")
        steps.append((at_ms, ((DEFAULT_PROFILE, int(executors)),)))
    workload = Targets(tuple(steps))
    found = problems(workload)
    if found:
        raise FileError(name, None, first_of(found))
    return workload


def _time(text: str) -> Millis | None:
    """A time on the command line: seconds where no unit is given."""
    try:
        return values.duration(f"{text}s" if re.fullmatch(r"[0-9.]+", text) else text)
    except ValueError:
        return None


def _workload(node: Node | None, reader: FileReader) -> Workload:
    if node is None or (isinstance(node, Scalar) and node.null):
        raise UnreadableValue(1, "the file", "expected targets or jobs, got nothing")
    reader.enter(node, "")
    if not isinstance(node, Mapping):
        raise values.refuse(node, "", f"a mapping with the keys {', '.join(_TOP)}")
    for name, (line, _) in node.items.items():
        if name not in _TOP:
            raise UnreadableValue(line, name, values.unknown(name, list(_TOP)))
    if ("targets" in node.items) == ("jobs" in node.items):
        raise UnreadableValue(node.line, "the file", "expected either targets or jobs")
    if "targets" in node.items:
        for name, (line, _) in node.items.items():
            if name != "targets":
                raise UnreadableValue(line, name, "this key belongs to jobs, and the file has targets")
        return _targets(*node.items["targets"], reader)
    line, jobs = node.items["jobs"]
    profiles = _profiles(*node.items["profiles"], reader) if "profiles" in node.items else ()
    rest = Mapping(node.line, {name: item for name, item in node.items.items() if name not in ("jobs", "profiles")})
    return Jobs(jobs=_jobs(line, jobs, reader), profiles=profiles, **DRIVER.fields(rest, "", reader))


def _targets(line: int, node: Node, reader: FileReader) -> Targets:
    steps: list[tuple[Millis, tuple[tuple[ProfileId, int], ...]]] = []
    for name, where, at, value in _named(
        "targets", line, node, reader, "targets by time, as {0s: 10, 60s: {0: 20, 1: 5}}"
    ):
        at_ms = values.DURATION.read(Scalar(at, name, True), where, reader)
        reader.lines.setdefault(f"targets.{at_ms}ms", at)
        if isinstance(value, Mapping):
            pairs = PairsOf(values.INTEGER, values.INTEGER, "").read(value, where, reader)
            steps.append((at_ms, tuple((ProfileId(profile), executors) for profile, executors in pairs)))
        elif isinstance(value, Scalar) and not value.null:
            steps.append((at_ms, ((DEFAULT_PROFILE, values.INTEGER.read(value, where, reader)),)))
        else:
            raise values.refuse(value, where, "a number of executors, or one by resource profile, as {0: 20, 1: 5}")
    return Targets(tuple(sorted(steps, key=lambda step: step[0])))


def _profiles(line: int, node: Node, reader: FileReader) -> tuple[Profile, ...]:
    found = []
    for name, where, at, value in _named(
        "profiles", line, node, reader, "profiles by id, as {1: {executor: {cores: 4}}}"
    ):
        number = values.INTEGER.read(Scalar(at, name, True), where, reader)
        found.append(Profile(id=ProfileId(number), **PROFILE.fields(value, where, reader)))
    return tuple(found)


def _jobs(line: int, node: Node, reader: FileReader) -> tuple[ScriptJob, ...]:
    found = []
    for name, where, at, value in _named(
        "jobs", line, node, reader, "jobs by name, as {load: {stages: {map: {tasks: 9}}}}"
    ):
        if not isinstance(value, Mapping):
            raise values.refuse(value, where, JOB.expected)
        if _STAGES not in value.items:
            raise UnreadableValue(at, where, f"expected the key {_STAGES} ({JOB.expected})")
        known = [*(key.name for key in JOB.keys), _STAGES]
        for key, (key_line, _) in value.items.items():
            if key not in known:
                raise UnreadableValue(key_line, f"{where}.{key}", values.unknown(key, known))
        rest = Mapping(value.line, {key: item for key, item in value.items.items() if key != _STAGES})
        stages = _stages(f"{where}.{_STAGES}", *value.items[_STAGES], reader)
        found.append(ScriptJob(name=name, stages=stages, **JOB.fields(rest, where, reader)))
    return tuple(found)


def _stages(path: str, line: int, node: Node, reader: FileReader) -> tuple[ScriptStage, ...]:
    named = _named(path, line, node, reader, "stages by name, as {map: {tasks: 200, duration: 2s}}")
    return tuple(ScriptStage(name=name, **STAGE.fields(value, where, reader)) for name, where, _, value in named)


def _named(path: str, line: int, node: Node, reader: FileReader, expected: str) -> Iterable[tuple[str, str, int, Node]]:
    """The entries of a mapping whose keys are names: name, path, line and value."""
    reader.enter(node, path, line)
    if not isinstance(node, Mapping):
        raise values.refuse(node, path, expected)
    for name, (at, value) in node.items.items():
        if "." in name and path != "targets":
            raise UnreadableValue(at, f"{path}.{name}"[:200], "expected a name without a dot")
        where = f"{path}.{name}"
        reader.enter(value, f"{path}[]", at)  # a name may hold what would count as depth
        reader.lines[where] = at
        yield name, where, at, value


# writing


def write(workload: Workload, heading: str = "") -> str:
    """The text of a workload file that reads as this workload. What has its default is left out.

    ``heading``: comment lines at the top. Profiles and jobs keep their order, targets are in order of time.
    """
    top: dict[str, Written] = {}
    blocks = {"targets", "profiles", "jobs"}
    if isinstance(workload, Targets):
        top["targets"] = {values.show_duration(at): _target(step) for at, step in workload.steps} or "{}"
        return document(top, blocks, heading=heading)
    top |= DRIVER.differing(workload, Jobs())
    top["profiles"] = {str(one.id): PROFILE.write(one) for one in workload.profiles}
    jobs: dict[str, Written] = {}
    for job in workload.jobs:
        name = quoted(job.name)
        blocks |= {f"jobs.{name}", f"jobs.{name}.{_STAGES}"}
        jobs[name] = JOB.differing(job, JOB.base) | {
            _STAGES: {quoted(one.name): STAGE.write(one) for one in job.stages}
        }
    top["jobs"] = jobs or "{}"
    return document(top, blocks, heading=heading)


def _target(step: Sequence[tuple[ProfileId, int]]) -> Written:
    if [profile for profile, _ in step] == [DEFAULT_PROFILE]:
        return str(step[0][1])
    return {str(profile): str(executors) for profile, executors in step}
