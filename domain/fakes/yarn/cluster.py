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

A cluster is immutable for whoever holds it: every step returns another, and an older one can be gone on from. Going forward
costs what happens, not what the cluster holds: a heartbeat of a node is an event only if a container may come of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.base.versioned import JournalEntry, Versioned
from podtide.domain.fakes.yarn.application_master import (
    answered,
    begin as begin_master,
    call,
    reached,
    register,
    restart,
)
from podtide.domain.fakes.yarn.books import Books, Plan
from podtide.domain.fakes.yarn.capacity_scheduler import beat, limit, look, watch_queue
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.container_endings import expired, killed, preempt, press, reported
from podtide.domain.fakes.yarn.description import YARN, YarnDescription
from podtide.domain.fakes.yarn.executors import elapsed, hear, launch, launched, say_to
from podtide.domain.fakes.yarn.nodes import back, begin as begin_nodes, crash, happen, leave, lost, out
from podtide.domain.fakes.yarn.resource_requests import cancel, request, take, wanted
from podtide.domain.fakes.yarn.rows import Asked, ContainerRow, Due, Kind, Said, Stage, Word
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
    "YarnWorld",
    "advance",
    "apply",
    "begin",
    "census",
    "containers",
    "due",
    "tally",
]

APPLICATION_ID: Final = "application_1700000000000_0001"


class YarnWorld(Versioned[Books]):
    """A YARN cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ("now",)

    def __init__(self, books: Books | None, now: Millis) -> None:
        super().__init__(books)
        self.now = now


def begin(description: YarnDescription, seed: int, now: Millis, *, application_id: str = APPLICATION_ID) -> YarnWorld:
    """The cluster at its beginning, its nodes there and an application master about to register.

    ``application_id``: what the containers' names are made of. Raises ValueError for a description that has ``problems``.
    """
    found = problems(description)
    if found:
        raise ValueError("; ".join(f"{where}: expected {what}" for where, what in found))
    books = Books(Plan(description, stream(seed), application_id), now)
    begin_nodes(books, now)
    watch_queue(books, now)
    begin_master(books, now)
    books.stirred = False
    books.journal()
    return YarnWorld(books, now)


def due(world: YarnWorld) -> Millis:
    """When something happens in the cluster next, whether or not anybody will hear of it (``NEVER``: nothing does)."""
    return world.books.due()


def apply(world: YarnWorld, command: Asked, now: Millis) -> YarnWorld:
    """The application asks for something at ``now``. What is for somebody else is not listened to.

    Nothing comes of it before ``advance``, which may be at this same ``now``. Raises ValueError when ``now`` is before
    what has been lived through.
    """
    books = _books(world, now)
    if books.number("stopped"):
        return world
    _ask(books, command, now)
    if books.stirred:
        look(books, now)
    return _successor(world, books, now)


def advance(world: YarnWorld, now: Millis) -> tuple[YarnWorld, tuple[Said, ...]]:
    """Let time pass up to and including ``now``: the cluster then, and what reached the application, in order.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    books = _books(world, now)
    if books.due() > now:
        return (world if now == world.now else _successor(world, books, now)), ()
    said: list[Said] = []
    books.said = said
    for happening in books.pop(now):
        _happen(books, happening)
        if books.stirred:
            look(books, happening.at)
    return _successor(world, books, now), tuple(said)


def _books(world: YarnWorld, now: Millis) -> Books:
    if now < world.now:
        raise ValueError(f"the cluster is at {world.now} already, {now} is before that")
    return world.books


def _successor(world: YarnWorld, books: Books, now: Millis) -> YarnWorld:
    journal: list[JournalEntry] = books.journal()
    successor = YarnWorld(books, now)
    world.hand_over(successor, journal)
    return successor


def _ask(books: Books, command: Asked, now: Millis) -> None:
    """The driver's words reach executors whether or not there is a master; everything else is for the master."""
    match command:
        case RemoveExecutor():
            say_to(books, command.executor, Word.STOP, now)
        case DecommissionExecutors():
            if command.notify_executors:
                for executor in command.executors:
                    say_to(books, executor, Word.DECOMMISSION, now)
        case AnswerRegistration():
            say_to(books, command.executor, Word.ACCEPTED if command.accepted else Word.REFUSED, now)
        case EndApplication() | StopSource(what="client"):
            _stop(books)
        case _:
            if books.number("master"):
                _ask_master(books, command, now)


