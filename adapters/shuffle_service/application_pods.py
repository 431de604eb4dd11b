"""Which pods of an application are alive, as the API server itself says at this moment, never a watch or a cache.

The pods that carry its id, driver and executors, in every namespace that is watched; and its driver's pod by name, which may
have lost its labels. An answer that cannot be read is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.calls import ABSENT, ENDED, SeenPod, decoded, lone_caller, path_of
from podtide.adapters.kubernetes.errors import ApiRequest, RefusalSort, RefusedCall
from podtide.adapters.notices import Notify
from podtide.domain.base.units import Millis
from podtide.domain.protocol.pods import APP_LABEL
from podtide.domain.shuffle_service.applications import (
    ApplicationFound,
    ApplicationId,
    ApplicationUnknown,
    DriverName,
    FindApplication,
)

SEARCH_S: Final = 20.0
"""How long one question may take, with all its pages and repeats."""


class ApplicationPods:
    """Asks an API server."""

    def __init__(self, api: ApiClient, namespaces: Collection[str], clock: Clock, notify: Notify) -> None:
        self._namespaces = sorted(namespaces)
        self._ending = threading.Event()
        self._caller = lone_caller(api, "questions about applications", clock, notify, self._ending)

    def find(
        self, search: FindApplication, modified_at: Callable[[ApplicationId], Millis]
    ) -> ApplicationFound | ApplicationUnknown:
        """The answer to a question; it always has one. ``modified_at``: when the application's files last changed."""
        deadline = self._caller.deadline(SEARCH_S)
        alive = 0
        for namespace in self._namespaces:
            labels = [("labelSelector", f"{APP_LABEL}={search.app}")]
            for pods in self._caller.pages("pods", namespace, labels, SeenPod, deadline):
                if isinstance(pods, RefusedCall):
                    return ApplicationUnknown(search.app)
                alive += sum(pod.status.phase not in ENDED for pod in pods)
        if not alive and search.driver is not None:
            driver = self._alive(search.driver, deadline)
            if driver is None:
                return ApplicationUnknown(search.app)
            alive += driver
        return ApplicationFound(search.app, alive, modified_at(search.app))

    def _alive(self, driver: DriverName, deadline: float) -> bool | None:
        """Whether a driver's pod is alive; None: nobody knows."""
        path = path_of("pods", driver.namespace, driver.name)
        answer = self._caller.ask(ApiRequest("get", "pods", path, driver.name), deadline, quiet=ABSENT)
        if isinstance(answer, RefusedCall):
            return False if answer.sort is RefusalSort.MISSING else None
        pod = decoded(SeenPod, answer.body)
        return None if not pod.metadata.uid else pod.metadata.uid == driver.uid and pod.status.phase not in ENDED

    def end(self) -> None:
        """Repeat nothing any more."""
        self._ending.set()
