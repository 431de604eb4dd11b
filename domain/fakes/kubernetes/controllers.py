"""The controllers of StatefulSets and Deployments: as many pods as replicas, again and again.

A StatefulSet (Parallel) makes the ordinals below its replicas and deletes those from there on, the highest first; a pod
that failed is deleted so that its ordinal can be made anew. A Deployment makes what is missing, with random names, and
deletes what is too many in the ReplicaSet's order: not placed before placed, pending before running, the lower
pod-deletion-cost, the younger. Pods that are on their way out count for neither, but a StatefulSet's ordinal stays taken
until its pod is gone. Where the quota leaves no room the controller tries again later.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.pod_endings import delete
from podtide.domain.fakes.kubernetes.pods import create
from podtide.domain.fakes.kubernetes.rows import ClaimRow, PodAgenda, PodRow, SetRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.pods import UNNAMED_EXECUTOR

COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
_AGAIN_MS: Final[Millis] = 10_000
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' alphabet for random names
_NAMES: Final = 15


def act(tables: ClusterTables, number: int, now: Millis) -> None:
    """A controller looks at its set and does what is missing."""
    row = tables.sets.get(number)
    if row is None:
        return
    row = row._replace(sync=0)
    tables.sets.put(number, row)
    rows = tables.pods
    pods = [rows[uid] for uid in sorted(tables.owned.get(number, ()))]
    content = _stateful(tables, row, pods, now) if row.stateful else _deployed(tables, row, pods, now)
    row = tables.sets[number]
    if not content and not row.sync:
        tables.sets.put(number, row._replace(sync=tables.later(now + _AGAIN_MS, PodAgenda.SYNC, number)))


def room(tables: ClusterTables) -> bool:
    """Whether the quota leaves room for one more pod."""
    quota = tables.plan.description.api.quota_pods
    return quota is None or tables.unfinished < quota


def _stateful(tables: ClusterTables, row: SetRow, pods: list[PodRow], now: Millis) -> bool:
    taken = {pod.ordinal for pod in pods}
    for pod in sorted(pods, key=lambda pod: pod.ordinal, reverse=True):
        if pod.ordinal >= row.replicas or pod.finished:
            delete(tables, pod, now)
    for ordinal in range(row.replicas):
        if ordinal in taken:
            continue
        if not room(tables):
            tables.count("quota.refused")
            return False
        name = f"{row.name}-{ordinal}"
        if name in tables.names:
            continue
        claims = tuple(f"{spec.name}-{name}" for spec in row.claims)
        for spec, claim in zip(row.claims, claims, strict=True):
            if claim not in tables.claims:
                tables.claims.put(claim, ClaimRow(claim, spec.storage_class, spec.size, format_instant(now)))
        create(tables, name, UNNAMED_EXECUTOR, row.profile, now, claims, row.number, ordinal)
    return True


def _deployed(tables: ClusterTables, row: SetRow, pods: list[PodRow], now: Millis) -> bool:
    active = [pod for pod in pods if not pod.deleting and not pod.finished]
    excess = len(active) - row.replicas
    for pod in sorted(active, key=_rank)[: max(0, excess)]:
        delete(tables, pod, now)
    for _ in range(-excess):
        if not room(tables):
            tables.count("quota.refused")
            return False
        create(tables, _name(tables, row), UNNAMED_EXECUTOR, row.profile, now, owner=row.number)
    return True


def _rank(pod: PodRow) -> tuple[bool, bool, int, int]:
    return bool(pod.node), pod.manifest.phase == "Running", pod.cost, -pod.uid


def _name(tables: ClusterTables, row: SetRow) -> str:
    template = _letters(tables.stream(_NAMES, -row.number), 9)
    while True:
        name = f"{row.name}-{template}-{_letters(tables.stream(_NAMES, tables.claim_names.next()), 5)}"
        if name not in tables.names:
            return name


def _letters(number: int, count: int) -> str:
    letters = []
    for _ in range(count):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)
