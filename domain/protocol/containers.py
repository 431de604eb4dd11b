"""YARN's words: containers, their resources, what the resource manager says of them and of nodes.

Hosts are names as the resource manager reports them; a host whose rack nobody knows is on ``DEFAULT_RACK``, as Hadoop's
resolvers have it (a rack is never unknown). The priority of a container is its resource profile's id: that is how Spark
tells the profiles of what it is given (spec: yarn, section 1).
"""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

from podtide.domain.base.units import ProfileId

ContainerId = NewType("ContainerId", str)
"""As YARN prints it, such as container_1700000000000_0001_01_000002."""

ANY_HOST: Final = "*"
DEFAULT_RACK: Final = "/default-rack"

DECOMMISSIONING: Final = "DECOMMISSIONING"
"""The NodeState that makes Spark decommission the executors of a host."""


class Resource(NamedTuple):
    """What a container has or is asked to have. ``custom``: other resources by YARN's name (yarn.io/gpu), sorted."""

    memory_mib: int
    vcores: int
    custom: tuple[tuple[str, int], ...] = ()

    def fits(self, room: Resource) -> bool:
        """Whether it fits into that much."""
        there = dict(room.custom)
        return (
            self.memory_mib <= room.memory_mib
            and self.vcores <= room.vcores
            and all(amount <= there.get(name, 0) for name, amount in self.custom)
        )

    def plus(self, other: Resource, times: int = 1) -> Resource:
        """So much more (or less, if ``times`` is negative)."""
        custom = dict(self.custom)
        for name, amount in other.custom:
            custom[name] = custom.get(name, 0) + times * amount
        memory, cores = self.memory_mib + times * other.memory_mib, self.vcores + times * other.vcores
        return Resource(memory, cores, tuple(sorted(custom.items())))


class ContainerSpec(NamedTuple):
    """What the containers of a resource profile are asked for, and what the executor in them gets of it.

    ``heap_mib``: the executor's heap (not the container's memory). ``tasks``: how many tasks it runs at once.
    """

    resource: Resource
    heap_mib: int
    cores: int
    tasks: int = 1


class Container(NamedTuple):
    """A container that the resource manager gives. ``profile``: its priority."""

    id: ContainerId
    host: str
    profile: ProfileId
    resource: Resource


class Completion(NamedTuple):
    """A container has ended: YARN's exit status (negative ones are YARN's own) and its diagnostics."""

    container: ContainerId
    status: int
    diagnostics: str = ""


class NodeReport(NamedTuple):
    """A node whose state changed, with YARN's name of the state."""

    host: str
    state: str


def one_label(expression: str) -> bool:
    """Whether the AM client takes a node label expression: one label, neither both of two nor either."""
    return "&&" not in expression and "||" not in expression


def resource_text(resource: Resource) -> str:
    """As Hadoop writes it."""
    custom = "".join(f", {name}: {amount}" for name, amount in resource.custom if amount)
    return f"<memory:{resource.memory_mib}, vCores:{resource.vcores}{custom}>"
