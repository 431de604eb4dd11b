"""The YARN allocator's state, and what every part of the machine needs within one step. See ``yarn``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PDeque, PMap, pdeque, pmap

from podtide.domain.base.tables import Members, Table, Tables
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned import Versioned
from podtide.domain.machine.turn import Turn
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.container_requests import RequestTable
from podtide.domain.protocol.containers import DEFAULT_RACK, Completion, Container, ContainerId, ContainerSpec
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.yarn.node_health import ExclusionDifference, Health

MACHINE: Final = "YarnAllocator"
TRACKER: Final = "YarnAllocatorNodeHealthTracker"
LAUNCHER: Final = "ContainerLauncher"
"""The pool of launching threads: no round of the reporter thread ends in what they throw."""
ENDPOINT: Final = "AMEndpoint"
"""Where the driver's messages come in: no round ends in what it throws, either."""
EXECUTOR_EXITED: Final = "ExecutorExited"
DECOMMISSIONS_MAX: Final = 200
"""Hosts whose decommission is remembered; the first one goes first (decommissioningNodesCache)."""

NegotiationCommand: TypeAlias = yarn_messages.YarnCommand | yarn_messages.TargetsTaken


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


class ContainerTables(Tables):
    """Containers from request to end; whatever of the allocator's state grows with their number.

    ``running``: executors that run, and the profile of each; ``running_by``: how many, for the profiles that Spark's own map
    has. ``starting``: launches that have not returned, by profile. ``requests``: that wait. ``placed``: containers by
    profile and host; ``host_counts``: how many; ``hosted``: the profiles in Spark's map of them. ``host_of``: their hosts.
    ``launches``: executors whose launch has not returned; ``launching``: containers being launched that have not completed.
    ``loss_asked``: how many wait for the reason; ``loss_stored``: reasons that nobody asked for yet, for ever.
    """

    def __init__(self) -> None:
        self.running: Table[ExecutorId, ProfileId] = Table()
        self.running_by: Table[ProfileId, int] = Table({DEFAULT_PROFILE: 0})
        self.starting: Table[ProfileId, int] = Table({DEFAULT_PROFILE: 0})
        self.requests: Table[ProfileId, RequestTable] = Table({DEFAULT_PROFILE: RequestTable()})
        self.placed: Members[tuple[ProfileId, str, ContainerId]] = Members()
        self.host_counts: Table[tuple[ProfileId, str], int] = Table()
        self.hosted: Members[ProfileId] = Members((DEFAULT_PROFILE,))
        self.host_of: Table[ContainerId, str] = Table()
        self.executor_of: Table[ContainerId, tuple[ExecutorId, ProfileId]] = Table()
        self.container_of: Table[ExecutorId, ContainerId] = Table()
        self.launches: Table[ExecutorId, Launch] = Table()
        self.launching: Members[ContainerId] = Members()
        self.released: Members[ContainerId] = Members()
        self.loss_asked: Table[ExecutorId, int] = Table()
        self.loss_stored: Table[ExecutorId, ExitReason] = Table()
        super().__init__()

    def run(self, executor: ExecutorId, profile: ProfileId) -> None:
        """An executor runs."""
        if executor not in self.running:
            self.running.put(executor, profile)
            self.running_by.put(profile, self.running_by.get(profile, 0) + 1)

    def run_no_more(self, executor: ExecutorId, profile: ProfileId) -> None:
        """An executor of a profile runs no longer, if it did."""
        if self.running.get(executor) == profile:
            self.running.drop(executor)
            self.running_by.put(profile, self.running_by[profile] - 1)

    def place(self, container: ContainerId, host: str, profile: ProfileId) -> None:
        """A host has a container."""
        self.host_of.put(container, host)
        self.hosted.add(profile)
        if (profile, host, container) not in self.placed:
            self.placed.add((profile, host, container))
            self.host_counts.put((profile, host), self.host_counts.get((profile, host), 0) + 1)

    def forget(self, container: ContainerId, host: str, profile: ProfileId) -> None:
        """A host has a container no longer."""
        self.host_of.drop(container)
        if (profile, host, container) in self.placed:
            self.placed.discard((profile, host, container))
            left = self.host_counts[profile, host] - 1
            if left:
                self.host_counts.put((profile, host), left)
            else:
                self.host_counts.drop((profile, host))

    def running_by_profile(self) -> dict[ProfileId, list[ExecutorId]]:
        """The executors that run, for the profiles that Spark's own map has. Costs the executors."""
        found: dict[ProfileId, list[ExecutorId]] = {profile: [] for profile in self.running_by}
        for executor, profile in self.running.items():
            found[profile].append(executor)
        return found

    def containers_by_host(self) -> dict[ProfileId, dict[str, list[ContainerId]]]:
        """The containers of each profile and host. Costs the containers."""
        found: dict[ProfileId, dict[str, list[ContainerId]]] = {profile: {} for profile in self.hosted}
        for profile, host, container in self.placed:
            found[profile].setdefault(host, []).append(container)
        return found


