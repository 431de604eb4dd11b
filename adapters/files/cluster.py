"""The cluster file: a cluster described in YAML, read and written.

Every key has a default, so an empty file is the default cluster and a file says only what is different about its own.
What a file cannot mean is refused with the file, the line, the key and what was expected there; a file that is too large,
too deep or full of aliases is refused before it costs anything. ``write`` gives back a file that reads as the same
cluster, with remarks behind its keys where the caller gives them (``podtide fit`` says on how much each number rests).

docs/reference/fake-cluster.md describes the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping as MappingOf, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from podtide.adapters.files import values
from podtide.adapters.files.schema import (
    FileKey,
    ListOf,
    Maybe,
    PairsOf,
    RecordCodec,
    record,
    text_of as text_of_file,
    understood,
)
from podtide.adapters.files.values import FileReader, Text, UnreadableValue
from podtide.adapters.files.yaml_reader import Mapping, Node, Scalar
from podtide.adapters.files.yaml_writer import NOTHING, Written, document, quoted
from podtide.domain.fakes.fitting import Fitted
from podtide.domain.fakes.kubernetes import description as described
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.description import KIND, STAGES, Description, PodStage
from podtide.domain.fakes.windows import Window

KUBERNETES: Final = "kubernetes"
"""The ``kind`` of these files, which is what a file without one is."""

WINDOW: Final = record(Window, "a time, as {from: 10m, until: 12m, every: 1h}")
SHAPE: Final = record(described.PodShape, "a pod's requests, as {cpu: 4, memory: 8Gi}")
GROUP: Final = record(described.NodeGroup, "a group of nodes, as {name: spot, count: 3}")
EVENT: Final = record(described.NodeEvent, "what happens to nodes, as {at: 10m, what: drain, group: worker}")
STAGE: Final = record(
    PodStage,
    "a stage, as {from: running, next: failed, weight: 0.1, delay: 5s}, or null to take a stage away",
    "from=source next delay jitter_ms weight per_hour image profiles groups exits reason message during",
    profiles=ListOf(values.INTEGER, "a list of resource profile ids"),
    groups=ListOf(values.NAME, "a list of groups of nodes"),
    exits=PairsOf(values.INTEGER, values.NUMBER, "weights by exit code, as {1: 9, 137: 1}"),
)
FAULT: Final = record(
    described.Fault,
    "a fault of the API, as {status: 429, probability: 0.1, verbs: [create]}",
    verbs=ListOf(values.choice(described.Verb), "a list of verbs"),
    resources=ListOf(values.NAME, "a list of resources, as [pods]"),
    agents=ListOf(values.NAME, "a list of parts of a User-Agent, as [kubectl]"),
)
API: Final = record(
    described.Api,
    "the API's keys",
    "latency serial retries backoff_ms timeout_ms quota=quota_pods stale stale_age faults",
    faults=ListOf(FAULT, "a list of faults"),
)
WATCH: Final = record(
    described.Watch,
    "the watch's keys",
    outages=ListOf(WINDOW, "a list of times, as [{from: 5m, until: 6m}]"),
)
DRIVER: Final = record(described.FakeDriverPod, "the driver pod's keys, present and ready")
NODES: Final = record(
    Description,
    "the nodes' keys",
    "groups events=node_events orphaned_ms scan_ms",
    make=dict,
    groups=ListOf(GROUP, "a list of groups of nodes"),
    node_events=ListOf(EVENT, "a list of what happens to nodes"),
)
EXECUTORS: Final = record(
    described.Executors,
    "the executors' keys",
    "profiles image grace_ms decommission rpc silence_ms",
    make=dict,
    profiles=PairsOf(values.INTEGER, SHAPE, "requests by resource profile, as {1: {cpu: 4}}"),
)


class _Stages:
    """The default stages with what the file says of them, then its own, in its order."""

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        if isinstance(node, Scalar) and node.null:
            return STAGES
        if not isinstance(node, Mapping):
            raise values.refuse(node, path, "stages by name, as {crash: {from: running, next: failed, weight: 0.1}}")
        stages = {stage.name: stage for stage in STAGES}
        for name, (line, value) in node.items.items():
            where = f"{path}.{name}"
            reader.enter(value, where, line)
            if isinstance(value, Scalar) and value.null:
                if name not in stages:
                    known = f"; the stages are {', '.join(stages)}"
                    raise UnreadableValue(line, where, f"there is no stage of this name to take away{known}")
                del stages[name]
            elif name in stages:
                stages[name] = replace(stages[name], **STAGE.fields(value, where, reader, required=False))
            else:
                stages[name] = PodStage(name=name, **STAGE.fields(value, where, reader))
        return tuple(stages.values())

    def write(self, value: Any) -> Written:
        """What differs from the default stages."""
        defaults = {stage.name: stage for stage in STAGES}
        mine = {stage.name: stage for stage in value}
        written: dict[str, Written] = {quoted(name): NOTHING for name in defaults if name not in mine}
        for name, stage in mine.items():
            default = defaults.get(name)
            if default is None:
                written[quoted(name)] = STAGE.write(stage)
            elif stage != default:
                written[quoted(name)] = STAGE.differing(stage, default)
        return written


def _kind(text: str) -> str:
    if text != KUBERNETES:
        raise ValueError(text)
    return text


_STAGES: Final = _Stages()
CHANCE: Final = RecordCodec(
    dict, (FileKey("seed", "seed", values.INTEGER), FileKey("calm", "calm_ms", Maybe(values.DURATION))), None, ""
)
"""What every cluster file may begin with."""

_PLAIN: Final = record(Description, "", "api watch driver controllers", make=dict)
_TOP: Final = RecordCodec(
    dict,
    (
        *CHANCE.keys,
        FileKey("nodes", "nodes", NODES),
        FileKey("executors", "executors", RecordCodec(dict, SHAPE.keys + EXECUTORS.keys, None, EXECUTORS.expected)),
        FileKey("stages", "stages", _STAGES),
        *_PLAIN.keys,
        FileKey(
            "kind",
            "kind",
            Text(f"{KUBERNETES} here (a file of kind yarn describes another sort of cluster)", _kind, str),
        ),
    ),
    None,
    "",
)
_BLOCKS: Final = frozenset({"nodes", "executors", "stages", "api", "watch", "driver", "nodes.groups", "nodes.events",
                            "api.faults", "watch.outages", "executors.profiles"})  # fmt: skip


Problems: TypeAlias = Callable[[Description], Sequence[tuple[str, str]]]


def read(path: Path, beyond: Problems = lambda _: ()) -> Description:
    """The cluster that a file describes. ``beyond``: what its reader cannot do of it, by key. Raises FileError."""
    return understand(text_of(path), str(path), beyond)


def text_of(path: Path) -> str:
    """What a cluster file says, within bounds. Raises FileError."""
    return text_of_file(path, "a cluster file")


def understand(text: str, name: str = "cluster", beyond: Problems = lambda _: ()) -> Description:
    """The cluster that a text describes; ``name`` is for the messages. Raises FileError."""
    return understood(text, name, _description, lambda read: problems(read) or beyond(read))


def _description(node: Node | None, reader: FileReader) -> Description:
    if node is None:
        return KIND
    reader.enter(node, "")
    if not isinstance(node, Mapping) and not (isinstance(node, Scalar) and node.null):
        raise values.refuse(node, "", f"a mapping with the keys {', '.join(key.name for key in _TOP.keys)}")
    fields = _TOP.fields(node, "", reader)
    fields.pop("kind", None)
    nodes, executors = fields.pop("nodes", {}), fields.pop("executors", {})
    shape = {key: executors.pop(key) for key in ("cpu_millis", "memory_mib") if key in executors}
    executors["shape"] = replace(KIND.executors.shape, **shape)
    executors["stages"] = fields.pop("stages", STAGES)
    return replace(KIND, executors=replace(KIND.executors, **executors), **nodes, **fields)


def write(description: Description, notes: MappingOf[str, str] | None = None, heading: str = "") -> str:
    """The text of a cluster file that reads as this cluster. What has its default is left out.

    ``notes``: remarks by the path of a key, as ``api.latency``, put behind it. ``heading``: comment lines at the top.
    """
    executors = description.executors
    shape = SHAPE.differing(executors.shape, KIND.executors.shape)
    sections: dict[str, Written] = {
        **CHANCE.differing(description, KIND),
        "nodes": NODES.differing(description, KIND),
        "executors": shape | EXECUTORS.differing(executors, KIND.executors),
        "stages": _STAGES.write(executors.stages),
        **_PLAIN.differing(description, KIND),
    }
    return document(sections, _BLOCKS, notes, heading)


def write_fitted(fitted: Fitted[Description], heading: str = "") -> str:
    """The file of a fitted cluster: behind each number how many observations it rests on, at the top what was not seen."""
    notes, heading = fitted_words(fitted, heading)
    return write(fitted.description, notes, heading)


def fitted_words(fitted: Fitted[Any], heading: str) -> tuple[dict[str, str], str]:
    """The notes behind the numbers of a fitted cluster, and what stands at the top of its file."""
    unseen = [e.key + (f" ({e.note})" if e.note else "") for e in fitted.evidence if not e.observations]
    lines = [*heading.splitlines()]
    if unseen:
        lines += ["Not seen, and left at the default:", *(f"  {key}" for key in unseen)]
    return {e.key: e.text for e in fitted.evidence if e.observations}, "\n".join(lines)
