"""The server as a program embeds it: ``with serving(state) as server:``, in a thread with an event loop.

At the end of the block nobody new is let in, watches and logs end as they end by themselves, requests have ``end_s`` to
finish, and the thread is gone. ``state`` is the value of the moment, also after the end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import ssl
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

from podtide.adapters.api_server.certificate import Certificate, self_signed
from podtide.adapters.api_server.front import ApiFront, StepObserver
from podtide.adapters.api_server.settings import ApiNotServed, LogSource, ServingConfig
from podtide.adapters.clock import Clock, SystemClock
from podtide.domain.api_server.state import ApiState

LINGER_S: Final = 2.0
"""How long what comes after a refused body is read and dropped, so that the client sees the answer."""

NAME: Final = "podtide"

USER: Final = "kubernetes-admin"
KUBELET: Final = "system:nodes"
"""Users, as an observer hears of them."""

log: Final = logging.getLogger(__name__)
# A client that speaks no HTTP has its 400, and is nobody else's concern.
log.addFilter(lambda line: not (line.exc_info and isinstance(line.exc_info[1], HttpProcessingError)))


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
    state: ApiState,
    config: ServingConfig | None = None,
    *,
    clock: Clock | None = None,
    logs: LogSource | None = None,
    observer: StepObserver | None = None,
) -> Iterator[ApiServer]:
    """Serve a state until the block ends. Raises ApiNotServed."""
    config = config or ServingConfig()
    token, kubelet_token = config.token or secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    users = {token: USER, kubelet_token: KUBELET}
    front = ApiFront(state, config, users, clock or SystemClock(), logs, observer)
    with tempfile.TemporaryDirectory(prefix="podtide-api-") as folder:
        certificate = self_signed(Path(folder), config.address) if config.tls else None
        loop = _Loop(front, config, certificate)
        port = loop.start()
        host = f"[{config.address}]" if ":" in config.address else config.address
        scheme = "https" if certificate else "http"
        try:
            ca = certificate and certificate.certificate
            yield ApiServer(f"{scheme}://{host}:{port}", token, kubelet_token, ca, front)
        finally:
            loop.stop()


class _Loop:
    """The thread in which everything happens."""

    def __init__(self, front: ApiFront, config: ServingConfig, certificate: Certificate | None) -> None:
        self._front = front
        self._config = config
        self._certificate = certificate
        self._begun = threading.Event()
        self._port = 0
        self._problem: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="podtide-api", daemon=True)

    def start(self) -> int:
        """Begin to listen; returns the port."""
        self._thread.start()
        self._begun.wait()
        if self._problem is not None:
            self._thread.join()
            raise ApiNotServed(f"{self._config.address}:{self._config.port}: {self._problem}") from self._problem
        return self._port

    def stop(self) -> None:
        """End gracefully and wait for it."""
        assert self._loop is not None
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        config = self._config
        server = _BoundedServer(self._front, config)
        runner = web.ServerRunner(server, shutdown_timeout=config.end_s)
        try:
            await runner.setup()
            site = web.TCPSite(runner, config.address, config.port, ssl_context=_tls(self._certificate))
            await site.start()
            self._port = runner.addresses[0][1]
        except (OSError, ValueError) as problem:
            self._problem = problem
            await runner.cleanup()
            return
        finally:
            self._begun.set()
        await self._end.wait()
        await site.stop()
        self._front.end()
        await runner.cleanup()


class _BoundedServer(web.Server):
    """aiohttp's server with a bound on its connections."""

    def __init__(self, front: ApiFront, config: ServingConfig) -> None:
        super().__init__(
            front.answer,
            request_factory=self._bounded_request,
            handler_cancellation=True,
            keepalive_timeout=config.idle_s,
            lingering_time=LINGER_S,
            max_line_size=config.header_max,
            max_field_size=config.header_max,
            auto_decompress=False,
            access_log=None,
            logger=log,
        )
        self._front = front
        self._config = config
        self._open = 0

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Let a connection in, or hang up where there are too many."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self._config.connections_max:
            transport.abort()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Count it out."""
        super().connection_lost(handler, exc)
        self._open -= 1

    def _bounded_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=self._config.body_max
        )


def _tls(certificate: Certificate | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context
