"""Which shuffle service serves the executors of a node, and what happens to their files when it goes.

Services are pods that labels name. An executor of Spark 4.3 looks for one at its own address (BlockManager.initialize), so
the service of an executor is the one Ready pod on its node that has the executor's address: both on the network of the node.

- *None yet*: no pod, one that is not Ready, or several on one node, which is an error that names them. The executor tries
  again for ``register_ms`` (spark.shuffle.registration.maxAttempts, 5 s apart), then it has failed and Spark replaces it.
  Other nodes are not concerned. A pod that is not Ready is not handed out; who registered at it stays registered.
- *Registered*: the files of an executor are served there, also when the executor has gone, until its application has. A
  service that is changed, or made anew at the same address, serves on: its database is on the node.
- *It goes*: files are held for ``hold_ms``, in which fetches are tried again (spark.shuffle.io.maxRetries times
  retryWait). A service that is back at the same address serves them on. One at another address does not, for the address
  stands in every map status: the files are lost, and Spark computes these map outputs again.

What is seen is seen as a whole, so nothing depends on what happened between two looks. A look that failed changes nothing.

Costs: a look one pass over services and executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.base.units import Millis


class ServicePod(NamedTuple):
    """A pod with the labels of a shuffle service. ``address``: of the pod; "" without one."""

    name: str
    node: str
    address: str
    ready: bool


class PlacedExecutor(NamedTuple):
    """An executor's pod that is on a node and has an address."""

    name: str
    app: str
    node: str
    address: str


@dataclass(frozen=True)
class ServicesConfig:
    """``register_ms``: how long an executor tries to register. ``hold_ms``: how long files may be away."""

    register_ms: Millis = 60_000
    hold_ms: Millis = 15_000


# stimuli


class ServicesSeen(NamedTuple):
    """All services, all executors, and the applications that have a pod which is alive."""

    services: tuple[ServicePod, ...]
    executors: tuple[PlacedExecutor, ...]
    apps: frozenset[str]


class ServicesUnseen(NamedTuple):
    """A look failed: what was seen last may have changed, nobody knows how."""


ServicesStimulus: TypeAlias = ServicesSeen | ServicesUnseen


# what is decided


class NodeVerdict(Enum):
    """What a node has."""

    SERVED = "one service, Ready"
    NOT_READY = "its service is not Ready"
    AMBIGUOUS = "several services; there has to be one"
    MISSING = "no service"


class NodeServices(NamedTuple):
    """The services of a node."""

    verdict: NodeVerdict
    services: tuple[ServicePod, ...] = ()


class ShuffleNews(Enum):
    """What came of a step for executors of a node."""

    REGISTERED = "registered"
    REFUSED = "could not register"
    HELD = "files are held: their service is away"
    BACK = "files are served again"
    LOST = "files are lost: map outputs are computed again"


class ShuffleReport(NamedTuple):
    """News of executors of one node. ``why``, for people, "" where the news says all."""

    news: ShuffleNews
    node: str
    executors: tuple[str, ...]
    why: str = ""


class ShuffleRegistration(NamedTuple):
    """An executor and its service. ``address``: where it is registered; "" not yet.

    ``since``: waiting, or held; None: neither. ``over``: it was refused, or its files are lost.
    """

    executor: PlacedExecutor
    address: str = ""
    since: Millis | None = None
    over: bool = False


@dataclass(frozen=True)
class ServicesState:
    """Everything that is known. ``nodes``: those with a service. ``registrations``: by the name of the executor's pod."""

    nodes: PMap[str, NodeServices] = pmap()  # noqa: RUF009 - a value
    registrations: PMap[str, ShuffleRegistration] = pmap()  # noqa: RUF009 - a value


class ServicesStep(NamedTuple):
    """The new state, and what came of it, by node."""

    state: ServicesState
    reports: tuple[ShuffleReport, ...] = ()


class _Move(NamedTuple):
    registration: ShuffleRegistration
    news: ShuffleNews | None = None
    why: str = ""


def service_of(state: ServicesState, executor: PlacedExecutor) -> ServicePod | str:
    """The service that this executor would register at now; or why there is none, with the node's name."""
    found = state.nodes.get(executor.node, NodeServices(NodeVerdict.MISSING))
    if found.verdict is not NodeVerdict.SERVED:
        names = f" ({', '.join(pod.name for pod in found.services)})" if found.services else ""
        return f"node {executor.node}: {found.verdict.value}{names}"
    (service,) = found.services
    if service.address != executor.address:
        return (
            f"node {executor.node}: the service is at {service.address}, and executors look at their own address, here "
            f"{executor.address}; both need hostNetwork"
        )
    return service


