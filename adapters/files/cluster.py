"""The cluster file: a cluster described in YAML, read and written.

Every key has a default, so an empty file is the default cluster and a file says only what is different about its own.
What a file cannot mean is refused with the file, the line, the key and what was expected there; a file that is too large,
too deep or full of aliases is refused before it costs anything. ``write`` gives back a file that reads as the same
cluster, with remarks behind its keys where somebody has any (``podtide fit`` says on how much each number rests).

docs/fake-cluster.md describes the format.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf, Sequence, Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files.schema import (
    CPU,
    DELAY,
    DURATION,
    FLAG,
    INTEGER,
    MEMORY,
    NAME,
    NOTHING,
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
    refuse,
    unknown,
)
from podtide.adapters.files.yaml_reader import SIZE_MAX, Mapping, Node, Scalar, YamlError, parse, quoted
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.description import (
    KIND,
    STAGES,
    Api,
    Description,
    DriverPod,
    Executors,
    Fault,
    Image,
    Life,
    Lost,
    NodeEvent,
    NodeGroup,
    NodeHappening,
    Shape,
    Stage,
    Verb,
    Watch,
)
from podtide.domain.fakes.kubernetes.fit import Fitted
from podtide.domain.fakes.windows import ALWAYS_OPEN, Window


class WorldFileError(Exception):
    """A cluster file that cannot be used: which file, which line, which key, and what was expected."""

    def __init__(self, name: str, line: int | None, why: str) -> None:
        super().__init__(f"{name}: {why}" if line is None else f"{name}:{line}: {why}")
        self.line = line


WINDOW: Final = Record(
    Window,
    (
        Key("from", "from_ms", DURATION),
        Key("until", "until_ms", Maybe(DURATION)),
        Key("every", "every_ms", Maybe(DURATION)),
    ),
    ALWAYS_OPEN,
    "a time, as {from: 10m, until: 12m, every: 1h}",
)
SHAPE: Final = Record(
    Shape,
    (Key("cpu", "cpu_millis", CPU), Key("memory", "memory_mib", MEMORY)),
    Shape(),
    "a pod's requests, as {cpu: 4, memory: 8Gi}",
)
GROUP: Final = Record(
    NodeGroup,
    (
        Key("name", "name", NAME, required=True),
        Key("count", "count", INTEGER, required=True),
        Key("cpu", "cpu_millis", CPU),
        Key("memory", "memory_mib", MEMORY),
        Key("pods", "pods", INTEGER),
        Key("maximum", "maximum", Maybe(INTEGER)),
        Key("arrives", "arrives", DELAY),
        Key("idle", "idle_ms", DURATION),
        Key("replaced", "replaced", FLAG),
        Key("interruptions-per-hour", "interruptions_per_hour", NUMBER),
        Key("notice", "notice_ms", DURATION),
        Key("drained", "drained", FLAG),
        Key("image-present", "image_present", FLAG),
        Key("during", "during", WINDOW),
    ),
    NodeGroup("", 0),
    "a group of nodes, as {name: spot, count: 3}",
)
EVENT: Final = Record(
    NodeEvent,
    (
        Key("at", "at_ms", DURATION, required=True),
        Key("what", "what", choice(NodeHappening), required=True),
        Key("group", "group", NAME, required=True),
        Key("count", "count", INTEGER),
    ),
    NodeEvent(0, NodeHappening.JOIN, ""),
    "what happens to nodes, as {at: 10m, what: drain, group: worker}",
)
STAGE: Final = Record(
    Stage,
    (
        Key("from", "source", choice(Life), required=True),
        Key("next", "next", choice(Life), required=True),
        Key("delay", "delay", DELAY),
        Key("jitter", "jitter_ms", DURATION),
        Key("weight", "weight", NUMBER),
        Key("per-hour", "per_hour", Maybe(NUMBER)),
        Key("image", "image", choice(Image)),
        Key("profiles", "profiles", ListOf(INTEGER, "a list of resource profile ids")),
        Key("groups", "groups", ListOf(NAME, "a list of groups of nodes")),
        Key("exits", "exits", PairsOf(INTEGER, NUMBER, "weights by exit code, as {1: 9, 137: 1}")),
        Key("reason", "reason", Maybe(NAME)),
        Key("message", "message", Maybe(NAME)),
        Key("during", "during", WINDOW),
    ),
    Stage("", Life.CREATED, Life.CREATED),
    "a stage, as {from: running, next: failed, weight: 0.1, delay: 5s}, or null to take a stage away",
)
FAULT: Final = Record(
    Fault,
    (
        Key("status", "status", Maybe(INTEGER)),
        Key("lost", "lost", Maybe(choice(Lost))),
        Key("probability", "probability", NUMBER),
        Key("verbs", "verbs", ListOf(choice(Verb), "a list of verbs")),
        Key("resources", "resources", ListOf(NAME, "a list of resources, as [pods]")),
        Key("retry-after", "retry_after_ms", Maybe(DURATION)),
        Key("message", "message", Maybe(NAME)),
        Key("during", "during", WINDOW),
    ),
    Fault(),
    "a fault of the API, as {status: 429, probability: 0.1, verbs: [create]}",
)
API: Final = Record(
    Api,
    (
        Key("latency", "latency", DELAY),
        Key("serial", "serial", FLAG),
        Key("retries", "retries", INTEGER),
        Key("backoff", "backoff_ms", DURATION),
        Key("timeout", "timeout_ms", DURATION),
        Key("quota", "quota_pods", Maybe(INTEGER)),
        Key("stale", "stale", NUMBER),
        Key("stale-age", "stale_age", DELAY),
        Key("faults", "faults", ListOf(FAULT, "a list of faults")),
    ),
    Api(),
    "the API's keys",
)
WATCH: Final = Record(
    Watch,
    (
        Key("delay", "delay", DELAY),
        Key("loss", "loss", NUMBER),
        Key("duplicates", "duplicates", NUMBER),
        Key("reordered", "reordered", NUMBER),
        Key("late", "late", DELAY),
        Key("breaks-per-hour", "breaks_per_hour", NUMBER),
        Key("broken", "broken", DELAY),
        Key("expired", "expired", NUMBER),
        Key("relists", "relists", FLAG),
        Key("outages", "outages", ListOf(WINDOW, "a list of times, as [{from: 5m, until: 6m}]")),
        Key("during", "during", WINDOW),
    ),
    Watch(),
    "the watch's keys",
)
DRIVER: Final = Record(
    DriverPod,
    (Key("present", "present", FLAG), Key("ready", "ready_ms", DURATION)),
    DriverPod(),
    "the driver pod's keys, present and ready",
)
NODES: Final = Record(
    dict,
    (
        Key("groups", "groups", ListOf(GROUP, "a list of groups of nodes")),
        Key("events", "node_events", ListOf(EVENT, "a list of what happens to nodes")),
        Key("orphaned", "orphaned_ms", DURATION),
        Key("scan", "scan_ms", DURATION),
    ),
    KIND,
    "the nodes' keys",
)
EXECUTORS: Final = Record(
    dict,
    (
        Key("cpu", "cpu_millis", CPU),
        Key("memory", "memory_mib", MEMORY),
        Key("profiles", "profiles", PairsOf(INTEGER, SHAPE, "requests by resource profile, as {1: {cpu: 4}}")),
        Key("image", "image", NAME),
        Key("grace", "grace_ms", DURATION),
        Key("decommission", "decommission", FLAG),
        Key("rpc", "rpc", DELAY),
        Key("silence", "silence_ms", DURATION),
    ),
    Executors(),
    "the executors' keys",
)
KUBERNETES: Final = "kubernetes"
"""The ``kind`` of these files, which is what a file without one is."""

_TOP: Final = ("seed", "calm", "nodes", "executors", "stages", "api", "watch", "driver", "controllers",
               "kind")  # fmt: skip


# reading


def read(path: Path) -> Description:
    """The cluster that a file describes. Raises WorldFileError."""
    return understand(text_of(path), str(path))


def text_of(path: Path) -> str:
    """What a cluster file says, within bounds. Raises WorldFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as fault:
        raise WorldFileError(str(path), None, f"cannot be read: {fault.strerror or fault}") from fault
    if len(data) > SIZE_MAX:
        raise WorldFileError(str(path), None, f"too long for a cluster file: more than {SIZE_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise WorldFileError(str(path), line, "expected UTF-8 text") from fault


def understand(text: str, name: str = "cluster") -> Description:
    """The cluster that a text describes; ``name`` is for the messages. Raises WorldFileError."""
    reader = Reader()
    try:
        node = parse(text)
        description = KIND if node is None else _description(node, reader)
    except (YamlError, Unreadable) as fault:
        key = f"{fault.key}: " if isinstance(fault, Unreadable) else ""
        raise WorldFileError(name, fault.line, f"{key}{fault.why}") from None
    insist(problems(description), reader, name)
    return description


def insist(found: Sequence[tuple[str, str]], reader: Reader, name: str) -> None:
    """Refuse a file that describes what cannot be. Raises WorldFileError with the first of the problems."""
    if found:
        where, expected = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise WorldFileError(name, _line(reader, where), f"{where}: expected {expected}{more}")


def _line(reader: Reader, where: str) -> int | None:
    """The line of a key, or of the nearest one around it that stands in the file."""
    while where:
        if where in reader.lines:
            return reader.lines[where]
        where = where[: max(where.rfind("."), where.rfind("["), 0)]
    return None


def _description(node: Node, reader: Reader) -> Description:
    reader.enter(node, "")
    if isinstance(node, Scalar) and node.null:
        return KIND
    if not isinstance(node, Mapping):
        raise refuse(node, "", f"a mapping with the keys {', '.join(_TOP)}")
    fields: dict[str, Any] = {}
    executors: dict[str, Any] = {}
    for name, (line, value) in node.items.items():
        reader.enter(value, name, line)
        match name:
            case "kind":
                if NAME.read(value, name, reader) != KUBERNETES:
                    raise refuse(
                        value, name, f"{KUBERNETES} here (a file of kind yarn describes another sort of cluster)"
                    )
            case "seed":
                fields["seed"] = INTEGER.read(value, name, reader)
            case "calm":
                fields["calm_ms"] = Maybe(DURATION).read(value, name, reader)
            case "nodes":
                fields |= NODES.fields(value, name, reader)
            case "executors":
                executors |= _executors(value, reader)
            case "stages":
                executors["stages"] = _stages(value, reader)
            case "api":
                fields["api"] = API.read(value, name, reader)
            case "watch":
                fields["watch"] = WATCH.read(value, name, reader)
            case "driver":
                fields["driver"] = DRIVER.read(value, name, reader)
            case "controllers":
                fields["controllers"] = DELAY.read(value, name, reader)
            case _:
                raise Unreadable(line, name, unknown(name, list(_TOP)))
    return replace(KIND, executors=replace(KIND.executors, **executors), **fields)


def _executors(node: Node, reader: Reader) -> dict[str, Any]:
    fields = EXECUTORS.fields(node, "executors", reader)
    shape = {key: fields.pop(key) for key in ("cpu_millis", "memory_mib") if key in fields}
    return {**fields, "shape": replace(KIND.executors.shape, **shape)}


def _stages(node: Node, reader: Reader) -> tuple[Stage, ...]:
    """The default stages with what the file says of them, then its own, in its order."""
    if isinstance(node, Scalar) and node.null:
        return STAGES
    if not isinstance(node, Mapping):
        raise refuse(node, "stages", "stages by name, as {crash: {from: running, next: failed, weight: 0.1}}")
    stages = {stage.name: stage for stage in STAGES}
    for name, (line, value) in node.items.items():
        where = f"stages.{name}"
        reader.enter(value, where, line)
        if isinstance(value, Scalar) and value.null:
            if name not in stages:
                raise Unreadable(line, where, f"there is no stage of this name to take away{_known(stages)}")
            del stages[name]
        elif name in stages:
            stages[name] = replace(stages[name], **STAGE.fields(value, where, reader, required=False))
        else:
            stages[name] = Stage(name=name, **STAGE.fields(value, where, reader))
    return tuple(stages.values())


def _known(stages: MappingOf[str, Stage]) -> str:
    return f"; the stages are {', '.join(stages)}"


# writing


def write(description: Description, notes: MappingOf[str, str] | None = None, heading: str = "") -> str:
    """The text of a cluster file that reads as this cluster. What has its default is left out.

    ``notes``: remarks by the path of a key, as ``api.latency``, put behind it. ``heading``: comment lines at the top.
    """
    top: dict[str, Written] = {}
    if description.seed != KIND.seed:
        top["seed"] = str(description.seed)
    if description.calm_ms is not None:
        top["calm"] = DURATION.write(description.calm_ms)
    top["nodes"] = NODES.differing(description, KIND)
    executors = description.executors
    top["executors"] = SHAPE.differing(executors.shape, KIND.executors.shape) | Record(
        dict, EXECUTORS.keys[2:], EXECUTORS.base, ""
    ).differing(executors, KIND.executors)
    top["stages"] = _written_stages(executors.stages)
    top["api"] = API.differing(description.api, KIND.api)
    top["watch"] = WATCH.differing(description.watch, KIND.watch)
    top["driver"] = DRIVER.differing(description.driver, KIND.driver)
    if description.controllers != KIND.controllers:
        top["controllers"] = DELAY.write(description.controllers)
    return emitted(top, _BLOCKS, notes, heading)


def emitted(
    top: MappingOf[str, Written], blocks: AbstractSet[str], notes: MappingOf[str, str] | None = None, heading: str = ""
) -> str:
    """The text of a file with these sections; those that are empty are left out. ``blocks``: what gets lines of its own."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    _emit({key: value for key, value in top.items() if value != {}}, "", "", notes or {}, blocks, lines)
    return "".join(f"{line}\n" for line in lines)


def _written_stages(stages: tuple[Stage, ...]) -> dict[str, Written]:
    defaults = {stage.name: stage for stage in STAGES}
    mine = {stage.name: stage for stage in stages}
    written: dict[str, Written] = {quoted(name): NOTHING for name in defaults if name not in mine}
    for name, stage in mine.items():
        default = defaults.get(name)
        if default is None:
            written[quoted(name)] = STAGE.write(stage)
        elif stage != default:
            written[quoted(name)] = STAGE.differing(stage, default)
    return written


def write_fitted(fitted: Fitted, heading: str = "") -> str:
    """The file of a fitted cluster: behind each number how many observations it rests on, at the top what was not seen."""
    unseen = [e.key + (f" ({e.note})" if e.note else "") for e in fitted.evidence if not e.observations]
    lines = [*heading.splitlines()]
    if unseen:
        lines += ["Not seen, and left at the default:", *(f"  {key}" for key in unseen)]
    notes = {e.key: e.text for e in fitted.evidence if e.observations}
    return write(fitted.description, notes, "\n".join(lines))


_BLOCKS: Final = frozenset({"nodes", "executors", "stages", "api", "watch", "driver", "nodes.groups", "nodes.events",
                            "api.faults", "watch.outages", "executors.profiles"})  # fmt: skip


def _emit(
    mapping: dict[str, Written],
    path: str,
    indent: str,
    notes: MappingOf[str, str],
    blocks: AbstractSet[str],
    lines: list[str],
) -> None:
    """Sections in blocks, what is in them in one line each."""
    for key, value in mapping.items():
        where = f"{path}.{key}" if path else key
        note = f"  # {' '.join(notes[where].split())}" if where in notes else ""
        if where in blocks and value and not isinstance(value, str):
            lines.append(f"{indent}{key}:{note}")
            if isinstance(value, dict):
                _emit(value, where, indent + "  ", notes, blocks, lines)
            else:
                for place, item in enumerate(value):
                    remark = notes.get(f"{where}[{place}]", "")
                    lines.append(f"{indent}  - {_flow(item)}" + (f"  # {' '.join(remark.split())}" if remark else ""))
        else:
            lines.append(f"{indent}{key}: {_flow(value)}{note}")


def _flow(value: Written) -> str:
    match value:
        case str():
            return value
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
