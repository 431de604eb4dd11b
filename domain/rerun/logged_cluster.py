"""Where the containers of a rerun on YARN are: a cluster that was given, or the place that the log knows.

``DescribedCluster`` (``rerun.heartbeats``) is the fake cluster as it is. ``LoggedCluster`` is one in which nothing takes
time, with what the log knows laid over it:

- An executor registers when its start-up is over (``start_up.Starts``: the log's latencies in the order of launches, and
  starts that share a machine slow one another down). The world's executor, which is up at once, is kept waiting outside.
- The connection to an executor whose container is ended is lost as much later as stopping a container takes.
- Executors that the log lost are lost again, counted by registration and as long after it, with the exit status that the
  log gives; where something is to go wrong besides, they are preempted at that rate. For the resource manager the container
  is released, so its room is free; the application hears the status.

Both hear the engine's commands with ``apply`` and say with ``advance`` what reaches it. Mutable, part of one simulation.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from podtide.domain.base.randomness import Constant, split, stream
from podtide.domain.base.units import LAST_MS, ExecutorId, Millis
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.cluster import ClusterCommand, ClusterStimulus
from podtide.domain.fakes.yarn.description import Manager, Master, Nodes, Queue, YarnDescription, YarnExecutors
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.containers import Completion, ContainerId, Resource
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.yarn_messages import LaunchExecutor, ReleaseContainers, ResourcesAnswered
from podtide.domain.rerun.behaviour import Behaviour, ContainerBehaviour, interrupted_after, sampled
from podtide.domain.rerun.heartbeats import DescribedCluster
from podtide.domain.rerun.plan import Faults
from podtide.domain.rerun.start_up import Starts, WarmUp

ABORTED: Final = -100
"""Of a loss of which nothing is known: a container that YARN ended, nobody's fault."""

GRANT_MS: Final[Millis] = 1
"""Assumed: a container is placed as good as at once, so with the default intervals the master has it after 200 ms."""

_SPOT: Final = 11
_STOP: Final = 12
_ADMITTED: Final = Why(Cause.REGISTERED)
_TAKEN: Final = Why(Cause.CONTAINER_COMPLETED)
_HUGE: Final = 2**40
_MANY: Final = 1_000_000
NOW: Final = Constant(0)


def assumed_cluster(behaviour: Behaviour, faults: Faults, container: Resource) -> YarnDescription:
    """A resource manager that gives what it is asked for at once, up to what there is room for.

    ``container``: of the default profile, in whose memory room is counted. Executors come up and end at once.
    """
    bounds = [bound for bound in (behaviour.capacity, faults.quota) if bound is not None]
    queue = Queue() if not bounds else queue_of(min(bounds), container)
    manager = Manager(
        latency=NOW, heartbeat_ms=GRANT_MS, node_delay=0, rack_delay=0, anywhere_per_heartbeat=_MANY, minimum_mib=1,
        dominant=False,
    )  # fmt: skip
    executors = YarnExecutors(launch=NOW, localize=NOW, localized=NOW, start=NOW, drain=NOW, exit=NOW, rpc=NOW)
    nodes = (Nodes("assumed", 1, _HUGE),)
    return YarnDescription(nodes, queue=queue, manager=manager, executors=executors, master=Master(registers=NOW))


def queue_of(count: int, container: Resource) -> Queue:
    """A queue with room for so many containers."""
    return Queue(count * container.memory_mib, count * container.vcores)


def containers_of(behaviour: Behaviour) -> ContainerBehaviour:
    """How containers come and go; of an application that did not run on YARN, as its executors did."""
    if behaviour.containers is not None:
        return behaviour.containers
    return ContainerBehaviour(behaviour.startup, behaviour.removal_ms or (0,))


class _Guest(NamedTuple):
    """An executor of which the log's luck decides. ``ordinal``: of its launch."""

    ordinal: int
    container: ContainerId


class _Later(NamedTuple):
    """What will happen to an executor: its connection is lost (``address``), or its container taken (``status``)."""

    at: Millis
    number: int
    executor: ExecutorId
    address: str = ""
    status: int | None = None


