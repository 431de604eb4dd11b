"""What a YARN cluster has in store for its application: whether the next call would say anything, and why nothing comes.

For whoever plays an application through time and wants to pass over the heartbeats that change nothing (``idle``), or to
know what keeps containers away (``outlook``). Both cost the number of profiles, not of containers.
"""

from __future__ import annotations

from typing import NamedTuple

from podtide.domain.fakes.yarn.capacity_scheduler import queue_has_room
from podtide.domain.fakes.yarn.cluster import YarnCluster
from podtide.domain.fakes.yarn.resource_requests import wanted
from podtide.domain.fakes.yarn.tables import YarnShape


def idle(cluster: YarnCluster) -> bool:
    """Whether a call of the application master would carry nothing and bring nothing, as long as nothing else happens."""
    tables = cluster._tables
    if tables.calls or tables.fresh or tables.done or tables.news:
        return False
    if tables.releases or tables.excluding or not tables.master:
        return False
    return not any(ask.changed for ask in tables.asks.values())


class Outlook(NamedTuple):
    """Containers that the resource manager knows to be wanted, or has for the application, by what they wait for.

    ``given``: the master has not heard of them yet; ``soon``: there is room, and a node will be offered to the scheduler;
    ``barred``: there is room only on hosts that the application does not use; ``full``: there is none.
    """

    given: int
    soon: int
    barred: int
    full: int


def outlook(cluster: YarnCluster) -> Outlook:
    """Why what is wanted is not there. Profiles wait behind one another, as the scheduler has it."""
    tables = cluster._tables
    soon = barred = full = 0
    blocked = False
    for _, need in sorted(tables.needs.items()):
        count = wanted(need)
        if not count:
            continue
        blocked = blocked or not queue_has_room(tables, need.resource, cluster.now)
        if blocked:
            full += count
            continue
        open_to = tables.room_for(YarnShape(need.resource, need.label))
        if open_to & ~tables.barred:
            soon += count
        elif open_to:
            barred += count
        else:
            full += count
    return Outlook(len(tables.fresh), soon, barred, full)