class YarnContainers(Versioned[ContainerTables]):
    """One version of the containers."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, YarnContainers) and vars(self._tables) | _NO_LOG == vars(other._tables) | _NO_LOG

    __hash__ = None  # type: ignore[assignment]

    def copied(self) -> ContainerTables:
        """A copy of all tables, which no step changes. Costs the containers."""
        return self._tables.fork()

    def counts_of(self, profile: ProfileId) -> tuple[int, int, RequestTable]:
        """Of a profile: how many executors run, how many start, and the requests that wait."""
        tables = self._tables
        requests = tables.requests.get(profile, _NO_REQUESTS)
        return tables.running_by.get(profile, 0), tables.starting.get(profile, 0), requests

    @property
    def started(self) -> int:
        """Executors that start or run."""
        tables = self._tables
        return sum(tables.starting.values()) + len(tables.running)

    @property
    def waiting(self) -> int:
        """Requests that wait, of all profiles."""
        return sum(table.waiting for table in self._tables.requests.values())

    @property
    def loss_requests(self) -> int:
        """Executors of which somebody waits to hear why they were lost."""
        return len(self._tables.loss_asked)


_NO_REQUESTS: Final = RequestTable()
_NO_LOG: Final = {"undo_log": None}


@dataclass(slots=True)
class YarnState:
    """All that the allocator knows. Maps by profile name the profiles that Spark's own maps have.

    ``unexpected``: numUnexpectedContainerRelease. ``waiting``: the serial of the call under way; ``rest``: of its answer,
    while a launch is waited for; ``later``: what came meanwhile. ``held``: what was reported as held back.
    """

    specs: PMap[ProfileId, ContainerSpec]
    targets: PMap[ProfileId, int]
    containers: YarnContainers = field(default_factory=lambda: YarnContainers(ContainerTables()))
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
    later: PDeque[yarn_messages.YarnInput] = field(default_factory=pdeque)
    held: PMap[ProfileId, int] = field(default_factory=pmap)

    @property
    def rows(self) -> ContainerTables:
        """The containers' tables, copied. Costs the containers; ``containers`` counts without that."""
        return self.containers.copied()

    @property
    def pending(self) -> int:
        """getNumContainersPendingAllocate."""
        return self.containers.waiting

    @property
    def loss_requests(self) -> int:
        """getNumPendingLossReasonRequests: executors that somebody waits for."""
        return self.containers.loss_requests


class NegotiationTurn(Turn[YarnState, NegotiationConfig, NegotiationCommand]):
    """The allocator within one step. ``tables`` are its state's containers, changed in place."""

    machine = MACHINE

    def __init__(self, state: YarnState, config: NegotiationConfig, now: Millis, tables: ContainerTables) -> None:
        super().__init__(state, config, now)
        self.tables = tables

    def step(self) -> Step[YarnState, NegotiationCommand]:
        """The state as it is now, and all that was said."""
        if self.tables.undo_log:
            self.state.containers = self.state.containers.hand_over(YarnContainers(self.tables))
        return super().step()

    def say(self, command: NegotiationCommand) -> None:
        """One command more."""
        self.commands.append(command)

    def rack(self, host: str) -> str:
        """Where a host is."""
        return self.config.racks.get(host, DEFAULT_RACK)

    def release(self, containers: Sequence[ContainerId], why: Why) -> None:
        """internalReleaseContainer: their completion will be no surprise."""
        for container in containers:
            self.tables.released.add(container)
        self.say(yarn_messages.ReleaseContainers(self.now, tuple(containers), why))

    # ------------------------------------------------------------------------------------------------------- exclusion

    def exclude(self, hosts: Iterable[str]) -> None:
        """setSchedulerExcludedNodes."""
        self.state.health = replace(self.state.health, scheduler=frozenset(hosts))
        self.refresh()

    def refresh(self) -> None:
        """refreshExcludedNodes."""
        self.state.health, difference = self.state.health.refreshed(self.config.exclusion, self.now)
        self.tell(difference)

    def tell(self, difference: ExclusionDifference) -> None:
        """synchronizeExcludedNodesWithYarn."""
        if not (difference.added or difference.removed):
            return
        for topic, names in (("exclude", difference.added), ("include", difference.removed)):
            if names:
                self.remark(topic, TRACKER, hosts=", ".join(names))
        why = Why(Cause.EXCLUDED, pmap({"excluded": len(self.state.health.sent)}))
        self.say(yarn_messages.UpdateExclusions(self.now, difference.added, difference.removed, why))
