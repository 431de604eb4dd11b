"""The rules of a bill: the driver's cost, whole nodes, YARN's rounding of containers; each is asked for by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CORES_MAX: Final = 100_000
MIB_MAX: Final = 1 << 30
"""No node and no container is larger: bounds that keep sums finite."""


class ResourceCalculator(StrEnum):
    """YARN's yarn.scheduler.capacity.resource-calculator, by the class's name."""

    DEFAULT = "default"
    """DefaultResourceCalculator: memory alone is counted, and rounded."""
    DOMINANT = "dominant"
    """DominantResourceCalculator: memory and vcores."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node: what is paid for, and what of it executors cannot have (kubelet, daemon sets, the node manager's host)."""

    cores: int
    memory_mib: int
    reserved_cores: float = 0.0
    reserved_mib: int = 0

    @property
    def room(self) -> tuple[int, int]:
        """Thousandths of cores and MiB that executors can have."""
        return max(0, 1000 * self.cores - round(1000 * self.reserved_cores)), max(
            0, self.memory_mib - self.reserved_mib
        )


@dataclass(frozen=True, slots=True)
class ContainerRounding:
    """How YARN's scheduler rounds a container: up to a multiple of the increment, at least the minimum.

    ``increment_mib``, ``increment_cores``: None: the minimum, as in the capacity scheduler; the fair scheduler has keys of
    its own for them (yarn.resource-types.memory-mb.increment-allocation).
    """

    minimum_mib: int = 1_024
    increment_mib: int | None = None
    minimum_cores: int = 1
    increment_cores: int | None = None
    calculator: ResourceCalculator = ResourceCalculator.DEFAULT


@dataclass(frozen=True, slots=True)
class BillRules:
    """``driver``: the driver (on YARN in client mode the application master) is paid for; ``node``: whole nodes of this
    shape are, as long as an executor stands on them; ``containers``: on YARN, containers are rounded like this."""

    driver: bool = False
    node: NodeShape | None = None
    containers: ContainerRounding | None = None

    @property
    def asked(self) -> bool:
        """Whether there is any."""
        return self.driver or self.node is not None or self.containers is not None


NO_RULES: Final = BillRules()


def rule_problems(rules: BillRules) -> tuple[tuple[str, str], ...]:
    """What is wrong with rules: (key of a price list, what was expected); () where nothing is."""
    found: list[tuple[str, str]] = []
    if (node := rules.node) is not None:
        if not 0 < node.cores <= CORES_MAX:
            found.append(("node-cores", "the cores of a node, such as 16; node-memory belongs to it"))
        if not 0 < node.memory_mib <= MIB_MAX:
            found.append(("node-memory", "the memory of a node, such as 64g; node-cores belongs to it"))
        if not (math.isfinite(node.reserved_cores) and 0 <= node.reserved_cores <= max(0, node.cores) / 2):
            found.append(("node-reserved-cores", "cores that executors cannot have, at most half of the node's"))
        if not 0 <= node.reserved_mib <= max(0, node.memory_mib) // 2:
            found.append(("node-reserved-memory", "memory that executors cannot have, at most half of the node's"))
    if (rounding := rules.containers) is not None:
        for key, value, most in (
            ("yarn-minimum-allocation-mb", rounding.minimum_mib, MIB_MAX),
            ("yarn-increment-allocation-mb", rounding.increment_mib, MIB_MAX),
            ("yarn-minimum-allocation-vcores", rounding.minimum_cores, CORES_MAX),
            ("yarn-increment-allocation-vcores", rounding.increment_cores, CORES_MAX),
        ):
            if value is not None and not 0 < value <= most:
                found.append((key, "a whole number above 0"))
    return tuple(found)
