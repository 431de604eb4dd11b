"""What the live view of an embedded cluster draws: nodes with their pods, and the pods, the newest first.

A picture is taken of a state of the API server, which is a value: the server goes on meanwhile. What a picture costs follows
the pods, so it is taken when something changed, four times a second at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.text.format import clock, count
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.domain.api_server.json_values import FrozenObject, at
from podtide.domain.api_server.state import ApiState
from podtide.domain.base.units import Millis
from podtide.domain.jvm.instants import parse_instant

ABOVE: Final = 7
"""Rows that are left to what stands above the view."""

_STYLES: Final = {
    "Running": "good", "Pending": "held", "Succeeded": "dim", "Terminating": "dim", "Completed": "dim"
}  # fmt: skip


class NodeLine(NamedTuple):
    """A node: pods on it that have not ended, what it has room for, and whether it takes more."""

    name: str
    pods: int
    room: str
    closed: bool


class PodLine(NamedTuple):
    """A pod: its status in a word, as kubectl's."""

    name: str
    node: str
    status: str
    created: Millis


class ClusterPicture(NamedTuple):
    """A cluster at a moment. ``change``: grows with whatever is drawn."""

    change: int
    at: Millis
    began: Millis
    title: str
    nodes: Sequence[NodeLine]
    pods: Sequence[PodLine]
    lines: Sequence[str]
    """What else is counted."""
    steps: int = 1


def nodes_and_pods(state: ApiState) -> tuple[list[NodeLine], list[PodLine]]:
    """The nodes by name, and the pods of all namespaces, the newest first."""
    objects = state.tables.objects
    pods: list[PodLine] = []
    load: Counter[str] = Counter()
    for shelf, names in objects.items():
        if shelf[0] == "pods":
            for name, pod in names.items():
                node = str(at(pod, ("spec", "nodeName")) or "")
                created = parse_instant(str(pod["metadata"]["creationTimestamp"]))
                pods.append(PodLine(name, node, pod_status_word(pod), created or 0))
                load[node] += at(pod, ("status", "phase")) not in {"Succeeded", "Failed"}
    nodes = [
        NodeLine(
            name, load[name], str(at(node, ("status", "allocatable", "pods")) or "?"),
            bool(at(node, ("spec", "unschedulable"))),
        )
        for name, node in objects.get(("nodes", ""), {}).items()
    ]  # fmt: skip
    pods.sort(key=lambda pod: (-pod.created, pod.name))
    return sorted(nodes), pods


def pod_status_word(pod: FrozenObject) -> str:
    """The status of a pod as kubectl sums it up."""
    if at(pod, ("metadata", "deletionTimestamp")):
        return "Terminating"
    for container in at(pod, ("status", "containerStatuses")) or ():
        reason = at(container, ("state", "waiting", "reason")) or at(container, ("state", "terminated", "reason"))
        if reason:
            return str(reason)
    return str(at(pod, ("status", "reason")) or at(pod, ("status", "phase")) or "Unknown")


class ClusterFrame:
    """Draws pictures for one terminal."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def draw(self, picture: ClusterPicture, width: int, height: int) -> list[Text]:
        """At most ``height`` lines, less those above, of at most ``width`` columns."""
        page, rows = self._page, max(3, height - ABOVE)
        page.width = max(1, width)
        sums = Counter(pod.status for pod in picture.pods)
        there = f"{count(len(picture.pods), 'pod')} on {count(len(picture.nodes), 'node')}"
        head = f"{there}, up {clock(picture.at - picture.began)}"
        lines = [Text.assemble(page.text(f"{escaped(picture.title, 80)}  ", "bold"), page.text(head))]
        words = ", ".join(f"{number:,} {escaped(word, 30)}" for word, number in sums.most_common(6))
        lines += [page.text(line, "dim") for line in ([words] if words else []) + list(picture.lines)]
        left = rows - len(lines)
        nodes = picture.nodes[: max(1, left // 3)]
        longest = max((cell_len(node.name) for node in nodes), default=0)
        for node in nodes:
            closed = page.text("  closed", "held") if node.closed else Text()
            lines.append(
                Text.assemble(page.text(f"  {node.name:{longest}}  {node.pods:>4} of {node.room} pods"), closed)
            )
        lines += self._pods(picture, rows - len(lines))
        return [_cut(line, width) for line in lines[:rows]]

    def _pods(self, picture: ClusterPicture, rows: int) -> list[Text]:
        page, pods = self._page, picture.pods
        if rows <= 0 or not pods:
            return []
        shown = pods if len(pods) <= rows else pods[: rows - 1]
        longest = max((cell_len(pod.name) for pod in shown), default=0)
        lines = [
            Text.assemble(
                page.text(f"  {pod.name:{longest}}  "),
                page.text(f"{escaped(pod.status, 24):18}", _STYLES.get(pod.status, "bad")),
                page.text(f"  {clock(max(0, picture.at - pod.created)):>8}  {pod.node or '-'}", "dim"),
            )
            for pod in shown
        ]
        if len(shown) < len(pods):
            lines.append(page.text(f"  and {len(pods) - len(shown):,} more", "dim"))
        return lines


def _cut(line: Text, width: int) -> Text:
    line.truncate(max(1, width))
    return line
