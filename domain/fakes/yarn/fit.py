"""A YARN cluster's description from what was seen of it: nodes, queue, latencies, failures, each with how much it rests on.

The counterpart of ``fakes.kubernetes.fit``: what entered and left the application, in order, is all there is to go by.
Distributions are the samples' own quantiles; what cannot be seen stays at its default and is named with 0 observations:

- Nodes are those that containers ran on and those whose racks are known, a row for each rack; what else the resource manager
  counted is there without a name. How large a node is nobody says: the default, or what was seen on it at once.
- The queue's share is what the application had together with what the resource manager said was left, at the median of
  the answers that said so. Who else was in the queue shows in that number, and not by itself.
- Localizing and starting cannot be told apart: ``localize`` and ``localized`` hold both and ``start`` is 0. The first
  container on a node fetched the files; those that were launched once an executor had registered there found them; those in
  between waited for the first and count for neither.
- A container that ended before its executor registered makes a death while starting, by its share; one that ended afterwards
  without having been given back makes one while running, by the executor-hours seen, whatever its status: preemption
  and lost nodes, too, since why they came is not seen.
- Failed heartbeats and launches are shares of all that were made.

Memory is bounded by the containers that run and by ``SAMPLES_MAX`` for each distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from podtide.domain.base.randomness import HOUR_MS, Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, Fitted, share
from podtide.domain.fakes.yarn.description import (
    YARN,
    CallFault,
    ContainerPhase,
    Death,
    LaunchFault,
    Manager,
    Nodes,
    YarnDescription,
    YarnExecutors,
)
from podtide.domain.protocol.containers import DECOMMISSIONING, DEFAULT_RACK, Completion, Container, Resource
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    LaunchEnded,
    LaunchExecutor,
    ReleaseContainers,
    ResourcesAnswered,
    ResourcesRefused,
    YarnCommand,
)

Observation: TypeAlias = (
    ResourcesAnswered | ResourcesRefused | LaunchEnded | RegisterExecutor | ExecutorDisconnected | YarnCommand
)
"""What a recording shows of a YARN cluster, each with the time at which the application heard or said it."""

FAULTS_MAX: Final = 20
"""Kinds of failures that are told apart, by their exception and message; further ones count with the most frequent."""


@dataclass(slots=True)
class _Box:
    """A container that was given: what is known of it."""

    container: Container
    launched: Millis | None = None
    up: Millis | None = None
    first: bool | None = None  # whether it was the first on its node; None: in between
    registered: Millis | None = None
    notice: Millis | None = None


@dataclass(slots=True)
class _Fitter:
    """What was seen so far."""

    latency: DurationSample = field(default_factory=DurationSample)
    launch: DurationSample = field(default_factory=DurationSample)
    localize: DurationSample = field(default_factory=DurationSample)
    localized: DurationSample = field(default_factory=DurationSample)
    exit: DurationSample = field(default_factory=DurationSample)
    shares: DurationSample = field(default_factory=DurationSample)  # of the queue, in MiB
    share_cores: DurationSample = field(default_factory=DurationSample)
    calls: dict[int, Millis] = field(default_factory=dict)
    heartbeats: int = 0
    refusals: Counter[tuple[str, bool]] = field(default_factory=Counter)
    launches: int = 0
    launches_failed: Counter[tuple[str, bool]] = field(default_factory=Counter)
    boxes: dict[str, _Box] = field(default_factory=dict)
    executors: dict[str, str] = field(default_factory=dict)  # executor to container
    addresses: dict[str, str] = field(default_factory=dict)  # address to container
    ready: set[str] = field(default_factory=set)  # hosts on which an executor has registered
    touched: set[str] = field(default_factory=set)  # hosts on which one was launched
    hosts: set[str] = field(default_factory=set)
    here: dict[str, Resource] = field(default_factory=dict)
    most: dict[str, Resource] = field(default_factory=dict)
    nodes: int = 0
    decommissioned: int = 0
    began: int = 0
    ended_early: Counter[int] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    lived_ms: Millis = 0
    first: Millis | None = None
    last: Millis = 0

    def take(self, seen: Observation) -> None:
        self.first = seen.at if self.first is None else self.first
        self.last = max(self.last, seen.at)
        match seen:
            case CallResourceManager(serial=serial):
                self.calls = {serial: seen.at}  # there is one at a time
                self.heartbeats += 1
            case ResourcesAnswered():
                self.answered(seen)
            case ResourcesRefused(what=what, fatal=fatal):
                self.calls.pop(seen.serial, None)
                self.refusals[what, fatal] += 1
            case LaunchExecutor():
                self.launched(seen)
            case LaunchEnded():
                self.launch_ended(seen)
            case RegisterExecutor():
                self.registered(seen)
            case ReleaseContainers(containers=containers):
                for one in containers:
                    self.released(one, seen.at)
            case ExecutorDisconnected(address=address):
                box = self.boxes.get(self.addresses.pop(address, ""))
                if box is not None and box.notice is not None:
                    self.exit.add(seen.at - box.notice)
            case _:
                pass

    def answered(self, answer: ResourcesAnswered) -> None:
        called = self.calls.pop(answer.serial, None)
        if called is not None:
            self.latency.add(answer.at - called)
        self.nodes = max(self.nodes, answer.nodes)
        self.decommissioned += sum(node.state == DECOMMISSIONING for node in answer.updated)
        for container in answer.allocated:
            self.boxes[container.id] = _Box(container)
            self.hosts.add(container.host)
            held = self.here.get(container.host, Resource(0, 0)).plus(container.resource)
            self.here[container.host] = held
            most = self.most.get(container.host, Resource(0, 0))
            self.most[container.host] = Resource(max(most.memory_mib, held.memory_mib), max(most.vcores, held.vcores))
        for one in answer.completed:
            self.completed(one, answer.at)
        if answer.available is not None:
            self.shares.add(answer.available.memory_mib + sum(there.memory_mib for there in self.here.values()))
            self.share_cores.add(answer.available.vcores + sum(there.vcores for there in self.here.values()))

    def launched(self, command: LaunchExecutor) -> None:
        box = self.boxes.get(command.container)
        self.launches += 1
        if box is None:
            return
        host = box.container.host
        box.launched = command.at
        box.first = True if host not in self.touched else False if host in self.ready else None
        self.touched.add(host)
        self.executors[command.executor] = command.container

    def launch_ended(self, ended: LaunchEnded) -> None:
        box = self.boxes.get(self.executors.get(ended.executor, ""))
        if ended.failure is not None:
            self.launches_failed[ended.failure, ended.fatal] += 1
            return
        if box is not None and box.launched is not None:
            self.launch.add(ended.at - box.launched)
            box.up = ended.at
            self.began += 1

    def registered(self, seen: RegisterExecutor) -> None:
        container = self.executors.get(seen.executor, "")
        box = self.boxes.get(container)
        if box is None or box.up is None or box.registered is not None:
            return
        box.registered = seen.at
        self.ready.add(box.container.host)
        if seen.address:
            self.addresses[seen.address] = container
        if box.first is not None:
            (self.localize if box.first else self.localized).add(seen.at - box.up)

    def released(self, container: str, at: Millis) -> None:
        box = self.boxes.get(container)
        if box is not None and box.notice is None:
            box.notice = at
            self.lived_ms += 0 if box.registered is None else at - box.registered
            if box.launched is None:  # nobody started anything in it
                self.leave(container)

    def completed(self, one: Completion, at: Millis) -> None:
        box = self.boxes.get(one.container)
        if box is None:
            return
        if box.notice is None and box.registered is not None:
            self.ended[one.status] += 1
            self.lived_ms += at - box.registered
        elif box.notice is None and box.up is not None:
            self.ended_early[one.status] += 1
        self.leave(one.container)

    def leave(self, container: str) -> None:
        """It is gone; so is its room on its node."""
        box = self.boxes.pop(container)
        self.here[box.container.host] = self.here[box.container.host].plus(box.container.resource, -1)

    def finish(self) -> None:
        for box in self.boxes.values():
            if box.registered is not None and box.notice is None:
                self.lived_ms += self.last - box.registered


def fit(observations: Iterable[Observation], racks: Mapping[str, str]) -> Fitted[YarnDescription]:
    """The cluster that these observations, in order, show. ``racks``: where hosts are, as far as that is known."""
    fitter = _Fitter()
    for observation in observations:
        fitter.take(observation)
    fitter.finish()
    evidence: list[Evidence] = []
    nodes = _nodes(fitter, racks, evidence)
    queue = YARN.queue
    evidence.append(Evidence("queue.memory", fitter.shares.count, "what it had and what was left"))
    evidence.append(Evidence("queue.vcores", fitter.share_cores.count))
    if fitter.shares.count:
        queue = replace(queue, memory_mib=fitter.shares.median(), vcores=max(1, fitter.share_cores.median()))
    description = replace(
        YARN, nodes=nodes, queue=queue, manager=_manager(fitter, evidence), executors=_executors(fitter, evidence)
    )
    return Fitted(description, tuple(evidence))


def _nodes(fitter: _Fitter, racks: Mapping[str, str], evidence: list[Evidence]) -> tuple[Nodes, ...]:
    by_rack: dict[str, list[str]] = {}
    for host in sorted(fitter.hosts.union(racks)):
        by_rack.setdefault(racks.get(host, DEFAULT_RACK), []).append(host)
    known = sum(map(len, by_rack.values()))
    evidence.append(Evidence("nodes.groups", known, f"of {max(fitter.nodes, known)} nodes"))
    if not by_rack:
        return YARN.nodes
    most = list(fitter.most.values()) or [Resource(0, 0)]
    size = YARN.nodes[0]
    memory = max(size.memory_mib, *(one.memory_mib for one in most))
    cores = max(size.vcores, *(one.vcores for one in most))
    hours = 0 if fitter.first is None else (fitter.last - fitter.first) / HOUR_MS
    nodes = max(fitter.nodes, known)
    leaving = round(fitter.decommissioned / (nodes * hours), 6) if hours else 0.0
    evidence.append(Evidence("nodes.groups[0].decommissioned-per-hour", fitter.decommissioned, "nodes that left"))
    rows = []
    for place, (rack, hosts) in enumerate(sorted(by_rack.items())):
        more = nodes - known if place == 0 else 0
        row = Nodes(f"row-{place + 1}", len(hosts) + more, memory, cores, racks=(rack,), hosts=tuple(hosts))
        rows.append(replace(row, decommissioned_per_hour=leaving))
    return tuple(rows)


def _manager(fitter: _Fitter, evidence: list[Evidence]) -> Manager:
    manager = YARN.manager
    evidence.append(Evidence("manager.latency", fitter.latency.count))
    if fitter.latency.count:
        manager = replace(manager, latency=fitter.latency.delay())
    faults = []
    for place, ((what, fatal), number) in enumerate(_kinds(fitter.refusals)):
        evidence.append(Evidence(f"manager.faults[{place}]", number, f"of {fitter.heartbeats} heartbeats"))
        faults.append(CallFault(what, share(number, fitter.heartbeats), fatal))
    return replace(manager, faults=tuple(faults))


def _executors(fitter: _Fitter, evidence: list[Evidence]) -> YarnExecutors:
    executors = YARN.executors
    evidence.append(Evidence("executors.launch", fitter.launch.count))
    if fitter.launch.count:
        executors = replace(executors, launch=fitter.launch.delay())
    evidence.append(Evidence("executors.localize", fitter.localize.count, "first containers on a node, start included"))
    evidence.append(Evidence("executors.localized", fitter.localized.count, "later ones, start included"))
    whole = fitter.localize if fitter.localize.count else fitter.localized
    if whole.count:
        later = fitter.localized if fitter.localized.count else whole
        executors = replace(executors, localize=whole.delay(), localized=later.delay(), start=Constant(0))
    evidence.append(Evidence("executors.exit", fitter.exit.count, "from its release to the lost connection"))
    if fitter.exit.count:
        executors = replace(executors, exit=fitter.exit.delay())
    faults = []
    for place, ((what, fatal), number) in enumerate(_kinds(fitter.launches_failed)):
        evidence.append(Evidence(f"executors.launch-faults[{place}]", number, f"of {fitter.launches} launches"))
        faults.append(LaunchFault(what, share(number, fitter.launches), fatal))
    deaths: list[Death] = []
    early, late = sum(fitter.ended_early.values()), sum(fitter.ended.values())
    if early:
        evidence.append(Evidence(f"executors.deaths[{len(deaths)}]", early, f"of {fitter.began} that began"))
        deaths.append(
            Death(ContainerPhase.STARTING, share(early, fitter.began), statuses=_statuses(fitter.ended_early))
        )
    if late and fitter.lived_ms:
        hours = fitter.lived_ms / HOUR_MS
        evidence.append(Evidence(f"executors.deaths[{len(deaths)}]", late, f"in {hours:,.1f} executor-hours"))
        deaths.append(Death(ContainerPhase.RUNNING, per_hour=round(late / hours, 6), statuses=_statuses(fitter.ended)))
    return replace(executors, launch_faults=tuple(faults), deaths=tuple(deaths))


def _kinds(counts: Counter[tuple[str, bool]]) -> list[tuple[tuple[str, bool], int]]:
    """Failures by kind, the most frequent first; what is left over counts with the first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept, left = ordered[:FAULTS_MAX], sum(number for _, number in ordered[FAULTS_MAX:])
    return [(kept[0][0], kept[0][1] + left), *kept[1:]] if left else kept


def _statuses(counts: Counter[int]) -> tuple[tuple[int, float], ...]:
    return tuple((status, float(number)) for status, number in sorted(counts.items()))
