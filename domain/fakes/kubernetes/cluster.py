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

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.api_server import (
    answered,
    await_driver,
    begin_poll,
    call,
    manifests,
    poll,
    reached,
    start,
    stop_poll,
)
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.controllers import act
from podtide.domain.fakes.kubernetes.description import KIND, Description, Life
from podtide.domain.fakes.kubernetes.executors import calm, elapsed, hear, restart, say_to
from podtide.domain.fakes.kubernetes.nodes import (
    arrive,
    begin as begin_nodes,
    happen,
    idle,
    interrupt,
    leave,
    place,
    scan,
    schedule,
)
from podtide.domain.fakes.kubernetes.pod_endings import backs_off, killed, orphaned
from podtide.domain.fakes.kubernetes.rows import Application, Due, Kind, WatchState, Word
from podtide.domain.fakes.kubernetes.tables import ClusterTables, Plan
from podtide.domain.fakes.kubernetes.watch import begin as begin_watch, broke, mended, stop_watch
from podtide.domain.fakes.tables import FakeCluster, due, tally
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.pod_commands import (
    AnswerRegistration,
    AssignExecutorId,
    AwaitDriverReady,
    DecommissionExecutors,
    PodCommand,
    RemoveExecutor,
    StopApplication,
    StopSource,
)
from podtide.domain.protocol.pod_stimuli import Outcome, PodStimulus
from podtide.domain.protocol.pods import PodManifest

__all__ = [
    "KIND",
    "Application",
    "Census",
    "KubernetesCluster",
    "advance",
    "apply",
    "begin",
    "census",
    "due",
    "pods",
    "tally",
]


class KubernetesCluster(FakeCluster[ClusterTables]):
    """A Kubernetes cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ()


def begin(
    description: Description,
    seed: int,
    now: Millis,
    *,
    sources: SourcesConfig | None = None,
    application: Application | None = None,
    polls: bool = False,
) -> KubernetesCluster:
    """The cluster at its beginning, its nodes there and the watch open, as ``sources`` says (default: Spark's).

    ``polls``: the cluster also lists by itself, every ``sources.poll_interval_ms``, and says ``PodsReplaced``. Leave it off
    where the driver asks with ListPods. Raises ValueError for a description that has ``problems``.
    """
    found = problems(description)
    if found:
        raise ValueError("; ".join(f"{where}: expected {what}" for where, what in found))
    plan = Plan(description, sources or SourcesConfig(), application or Application(), polls)
    tables = ClusterTables(plan, stream(seed), now)
    begin_nodes(tables, now)
    begin_watch(tables, now)
    begin_poll(tables, now)
    if description.calm_ms is not None:
        tables.later(now + description.calm_ms, Kind.CALM)
    tables.undo_log.clear()
    return KubernetesCluster(tables, now)


def apply(cluster: KubernetesCluster, command: PodCommand, now: Millis) -> KubernetesCluster:
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
    with cluster.step_at(now) as tables:
        if tables.due() > now:
            return (cluster if now == cluster.now else cluster.stepped(now)), ()
        stimuli = tables.stimuli = []
        for happening in tables.pop(now):
            _happen(tables, happening)
        return cluster.stepped(now), tuple(stimuli)


def _ask(tables: ClusterTables, command: PodCommand, now: Millis) -> None:
    match command:
        case RemoveExecutor():
            for pod in tables.speaking(command.executor):
                say_to(tables, pod, Word.STOP, now)
        case DecommissionExecutors():
            if command.notify_executors:
                for executor in command.executors:
                    for pod in tables.speaking(executor):
                        say_to(tables, pod, Word.DECOMMISSION, now)
        case AnswerRegistration():
            word = Word.ACCEPTED if command.accepted else Word.REFUSED
            for pod in tables.speaking(command.executor):
                say_to(tables, pod, word, now)
        case AssignExecutorId():
            uid = tables.names.get(command.pod)
            if uid is not None and tables.pods[uid].life is Life.NAMING:
                pod = tables.pods[uid]._replace(executor=str(command.executor))
                tables.put_pod(pod)
                say_to(tables, pod, Word.NAMED, now)
            call(tables, command, now)
        case AwaitDriverReady():
            await_driver(tables, command, now)
        case StopSource():
            if command.what == "watch":
                stop_watch(tables)
            elif command.what == "poll":
                stop_poll(tables)
            tables.later(now, Kind.SAY, say=Outcome(now, command.serial))
        case StopApplication():
            _stop(tables)
        case _:
            call(tables, command, now)


def _stop(tables: ClusterTables) -> None:
    """The driver ends: nobody is left to hear anything, and its pods are collected with it."""
    tables.stopped = True
    for table in (tables.agenda, tables.calls, tables.backlog, tables.lanes, tables.sets):
        table.drop_all()
    tables.count("pods.gone", len(tables.pods))
    for pod in list(tables.pods.values()):
        tables.drop_pod(pod)


def _happen(tables: ClusterTables, happening: Due) -> None:
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.SAY:
            assert happening.say is not None
            tables.stimuli.append(happening.say)
        case Kind.STAGE:
            pod, stage = tables.pods[a], tables.plan.stages[happening.b]
            if stage.next is Life.SCHEDULED:
                schedule(tables, pod, now)
            else:
                elapsed(tables, pod, stage, now)
        case Kind.CALL:
            reached(tables, a, now)
        case Kind.ANSWER:
            answered(tables, a, now)
        case Kind.RETRY:
            start(tables, a, now)
        case Kind.HEAR:
            hearer = tables.pods.get(a)
            if hearer is not None:
                hear(tables, hearer, Word(happening.b), now)
        case Kind.KILL:
            killed(tables, tables.pods[a], now)
        case Kind.RESTART:
            restart(tables, tables.pods[a], now)
        case Kind.BACKOFF:
            backs_off(tables, tables.pods[a], now)
        case Kind.ORPHAN:
            orphaned(tables, tables.pods[a], now)
        case _:
            _happen_around(tables, happening)


def _happen_around(tables: ClusterTables, happening: Due) -> None:
    """What happens to nodes, controllers, the watch and the faults."""
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.PLACE:
            place(tables, now)
        case Kind.SCAN:
            scan(tables, now)
        case Kind.ARRIVE:
            arrive(tables, a, now)
        case Kind.INTERRUPT:
            interrupt(tables, a, now)
        case Kind.LEAVE:
            leave(tables, a, now)
        case Kind.IDLE:
            idle(tables, a, now)
        case Kind.EVENT:
            happen(tables, a, now)
        case Kind.SYNC:
            act(tables, a, now)
        case Kind.BREAK:
            broke(tables, a, now)
        case Kind.MEND:
            mended(tables, now)
        case Kind.POLL:
            poll(tables, now)
        case Kind.CALM:
            calm(tables, now)
        case _:
            raise AssertionError(f"{happening.kind} is nobody's")


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
    return manifests(cluster._tables)
