"""Which pods bundles live for, as the API server says: a list per question, of this moment, never of a cache.

A namespace that is gone has an empty list, so no namespace is asked for: ``list`` of pods is the only right that is needed.
"""

from __future__ import annotations

import threading
from typing import Final

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.calls import ENDED, SeenPod, lone_caller
from podtide.adapters.kubernetes.errors import RefusedCall
from podtide.adapters.notices import Notify
from podtide.domain.staging.bundles import FindOwners, OwnersFound, OwnersUnknown

SEARCH_S: Final = 20.0
"""How long one question may take, with all its pages and repeats."""


class OwnerPods:
    """Asks an API server. ``find`` may be called from any thread."""

    def __init__(self, api: ApiClient, clock: Clock, notify: Notify) -> None:
        self._ending = threading.Event()
        self._caller = lone_caller(api, "lists of pods", clock, notify, self._ending)

    def find(self, search: FindOwners) -> OwnersFound | OwnersUnknown:
        """The answer to a question; it always has one."""
        alive = set[tuple[str, ...]]()
        ended = set[tuple[str, ...]]()
        selector = [("labelSelector", ",".join(search.keys))]
        deadline = self._caller.deadline(SEARCH_S)
        for pods in self._caller.pages("pods", search.namespace, selector, SeenPod, deadline):
            if isinstance(pods, RefusedCall):
                return OwnersUnknown(search, pods.text)
            for pod in pods:
                labels = pod.metadata.labels or {}
                values = tuple(labels.get(key, "") for key in search.keys)
                (ended if pod.status.phase in ENDED else alive).add(values)
        return OwnersFound(search, frozenset(alive), frozenset(ended))

    def end(self) -> None:
        """Repeat nothing any more."""
        self._ending.set()
