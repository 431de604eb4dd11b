"""A YARN cluster's description from what was seen of it: nodes, queue, latencies, failures, each with how much it rests on.

The counterpart of ``fakes.kubernetes.fit``: what entered and left the application, in order, is all there is to go by.
Distributions are the samples' own quantiles; what cannot be seen stays at its default and is named with 0 observations:

- Nodes are those that containers ran on and those whose racks are known, a row for each rack; what else the resource manager
  counted is there without a name. How large a node is nobody says. Where the fullest one had as much as the share of the
  queue makes for each node, to less than a container, that is its size: nodes were full, and the queue all there was. Else
  it is the default, or what was seen on it at once.
- The queue over time, who else was in it and what they took back: ``fakes.yarn.fit_queue``.
- The first container on a node fetched the files; those that were launched once an executor had registered there found them;
  those in between waited for the first. What those that found them took is ``start`` (and ``localized`` is 0), what the
  first took beyond it ``localize``, by mean and spread. Where less than ``STARTS_MIN`` found them, those in between say
  how starts spread, since they all began when the files were there, and the default says how long starts of such a
  spread are. Where neither is seen starting is not told: ``localize`` and ``localized`` hold it, and ``start`` is 0.
- A container that ended before its executor registered makes a death while starting, by its share; one that ended afterwards
  without having been given back makes one while running, by the executor-hours seen. Preemptions count only where the
  queue does not explain them, ends on a lost node not at all: the node's loss counts, by the hours of nodes.
- Failed heartbeats and launches are shares of all that were made.

A container that is given back is no part of the share from the call on that says so.

Memory is bounded by the containers that run and by ``SAMPLES_MAX`` for each distribution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final, TypeAlias

from podtide.domain.base.randomness import HOUR_MS, Constant, LogNormal
from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, Fitted, log_normal, plain_sum, rest, share
from podtide.domain.fakes.yarn.description import (
    YARN,
    CallFault,
    ContainerPhase,
    Death,
    LaunchFault,
    Manager,
    Nodes,
    Queue,
    YarnDescription,
    YarnExecutors,
)
from podtide.domain.fakes.yarn.fit_queue import QueueSightings
from podtide.domain.protocol.completions import PREEMPTED
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

NOTHING: Final = Resource(0, 0)

STARTS_MIN: Final = 5
"""So many executors that found the files tell how long starting takes."""

FAULTS_MAX: Final = 20
"""Kinds of failures that are told apart, by their exception and message; further ones count with the most frequent."""

LOST_STATES: Final = frozenset({"LOST", "UNHEALTHY"})
"""YARN's names of a node whose containers are over all at once."""

UNSEEN: Final = (
    ("nodes.heartbeat", ""),
    ("nodes.expiry", ""),
    ("nodes.decommission", ""),
    ("nodes.groups[0].back", ""),
    ("manager.node-delay", ""),
    ("manager.rack-delay", ""),
    ("manager.anywhere-per-heartbeat", ""),
    ("manager.minimum-memory", ""),
    ("manager.maximum-memory", ""),
    ("manager.dominant", ""),
    ("manager.expiry", ""),
    ("manager.mistakes", ""),
    ("executors.drain", ""),
    ("executors.rpc", "it is part of start"),
    ("executors.silence", ""),
    ("executors.unreachable", ""),
    ("master.registers", ""),
    ("master.restarts", ""),
)
"""What no recording shows: keys of a cluster file, and remarks."""


@dataclass(slots=True)
class _Box:
    """A container that was given: what is known of it."""

    container: Container
    launched: Millis | None = None
    up: Millis | None = None
    first: bool | None = None  # whether it was the first on its node; None: in between
    registered: Millis | None = None
    notice: Millis | None = None
    aboard: bool = True  # it takes room of the queue and of its node