def _ask_master(books: Books, command: Asked, now: Millis) -> None:
    match command:
        case RequestContainers():
            request(books, command)
        case CancelRequests():
            cancel(books, command)
        case TakeRequests():
            take(books, command)
        case CallResourceManager():
            call(books, command, now)
        case ReleaseContainers():
            for container in command.containers:
                row = books.by_id(container)
                if row is not None:
                    books.releases.put(books.next("releases"), row.number)
        case LaunchExecutor():
            launch(books, command, now)
        case UpdateExclusions():
            for host in command.added:
                books.excluding.put(host, 1)
            for host in command.removed:
                books.excluding.put(host, -1)
        case _:
            pass  # for the driver, or for the engine itself


def _stop(books: Books) -> None:
    """The application ends: nobody is left to hear anything, and its containers are collected."""
    books.numbers.put("stopped", 1)
    books.count("containers.running at the end", sum(not row.ended for row in books.containers.rows.values()))
    for row in list(books.containers.rows.values()):
        books.drop_container(row)
    books.clear("agenda", "calls", "launches", "needs", "fresh", "done")


def _happen(books: Books, happening: Due) -> None:
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.SAY:
            assert happening.say is not None
            books.said.append(happening.say)
        case Kind.BEAT:
            beat(books, a, now)
        case Kind.CALL:
            reached(books, a, now)
        case Kind.ANSWER:
            answered(books, a)
        case Kind.LAUNCH:
            launched(books, a, now)
        case Kind.STAGE | Kind.HEAR | Kind.EXPIRE | Kind.REPORT | Kind.KILL:
            row = books.containers.rows.get(a)
            if row is not None:
                _happen_to(books, happening, row)
        case _:
            _happen_around(books, happening)


def _happen_to(books: Books, happening: Due, row: ContainerRow) -> None:
    """What happens to a container."""
    now = happening.at
    match happening.kind:
        case Kind.STAGE:
            elapsed(books, row, now)
        case Kind.HEAR:
            hear(books, row, Word(happening.b), now)
        case Kind.EXPIRE:
            expired(books, row, now)
        case Kind.REPORT:
            reported(books, row, now)
        case _:
            killed(books, row, now)


def _happen_around(books: Books, happening: Due) -> None:
    """What happens to nodes, the queue and the application master."""
    now, a, lives = happening.at, happening.a, happening.b
    match happening.kind:
        case Kind.LOSE:
            crash(books, a, lives, now)
        case Kind.LOST:
            lost(books, a, lives, now)
        case Kind.LEAVE:
            leave(books, a, lives, now)
        case Kind.OUT:
            out(books, a, lives, now)
        case Kind.BACK:
            back(books, a, lives, now)
        case Kind.EVENT:
            happen(books, a, now)
        case Kind.QUEUE:
            watch_queue(books, now)
            press(books, now)
            books.stir()
        case Kind.PREEMPT:
            preempt(books, now)
        case Kind.RESTART:
            restart(books, now)
        case Kind.REGISTER:
            register(books, now)
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


def census(world: YarnWorld) -> Census:
    """Count the cluster. Costs the number of containers: for a look, not for every step."""
    books = world.books
    stages: dict[tuple[int, Stage], int] = {}
    for row in books.containers.rows.values():
        key = (row.profile, row.stage)
        stages[key] = stages.get(key, 0) + 1
    return Census(
        stages=MappingProxyType(stages),
        wanted=MappingProxyType({profile: wanted(need) for profile, need in sorted(books.needs.rows.items())}),
        used=Resource(books.used_mib, books.used_vcores),
        allowed=Resource(*limit(books, world.now)),
        nodes=books.active,
        calls_open=len(books.calls.rows),
        master=books.number("master") == 1 and not books.number("stopped"),
    )


def tally(world: YarnWorld) -> Mapping[str, int]:
    """What has happened so far, counted by name ("containers.allocated", "completed.-102", "calls.refused", ...), sorted."""
    return MappingProxyType(dict(sorted(world.books.tally.rows.items())))


def containers(world: YarnWorld) -> tuple[ContainerRow, ...]:
    """Every container that has not lived its life to the end, oldest first."""
    return tuple(row for _, row in sorted(world.books.containers.rows.items()))
