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
from podtide.domain.fakes.yarn.capacity_scheduler import headroom
from podtide.domain.fakes.yarn.container_endings import ABORTED, end, released
from podtide.domain.fakes.yarn.description import CallFault
from podtide.domain.fakes.yarn.resource_requests import arrive, parcel, restore
from podtide.domain.fakes.yarn.rows import AllocateCallRow, AskRow, ContainerStage, YarnAgenda
from podtide.domain.fakes.yarn.tables import YarnTables
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.containers import Completion, Container, NodeReport

_CALLS: Final = 5
_MASTERS: Final = 6
_INVALID: Final = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
_LOST_MASTER: Final = "Container killed: its application attempt is over"

# calls


def call(tables: YarnTables, command: yarn_messages.CallResourceManager, now: Millis) -> None:
    """The client sends what changed."""
    number = tables.call_numbers.next()
    rng = tables.stream(_CALLS, number)
    latency, rng = draw(rng, tables.plan.description.manager.latency)
    releases = tuple(row for _, row in sorted(tables.releases.items()))
    excluding = tuple(sorted(tables.excluding.items()))
    tables.releases.drop_all()
    tables.excluding.drop_all()
    place, rng = _fault(tables, rng, now)
    slow = None if place is None else tables.plan.description.manager.faults[place].slow
    if slow is not None:
        more, rng = draw(rng, slow)
        latency, place = latency + more, None
        tables.count("calls.slow")
    row = AllocateCallRow(number, command.serial, parcel(tables), releases, excluding, rng, now + latency, place)
    tables.calls.put(number, row)
    tables.count("calls.made")
    tables.later(now + latency // 2, YarnAgenda.CALL, number)


def _fault(tables: YarnTables, rng: Stream, now: Millis) -> tuple[int | None, Stream]:
    """The first fault of the description that hits a call."""
    if tables.faulty(now):
        for place, fault in enumerate(tables.plan.description.manager.faults):
            if fault.during.active(now - tables.began):
                hit, rng = chance(rng, fault.probability)
                if hit:
                    return place, rng
    return None, rng


def reached(tables: YarnTables, number: int, now: Millis) -> None:
    """A call is at the resource manager."""
    row = tables.calls[number]
    fault = None if row.fault is None else tables.plan.description.manager.faults[row.fault]
    refusal = _invalid(tables, row.asks) if fault is None else fault
    if refusal is not None:
        tables.count("calls.refused")
        answer = yarn_messages.ResourcesRefused(row.answer_at, row.serial, refusal.what, refusal.fatal)
        tables.calls.put(number, row._replace(answer=answer))
    else:
        tables.calls.put(number, row._replace(answer=_answer(tables, row, now)))
    tables.later(row.answer_at, YarnAgenda.ANSWER, number)


def _invalid(tables: YarnTables, asks: tuple[tuple[int, AskRow], ...]) -> CallFault | None:
    """Whether more is asked for at once than the resource manager ever gives."""
    manager = tables.plan.description.manager
    for _, ask in asks:
        for name, amount, most in (
            ("memory-mb", ask.resource.memory_mib, manager.maximum_mib),
            ("vcores", ask.resource.vcores, manager.maximum_vcores),
        ):
            if most is not None and amount > most and ask.table.waiting:
                what = (
                    f"{_INVALID}: Invalid resource request! Cannot allocate containers as requested resource is greater "
                    f"than maximum allowed allocation. Requested resource type=[{name}], Requested resource=<memory:"
                    f"{ask.resource.memory_mib}, vCores:{ask.resource.vcores}>, maximum allowed allocation={most}"
                )
                return CallFault(what)
    return None


def _answer(tables: YarnTables, row: AllocateCallRow, now: Millis) -> yarn_messages.ResourcesAnswered:
    """What the resource manager has for the application; then it takes what the call says."""
    mistakes, rng = tables.plan.description.manager.mistakes, row.rng
    mistaken = mistakes.during.active(now - tables.began) and tables.faulty(now)
    partial, rng = chance(rng, mistakes.partial if mistaken else 0.0)
    completed: list[Completion] = []
    for serial in sorted(tables.done):
        one = tables.done.drop(serial)
        assert one is not None
        completed.append(one)
        again, rng = chance(rng, mistakes.repeated if mistaken else 0.0)
        if again:
            tables.count("mistakes.told again")
            tables.done.put(tables.completion_numbers.next(), one)
    updated: list[NodeReport] = []
    for serial in sorted(tables.news):
        report = tables.news.drop(serial)
        assert report is not None
        updated.append(report)
    arrive(tables, row.asks)
    for number in row.releases:
        released(tables, number, now)
    for host, by in row.excluding:
        tables.exclude(host, there=by > 0)
    given = _given(tables, now, partial=partial)
    return yarn_messages.ResourcesAnswered(
        row.answer_at, row.serial, given, tuple(completed), tuple(updated), tables.active, headroom(tables, now)
    )


def _given(tables: YarnTables, now: Millis, *, partial: bool) -> tuple[Container, ...]:
    """The containers that the application does not know yet; from now on they can expire."""
    fresh = sorted(tables.fresh)
    if partial and len(fresh) > 1:
        tables.count("mistakes.partial")
        fresh = fresh[: (len(fresh) + 1) // 2]
    expiry = tables.plan.description.manager.expiry_ms
    given = []
    for number in fresh:
        tables.fresh.drop(number)
        row = tables.containers[number]
        timer = tables.later(now + expiry, YarnAgenda.EXPIRE, number)
        tables.put_container(row._replace(stage=ContainerStage.ACQUIRED, timer=timer))
        given.append(Container(row.id, tables.plan.nodes[row.slot].host, row.priority, row.resource))
    return tuple(given)


def answered(tables: YarnTables, number: int) -> None:
    """The answer is back."""
    row = tables.calls.drop(number)
    assert row is not None
    assert row.answer is not None
    if isinstance(row.answer, yarn_messages.ResourcesRefused):
        restore(tables, row.asks)
        for release in row.releases:
            tables.releases.put(tables.release_numbers.next(), release)
        for host, by in row.excluding:
            if host not in tables.excluding:
                tables.excluding.put(host, by)
    tables.stimuli.append(row.answer)


# the master


def begin(tables: YarnTables, now: Millis) -> None:
    """The first application master will register, and fail when it is meant to."""
    master = tables.plan.description.master
    wait, _ = draw(tables.stream(_MASTERS, 0), master.registers)
    tables.later(now + wait, YarnAgenda.REGISTER, 0)
    for at in master.restarts:
        tables.later(tables.began + at, YarnAgenda.RESTART)


def register(tables: YarnTables, now: Millis) -> None:
    """An application master is there."""
    tables.attempt = tables.attempt + 1
    tables.containers_before = tables.container_numbers.last
    tables.master = True
    tables.count("masters")
    tables.stimuli.append(yarn_messages.MasterRegistered(now))


def restart(tables: YarnTables, now: Millis) -> None:
    """The application master fails: everything of its attempt is over."""
    if not tables.master or not tables.faulty(now):
        return
    tables.master = False
    tables.stimuli.append(yarn_messages.MasterLost(now))
    for table in (
        tables.asks, tables.needs, tables.fresh, tables.done, tables.news, tables.releases, tables.excluding, tables.calls,
        tables.launches,
    ):  # fmt: skip
        table.drop_all()
    for host in list(tables.excluded):
        tables.exclude(host, there=False)
    for serial, due in list(tables.agenda.items()):
        if due.kind in {YarnAgenda.CALL, YarnAgenda.ANSWER, YarnAgenda.LAUNCH} or isinstance(
            due.say, yarn_messages.LaunchEnded
        ):
            tables.cancel(serial)
    for row in list(tables.containers.values()):
        end(tables, row, ABORTED, _LOST_MASTER, now, in_answer=False)
    number = tables.attempt
    wait, _ = draw(split(tables.stream(_MASTERS, number), 1), tables.plan.description.master.back)
    tables.later(now + wait, YarnAgenda.REGISTER)
    tables.stir()
