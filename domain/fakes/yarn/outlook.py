"""What a YARN cluster has in store for its application: whether the next call would say anything, and why nothing comes.

For whoever plays an application through time and wants to pass over the heartbeats that change nothing (``idle``), or to
know what keeps containers away (``outlook``). Both cost the number of profiles, not of containers.
"""

from __future__ import annotations

from typing import NamedTuple

from podtide.domain.fakes.yarn.books import Books, Shape
from podtide.domain.fakes.yarn.capacity_scheduler import headroom
from podtide.domain.fakes.yarn.cluster import YarnWorld
from podtide.domain.fakes.yarn.resource_requests import wanted
from podtide.domain.protocol.containers import Resource


def idle(world: YarnWorld) -> bool:
    """Whether a call of the application master would carry nothing and bring nothing, as long as nothing else happens."""
    books = world.books
    if books.calls.rows or books.fresh.rows or books.done.rows or books.news.rows:
        return False
    if books.releases.rows or books.excluding.rows or not books.number("master"):
        return False
    return not any(ask.changed for ask in books.asks.rows.values())


class Outlook(NamedTuple):
    """Containers that the resource manager knows to be wanted, or has for the application, by what they wait for.

    ``given``: the master has not heard of them yet; ``soon``: there is room, and a node will be offered to the scheduler;
    ``barred``: there is room only on hosts that the application does not use; ``full``: there is none.
    """

    given: int
    soon: int
    barred: int
    full: int


def outlook(world: YarnWorld) -> Outlook:
    """Why what is wanted is not there. Profiles wait behind one another, as the scheduler has it."""
    books = world.books
    soon = barred = full = 0
    blocked = False
    for _, need in sorted(books.needs.rows.items()):
        count = wanted(need)
        if not count:
            continue
        blocked = blocked or not _allowed(books, need.resource, headroom(books, world.now))
        if blocked:
            full += count
            continue
        open_to = books.room_for(Shape(need.resource, need.label))
        if open_to & ~books.barred:
            soon += count
        elif open_to:
            barred += count
        else:
            full += count
    return Outlook(len(books.fresh.rows), soon, barred, full)


def _allowed(books: Books, size: Resource, left: Resource) -> bool:
    """Whether the queue has room for one such container."""
    fits = size.memory_mib <= left.memory_mib
    return fits and (size.vcores <= left.vcores or not books.plan.description.manager.dominant)
