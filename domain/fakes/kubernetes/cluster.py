"""A cluster as a value: what the driver asks goes in, what the driver hears comes out, and time passes when told to.

``begin`` makes a cluster of a description and a seed, ``apply`` takes what the driver asks for, ``advance`` lets time pass
and returns everything that reaches the driver up to then, in order, each with the moment at which it does. ``due``
says when something happens next, so that nobody has to wait for it. Nothing here reads a clock; the generator's state is
part of the cluster, so the same description, seed and commands at the same times give the same story to the byte.

Every step returns another cluster, and the one before it answers no more (``base.versioned.Stale``): whoever wants to go
on twice from the same moment forks it (``cluster.fork()``). A step costs what happens, not what the cluster holds.

How to use it: jump to the earlier of ``due(cluster)`` and the time at which the driver does something of its own,
``advance`` to it, hand what comes to the driver, and ``apply`` what it asks, at that same time. Whoever advances past
``due`` gets several moments at once, and could not have answered the first before the second happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.fakes.checks import refuse
from podtide.domain.fakes.kubernetes import api_server, controllers, executors, nodes, pod_endings, watch
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.description import KIND, Description, Life
from podtide.domain.fakes.kubernetes.rows import FakeApplication, PodAgenda, WatchState
from podtide.domain.fakes.kubernetes.tables import ClusterTables, KubernetesPlan
from podtide.domain.fakes.tables import AgendaRow, FakeCluster, due, tally
from podtide.domain.fakes.words import DriverWord, words
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.pod_stimuli import Outcome, PodStimulus
from podtide.domain.protocol.pods import PodManifest

__all__ = [
    "KIND",
    "Census",
    "FakeApplication",
    "KubernetesCluster",
    "advance",
    "apply",
    "begin",
    "census",
    "due",
    "pods",
    "tally",
]  # fmt: skip


class KubernetesCluster(FakeCluster[ClusterTables]):
    """A Kubernetes cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ()


def begin(
    description: Description,
    seed: int,
    now: Millis,
    *,
    sources: SourcesConfig | None = None,
    application: FakeApplication | None = None,
    polls: bool = False,
) -> KubernetesCluster:
    """The cluster at its beginning, its nodes there and the watch open, as ``sources`` says (default: Spark's).

    ``polls``: the cluster also lists by itself, every ``sources.poll_interval_ms``, and says ``PodsReplaced``. Leave it off
    where the driver asks with ListPods. Raises ValueError for a description that has ``problems``.
    """
    refuse(problems(description))
    plan = KubernetesPlan(description, sources or SourcesConfig(), application or FakeApplication(), polls)
    tables = ClusterTables(plan, stream(seed), now)
    nodes.begin(tables, now)
    watch.begin(tables, now)
    api_server.begin_poll(tables, now)
    if description.calm_ms is not None:
        tables.later(now + description.calm_ms, PodAgenda.CALM)
    tables.undo_log.clear()
    return KubernetesCluster(tables, now)


def apply(cluster: KubernetesCluster, command: pod_commands.PodCommand, now: Millis) -> KubernetesCluster:
    """The driver asks for something at ``now``: a call is on its way to the API, a word to an executor.

    Nothing comes of it before ``advance``, which may be at this same ``now``. Raises ValueError when ``now`` is before
    what has been lived through.
    """
    with cluster.step_at(now) as tables:
        if tables.stopped:
            return cluster
        _ask(tables, command, now)
        return cluster.stepped(now)


def advance(cluster: KubernetesCluster, now: Millis) -> tuple[KubernetesCluster, tuple[PodStimulus, ...]]:
    """Let time pass up to and including ``now``: the cluster then, and what reached the driver, in order.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    return cluster.lived(now, happen)


def _ask(tables: ClusterTables, command: pod_commands.PodCommand, now: Millis) -> None:
    match command:
        case (
            executor_commands.RemoveExecutor()
            | executor_commands.DecommissionExecutors()
            | executor_commands.AnswerRegistration()
        ):
            for executor, word in words(command):
                for pod in tables.speaking(executor):
                    executors.say_to(tables, pod, word, now)
        case pod_commands.AssignExecutorId():
            uid = tables.names.get(command.pod)
            if uid is not None and tables.pods[uid].life is Life.NAMING:
                pod = tables.pods[uid]._replace(executor=str(command.executor))
                tables.put_pod(pod)
                executors.say_to(tables, pod, DriverWord.NAMED, now)
            api_server.call(tables, command, now)
        case pod_commands.AwaitDriverReady():
            api_server.await_driver(tables, command, now)
        case executor_commands.StopSource():
            if command.what == "watch":
                watch.stop_watch(tables)
            elif command.what == "poll":
                api_server.stop_poll(tables)
            tables.say(Outcome(now, command.serial))
        case executor_commands.StopApplication():
            _stop(tables)
        case _:
            api_server.call(tables, command, now)


def _stop(tables: ClusterTables) -> None:
    """The driver ends: nobody is left to hear anything, and its pods are collected with it."""
    tables.stopped = True
    for table in (tables.agenda, tables.calls, tables.backlog, tables.lanes, tables.sets):
        table.drop_all()
    tables.count("pods.gone", len(tables.pods))
    for pod in list(tables.pods.values()):
        tables.drop_pod(pod)


def happen(tables: ClusterTables, happening: AgendaRow[PodAgenda, PodStimulus]) -> None:
    """What lay ahead happens, within a step."""
    if happening.say is not None:
        tables.stimuli.append(happening.say)
    else:
        _HAPPENINGS[happening.kind](tables, happening.a, happening.b, happening.at)


def _stage(tables: ClusterTables, uid: int, number: int, now: Millis) -> None:
    """A stage of a pod's life ends."""
    pod, stage = tables.pods[uid], tables.plan.stages[number]
    if stage.next is Life.SCHEDULED:
        nodes.schedule(tables, pod, now)
    else:
        executors.elapsed(tables, pod, stage, now)


