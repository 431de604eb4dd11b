"""What an application left behind on a cluster: found by its labels, deleted until a list shows nothing.

It does not matter who made it, Spark or podtide: executor pods, services, config maps and volume claims carry the label
``spark-app-selector``; a StatefulSet or Deployment of Spark carries none, but its selector does; podtide's Lease carries it.
The sets go first, or they would make new pods, and in the foreground: as long as a controller or the garbage collector lags
behind, pods may still appear; once the set is gone none can. After them the pods, then the rest. Pods without
``spark-role=executor`` are not touched, unless the driver's are asked for; those go before everything, or a driver would
make new executors.

An application may be running: a driver pod that is not over, or a Lease that somebody renews, says so (``in_use``). An
application in client mode has no driver pod; if Spark itself runs it, nothing on the cluster says that it is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient, Query
from podtide.adapters.kubernetes.apply.delete import Cleaner, Propagation, Swept
from podtide.adapters.kubernetes.calls import ENDED, Caller, Meta, Named, SeenPod, SeenSet, lone_caller, selector
from podtide.adapters.kubernetes.errors import RefusalSort, RefusedCall
from podtide.adapters.notices import Notify
from podtide.adapters.text.safe import escaped
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.protocol.pods import EXECUTOR_ROLE

DRIVERS: Final = "driver"
KINDS: Final = (
    DRIVERS,
    "statefulsets",
    "deployments",
    "pods",
    "services",
    "configmaps",
    "persistentvolumeclaims",
    "leases",
)
"""What can be deleted, in this order. "driver" is the driver's pods."""

USUAL: Final = tuple(kind for kind in KINDS if kind not in {DRIVERS, "persistentvolumeclaims"})
"""What is deleted unless told otherwise."""

DRIVER_ROLE: Final = "driver"
SETS: Final = frozenset({"statefulsets", "deployments"})
SERVED_ELSEWHERE: Final = frozenset({*SETS, "leases"})
"""Kinds of API groups that a server may not have."""

_ROLES: Final = {DRIVERS: DRIVER_ROLE, "pods": EXECUTOR_ROLE}

SKEW_MS: Final = 300_000
"""The time of a renewal is another machine's: a clock that is minutes ahead must not end an application."""

LAST_MOMENT_S: Final = 1.0
"""How long a controller may take to notice that its set is going, where nobody waits until it is gone."""

DeletionProgress: TypeAlias = Callable[[str, int], None]
"""Hears of which kind how many are deleted so far."""


