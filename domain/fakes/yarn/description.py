"""What a YARN cluster is like: everything about it that a fake resource manager needs, with a default for each part.

Rows of nodes, the queue and who else is in it, the resource manager and its scheduler, the executors in their
containers, and the application master. The defaults are YARN's own where YARN has them (a NodeManager's heartbeat of
a second, a locality delay of 40 nodes, ten minutes until an unused container expires) and otherwise what a healthy
cluster looks like: it takes its time, and nothing goes wrong. Every fault is a rate or share that is 0, or a list
that is empty, by default.

``Window`` limits a fault to a time, once or again and again. ``calm_ms`` ends all of them: from then on no new fault begins;
who else is in the queue is no fault. Times count from the cluster's beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from podtide.domain.base.randomness import Constant, Delay, LogNormal
from podtide.domain.base.units import Millis
from podtide.domain.fakes.windows import ALWAYS_OPEN, Window
from podtide.domain.protocol.containers import DEFAULT_RACK, Resource

_NOW: Final = Constant(0)
_RPC: Final = Constant(2)
_BACK: Final = LogNormal(300_000, 600_000)
_CALL: Final = LogNormal(8, 25)
_LAUNCH: Final = LogNormal(40, 150)
_LOCALIZE: Final = LogNormal(4_000, 10_000)
_LOCALIZED: Final = LogNormal(300, 800)
_START: Final = LogNormal(3_000, 5_000)
_DRAIN: Final = LogNormal(2_000, 8_000)
_EXIT: Final = LogNormal(400, 1_000)
_REGISTERS: Final = LogNormal(200, 500)
_MASTER: Final = LogNormal(15_000, 30_000)


@dataclass(frozen=True, slots=True)
class Nodes:
    """A row of equal nodes. ``count``: how many there are from the beginning.

    ``hosts``: their names, in order; those beyond are called ``<name>-<n>``. ``racks``: the nodes are on them by
    turns. ``custom``: other resources by YARN's name, sorted. ``label``: the node label, "" for the default
    partition; a label's nodes are only for those who ask for it. ``lost_per_hour``: how often each machine crashes;
    ``decommissioned_per_hour``: how often each is taken out gracefully; it comes again after ``back`` (None: never).
    ``during``: when these happen.
    """

    name: str
    count: int
    memory_mib: int = 65_536
    vcores: int = 16
    custom: tuple[tuple[str, int], ...] = ()
    racks: tuple[str, ...] = (DEFAULT_RACK,)
    label: str = ""
    hosts: tuple[str, ...] = ()
    lost_per_hour: float = 0.0
    decommissioned_per_hour: float = 0.0
    back: Delay | None = _BACK
    during: Window = ALWAYS_OPEN

    @property
    def capacity(self) -> Resource:
        """What each node has."""
        return Resource(self.memory_mib, self.vcores, self.custom)

    def host(self, place: int) -> str:
        """What the node at this place of the row is called."""
        return self.hosts[place] if place < len(self.hosts) else f"{self.name}-{place + 1}"

    def rack(self, place: int) -> str:
        """On which rack it is."""
        return self.racks[place % len(self.racks)]


class YarnNodeHappening(Enum):
    """What can be made to happen to nodes at a time. The texts are the names in a cluster file."""

    JOIN = "join"  # new nodes register with the resource manager
    LOSE = "lose"  # the machine is gone at once and says nothing; the resource manager notices when it expires
    DECOMMISSION = "decommission"  # nothing new is put there; gone when it is empty, or at the end of the timeout
    SICKEN = "sicken"  # the NodeManager says that it is unhealthy: its containers are killed


@dataclass(frozen=True, slots=True)
class YarnNodeEvent:
    """Something that happens to ``count`` nodes of a row at a time, the first of the row first.

    ``host``: to this one only. ``back``: how long it is gone, instead of the row's; ``stays``: it does not come again.
    """

    at_ms: Millis
    what: YarnNodeHappening
    group: str
    count: int = 1
    host: str | None = None
    back: Delay | None = None
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody else in the queue: as long as ``during`` is open, so much of it is not for this application."""

    memory_mib: int = 0
    vcores: int = 0
    name: str = ""
    during: Window = ALWAYS_OPEN


