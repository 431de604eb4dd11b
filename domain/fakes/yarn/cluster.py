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

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.fakes.tables import FakeCluster, due, tally
from podtide.domain.fakes.yarn.application_master import (
    answered,
    begin as begin_master,
    call,
    reached,
    register,
    restart,
)
from podtide.domain.fakes.yarn.capacity_scheduler import beat, limit, look, watch_queue
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.container_endings import expired, killed, preempt, press, reported
from podtide.domain.fakes.yarn.description import YARN, YarnDescription
from podtide.domain.fakes.yarn.executors import elapsed, hear, launch, launched, say_to
from podtide.domain.fakes.yarn.nodes import back, begin as begin_nodes, crash, happen, leave, lost, out
from podtide.domain.fakes.yarn.resource_requests import cancel, request, take, wanted
from podtide.domain.fakes.yarn.rows import Asked, ContainerRow, Due, Kind, Said, Stage, Word
from podtide.domain.fakes.yarn.tables import Plan, YarnTables
from podtide.domain.protocol.containers import Resource
from podtide.domain.protocol.pod_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor, StopSource
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    CancelRequests,
    EndApplication,
    LaunchExecutor,
    ReleaseContainers,
    RequestContainers,
    TakeRequests,
    UpdateExclusions,
)

__all__ = [
    "APPLICATION_ID",
    "YARN",
    "Asked",
    "Census",
    "Said",
    "YarnCluster",
    "advance",
    "apply",
    "begin",
    "census",
    "containers",
    "due",
    "tally",
]

APPLICATION_ID: Final = "application_1700000000000_0001"


class YarnCluster(FakeCluster[YarnTables]):
    """A YARN cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ()


def begin(description: YarnDescription, seed: int, now: Millis, *, application_id: str = APPLICATION_ID) -> YarnCluster:
    """The cluster at its beginning, its nodes there and an application master about to register.

    ``application_id``: what the containers' names are made of. Raises ValueError for a description that has ``problems``.
    """
    found = problems(description)
    if found:
        raise ValueError("; ".join(f"{where}: expected {what}" for where, what in found))
    tables = YarnTables(Plan(description, stream(seed), application_id), now)
    begin_nodes(tables, now)
    watch_queue(tables, now)
    begin_master(tables, now)
    tables.stirred = False
    tables.undo_log.clear()
    return YarnCluster(tables, now)


def apply(cluster: YarnCluster, command: Asked, now: Millis) -> YarnCluster:
    """The application asks for something at ``now``. What is for somebody else is not listened to.

    Nothing comes of it before ``advance``, which may be at this same ``now``. Raises ValueError when ``now`` is before
    what has been lived through.
    """
    with cluster.step_at(now) as tables:
        if tables.stopped:
            return cluster
        _ask(tables, command, now)
        if tables.stirred:
            look(tables, now)
        return cluster.stepped(now)


def advance(cluster: YarnCluster, now: Millis) -> tuple[YarnCluster, tuple[Said, ...]]:
    """Let time pass up to and including ``now``: the cluster then, and what reached the application, in order.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    with cluster.step_at(now) as tables:
        if tables.due() > now:
            return (cluster if now == cluster.now else cluster.stepped(now)), ()
        stimuli = tables.stimuli = []
        for happening in tables.pop(now):
            _happen(tables, happening)
            if tables.stirred:
                look(tables, happening.at)
        return cluster.stepped(now), tuple(stimuli)


def _ask(tables: YarnTables, command: Asked, now: Millis) -> None:
    """The driver's words reach executors whether or not there is a master; everything else is for the master."""
    match command:
        case RemoveExecutor():
            say_to(tables, command.executor, Word.STOP, now)
        case DecommissionExecutors():
            if command.notify_executors:
                for executor in command.executors:
                    say_to(tables, executor, Word.DECOMMISSION, now)
        case AnswerRegistration():
            say_to(tables, command.executor, Word.ACCEPTED if command.accepted else Word.REFUSED, now)
        case EndApplication() | StopSource(what="client"):
            _stop(tables)
        case _:
            if tables.master:
                _ask_master(tables, command, now)


