"""An API server and its kubelets as one thing: ``with embedded(...) as cluster:``, gone at the end of the block.

The order of the end: kubelets first, so that what they still say is heard, then the server, then the folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from podtide.adapters.api_server.front import StepObserver
from podtide.adapters.api_server.serving import ApiServer, serving
from podtide.adapters.api_server.settings import ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.domain.api_server.messages import ApiResponse, HttpRequest
from podtide.domain.api_server.server import begin, step
from podtide.domain.api_server.state import ApiConfig, ApiState
from podtide.domain.base.units import Millis

HISTORY: Final = 10_000
"""Revisions that are remembered: what happens in one step of a large collection, and more."""

Kubelets: TypeAlias = Callable[[Path, PodLogs, Path], AbstractContextManager[object]]
"""Starts the kubelets: by a kubeconfig, with a folder of their own, and with the user's kubeconfig for drivers in pods."""


@dataclass(frozen=True)
class EmbeddedCluster:
    """A cluster that runs. ``kubeconfig``: the user's; ``folder``: for what the command adds."""

    server: ApiServer
    kubeconfig: Path
    namespace: str
    folder: Path


@contextmanager
def embedded(
    kubelets: Kubelets, namespace: str, config: ServingConfig, observer: StepObserver | None = None
) -> Iterator[EmbeddedCluster]:
    """Run a cluster with one namespace more than every cluster has. Raises NotServed."""
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="podtide-cluster-", ignore_cleanup_errors=True) as name,
        ExitStack() as end,
    ):
        folder = Path(name)
        logs = PodLogs(folder / "kubelets")
        logs.folder.mkdir()
        state = _with_namespace(namespace, clock.now())
        server = end.enter_context(serving(state, config, clock=clock, logs=logs, observer=observer))
        kubeconfig = server.kubeconfig(folder / "kubeconfig", namespace)
        with kubelets(server.kubeconfig(folder / "kubelet.kubeconfig", namespace, kubelet=True), logs, kubeconfig):
            yield EmbeddedCluster(server, kubeconfig, namespace, folder)


def _with_namespace(namespace: str, now: Millis) -> ApiState:
    """A new cluster; ``namespace`` is a valid name."""
    state = begin(ApiConfig(history_max=HISTORY), now)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    made = step(state, HttpRequest("POST", "/api/v1/namespaces", body=body), now)
    assert isinstance(made.response, ApiResponse)
    assert made.response.code in {201, 409}, made.response
    return made.state
