"""The cluster file of a YARN cluster: described in YAML, read and written.

``kind: yarn`` at the top tells it from a Kubernetes cluster's file (``files.cluster``), with which it shares everything
else: each key has a default, so that ``kind: yarn`` alone is the default cluster; what a file cannot mean is refused
with the file, the line, the key and what was expected there; what a file may cost is bounded before it is understood;
``write`` gives back a file that reads as the same cluster. ``read_cluster`` reads either kind.

docs/reference/fake-yarn.md describes the format.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files import cluster as kubernetes_file
from podtide.adapters.files.cluster import CHANCE, KUBERNETES, fitted_words, text_of
from podtide.adapters.files.schema import FileError, FileKey, ListOf, PairsOf, RecordCodec, record, understood
from podtide.adapters.files.values import DURATION, INTEGER, NAME, NUMBER, FileReader, UnreadableValue
from podtide.adapters.files.yaml_reader import Mapping, Node, Scalar, YamlError, parse
from podtide.adapters.files.yaml_writer import Written, document
from podtide.domain.fakes.fitting import Fitted
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn import description as described
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.description import YARN, Nodes, YarnDescription

KIND: Final = "yarn"


_GROUPS: Final = ListOf(NAME, "a list of groups of nodes")
GROUP: Final = record(
    Nodes,
    "a group of nodes, as {name: worker, count: 12}",
    "name count hosts racks memory_mib vcores resources=custom label lost_per_hour decommissioned_per_hour back during",
    optional="count",
    hosts=ListOf(NAME, "a list of host names"),
    racks=ListOf(NAME, "a list of racks, as [/rack-1, /rack-2]"),
    custom=PairsOf(NAME, INTEGER, "amounts by resource, as {yarn.io/gpu: 2}", by_key=True),
)


class _Group:
    """A row of nodes; how many there are may follow from their names."""

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        fields = GROUP.fields(node, path, reader)
        if "count" not in fields:
            if "hosts" not in fields:
                raise UnreadableValue(node.line, path, f"expected the key count, or hosts ({GROUP.expected})")
            fields["count"] = len(fields["hosts"])
        return Nodes(**fields)

    def write(self, value: Any) -> Written:
        return GROUP.write(value)


EVENT: Final = record(described.YarnNodeEvent, "what happens to nodes, as {at: 10m, what: lose, group: worker}")
NODES: Final = record(
    YarnDescription,
    "the nodes' keys",
    "groups=nodes events=node_events",
    make=dict,
    nodes=ListOf(_Group(), "a list of groups of nodes"),
    node_events=ListOf(EVENT, "a list of what happens to nodes"),
)
TIMES: Final = record(
    described.Manager,
    NODES.expected,
    "heartbeat_ms expiry=node_expiry_ms decommission_ms",
    make=dict,
)
TENANT: Final = record(
    described.Tenant,
    "somebody else in the queue, as {name: nightly, memory: 256Gi, vcores: 64, during: {from: 10m, until: 30m}}",
    "name memory_mib vcores during",
)
QUEUE: Final = record(
    described.Queue,
    "the queue's keys",
    "memory_mib vcores tenants preempts preempt-wait=wait_ms preempt-every=round_ms preempt-share=share",
    tenants=ListOf(TENANT, "a list of tenants"),
)
FAULT: Final = record(
    described.CallFault, "a fault of the resource manager, as {probability: 0.1, during: {from: 5m, until: 6m}}"
)
MISTAKES: Final = record(described.Mistakes, "mistakes of the resource manager, as {surplus: 0.01, partial: 0.1}")
MANAGER: Final = record(
    described.Manager,
    "the resource manager's keys",
    "latency node_delay rack_delay anywhere_per_heartbeat minimum-memory=minimum_mib minimum_vcores "
    "maximum-memory=maximum_mib maximum_vcores dominant expiry_ms faults mistakes",
    make=dict,
    faults=ListOf(FAULT, "a list of faults"),
)
LAUNCH_FAULT: Final = record(
    described.LaunchFault, "a launch that fails, as {probability: 0.1, groups: [worker]}", groups=_GROUPS
)
DEATH: Final = record(
    described.Death,
    "a way to end, as {phase: running, per-hour: 0.5, statuses: {-104: 1}}",
    statuses=PairsOf(INTEGER, NUMBER, "weights by exit status, as {1: 9, -104: 1}"),
    profiles=ListOf(INTEGER, "a list of resource profile ids"),
    groups=_GROUPS,
)
EXECUTORS: Final = record(
    described.YarnExecutors,
    "the executors' keys",
    launch_faults=ListOf(LAUNCH_FAULT, "a list of launches that fail"),
    deaths=ListOf(DEATH, "a list of ways to end"),
)
MASTER: Final = record(
    described.Master, "the application master's keys", restarts=ListOf(DURATION, "a list of times, as [30m, 2h]")
)


_NODES: Final = RecordCodec(
    dict, tuple(sorted(NODES.keys + TIMES.keys, key=lambda key: key.name)), None, NODES.expected
)
_TOP: Final = RecordCodec(
    dict,
    (
        FileKey("kind", "kind", NAME),
        *CHANCE.keys,
        FileKey("nodes", "nodes", _NODES),
        FileKey("queue", "queue", QUEUE),
        FileKey("manager", "manager", MANAGER),
        FileKey("executors", "executors", EXECUTORS),
        FileKey("master", "master", MASTER),
    ),
    None,
    "",
)
_BLOCKS: Final = frozenset({"nodes", "nodes.groups", "nodes.events", "queue", "queue.tenants", "manager", "manager.faults",
                            "executors", "executors.launch-faults", "executors.deaths", "master"})  # fmt: skip


def is_yarn(document: Node | None) -> bool:
    """Whether a cluster file, parsed, describes a YARN cluster: ``kind: yarn`` at its top."""
    if not isinstance(document, Mapping) or "kind" not in document.items:
        return False
    _, kind = document.items["kind"]
    return isinstance(kind, Scalar) and kind.text == KIND


def read_cluster(path: Path) -> Description | YarnDescription:
    """The cluster that a file describes, of whichever kind it is. Raises FileError."""
    text, name = text_of(path), str(path)
    try:
        document = parse(text)
    except YamlError as fault:
        raise FileError(name, fault.line, fault.why) from None
    if isinstance(document, Mapping) and "kind" in document.items:
        line, kind = document.items["kind"]
        if not isinstance(kind, Scalar) or kind.text not in {KIND, KUBERNETES}:
            raise FileError(name, line, f"kind: expected {KIND} or {KUBERNETES}{_got(kind)}")
    return understand(text, name) if is_yarn(document) else kubernetes_file.understand(text, name)


def _got(node: Node) -> str:
    return f", got {node.text[:60]!r}" if isinstance(node, Scalar) and node.text else ""


def read(path: Path) -> YarnDescription:
    """The YARN cluster that a file describes. Raises FileError, also for a file of another kind."""
    return understand(text_of(path), str(path))


def understand(text: str, name: str = "cluster") -> YarnDescription:
    """The YARN cluster that a text describes; ``name`` is for the messages. Raises FileError."""
    return understood(text, name, _description, problems)


def _description(node: Node | None, reader: FileReader) -> YarnDescription:
    if node is not None:
        reader.enter(node, "")
    if not isinstance(node, Mapping):
        line = 1 if node is None else node.line
        keys = ", ".join(key.name for key in _TOP.keys)
        raise UnreadableValue(line, "the file", f"expected a mapping with the keys {keys}")
    if not is_yarn(node):
        line, kind = node.items.get("kind", (node.line, None))
        raise UnreadableValue(line, "kind", f"expected {KIND} (a YARN cluster){'' if kind is None else _got(kind)}")
    fields = _TOP.fields(node, "", reader)
    del fields["kind"]
    nodes = fields.pop("nodes", {})
    rows = {name: nodes.pop(name) for name in ("nodes", "node_events") if name in nodes}
    manager = fields.pop("manager", {}) | nodes
    return replace(YARN, manager=replace(YARN.manager, **manager), **rows, **fields)


def write(description: YarnDescription, heading: str = "", notes: MappingOf[str, str] | None = None) -> str:
    """The text of a cluster file that reads as this cluster. What has its default is left out.

    ``heading``: comment lines at the top. ``notes``: remarks by the path of a key, as ``manager.latency``, put behind it.
    """
    manager = description.manager
    sections: dict[str, Written] = {
        "kind": KIND,
        **CHANCE.differing(description, YARN),
        "nodes": NODES.differing(description, YARN) | TIMES.differing(manager, YARN.manager),
        "queue": QUEUE.differing(description.queue, YARN.queue),
        "manager": MANAGER.differing(manager, YARN.manager),
        "executors": EXECUTORS.differing(description.executors, YARN.executors),
        "master": MASTER.differing(description.master, YARN.master),
    }
    return document(sections, _BLOCKS, notes, heading)


def write_fitted(fitted: Fitted[YarnDescription], heading: str = "") -> str:
    """The file of a fitted cluster, as ``files.cluster`` writes it for Kubernetes."""
    notes, heading = fitted_words(fitted, heading)
    return write(fitted.description, heading, notes)