def _hear(tables: ClusterTables, uid: int, word: int, now: Millis) -> None:
    pod = tables.pods.get(uid)
    if pod is not None:
        executors.hear(tables, pod, DriverWord(word), now)


_HAPPENINGS: Final[Mapping[PodAgenda, Callable[[ClusterTables, int, int, Millis], None]]] = {
    PodAgenda.STAGE: _stage,
    PodAgenda.KILL: lambda tables, uid, _, now: pod_endings.killed(tables, tables.pods[uid], now),
    PodAgenda.RESTART: lambda tables, uid, _, now: executors.restart(tables, tables.pods[uid], now),
    PodAgenda.BACKOFF: lambda tables, uid, _, now: pod_endings.backs_off(tables, tables.pods[uid], now),
    PodAgenda.ORPHAN: lambda tables, uid, _, now: pod_endings.orphaned(tables, tables.pods[uid], now),
    PodAgenda.PLACE: lambda tables, _, __, now: nodes.place(tables, now),
    PodAgenda.SCAN: lambda tables, _, __, now: nodes.scan(tables, now),
    PodAgenda.ARRIVE: lambda tables, node, _, now: nodes.arrive(tables, node, now),
    PodAgenda.INTERRUPT: lambda tables, node, _, now: nodes.interrupt(tables, node, now),
    PodAgenda.LEAVE: lambda tables, node, _, now: nodes.leave(tables, node, now),
    PodAgenda.IDLE: lambda tables, node, _, now: nodes.idle(tables, node, now),
    PodAgenda.EVENT: lambda tables, place, _, now: nodes.happen(tables, place, now),
    PodAgenda.CALL: lambda tables, call, _, now: api_server.reached(tables, call, now),
    PodAgenda.ANSWER: lambda tables, call, _, now: api_server.answered(tables, call, now),
    PodAgenda.RETRY: lambda tables, call, _, now: api_server.start(tables, call, now),
    PodAgenda.HEAR: _hear,
    PodAgenda.SYNC: lambda tables, number, _, now: controllers.act(tables, number, now),
    PodAgenda.BREAK: lambda tables, outage, _, now: watch.broke(tables, outage, now),
    PodAgenda.MEND: lambda tables, _, __, now: watch.mended(tables, now),
    PodAgenda.POLL: lambda tables, _, __, now: api_server.poll(tables, now),
    PodAgenda.CALM: lambda tables, _, __, now: executors.calm(tables, now),
}


class Census(NamedTuple):
    """The cluster counted. ``lives``: pods by profile and state. ``waiting``: those that no node has room for.

    ``unfinished`` is what counts for the quota. ``watching``: the watch is neither broken nor dead.
    """

    lives: Mapping[tuple[int, Life], int]
    waiting: int
    unfinished: int
    nodes: int
    nodes_coming: int
    calls_open: int
    watching: bool


def census(cluster: KubernetesCluster) -> Census:
    """Count the cluster. Costs the number of profiles and states, not of pods."""
    tables = cluster._tables
    return Census(
        lives=MappingProxyType(dict(tables.counts)),
        waiting=sum(len(tickets) for tickets in tables.waiting.values()),
        unfinished=tables.unfinished,
        nodes=len(tables.nodes),
        nodes_coming=len(tables.coming),
        calls_open=len(tables.calls),
        watching=tables.watch is WatchState.OPEN and not tables.stopped,
    )


def pods(cluster: KubernetesCluster) -> tuple[PodManifest, ...]:
    """Every pod that the API holds, as it really is now, oldest first."""
    return tuple(pod.manifest for pod in cluster._tables.pods.values())