@dataclass(slots=True)
class _Fitter:
    """What was seen so far."""

    latency: DurationSample = field(default_factory=DurationSample)
    launch: DurationSample = field(default_factory=DurationSample)
    localize: DurationSample = field(default_factory=DurationSample)
    localized: DurationSample = field(default_factory=DurationSample)
    exit: DurationSample = field(default_factory=DurationSample)
    queue: QueueSightings = field(default_factory=QueueSightings)
    calls: dict[int, Millis] = field(default_factory=dict)
    heartbeats: int = 0
    refusals: Counter[tuple[str, bool]] = field(default_factory=Counter)
    came_up: dict[str, list[Millis]] = field(default_factory=dict)  # by host: those that waited for its files
    launches: int = 0
    launches_failed: Counter[tuple[str, bool]] = field(default_factory=Counter)
    boxes: dict[str, _Box] = field(default_factory=dict)
    executors: dict[str, str] = field(default_factory=dict)  # executor to container
    addresses: dict[str, str] = field(default_factory=dict)  # address to container
    ready: set[str] = field(default_factory=set)  # hosts on which an executor has registered
    touched: set[str] = field(default_factory=set)  # hosts on which one was launched
    hosts: set[str] = field(default_factory=set)
    here: dict[str, Resource] = field(default_factory=dict)
    held: Resource = NOTHING
    most: dict[str, Resource] = field(default_factory=dict)
    largest: Resource = NOTHING  # of the containers
    nodes: int = 0
    decommissioned: int = 0
    lost: int = 0
    taken_back: list[tuple[Millis, bool]] = field(default_factory=list)  # preempted; whether it had registered
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
        self.lost += sum(node.state in LOST_STATES for node in answer.updated)
        before = self.held
        taken = [
            box.container.resource
            for one in answer.completed
            if one.status == PREEMPTED and (box := self.boxes.get(one.container)) is not None and box.aboard
        ]
        if taken:
            self.queue.preempt(answer.at, taken, before)
        early = [one for one in answer.completed if one.container in self.boxes]
        for one in early:  # their room was free before it was given to others
            self.completed(one, answer.at)
        for container in answer.allocated:
            self.allocated(container)
        for one in answer.completed:
            self.completed(one, answer.at)
        if answer.available is not None:
            self.queue.say(answer.at, answer.available, self.held, answer.nodes)

    def allocated(self, container: Container) -> None:
        self.boxes[container.id] = _Box(container)
        self.hosts.add(container.host)
        self.held = self.held.plus(container.resource)
        here = self.here[container.host] = self.here.get(container.host, NOTHING).plus(container.resource)
        self.most[container.host] = _larger(here, self.most.get(container.host, NOTHING))
        self.largest = _larger(container.resource, self.largest)

    def free(self, box: _Box) -> None:
        """Its room is the queue's and the node's again."""
        if box.aboard:
            box.aboard = False
            self.held = self.held.plus(box.container.resource, -1)
            self.here[box.container.host] = self.here[box.container.host].plus(box.container.resource, -1)

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
        if box.first is not False:
            self.came_up.setdefault(box.container.host, []).append(seen.at)
        if box.first is not None:
            (self.localize if box.first else self.localized).add(seen.at - box.up)

    def released(self, container: str, at: Millis) -> None:
        box = self.boxes.get(container)
        if box is not None and box.notice is None:
            box.notice = at
            self.free(box)
            self.lived_ms += 0 if box.registered is None else at - box.registered
            if box.launched is None:  # nobody started anything in it
                del self.boxes[container]

    def completed(self, one: Completion, at: Millis) -> None:
        box = self.boxes.pop(one.container, None)
        if box is None:
            return
        self.free(box)
        if box.notice is not None or (box.registered is None and box.up is None):
            return
        if box.registered is not None:
            self.lived_ms += at - box.registered
        if one.status == PREEMPTED:
            self.taken_back.append((at, box.registered is not None))
        elif not _LOST_NODE.search(one.diagnostics[:2_000]):
            (self.ended_early if box.registered is None else self.ended)[one.status] += 1

    def finish(self) -> None:
        for box in self.boxes.values():
            if box.registered is not None and box.notice is None:
                self.lived_ms += self.last - box.registered

    def spread_starts(self) -> tuple[LogNormal, float, float] | None:
        """How long starts take by how far apart those came up that waited for the same files, with mean and variance."""
        degrees = sum(len(times) - 1 for times in self.came_up.values())
        if degrees < STARTS_MIN:
            return None
        squares = plain_sum(
            (time - sum(times) / len(times)) ** 2 for times in self.came_up.values() for time in times
        )  # fmt: skip
        deviation = sqrt(squares / degrees)
        whole, _ = self.localize.moments()
        mean = min(deviation / _START_DEVIATION, _START_MAX * whole)
        return (log_normal(mean, deviation), mean, deviation**2) if mean >= 1 else None

    def unexplained(self, times: Collection[Millis]) -> None:
        """Preemptions that the queue does not explain are deaths like others."""
        for at, registered in self.taken_back:
            if at in times:
                (self.ended if registered else self.ended_early)[PREEMPTED] += 1


_START_DEVIATION: Final = 0.415
"""Of the default: the standard deviation of LogNormal(3 s, 5 s) as a share of its mean."""

_START_MAX: Final = 0.8
"""Starting is at most this part of what first containers take."""

_LOST_NODE: Final = re.compile(r"released on a \*?lost\*? node")


def _larger(one: Resource, other: Resource) -> Resource:
    return Resource(max(one.memory_mib, other.memory_mib), max(one.vcores, other.vcores))


