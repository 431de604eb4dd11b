"""What the pods of a live run tell about a stall: who waits for a node, and which executors count that are not there.

Asked only when nothing has moved for a while and executors are missing; it costs a pass over the pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.kubernetes.allocator.executor_index import profile_of
from podtide.domain.kubernetes.allocator.state import AllocatorState
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol.pods import PodState
from podtide.domain.stalls.facts import NAMED_MAX, ProfileMoment

_UNDER_WAY: Final = (PodState.PENDING, PodState.RUNNING)


def with_pods(moments: Sequence[ProfileMoment], side: KubernetesState, pods_max: int) -> list[ProfileMoment]:
    """The same with what the pods of a live run tell. ``pods_max``: spark.kubernetes.allocation.maximum."""
    if not any(one.missing for one in moments):
        return list(moments)
    waiting: dict[ProfileId, list[str]] = {}
    placed: dict[ProfileId, list[str]] = {}
    registered = side.backend.registry.executors
    for pod in side.store.view.pods():
        profile = profile_of(pod)
        if profile is None or pod.state not in _UNDER_WAY or ExecutorId(str(pod.number)) in registered:
            continue
        which = waiting if pod.state is PodState.PENDING and pod.manifest.node is None else placed
        which.setdefault(profile, []).append(pod.manifest.name)
    ghosts = _ghosts(side.allocator)
    over = side.allocator is not None and side.allocator.executors >= pods_max
    return [
        one._replace(
            pods_waiting=len(waiting.get(one.profile, ())),
            pods=tuple(waiting.get(one.profile, ())[:NAMED_MAX]),
            pods_placed=len(placed.get(one.profile, ())) if one.tasks_known else 0,
            placed=tuple(placed.get(one.profile, ())[:NAMED_MAX]) if one.tasks_known else (),
            ghosts=tuple(ghosts.get(one.profile, ())),
            ids_over=over,
        )
        for one in moments
    ]


def _ghosts(allocator: AllocatorState | None) -> dict[ProfileId, list[ExecutorId]]:
    """Executors that the allocator counts as registered and unseen, and that the scheduler does not know any more."""
    found: dict[ProfileId, list[ExecutorId]] = {}
    if allocator is None:
        return found
    fleet = allocator.fleet
    known = fleet.known_numbers()
    for number, profile in fleet.joined():
        if number not in known:
            found.setdefault(profile, []).append(ExecutorId(str(number)))
    return found
