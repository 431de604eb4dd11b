"""A server that listens in a thread of its own, with an event loop in which everything happens.

At the end nobody new is let in, the front ends what would go on for ever, requests have ``end_s`` to finish, and the thread
is gone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http import HttpProcessingError

from podtide.adapters.http_server.certificate import Certificate, tls_context
from podtide.adapters.http_server.settings import HttpBounds, NotServed

LINGER_S: Final = 2.0
"""How long what comes after a refused body is read and dropped, so that the client sees the answer."""

log: Final = logging.getLogger(__name__)
# A client that speaks no HTTP has its 400, one whose connection is cut sees that: nobody else's concern.
log.addFilter(lambda line: not (line.exc_info and isinstance(line.exc_info[1], HttpProcessingError | ConnectionError)))


class HttpFront(Protocol):
    """What answers requests. All is called in the event loop."""

    def begin(self) -> None:
        """Before the first request."""
        ...

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The whole of one request."""
        ...

    def end(self) -> None:
        """End what would go on for ever; requests still get their answers."""
        ...


class HttpListener:
    """The thread of a server. ``start`` once, ``stop`` once."""

    def __init__(self, front: HttpFront, bounds: HttpBounds, certificate: Certificate | None, name: str) -> None:
        self._front = front
        self._bounds = bounds
        self._certificate = certificate
        self._begun = threading.Event()
        self._port = 0
        self._problem: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> int:
        """Begin to listen; returns the port. Raises NotServed."""
        self._thread.start()
        self._begun.wait()
        if self._problem is not None:
            self._thread.join()
            raise NotServed(f"{self._bounds.address}:{self._bounds.port}: {self._problem}") from self._problem
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
        bounds = self._bounds
        server = _BoundedServer(self._front, bounds)
        runner = web.ServerRunner(server, shutdown_timeout=bounds.end_s)
        self._front.begin()
        try:
            await runner.setup()
            tls = None if self._certificate is None else tls_context(self._certificate)
            site = web.TCPSite(runner, bounds.address, bounds.port, ssl_context=tls)
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

    def __init__(self, front: HttpFront, bounds: HttpBounds) -> None:
        super().__init__(
            front.answer,
            request_factory=self._bounded_request,
            handler_cancellation=True,
            keepalive_timeout=bounds.idle_s,
            lingering_time=LINGER_S,
            max_line_size=bounds.header_max,
            max_field_size=bounds.header_max,
            auto_decompress=False,
            access_log=None,
            logger=log,
        )
        self._bounds = bounds
        self._open = 0

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Let a connection in, or hang up where there are too many."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self._bounds.connections_max:
            transport.abort()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Count it out."""
        super().connection_lost(handler, exc)
        self._open -= 1

    def _bounded_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=self._bounds.body_max
        )
