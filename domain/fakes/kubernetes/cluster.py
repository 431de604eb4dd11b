"""A cluster as a value: what the driver asks goes in, what the driver hears comes out, and time passes when told to.

``begin`` makes a world of a description and a seed, ``apply`` takes what the driver asks for, ``advance`` lets time pass
and returns everything that reaches the driver up to then, in order, each with the moment at which it does. ``due``
says when something happens next, so that nobody has to wait for it. Nothing here reads a clock; the generator's state is
part of the world, so the same description, seed and commands at the same times give the same story to the byte.

A world is immutable for whoever holds it: every step returns another, and an older one can be gone on from (it rebuilds
itself; see ``base.versioned`` and ``fakes.kubernetes.books``). Going forward costs what happens, not what the cluster holds.

How to use it: jump to the earlier of ``due(world)`` and the time at which the driver does something of its own,
``advance`` to it, hand what comes to the driver, and ``apply`` what it asks, at that same time. Whoever advances past
``due`` gets several moments at once, and could not have answered the first before the second happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import Millis
from podtide.domain.base.versioned import JournalEntry, Versioned
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
from podtide.domain.fakes.kubernetes.books import Books, Plan
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
from podtide.domain.fakes.kubernetes.rows import Application, Due, Kind, Word
from podtide.domain.fakes.kubernetes.watch import begin as begin_watch, broke, mended, stop_watch
from podtide.domain.protocol.config import SourcesConfig
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
    "World",
    "advance",
    "apply",
    "begin",
    "census",
    "due",
    "pods",
    "tally",
]


class World(Versioned[Books]):
    """A cluster at a moment. ``now``: up to when it has been lived through."""

    __slots__ = ("now",)

    def __init__(self, books: Books | None, now: Millis) -> None:
        super().__init__(books)
        self.now = now


def begin(
    description: Description,
    seed: int,
    now: Millis,
    *,
    sources: SourcesConfig | None = None,
    application: Application | None = None,
    polls: bool = False,
) -> World:
    """The world at its beginning, its nodes there and the watch open, as ``sources`` says (default: Spark's).

    ``polls``: the world also lists by itself, every ``sources.poll_interval_ms``, and says ``PodsReplaced``. Leave it off
    where the driver asks with ListPods. Raises ValueError for a description that has ``problems``.
    """
    found = problems(description)
    if found:
        raise ValueError("; ".join(f"{where}: expected {what}" for where, what in found))
    plan = Plan(description, sources or SourcesConfig(), application or Application(), polls)
    books = Books(plan, stream(seed), now)
    begin_nodes(books, now)
    begin_watch(books, now)
    begin_poll(books, now)
    if description.calm_ms is not None:
        books.later(now + description.calm_ms, Kind.CALM)
    books.journal()
    return World(books, now)


def due(world: World) -> Millis:
    """When something happens in the world next, whether or not the driver will hear of it (``NEVER``: nothing does)."""
    return world.books.due()


def apply(world: World, command: PodCommand, now: Millis) -> World:
    """The driver asks for something at ``now``: a call is on its way to the API, a word to an executor.

    Nothing comes of it before ``advance``, which may be at this same ``now``. Raises ValueError when ``now`` is before
    what has been lived through.
    """
    books = _books(world, now)
    if books.number("stopped"):
        return world
    _ask(books, command, now)
    return _successor(world, books, now)


def advance(world: World, now: Millis) -> tuple[World, tuple[PodStimulus, ...]]:
    """Let time pass up to and including ``now``: the world then, and what reached the driver, in order.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    books = _books(world, now)
    if books.due() > now:
        return (world if now == world.now else _successor(world, books, now)), ()
    said: list[PodStimulus] = []
    books.said = said
    for happening in books.pop(now):
        _happen(books, happening)
    return _successor(world, books, now), tuple(said)


def _books(world: World, now: Millis) -> Books:
    if now < world.now:
        raise ValueError(f"the world is at {world.now} already, {now} is before that")
    return world.books


def _successor(world: World, books: Books, now: Millis) -> World:
    journal: list[JournalEntry] = books.journal()
    successor = World(books, now)
    world.hand_over(successor, journal)
    return successor


def _ask(books: Books, command: PodCommand, now: Millis) -> None:
    match command:
        case RemoveExecutor():
            for pod in books.speaking(command.executor):
                say_to(books, pod, Word.STOP, now)
        case DecommissionExecutors():
            if command.notify_executors:
                for executor in command.executors:
                    for pod in books.speaking(executor):
                        say_to(books, pod, Word.DECOMMISSION, now)
        case AnswerRegistration():
            word = Word.ACCEPTED if command.accepted else Word.REFUSED
            for pod in books.speaking(command.executor):
                say_to(books, pod, word, now)
        case AssignExecutorId():
            uid = books.names.get(command.pod)
            if uid is not None and books.pods.rows[uid].life is Life.NAMING:
                pod = books.pods.rows[uid]._replace(executor=str(command.executor))
                books.put_pod(pod)
                say_to(books, pod, Word.NAMED, now)
            call(books, command, now)
        case AwaitDriverReady():
            await_driver(books, command, now)
        case StopSource():
            if command.what == "watch":
                stop_watch(books)
            elif command.what == "poll":
                stop_poll(books)
            books.later(now, Kind.SAY, say=Outcome(now, command.serial))
        case StopApplication():
            _stop(books)
        case _:
            call(books, command, now)


def _stop(books: Books) -> None:
    """The driver ends: nobody is left to hear anything, and its pods are collected with it."""
    books.numbers.put("stopped", 1)
    for table in (books.agenda, books.calls, books.backlog, books.lanes, books.sets):
        for key in list(table.rows):
            table.drop(key)
    books.count("pods.gone", len(books.pods.rows))
    for pod in list(books.pods.rows.values()):
        books.drop_pod(pod)


def _happen(books: Books, happening: Due) -> None:
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.SAY:
            assert happening.say is not None
            books.said.append(happening.say)
        case Kind.STAGE:
            pod, stage = books.pods.rows[a], books.plan.stages[happening.b]
            if stage.next is Life.SCHEDULED:
                schedule(books, pod, now)
            else:
                elapsed(books, pod, stage, now)
        case Kind.CALL:
            reached(books, a, now)
        case Kind.ANSWER:
            answered(books, a, now)
        case Kind.RETRY:
            start(books, a, now)
        case Kind.HEAR:
            hearer = books.pods.rows.get(a)
            if hearer is not None:
                hear(books, hearer, Word(happening.b), now)
        case Kind.KILL:
            killed(books, books.pods.rows[a], now)
        case Kind.RESTART:
            restart(books, books.pods.rows[a], now)
        case Kind.BACKOFF:
            backs_off(books, books.pods.rows[a], now)
        case Kind.ORPHAN:
            orphaned(books, books.pods.rows[a], now)
        case _:
            _happen_around(books, happening)


def _happen_around(books: Books, happening: Due) -> None:
    """What happens to nodes, controllers, the watch and the faults."""
    now, a = happening.at, happening.a
    match happening.kind:
        case Kind.PLACE:
            place(books, now)
        case Kind.SCAN:
            scan(books, now)
        case Kind.ARRIVE:
            arrive(books, a, now)
        case Kind.INTERRUPT:
            interrupt(books, a, now)
        case Kind.LEAVE:
            leave(books, a, now)
        case Kind.IDLE:
            idle(books, a, now)
        case Kind.EVENT:
            happen(books, a, now)
        case Kind.SYNC:
            act(books, a, now)
        case Kind.BREAK:
            broke(books, a, now)
        case Kind.MEND:
            mended(books, now)
        case Kind.POLL:
            poll(books, now)
        case Kind.CALM:
            calm(books, now)
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


def census(world: World) -> Census:
    """Count the cluster. Costs the number of profiles and states, not of pods."""
    books = world.books
    return Census(
        lives=MappingProxyType(dict(books.counts)),
        waiting=sum(len(tickets) for tickets in books.waiting.values()),
        unfinished=books.unfinished,
        nodes=len(books.nodes.rows),
        nodes_coming=len(books.coming.rows),
        calls_open=len(books.calls.rows),
        watching=books.number("watch") == 0 and not books.number("stopped"),
    )


def tally(world: World) -> Mapping[str, int]:
    """What has happened so far, counted by name ("calls.create pods", "pods.created", "faults.429", ...), sorted."""
    return MappingProxyType(dict(sorted(world.books.tally.rows.items())))


def pods(world: World) -> tuple[PodManifest, ...]:
    """Every pod that the API holds, as it really is now, oldest first."""
    return manifests(world.books)