def _ask_master(tables: YarnTables, command: Asked, now: Millis) -> None:
    match command:
        case RequestContainers():
            request(tables, command)
        case CancelRequests():
            cancel(tables, command)
        case TakeRequests():
            take(tables, command)
        case CallResourceManager():
            call(tables, command, now)
        case ReleaseContainers():
            for container in command.containers:
                row = tables.by_id(container)
                if row is not None:
                    tables.releases.put(tables.release_numbers.next(), row.number)
        case LaunchExecutor():
            launch(tables, command, now)
        case UpdateExclusions():
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


def _happen(tables: YarnTables, happening: Due) -> None:
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.SAY:
            assert happening.say is not None
            tables.stimuli.append(happening.say)
        case Kind.BEAT:
            beat(tables, a, now)
        case Kind.CALL:
            reached(tables, a, now)
        case Kind.ANSWER:
            answered(tables, a)
        case Kind.LAUNCH:
            launched(tables, a, now)
        case Kind.STAGE | Kind.HEAR | Kind.EXPIRE | Kind.REPORT | Kind.KILL:
            row = tables.containers.get(a)
            if row is not None:
                _happen_to(tables, happening, row)
        case _:
            _happen_around(tables, happening)


def _happen_to(tables: YarnTables, happening: Due, row: ContainerRow) -> None:
    """What happens to a container."""
    now = happening.at
    match happening.kind:
        case Kind.STAGE:
            elapsed(tables, row, now)
        case Kind.HEAR:
            hear(tables, row, Word(happening.b), now)
        case Kind.EXPIRE:
            expired(tables, row, now)
        case Kind.REPORT:
            reported(tables, row, now)
        case _:
            killed(tables, row, now)


def _happen_around(tables: YarnTables, happening: Due) -> None:
    """What happens to nodes, the queue and the application master."""
    now, a, lives = happening.at, happening.a, happening.b
    match happening.kind:
        case Kind.LOSE:
            crash(tables, a, lives, now)
        case Kind.LOST:
            lost(tables, a, lives, now)
        case Kind.LEAVE:
            leave(tables, a, lives, now)
        case Kind.OUT:
            out(tables, a, lives, now)
        case Kind.BACK:
            back(tables, a, lives, now)
        case Kind.EVENT:
            happen(tables, a, now)
        case Kind.QUEUE:
            watch_queue(tables, now)
            press(tables, now)
            tables.stir()
        case Kind.PREEMPT:
            preempt(tables, now)
        case Kind.RESTART:
            restart(tables, now)
        case Kind.REGISTER:
            register(tables, now)
        case _:
            raise AssertionError(f"{happening.kind} is nobody's")


class Census(NamedTuple):
    """The cluster counted. ``stages``: containers by profile and stage. ``wanted``: what the resource manager believes that
    each profile wants more. ``used`` and ``allowed``: of the queue. ``nodes``: in the cluster; ``calls_open``: of the
    master.
    """

    stages: Mapping[tuple[int, Stage], int]
    wanted: Mapping[int, int]
    used: Resource
    allowed: Resource
    nodes: int
    calls_open: int
    master: bool


def census(cluster: YarnCluster) -> Census:
    """Count the cluster. Costs the number of containers: for a look, not for every step."""
    tables = cluster._tables
    stages: dict[tuple[int, Stage], int] = {}
    for row in tables.containers.values():
        key = (row.profile, row.stage)
        stages[key] = stages.get(key, 0) + 1
    return Census(
        stages=MappingProxyType(stages),
        wanted=MappingProxyType({profile: wanted(need) for profile, need in sorted(tables.needs.items())}),
        used=Resource(tables.used_mib, tables.used_vcores),
        allowed=Resource(*limit(tables, cluster.now)),
        nodes=tables.active,
        calls_open=len(tables.calls),
        master=tables.master and not tables.stopped,
    )


def containers(cluster: YarnCluster) -> tuple[ContainerRow, ...]:
    """Every container that has not lived its life to the end, oldest first."""
    return tuple(row for _, row in sorted(cluster._tables.containers.items()))
