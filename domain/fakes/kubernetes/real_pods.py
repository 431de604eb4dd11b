"""Real pods led by the fake cluster's decisions: for kubelets behind an API server that is there.

The fake cluster decides where a pod runs, when its image is pulled and it starts, how it fails, hangs or is evicted; when
nodes come, are drained, taken back and crash. Here it does so for pods that somebody else holds: ``lead`` is told what was
seen of them, and says what a kubelet has to do. Its API server, watch and driver have no part: a pod's process registers at
once. Uids of pods are the names in its tables, so the pods' own names may come again.

The same seed and pods in the same order at the same times have the same life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes import cluster, executors, pod_endings
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.fakes.kubernetes.description import (
    STAGES,
    Api,
    Description,
    Life,
    NodeGroup,
    PodShape,
    PodStage,
    Watch,
)
from podtide.domain.fakes.kubernetes.pods import create
from podtide.domain.fakes.kubernetes.rows import NodeRow, PodAgenda, PodRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.fakes.words import DriverWord
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, PodStimulus, PodsUpdated
from podtide.domain.protocol.pods import PodManifest

_LONG: Final[Millis] = 10 * 365 * 86_400_000
_NO_OWNER: Final = 0
_RESTARTS: Final = -1
"""The owner of pods whose containers start again: no set of the fake cluster's."""

_ON_THE_WAY: Final = frozenset({"schedule", "pull", "pulled", "start", "register"})
"""The usual stages up to an executor that is registered."""

_NODE_EVENTS: Final = frozenset(
    {PodAgenda.ARRIVE, PodAgenda.INTERRUPT, PodAgenda.LEAVE, PodAgenda.IDLE, PodAgenda.EVENT}
)


class PodSeen(NamedTuple):
    """A pod that is Pending. ``restarts``: its restartPolicy is Always."""

    uid: str
    profile: int
    shape: PodShape
    restarts: bool = False


class DeletionSeen(NamedTuple):
    """Somebody deleted a pod, with this grace."""

    uid: str
    grace_ms: Millis


class PodVanished(NamedTuple):
    """A pod's object is gone."""

    uid: str


class PodExited(NamedTuple):
    """A pod's process ended by itself."""

    uid: str
    code: int


PodSight: TypeAlias = PodSeen | DeletionSeen | PodVanished | PodExited


class PodShown(NamedTuple):
    """A pod has changed to this; the manifest has what the fake API shows (node, phase, containers, deleted_at)."""

    uid: str
    manifest: PodManifest


class PodHung(NamedTuple):
    """A pod's process hangs, or goes on."""

    uid: str
    hangs: bool


class PodRemoved(NamedTuple):
    """A pod has ended after its deletion: its object may go."""

    uid: str


class NodeJoined(NamedTuple):
    """A node is there, with its room."""

    name: str
    cpu_millis: int
    memory_mib: int
    pods: int


class NodeClosed(NamedTuple):
    """A node takes no more pods."""

    name: str


class NodeLost(NamedTuple):
    """A node is gone, and every process on it."""

    name: str


Decision: TypeAlias = PodShown | PodHung | PodRemoved | NodeJoined | NodeClosed | NodeLost


def uniform(nodes: int, pods_per_node: int, start_ms: Millis = 0) -> Description:
    """Nodes that have room for so many pods of any size, and nothing takes time or goes wrong."""
    room = NodeGroup("node", nodes, 1_000_000, 4 << 20, pods_per_node)
    at_once = (
        PodStage("schedule", Life.CREATED, Life.SCHEDULED),
        PodStage("pulled", Life.SCHEDULED, Life.PULLED),
        PodStage("start", Life.PULLED, Life.RUNNING, Constant(start_ms)),
        PodStage("terminate", Life.TERMINATING, Life.GONE),
    )
    return Description(groups=(room,), executors=replace(Description().executors, stages=at_once))


def of_processes(description: Description, nodes: int, pods_per_node: int) -> Description:
    """A cluster whose pods are processes, which take their own time.

    A stage up to the registration that the file leaves as it is takes none. Where the file names no nodes there are so many,
    with room for so many pods.
    """
    usual = {stage.name: stage for stage in STAGES}
    stages = tuple(
        replace(stage, delay=Constant(0)) if stage.name in _ON_THE_WAY and stage == usual[stage.name] else stage
        for stage in description.executors.stages
        if stage != usual["terminate"]  # processes end by themselves
    )
    groups = uniform(nodes, pods_per_node).groups if description.groups == Description().groups else description.groups
    return replace(description, groups=groups, executors=replace(description.executors, stages=stages))


def begin(description: Description, now: Millis) -> tuple[KubernetesCluster, tuple[Decision, ...]]:
    """The nodes of a description, and no pod. Raises ValueError for a description that has problems."""
    own = replace(
        description,
        api=Api(),
        watch=Watch(delay=Constant(0)),
        executors=replace(description.executors, rpc=Constant(0), grace_ms=_LONG, decommission=False),
    )
    begun = cluster.begin(own, description.seed, now)
    return begun, tuple(_joined(begun._tables, node) for node in begun._tables.nodes.values())


