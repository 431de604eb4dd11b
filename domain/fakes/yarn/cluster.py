"""A YARN cluster as a value: what an application asks goes in, what it hears comes out, and time passes when told to.

The counterpart of ``fakes.kubernetes.cluster``, with the same five functions: ``begin`` makes a cluster of a description
and a seed, ``apply`` takes what the application asks for, ``advance`` lets time pass and returns everything that reaches
it up to then, in order, each with the moment at which it does; ``due`` says when something happens next, ``tally`` counts
what has happened. Nothing here reads a clock; the generator's state is part of the cluster, so the same description, seed
and commands at the same times give the same story to the byte.

The cluster is what stands behind the application master and the driver: a resource manager with a queue and a
scheduler, the nodes with their NodeManagers, containers, and executors that come up in them, register, listen and
die. The application's own side, the AM client's table of requests included, is asked for with commands; the table is
kept here because what goes over the wire, and so what the resource manager believes, follows from it
(``fakes.yarn.resource_requests``).

Every step returns another cluster, and the one before it answers no more; ``cluster.fork()`` keeps two. A step costs what
happens, not what the cluster holds: a heartbeat of a node is an event only if a container may come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.fakes.checks import refuse
from podtide.domain.fakes.tables import AgendaRow, FakeCluster, due, tally
from podtide.domain.fakes.words import DriverWord, words
from podtide.domain.fakes.yarn import (
    application_master,
    capacity_scheduler,
    container_endings,
    executors,
    nodes,
    resource_requests,
)
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.description import YARN, YarnDescription
from podtide.domain.fakes.yarn.rows import ClusterCommand, ClusterStimulus, ContainerRow, ContainerStage, YarnAgenda
from podtide.domain.fakes.yarn.tables import YarnPlan, YarnTables
from podtide.domain.protocol import executor_commands, yarn_messages
from podtide.domain.protocol.containers import Resource

__all__ = [
    "APPLICATION_ID",
    "YARN",
    "ClusterCommand",
    "ClusterStimulus",
    "YarnCensus",
    "YarnCluster",
    "advance",
    "apply",
    "begin",
    "census",
    "containers",
    "due",
    "tally",
]  # fmt: skip

APPLICATION_ID: Final = "application_1700000000000_0001"


class YarnCluster(FakeCluster[YarnTables]):
    """A YARN cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ()


def begin(
    description: YarnDescription,
    seed: int,
    now: Millis,
    *,
    application_id: str = APPLICATION_ID,
    heartbeat_ms: Millis = 10_000,
) -> YarnCluster:
    """The cluster at its beginning, its nodes there and an application master about to register.

    ``application_id``: what the containers' names are made of. ``heartbeat_ms``: how often an executor is heard from
    (spark.executor.heartbeatInterval). Raises ValueError for a description that has ``problems``.
    """
    refuse(problems(description))
    tables = YarnTables(YarnPlan(description, stream(seed), application_id, heartbeat_ms), now)
    nodes.begin(tables, now)
    capacity_scheduler.watch_queue(tables, now)
    application_master.begin(tables, now)
    tables.stirred = False
    tables.undo_log.clear()
    return YarnCluster(tables, now)


def apply(cluster: YarnCluster, command: ClusterCommand, now: Millis) -> YarnCluster:
    """The application asks for something at ``now``. What is for somebody else is not listened to.

    Nothing comes of it before ``advance``, which may be at this same ``now``. Raises ValueError when ``now`` is before
    what has been lived through.
    """
    with cluster.step_at(now) as tables:
        if tables.stopped:
            return cluster
        _ask(tables, command, now)
        if tables.stirred:
            capacity_scheduler.look(tables, now)
        return cluster.stepped(now)


def advance(cluster: YarnCluster, now: Millis) -> tuple[YarnCluster, tuple[ClusterStimulus, ...]]:
    """Let time pass up to and including ``now``: the cluster then, and what reached the application, in order.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    return cluster.lived(now, _happen)


def _ask(tables: YarnTables, command: ClusterCommand, now: Millis) -> None:
    """The driver's words reach executors whether or not there is a master; everything else is for the master."""
    match command:
        case (
            executor_commands.RemoveExecutor()
            | executor_commands.DecommissionExecutors()
            | executor_commands.AnswerRegistration()
        ):
            for executor, word in words(command):
                executors.say_to(tables, executor, word, now)
        case yarn_messages.EndApplication() | executor_commands.StopSource(what="client"):
            _stop(tables)
        case _:
            if tables.master:
                _ask_master(tables, command, now)


def _ask_master(tables: YarnTables, command: ClusterCommand, now: Millis) -> None:
    match command:
        case yarn_messages.RequestContainers():
            resource_requests.request(tables, command)
        case yarn_messages.CancelRequests():
            resource_requests.cancel(tables, command)
        case yarn_messages.TakeRequests():
            resource_requests.take(tables, command)
        case yarn_messages.CallResourceManager():
            application_master.call(tables, command, now)
        case yarn_messages.ReleaseContainers():
            for container in command.containers:
                row = tables.by_id(container)
                if row is not None:
                    tables.releases.put(tables.release_numbers.next(), row.number)
        case yarn_messages.LaunchExecutor():
            executors.launch(tables, command, now)
        case yarn_messages.UpdateExclusions():
            for host in command.added:
                tables.excluding.put(host, 1)
            for host in command.removed:
                tables.excluding.put(host, -1)
        case _:
            pass  # for the driver, or for the engine itself


