"""The controller of ReplicaSets: as many active pods as replicas.

What is missing is made at once, under drawn names. What is too many goes in the order of kube-controller-manager's
ActivePodsWithRanks (1.22 on): without a node first, then by phase, not ready, the lower pod-deletion-cost, more of its kind
on the same node, ready for a shorter time, more restarts, younger. Pods that ended or are on their way out do not count.

A look at the whole set is needed for that order alone, so only where there are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from podtide.domain.api_server.controllers import pod_sets
from podtide.domain.api_server.json_values import FrozenObject, at
from podtide.domain.api_server.kinds import PODS
from podtide.domain.api_server.reads import Scope, selected
from podtide.domain.api_server.selectors import label_selection
from podtide.domain.api_server.state import Books, ObjectKey, PodSetRow, ended, key_of

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def sync(books: Books, key: ObjectKey, owner: FrozenObject, touched: Collection[ObjectKey], *, tries: bool) -> bool:
    """Bring one set nearer to what it should be; whether something was done but the report. ``tries``: may make pods."""
    row = books.sets[owner["metadata"]["uid"]]
    if pod_sets.claim_or_release(books, owner, touched):
        return True
    missing = owner["spec"]["replicas"] - row.active
    if not pod_sets.deleting(owner):
        if missing > 0 and tries:
            body = pod_sets.pod_of(owner, generateName=f"{key.name}-")
            made = 0
            while made < missing and pod_sets.make(books, PODS, owner, body):
                made += 1
            return True
        if missing < 0:
            for pod in sorted(_active(books, owner), key=_Ranks(books, owner))[:-missing]:
                pod_sets.remove_pod(books, key_of(PODS, pod))
            return True
    _report(books, key, owner, row)
    return False


def orphans(books: Books, owner: FrozenObject) -> list[ObjectKey]:
    """Pods that a new set may adopt."""
    scope = Scope(PODS, owner["metadata"]["namespace"], label_selection(owner["spec"]["selector"]))
    return [key_of(PODS, pod) for pod in selected(books.tables, scope)]


def _active(books: Books, owner: FrozenObject) -> list[FrozenObject]:
    found = (books.found(key) for key in books.dependents_of(owner["metadata"]["uid"]) if key.resource == PODS.resource)
    return [pod for pod in found if pod is not None and not ended(pod) and not pod_sets.deleting(pod)]


class _Ranks:
    """The key by which pods are sorted: what goes first comes first."""

    def __init__(self, books: Books, owner: FrozenObject) -> None:
        self._nodes = Counter(at(pod, ("spec", "nodeName")) for pod in _active(books, owner))

    def __call__(self, pod: FrozenObject) -> Any:
        node = at(pod, ("spec", "nodeName"))
        restarts = max(
            (one.get("restartCount", 0) for one in at(pod, ("status", "containerStatuses")) or ()), default=0
        )
        return (
            bool(node),
            _PHASES.get(at(pod, ("status", "phase")), 1),
            pod_sets.ready(pod),
            deletion_cost(pod),
            -self._nodes[node] if node else 0,
            _Later(pod_sets.ready_since(pod)),
            -restarts,
            _Later(pod["metadata"]["creationTimestamp"]),
            pod["metadata"]["name"],
        )


class _Later(str):
    """A moment; the later one sorts first."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def deletion_cost(pod: FrozenObject) -> int:
    """What it costs to delete a pod; 0 where it says nothing that is a number of 32 bits."""
    text = (at(pod, ("metadata", "annotations")) or {}).get(DELETION_COST, "")
    digits = text.removeprefix("-")
    value = int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else 0
    return value if -(2**31) <= value < 2**31 else 0


def _report(books: Books, key: ObjectKey, owner: FrozenObject, row: PodSetRow) -> None:
    counts = {"replicas": row.active, "fullyLabeledReplicas": row.labelled, "readyReplicas": row.ready}
    counts |= {"availableReplicas": row.ready, "observedGeneration": owner["metadata"]["generation"]}
    pod_sets.report(books, key, counts)
