"""The server as a program embeds it: ``with serving(state) as server:``, in a thread with an event loop.

At the end of the block nobody new is let in, watches and logs end as they end by themselves, requests have ``end_s`` to
finish, and the thread is gone. ``state`` is the value of the moment, also after the end.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from podtide.adapters.api_server.front import ApiFront, StepObserver
from podtide.adapters.api_server.settings import LogSource, ServingConfig
from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.http_server.certificate import self_signed
from podtide.adapters.http_server.listener import HttpListener
from podtide.domain.api_faults.faulty_server import FaultyState
from podtide.domain.api_server.state import ApiState

NAME: Final = "podtide"

USER: Final = "kubernetes-admin"
KUBELET: Final = "system:nodes"
"""Users, as an observer hears of them."""


class ApiServer:
    """A server that runs. ``url``; ``token`` and ``kubelet_token``; ``ca``: the certificate to trust where it speaks TLS.

    Both tokens may do everything; calls with the second are the kubelets' to an observer.
    """

    def __init__(self, url: str, token: str, kubelet_token: str, ca: Path | None, front: ApiFront) -> None:
        self.url = url
        self.token = token
        self.kubelet_token = kubelet_token
        self.ca = ca
        self._front = front

    @property
    def state(self) -> ApiState:
        """The state of this moment, which nothing changes."""
        return self._front.state

    def kubeconfig(self, path: Path, namespace: str = "default", *, kubelet: bool = False) -> Path:
        """Write a kubeconfig that only its owner can read; returns its path."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.ca is not None:
            cluster["certificate-authority-data"] = b64encode(self.ca.read_bytes()).decode()
        context = {"cluster": NAME, "user": NAME, "namespace": namespace}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": {"token": self.kubelet_token if kubelet else self.token}}],
            "contexts": [{"name": NAME, "context": context}],
            "current-context": NAME,
        }
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(document, file, indent=1)
        return path


@contextmanager
def serving(
    state: ApiState | FaultyState,
    config: ServingConfig | None = None,
    *,
    clock: Clock | None = None,
    logs: LogSource | None = None,
    observer: StepObserver | None = None,
) -> Iterator[ApiServer]:
    """Serve a state until the block ends. Faults of a ``FaultyState`` meet all but the kubelets. Raises NotServed."""
    config = config or ServingConfig()
    token, kubelet_token = config.token or secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    users = {token: USER, kubelet_token: KUBELET}
    front = ApiFront(state, config, users, clock or SystemClock(), logs, observer, frozenset({KUBELET}))
    with tempfile.TemporaryDirectory(prefix="podtide-api-") as folder:
        certificate = self_signed(Path(folder), config.address) if config.tls else None
        listener = HttpListener(front, config, certificate, "podtide-api")
        url = config.url(listener.start(), tls=certificate is not None)
        try:
            ca = certificate and certificate.certificate
            yield ApiServer(url, token, kubelet_token, ca, front)
        finally:
            listener.stop()
