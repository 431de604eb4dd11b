"""The Kubernetes side of an application at a moment: its machines' states, and when one of them next needs time.

The snapshot store, the pods allocator (or the StatefulSet or Deployment allocator), the lifecycle manager, the scheduler
backend, the polling source and the plugins do not know one another; ``router`` carries from one to the next what they say.

A subscriber's timer need not run when nothing is queued and its machine has nothing to do by itself; ``due`` passes over
such runs, and ``rested`` leaves them out, which keeps their grid in time as it was (Spark's round would have ended where it
began).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.backend import heartbeat_receiver as heartbeats, scheduler_backend as backend
from podtide.domain.backend.heartbeat_receiver import HeartbeatState
from podtide.domain.backend.state import BackendState
from podtide.domain.base.units import NEVER, Millis, next_on_grid
from podtide.domain.kubernetes import (
    polling_source as polling,
    resize_plugins as resizing,
    roll_plugin as rolling,
    snapshots_store as store,
)
from podtide.domain.kubernetes.allocator import allocator as allocation, replicas_allocator as replicas
from podtide.domain.kubernetes.allocator.replicas_allocator import ReplicasState
from podtide.domain.kubernetes.allocator.state import AllocatorState
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import LifecycleState
from podtide.domain.kubernetes.polling_source import PollingState
from podtide.domain.kubernetes.resize_plugins import ClaimSizes, PodSizes
from podtide.domain.kubernetes.roll_plugin import RollState
from podtide.domain.kubernetes.snapshots_store import ALLOCATOR, LIFECYCLE, StoreState, Subscriber
from podtide.domain.protocol import backend_messages as messages
from podtide.domain.protocol.cluster_config import KubernetesConfig
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import PodStimulus

SideStimulus: TypeAlias = PodStimulus | messages.RequestTotals | messages.RequestMore | messages.HostsExcluded
"""All that the Kubernetes side hears of: of dynamic allocation the requests (kills and decommissions are stimuli of
executors), of the task scheduler the excluded nodes (spark.excludeOnFailure)."""

SideCommand: TypeAlias = PodCommand | messages.BackendNews


@dataclass(frozen=True, slots=True)
class KubernetesState:
    """All machines at a moment. ``allocator`` is None where ``sets`` allocates, and the other way round.

    ``starting``: the backend's call of the allocator's start that is not answered yet; ``serving``: its calls of
    setTotalExpectedExecutors that are not. ``thrown``: what subscribers' rounds have thrown that are not over yet.
    """

    store: StoreState
    lifecycle: LifecycleState
    backend: BackendState
    polling: PollingState
    heartbeats: HeartbeatState
    allocator: AllocatorState | None = None
    sets: ReplicasState | None = None
    roll: RollState | None = None
    memory: PodSizes | None = None
    claims: ClaimSizes | None = None
    starting: int | None = None
    serving: tuple[int | None, ...] = ()
    thrown: PMap[str, str] = field(default_factory=pmap)

    @property
    def plugins(self) -> Iterator[RollState | PodSizes | ClaimSizes]:
        """The plugins that are on."""
        return (plugin for plugin in (self.roll, self.memory, self.claims) if plugin is not None)


class Wants(NamedTuple):
    """What the plugins need to be told before they can go on: measurements that only the outside can make."""

    summary: bool = False
    memory: bool = False
    claims: bool = False


def begin(config: KubernetesConfig, now: Millis) -> KubernetesState:
    """An application that has been made and not started: hand it ``Starting``."""
    direct = config.replicas is None
    return KubernetesState(
        store.start(),
        lifecycle.empty(),
        backend.begin(config.backend, now),
        polling.start(),
        heartbeats.begin(now),
        allocator=allocation.begin(config.allocation) if direct else None,
        sets=None if direct else replicas.begin(),
        roll=None if config.roll is None else rolling.start(config.roll, now),
        memory=None if config.resize is None else resizing.start_pods(config.resize, now),
        claims=None if config.claim_resize is None else resizing.start_claims(config.claim_resize, now),
    )


def due(state: KubernetesState, config: KubernetesConfig) -> Millis:
    """When a ``Wake`` could change anything; NEVER if only a stimulus can."""
    first = min(
        heartbeats.due(state.heartbeats, config.heartbeats),
        backend.due(state.backend, config.backend),
        polling.due(state.polling),
    )
    for run in state.store.submitted:
        first = min(first, run.due)
    for subscriber in state.store.subscribers:
        if subscriber.due is not None:
            first = min(first, _next_run(subscriber, state, config))
    for plugin in state.plugins:
        first = min(first, plugin.timer.due)
    return first


def wants(state: KubernetesState, config: KubernetesConfig, now: Millis) -> Wants:  # noqa: ARG001 - as every question
    """Which measurements the plugins wait for at ``now``."""
    return Wants(
        *(plugin is not None and plugin.timer.wants(now) for plugin in (state.roll, state.memory, state.claims))
    )


def rested(state: KubernetesState, config: KubernetesConfig, now: Millis) -> StoreState:
    """The store with the idle runs of its timers passed over that lie before now."""
    rows: list[Subscriber] | None = None
    for place, subscriber in enumerate(state.store.subscribers):
        at = subscriber.due
        if at is not None and at < now and not subscriber.queue and not subscriber.notifications:
            later = min(_next_run(subscriber, state, config), next_on_grid(at, subscriber.interval_ms, now))
            if later != at:
                rows = list(state.store.subscribers) if rows is None else rows
                rows[place] = replace(subscriber, due=later)
    return state.store if rows is None else replace(state.store, subscribers=tuple(rows))


def _next_run(subscriber: Subscriber, state: KubernetesState, config: KubernetesConfig) -> Millis:
    """The first run of a subscriber's timer that is not idle."""
    assert subscriber.due is not None
    if subscriber.queue or subscriber.notifications:
        return subscriber.due
    wanted = NEVER
    if subscriber.name == ALLOCATOR and state.allocator is not None:
        wanted = allocation.due(state.allocator, config.allocation)
    elif subscriber.name == LIFECYCLE:
        wanted = lifecycle.due(state.lifecycle, config.lifecycle)
    return wanted if wanted == NEVER else next_on_grid(subscriber.due, subscriber.interval_ms, wanted)
