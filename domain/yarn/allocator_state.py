"""The YARN allocator's state, and what every part of the machine needs within one step. See ``yarn``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PDeque, PMap, pdeque, pmap

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned_map import VersionedMap, VersionedSet
from podtide.domain.protocol.config import NegotiationConfig
from podtide.domain.protocol.container_requests import RequestTable
from podtide.domain.protocol.containers import DEFAULT_RACK, Completion, Container, ContainerId, ContainerSpec
from podtide.domain.protocol.pod_commands import ExitReason
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.turn import Turn
from podtide.domain.protocol.yarn_messages import (
    ReleaseContainers,
    TargetsTaken,
    UpdateExclusions,
    YarnCommand,
    YarnInput,
)
from podtide.domain.yarn.node_health import Difference, Health

MACHINE: Final = "YarnAllocator"
TRACKER: Final = "YarnAllocatorNodeHealthTracker"
LAUNCHER: Final = "ContainerLauncher"
"""The pool of launching threads: no round of the reporter thread ends in what they throw."""
ENDPOINT: Final = "AMEndpoint"
"""Where the driver's messages come in: no round ends in what it throws, either."""
EXECUTOR_EXITED: Final = "ExecutorExited"
DECOMMISSIONS_MAX: Final = 200
"""Hosts whose decommission is remembered; the first one goes first (decommissioningNodesCache)."""

NegotiationCommand: TypeAlias = YarnCommand | TargetsTaken


class Launch(NamedTuple):
    """A launch under way."""

    container: ContainerId
    host: str
    profile: ProfileId


class AnswerRest(NamedTuple):
    """What is left of an answer while a launch is waited for."""

    containers: tuple[Container, ...]
    completed: tuple[Completion, ...]
    launched: int
    received: int


@dataclass(slots=True)
class YarnState:
    """All that the allocator knows. Maps by profile name the profiles that Spark's own maps have.

    ``hosts``: profile to host to containers; ``host_of``: container to host. ``launches``: executors whose launch has not
    returned; ``launching``: containers being launched that have not completed. ``loss_asked``: how many wait for the reason;
    ``loss_stored``: reasons that nobody asked for yet, for ever. ``unexpected``: numUnexpectedContainerRelease.
    ``waiting``: the serial of the call under way; ``rest``: of its answer, while a launch is waited for; ``later``: what
    came meanwhile. ``held``: what was reported as held back.
    """

    specs: PMap[ProfileId, ContainerSpec]
    targets: PMap[ProfileId, int]
    running: VersionedMap[ProfileId, VersionedSet[ExecutorId]]
    starting: VersionedMap[ProfileId, int]
    tables: VersionedMap[ProfileId, RequestTable]
    hosts: VersionedMap[ProfileId, VersionedMap[str, VersionedSet[ContainerId]]]
    host_of: VersionedMap[ContainerId, str] = field(default_factory=VersionedMap)
    executor_of: VersionedMap[ContainerId, tuple[ExecutorId, ProfileId]] = field(default_factory=VersionedMap)
    container_of: VersionedMap[ExecutorId, ContainerId] = field(default_factory=VersionedMap)
    launches: VersionedMap[ExecutorId, Launch] = field(default_factory=VersionedMap)
    launching: VersionedSet[ContainerId] = field(default_factory=VersionedSet)
    released: VersionedSet[ContainerId] = field(default_factory=VersionedSet)
    loss_asked: VersionedMap[ExecutorId, int] = field(default_factory=VersionedMap)
    loss_stored: VersionedMap[ExecutorId, ExitReason] = field(default_factory=VersionedMap)
    unexpected: int = 0
    last_id: int = 0
    locality_tasks: Mapping[ProfileId, int] = field(default_factory=pmap)
    host_tasks: Mapping[ProfileId, Mapping[str, int]] = field(default_factory=pmap)
    health: Health = field(default_factory=Health)
    decommissioning: tuple[str, ...] = ()
    ending: bool = False
    serial: int = 0
    waiting: int | None = None
    rest: AnswerRest | None = None
    later: PDeque[YarnInput] = field(default_factory=pdeque)
    held: PMap[ProfileId, int] = field(default_factory=pmap)

    @property
    def pending(self) -> int:
        """getNumContainersPendingAllocate."""
        return sum(table.waiting for table in self.tables.values())

    @property
    def loss_requests(self) -> int:
        """getNumPendingLossReasonRequests: executors that somebody waits for."""
        return len(self.loss_asked)


class NegotiationTurn(Turn[YarnState, NegotiationConfig, NegotiationCommand]):
    """The allocator within one step. The maps and sets of its state are drafts, which are changed in place."""

    machine = MACHINE

    def __init__(self, state: YarnState, config: NegotiationConfig, now: Millis) -> None:
        super().__init__(state, config, now)
        mine = self.state
        mine.running, mine.starting, mine.tables = mine.running.draft(), mine.starting.draft(), mine.tables.draft()
        mine.hosts, mine.host_of, mine.launches = mine.hosts.draft(), mine.host_of.draft(), mine.launches.draft()
        mine.executor_of, mine.container_of = mine.executor_of.draft(), mine.container_of.draft()
        mine.launching, mine.released = mine.launching.draft(), mine.released.draft()
        mine.loss_asked, mine.loss_stored = mine.loss_asked.draft(), mine.loss_stored.draft()

    def say(self, command: NegotiationCommand) -> None:
        """One command more."""
        self.commands.append(command)

    def rack(self, host: str) -> str:
        """Where a host is."""
        return self.config.racks.get(host, DEFAULT_RACK)

    def release(self, containers: Sequence[ContainerId], why: Why) -> None:
        """internalReleaseContainer: their completion will be no surprise."""
        for container in containers:
            self.state.released.put(container)
        self.say(ReleaseContainers(self.now, tuple(containers), why))

    # ------------------------------------------------------------------------------------------------------- exclusion

    def exclude(self, hosts: Iterable[str]) -> None:
        """setSchedulerExcludedNodes."""
        self.state.health = replace(self.state.health, scheduler=frozenset(hosts))
        self.refresh()

    def refresh(self) -> None:
        """refreshExcludedNodes."""
        self.state.health, told = self.state.health.refreshed(self.config.exclusion, self.now)
        self.tell(told)

    def tell(self, told: Difference) -> None:
        """synchronizeExcludedNodesWithYarn."""
        if not (told.added or told.removed):
            return
        for topic, names in (("exclude", told.added), ("include", told.removed)):
            if names:
                self.remark(topic, TRACKER, hosts=", ".join(names))
        why = Why(Cause.EXCLUDED, pmap({"excluded": len(self.state.health.sent)}))
        self.say(UpdateExclusions(self.now, told.added, told.removed, why))
