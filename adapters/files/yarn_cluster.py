"""The cluster file of a YARN cluster: described in YAML, read and written.

``kind: yarn`` at the top tells it from a Kubernetes cluster's file (``files.cluster``), with which it shares everything
else: each key has a default, so that ``kind: yarn`` alone is the default cluster; what a file cannot mean is refused
with the file, the line, the key and what was expected there; what a file may cost is bounded before it is understood;
``write`` gives back a file that reads as the same cluster. ``read_cluster`` reads either kind.

docs/fake-yarn.md describes the format.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files import cluster as world_file
from podtide.adapters.files.cluster import KUBERNETES, WINDOW, WorldFileError, emitted, insist, text_of
from podtide.adapters.files.schema import (
    DELAY,
    DURATION,
    FLAG,
    INTEGER,
    MEMORY,
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
    refuse,
    unknown,
)
from podtide.adapters.files.yaml_reader import Mapping, Node, Scalar, YamlError, parse
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.description import (
    YARN,
    CallFault,
    Death,
    Executors,
    LaunchFault,
    Manager,
    Master,
    Mistakes,
    NodeEvent,
    NodeHappening,
    Nodes,
    Phase,
    Queue,
    Tenant,
    YarnDescription,
)

KIND: Final = "yarn"


class _Amounts:
    """Other resources by name, kept sorted."""

    _pairs: Final = PairsOf(NAME, INTEGER, "amounts by resource, as {yarn.io/gpu: 2}")

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The amounts, sorted by name."""
        return tuple(sorted(self._pairs.read(node, path, reader)))

    def write(self, value: Any) -> Written:
        """The mapping."""
        return self._pairs.write(value)


_GROUPS: Final = ListOf(NAME, "a list of groups of nodes")
_PROFILES: Final = ListOf(INTEGER, "a list of resource profile ids")
GROUP: Final = Record(
    Nodes,
    (
        Key("name", "name", NAME, required=True),
        Key("count", "count", INTEGER),
        Key("hosts", "hosts", ListOf(NAME, "a list of host names")),
        Key("racks", "racks", ListOf(NAME, "a list of racks, as [/rack-1, /rack-2]")),
        Key("memory", "memory_mib", MEMORY),
        Key("vcores", "vcores", INTEGER),
        Key("resources", "custom", _Amounts()),
        Key("label", "label", NAME),
        Key("lost-per-hour", "lost_per_hour", NUMBER),
        Key("decommissioned-per-hour", "decommissioned_per_hour", NUMBER),
        Key("back", "back", Maybe(DELAY)),
        Key("during", "during", WINDOW),
    ),
    Nodes("", -1),
    "a group of nodes, as {name: worker, count: 12}",
)