class Left(NamedTuple):
    """What came of one kind. ``refusal``: why it could not be finished, for people."""

    kind: str
    swept: Swept
    refusal: str | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing of it is left."""
        return self.refusal is None and self.swept.left == 0


class UseUnknown(NamedTuple):
    """Whether the application is in use cannot be told. ``why``, for people."""

    why: str


class _LeaseSpec(msgspec.Struct):
    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    seconds: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    renewed: str | None = msgspec.field(default=None, name="renewTime")


class SeenLease(msgspec.Struct):
    """What is looked at of a Lease."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class Leftovers:
    """The leftovers of one application. ``deadline``: monotonic seconds."""

    def __init__(self, caller: Caller, cleaner: Cleaner, namespace: str, app_id: str, deadline: float) -> None:
        self._caller = caller
        self._cleaner = cleaner
        self._namespace = namespace
        self._app_id = app_id
        self._deadline = deadline
        self._roles = _ROLES

    def in_use(self, kinds: Sequence[str]) -> tuple[str, ...] | UseUnknown:
        """Who uses the application still, each as a sentence. A Lease is looked at; that this is not allowed is an
        answer only where Leases are among ``kinds``.
        """
        found: list[str] = []
        drivers = [("labelSelector", selector(self._app_id, role=DRIVER_ROLE))]
        for pods in self._caller.pages("pods", self._namespace, drivers, SeenPod, self._deadline):
            if isinstance(pods, RefusedCall):
                return UseUnknown(pods.text)
            found.extend(
                f"driver pod {escaped(pod.metadata.name)} is {escaped(pod.status.phase or 'there')}"
                for pod in pods
                if pod.status.phase not in ENDED and pod.metadata.deletion is None
            )
        every = [("labelSelector", selector(self._app_id))]
        for page in self._caller.pages("leases", self._namespace, every, SeenLease, self._deadline):
            if isinstance(page, RefusedCall):
                if page.sort is RefusalSort.MISSING or (page.sort is RefusalSort.PERMISSION and "leases" not in kinds):
                    break
                return UseUnknown(page.text)
            found.extend(
                f"{escaped(lease.spec.holder or '')} holds the lease {escaped(lease.metadata.name)}"
                for lease in page
                if self._held(lease)
            )
        return tuple(found)

    def _held(self, lease: SeenLease) -> bool:
        """Whether somebody renewed it not long ago. A time that cannot be read counts as now: better asked than sorry."""
        spec = lease.spec
        if not spec.holder:
            return False
        renewed = parse_instant(spec.renewed or "")
        return renewed is None or self._caller.clock.now() < renewed + 1000 * (spec.seconds or 0) + SKEW_MS

    def look(self, kinds: Sequence[str]) -> tuple[Left, ...]:
        """What there is, untouched."""
        return tuple(self._left(kind, self._counted(kind)) for kind in KINDS if kind in kinds)

    def delete(
        self, kinds: Sequence[str], show: DeletionProgress, *, gone: bool = True, executors_only: bool = False
    ) -> tuple[Left, ...]:
        """Delete these kinds and say what came of each, in the order of ``KINDS``.

        ``executors_only``: the application lives on; of its config maps only those of executors go. Everything is
        deleted first. Then, with ``gone``, what is terminating is waited for, the sets before their pods: pods are looked
        for once more where a set was deleted, whose controller may have made some in its last moment.
        """
        self._roles = {**_ROLES, "configmaps": EXECUTOR_ROLE} if executors_only else _ROLES
        chosen = [kind for kind in KINDS if kind in kinds]
        swept = {kind: self._swept(kind, show, gone=False) for kind in chosen}
        sets = any(swept[kind].deleted for kind in chosen if kind in SETS)
        for kind in chosen:
            first = swept[kind]
            more = kind == "pods" and sets
            if more and not gone:
                self._caller.wait(LAST_MOMENT_S)
            if first.refused is None and (more or (gone and first.terminating + first.deleted)):
                swept[kind] = _joined(first, self._swept(kind, show, gone=gone))
        return tuple(self._left(kind, swept[kind]) for kind in chosen)

    def _left(self, kind: str, swept: Swept) -> Left:
        refused = swept.refused
        if refused is None or (refused.sort is RefusalSort.MISSING and kind in SERVED_ELSEWHERE):
            return Left(kind, swept)  # a server that does not know the kind has none of it
        return Left(kind, swept, refused.text)

    def _swept(self, kind: str, show: DeletionProgress, *, gone: bool) -> Swept:
        def progress(deleted: int) -> None:
            show(kind, deleted)

        if kind in SETS:
            return self._cleaner.sweep(
                kind,
                (),
                SeenSet,
                self._deadline,
                wanted=self._selects,
                gone=gone,
                propagation=Propagation.FOREGROUND,
                progress=progress,
            )
        resource, query = self._query(kind)
        return self._cleaner.sweep(resource, query, Named, self._deadline, gone=gone, progress=progress)

    def _counted(self, kind: str) -> Swept:
        if kind in SETS:
            return self._cleaner.count(kind, (), SeenSet, self._deadline, wanted=self._selects)
        resource, query = self._query(kind)
        return self._cleaner.count(resource, query, Named, self._deadline)

    def _query(self, kind: str) -> tuple[str, Query]:
        role = self._roles.get(kind)
        resource = "pods" if kind == DRIVERS else kind
        return resource, [("labelSelector", selector(self._app_id, role=role))]

    def _selects(self, one: SeenSet) -> bool:
        return one.of(self._app_id)


def leftovers_of(
    api: ApiClient,
    namespace: str,
    app_id: str,
    within_s: float,
    clock: Clock,
    notify: Notify,
    calls: str,
) -> Leftovers:
    """The leftovers of an application, with a rate limiter of their own. ``calls``: what it is called, for people."""
    caller = lone_caller(api, calls, clock, notify)
    return Leftovers(caller, Cleaner(caller, namespace), namespace, app_id, caller.deadline(within_s))


def _joined(first: Swept, second: Swept) -> Swept:
    """What came of two sweeps of the same."""
    deleted = first.deleted + second.deleted
    return second._replace(found=max(first.found, deleted), deleted=deleted)