@dataclass(frozen=True, slots=True)
class Queue:
    """How much of the cluster the application may have: ``memory_mib`` and ``vcores`` (None: all there is) less the tenants.

    ``preempts``: what is above, because a tenant came, is taken back: after ``wait_ms``, and every ``round_ms`` then,
    at most ``share`` of the queue at once (at least one container); else it stays until it ends. The containers of
    the profile with the highest number go first, of a profile the youngest.
    """

    memory_mib: int | None = None
    vcores: int | None = None
    tenants: tuple[Tenant, ...] = ()
    preempts: bool = False
    wait_ms: Millis = 15_000
    round_ms: Millis = 3_000
    share: float = 0.1


@dataclass(frozen=True, slots=True)
class CallFault:
    """A call of the resource manager fails, or with ``slow`` takes so much longer. What fails has no effect.

    ``what``: the exception's class and message. ``fatal``: it ends the application at the first time.
    """

    what: str = (
        "java.net.ConnectException: Call to the ResourceManager failed on connection exception: Connection refused"
    )
    probability: float = 1.0
    fatal: bool = False
    slow: Delay | None = None
    during: Window = ALWAYS_OPEN


@dataclass(frozen=True, slots=True)
class Mistakes:
    """What the resource manager does that it should not, each a share.

    ``surplus``: of the containers, how many come with another one that nobody asked for; ``unknown``: have a priority that
    nobody asked with; ``small``: have half the memory. ``partial``: of the answers, how many bring only half of the
    containers that are there, the others coming later. ``repeated``: of the completions, how many are told again.
    """

    surplus: float = 0.0
    unknown: float = 0.0
    small: float = 0.0
    partial: float = 0.0
    repeated: float = 0.0
    during: Window = ALWAYS_OPEN


NO_MISTAKES: Final = Mistakes()


@dataclass(frozen=True, slots=True)
class Manager:
    """The resource manager and its CapacityScheduler.

    ``latency``: of an application master's call, there and back. ``heartbeat_ms``: of the NodeManagers; a node is given
    containers only then. ``node_delay``: how many nodes are let pass before a container may be on the right rack only;
    ``rack_delay``: how many more before it may be anywhere (-1: as many as containers and wishes suggest).
    ``anywhere_per_heartbeat``: containers that a node is given without locality at once. ``minimum_*``: what is asked for is
    rounded up to a multiple; ``maximum_*``: who asks for more is refused (None: nobody). ``dominant``: processors and other
    resources count, not memory alone (DominantResourceCalculator). ``expiry_ms``: until a container that nobody launches is
    taken back. ``node_expiry_ms``: until a silent node is lost. ``decommission_ms``: how long a decommissioning node waits.
    """

    latency: Delay = _CALL
    heartbeat_ms: Millis = 1_000
    node_delay: int = 40
    rack_delay: int = -1
    anywhere_per_heartbeat: int = 1
    minimum_mib: int = 1_024
    minimum_vcores: int = 1
    maximum_mib: int | None = None
    maximum_vcores: int | None = None
    dominant: bool = True
    expiry_ms: Millis = 600_000
    node_expiry_ms: Millis = 600_000
    decommission_ms: Millis = 3_600_000
    faults: tuple[CallFault, ...] = ()
    mistakes: Mistakes = NO_MISTAKES


@dataclass(frozen=True, slots=True)
class LaunchFault:
    """A NodeManager refuses to start a container. ``groups`` (none: all): on which rows of nodes."""

    what: str = "java.net.ConnectException: Call to the NodeManager failed on connection exception: Connection refused"
    probability: float = 1.0
    fatal: bool = False
    groups: tuple[str, ...] = ()
    during: Window = ALWAYS_OPEN