def _stop(tables: YarnTables) -> None:
    """The application ends: nobody is left to hear anything, and its containers are collected."""
    tables.stopped = True
    tables.count("containers.running at the end", sum(not row.ended for row in tables.containers.values()))
    for row in list(tables.containers.values()):
        tables.drop_container(row)
    for table in (tables.agenda, tables.calls, tables.launches, tables.needs, tables.fresh, tables.done):
        table.drop_all()


def _happen(tables: YarnTables, happening: AgendaRow[YarnAgenda, ClusterStimulus]) -> None:
    now = happening.at
    if happening.say is not None:
        tables.stimuli.append(happening.say)
    elif happening.kind in _OF_CONTAINERS:
        row = tables.containers.get(happening.a)
        if row is not None:
            _OF_CONTAINERS[happening.kind](tables, row, happening.b, now)
    else:
        _OTHERS[happening.kind](tables, happening.a, happening.b, now)
    if tables.stirred:
        capacity_scheduler.look(tables, now)


_OF_CONTAINERS: Final[Mapping[YarnAgenda, Callable[[YarnTables, ContainerRow, int, Millis], None]]] = {
    YarnAgenda.STAGE: lambda tables, row, _, now: executors.elapsed(tables, row, now),
    YarnAgenda.HEAR: lambda tables, row, word, now: executors.hear(tables, row, DriverWord(word), now),
    YarnAgenda.EXPIRE: lambda tables, row, _, now: container_endings.expired(tables, row, now),
    YarnAgenda.REPORT: lambda tables, row, _, now: container_endings.reported(tables, row, now),
    YarnAgenda.KILL: lambda tables, row, _, now: container_endings.killed(tables, row, now),
}
"""What happens to a container, if it is still there."""


def _change_queue(tables: YarnTables, now: Millis) -> None:
    """A tenant comes or goes."""
    capacity_scheduler.watch_queue(tables, now)
    container_endings.press(tables, now)
    tables.stir()


_OTHERS: Final[Mapping[YarnAgenda, Callable[[YarnTables, int, int, Millis], None]]] = {
    YarnAgenda.BEAT: lambda tables, slot, _, now: capacity_scheduler.beat(tables, slot, now),
    YarnAgenda.CALL: lambda tables, call, _, now: application_master.reached(tables, call, now),
    YarnAgenda.ANSWER: lambda tables, call, _, __: application_master.answered(tables, call),
    YarnAgenda.LAUNCH: lambda tables, launch, _, now: executors.launched(tables, launch, now),
    YarnAgenda.LOSE: nodes.crash,
    YarnAgenda.LOST: nodes.lost,
    YarnAgenda.LEAVE: nodes.leave,
    YarnAgenda.OUT: nodes.out,
    YarnAgenda.BACK: nodes.back,
    YarnAgenda.EVENT: lambda tables, place, _, now: nodes.happen(tables, place, now),
    YarnAgenda.QUEUE: lambda tables, _, __, now: _change_queue(tables, now),
    YarnAgenda.PREEMPT: lambda tables, _, __, now: container_endings.preempt(tables, now),
    YarnAgenda.RESTART: lambda tables, _, __, now: application_master.restart(tables, now),
    YarnAgenda.REGISTER: lambda tables, _, __, now: application_master.register(tables, now),
}
"""What happens to nodes, the queue, calls and the application master."""


class YarnCensus(NamedTuple):
    """The cluster counted. ``stages``: containers by profile and stage. ``wanted``: what the resource manager believes that
    each profile wants more. ``used`` and ``allowed``: of the queue. ``nodes``: in the cluster; ``calls_open``: of the
    master.
    """

    stages: Mapping[tuple[int, ContainerStage], int]
    wanted: Mapping[int, int]
    used: Resource
    allowed: Resource
    nodes: int
    calls_open: int
    master: bool


def census(cluster: YarnCluster) -> YarnCensus:
    """Count the cluster. Costs the number of containers: for a look, not for every step."""
    tables = cluster._tables
    stages: dict[tuple[int, ContainerStage], int] = {}
    for row in tables.containers.values():
        key = (row.profile, row.stage)
        stages[key] = stages.get(key, 0) + 1
    return YarnCensus(
        stages=MappingProxyType(stages),
        wanted=MappingProxyType(
            {profile: resource_requests.wanted(need) for profile, need in sorted(tables.needs.items())}
        ),
        used=Resource(tables.used_mib, tables.used_vcores),
        allowed=Resource(*capacity_scheduler.limit(tables, cluster.now)),
        nodes=tables.active,
        calls_open=len(tables.calls),
        master=tables.master and not tables.stopped,
    )


def containers(cluster: YarnCluster) -> tuple[ContainerRow, ...]:
    """Every container that has not lived its life to the end, oldest first."""
    return tuple(row for _, row in sorted(cluster._tables.containers.items()))
