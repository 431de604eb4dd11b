"""The application master's calls of the resource manager, and the master itself as it fails and comes again.

A call is under way for half of its latency and its answer for the other half. What it carries (the requests that
changed, releases, exclusions) is what the client has when it sends it. The resource manager answers with what it has
for the application by then: containers that nodes' heartbeats gave meanwhile, completions, node reports, what the
queue has left and how many nodes there are; what the call itself causes is in the next answer. A call that fails has
no effect, and what it carried goes with the next one.

When the application master fails, the resource manager kills all its containers, forgets what it asked for, and tells
the next attempt nothing of them. Until that one registers, nobody listens to what the application asks of its master.
Source: ApplicationMasterService, CapacityScheduler and AMRMClientImpl of Hadoop 3.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import Stream, chance, draw, split
from podtide.domain.base.units import Millis
from podtide.domain.fakes.yarn.books import Books
from podtide.domain.fakes.yarn.capacity_scheduler import headroom
from podtide.domain.fakes.yarn.container_endings import ABORTED, end, released
from podtide.domain.fakes.yarn.description import CallFault
from podtide.domain.fakes.yarn.resource_requests import arrive, parcel, restore
from podtide.domain.fakes.yarn.rows import AskRow, CallRow, Kind, Stage
from podtide.domain.protocol.containers import Completion, Container, NodeReport
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    LaunchEnded,
    MasterLost,
    MasterRegistered,
    ResourcesAnswered,
    ResourcesRefused,
)

_CALLS: Final = 5
_MASTERS: Final = 6
_INVALID: Final = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
_LOST_MASTER: Final = "Container killed: its application attempt is over"

# calls


def call(books: Books, command: CallResourceManager, now: Millis) -> None:
    """The client sends what changed."""
    number = books.next("calls")
    rng = books.stream(_CALLS, number)
    latency, rng = draw(rng, books.plan.description.manager.latency)
    releases = tuple(row for _, row in sorted(books.releases.rows.items()))
    excluding = tuple(sorted(books.excluding.rows.items()))
    books.clear("releases", "excluding")
    place, rng = _fault(books, rng, now)
    slow = None if place is None else books.plan.description.manager.faults[place].slow
    if slow is not None:
        more, rng = draw(rng, slow)
        latency, place = latency + more, None
        books.count("calls.slow")
    row = CallRow(number, command.serial, parcel(books), releases, excluding, rng, now + latency, place)
    books.calls.put(number, row)
    books.count("calls.made")
    books.later(now + latency // 2, Kind.CALL, number)


def _fault(books: Books, rng: Stream, now: Millis) -> tuple[int | None, Stream]:
    """The first fault of the description that hits a call."""
    if books.faulty(now):
        for place, fault in enumerate(books.plan.description.manager.faults):
            if fault.during.active(now - books.began):
                hit, rng = chance(rng, fault.probability)
                if hit:
                    return place, rng
    return None, rng


def reached(books: Books, number: int, now: Millis) -> None:
    """A call is at the resource manager."""
    row = books.calls.rows[number]
    fault = None if row.fault is None else books.plan.description.manager.faults[row.fault]
    refusal = _invalid(books, row.asks) if fault is None else fault
    if refusal is not None:
        books.count("calls.refused")
        answer = ResourcesRefused(row.answer_at, row.serial, refusal.what, refusal.fatal)
        books.calls.put(number, row._replace(answer=answer))
    else:
        books.calls.put(number, row._replace(answer=_answer(books, row, now)))
    books.later(row.answer_at, Kind.ANSWER, number)


def _invalid(books: Books, asks: tuple[tuple[int, AskRow], ...]) -> CallFault | None:
    """Whether more is asked for at once than the resource manager ever gives."""
    manager = books.plan.description.manager
    for _, ask in asks:
        for name, asked, most in (
            ("memory-mb", ask.resource.memory_mib, manager.maximum_mib),
            ("vcores", ask.resource.vcores, manager.maximum_vcores),
        ):
            if most is not None and asked > most and ask.table.waiting:
                what = (
                    f"{_INVALID}: Invalid resource request! Cannot allocate containers as requested resource is greater "
                    f"than maximum allowed allocation. Requested resource type=[{name}], Requested resource=<memory:"
                    f"{ask.resource.memory_mib}, vCores:{ask.resource.vcores}>, maximum allowed allocation={most}"
                )
                return CallFault(what)
    return None


def _answer(books: Books, row: CallRow, now: Millis) -> ResourcesAnswered:
    """What the resource manager has for the application; then it takes what the call says."""
    mistakes, rng = books.plan.description.manager.mistakes, row.rng
    mistaken = mistakes.during.active(now - books.began) and books.faulty(now)
    partial, rng = chance(rng, mistakes.partial if mistaken else 0.0)
    completed: list[Completion] = []
    for serial in sorted(books.done.rows):
        one = books.done.drop(serial)
        assert one is not None
        completed.append(one)
        again, rng = chance(rng, mistakes.repeated if mistaken else 0.0)
        if again:
            books.count("mistakes.told again")
            books.done.put(books.next("done"), one)
    updated: list[NodeReport] = []
    for serial in sorted(books.news.rows):
        report = books.news.drop(serial)
        assert report is not None
        updated.append(report)
    arrive(books, row.asks)
    for number in row.releases:
        released(books, number, now)
    for host, by in row.excluding:
        books.exclude(host, there=by > 0)
    given = _given(books, now, partial=partial)
    return ResourcesAnswered(
        row.answer_at, row.serial, given, tuple(completed), tuple(updated), books.active, headroom(books, now)
    )


def _given(books: Books, now: Millis, *, partial: bool) -> tuple[Container, ...]:
    """The containers that the application does not know yet; from now on they can expire."""
    fresh = sorted(books.fresh.rows)
    if partial and len(fresh) > 1:
        books.count("mistakes.partial")
        fresh = fresh[: (len(fresh) + 1) // 2]
    expiry = books.plan.description.manager.expiry_ms
    given = []
    for number in fresh:
        books.fresh.drop(number)
        row = books.containers.rows[number]
        timer = books.later(now + expiry, Kind.EXPIRE, number)
        books.put_container(row._replace(stage=Stage.ACQUIRED, timer=timer))
        given.append(Container(row.id, books.plan.nodes[row.slot].host, row.priority, row.resource))
    return tuple(given)


def answered(books: Books, number: int) -> None:
    """The answer is back."""
    row = books.calls.drop(number)
    assert row is not None
    assert row.answer is not None
    if isinstance(row.answer, ResourcesRefused):
        restore(books, row.asks)
        for release in row.releases:
            books.releases.put(books.next("releases"), release)
        for host, by in row.excluding:
            if host not in books.excluding.rows:
                books.excluding.put(host, by)
    books.said.append(row.answer)


# the master


def begin(books: Books, now: Millis) -> None:
    """The first application master will register, and fail when it is meant to."""
    master = books.plan.description.master
    wait, _ = draw(books.stream(_MASTERS, 0), master.registers)
    books.later(now + wait, Kind.REGISTER, 0)
    for at in master.restarts:
        books.later(books.began + at, Kind.RESTART)


def register(books: Books, now: Millis) -> None:
    """An application master is there."""
    books.numbers.put("attempt", books.number("attempt") + 1)
    books.numbers.put("before attempt", books.number("container"))
    books.numbers.put("master", 1)
    books.count("masters")
    books.said.append(MasterRegistered(now))


def restart(books: Books, now: Millis) -> None:
    """The application master fails: everything of its attempt is over."""
    if not books.number("master") or not books.faulty(now):
        return
    books.numbers.put("master", 0)
    books.said.append(MasterLost(now))
    books.clear("asks", "needs", "fresh", "done", "news", "releases", "excluding", "calls", "launches")
    for host in list(books.excluded.rows):
        books.exclude(host, there=False)
    for serial, due in list(books.agenda.rows.items()):
        if due.kind in {Kind.CALL, Kind.ANSWER, Kind.LAUNCH} or isinstance(due.say, LaunchEnded):
            books.cancel(serial)
    for row in list(books.containers.rows.values()):
        end(books, row, ABORTED, _LOST_MASTER, now, told=False)
    number = books.number("attempt")
    wait, _ = draw(split(books.stream(_MASTERS, number), 1), books.plan.description.master.back)
    books.later(now + wait, Kind.REGISTER)
    books.stir()
