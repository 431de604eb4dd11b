"""Whether a ResourceQuota of the namespace leaves no room for one more executor: a shadow does not hear Spark's own calls.

Asked twice a minute at most, from a thread of its own, and only while somebody wants to know: executors are missing. What
one executor needs is given as a lower bound, so that a quota is named when it is used up, and not because of a guess. Quotas
with scopes may not be about executors and are passed over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.calls import Meta, lone_caller
from podtide.adapters.kubernetes.errors import RefusedCall
from podtide.adapters.notices import Notify
from podtide.domain.jvm.quantities import parse_quantity

RESOURCE: Final = "resourcequotas"
EVERY_S: Final = 30.0
LIST_S: Final = 10.0
STOP_S: Final = 2.0
TEXT_MAX: Final = 200

PODS: Final = ("pods", "count/pods")
CPU: Final = ("cpu", "requests.cpu")
MEMORY: Final = ("memory", "requests.memory")


class QuotaSpec(msgspec.Struct):
    """What is looked at of a ResourceQuota's spec."""

    scopes: list[str] | None = None
    selector: Any = msgspec.field(default=None, name="scopeSelector")


class QuotaStatus(msgspec.Struct):
    """What there may be, and what there is."""

    hard: dict[str, str] = msgspec.field(default_factory=dict)
    used: dict[str, str] = msgspec.field(default_factory=dict)


class SeenQuota(msgspec.Struct):
    """What is looked at of a ResourceQuota."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: QuotaSpec = msgspec.field(default_factory=QuotaSpec)
    status: QuotaStatus = msgspec.field(default_factory=QuotaStatus)


def executor_needs(cores: Decimal, memory_bytes: int) -> dict[str, Decimal]:
    """What one more executor takes at least, by the names of a quota."""
    return {
        **dict.fromkeys(PODS, Decimal(1)),
        **dict.fromkeys(CPU, cores),
        **dict.fromkeys(MEMORY, Decimal(memory_bytes)),
    }


def used_up(quotas: Iterable[SeenQuota], needs: Mapping[str, Decimal]) -> str | None:
    """The first quota that has no room, in words; None where each has."""
    for quota in quotas:
        if quota.spec.scopes or quota.spec.selector is not None:
            continue
        for name, need in needs.items():
            hard, used = quota.status.hard.get(name), quota.status.used.get(name, "0")
            most, there = parse_quantity(hard or ""), parse_quantity(used)
            if hard is not None and most is not None and there is not None and there + need > most:
                return f"ResourceQuota {quota.metadata.name}: {name} {used} of {hard} used"[:TEXT_MAX]
    return None


class QuotaWatch:
    """Looks at the quotas of a namespace. ``wanted``: whether anybody wants to know now; ``tell``: hears each answer of
    ``used_up``, on the watch's thread."""

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        needs: Mapping[str, Decimal],
        clock: Clock,
        notify: Notify,
        wanted: Callable[[], bool],
        tell: Callable[[str | None], None],
    ) -> None:
        self._namespace = namespace
        self._needs = needs
        self._wanted = wanted
        self._tell = tell
        self._ending = threading.Event()
        self._caller = lone_caller(api, "lists of quotas", clock, notify, self._ending)
        self._thread = threading.Thread(target=self._run, name="podtide-quotas", daemon=True)

    def start(self) -> None:
        """Begin to look, on a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def look(self) -> bool:
        """Look once, and tell. False: quotas may not be listed, which is said once."""
        found: list[SeenQuota] = []
        deadline = self._caller.deadline(LIST_S)
        for page in self._caller.pages(RESOURCE, self._namespace, (), SeenQuota, deadline):
            if isinstance(page, RefusedCall):
                return page.status not in (401, 403)
            found += page
        self._tell(used_up(found, self._needs))
        return True

    def _run(self) -> None:
        while not self._ending.wait(EVERY_S):
            if self._wanted() and not self.look():
                return