def fit(
    observations: Iterable[Observation], racks: Mapping[str, str], began: Millis | None = None
) -> Fitted[YarnDescription]:
    """The cluster that these observations, in order, show.

    ``racks``: where hosts are, as far as that is known. ``began``: when the cluster did (None: with the first observation).
    """
    fitter = _Fitter()
    for observation in observations:
        fitter.take(observation)
    fitter.finish()
    evidence: list[Evidence] = []
    queue, unexplained = fitter.queue.queue(began if began is not None else fitter.first or 0, fitter.last, evidence)
    fitter.unexplained(unexplained)
    nodes = _nodes(fitter, queue, racks, evidence)
    manager, executors = _manager(fitter, evidence), _executors(fitter, evidence)
    evidence += [Evidence(key, 0, note) for key, note in UNSEEN]
    description = replace(YARN, nodes=nodes, queue=queue, manager=manager, executors=executors)
    return Fitted(description, tuple(evidence))


def _nodes(fitter: _Fitter, queue: Queue, racks: Mapping[str, str], evidence: list[Evidence]) -> tuple[Nodes, ...]:
    by_rack: dict[str, list[str]] = {}
    for host in sorted(fitter.hosts.union(racks)):
        by_rack.setdefault(racks.get(host, DEFAULT_RACK), []).append(host)
    known = sum(map(len, by_rack.values()))
    evidence.append(Evidence("nodes.groups", known, f"of {max(fitter.nodes, known)} nodes"))
    if not by_rack:
        return YARN.nodes
    nodes = max(fitter.nodes, known)
    size = _size(fitter, queue, nodes, evidence)
    hours = 0 if fitter.first is None else (fitter.last - fitter.first) / HOUR_MS
    leaving, lost = (round(one / (nodes * hours), 6) if hours else 0.0 for one in (fitter.decommissioned, fitter.lost))
    evidence.append(Evidence("nodes.groups[0].decommissioned-per-hour", fitter.decommissioned, "nodes that left"))
    evidence.append(Evidence("nodes.groups[0].lost-per-hour", fitter.lost, "nodes that were lost or unhealthy"))
    rows = []
    for place, (rack, hosts) in enumerate(sorted(by_rack.items())):
        more = nodes - known if place == 0 else 0
        row = Nodes(
            f"row-{place + 1}", len(hosts) + more, size.memory_mib, size.vcores, racks=(rack,), hosts=tuple(hosts)
        )
        rows.append(replace(row, decommissioned_per_hour=leaving, lost_per_hour=lost))
    return tuple(rows)


def _size(fitter: _Fitter, queue: Queue, nodes: int, evidence: list[Evidence]) -> Resource:
    """How large each node is."""
    most = NOTHING
    for one in fitter.most.values():
        most = _larger(most, one)
    default = YARN.nodes[0].capacity
    shares = [(share.memory_mib, share.vcores, share.nodes) for share in fitter.queue.shares if share.nodes]
    if queue.memory_mib is not None and queue.vcores is not None:
        each = Resource(queue.memory_mib // nodes, queue.vcores // nodes)
    elif shares:  # the queue is all there is
        each = Resource(max(m // n for m, _, n in shares), max(c // n for _, c, n in shares))
    else:
        each = NOTHING
    tight = (
        most.memory_mib <= each.memory_mib
        and most.vcores <= each.vcores
        and (
            each.memory_mib < most.memory_mib + fitter.largest.memory_mib
            or each.vcores < most.vcores + fitter.largest.vcores
        )
    )
    fullest = sum(one == most for one in fitter.most.values())
    note = "nodes as full as the queue's share makes each" if tight else "no node was seen to be full"
    evidence.append(Evidence("nodes.groups[0].memory", fullest if tight else 0, note))
    if tight or (queue.memory_mib is None and shares):
        return _larger(each, most)
    return _larger(default, most)


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
    evidence.append(Evidence("executors.localize", fitter.localize.count, "first containers on a node"))
    evidence.append(Evidence("executors.localized", fitter.localized.count, "later ones"))
    starts = sum(map(len, fitter.came_up.values())) + fitter.localized.count
    evidence.append(Evidence("executors.start", starts, "later ones, or how far apart those on a node came up"))
    if fitter.localize.count and fitter.localized.count >= STARTS_MIN:
        # Who comes when the files are there only starts; so starting is told from waiting for them.
        executors = replace(
            executors,
            localize=rest(fitter.localize, *fitter.localized.moments()),
            localized=Constant(0),
            start=fitter.localized.delay(),
        )
    elif fitter.localize.count and (together := fitter.spread_starts()) is not None:
        start, mean, variance = together
        executors = replace(
            executors, localize=rest(fitter.localize, mean, variance), localized=Constant(0), start=start
        )
    elif (whole := fitter.localize if fitter.localize.count else fitter.localized).count:
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