class LoggedCluster(DescribedCluster):
    """The place that the log knows."""

    def __init__(self, behaviour: Behaviour, faults: Faults, container: Resource, seed: int, now: Millis) -> None:
        super().__init__(assumed_cluster(behaviour, faults, container), seed, now)
        place = containers_of(behaviour)
        self._starts = Starts(place.startup, seed, extra_ms=faults.start_extra_ms)
        self.shares_driver = self._starts.shares_driver
        self._stops = place.stop_ms
        self._stopped = 0
        self._losses = {loss.ordinal: loss for loss in behaviour.losses}
        self._spot = faults.spot_per_hour
        self._seed = seed
        self._spot_luck = split(stream(seed), _SPOT)
        self._stop_luck = split(stream(seed), _STOP)
        self._admitted = 0  # registrations
        self._guests: dict[ExecutorId, _Guest] = {}
        self._by_ordinal: list[ExecutorId] = []
        self._outside: dict[ExecutorId, RegisterExecutor] = {}  # up, and not to register yet
        self._addresses: dict[str, ExecutorId] = {}
        self._address_of: dict[ExecutorId, str] = {}
        self._taken: dict[ContainerId, int] = {}  # by the luck of the log: with which status
        self._agenda: list[_Later] = []
        self._numbers = 0

    def due(self) -> Millis:
        """When something happens there next."""
        first = min(worlds.due(self.world), self._starts.due())
        return min(first, self._agenda[0].at) if self._agenda else first

    def apply(self, command: ClusterCommand, now: Millis) -> None:
        """The application asks for something; that an executor is taken in, its world knows already."""
        if isinstance(command, AnswerRegistration):
            if command.accepted:
                return
            self._outside.pop(command.executor, None)
        elif isinstance(command, LaunchExecutor):
            ordinal = len(self._by_ordinal)
            self._guests[command.executor] = _Guest(ordinal, command.container)
            self._by_ordinal.append(command.executor)
            self._starts.request(now, ordinal)
        super().apply(command, now)

    def advance(self, now: Millis) -> Iterable[ClusterStimulus]:
        """Let time pass; returns what reaches the application."""
        stimuli: list[ClusterStimulus] = []
        while worlds.due(self.world) <= now:
            for one in super().advance(now):
                self._hear(one, now, stimuli)
        for ordinal in self._starts.advance(now):
            guest = self._outside.pop(self._by_ordinal[ordinal], None)
            if guest is not None:
                stimuli.append(guest._replace(at=now))
        while self._agenda and self._agenda[0].at <= now:
            self._befalls(heappop(self._agenda), now, stimuli)
        return stimuli

    def _hear(self, one: ClusterStimulus, now: Millis, stimuli: list[ClusterStimulus]) -> None:
        match one:
            case RegisterExecutor():
                if one.executor in self._guests:
                    self._outside[one.executor] = one
                    self._addresses[one.address] = one.executor
                    self._address_of[one.executor] = one.address
                    super().apply(AnswerRegistration(now, one.executor, True, _ADMITTED), now)
            case ExecutorDisconnected():
                self._ends(one, now)
            case ResourcesAnswered() if one.completed and self._taken:
                stimuli.append(one._replace(completed=tuple(map(self._judged, one.completed))))
            case _:
                stimuli.append(one)

    def _ends(self, one: ExecutorDisconnected, now: Millis) -> None:
        """The world ended an executor: whoever is registered is seen to go when stopping it is over."""
        executor = self._addresses.pop(one.address, None)
        if executor is None:
            return
        guest = self._guests.pop(executor)
        del self._address_of[executor]
        self._starts.cancel(guest.ordinal, now)
        if self._outside.pop(executor, None) is None and guest.container not in self._taken:
            self._later(now + self._stop_ms(), executor, address=one.address)

    def _judged(self, one: Completion) -> Completion:
        status = self._taken.pop(one.container, None)
        return one if status is None else Completion(one.container, status)

    def registered(self, executor: ExecutorId, now: Millis) -> None:
        """The driver took an executor in: what the luck has for it is known now."""
        number = self._admitted
        self._admitted += 1
        loss = self._losses.get(number)
        after = None if loss is None else loss.after_ms
        status = ABORTED if loss is None or loss.status is None else loss.status
        if self._spot > 0:
            spot = interrupted_after(number, self._spot, self._spot_luck)
            if after is None or spot < after:
                after, status = spot, PREEMPTED
        if after is not None and now + after < LAST_MS:
            self._later(now + max(1, after), executor, status=status)

    def _befalls(self, what: _Later, now: Millis, stimuli: list[ClusterStimulus]) -> None:
        if what.status is None:
            stimuli.append(ExecutorDisconnected(now, what.address))
            return
        guest = self._guests.get(what.executor)
        if guest is None:
            return
        self._taken[guest.container] = what.status
        super().apply(ReleaseContainers(now, (guest.container,), _TAKEN), now)
        stimuli.append(ExecutorDisconnected(now, self._address_of[what.executor]))

    def _later(self, at: Millis, executor: ExecutorId, *, address: str = "", status: int | None = None) -> None:
        self._numbers += 1
        heappush(self._agenda, _Later(at, self._numbers, executor, address, status))

    def _stop_ms(self) -> Millis:
        self._stopped += 1
        return sampled(self._stops, self._stopped - 1, self._stop_luck, self._seed)

    def ready(self) -> list[ExecutorId]:
        """Executors that can be given tasks since this was last asked."""
        return [self._by_ordinal[ordinal] for ordinal in self._starts.ready()]

    def warm_up(self, now: Millis, work: Millis) -> WarmUp:
        """An executor begins its first task, which takes so much work longer."""
        return self._starts.warm_up(now, work)

    def warms(self, now: Millis, number: int) -> Millis:
        """How long a first task still takes what it takes longer."""
        return self._starts.warms(now, number)

    def think(self, now: Millis) -> None:
        """The driver begins its own work before its first job."""
        self._starts.think(now)

    def thought(self) -> bool:
        """Whether the driver's own work before its first job is done."""
        return not self.shares_driver or self._starts.thought_ms is not None