class _Group:
    """A row of nodes; how many there are may follow from their names."""

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The row."""
        fields = GROUP.fields(node, path, reader)
        if "count" not in fields:
            if "hosts" not in fields:
                raise Unreadable(node.line, path, f"expected the key count, or hosts ({GROUP.expected})")
            fields["count"] = len(fields["hosts"])
        return Nodes(**fields)

    def write(self, value: Any) -> Written:
        """What differs from the defaults."""
        return GROUP.write(value)


EVENT: Final = Record(
    NodeEvent,
    (
        Key("at", "at_ms", DURATION, required=True),
        Key("what", "what", choice(NodeHappening), required=True),
        Key("group", "group", NAME, required=True),
        Key("count", "count", INTEGER),
        Key("host", "host", Maybe(NAME)),
        Key("back", "back", Maybe(DELAY)),
        Key("stays", "stays", FLAG),
    ),
    NodeEvent(0, NodeHappening.JOIN, ""),
    "what happens to nodes, as {at: 10m, what: lose, group: worker}",
)
NODES: Final = Record(
    dict,
    (
        Key("groups", "nodes", ListOf(_Group(), "a list of groups of nodes")),
        Key("events", "node_events", ListOf(EVENT, "a list of what happens to nodes")),
    ),
    YARN,
    "the nodes' keys",
)
TIMES: Final = Record(
    dict,
    (
        Key("heartbeat", "heartbeat_ms", DURATION),
        Key("expiry", "node_expiry_ms", DURATION),
        Key("decommission", "decommission_ms", DURATION),
    ),
    Manager(),
    "the nodes' keys",
)
TENANT: Final = Record(
    Tenant,
    (
        Key("name", "name", NAME),
        Key("memory", "memory_mib", MEMORY),
        Key("vcores", "vcores", INTEGER),
        Key("during", "during", WINDOW),
    ),
    Tenant(),
    "somebody else in the queue, as {name: nightly, memory: 256Gi, vcores: 64, during: {from: 10m, until: 30m}}",
)
QUEUE: Final = Record(
    Queue,
    (
        Key("memory", "memory_mib", Maybe(MEMORY)),
        Key("vcores", "vcores", Maybe(INTEGER)),
        Key("tenants", "tenants", ListOf(TENANT, "a list of tenants")),
        Key("preempts", "preempts", FLAG),
        Key("preempt-wait", "wait_ms", DURATION),
        Key("preempt-every", "round_ms", DURATION),
        Key("preempt-share", "share", NUMBER),
    ),
    Queue(),
    "the queue's keys",
)
FAULT: Final = Record(
    CallFault,
    (
        Key("what", "what", NAME),
        Key("probability", "probability", NUMBER),
        Key("fatal", "fatal", FLAG),
        Key("slow", "slow", Maybe(DELAY)),
        Key("during", "during", WINDOW),
    ),
    CallFault(),
    "a fault of the resource manager, as {probability: 0.1, during: {from: 5m, until: 6m}}",
)
MISTAKES: Final = Record(
    Mistakes,
    (
        Key("surplus", "surplus", NUMBER),
        Key("unknown", "unknown", NUMBER),
        Key("small", "small", NUMBER),
        Key("partial", "partial", NUMBER),
        Key("repeated", "repeated", NUMBER),
        Key("during", "during", WINDOW),
    ),
    Mistakes(),
    "mistakes of the resource manager, as {surplus: 0.01, partial: 0.1}",
)
MANAGER: Final = Record(
    dict,
    (
        Key("latency", "latency", DELAY),
        Key("node-delay", "node_delay", INTEGER),
        Key("rack-delay", "rack_delay", INTEGER),
        Key("anywhere-per-heartbeat", "anywhere_per_heartbeat", INTEGER),
        Key("minimum-memory", "minimum_mib", MEMORY),
        Key("minimum-vcores", "minimum_vcores", INTEGER),
        Key("maximum-memory", "maximum_mib", Maybe(MEMORY)),
        Key("maximum-vcores", "maximum_vcores", Maybe(INTEGER)),
        Key("dominant", "dominant", FLAG),
        Key("expiry", "expiry_ms", DURATION),
        Key("faults", "faults", ListOf(FAULT, "a list of faults")),
        Key("mistakes", "mistakes", MISTAKES),
    ),
    Manager(),
    "the resource manager's keys",
)
LAUNCH_FAULT: Final = Record(
    LaunchFault,
    (
        Key("what", "what", NAME),
        Key("probability", "probability", NUMBER),
        Key("fatal", "fatal", FLAG),
        Key("groups", "groups", _GROUPS),
        Key("during", "during", WINDOW),
    ),
    LaunchFault(),
    "a launch that fails, as {probability: 0.1, groups: [worker]}",
)
DEATH: Final = Record(
    Death,
    (
        Key("phase", "phase", choice(Phase)),
        Key("share", "share", NUMBER),
        Key("per-hour", "per_hour", NUMBER),
        Key("delay", "delay", DELAY),
        Key("statuses", "statuses", PairsOf(INTEGER, NUMBER, "weights by exit status, as {1: 9, -104: 1}")),
        Key("diagnostics", "diagnostics", Maybe(NAME)),
        Key("profiles", "profiles", _PROFILES),
        Key("groups", "groups", _GROUPS),
        Key("during", "during", WINDOW),
    ),
    Death(),
    "a way to end, as {phase: running, per-hour: 0.5, statuses: {-104: 1}}",
)
EXECUTORS: Final = Record(
    Executors,
    (
        Key("launch", "launch", DELAY),
        Key("localize", "localize", DELAY),
        Key("localized", "localized", DELAY),
        Key("start", "start", DELAY),
        Key("drain", "drain", DELAY),
        Key("exit", "exit", DELAY),
        Key("rpc", "rpc", DELAY),
        Key("silence", "silence_ms", DURATION),
        Key("unreachable", "unreachable_ms", DURATION),
        Key("launch-faults", "launch_faults", ListOf(LAUNCH_FAULT, "a list of launches that fail")),
        Key("deaths", "deaths", ListOf(DEATH, "a list of ways to end")),
    ),
    Executors(),
    "the executors' keys",
)
MASTER: Final = Record(
    Master,
    (
        Key("registers", "registers", DELAY),
        Key("restarts", "restarts", ListOf(DURATION, "a list of times, as [30m, 2h]")),
        Key("back", "back", DELAY),
    ),
    Master(),
    "the application master's keys",
)
_TOP: Final = ("kind", "seed", "calm", "nodes", "queue", "manager", "executors", "master")
_NODE_TIMES: Final = frozenset(key.name for key in TIMES.keys)
_BLOCKS: Final = frozenset({"nodes", "nodes.groups", "nodes.events", "queue", "queue.tenants", "manager", "manager.faults",
                            "executors", "executors.launch-faults", "executors.deaths", "master"})  # fmt: skip


# reading


def is_yarn(document: Node | None) -> bool:
    """Whether a cluster file, parsed, describes a YARN cluster: ``kind: yarn`` at its top."""
    if not isinstance(document, Mapping) or "kind" not in document.items:
        return False
    _, kind = document.items["kind"]
    return isinstance(kind, Scalar) and kind.text == KIND


def read_cluster(path: Path) -> Description | YarnDescription:
    """The cluster that a file describes, of whichever kind it is. Raises WorldFileError."""
    text, name = text_of(path), str(path)
    try:
        document = parse(text)
    except YamlError as fault:
        raise WorldFileError(name, fault.line, fault.why) from None
    if isinstance(document, Mapping) and "kind" in document.items:
        line, kind = document.items["kind"]
        if not isinstance(kind, Scalar) or kind.text not in {KIND, KUBERNETES}:
            raise WorldFileError(name, line, f"kind: expected {KIND} or {KUBERNETES}{_got(kind)}")
    return understand(text, name) if is_yarn(document) else world_file.understand(text, name)


def _got(node: Node) -> str:
    return f", got {node.text[:60]!r}" if isinstance(node, Scalar) and node.text else ""


def read(path: Path) -> YarnDescription:
    """The YARN cluster that a file describes. Raises WorldFileError, also for a file of another kind."""
    return understand(text_of(path), str(path))


def understand(text: str, name: str = "cluster") -> YarnDescription:
    """The YARN cluster that a text describes; ``name`` is for the messages. Raises WorldFileError."""
    reader = Reader()
    try:
        description = _description(parse(text), reader)
    except (YamlError, Unreadable) as fault:
        key = f"{fault.key}: " if isinstance(fault, Unreadable) else ""
        raise WorldFileError(name, fault.line, f"{key}{fault.why}") from None
    insist(problems(description), reader, name)
    return description


def _description(node: Node | None, reader: Reader) -> YarnDescription:
    if node is not None:
        reader.enter(node, "")
    if not isinstance(node, Mapping):
        line = 1 if node is None else node.line
        raise Unreadable(line, "the file", f"expected a mapping with the keys {', '.join(_TOP)}")
    if not is_yarn(node):
        line, kind = node.items.get("kind", (node.line, None))
        raise Unreadable(line, "kind", f"expected {KIND} (a YARN cluster){'' if kind is None else _got(kind)}")
    fields: dict[str, Any] = {}
    manager: dict[str, Any] = {}
    for name, (line, value) in node.items.items():
        reader.enter(value, name, line)
        match name:
            case "kind":
                pass
            case "seed":
                fields["seed"] = INTEGER.read(value, name, reader)
            case "calm":
                fields["calm_ms"] = Maybe(DURATION).read(value, name, reader)
            case "nodes":
                rows, times = _nodes(value, reader)
                fields |= rows
                manager |= times
            case "queue":
                fields["queue"] = QUEUE.read(value, name, reader)
            case "manager":
                manager |= MANAGER.fields(value, name, reader)
            case "executors":
                fields["executors"] = EXECUTORS.read(value, name, reader)
            case "master":
                fields["master"] = MASTER.read(value, name, reader)
            case _:
                raise Unreadable(line, name, unknown(name, list(_TOP)))
    return replace(YARN, manager=replace(YARN.manager, **manager), **fields)


def _nodes(node: Node, reader: Reader) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the section says of rows and events, and of times that are the resource manager's."""
    if isinstance(node, Scalar) and node.null:
        return {}, {}
    if not isinstance(node, Mapping):
        raise refuse(node, "nodes", NODES.expected)
    known = [*(key.name for key in NODES.keys), *_NODE_TIMES]
    for name, (line, _) in node.items.items():
        if name not in known:
            raise Unreadable(line, f"nodes.{name}", unknown(name, sorted(known)))
    times = {name: value for name, value in node.items.items() if name in _NODE_TIMES}
    rows = {name: value for name, value in node.items.items() if name not in _NODE_TIMES}
    fields = NODES.fields(Mapping(node.line, rows), "nodes", reader)
    return fields, TIMES.fields(Mapping(node.line, times), "nodes", reader)


# writing


def write(description: YarnDescription, heading: str = "", notes: MappingOf[str, str] | None = None) -> str:
    """The text of a cluster file that reads as this cluster. What has its default is left out.

    ``heading``: comment lines at the top. ``notes``: remarks by the path of a key, as ``manager.latency``, put behind it.
    """
    top: dict[str, Written] = {"kind": KIND}
    if description.seed != YARN.seed:
        top["seed"] = str(description.seed)
    if description.calm_ms is not None:
        top["calm"] = DURATION.write(description.calm_ms)
    manager = description.manager
    top["nodes"] = NODES.differing(description, YARN) | TIMES.differing(manager, YARN.manager)
    top["queue"] = QUEUE.differing(description.queue, YARN.queue)
    top["manager"] = MANAGER.differing(manager, YARN.manager)
    top["executors"] = EXECUTORS.differing(description.executors, YARN.executors)
    top["master"] = MASTER.differing(description.master, YARN.master)
    return emitted(top, _BLOCKS, notes, heading)
