"""The staging server as a program runs it: ``with staging(...) as server:``, in a thread with an event loop.

At the end of the block uploads and downloads have ``end_s`` to finish; what is not finished then was never there. Everything
that was promised is in the store's folder, also after a kill at any moment, and the next server goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from podtide.adapters.clock import Clock
from podtide.adapters.http_server.certificate import Certificate
from podtide.adapters.http_server.listener import HttpListener
from podtide.adapters.http_server.settings import HttpBounds
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.staging.front import StagingFront
from podtide.adapters.staging.owner_pods import OwnerPods
from podtide.adapters.staging.store import BundleStore
from podtide.domain.staging.bundles import StagingConfig
from podtide.domain.staging.staging import begin


class StagingServer(NamedTuple):
    """A server that runs. ``found``: bundles that were in the store when it began."""

    url: str
    found: int


@contextmanager
def staging(
    folder: Path,
    api: ApiClient,
    token: str,
    config: StagingConfig,
    bounds: HttpBounds,
    certificate: Certificate | None,
    clock: Clock,
    notify: Notify,
) -> Iterator[StagingServer]:
    """Serve a store until the block ends. Raises NotServed, StoreUnusable."""
    with ExitStack() as end:
        store = BundleStore(folder)
        end.callback(store.close)
        opened = store.open()
        for line in opened.damaged:
            notify(Notice(clock.now(), Level.ERROR, Topic.INPUT_REFUSED, line))
        state = begin(opened.bundles, config, clock.now())
        pods = OwnerPods(api, clock, notify)
        front = StagingFront(state, config, bounds, store, pods, token, clock, notify)
        end.callback(front.close)
        listener = HttpListener(front, bounds, certificate, "podtide-stage")
        port = listener.start()
        end.callback(listener.stop)
        yield StagingServer(bounds.url(port, tls=certificate is not None), len(opened.bundles))
