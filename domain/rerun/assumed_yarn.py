"""The YARN cluster that a rerun assumes: room for everybody, a node for each executor, a queue that grants at once."""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.yarn.description import Executors, Manager, Master, Nodes, Queue, YarnDescription
from podtide.domain.protocol.containers import Resource
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.plan import Faults

GRANT_MS: Final[Millis] = 1
"""Assumed: a container is placed as good as at once, so with the default intervals the master has it after 200 ms."""


_HUGE: Final = 2**40
_MANY: Final = 1_000_000
_NOW: Final = Constant(0)


def assumed_cluster(behaviour: Behaviour, faults: Faults, container: Resource) -> YarnDescription:
    """A resource manager that gives what it is asked for at once, up to what there is room for.

    ``container``: of the default profile, in whose memory room is counted. Executors come up and end at once.
    """
    bounds = [bound for bound in (behaviour.capacity, faults.quota) if bound is not None]
    queue = Queue() if not bounds else queue_of(min(bounds), container)
    manager = Manager(
        latency=_NOW, heartbeat_ms=GRANT_MS, node_delay=0, rack_delay=0, anywhere_per_heartbeat=_MANY, minimum_mib=1,
        dominant=False,
    )  # fmt: skip
    executors = Executors(launch=_NOW, localize=_NOW, localized=_NOW, start=_NOW, drain=_NOW, exit=_NOW, rpc=_NOW)
    nodes = (Nodes("assumed", 1, _HUGE),)
    return YarnDescription(nodes, queue=queue, manager=manager, executors=executors, master=Master(registers=_NOW))


def queue_of(count: int, container: Resource) -> Queue:
    """A queue with room for so many containers."""
    return Queue(count * container.memory_mib, count * container.vcores)