def lead(
    before: KubernetesCluster, sights: Sequence[PodSight], now: Millis
) -> tuple[KubernetesCluster, tuple[Decision, ...]]:
    """Take what was seen and let time pass up to ``now``: the cluster then, and what is to be done, in order.

    Raises ValueError when ``now`` is before what has been lived through. ``cluster.due`` says when to come again.
    """
    decisions: list[Decision] = []
    with before.step_at(now) as tables:
        tables.stimuli = []
        for sight in sights:
            _see(tables, sight, now)
        shown: dict[str, None] = {}
        for happening in tables.pop(now):
            hung = _hung(tables, happening.kind, happening.a)
            nodes = dict(tables.nodes.items()) if happening.kind in _NODE_EVENTS else None
            cluster.happen(tables, happening)
            decisions += (PodHung(uid, hangs) for uid, hangs in _changes(hung, tables))
            if nodes is not None:
                decisions += _node_changes(tables, nodes)
            for stimulus in tables.stimuli:
                decisions += _heard(tables, stimulus, shown, now)
            tables.stimuli.clear()
        decisions += (PodRemoved(uid) for uid in shown if uid not in tables.names)
        return before.stepped(now), tuple(decisions)


def _see(tables: ClusterTables, sight: PodSight, now: Millis) -> None:
    if isinstance(sight, PodSeen):
        if sight.uid not in tables.names:
            owner = _RESTARTS if sight.restarts else _NO_OWNER
            create(tables, sight.uid, sight.uid, sight.profile, now, owner=owner, shape=sight.shape)
        return
    number = tables.names.get(sight.uid)
    if number is None:
        return
    pod = tables.pods[number]
    match sight:
        case DeletionSeen() if pod.deleting:
            _shorten(tables, pod, now + sight.grace_ms)
        case DeletionSeen():
            pod_endings.delete(tables, pod, now, sight.grace_ms)
        case PodVanished():
            pod_endings.remove(tables, pod, now, pod_endings.SIGTERM_EXIT)
        case PodExited():
            if not pod.finished:
                tables.cancel(pod.timer)
                pod_endings.ended(tables, pod._replace(timer=0), sight.code, None, now)


def _shorten(tables: ClusterTables, pod: PodRow, kill_at: Millis) -> None:
    """What was deleted here first has the grace that its API gives it."""
    ending = tables.agenda.get(pod.timer)
    if ending is not None and ending.kind is PodAgenda.KILL and ending.at > kill_at:
        tables.cancel(pod.timer)
        tables.put_pod(pod._replace(timer=tables.later(kill_at, PodAgenda.KILL, pod.uid)))


def _heard(tables: ClusterTables, stimulus: PodStimulus, shown: dict[str, None], now: Millis) -> Sequence[Decision]:
    """What would have reached the driver: changes of pods are decisions, a process that asks has its answer at once."""
    match stimulus:
        case PodsUpdated():
            shown.update((manifest.name, None) for manifest in stimulus.pods)
            return [PodShown(manifest.name, manifest) for manifest in stimulus.pods]
        case RegisterExecutor():
            for pod in tables.speaking(stimulus.executor):
                executors.say_to(tables, pod, DriverWord.ACCEPTED, now)
        case GenerateExecutorId():
            number = tables.names.get(stimulus.pod)
            if number is not None:
                pod = tables.pods[number]._replace(executor=stimulus.pod)
                tables.put_pod(pod)
                executors.say_to(tables, pod, DriverWord.NAMED, now)
        case _:
            pass  # heartbeats, disconnections: nobody listens
    return ()


def _hung(tables: ClusterTables, kind: PodAgenda, subject: int) -> dict[int, PodRow]:
    """The pods whose process may begin to hang or go on with what comes next, as they are."""
    if kind is PodAgenda.STAGE:
        return {subject: tables.pods[subject]}
    if kind is PodAgenda.CALM:
        return {uid: pod for uid, pod in tables.pods.items() if pod.life is Life.HUNG}
    return {}


def _changes(before: dict[int, PodRow], tables: ClusterTables) -> list[tuple[str, bool]]:
    found = []
    for uid, old in before.items():
        pod = tables.pods.get(uid)
        if pod is not None and pod.manifest.phase == "Running" and (pod.life is Life.HUNG) != (old.life is Life.HUNG):
            found.append((pod.name, pod.life is Life.HUNG))
    return found


def _node_changes(tables: ClusterTables, before: dict[int, NodeRow]) -> list[Decision]:
    found: list[Decision] = []
    for number, node in tables.nodes.items():
        old = before.get(number)
        if old is None:
            found.append(_joined(tables, node))
        elif old.open and not node.open:
            found.append(NodeClosed(node.name))
    found += (NodeLost(node.name) for number, node in before.items() if number not in tables.nodes)
    return found


def _joined(tables: ClusterTables, node: NodeRow) -> NodeJoined:
    group = tables.plan.description.groups[node.group]
    return NodeJoined(node.name, group.cpu_millis, group.memory_mib, group.pods)