def advance(state: ServicesState, stimulus: ServicesStimulus, config: ServicesConfig, now: Millis) -> ServicesStep:
    """Take in a look."""
    if isinstance(stimulus, ServicesUnseen):
        return ServicesStep(state)
    state = _seen(state, stimulus, now)
    moves = [_moved(state, one, config, now) for one in state.registrations.values()]
    registrations = pmap({move.registration.executor.name: move.registration for move in moves})
    return ServicesStep(replace(state, registrations=registrations), tuple(_reports(moves)))


def _seen(state: ServicesState, seen: ServicesSeen, now: Millis) -> ServicesState:
    by_node: dict[str, list[ServicePod]] = {}
    for service in sorted(seen.services):
        by_node.setdefault(service.node, []).append(service)
    # Files outlive their executor, not their application.
    known = {name: one for name, one in state.registrations.items() if one.executor.app in seen.apps and one.address}
    for executor in seen.executors:
        before = state.registrations.get(executor.name)
        known[executor.name] = ShuffleRegistration(executor, since=now) if before is None else before
    nodes = pmap({node: _node(services) for node, services in by_node.items()})
    return ServicesState(nodes, pmap(known))


def _node(services: list[ServicePod]) -> NodeServices:
    if len(services) > 1:
        return NodeServices(NodeVerdict.AMBIGUOUS, tuple(services))
    ready = services[0].ready and services[0].address
    return NodeServices(NodeVerdict.SERVED if ready else NodeVerdict.NOT_READY, tuple(services))


def _late(one: ShuffleRegistration, config: ServicesConfig, now: Millis) -> bool:
    """Whether somebody has waited for too long."""
    return one.since is not None and now >= one.since + (config.hold_ms if one.address else config.register_ms)


def _moved(state: ServicesState, one: ShuffleRegistration, config: ServicesConfig, now: Millis) -> _Move:
    """What becomes of a registration, as the services are now."""
    if one.over:
        return _Move(one)
    late = _late(one, config, now)
    if not one.address:
        service = service_of(state, one.executor)
        if isinstance(service, ServicePod):
            return _Move(one._replace(address=service.address, since=None), ShuffleNews.REGISTERED)
        return _Move(one._replace(over=True), ShuffleNews.REFUSED, service) if late else _Move(one)
    services = state.nodes.get(one.executor.node, NodeServices(NodeVerdict.MISSING)).services
    if any(service.address == one.address for service in services):
        return _Move(one) if one.since is None else _Move(one._replace(since=None), ShuffleNews.BACK)
    if late or any(service.address for service in services):
        elsewhere = ", ".join(f"{service.name} at {service.address}" for service in services)
        why = f"the service was at {one.address}" + (f"; now there is {elsewhere}" if elsewhere else "")
        return _Move(one._replace(over=True), ShuffleNews.LOST, why)
    return _Move(one) if one.since is not None else _Move(one._replace(since=now), ShuffleNews.HELD)


def _reports(moves: Iterable[_Move]) -> Iterator[ShuffleReport]:
    """News of the same kind, node and reason are one."""
    grouped: dict[tuple[str, ShuffleNews, str], list[str]] = {}
    for move in moves:
        if move.news is not None:
            executor = move.registration.executor
            grouped.setdefault((executor.node, move.news, move.why), []).append(executor.name)
    for node, news, why in sorted(grouped, key=lambda key: (key[0], key[1].value, key[2])):
        yield ShuffleReport(news, node, tuple(sorted(grouped[node, news, why])), why)


class ServedNode(NamedTuple):
    """A node as people see it. ``served``, ``waiting``: executors there that a service serves, and others."""

    node: str
    verdict: NodeVerdict
    services: tuple[ServicePod, ...]
    served: tuple[str, ...]
    waiting: Mapping[str, str]


def served_nodes(state: ServicesState, executors: Iterable[PlacedExecutor]) -> tuple[ServedNode, ...]:
    """Every node with a service or an executor. ``waiting``: executors that have no service, and why."""
    places: dict[str, list[PlacedExecutor]] = {node: [] for node in state.nodes}
    for executor in executors:
        places.setdefault(executor.node, []).append(executor)
    lines = []
    for node in sorted(places):
        found = state.nodes.get(node, NodeServices(NodeVerdict.MISSING))
        answers = {executor.name: service_of(state, executor) for executor in sorted(places[node])}
        served = tuple(name for name, answer in answers.items() if isinstance(answer, ServicePod))
        waiting = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
        lines.append(ServedNode(node, found.verdict, found.services, served, waiting))
    return tuple(lines)
