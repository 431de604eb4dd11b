"""An API server and its kubelets as one thing: ``with embedded(...) as cluster:``, gone at the end of the block.

The order of the end: kubelets first, so that what they still say is heard, then the server, then the folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from podtide.adapters.api_server.front import StepObserver
from podtide.adapters.api_server.serving import ApiServer, serving
from podtide.adapters.api_server.settings import ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.domain.api_faults import faulty_server
from podtide.domain.api_faults.faulty_server import FaultyState
from podtide.domain.api_server import server
from podtide.domain.api_server.json_values import Json
from podtide.domain.api_server.messages import ApiResponse, HttpRequest
from podtide.domain.api_server.state import ApiConfig, ApiState
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Description

HISTORY: Final = 10_000
"""Revisions that are remembered: what happens in one step of a large collection, and more."""

QUOTA: Final = "executors"
"""The name of the ResourceQuota, as in the fake cluster's messages."""

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
    kubelets: Kubelets,
    namespace: str,
    config: ServingConfig,
    observer: StepObserver | None = None,
    description: Description | None = None,
) -> Iterator[EmbeddedCluster]:
    """Run a cluster with one namespace more than every cluster has, with the faults of a description. Raises NotServed."""
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="podtide-cluster-", ignore_cleanup_errors=True) as name,
        ExitStack() as end,
    ):
        folder = Path(name)
        logs = PodLogs(folder / "kubelets")
        logs.folder.mkdir()
        state = _begun(namespace, description, clock.now())
        api = end.enter_context(serving(state, config, clock=clock, logs=logs, observer=observer))
        kubeconfig = api.kubeconfig(folder / "kubeconfig", namespace)
        with kubelets(api.kubeconfig(folder / "kubelet.kubeconfig", namespace, kubelet=True), logs, kubeconfig):
            yield EmbeddedCluster(api, kubeconfig, namespace, folder)


def _begun(namespace: str, description: Description | None, now: Millis) -> ApiState | FaultyState:
    """A new cluster with its namespace, which is a valid name, and the quota of the description."""
    config = ApiConfig(history_max=HISTORY)
    bodies: list[tuple[str, Json]] = [("/api/v1/namespaces", _object("Namespace", namespace))]
    if description is not None and description.api.quota_pods is not None:
        spec = {"spec": {"hard": {"pods": str(description.api.quota_pods)}}}
        bodies.append((f"/api/v1/namespaces/{namespace}/resourcequotas", _object("ResourceQuota", QUOTA) | spec))
    state = server.begin(config, now)
    for path, body in bodies:
        made = server.step(state, HttpRequest("POST", path, body=body), now)
        assert isinstance(made.response, ApiResponse)
        assert made.response.code in {201, 409}, made.response
        state = made.state
    return state if description is None else replace(faulty_server.begin(config, description, now), api=state)


def _object(kind: str, name: str) -> dict[str, Json]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