class ContainerPhase(Enum):
    """When a container dies. The texts are the names in a cluster file."""

    STARTING = "starting"  # its process comes up, the driver does not know it
    RUNNING = "running"  # it is an executor


@dataclass(frozen=True, slots=True)
class Death:
    """One way for a container to end: ``share`` of those that come into the phase, after ``delay``; or ``per_hour`` each.

    ``statuses``: exit statuses and their weights, YARN's own among them: -102 is a preemption, -104 and -103 a memory limit,
    -101 a broken disk. ``diagnostics``: instead of the usual ones. ``profiles``, ``groups`` (none: all): whose, and where.
    """

    phase: ContainerPhase = ContainerPhase.RUNNING
    share: float = 0.0
    per_hour: float = 0.0
    delay: Delay = _NOW
    statuses: tuple[tuple[int, float], ...] = ((1, 1.0),)
    diagnostics: str | None = None
    profiles: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    during: Window = ALWAYS_OPEN


@dataclass(frozen=True, slots=True)
class YarnExecutors:
    """Containers and the executors in them.

    ``launch``: the call of the NodeManager. ``localize``: until the files are there, for the application's first
    container on a node (those that follow wait for the same); ``localized``: for any later one. ``start``: from there
    until the executor registers. ``drain``: from a decommission to the end; ``exit``: from the driver's word to it.
    ``rpc``: a message between driver and executor, drawn once for each. ``silence_ms``: until the driver sees that a
    machine is gone without a word; ``unreachable_ms``: until a launch on such a machine fails.
    """

    launch: Delay = _LAUNCH
    localize: Delay = _LOCALIZE
    localized: Delay = _LOCALIZED
    start: Delay = _START
    drain: Delay = _DRAIN
    exit: Delay = _EXIT
    rpc: Delay = _RPC
    silence_ms: Millis = 120_000
    unreachable_ms: Millis = 180_000
    launch_faults: tuple[LaunchFault, ...] = ()
    deaths: tuple[Death, ...] = ()


@dataclass(frozen=True, slots=True)
class Master:
    """The application master. ``registers``: how long after the beginning the first one registers with the driver.

    ``restarts``: when it fails; its containers are then killed, and another registers ``back`` later.
    """

    registers: Delay = _REGISTERS
    restarts: tuple[Millis, ...] = ()
    back: Delay = _MASTER


WORKERS: Final = Nodes("worker", 20)


@dataclass(frozen=True, slots=True)
class YarnDescription:
    """A whole cluster. ``seed``: of its chance, where nobody gives another. ``calm_ms``: when faults end (None: never)."""

    nodes: tuple[Nodes, ...] = (WORKERS,)
    node_events: tuple[YarnNodeEvent, ...] = ()
    queue: Queue = Queue()
    manager: Manager = field(default_factory=Manager)
    executors: YarnExecutors = field(default_factory=YarnExecutors)
    master: Master = field(default_factory=Master)
    seed: int = 0
    calm_ms: Millis | None = None


YARN: Final = YarnDescription()
"""The default cluster: 20 nodes on one rack, room for everything, and nothing goes wrong."""


def places(description: YarnDescription) -> Iterator[tuple[int, int, bool]]:
    """Every node that is ever there: its row, its place in the row, and whether it is there from the beginning."""
    for number, row in enumerate(description.nodes):
        coming = sum(
            event.count
            for event in description.node_events
            if event.what is YarnNodeHappening.JOIN and event.group == row.name
        )
        for place in range(row.count + coming):
            yield number, place, place < row.count


def racks(description: YarnDescription) -> Mapping[str, str]:
    """The rack of every host: what the cluster's topology script says."""
    rows = description.nodes
    return {rows[number].host(place): rows[number].rack(place) for number, place, _ in places(description)}
